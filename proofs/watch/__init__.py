"""Proves the time left of `recovery watch` by recorded crash starts (`make watch-proof`)."""

"""Proves `recovery estimate` by predictions that are stored before kills (`make estimate-proof`)."""

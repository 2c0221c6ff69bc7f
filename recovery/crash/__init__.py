"""Experiments that crash a server in series. Imported only if one of them is run."""

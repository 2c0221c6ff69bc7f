"""Experiments that put load on a server. Imported only if one of them is run."""

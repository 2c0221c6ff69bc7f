"""Stored sessions: their folders, the format of their files, and reading them."""

"""Where a server comes from."""

"""Takes stack traces of a server from outside while it starts, to show what it was doing."""

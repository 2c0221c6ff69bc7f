"""Contains the access to the Linux host: its facts, page cache, control groups, files and processes."""

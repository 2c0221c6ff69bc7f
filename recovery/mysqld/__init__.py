"""Runs MySQL and MariaDB servers: options, processes, error logs, phases of a start, and data directories."""

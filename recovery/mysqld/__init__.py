"""Runs MySQL and MariaDB servers: options, processes, and data directories."""

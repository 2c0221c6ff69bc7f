"""Reads the error logs of MySQL and MariaDB: lines, starts, the phases of a start, and how far it is."""

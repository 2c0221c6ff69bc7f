"""How many tables may a server keep open, and for how many clients, by the files that it may open? Pure."""

from __future__ import annotations

FILES_OF_ITS_OWN = 30
"""MariaDB keeps so many back, MySQL ten."""
FILES_A_TABLE = 2
"""As many as a table of MyISAM has."""
_LEAST = 400
"""To less no server lowers it."""
DEFAULT_CONNECTIONS = 151
_CONNECTIONS = 1000
"""That are allowed in any case."""
_BESIDE = 16
"""Connections: who looks at the server, who reads its tables, who stops what is under way."""
MOST_INSTANCES = 16
"""Of the table cache, by default from 5.7 on. Each has its share of the entries, and a connection uses one of them."""


def most_open(files: int, *, connections: int) -> int:
    """To so many, or ten more, `table_open_cache` is lowered by MySQL 5.6 to 8.0 and MariaDB 10.11; 10.2 keeps it."""
    return max(_LEAST, (files - FILES_OF_ITS_OWN - connections) // FILES_A_TABLE)


def connections_for(clients: int) -> int:
    """`max_connections` for so many at once, pollers included."""
    return max(_CONNECTIONS, clients + _BESIDE)


def most_clients(files: int) -> int:
    """At once, each with a file: servers lower `max_connections` to what is left beside the least of tables."""
    return files - FILES_OF_ITS_OWN - FILES_A_TABLE * _LEAST - _BESIDE


def files_for(tables: int, *, connections: int) -> int:
    """That must be allowed, for so many to be kept open."""
    return tables * FILES_A_TABLE + connections + FILES_OF_ITS_OWN


def entries_for(tables: int, *, threads: int) -> int:
    """For a load whose threads all use all of its tables, with the instances that servers have by default: each must
    hold the tables once for each thread that uses it."""
    each = -(-threads // MOST_INSTANCES)
    return tables * each * MOST_INSTANCES

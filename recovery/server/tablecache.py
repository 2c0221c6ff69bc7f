"""How many tables may a server keep open, by the files that it may open? Pure, and as the servers count it."""

from __future__ import annotations

FILES_OF_ITS_OWN = 30
"""MariaDB keeps so many back, MySQL ten."""
FILES_A_TABLE = 2
"""As many as a table of MyISAM has."""
_LEAST = 400
"""To less no server lowers it."""
DEFAULT_CONNECTIONS = 151
MOST_INSTANCES = 16
"""Of the table cache, by default from 5.7 on. Each has its share of the entries, and a connection uses one of them."""


def most_open(files: int, *, connections: int) -> int:
    """To so many, or ten more, `table_open_cache` is lowered by MySQL 5.6 to 8.0 and MariaDB 10.11; 10.2 keeps it."""
    return max(_LEAST, (files - FILES_OF_ITS_OWN - connections) // FILES_A_TABLE)


def files_for(tables: int, *, connections: int) -> int:
    """That must be allowed, for so many to be kept open."""
    return tables * FILES_A_TABLE + connections + FILES_OF_ITS_OWN


def entries_for(tables: int, *, threads: int) -> int:
    """For a load whose threads all use all of its tables, with the instances that servers have by default: each must
    hold the tables once for each thread that uses it."""
    each = -(-threads // MOST_INSTANCES)
    return tables * each * MOST_INSTANCES

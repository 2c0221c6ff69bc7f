"""How many tables may a server keep open, and for how many clients, by the files that it may open? Pure."""

from __future__ import annotations

from collections.abc import Sequence

from recovery.model import Flavor, Version
from recovery.versions import can

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
DIVIDED = 16
"""Instances of the table cache by default, of MySQL from 5.7 on. Each has its share of the entries, and a connection
uses one of them."""


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


def instances_of(version: Version, named: Sequence[int] = ()) -> tuple[int, ...]:
    """Among so many the entries are divided, where the user names these numbers, or none. In MariaDB each instance has
    as many entries as all have elsewhere, and it begins with one: others join where threads wait."""
    if version.flavor is Flavor.MARIADB:
        return (1,)
    return tuple(named) or (DIVIDED if can(version, "divided_table_cache") else 1,)


def entries_for(tables: int, *, threads: int, instances: int) -> int:
    """For a load whose threads all use all of its tables: each instance must hold the tables once for each thread that
    uses it."""
    each = -(-threads // instances)
    return tables * each * instances

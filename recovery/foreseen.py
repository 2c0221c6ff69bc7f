"""What will not be in effect as it was asked for? Said before anything is fetched, and not after an hour."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from recovery.errors import UsageError
from recovery.request import Request
from recovery.server.runfiles import open_files_limit
from recovery.server.tablecache import DEFAULT_CONNECTIONS, files_for, most_open

_OPTION = "table_open_cache"
_CONNECTIONS = "max_connections"


def foresee(request: Request, *, say: Callable[[str], None], open_files: int | None = None) -> None:
    """Two values of which nothing is left but the same one are refused: they would be one experiment, done twice. Not
    where a server is among them that may leave them as they are; what it does is seen when it starts."""
    files = open_files or open_files_limit()
    beyond: dict[str, int] = {}
    for settings in _settings(request):
        connections = _number(settings, _CONNECTIONS) or DEFAULT_CONNECTIONS
        most, wished = most_open(files, connections=connections), _number(settings, _OPTION)
        if wished is not None and wished > most:
            beyond[settings[_OPTION]] = files_for(wished, connections=connections)
            who = "most servers" if _may_keep(request) else "servers"
            told = f"with {files:,} open files {who} lower it to about {most:,}"
            hint = f"give {most} at most; for more than that {max(beyond.values()):,} files must be allowed (ulimit -n)"
            if len(beyond) > 1 and not _may_keep(request):
                values = " and ".join(beyond)
                raise UsageError(f"{_OPTION}={values} would be measured as one and the same: {told}", hint)
            say(f"warning: {_OPTION}={wished} will not be in effect: {told}; {hint}")


def _may_keep(request: Request) -> bool:
    """MariaDB 10.2.11 does, and 10.11.5 does not; of the user's own server nobody knows."""
    return bool(request.mysqld or request.image) or any(one.startswith("mariadb") for one in request.versions)


def _settings(request: Request) -> Iterator[Mapping[str, str]]:
    """Of each way to measure, once."""
    seen: dict[tuple[tuple[str, str], ...], None] = {}
    for one in request.measured:
        merged = {**request.lasting_settings, **dict(one.settings)}
        bare = {name.removeprefix("loose_"): value for name, value in merged.items()}
        seen[tuple((name, bare[name]) for name in (_OPTION, _CONNECTIONS) if name in bare)] = None
    yield from map(dict, seen)


def _number(settings: Mapping[str, str], name: str) -> int | None:
    text = settings.get(name, "")
    return int(text) if text.isdecimal() else None

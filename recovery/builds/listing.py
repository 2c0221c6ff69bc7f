"""Which servers can be had without asking anybody, from where, and which are in the cache?"""

from __future__ import annotations

from dataclasses import dataclass

from recovery.builds import catalog, installed, pinned

OTHERS = "any other MySQL 5.5 to 9.x from the vendor's archive, or your own with MYSQLD="


@dataclass(frozen=True)
class Offer:
    version: str
    source: str
    cached: bool
    bytes: int | None
    """What its download weighs, or weighed."""


def offers() -> tuple[Offer, ...]:
    """The catalog in its own order, then what else lies in the cache."""
    pins = [Offer(str(row.version), row.source, pinned.cached(row) is not None, row.bytes) for row in catalog.rows()]
    others = [
        Offer(origin.version or "own", origin.source, True, origin.archive_bytes)
        for server in installed.every()
        if (origin := server.origin).kind != "catalog"
    ]
    return (*pins, *others)


def can_be_had(*, cached_only: bool = False) -> str:
    """For the hint of an error: `5.6.24, 5.7.22, …`."""
    names = dict.fromkeys(
        offer.version for offer in offers() if offer.version != "own" and (offer.cached or not cached_only)
    )
    return ", ".join(names) or "none"

"""What did one piece of work bring, beside what was looked at meanwhile?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from recovery.load.shared import Beside


@dataclass(frozen=True)
class Done:
    measures: Mapping[str, float]
    clients: Mapping[str, str] = field(default_factory=dict)
    """The programs, with their versions, and the command of each."""
    queries: int = 0
    """That the load's clients had answered while it was measured."""
    commits: int = 0
    """Of transactions that wrote."""
    seen: tuple[tuple[float, float], ...] = ()
    """Queries a second as the clients counted them, by when each second ended, since the measuring began."""
    polled: tuple[tuple[float, float], ...] = ()
    """The same of answers to whoever polls beside the load, from its beginning to its end."""
    beside: Beside | None = None
    """Who asked something else meanwhile; None where that was no question."""

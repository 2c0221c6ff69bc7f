"""What do processes of every engine have in common? A descriptor, so that no later process is taken for this one."""

from __future__ import annotations

import contextlib
import os
import select
import signal

from recovery.server.launcher import Launch


class HeldProcess:
    """Watched and signalled by its descriptor. How its end is learnt is the engine's own affair."""

    def __init__(self, launch: Launch, pid: int, started_at: float) -> None:
        """OSError where there is no such process, or it can't be seen from here."""
        self._launch = launch
        self._pid = pid
        self._started_at = started_at
        self._pidfd = os.pidfd_open(pid)

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def started_at(self) -> float:
        return self._started_at

    @property
    def launch(self) -> Launch:
        return self._launch

    def exit_fd(self) -> int:
        return self._pidfd

    def has_ended(self, timeout_s: float = 0) -> bool:
        poller = select.poll()
        poller.register(self._pidfd, select.POLLIN)
        return bool(poller.poll(max(0, int(timeout_s * 1000))))

    def signal(self, number: int) -> None:
        """To this very process; nothing happens where it has ended already."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            os.close(self._pidfd)

"""What does a server do, and say, that comes back from a crash to a full disk, or to a damaged file?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from recovery.builds.tools import SYSBENCH
from recovery.errors import UsageError
from recovery.host.loopdisk import cannot_mount
from recovery.model import Cache, Schema, Work
from recovery.scenarios.damaging import measure, was_tried
from recovery.scenarios.experiment import Asked, Experiment, Host
from recovery.scenarios.loadable import QUESTION
from recovery.scenarios.scenario import Scenario
from recovery.work import Damage, Fault

_FILE = "file"
WRITTEN, UNTOUCHED = "written to", "untouched"
NAMES = tuple(map(str, Fault))


def works(asked: Asked, _: Schema, host: Host) -> tuple[Work, ...]:
    """A full disk has to be one of its own: where none can be made it is left out, unless it is asked for."""
    usual = tuple(name for name in NAMES if name != Fault.FULL_DISK or host.can_mount)
    wished = asked.parts or usual
    for name in wished:
        if name not in NAMES:
            raise UsageError(f"damage has no fault '{name}'", f"there are: {', '.join(NAMES)}")
        if name == Fault.FULL_DISK and not host.can_mount:
            raise cannot_mount(name)
    return tuple(work for fault in Fault if fault in wished for work in _of(fault, asked))


def _of(fault: Fault, asked: Asked) -> Iterator[Work]:
    if fault is Fault.FULL_DISK:
        yield Work(fault, Cache.WARM, Damage(fault, written=True, seed=asked.seed), ((QUESTION, fault),))
        return
    for written, name in ((True, WRITTEN), (False, UNTOUCHED)):
        axes = ((QUESTION, fault.value), (_FILE, name))
        yield Work(f"{fault}-{name.replace(' ', '-')}", Cache.WARM, Damage(fault, written, asked.seed), axes)


def settings(_: Asked, __: Schema, ___: Host) -> Mapping[str, str]:
    """A log that still has all of the load's changes when the server is killed."""
    return {"innodb_buffer_pool_size": str(64 << 20), "loose_innodb_redo_log_capacity": str(256 << 20)}


DAMAGE = Scenario(
    "damage",
    "What does this server do and say when it comes back from a crash to a full disk, or to a damaged file?",
    "Damaged files after a SIGKILL",
    (Cache.WARM,),
    measure,
    was_tried,
    Experiment(
        figure="recovery_s",
        works=works,
        settings=settings,
        schema=Schema(tables=20, columns=1),
        programs=(SYSBENCH,),
        runs=1,
        inserts=100,
        usual={"parts": "all of them"},
    ),
)

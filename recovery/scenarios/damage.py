"""What does a server do, and say, that comes back from a crash to a full disk, or to a damaged file?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from recovery.builds.tools import SYSBENCH
from recovery.model import Cache, Schema, Work
from recovery.quantities import RECOVERY
from recovery.scenarios.damaging import measure, was_tried
from recovery.scenarios.experiment import Asked, Experiment, Host
from recovery.scenarios.loadable import OnItsDisk, wished
from recovery.scenarios.scenario import Scenario
from recovery.work import QUESTION, Damage, Fault

_FILE = "file"
WRITTEN, UNTOUCHED = "written to", "untouched"
NAMES = tuple(map(str, Fault))
_FULL = OnItsDisk(Fault.FULL_DISK, lambda host: host.no_disk())
"""It has to be one of its own."""


def works(asked: Asked, _: Schema, host: Host) -> tuple[Work, ...]:
    faults = _FULL.among(wished(asked, NAMES, "damage has no fault"), asked=asked, host=host)
    return tuple(work for fault in Fault if fault in faults for work in _of(fault, asked))


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
        figure=RECOVERY,
        works=works,
        settings=settings,
        schema=Schema(tables=20, columns=1),
        programs=(SYSBENCH,),
        runs=1,
        inserts=100,
        unasked=_FULL.left_out,
        usual={"parts": "all of them"},
    ),
)

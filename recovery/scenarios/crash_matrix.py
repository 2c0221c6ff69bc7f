"""What comes back after a kill at any moment: of inserts, a load, definitions, the recovery itself, a shutdown?"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from recovery.builds.tools import SYSBENCH
from recovery.errors import UsageError
from recovery.host.loopdisk import cannot_mount
from recovery.model import Cache, Schema, Work
from recovery.scenarios.experiment import Asked, Experiment, Host
from recovery.scenarios.killing import came_back, measure
from recovery.scenarios.loadable import QUESTION, options_of
from recovery.scenarios.scenario import Scenario
from recovery.work import Crash, Moment

_FLUSH, _DOUBLEWRITE = "innodb_flush_log_at_trx_commit", "innodb_doublewrite"
_VALUES = ((_FLUSH, ("1", "2", "0")), (_DOUBLEWRITE, ("1", "0")))
NAMES = tuple(map(str, Moment))
_KILLS = 20
_INSERTS = 100


def works(asked: Asked, _: Schema, host: Host) -> tuple[Work, ...]:
    """The power can only be cut of a disk of its own: where none can be made it is left out, unless it is asked for."""
    wished = asked.parts or tuple(name for name in NAMES if name != Moment.POWER or host.can_mount)
    for name in wished:
        if name not in NAMES:
            raise UsageError(f"crash-matrix kills at no moment '{name}'", f"there are: {', '.join(NAMES)}")
        if name == Moment.POWER and not host.can_mount:
            raise cannot_mount(name)
    return tuple(
        Work(
            name="-".join((moment, *(f"{option.rpartition('_')[2]}-{value}" for option, value in options))),
            cache=Cache.WARM,
            task=Crash(moment, asked.seed, asked.depth),
            axes=((QUESTION, moment), *options),
            settings=options,
        )
        for moment, options in product((one for one in Moment if one in wished), options_of(asked, _VALUES))
    )


def settings(_: Asked, __: Schema, ___: Host) -> Mapping[str, str]:
    """Small ones, so that within seconds pages are written back, and the log comes round to its beginning."""
    return {"innodb_buffer_pool_size": str(32 << 20), "loose_innodb_redo_log_capacity": str(16 << 20)}


CRASH_MATRIX = Scenario(
    "crash-matrix",
    "Does this server keep its word when it is killed, whatever it is doing just then?",
    "What comes back after a SIGKILL",
    (Cache.WARM,),
    measure,
    came_back,
    Experiment(
        figure="recovery_s",
        works=works,
        settings=settings,
        schema=Schema(tables=20, columns=1),
        programs=(SYSBENCH,),
        bases={_FLUSH: "1", _DOUBLEWRITE: "1"},
        runs=_KILLS,
        inserts=_INSERTS,
        usual={"options": f"{_FLUSH} 1, 2, 0 and {_DOUBLEWRITE} 1, 0", "parts": "all of them"},
    ),
)

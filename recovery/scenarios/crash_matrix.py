"""What comes back after a kill at any moment: of inserts, a load, definitions, the recovery itself, a shutdown?"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from recovery.builds.tools import SYSBENCH
from recovery.model import Cache, Schema, Work
from recovery.quantities import RECOVERY
from recovery.scenarios.experiment import Asked, Experiment, Host
from recovery.scenarios.killing import came_back, measure
from recovery.scenarios.loadable import OnItsDisk, options_of, wished
from recovery.scenarios.scenario import Scenario
from recovery.work import QUESTION, Crash, Moment

_FLUSH, _DOUBLEWRITE = "innodb_flush_log_at_trx_commit", "innodb_doublewrite"
_VALUES = ((_FLUSH, ("1", "2", "0")), (_DOUBLEWRITE, ("1", "0")))
NAMES = tuple(map(str, Moment))
_KILLS = 20
_INSERTS = 100
_POWER = OnItsDisk(Moment.POWER, lambda host: host.no_power_cut())
"""It can only be cut of a disk of its own."""


def works(asked: Asked, _: Schema, host: Host) -> tuple[Work, ...]:
    moments = _POWER.among(wished(asked, NAMES, "crash-matrix kills at no moment"), asked=asked, host=host)
    return tuple(
        Work(
            name="-".join((moment, *(f"{option.rpartition('_')[2]}-{value}" for option, value in options))),
            cache=Cache.WARM,
            task=Crash(moment, asked.seed, asked.depth),
            axes=((QUESTION, moment), *options),
            settings=options,
        )
        for moment, options in product((one for one in Moment if one in moments), options_of(asked, _VALUES))
    )


def settings(_: Asked, __: Schema, ___: Host) -> Mapping[str, str]:
    """Small ones, so that within seconds pages are written back, and the log comes round to its beginning."""
    return {"innodb_buffer_pool_size": str(32 << 20), "loose_innodb_redo_log_capacity": str(16 << 20)}


CRASH_MATRIX = Scenario(
    "crash-matrix",
    "Does this server keep its word when it is killed, whatever it is doing just then?",
    "What comes back after a crash",
    (Cache.WARM,),
    measure,
    came_back,
    Experiment(
        figure=RECOVERY,
        works=works,
        settings=settings,
        schema=Schema(tables=20, columns=1),
        programs=(SYSBENCH,),
        bases={_FLUSH: "1", _DOUBLEWRITE: "1"},
        runs=_KILLS,
        inserts=_INSERTS,
        unasked=_POWER.left_out,
        usual={"options": f"{_FLUSH} 1, 2, 0 and {_DOUBLEWRITE} 1, 0", "parts": "all of them"},
    ),
)

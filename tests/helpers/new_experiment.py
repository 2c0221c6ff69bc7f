"""An experiment with a kind of task and a metric that no other has, as anybody may add one."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass

from recovery.experiments.bench import Bench
from recovery.experiments.experiment import Experiment, accept
from recovery.model import Cache, Measurement, Schema, Task, Variant, VariantSpec


@dataclass(frozen=True)
class Inserts(Task):
    """One client inserts so many rows, one after the other."""

    rows: int

    @property
    def size_text(self) -> str:
        return f"{self.rows} inserts"

    def estimated_s(self, *_: object) -> float:
        return self.rows / 1000


def measure(bench: Bench, variant: Variant) -> Measurement:
    task = variant.task
    assert isinstance(task, Inserts)
    bench.start()
    with closing(bench.server.connect()) as connection, connection.cursor() as cursor:
        began_s = time.monotonic()
        for _ in range(task.rows):
            cursor.execute("insert into discovery.table_1 values (null)")
        seconds = time.monotonic() - began_s
    bench.stop()
    return Measurement(metrics={"inserts_per_s": task.rows / seconds})


INSERTS = Experiment(
    "single-inserts",
    "How many rows does one client insert per second?",
    "Single inserts",
    measure,
    accept,
    lambda *_: tuple(
        VariantSpec(f"{rows}-rows", Cache.WARM, Inserts(rows), axes=(("rows", str(rows)),)) for rows in (5, 10)
    ),
    metric="inserts_per_s",
    schema=Schema(tables=2),
    runs=3,
    inserts=0,
    bases={"rows": "5"},
)

"""What was read for each table, and how near do the startups come to what the storage allows?"""

from __future__ import annotations

from collections.abc import Iterator

from recovery.measured import Floor
from recovery.model import Cache
from recovery.report import figures
from recovery.report.html.bars import is_warm
from recovery.report.html.parts import Chart, Mark
from recovery.report.html.rows import Row, Rows, rows_chart
from recovery.stored import Run, Session
from recovery.summary import mean, measured_by


def reads_chart(session: Session) -> Chart | None:
    """None where no requests were counted."""
    about = Rows("reads-chart", "Read requests for each table, and bytes", "requests")
    return rows_chart(about, list(_reads(session)))


def _reads(session: Session) -> Iterator[Row]:
    for version, variant, runs in measured_by(session):
        requests = mean(_each(run, run.read_requests) for run in runs)
        size = mean(_each(run, run.read_bytes) for run in runs)
        if requests is not None:
            told = f"{requests:.2f}" + (f", {figures.size(round(size))}" if size is not None else "")
            yield Row(f"{version} {variant}", requests, told, "v1" if is_warm(variant) else "v0")


def _each(run: Run, total: int | None) -> float | None:
    return total / run.tables if total is not None and run.tables else None


def floor_chart(session: Session) -> Chart | None:
    """None where the floor was not measured, or nothing is there to be held against it."""
    many = max((floor.threads for floor in session.floors), default=0)
    about = Rows(
        "floor-chart",
        "Cold startups over the floor: 1 is what the storage allows",
        "times",
        line=1.0,
        legend=(
            Mark("swatch v0", "over one thread's plain reads"),
            Mark("swatch v2", f"over those of {many} threads"),
            Mark("sign-line", "the floor itself"),
        ),
    )
    return rows_chart(about, [row for floor in session.floors for row in _over(session, floor)])


def _over(session: Session, floor: Floor) -> Iterator[Row]:
    for version, variant, runs in measured_by(session):
        startup = mean(run.startup_s for run in runs)
        cold = variant in floor.variants and variant.startswith(Cache.COLD.value)
        # The one page of a general tablespace is no floor for anything.
        if version != floor.version or not cold or startup is None or floor.files <= 1:
            continue
        name = f"{version} {variant}"
        for threads, seconds, css in ((1, floor.one_thread_s, "v0"), (floor.threads, floor.many_threads_s, "v2")):
            if seconds:
                ratio = figures.ratio(startup / seconds)
                yield Row(name, startup / seconds, f"{ratio} \u00d7 {threads} thread{'s' if threads > 1 else ''}", css)
                name = ""

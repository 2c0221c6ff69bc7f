"""What is foreseen before anything was measured?"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

from recovery.experiments.load_plan import POOL
from recovery.model import Build, Cache, Load, Schema, Variant, VariantSpec, parse_version, startup_specs
from recovery.session.datadirs import DatadirRequirement
from recovery.session.estimate import build_seconds, estimate_session, trial_seconds, version_seconds
from recovery.session.plan import DatadirSpec, Plan, build_variants, datadir_spec, make_plan
from recovery.session.request import Request

VERSION = parse_version("5.7.22")
ASKED = Schema(1000)
REQUEST = Request(
    "crash-recovery", startup_specs((Cache.COLD, Cache.WARM)), ("5.7.22",), ASKED, 2, Path("/data"), Path("/results")
)


def requirement(spec: DatadirSpec, *, whole: bool = False) -> DatadirRequirement:
    build = cast(Build, SimpleNamespace(version=VERSION))
    nothing = cast("object", None)
    return DatadirRequirement(spec, build, spec.schema(ASKED), {}, "key", whole=whole, size=nothing, need=nothing)  # type: ignore[arg-type]


def plan_of(*points: int) -> Plan:
    return make_plan(
        [VERSION], build_variants(startup_specs((Cache.COLD, Cache.WARM)), (), points), repeats=2, alternating=False
    )


def test_every_trial_and_every_build_that_is_not_there() -> None:
    plan = plan_of()
    spec = datadir_spec(VERSION, plan.trials[0].variant)
    estimate = estimate_session(REQUEST, plan, [requirement(spec)])
    assert estimate.trials == plan.trials
    assert estimate.builds == (("5.7.22: 1,000 tables", build_seconds(VERSION, ASKED)),)
    assert estimate.trial_s["5.7.22", "cold"] > estimate.trial_s["5.7.22", "warm"]
    whole_s = sum(seconds for _, seconds in estimate.builds) + 2 * sum(estimate.trial_s.values())
    assert whole_s == version_seconds(VERSION, ASKED, runs=2, variants=REQUEST.measured), "as --dry-run says"
    assert estimate_session(REQUEST, plan, [requirement(spec, whole=True)]).builds == ()


def test_a_resumed_session_needs_no_directory_of_finished_trials() -> None:
    plan = plan_of(100, 1000)
    estimate = estimate_session(REQUEST, plan, [requirement(plan.specs[-1])])
    assert estimate.trials == plan.trials
    assert [title for title, _ in estimate.builds] == ["5.7.22: 1,000 tables"]


def test_what_grows_has_only_the_rest_to_be_built() -> None:
    plan = plan_of(100, 1000)
    estimate = estimate_session(REQUEST, plan, [requirement(spec) for spec in plan.specs])
    (small, small_s), (large, large_s) = estimate.builds
    assert (small, large) == ("5.7.22: 100 tables", "5.7.22: 1,000 tables")
    assert small_s + large_s == build_seconds(VERSION, ASKED)


def test_a_limit_on_reads_is_foreseen() -> None:
    free = trial_seconds(VERSION, ASKED, Variant("cold", Cache.COLD))
    assert trial_seconds(VERSION, ASKED, Variant("cold", Cache.COLD), read_iops=100) > 2 * free


def loaded(*, tables: int = 8, rows: int = 1_000_000, pool: str | None = None) -> Variant:
    load = Load("oltp_read_only", 4, tables, rows, seconds=60, warmup_s=10)
    return Variant("load", Cache.WARM, ((POOL, pool),) if pool else (), task=load)


def test_the_reading_of_tables_before_each_load_is_foreseen() -> None:
    large, small = Schema(8, rows=1_000_000), Schema(8, rows=100)
    spent_s = trial_seconds(VERSION, large, loaded())
    nothing_read_s = trial_seconds(VERSION, small, loaded(rows=100))
    assert 5 < spent_s - nothing_read_s < 60
    assert version_seconds(VERSION, large, runs=3, variants=[loaded()]) == build_seconds(VERSION, large) + 3 * spent_s
    part_s = trial_seconds(VERSION, large, loaded(tables=1))
    assert nothing_read_s < part_s < spent_s, "of the tables that it uses"
    held, beyond = {POOL: str(4 << 30)}, {POOL: str(1 << 30)}
    assert trial_seconds(VERSION, large, loaded(), settings=held) == spent_s
    assert trial_seconds(VERSION, large, loaded(), settings=beyond) < nothing_read_s + 0.01, "it is read by the load"
    assert trial_seconds(VERSION, large, loaded(pool=beyond[POOL]), settings=held) < spent_s, "the variant's own pool"
    limited_s = trial_seconds(VERSION, large, loaded(), read_iops=500)
    assert limited_s - nothing_read_s > 200, "120,000 pages"


def test_a_session_of_loads_is_foreseen_with_its_own_pool(tmp_path: Path) -> None:
    variant, schema = loaded(), Schema(8, rows=1_000_000)
    works = (VariantSpec("load", Cache.WARM, variant.task, (), ()),)
    ahead_s = []
    for pool in (4 << 30, 1 << 30):
        request = Request(
            "table-cache", works, ("5.7.22",), schema, 1, tmp_path, tmp_path, own_settings=((POOL, str(pool)),)
        )
        plan = make_plan([VERSION], request.measured, repeats=1, alternating=False)
        estimate = estimate_session(request, plan, [requirement(plan.specs[0])])
        ahead_s.append(next(iter(estimate.trial_s.values())))
    assert ahead_s[0] > ahead_s[1] + 5

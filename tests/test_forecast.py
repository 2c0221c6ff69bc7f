"""What is foreseen before anything was measured?"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

from recovery.estimate import build_seconds, seconds_for, trial_seconds
from recovery.forecast import ahead_of
from recovery.model import Build, Cache, Schema, Variant, starts
from recovery.plan import Place, Plan, make_plan, place_of, variants_of
from recovery.request import Request
from recovery.stages import Stage
from recovery.versions import parse_version

VERSION = parse_version("5.7.22")
ASKED = Schema(1000)
REQUEST = Request(
    "crash-recovery", starts((Cache.COLD, Cache.WARM)), ("5.7.22",), ASKED, 2, Path("/data"), Path("/results")
)


def stage(place: Place, *, whole: bool = False) -> Stage:
    build = cast(Build, SimpleNamespace(version=VERSION))
    nothing = cast("object", None)
    return Stage(place, build, place.schema(ASKED), {}, "key", whole=whole, size=nothing, need=nothing)  # type: ignore[arg-type]


def plan_of(*points: int) -> Plan:
    return make_plan([VERSION], variants_of(starts((Cache.COLD, Cache.WARM)), (), points), repeats=2, alternating=False)


def test_every_trial_and_every_build_that_is_not_there() -> None:
    plan = plan_of()
    place = place_of(VERSION, plan.trials[0].variant)
    ahead = ahead_of(REQUEST, plan, [stage(place)])
    assert ahead.trials == plan.trials
    assert ahead.builds == (("5.7.22: 1,000 tables", build_seconds(VERSION, ASKED)),)
    assert ahead.trial_s["5.7.22", "cold"] > ahead.trial_s["5.7.22", "warm"]
    whole_s = sum(seconds for _, seconds in ahead.builds) + 2 * sum(ahead.trial_s.values())
    assert whole_s == seconds_for(VERSION, ASKED, runs=2, variants=REQUEST.measured), "as --dry-run says"
    assert ahead_of(REQUEST, plan, [stage(place, whole=True)]).builds == ()


def test_what_grows_has_only_the_rest_to_be_built() -> None:
    plan = plan_of(100, 1000)
    ahead = ahead_of(REQUEST, plan, [stage(place) for place in plan.places])
    (small, small_s), (large, large_s) = ahead.builds
    assert (small, large) == ("5.7.22: 100 tables", "5.7.22: 1,000 tables")
    assert small_s + large_s == build_seconds(VERSION, ASKED)


def test_a_limit_on_reads_is_foreseen() -> None:
    free = trial_seconds(VERSION, ASKED, Variant("cold", Cache.COLD))
    assert trial_seconds(VERSION, ASKED, Variant("cold", Cache.COLD), read_iops=100) > 2 * free

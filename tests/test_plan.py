"""The order of the trials, and the room that they need."""

from pathlib import Path

import pytest

from recovery.errors import HostUnfitError
from recovery.host.space import Need
from recovery.model import Build, Cache, Flavor, Variant, Version
from recovery.plan import make_plan
from recovery.stages import Stage, check_room

OLD = Version(Flavor.MYSQL, (5, 6, 24))
NEW = Version(Flavor.MYSQL, (5, 7, 22))
COLD, WARM = Variant("cold", Cache.COLD), Variant("warm", Cache.WARM)


def steps(alternating: bool) -> list[tuple[str, str, int]]:
    plan = make_plan([OLD, NEW], [COLD, WARM], repeats=2, alternating=alternating)
    return [(str(trial.version), trial.variant.name, trial.repeat) for trial in plan.trials]


def test_blocks_of_versions_take_turns_where_all_directories_fit() -> None:
    assert steps(alternating=True) == [
        ("5.6.24", "cold", 1), ("5.6.24", "warm", 1), ("5.7.22", "cold", 1), ("5.7.22", "warm", 1),
        ("5.6.24", "cold", 2), ("5.6.24", "warm", 2), ("5.7.22", "cold", 2), ("5.7.22", "warm", 2),
    ]  # fmt: skip


def test_versions_run_one_after_the_other_where_they_do_not_fit() -> None:
    assert steps(alternating=False) == [
        ("5.6.24", "cold", 1), ("5.6.24", "warm", 1), ("5.6.24", "cold", 2), ("5.6.24", "warm", 2),
        ("5.7.22", "cold", 1), ("5.7.22", "warm", 1), ("5.7.22", "cold", 2), ("5.7.22", "warm", 2),
    ]  # fmt: skip


def test_trials_are_numbered_in_their_order_and_the_order_is_told() -> None:
    plan = make_plan([OLD, NEW], [COLD], repeats=3, alternating=True)
    assert [trial.number for trial in plan.trials] == [1, 2, 3, 4, 5, 6]
    assert plan.order == "versions alternate, block by block"
    assert plan.last_of(OLD).number == 5
    assert make_plan([OLD, NEW], [COLD], repeats=1, alternating=False).order == "versions run one after the other"
    assert make_plan([OLD], [COLD], repeats=1, alternating=True).order == "one version"


def stage(version: Version, gigabytes: int, *, whole: bool = False) -> Stage:
    build = Build(version, Path("mysqld"), Path("/"), fingerprint="0", source="none")
    return Stage(build, str(version), whole, size=Need(gigabytes * 10**9, 1000), need=Need(gigabytes * 10**9, 1000))


def test_what_can_never_fit_is_refused_before_anything_is_built() -> None:
    stages = [stage(OLD, 22), stage(NEW, 23)]
    check_room(stages, Need(30 * 10**9, 10_000), keep=False)  # the first makes room for the second
    check_room(stages, Need(46 * 10**9, 10_000), keep=True)
    check_room([stage(OLD, 99, whole=True), stage(NEW, 23)], Need(24 * 10**9, 10_000), keep=False)
    with pytest.raises(HostUnfitError, match=r"5\.7\.22 needs 23\.0 GB .* does not fit: 22\.5 GB"):
        check_room(stages, Need(225 * 10**8, 10_000), keep=False)
    with pytest.raises(HostUnfitError, match="which --keep keeps"):
        check_room(stages, Need(30 * 10**9, 10_000), keep=True)
    with pytest.raises(HostUnfitError, match="inodes"):
        check_room(stages, Need(10**12, 900), keep=False)

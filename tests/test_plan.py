"""The order of the trials."""

from recovery.model import Cache, Flavor, Variant, Version
from recovery.plan import make_plan

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

"""The order of the trials, their data directories, and the disk space that these need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from request_parts import make_plan, new_request

from recovery.errors import HostUnfitError, UsageError
from recovery.linux.storage import DiskSpace
from recovery.model import (
    Build,
    Cache,
    ExtraRun,
    Flavor,
    Layout,
    Limits,
    NamedSettings,
    Schema,
    Session,
    Task,
    Trial,
    Variant,
    VariantInfo,
    Version,
    startup_specs,
)
from recovery.mysqld.table_size import estimate_space
from recovery.session.plan import (
    UNNAMED,
    DatadirSpec,
    Plan,
    PlannedDatadir,
    build_variants,
    datadir_specs,
    needs_first_read,
)
from recovery.session.prepare import check_space, plan_session
from recovery.session.store import empty_run

OLD = Version(Flavor.MYSQL, (5, 6, 24))
NEW = Version(Flavor.MYSQL, (5, 7, 22))
COLD, WARM = Variant("cold", Cache.COLD), Variant("warm", Cache.WARM)
GB = 10**9

# --- Order


@pytest.mark.parametrize(
    ("alternating", "order"),
    [
        (True, ["5.6.24 1", "5.7.22 1", "5.6.24 2", "5.7.22 2"]),
        (False, ["5.6.24 1", "5.6.24 2", "5.7.22 1", "5.7.22 2"]),
    ],
)
def test_versions_alternate_block_by_block_where_all_directories_fit(alternating: bool, order: list[str]) -> None:
    plan = make_plan([OLD, NEW], [COLD, WARM], repeats=2, alternating=alternating)
    assert [f"{trial.version} {trial.repeat} {trial.variant.name}" for trial in plan.trials] == [
        f"{block} {cache}" for block in order for cache in ("cold", "warm")
    ]


@pytest.mark.parametrize("alternating", [True, False])
def test_extra_runs_follow_the_counted_ones(alternating: bool) -> None:
    extras = (ExtraRun.STACKS, ExtraRun.WAITS)
    plan = make_plan([OLD, NEW], [COLD], repeats=2, alternating=alternating, extras=extras)
    for version in (OLD, NEW):
        mine = [(trial.repeat, trial.extra) for trial in plan.trials if trial.version == version]
        assert mine == [(1, None), (2, None), (3, extras[0]), (4, extras[1])]


def blocks_of(plan: Plan) -> dict[int, list[str]]:
    """The trials of each block, in their order."""
    blocks: dict[int, list[str]] = {}
    for trial in plan.trials:
        blocks.setdefault(trial.repeat, []).append(f"{trial.version} {trial.variant.name}")
    return blocks


def test_the_order_within_a_block_is_random_and_the_same_for_the_same_seed() -> None:
    named = (NamedSettings("few", (("innodb_open_files", "3"),)), NamedSettings("many"))
    variants = build_variants(startup_specs((Cache.COLD, Cache.WARM)), named)
    given: dict[str, Any] = {"repeats": 30, "alternating": True, "extras": (ExtraRun.TRACE,)}
    plan = make_plan([OLD, NEW], variants, seed=1, **given)
    assert make_plan([OLD, NEW], variants, seed=1, **given) == plan
    assert make_plan([OLD, NEW], variants, seed=2, **given) != plan
    found = blocks_of(plan)
    assert list(found) == list(range(1, 32)), "block after block"
    every = {f"{version} {variant.name}" for version in (OLD, NEW) for variant in variants}
    for block in found.values():
        assert set(block) == every
        assert len({name.split()[0] for name in block[:4]}) == 1, "a directory's trials stay together"
        caches = [name.split()[1].partition("-")[0] for name in block]
        assert caches == ["cold", "cold", "warm", "warm"] * 2, "a cold start fills the cache for the warm ones"
    for position in (0, 2, 4):
        assert len({block[position] for block in found.values()}) >= 2, "what comes first differs from block to block"
    assert (plan.versions, [variant.name for variant in plan.variants]) == (
        (OLD, NEW), ["cold-few", "warm-few", "cold-many", "warm-many"],
    ), "the order of the report stays"  # fmt: skip


def test_directories_that_do_not_alternate_keep_the_given_order() -> None:
    plan = make_plan([OLD, NEW], [COLD, WARM], repeats=9, alternating=False, seed=3)
    assert [trial.version for trial in plan.trials] == [OLD] * 18 + [NEW] * 18


@pytest.mark.parametrize("alternating", [True, False])
def test_each_directory_is_read_once_before_its_first_cold_start(alternating: bool) -> None:
    variants = build_variants(startup_specs((Cache.COLD, Cache.WARM)), (NamedSettings("few"), NamedSettings("many")))
    specs = datadir_specs([OLD, NEW], variants)
    plan = make_plan([OLD, NEW], variants, repeats=2, alternating=alternating, first_reads=specs, seed=5)
    for version in (OLD, NEW):
        first, *others = [trial for trial in plan.trials if trial.version == version]
        assert (first.extra, first.repeat, first.variant.name) == (ExtraRun.FIRST_READ, 0, "cold-few")
        assert [trial.repeat for trial in others] == [1] * 4 + [2] * 4
        assert {trial.extra for trial in others} == {None}
    only_new = make_plan([OLD, NEW], [COLD], repeats=1, alternating=alternating, first_reads=specs[1:], seed=5)
    assert [trial.version for trial in only_new.trials if trial.extra] == [NEW]


def test_warm_starts_loads_and_small_directories_have_no_first_read() -> None:
    task = Variant("load", Cache.COLD, task=Task())
    for variants in ([WARM], [task]):
        specs = datadir_specs([NEW], variants)
        assert all(trial.extra is None for trial in make_plan(
            [NEW], variants, repeats=2, alternating=True, first_reads=specs).trials)  # fmt: skip
    assert [needs_first_read(Schema(tables)) for tables in (999, 1000)] == [False, True]
    assert needs_first_read(Schema(500, databases=2)), "as many in all"


@pytest.mark.parametrize(
    ("caches", "memory_bytes", "alternating"),
    [
        ((Cache.WARM,), 1 << 20, False),
        ((Cache.WARM,), None, True),
        ((Cache.COLD, Cache.WARM), 1 << 20, True),
        ((Cache.COLD,), 1 << 20, True),
    ],
)
def test_warm_starts_alone_stay_in_groups_where_their_directories_exceed_the_memory(
    caches: tuple[Cache, ...], memory_bytes: int | None, alternating: bool, tmp_path: Path
) -> None:
    request = new_request(
        "crash-recovery", startup_specs(caches), (str(OLD), str(NEW)), Schema(10), 2, tmp_path, tmp_path,
        limits=Limits(memory_bytes=memory_bytes),
    )  # fmt: skip
    plan = plan_session(request, [OLD, NEW])
    assert plan.alternating is alternating
    assert plan.order == f"versions {'alternate, block by block' if alternating else 'run one after the other'}"


@pytest.mark.parametrize("alternating", [True, False])
def test_runs_of_directories_that_alternated_have_blocks_in_common(alternating: bool) -> None:
    variants, specs = [COLD, WARM], datadir_specs([OLD, NEW], [COLD, WARM])
    plan = make_plan(
        [OLD, NEW], variants, repeats=3, alternating=alternating, first_reads=specs, extras=(ExtraRun.TRACE,), seed=4
    )
    runs = tuple(map(empty_run, plan.trials))
    infos = tuple(VariantInfo(variant.name) for variant in variants)
    session = Session("crash-recovery", "", "", "", {}, {}, (str(OLD), str(NEW)), infos, len(runs), runs=runs)
    old, new = ({session.block_of(run) for run in runs if run.version == version} for version in session.versions)
    assert len(old) == len(new) == 5
    assert (old == new) if alternating else old.isdisjoint(new)


def test_the_plan_has_first_reads_and_extra_runs_in_its_time(tmp_path: Path) -> None:
    def planned_for(tables: int, **given: Any) -> Plan:
        request = new_request(
            "cold-recovery", startup_specs((Cache.COLD,)), (str(NEW),), Schema(tables), 3, tmp_path, tmp_path, **given
        )
        return plan_session(request, [NEW])

    traced = planned_for(1000, trace=True, stacks="auto")
    assert [trial.extra for trial in traced.trials] == [
        ExtraRun.FIRST_READ, None, None, None, ExtraRun.TRACE, ExtraRun.STACKS,
    ]  # fmt: skip
    plain = planned_for(1000)
    each_s = plain.trial_s[str(NEW), "cold"]
    assert traced.seconds - plain.seconds == pytest.approx(2 * each_s)
    assert len(planned_for(999).trials) == 3


def test_trials_are_numbered_and_their_order_has_a_name() -> None:
    plan = make_plan([OLD, NEW], [COLD], repeats=3, alternating=True)
    assert [trial.number for trial in plan.trials] == [1, 2, 3, 4, 5, 6]
    assert plan.order == "versions alternate, block by block"
    assert [trial.number for trial in plan.trials if plan.is_last(trial)] == [5, 6]
    assert make_plan([OLD, NEW], [COLD], repeats=1, alternating=False).order == "versions run one after the other"
    assert make_plan([OLD], [COLD], repeats=1, alternating=True).order == "one version"


@pytest.mark.parametrize(
    ("versions", "variants", "repeats", "message"),
    [
        (1, 2, 5_001, r"10,002 runs \(the limit is 10,000\)"),
        (101, 1, 1, "101 versions"),
        (50, 41, 1, "2,050 versions times variants"),
    ],
)
def test_a_plan_larger_than_a_report_is_refused(versions: int, variants: int, repeats: int, message: str) -> None:
    releases = [Version(Flavor.MYSQL, (8, 0, number)) for number in range(versions)]
    named = [Variant(f"v{number}", Cache.COLD) for number in range(variants)]
    with pytest.raises(UsageError, match=message):
        make_plan(releases, named, repeats=repeats, alternating=True)


# --- Data directories

LAYOUTS = (NamedSettings("files"), NamedSettings("one-file", layout=Layout.GENERAL), NamedSettings("many", schemas=10))


def variants_of(*named: NamedSettings, points: Sequence[int] = (), common: NamedSettings = UNNAMED) -> list[Variant]:
    return list(build_variants(startup_specs((Cache.COLD,)), named, points, common=common))


def test_settings_that_shape_files_need_a_directory_of_their_own() -> None:
    named = (NamedSettings("plain"), NamedSettings("small", (("innodb_page_size", "4096"), ("table_open_cache", "10"))))
    found = build_variants(startup_specs((Cache.COLD, Cache.WARM)), named)
    assert [variant.name for variant in found] == ["cold-plain", "warm-plain", "cold-small", "warm-small"]
    assert datadir_specs([NEW], found) == (DatadirSpec(NEW), DatadirSpec(NEW, settings=(("innodb_page_size", "4096"),)))


def test_each_number_of_tables_has_a_directory() -> None:
    growing = variants_of(points=(10, 100))
    assert [variant.name for variant in growing] == ["cold-10", "cold-100"]
    plan = make_plan([OLD, NEW], growing, repeats=2, alternating=False)
    assert [(str(trial.version), trial.variant.tables, trial.repeat) for trial in plan.trials] == [
        ("5.6.24", 10, 1), ("5.6.24", 10, 2), ("5.6.24", 100, 1), ("5.6.24", 100, 2),
        ("5.7.22", 10, 1), ("5.7.22", 10, 2), ("5.7.22", 100, 1), ("5.7.22", 100, 2),
    ]  # fmt: skip
    assert plan.specs == (DatadirSpec(OLD, 10), DatadirSpec(OLD, 100), DatadirSpec(NEW, 10), DatadirSpec(NEW, 100))
    assert DatadirSpec(NEW, 10).schema(Schema(100, rows=3)) == Schema(10, rows=3)


def test_variants_of_other_settings_alternate_over_one_directory() -> None:
    named = (
        NamedSettings("few", (("innodb_open_files", "3"),)),
        NamedSettings("many", (("innodb_open_files", "9"),)),
    )
    plan = make_plan([NEW], variants_of(*named), repeats=2, alternating=False)
    assert [trial.variant.label for trial in plan.trials] == ["few", "many", "few", "many"]
    assert len(plan.specs) == 1


def test_each_layout_has_a_directory() -> None:
    found = datadir_specs([NEW], variants_of(*LAYOUTS, common=NamedSettings("", (), Layout.FILES, 1)))
    assert found == (DatadirSpec(NEW), DatadirSpec(NEW, layout=Layout.GENERAL), DatadirSpec(NEW, schemas=10))
    files, one_file, many = (spec.schema(Schema(200)) for spec in found)
    assert [schema.files for schema in (files, one_file, many)] == [200, 1, 200]
    assert (many.databases, many.tables, many.total_tables) == (10, 20, 200), "as many in all"
    assert [" ".join(spec.words) for spec in found] == ["", "layout=general", "schemas=10"]


def test_a_directory_grows_into_one_of_the_same_layout_alone() -> None:
    found = variants_of(*LAYOUTS[1:], points=(100, 200))
    assert [variant.name for variant in found] == [
        "cold-one-file-100", "cold-many-100", "cold-one-file-200", "cold-many-200",
    ]  # fmt: skip
    first, many, second, more = datadir_specs([NEW], found)
    assert first.grows_into(second)
    assert not first.grows_into(more)
    assert many.schema(Schema(200, databases=2)) == Schema(20, databases=10)


def test_what_all_variants_have_in_common_needs_no_directory_of_its_own() -> None:
    requested = Schema(8, databases=2, layout=Layout.GENERAL)
    named = (NamedSettings("same", layout=Layout.GENERAL, schemas=2), NamedSettings("files", layout=Layout.FILES))
    common = NamedSettings("", (), requested.layout, requested.databases)
    found = datadir_specs([NEW], variants_of(*named, common=common))
    assert found == (DatadirSpec(NEW), DatadirSpec(NEW, layout=Layout.FILES))
    assert [spec.schema(requested).layout for spec in found] == [Layout.GENERAL, Layout.FILES]
    pages = (("innodb_page_size", "8192"),)
    both = variants_of(NamedSettings("a"), NamedSettings("b", pages), common=NamedSettings("", pages))
    assert len(datadir_specs([NEW], both)) == 1


# --- Disk space


def planned(version: Version, gigabytes: int, *, whole: bool = False, tables: int | None = None) -> PlannedDatadir:
    need = DiskSpace(gigabytes * GB, 1000)
    return PlannedDatadir(
        DatadirSpec(version, tables), Schema(1), {}, str(version), whole=whole, size=need, need=need, build_s=1.0
    )


def plan_over(*datadirs: PlannedDatadir, alternating: bool = False) -> Plan:
    """Returns a plan with one trial over each directory."""
    trials = tuple(
        Trial(number, one.spec.version, Variant("cold", Cache.COLD, tables=one.spec.tables), 1)
        for number, one in enumerate(datadirs, 1)
    )
    return Plan(trials, alternating, datadirs=datadirs)


def test_directories_that_can_never_fit_are_refused() -> None:
    both = plan_over(planned(OLD, 22), planned(NEW, 23))
    check_space(replace(both, room=DiskSpace(30 * GB, 10_000)), keep=False)  # the first makes room for the second
    check_space(replace(both, room=DiskSpace(46 * GB, 10_000)), keep=True)
    whole = plan_over(planned(OLD, 99, whole=True), planned(NEW, 23))
    check_space(replace(whole, room=DiskSpace(24 * GB, 10_000)), keep=False)
    with pytest.raises(HostUnfitError, match=r"5\.7\.22 needs 23\.0 GB .* does not fit: 22\.5 GB"):
        check_space(replace(both, room=DiskSpace(225 * GB // 10, 10_000)), keep=False)
    with pytest.raises(HostUnfitError, match="which --keep keeps"):
        check_space(replace(both, room=DiskSpace(30 * GB, 10_000)), keep=True)
    with pytest.raises(HostUnfitError, match="inodes"):
        check_space(replace(both, room=DiskSpace(1000 * GB, 900)), keep=False)


def test_the_missing_directories_of_a_resumed_alternating_session_must_fit_together() -> None:
    together = plan_over(planned(OLD, 22), planned(NEW, 23), alternating=True)
    check_space(replace(together, room=DiskSpace(46 * GB, 10_000)), keep=False)
    with pytest.raises(HostUnfitError, match=r"that are missing need 45\.0 GB"):
        check_space(replace(together, room=DiskSpace(44 * GB, 10_000)), keep=False)
    check_space(replace(together, room=DiskSpace(24 * GB, 10_000), done=frozenset({1})), keep=False)


def test_a_directory_that_grows_needs_the_space_of_the_largest() -> None:
    growing = plan_over(*(planned(NEW, gigabytes, tables=gigabytes) for gigabytes in (1, 5, 20)))
    check_space(replace(growing, room=DiskSpace(21 * GB, 10_000)), keep=True)
    with pytest.raises(HostUnfitError):
        check_space(replace(growing, room=DiskSpace(19 * GB, 10_000)), keep=False)


def test_the_required_space_follows_from_the_page_size_and_the_template(tmp_path: Path) -> None:
    table = "create table s.t{{ n }} (id int primary key, key (id));"
    template = tmp_path / "own.sql.j2"
    template.write_text(f"create schema s;{{% for n in range(tables) %}}{table}{{% endfor %}}")
    build = Build(NEW, Path("mysqld"), Path("/"), fingerprint="0", source="none")
    request = new_request(
        "cold-recovery",
        startup_specs((Cache.COLD,)),
        (str(NEW),),
        Schema(1000, database="s", template=template),
        1,
        tmp_path,
        tmp_path,
        options=(("innodb_page_size", "4096"),),
        named_settings=(UNNAMED, NamedSettings("larger", (("innodb_page_size", "8k"),))),
    )
    small, large = plan_session(request, [NEW], builds=[build]).datadirs
    # six pages and one for the index, in whole blocks, and the .frm
    assert small.size == estimate_space(NEW, Schema(1000), {"innodb_page_size": "4k"}, indexes=1000)
    assert (large.size - small.size).bytes == 1000 * (60 - 32) * 1024

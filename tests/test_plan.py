"""The order of the trials, and the room that they need."""

from pathlib import Path

import pytest

from recovery.errors import HostUnfitError, UsageError
from recovery.linux.storage import DiskSpace, estimate_space
from recovery.model import (
    Build,
    Cache,
    ExtraRun,
    Flavor,
    Layout,
    NamedSettings,
    Schema,
    Variant,
    Version,
    startup_specs,
)
from recovery.session.datadirs import DatadirRequirement, check_disk_space, required_datadirs
from recovery.session.plan import DatadirSpec, build_variants, datadir_specs, make_plan

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


@pytest.mark.parametrize("alternating", [True, False])
def test_extra_runs_come_after_those_that_count(alternating: bool) -> None:
    extras = (ExtraRun.STACKS, ExtraRun.WAITS)
    plan = make_plan([OLD, NEW], [COLD], repeats=2, alternating=alternating, extras=extras)
    for version in (OLD, NEW):
        mine = [trial for trial in plan.trials if trial.version == version]
        assert [(trial.repeat, trial.extra) for trial in mine] == [(1, None), (2, None), (3, extras[0]), (4, extras[1])]


def test_trials_are_numbered_in_their_order_and_the_order_is_told() -> None:
    plan = make_plan([OLD, NEW], [COLD], repeats=3, alternating=True)
    assert [trial.number for trial in plan.trials] == [1, 2, 3, 4, 5, 6]
    assert plan.order == "versions alternate, block by block"
    assert [trial.number for trial in plan.trials if plan.is_last(trial)] == [5, 6]
    assert make_plan([OLD, NEW], [COLD], repeats=1, alternating=False).order == "versions run one after the other"
    assert make_plan([OLD], [COLD], repeats=1, alternating=True).order == "one version"


@pytest.mark.parametrize(
    ("versions", "variants", "repeats", "many"),
    [
        (1, 2, 5_001, r"10,002 runs \(the limit is 10,000\)"),
        (101, 1, 1, "101 versions"),
        (50, 41, 1, "2,050 versions times variants"),
    ],
)
def test_more_than_a_report_shows_is_not_begun(versions: int, variants: int, repeats: int, many: str) -> None:
    releases = [Version(Flavor.MYSQL, (8, 0, number)) for number in range(versions)]
    named = [Variant(f"v{number}", Cache.COLD) for number in range(variants)]
    with pytest.raises(UsageError, match=many):
        make_plan(releases, named, repeats=repeats, alternating=True)


def test_a_directory_for_each_number_of_tables_and_each_shape_of_files() -> None:
    named = (NamedSettings("plain"), NamedSettings("small", (("innodb_page_size", "4096"), ("table_open_cache", "10"))))
    found = build_variants(startup_specs((Cache.COLD, Cache.WARM)), named, [])
    assert [variant.name for variant in found] == ["cold-plain", "warm-plain", "cold-small", "warm-small"]
    assert datadir_specs([NEW], found) == (DatadirSpec(NEW), DatadirSpec(NEW, settings=(("innodb_page_size", "4096"),)))
    growing = build_variants(startup_specs((Cache.COLD,)), (), [10, 100])
    assert [variant.name for variant in growing] == ["cold-10", "cold-100"]
    plan = make_plan([OLD, NEW], growing, repeats=2, alternating=False)
    assert [(str(trial.version), trial.variant.tables, trial.repeat) for trial in plan.trials] == [
        ("5.6.24", 10, 1), ("5.6.24", 10, 2), ("5.6.24", 100, 1), ("5.6.24", 100, 2),
        ("5.7.22", 10, 1), ("5.7.22", 10, 2), ("5.7.22", 100, 1), ("5.7.22", 100, 2),
    ]  # fmt: skip
    assert plan.specs == (DatadirSpec(OLD, 10), DatadirSpec(OLD, 100), DatadirSpec(NEW, 10), DatadirSpec(NEW, 100))
    assert DatadirSpec(NEW, 10).schema(Schema(100, rows=3)) == Schema(10, rows=3)


def test_variants_of_one_server_take_turns_over_the_same_files() -> None:
    named = (
        NamedSettings("few", (("innodb_open_files", "300"),)),
        NamedSettings("many", (("innodb_open_files", "30000"),)),
    )
    plan = make_plan([NEW], build_variants(startup_specs((Cache.COLD,)), named, []), repeats=2, alternating=False)
    assert [trial.variant.label for trial in plan.trials] == ["few", "many", "few", "many"]
    assert len(plan.specs) == 1


LAYOUTS = (NamedSettings("files"), NamedSettings("one-file", layout=Layout.GENERAL), NamedSettings("many", schemas=10))


def test_a_directory_for_each_way_in_which_tables_lie() -> None:
    common = NamedSettings("", (), Layout.FILES, 1)
    found = datadir_specs([NEW], build_variants(startup_specs((Cache.COLD, Cache.WARM)), LAYOUTS, common=common))
    assert found == (DatadirSpec(NEW), DatadirSpec(NEW, layout=Layout.GENERAL), DatadirSpec(NEW, schemas=10))
    files, one_file, many = (spec.schema(Schema(200)) for spec in found)
    assert [schema.files for schema in (files, one_file, many)] == [200, 1, 200]
    assert (many.databases, many.tables, many.total_tables) == (10, 20, 200), "as many in all"
    assert [" ".join(spec.words) for spec in found] == ["", "layout=general", "schemas=10"]


def test_ways_to_lie_at_several_numbers_of_tables() -> None:
    found = build_variants(startup_specs((Cache.COLD,)), LAYOUTS[1:], [100, 200])
    assert [variant.name for variant in found] == [
        "cold-one-file-100", "cold-many-100", "cold-one-file-200", "cold-many-200",
    ]  # fmt: skip
    first, many, second, more = datadir_specs([NEW], found)
    assert first.grows_into(second)
    assert not first.grows_into(more)
    assert many.schema(Schema(200, databases=2)) == Schema(20, databases=10)


def test_the_layout_of_a_session_is_no_variants_own() -> None:
    named = (NamedSettings("same", layout=Layout.GENERAL, schemas=2), NamedSettings("files", layout=Layout.FILES))
    requested = Schema(8, databases=2, layout=Layout.GENERAL)
    found = datadir_specs(
        [NEW],
        build_variants(
            startup_specs((Cache.COLD,)), named, common=NamedSettings("", (), requested.layout, requested.databases)
        ),
    )
    assert found == (DatadirSpec(NEW), DatadirSpec(NEW, layout=Layout.FILES))
    assert [spec.schema(requested).layout for spec in found] == [Layout.GENERAL, Layout.FILES]


def test_what_holds_for_all_makes_no_directory_of_its_own() -> None:
    named = (NamedSettings("a"), NamedSettings("b", (("innodb_page_size", "8192"),)))
    common = NamedSettings("", (("innodb_page_size", "8192"),))
    assert len(datadir_specs([NEW], build_variants(startup_specs((Cache.COLD,)), named, common=common))) == 1


def requirement(
    version: Version, gigabytes: int, *, whole: bool = False, tables: int | None = None
) -> DatadirRequirement:
    build = Build(version, Path("mysqld"), Path("/"), fingerprint="0", source="none")
    need = DiskSpace(gigabytes * 10**9, 1000)
    return DatadirRequirement(
        DatadirSpec(version, tables), build, Schema(1), {}, str(version), whole, size=need, need=need
    )


def test_what_can_never_fit_is_refused_before_anything_is_built() -> None:
    requirements = [requirement(OLD, 22), requirement(NEW, 23)]
    check_disk_space(requirements, DiskSpace(30 * 10**9, 10_000), keep=False)  # the first makes room for the second
    check_disk_space(requirements, DiskSpace(46 * 10**9, 10_000), keep=True)
    check_disk_space(
        [requirement(OLD, 99, whole=True), requirement(NEW, 23)], DiskSpace(24 * 10**9, 10_000), keep=False
    )
    with pytest.raises(HostUnfitError, match=r"5\.7\.22 needs 23\.0 GB .* does not fit: 22\.5 GB"):
        check_disk_space(requirements, DiskSpace(225 * 10**8, 10_000), keep=False)
    with pytest.raises(HostUnfitError, match="which --keep keeps"):
        check_disk_space(requirements, DiskSpace(30 * 10**9, 10_000), keep=True)
    with pytest.raises(HostUnfitError, match="inodes"):
        check_disk_space(requirements, DiskSpace(10**12, 900), keep=False)


def test_a_directory_that_grows_needs_the_room_of_the_largest() -> None:
    growing = [requirement(NEW, gigabytes, tables=gigabytes) for gigabytes in (1, 5, 20)]
    check_disk_space(growing, DiskSpace(21 * 10**9, 10_000), keep=True)
    with pytest.raises(HostUnfitError):
        check_disk_space(growing, DiskSpace(19 * 10**9, 10_000), keep=False)


def test_what_a_data_directory_needs_follows_from_its_pages_and_its_template(tmp_path: Path) -> None:
    table = "create table s.t{{ n }} (id int primary key, key (id));"
    text = f"create schema s;{{% for n in range(tables) %}}{table}{{% endfor %}}"
    (tmp_path / "own.sql.j2").write_text(text)
    build = Build(NEW, Path("mysqld"), Path("/"), fingerprint="0", source="none")
    requested = Schema(1000, database="s", template=tmp_path / "own.sql.j2")
    specs = [DatadirSpec(NEW), DatadirSpec(NEW, settings=(("innodb_page_size", "8k"),))]
    small, more = required_datadirs(
        specs, [build], requested=requested, data=tmp_path, settings={"innodb_page_size": "4096"}
    )
    # six pages and one for the index, in whole blocks, and the .frm
    assert small.size == estimate_space(NEW, Schema(1000), {"innodb_page_size": "4k"}, indexes=1000)
    assert (more.size - small.size).bytes == 1000 * (60 - 32) * 1024

"""A server is recognised by its version text, and its capabilities begin and end at the right releases."""

from __future__ import annotations

import pytest

from recovery.model import (
    CAPABILITIES,
    NEWEST_TRIED,
    Flavor,
    Track,
    Version,
    can,
    crashes_with_tables,
    newest_tried,
    parse_version,
    track_of,
)

MYSQL, MARIADB, PERCONA = Flavor.MYSQL, Flavor.MARIADB, Flavor.PERCONA


@pytest.mark.parametrize(
    ("text", "flavor", "numbers", "shown"),
    [
        ("5.7.22", MYSQL, (5, 7, 22), "5.7.22"),
        ("mysql-5.7.22", MYSQL, (5, 7, 22), "5.7.22"),
        ("5.6.27-log", MYSQL, (5, 6, 27), "5.6.27"),
        ("8.0.39-30", PERCONA, (8, 0, 39), "percona-8.0.39"),
        ("5.7.44-48-log", PERCONA, (5, 7, 44), "percona-5.7.44"),
        ("percona-8.0.39", PERCONA, (8, 0, 39), "percona-8.0.39"),
        ("10.11.19-MariaDB-0+deb12u1", MARIADB, (10, 11, 19), "mariadb-10.11.19"),
        ("10.2.11-MariaDB", MARIADB, (10, 2, 11), "mariadb-10.2.11"),
        ("mariadb-10.11.5", MARIADB, (10, 11, 5), "mariadb-10.11.5"),
        ("mariadb:10.11.5", MARIADB, (10, 11, 5), "mariadb-10.11.5"),
        ("10.11.5", MARIADB, (10, 11, 5), "mariadb-10.11.5"),
        ("13.0.1", MARIADB, (13, 0, 1), "mariadb-13.0.1"),
        ("26.7.0", MYSQL, (26, 7, 0), "26.7.0"),
        ("28.4.1", MYSQL, (28, 4, 1), "28.4.1"),
        ("mariadb-26.7.0", MARIADB, (26, 7, 0), "mariadb-26.7.0"),
        ("9.7.4.1", MYSQL, (9, 7, 4, 1), "9.7.4.1"),
        ("mysql-9.7.4.1+patched", MYSQL, (9, 7, 4, 1), "9.7.4.1+patched"),
        ("9.7.4.0-2", PERCONA, (9, 7, 4), "percona-9.7.4"),
        ("  8.4.6\n", MYSQL, (8, 4, 6), "8.4.6"),
        ("8.0.11-rc", MYSQL, (8, 0, 11), "8.0.11"),
    ],
)
def test_versions_are_parsed(text: str, flavor: Flavor, numbers: tuple[int, ...], shown: str) -> None:
    version = parse_version(text)
    assert (version.flavor, version.numbers, str(version)) == (flavor, numbers, shown)
    assert version.text == text.strip()
    assert str(parse_version(shown)) == shown


@pytest.mark.parametrize(
    "text",
    [
        *("", "5.7", "latest", "9.7.4.1.2", "mariadb-10.11.5.1", "10.11.5.0", "5.7.x", "-5.7.22", "oracle-5.7.22"),
        *("5.7.99999", "5.7.22 --help", "\u0665.\u0667.\u0662"),
    ],
)  # fmt: skip
def test_an_invalid_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a server version"):
        parse_version(text)


def test_spelling_makes_no_other_version() -> None:
    assert parse_version("5.6.27-log") == parse_version("5.6.27")
    assert parse_version("5.6.24") < parse_version("5.7.9") < parse_version("5.7.22")
    assert parse_version("5.7.22") != parse_version("mariadb-5.7.22")


@pytest.mark.parametrize(
    ("capability", "without", "having"),
    [
        ("initialize", "5.7.5", "5.7.6"),
        ("initialize", "mariadb-10.11.5", "9.7.4"),
        ("bootstrap_sql", "5.7.6", "5.7.5"),
        ("install_db", "8.0.31", "mariadb-10.2.11"),
        ("mysqlx", "5.7.22", "8.0.11"),
        ("mysqlx", "mariadb-10.11.5", "26.7.0"),
        ("sync_frm", "8.0.15", "5.7.22"),
        ("frm_files", "8.0.15", "mariadb-10.11.5"),
        ("partition_engine_check", "5.7.16", "5.7.17"),
        ("partition_engine_check", "8.0.15", "5.7.44"),
        ("redo_log_capacity", "8.0.29", "8.0.30"),
        ("disable_redo", "8.0.20", "8.0.21"),
        ("disable_redo", "mariadb-10.11.5", "8.0.31"),
        ("redo_names_files", "5.7.4", "5.7.5"),
        ("redo_names_files", "mariadb-10.2.1", "mariadb-10.2.2"),
        ("promises_modified_files_only", "8.0.15", "5.7.44"),
        ("opens_only_named_files", "mariadb-10.2.22", "mariadb-10.2.23"),
        ("opens_only_named_files", "mariadb-10.3.13", "mariadb-10.3.14"),
        ("opens_only_named_files", "mariadb-10.4.3", "mariadb-10.4.4"),
        ("opens_only_named_files", "8.0.31", "mariadb-10.5.0"),
        ("microsecond_stamps", "5.6.24", "5.7.22"),
        ("microsecond_stamps", "mariadb-10.11.5", "8.0.15"),
    ],
)
def test_capabilities_at_their_borders(capability: str, without: str, having: str) -> None:
    assert not can(parse_version(without), capability)
    assert can(parse_version(having), capability)


@pytest.mark.parametrize("flavor", Flavor)
def test_an_unknown_newer_release_has_the_capabilities_of_the_newest(flavor: Flavor) -> None:
    newest = Version(flavor, (*NEWEST_TRIED[flavor], 0))
    for newer in (Version(flavor, (28, 4, 1)), Version(flavor, (26, 7, 0)), Version(flavor, (99, 12, 3, 1))):
        for capability in CAPABILITIES:
            assert can(newer, capability) == can(newest, capability), capability


@pytest.mark.parametrize(
    ("text", "newest"),
    [
        ("26.7.0", "9.7"), ("28.4.1", "9.7"), ("percona-26.7.0", "9.7"), ("mariadb-12.3.1", "11.8"),
        ("9.7.4.1", None), ("9.7.9", None), ("5.6.24", None), ("mariadb-11.8.9", None), ("mariadb-10.11.5", None),
    ],
)  # fmt: skip
def test_a_release_that_was_not_tried_is_recognised(text: str, newest: str | None) -> None:
    assert newest_tried(parse_version(text)) == newest


@pytest.mark.parametrize(
    ("track", "texts"),
    [
        (Track.LTS, ("8.4.6", "9.7.4", "28.4.1", "30.4.0", "percona-8.4.0", "mariadb-10.11.5", "12.3.2", "13.3.2")),
        (Track.INNOVATION, ("8.1.0", "9.6.0", "26.7.0", "26.10.0", "27.4.0", "28.1.0", "mariadb-12.2.2", "13.0.1")),
        (None, ("5.7.22", "8.0.31", "percona-8.0.39", "mariadb-10.2.11")),
    ],
)
def test_the_track_of_a_release_needs_no_list_of_those_to_come(track: Track | None, texts: tuple[str, ...]) -> None:
    assert {text: track_of(parse_version(text)) for text in texts} == dict.fromkeys(texts, track)


def test_percona_has_the_capabilities_of_mysql() -> None:
    for capability in CAPABILITIES:
        assert can(parse_version("percona-8.0.39"), capability) == can(parse_version("8.0.39"), capability)


def test_an_unknown_capability_is_a_programming_error() -> None:
    with pytest.raises(KeyError):
        can(parse_version("5.7.22"), "time_travel")


@pytest.mark.parametrize("text", ["8.0.15", "5.6.24", "5.7.22", "mariadb-10.2.11", "9.7.4", "26.7.0", "percona-5.7.44"])
def test_every_server_has_exactly_one_way_to_make_a_data_directory(text: str) -> None:
    assert sum(can(parse_version(text), way) for way in ("initialize", "install_db", "bootstrap_sql")) == 1


@pytest.mark.parametrize(
    ("text", "crashes"),
    [
        *((text, True) for text in ("8.0.38", "8.4.1", "9.0.0", "percona-8.0.38")),
        *((text, False) for text in ("8.0.37", "8.0.39", "8.4.0", "8.4.2", "9.0.1", "5.7.22", "mariadb-9.0.0")),
    ],
)
def test_only_withdrawn_releases_crash_above_8000_tables(text: str, crashes: bool) -> None:
    assert not crashes_with_tables(parse_version(text), 8000)
    assert crashes_with_tables(parse_version(text), 8001) is crashes

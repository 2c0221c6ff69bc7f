"""What a user may ask for."""

import pytest

from recovery.errors import UsageError
from recovery.model import Layout, NamedSettings
from recovery.session.request import (
    DEFAULT_POINTS,
    parse_count,
    parse_identifier,
    parse_points,
    parse_settings,
    parse_variants,
    split_versions,
    variant_text,
)


@pytest.mark.parametrize("text", ["0", "-1", "x", "", "1.5", "999999999999"])
def test_a_count_that_makes_no_sense(text: str) -> None:
    with pytest.raises(UsageError, match="TABLES=") as caught:
        parse_count("TABLES", text, 100_000_000)
    assert "from 1 to 100,000,000" in caught.value.hint


def test_counts() -> None:
    assert parse_count("TABLES", "200_000", 1_000_000) == 200_000


def test_versions_are_split_and_each_is_taken_once() -> None:
    assert split_versions(("5.6.24 5.7.22", "8.0.31,5.6.24")) == ("5.6.24", "5.7.22", "8.0.31")


def test_settings_for_the_server() -> None:
    assert parse_settings(("innodb-force-recovery=1", "skip-name-resolve")) == (
        ("innodb_force_recovery", "1"),
        ("skip_name_resolve", ""),
    )


@pytest.mark.parametrize(
    "pair",
    [
        "datadir=/etc",
        "--socket=/x",
        "=3",
        "pid-file=x",
        "a b=1",
        "innodb_force_recovery=4",
        "innodb_data_home_dir=/x",
        "loose_innodb-force-recovery=6",
    ],
)
def test_settings_that_are_refused(pair: str) -> None:
    with pytest.raises(UsageError):
        parse_settings((pair,))


def test_one_dangerous_spelling_is_enough() -> None:
    with pytest.raises(UsageError, match="loose_innodb_force_recovery=6"):
        parse_settings(("innodb_force_recovery=1", "loose_innodb_force_recovery=6"))


@pytest.mark.parametrize("name", ["", "a-b", "1a", "x`y", "a;drop", "abc\n", "x" * 51, "mysql", "SYS"])
def test_names_are_plain(name: str) -> None:
    with pytest.raises(UsageError):
        parse_identifier("--database", name)


def test_points_come_in_order_and_once() -> None:
    assert parse_points("50000 1000,10000 1000") == (1000, 10000, 50000)
    assert parse_points(None) == tuple(map(int, DEFAULT_POINTS))


@pytest.mark.parametrize("text", ["1000", "1000 1000", "1000 x", "0 10", "1000 -5"])
def test_points_that_make_no_line(text: str) -> None:
    with pytest.raises(UsageError):
        parse_points(text)


def test_how_tables_lie_is_no_option_of_a_server() -> None:
    texts = ("one-file:layout=general,table_open_cache=10", "many: schemas = 100")
    found = parse_variants(texts)
    assert found[0] == NamedSettings("one-file", (("table_open_cache", "10"),), Layout.GENERAL)
    assert found[1] == NamedSettings("many", schemas=100)
    assert parse_variants(tuple(map(variant_text, found))) == found


def test_variants_and_back() -> None:
    texts = ("few:innodb-open-files=300,table_open_cache=10", "usual:")
    found = parse_variants(texts)
    assert found == (
        NamedSettings("few", (("innodb_open_files", "300"), ("table_open_cache", "10"))),
        NamedSettings("usual"),
    )
    assert parse_variants(tuple(map(variant_text, found))) == found
    found = parse_variants(("flag:skip-name-resolve=", "one-file:LAYOUT=general"))
    assert found == (
        NamedSettings("flag", (("skip_name_resolve", ""),)),
        NamedSettings("one-file", layout=Layout.GENERAL),
    )
    assert parse_variants(tuple(map(variant_text, found))) == found


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (("innodb_open_files=300",), "has no name"),
        ((":a=1",), "has no name"),
        (("a b:x=1",), "has no name"),
        (("a:x=1", "a:y=2"), "two variants are called 'a'"),
        (("a:sql_mode=A,B",), "'B' in the variant 'a' is not OPTION=VALUE"),
        (("a:datadir=/x",), "reserved for the tool itself"),
        (("a:layout",), "'layout' in the variant 'a' is not OPTION=VALUE"),
        (("a:layout=heap",), "LAYOUT=heap is not valid"),
        (("a:schemas=0",), "schemas=0 is not valid"),
    ],
)
def test_variants_that_are_refused(texts: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_variants(texts)

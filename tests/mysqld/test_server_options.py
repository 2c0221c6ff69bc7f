"""Each version gets the options it knows, and no spelling of a reserved option is accepted."""

from __future__ import annotations

from pathlib import Path

import pytest

from recovery.errors import UsageError
from recovery.linux.files import template_dir
from recovery.model import parse_version
from recovery.mysqld.options import (
    FLAG,
    adapt_redo_capacity,
    base_name,
    base_settings,
    build_settings,
    check_user_settings,
    compressed_settings,
    experiment_settings,
    hint_if_unknown,
    key_settings,
    merge,
    render_cnf,
    wait_counting_settings,
)

RUNDIR = Path("/run/recovery/1")
TEMPLATE = (template_dir() / "my.cnf.j2").read_text()
VERSIONS = ("5.5.62", "5.6.24", "5.7.9", "8.0.15", "8.0.31", "9.7.4", "mariadb-10.2.11", "mariadb-11.8.2")


def base(version: str) -> dict[str, str]:
    return base_settings(parse_version(version), rundir=RUNDIR)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_server_is_off_the_network_and_logs_in_english(version: str) -> None:
    settings = base(version)
    assert settings["skip_networking"] == FLAG
    assert "skip_networking\n" in f"{render_cnf(settings, TEMPLATE)}\n"
    assert "port" not in settings
    assert settings.get("mysqlx", "OFF") == "OFF"
    assert settings["lc_messages"] == "en_US"
    assert settings["socket"] == "/run/recovery/1/mysqld.sock"
    assert settings["pid_file"].startswith(str(RUNDIR))
    assert "log_error" not in settings


@pytest.mark.parametrize(
    ("name", "without", "having"),
    [
        ("mysqlx", "8.0.4", "8.0.11"),
        ("log_error_verbosity", "5.6.24", "5.7.22"),
        ("disable_partition_engine_check", "5.7.9", "5.7.22"),
        ("secure_file_priv", "5.6.24", "5.7.22"),
        ("skip_log_bin", "5.7.22", "8.0.15"),
        ("ssl", "9.7.4", "mariadb-10.2.11"),
    ],
)
def test_only_versions_that_know_an_option_get_it(name: str, without: str, having: str) -> None:
    assert name not in base(without)
    assert name in base(having)


@pytest.mark.parametrize("own", [{"ssl": "ON"}, {"loose-ssl": "1"}, {"enable_ssl": "1"}, {"skip_ssl": ""}])
def test_mariadb_makes_no_tls_key_unless_the_user_wants_it(own: dict[str, str]) -> None:
    assert base("mariadb-10.2.11")["ssl"] == base("mariadb-11.8.2")["ssl"] == "OFF"
    merged = merge(base("mariadb-11.4.5"), own)
    assert {name: value for name, value in merged.items() if base_name(name) == "ssl"} == merge(own)


def test_the_keys_of_encrypted_tables_are_in_their_folder() -> None:
    keys = Path("/data/keys")
    assert key_settings(parse_version("8.0.31"), keys) == {
        "early_plugin_load": "keyring_file.so",
        "keyring_file_data": "/data/keys/keyring",
    }
    assert key_settings(parse_version("mariadb-10.11.5"), keys) == {
        "plugin_load_add": "file_key_management",
        "file_key_management_filename": "/data/keys/keyfile",
    }


@pytest.mark.parametrize("text", VERSIONS)
def test_building_gives_up_durability_and_experiments_do_not(text: str) -> None:
    version = parse_version(text)
    assert build_settings(version)["innodb_doublewrite"] == "OFF"
    assert not {"innodb_doublewrite", "innodb_flush_log_at_trx_commit"} & set(experiment_settings(version))
    dump = None if text == "5.5.62" else "OFF"
    assert experiment_settings(version).get("innodb_buffer_pool_load_at_startup") == dump


def test_only_versions_that_know_a_build_option_get_it() -> None:
    assert "innodb_redo_log_capacity" in build_settings(parse_version("8.0.31"))
    assert "innodb_log_file_size" in build_settings(parse_version("8.0.15"))
    assert "sync_frm" not in build_settings(parse_version("8.0.15"))
    assert "innodb_stats_persistent" in build_settings(parse_version("5.6.24"))
    assert "innodb_stats_persistent" in build_settings(parse_version("8.0.31"))
    assert "innodb_stats_persistent" not in build_settings(parse_version("8.0.31"), statistics=True)
    newer = {"innodb_lru_scan_depth", "innodb_io_capacity_max", "innodb_stats_persistent"}
    assert newer & build_settings(parse_version("5.5.62")).keys() == set()


@pytest.mark.parametrize(
    ("version", "file_format"), [("5.6.24", "Barracuda"), ("5.7.22", "Barracuda"), ("8.0.31", None)]
)
def test_compressed_tables_get_a_file_format_if_the_version_knows_one(version: str, file_format: str | None) -> None:
    settings = compressed_settings(parse_version(version))
    assert (settings["innodb_strict_mode"], settings.get("innodb_file_format")) == ("ON", file_format)


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        ({"innodb_io_capacity": "1"}, {"--Innodb-IO-capacity": "2"}, {"innodb_io_capacity": "2"}),
        ({"loose_innodb_a": "1"}, {"innodb-a": "2"}, {"innodb_a": "2"}),
        ({"innodb_a": "1"}, {"loose-innodb-a": "2"}, {"loose_innodb_a": "2"}),
    ],
)
def test_later_settings_win_in_any_spelling(
    first: dict[str, str], second: dict[str, str], merged: dict[str, str]
) -> None:
    assert merge(first, second) == merged


CAPACITY = {"loose_innodb_redo_log_capacity": str(1 << 30)}


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("5.6.24", {"innodb_log_file_size": str(512 << 20)}),
        ("8.0.15", {"innodb_log_file_size": str(512 << 20)}),
        ("8.0.31", CAPACITY),
        ("mariadb-10.2.11", {"innodb_log_file_size": str(512 << 20)}),
        ("mariadb-10.11.5", {"innodb_log_file_size": str(1 << 30)}),
    ],
)
def test_the_redo_log_has_the_same_size_in_every_version(version: str, expected: dict[str, str]) -> None:
    def adapted(settings: dict[str, str]) -> dict[str, str]:
        return adapt_redo_capacity(parse_version(version), settings)

    assert adapted(CAPACITY) == expected
    for own in ({"innodb_log_file_size": str(64 << 20)}, {"loose_innodb_log_files_in_group": "4"}):
        assert adapted(CAPACITY | own) == own, "the user's"
    gigabyte = {"innodb_redo_log_capacity": "1G"}
    assert adapted(gigabyte) == (gigabyte if expected == CAPACITY else expected)
    for unchanged in ({"loose_innodb_redo_log_capacity": "much"}, {"a": "1"}):
        assert adapted(unchanged) == unchanged, "the server reports an invalid value"


def test_counting_waits_keeps_what_is_monitored_already() -> None:
    assert wait_counting_settings({})["loose_innodb_monitor_enable"] == "latch"
    for name in ("innodb_monitor_enable", "loose_innodb_monitor_enable"):
        usual = {name: "log_lsn_checkpoint_age", "performance_schema": "OFF"}
        counting = merge(usual, wait_counting_settings(usual))
        assert counting["loose_innodb_monitor_enable"] == "log_lsn_checkpoint_age,latch"
        assert "innodb_monitor_enable" not in counting
        assert counting["performance_schema"] == "ON"


@pytest.mark.parametrize(
    "name",
    ["innodb_doublewrite", "--Innodb-Doublewrite", "skip-innodb-doublewrite", "loose_disable_innodb_doublewrite",
     "enable_innodb_doublewrite"],
)  # fmt: skip
def test_an_option_has_one_name_in_any_spelling(name: str) -> None:
    assert base_name(name) == "innodb_doublewrite"


@pytest.mark.parametrize("name", ["datadir", "--socket", "skip-networking", "log-error", "user", "loose_datadir"])
def test_an_option_that_the_tool_sets_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="reserved for the tool"):
        check_user_settings({name: "x"})


@pytest.mark.parametrize(
    "name",
    [
        "skip_skip_networkin", "skip_networkin", "loose_skip_networkin", "enable_skip_networking", "skip-networking",
        "loose_loose_por", "maximum_port", "loose_autoset_port", "disable_por",
        "x.port", "loose_x.skip_networking", "mysqlx_b", "lang",
        "wsrep_provide", "skip_innodb", "verbose", "skip_",
        "bind-address", "loose_mysqlx", "mysqlx_port", "admin_address", "admin-port", "extra_port",
        "enable_networking", "disable_skip_networking",
    ],
)  # fmt: skip
def test_no_other_spelling_of_a_reserved_option_is_accepted(name: str) -> None:
    """Servers accept abbreviations, stacked prefixes, and anything with a dot before a name."""
    with pytest.raises(UsageError):
        check_user_settings({name: "1"})


@pytest.mark.parametrize("name", ["innodb_force_recover", "loose_innodb_force_r", "enable_innodb_force_recovery"])
def test_no_other_spelling_of_an_option_that_can_damage_files_is_accepted(name: str) -> None:
    with pytest.raises(UsageError, match="is another spelling of innodb_force_recovery"):
        check_user_settings({name: "6"})


@pytest.mark.parametrize(
    "name",
    ["skip_skip_name_resolve", "disable_skip_name_resolve", "skip_loose_ssl", "loose_loose_ssl", "maximum_sort_buffer",
     "loose_maximum_sort_buffer", "loose_autoset_sort_buffer", "enable_maximum_sort_buffer"],
)  # fmt: skip
def test_stacked_prefixes_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="has too many prefixes"):
        check_user_settings({name: "1"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("a b", "1"), ("", "1"), ("[client]", ""), ("ok", 'a"b'), ("ok", "a\nb=1"), ("a\nb", "1"),
        ("!include", "x"), ("a", "1\n!include /etc/passwd"),
    ],
)  # fmt: skip
def test_a_setting_that_no_options_file_can_hold_is_refused(name: str, value: str) -> None:
    with pytest.raises(UsageError):
        check_user_settings({name: value})


LISTED = frozenset(
    {"innodb_io_capacity", "innodb_io_capacity_max", "skip_name_resolve", "ssl", "ssl_ca", "sort_buffer_size"}
    | {"partition", "disable_partition_engine_check"}
)


@pytest.mark.parametrize(
    "name",
    ["innodb_io_capacity", "loose_innodb_io_capacity", "skip_name_resolve", "skip_ssl", "loose_skip_ssl", "enable_ssl",
     "loose_rocksdb_block_size", "loose_skip_rocksdb", "disable_partition_engine_check"],
)  # fmt: skip
def test_the_full_name_of_an_option_is_accepted(name: str) -> None:
    assert check_user_settings({name: "1"})
    assert hint_if_unknown(name, LISTED) is None


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("innodb_io_cap", "write the full name: innodb_io_capacity or innodb_io_capacity_max"),
        ("loose_innodb_io_capacity_m", "write the full name: innodb_io_capacity_max"),
        ("skip_name", "write the full name: skip_name_resolve"),
        ("loose_skip_sort_buffer", "write the full name: skip_sort_buffer_size"),
        ("disable_partition", "write the full name: disable_partition_engine_check"),
        ("innodb_io_capcity", "did you mean innodb_io_capacity?"),
        ("skip_nam_resolve", "did you mean skip_name_resolve?"),
        ("rocksdb_block_size", "write loose_rocksdb_block_size if it belongs to a plugin"),
    ],
)
def test_any_other_name_is_unknown(name: str, hint: str) -> None:
    found = hint_if_unknown(name, LISTED)
    assert found is not None
    assert found.startswith(hint)


def test_the_options_file_holds_any_value_as_it_is() -> None:
    text = render_cnf({"skip_networking": "", "datadir": "/a b/#1", "innodb_io_capacity": "200"}, TEMPLATE)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines == ["[mysqld]", 'datadir = "/a b/#1"', "innodb_io_capacity = 200", "skip_networking"]


def test_a_broken_template_is_refused() -> None:
    with pytest.raises(UsageError, match=r"my\.cnf\.j2"):
        render_cnf({}, "{% for x %}")

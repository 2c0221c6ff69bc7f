"""The values of options, and the option table that the command line, make and the experiments share."""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import dataclass, replace

import click
import pytest

from recovery.analysis.history import SETTING_ROLES
from recovery.cli import options, parse
from recovery.cli.commands import COMMANDS, RecoveryGroup
from recovery.cli.measure import request_from_arguments
from recovery.cli.measuring_command import MeasuringCommand
from recovery.cli.options import BY_NAME, OPTIONS, FieldPath, Kind, Option, repeat_command
from recovery.cli.values import (
    count,
    parse_count,
    parse_identifier,
    parse_own_servers,
    parse_points,
    parse_settings,
    parse_variants,
    split_own_servers,
    split_versions,
    variant_text,
)
from recovery.errors import UsageError
from recovery.experiments import EXPERIMENTS, crash_recovery, find_experiment
from recovery.experiments.experiment import OwnDataOptions
from recovery.model import Layout, NamedSettings
from recovery.mysqld import startup
from recovery.profiling import samplers
from recovery.session.request import with_seed

# --- Values


@pytest.mark.parametrize("text", ["0", "-1", "x", "", "1.5", "999999999999", "1e", "e5", "1e99", "1e5k", "0e5"])
def test_an_invalid_count_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not valid") as caught:
        parse_count(text, 100_000_000)
    assert "from 1 to 100,000,000" in caught.value.hint


@pytest.mark.parametrize("text", ["100000", "100_000", "100k", "100K", "1e5", "10E4"])
def test_a_count_may_have_underscores_a_unit_or_an_exponent(text: str) -> None:
    assert parse_count(text, 1_000_000) == 100_000


def test_a_million_may_have_a_large_or_small_letter() -> None:
    assert parse_count("1m", 1_000_000) == parse_count("1M", 1_000_000) == 1_000_000


def test_versions_are_split_and_each_is_used_once() -> None:
    assert split_versions(("5.6.24 5.7.22", "8.0.31,5.6.24")) == ("5.6.24", "5.7.22", "8.0.31")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/opt/my server/mysqld", ["/opt/my server/mysqld"]),
        ("patched=/opt/a=b/mysqld", ["patched=/opt/a=b/mysqld"]),
        ("base=/x/mysqld new=/y/mysqld", ["base=/x/mysqld", "new=/y/mysqld"]),
        ("/src/build-1/bin/mysqld /src/build-2/bin/mysqld",
         ["build-1=/src/build-1/bin/mysqld", "build-2=/src/build-2/bin/mysqld"]),
        ("old=https://host/8.0.30.tar.xz /src/8.0.31.tar.xz",
         ["old=https://host/8.0.30.tar.xz", "src=/src/8.0.31.tar.xz"]),
    ],
)  # fmt: skip
def test_several_own_servers_are_named_by_the_user_or_by_their_paths(text: str, found: list[str]) -> None:
    assert list(map(str, parse_own_servers(split_own_servers(text)))) == found


@pytest.mark.parametrize("texts", [("a=/x", "a=/y"), ("/x/+/mysqld", "/x/-/mysqld")])
def test_own_servers_without_distinct_names_are_refused(texts: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="--mysqld / MYSQLD: "):
        parse_own_servers(texts)


def test_server_options_are_spelled_with_underscores() -> None:
    found = parse_settings(("innodb-force-recovery=1", "skip-name-resolve"))
    assert found == (("innodb_force_recovery", "1"), ("skip_name_resolve", ""))


@pytest.mark.parametrize(
    "pairs",
    [
        ("datadir=/etc",),
        ("--socket=/x",),
        ("=3",),
        ("pid-file=x",),
        ("a b=1",),
        ("innodb_force_recovery=4",),
        ("innodb_data_home_dir=/x",),
        ("loose_innodb-force-recovery=6",),
        ("innodb_force_recovery=1", "loose_innodb_force_recovery=6"),
    ],
)
def test_dangerous_and_reserved_server_options_are_refused(pairs: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        parse_settings(pairs)


@pytest.mark.parametrize("name", ["", "a-b", "1a", "x`y", "a;drop", "abc\n", "x" * 51, "mysql", "SYS"])
def test_an_invalid_schema_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        parse_identifier(name)


def test_points_are_sorted_and_unique() -> None:
    assert parse_points("50000 1000,10000 1000") == (1000, 10000, 50000)


@pytest.mark.parametrize("text", ["1000", "1000 1000", "1000 x", "0 10", "1000 -5"])
def test_fewer_than_two_points_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_points(text)


@pytest.mark.parametrize(
    ("text", "variant"),
    [
        ("usual:", NamedSettings("usual")),
        (
            "few:innodb-open-files=300,table_open_cache=10",
            NamedSettings("few", (("innodb_open_files", "300"), ("table_open_cache", "10"))),
        ),
        ("flag:skip-name-resolve=", NamedSettings("flag", (("skip_name_resolve", ""),))),
        ("one:LAYOUT=general,x=1", NamedSettings("one", (("x", "1"),), Layout.GENERAL)),
        ("many: schemas = 100", NamedSettings("many", schemas=100)),
    ],
)
def test_variants_are_parsed_and_written_back(text: str, variant: NamedSettings) -> None:
    assert parse_variants((text,)) == (variant,)
    assert parse_variants((variant_text(variant),)) == (variant,)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("innodb_open_files=300",), "has no name"),
        ((":a=1",), "has no name"),
        (("a b:x=1",), "has no name"),
        (("a:x=1", "a:y=2"), "two variants are called 'a'"),
        (("a:sql_mode=A,B",), "'B' in the variant 'a' has no value"),
        (("a:datadir=/x",), "reserved for the tool itself"),
        (("a:layout",), "'layout' in the variant 'a' has no value"),
        (("a:layout=heap",), "layout=heap is not valid"),
        (("a:schemas=0",), "schemas=0 is not valid"),
    ],
)
def test_invalid_variants_are_refused(texts: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_variants(texts)


# --- The option table


def test_defaults_equal_those_of_the_modules_that_the_table_does_not_import() -> None:
    damage_s = find_experiment("damage").stall_s
    assert f"[default: {startup.DEFAULT_STALL_S:g}; damage: {damage_s:g}]" in BY_NAME["stall"].help
    assert BY_NAME["stacks"].values == (samplers.AUTO, *samplers.PROGRAMS)


def test_names_are_unique_and_each_option_belongs_to_a_command() -> None:
    assert len(BY_NAME) == len({one.key for one in OPTIONS}) == len(OPTIONS)
    listed = {name for entry in EXPERIMENTS.values() for name in entry.options}
    special = [option for option in OPTIONS if not option.common]
    assert all({option.name, option.options_class} & listed for option in special)
    assert listed <= {name for option in special for name in (option.name, option.options_class)}


@pytest.mark.parametrize("name", [*EXPERIMENTS, *COMMANDS])
def test_every_command_has_help(name: str) -> None:
    group = RecoveryGroup("recovery")
    command = group.get_command(click.Context(group), name)
    assert command is not None
    assert command.name == name
    assert name in command.get_help(click.Context(command, info_name=name))


@pytest.mark.parametrize(
    ("words", "value"), [(["--stacks"], "auto"), (["--stacks", "perf"], "perf"), (["--stacks=1"], "auto"), ([], None)]
)
def test_an_option_with_an_optional_value(words: list[str], value: str | None) -> None:
    assert MeasuringCommand("cold-recovery").make_context("x", words).params["stacks"] == value


def test_the_environment_applies_to_a_command_and_not_to_a_stored_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_NOTE", "one note")
    monkeypatch.setenv("RECOVERY_SET", "a=1 b=2")
    given = MeasuringCommand("scale").make_context("x", []).params
    assert (given["notes"], given["settings"]) == (("one note",), ("a=1", "b=2"))
    given = MeasuringCommand("scale", environment=False).make_context("x", []).params
    assert (given["notes"], given["settings"]) == ((), ())


def test_the_repeat_command_has_the_given_options_alone() -> None:
    given = {"tables": 20, "settings": ("a=1", "b=2"), "trace": True, "floor": False, "stall_s": 7.0, "notes": ()}
    given |= {"unprivileged": True, "archive": None, "results": BY_NAME["results"].default}
    assert repeat_command("cold-recovery", given, OPTIONS) == (
        "recovery cold-recovery --tables 20 --set a=1 --set b=2 --trace --unprivileged --stall 7"
    )


def test_version_and_help_import_no_slow_library() -> None:
    """docker, pydantic and rich take most of a second to import."""
    code = "import sys; from recovery.cli.main import run; run(['--version']); run(['--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"docker", "testcontainers", "pydantic", "rich", "jinja2"} & set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(("typed", "found"), [("com", ["compare", "completion"]), ("--ver", ["--version"])])
def test_shell_completion_of_commands(typed: str, found: list[str]) -> None:
    group = RecoveryGroup("recovery", params=[click.Option(["--version"])])
    assert [item.value for item in group.shell_complete(click.Context(group), typed)] == found


# --- The seed


def seed_of(name: str, *words: str) -> object:
    request = request_from_arguments(name, words)
    seed = request.experiment_options.seed
    assert dict(request.stored_settings)["seed"] == seed
    assert ("--seed" in request.command) is bool(words), "the command repeats what was asked"
    return seed


def test_a_given_seed_is_stored_and_repeated() -> None:
    assert seed_of("cold-recovery") is None, "the session gets a random one when it begins"
    assert seed_of("cold-recovery", "--seed", "42") == seed_of("table-cache", "--seed", "42") == 42
    assert seed_of("crash-matrix") == seed_of("damage") == 1, "the same kills in all sessions"
    assert seed_of("crash-matrix", "--seed", "9") == 9
    for words, seed in (([], 7), (["--seed", "42"], 42)):
        request = with_seed(request_from_arguments("cold-recovery", words), 7)
        assert request.experiment_options.seed == dict(request.stored_settings)["seed"] == seed


# --- What a new option takes


@dataclass(frozen=True)
class RetryOptions(OwnDataOptions):
    """The options of an experiment, with the field of the new one, in the file of the experiment."""

    retries: int | None = None


def test_a_new_option_of_an_experiment_is_a_row_and_a_field(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the command line and the environment to the request, to what is stored, and back to the command."""
    row = Option(
        "retries", "Retry so often.", "N", Kind.WHOLE, field=FieldPath("StartOptions").retries, convert=count(9),
        stored="retries", common=False,
    )  # fmt: skip
    for module in (options, parse):
        monkeypatch.setattr(module, "OPTIONS", (*OPTIONS, row))
    monkeypatch.setattr(crash_recovery, "COLD", replace(crash_recovery.COLD, options=RetryOptions))
    request = request_from_arguments("cold-recovery", ["--retries", "4", "--version", "5.7.22"])
    assert {option.stored for option in options.OPTIONS if option.stored} - SETTING_ROLES.keys() == {"retries"}, (
        "what is stored also needs a role in SETTING_ROLES, which test_history.py compares with the table"
    )
    assert request.experiment_options == RetryOptions(retries=4)
    assert dict(request.stored_settings)["retries"] == 4
    assert "--retries 4" in request.command
    _, name, *words = shlex.split(request.command)
    assert request_from_arguments(name, words) == request
    assert "retries" not in dict(request_from_arguments("metadata", []).stored_settings)
    monkeypatch.setenv("RECOVERY_RETRIES", "5")
    assert MeasuringCommand("cold-recovery").make_context("cold-recovery", []).params["retries"] == "5"
    with pytest.raises(UsageError, match="RETRIES: 10 is not valid"):
        request_from_arguments("cold-recovery", ["--retries", "10"])

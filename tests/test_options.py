"""The option table is what the command line, make, the environment and the experiments agree on."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from recovery.cli.commands import COMMANDS, MeasuringCommand, RecoveryGroup
from recovery.cli.options import BY_NAME, OPTIONS, SETTINGS, Kind, repeat_command
from recovery.experiments import EXPERIMENTS
from recovery.mysqld import startup
from recovery.profiling import samplers

MAKEFILE = (Path(__file__).parent.parent / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")


def words_of(name: str) -> set[str]:
    found = re.search(rf"^{name} := (.*)$", MAKEFILE, re.MULTILINE)
    assert found is not None
    return set(found[1].split())


def test_make_passes_on_every_setting() -> None:
    assert words_of("VARIABLES") == {one.name.upper() for one in SETTINGS if one.from_environment}
    assert words_of("GIVEN_TO_MAKE") == {one.name.upper() for one in SETTINGS if not one.from_environment}


def test_the_table_repeats_no_other_default() -> None:
    """It is imported by every command, so it has these values itself instead of importing servers and samplers."""
    assert BY_NAME["stall"].default == startup.DEFAULT_STALL_S
    assert BY_NAME["stacks"].values == (samplers.AUTO, *samplers.PROGRAMS)


def test_every_name_stands_once() -> None:
    assert len(BY_NAME) == len({one.key for one in OPTIONS}) == len(OPTIONS)


def test_an_experiment_lists_options_of_the_table() -> None:
    for name, one in EXPERIMENTS.items():
        assert {option for option in one.options if option not in BY_NAME} == set(), name
        assert not [option for option in one.options if BY_NAME[option].common], name


def test_every_option_is_somebodys() -> None:
    taken = {option for one in EXPERIMENTS.values() for option in one.options}
    assert {one.name for one in OPTIONS if not one.common} - taken == {"scale"}


@pytest.mark.parametrize("name", [*EXPERIMENTS, *COMMANDS])
def test_every_command_can_be_imported_and_helps(name: str) -> None:
    group = RecoveryGroup("recovery")
    command = group.get_command(click.Context(group), name)
    assert command is not None
    assert command.name == name
    assert name in command.get_help(click.Context(command, info_name=name))


def test_an_option_may_have_a_value_or_stand_alone() -> None:
    for words, value in (["--stacks"], "auto"), (["--stacks", "perf"], "perf"), (["--stacks=1"], "auto"):
        assert MeasuringCommand("cold-recovery").make_context("x", words).params["stacks"] == value
    assert MeasuringCommand("cold-recovery").make_context("x", []).params["stacks"] is None


def test_the_environment_is_a_layer_of_the_command_and_not_of_a_stored_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_NOTE", "one note")
    monkeypatch.setenv("RECOVERY_SET", "a=1 b=2")
    given = MeasuringCommand("scale").make_context("x", []).params
    assert (given["notes"], given["settings"]) == (("one note",), ("a=1", "b=2"))
    given = MeasuringCommand("scale", environment=False).make_context("x", []).params
    assert (given["notes"], given["settings"]) == ((), ())


def test_the_repeat_command_has_what_was_given() -> None:
    given = {"tables": 20, "settings": ("a=1", "b=2"), "trace": True, "floor": False, "stall_s": 7.0, "notes": ()}
    given |= {"unprivileged": True, "archive": None, "results": BY_NAME["results"].default}
    assert repeat_command("cold-recovery", given, OPTIONS) == (
        "recovery cold-recovery --tables 20 --set a=1 --set b=2 --trace --unprivileged --stall 7"
    )


def test_only_flags_have_no_value() -> None:
    flags = {one.name for one in OPTIONS if one.kind is Kind.FLAG}
    assert {"trace", "floor", "keep", "quiet", "dry_run", "unprivileged"} <= flags
    assert not flags & {"stacks", "json"}


@pytest.mark.parametrize("words", [["--version"], ["--help"]])
def test_what_measures_nothing_imports_no_server(words: list[str]) -> None:
    """docker, pydantic and rich take most of a second to import."""
    code = f"import sys; from recovery.cli.main import run; run({words}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"docker", "testcontainers", "pydantic", "rich", "jinja2"} & set(done.stdout.split())


@pytest.mark.parametrize(("typed", "found"), [("com", ["compare", "completion"]), ("--ver", ["--version"])])
def test_completion_of_commands_imports_none(typed: str, found: list[str]) -> None:
    group = RecoveryGroup("recovery", params=[click.Option(["--version"])])
    assert [item.value for item in group.shell_complete(click.Context(group), typed)] == found

"""Errors name a setting as the user wrote it: on the command line, for make, in the environment, or in a file."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from recovery.cli.main import run
from recovery.cli.naming import Layers
from recovery.cli.options import BY_NAME, SETTINGS, Kind, Option, options_of
from recovery.experiments import EXPERIMENTS

LAYERS = ("line", "make", "environment", "file")
BAD_OF_KIND = {
    Kind.WHOLE: "20x", Kind.NUMBER: "x", Kind.SECONDS: "x", Kind.PATH: "~nobody-at-all/x", Kind.FLAG: "maybe",
    Kind.SENTENCE: "n" * 501,
}  # fmt: skip
BAD_TEXT = {
    "before_start": "no-such-program", "before_kill": "no-such-program",
    "version": "five", "layout": "round", "database": "a.b", "archive": "ftp://x", "engine": "podman", "set": "=1",
    "registry": "https://x", "variant": "nameless", "stacks": "gdb", "baseline": "5.5.5", "fail_over": "x",
    "workload": ",", "precision": "x", "option": "table_open_cache", "question": "why", "scale": "huge",
    "cpu_set": "x", "charset": "klingon", "statistics": "x", "poll_query": "x",
    "repeat_every": "5x", "state": "committed",
}  # fmt: skip
UNCHECKED = ("mysqld", "image", "read_bps")
"""Whether there is such a server is checked later; sizes have a test of their own."""


def command_with(option: Option) -> str:
    """The name of a command that has the option."""
    if option.common or option.name == "scale":
        return "experiments" if option.name == "scale" else "cold-recovery"
    return next(name for name, entry in EXPERIMENTS.items() if option in options_of(entry.options))


def words_of(option: Option, layer: str) -> str:
    """How the error must name the option."""
    return {
        "line": option.flag, "make": option.name.upper(), "environment": option.variable, "file": option.name
    }[layer]  # fmt: skip


@pytest.mark.parametrize(
    ("option", "layer"),
    [
        pytest.param(option, layer, id=f"{option.name}-{layer}")
        for option, layer in product((one for one in SETTINGS if one.name not in UNCHECKED), LAYERS)
        if (layer, option.kind) != ("line", Kind.FLAG)  # it has no value there
    ],
)
def test_an_error_names_a_setting_as_it_was_written(
    option: Option, layer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    bad = BAD_OF_KIND.get(option.kind) or BAD_TEXT[option.name]
    monkeypatch.delenv(option.variable, raising=False)
    words = [command_with(option), "--dry-run"]
    if layer == "line":
        words += [f"{option.flag}={bad}"]
    elif layer == "file":
        content = '[set]\n"" = 1\n' if option.name == "set" else f'{option.name} = "{bad}"\n'
        (tmp_path / "recovery.toml").write_text(content)
    else:
        monkeypatch.setenv(option.variable, bad)
    if layer == "make":
        monkeypatch.setenv("MAKELEVEL", "1")
        monkeypatch.setenv("MAKEFLAGS", f" -- RUNS=3 {option.name.upper()}=x")
    assert run(words) == 2
    error = next(line for line in capsys.readouterr().err.splitlines() if line.startswith("error: "))
    assert re.search(rf"(?<![\w-]){words_of(option, layer)}(?![\w-])", error), error
    assert ("recovery.toml" in error) is (layer == "file")
    others = {words_of(option, other) for other in LAYERS if other != layer} - {option.name}
    assert not [word for word in others if re.search(rf"(?<![\w-]){word}(?![\w-])", error)], error


@pytest.mark.parametrize(
    ("layers", "text", "renamed"),
    [
        (Layers(), "TABLES=20x is not valid", "--tables 20x is not valid"),
        (Layers(["--tables=20x"]), "TABLES=20x is not valid", "--tables=20x is not valid"),
        (Layers(), "give fewer TABLES=, RUNS= or versions", "give fewer --tables, --runs or versions"),
        (Layers(), 'give several, like TABLES="1000 10000"', 'give several, like --tables "1000 10000"'),
        (Layers(), "ask QUESTION= (all but x)", "ask --question (all but x)"),
        (Layers(environment={"MAKELEVEL": "1"}), "leave --keep out; --wait waits", "leave KEEP out; --wait waits"),
        (Layers(environment={"RECOVERY_KEEP": "1"}), "leave --keep out", "leave RECOVERY_KEEP out"),
        (
            Layers(config={"tables"}, config_file="recovery.toml"),
            "LOAD_TABLES=5 is more than TABLES=3: no",
            "--load-tables 5 is more than tables = 3 in recovery.toml: no",
        ),
        (Layers(), "`recovery compare A B --fail-over 10%`", "`recovery compare A B --fail-over 10%`"),
        (Layers(environment={"MAKELEVEL": "1"}), "`recovery report --results x`", "`recovery report --results x`"),
        (Layers(), "RECOVERY_TABLES, DROP DATABASE x, RUNS", "RECOVERY_TABLES, DROP DATABASE x, RUNS"),
        (Layers(environment={"MAKELEVEL": "1"}), "--data-dir, --set foo=1", "--data-dir, SET foo=1"),
    ],
)
def test_settings_in_a_text_are_renamed(layers: Layers, text: str, renamed: str) -> None:
    assert layers.rename(text) == renamed


def test_every_setting_is_tested_or_known_to_be_unchecked() -> None:
    texts = {one.name for one in SETTINGS if one.kind in (Kind.TEXT, Kind.OWN_SERVER, Kind.COMMAND)}
    assert texts == {*BAD_TEXT, *UNCHECKED} & set(BY_NAME) - {"read_bps"}


@pytest.mark.parametrize(
    ("words", "written", "hint"),
    [
        (["crash-recovery", "--engine", "dokcer", "--dry-run"], "--engine dokcer", "did you mean docker?"),
        (["crash-recovery", "--stacks=gdb", "--dry-run"], "--stacks=gdb", "give auto, eu-stack or perf"),
        (["report", "--format", "jsn"], "--format=jsn", "did you mean json?"),
        (["bundle", "--for", "oracle"], "--for=oracle", "give mysql, mariadb or percona"),
        (["completion", "bsh"], "'bsh'", "did you mean bash?"),
    ],
)
def test_an_unknown_value_gets_the_nearest_or_all(
    words: list[str], written: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    assert capsys.readouterr().err.splitlines()[-2:] == [f"error: {written} is not valid", f"hint:  {hint}"]

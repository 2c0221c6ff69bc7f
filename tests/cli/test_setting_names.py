"""Errors name an option by its flag and its variable, wherever its value came from."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from recovery.cli.main import run
from recovery.cli.options import BY_NAME, SETTINGS, Kind, Option, options_of
from recovery.errors import UsageError
from recovery.experiments import EXPERIMENTS

LAYERS = ("line", "environment", "file")
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


@pytest.mark.parametrize(
    ("option", "layer"),
    [
        pytest.param(option, layer, id=f"{option.name}-{layer}")
        for option, layer in product((one for one in SETTINGS if one.name not in UNCHECKED), LAYERS)
        if (layer, option.kind) != ("line", Kind.FLAG)  # it has no value there
    ],
)
def test_an_error_names_the_option(
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
    assert run(words) == 2
    error = next(line for line in capsys.readouterr().err.splitlines() if line.startswith("error: "))
    if layer == "file" and error.startswith("error: recovery.toml"):  # a value of another type
        assert f"'{option.name}'" in error
    else:
        assert error.startswith(f"error: {option.flag} / {option.name.upper()}: "), error


def test_an_error_carries_its_option() -> None:
    error = UsageError("20x is not valid", "give a number", option="load_tables")
    assert str(error) == error.message == "--load-tables / LOAD_TABLES: 20x is not valid"
    assert UsageError("x is not valid", option="--format").message == "--format: x is not valid"
    with pytest.raises(UsageError) as caught:
        BY_NAME["predict"].value_of("x")
    assert caught.value.option == "--predict", "it has no variable"


@pytest.mark.parametrize("words", [["repeat", "--times", "0"], ["repeat", "--every", "5x"]])
def test_an_option_with_another_flag_is_named_by_it(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    assert f"error: {words[1]} / REPEAT" in capsys.readouterr().err


def test_every_setting_is_tested_or_known_to_be_unchecked() -> None:
    texts = {one.name for one in SETTINGS if one.kind in (Kind.TEXT, Kind.OWN_SERVER, Kind.COMMAND)}
    assert texts == {*BAD_TEXT, *UNCHECKED} & set(BY_NAME) - {"read_bps"}


@pytest.mark.parametrize(
    ("words", "written", "hint"),
    [
        (["crash-recovery", "--engine", "dokcer", "--dry-run"], "--engine / ENGINE: dokcer", "did you mean docker?"),
        (["crash-recovery", "--stacks=gdb", "--dry-run"], "--stacks / STACKS: gdb", "give auto, eu-stack or perf"),
        (["report", "--format", "jsn"], "--format: jsn", "did you mean json?"),
        (["bundle", "--for", "oracle"], "--for: oracle", "give mysql, mariadb or percona"),
        (["completion", "bsh"], "'bsh'", "did you mean bash?"),
    ],
)
def test_an_unknown_value_gets_the_nearest_or_all(
    words: list[str], written: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    assert capsys.readouterr().err.splitlines()[-2:] == [f"error: {written} is not valid", f"hint:  {hint}"]


PACKAGE = Path(__file__).parents[2] / "recovery"
_VARIABLE = re.compile(rf"`[^`]*`|(?<![\w.:-])({'|'.join(sorted((one.name.upper() for one in SETTINGS), key=len))})=")


def texts_of_errors(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        called = getattr(node, "func", None)
        if isinstance(node, ast.Call) and getattr(called, "id", getattr(called, "attr", "")).endswith("Error"):
            constants = (inner.value for inner in ast.walk(node) if isinstance(inner, ast.Constant))
            yield from (text for text in constants if isinstance(text, str))


def test_errors_spell_an_option_as_its_flag() -> None:
    """A variable of make would be an error on the command line, and `ARGS="--tables 20k"` is none with make."""
    files = sorted(PACKAGE.rglob("*.py"))
    texts = [(path.name, text) for path in files for text in texts_of_errors(path.read_text(encoding="utf-8"))]
    assert len(texts) > 1000
    assert [(name, text) for name, text in texts if any(match[1] for match in _VARIABLE.finditer(text))] == []

"""What a shell offers for a half-typed command line: the real command is asked as the shell's script asks it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from recovery.cli.completion import COMPLETE_VARIABLE
from recovery.cli.main import main

Offered = Callable[..., list[str]]
NAMES = ["20260101T000000Z-cold-recovery", "20260102T000000Z-scale"]


@pytest.fixture
def folder(tmp_path: Path, own_cache: Path) -> Path:
    """Sessions, and a cache with two servers and the options of one."""
    for name in ("5.7.44-0123abcd", "recorded", ".lock-5.7.44-0123abcd"):
        (own_cache / "servers" / name).mkdir(parents=True)
    (own_cache / "options").mkdir()
    (own_cache / f"options/5.7.44-{'a' * 16}.txt").write_text("innodb_page_size\ninnodb_fast_shutdown\nport")
    for name in NAMES:
        (tmp_path / "results" / name).mkdir(parents=True)
        (tmp_path / "results" / name / "report.json").touch()
    (tmp_path / "results/unfinished").mkdir()
    (tmp_path / "results/latest").symlink_to(NAMES[-1])
    return tmp_path


@pytest.fixture
def offered(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Offered:
    """Returns the completions of the last word of a line."""

    def offered(line: str, within: Path = folder, **environment: str) -> list[str]:
        given = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), COMPLETE_VARIABLE: "bash_complete"}
        with monkeypatch.context() as patch:
            patch.chdir(within)
            patch.setattr("sys.argv", ["recovery"])
            for name, value in (given | environment).items():
                patch.setenv(name, value)
            with suppress(SystemExit):
                main()
        printed = capsys.readouterr()
        assert printed.err == ""
        return [one.removeprefix("plain,") for one in printed.out.splitlines() if one]

    return offered


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("recovery cold-recovery --version 5.7", ["5.7.22", "5.7.44"]),
        ("recovery cold-recovery --version=5.7", ["5.7.22", "5.7.44"]),
        ("recovery scale --baseline l", ["latest", "lts"]),
        ("recovery cold-recovery --layout p", ["partitioned"]),
        ("recovery schema --layout ", ["files", "general", "partitioned", "encrypted"]),
        ("recovery cold-recovery --set innodb_", ["innodb_fast_shutdown=", "innodb_page_size="]),
        ("recovery cold-recovery --set innodb-p", ["innodb-page-size="]),
        ("recovery table-cache --option p", ["port="]),
        ("recovery scale --variant a:innodb_p", ["a:innodb_page_size="]),
        ("recovery scale --variant a:port=1,sch", ["a:port=1,schemas="]),
        ("recovery scale --variant inn", []),
        ("recovery report ", NAMES[::-1]),
        ("recovery compare 20260101", NAMES[:1]),
        (f"recovery compare {NAMES[0]} 20260102", NAMES[1:]),
        ("recovery resume 2", NAMES[::-1]),
        ("recovery bundle 2", NAMES[::-1]),
        ("recovery bundle --output x 2", NAMES[::-1]),
        ("recovery report --form", ["--format"]),
        ("recovery images build 5.7.4", ["5.7.44"]),
        ("recovery sess", ["sessions"]),
    ],
)
def test_values_are_offered(line: str, found: list[str], offered: Offered) -> None:
    assert offered(line) == found


def test_sessions_come_from_the_folder_of_the_settings(folder: Path, offered: Offered) -> None:
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    assert offered("recovery report 2", elsewhere) == []
    assert offered("recovery report 2", elsewhere, RECOVERY_RESULTS=str(folder / "results")) == NAMES[::-1]
    (elsewhere / "recovery.toml").write_text(f'results = "{folder}/results"\n')
    assert offered("recovery report 2", elsewhere) == NAMES[::-1]


@pytest.mark.parametrize(
    ("line", "environment"),
    [
        ("recovery report 2", {"RECOVERY_CONFIG": "/nowhere"}),
        ("recovery cold-recovery --set i", {"RECOVERY_CACHE": "/dev/null"}),
        ("recovery report 2", {"COMP_CWORD": "x"}),
        ("recovery nonsense --zzz x", {"RECOVERY_TABELS": "5"}),
        ("recovery co", {COMPLETE_VARIABLE: "nonsense"}),
    ],
)
def test_nothing_is_offered_and_no_error_is_shown(line: str, environment: dict[str, str], offered: Offered) -> None:
    assert offered(line, **environment) == []


@pytest.mark.parametrize("line", ["cold-recovery --set ", "report "])
def test_completion_does_not_import_what_takes_long(line: str, folder: Path) -> None:
    """pydantic, docker, rich and jinja2 take most of a second to import."""
    code = (
        "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
        "from recovery.cli.main import main; main()"
    )
    words = ["recovery", *line.split(" ")]
    given = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1), COMPLETE_VARIABLE: "bash_complete"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=os.environ | given, capture_output=True, text=True, check=True
    )
    assert done.stdout
    assert not {"docker", "pydantic", "rich", "jinja2"} & set(done.stderr.split())


BASH = {
    "report 20260101": NAMES[0],
    "scale --variant a : innodb_p": "innodb_page_size=",
    "scale --variant a : port = 1,sch": "1,schemas=",
    "scale --variant = a : innodb_p": "innodb_page_size=",
    "scale --baseline = lt": "lts",
    "scale --variant usual : --trac": "--trace",
}


def test_bash_completes_its_words(folder: Path) -> None:
    """Bash splits at `:` and `=`."""
    lines = [
        f"COMPREPLY=(); COMP_WORDS=(recovery {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _recovery_completion "
        'recovery; echo "${COMPREPLY[@]}"'
        for words in BASH
    ]
    script = "\n".join(('eval "$(recovery completion bash)"', *lines))
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    assert dict(zip(BASH, done.stdout.splitlines(), strict=True)) == BASH

"""A number that is larger than anything is refused in two lines, whatever takes it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click
import pytest

from recovery.cli.main import _unset_invalid_size, run
from recovery.cli.measuring_command import MeasuringCommand
from recovery.errors import UsageError
from recovery.fleet.plan import FleetSession
from recovery.mysqld.options import check_user_settings, parse_size

HUGE = ("9" * 5000, "9" * 900, "1e400", "9**9", "inf", "0-99999999", "9" * 5000 + "g", "\u00b2")
_FETCHED = {"--version", "--mysqld", "--archive", "--image", "--registry"}
"""They name what is looked for in other places."""


def options_of(name: str) -> list[str]:
    options = (one for one in MeasuringCommand(name).params if isinstance(one, click.Option) and not one.is_flag)
    return [flag for one in options if (flag := max(one.opts, key=len)) not in _FETCHED]


@pytest.mark.parametrize("option", options_of("cold-recovery"))
def test_a_huge_number_in_an_option_is_no_traceback(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for text in HUGE:
        code = run(["cold-recovery", "--version", "8.0.31", "--dry-run", f"{option}={text}"])
        error = capsys.readouterr().err
        assert code == 0 or re.search(r"^error: .+\nhint:  .+\n\Z", error, re.MULTILINE), (text[:20], error)


@pytest.mark.parametrize("value", ["9" * 900, "9" * 21, "-" + "9" * 30, "9" * 30 + "G", "9" * 30 + ".5"])
def test_a_server_gets_no_number_that_it_does_not_have(value: str) -> None:
    with pytest.raises(UsageError, match="larger than any number of a server"):
        check_user_settings({"innodb_buffer_pool_size": value})
    assert parse_size(value) is None


def test_the_largest_number_of_a_server_is_taken() -> None:
    assert check_user_settings({"innodb_buffer_pool_size": str(2**64 - 1)})
    assert check_user_settings({"server_uuid_like": "123456789012345678901234-5678"})
    assert parse_size(str(2**64 - 1)) == 2**64 - 1


def test_no_process_has_an_id_of_many_digits(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["watch", "--once", "9" * 5000]) == 3
    assert "no mysqld or mariadbd has the process id" in capsys.readouterr().out


def test_a_fleet_repeats_no_session_so_often() -> None:
    assert FleetSession("cold-recovery", ("--repeat", "9" * 5000)).times == 1


@pytest.mark.parametrize("size", ["9" * 5000, "9" * 6, "\u00b2", "-1", ""])
def test_a_terminal_has_no_such_size(size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", size)
    monkeypatch.setenv("LINES", "40")
    _unset_invalid_size()
    assert ("COLUMNS" in os.environ, os.environ["LINES"]) == (False, "40")

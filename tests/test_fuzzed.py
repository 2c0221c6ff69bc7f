"""The targets of the fuzzer keep their promises for stored inputs (fixtures/fuzz), which have every crash that was found,
and for inputs that are made at random."""

from __future__ import annotations

import random

import pytest
from fuzzing import errorlog, options, report
from fuzzing.every import TARGETS
from fuzzing.target import Target
from hypothesis import given, settings
from hypothesis import strategies as st

few = settings(max_examples=50, deadline=None)
very_few = settings(max_examples=15, deadline=None)
every_target = pytest.mark.parametrize("target", TARGETS, ids=lambda target: str(target.name))

SEEDS = {target.name: tuple(target.seeds()) for target in TARGETS}
LOG_LINES = sorted({line for seed in SEEDS["errorlog"][:-1] for line in seed.splitlines()})
ARRIVALS = sorted({line for seed in SEEDS["passage"] for line in seed.splitlines()[1:]})
WORDS = sorted({line for seed in SEEDS["commands"] for line in seed.splitlines()})


@every_target
def test_stored_inputs_and_seeds(target: Target) -> None:
    assert SEEDS[target.name]
    assert target.kept
    assert sum(path.stat().st_size for path in target.kept) < 100_000
    for seed in SEEDS[target.name]:
        target.check(seed)
    for path in target.kept:
        try:
            target.check(path.read_bytes())
        except BaseException as error:
            error.add_note(f"of {path}")
            raise


@every_target
@very_few
@given(data=st.binary(max_size=300))
def test_random_bytes(target: Target, data: bytes) -> None:
    target.check(data)


@few
@given(st.lists(st.sampled_from(LOG_LINES) | st.binary(max_size=60), max_size=40))
def test_random_lines_of_logs(lines: list[bytes]) -> None:
    errorlog.check_log(b"\n".join(lines))


@few
@given(st.sampled_from(["5.6.24 crash", "5.7.22 crash", "8.0.15", "mariadb-10.2.11 crash"]),
       st.lists(st.sampled_from(ARRIVALS), max_size=40))  # fmt: skip
def test_random_lines_arriving_at_random_times(head: str, lines: list[bytes]) -> None:
    errorlog.check_arrivals(b"\n".join((head.encode(), *lines)))


@few
@given(st.from_regex(r"(?:(?:mysql|mariadb|percona)[-:])?\d{1,4}(?:\.\d{1,5}){1,3}[-+~_.:A-Za-z0-9]{0,20}"))
def test_random_versions(text: str) -> None:
    options.check_version(text.encode())


@few
@given(st.sampled_from(SEEDS["settings"]), st.text(max_size=30), st.integers(0, 60))
def test_random_text_in_a_setting(seed: bytes, text: str, at: int) -> None:
    options.check_setting(seed[:at] + text.encode() + seed[at:])


@few
@given(st.from_regex(r"[0-9]{1,40}(?:\.[0-9]{1,40})?[kmgtKMGT]?(?:i?[bB])?", fullmatch=True))
def test_random_amounts(text: str) -> None:
    for name in ("read-iops", "read-bps", "memory", "cpus", "tables", "fail-over"):
        options.check_setting(f"{name}\n{text}".encode())


@few
@given(st.sampled_from(sorted(SEEDS["commands"])), st.lists(st.sampled_from(WORDS), max_size=4))
def test_random_words_on_a_command_line(line: bytes, more: list[bytes]) -> None:
    options.check_command(b"\n".join((line, *more)))


@few
@given(st.sampled_from(SEEDS["report"]), st.integers(0, 2**32))
def test_random_changes_of_a_session(seed: bytes, number: int) -> None:
    changed = report.mutate(seed, random.Random(number))  # noqa: S311
    assert changed is not None
    report.check_session(changed)


@very_few
@given(st.sampled_from(SEEDS["pages"]), st.integers(0, 2**32))
def test_reports_of_a_randomly_changed_session(seed: bytes, number: int) -> None:
    report.check_pages(report.mutate(seed, random.Random(number)) or b"")  # noqa: S311

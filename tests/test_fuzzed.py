"""Does what reads the texts of others keep its promises: for what a fuzzer has found (fixtures/fuzz), and for inputs
made at random? A crash that `make fuzz` finds is one more file there."""

from __future__ import annotations

import random

import pytest
from fuzzing import commands, errorlog, pages, passage, report, settings, versions
from fuzzing.every import TARGETS
from fuzzing.target import Target
from hypothesis import given
from hypothesis import settings as run_with
from hypothesis import strategies as st

few = run_with(max_examples=50, deadline=None)
very_few = run_with(max_examples=15, deadline=None)
every_target = pytest.mark.parametrize("target", TARGETS, ids=lambda target: str(target.name))

SEEDS = {target.name: tuple(target.seeds()) for target in TARGETS}
LOG_LINES = sorted({line for seed in SEEDS["errorlog"][:-1] for line in seed.splitlines()})
ARRIVALS = sorted({line for seed in SEEDS["passage"] for line in seed.splitlines()[1:]})
WORDS = sorted({line for seed in SEEDS["commands"] for line in seed.splitlines()})


@every_target
def test_what_was_kept_and_what_it_began_with(target: Target) -> None:
    assert SEEDS[target.name]
    for seed in SEEDS[target.name]:
        target.check(seed)
    for path in target.kept:
        try:
            target.check(path.read_bytes())
        except BaseException as error:
            error.add_note(f"of {path}")
            raise


def test_the_corpora_are_those_of_targets_and_small() -> None:
    names = {target.name for target in TARGETS}
    folders = {path.parent.name: 0 for target in TARGETS for path in target.kept}
    assert set(folders) <= names
    assert sum(path.stat().st_size for target in TARGETS for path in target.kept) < 600_000


@every_target
@very_few
@given(data=st.binary(max_size=300))
def test_any_bytes(target: Target, data: bytes) -> None:
    target.check(data)


@few
@given(st.lists(st.sampled_from(LOG_LINES) | st.binary(max_size=60), max_size=40))
def test_any_lines_of_any_logs(lines: list[bytes]) -> None:
    errorlog.check(b"\n".join(lines))


@few
@given(st.sampled_from(["5.6.24 crash", "5.7.22 crash", "8.0.15", "mariadb-10.2.11 crash"]),
       st.lists(st.sampled_from(ARRIVALS), max_size=40))  # fmt: skip
def test_any_lines_arriving_at_any_time(head: str, lines: list[bytes]) -> None:
    passage.check(b"\n".join((head.encode(), *lines)))


@few
@given(st.from_regex(r"(?:(?:mysql|mariadb|percona)[-:])?\d{1,4}(?:\.\d{1,5}){1,3}[-+~_.:A-Za-z0-9]{0,20}"))
def test_what_looks_like_a_version(text: str) -> None:
    versions.check(text.encode())


@few
@given(st.sampled_from(SEEDS["settings"]), st.text(max_size=30), st.integers(0, 60))
def test_any_text_in_a_setting(seed: bytes, text: str, at: int) -> None:
    settings.check(seed[:at] + text.encode() + seed[at:])


@few
@given(st.from_regex(r"[0-9]{1,40}(?:\.[0-9]{1,40})?[kmgtKMGT]?(?:i?[bB])?", fullmatch=True))
def test_any_amount(text: str) -> None:
    for name in ("read-iops", "read-bps", "memory", "cpus", "tables", "fail-over"):
        settings.check(f"{name}\n{text}".encode())


@few
@given(st.sampled_from(sorted(SEEDS["commands"])), st.lists(st.sampled_from(WORDS), max_size=4))
def test_any_words_on_a_command_line(line: bytes, more: list[bytes]) -> None:
    commands.check(b"\n".join((line, *more)))


@few
@given(st.sampled_from(SEEDS["report"]), st.integers(0, 2**32))
def test_a_session_with_anything_changed_in_it(seed: bytes, number: int) -> None:
    changed = report.mutate(seed, random.Random(number))  # noqa: S311
    assert changed is not None
    report.check(changed)


@very_few
@given(st.sampled_from(SEEDS["pages"]), st.integers(0, 2**32))
def test_a_changed_session_can_be_shown(seed: bytes, number: int) -> None:
    pages.check(report.mutate(seed, random.Random(number)) or b"")  # noqa: S311

"""The fuzzing targets keep their promises for kept inputs (fixtures/fuzz.tar.xz), which have every crash that was
found, and for random inputs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from fuzzing import target as targets
from fuzzing.every import TARGETS
from fuzzing.target import Target
from hypothesis import given
from hypothesis import strategies as st

every_target = pytest.mark.parametrize("target", TARGETS, ids=lambda target: str(target.name))
SEEDS = {target.name: tuple(target.seeds()) for target in TARGETS}
SLOW = ("pages", "report", "templates")


@every_target
def test_stored_inputs_and_seeds(target: Target) -> None:
    kept = target.kept()
    assert SEEDS[target.name]
    assert kept
    assert sum(map(len, kept.values())) < 100_000
    for seed in SEEDS[target.name]:
        target.check(seed)
    for name, data in kept.items():
        try:
            target.check(data)
        except BaseException as error:
            error.add_note(f"of {target.name}/{name}")
            raise


def test_inputs_of_one_target_are_replaced_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "CORPORA", tmp_path / "inputs.tar.xz")
    targets.write_corpora({"pages/a": b"1", "pages/b": b"2", "report/a": b"3"})
    pages, report = (next(one for one in TARGETS if one.name == name) for name in ("pages", "report"))
    pages.keep({"b": b"2", "c": b""})
    assert (pages.kept(), report.kept()) == ({"b": b"2", "c": b""}, {"a": b"3"})


@every_target
@given(data=st.binary(max_size=300))
def test_random_bytes(target: Target, data: bytes) -> None:
    target.check(data)


@pytest.mark.parametrize(
    ("target", "count"),
    [(target, 15 if target.name in SLOW else 100) for target in TARGETS],
    ids=[target.name for target in TARGETS],
)
def test_mutated_inputs(target: Target, count: int) -> None:
    for seed in range(count):
        data = mutated(target, random.Random(seed))  # noqa: S311
        try:
            target.check(data)
        except BaseException as error:
            error.add_note(f"seed {seed}: {data[:2000]!r}")
            raise


def mutated(target: Target, rng: random.Random) -> bytes:
    """Mixes the lines of two seeds below the first line of one of them, and inserts words and characters."""
    one, other = rng.choices(SEEDS[target.name], k=2)
    if target.mutate is not None:
        return target.mutate(one, rng) or b""
    head, *lines = [*one.split(b"\n"), *other.split(b"\n")]
    data = b"\n".join((head, *rng.sample(lines, rng.randint(0, min(40, len(lines))))))
    for _ in range(rng.randint(0, 4)):
        word = rng.choice((*target.words, *"\0\n \u00b9\U0001f600-.9\\'\"")).encode()
        at = rng.randint(0, len(data))
        data = data[:at] + word * rng.choice((1, 1, 40)) + data[at + rng.randint(0, 3) :]
    return data

"""Runs one target under atheris: `python -m fuzzing.run NAME PROGRAM [OPTION...] FOLDER...`, with libFuzzer's options,
and the program that it calls to start more of this process. `python -m fuzzing` calls it for all targets."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

import atheris

with atheris.instrument_imports(include=["recovery"]):
    from fuzzing.every import TARGETS
    from fuzzing.target import Target

_BY_BYTES = 0.3
"""Share of the inputs that libFuzzer changes although the target has a mutator."""


def main() -> None:
    name, program, *arguments = sys.argv[1:]
    target = next(one for one in TARGETS if one.name == name)
    own = {} if target.mutate is None else {"custom_mutator": _mutator(target)}
    atheris.Setup([program, *arguments], target.check, **own)
    atheris.Fuzz()


def _mutator(target: Target) -> Callable[[bytes, int, int], bytes]:
    def mutated(data: bytes, max_bytes: int, seed: int) -> bytes:
        rng = random.Random(seed)  # noqa: S311 - nothing here is a secret
        found = None if target.mutate is None or rng.random() < _BY_BYTES else target.mutate(data, rng)
        return found if found is not None and len(found) <= max_bytes else bytes(atheris.Mutate(data, max_bytes))

    return mutated


if __name__ == "__main__":
    main()

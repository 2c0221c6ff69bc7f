"""One target under atheris, until it has been run so often or has crashed: `python -m fuzzing.run NAME PROGRAM
[OPTION...] FOLDER...`, with libFuzzer's own options, and the program that it calls for more of this process.
`python -m fuzzing` calls it for all."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

import atheris

with atheris.instrument_imports(include=["recovery"]):
    from fuzzing.every import TARGETS
    from fuzzing.target import Target

_BY_BYTES = 0.3
"""Of the inputs that a target can change by itself, this share is changed by libFuzzer all the same."""


def main() -> None:
    name, program, *arguments = sys.argv[1:]
    target = next(one for one in TARGETS if one.name == name)
    own = {} if target.mutate is None else {"custom_mutator": _mutator(target)}
    atheris.Setup([program, *arguments], target.check, **own)
    atheris.Fuzz()


def _mutator(target: Target) -> Callable[[bytes, int, int], bytes]:
    def mutated(data: bytes, most_bytes: int, seed: int) -> bytes:
        rng = random.Random(seed)  # noqa: S311 - nothing here is a secret
        found = None if target.mutate is None or rng.random() < _BY_BYTES else target.mutate(data, rng)
        if found is None or len(found) > most_bytes:
            return bytes(atheris.Mutate(data, most_bytes))
        return found

    return mutated


if __name__ == "__main__":
    main()

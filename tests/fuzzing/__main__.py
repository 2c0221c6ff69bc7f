"""All targets under a coverage-guided fuzzer, one after the other: how often was each run, what was new, what crashed?
`python -m fuzzing [--executions N] [--seed N] [--only NAME]`, and `--merge` to keep what a run has found."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path
from shlex import quote

from fuzzing.every import TARGETS
from fuzzing.target import CORPORA, ROOT, Target

FOUND = ROOT / "build" / "fuzz"
"""What runs have found that is not kept yet, and what they printed."""
_MOST_S = 25
"""For one input: beyond, it hangs."""
_MOST_MB = 2048
_BY_CONTENT = re.compile(r"[0-9a-f]{40}")
"""How libFuzzer calls what it keeps. Other names are those of regressions: they stay."""
_EXECUTED = re.compile(r"stat::number_of_executed_units:\s*(\d+)|^#(\d+)\s", re.MULTILINE)
"""At the end, or as far as it had come."""
_NEW = re.compile(r"stat::new_units_added:\s*(\d+)")


@dataclass(frozen=True)
class Result:
    target: Target
    executions: int
    new: int
    crashes: tuple[Path, ...]
    seconds: float
    ended: bool
    """By itself, after as many executions as were asked for."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="fuzzing", description=__doc__)
    parser.add_argument("--executions", type=int, default=1_000_000, help="of all targets together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=[target.name for target in TARGETS], help="this target, with all executions")
    parser.add_argument("--merge", action="store_true", help="keep the fewest inputs that reach all that is reached")
    asked = parser.parse_args(arguments)
    chosen = [target for target in TARGETS if asked.only in (None, target.name)]
    if asked.merge:
        return max(map(_merge, chosen))
    whole = sum(target.share for target in chosen)
    results = []
    for target in chosen:
        results.append(_fuzz(target, max(1, asked.executions * target.share // whole), asked.seed))
        _tell(results[-1])
    _tell_all(results)
    return 0 if all(result.ended and not result.crashes for result in results) else 1


def _fuzz(target: Target, executions: int, seed: int) -> Result:
    found = FOUND / target.name
    found.mkdir(parents=True, exist_ok=True)
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        crashes, words = Path(folder) / "crashes", Path(folder) / "words"
        crashes.mkdir()
        words.write_text("".join(_quoted(word) for word in target.words), encoding="ascii")
        options = [f"-runs={executions}", f"-seed={seed}", f"-artifact_prefix={crashes}/"]
        options += [f"-dict={words}"] if target.words else []
        done = _called(target, *options, str(found), *_inputs(target, Path(folder)))
        kept = tuple(_kept(target, crash) for crash in sorted(crashes.iterdir()))
    (FOUND / f"{target.name}.log").write_bytes(done.stdout)
    printed = done.stdout.decode(errors="replace")
    return Result(
        target, _number(_EXECUTED, printed), _number(_NEW, printed), kept, time.monotonic() - began_s,
        ended=done.returncode == 0,
    )  # fmt: skip


def _called(target: Target, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    # To merge, libFuzzer calls itself by its own first word, which must be a program.
    program = FOUND / f"{target.name}.sh"
    FOUND.mkdir(parents=True, exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {quote(sys.executable)} -m fuzzing.run {target.name} "$0" "$@"\n')
    program.chmod(0o755)
    command = [
        str(program), f"-max_len={target.most_bytes}", f"-timeout={_MOST_S}", f"-rss_limit_mb={_MOST_MB}",
        "-print_final_stats=1", *arguments,
    ]  # fmt: skip
    settings = {name: value for name, value in os.environ.items() if not name.startswith("RECOVERY_")}
    environment = {**settings, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "tests"))), "PYTHONHASHSEED": "0"}
    return subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )


def _inputs(target: Target, folder: Path) -> Iterator[str]:
    """Of which a run begins, beside what earlier ones have found: nothing is written to these."""
    seeds = folder / "seeds"
    seeds.mkdir()
    for seed in target.seeds():
        (seeds / sha1(seed, usedforsecurity=False).hexdigest()).write_bytes(seed)
    yield str(seeds)
    if (CORPORA / target.name).is_dir():
        yield str(CORPORA / target.name)


def _quoted(word: str) -> str:
    """As libFuzzer reads words."""
    letters = (chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\' else f"\\x{byte:02X}" for byte in word.encode())
    return f'"{"".join(letters)}"\n'


def _kept(target: Target, crash: Path) -> Path:
    """Among the inputs that every test run tries."""
    (CORPORA / target.name).mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(crash, CORPORA / target.name / crash.name))


def _merge(target: Target) -> int:
    with tempfile.TemporaryDirectory() as folder:
        merged = Path(folder) / "merged"
        merged.mkdir()
        found = [str(path) for path in (FOUND / target.name,) if path.is_dir()]
        # By what was reached, and not by how often.
        done = _called(target, "-merge=1", "-use_counters=0", str(merged), *_inputs(target, Path(folder)), *found)
        if done.returncode != 0:
            sys.stderr.write(done.stdout.decode(errors="replace"))
            return 1
        there = CORPORA / target.name
        there.mkdir(parents=True, exist_ok=True)
        for path in there.iterdir():
            if _BY_CONTENT.fullmatch(path.name):
                path.unlink()
        inputs = sorted(merged.iterdir())
        for path in inputs:
            shutil.copy(path, there / path.name)
    size = sum(path.stat().st_size for path in target.kept)
    sys.stdout.write(f"{target.name}: {len(inputs)} inputs, with those of regressions {size:,} bytes\n")
    return 0


def _number(pattern: re.Pattern[str], printed: str) -> int:
    return max((int(one[one.lastindex or 0]) for one in pattern.finditer(printed)), default=0)


_ROW = "{:12} {:>12} {:>10} {:>8} {:>9}\n"


def _tell(result: Result) -> None:
    name = result.target.name
    if result.crashes or not result.ended:
        sys.stdout.write(f"{name}: see {FOUND / name}.log\n")
    for crash in result.crashes:
        sys.stdout.write(f"{name}: CRASH, kept as {crash.relative_to(ROOT)}\n")
    sys.stdout.flush()


def _tell_all(results: Sequence[Result]) -> None:
    sys.stdout.write(_ROW.format("target", "executions", "new inputs", "crashes", "seconds"))
    for one in results:
        row = (f"{one.executions:,}", f"{one.new:,}", f"{len(one.crashes):,}", f"{one.seconds:.0f}")
        sys.stdout.write(_ROW.format(one.target.name, *row))
    whole = (sum(one.executions for one in results), sum(one.new for one in results))
    crashes, seconds = sum(len(one.crashes) for one in results), sum(one.seconds for one in results)
    sys.stdout.write(_ROW.format("all", f"{whole[0]:,}", f"{whole[1]:,}", f"{crashes:,}", f"{seconds:.0f}"))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)

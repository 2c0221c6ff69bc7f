"""Runs all targets under a coverage-guided fuzzer, one after the other: `python -m fuzzing [--executions N] [--seed N]
[--only NAME]`; `--merge` keeps the fewest inputs that reach all the code that a run has reached."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from hashlib import sha1
from pathlib import Path
from shlex import quote

from made import take_arguments

from fuzzing.every import TARGETS
from fuzzing.target import CORPORA, ROOT, Target

FOUND = ROOT / "build" / "fuzz"
"""The new inputs of earlier runs, and the fuzzer's output."""
_OPTIONS = ("-timeout=25", "-rss_limit_mb=2048", "-print_final_stats=1")
_BY_CONTENT = re.compile(r"[0-9a-f]{40}")
"""Names that libFuzzer gives. Files of other names are regressions, which are never removed."""
_EXECUTED = re.compile(r"stat::number_of_executed_units:\s*(\d+)|^#(\d+)\s", re.MULTILINE)
"""At the end, or as far as the run came."""
_NEW = re.compile(r"stat::new_units_added:\s*(\d+)")
_ROW = "{:12} {:>12,} {:>10,} {:>8,} {:>8.0f}s\n"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="fuzzing", description=__doc__)
    parser.add_argument("--executions", type=int, default=1_000_000, help="of all targets together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=[target.name for target in TARGETS], help="this target, with all executions")
    parser.add_argument("--merge", action="store_true", help="keep the fewest inputs that reach all that is reached")
    asked = parser.parse_args(arguments)
    chosen = [target for target in TARGETS if asked.only in (None, target.name)]
    FOUND.mkdir(parents=True, exist_ok=True)
    if asked.merge:
        return max(map(_merge, chosen))
    all_shares = sum(target.share for target in chosen)
    sys.stdout.write(f"{'target':12} {'executions':>12} {'new inputs':>10} {'crashes':>8} {'time':>9}\n")
    passed = [_fuzz(one, max(1, asked.executions * one.share // all_shares), asked.seed) for one in chosen]
    return 0 if all(passed) else 1


def _fuzz(target: Target, executions: int, seed: int) -> bool:
    """Prints a row for the target, and returns whether it ended by itself and without a crash."""
    found = FOUND / target.name
    found.mkdir(exist_ok=True)
    start_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        crashes, words = Path(folder) / "crashes", Path(folder) / "words"
        crashes.mkdir()
        words.write_text("".join(_dictionary_entry(word) for word in target.words), encoding="ascii")
        options = [f"-runs={executions}", f"-seed={seed}", f"-artifact_prefix={crashes}/"]
        options += [f"-dict={words}"] if target.words else []
        done = _run(target, *options, str(found), *_inputs(target, Path(folder)))
        # They become inputs of every test run.
        kept = _contents(crashes)
        if kept:
            target.keep({**target.kept(), **kept})
    (FOUND / f"{target.name}.log").write_bytes(done.stdout)
    output = done.stdout.decode(errors="replace")
    row = (_number(_EXECUTED, output), _number(_NEW, output), len(kept), time.monotonic() - start_s)
    sys.stdout.write(_ROW.format(target.name, *row))
    for crash in kept:
        sys.stdout.write(f"{target.name}: CRASH, kept as {crash} in {CORPORA.relative_to(ROOT)}\n")
    if kept or done.returncode:
        sys.stdout.write(f"{target.name}: see {FOUND / target.name}.log\n")
    sys.stdout.flush()
    return done.returncode == 0 and not kept


def _run(target: Target, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    # To merge, libFuzzer calls itself by its own first word, which must be a program.
    program = FOUND / f"{target.name}.sh"
    program.write_text(f'#!/bin/sh\nexec {quote(sys.executable)} -m fuzzing.run {target.name} "$0" "$@"\n')
    program.chmod(0o755)
    command = [str(program), f"-max_len={target.max_bytes}", *_OPTIONS, *arguments]
    settings = {name: value for name, value in os.environ.items() if not name.startswith("RECOVERY_")}
    environment = {
        **settings,
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "proofs", ROOT / "tests" / "helpers"))),
        "PYTHONHASHSEED": "0",
    }
    return subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )


def _inputs(target: Target, folder: Path) -> list[str]:
    """Returns the folder of the first inputs, which the fuzzer only reads."""
    first = folder / "first"
    first.mkdir()
    seeds = {sha1(seed, usedforsecurity=False).hexdigest(): seed for seed in target.seeds()}
    for name, data in {**seeds, **target.kept()}.items():
        (first / name).write_bytes(data)
    return [str(first)]


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def _dictionary_entry(word: str) -> str:
    letters = (chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\' else f"\\x{byte:02X}" for byte in word.encode())
    return f'"{"".join(letters)}"\n'


def _number(pattern: re.Pattern[str], output: str) -> int:
    return max((int(one[one.lastindex or 0]) for one in pattern.finditer(output)), default=0)


def _merge(target: Target) -> int:
    with tempfile.TemporaryDirectory() as folder:
        merged = Path(folder) / "merged"
        merged.mkdir()
        found = [str(path) for path in (FOUND / target.name,) if path.is_dir()]
        # By what was reached, and not by how often.
        done = _run(target, "-merge=1", "-use_counters=0", str(merged), *_inputs(target, Path(folder)), *found)
        if done.returncode != 0:
            sys.stderr.write(done.stdout.decode(errors="replace"))
            return 1
        regressions = {name: data for name, data in target.kept().items() if not _BY_CONTENT.fullmatch(name)}
        kept = {**regressions, **_contents(merged)}
        target.keep(kept)
    size = sum(map(len, kept.values()))
    sys.stdout.write(f"{target.name}: {len(kept)} inputs with those of regressions, {size:,} bytes\n")
    return 0


if __name__ == "__main__":
    take_arguments("EXECUTIONS")
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)

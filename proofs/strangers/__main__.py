"""`python -m strangers run --cases 200 --seed 1 --folder DIR`, and `python -m strangers report DIR`."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from made import take_arguments

from strangers import cases, report
from strangers.servers import Templates


def _chosen(arguments: argparse.Namespace) -> Iterator[cases.Case]:
    draw = cases.draw_fast if arguments.fast else cases.draw_long if arguments.long else cases.draw
    left = arguments.cases
    for seed in count(arguments.seed):
        if left == 0:
            return
        case = draw(seed)
        if case.matches(arguments.only):
            left -= 1
            yield case


def _run(arguments: argparse.Namespace) -> int:
    folder: Path = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    until = time.monotonic() + arguments.minutes * 60 if arguments.minutes else None
    with tempfile.TemporaryDirectory(prefix="strangers") as made:
        templates = Templates(Path(made))
        for number, case in enumerate(_chosen(arguments), 1):
            if until is not None and time.monotonic() > until:
                report.say(f"{arguments.minutes} minutes are over after {number - 1} cases")
                break
            stored = folder / f"{case.seed:06}.json"
            if stored.exists() and arguments.cases > 1:
                continue
            record = cases.run(case, templates)
            stored.write_text(json.dumps(record, indent=1))
            report.say(f"[{number}/{arguments.cases}] {report.line(record)}")
            for problem in record["problems"]:
                report.say(f"    {problem}")
            if record["problems"]:
                failed += 1
                report.say(f"    again: {case.command}")
    report.say(f"{failed} cases with problems; `python -m strangers report {folder}` prints the tables")
    return 1 if failed else 0


def _stop(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m strangers", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run")
    run.add_argument("--cases", type=int, default=20)
    run.add_argument("--seed", type=int, default=1)
    run.add_argument(
        "--only", action="append", default=[], help="a version, kind, load, limited, busy …; repeated: all of them"
    )
    run.add_argument("--folder", type=Path, default=Path("results/strangers"))
    run.add_argument("--minutes", type=float, default=None)
    run.add_argument("--fast", action="store_true", help="the small cases of the tests")
    run.add_argument("--long", action="store_true", help="long starts: estimate, watch and analyze only")
    run.set_defaults(call=_run)
    printed = verbs.add_parser("report")
    printed.add_argument("folder", type=Path)
    printed.set_defaults(call=lambda arguments: report.print_tables(arguments.folder))
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _stop)
    try:
        return int(arguments.call(arguments))
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; the finished cases are kept\n")
        return 130


if __name__ == "__main__":
    take_arguments()
    sys.exit(main())

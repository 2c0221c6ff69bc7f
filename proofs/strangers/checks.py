"""Runs the tool's commands as a stranger would, and compares what they say with what is known."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from strangers.directories import Truth
from strangers.servers import Build

TOOL = (sys.executable, "-m", "recovery")
# A log of whole seconds, and the client that asks every 10 ms.
CLOCK_S = 0.6
_GAUGE = re.compile(r"^recovery_estimate_(\w+?)\{(.*)\} (\S+)$")
# Redo is read and applied in turns: one time left may cover both.
_REDO = ("redo scan", "redo apply")

Json = dict[str, Any]


def environment(folder: Path) -> dict[str, str]:
    own = {"RECOVERY_HOST_LOCK": str(folder / "host.lock"), "RECOVERY_ENGINE": "local", "NO_COLOR": "1"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RECOVERY_")}
    if "RECOVERY_CACHE" in os.environ:
        own["RECOVERY_CACHE"] = os.environ["RECOVERY_CACHE"]
    return {**kept, **own}


def tool(folder: Path, *arguments: str, within_s: float = 300) -> subprocess.CompletedProcess[str]:
    process = subprocess.Popen(
        [*TOOL, *arguments],
        env=environment(folder),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    try:
        out, errors = process.communicate(timeout=within_s)
    finally:
        end(process)
    return subprocess.CompletedProcess(arguments, process.returncode, out, errors)


def end(process: subprocess.Popen[Any]) -> None:
    """Let a command of the tool end its server before it is killed."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def traceback_in(what: str, text: str) -> list[str]:
    if "Traceback (most recent call last)" not in text:
        return []
    return [f"{what}: a traceback: {text.strip().splitlines()[-1][:300]}"]


def _last_words(done: subprocess.CompletedProcess[str]) -> str:
    return " / ".join((done.stderr or done.stdout).strip().splitlines()[-3:])[:500]


# Estimate


def estimate(folder: Path, socket: Path, reads: int | None) -> tuple[Json, list[str]]:
    """Ask before the kill: low, about, high and the parts; no answer is a problem."""
    begun = time.monotonic()
    asked = ["estimate", "--socket", str(socket), *([] if reads is None else ["--reads", str(reads)])]
    stored = folder / "estimate.json"
    done = tool(folder, *asked, "--openmetrics", "-", "--json", str(stored))
    problems = traceback_in("estimate", done.stderr)
    answer: Json = {"took_s": time.monotonic() - begun, "parts": {}, "words": done.stderr.strip()[:600]}
    for line in done.stdout.splitlines():
        if found := _GAUGE.match(line):
            name, labels, value = found.groups()
            part = re.search(r'part="([^"]*)"', labels)
            if part:
                answer["parts"][part.group(1)] = float(value)
            else:
                answer[name] = float(value)
    if done.returncode or "seconds" not in answer:
        problems.append(f"estimate: no answer ({done.returncode}): {_last_words(done)}")
        return answer, problems
    answer.update(low=answer.pop("low_seconds"), about=answer.pop("seconds"), high=answer.pop("high_seconds"))
    if not 0 < answer["low"] <= answer["about"] <= answer["high"]:
        problems.append(f"estimate: {answer['low']} to {answer['high']} does not contain {answer['about']}")
    answer["state"] = json.loads(stored.read_text())
    total = sum(answer["parts"].values())
    if abs(total - answer["about"]) > 0.02 * answer["about"] + 0.01:
        problems.append(f"estimate: the parts add up to {total:.2f} s, not {answer['about']:.2f} s")
    return answer, problems


# Watch


class Watching:
    """`recovery watch --json` during a start, and what each look said."""

    def __init__(self, folder: Path, pid: int) -> None:
        self.file = folder / "watch.jsonl"
        self.errors = folder / "watch.err"
        with self.errors.open("wb") as errors, self.file.open("wb") as looks:
            self.process = subprocess.Popen(
                [*TOOL, "watch", "--json=-", str(pid)],
                env=environment(folder),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=looks,
                stderr=errors,
            )

    def finish(self, ready_at: float, within_s: float = 15) -> tuple[list[Json], list[str]]:
        """Looks with the truth beside them. The command has to end by itself once the server is ready."""
        problems: list[str] = []
        try:
            code = self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.stop()
            code = None
        said = self.errors.read_text("utf-8", "replace")
        problems += traceback_in("watch", said)
        looks = [json.loads(line) for line in self.file.read_text().splitlines()]
        if code is None and not any("rollback" in (look.get("phase") or "") for look in looks[-1:]):
            problems.append(
                f"watch: still running {within_s:.0f} s after ready; its last look: {str(looks[-1:])[:300]}"
            )
        elif code not in (None, 0) and not said.startswith("Traceback"):
            problems.append(f"watch: exit {code} for a start that became ready: {said.strip()[-300:]}")
        if looks and looks[-1]["state"] not in ("ready", "progressing"):
            problems.append(f"watch: the last look says {looks[-1]['state']}: {looks[-1]['text'][:200]}")
        states = {look["state"] for look in looks if _at(look) < ready_at}
        problems += [
            f"watch: says {state} of a start that is healthy" for state in sorted(states - {"progressing", "ready"})
        ]
        early = [look for look in looks if look["state"] == "ready" and _at(look) < ready_at - 1]
        if early:
            problems.append(f"watch: says ready {ready_at - _at(early[0]):.1f} s before the server answers")
        return [_with_truth(looks, number, ready_at) for number in range(len(looks))], problems

    def stop(self) -> None:
        end(self.process)


def _at(look: Json) -> float:
    return datetime.fromisoformat(look["at"]).timestamp()


def _with_truth(looks: list[Json], number: int, ready_at: float) -> Json:
    """Seconds until the phase ended: between its last look and the first one of another."""
    look = looks[number]
    at = _at(look)
    kept = {
        name: look.get(name)
        for name in ("state", "phase", "done", "total", "unit", "rate", "phase_s", "left_s", "text")
    }
    kept["to_ready_s"] = ready_at - at
    if look["state"] != "ready" and look.get("left_s"):
        kept["phase_truth_s"] = _until_other(looks, number, ready_at, (look["phase"],))
        if any(name in (look["phase"] or "") for name in _REDO):
            kept["redo_truth_s"] = _until_other(looks, number, ready_at, _REDO)
    return kept


def _until_other(looks: list[Json], number: int, ready_at: float, names: tuple[str | None, ...]) -> tuple[float, float]:
    at = last = _at(looks[number])
    for later in looks[number + 1 :]:
        phase = later.get("phase") or ""
        if later["state"] == "ready" or not any(name and name in phase for name in names):
            return last - at, min(_at(later), max(ready_at, last)) - at
        last = _at(later)
    return last - at, max(ready_at, last) - at


# Analyze


def analyze(folder: Path, log: Path, startup_s: float, kinds: tuple[str, ...] = ("crash",)) -> tuple[Json, list[str]]:
    """The last start of the log against the clock of the one who started it, and against the kinds that it may say."""
    done = tool(folder, "analyze", "--json=-", str(log))
    problems = traceback_in("analyze", done.stderr)
    if done.returncode:
        return {}, [*problems, f"analyze: exit {done.returncode}: {_last_words(done)}"]
    starts = json.loads(done.stdout)["logs"][0]["starts"]
    if not starts:
        return {}, [*problems, "analyze: no start in the log"]
    last: Json = starts[-1]
    if last["outcome"] != "ready":
        problems.append(f"analyze: {last['outcome']} for a start that became ready")
    if last["kind"] not in kinds:
        problems.append(f"analyze: kind {last['kind']}, and it is {kinds[0]}")
    said = last["startup_s"]
    slack = CLOCK_S + 0.1 * startup_s + (1.0 if last["whole_seconds"] else 0.0)
    # What passes before the first line of the log no log tells.
    if said is None or not startup_s / 2 - slack <= said <= startup_s + slack:
        problems.append(f"analyze: startup {said} s, and the clock says {startup_s:.2f} s")
    total = sum((last.get("seconds") or {}).values())
    if said is not None and abs(total - said) > 0.02:
        problems.append(f"analyze: the phases add up to {total:.2f} s, not {said:.2f} s")
    kept = {
        name: last.get(name) for name in ("kind", "outcome", "startup_s", "seconds", "whole_seconds", "named_share")
    }
    return {**kept, "starts": len(starts), "said": [start["kind"] for start in starts]}, problems


# Own data


@dataclass(frozen=True)
class OwnData:
    as_is: bool
    datadir: Path
    set: tuple[str, ...] = ()


_SAID = re.compile(r"written by (\S+?): (.*?) in ([\d,]+) schemas?")


def _number(words: str, noun: str) -> int | None:
    found = re.search(rf"([\d,]+) (?:\.ibd )?{noun}", words)
    return int(found.group(1).replace(",", "")) if found else None


def own_data(
    folder: Path, build: Build, truth: Truth | None, files: tuple[int, int], asked: OwnData
) -> tuple[Json, list[str]]:
    """A session over the directory: not refused, of this version, with its tables and files, and not void."""
    name = "as it is" if asked.as_is else "own data"
    out = folder / "session.json"
    out.unlink(missing_ok=True)
    arguments = ["cold-recovery", "--datadir", str(asked.datadir), "--runs", "1", "--no-probe", "--no-drop-caches"]
    arguments += ["--yes", "--data", str(folder / "data"), "--results", str(folder / "results"), "--json", str(out)]
    arguments += [*(["--as-is"] if asked.as_is else []), *(f"--set={option}" for option in asked.set)]
    begun = time.monotonic()
    done = tool(folder, *arguments)
    record: Json = {"as_is": asked.as_is, "took_s": time.monotonic() - begun, "exit": done.returncode}
    problems = traceback_in(name, done.stderr)
    if done.returncode:
        problems.append(f"{name}: exit {done.returncode}: {_last_words(done)}")
    if not out.exists():
        return record, problems
    session = json.loads(out.read_text())
    notes = " ".join(session["notes"])
    record.update(notes=notes[:400], status=session["status"])
    if session["versions"] != [build.version]:
        problems.append(f"{name}: version {session['versions']}, and it is {build.version}")
    problems += _counts(name, notes, truth, files)
    problems += _runs(name, session, record)
    return record, problems


def _counts(name: str, notes: str, truth: Truth | None, files: tuple[int, int]) -> list[str]:
    """Numbers of tables, schemas and files: of a table that was being copied at the kill none is known."""
    found = _SAID.search(notes)
    if not found:
        return [f"{name}: does not say what the directory has: {notes[:200]}"]
    problems = []
    said = _number(found.group(2), "tables?"), int(found.group(3).replace(",", ""))
    if truth is not None and said != (truth.tables, truth.schemas):
        problems.append(
            f"{name}: says {said[0]} tables in {said[1]} schemas, and there are {truth.tables} in {truth.schemas},"
            f" in {sum(files)} files"
        )
    said_files = _number(found.group(2), "files?")
    if said_files is not None and said_files not in (files[0], sum(files)):
        problems.append(f"{name}: says {said_files} files, and there are {files[0]} in schemas, {files[1]} beside")
    return problems


def _runs(name: str, session: Json, record: Json) -> list[str]:
    runs = session["runs"]
    record["startup_s"] = [run["metrics"].get("startup_s") for run in runs]
    problems = []
    if not runs:
        problems.append(f"{name}: no run")
    for number, run in enumerate(runs, 1):
        if run["verdict"] not in ("measured", "sampled"):
            problems.append(f"{name}: run {number} is {run['verdict']}: {str(run.get('reason'))[:400]}")
        elif not (run.get("startup") or {}).get("crash_proof"):
            problems.append(f"{name}: run {number} proves no crash recovery")
        if (run.get("contents") or {}).get("rows_lost"):
            problems.append(f"{name}: run {number} lost rows: {run['contents']}")
    return problems

"""Choice of the experiments that fit a given time on this host, and their run one after the other.

Each experiment is a session in the same process, and is requested with the options of its own command. After each one
the scales of the others are chosen again for the remaining time."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from recovery.analysis.compare import incomplete_reason
from recovery.builds import catalog
from recovery.builds.packages import provide_tool
from recovery.builds.resolve import parse_request_or_list
from recovery.cli.measure import request_from_arguments, run_and_show
from recovery.cli.parse import host_capacity, newest_session_folder
from recovery.cli.suite_budget import (
    PLANNED_SHARE,
    Caps,
    Cost,
    Scale,
    allocate_scales,
    estimate_cost,
    experiment_scales,
    limited_by_disk,
    measured_pace,
    short_duration_text,
)
from recovery.cli.suite_published import publication_names, publications
from recovery.cli.suite_report import (
    ExperimentRecord,
    SuiteRecord,
    create_suite_folder,
    save_suite,
    write_suite_reports,
)
from recovery.errors import HostUnfitError, OptionConflictError, RecoveryError, UsageError
from recovery.experiments import find_scenario
from recovery.linux.files import default_data_dir
from recovery.linux.locks import host_lock
from recovery.linux.storage import MAX_USED_SHARE, SPACE_HINT, free_space
from recovery.model import NO_LIMITS, Limits, Version
from recovery.session.engine import choose_engine, resolve_builds
from recovery.session.prepare import check_options
from recovery.session.request import Request, split_versions

# --- Choosing experiments and scales for the budget

DEFAULT_VERSIONS = ("5.7.22", "8.0.31")
"""One version of each series that most of the publications compare."""
_MAX_BUDGET_S = 30 * 86_400.0
_BUDGET = re.compile(r"(?:(?P<h>\d+(?:\.\d+)?)h)?(?:(?P<m>\d+(?:\.\d+)?)m(?:in)?)?(?:(?P<s>\d+(?:\.\d+)?)s)?")


@dataclass(frozen=True)
class SuiteRequest:
    """The request for a whole run of `recovery experiments`."""

    budget_s: float
    versions: tuple[str, ...]
    names: tuple[str, ...] = field(default_factory=publication_names)
    caps: Caps = field(default_factory=Caps)
    shared: tuple[str, ...] = ()
    """Options that are passed on unchanged to every session."""
    data: Path | None = None
    limits: Limits = NO_LIMITS
    """Limits of every server; they are also part of `shared`."""
    left_s: float | None = None
    """Remaining part of the budget; None before the first experiment."""
    pace: float = 1.0
    """Ratio of the actual to the estimated duration so far."""


@dataclass(frozen=True)
class ChosenScale:
    """An experiment with the scale chosen for it."""

    name: str
    request: Request | None
    """None if it is left out."""
    scale: str
    price: Cost
    """Estimate without the pace of this host; that of the smallest scale if it is left out."""
    expected_s: float | None
    """Estimated duration with the pace of this host; None if it is left out."""
    left_out: str | None = None
    """Why it is left out; None if it is not."""
    fits_disk: bool = True
    """Whether its smallest scale fits the disk."""


def parse_budget(text: str) -> float:
    """Parses a duration such as `30m`, `2h`, `1h30m` or `90s`, and returns seconds. A plain number is minutes.

    Raises UsageError if it is invalid, zero or longer than 30 days."""
    word = text.strip().lower().replace(" ", "")
    plain = re.fullmatch(r"\d+(?:\.\d+)?", word)
    match = _BUDGET.fullmatch(f"{word}m" if plain else word)
    hours, minutes, seconds = (float(match[part] or 0) for part in "hms") if match else (0.0, 0.0, 0.0)
    found = 3600 * hours + 60 * minutes + seconds
    if not 0 < found <= _MAX_BUDGET_S:
        raise UsageError(f"BUDGET={text} is no time to measure in", "write it like 30m, 2h or 1h30m; 90 is 90 minutes")
    return found


def requested_versions(given: Sequence[str]) -> tuple[str, ...]:
    """Returns the named versions, or those of `VERSIONS` that this host's CPU can run, or else the default version."""
    named = split_versions(tuple(given))
    at_hand = {str(row.version) for row in catalog.pinned_servers()}
    return named or tuple(version for version in DEFAULT_VERSIONS if version in at_hand) or (catalog.DEFAULT_VERSION,)


@dataclass(frozen=True)
class _ScaleLadder:
    """All scales of an experiment, the smallest first."""

    name: str
    rungs: tuple[Scale, ...]
    requests: tuple[Request, ...]
    prices: tuple[Cost, ...]
    clash: OptionConflictError | None
    """Conflict with the user's options that prevents a larger scale."""


def choose_scales(asked: SuiteRequest) -> tuple[ChosenScale, ...]:
    """Chooses the scale of each experiment, in the order of the publications."""
    releases = tuple(dict.fromkeys(parse_request_or_list(version).like for version in asked.versions))
    host = host_capacity(asked.limits)
    ladders = [
        _scale_ladder(name, asked, experiment_scales(name, host, asked.caps), releases=releases) for name in asked.names
    ]
    whole = _available_cost(asked)
    prices = [[one.at(asked.pace) for one in ladder.prices] for ladder in ladders]
    steps = allocate_scales(prices, whole)
    held = limited_by_disk(prices, steps, whole)
    return tuple(
        _omitted_experiment(ladder, asked, whole)
        if step is None
        else _chosen_scale(ladder, step, asked, by_disk=by_disk)
        for ladder, step, by_disk in zip(ladders, steps, held, strict=True)
    )


def _scale_ladder(
    name: str, asked: SuiteRequest, found: tuple[Scale, ...], *, releases: tuple[Version, ...]
) -> _ScaleLadder:
    """Returns the scales of an experiment, up to the first that conflicts with the user's options.

    A scale conflicts if the user sets an option that the experiment varies itself. Raises OptionConflictError if even
    the smallest scale does."""
    requests, clash = [], None
    for rung in found:
        try:
            requests.append(_scale_request(name, asked, rung))
        except OptionConflictError as error:
            clash = error
            break
    if clash is not None and not requests:
        others = " ".join(other for other in asked.names if other != name)
        hint = f'leave it out, or measure the others: --only "{others}"' if others else "leave it out"
        raise OptionConflictError(f"{name} cannot be measured with {clash.message}", hint) from clash
    prices = tuple(estimate_cost(request, releases) for request in requests)
    return _ScaleLadder(name, found[: len(requests)], tuple(requests), prices, clash)


def _available_cost(asked: SuiteRequest) -> Cost:
    """Returns the time and the disk space that may be used in total."""
    room = free_space(asked.data or default_data_dir())
    seconds = asked.budget_s if asked.left_s is None else asked.left_s
    return Cost(PLANNED_SHARE * seconds, int(MAX_USED_SHARE * room.bytes), int(MAX_USED_SHARE * room.inodes))


def _chosen_scale(ladder: _ScaleLadder, step: int, asked: SuiteRequest, *, by_disk: bool) -> ChosenScale:
    more = "; for more of it the disk is too small" if by_disk else ""
    if ladder.clash is not None and step == len(ladder.rungs) - 1:
        more = f"; there is no more of it with {ladder.clash.message.partition(':')[0]}"
    cost = ladder.prices[step]
    return ChosenScale(
        ladder.name, ladder.requests[step], f"{ladder.rungs[step].told}{more}", cost, cost.at(asked.pace).seconds
    )


def _omitted_experiment(ladder: _ScaleLadder, asked: SuiteRequest, whole: Cost) -> ChosenScale:
    cost = ladder.prices[0]
    what = f"its smallest scale ({ladder.rungs[0].told})"
    fits_disk = cost.is_on_disk(whole)
    if not fits_disk:
        why = f"{what} needs {cost.bytes / 1e9:.1f} GB of disk, and {whole.bytes / 1e9:.1f} GB may be used"
    else:
        room = (
            "has no room"
            if asked.left_s is None
            else f"had no room any more ({short_duration_text(asked.left_s)} were left)"
        )
        took = short_duration_text(cost.at(asked.pace).seconds)
        why = f"{what} takes about {took}, for which the budget {room} beside the others"
    return ChosenScale(ladder.name, None, "", cost, None, why, fits_disk)


def require_any_experiment(asked: SuiteRequest, found: Sequence[ChosenScale]) -> None:
    """Raises an error if no experiment can be measured.

    It is a HostUnfitError if no experiment fits the disk, and otherwise a UsageError with a sufficient budget."""
    if any(one.request for one in found):
        return
    able = [one.price.seconds for one in found if one.fits_disk]
    if not able:
        raise HostUnfitError(f"no experiment fits the disk: {found[0].name} at {found[0].left_out}", SPACE_HINT)
    least, every = (math.ceil(seconds / PLANNED_SHARE / 60) for seconds in (min(able), sum(able)))
    rest = f", or BUDGET={every}m for all of them at their smallest" if every > least else ""
    raise UsageError(
        f"in {short_duration_text(asked.budget_s)} no experiment can be measured, not even at its smallest scale",
        f"give BUDGET={least}m for the shortest{rest}",
    )


def _scale_request(name: str, asked: SuiteRequest, rung: Scale) -> Request:
    words = ["--version", " ".join(asked.versions), *rung.words, *asked.shared]
    return request_from_arguments(name, words)


# --- Running the experiments

_INTERRUPTED = 130
"""Exit code after an interrupt by the user."""
_SLOW_PACE = 1.2
"""Pace above which the user is informed."""
Say = Callable[[str], None]


def fetch_prerequisites(found: Sequence[ChosenScale], say: Say) -> None:
    """Fetches servers and programs before the budget starts to count, and checks the options of all sessions.

    A missing server is an error, because nothing can be measured. A missing program is ignored here: the experiment
    that needs it reports it."""
    requests = [one.request for one in found if one.request is not None]
    programs = dict.fromkeys(name for request in requests for name in find_scenario(request.scenario).programs)
    with host_lock():
        engine, builds = resolve_builds(requests[0], choose_engine(requests[0], say), say)
        for request in requests:
            check_options(request, engine, builds, say)
        for name in programs:
            with suppress(RecoveryError):
                provide_tool(name, offline=requests[0].offline, say=say)


def new_suite_record(command: str, asked: SuiteRequest, found: Sequence[ChosenScale]) -> SuiteRecord:
    """Returns the record of a run that starts now."""
    return SuiteRecord(
        command=command,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        budget_s=asked.budget_s,
        versions=asked.versions,
        steps=tuple(_planned_step(ExperimentRecord(name=one.name), one) for one in found),
    )


def _planned_step(step: ExperimentRecord, one: ChosenScale) -> ExperimentRecord:
    command = one.request.command if one.request else None
    return replace(step, command=command, scale=one.scale, expected_s=one.expected_s, left_out=one.left_out)


class SuiteRunner:
    """Runs all experiments and keeps the record of the run up to date.

    The record is written after each experiment and the reports are written even if the run ends early."""

    def __init__(self, journey: SuiteRecord, asked: SuiteRequest, results: Path, *, say: Say, quiet: bool) -> None:
        self.journey = journey
        self.folder = create_suite_folder(results)
        self._asked = asked
        self._results = results
        self._say = say
        self._quiet = quiet
        self._began_s = time.monotonic()
        self._ended: list[tuple[Cost, float]] = []

    def run(self, found: Sequence[ChosenScale]) -> int:
        """Runs the experiments and returns the exit code: 1 if one of them failed or none was measured, otherwise 0."""
        save_suite(self.journey, self.folder)
        status = "aborted"
        try:
            self._all(found)
            steps = self.journey.steps
            failed = any(step.error for step in steps) or not any(step.session for step in steps)
            status = "failed" if failed else "finished"
        except BaseException as ended:
            told = getattr(ended, "exit_code", None) == _INTERRUPTED
            status = "interrupted" if told or isinstance(ended, KeyboardInterrupt) else status
            raise
        finally:
            self.journey = replace(self.journey, status=status, took_s=round(self._spent_s, 1))
            save_suite(self.journey, self.folder)
            write_suite_reports(self.folder)
        return 1 if failed else 0

    @property
    def _spent_s(self) -> float:
        return time.monotonic() - self._began_s

    def _all(self, found: Sequence[ChosenScale]) -> None:
        """Runs the first experiment that fits, then chooses again among the others for the remaining time.

        An experiment that was left out may fit later, if others took less time than estimated."""
        rest = list(found)
        while able := [one for one in rest if one.request is not None]:
            self._keep(self._measured(able[0]))
            names = tuple(one.name for one in rest if one is not able[0])
            rest = list(self._anew(names)) if names else []
        for one in rest:
            self._say(f"{self._which(one.name)}: left out: {one.left_out}")

    def _anew(self, names: tuple[str, ...]) -> tuple[ChosenScale, ...]:
        """Chooses the scales of the remaining experiments again, and records changes of the plan."""
        left_s, pace = self._asked.budget_s - self._spent_s, measured_pace(self._ended)
        found = choose_scales(replace(self._asked, names=names, left_s=max(0.0, left_s), pace=pace))
        for one in found:
            step = self._step(one.name)
            scales = [each or "left out" for each in (step.planned or step.scale, one.scale)]
            self._keep(replace(_planned_step(step, one), planned=scales[0] if scales[0] != scales[1] else ""))
        if pace > _SLOW_PACE:
            self._say(f"so far it took {pace:.1f} times as long as guessed: the rest is planned by that")
        return found

    def _keep(self, step: ExperimentRecord) -> None:
        self.journey = self.journey.with_step(step)
        save_suite(self.journey, self.folder)

    def _step(self, name: str) -> ExperimentRecord:
        return next(step for step in self.journey.steps if step.name == name)

    def _which(self, name: str) -> str:
        names = [step.name for step in self.journey.steps]
        title = next(f"{known.label} {known.title}" for known in publications() if known.name == name)
        return f"experiment {names.index(name) + 1} of {len(names)}: {title}"

    def _measured(self, one: ChosenScale) -> ExperimentRecord:
        """Runs one experiment and returns its record. An interrupt is recorded and raised again."""
        assert one.request is not None
        assert one.expected_s is not None
        step, which = self._step(one.name), self._which(one.name)
        planned = f" (planned: {step.planned})" if step.planned else ""
        self._say(f"{which}: {one.scale}, about {short_duration_text(one.expected_s)}{planned}")
        before, began_s = newest_session_folder(self._results), time.monotonic()
        error: str | None = None
        try:
            error = incomplete_reason(run_and_show(one.request, quiet=self._quiet))
        except KeyboardInterrupt:
            self._keep(self._over(step, before, began_s, error="it was interrupted"))
            raise
        except (RecoveryError, OSError) as failure:
            error = failure.message if isinstance(failure, RecoveryError) else str(failure)
            if getattr(failure, "exit_code", 1) == _INTERRUPTED:
                self._keep(self._over(step, before, began_s, error="it was interrupted"))
                raise
        if error is not None:
            self._say(f"{which}: {error}")
        took_s = time.monotonic() - began_s
        if error is None or took_s > one.price.seconds:
            self._ended.append((one.price, took_s))
        return self._over(step, before, began_s, error=error)

    def _over(
        self, step: ExperimentRecord, before: Path | None, began_s: float, *, error: str | None
    ) -> ExperimentRecord:
        """Returns the record of an ended experiment, with its session if one was stored, even if it is incomplete."""
        left = newest_session_folder(self._results)
        session = left.name if left is not None and left != before else None
        return replace(step, session=session, took_s=round(time.monotonic() - began_s, 1), error=error)

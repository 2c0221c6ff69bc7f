"""The one loop: (prepare, measure, conclude) x N. Every run is on disk as soon as it ends."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import recovery
from recovery.errors import (
    HostUnfitError,
    RecoveryError,
    ServerFailedError,
    ServerKilledError,
    StoodStillError,
    StorageFailedError,
    TrialVoidError,
)
from recovery.host.ailing import DATA, Folder, blamed, blaming, temporary
from recovery.host.dropping import cold_means
from recovery.host.facts import environment
from recovery.host.limits import Group
from recovery.host.signals import held_back
from recovery.host.standstill import Standstill
from recovery.host.usage import peak_memory_bytes
from recovery.keeping import keep
from recovery.limited import overrun
from recovery.load.build import BuildInterruptedError
from recovery.model import Trial
from recovery.plan import Place, place_of
from recovery.prepared import Prepared
from recovery.request import Request
from recovery.results import failed_run, floor_of, judged, run_of, session_of, with_cpus_shared
from recovery.resumed import Resumed, planned_now
from recovery.scenarios.bench import Bench
from recovery.scenarios.floor import floor as measure_floor
from recovery.scenarios.outcome import Outcome, Worked
from recovery.stagehand import Narrator, Stagehand
from recovery.store import SessionStore
from recovery.stored import Run, Verdict


def limits_not_held(group: Group | None, run: Run) -> str | None:
    """Why this run did not measure what was asked."""
    if group is None:
        return None
    requests, read, seconds = run.read_requests, run.read_bytes, run.first_query_s
    if seconds is None:
        seconds = run.around.seconds if run.around else 0.0
    return group.lost() or overrun(group.limits, read_requests=requests, read_bytes=read, seconds=seconds)


class Loop:
    def __init__(
        self,
        request: Request,
        prepared: Prepared,
        *,
        stagehand: Stagehand,
        scratch: Path,
        narrator: Narrator,
        resumed: Resumed | None = None,
    ) -> None:
        """HostUnfitError where it is not the same session that would go on."""
        self.request = request
        self.prepared = prepared
        self.stagehand = stagehand
        self.scratch = scratch
        self.narrator = narrator
        self.session = session_of(
            request,
            prepared.scenario,
            prepared.plan,
            environment=environment(request.data)
            | dict(prepared.storage)
            | dict(stagehand.engine.facts)
            | {"cold_means": cold_means(prepared.dropper)},
            engine=stagehand.engine.name,
            tool_version=recovery.__version__,
        )
        self.planned = planned_now(request, prepared)
        self._store: SessionStore | None = None
        if resumed is not None:
            self.session = resumed.session(self.session, self.planned)
            self.planned = replace(resumed.planned, boot=self.planned.boot)
            self._store = resumed.store
        self._begun = resumed is not None
        """Something is to be kept: a trial has begun, here or before it ended early."""
        self._given_up: set[Place] = set()
        self._last_place: Place | None = None

    @property
    def store(self) -> SessionStore:
        assert self._store is not None, "it is there from the beginning of the run on"
        return self._store

    def run(self) -> SessionStore:
        status, note = "aborted", None
        try:
            with blaming(Folder(DATA, self.request.data), temporary()):
                self._begin()
                self._trials()
            status = "finished"
        except (KeyboardInterrupt, BuildInterruptedError):
            status = "interrupted"
            raise
        except (RecoveryError, OSError) as error:
            note = str(error)
            raise
        finally:
            # A second Ctrl-C waits for it: what there is would be called that of a killed tool.
            # What ended it is told, and not that its disk does not even take word of that.
            with held_back(), nullcontext() if status == "finished" else suppress(RecoveryError):
                self._end(status, note)
        return self.store

    def _begin(self) -> None:
        """Before anything is built: where the tool is killed meanwhile, the session can go on."""
        if self._store is None:
            self._store = SessionStore.create(self.request.results, self.session, plan=self.planned)
        else:
            self.store.keep_plan(self.planned)
            self.store.update(self.session)
            self.store.is_newest()
            done, planned = len(self.prepared.begun.done), len(self.prepared.plan.trials)
            self.narrator.say(f"{self.store.folder.name} goes on: {done} of {planned} runs have ended")
        self.narrator.keeping_in(self.store.folder)
        self.stagehand.on_build = self._will_build
        self.stagehand.session = self.store.folder.name.partition("-")[0]

    def _will_build(self, key: str) -> None:
        if key not in self.planned.built:
            self.planned = replace(self.planned, built=(*self.planned.built, key))
            self.store.keep_plan(self.planned)

    def _end(self, status: str, note: str | None) -> None:
        if self._store is None:
            return
        if not self._begun:
            self.narrator.keeping_in(self.request.results)
            self.store.discard()
            return
        notes = (*self.session.notes, note) if note else self.session.notes
        host = self.session.environment | {"tool_peak_memory_bytes": peak_memory_bytes()}
        self.session = replace(self.session, status=status, notes=notes, environment=host)
        self.store.finish(self.session)

    def _trials(self) -> None:
        plan, done = self.prepared.plan, self.prepared.begun.done
        if plan.alternating:
            # All are built before any is timed: a build in between would disturb what follows.
            for stage in self.prepared.needed:
                self._bench(stage.place)
        for trial in plan.trials:
            place, is_last = place_of(trial.version, trial.variant), plan.is_last(trial)
            if place not in self._given_up:
                if trial.number not in done:
                    self._at(place, trial)
                is_there = place not in self._given_up
                if is_last and is_there and self.request.floor and not self._has_floor(place):
                    self._floor(trial, self._bench(place))
            if is_last and not plan.alternating:
                self.stagehand.leave(place)

    def _at(self, place: Place, trial: Trial) -> None:
        bench = self._bench(place)
        if place != self._last_place:
            bench.disturbed()
        self._last_place = place
        bench.vary(trial.variant, extra=trial.extra, repeat=trial.repeat)
        self._one(trial, bench)

    def _has_floor(self, place: Place) -> bool:
        """Of before it ended early."""
        over = self.prepared.plan.variants_over(place)
        return any((floor.version, floor.variants) == (str(place.version), over) for floor in self.session.floors)

    def _bench(self, place: Place) -> Bench:
        return self.stagehand.bench(place, self.prepared.dropper, self.scratch)

    def _one(self, trial: Trial, bench: Bench) -> None:
        if not self._begun:
            self._begun = True
            self.store.is_newest()
        self.narrator.trial_began(trial)
        started_at = datetime.now(UTC).isoformat(timespec="seconds")
        bench.clear_logs()
        standstill = Standstill()
        run, outcome, ailing = self._measured(trial, bench, standstill)
        # It has ended: a Ctrl-C that comes now must not cost it.
        with held_back():
            set_s = standstill.clock_set_s()
            if set_s is not None:
                # No duration is taken from the host's clock; what holds the server's stamps against it is.
                run = replace(run, ready_lag_s=None)
            try:
                run = keep(self.store.folder, trial, run, outcome=outcome, logs=bench.server.logdir)
                kept = None
                if run.verdict is Verdict.FAILED and not bench.came_back:
                    kept = self.stagehand.set_aside(place_of(trial.version, trial.variant))
                    run = replace(run, reason="; ".join(filter(None, (run.reason, kept))))
                self._learn(trial, bench, outcome, clock_set_s=set_s)
                self.store.append(replace(run, started_at=started_at))
            except HostUnfitError:
                # Who looks on sees at least what it was.
                self.narrator.trial_ended(run, len(self.prepared.plan.trials))
                raise
        self.narrator.trial_ended(run, len(self.prepared.plan.trials))
        if ailing is not None:
            raise ailing
        if kept is not None:
            self._begin_anew(trial)
        elif not run.verdict.as_asked:
            # Whatever went wrong, the ledger and the files may disagree now; the next trial must not inherit that.
            self._settle(bench, trial)

    def _measured(
        self, trial: Trial, bench: Bench, standstill: Standstill
    ) -> tuple[Run, Outcome | Worked | None, StorageFailedError | None]:
        """What failed over storage that fails is no failure of the server, and nothing goes on over it."""
        storage = bench.datadir.storage
        try:
            outcome = self.prepared.scenario.measure(bench, trial.variant)
        except (ServerFailedError, TrialVoidError) as error:
            if (ailing := blamed(error, storage, temporary())) is not None:
                return failed_run(trial, ailing), None, ailing
            if (stood := standstill.told()) is not None:
                # Also where it was given up because it did: that is told by who has ended it.
                return failed_run(trial, StoodStillError(f"{stood}; {error.message}")), None, None
            return failed_run(trial, error), None, None
        run, stood = run_of(trial, outcome), standstill.told()
        doubt = stood or limits_not_held(bench.server.group, run)
        verdict, reason = (Verdict.VOID, doubt) if doubt else self.prepared.scenario.judge(outcome)
        ailing = None
        if verdict is Verdict.FAILED:
            ailing = blamed(ServerFailedError(reason or verdict.value), storage, temporary())
        if ailing is not None:
            verdict, reason = Verdict.VOID, ailing.message
        again = stood is not None or ailing is not None
        return replace(judged(trial, run, verdict, reason), measure_again=again), outcome, ailing

    def _floor(self, trial: Trial, bench: Bench) -> None:
        """After the last trial over a directory: only of files that a server has left in peace."""
        if not bench.at_rest:
            return
        self.narrator.say(f"{trial.version}: reading the first page of every table's file, for the floor")
        standstill = Standstill()
        try:
            floor = floor_of(trial, self.prepared.plan, measure_floor(bench))
            if (told := standstill.told()) is not None:
                raise TrialVoidError(told)
        except RecoveryError as error:
            self._note(f"{trial.version}: there is no floor: {error.message}")
        else:
            self.session = replace(self.session, floors=(*self.session.floors, floor))
        self.store.update(self.session)

    def _learn(
        self, trial: Trial, bench: Bench, outcome: Outcome | Worked | None, *, clock_set_s: float | None
    ) -> None:
        """What is told beside a run is stored before it: where the tool is killed in between, it is done anew."""
        before = self.session
        if clock_set_s is not None:
            told = f"set by {clock_set_s:+.1f} s during run {trial.number}; no duration is taken from it."
            self._note(f"The host's clock was {told}")
        if outcome is not None and outcome.samples is not None and outcome.samples.note:
            self._note(f"{trial.version}, run {trial.number}: {outcome.samples.note}")
        for told in bench.notes:
            self._note(told)
        if bench.cpus_shared:
            self.session = with_cpus_shared(self.session)
        name = " ".join(filter(None, (str(trial.version), trial.variant.label)))
        self.session = replace(self.session, servers={**self.session.servers, name: bench.description})
        if self.session != before:
            self.store.update(self.session)

    def _settle(self, bench: Bench, trial: Trial) -> None:
        """After a trial that ended half-way. Where the server does not come back, its other trials are given up; over
        storage that fails, all are, for a session that goes on measures them."""
        try:
            bench.settle()
        except RecoveryError as error:
            bench.server.close()
            if (ailing := blamed(error, bench.datadir.storage, temporary())) is not None:
                raise ailing from error
            place = place_of(trial.version, trial.variant)
            self._given_up.add(place)
            if not bench.came_back and not isinstance(error, ServerKilledError):
                self.stagehand.drop(place)
            if self.prepared.plan.is_last(trial):
                return
            self._note(f"{trial.version}: the trials left were not run: {error.message}")

    def _begin_anew(self, trial: Trial) -> None:
        """After a trial whose data directory was set aside: the next one builds another, where there is one."""
        place = place_of(trial.version, trial.variant)
        if self.prepared.plan.is_last(trial):
            self._given_up.add(place)
        else:
            self._note(f"{trial.version}: after run {trial.number} its data directory was built anew.")

    def _note(self, note: str) -> None:
        """For the report, and for who looks on: once."""
        if note not in self.session.notes:
            self.session = replace(self.session, notes=(*self.session.notes, note))
            self.narrator.warn(note)

"""Did the host leave the server alone, and give it what it has?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from recovery.findings.doubt import MIB, Check, cells, doubt, is_cold, numbered, server_of
from recovery.measured import Around
from recovery.phases import PROCESS_START, seconds_by_name
from recovery.stored import Finding, Run, Session
from recovery.summary import mean

_BUSY = 0.1
"""CPUs that others kept busy on average."""
_STOLEN = 0.02
_HELD_BACK = 0.01
"""Of the startup."""
_TICKS_S = 0.1
"""The host counts CPU in ticks of ten milliseconds: of a few of them nothing is said."""
_PROGRAM = 0.05
"""Of the startup, for the start of the process."""
_OTHERS_IO = 0.05
"""Of what the server read."""
_FEW_BYTES = 64 * MIB
"""A server that was killed leaves some megabytes in the cache, which are written while the next one starts."""
_SLOWER = 0.8
_EBS = "Amazon Elastic Block Store"
_BURSTING = ("t2.", "t3.", "t3a.", "t4g.")


def other_load(session: Session) -> Iterator[Finding]:
    yield from _by_share(
        session, "other-cpu-load", lambda around: around.others_cpu_s, _BUSY,
        "Others kept {most:.1f} CPUs busy during {runs}.",
        "Find out who it was (top), stop it, and measure again.",
    )  # fmt: skip
    for about, runs in cells(session):
        disturbed = [run for run in runs if _others_bytes(run) > max(_FEW_BYTES, _OTHERS_IO * (run.read_bytes or 0))]
        if disturbed:
            most = max(map(_others_bytes, disturbed))
            yield doubt(
                "other-disk-load", about,
                f"Others read and wrote up to {most / 1e6:,.0f} MB on the same device during {numbered(disturbed)}.",
                "Find out who it was (iotop), stop it, and measure again" + _own_volume(session),
            )  # fmt: skip


def _own_volume(session: Session) -> str:
    """Advised where the data shares its device with this tool."""
    tool, data = session.environment.get("tool_device"), session.environment.get("device")
    return "; or give the data its own volume (DATA=)." if tool == data else "."


def _others_bytes(run: Run) -> int:
    around = run.around
    return 0 if around is None else (around.others_read_bytes or 0) + (around.others_written_bytes or 0)


def stolen(session: Session) -> Iterator[Finding]:
    yield from _by_share(
        session, "steal", lambda around: around.steal_s, _STOLEN,
        "The hypervisor gave {most:.0%} of a CPU to other machines during {runs}.",
        "Measure on a host that shares its CPUs with nobody (a larger or dedicated instance).",
    )  # fmt: skip


def held_back(session: Session) -> Iterator[Finding]:
    """Not where the user asked for it."""
    if session.settings.get("cpus"):
        return
    yield from _by_share(
        session, "throttled", lambda around: around.throttled_s, _HELD_BACK,
        "A control group held its processes back for {most:.0%} of the time of {runs}.",
        "The quota of the container or service that this tool was started in is too small: raise it, or set CPUS= and "
        "call it a limit.",
    )  # fmt: skip


def _by_share(
    session: Session, kind: str, seconds: Callable[[Around], float | None], least: float, *said: str
) -> Iterator[Finding]:
    text, hint = said
    for about, runs in cells(session):
        shares = {run: _share(run.around, seconds) for run in runs}
        over = [run for run, share in shares.items() if share > least and share * _length(run) > _TICKS_S]
        if over:
            most = max(shares[run] for run in over)
            yield doubt(kind, about, text.format(most=most, runs=numbered(over)), hint)


def _length(run: Run) -> float:
    return run.around.seconds if run.around else 0.0


def _share(around: Around | None, seconds: Callable[[Around], float | None]) -> float:
    return 0.0 if around is None or around.seconds <= 0 else (seconds(around) or 0.0) / around.seconds


def spent_credits(session: Session) -> Iterator[Finding]:
    """A suspicion: credits are not told to who uses them."""
    kind = str(session.environment.get("ec2_instance_type") or "")
    volume = session.environment.get("ebs_volume")
    for about, runs in cells(session):
        rates = [run.reads_per_s for run in runs if run.reads_per_s]
        falling = len(rates) >= 3 and rates == sorted(rates, reverse=True) and rates[-1] < _SLOWER * rates[0]
        if falling and is_cold(runs[0]) and (volume or kind.startswith(_BURSTING)):
            yield doubt(
                "burst-credits", about,
                f"Reads a second fell from run to run, from {rates[0]:,.0f} to {rates[-1]:,.0f}: burst credits may "
                "have run out.",
                "See BurstBalance and EBSIOBalance% (CPUCreditBalance on t instances) for this time; measure on gp3, "
                "io2 or an instance that does not burst.",
            )  # fmt: skip


def snapshot(session: Session) -> Iterator[Finding]:
    """A suspicion: a volume does not tell where its blocks are."""
    if not session.environment.get("ebs_volume") and session.environment.get("device_model") != _EBS:
        return
    for about, runs in cells(session):
        first, *others = [run.reads_per_s or 0.0 for run in runs]
        if is_cold(runs[0]) and others and 0 < first < min(others) / 2:
            yield doubt(
                "snapshot-volume", about,
                f"The first run did {first:,.0f} reads a second, the others {min(others):,.0f} and more: the volume "
                "may have been made from a snapshot, whose blocks are fetched when they are first read.",
                "Read all of it once before (dd, fio), or use fast snapshot restore; or keep the first run apart, if "
                "that is your question.",
            )  # fmt: skip


def filesystems(session: Session) -> Iterator[Finding]:
    data = session.environment.get("device")
    own = session.settings.get("mysqld")
    beside = "put your server there too" if own else "set RECOVERY_CACHE to a folder there"
    for about, runs in cells(session):
        program = server_of(session, runs[0].version).get("program_device")
        if is_cold(runs[0]) and data and program and program != data and _start_share(runs) > _PROGRAM:
            yield doubt(
                "filesystems", about,
                f"The server's program lies on {program}, its data on {data}: a cold start loads the program from the "
                "other one, whose reads are not counted and not limited.",
                f"See the phase {PROCESS_START} for what it costs; to have both on one, {beside}.",
            )  # fmt: skip


def _start_share(runs: Sequence[Run]) -> float:
    shares = [seconds_by_name(run.phases).get(PROCESS_START, 0.0) / (run.startup_s or 1.0) for run in runs]
    return mean(shares) or 0.0


CHECKS: tuple[Check, ...] = (other_load, stolen, held_back, spent_credits, snapshot, filesystems)

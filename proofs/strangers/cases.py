"""One case: a directory, a load, a kill and a start by a seed, and everything that the tool said of them."""

from __future__ import annotations

import random
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from strangers import checks, directories, loads, logs
from strangers.servers import (
    VERSIONS,
    Build,
    Server,
    StartError,
    Templates,
    busy_host,
    evict,
    limit_reads,
    limited_reads,
)

Json = dict[str, Any]
# InnoDB's, with names that all four servers know.
_POOLS = ("64M", "128M", "512M")
_LOGS = ("48M", "256M")
_LONG_POOLS = ("128M", "512M", "1G")
_LONG_LOGS = ("96M", "256M", "512M")

# Loads whose number of tables is not the same from one moment to the next.
_CHANGING = ("alter", "index")

# A case of a log has no load, but a shape.
LOGS = "logs"


@dataclass(frozen=True)
class Case:
    """All that is chosen by the seed."""

    seed: int
    version: str
    kind: str
    load: str
    size: int
    rows: int
    clients: int
    load_s: float
    reads: int | None
    busy: int
    options: tuple[str, ...]
    at_initialize: tuple[str, ...] = ()
    own_data_again: bool = False
    # Without the measurement of the storage, which takes 2 s.
    given_reads: int | None = None
    # Reads a second from the middle of the start on, in place of `reads`: storage that changes its speed.
    reads_later: int | None = None
    # `times`: estimate, watch and analyze; `own data`.
    checked: tuple[str, ...] = ("times", "own data")

    def matches(self, words: list[str]) -> bool:
        known = {
            self.version,
            self.kind,
            self.load,
            "limited" if self.reads else "unlimited",
            "busy" if self.busy else "idle",
        }
        return all(word in known for word in words)

    @property
    def command(self) -> str:
        fast = " --fast" if self.given_reads else " --long" if self.checked == ("times",) else ""
        return f"python -m strangers run --seed {self.seed} --cases 1{fast}"


def _shapes(version: str) -> tuple[str, ...]:
    mariadb = version.startswith("mariadb-")
    return tuple(shape for shape in logs.SHAPES if mariadb or shape not in logs.FOR_MARIADB)


def draw(seed: int) -> Case:
    rng = random.Random(seed)  # noqa: S311
    version = VERSIONS[seed % len(VERSIONS)]
    kind = rng.choice([*directories.KINDS, *directories.KINDS, LOGS])
    size = rng.choice((30, 60, 120)) if kind != "many" else rng.choice((1_500, 1_500, 1_500, 4_000, 4_000, 20_000))
    options = [f"--innodb-buffer-pool-size={rng.choice(_POOLS)}", f"--innodb-log-file-size={rng.choice(_LOGS)}"]
    if rng.random() < 0.25:
        options += ["--log-bin=binlog", "--server-id=1"]
    else:
        options += ["--skip-log-bin"]
    if version == "8.0.31" and rng.random() < 0.3:
        options += ["--log-error-verbosity=3"]
    # MariaDB 11.4 makes a key at each start without it, which takes 1 to 25 s by chance.
    if version.startswith("mariadb-11") and rng.random() < 0.85:
        options += ["--skip-ssl"]
    at_initialize = (f"--innodb-page-size={rng.choice(('4k', '8k', '32k'))}",) if rng.random() < 0.15 else ()
    return Case(
        seed=seed,
        version=version,
        kind=kind,
        load=rng.choice(loads.LOADS if kind != LOGS else _shapes(version)),
        size=size,
        rows=rng.choice((4_000, 20_000, 60_000)),
        clients=rng.choice((1, 4, 8)),
        load_s=rng.uniform(0.2, 6),
        reads=rng.choice((None, None, rng.randint(300, 4_000))),
        busy=rng.choice((0, 0, 0, 1, 2)),
        options=(*options, *at_initialize),
        at_initialize=at_initialize,
        own_data_again=rng.random() < 0.3,
    )


def draw_fast(seed: int, checked: tuple[str, ...] = ("times", "own data")) -> Case:
    """A small case for every run of the tests: no limits, no busy host, the storage not measured."""
    case = draw(seed)
    return replace(
        case,
        size=24 if case.kind != "many" else 300,
        rows=2_000,
        clients=2,
        load_s=min(case.load_s, 0.5),
        reads=None,
        busy=0,
        options=tuple(option for option in case.options if option != "--skip-ssl")
        + (("--skip-ssl",) if case.version.startswith("mariadb-") else ()),
        own_data_again=False,
        given_reads=20_000,
        checked=checked,
    )


def draw_long(seed: int) -> Case:
    """A case whose start takes seconds to a minute: many files, loads that leave much, often on slow storage.

    Only times are checked."""
    rng = random.Random(f"long {seed}")  # noqa: S311
    version = VERSIONS[seed % len(VERSIONS)]
    options = [
        f"--innodb-buffer-pool-size={rng.choice(_LONG_POOLS)}",
        f"--innodb-log-file-size={rng.choice(_LONG_LOGS)}",
    ]
    options += ["--log-bin=binlog", "--server-id=1"] if rng.random() < 0.25 else ["--skip-log-bin"]
    if rng.random() < 0.5:
        options.append(f"--innodb-io-capacity={rng.choice((200, 1000, 2000))}")
    if version == "8.0.31" and rng.random() < 0.5:
        options.append("--log-error-verbosity=3")
    if version.startswith("mariadb-11"):
        options.append("--skip-ssl")
    reads = rng.choice((None, None, *(round(10 ** rng.uniform(2.7, 3.7)) for _ in range(3))))
    return Case(
        seed=seed,
        version=version,
        kind="many",
        load=rng.choice([load for load in loads.LOADS if load != "none"]),
        size=rng.choice((1_500, 1_500, 1_500, 20_000)),
        rows=rng.choice((20_000, 60_000, 120_000)),
        clients=rng.choice((1, 4, 8)),
        load_s=rng.uniform(1, 15),
        reads=reads,
        busy=rng.choice((0, 0, 0, 1, 2)),
        options=tuple(options),
        reads_later=None if reads is None or rng.random() < 0.75 else rng.choice((reads // 4, reads * 4)),
        checked=("times",),
    )


@contextmanager
def _ended_servers() -> Iterator[list[Server]]:
    servers: list[Server] = []
    try:
        yield servers
    finally:
        for server in servers:
            server.kill()


@contextmanager
def _folder(root: Path | None) -> Iterator[Path]:
    # Sockets have short paths.
    made = Path(tempfile.mkdtemp(prefix="st", dir=root))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def run(case: Case, templates: Templates, root: Path | None = None) -> Json:
    """The record of this case; `problems` is empty if the tool was right in all that was checked."""
    begun = time.monotonic()
    record: Json = {"case": asdict(case), "problems": [], "again": case.command}
    if case.kind == LOGS:
        with _folder(root) as folder, _ended_servers() as scene_servers:
            scene = logs.Scene(folder, Build.find(case.version), templates, scene_servers)
            try:
                record["logs"], record["problems"] = logs.check(scene, case.load)
            except StartError as error:
                record["not_run"] = str(error)
        record["took_s"] = time.monotonic() - begun
        return record
    with ExitStack() as stack:
        folder = stack.enter_context(_folder(root))
        server = Server(Build.find(case.version), folder / "d", case.options)
        stack.callback(server.kill)
        try:
            with _timed(record, "make"):
                _make(case, server, templates, record)
            group = stack.enter_context(limited_reads(f"strangers-{folder.name}", folder, case.reads))
            stack.enter_context(busy_host(case.busy))
            server.group = group
            (_kill_and_start if "times" in case.checked else _kill)(case, server, folder, record)
        except StartError as error:
            record["not_run"] = str(error)
            server.kill()
        else:
            if "own data" in case.checked:
                with _timed(record, "own data"):
                    _own_data(case, server, folder, record)
    record["took_s"] = time.monotonic() - begun
    return record


@contextmanager
def _timed(record: Json, step: str) -> Iterator[None]:
    begun = time.monotonic()
    try:
        yield
    finally:
        record.setdefault("steps_s", {})[step] = round(time.monotonic() - begun, 2)


def _fill(case: Case, server: Server, templates: Templates, record: Json) -> None:
    templates.copy(server.build, case.at_initialize, server.datadir)
    try:
        server.start(durable=False)
        make = directories.Maker(server, random.Random(case.seed), case.size)  # noqa: S311
        directories.KINDS[case.kind](make)
        record["refused"] = make.refused[:20]
        if case.kind == "many":
            server.shut_down()
    except BaseException:
        server.kill()
        raise


def _make(case: Case, server: Server, templates: Templates, record: Json) -> None:
    if case.kind == "many":
        # Made once for each server: they take long, and hold no rows.
        templates.copy_made(
            server.build,
            case.at_initialize,
            f"-many-{case.size}",
            lambda made: _fill(
                replace(case, seed=case.size), Server(server.build, made, case.options), templates, record
            ),
            server.datadir,
        )
        server.start(durable=False)
    else:
        _fill(case, server, templates, record)
    loads.prepare(server, case.load, case.rows, case.clients)
    if "times" in case.checked:
        server.shut_down()


def _kill(case: Case, server: Server, folder: Path, record: Json) -> None:
    """Without a second start: the page cache outlives the process."""
    ended = threading.Event()
    with loads.running(server, case.load, case.rows, case.clients, case.seed, ended):
        ended.wait(case.load_s)
        truth = directories.truth_of(server) if case.load not in _CHANGING else None
        ended.set()
        server.kill()
    server.datadir.rename(folder / "killed")
    record["files"] = directories.files_of(folder / "killed")
    record["truth"] = None if truth is None else asdict(truth)


def _kill_and_start(case: Case, server: Server, folder: Path, record: Json) -> None:
    with _timed(record, "start"):
        server.start()
    ended = threading.Event()
    with loads.running(server, case.load, case.rows, case.clients, case.seed, ended) as load:
        ended.wait(case.load_s)
        with _timed(record, "estimate"):
            record["estimate"], problems = checks.estimate(folder, server.socket, case.given_reads)
        record["problems"] += problems
        if "own data" not in case.checked:
            server.kill()
        ended.set()
        truth = directories.truth_of(server) if "own data" in case.checked and case.load not in _CHANGING else None
        server.kill()
    record["load_errors"] = load.errors[:20]
    record["files"] = directories.files_of(server.datadir)
    if "own data" in case.checked:
        shutil.copytree(server.datadir, folder / "killed")
    evict(server.datadir)
    pid = server.spawn()
    watching = checks.Watching(folder, pid)
    later = threading.Timer(record["estimate"].get("about", 2) / 2, _change_speed, (case, server))
    later.start()
    try:
        record["start_s"] = server.wait_ready()
        ready_at = time.time()
        record["looks"], problems = watching.finish(ready_at)
    finally:
        later.cancel()
        watching.stop()
    record["problems"] += problems
    if "own data" in case.checked:
        record["truth"] = asdict(truth or directories.truth_of(server))
    record["lost"] = load.lost(server)
    record["analyze"], problems = checks.analyze(folder, server.log, record["start_s"], _kinds(case))
    record["problems"] += problems
    server.kill()


def _change_speed(case: Case, server: Server) -> None:
    if server.group is not None and case.reads_later is not None:
        limit_reads(server.group, server.datadir, case.reads_later)


def _kinds(case: Case) -> tuple[str, ...]:
    """8.0 tells of a recovery at verbosity 3 only."""
    quiet = case.version == "8.0.31" and "--log-error-verbosity=3" not in case.options
    return ("crash", "not told") if quiet else ("crash",)


def _own_data(case: Case, server: Server, folder: Path, record: Json) -> None:
    truth = None if record["truth"] is None else directories.Truth(**record["truth"])
    files = record["files"]
    record["own_data"] = []
    for as_is in (True, False) if case.own_data_again else (True,):
        asked = checks.OwnData(as_is, folder / "killed")
        answer, problems = checks.own_data(folder, server.build, truth, files, asked)
        record["own_data"].append(answer)
        record["problems"] += problems

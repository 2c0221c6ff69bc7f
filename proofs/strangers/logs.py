"""Error logs as strangers post them: written by real servers, with what else writes into such a file."""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from strangers.checks import tool, traceback_in
from strangers.servers import Build, Server, Templates

Json = dict[str, Any]


@dataclass
class Scene:
    """A folder with one server's directory and the logs that are made of it."""

    folder: Path
    build: Build
    templates: Templates
    # Killed in the end, however the case ends.
    servers: list[Server]
    logs: list[Path] = field(default_factory=list)
    # Of the starts in all logs, oldest first.
    kinds: list[str] = field(default_factory=list)

    def server(self, name: str = "one", options: tuple[str, ...] = (), build: Build | None = None) -> Server:
        at = self.folder / name
        at.mkdir(exist_ok=True)
        made = Server(build or self.build, at / "d", ("--skip-log-bin", *options))
        self.servers.append(made)
        if not made.datadir.exists():
            self.templates.copy(made.build, (), made.datadir)
        return made

    def crash(self, server: Server, schema: str = "a") -> None:
        server.start(durable=False)
        cursor = server.connect().cursor()
        cursor.execute(f"create database if not exists {schema}")
        cursor.execute(f"create table if not exists {schema}.t (id int primary key auto_increment, v varchar(90))")
        for _ in range(50):
            cursor.execute(f"insert into {schema}.t (v) values (md5(rand()))")
        server.kill()


def _add(log: Path, *lines: str) -> None:
    with log.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def mysqld_safe(scene: Scene) -> None:
    """mysqld_safe writes into the log when it starts a server, and when it starts it again."""
    server = scene.server()
    for again in (False, True):
        now = datetime.now(UTC)
        stamp = f"{now:%Y-%m-%dT%H:%M:%S.%fZ}" if not scene.build.mariadb else f"{now:%y%m%d %H:%M:%S}"
        if again:
            _add(
                server.log,
                f"{stamp} mysqld_safe Number of processes running now: 0",
                f"{stamp} mysqld_safe mysqld restarted",
            )
        else:
            _add(server.log, f"{stamp} mysqld_safe Starting mysqld daemon with databases from {server.datadir}")
        scene.crash(server)
    server.start(durable=False)
    server.shut_down()
    scene.logs, scene.kinds = [server.log], ["clean", "crash", "crash"]


def galera(scene: Scene) -> None:
    """A pass with --wsrep-recover comes before the start of each node."""
    server = scene.server()
    scene.crash(server)
    subprocess.run(
        [*server.command(), "--wsrep-recover"],
        env=scene.build.environment(durable=False),
        capture_output=True,
        check=False,
        timeout=60,
    )
    server.start(durable=False)
    server.shut_down()
    scene.logs, scene.kinds = [server.log], ["clean", "galera pass", "clean"]


def container(scene: Scene) -> None:
    """The image's entrypoint starts a server without a network, shuts it down, and starts it."""
    server = scene.server()
    now = datetime.now()
    _add(server.log, f"{now:%Y-%m-%d %H:%M:%S}+00:00 [Note] [Entrypoint]: Entrypoint script for MySQL Server started.")
    _add(server.log, f"{now:%Y-%m-%d %H:%M:%S}+00:00 [Note] [Entrypoint]: Starting temporary server")
    server.start(durable=False)
    server.shut_down()
    _add(server.log, f"{now:%Y-%m-%d %H:%M:%S}+00:00 [Note] [Entrypoint]: Temporary server stopped", "")
    _add(
        server.log,
        f"{now:%Y-%m-%d %H:%M:%S}+00:00 [Note] [Entrypoint]: MySQL init process done. Ready for start up.",
        "",
    )
    server.start(durable=False)
    server.kill()
    scene.logs, scene.kinds = [server.log], ["init", "clean"]


def rotated(scene: Scene) -> None:
    """logrotate moved the log away while the server ran, and compressed it."""
    server = scene.server()
    scene.crash(server)
    scene.crash(server)
    old = server.log.with_suffix(".log.1")
    server.log.rename(old)
    packed = Path(f"{old}.gz")
    packed.write_bytes(gzip.compress(old.read_bytes()))
    server.start(durable=False)
    server.shut_down()
    scene.logs, scene.kinds = [packed, server.log], ["clean", "crash", "crash"]


def joined(scene: Scene) -> None:
    """The logs of two servers in one file, one after the other."""
    one, two = scene.server("one"), scene.server("two")
    scene.crash(one)
    scene.crash(two)
    one.start(durable=False)
    two.start(durable=False)
    one.shut_down()
    two.kill()
    both = scene.folder / "both.log"
    both.write_bytes(one.log.read_bytes() + two.log.read_bytes())
    scene.logs, scene.kinds = [both], ["clean", "crash", "clean", "crash"]


def quiet(scene: Scene) -> None:
    """Few messages, as packages of distributions ask for: 8.0's default, or `log_warnings=0`."""
    options = ("--log-error-verbosity=2",) if not scene.build.mariadb else ("--log-warnings=0",)
    server = scene.server(options=options)
    scene.crash(server)
    server.start(durable=False)
    server.shut_down()
    scene.logs, scene.kinds = [server.log], ["any"] * 2


def upgrade(scene: Scene) -> None:
    """A newer server over an older one's directory."""
    older = OLDER.get(scene.build.version, scene.build.version)
    server = scene.server(build=Build.find(older))
    server.start(durable=False)
    server.shut_down()
    for _ in range(2):
        server = scene.server()
        server.start(durable=False)
        server.shut_down()
    scene.logs, scene.kinds = [server.log], ["clean"] * 3


OLDER = {"8.0.31": "8.0.15", "mariadb-11.4.5": "mariadb-10.11.5"}


SHAPES: dict[str, Callable[[Scene], None]] = {
    "mysqld_safe": mysqld_safe,
    "galera": galera,
    "container": container,
    "rotated": rotated,
    "joined": joined,
    "quiet": quiet,
    "upgrade": upgrade,
}
FOR_MARIADB = ("galera",)


def check(scene: Scene, shape: str) -> tuple[Json, list[str]]:
    """Make this log, and compare what `analyze` says of it with what was done."""
    SHAPES[shape](scene)
    done = tool(scene.folder, "analyze", "--json=-", *map(str, scene.logs))
    problems = traceback_in("logs", done.stderr)
    if done.returncode:
        return {}, [*problems, f"logs: {shape}: exit {done.returncode}: {done.stderr[-300:]}"]
    starts = [start for log in json.loads(done.stdout)["logs"] for start in log["starts"]]
    said = [start["kind"] for start in starts]
    if len(said) != len(scene.kinds):
        problems.append(f"logs: {shape}: {len(said)} starts, and there were {len(scene.kinds)}: {said}")
    elif shape not in ("galera", "container"):
        for number, (kind, start) in enumerate(zip(scene.kinds, starts, strict=True), 1):
            if start["outcome"] != "ready":
                problems.append(f"logs: {shape}: start {number} is {start['outcome']}, and it became ready")
            if kind != "any" and start["kind"] not in (kind, *_silent(scene)):
                problems.append(f"logs: {shape}: start {number} is {start['kind']}, and it was {kind}")
    upgrades = [any("upgrade" in phase for phase in start.get("seconds") or {}) for start in starts]
    is_upgrade = shape == "upgrade" and scene.build.version == "8.0.31"
    if upgrades != [is_upgrade and number == 1 for number in range(len(starts))]:
        problems.append(f"logs: {shape}: upgrades named: {upgrades}")
    words = tool(scene.folder, "analyze", *map(str, scene.logs))
    problems += traceback_in("logs", words.stderr)
    if shape in ("galera", "container") and "limit" in words.stdout.lower():
        problems.append(f"logs: {shape}: advises about a limit that kills: {words.stdout[:300]}")
    return {"kinds": said, "words": words.stdout[:2000]}, problems


def _silent(scene: Scene) -> tuple[str, ...]:
    return ("not told",) if scene.build.mysql_8 else ()

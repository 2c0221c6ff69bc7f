"""Does the controller's part of `recovery fleet run`: Ansible distributes the work, every host measures by itself.

A call packs what hosts need, writes playbook and inventory, runs the playbook, and keeps what was fetched."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from recovery.analysis.compare import incomplete_reason
from recovery.builds.resolve import Sources, resolve_server
from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.fleet.hosts import PRICE
from recovery.fleet.job import OUTCOME_FILE, pack_tar, write_sessions
from recovery.fleet.plan import (
    FACTS,
    FleetHost,
    FleetPlan,
    FleetSession,
    PlannedSession,
    check_host_name,
    check_price,
    refuse_templates,
)
from recovery.fleet.record import FLEET_FILE, FleetRecord, HostRecord, SessionRecord, read_record
from recovery.linux import die_with_parent
from recovery.linux.files import (
    STORED_FORMAT,
    draft_path,
    empty_folder,
    libraries_dir,
    parse_json,
    read_limited,
    servers_dir,
    template_dir,
    write_atomically,
)
from recovery.linux.packages import install_advice
from recovery.report.fmt import count_text
from recovery.storage.sessions import load_session

PLAYBOOK = "fleet.yml"
ANSIBLE_FOLDER = "ansible"
"""Subfolder with the playbook, the inventory and all that is sent and fetched."""
FINISHED, FAILED = "finished", "failed"
_LIBRARIES = ("libaio1", "libeatmydata1")
"""Packages that a host may lack even if this one has them."""
_SESSION_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MAX_OUTCOME_BYTES = 1_000_000


# --- Hosts and programs


def find_program(name: str) -> str:
    """Returns the path of one of Ansible's programs, which may be in the folder of this Python or in PATH."""
    own_folder = str(Path(sys.executable).parent)
    path = shutil.which(name, path=os.pathsep.join((own_folder, os.environ.get("PATH", os.defpath))))
    if path is None:
        raise HostUnfitError(f"{name} is missing", f"{install_advice('ansible-core')}; or pip install '.[fleet]'")
    return path


def with_inventory(plan: FleetPlan) -> FleetPlan:
    """Returns the plan with the hosts of its inventory, each with the facts that the inventory or the plan states."""
    if plan.inventory is None:
        return plan
    command = [find_program("ansible-inventory"), "-i", str(plan.inventory), "--list"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    try:
        listed = parse_json(done.stdout)
        names = sorted({str(name) for group in listed.values() for name in group.get("hosts", ())})
        variables = listed["_meta"]["hostvars"]
    except (ValueError, KeyError, AttributeError, TypeError):
        names, variables = [], {}
    if not names:
        said = (done.stderr.strip().splitlines() or ["it lists no host"])[-1]
        raise UsageError(f"the inventory {plan.inventory} cannot be used: {said}", "see `ansible-inventory --list`")
    named = {host.name: host for host in plan.hosts}
    for name in names:
        own = named.get(check_host_name(name)) or FleetHost(name, None, None, False, None, {})
        about = variables.get(name, {})
        stated = {key: about[key] for key, types in FACTS.items() if type(about.get(key)) in types}
        check_price(stated.get(PRICE), name)
        named[name] = replace(own, facts={**stated, **own.facts})
    for host in named.values():
        if host.address is None and host.name not in names:
            raise UsageError(f"host {host.name} is not in the inventory", 'correct its name, or give ssh = "user@host"')
    return replace(plan, hosts=tuple(named.values()))


# --- One call


Say = Callable[[str], None]
"""Reports progress, in a line."""
Outcomes = dict[tuple[str, str], SessionRecord]
"""What became of each session, by the name of the host and the key of the session."""


def outcome_of(outcomes: Outcomes, host: FleetHost, session: FleetSession) -> SessionRecord:
    return outcomes.get((host.name, session.key), SessionRecord())


def measure_on_hosts(plan: FleetPlan, folder: Path, say: Say) -> Outcomes:
    """Measures what is missing on each host of the plan, and returns what became of every session. The same is in
    fleet.json, also if this call ends early."""
    outcomes = _read_outcomes(folder)
    _unpack_fetched(plan, folder, outcomes)
    pending = [
        host
        for host in plan.hosts
        if any(outcome_of(outcomes, host, session).state != FINISHED for session in plan.sessions)
    ]
    if pending:
        program = find_program("ansible-playbook")
        archive = _pack_servers(plan, folder / ANSIBLE_FOLDER / "send", say)
        _write_files(plan, pending, folder / ANSIBLE_FOLDER, archive)
        for host in pending:
            for session in plan.sessions:
                if outcome_of(outcomes, host, session).state != FINISHED:
                    outcomes[host.name, session.key] = SessionRecord(reason="the call ended before the host answered")
        say(f"measuring on {count_text(len(pending), 'host')}; Ansible's output: {folder / ANSIBLE_FOLDER / 'log'}")
        try:
            _play(program, plan, folder / ANSIBLE_FOLDER)
            _add_reasons(pending, plan.sessions, folder, outcomes)
        finally:
            _unpack_fetched(plan, folder, outcomes)
            _write_outcomes(plan, folder, outcomes)
    _write_outcomes(plan, folder, outcomes)
    return outcomes


def is_packed(session: PlannedSession) -> bool:
    """Returns whether the servers of a session are sent from this machine: not those of the hosts' own (MYSQLD)."""
    return not session.request.servers.mysqld


def _pack_servers(plan: FleetPlan, send: Path, say: Say) -> Path | None:
    """Fetches the servers of the plan, and packs them with the libraries that they need. Returns None if every session
    has servers of the hosts' own."""
    send.mkdir(parents=True, exist_ok=True)
    folders = {folder for session in filter(is_packed, plan.sessions) for folder in _cached_folders(session, say)}
    if not folders:
        return None
    names = {path: f"cache/{path.parent.name}/{path.name}" for path in sorted(folders)}
    archive = send / f"servers-{hashlib.sha256(json.dumps(list(names.values())).encode()).hexdigest()[:12]}.tar.gz"
    if not archive.exists():
        pack_tar(archive, names.items(), [(f"{archive.name}.complete", b"")])
    return archive


def _cached_folders(session: PlannedSession, say: Say) -> Iterator[Path]:
    """Yields the folders of the cache that hold the servers of a session, and the libraries that a host may lack."""
    request = session.request
    for version in request.servers.versions:
        build = resolve_server(version, Sources(archive=request.servers.archive), say)
        for path in (build.mysqld, *build.library_dirs):
            for root in (servers_dir(), libraries_dir()):
                if path.is_relative_to(root):
                    yield root / path.relative_to(root).parts[0]
    yield from filter(Path.is_dir, map(libraries_dir().joinpath, _LIBRARIES))


def _write_files(plan: FleetPlan, hosts: Sequence[FleetHost], folder: Path, servers: Path | None) -> None:
    """Writes the playbook, Ansible's settings and the inventory. Values are data in JSON; none is part of a command
    line that a shell reads."""
    sessions = folder / "sessions.json"
    write_sessions(sessions, plan.sessions)
    # The same in every call, so that it finds what an earlier one began.
    name = "mysql-recovery-fleet-" + hashlib.sha256(f"{platform.node()}:{folder}".encode()).hexdigest()[:8]
    shared = {
        "ansible_remote_tmp": f"~/.{name}",
        "work_name": name,
        "recovery": [sys.executable, "-m", "recovery", "fleet"],
        "send": str(folder / "send"),
        "servers": str(servers or ""),
        "servers_cpu": platform.machine(),
        "sessions_file": str(sessions),
        "fetched": str(folder / "fetched"),
        "poll_s": plan.poll_s,
        "keep": plan.keep,
    }
    about = {host.name: _host_variables(host) for host in hosts}
    refuse_templates([shared, about])
    inventory = {"recovery_fleet": {"hosts": about, "vars": shared}}
    write_atomically(folder / "inventory.json", json.dumps(inventory, indent=1).encode())
    write_atomically(folder / PLAYBOOK, (template_dir() / PLAYBOOK).read_bytes())
    for name in ("fetched", "last"):
        (folder / name).mkdir(exist_ok=True)
    empty_folder(folder / "last")
    settings = (
        "[defaults]", "host_key_checking = True", f"forks = {max(5, len(hosts))}", "callbacks_enabled = tree",
        "interpreter_python = auto_silent", "retry_files_enabled = False", "nocows = True",
        "[callback_tree]", f"directory = {folder / 'last'}",
        # A link that is cut for a minute during a job is no reason to give the host up.
        "[ssh_connection]", "pipelining = True", "retries = 6",
    )  # fmt: skip
    write_atomically(folder / "ansible.cfg", ("\n".join(settings).replace("%", "%%") + "\n").encode())


def _host_variables(host: FleetHost) -> dict[str, Any]:
    found = {"ansible_host": host.address, "ansible_user": host.user, "recovery_dir": host.recovery_dir}
    return {key: value for key, value in found.items() if value} | ({"ansible_become": True} if host.become else {})


def _play(program: str, plan: FleetPlan, folder: Path) -> None:
    """Runs the playbook. If this process ends, so does Ansible; the jobs on the hosts go on."""
    inventories = [str(path) for path in (plan.inventory, folder / "inventory.json") if path]
    command = [program, *(word for path in inventories for word in ("-i", path)), str(folder / PLAYBOOK)]
    settings = {"ANSIBLE_CONFIG": str(folder / "ansible.cfg"), "ANSIBLE_HOST_KEY_CHECKING": "True"}
    environment = {**os.environ, **settings, "ANSIBLE_LOCALHOST_WARNING": "False"}
    wrapped = [sys.executable, str(die_with_parent.__file__), str(os.getpid()), "", *command]
    with (folder / "log").open("wb") as log:
        # Without a terminal, ssh asks no question about an unknown key, and fails.
        process = subprocess.Popen(
            wrapped, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            process.wait()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait()


# --- What came of it


def _read_outcomes(folder: Path) -> Outcomes:
    """Returns the outcomes of earlier calls whose stored sessions are still there."""
    if not (folder / FLEET_FILE).exists():
        return {}
    return {
        (host, session.key): session
        for host, about in read_record(folder / FLEET_FILE).hosts.items()
        for session in about.sessions
        if session.state == FINISHED and session.folder is not None and (folder / session.folder).is_dir()
    }


def _add_reasons(
    hosts: Sequence[FleetHost], sessions: Sequence[FleetSession], folder: Path, outcomes: Outcomes
) -> None:
    """Notes why nothing was fetched from a host: what Ansible stored last for it is the result of the failed task."""
    for host in hosts:
        if _fetched_archive(folder, host).is_file():
            continue
        try:
            reason = _reason(parse_json((folder / ANSIBLE_FOLDER / "last" / host.name).read_bytes()))
        except (OSError, ValueError, AttributeError):
            reason = f"Ansible did not reach it: see {folder / ANSIBLE_FOLDER / 'log'}"
        for session in sessions:
            if outcomes[host.name, session.key].state != FINISHED:
                outcomes[host.name, session.key] = SessionRecord(reason=reason)


def _reason(last: Mapping[str, Any]) -> str:
    """Returns why a host's last task failed, in one line."""
    stored = json.dumps(last)
    if "No space left on device" in stored:
        return "no space is left in a folder on the host: see recovery_dir, and the home folder"
    if "Missing sudo password" in stored or "a password is required" in stored:
        return "sudo asks for a password there: allow the user sudo without one, or connect as root"
    for item in last.get("results", ()):
        if item.get("failed"):
            return _reason(item)
    said = "\n".join(str(last.get(name) or "") for name in ("stderr", "module_stderr", "module_stdout")).split("\n")
    said = [line for line in said if line.strip()]
    errors = [line.removeprefix("error: ") for line in said if line.startswith("error: ")]
    message = str(last.get("msg") or "no reason was given")
    if errors:
        message = errors[0]
    elif said and message.startswith(("MODULE FAILURE", "non-zero return code", "no reason")):
        message = said[-1]
    return " ".join(message.split())


def _fetched_archive(folder: Path, host: FleetHost) -> Path:
    return folder / ANSIBLE_FOLDER / "fetched" / f"{host.name}.tar.gz"


def _unpack_fetched(plan: FleetPlan, folder: Path, outcomes: Outcomes) -> None:
    """Unpacks what was fetched, also by a call that was killed before it came to that."""
    from recovery.builds.install import unpack

    for host in plan.hosts:
        archive = _fetched_archive(folder, host)
        if not archive.is_file():
            continue
        draft = draft_path(archive.with_name(host.name))
        shutil.rmtree(draft, ignore_errors=True)
        try:
            unpack(archive, draft)
            for outcome in parse_json(read_limited(draft / OUTCOME_FILE, _MAX_OUTCOME_BYTES)):
                key = str(outcome["key"])
                if key in {session.key for session in plan.sessions}:
                    outcomes[host.name, key] = _keep_session(outcome, draft / key, folder / host.name)
        except (RecoveryError, OSError, ValueError, KeyError, TypeError) as error:
            for session in plan.sessions:
                outcomes.setdefault((host.name, session.key), SessionRecord(reason=f"its results are damaged: {error}"))
        shutil.rmtree(draft, ignore_errors=True)
        archive.unlink()


def _keep_session(outcome: Mapping[str, Any], fetched: Path, kept: Path) -> SessionRecord:
    """Moves the sessions that a host names in its outcome from what was fetched to the folder of that host. The host is
    not trusted: it must name folders of its own that are there."""
    name = outcome["folder"]
    others = tuple(_keep_folder(other, fetched, kept) for other in outcome.get("others", ()))
    if name is None:
        return SessionRecord(state=FAILED, reason=str(outcome["reason"]), others=others)
    folder = _keep_folder(name, fetched, kept)
    reasons = (incomplete_reason(load_session(kept.parent / name)) for name in (*others, folder))
    return SessionRecord(folder=folder, others=others, state=FINISHED, reason=next(filter(None, reasons), None))


def _keep_folder(name: Any, fetched: Path, kept: Path) -> str:
    """Moves a session, unless it is there already, and returns HOST/SESSION."""
    if not isinstance(name, str) or not _SESSION_NAME.fullmatch(name) or (fetched / name).resolve() != fetched / name:
        raise ValueError(f"it names the session {name!r}, which is no folder of its own")
    load_session(fetched / name)
    kept.mkdir(exist_ok=True)
    if not (kept / name).exists():
        (fetched / name).rename(kept / name)
    return f"{kept.name}/{name}"


def _write_outcomes(plan: FleetPlan, folder: Path, outcomes: Outcomes) -> None:
    record = FleetRecord(
        hosts={
            host.name: HostRecord(
                facts=dict(host.facts),
                sessions=tuple(
                    replace(
                        outcome_of(outcomes, host, session), command=session.name, line=session.line, key=session.key
                    )
                    for session in plan.sessions
                ),
            )
            for host in plan.hosts
        }
    )
    stored = {"format": STORED_FORMAT, **asdict(record)}
    write_atomically(folder / FLEET_FILE, json.dumps(stored, indent=1).encode())

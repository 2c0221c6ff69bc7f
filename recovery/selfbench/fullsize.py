"""At full size: how fast is it built, how long until it is cold and proved, and until a second run begins its trial?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from recovery.errors import RecoveryError
from recovery.host.datadir import DataDirs
from recovery.host.dropping import own_dropper
from recovery.host.pagecache import make_cold
from recovery.host.space import free, need_for
from recovery.host.usage import peak_memory_bytes
from recovery.load.schema import template_text
from recovery.model import Schema
from recovery.selfbench.building import Rate, build_stage
from recovery.selfbench.site import Site

_PATIENCE_S = 600


@dataclass(frozen=True)
class FullSize:
    rate: Rate
    stage_s: float
    cold_s: float
    resident_bytes: int | None
    begin_s: float
    peak_memory_bytes: int


def measure(site: Site, version: str, tables: int) -> FullSize | None:
    """One directory, built and used; None where the disk has no room for it."""
    build, schema = site.build(version), Schema(tables)
    if not need_for(build.version, schema).fits(free(site.folder)):
        return None
    directories = DataDirs(site.folder)
    # As a run looks for it, for the second half is a run.
    key = directories.key_for(build, schema, template_text=template_text(schema), options={})
    with directories.acquire(key) as target:
        rate, stage_s = build_stage(build, schema, target)
        # The build has just filled the cache with it.
        proof = make_cold(target.mysql, own_dropper())
    begin_s = _until_a_run_begins(site.folder, version, tables)
    return FullSize(rate, stage_s, proof.seconds, proof.resident_bytes, begin_s, peak_memory_bytes())


def _until_a_run_begins(data: Path, version: str, tables: int) -> float:
    """The command itself, from the moment it is called to its first server, and no further."""
    command = [sys.executable, "-m", "recovery", "cold-recovery", "--version", version, "--tables", str(tables)]
    # As it was built; and a container's server would be nobody's child.
    command += ["--engine", "local", "--runs", "1", "--data", str(data), "--results", str(data / "results")]
    # This benchmark holds the host's lock itself.
    environment = os.environ | {"RECOVERY_HOST_LOCK": str(data / "host.lock")}
    began = time.monotonic()
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        try:
            return _first_server(run.pid, began) - began
        finally:
            run.send_signal(signal.SIGTERM)
            run.wait(_PATIENCE_S)


def _first_server(pid: int, began: float) -> float:
    process = psutil.Process(pid)
    while time.monotonic() - began < _PATIENCE_S and process.status() != psutil.STATUS_ZOMBIE:
        if any(map(_is_started, process.children())):
            return time.monotonic()
        time.sleep(0.01)
    raise RecoveryError("the second run did not begin", "run its command by hand: `recovery cold-recovery`")


def _is_started(child: psutil.Process) -> bool:
    """With an options file; before that the server is only asked for its version."""
    try:
        return any(word.startswith("--defaults-file=") for word in child.cmdline())
    except psutil.Error:  # gone already
        return False

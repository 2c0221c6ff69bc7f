"""What is known of the host: its instance, facts and secrets, and the checks of `recovery doctor`."""

from __future__ import annotations

import getpass
import json
import platform
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import ClassVar

import pytest
from waiting import DEADLINE_S
from websites import serving

from recovery.cli import doctor
from recovery.cli.doctor import Check, examine, summary_lines
from recovery.cli.main import run
from recovery.linux import procfs
from recovery.linux.host_facts import (
    Ec2Instance,
    collect_host_facts,
    ebs_volume,
    ec2_instance,
    ec2_instance_type,
    is_xen_guest,
    looks_like_ec2,
    public_mount_options,
)
from recovery.linux.read_benchmark import NOT_PROBED, SHORT_EFFORT, ReadProbe, ReadSpeed
from recovery.linux.storage import Device, device_of

# --- The metadata service of EC2, played by an HTTP server

TOKEN = "t0ken=="  # noqa: S105  # of nobody


class Service(BaseHTTPRequestHandler):
    """Version 2, which answers only with a token."""

    values: ClassVar = {
        "/latest/meta-data/instance-type": "m5.large",
        "/latest/meta-data/placement/availability-zone": "eu-west-1a",
    }
    requests: ClassVar[list[str]] = []

    def log_message(self, *_: object) -> None:
        pass

    def do_PUT(self) -> None:
        ttl = self.headers["X-aws-ec2-metadata-token-ttl-seconds"]
        self.answer(200 if ttl and self.path == "/latest/api/token" else 400, TOKEN)

    def do_GET(self) -> None:
        allowed = self.headers["X-aws-ec2-metadata-token"] == TOKEN
        self.answer(200 if allowed else 401, self.values[self.path])

    def answer(self, status: int, text: str) -> None:
        self.requests.append(self.command)
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


class OddService(Service):
    values: ClassVar = dict.fromkeys(Service.values, "<h1>log in</h1>")


class RefusingService(Service):
    def do_PUT(self) -> None:
        self.answer(403, "no")


@pytest.fixture
def amazon(tmp_path: Path) -> Path:
    """The firmware of one of its machines."""
    (tmp_path / "sys_vendor").write_text("Amazon EC2\n")
    return tmp_path


def ask(address: str, dmi: Path, limit_s: float = DEADLINE_S) -> Ec2Instance:
    return ec2_instance(address, limit_s=limit_s, dmi=dmi, hypervisor=dmi / "none")


@pytest.mark.parametrize(
    ("service", "instance"),
    [(Service, Ec2Instance("m5.large", "eu-west-1a")), (OddService, Ec2Instance()), (RefusingService, Ec2Instance())],
)
def test_the_metadata_service_names_the_instance(
    service: type[Service], instance: Ec2Instance, amazon: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with serving(service) as address:
        assert ask(address, amazon) == instance


def test_a_service_that_is_not_there_is_given_up(amazon: Path) -> None:
    with socket.socket() as silent:  # bound, but it does not listen
        silent.bind(("127.0.0.1", 0))
        assert ask(f"http://127.0.0.1:{silent.getsockname()[1]}", amazon) == Ec2Instance()


@pytest.mark.parametrize("every_s", [60.0, 0.05])
def test_a_service_that_hangs_or_sends_single_bytes_is_given_up(amazon: Path, every_s: float) -> None:
    """Single bytes keep the time-out of a socket from ever coming."""
    over = threading.Event()

    class Slow(Service):
        def do_PUT(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            while not over.wait(every_s):
                self.wfile.write(b"x")

    with serving(Slow) as address:
        try:
            assert ask(address, amazon, limit_s=0.2) == Ec2Instance()
        finally:
            over.set()


def test_no_service_is_asked_outside_of_ec2(tmp_path: Path) -> None:
    Service.requests.clear()
    with serving(Service) as address:
        assert ask(address, tmp_path) == Ec2Instance()
    assert Service.requests == []


@pytest.mark.parametrize(
    ("file", "text", "is_ec2"),
    [
        ("sys_vendor", "Amazon EC2", True),
        ("bios_version", "4.11.amazon", True),
        ("product_uuid", "EC2A1B2C-0000", True),
        ("uuid", "ec2a1b2c-1234", True),
        ("sys_vendor", "QEMU", False),
        ("uuid", "00000000-1234", False),
        ("type", "xen", False),
    ],
)
def test_ec2_and_xen_are_recognised_by_their_firmware(file: str, text: str, is_ec2: bool, tmp_path: Path) -> None:
    assert not looks_like_ec2(tmp_path, tmp_path)
    (tmp_path / file).write_text(text + "\n")
    assert looks_like_ec2(tmp_path, tmp_path) is is_ec2
    assert is_xen_guest(tmp_path) == (file == "type")


def test_instance_type_and_volume_are_those_of_amazon_only(tmp_path: Path) -> None:
    (tmp_path / "product_name").write_text("m5.large\n")
    (tmp_path / "sys_vendor").write_text("QEMU\n")
    assert ec2_instance_type(tmp_path) is None
    (tmp_path / "sys_vendor").write_text("Amazon EC2\n")
    assert ec2_instance_type(tmp_path) == "m5.large"
    assert ebs_volume(Device(model="Amazon Elastic Block Store", serial="vol0123456789abcdef0")) == (
        "vol-0123456789abcdef0"
    )
    assert ebs_volume(Device(model="Samsung", serial="vol1")) is None


# --- Facts


def meminfo(name: str) -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def test_the_facts_are_scalars_without_names_and_paths(tmp_path: Path) -> None:
    facts = collect_host_facts(tmp_path)
    assert all(name == name.lower() and isinstance(value, str | int | float | None) for name, value in facts.items())
    assert facts["kernel"] == platform.release()
    assert facts["memory_bytes"] == pytest.approx(1024 * meminfo("MemTotal"), rel=0.01)
    words = " ".join(str(value) for value in facts.values())
    assert not {socket.gethostname(), str(Path.home()), getpass.getuser()} & set(words.split())
    assert str(tmp_path) not in words
    assert facts["temporary_filesystem"] == device_of(Path(tempfile.gettempdir())).filesystem
    assert {"tool_device", "fanotify", "cpu_quota", "ec2_instance_type", "other_servers"} <= facts.keys()


def test_mount_options_are_shown_without_folders_users_and_addresses() -> None:
    options = "rw,lowerdir=/home/ann/a:/b,username=ann,addr=10.0.0.1,size=5k,vers=4.2"
    assert public_mount_options(Device(mount_options=options)) == "rw,size=5k,vers=4.2"


@pytest.mark.parametrize(
    ("state", "action", "found"),
    [("on", "pageout", "DAMON pages out what is idle for 20 s"), ("off", "pageout", None), ("on", "stat", None)],
)
def test_a_host_that_pages_out_idle_memory_is_recognised(
    state: str, action: str, found: str | None, tmp_path: Path
) -> None:
    content = {
        "state": state,
        "contexts/0/schemes/nr_schemes": "1",
        "contexts/0/schemes/0/action": action,
        "contexts/0/schemes/0/access_pattern/age/min": "4",
        "contexts/0/monitoring_attrs/intervals/aggr_us": "5000000",
    }
    for name, text in content.items():
        path = tmp_path / "0" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    assert procfs.idle_pageout(tmp_path) == found
    assert procfs.idle_pageout(tmp_path / "missing") is None


# --- The doctor

Checks = Mapping[str, tuple[Check, ...]]


@pytest.fixture(scope="module")
def examined(tmp_path_factory: pytest.TempPathFactory) -> Checks:
    folder = tmp_path_factory.mktemp("examined")
    probe = ReadProbe(SHORT_EFFORT, {"4k_16": ReadSpeed(52_666, 0.3, 1.03)})
    found = examine(folder / "data", stackers={"eu-stack": "not there", "perf": None}, tried=probe)
    assert list(folder.iterdir()) == [], "an examination changes nothing"
    return found


def test_the_doctor_checks_everything_and_has_a_hint_for_every_problem(examined: Checks) -> None:
    found = {check.name: check for checks in examined.values() for check in checks}
    assert {"root", "drop_caches", "cachestat", "open files", "disk", "inodes", "read-ahead", "mvn"} <= found.keys()
    assert {"fanotify", "control groups", "swappiness", "virtualisation", "load", "container engine"} <= found.keys()
    assert all(check.hint for check in found.values() if check.ok is False)
    assert found["data folder"].ok
    assert found["4 KiB reads, 16 at once"].detail == "52,666 a second; mean 0.30 ms, p99 1.03 ms"
    assert (found["eu-stack"].ok, found["eu-stack"].hint, found["perf"].ok) == (None, "", True)


def check_of(checks: Iterator[Check], name: str) -> Check:
    return next(check for check in checks if check.name == name)


def test_the_doctor_finds_what_is_missing() -> None:
    assert check_of(doctor.space_checks(Path("/proc/nowhere")), "data folder").ok is False
    assert check_of(doctor._stack_program_checks({"eu-stack": "not there"}), "eu-stack").hint
    assert "left out" in check_of(doctor.read_speed_checks(NOT_PROBED), "reads").detail
    if device_of(Path("/dev/shm")).filesystem == "tmpfs":
        assert check_of(doctor.device_checks(Path("/dev/shm")), "filesystem").ok is False


def test_the_doctor_sees_other_servers(tmp_path: Path) -> None:
    (tmp_path / "mysqld").write_bytes(Path("/bin/sleep").read_bytes())
    (tmp_path / "mysqld").chmod(0o700)
    child = subprocess.Popen([str(tmp_path / "mysqld"), "600"])
    try:
        assert f"{child.pid}" in check_of(doctor.other_load_checks(), "other servers").detail
    finally:
        child.kill()
        child.wait()


def test_the_doctor_prints_a_summary_details_and_json(
    examined: Checks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "examine", lambda *_, **__: examined)
    monkeypatch.setattr(doctor, "why_unusable", dict)
    command = ["doctor", "--no-probe", "--data", str(tmp_path)]
    code = run(command)
    summary = capsys.readouterr().out.splitlines()
    assert len(summary) <= 12
    assert (code, summary[0][:16]) in ((0, "This host is fit"), (3, "This host is not"))
    assert run([*command, "-v"]) == code
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == summary[0]
    assert "Storage" in lines[len(summary) :]
    assert all(len(line) <= 80 or "/examined" in line for line in lines)
    assert run([*command, "--json"]) == code
    report = json.loads(capsys.readouterr().out)
    assert {"subject", "name", "ok", "detail", "why", "hint"} == report["checks"][0].keys()
    assert all(check["why"] and check["detail"] for check in report["checks"])
    assert report["environment"]["kernel"] == platform.release()
    assert report["environment"]["probe"] == "none: left out, as asked"


def test_the_summary_has_problems_first_and_at_most_12_lines() -> None:
    fine = Check("disk", True, "9 GB free", "x")
    few = summary_lines({"Room": (fine, Check("memory", False, "1 GB", "y", "use fewer tables"))})
    assert [line.partition(" ")[0] for line in few] == ["This", "BAD", "", "ok", "2"]
    assert few[2].endswith("-> use fewer tables")
    engine = Check("container engine", True, "Docker 20.10, unix:///run/docker.sock (a; default); overlay2; v2", "x")
    assert summary_lines({"Room": (engine,)})[1].endswith("Docker 20.10, unix:///run/docker.sock (a; default)")
    many = summary_lines({"Room": tuple(Check(f"c{number}", False, "x", "y", "z") for number in range(20))})
    assert (len(many), many[-1][:9]) == (12, "20 checks")


def test_a_busy_host_is_fit_but_the_verdict_says_that_it_is_busy() -> None:
    servers, load = Check("other servers", None, "pid 7", "x"), Check("load", None, "3.60 over the last minute", "y")
    busy = summary_lines({"Others": (servers, load)})[0]
    assert busy == "This host is fit for measurements, but busy now: see other servers, load."
    assert "busy" not in summary_lines({"Others": (Check("load", True, "0.02", "y"),)})[0]
    bad = summary_lines({"Others": (load, Check("disk", False, "full", "x", "free some"))})
    assert bad[0] == "This host is not fit for measurements: 1 BAD."


@pytest.mark.parametrize(("machine", "ok"), [("x86_64", True), ("aarch64", None)])
def test_the_doctor_says_which_processor_the_pinned_servers_are_for(
    machine: str, ok: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = {**procfs.machine_facts(), "architecture": machine}
    monkeypatch.setattr(doctor, "machine_facts", lambda: facts)
    found = check_of(doctor.machine_checks(), "processor")
    assert (found.ok, found.detail) == (ok, machine)
    assert "x86_64" in found.why
    assert "--mysqld" in found.hint

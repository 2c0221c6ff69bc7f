"""A fleet of two hosts on this machine: namespaces with a home, a host name, a host lock and an sshd of their own.

They share one page cache and two CPUs, so these tests judge how the work is distributed, and no figures."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from recovery.cli.main import run

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces with an sshd need root"),
    *(
        pytest.mark.skipif(shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None, reason=f"needs {name}")
        for name in ("sshd", "ansible-playbook", "unshare")
    ),
]
SESSION = "cold-recovery --version mariadb-10.11.5 --tables 50 --runs 1 --no-probe"
# The home folder is the host's own, and /run has its host lock.
HOST = (
    'hostname "$1" && mount -t tmpfs none /run && mkdir -m 755 /run/sshd && mkdir -m 1777 /run/lock '
    '&& mount --bind "$2" "$HOME" && exec "$3" -D -e -f "$4"'
)


@dataclass(frozen=True)
class Host:
    name: str
    port: int
    home: Path
    folder: Path

    @property
    def work(self) -> list[Path]:
        return list(self.home.glob("mysql-recovery-fleet-*"))


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def make_key(path: Path) -> str:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path], check=True)
    return path.with_suffix(".pub").read_text().strip()


@contextmanager
def host(name: str, folder: Path, *settings: str) -> Iterator[Host]:
    folder.mkdir()
    made = Host(name, free_port(), folder / "home", folder)
    made.home.mkdir()
    public = make_key(folder / "key")
    with (folder.parent / "known_hosts").open("a") as known:
        known.write(f"[127.0.0.1]:{made.port} {public}\n")
    (folder / "sshd_config").write_text(
        "\n".join(
            (
                f"Port {made.port}", "ListenAddress 127.0.0.1", f"HostKey {folder / 'key'}", "UsePAM no",
                f"AuthorizedKeysFile {folder.parent / 'user.pub'}", "PidFile none", "StrictModes no",
                "PasswordAuthentication no", "PermitRootLogin yes", *settings,
            )
        )
    )  # fmt: skip
    sshd = str(shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin"))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--mount", "--uts", "sh", "-c", HOST, "sh",
             name, made.home, sshd, folder / "sshd_config"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            with (folder / "log").open() as said:
                text = ""
                while "listening on 127.0.0.1" not in text:
                    text += said.read()
                    assert process.poll() is None, text
            yield made
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Host, Host]]:
    make_key(tmp_path / "user")
    kept = ["SetEnv RECOVERY_NO_DROP_CACHES=1"] if os.environ.get("RECOVERY_NO_DROP_CACHES") else []
    with ExitStack() as stack:
        made = tuple(stack.enter_context(host(name, tmp_path / name, *kept)) for name in ("one", "two"))
        config = [f"UserKnownHostsFile {tmp_path / 'known_hosts'}", f"IdentityFile {tmp_path / 'user'}"]
        config += ["IdentitiesOnly yes", "HostName 127.0.0.1", "GlobalKnownHostsFile none"]
        for one in made:
            config += [f"Host {one.name}", f"Port {one.port}"]
        (tmp_path / "ssh_config").write_text("\n".join(config))
        monkeypatch.setenv("ANSIBLE_SSH_ARGS", f"-F {tmp_path / 'ssh_config'} -o ControlMaster=no")
        yield made[0], made[1]


def write_plan(path: Path, *more: str, hosts: tuple[str, ...] = ("one", "two"), session: str = SESSION) -> Path:
    lines = [f"sessions = ['{session}']", "poll_s = 1", *more]
    for name in hosts:
        lines += [f"[hosts.{name}]", f'ssh = "root@{name}"', 'instance_type = "namespace"', "price_per_hour = 0.5"]
    path.write_text("\n".join(lines))
    return path


def states(folder: Path) -> dict[str, tuple[str, str | None]]:
    stored = json.loads((folder / "fleet.json").read_text())
    return {name: (one["state"], one["reason"]) for name, about in stored["hosts"].items() for one in about["sessions"]}


def test_both_hosts_measure_and_keep_nothing(
    hosts: tuple[Host, Host], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, folder = write_plan(tmp_path / "plan.toml"), tmp_path / "fleet"
    code = run(["fleet", "run", str(plan), "--output", str(folder)])
    printed = capsys.readouterr()
    assert code == 0, printed.out + printed.err + (folder / "ansible.log").read_text()
    stored = json.loads((folder / "fleet.json").read_text())
    assert stored["hosts"]["one"]["facts"] == {"instance_type": "namespace", "price_per_hour": 0.5}
    for one in hosts:
        (session,) = stored["hosts"][one.name]["sessions"]
        report = json.loads((folder / session["folder"] / "report.json").read_text())
        assert report["runs"][0]["verdict"] == "measured"
        assert list(one.home.iterdir()) == []

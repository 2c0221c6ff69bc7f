"""A skipped audit never counts as passed. With the locked pip-audit, and a database on loopback."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from websites import serving

ROOT = Path(__file__).parent.parent.parent
pytestmark = [pytest.mark.real, pytest.mark.on_demand("docs")]
NOWHERE = "http://127.0.0.1:9/v1/query"


class Database(BaseHTTPRequestHandler):
    """As OSV answers; it knows of one package, unless it is asked elsewhere than there."""

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = asked["package"]["name"]
        known = {
            "id": "TEST-1", "modified": "2026-01-01T00:00:00Z", "published": "2026-01-01T00:00:00Z", "details": "d",
            "affected": [{
                "package": {"name": name, "ecosystem": "PyPI"},
                "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99.1"}]}],
            }],
        }  # fmt: skip
        body = json.dumps({"vulns": [known]} if name == "idna" and self.path == "/knows" else {}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def database() -> Iterator[str]:
    with serving(Database) as address:
        yield address


def test_an_audit_passes_fails_or_is_skipped(database: str, tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "requirements").mkdir()
    shutil.copy(ROOT / "scripts/audit.py", tmp_path / "scripts")
    shutil.copy(ROOT / "requirements/audit.lock", tmp_path / "requirements")

    def audited(where: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, str(tmp_path / "scripts/audit.py"), str(tmp_path / "environment"), f"--osv-url={where}"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.stderr == ""
        return done.returncode, done.stdout

    assert audited(f"{database}/empty") == (0, "nothing is known of what the locks install\n")
    code, output = audited(f"{database}/knows")
    assert (code, output.splitlines()[-1]) == (1, "something is known of what the locks install")
    assert "TEST-1, mended in 99.1" in output
    assert "idna" in output
    code, output = audited(NOWHERE)
    if code != 77:  # a host that reaches the second one, which is the public index's own
        assert code in (0, 1)
    else:
        assert output.startswith("skipped: no advisory database tells of all packages in audit.lock: osv: ")
        assert "; pypi: " in output
    (tmp_path / "requirements/audit.lock").write_text("no-such-package==1 --hash=sha256:" + "0" * 64 + "\n")
    code, output = audited(f"{database}/empty")
    assert (code, output[:45]) == (77, "skipped: pip-audit could not be installed: ER")

"""`recovery estimate` of a real server, for a user with the privilege PROCESS and for one without."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from datadirs import empty_datadir, server_on
from estimates import assert_not_available

from recovery.cli import estimate
from recovery.cli.main import run
from recovery.linux.read_benchmark import ProbeEffort
from recovery.linux.storage import IN_MEMORY, device_of

pytestmark = pytest.mark.real
LARGE = pytest.mark.on_demand("large")
ROWS = 3000
USERS = ("seer", "nobody")


@pytest.mark.parametrize(
    "version", ["mariadb-10.11.5", pytest.param("5.7.22", marks=LARGE), pytest.param("8.0.31", marks=LARGE)]
)
def test_a_running_server_is_estimated_by_what_is_pending(
    version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "_EFFORT", ProbeEffort(1 << 20, 0.02))
    build, datadir = empty_datadir(version, tmp_path)
    with server_on(build, datadir, tmp_path / "logs") as server:
        server.start(settings={"innodb_max_dirty_pages_pct": "99"})
        with (
            closing(server.connect()) as connection,
            closing(server.connect()) as other,
            connection.cursor() as cursor,
            other.cursor() as preparing,
        ):
            monitor = "slave monitor" if version.startswith("mariadb") else "replication client"
            for user, rights in zip(USERS, (f"process, {monitor}", "usage"), strict=True):
                cursor.execute(f"create user {user}@localhost identified by 'secret'")
                cursor.execute(f"grant {rights} on *.* to {user}@localhost")
                (tmp_path / f"{user}.cnf").write_text(
                    f"[client]\nuser={user}\npassword=secret\nsocket={server.socket}\n"
                )
            cursor.execute("create database d")
            cursor.execute("create table d.t (id int primary key auto_increment, pad char(200)) engine=innodb")
            cursor.execute("create temporary table d.passing (id int primary key, pad char(200)) engine=innodb")
            cursor.execute("insert into d.t (pad) values ('a')")
            while (rows := cursor.execute("select 1 from d.t")) < ROWS:
                cursor.execute("insert into d.t (pad) select pad from d.t")
            cursor.execute("insert into d.passing select * from d.t")
            for words in ("xa start 'x'", "insert into d.t (pad) values ('c')", "xa end 'x'", "xa prepare 'x'"):
                preparing.execute(words)
            cursor.execute("begin")
            changed = cursor.execute(f"update d.t set pad = 'b' where id <= {ROWS}")

            def estimated(user: str, *words: str) -> tuple[int, str]:
                capsys.readouterr()
                code = run(["estimate", "--defaults-file", str(tmp_path / f"{user}.cnf"), *words])
                return code, " ".join(capsys.readouterr().out.split())

            code, text = estimated("seer", "--reads", "2000")
            assert code == 0
            assert text.startswith("If it were killed now: ")
            assert "Largest lever: " in text
            assert "lacks the privilege" not in text
            assert "1 transaction after XA PREPARE: their rows, 1," in text
            metrics = tmp_path / "estimate.prom"
            assert estimated("seer", "--reads", "2000", "--openmetrics", str(metrics))[0] == 0
            samples = [line.rsplit(" ", 1) for line in metrics.read_text().splitlines() if not line.startswith("#")]
            figures = {name.partition("{")[0]: value for name, value in samples}
            assert float(figures["recovery_estimate_uncommitted_rows"]) == changed
            assert float(figures["recovery_estimate_redo_bytes"]) > 200 * changed
            pages = float(figures["recovery_estimate_dirty_pages"])
            assert 200 * changed / 16384 < pages < 1.5 * 200 * rows / 16384 + 200, "without the temporary table's"

            code, text = estimated("nobody", "--reads", "2000")
            assert code == 0
            # MySQL 8.0 shows its tablespaces to every user.
            left_out = "redo, transactions" if version == "8.0.31" else "files, redo, transactions"
            assert f"lacks the privilege PROCESS, so that these are left out: {left_out}." in text
            counted = [json.loads(estimated(user, "--reads", "2000", "--json", "-")[1])["files"] for user in USERS]
            assert counted[1] == (counted[0] if version == "8.0.31" else None)
            assert estimated("seer")[0] == (2 if device_of(tmp_path).filesystem in IN_MEMORY else 0)
            cursor.execute("rollback")
        server.kill()
        assert run(["estimate", "--socket", str(server.socket), "--openmetrics", str(metrics)]) == 2
        assert "no MySQL or MariaDB server answers" in capsys.readouterr().err
        assert_not_available(metrics, str(server.socket))

"""The text of a bundle has what a tracker asks for, on about 40 lines."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from sessions import FIXTURES, KEPT_SESSIONS, with_metrics

from recovery.analysis.summary import Summary, summarise
from recovery.errors import RecoveryError
from recovery.model import EarlierSession, Flavor, Run, Session, Verdict
from recovery.model import Finding as Doubt
from recovery.report.summary_text import slowest_start
from recovery.sharing import bug_report
from recovery.sharing.bug_finding import Finding, find, find_difference
from recovery.sharing.bug_report import LogLines, _limits, render_bug_report
from recovery.sharing.bundle import keep_versions, products
from recovery.storage.sessions import load_session

LOGS = FIXTURES / "errorlogs"


def find_slowest(session: Session) -> tuple[Summary | None, Finding]:
    """Returns what a report is about, also if nothing differs."""
    slow = slowest_start(session, summarise(session))
    return slow, find(session, slow)


def rendered(
    session: Session, product: Flavor = Flavor.MYSQL, log: str = "mysql-5.7.22-crash.err", *, finds: bool = True
) -> str:
    """Returns the text for the product's versions of a session, with a log as that of its slowest start."""
    kept = keep_versions(session, products(session)[product])
    slow, finding = find_difference(kept) if finds else find_slowest(kept)
    script = "repro.sh" if slow else None
    lines = LogLines("logs/001.err", (LOGS / log).read_text())
    return render_bug_report(kept, product, slow, finding, script=script, log=lines)


def section(text: str, heading: str) -> list[str]:
    """Returns the lines under a heading, which may begin on the heading's line."""
    return text.partition(f"\n{heading}")[2].partition("\n\n")[0].lstrip(":").strip().splitlines()


@pytest.fixture(scope="module")
def four(kept_sessions: Path) -> Session:
    return load_session(kept_sessions / "2026-11-21-four-versions")


def test_the_text_of_two_versions_has_all_that_the_tracker_asks_for(four: Session) -> None:
    two = keep_versions(four, ("5.7.22", "8.0.31"))
    text = rendered(two)
    assert text.splitlines()[0] == "Synopsis: Startup after SIGKILL takes 76.0 s cold with 200,000 tables (8.0.31)"
    headings = [line.partition(":")[0] for line in text.splitlines()[:6]]
    assert headings == ["Synopsis", "Category", "Severity", "Version", "OS", "CPU Architecture"]
    builds = section(text, "Description")[:2]
    assert [line.rpartition(" ")[2] for line in builds] == ["11418b78308a", "a4105a6ea812"]
    faster, _, *_, last = section(text, "Actual behaviour")
    assert "1.18 times faster (1.13-1.23) than 8.0.31, cold" in faster
    assert last.split() == ["8.0.31", "second", "start", "5", "57.61", "2.84", "80.5", "kB,", "3.00"]
    (expected,) = section(text, "Expected behaviour")
    assert expected == "8.0.31 takes no longer than 5.7.22, which needs 64.4 s."
    assert "\nHow to repeat:\n  bash repro.sh /path/to/mysqld    (attached; cold starts need root)\n" in text
    assert "  recovery crash-recovery --version '5.7.22 8.0.31' --tables 200000 --runs 5 \\\n" in text
    assert len(text.splitlines()) <= 48


def test_the_text_says_what_it_stands_on_and_what_would_make_it_stronger(four: Session, kept_sessions: Path) -> None:
    limits = " ".join(section(rendered(four), "Limits of this measurement"))
    assert "It stands on one session of " in limits
    assert " on one host; three sessions of several days would show how much sessions differ." in limits
    earlier = tuple(
        EarlierSession("name", f"2026-11-{day}T10:00:00+00:00", "5.7.22", "cold", 5, 64.0) for day in (18, 19)
    )
    with_earlier = replace(four, earlier=earlier)
    (found,) = (line for line in _limits(with_earlier, find(with_earlier, None), None) if "earlier" in line)
    assert found.endswith(
        "The figures are of one session; with the earlier ones there are 3 sessions over 66.6 hours on one host; "
        "sessions of another host would show whether they hold there."
    )
    crashes = load_session(kept_sessions / "2026-11-22-crash-matrix-inserts")
    assert "It stands on" not in rendered(crashes)


def test_the_log_has_the_lines_around_the_longest_phases(four: Session) -> None:
    """With the proof of the crash, the ready line, and nothing after it."""
    lines = section(rendered(four), "Error log of run 23, 8.0.31 cold")
    assert 5 <= len(lines) <= 10
    assert "20:28:49.151 InnoDB: Database was not shutdown normally!" in lines
    assert lines[-1] == "20:28:49.827 mysqld: ready for connections."


@pytest.mark.parametrize("log", sorted(LOGS.glob("*-crash.err")), ids=lambda path: path.name)
def test_a_log_of_any_server_is_cut_to_its_milestones(log: Path, four: Session) -> None:
    lines = section(rendered(four, log=log.name), "Error log of run 23, 8.0.31 cold")
    assert 3 <= len(lines) <= 10
    assert "ready for connections" in lines[-1]
    assert any("not shut" in line or "crash recovery" in line for line in lines)
    assert not any("[Note]" in line for line in lines)


def test_a_session_without_logs_has_the_proof_that_is_stored(four: Session) -> None:
    mysql = keep_versions(four, products(four)[Flavor.MYSQL])
    slow = slowest_start(mysql, summarise(mysql))
    text = render_bug_report(mysql, Flavor.MYSQL, slow, find(mysql, slow), script=None, log=None)
    (line,) = section(text, "Error log of run 23, 8.0.31 cold")
    assert line == "04:17:08.495 [MY-012551] Database was not shutdown normally!"


def test_mariadb_gets_the_markup_of_jira(four: Session) -> None:
    lines = rendered(four, Flavor.MARIADB, "mariadb-10.11.5-crash.err").splitlines()
    assert lines[:2] == ["Project: MariaDB Server (MDEV)", "Issue Type: Bug"]
    assert [line.partition(":")[0] for line in lines[2:6]] == [
        "Component/s", "Summary", "Affects Version/s", "Environment",
    ]  # fmt: skip
    assert "||variant||runs||seconds||\\+-||bytes, reads/table||" in lines
    assert "|cold|4|4.02|0.02|1.1 kB, 0.05|" in lines
    assert lines.count("{noformat}") == 6, "log, script and command"
    assert "h3. How to repeat" in lines
    assert len(lines) <= 45


def test_text_of_a_server_is_not_read_as_markup(four: Session) -> None:
    servers = {"mariadb-10.11.5": {"@version_comment": "{noformat}[x|y] *a* \u00e9"}}
    text = rendered(replace(four, servers=servers), Flavor.MARIADB)
    assert "\nmariadb-10.11.5: \\{noformat\\}\\[x\\|y\\] \\*a\\* \\?\n" in text


def test_percona_gets_its_own_project_and_release(four: Session) -> None:
    runs = tuple(replace(run, flavor="percona", version="percona-8.0.39") for run in four.runs[:10])
    servers = {"percona-8.0.39": {"@version": "8.0.39-30"}}
    one = replace(four, versions=("percona-8.0.39",), runs=runs, servers=servers)
    lines = rendered(one, Flavor.PERCONA).splitlines()
    assert lines[0] == "Project: Percona Server for MySQL (PS)"
    assert "Affects Version/s: 8.0.39-30" in lines


def test_a_traced_start_is_compared_with_the_manual(kept_sessions: Path) -> None:
    session = keep_versions(load_session(kept_sessions / "2026-11-27-seven-versions"), ("5.7.22",))
    text = rendered(session)
    expected = " ".join(section(text, "Expected behaviour"))
    assert expected == (
        '"only tablespace *.ibd files modified since the last checkpoint are accessed" (the manual of 5.7, '
        "https://dev.mysql.com/doc/refman/5.7/en/innodb-recovery.html). "
        "Here 50,000 are read, and 100 were modified."
    )
    assert "bytes, reads/table  opened  modified" in text


def test_a_traced_start_that_reads_unmodified_files_is_stated_as_the_defect(kept_sessions: Path) -> None:
    seven = load_session(kept_sessions / "2026-11-27-seven-versions")
    one = keep_versions(seven, ("5.7.22",))
    assert rendered(one).startswith("Synopsis: Crash recovery of 5.7.22 reads all 50,000 files, 100 were modified\n")
    old = keep_versions(seven, ("5.6.24",))
    assert rendered(old).startswith("Synopsis: Startup after SIGKILL takes "), "its manual promises nothing"
    maria = keep_versions(seven, ("mariadb-10.11.5",))
    summary = rendered(maria, Flavor.MARIADB).splitlines()[3]
    assert summary == "Summary: Crash recovery of mariadb-10.11.5 opens all 50,000 files, 100 were modified"


def test_only_versions_with_the_defect_are_affected(kept_sessions: Path) -> None:
    found = rendered(load_session(kept_sessions / "2026-11-25-mariadb-200000"), Flavor.MARIADB)
    assert "Crash recovery of mariadb-10.11.5 opens all 200,000 files" in found
    assert "\nAffects Version/s: 10.11.5\n" in found


def test_the_limits_of_the_measurement_are_listed(kept_sessions: Path) -> None:
    text = rendered(load_session(kept_sessions / "2026-11-27-two-versions-traced"))
    limits = " ".join(section(text, "Limits of this measurement"))
    assert "95 % intervals" in limits
    assert "virtual machine" in limits
    loads = rendered(load_session(kept_sessions / "2026-11-26-write-scaling"))
    assert any(line.startswith("Warning, ") for line in section(loads, "Limits of this measurement"))


def test_a_server_for_which_the_manual_says_nothing_has_no_expectation(kept_sessions: Path) -> None:
    """Up to 5.6 the redo log names no files."""
    old = keep_versions(load_session(kept_sessions / "2026-11-27-seven-versions"), ("5.6.24",))
    assert "Expected behaviour" not in rendered(old)


@pytest.mark.parametrize("version", ["8.0.15", "8.0.31", "9.7.4"])
def test_the_manual_of_5_7_is_not_quoted_for_later_versions(version: str, kept_sessions: Path) -> None:
    """From 8.0 on the manual says that directories are scanned."""
    session = keep_versions(load_session(kept_sessions / "2026-11-27-seven-versions"), (version,))
    text = rendered(session)
    assert text.startswith("Synopsis: Startup after SIGKILL takes ")
    assert "Expected behaviour" not in text
    assert "refman" not in text
    assert f"\nVersion: {version}\n" in text


def builds(session: Session, **names: str) -> Session:
    """Returns a session of two builds of 8.0.31, with the runs of these versions."""
    runs: list[Run] = []
    servers = {}
    for name, version in names.items():
        servers[f"8.0.31+{name}"] = session.servers[version]
        kept = (run for run in session.runs if run.version == version)
        runs += [replace(run, version=f"8.0.31+{name}", number=len(runs) + 1) for run in kept]
    return replace(session, versions=tuple(servers), servers=servers, runs=tuple(runs))


def test_builds_or_versions_that_do_not_differ_make_no_report(kept_sessions: Path) -> None:
    seven = load_session(kept_sessions / "2026-11-27-seven-versions")
    alike = "there is nothing to report: Startup after SIGKILL: no significant difference between "
    with pytest.raises(RecoveryError) as raised:
        rendered(builds(seven, base="8.0.31", new="8.0.31"))
    assert raised.value.message == f"{alike}base and new, cold (8.0.31, 50,000 tables)"
    runs = [run for run in seven.runs if run.version == "8.0.31"]
    runs += [replace(run, version="8.0.15", number=run.number + len(runs)) for run in runs]
    servers = dict.fromkeys(("8.0.31", "8.0.15"), seven.servers["8.0.31"])
    with pytest.raises(RecoveryError) as raised:
        rendered(replace(seven, versions=tuple(servers), servers=servers, runs=tuple(runs)))
    assert raised.value.message == f"{alike}8.0.31 and 8.0.15, cold (50,000 tables)"


def test_versions_with_too_few_runs_make_no_report(four: Session) -> None:
    few = replace(four, runs=tuple(run for run in four.runs if run.repeat < 3))
    with pytest.raises(RecoveryError, match=r"nothing to report: .* and no difference within the product"):
        rendered(few)


def test_loads_that_do_not_differ_make_no_report(kept_sessions: Path) -> None:
    with pytest.raises(RecoveryError, match="nothing to report: sysbench by table cache instances: no significant"):
        rendered(load_session(kept_sessions / "2026-11-26-table-cache"))


def test_a_session_in_which_only_warm_starts_differ_is_reported_with_these(kept_sessions: Path) -> None:
    seven = load_session(kept_sessions / "2026-11-27-seven-versions")
    text = rendered(seven)
    assert " ".join(text.partition("\nCategory")[0].split()) == (
        "Synopsis: Startup after SIGKILL takes 9.37 s warm with 50,000 tables (8.0.31)"
    )
    assert "8.0.31 takes no longer than 5.7.22" in " ".join(section(text, "Expected behaviour"))


@pytest.mark.parametrize("name", [name for name in KEPT_SESSIONS if "pending" not in name])
def test_one_speed_of_the_storage_is_stated(name: str, kept_sessions: Path) -> None:
    session = load_session(kept_sessions / name)
    for product in products(session):
        try:
            text = " ".join(rendered(session, product).split())
        except RecoveryError:
            continue
        text, _, _ = text.partition("Limits of this measurement")
        assert "4 KiB reads" not in text
        for threads in ("by one thread", "by 16"):
            assert len(set(re.findall(rf"([0-9,]+)(?: reads/s)? {threads}", text))) <= 1


def test_the_warning_about_the_reported_start_comes_first_and_each_kind_is_named(kept_sessions: Path) -> None:
    session = load_session(kept_sessions / "2026-11-27-two-versions-traced")
    of_slow = Doubt("5.7.22 cold", "Of the slow start.", "", "drift")
    kinds = ("a-b", "a-b", "c", "d")
    others = [Doubt("mariadb-10.11.5 cold", f"{number}.", "", kind) for number, kind in enumerate(kinds)]
    slow, finding = find_difference(session)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bug_report, "findings_of_each_cell", lambda _: (*others, of_slow))
        found = [line for line in _limits(session, finding, slow) if "arning" in line]
    assert found == [
        "Warning, 5.7.22 cold: Of the slow start.",
        "Warning, mariadb-10.11.5 cold: 0.",
        "Warning, mariadb-10.11.5 cold: 2.",
        "Further warnings, in report.txt: a b, d.",
    ]


def test_builds_that_differ_have_both_figures(four: Session) -> None:
    text = rendered(builds(four, base="5.7.22", new="8.0.31"))
    assert " ".join(text.partition("\nCategory")[0].split()) == (
        "Synopsis: Startup after SIGKILL takes 76.0 s cold with new, and 64.4 s with base (8.0.31, 200,000 tables)"
    )
    expected = " ".join(section(text, "Expected behaviour"))
    assert expected == "8.0.31+new takes no longer than 8.0.31+base, which needs 64.4 s."


def test_settings_are_compared_with_their_base(kept_sessions: Path) -> None:
    session = load_session(kept_sessions / "2026-11-26-what-helps-8.0.31")
    text = " ".join(rendered(session).split())
    assert "takes 61.1 s cold with plain, and 25.9 s with force-recovery (8.0.31, 200,000 tables)" in text
    assert "one-tablespace instead of plain: 0.02" in text
    alike = replace(
        session, runs=tuple(run for run in session.runs if run.variant in ("cold-plain", "cold-definition-cache")),
        variants=tuple(
            variant for variant in session.variants if variant.name in ("cold-plain", "cold-definition-cache")
        ),
    )  # fmt: skip
    with pytest.raises(RecoveryError, match="no significant difference between plain and definition-cache, cold"):
        rendered(alike)
    few = replace(alike, runs=tuple(run for run in alike.runs if run.repeat < 3))
    with pytest.raises(RecoveryError, match="plain and definition-cache are not compared, 3 runs of each are needed"):
        rendered(few)


def test_what_does_not_differ_significantly_is_not_expected_to(four: Session) -> None:
    few = replace(four, runs=tuple(run for run in four.runs if run.repeat < 3))
    assert "Expected behaviour" not in rendered(few, finds=False)


def test_the_severity_of_lost_data_is_left_to_the_reporter(kept_sessions: Path) -> None:
    text = rendered(load_session(kept_sessions / "2026-11-22-damage"))
    assert "\nSeverity: [S1 to S3: yours to choose]\n" in text


def test_a_load_has_a_table_of_its_first_cells(kept_sessions: Path) -> None:
    session = load_session(kept_sessions / "2026-11-26-experiments-write-scaling")
    lines = section(rendered(session), "Actual behaviour")
    head = next(number for number, line in enumerate(lines) if line.startswith("version "))
    first, *_, last = lines[head + 1 :]
    assert first.split() == [
        "5.7.22", "scaling,", "point-select,", "threads", "1", "3", "16,758", "queries/s", "1,060",
    ]  # fmt: skip
    assert last == "60 more rows are in report.txt in the archive."
    rows = [line for line in lines[head + 1 :] if line.startswith(session.versions)]
    assert len(rows) == 10


def test_the_range_stands_where_the_interval_would_pass_zero(kept_sessions: Path) -> None:
    session = load_session(kept_sessions / "2026-11-26-experiments-write-scaling")
    cell = ("5.7.22", "scaling-point-select-1-thread")
    slow = next(run for run in session.runs if (run.version, run.variant) == cell)
    runs = tuple(with_metrics(run, qps=1000.0) if run is slow else run for run in session.runs)
    lines = section(rendered(replace(session, runs=runs)), "Actual behaviour")
    first = next(line for line in lines if line.startswith("5.7.22   scaling, point-select"))
    assert first.split()[-1] == "1,000-17,240"


def test_a_session_without_measured_runs_has_no_empty_table(kept_sessions: Path) -> None:
    for name in ("2026-11-21-four-versions", "2026-11-26-experiments-write-scaling"):
        session = load_session(kept_sessions / name)
        failed = replace(session, runs=tuple(replace(run, verdict=Verdict.FAILED) for run in session.runs))
        for product in products(failed):
            assert "The tables are in report.txt in the archive." in rendered(failed, product)


def test_sampled_stacks_add_the_most_frequent_one(kept_sessions: Path) -> None:
    text = rendered(load_session(kept_sessions / "2026-11-21-stacks"))
    heading, *frames = section(text, "Top stack")
    assert heading == "of run 4, 5.7.22: 82 % of validation, main thread:", "of the slowest version"
    assert " ".join(frames).startswith("fil_ibd_open > Datafile::validate_to_dd > ")


@pytest.mark.parametrize("name", KEPT_SESSIONS)
def test_the_text_of_any_session_is_short_and_plain(name: str, kept_sessions: Path) -> None:
    session = load_session(kept_sessions / name)
    for product in products(session):
        try:
            text = rendered(session, product)
        except RecoveryError:
            continue
        assert text.isascii()
        assert len(text.splitlines()) <= 72
        if product is Flavor.MYSQL:
            assert [line for line in text.splitlines() if len(line) > 78] == []
            assert text.startswith("Synopsis: ")
        for heading in ("Description", "Actual behaviour", "How to repeat"):
            assert section(text, heading) or section(text, f"h3. {heading}"), heading
        assert ("[yours to write]" in text.replace("\\", "")) is not session.has_caches

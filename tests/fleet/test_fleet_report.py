"""Hosts are compared from their stored sessions: ratios with intervals only, and what has none is named."""

from __future__ import annotations

import json
import math
import re
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from html_page import check_page, without_whole

from recovery.analysis.contrasts import compare_logs
from recovery.analysis.warnings import doubts_by_cell, findings_of_each_cell
from recovery.cli.main import run
from recovery.fleet import sections
from recovery.fleet.hosts import Host, compare_hosts
from recovery.fleet.report import read_fleet
from recovery.fleet.sections import (
    FleetReport,
    fleet_answer,
    not_compared_lines,
    ratio_sentences,
    render_markdown,
    render_text,
)
from recovery.report.markdown import escaped
from recovery.report.text import render as text_of_session
from recovery.storage.sessions import load_session


def render_html(report: FleetReport) -> str:
    return without_whole(sections.render_html(report))


KEPT = "2026-11-21-four-versions"
SESSION = "20261125T100000Z-crash-recovery"
METADATA = "2026-11-26-experiments-metadata"
T_3, T_6 = 3.1824463053, 2.4469118511
"""Student's t of 95 % with 4 and 8 degrees of freedom, from a printed table."""
PRICES = {"one": 0.1, "two": 0.3}


def stored(kept_sessions: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((kept_sessions / KEPT / "report.json").read_text())
    return report


def times_longer(report: dict[str, Any], factor: float, **facts: object) -> dict[str, Any]:
    """The session of another host, whose starts take so many times as long."""
    other = elsewhere(report, device_serial=f"disk {factor}", **facts)
    for measured in other["runs"]:
        measured["metrics"]["startup_s"] *= factor
    return other


def elsewhere(report: dict[str, Any], **facts: object) -> dict[str, Any]:
    """The same session on a host of which other facts are known."""
    other: dict[str, Any] = json.loads(json.dumps(report))
    other["environment"] |= facts
    return other


def put(folder: Path, host: str, report: dict[str, Any], name: str = SESSION) -> None:
    (folder / host / name).mkdir(parents=True)
    (folder / host / name / "report.json").write_text(json.dumps(report))


def plan(folder: Path, **hosts: dict[str, Any]) -> None:
    (folder / "fleet.json").write_text(json.dumps({"format": 1, "hosts": hosts}))


def planned(host: str, *more: dict[str, Any], **facts: object) -> dict[str, Any]:
    finished = {"command": "crash-recovery", "folder": f"{host}/{SESSION}", "state": "finished", "reason": None}
    return {"facts": facts, "sessions": [finished, *more]}


def test_seven_hosts_that_no_session_came_from_have_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = {"command": "cold-recovery", "folder": None, "state": "missing", "reason": "no route"}
    plan(tmp_path, **{f"host{number}": {"facts": {}, "sessions": [missing]} for number in range(7)})
    assert run(["fleet", "report", str(tmp_path), "-v"]) == 1
    printed = capsys.readouterr().out
    assert all(f"host{number}, cold-recovery: missing: no route" in printed for number in range(7))


@pytest.fixture
def folder(tmp_path: Path, kept_sessions: Path) -> Path:
    """Two hosts: starts on the second one take half as long, and it has another CPU and another kernel."""
    put(tmp_path, "one", elsewhere(stored(kept_sessions), host_id="a" * 12))
    other = times_longer(stored(kept_sessions), 0.5, cpu_model="Xeon", kernel="6.1.0", host_id="b" * 12)
    put(tmp_path, "two", other)
    return tmp_path


def seconds(report: dict[str, Any], version: str, variant: str) -> list[float]:
    return [
        one["metrics"]["startup_s"]
        for one in report["runs"]
        if (one["version"], one["variant"], one["verdict"]) == (version, variant, "measured")
    ]


def relative_error(values: list[float]) -> float:
    return statistics.stdev(values) / math.sqrt(len(values)) / statistics.fmean(values)


def test_hosts_are_compared_for_the_same_version_and_variant(folder: Path, kept_sessions: Path) -> None:
    """Starts that take half as long have a ratio of 0.5. As both sides have the same relative spread, the degrees of
    freedom are those of both together."""
    fleet = read_fleet(folder).fleet
    found = {(one.version, one.variant): one for one in fleet.between}
    assert {(one.base_host, one.host) for one in fleet.between} == {("one", "two")}
    assert [one.ratio for one in fleet.between] == pytest.approx([0.5] * 7)
    cold = found["5.7.22", "cold"]
    half = T_6 * math.sqrt(2) * relative_error(seconds(stored(kept_sessions), "5.7.22", "cold"))
    assert cold.ratio_low == pytest.approx(0.5 * math.exp(-half))
    assert cold.ratio_high == pytest.approx(0.5 * math.exp(half))
    assert cold.differs


def test_versions_are_compared_on_the_same_host(folder: Path, kept_sessions: Path) -> None:
    report = stored(kept_sessions)
    means = [statistics.fmean(seconds(report, version, "cold")) for version in ("5.6.24", "5.7.22")]
    found = [one for one in read_fleet(folder).fleet.within if (one.version, one.variant) == ("5.7.22", "cold")]
    assert [one.host for one in found] == ["one", "two"]
    assert {one.base_version for one in found} == {"5.6.24"}
    assert [one.ratio for one in found] == pytest.approx([means[1] / means[0]] * 2)


def test_the_figures_of_a_host_are_those_of_its_session(folder: Path, kept_sessions: Path) -> None:
    plan(folder, **{name: planned(name, price_per_hour=price) for name, price in PRICES.items()})
    report, fleet = stored(kept_sessions), read_fleet(folder).fleet
    found = {one.host: one for one in fleet.cells if (one.summary.version, one.summary.variant) == ("5.7.22", "cold")}
    values = seconds(report, "5.7.22", "cold")
    reads = [
        one["metrics"]["read_requests"]
        for one in report["runs"]
        if (one["version"], one["variant"], one["verdict"]) == ("5.7.22", "cold", "measured")
    ]
    assert found["one"].summary.mean == pytest.approx(statistics.fmean(values))
    assert found["one"].summary.interval == pytest.approx(T_3 * statistics.stdev(values) / math.sqrt(4))
    assert found["one"].reads_per_table == pytest.approx(statistics.fmean(reads) / 200_000)
    assert found["one"].cost_per_million_tables == pytest.approx(0.1 / 3600 * statistics.fmean(values) * 5)
    assert found["two"].cost_per_million_tables == pytest.approx(0.3 / 3600 * statistics.fmean(values) / 2 * 5)
    assert [one.cost_ratio for one in fleet.between] == pytest.approx([0.5 * 3] * 7)


def test_a_ratio_of_servers_of_which_one_waits_for_the_storage_names_it(tmp_path: Path, kept_sessions: Path) -> None:
    session = json.loads((kept_sessions / "2026-11-27-two-versions-traced" / "report.json").read_text())
    put(tmp_path, "one", session)
    cold, *others = ratio_sentences(read_fleet(tmp_path).fleet)
    assert "for cold starts, on this storage (23,000 reads/s by one thread, 94,000 by 16)" in cold
    assert others == []
    put(tmp_path, "two", elsewhere(session, device_serial="another"))
    within, between = ratio_sentences(read_fleet(tmp_path).fleet)
    assert "for cold starts, on the storage of these hosts" in within
    assert "storage" not in between


def test_a_ratio_of_servers_that_wait_alike_has_no_storage(tmp_path: Path, kept_sessions: Path) -> None:
    session = json.loads((kept_sessions / "2026-11-27-seven-versions" / "report.json").read_text())
    versions = session["versions"] = [version for version in session["versions"] if not version.startswith("mariadb")]
    session["runs"] = [
        {**one, "verdict": "measured", "extra": None} if one.get("extra") == "first read" else one
        for one in session["runs"]
        if one["variant"] == "cold" and one["version"] in versions
    ]
    put(tmp_path, "one", session)
    sentences = ratio_sentences(read_fleet(tmp_path).fleet)
    assert sentences
    assert "storage" not in "".join(sentences)


def test_there_is_no_cost_without_a_price(folder: Path) -> None:
    report = read_fleet(folder)
    assert {one.cost_per_million_tables for one in report.fleet.cells} == {None}
    assert "cost of" not in render_text(report)


def test_what_the_ratio_measures_apart_from_the_machine_is_named(folder: Path) -> None:
    """A different CPU is what hosts are compared for, a different kernel is not. Each host has an id of its own."""
    report = read_fleet(folder)
    assert {one.other_differences for one in report.fleet.between} == {("kernel",)}
    assert "The ratios also measure: kernel, different on one and two." in fleet_answer(report)
    assert "Xeon" in render_text(report)


@pytest.mark.parametrize(
    ("place", "name", "value", "named"),
    [
        ("environment", "idle_pageout", None, "idle pageout"),
        ("environment", "open_files_limit", 9, "open files limit"),
        ("tool", "tool_version", "9.9", "version of the tool"),
    ],
)
def test_pageout_limits_and_tool_are_named(
    tmp_path: Path, kept_sessions: Path, place: str, name: str, value: object, named: str
) -> None:
    report, other = stored(kept_sessions), times_longer(stored(kept_sessions), 2)
    (other if place == "tool" else other[place])[name] = value
    put(tmp_path, "one", report)
    put(tmp_path, "two", other)
    assert {one.other_differences for one in read_fleet(tmp_path).fleet.between} == {(named,)}


@pytest.mark.parametrize(("setting", "value"), [("tables", 1000), ("read_iops", 5000)])
def test_hosts_with_other_settings_are_not_compared(
    tmp_path: Path, kept_sessions: Path, setting: str, value: int
) -> None:
    report, other = stored(kept_sessions), times_longer(stored(kept_sessions), 2)
    other["settings"][setting] = value
    put(tmp_path, "one", report)
    put(tmp_path, "two", other)
    fleet = read_fleet(tmp_path).fleet
    assert fleet.between == ()
    (line,) = (one for one in not_compared_lines(fleet) if "other settings" in one)
    assert line.startswith("two with one, crash-recovery: other settings")
    assert f"{setting.replace('_', ' ')} {value}, not " in line


def test_nothing_is_claimed_without_an_interval(tmp_path: Path, kept_sessions: Path) -> None:
    """Two runs of each have a mean, and no ratio."""
    for host, factor in (("one", 1), ("two", 9)):
        session = times_longer(stored(kept_sessions), factor)
        session["runs"] = [one for one in session["runs"] if one["repeat"] <= 2]
        session["planned_runs"] = len(session["runs"])
        put(tmp_path, host, session)
    report = read_fleet(tmp_path)
    assert (report.fleet.within, report.fleet.between) == ((), ())
    assert any(
        one.startswith("crash-recovery, cold: 5.7.22 on two with one: no interval")
        for one in not_compared_lines(report.fleet)
    )
    for text in (render_text(report), render_markdown(report), render_html(report)):
        assert "times as long" not in text
        assert "ratio to" not in text


def test_equal_hosts_do_not_differ_significantly(tmp_path: Path, kept_sessions: Path) -> None:
    put(tmp_path, "one", stored(kept_sessions))
    put(tmp_path, "two", times_longer(stored(kept_sessions), 1.0001))
    report = read_fleet(tmp_path)
    assert {one.differs for one in report.fleet.between} == {False}
    assert "two and one do not differ significantly for cold starts and warm starts." in fleet_answer(report)


def test_hosts_on_one_device_may_be_one_machine(tmp_path: Path, kept_sessions: Path) -> None:
    for host in ("one", "two"):
        put(tmp_path, host, stored(kept_sessions))
    assert any(one.startswith("Perhaps one machine") for one in fleet_answer(read_fleet(tmp_path)))


def test_a_session_for_each_version_is_as_good_as_one_for_all(folder: Path) -> None:
    """The versions of a host may lie in several sessions of the same settings."""
    whole = read_fleet(folder).fleet
    hosts = []
    for host in whole.hosts:
        (session,) = host.sessions
        parts = [
            replace(session, versions=(version,), runs=tuple(run for run in session.runs if run.version == version))
            for version in session.versions
        ]
        hosts.append(Host(host.name, host.facts, tuple(parts)))
    split = compare_hosts(hosts)
    assert split.within == whole.within
    assert [one.ratio_high for one in split.between] == [one.ratio_high for one in whole.between]


def test_the_formats_have_the_same_answer(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "500")
    answer = fleet_answer(read_fleet(folder))
    assert len(answer) >= 4
    assert run(["fleet", "report", str(folder)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[1:-1] == list(answer)
    assert len(printed) <= 12
    assert run(["fleet", "report", str(folder), "--json", "-"]) == 0
    stored_report = json.loads(capsys.readouterr().out)
    assert stored_report["answer"] == list(answer)
    assert {tuple(ratio["beside"]) for ratio in stored_report["between"]} == {("kernel",)}
    assert not any("other_differences" in ratio for ratio in stored_report["between"])
    text = " ".join((folder / "fleet.txt").read_text().split())
    markdown, page = (folder / "fleet.md").read_text(), check_page((folder / "fleet.html").read_text())
    for line in answer:
        assert line in text
        assert escaped(line) in markdown
        assert line in "".join(page.texts)
    assert page.tags["svg"] >= 2
    assert all(len(line) <= 78 and line.isascii() for line in (folder / "fleet.txt").read_text().splitlines())


def test_the_tables_are_printed_on_demand(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fleet", "report", str(folder), "-v"]) == 0
    printed = capsys.readouterr().out
    assert "Versions compared: seconds" in printed
    assert "host: seconds, ratio to one" in printed
    assert "Facts about the hosts" in printed


def test_many_hosts_have_a_short_answer(
    tmp_path: Path, kept_sessions: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for number in range(1, 13):
        put(tmp_path, f"host-{number:02}", times_longer(stored(kept_sessions), number))
    assert run(["fleet", "report", str(tmp_path)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) <= 12
    assert "the extremes of 11 comparisons" in " ".join((tmp_path / "fleet.txt").read_text().split())
    check_page((tmp_path / "fleet.html").read_text())


# --- Damaged and missing sessions


def test_each_damaged_or_missing_session_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(folder, "two", {"format": 2}, "damaged")
    damaged = {"command": "scale", "folder": "two/damaged", "state": "finished"}
    missing = {"command": "metadata", "folder": None, "state": "missing", "reason": "the host was away"}
    plan(folder, one=planned("one"), two=planned("two", damaged), three={"sessions": [missing]})
    report = read_fleet(folder)
    assert len(report.fleet.between) > 0
    first, second = report.problems
    assert first.startswith("two, scale: ")
    assert "is damaged" in first
    assert second == "three, metadata: missing: the host was away"
    assert run(["fleet", "report", str(folder)]) == 1
    assert "Missing or incomplete, the first of 2: two, scale" in " ".join(capsys.readouterr().out.split())
    for name in ("fleet.txt", "fleet.md", "fleet.html"):
        assert "the host was away" in " ".join((folder / name).read_text().split())


def test_a_fleet_without_any_result_has_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = {"command": "cold-recovery", "folder": None, "state": "missing", "reason": "no room"}
    plan(tmp_path, one={"sessions": [missing]}, two={"sessions": []})
    assert run(["fleet", "report", str(tmp_path)]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == ["2 hosts", "Missing or incomplete: one, cold-recovery: missing: no room"]
    check_page((tmp_path / "fleet.html").read_text())


def test_the_page_links_the_reports_of_the_sessions(tmp_path: Path, kept_sessions: Path) -> None:
    put(tmp_path, "javascript:x #1", stored(kept_sessions))
    (tmp_path / "javascript:x #1" / SESSION / "report.html").write_text("<p>its own</p>")
    (session,) = read_fleet(tmp_path).sessions
    assert session.page == f"javascript%3Ax%20%231/{SESSION}/report.html"
    assert f'<a href="{session.page}">' in render_html(read_fleet(tmp_path))


DOUBTED = "2026-11-25-six-servers"


def test_the_page_has_the_doubts_of_each_session_beside_its_figures(tmp_path: Path, kept_sessions: Path) -> None:
    session = json.loads((kept_sessions / DOUBTED / "report.json").read_text())
    hosts = ("one", "two", "three", "four")
    for number, host in enumerate(hosts, 1):
        put(tmp_path, host, times_longer(session, number))
        (tmp_path / host / SESSION / "report.html").write_text("<p>its own</p>")
    page = render_html(read_fleet(tmp_path))
    answer, _, rest = page.partition("<nav")
    (box,) = re.findall(r'<ul class="doubts">(.*?)</ul>', answer, re.DOTALL)
    found = findings_of_each_cell(load_session(kept_sessions / DOUBTED))
    assert f"{len(found) * len(hosts)} warnings in " in re.sub("<[^>]+>", "", box)
    named = re.findall(r"<h3>([^<]*)</h3>", rest.partition('<section id="warnings"')[2].partition("</section>")[0])
    assert len(named) == len(found) * len(hosts)
    assert all(sum(host in re.split(r"[:, ]+", name) for name in named) == len(found) for host in hosts)
    doubts = doubts_by_cell(load_session(kept_sessions / DOUBTED))
    assert len(re.findall(r'class="number doubted" title="[^"]+"', rest)) == len(doubts) * len(hosts)
    assert len(re.findall(r'<tspan[^>]*class="doubt">!<title>', rest)) == len(doubts) * len(hosts)


def test_two_commands_have_sections_of_their_own(folder: Path, kept_sessions: Path) -> None:
    """No name is there twice, so that the page stays valid, and every table says which command it is of."""
    for host in ("one", "two"):
        put(folder, host, stored(kept_sessions) | {"experiment": "other"}, "20261125T110000Z-other")
    report = read_fleet(folder)
    page = check_page(render_html(report))
    assert {"figures", "figures-2", "axes", "axes-2"} <= set(page.ids)
    text = render_text(report)
    for name in ("crash-recovery", "other"):
        assert f"{name}: host: seconds, ratio to one" in text


def test_published_effects_are_judged_in_the_report_of_each_host_only(tmp_path: Path, kept_sessions: Path) -> None:
    """Whether a host is large enough for an effect is a fact about one host."""
    session = json.loads((kept_sessions / METADATA / "report.json").read_text())
    for host, cpus in (("one", 2), ("two", 4)):
        put(tmp_path, host, elsewhere(session, cpus=cpus))
    assert "Published and here" in text_of_session(load_session(tmp_path / "one" / SESSION))
    report = read_fleet(tmp_path)
    for text in (render_text(report), render_markdown(report), render_html(report)):
        assert "Published and here" not in text
        assert "too few" not in text


def test_several_sessions_of_a_host_are_compared_by_their_means(tmp_path: Path, kept_sessions: Path) -> None:
    """Runs of one session share its conditions, so three sessions of five runs are three values."""
    factors = {"one": (1.0, 1.1, 0.9), "two": (2.0, 2.3, 1.9)}
    for host, of_host in factors.items():
        for number, factor in enumerate(of_host):
            put(tmp_path, host, times_longer(stored(kept_sessions), factor), f"2026112{number}T100000Z-crash-recovery")
    fleet = read_fleet(tmp_path).fleet
    mean = statistics.fmean(seconds(stored(kept_sessions), "5.7.22", "cold"))
    (cell, _) = (one for one in fleet.cells if (one.summary.version, one.summary.variant) == ("5.7.22", "cold"))
    assert (cell.sessions, cell.summary.count) == (3, 12)
    assert cell.summary.mean == pytest.approx(mean * statistics.geometric_mean(factors["one"]))
    assert cell.summary.stdev == pytest.approx(0.1 * mean)
    (ratio,) = (one for one in fleet.between if (one.version, one.variant) == ("5.7.22", "cold"))
    expected = compare_logs(factors["two"], factors["one"])
    assert (ratio.ratio_low, ratio.ratio_high) == pytest.approx((expected.low, expected.high))


def without(report: dict[str, Any], version: str) -> dict[str, Any]:
    """The session of a host that did not measure a version."""
    others = [other for other in report["versions"] if other != version]
    return report | {"versions": others, "runs": [run for run in report["runs"] if run["version"] in others]}


@pytest.mark.parametrize("is_planned", [False, True])
def test_hosts_are_compared_with_the_first_that_measured_the_version(
    tmp_path: Path, kept_sessions: Path, is_planned: bool
) -> None:
    """It does not matter whether another host planned to measure it, too."""
    report = stored(kept_sessions)
    first = without(report, "8.0.31") | ({"versions": report["versions"]} if is_planned else {})
    put(tmp_path, "one", first)
    for host, factor in (("two", 2), ("three", 3)):
        put(tmp_path, host, times_longer(report, factor))
    plan(tmp_path, **{host: planned(host, price_per_hour=price) for host, price in (*PRICES.items(), ("three", 0.6))})
    found = read_fleet(tmp_path)
    bases = {(ratio.version, ratio.base_host, ratio.host) for ratio in found.fleet.between}
    assert {(base, host) for version, base, host in bases if version == "8.0.31"} == {("two", "three")}
    assert {(base, host) for version, base, host in bases if version != "8.0.31"} == {("one", "two"), ("one", "three")}
    cold = next(ratio for ratio in found.fleet.between if (ratio.version, ratio.variant) == ("8.0.31", "cold"))
    assert cold.ratio == pytest.approx(1.5)
    assert cold.cost_ratio == pytest.approx(1.5 * 0.6 / 0.3)
    assert not any("8.0.31" in line for line in not_compared_lines(found.fleet) if "second starts" not in line)
    tables = {table.title: table for table in sections.fleet_tables(found)}
    assert {row[0] for row in tables["host: seconds, ratio to two"].rows} == {"8.0.31"}
    assert tables["host: seconds, ratio to two"].headers[-2:] == ("mean at two", "three")
    assert "8.0.31" not in {row[0] for row in tables["host: seconds, ratio to one"].rows}
    assert {"cost, ratio to one", "cost, ratio to two"} <= set(tables["Reads and cost"].headers)


def test_a_version_of_a_single_host_is_named(tmp_path: Path, kept_sessions: Path) -> None:
    report = stored(kept_sessions)
    put(tmp_path, "one", without(report, "8.0.31"))
    put(tmp_path, "two", times_longer(report, 2))
    assert "two, crash-recovery, 8.0.31: no other host measured this version." in not_compared_lines(
        read_fleet(tmp_path).fleet
    )


def test_a_session_that_lacks_runs_is_named(tmp_path: Path, kept_sessions: Path) -> None:
    report = stored(kept_sessions)
    report["runs"] = report["runs"][:-1]
    put(tmp_path, "one", report)
    (line,) = read_fleet(tmp_path).problems
    assert "1 of its 40 runs failed, were void or are missing" in line


def test_a_record_from_elsewhere_names_no_other_folder(folder: Path) -> None:
    elsewhere = planned("one")
    elsewhere["sessions"][0]["folder"] = f"../../two/{SESSION}"
    plan(folder, one=elsewhere)
    assert len(read_fleet(folder).fleet.cells) == 8, "that of the host itself is read"


def test_texts_from_outside_never_become_markup(tmp_path: Path, kept_sessions: Path) -> None:
    hostile = "<script>alert(1)</script>\x1b[31m|`"
    for host, factor in (("one", 1), ("two", 2)):
        session = times_longer(stored(kept_sessions), factor, cpu_model=hostile + host, kernel=hostile + host)
        put(tmp_path, host, session | {"command": hostile})
    plan(tmp_path, one=planned("one", volume=hostile), two=planned("two", volume=hostile))
    report = read_fleet(tmp_path)
    check_page(render_html(report))
    for text in (render_text(report), render_markdown(report), render_html(report)):
        assert "\x1b" not in text
    before_the_commands, _, _ = render_markdown(report).partition("```sh")
    assert "&lt;script&gt;" in before_the_commands
    assert "<script>" not in before_the_commands


@pytest.mark.parametrize(
    ("content", "code", "message", "hint"),
    [
        (None, 2, "there is no host in", "FOLDER/HOST/SESSION/report.json"),
        ("{", 1, "is damaged", "restore the file"),
        ({"format": 2, "hosts": {}}, 1, "written by a newer version", "update the tool"),
        ({"format": 1, "hosts": {}}, 2, "there is no host in", "add hosts to the plan"),
        ({"format": 1, "hosts": {"..": {}}}, 1, "'..' is no name of a host", "restore the file"),
        ({"format": 1, "hosts": {"a": {"facts": {"price_per_hour": "x"}}}}, 1, "price_per_hour of a is 'x'", "0.192"),
        ({"format": 1, "hosts": {"a": {"facts": {"price_per_hour": -1}}}}, 1, "price_per_hour of a is -1", "0.192"),
    ],
)
def test_a_wrong_folder_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: object, code: int, message: str, hint: str
) -> None:
    if content is not None:
        (tmp_path / "fleet.json").write_text(content if isinstance(content, str) else json.dumps(content))
    assert run(["fleet", "report", str(tmp_path)]) == code
    error = capsys.readouterr().err
    assert re.fullmatch(r"error: .*\nhint: .*\n", error)
    assert message in error
    assert hint in error


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fleet", "report", str(tmp_path / "none")]) == 2
    assert "there is no folder" in capsys.readouterr().err

"""What an answer says of session, host and storage."""

from __future__ import annotations

from dataclasses import replace

import pytest
from everything import a_run, a_session, everything
from sessions import with_metrics

from recovery.analysis.combined import combine
from recovery.analysis.host_figures import CPU_LOOP, READS, READS_16, STEAL
from recovery.analysis.warnings import findings
from recovery.model import Run, Session
from recovery.report.host_words import host_line, scope, storage_note, storage_words
from recovery.report.summary_text import answers

PROBED: dict[str, str | int | float | None] = {"probe_4k_1_iops": 23_400, "probe_4k_16_iops": 93_824}


def on_host(*blocks: dict[str, float]) -> Session:
    """Cold starts, each in a block with these metrics of its host."""
    runs = (a_run(number, ("5.7.22", "cold"), 41.0, repeat=number) for number in range(1, len(blocks) + 1))
    return a_session(tuple(with_metrics(run, **host) for run, host in zip(runs, blocks, strict=True)))


def block(reads: float, reads_16: float, loop: float, steal: float = 0.0) -> dict[str, float]:
    return {READS: reads, READS_16: reads_16, CPU_LOOP: loop, STEAL: steal}


@pytest.mark.parametrize(
    ("blocks", "line"),
    [
        (
            [block(20_900, 70_200, 0.0312), block(21_100, 70_900, 0.0309), block(17_000, 60_000, 0.032)],
            "",
        ),
        (
            [block(20_900, 70_200, 0.0312), block(15_000, 50_000, 0.05, 0.031)],
            "The host changed meanwhile: 15,000-21,000 reads/s by one thread, 50,000-70,000 by 16; CPU loop "
            "0.031-0.050 s; steal up to 3.1 %.",
        ),
        ([{CPU_LOOP: 0.03}], ""),
    ],
)
def test_the_host_has_a_line_with_the_range_of_what_moved(blocks: list[dict[str, float]], line: str) -> None:
    assert list(host_line(on_host(*blocks))) == [line] * bool(line)
    assert (answers(on_host(*blocks))[-1] == line) is bool(line)


def test_the_title_has_the_reads_that_the_server_had() -> None:
    session = a_session((a_run(1, ("5.7.22", "cold"), 41.0),), environment=PROBED)
    assert answers(session)[0].endswith(" (23,000 reads/s by one thread, 94,000 by 16):")
    assert answers(replace(session, environment={}))[0].endswith(" in this session:")
    limited = replace(session, settings={**session.settings, "read_iops": 5000})
    assert answers(limited)[0].endswith(" (limited to 5,000 reads/s):")
    assert "Limits of the server, 5,000 reads a second: kept." in answers(limited)
    assert storage_words(limited) == "on this storage (limited to 5,000 reads/s)"


def test_the_scope_counts_sessions_and_days() -> None:
    session = a_session((a_run(1, ("5.7.22", "cold"), 41.0),))
    later = replace(session, started_at="2026-11-22T09:00:00+00:00")
    assert scope(session) == "in this session"
    assert scope(combine([("a", session)])) == "in this session"
    assert scope(combine([("a", session), ("a", session), ("a", later)])) == "over 3 sessions of 2 days"
    assert scope(combine([("a", session), ("a", session)])) == "over 2 sessions of 1 day"
    assert scope(combine([("a", session), ("b", later)])) == "in one session of each host"
    several = [("a", session), ("a", later), ("b", session)]
    assert scope(combine(several)) == "over 2 sessions of each host (2 days)"


def test_over_sessions_a_mean_is_of_their_means() -> None:
    session, days = everything(), (21, 22, 22)
    parts = [("a", replace(session, started_at=f"2026-11-{day}T16:00:00+00:00")) for day in days]
    assert answers(combine(parts))[0] == (
        "Startup after SIGKILL on this host: 200,000 tables, geometric mean (95 % interval) over 3 sessions of 2 days:"
    )


def test_the_answer_names_host_session_and_storage_once() -> None:
    found = answers(replace(everything(), environment=PROBED))
    assert found[0] == (
        "Startup after SIGKILL on this host: 200,000 tables, mean of 5 runs +- 95 % interval in this session "
        "(23,000 reads/s by one thread, 94,000 by 16):"
    )
    (compared,) = [line for line in found if " times faster " in line]
    assert compared.endswith("than 8.0.31, cold, on this storage.")
    assert "\n".join(found).count("in this session") == "\n".join(found).count("reads/s") == 1


def test_servers_that_both_wait_are_compared_without_the_storage() -> None:
    alike = tuple(run for run in everything().runs if not run.version.startswith("mariadb") and run.variant == "cold")
    found = "\n".join(answers(a_session(alike, environment=PROBED)))
    assert "5.7.22 recovers 1.85 times faster" in found
    assert "on this storage" not in found


def test_a_table_of_ratios_says_which_of_them_change_with_the_storage() -> None:
    session = replace(everything(), environment=PROBED)
    old, mariadb, new = (("5.7.22", "cold"), ("mariadb-10.11.5", "cold"), ("8.0.31", "cold"))
    assert storage_note(session, [(old, new)]) == ()
    assert storage_note(session, [(old, mariadb), (new, mariadb)]) == (
        "Some ratios change with the storage (23,000 reads/s by one thread, 94,000 by 16): 5.7.22 cold and 8.0.31 cold "
        "wait for it, mariadb-10.11.5 cold does not.",
    )


def small(run: Run) -> Run:
    return replace(run, contents=replace(run.contents, tables_found=1000))


def test_with_few_tables_all_ratios_of_cold_starts_may_change() -> None:
    runs = tuple(small(run) for run in everything().runs if run.variant == "cold")
    session = a_session(runs, environment=PROBED)
    assert storage_note(session, [(("5.7.22", "cold"), ("8.0.31", "cold"))]) == (
        "Ratios of cold starts change with the storage (23,000 reads/s by one thread, 94,000 by 16).",
    )
    assert ", cold, on this storage." in "\n".join(answers(session))


def test_a_host_that_changed_is_a_finding() -> None:
    (finding,) = [one for one in findings(on_host(block(21_000, 70_000, 0.031), block(9000, 68_000, 0.05)))
                  if one.kind == "host-changed"]  # fmt: skip
    assert finding.about == "host"
    assert finding.text == (
        "The host itself changed during the session: 9,000 to 21,000 reads/s by one thread, 0.031 to 0.05 s of a CPU "
        "loop."
    )
    steady = on_host(block(21_000, 70_000, 0.031), block(20_000, 60_000, 0.031))
    assert "host-changed" not in [one.kind for one in findings(steady)]

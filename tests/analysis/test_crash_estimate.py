"""The estimate of a start adds its parts, gets wider where it is known to be wrong, and learns from measured starts."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from statistics import median

import pytest

from recovery.analysis.crash_estimate import (
    CONSTANTS,
    LEAST_KILLS,
    Constants,
    Estimate,
    Kill,
    Part,
    ServerState,
    estimate_start,
    fit_constants,
    known_constants,
    series_of,
)
from recovery.errors import UsageError
from recovery.model import parse_version
from recovery.report.openmetrics import render_estimate

NEW = ServerState(parse_version("8.0.31"), files=1000, dirty_pages=10_000, reads_per_s=2000)
OTHER = Constants(1.8, 2.0, 0.0, 1.2, 0.0001, 1e-7, 50_000, 20_000, 0.5)
"""A host whose starts differ from those of the constants below."""
KNOWN = {
    "mysql-5.7": Constants(1.0, 2.0, 0.0, 2.3, 0.00013, 1 / 16e6, 130_000, 37_000, 1.0),
    "mysql-8.0": Constants(2.4, 2.0, 0.0001, 2.3, 0.00013, 1 / 16e6, 55_000, 24_000, 0.25),
}


def estimated(state: ServerState) -> Estimate:
    return estimate_start(state, KNOWN)


def test_the_parts_add_up_and_lie_in_the_range() -> None:
    found = estimated(NEW)
    assert {part.name: part.seconds for part in found.parts} == pytest.approx(
        {"process": 2.4, "files": 1.0, "pages": 11.5, "redo": 0.0, "prepared transactions": 0.0}
    )
    assert found.seconds == pytest.approx(14.9)
    assert found.text == "15 s (12 to 19): pages 12, process 2.4, files 1"
    assert found.lever.startswith("pages, 12 of 15 s: fewer dirty pages")
    assert found.notes == ()


def test_open_transactions_lock_rows_after_the_start_and_prepared_ones_delay_it() -> None:
    before, opened = estimated(NEW), estimated(replace(NEW, uncommitted_rows=550_000))
    assert opened.seconds == before.seconds
    assert opened.locked_s == pytest.approx(15)
    assert opened.text.endswith("; then rows stay locked for up to 15 s")
    one = estimated(replace(NEW, uncommitted_rows=550_000, transactions=1))
    assert one.text.endswith("; then rows of 1 open transaction stay locked for up to 15 s")
    prepared = estimated(replace(NEW, prepared_rows=240_000))
    assert prepared.seconds == pytest.approx(before.seconds + 10)
    assert prepared.locked_s == 0


def test_much_redo_for_few_pages_takes_time_that_the_storage_does_not_shorten() -> None:
    hot = replace(NEW, dirty_pages=100, redo_bytes=160_000_000)
    slow, fast = estimated(hot), estimated(replace(hot, reads_per_s=4000))
    assert slow.lever.startswith("redo, 10 of ")
    assert slow.seconds - fast.seconds < 1


def test_faster_storage_shortens_what_asks_it() -> None:
    slow, fast = estimated(NEW), estimated(replace(NEW, reads_per_s=4000))
    assert slow.seconds - fast.seconds == pytest.approx((2 * 1000 + 10_000 * 2.3) / 4000)


def test_storage_that_is_faster_than_the_server_does_not_shorten_the_files() -> None:
    fast = {part.name: part.seconds for part in estimated(replace(NEW, reads_per_s=10**6)).parts}
    assert fast["files"] == pytest.approx(1000 * KNOWN["mysql-8.0"].file_s)


def test_a_small_server_has_no_lever() -> None:
    assert estimated(replace(NEW, files=0, dirty_pages=0)).lever.startswith("none")


def test_redo_that_the_pool_has_no_room_for_is_applied_in_turns() -> None:
    fits, small = (estimated(replace(NEW, pool_bytes=pool, redo_bytes=100)) for pool in (300, 75))
    assert not fits.notes
    assert "in up to 4 turns" in small.notes[0]
    (usual, longer) = (next(part for part in found.parts if part.name == "pages") for found in (fits, small))
    assert longer.seconds == pytest.approx(4 * usual.seconds)
    assert usual.low_s < longer.low_s < 4 * usual.low_s
    assert longer.high_s > 4 * usual.high_s


def test_a_server_that_makes_a_tls_key_takes_longer() -> None:
    usual, found = estimated(NEW), estimated(replace(NEW, tls_library="wolfssl"))
    assert found.seconds == usual.seconds + 12
    assert (found.low_s, found.high_s) == (usual.low_s + 2.5, usual.high_s + 46)
    idle = estimated(replace(NEW, files=0, dirty_pages=0, tls_library="wolfssl"))
    assert "ssl=OFF" in idle.lever


def test_the_range_has_requests_without_and_with_writes_unless_their_limit_is_known() -> None:
    writing = {"mysql-8.0": replace(KNOWN["mysql-8.0"], writes_per_page=1.3)}
    unknown, alone, shared = (
        estimate_start(replace(NEW, writes_share_limit=share), writing) for share in (None, False, True)
    )
    assert unknown.high_s / unknown.low_s > max(one.high_s / one.low_s for one in (alone, shared))
    assert alone.seconds < unknown.seconds < shared.seconds
    assert shared.seconds == estimated(NEW).seconds
    assert fit_constants(kills(OTHER), writing["mysql-8.0"]).writes_per_page == 0


def test_neighbouring_pages_take_one_read() -> None:
    def pages(share: float | None) -> Part:
        return next(part for part in estimated(replace(NEW, read_share=share)).parts if part.name == "pages")

    assert pages(0.25).seconds == pytest.approx(pages(1.0).seconds / 4)
    unknown = pages(None)
    assert unknown.low_s < pages(0.06).seconds < unknown.seconds < pages(1.0).seconds < unknown.high_s
    assert any("neighbours" in note for note in estimated(replace(NEW, read_share=None)).notes)


def test_storage_that_is_faster_than_the_server_does_not_shorten_the_pages() -> None:
    fast = {part.name: part.seconds for part in estimated(replace(NEW, reads_per_s=10**6)).parts}
    assert fast["pages"] == pytest.approx(10_000 * KNOWN["mysql-8.0"].page_s)


def test_a_busy_host_takes_longer_for_what_needs_its_cpus() -> None:
    usual, busy = estimated(NEW), estimated(replace(NEW, busy="load 9.0 on 2 CPUs"))
    before, after = ({part.name: part for part in found.parts} for found in (usual, busy))
    assert after["process"].seconds == pytest.approx(2**0.5 * before["process"].seconds)
    assert before["process"].low_s < after["process"].low_s < before["process"].high_s
    assert after["process"].high_s > 2 * before["process"].seconds
    assert after["pages"] == before["pages"]
    writing = replace(KNOWN["mysql-8.0"], writes_per_page=1.3)
    written = estimate_start(replace(NEW, busy="load 9.0 on 2 CPUs"), {"mysql-8.0": writing})
    assert next(part for part in written.parts if part.name == "pages").seconds > 2 * before["pages"].seconds
    assert busy.notes == (
        "the host is busy (load 9.0 on 2 CPUs): what the server needs its CPUs for may take up to 2 times as long",
    )


@pytest.mark.parametrize("series", CONSTANTS)
def test_the_ends_of_a_range_are_in_the_median_less_than_four_times_apart(series: str) -> None:
    flavor, _, number = series.partition("-")
    version = parse_version(f"mariadb-{number}.5" if flavor == "mariadb" else f"{number}.31")
    found = [
        estimate_start(ServerState(version, pages, reads, files=files, redo_bytes=10_000_000))
        for pages, reads, files in product((300, 1000, 3000, 10_000), (1500, 4000, 48_000), (10, 1500))
    ]
    assert median(one.high_s / one.low_s for one in found) < 4


@pytest.mark.parametrize("reads_per_s", [300, 200_000])
def test_other_storage_than_calibrated_widens_the_range(reads_per_s: float) -> None:
    found = estimated(replace(NEW, reads_per_s=reads_per_s, dirty_pages=10**6))
    assert found.high_s > 2 * found.seconds
    assert found.low_s < found.seconds / 2
    assert any("the range is wider" in note for note in found.notes)


def test_a_series_whose_pages_were_not_measured_has_a_wide_range() -> None:
    old = estimated(replace(NEW, version=parse_version("5.7.22")))
    assert old.high_s == pytest.approx(2 * old.seconds)


def test_what_the_user_may_not_see_is_named_and_counts_as_nothing() -> None:
    hidden = replace(NEW, files=None, redo_bytes=None, uncommitted_rows=None, prepared_rows=None, notes=("left out",))
    found = estimated(hidden)
    assert found.seconds == estimated(replace(NEW, files=0)).seconds
    assert found.text.startswith("at least 14 s (")
    assert found.notes == ("left out",)


@pytest.mark.parametrize("version", ["9.7.0", "mariadb-11.8.3", "5.6.24"])
def test_a_version_that_was_not_measured_is_refused(version: str) -> None:
    with pytest.raises(UsageError, match="was not measured"):
        estimated(replace(NEW, version=parse_version(version)))


def test_percona_server_has_the_constants_of_mysql() -> None:
    assert series_of(parse_version("8.0.39-30")) == "mysql-8.0"


def test_without_the_speed_of_the_storage_there_is_no_estimate() -> None:
    with pytest.raises(UsageError, match="reads a second"):
        estimated(replace(NEW, reads_per_s=0))


# --- Constants from measured starts


def kills(constants: Constants, *, jitter: float = 0.0) -> list[Kill]:
    """Starts that take what the constants say, in turns more and less by the jitter."""
    states = [
        replace(NEW, files=10, dirty_pages=pages, redo_bytes=redo, reads_per_s=reads)
        for pages, redo, reads in product((0, 3000, 9000), (1_000_000, 50_000_000), (1500.0, 4000.0))
    ]
    return [
        Kill(state, estimate_start(state, {"mysql-8.0": constants}).seconds * (1 + jitter * (-1) ** number))
        for number, state in enumerate(states)
    ]


def test_the_constants_of_a_host_are_found_from_its_starts() -> None:
    found = fit_constants(kills(OTHER), KNOWN["mysql-8.0"])
    new = replace(NEW, dirty_pages=20_000, redo_bytes=20_000_000, reads_per_s=3000)
    truth = estimate_start(new, {"mysql-8.0": OTHER}).seconds
    assert estimate_start(new, {"mysql-8.0": found}).seconds == pytest.approx(truth, rel=0.03)
    assert estimated(new).seconds > 1.3 * truth
    assert found.error == 0.5, "the least"
    assert found.reads_per_s == (750.0, 8000.0)


def test_starts_that_vary_give_a_wider_range() -> None:
    steady, varied = (fit_constants(kills(OTHER, jitter=jitter), OTHER) for jitter in (0.0, 0.3))
    assert steady.error == 0.5 < varied.error


def test_what_the_starts_do_not_show_stays_as_it_is_known() -> None:
    idle = [Kill(replace(NEW, files=0, dirty_pages=0), 3.0)] * LEAST_KILLS
    found = fit_constants(idle, OTHER)
    assert estimate_start(idle[0].state, {"mysql-8.0": found}).seconds == pytest.approx(3.0, rel=0.05)
    assert (found.requests_per_page, found.redo_s_per_byte, found.rows_per_s) == (1.2, 1e-7, 50_000)


def test_an_odd_start_does_not_decide() -> None:
    odd = [
        replace(kill, startup_s=kill.startup_s / 4) if number == 5 else kill
        for number, kill in enumerate(kills(OTHER) * 2)
    ]
    found = fit_constants(odd, KNOWN["mysql-8.0"])
    new = replace(NEW, dirty_pages=20_000, redo_bytes=20_000_000, reads_per_s=3000)
    truth = estimate_start(new, {"mysql-8.0": OTHER}).seconds
    assert estimate_start(new, {"mysql-8.0": found}).seconds == pytest.approx(truth, rel=0.1)


def test_rates_of_rollbacks_are_medians() -> None:
    opened = [
        replace(kill, state=replace(kill.state, uncommitted_rows=30_000), rollback_s=seconds)
        for kill, seconds in zip(kills(OTHER), (1.0, 2.0, 3.0), strict=False)
    ]
    assert fit_constants([*kills(OTHER), *opened], OTHER).rows_per_s == 15_000


def test_too_few_starts_are_refused() -> None:
    with pytest.raises(UsageError, match="too few"):
        fit_constants(kills(OTHER)[:4], OTHER)


@pytest.mark.parametrize(
    ("starts", "why"),
    [
        ([replace(kill, startup_s=0.0) for kill in kills(OTHER)], "took no time"),
        (
            [replace(kill, startup_s=[0.2, 20.0, 90.0][number % 3]) for number, kill in enumerate(kills(OTHER))],
            "more than 100",
        ),
        (
            [replace(kill, startup_s=kill.state.dirty_pages / 300 + 0.001) for kill in kills(OTHER)],
            "takes no time|more",
        ),
    ],
)
def test_starts_that_fit_no_estimate_are_refused(starts: list[Kill], why: str) -> None:
    with pytest.raises(UsageError, match=why) as raised:
        fit_constants(starts, OTHER)
    assert "nothing was stored" in raised.value.hint


@pytest.mark.parametrize(("series", "like"), [("mysql-8.4", "mysql-8.0"), ("mariadb-11.4", "mariadb-10.11")])
def test_a_new_series_begins_with_what_is_known_of_its_flavor(series: str, like: str) -> None:
    assert known_constants(series) == CONSTANTS[like]


# --- Exports


def test_openmetrics_has_a_type_and_a_value_for_each_figure_that_is_known() -> None:
    state = replace(NEW, redo_bytes=None, datadir='/data/"a"')
    lines = render_estimate("/run/s", (state, estimated(state)), 1.7e9).splitlines()
    assert lines[-1] == "# EOF"
    assert 'recovery_estimate_available{server="/run/s"} 1.0' in lines
    samples = [line for line in lines if not line.startswith("#")]
    assert r'recovery_estimate_dirty_pages{datadir="/data/\"a\""} 10000' in samples
    (pages,) = [line for line in samples if ',part="pages"' in line]
    assert float(pages.rsplit(" ", 1)[1]) == pytest.approx(11.5)
    assert not any("redo_bytes" in line for line in lines)
    names = {re.split(r"[ {]", line)[0] for line in samples}
    assert names == {line.split()[2] for line in lines if line.startswith("# TYPE")}


def test_openmetrics_of_a_server_that_does_not_answer_has_no_figures() -> None:
    samples = [line for line in render_estimate("/run/s", None, 1.7e9).splitlines() if not line.startswith("#")]
    assert samples == [
        'recovery_estimate_available{server="/run/s"} 0.0',
        'recovery_estimate_time_seconds{server="/run/s"} 1700000000.0',
    ]

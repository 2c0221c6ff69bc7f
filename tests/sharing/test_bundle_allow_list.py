"""A bundle has only what the allow-list names: a field, a setting, a fact or a text that is not listed is left out."""

from __future__ import annotations

import dataclasses
import gzip
import json
import types
import typing
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from archives import members
from runs import plain_variants, values_of_all, variants_with
from schema_check import violations
from sessions import FIXTURES, KINDS_OF_SESSIONS, OTHER_SESSIONS

from recovery.model import EarlierSession, Run, Session
from recovery.report.json_report import to_json
from recovery.report.summary_text import answers
from recovery.sharing import allow_list
from recovery.sharing.bundle import make_bundle, shared_json
from recovery.sharing.reduction import SESSION_KEYS, keep_fields, listed_keys, reduce_session
from recovery.storage.sessions import load_session

SENTENCE, WORD = "words of joe7smith at /srv/joe7smith, joe7smith@db", "joe7smith"
"""Private texts: one that no list of texts can have, and one that looks like a name."""
GIVEN_NAMES = {"version", "versions", "variant", "variants", "axes", "cells", "figures"}
"""Fields with names that the user gave to compare servers by. They are shared."""
FUNCTION_NAMES = {"frames", "function"}
"""Fields with names of functions of a server, which may be any name, but no path or sentence."""
FACTS_OF_ANY_TEXT = {"cpu_model", "device_model", "machine_product", "machine_vendor", "os"}
"""Facts about the host whose texts are not listed."""

SESSIONS = (
    *KINDS_OF_SESSIONS, *OTHER_SESSIONS, "2026-11-21-containers-9.7-5000-iops", "2026-11-21-stacks",
    "2026-11-22-damage", "2026-11-25-5.7.22-2g", "2026-11-26-charset", "2026-11-26-experiments-table-cache",
    "2026-11-26-first-queries-8.0.31", "2026-11-26-lock-schedule", "2026-11-26-table-cache-waits",
    "2026-11-26-what-helps-8.0.31", "2026-11-27-mariadb-traced", "2026-11-27-9.7",
)  # fmt: skip


def private(value: Any, marker: str, name: str = "", hint: Any = None) -> Any:
    """Returns the value with a private text in every place that holds text, also where there was none."""
    if name in GIVEN_NAMES or isinstance(value, Enum) or (name in FUNCTION_NAMES and marker == WORD):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        hints = typing.get_type_hints(type(value))
        slots = {slot.name: getattr(value, slot.name) for slot in fields(value)}
        return replace(value, **{slot: private(held, marker, slot, hints[slot]) for slot, held in slots.items()})
    if isinstance(value, dict):
        filled = {
            key: held if key in FACTS_OF_ANY_TEXT or isinstance(held, int | float) else private(held, marker, key)
            for key, held in value.items()
        }
        texts = [held for held in value.values() if isinstance(held, str)] or str(hint).startswith("dict[str, str")
        return {**filled, **({marker: marker} if texts else {})}
    if isinstance(value, tuple):
        of_texts = hint == tuple[str, ...]
        return (*(private(held, marker, name) for held in value), *((marker,) if of_texts else ()))
    can_be_text = isinstance(hint, types.UnionType) and str in typing.get_args(hint)
    return marker if isinstance(value, str) or (value is None and can_be_text) else value


def session_of(name: str, kept_sessions: Path) -> Session:
    return load_session(FIXTURES / "sessions" / name if name in OTHER_SESSIONS else kept_sessions / name)


@pytest.mark.parametrize("marker", [SENTENCE, WORD])
@pytest.mark.parametrize("name", [*KINDS_OF_SESSIONS, "2026-11-22-damage", "stacks"])
def test_no_text_that_is_not_listed_is_shared(name: str, marker: str, kept_sessions: Path) -> None:
    session: Session = private(session_of(name, kept_sessions), marker)
    assert all(marker in str(getattr(session, slot)) for slot in ("command", "environment", "settings", "notes"))
    reduced = reduce_session(session).session
    assert marker not in repr(reduced)
    assert [run.metrics for run in reduced.runs] == [
        {name: value for name, value in run.metrics.items() if name != marker} for run in session.runs
    ]


@pytest.mark.parametrize("marker", [SENTENCE, WORD])
def test_no_file_of_the_archive_has_a_text_that_is_not_listed(marker: str, kept_sessions: Path, tmp_path: Path) -> None:
    before = session_of("2026-11-21-stacks", kept_sessions)
    session = private(before, marker)
    # Without these the session cannot be read, or is of no experiment.
    session = replace(session, experiment=before.experiment, metric=before.metric)
    for folder in ("runs", "logs", "stacks"):
        (tmp_path / folder).mkdir()
    runs = []
    for run in session.runs:
        log, stacks = f"logs/{run.number:03d}-x.err", f"stacks/{run.number:03d}-x.folded"
        (tmp_path / log).write_text(
            f"2026-11-20T20:28:49.8Z 0 [Note] InnoDB: {marker}\n{marker}: ready for connections.\n"
        )
        (tmp_path / stacks).write_text(f"{marker};{marker};/srv/{marker} 3\n")
        runs.append(replace(run, log=log, stacks=replace(run.stacks, file=stacks)))
    (tmp_path / "report.json").write_bytes(to_json(replace(session, runs=tuple(runs))))
    made = make_bundle(tmp_path, "mysql")
    assert (tmp_path / "report.json").read_bytes().count(marker.encode()) > 100
    found = [name for name, content in members(made.archive).items() if marker.encode() in content]
    assert found == []
    assert marker.encode() not in gzip.decompress(made.archive) + made.text + (made.script or b"")


@dataclass(frozen=True)
class _NewRun(Run):
    owner: str = "joe7smith"


def test_a_new_field_is_left_out_until_it_is_listed(kept_sessions: Path) -> None:
    """With and without a default."""
    session = session_of("2026-11-21-stacks", kept_sessions)
    (slot,) = {slot.name for slot in fields(_NewRun)} - {slot.name for slot in fields(Run)}
    values = {slot.name: getattr(session.runs[0], slot.name) for slot in fields(Run)}
    run = _NewRun(**{**values, slot: "private"})
    reduced = reduce_session(replace(session, runs=(run,))).session.runs[0]
    assert getattr(reduced, slot) == "joe7smith", "its default"
    needed = dataclasses.make_dataclass("Needed", [("number", int), ("owner", str)])
    assert keep_fields({"number": int}, needed(3, "private")) == needed(3, "")


def test_a_new_setting_or_fact_is_left_out_and_counted(kept_sessions: Path) -> None:
    session = session_of("2026-11-21-stacks", kept_sessions)
    before = reduce_session(session).left_out
    more = replace(
        session,
        settings={**session.settings, "owner": "joe", "shelf": 7, "tables": "many"},
        environment={**session.environment, "rack": 12, "owner": "joe", "kernel": "of joe"},
        notes=(*session.notes, "joe measured this"),
    )
    reduced = reduce_session(more)
    assert {"owner", "shelf"}.isdisjoint(reduced.session.settings)
    assert {"owner", "rack", "kernel"}.isdisjoint(reduced.session.environment)
    added = {kind: count - before.get(kind, 0) for kind, count in reduced.left_out.items()}
    assert {kind: count for kind, count in added.items() if count} == {
        "settings": 3, "facts about the host": 3, "notes": 1,
    }  # fmt: skip


@pytest.mark.parametrize("name", SESSIONS)
def test_a_shared_report_has_the_figures_of_the_session_under_listed_keys(name: str, kept_sessions: Path) -> None:
    """It keeps the published schema, and has the same answer, comparisons and warnings."""
    session = session_of(name, kept_sessions)
    reduced = reduce_session(session).session
    own, shared = json.loads(to_json(session)), json.loads(shared_json(reduced))
    assert violations(shared) == []
    assert set(shared) <= SESSION_KEYS
    assert [listed_keys(run) for run in shared["runs"]] == shared["runs"]
    for key in ("answer", "summaries", "contrasts", "ratios", "fits", "findings"):
        assert shared.get(key) == own.get(key), key
    for run, full in zip(reduced.runs, session.runs, strict=True):
        assert (run.metrics, run.startup.phases, run.timeline) == (full.metrics, full.startup.phases, full.timeline)


def test_earlier_sessions_are_shared_by_the_names_that_the_tool_gave_them(kept_sessions: Path) -> None:
    """The user may have renamed a folder. The host's id stays here, as all that tells a machine from others."""
    session = session_of("2026-11-21-stacks", kept_sessions)
    names = ("20261120T100000Z-cold-recovery", "20261121T100000Z-cold-recovery-2", "20261121T100000Z-acme", WORD)
    earlier = tuple(
        EarlierSession(name, f"2026-11-2{day}T10:00:00+00:00", session.versions[0], "cold", 3, 40.5, "0123456789ab")
        for day, name in enumerate(names)
    )
    reduced = reduce_session(replace(session, earlier=earlier))
    shared = reduced.session.earlier
    assert [one.session for one in shared] == [*names[:2], allow_list.NOT_SHARED, allow_list.NOT_SHARED]
    assert [replace(one, session="") for one in shared] == [replace(one, session="", host_id=None) for one in earlier]
    assert reduced.left_out["names of sessions"] == 2
    assert answers(reduced.session) == answers(replace(session, earlier=earlier))
    for marker in (SENTENCE, WORD):
        hidden = reduce_session(replace(session, earlier=private(earlier, marker))).session.earlier
        assert marker not in repr([replace(one, version="", variant="") for one in hidden])


# --- Texts


@pytest.mark.parametrize(
    "option",
    [
        "innodb_buffer_pool_size=134217728", "innodb_page_size=4k", "performance_schema=OFF", "skip_log_bin",
        "innodb_flush_method=O_DIRECT", "transaction_isolation=READ-COMMITTED", "lc_messages=en_US", "tmpdir=RUNDIR",
        "character_set_server=utf8mb4", "collation_server=utf8mb4_0900_ai_ci",
        "innodb_data_file_path=ibdata1:12M:autoextend", "socket=RUNDIR/mysqld.sock", "loose_innodb_redo_log_capacity=1",
        "innodb_max_dirty_pages_pct=90.5", "innodb_lock_schedule_algorithm=fcfs", "server_id=1",
    ],
)  # fmt: skip
def test_a_server_option_of_a_plain_value_is_shared(option: str) -> None:
    assert allow_list.option_text(option) == option


@pytest.mark.parametrize(
    "option",
    [
        "tmpdir=/srv/x", "report_host=db7", "report_password=12345", "report_port=3307", "keyring_file_data=1",
        "init_connect=set", "plugin_load=acme.so", "early_plugin_load=keyring_file.so", "datadir=RUNDIR/x", "acme_word",
        "log_bin=acme-bin", "innodb_undo_directory=./undo", "bind_address=10.1.2.3", "server_uuid=3e11fa47",
        "ssl_passphrase=1", "Acme=1", "=5",
    ],
)  # fmt: skip
def test_any_other_server_option_is_left_out(option: str) -> None:
    assert allow_list.option_text(option) is None


def test_secret_values_in_the_options_of_a_server(kept_sessions: Path) -> None:
    """Where the SQL of init_connect ends is not known, so what follows is left out."""
    session = session_of("2026-11-21-stacks", kept_sessions)

    def options(given: str) -> str:
        reduced = reduce_session(replace(session, servers={"5.7.22": {"options": given}})).session
        return reduced.servers["5.7.22"]["options"]

    assert options("init_connect=set @p = 'x y' innodb_io_capacity=5 tmpdir=/srv/t") == ""
    assert (
        options("innodb_io_capacity=5 keyring_file_data=/srv/k skip_networking report_host=db9 server_id=5")
        == "innodb_io_capacity=5 skip_networking server_id=5"
    )


def test_names_of_variants_and_builds_are_shared_masked(kept_sessions: Path) -> None:
    session = session_of("2026-11-21-stacks", kept_sessions)
    runs = tuple(replace(run, version=f"{run.version}+of-joe", variant="cold-/srv/x") for run in session.runs)
    versions = tuple(f"{version}+of-joe" for version in session.versions)
    cells = {"cold-/srv/x": {"cache": "cold"}}
    named = replace(session, runs=runs, versions=versions, variants=variants_with(cells))
    reduced = reduce_session(named, lambda name: name.replace("joe", "[user]"))
    assert reduced.session.versions == tuple(f"{version}+of-[user]" for version in session.versions)
    assert reduced.session.variant_names == ("name",), "a name with a path is replaced"
    assert {run.variant for run in reduced.session.runs} == {"name"}
    assert values_of_all(reduced.session) == {"name": {"cache": "cold"}}
    assert reduced.names == ("of-[user]",) * len(versions)


def test_a_version_is_shared_without_a_suffix_of_its_server(kept_sessions: Path) -> None:
    session = session_of("2026-11-21-stacks", kept_sessions)
    versions = ("5.7.22-acme", "percona-8.0.36-28", "mariadb-10.11.5", "9.7.4.1", "5.7.22+patched")
    shared = reduce_session(replace(session, versions=versions, runs=())).session.versions
    assert shared == ("5.7.22", *versions[1:])


def test_different_names_stay_different(kept_sessions: Path) -> None:
    session = session_of("2026-11-21-stacks", kept_sessions)
    named = replace(session, variants=plain_variants("a", "b", "c"), runs=())
    assert reduce_session(named, lambda _: "[secret]").session.variant_names == ("[secret]", "[secret]-2", "[secret]-3")


@pytest.mark.parametrize(
    ("reason", "shared"),
    [
        ("the log shows no crash recovery", "the log shows no crash recovery"),
        (
            "mysqld ended with exit 1 before it was ready: [ERROR] InnoDB: Unable to lock ./ibdata1 error: 11",
            "mysqld ended with exit 1 before it was ready: [ERROR] InnoDB: Unable to lock ./ibdata1 error: 11",
        ),
        (
            "the server did not start: [ERROR] InnoDB: Table acme/customers is gone",
            "the server did not start: [ERROR] InnoDB: (hidden: it may name a schema or a table)",
        ),
        ("joe stopped it", "(hidden: it may name a schema or a table)"),
        (
            "3 of 12 acknowledged statements lost; acme",
            "3 of 12 acknowledged statements lost: (hidden: it may name a schema or a table)",
        ),
    ],
)  # fmt: skip
def test_of_a_reason_the_texts_of_this_tool_and_known_ones_of_a_server_are_shared(
    reason: str, shared: str, kept_sessions: Path
) -> None:
    session = session_of("2026-11-21-stacks", kept_sessions)
    run = replace(session.runs[0], reason=reason)
    assert reduce_session(replace(session, runs=(run,))).session.runs[0].reason == shared

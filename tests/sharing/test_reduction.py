"""A bundle has only what the tool, the kernel and servers write: a text, a key or a name of the user's is left out."""

from __future__ import annotations

import ast
import copy
import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from archives import members
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from runs import plain_variants, values_of_all, variants_with
from schema_check import violations
from sessions import FIXTURES, KINDS_OF_SESSIONS, OTHER_SESSIONS

from recovery.experiments import find_experiment
from recovery.model import Axis, EarlierSession, Session
from recovery.report.json_report import to_json
from recovery.report.summary_text import answers
from recovery.sharing.bundle import make_bundle, sharing_for_site
from recovery.sharing.reduction import NOT_SHARED, option_text, own_words, reduce_name, reduce_session
from recovery.storage.format import session_fields, session_from_fields
from recovery.storage.sessions import load_session

FREE_FACTS = {"kernel", "cpu_model", "device_model", "machine_product", "machine_vendor", "os"}
"""Facts about the host that the kernel writes, in any words."""
FUNCTIONS = {"frames", "function"}
"""Names of functions of a server, which may be any name, but no path or sentence."""
SETTINGS = (
    "note", "data", "mysqld", "datadir", "template", "insert_template", "before_kill", "queries", "set", "variants",
    "options", "image", "registry", "archive", "poll_query", "database", "baseline", "first_queries",
)  # fmt: skip
NEEDED = {"experiment", "verdict", "extra", "metric", "flavor"}
"""Keys without whose words a session cannot be read, or is of no experiment."""

SESSIONS = (
    *KINDS_OF_SESSIONS, *OTHER_SESSIONS, "2026-11-21-containers-9.7-5000-iops", "2026-11-21-stacks",
    "2026-11-22-damage", "2026-11-25-5.7.22-2g", "2026-11-26-charset", "2026-11-26-experiments-table-cache",
    "2026-11-26-first-queries-8.0.31", "2026-11-26-lock-schedule", "2026-11-26-table-cache-waits",
    "2026-11-26-what-helps-8.0.31", "2026-11-27-mariadb-traced", "2026-11-27-9.7",
)  # fmt: skip


def session_of(name: str, kept_sessions: Path) -> Session:
    return load_session(FIXTURES / "sessions" / name if name in OTHER_SESSIONS else kept_sessions / name)


# --- Attacks: private texts in every place that holds text

LETTERS = st.text("bcdfghjklmnpqrtvwxz", min_size=4, max_size=9)
"""Of no word that this tool uses."""
PRIVATE = st.one_of(
    LETTERS,
    st.builds("{}-{}.{}.example".format, LETTERS, st.integers(1, 99), LETTERS),
    st.builds("/home/{}/{}/x.ibd".format, LETTERS, LETTERS),
    st.builds("/srv/{} {}/ibdata1".format, LETTERS, LETTERS),
    st.builds("{}@{}".format, LETTERS, LETTERS),
    st.builds("./{}/{}.ibd".format, LETTERS, LETTERS),
    st.builds("`{}`.`{}`".format, LETTERS, LETTERS),
    st.builds("password={}".format, LETTERS),
    st.builds("report_password={}{}".format, LETTERS, st.integers(0, 999)),
    st.builds("select * from {} where a = '{}'".format, LETTERS, LETTERS),
    st.builds("cold-{}".format, LETTERS),
    st.builds("5.7.22+{}".format, LETTERS),
    st.builds("5.7.22 {}".format, LETTERS),
    st.builds("--{} {}".format, LETTERS, LETTERS),
    st.builds("the server was limited by {}: {}".format, LETTERS, LETTERS),
    st.builds("{0}:innodb_page_size=4k,keyring_file_data={0} b:report_host={0}".format, LETTERS),
    st.builds("mysqld --socket=/run/{} oltp_{}.lua".format, LETTERS, LETTERS),
    st.builds("2026-11-20T20:28:49.8Z 0 [Note] InnoDB: Starting crash recovery of {}".format, LETTERS),
    st.builds("{}.{}.{}.{}".format, st.integers(10, 19), *[st.integers(0, 255)] * 3),
    st.builds("192.168.{}.{}".format, st.integers(0, 255), st.integers(0, 255)),
    st.builds("vol-0{}bcdef".format, LETTERS),
    st.builds("{}.{}".format, LETTERS, LETTERS),
    st.builds("sysbench oltp_read_only -p{} --mysql-password={}".format, LETTERS, LETTERS),
    st.builds("mysqldump -u {} --{}".format, LETTERS, LETTERS),
)


def places(value: Any, key: str = "") -> Iterator[tuple[Any, Any]]:
    """Yields each object or list that holds a text, and the key of the text in it."""
    held = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, below in held:
        of = str(name) if isinstance(value, dict) else key
        if isinstance(below, str) and of not in NEEDED | FREE_FACTS | FUNCTIONS:
            yield value, name
        yield from places(below, of)


def planted(stored: dict[str, Any], private: str) -> dict[str, Any]:
    """Returns the fields of a session with a private text in every place that holds text, and as a key where keys are
    any names."""
    stored = copy.deepcopy(stored)
    for held, name in list(places(stored)):
        held[name] = private
    for run in stored["runs"]:
        run.setdefault("load", {}).setdefault("clients", {})["load"] = private
        run.setdefault("load", {})["raw"] = private
        run.setdefault("observations", {})["says"] = run["reason"] = run["log"] = private
        run.setdefault("startup", {})["crash_proof"] = private
        run.setdefault("cold", {})["means"] = run["previous_exit"] = private
        run["broken_promises"] = [private]
        for map_of_any_key in (run["load"]["clients"], run["observations"]):
            map_of_any_key[private] = private
        run["metrics"][private] = 1.0
    stored["settings"] |= dict.fromkeys(SETTINGS, private)
    stored["notes"] = [private]
    stored["command"] = f"recovery cold-recovery --note '{private}' --set '{private}' --{private} {private} {private}"
    for any_name in (stored["environment"], stored["settings"], *stored["servers"].values(),
                     *(variant["values"] for variant in stored["variants"])):  # fmt: skip
        any_name[private] = any_name[f"@{private}"] = private
    stored["servers"][f"5.7.22 {private}"] = {"options": private, "@version": private}
    return stored


def core(private: str) -> list[str]:
    """Returns the parts of a private text that may occur nowhere: those that are no words of this tool."""
    parts = {part for part in re.findall(r"[^\W_]{4,}", private.lower()) if part.isalpha() and own_words(part) is None}
    return [private] if re.fullmatch(r"[\d.]+", private) else sorted(parts)


SMALL = ("stacks", "three-versions")


@pytest.mark.parametrize("name", SMALL)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(private=PRIVATE)
def test_no_private_text_in_any_place_is_shared(name: str, private: str, kept_sessions: Path) -> None:
    stored = planted(session_fields(session_of(name, kept_sessions)), private)
    reduced = reduce_session(session_from_fields(stored))
    shared = json.dumps(session_fields(reduced.session), ensure_ascii=False).lower()
    assert [word for word in core(private) if word in shared] == []
    assert reduced.left_out["notes"] == 1
    assert [run.number for run in reduced.session.runs] == [run["number"] for run in stored["runs"]]


@pytest.mark.parametrize("name", [*KINDS_OF_SESSIONS, "2026-11-22-damage", "2026-11-26-table-cache-waits"])
@pytest.mark.parametrize(
    "private", ["words of joe7smith at /srv/joe7smith, joe7smith@db", "joe7smith", "cold-joe7smith"]
)
def test_no_private_text_in_a_session_of_any_kind_is_shared(name: str, private: str, kept_sessions: Path) -> None:
    session = session_of(name, kept_sessions)
    reduced = reduce_session(session_from_fields(planted(session_fields(session), private))).session
    assert "joe7smith" not in repr(reduced)
    assert [run.metrics for run in reduced.runs] == [run.metrics for run in session.runs]


@pytest.mark.parametrize("private", ["words of joe7smith at /srv/joe7smith, joe7smith@db", "joe7smith"])
def test_no_file_of_the_archive_has_a_private_text(private: str, kept_sessions: Path, tmp_path: Path) -> None:
    """Nor its site: both are made by one rule."""
    stored = planted(session_fields(session_of("2026-11-21-stacks", kept_sessions)), private)
    for folder in ("runs", "logs", "stacks"):
        (tmp_path / folder).mkdir()
    for run in stored["runs"]:
        run["log"], file = f"logs/{run['number']:03d}-x.err", f"stacks/{run['number']:03d}-x.folded"
        run.setdefault("stacks", {})["file"] = file
        (tmp_path / run["log"]).write_text(f"[Note] InnoDB: {private}\n{private}: ready for connections.\n")
        (tmp_path / file).write_text(f"{private};{private};/srv/{private} 3\n")
    (tmp_path / "report.json").write_bytes(to_json(session_from_fields(stored)))
    made = make_bundle(tmp_path, "mysql")
    assert (tmp_path / "report.json").read_bytes().count(private.encode()) > 100
    assert [name for name, content in members(made.archive).items() if b"joe7smith" in content] == []
    assert b"joe7smith" not in gzip.decompress(made.archive) + made.text + (made.script or b"")
    name, shared = sharing_for_site()("results of joe7smith", load_session(tmp_path))
    assert "joe7smith" not in name + repr(shared)


def test_numbers_of_keys_that_nobody_knows_are_left_out_and_counted(kept_sessions: Path) -> None:
    session = session_of("2026-11-21-stacks", kept_sessions)
    before = reduce_session(session).left_out
    more = replace(
        session,
        settings={**session.settings, "acme_shelf": 7, "report_password": 12345, "tables": "many joe"},
        environment={**session.environment, "acme_rack": 12, "device_serial": 1986636296732150, "kernel": "of joe"},
        notes=(*session.notes, "joe measured this"),
    )
    reduced = reduce_session(more)
    assert {"acme_shelf", "report_password"}.isdisjoint(reduced.session.settings)
    assert reduced.session.settings["tables"] == NOT_SHARED
    assert {"acme_rack", "device_serial", "kernel"}.isdisjoint(reduced.session.environment)
    added = {kind: count - before.get(kind, 0) for kind, count in reduced.left_out.items()}
    assert {kind: count for kind, count in added.items() if count} == {
        "settings": 3, "facts about the host": 2, "notes": 1,
    }  # fmt: skip


# --- What is shared


@pytest.mark.parametrize("name", SESSIONS)
def test_a_shared_report_has_the_figures_of_the_session(name: str, kept_sessions: Path) -> None:
    """It keeps the published schema, and has the same answer, comparisons and warnings."""
    session = session_of(name, kept_sessions)
    reduced = reduce_session(session).session
    # A title of an older version is shared as that of today.
    assert reduced.title in (session.title, find_experiment(session.experiment).title)
    own, shared = json.loads(to_json(replace(session, title=reduced.title))), json.loads(to_json(reduced))
    assert violations(shared) == []
    for key in ("experiment", "versions", "axes", "answer", "summaries", "contrasts", "ratios", "fits",
                "findings"):  # fmt: skip
        assert shared.get(key) == own.get(key), key
    for run, full in zip(reduced.runs, session.runs, strict=True):
        assert (run.variant, run.verdict, run.metrics) == (full.variant, full.verdict, full.metrics)
        assert (run.startup, run.timeline, run.stacks.chains) == (full.startup, full.timeline, full.stacks.chains)


def test_the_facts_and_settings_that_shape_a_start_are_shared(kept_sessions: Path) -> None:
    session = session_of("2026-11-27-two-versions-traced", kept_sessions)
    reduced = reduce_session(session)
    known = {name for name, value in session.environment.items() if value is not None}
    assert known - set(reduced.session.environment) == {"device_serial"}
    assert {name for name in session.settings if session.settings[name]} - set(reduced.session.settings) == {"data"}
    assert reduced.session.servers == session.servers
    words = "--version '5.7.22 mariadb-10.11.5' --tables 200000 --runs 5 --engine local --trace --floor"
    assert reduced.session.command == f"recovery crash-recovery {words}"
    assert reduced.left_out == {"facts about the host": 1, "options of the command": 2, "settings": 1}


def test_notes_and_reasons_of_this_tool_are_shared(kept_sessions: Path) -> None:
    session = session_of("2026-11-21-containers-9.7-5000-iops", kept_sessions)
    assert "The server was limited to 5,000 reads a second." in session.notes
    assert reduce_session(session).session.notes == session.notes


@pytest.mark.parametrize(
    ("reason", "shared"),
    [
        ("the log shows no crash recovery", "the log shows no crash recovery"),
        (
            "mysqld ended with exit 1 before it was ready: [ERROR] InnoDB: Table acme/customers is gone",
            "mysqld ended with exit 1 before it was ready",
        ),
        ("joe stopped it", NOT_SHARED),
        ("3 of 12 acknowledged statements lost; acme", "3 of 12 acknowledged statements lost"),
    ],
)
def test_of_a_reason_the_words_of_this_tool_are_shared_and_not_what_it_quotes(
    reason: str, shared: str, kept_sessions: Path
) -> None:
    session = session_of("2026-11-21-stacks", kept_sessions)
    run = replace(session.runs[0], reason=reason)
    assert reduce_session(replace(session, runs=(run,))).session.runs[0].reason == shared


def test_the_words_of_all_reasons_and_notes_of_this_tool_are_known() -> None:
    """A reason with a word that is not known would be left out of each bundle."""
    unknown = {
        f"{path.name}: {text}": words
        for path in (FIXTURES.parent / "recovery").rglob("*.py")
        for text in reasons_in(ast.parse(path.read_text(encoding="utf-8")))
        if (words := [word for word in re.findall(r"[^\W_]+", text) if own_words(word) is None])
    }
    assert unknown == {}


SAYING = {"TrialVoidError", "ServerFailedError", "ServerKilledError", "failure", "_failed", "add_note"}
"""What makes the reason of a run, or a note."""


def reasons_in(tree: ast.AST) -> Iterator[str]:
    """Yields the texts of reasons and notes, without what is put into them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in SAYING:
                yield from (
                    part.value
                    for part in ast.walk(node.args[0])
                    if isinstance(part, ast.Constant) and isinstance(part.value, str) and " " in part.value.strip()
                )


def test_earlier_sessions_are_shared_by_the_names_that_the_tool_gave_them(kept_sessions: Path) -> None:
    """The user may have renamed a folder. The host's id stays here, as all that tells a machine from others."""
    session = session_of("2026-11-21-stacks", kept_sessions)
    names = ("20261120T100000Z-cold-recovery", "20261121T100000Z-cold-recovery-2", "20261121T100000Z-acme", "joe")
    earlier = tuple(
        EarlierSession(name, f"2026-11-2{day}T10:00:00+00:00", session.versions[0], "cold", 3, 40.5, "0123456789ab")
        for day, name in enumerate(names)
    )
    reduced = reduce_session(replace(session, earlier=earlier))
    shared = reduced.session.earlier
    assert [one.session for one in shared] == [*names[:2], NOT_SHARED, NOT_SHARED]
    assert [replace(one, session="", host_id="") for one in shared] == [
        replace(one, session="", host_id="") for one in earlier
    ]
    assert answers(reduced.session) == answers(replace(session, earlier=earlier))


def test_a_folder_that_the_user_named_is_called_by_its_start_and_experiment(kept_sessions: Path) -> None:
    session = session_of("2026-11-21-stacks", kept_sessions)
    for named in ("for joe7smith", "..", "cold (warm)", ""):
        assert reduce_name(named, session) == "20261121T142519Z-cold-recovery"
    for own in ("20261120T100000Z-cold-recovery-2", "2026-11-21-stacks"):
        assert reduce_name(own, session) == own


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
    assert option_text(option) == option


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
    assert option_text(option) is None


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


def test_names_that_the_user_gave_become_numbers(kept_sessions: Path) -> None:
    """Equal names stay equal, and different ones different, in runs, variants, axes, servers and settings."""
    session = session_of("2026-11-21-stacks", kept_sessions)
    variants = "acme:innodb_io_capacity=5 plain: acme-2:innodb_io_capacity=9"
    runs = tuple(replace(run, version=f"{run.version}+of-joe", variant="cold-acme") for run in session.runs)
    versions = tuple(f"{version}+of-joe" for version in session.versions)
    values = {f"cold-{label}": {"cache": "cold", "settings": label} for label in ("acme", "plain", "acme-2")}
    named = replace(
        session,
        runs=runs,
        versions=versions,
        variants=variants_with(values),
        settings={**session.settings, "variants": variants},
        servers={f"{versions[0]} acme": {}},
    )
    shared = reduce_session(named)
    reduced = shared.session
    build = reduced.versions[0].partition("+")[2]
    assert reduced.versions == tuple(f"{version}+{build}" for version in session.versions)
    label, plain, other = (variant.removeprefix("cold-") for variant in reduced.variant_names)
    assert plain == "plain"
    assert len({build, label, other}) == 3
    assert {run.variant for run in reduced.runs} == {f"cold-{label}"}
    assert [one["settings"] for one in values_of_all(reduced).values()] == [label, plain, other]
    assert reduced.settings["variants"] == (f"{label}:innodb_io_capacity=5 plain: {other}:innodb_io_capacity=9")
    assert list(reduced.servers) == [f"{reduced.versions[0]} {label}"]
    assert shared.names == {build: "of-joe", label: "acme", other: "acme-2"}


def test_a_build_has_one_name_in_all_sessions_of_a_site(kept_sessions: Path) -> None:
    """The site takes cells of equal servers as one: another build must not look the same."""
    session, share = session_of("2026-11-21-stacks", kept_sessions), sharing_for_site()
    first, second, again = (
        share("s", replace(session, versions=tuple(f"5.7.22+{build}" for build in builds), runs=()))[1].versions
        for builds in (("joe", "ann"), ("ann", "bob"), ("joe",))
    )
    assert len({*first, *second}) == 3
    assert (first[1], again[0]) == (second[0], first[0])


def test_an_option_that_the_user_varied_is_named(kept_sessions: Path) -> None:
    session = session_of("2026-11-21-stacks", kept_sessions)
    varied = "rocksdb_block_zz=1k,2k acme_dir=/srv/acme,/srv/b"
    axes = (Axis("rocksdb_block_zz", ("1k", "2k"), "1k"), Axis("acme_dir", ("/srv/acme", "/srv/b"), "/srv/acme"))
    servers: dict[str, dict[str, str]] = {"5.7.22 rocksdb_block_zz=2k": {}, "5.7.22 acme_dir=1": {}}
    given = replace(session, settings={**session.settings, "options": varied}, axes=axes, servers=servers)
    reduced = reduce_session(given).session
    assert reduced.settings["options"] == "rocksdb_block_zz=1k,2k"
    assert reduced.axes[0] == axes[0]
    assert "acme" not in repr(reduced)
    assert next(iter(reduced.servers)) == "5.7.22 rocksdb_block_zz=2k"


def test_a_version_is_shared_without_a_suffix_of_its_server(kept_sessions: Path) -> None:
    session = session_of("2026-11-21-stacks", kept_sessions)
    versions = ("5.7.22-acme", "percona-8.0.36-28", "mariadb-10.11.5", "9.7.4.1", "5.7.22+patched")
    shared = reduce_session(replace(session, versions=versions, runs=())).session.versions
    assert shared == ("5.7.22", *versions[1:])


def test_different_names_stay_different(kept_sessions: Path) -> None:
    session = session_of("2026-11-21-stacks", kept_sessions)
    named = replace(
        session, variants=plain_variants("acme", "ajax", "cold", "name-1", "name-2", "cold-name-1"), runs=()
    )
    names = reduce_session(named).session.variant_names
    assert (len(set(names)), names[2]) == (6, "cold")


def test_own_words_are_words_of_this_tool_and_numbers() -> None:
    for text in ("warm", "cold-table_open_cache-2000", "mysqld ended by itself, with exit code 1", "Q1", "16k"):
        assert own_words(text) == text
    for text in ("customers", "db-prod-7", "/srv/data", "10.11.12.13", "cold\nwarm", "a@b"):
        assert own_words(text) is None

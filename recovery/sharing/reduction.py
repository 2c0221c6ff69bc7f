"""Reduces a session to what a bundle shares of it: listed fields, with numbers and with texts of the allow-list.

A field that is not listed here has its default in the reduced session, so a new field is left out. Names that the user
gave to variants, builds and axes stay, masked: tables and comparisons need them. All functions are pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

from recovery.analysis.stacks import Folded
from recovery.errors import RecoveryError
from recovery.experiments import EXPERIMENTS, find_experiment
from recovery.logs.error_log import classify, milestone_of
from recovery.model import Flavor, NamedSettings, Run, Session, Status, Verdict, parse_version
from recovery.mysqld.known_lines import HIDDEN, hide_names
from recovery.sharing import allow_list
from recovery.sharing.allow_list import NOT_SHARED, Rule
from recovery.sharing.stored_options import is_init_option, named_settings, split_options, split_words

Keep = Callable[[Any], Any]
"""Returns what is shared of a field's value."""
Fields = Mapping[str, Keep]
"""What is shared of each listed field of a dataclass."""
_Noun = TypeVar("_Noun")


@dataclass(frozen=True)
class Reduced:
    """A session as it is shared, and what was left out of it."""

    session: Session
    left_out: dict[str, int]
    """How many things were left out, by their kind in plural: `settings`, `notes`."""
    names: tuple[str, ...]
    """The names that the user gave, as they are shared."""


def reduce_session(session: Session, mask: Callable[[str], str] = str) -> Reduced:
    """Returns the session with listed fields only. `mask` masks the names that the user gave."""
    reduction = _Reduction(mask)
    reduced = reduction.session(session)
    left_out = {kind: len(found) for kind, found in reduction.left_out.items() if found}
    return Reduced(reduced, left_out, tuple(reduction.own_names(session)))


_PLAIN_NAME = re.compile(r"[\w.+\[-][\w .,:=+%\[\]-]{0,120}", re.ASCII)


class _Names:
    """Masks names, such that different names stay different and equal ones equal."""

    def __init__(self, mask: Callable[[str], str]) -> None:
        self._mask = mask
        self._given: dict[str, str] = {}

    def __call__(self, name: str) -> str:
        if name not in self._given:
            masked = self._mask(name)
            if not _PLAIN_NAME.fullmatch(masked):
                masked = "name"
            taken, number, free = set(self._given.values()), 2, masked
            while free in taken:
                free, number = f"{masked}-{number}", number + 1
            self._given[name] = free
        return self._given[name]


def _number(value: Any) -> Any:
    """Returns a number or a flag. A verdict is a word of the model."""
    return value if isinstance(value, int | float) else None


def _text(rule: Rule, value: Any) -> str | None:
    return rule(value) if isinstance(value, str) else None


def _blank(value: Any) -> Any:
    """Returns an empty value in place of a required one that is not listed."""
    return type(value)() if isinstance(value, str | int | float | tuple | list | dict) else None


def keep_fields(listed: Fields, noun: _Noun) -> _Noun:
    """Returns a dataclass with its listed fields. All others have their default, or are empty."""
    kept = {}
    for slot in fields(noun):  # type: ignore[arg-type]
        value = getattr(noun, slot.name)
        if slot.name in listed:
            kept[slot.name] = listed[slot.name](value)
        elif slot.default is MISSING and slot.default_factory is MISSING:
            kept[slot.name] = _blank(value)
    return type(noun)(**kept)


@dataclass(frozen=True)
class _Part:
    """Keeps the listed fields of a part of a run, which is a dataclass, or None."""

    listed: Fields

    def __call__(self, noun: _Noun) -> _Noun | None:
        return None if noun is None else keep_fields(self.listed, noun)


def _parts(listed: Fields) -> Keep:
    return lambda nouns: tuple(keep_fields(listed, noun) for noun in nouns)


def _numbers(names: str) -> dict[str, Keep]:
    return dict.fromkeys(names.split(), _number)


def _columns(columns: Mapping[str, tuple[float | None, ...]]) -> dict[str, tuple[float | None, ...]]:
    return {name: tuple(map(_number, values)) for name, values in columns.items() if allow_list.metric_name(name)}


_TIMELINE = _Part({"at_s": lambda times: tuple(map(_number, times)), "columns": _columns})
_ACTIVITY = _Part(
    _numbers("seconds others_cpu_s tool_cpu_s steal_s throttled_s others_read_bytes others_written_bytes")
)
_CONTENTS = _Part(_numbers("tables_found tables_expected rows_found rows_expected rows_lost"))
_WARM = _Part(_numbers("warmups resident_share resident_share_after"))
_OPENED_NUMBERS = """
    tablespaces_opened tablespace_opens tablespaces_modified opened_unmodified tablespaces_read read_unmodified
    resident_after_bytes
"""
_STARTUP_NUMBERS = "ready_lag_s start_error_s engine_overhead_s log_held_s log_errors scan_threads"


@dataclass
class _Reduction:
    mask: Callable[[str], str]
    left_out: dict[str, set[object]] = field(default_factory=dict)
    """What was left out, by kind: each thing once."""

    def __post_init__(self) -> None:
        self.name = _Names(self.mask)
        self.query = _Names(lambda _: "query")
        self.variants: frozenset[str] = frozenset()
        self.template: str | None = None
        """The template of the experiment, which belongs to this tool."""

    def _leave_out(self, kind: str, what: object) -> None:
        self.left_out.setdefault(kind, set()).add(what)

    def own_names(self, session: Session) -> Iterator[str]:
        """Yields the names that the user gave: of builds and of variants."""
        for version in map(self.version, session.versions):
            if build := version.partition("+")[2]:
                yield build
        try:
            yield from (self.name(named.label) for named in named_settings(session.settings.get("variants")))
        except RecoveryError:
            return

    # --- The session

    def session(self, session: Session) -> Session:
        try:
            experiment = find_experiment(session.experiment)
        except RecoveryError:
            experiment = None
        self.variants = frozenset(session.variant_names)
        self.template = None if experiment is None else experiment.template
        title = Session.title if experiment is None else experiment.title
        texts = {
            "experiment": "unknown" if experiment is None else experiment.name,
            "question": "" if experiment is None else experiment.question,
            "title": session.title if session.title == _TITLE_AS_IS else title,
        }
        fixed = {name: partial(_fixed, text) for name, text in texts.items()}
        return keep_fields({**fixed, **self.session_fields()}, session)

    def session_fields(self) -> Fields:
        names = self._names
        return {
            "command": self._command,
            "started_at": lambda time: allow_list.TIME(time) or "",
            "environment": self._environment,
            "settings": self._settings,
            "versions": lambda versions: tuple(map(self.version, versions)),
            "variants": _parts({"name": self.name, "values": self._values, "metric": self._optional_metric}),
            "planned_runs": _number,
            "servers": self._servers,
            "notes": self._notes,
            "runs": lambda runs: tuple(map(self._run, runs)),
            "floors": _parts(
                {
                    **_numbers("files one_thread_s many_threads_s threads open_s times"),
                    "version": self.version,
                    "variants": names,
                }
            ),
            "tool_version": lambda version: allow_list.TOOL_VERSION(version) or "",
            "status": lambda status: status if status in tuple(Status) else Status.ABORTED.value,
            "metric": self._metric,
            "axes": _parts({"name": self.name, "values": names, "base": self._optional_name}),
            "earlier": _parts(
                {
                    **_numbers("count mean"),
                    "session": self._session_name,
                    "started_at": lambda time: allow_list.TIME(time) or "",
                    "version": self.version,
                    "variant": self.name,
                }
            ),
        }

    def version(self, text: str) -> str:
        """Returns a version with the masked name of its build, and without a suffix of the server's own."""
        try:
            version = parse_version(text)
        except ValueError:
            return self.name(text)
        return f"{version.full_release}+{self.name(version.build)}" if version.build else version.full_release

    def _names(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(self.name, texts))

    def _optional_name(self, text: str | None) -> str | None:
        return None if text is None else self.name(text)

    def _values(self, values: dict[str, str]) -> dict[str, str]:
        return {self.name(axis): self.name(value) for axis, value in values.items()}

    def _session_name(self, name: str) -> str:
        """Returns the name of a session as the tool gives it; the user may have renamed its folder."""
        if _SESSION_NAME.fullmatch(name):
            return name
        self._leave_out("names of sessions", name)
        return NOT_SHARED

    def _optional_metric(self, name: str | None) -> str | None:
        return None if name is None else self._metric(name)

    def _metric(self, name: str) -> str:
        return allow_list.metric_name(name) or _UNLISTED_METRIC

    def _notes(self, notes: tuple[str, ...]) -> tuple[str, ...]:
        shared = tuple(note for note in notes if allow_list.note(note))
        for note in set(notes) - set(shared):
            self._leave_out("notes", note)
        return shared

    def _environment(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        shared = {}
        for name, value in facts.items():
            kept = _number(value) if name in allow_list.HOST_NUMBERS else None
            if (rule := allow_list.HOST_TEXTS.get(name)) is not None and isinstance(value, str):
                kept = self.mask(rule(value) or "") or None
            if kept is not None:
                shared[name] = kept
            elif value not in (None, ""):
                self._leave_out("facts about the host", name)
        return shared

    def _servers(self, servers: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
        return {self._server_name(name): self._server(facts) for name, facts in servers.items()}

    def _server_name(self, text: str) -> str:
        version, blank, variant = text.partition(" ")
        return f"{self.version(version)}{blank}{self.name(variant) if variant else ''}"

    def _server(self, facts: Mapping[str, str]) -> dict[str, str]:
        shared = {}
        for name, value in facts.items():
            if name == "options":
                shared[name] = self._options(value)
                continue
            if (rule := allow_list.SERVER_TEXTS.get(name)) is not None:
                kept = rule(value)
            else:
                is_shared = name.startswith("@") and allow_list.server_option(name[1:], value)
                kept = value if is_shared else None
            if kept is not None:
                shared[name] = kept
            if kept != value and value:
                self._leave_out("facts about servers", name)
        return shared

    def _options(self, text: str) -> str:
        """Returns the options that are shared. Where the SQL of an init option ends is not known."""
        shared = []
        for option in split_options(text):
            if (kept := self._option(option)) is not None:
                shared.append(kept)
            if is_init_option(option):
                break
        return " ".join(shared)

    def _option(self, option: str) -> str | None:
        kept = allow_list.option_text(option)
        if kept is None:
            self._leave_out("server options", option)
        return kept

    # --- Settings, and the command

    def _settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        shared = {}
        for name, value in settings.items():
            kept = self._setting(name, value)
            if kept is not None or (value is None and name in _SETTINGS):
                shared[name] = kept
            if kept in (None, NOT_SHARED) and value not in (None, "", False):
                self._leave_out("settings", name)
        return shared

    def _setting(self, name: str, value: Any) -> Any:
        if name in allow_list.SETTING_NUMBERS:
            return NOT_SHARED if value and isinstance(value, str) else _number(value)
        if not isinstance(value, str) or not value:
            return None
        if name in _OWN_RULES:
            return getattr(self, _OWN_RULES[name])(value) or None
        rule = allow_list.SETTING_TEXTS.get(name)
        return None if rule is None else rule(value)

    def _setting_versions(self, text: str) -> str:
        return " ".join(map(self._requested_version, text.replace(",", " ").split()))

    def _requested_version(self, text: str) -> str:
        """Returns a version as it was requested, which may be a series: `9.7`, `lts`, `debian-mariadb`."""
        return text if _SERIES.fullmatch(text) else self.version(text)

    def _template(self, text: str) -> str:
        name = text.rpartition("/")[2]
        return name if name == self.template else NOT_SHARED

    def _query_names(self, text: str) -> str:
        return shlex.join(map(self.name, split_words(text)))

    def _set(self, text: str) -> str:
        return shlex.join(filter(None, map(self._option, split_words(text))))

    def _axis_options(self, text: str) -> str:
        return shlex.join(filter(None, map(self._axis_option, split_words(text))))

    def _axis_option(self, text: str) -> str | None:
        name, equals, values = text.partition("=")
        if equals and all(allow_list.server_option(name, value) for value in values.split(",")):
            return text
        self._leave_out("server options", name)
        return None

    def _variants(self, text: str) -> str:
        """Returns the user's variants with the options that are shared, or a mark if they cannot be read."""
        try:
            return shlex.join(map(self._variant, named_settings(text)))
        except RecoveryError:
            return NOT_SHARED

    def _variant(self, named: NamedSettings) -> str:
        shared = [f"{name}={value}" for name, value in (("layout", named.layout), ("schemas", named.schemas)) if value]
        for name, value in named.settings:
            if (kept := self._option(f"{name}={value}")) is not None:
                shared.append(kept)
        return f"{self.name(named.label)}:{','.join(shared)}"

    def _command(self, text: str) -> str:
        """Returns the command with the options that are shared."""
        given = split_words(text)
        shared = ["recovery", *[word for word in given[:_MAX_PROGRAM_WORDS] if word in (*EXPERIMENTS, "run")][:1]]
        for word, following in pairwise((*given, "")):
            if not word.startswith("--"):
                continue
            name, equals, value = word[2:].partition("=")
            kept = self._command_option(name, value if equals else following)
            if kept is None:
                self._leave_out("options of the command", name)
            elif equals:
                shared.append(f"--{name}={kept}")
            else:
                shared += [f"--{name}", kept] if kept else [f"--{name}"]
        return shlex.join(shared)

    def _command_option(self, name: str, value: str) -> str | None:
        """Returns the shared value of an option of the command; empty if it has none."""
        if name in allow_list.COMMAND_FLAGS:
            return ""
        own: dict[str, Rule] = {
            **dict.fromkeys(("version", "baseline"), self._setting_versions),
            **dict.fromkeys(("question", "workload", "poll-query"), self._query_names),
            "set": self._option,
            "option": self._axis_option,
            "variant": self._command_variant,
        }
        rule = own.get(name) or allow_list.COMMAND_TEXTS.get(name)
        return None if rule is None else rule(value)

    def _command_variant(self, text: str) -> str | None:
        variants = self._variants(shlex.quote(text))
        return None if variants == NOT_SHARED else split_words(variants)[0]

    # --- Runs

    def _run(self, run: Run) -> Run:
        reason = run.reason and _shown_reason(run.reason)
        if reason != run.reason:
            self._leave_out("texts of runs", (run.number, "reason"))
        return keep_fields({**self.run_fields(), "reason": lambda _: reason}, run)

    def run_fields(self) -> Fields:
        phases = _parts({"name": self._phase, **_numbers("start_s end_s estimated")})
        return {
            **_numbers("number repeat measure_again may_be_clean"),
            "version": self.version,
            "flavor": lambda flavor: allow_list.FLAVOR(flavor) or Flavor.MYSQL.value,
            "variant": self.name,
            "verdict": Verdict,
            "extra": lambda extra: extra,
            "started_at": partial(_text, allow_list.TIME),
            "metrics": lambda metrics: {
                name: _number(value) for name, value in metrics.items() if allow_list.metric_name(name)
            },
            "startup": _Part(
                {
                    **_numbers(_STARTUP_NUMBERS),
                    "crash_proof": partial(_text, _known_line),
                    "phases": phases,
                    "background_phases": phases,
                }
            ),
            "cold": _Part({**_numbers("resident_bytes seconds"), "means": partial(_text, allow_list.COLD_MEANS)}),
            "warm": _WARM,
            "contents": _CONTENTS,
            "opened_files": _Part(
                {**_numbers(_OPENED_NUMBERS), "traced_by": partial(_text, allow_list.TRACING_PROGRAM)}
            ),
            "stacks": _Part(self.stack_fields()),
            "load": _Part(
                {
                    "clients": self._clients,
                    "waits": _parts(
                        {
                            **_numbers("count wait_s"),
                            "source": lambda source: allow_list.WAIT_SOURCE(source) or "status",
                            "name": lambda name: allow_list.WAIT_NAME(name) or NOT_SHARED,
                        }
                    ),
                }
            ),
            "host_activity": _ACTIVITY,
            "timeline": _TIMELINE,
            "previous_exit": partial(_text, allow_list.PREVIOUS_EXIT),
            "observations": self._observations,
        }

    def stack_fields(self) -> Fields:
        chain: Fields = {
            **_numbers("samples of waits"),
            "phase": self._phase_or_variant,
            "thread": lambda thread: allow_list.THREAD(thread) or "other threads",
            "frames": lambda frames: tuple(map(function_name, frames)),
        }
        return {
            **_numbers("count"),
            "program": partial(_text, allow_list.SAMPLING_PROGRAM),
            "chains": _parts(chain),
            "hottest": _parts({**_numbers("on_top within of"), "function": function_name}),
        }

    def _phase(self, name: str) -> str:
        """Returns a phase of the tool's, or the number of a query of the user's own."""
        return allow_list.phase(name) or self.query(name)

    def _phase_or_variant(self, name: str) -> str:
        return allow_list.phase(name) or (self.name(name) if name in self.variants else "load")

    def _clients(self, clients: Mapping[str, str]) -> dict[str, str]:
        shared = {}
        for name, command in clients.items():
            kept = allow_list.client_command(command) if name in allow_list.CLIENTS else None
            if kept:
                shared[name] = kept
            if kept != command:
                self._leave_out("commands of clients, in part", command)
        return shared

    def _observations(self, observed: Mapping[str, str]) -> dict[str, str]:
        shared = {}
        for name, text in observed.items():
            kept = _shown_reason(text) if name in allow_list.OBSERVED else None
            if kept is not None:
                shared[name] = kept
            if kept != text:
                self._leave_out("texts of runs", text)
        return shared


_MAX_PROGRAM_WORDS = 4
"""Words of a command before its options, as in `python -m recovery scale`."""
_UNLISTED_METRIC = "unlisted"
"""Stands for a main metric that is not shared, so that nothing is taken for seconds."""
_SESSION_NAME = re.compile(rf"\d{{8}}T\d{{6}}Z-(?:{'|'.join(EXPERIMENTS)})(?:-\d{{1,3}})?", re.ASCII)
_TITLE_AS_IS = "Recovery of a data directory as it is"
_OWN_RULES = {
    "version": "_setting_versions",
    "baseline": "_setting_versions",
    "set": "_set",
    "options": "_axis_options",
    "variants": "_variants",
    "poll_query": "_query_names",
    "template": "_template",
}
"""Settings with texts that contain names of the user's or server options, and the method that reduces them."""
_SETTINGS = frozenset({*allow_list.SETTING_NUMBERS, *allow_list.SETTING_TEXTS, *_OWN_RULES})
_SERIES = re.compile(
    r"(?:(?:mysql|mariadb|percona|debian)[-:])?(?:\d{1,3}(?:\.\d{1,4}){0,3}|lts|innovation|latest|mysql|mariadb)"
)


_PROGRAM_FOLDER = re.compile(r"(?<!\S)\S*/(?=(?:mysqld|mariadbd)(?!\S*/))")


def _known_line(line: str) -> str:
    """Returns a line of a server's log, or of its errors, without anything that is not a known text."""
    bare = _PROGRAM_FOLDER.sub("", line)
    return hide_names(bare, "mariadbd" if "mariadbd" in bare else "mysqld")


def _shown_reason(text: str) -> str:
    """Returns why a run does not count, or what was observed of it: the texts of this tool, and known ones of a
    server."""
    known, rest = allow_list.known_reason(text)
    if not known:
        return _known_line(text)
    return f"{known}: {_known_line(rest)}" if rest else known


def milestones(log: str) -> tuple[list[str], int]:
    """Returns the lines of a log that bound phases or report the start or the end of a server, if their texts are
    known, and the number of all other lines."""
    lines = log.splitlines()
    known = [_known_line(line) for line in lines if classify(line) is not None or milestone_of(line) is not None]
    shown = [line for line in known if _HIDDEN not in line]
    return shown, len(lines) - len(shown)


_HIDDEN = HIDDEN[:-1]
"""The beginning of what stands in place of a text that is not known."""


def _fixed(value: Any, _: Any) -> Any:
    return value


def _as_it_is(value: Any) -> Any:
    return value


def function_name(name: str) -> str:
    """Returns the name of a function, or a mark in its place if it has a path in it."""
    return allow_list.FUNCTION(name) or "[?]"


def reduce_stacks(folded: Folded) -> Folded:
    """Returns sampled stacks with names of phases, threads and functions only."""
    reduced: Folded = Folded()
    for (phase, thread, *frames), count in folded.items():
        known = (allow_list.phase(phase) or "load", allow_list.THREAD(thread) or "other threads")
        reduced[(*known, *map(function_name, frames))] += count
    return reduced


# --- Keys of report.json

_LISTED = _Reduction(str)
SESSION_KEYS = frozenset(
    {*_LISTED.session_fields(), "experiment", "question", "title", "format", "answer"}
    | {"summaries", "contrasts", "ratios", "fits", "findings"}
)
"""Keys of report.json in a bundle: the listed fields, and what a report computes from them."""
_RUN_FIELDS: Fields = {
    **_LISTED.run_fields(),
    "reason": _as_it_is,
    "log": _as_it_is,
    "stacks": _Part({**_LISTED.stack_fields(), "file": _as_it_is}),
}
"""With the fields that the bundle itself sets."""


def listed_keys(stored: dict[str, Any], listed: Fields = _RUN_FIELDS) -> dict[str, Any]:
    """Returns a stored run, or one of its parts, with the keys of listed fields. A key without a value is left out."""
    shared = {}
    for name, value in stored.items():
        if (rule := listed.get(name)) is not None and value not in _NO_VALUE:
            shared[name] = listed_keys(value, rule.listed) if isinstance(rule, _Part) else value
    return shared


_NO_VALUE: tuple[object, ...] = (None, "", [], {})

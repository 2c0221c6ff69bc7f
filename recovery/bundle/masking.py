"""How is what is private replaced, the same by the same, so that a reader still sees what belongs together? Pure."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from typing import Any

from recovery.bundle.literals import NAMING, Literal, identity_kind, is_secret_option, words_of
from recovery.bundle.patterns import OWN_WORDS, PATTERNS, Pattern, source_file

_NUMBERED = frozenset({"path", "url", "account", "address", "uuid"})
"""Kinds of which there are often several: even the first has a number."""
_WITHOUT_NUMBER = frozenset({"secret", "build"})
"""Not even that two of them are the same is told."""
_OPEN = frozenset({"environment", "settings", "servers"})
"""Of these the keys are no names of ours."""
_SHELL = frozenset({"command", "set", "variants"})
_MASKED = re.compile(r"\[[a-z]+(?:-\d+)?\]")
_DOMAIN = (
    r"(?:\.(?!(?:err|log|pid|sock|cnf|ini|txt|json|md|csv|svg|html|folded|sql|sh|pem|index|tar|gz)(?![\w-]))[\w-]+)*"
)
"""What may follow a host's name and is private with it; the end of a file's name is not."""
_HOME = re.compile(r"/(?:home|Users)/[^/]+|/root")


@dataclass
class Mask:
    """Replaces texts, and remembers by what, how often and where; never what stood there."""

    literals: tuple[Literal, ...]
    file: str = ""
    """That is under way."""
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    """How often by file, by placeholder."""
    _given: dict[tuple[str, str], str] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._kinds = {_same(kind, text): kind for kind, text in self.literals}
        self._exact = _any_of([one for one in self.literals if one[0] not in NAMING])
        self._names = _any_of([one for one in self.literals if one[0] in NAMING])

    def text(self, text: str) -> str:
        """What is known, longest first; what has the form; then names, which may be parts of such."""
        text = self._formed(PATTERNS, self._exact.sub(self._by_spelling, text))
        return self._names.sub(self._by_spelling, text)

    def value(self, value: Any, *keys: str) -> Any:
        """Of JSON, below these keys."""
        if isinstance(value, dict):
            return {self._key(name, keys): self.value(one, *keys, name) for name, one in value.items()}
        if isinstance(value, list):
            return [self.value(one, *keys) for one in value]
        # One of four words, or the session could not be read again.
        return self._string(value, keys) if isinstance(value, str) and value and keys[-1:] != ("verdict",) else value

    def _string(self, value: str, keys: tuple[str, ...]) -> str:
        key = keys[-1] if keys else ""
        kind = "secret" if is_secret_option(key) else identity_kind(key) if keys and keys[0] in _OPEN else None
        if kind is not None:
            return self._put(kind, value)
        if key in _SHELL:
            return shlex.join(self._word(word) for word in words_of(value))
        if keys[:1] == ("settings",):
            value = self._formed(OWN_WORDS, value)
        return self._options(value) if key == "options" else self.text(value)

    def name(self, name: str) -> str:
        """Of a file: what is left can be part of any archive, and of a list of checksums."""
        return re.sub(r"[^\w.+\[\]@-]", "_", self.text(name), flags=re.ASCII)

    def _key(self, name: str, keys: tuple[str, ...]) -> str:
        ours = not keys or keys[0] not in _OPEN or re.fullmatch(r"@?[a-z_0-9]+", name)
        return name if ours else self.text(name)

    def _word(self, word: str) -> str:
        """Of a command: `name=value`, or a variant's `label:name=value,name=value`."""
        word = self._formed(OWN_WORDS, word)
        label, colon, pairs = word.partition(":")
        if colon and "=" in pairs and not pairs.startswith(" ") and "=" not in label and "/" not in label:
            return self.text(f"{label}:") + ",".join(self._word(pair) for pair in pairs.split(","))
        name, equals, value = word.partition("=")
        if equals and value and is_secret_option(name):
            return f"{name}={self._put('secret', value)}"
        return self.text(word)

    def _options(self, told: str) -> str:
        """Names and values parted by blanks, though a value may have some itself."""
        parts = []
        for part in re.split(r"\s+(?=[a-z][a-z0-9_.]*=)", told):
            name, equals, value = part.partition("=")
            if equals and value and is_secret_option(name):
                parts.append(f"{name}={self._put('secret', value)}")
                if name.removeprefix("loose_").startswith("init_") and value not in self._kinds:
                    # SQL: where it ends cannot be told.
                    break
            else:
                parts.append(self.text(part))
        return " ".join(parts)

    def _by_spelling(self, found: re.Match[str]) -> str:
        text = known = found[0]
        while known and known not in self._kinds and known.lower() not in self._kinds:
            # With the domain that it was followed by.
            known = known.rpartition(".")[0]
        return self._put(self._kinds.get(known) or self._kinds.get(known.lower(), "secret"), text)

    def _formed(self, patterns: tuple[Pattern, ...], text: str) -> str:
        for pattern in patterns:
            text = pattern.found.sub(lambda found, one=pattern: self._by_form(one, found), text)  # type: ignore[misc]
        return text

    def _by_form(self, pattern: Pattern, found: re.Match[str]) -> str:
        group = found.re.groups
        text = found[group]
        if pattern.kind == "path":
            text = text.rstrip(".")
        if not pattern.private(text):
            return found[0]
        put = self._path(text) if pattern.kind == "path" else self._put(pattern.kind, text)
        start = found.start(group) - found.start()
        return found[0][:start] + put + found[0][start + len(text) :]

    def _path(self, path: str) -> str:
        if source := source_file(path):
            return self._put("build", path.removesuffix(source)) + source
        bare = path.rstrip("/") or path
        return self._put("home" if _HOME.fullmatch(bare) else "path", bare)

    def _put(self, kind: str, text: str) -> str:
        if _MASKED.fullmatch(text):
            return text
        same = (kind, _same(kind, text))
        if kind in _WITHOUT_NUMBER:
            placeholder = f"[{kind}]"
        else:
            placeholder = self._given.get(same) or self._new(kind)
            self._given[same] = placeholder
        in_file = self.counts.setdefault(placeholder, {})
        in_file[self.file] = in_file.get(self.file, 0) + 1
        return placeholder

    def _new(self, kind: str) -> str:
        number = self._numbers.get(kind, 0) + 1
        self._numbers[kind] = number
        return f"[{kind}-{number}]" if number > 1 or kind in _NUMBERED else f"[{kind}]"


def told(mask: Mask) -> str:
    """The list of what was masked, without a word of it."""
    lines = [
        "What was masked in this archive: placeholder, how often, and in which files.",
        "The same text has the same placeholder everywhere. The originals are in no file here.",
        "",
    ]
    for placeholder, files in sorted(mask.counts.items()):
        kind = placeholder.strip("[]").rpartition("-")[0] or placeholder.strip("[]")
        lines.append(f"{placeholder}  {_MEANINGS.get(kind, kind)}, {sum(files.values())} times")
        lines += [f"    {count} in {name}" for name, count in sorted(files.items())]
    return "\n".join([*lines, *([] if mask.counts else ["nothing"])]) + "\n"


_MEANINGS = {
    "secret": "a password, a token, or an option that may hold one",
    "data": "the folder of the data directories",
    "path": "a file or folder of the user's",
    "home": "a home folder",
    "build": "the folder in which the server was built",
    "user": "a user's name",
    "host": "a host's name",
    "url": "an address of a site that not everybody knows",
    "registry": "a registry of images",
    "repository": "where in its registry an image is",
    "account": "a user at a host",
    "address": "an IP address",
    "serial": "the serial number of a device",
    "volume": "the id of a volume",
    "id": "an id of this machine",
    "instance": "the id of an instance",
    "uuid": "a UUID",
    "mac": "a network card's address",
    "arn": "a name in a cloud account",
}


def _any_of(literals: list[Literal]) -> re.Pattern[str]:
    # What can match nowhere, where there is none.
    return re.compile("|".join(_spelled(kind, text) for kind, text in literals) or r"(?!)")


def _spelled(kind: str, text: str) -> str:
    exact = re.escape(text)
    if kind == "user":
        return rf"(?<![A-Za-z0-9_]){exact}(?![A-Za-z0-9_])"
    if kind in ("host", "registry"):
        return rf"(?i:(?<![A-Za-z0-9_]){exact}{_DOMAIN}(?![A-Za-z0-9_]))"
    if kind == "home":
        # What is below is masked as a whole.
        return rf"{exact}(?![\w/.-])"
    return rf"{exact}(?![\w-])" if kind in ("data", "path") else exact


def _same(kind: str, text: str) -> str:
    return text.lower() if kind in ("host", "registry") else text

"""Completes versions, sessions, layouts and server options in a shell.

Whatever goes wrong here offers nothing and prints nothing: the user is typing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class

from recovery.cli.values import layout_names

COMPLETE_VARIABLE = "_RECOVERY_COMPLETE"
"""Set by the shell's function: its value names the shell."""
Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def _completer(find: Callable[[click.Context, str], Iterable[str]]) -> Completer:
    """Returns the function with click's signature, which offers the names that begin with what was typed."""

    def complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        with suppress(Exception):
            return [name for name in dict.fromkeys(find(context, incomplete)) if name.startswith(incomplete)]
        return []

    return complete


def _versions(_: click.Context, __: str) -> Iterable[str]:
    from recovery.builds.catalog import pinned_servers
    from recovery.builds.resolve import ALIASES
    from recovery.linux.files import servers_dir

    yield from (str(row.version) for row in pinned_servers())
    found = (re.fullmatch(r"([^.].*)-[0-9a-f]{8}", path.name) for path in sorted(servers_dir().iterdir()))
    yield from (match[1] for match in found if match)
    yield from ALIASES


def _sessions(context: click.Context, _: str) -> Iterable[str]:
    from recovery.linux.files import expand_path

    results = context.params.get("results") or context.lookup_default("results") or "results"
    names = (path.parent.name for path in expand_path(Path(results)).glob("*/report.json"))
    return sorted((name for name in names if name != "latest"), reverse=True)  # the newest first


def _pages(_: click.Context, __: str) -> Iterable[str]:
    from recovery.linux.files import doc_pages

    return doc_pages()


def _server_options(_: click.Context, incomplete: str) -> Iterable[str]:
    from recovery.builds.option_lists import kept_options

    hyphens = "-" in incomplete
    return (f"{name.replace('_', '-') if hyphens else name}=" for name in sorted(kept_options()))


def _variant_options(context: click.Context, incomplete: str) -> Iterable[str]:
    """Yields what may follow `NAME:`, or a comma after it."""
    typed = incomplete[: max(map(incomplete.rfind, ":,")) + 1]
    if ":" in typed:
        names = ("layout=", "schemas=", *_server_options(context, incomplete.removeprefix(typed)))
        yield from (typed + name for name in names)


class _BashComplete(BashComplete):
    """Completes in bash, which splits words at `:` and `=` and replaces only what follows the last of them."""

    _typed = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        args, incomplete = super().get_completion_args()
        words: list[str] = []
        before = ""
        for word in (*args, incomplete):
            if words and (word in (":", "=") or before in (":", "=")) and not word.startswith("--"):
                words[-1] += word
            else:
                words.append(word)
            before = word
        if len(words) <= len(args):
            typed = words[-1][: max(map(words[-1].rfind, ":=")) + 1]
            self._typed = typed.partition("=")[2] if typed.startswith("-") else typed
        return words[:-1], words[-1]

    def format_completion(self, item: CompletionItem) -> str:
        item.value = item.value.removeprefix(self._typed)
        return super().format_completion(item)


add_completion_class(_BashComplete)
complete_version, complete_session, complete_page = _completer(_versions), _completer(_sessions), _completer(_pages)
OF_OPTIONS = {
    "version": complete_version,
    "baseline": complete_version,
    "layout": _completer(lambda _, __: layout_names()),
    "set": _completer(_server_options),
    "option": _completer(_server_options),
    "variant": _completer(_variant_options),
}
"""Completers by the names of options."""

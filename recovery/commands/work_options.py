"""Which options do the experiments take that put a server to work, and which are for starts alone?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from recovery.commands.options import FROM_ENVIRONMENT, OPTIONS, PREFIX, Decorator
from recovery.errors import UsageError
from recovery.scenarios.experiment import Asked, Experiment
from recovery.scenarios.scenario import Scenario

ONLY_STARTS = frozenset(
    ("layout", "columns", "database", "template", "insert_template", "inserts", "trace", "stacks", "floor", "fail_over",
     "as_published")
)  # fmt: skip

_OPTION = click.option(
    "--option", "options", multiple=True, metavar="NAME=VALUE,...", envvar=PREFIX + "OPTION",
    help="An option of the server, and the values to measure it at: table_open_cache=400,4000; may be repeated.",
)  # fmt: skip
_LOADS: tuple[Decorator, ...] = (
    click.option(
        "--seconds", metavar="N", envvar=PREFIX + "SECONDS", help="Of each measured load. [default: 60]"
    ),
    click.option(
        "--warmup", metavar="N", envvar=PREFIX + "WARMUP", help="Seconds of the same load before it. [default: 10]"
    ),
    click.option(
        "--threads", metavar="N...", envvar=PREFIX + "THREADS", help='Clients of the load at a time; several: "1 4 16".'
    ),
    click.option(
        "--workload", metavar="NAME...", envvar=PREFIX + "WORKLOAD",
        help="What they do: point-select, read-only, read-write, update-nokey …, or a script of your own for sysbench.",
    ),
    click.option(
        "--load-tables", metavar="N...", envvar=PREFIX + "LOAD_TABLES", help="How many of the tables the load uses."
    ),
    click.option(
        "--memory-ratio", metavar="X", envvar=PREFIX + "MEMORY_RATIO",
        help="Data so many times as large as the buffer pool: 0.5, or 4. [default: it fits]",
    ),
    _OPTION,
)  # fmt: skip
_QUERIES = click.option(
    "--queries", type=click.Path(path_type=Path), envvar=PREFIX + "QUERIES",
    help="A file of your own questions, SQL statements with a semicolon each; `-- NAME` above one names it.",
)  # fmt: skip
_POLLS: tuple[Decorator, ...] = (
    click.option(
        "--pollers", metavar="N", envvar=PREFIX + "POLLERS", help="Clients that ask beside the load. [default: 1]"
    ),
    click.option(
        "--every", metavar="SECONDS", envvar=PREFIX + "EVERY",
        help="Pause between an answer and the next question. [default: 0]",
    ),
)  # fmt: skip
_PARTS = click.option(
    "--question", "parts", metavar="NAME...", envvar=PREFIX + "QUESTION", help="Ask these alone, of all there are."
)
_PUBLISHED = click.option(
    "--published-build", metavar="N", envvar=PREFIX + "PUBLISHED_BUILD",
    help="Make N tables as was published, too: one client, one by one. What all would take is told from them.",
)  # fmt: skip
_PROFILE = click.option(
    "--profile", is_flag=True, envvar=PREFIX + "PROFILE",
    help="One more run of every variant, in no mean, with a profile of the server by perf.",
)  # fmt: skip
_WAITS = click.option(
    "--waits", is_flag=True, envvar=PREFIX + "WAITS",
    help="One more run of every variant, in no mean, in which the server counts its waits for every mutex and lock.",
)  # fmt: skip
_EXTRAS = (_PROFILE, _WAITS)
_DEPTH = click.option(
    "--depth", metavar="N", envvar=PREFIX + "DEPTH",
    help="Kill a recovery so many times, at most, before it may come to its end. [default: 3]",
)  # fmt: skip
_CHANCE: tuple[Decorator, ...] = (
    click.option(
        "--seed", metavar="N", envvar=PREFIX + "SEED",
        help="Of all that is left to chance: the same one brings the same moments again. [default: 1]",
    ),
    click.option(
        "--only", metavar="N", envvar=PREFIX + "ONLY",
        help="Of all runs of each cell that of this number alone: one that failed, again.",
    ),
)  # fmt: skip

OWN: dict[str, tuple[Decorator, ...]] = {
    "metadata": (_QUERIES, _PUBLISHED, *_EXTRAS),
    "interference": (*_LOADS, _QUERIES, *_POLLS, *_EXTRAS),
    "table-cache": (*_LOADS, *_EXTRAS),
    "write-scaling": (*_LOADS, _PARTS, *_EXTRAS),
    "crash-matrix": (_OPTION, _PARTS, *_CHANCE, _DEPTH),
    "damage": (_PARTS, *_CHANCE),
}
"""By scenario."""
_DEFAULT = re.compile(r" \[default: [^]]*\]$")
_COMPARED = "Settings to compare under a name; repeated for each. NAME: alone is the server as it is."
"""Of loads: their tables lie in one way alone."""


def working_options(scenario: Scenario) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Those that all measuring commands share, and its own, with the defaults that hold for it."""
    experiment = scenario.experiment
    assert experiment is not None, "it times starts"
    loads = experiment.template is not None
    foreign = ONLY_STARTS | ({"schemas"} if loads else set())
    shared = zip(OPTIONS, parameters_of(OPTIONS), strict=True)
    chosen = (*(option for option, known in shared if known.name not in foreign), *OWN[scenario.name])

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(chosen):
            command = option(command)
        if loads:
            known = _put_on(command)
            known["tables"].help = "Tables, all in one schema."
            known["variants"].help = _COMPARED
        return with_defaults(command, _usual(experiment))

    return decorated


def _usual(experiment: Experiment) -> Mapping[str, str]:
    schema = experiment.schema
    nouns = {
        "tables": schema.tables,
        "schemas": schema.databases,
        "rows": schema.rows,
        "runs": experiment.runs,
        "seconds": experiment.seconds,
        "warmup": Asked.warmup_s,
    }
    return {name: str(value) for name, value in nouns.items()} | dict(experiment.usual)


def with_defaults(command: Callable[..., Any], usual: Mapping[str, str]) -> Callable[..., Any]:
    """Its help tells these; what stands there is what holds for starts."""
    for name, option in _put_on(command).items():
        if name in usual:
            option.help = f"{_DEFAULT.sub('', option.help or '')} [default: {usual[name]}]"
    return command


def _put_on(command: Callable[..., Any]) -> dict[str, click.Option]:
    """By name."""
    given: list[click.Parameter] = command.__click_params__  # type: ignore[attr-defined]
    return {str(one.name): one for one in given if isinstance(one, click.Option)}


def refuse_foreign(environment: Mapping[str, str], command: click.Command) -> None:
    """A variable that is for another command would be silently ignored, and something else measured than was meant."""
    known = {str(parameter.envvar) for parameter in command.params if isinstance(parameter, click.Option)}
    for short in FROM_ENVIRONMENT:
        if PREFIX + short in environment and PREFIX + short not in known:
            raise UsageError(
                f"{short}={environment[PREFIX + short]} says nothing to {command.name}",
                f"leave {short} out; `recovery {command.name} --help` has what it takes",
            )


def repeated_work(scenario: str, given: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """What was given of an experiment's own options, as it was given."""
    for parameter in parameters_of(OWN[scenario]):
        value = given.get(str(parameter.name))
        values = value if isinstance(value, tuple) else (value,)
        yield from ((parameter.opts[0], one) for one in values)


def parameters_of(options: tuple[Decorator, ...]) -> list[click.Parameter]:
    def nothing() -> None: ...

    for option in reversed(options):
        option(nothing)
    found: list[click.Parameter] = nothing.__click_params__  # type: ignore[attr-defined]
    return found[::-1]

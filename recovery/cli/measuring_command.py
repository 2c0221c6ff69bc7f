"""The command that measures: its options are rows of the option table, its help is that of the experiment."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias

import click

from recovery.cli.options import Group, click_option, options_of
from recovery.experiments import EXPERIMENTS, find_experiment

_DEFAULT_IN_HELP = re.compile(r" \[default: [^]]*\]$")
_HELP_OF_LOADS = {
    "tables": "Tables, all in one schema.",
    "variants": "Server options to compare under a name; repeated for each. NAME: without options is the server as "
    "it is.",
}
"""Help of options that mean less where all tables have one schema and one layout."""
MeasureCallback: TypeAlias = "Callable[[MeasuringCommand, dict[str, Any]], int]"
"""Measures with the values of the options, and returns the exit code."""


class MeasuringCommand(click.Command):
    """Represents a command that measures. Its options are rows of the option table.

    The experiment is imported only when the command runs or its help is printed. Without the environment it parses
    stored commands: their options are their only settings, and none of them asks for help."""

    def __init__(self, name: str, *, measure: MeasureCallback | None = None, environment: bool = True) -> None:
        self._measure = measure
        self.options = options_of(EXPERIMENTS[name].options)
        super().__init__(
            name,
            params=[click_option(option, environment=environment) for option in self.options],
            callback=None if measure is None else self._run,
            short_help=EXPERIMENTS[name].help,
            add_help_option=environment,
        )

    def _run(self, **given: Any) -> int:
        assert self._measure is not None, "without it, the command has no callback"
        return self._measure(self, given)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.describe()
        super().format_help(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups = {option.key: option.group for option in self.options}
        rows: dict[Group, list[tuple[str, str]]] = {group: [] for group in Group}
        for parameter in self.get_params(ctx):
            if (row := parameter.get_help_record(ctx)) is not None:
                rows[groups.get(str(parameter.name), Group.HOW)].append(row)
        for group, found in rows.items():
            if found:
                with formatter.section(group.value):
                    formatter.write_dl(found)

    def describe(self) -> None:
        """Adds the experiment's question and its defaults to the help."""
        experiment = find_experiment(str(self.name))
        usual = import_module("recovery.cli.parse").usual_values(experiment)
        self.help = f"{experiment.question}\n\n{experiment.how}Results go to --results, one folder each."
        for parameter in self.params:
            if isinstance(parameter, click.Option):
                name, text = str(parameter.name), parameter.help or ""
                if experiment.template is not None:
                    text = _HELP_OF_LOADS.get(name, text)
                if name in usual:
                    text = f"{_DEFAULT_IN_HELP.sub('', text)} [default: {usual[name]}]"
                parameter.help = text or None

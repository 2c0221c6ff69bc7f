"""Lists the commands, and contains the click group that imports a command's module only when the command is used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from recovery.cli.completion import complete_session
from recovery.cli.measuring_command import MeasuringCommand
from recovery.cli.options import BY_NAME, click_option, mark_json_without_file
from recovery.errors import UsageError, did_you_mean
from recovery.experiments import EXPERIMENTS

MEASURE, INSPECT, MANAGE = "Measure", "Inspect", "Manage"
COMMANDS: dict[str, tuple[str, str, str]] = {
    "experiments": (MEASURE, "suite:experiments", "Run all five published experiments, one after the other."),
    "resume": (MEASURE, "measure:resume", "Resume a session that ended early."),
    "repeat": (MEASURE, "repeat:repeat", "Measure a stored session again, and report over its sessions."),
    "fleet": (MEASURE, "fleet:fleet", "Measure on many hosts with Ansible, and compare them."),
    "sessions": (INSPECT, "report:sessions", "List the stored sessions."),
    "report": (INSPECT, "report:report", "Print a stored session."),
    "compare": (INSPECT, "compare:compare_command", "Compare two stored sessions."),
    "site": (INSPECT, "site:site", "Make pages of all stored sessions."),
    "bundle": (INSPECT, "bundle:bundle", "Make a bug report of a stored session: text, script, archive."),
    "analyze": (INSPECT, "analyze:analyze", "Show the phases of every start in error logs."),
    "watch": (INSPECT, "watch:watch", "Show how far a starting server is, and how long still."),
    "estimate": (INSPECT, "estimate:estimate", "Estimate a start of a running server if it were killed now."),
    "calibrate": (INSPECT, "estimate:calibrate", "Let estimate use what pending-work measured on this host."),
    "status": (INSPECT, "status:status", "Show the running session."),
    "docs": (INSPECT, "docs:docs", "Print a page of the documentation, or a section of it."),
    "doctor": (MANAGE, "doctor:doctor", "Check this host."),
    "versions": (MANAGE, "versions:versions", "List the available servers."),
    "datadirs": (MANAGE, "datadirs:datadirs", "List or remove kept data directories."),
    "images": (MANAGE, "images:images", "List, build or remove images of servers."),
    "schema": (MANAGE, "schema:schema", "Print the SQL script that creates the tables."),
    "completion": (MANAGE, "completion_script:completion", "Print the completion script of your shell."),
}
"""Commands by name: the group in the help, `module:attribute`, and one line of help."""
EXAMPLES = {
    "cold-recovery": "cold-recovery --version 8.0.31 --tables 20k",
    "warm-recovery": "warm-recovery --version 8.0.31 --tables 20k",
    "crash-recovery": 'crash-recovery --version "5.7.22 mariadb-10.11.5" --tables 20k',
    "clean-start": "clean-start --version 8.0.31 --tables 20k",
    "scale": 'scale --tables "1000 10000 50000"',
    "metadata": "metadata --scale quick",
    "interference": "interference --scale quick --pollers 2",
    "table-cache": 'table-cache --scale quick --threads "1 8"',
    "write-scaling": "write-scaling --scale quick --question scaling",
    "crash-matrix": "crash-matrix --runs 6 --version 8.0.31",
    "pending-work": "pending-work --scale quick --uncommitted 10k",
    "damage": "damage --runs 3 --version 8.0.31",
    "experiments": "experiments --scale quick --version 8.0.31",
    "resume": "resume 20260101T120000Z-cold-recovery",
    "repeat": "repeat --times 5 --every 6h",
    "fleet": "fleet run plan.toml",
    "fleet run": "fleet run plan.toml --dry-run",
    "fleet report": "fleet report results/fleet",
    "sessions": "sessions --results /mnt/results",
    "report": "report -v",
    "compare": "compare 20260101T120000Z-cold-recovery 20260102T120000Z-cold-recovery",
    "site": "site results",
    "bundle": "bundle --for mysql",
    "analyze": "analyze /var/log/mysql/error.log",
    "watch": "watch 4711",
    "estimate": "estimate --socket /run/mysqld/mysqld.sock",
    "calibrate": "calibrate",
    "status": "status --watch",
    "docs": "docs shorten",
    "doctor": "doctor --tables 200k",
    "versions": "versions --json",
    "datadirs": "datadirs",
    "datadirs list": "datadirs list --json",
    "datadirs remove": "datadirs remove --all",
    "images": "images",
    "images list": "images list --json",
    "images build": "images build 8.0.31",
    "images remove": "images remove --all",
    "schema": "schema --tables 100 --rows 10 > create.sql",
    "completion": "completion bash >> ~/.bashrc",
}
"""An example of each command, for its help."""
SESSION_COMMANDS = ("resume", "repeat", "report", "compare", "bundle")
"""Commands with sessions as arguments."""
MEASURING_COMMANDS = (*EXPERIMENTS, "experiments")


def _measure(command: MeasuringCommand, given: dict[str, Any]) -> int:
    """Runs a measuring command. Its code is imported only now: to import it takes a second."""
    code: int = import_module("recovery.cli.repeat").measure_sessions(command, given)
    return code


class _SessionCompletion(click.Command):
    """Stands for a command whose arguments are sessions while a shell completes it: to import it takes a second."""

    def __init__(self, group: RecoveryGroup, name: str) -> None:
        sessions = click.Argument(["sessions"], nargs=-1, shell_complete=complete_session)
        super().__init__(name, params=[sessions, click_option(BY_NAME["results"])])
        self._group = group

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        command = self._group.get_command(ctx, str(self.name)) if incomplete.startswith("-") else None
        return super().shell_complete(ctx, incomplete) if command is None else command.shell_complete(ctx, incomplete)


def _takes_words(command: click.Command) -> bool:
    """Returns whether the command has arguments or subcommands, and not only options."""
    return isinstance(command, click.Group) or any(
        isinstance(parameter, click.Argument) for parameter in command.params
    )


def _with_example(command: click.Command, name: str) -> click.Command:
    """Returns the command, whose help, and that of its subcommands, ends with an example."""
    if name in EXAMPLES:
        command.epilog = f"\b\nExample:\n  recovery {EXAMPLES[name]}"
    if isinstance(command, click.Group):
        for below, subcommand in command.commands.items():
            _with_example(subcommand, f"{name} {below}")
    return command


class RecoveryGroup(click.Group):
    """Represents the `recovery` command, which finds its subcommands in EXPERIMENTS and COMMANDS."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        return [*EXPERIMENTS, *COMMANDS, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        if cmd_name not in self.commands and cmd_name in EXPERIMENTS:
            return _with_example(MeasuringCommand(cmd_name, measure=_measure), cmd_name)
        if cmd_name not in self.commands and cmd_name in COMMANDS:
            module, _, attribute = COMMANDS[cmd_name][1].partition(":")
            command: click.Command = getattr(import_module(f"recovery.cli.{module}"), attribute)
            return _with_example(command, cmd_name)
        return self.commands.get(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        options = [word for word in args[1:] if word.startswith("-")]
        if ctx.resilient_parsing and args[0] in SESSION_COMMANDS and not options:
            return args[0], _SessionCompletion(self, args[0]), args[1:]
        name, command, words = self._resolve(ctx, args)
        if command is not None and _takes_words(command):
            words = mark_json_without_file(words)
        return name, command, words

    def _resolve(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            names = self.list_commands(ctx)
            hint = did_you_mean(args[0], names, otherwise=f"there are: {', '.join(names)}")
            raise UsageError(f"there is no command {args[0]}", hint) from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completes names from the lists; importing each command for its help would take half a second."""
        texts = {name: entry.help for name, entry in EXPERIMENTS.items()}
        texts |= {name: row[2] for name, row in COMMANDS.items()}
        found = [CompletionItem(name, help=text) for name, text in texts.items() if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        for group in (MEASURE, INSPECT, MANAGE):
            rows = [(name, entry.help) for name, entry in EXPERIMENTS.items() if group == MEASURE]
            rows += [(name, text) for name, (of, _, text) in COMMANDS.items() if of == group]
            with formatter.section(group):
                formatter.write_dl(rows)

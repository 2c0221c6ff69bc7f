"""`recovery run --resume`: goes on with a session that ended early, with the runs that it lacks."""

from __future__ import annotations

from pathlib import Path

import click

from recovery.commands.again import request_again
from recovery.commands.grids import tell
from recovery.commands.measure import check_json, exit_code, run_and_show
from recovery.commands.options import FOLDER, PREFIX
from recovery.compare import not_measured
from recovery.errors import UsageError
from recovery.paths import DEFAULT_RESULTS, expanded
from recovery.report.write import write_reports
from recovery.unended import Left, find_left, refuse_running, tidy


@click.command("run", short_help="Go on with a session that ended early.")
@click.option("--resume", "resumed", is_flag=True, help="Which it does: without it nothing is begun.")
@click.argument("session", required=False)
@click.option(
    "--results", type=FOLDER, envvar=PREFIX + "RESULTS", default=DEFAULT_RESULTS, show_default=True,
    help="Where sessions are stored.",
)  # fmt: skip
@click.option("--quiet", is_flag=True, envvar=PREFIX + "QUIET", help="Nothing on standard error but errors.")
@click.option("--json", "json_to", metavar="FILE", help="Write report.json there as well; - is standard output.")
def run_command(*, resumed: bool, session: str | None, results: Path, quiet: bool, json_to: str | None) -> int:
    """Go on with a session whose tool was killed or interrupted, or that had to end: SESSION (a name in --results, or a
    folder), or the newest of them.

    It has the same settings and the same plan; runs that have ended stay as they are, and those that are missing are
    measured, with those that are void since the storage failed or something stood still. Where the servers, the
    settings or the host are not what they were, it is refused."""
    if not resumed:
        raise UsageError(
            "`recovery run` begins nothing",
            "`recovery run --resume` goes on with a session; `recovery cold-recovery` begins one",
        )
    check_json(json_to)
    results = expanded(results).absolute()
    tidy(results)
    left = find_left(results, session)
    refuse_running(left)
    if left.has_ended:
        return _over(left)
    request = request_again(left)
    return exit_code(request, run_and_show(request, quiet=quiet, json_to=json_to, goes_on=left))


def _over(left: Left) -> int:
    """Where the tool was killed while it wrote the reports, they are written now."""
    write_reports(left.folder)
    lacking = not_measured(left.session)
    told = f"all of its {left.session.planned_runs} runs were measured" if lacking is None else lacking
    tell(f"{left.folder.name} has come to its end: {told}; `recovery report` prints it", err=True)
    return 0 if lacking is None else 1

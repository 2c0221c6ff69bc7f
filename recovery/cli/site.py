"""Contains `recovery site`, which makes pages of all sessions in a results folder."""

from __future__ import annotations

from pathlib import Path

import click

from recovery.cli.options import table_option
from recovery.cli.output import print_line, write_json
from recovery.experiments import EXPERIMENTS, find_experiment
from recovery.report.site import write_site
from recovery.sharing.bundle import sharing_for_site


@click.command()
@click.argument("results", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default=Path("site"), help="The folder to write (site).")
@click.option("--public", is_flag=True, help="Let search engines list the pages.")
@table_option("json")
def site(results: Path, out: Path, *, public: bool, json_to: str | None) -> int:
    """Make pages of all sessions in the folder RESULTS: an index with a chart and a table to sort and filter, a page
    for each question and each session, and the published effects beside those measured. They open from a file, and
    have what a bundle has: no names, paths and notes of yours. All figures are in results.csv and results.json, too."""
    questions = {name: find_experiment(name).question for name in EXPERIMENTS}
    written = write_site(results, out, questions, sharing_for_site(), is_public=public)
    for line in written.left_out:
        print_line(f"warning: {line}", err=True)
    if not write_json(json_to, {"format": 1, "index": str(written.index), "left_out": list(written.left_out)}):
        print_line(str(written.index))
    return 0

"""What would be run? Plan, disk, inodes and time, with nothing downloaded, built or started."""

from __future__ import annotations

from rich.console import Console

from recovery.builds.listing import offers
from recovery.estimate import duration_text, seconds_for
from recovery.host.space import free, need_for
from recovery.load.schema import check_template
from recovery.plan import make_plan
from recovery.request import Request
from recovery.scenarios import find_scenario
from recovery.versions import parse_version


def tell_plan(request: Request, console: Console) -> None:
    check_template(request.schema)
    scenario = find_scenario(request.scenario)
    versions = [parse_version(text) for text in request.versions]
    total = request.schema.total_tables
    cached = {offer.version for offer in offers() if offer.cached}
    room = free(request.data)
    console.print(f"{scenario.question}", markup=False)
    for version in versions:
        need = need_for(version, total)
        server = "in the cache" if str(version) in cached else "to be fetched"
        time = duration_text(seconds_for(version, total, runs=request.runs, variants=len(scenario.caches)))
        console.print(
            f"  {version}: server {server}; {total:,} tables: {need.bytes / 1e9:.1f} GB, {need.inodes:,} inodes; "
            f"about {time} with the build",
            markup=False, soft_wrap=True,
        )  # fmt: skip
    console.print(
        f"  data in {request.data}: {room.bytes / 1e9:.1f} GB and {room.inodes:,} inodes free",
        markup=False,
        soft_wrap=True,
    )
    fits = sum(need_for(version, total).bytes for version in versions) <= room.bytes
    plan = make_plan(versions, scenario.variants(), repeats=request.runs, alternating=fits)
    console.print(f"  order: {plan.order}", markup=False)
    for trial in plan.trials:
        console.print(f"  {trial.number:3d}  {trial.version}  {trial.variant.name}  run {trial.repeat}", markup=False)
    console.print("Times are rough: rates seen on a 2-core machine, not measured here.", markup=False)

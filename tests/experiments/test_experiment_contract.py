"""What every experiment of the list has to fulfil, and what stored commands mean to this version."""

from __future__ import annotations

import json
import shlex
from dataclasses import fields
from pathlib import Path

import pytest
from sessions import KEPT_SESSIONS

from recovery.cli.measure import request_from_arguments
from recovery.cli.options import options_of
from recovery.experiments import EXPERIMENTS, find_experiment
from recovery.metrics import METRICS
from recovery.model import parse_version
from recovery.session.plan import is_supported_by
from recovery.session.prepare import plan_session
from recovery.session.request import Request
from recovery.storage.sessions import load_session

VERSION = parse_version("8.0.31")


def parsed(command: str) -> Request:
    """Returns the request of a stored command; its prefix is `recovery`."""
    _, name, *words = shlex.split(command)
    return request_from_arguments(name, words)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_has_a_question_and_a_metric_and_plans_different_variants(name: str) -> None:
    experiment = find_experiment(name)
    assert experiment.name == name
    assert experiment.question.endswith("?")
    request = parsed(f"recovery {name} --version {VERSION} --runs 2")
    variants = request.all_variants
    assert {experiment.metric, *(one.metric for one in variants if one.metric)} <= METRICS.keys()
    assert len({one.name for one in variants}) == len(variants) > 0
    plan = plan_session(request, (VERSION,))
    supported = {one.name for one in variants if is_supported_by(one, VERSION)}
    assert {trial.variant.name for trial in plan.trials} == supported
    assert [trial.number for trial in plan.trials] == list(range(1, len(plan.trials) + 1))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_has_the_options_of_its_class(name: str) -> None:
    options = find_experiment(name).options
    classes = {owner.__name__ for owner in options.__mro__} - {"object"}
    listed = {owner for owner in EXPERIMENTS[name].options if owner.endswith("Options")}
    assert listed == classes - {"ExperimentOptions"}
    rows = [row for row in options_of(EXPERIMENTS[name].options) if row.options_class is not None]
    assert {row.field_name for row in rows} <= {field.name for field in fields(options)}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_command_of_an_experiment_asks_for_the_same_session(name: str) -> None:
    request = parsed(f"recovery {name} --version {VERSION} --runs 4 --set innodb_io_capacity=400 --note 'a  b'")
    assert parsed(request.command) == request


OTHER_DEFAULTS = ("2026-11-22-interference",)
"""Sessions whose command names no sizes of the table cache, and is of a version with others."""


OF_OWN_DATA = ("2026-11-28-plain-8.0.31", "2026-11-28-plain-mariadb")
"""Sessions whose command names a data directory that is not here."""


@pytest.mark.parametrize("kept", [one for one in KEPT_SESSIONS if one not in OF_OWN_DATA])
def test_a_stored_command_asks_for_the_same_session(kept: str, kept_sessions: Path) -> None:
    stored = json.loads((kept_sessions / kept / "report.json").read_text())
    request = parsed(stored["command"])
    assert parsed(request.command) == request
    settings, schema = stored["settings"], request.sizes.schema
    assert (schema.tables, schema.databases, schema.rows) == tuple(
        settings[one] for one in ("tables", "schemas", "rows")
    )
    assert request.sizes.runs == settings["runs"]
    if kept in OTHER_DEFAULTS:
        return
    # What was planned as a warm start and proved to be none is named after what it was.
    assert {name.replace("second start", "warm") for name in load_session(kept_sessions / kept).variant_names} <= {
        one.name for one in request.all_variants
    }

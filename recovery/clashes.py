"""Does an option that the user sets clash with what an experiment varies, or needs as it is? Pure.

Cells are called by what they were asked to be. An option of the user's that replaces it, or is replaced by it, would
make two cells of one, or a cell of something else, and no figure would tell."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from recovery.errors import ClashError, UsageError
from recovery.model import Named, Version, Work
from recovery.request import Request
from recovery.scenarios.pools import POOL_OPTIONS
from recovery.server.options import REDO, REDO_FILES, as_known, bare, hint_if_unknown
from recovery.versions import can
from recovery.work import QUESTION, Load


@dataclass(frozen=True)
class _Given:
    """An option as the user gave it."""

    name: str
    value: str
    by: str
    """`--set `, or whatever stands before its name."""

    @property
    def told(self) -> str:
        return f"{self.by}{self.name}={self.value}" if self.value else f"{self.by}{self.name}"


def refuse_clashes(request: Request) -> None:
    """ClashError for the first one. What nothing varies, and nothing needs, is the user's: `--set` replaces what the
    experiment would set for all alike, `OPTION=` replaces an axis or is one more."""
    if request.work is None:
        return
    options = _of_options(request)
    _refuse_two_of_one(request, options)
    own = {bare(one.name): one.told for one in options}
    for one in (*_of_settings(request), *_of_variants(request.variants)):
        if bare(one.name) in own:
            raise ClashError(
                f"{one.told}: {own[bare(one.name)]} says at which values it is measured", "leave out one of the two"
            )
        _refuse_fixed(request, one, varied=True)
        _refuse_varied(request, one)
    for one in options:
        _refuse_fixed(request, one, varied=False)
    for variant in request.variants:
        _refuse_layout(request, variant)


def refuse_size_of_files(versions: Iterable[Version], request: Request) -> None:
    """ClashError where the redo log would be varied by the size of its files, and a server does not look at them: one
    that is told of a capacity, be it by the experiment."""
    given = [one for one in (*_of_options(request), *_of_variants(request.variants)) if bare(one.name) in REDO_FILES]
    for version in versions if given else ():
        usual = as_known(version, request.lasting_settings)
        if can(version, "redo_log_capacity") and REDO in map(bare, usual):
            raise ClashError(
                f"{given[0].told} makes no difference to {version}: its redo log is as large as {REDO} says",
                f"vary {REDO} instead, the size of the whole log: servers before 8.0.30 are told of it by their files'",
            )


def given_options(request: Request) -> tuple[_Given, ...]:
    """All options of the server that the user gave."""
    return (*_of_settings(request), *_of_variants(request.variants), *_of_options(request))


def refuse_unknown(request: Request, listed: Mapping[Version, Collection[str]]) -> None:
    """UsageError for the first option that a server does not list; a server that lists none is not checked."""
    for one in given_options(request):
        hints = {version: _hint(one, version, names) for version, names in listed.items() if names}
        lacking = [version for version, hint in hints.items() if hint]
        if lacking:
            raise UsageError(f"{one.told}: no such option in {', '.join(map(str, lacking))}", hints[lacking[0]])


def _hint(given: _Given, version: Version, listed: Collection[str]) -> str:
    """What to write instead; empty if the server has the option, or what it gets in its place."""
    names = [name for value in given.value.split(",") for name in as_known(version, {given.name: value})]
    return next(filter(None, (hint_if_unknown(name, listed) for name in names)), "")


def _of_settings(request: Request) -> tuple[_Given, ...]:
    return tuple(_Given(name, value, "--set ") for name, value in request.settings)


def _of_options(request: Request) -> tuple[_Given, ...]:
    options = () if request.work is None else request.work.options
    return tuple(_Given(name, ",".join(values), "--option ") for name, values in options)


def _of_variants(variants: Iterable[Named]) -> Iterator[_Given]:
    for variant in variants:
        yield from (_Given(name, value, f"--variant {variant.label}:") for name, value in variant.settings)


def _refuse_two_of_one(request: Request, options: Sequence[_Given]) -> None:
    """Two spellings of an axis: `loose_table_open_cache` beside `table_open_cache`."""
    for one in options:
        name = bare(one.name)
        if [bare(other.name) for other in options].count(name) > 1:
            raise ClashError(f"{one.told}: {name} is named twice", f"give all its values at once: --option {name}=A,B")
        axes = {axis for work in request.works for axis, _ in work.axes}
        if any(bare(axis) == name for axis in axes - {one.name}):
            raise ClashError(
                f"{one.told}: {request.scenario} varies {name} by itself",
                f"write it plainly, and it takes the place of these values: OPTION={name}=…",
            )


def _refuse_fixed(request: Request, given: _Given, *, varied: bool) -> None:
    """`varied`: the questions in which it is an axis are none to be asked with it, either."""
    name, work = bare(given.name), request.work
    if work is not None and work.memory_ratio is not None and name in POOL_OPTIONS:
        raise ClashError(
            f"{given.told}: MEMORY_RATIO={work.memory_ratio:g} says how large the buffer pool is",
            "leave out one of the two",
        )
    found = [one for one in request.works if name in one.fixed]
    if found:
        too = [one for one in request.works if varied and name in _axes(one)]
        told = f"{given.told}: {request.scenario} sets {name} itself{_in(found)}"
        raise ClashError(told, f"leave it out{_without(request, [*found, *too])}")


def _refuse_varied(request: Request, given: _Given) -> None:
    name = bare(given.name)
    found = [one for one in request.works if name in _axes(one)]
    if found:
        raise ClashError(
            f"{given.told}: {request.scenario} measures at several values of {name}{_in(found)}",
            f"say at which, like OPTION={name}={_value(given)}; or leave it out{_without(request, found)}",
        )


def _refuse_layout(request: Request, variant: Named) -> None:
    """What a task names is the schema, and are the tables, that were asked for."""
    asked = request.schema
    spread = asked if variant.schemas is None else asked.spread_over(variant.schemas)
    otherwise = spread != asked or variant.layout not in (None, asked.layout)
    if otherwise and any(isinstance(work.task, Load) for work in request.works):
        raise ClashError(
            f"the variant '{variant.label}' lays tables out otherwise, and a load uses those of one schema, each in a "
            "file of its own",
            "leave layout= and schemas= out of it",
        )
    first = asked.database_names[0]
    if first not in spread.database_names:
        raise ClashError(
            f"the variant '{variant.label}' has no schema {first}, about which {request.scenario} asks",
            "with schemas=1 it is called otherwise: give more than one, or SCHEMAS=1 and none here",
        )


def _value(given: _Given) -> str:
    """Of what is switched by its name, `skip_` and the like, both."""
    switched = not given.value or given.name.startswith(("skip_", "loose_skip_", "disable_", "loose_disable_"))
    return "1,0" if switched else f"{given.value},…"


def _axes(work: Work) -> set[str]:
    return {bare(name) for name, _ in work.axes}


def _questions(works: Iterable[Work]) -> list[str]:
    return list(dict.fromkeys(dict(work.axes)[QUESTION] for work in works if QUESTION in dict(work.axes)))


def _in(works: Iterable[Work]) -> str:
    names = _questions(works)
    return f" in {_listed(names)}" if names else ""


def _without(request: Request, works: Iterable[Work]) -> str:
    """The questions that have nothing against it."""
    names = _questions(works)
    rest = [name for name in _questions(request.works) if name not in names]
    if not names:
        return ""
    return f'; or ask QUESTION="{" ".join(rest)}" alone' if rest else "; or ask another QUESTION="


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last

"""Which servers cannot be asked some of what is asked? And is anything left, of all of it, and of the baseline?"""

from __future__ import annotations

from collections.abc import Sequence

from recovery.errors import UsageError
from recovery.model import Variant, Version
from recovery.plan import concerns, places_for
from recovery.versions import who_can
from recovery.work import QUESTION


def left_out(versions: Sequence[Version], variants: Sequence[Variant]) -> tuple[str, ...]:
    """In words, by question."""
    needs = _needs(variants)
    without = {name: [str(one) for one in versions if not concerns(variant, one)] for name, variant in needs.items()}
    return tuple(
        f"{name} is not asked of {' and '.join(found)}: it needs {who_can(str(needs[name].needs))}."
        for name, found in without.items()
        if found
    )


def refuse_nothing(versions: Sequence[Version], variants: Sequence[Variant], *, baseline: Version | None) -> None:
    """Before anything is fetched or built for it."""
    needs = _needs(variants)
    if not places_for(versions, variants):
        raise UsageError(
            f"{' and '.join(map(str, versions))} cannot be asked {' or '.join(needs)}, and nothing else was wanted",
            "; ".join(f"{name} needs {who_can(str(one.needs))}" for name, one in needs.items()),
        )
    if baseline is not None and not places_for([baseline], variants):
        raise UsageError(
            f"the baseline {baseline} is measured at nothing: it cannot be asked {' or '.join(needs)}",
            "name another BASELINE, or none",
        )


def _needs(variants: Sequence[Variant]) -> dict[str, Variant]:
    """One of each that not every server can be asked; its others need the same."""
    return {dict(one.axes).get(QUESTION, one.name): one for one in variants if one.needs is not None}

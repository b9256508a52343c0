"""What a dry run prints: the trainings of a command, and about how long they take."""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

import typer

from attnaudit.cli.show import print_rows, show_json, show_lines
from attnaudit.core.numbers import count
from attnaudit.runner.studies import duration

if TYPE_CHECKING:
    from attnaudit.runner.planning import Plan, Planned

ESTIMATE = (
    "The estimate is the time of finished trainings of the same kind (recorded), or counts a few seconds of training and of tracing "
    "(timed) for all epochs and texts; patience or a perfect dev score may end a training sooner. Audits, translations, analyses and "
    "pages come on top."
)
_SEED = re.compile(r"-s(\d+)$")  # ends the name of a training


def show_plan(plan: Plan, as_json: bool) -> None:
    """What there is to train: a line for each kind of training, over its seeds, and the time that is left."""
    if as_json:
        show_json(plan.to_json())
        return
    show_lines("note", plan.notes)
    groups: dict[tuple[str, ...], list[Planned]] = {}
    for one in plan.trainings:
        done = f", {one.done} done" if one.done else ""
        groups.setdefault((_kind_of(one), f"{one.length}{done}", one.state, one.source), []).append(
            one
        )
    rows = []
    for (name, long, state, source), group in groups.items():
        seconds = None if source == "unknown" else duration(fmean(one.seconds for one in group))
        rows.append((name, _seeds_of(group), long, state, seconds, source))
    print_rows(
        "",
        ("training", "seeds", "length", "state", "time of each", "source"),
        rows,
        whole=("training",),
    )
    show_lines(
        "cannot be estimated", dict.fromkeys(one.reason for one in plan.missing if one.reason)
    )
    unknown = sum(one.source == "unknown" for one in plan.missing)
    left = (
        [f"about {duration(plan.seconds)} on this machine"] if unknown < len(plan.missing) else []
    )
    left += [f"{unknown} of unknown time"] if unknown else []
    typer.echo(
        f"{len(plan.missing)} of {count(len(plan.trainings), 'training')} missing{': ' if left else ''}{', and '.join(left)}"
    )
    if plan.missing:
        typer.echo(ESTIMATE)


def _kind_of(one: Planned) -> str:
    """The name of a training without its seed, and where there are several folders of studies that of its own."""
    return "/".join(filter(None, (one.studies, _SEED.sub("", one.name))))


def _seeds_of(group: Sequence[Planned]) -> str:
    """``0, 1`` or ``0 to 19``; nothing for what has none."""
    seeds = [int(found[1]) for one in group if (found := _SEED.search(one.name))]
    run = len(seeds) > 3 and seeds == [*range(seeds[0], seeds[-1] + 1)]
    return f"{seeds[0]} to {seeds[-1]}" if run else ", ".join(map(str, seeds))

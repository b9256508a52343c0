"""A recipe: the spec of a kind of work and its list of steps, which are done or planned here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnaudit.steps.finished import check_place
from attnaudit.steps.folder import MANIFEST, Folder, Step, held


@dataclass(frozen=True)
class Recipe:
    """Steps that fill a folder.

    Attributes:
        spec: What ``spec.json`` says; None if a step writes it.
        steps: Steps, in their order.
        facts: Function of the folder that returns what else the manifest says.
        do: Advice to a user whose folder holds something else.
    """

    spec: Mapping[str, Any] | None
    steps: Sequence[Step]
    facts: Callable[[Folder], Mapping[str, Any]] = lambda folder: {}
    do: str = ""


def execute(recipe: Recipe, out: Path) -> Path:
    """Do the steps of a recipe that are not done, and close the folder.

    A killed recipe resumes after its last finished step, with the same results. A finished one is
    left as it is.

    Raises:
        InputError: If a step refuses its input.
        BusyError: If another process is at work in the folder.
        RunError: If the folder holds something else, or cannot be written.
    """
    if recipe.spec is not None:
        check_place(out, recipe.spec, recipe.do)
    if not (out / MANIFEST).exists():  # before the first step, which may take hours
        for step in recipe.steps:
            step.check_place(out)
    with held(out, recipe.spec) as folder:
        for step in recipe.steps:
            folder.do(step)
        folder.close(recipe.facts(folder))
    return out


@dataclass(frozen=True)
class Planned:
    """A step or a call of a plan.

    Attributes:
        name: Name of the step, or label of the call.
        folder: Where its outputs are.
        is_done: Whether they are there.
    """

    name: str
    folder: str
    is_done: bool


def plan(recipe: Recipe, out: Path) -> list[Planned]:
    """List the steps of a recipe, and say which are done; nothing is written.

    Raises:
        RunError: If the folder holds something else.
    """
    if recipe.spec is not None:
        check_place(out, recipe.spec, recipe.do)
    folder, planned, is_done = Folder(out), [], True
    for step in recipe.steps:
        is_done = is_done and folder.is_done(step)  # what follows from a missing step is missing
        planned.append(Planned(step.name, str(out), is_done))
    return planned

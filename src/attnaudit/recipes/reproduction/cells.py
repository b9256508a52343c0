"""The finished runs in the folder of a paper, and which of them belong together."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from attnaudit.core import InputError
from attnaudit.papers import Cell, Declaration
from attnaudit.plans.spec import RunSpec, differences
from attnaudit.steps import MANIFEST, read_spec, whole_manifest
from attnaudit.steps.finished import some_of

RUNS = "runs"


@dataclass(frozen=True)
class Finished:
    """A finished run of a cell: its folder, its settings and its outputs."""

    cell: Cell
    folder: Path
    spec: Mapping[str, Any]
    manifest: Mapping[str, Any]

    @property
    def corpus(self) -> Mapping[str, Any]:
        """The corpus that it read."""
        return self.manifest["corpus"]


def averaged_runs(out: Path, paper: Declaration) -> tuple[list[Finished], list[str]]:
    """Find the runs of a paper's folder that can be averaged, and say why others cannot.

    A run counts if it differs only in its seed from the run of its cell with the lowest seed.
    """
    runs, kept, notes = list[Finished](), list[Finished](), list[str]()
    for folder in sorted(path.parent for path in (out / RUNS).glob(f"*/{MANIFEST}")):
        cell, manifest = _cell(folder, paper), whole_manifest(folder)
        if cell is None:
            notes.append(f"{RUNS}/{folder.name} is no run of this sweep and is not counted")
        elif manifest is None:
            do = "the command that made it makes it again"
            notes.append(f"{RUNS}/{folder.name} is damaged and is not counted: {do}")
        else:
            runs.append(Finished(cell, folder, read_spec(folder), manifest))
    runs.sort(key=lambda run: (run.cell.key, run.cell.seed))
    for _, same in groupby(runs, key=lambda run: run.cell.key):
        first, *others = same
        kept.append(first)
        for run in others:
            if differing := differences(_but_for_seed(run), _but_for_seed(first)):
                apart = f"{run.cell.name} is kept apart from {first.cell.name}"
                notes.append(f"{apart} and not averaged with it: {some_of(differing)}")
            else:
                kept.append(run)
    return kept, notes


def _cell(folder: Path, paper: Declaration) -> Cell | None:
    """Return the cell whose run a folder holds; None if it is not one of the paper's."""
    try:
        spec = RunSpec.read(folder)
    except InputError:
        return None
    made = Path(spec.corpus.source).name, spec.model.encoder, spec.model.attention, spec.preset
    for cell in (replace(cell, seed=spec.seed) for cell in paper.every_cell if not cell.study):
        of_cell = cell.corpus, cell.encoder, cell.attention, cell.preset
        if made == of_cell and cell.name == folder.name:
            return cell
    return None


def _but_for_seed(run: Finished) -> dict[str, Any]:
    """Return what a run was given and read, as far as it should be alike for all seeds.

    If the split is drawn with the seed, as of a corpus without a dev file, the fingerprint differs
    with it; the number of rows does not.
    """
    data = {name: run.corpus[name] for name in ("rows", "class_names")}
    if not any(f"with seed {run.cell.seed}" in note for note in run.manifest["notes"]):
        data["fingerprint"] = run.corpus["fingerprint"][:12]
    spec = {key: value for key, value in run.spec.items() if key not in ("seed", "fingerprint")}
    return spec | {"data": data}

"""The finished runs in the folder of a paper, and which of them belong together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attnaudit.core.errors import RunError
from attnaudit.papers import Cell, Declaration
from attnaudit.plans.spec import RunSpec, differences
from attnaudit.steps.finished import read_spec, some_of, whole_manifest
from attnaudit.steps.folder import MANIFEST

RUNS = "runs"


@dataclass(frozen=True)
class Finished:
    """A finished run of a cell: its folder, its settings and its outputs."""

    cell: Cell
    folder: Path
    spec: Mapping[str, Any]
    manifest: Mapping[str, Any]


def found_in(out: Path, paper: Declaration) -> tuple[list[Finished], list[Finished], list[str]]:
    """All finished runs that a paper's folder holds, whichever call made them, those that are averaged, and notes on what is not."""
    runs, strangers = _finished(out, paper)
    kept, apart = _averaged(runs)
    return runs, kept, [*strangers, *apart, *_mixed_data(kept)]


def settings_notes(runs: Sequence[Finished], paper: Declaration) -> list[str]:
    """A line for each way in which the runs of one corpus have other settings than its defaults, with the models if not all."""
    models: dict[str, dict[str, None]] = {}
    for run in runs:
        models.setdefault(_unusual(run, paper), {})[_model(run)] = None
    which = {
        settings: f" ({', '.join(names)})" if len(models) > 1 else ""
        for settings, names in models.items()
        if settings
    }
    return [
        f"settings other than the usual{names}: {settings}" for settings, names in which.items()
    ]


def _finished(out: Path, paper: Declaration) -> tuple[list[Finished], list[str]]:
    """The finished runs of a sweep, and a line on each other run that lies among them."""
    found, notes = [], []
    for folder in sorted(path.parent for path in (out / RUNS).glob(f"*/{MANIFEST}")):
        cell, manifest = _cell(folder, paper), whole_manifest(folder)
        if cell is None:
            notes.append(f"{RUNS}/{folder.name} is no run of this sweep and is not counted")
        elif manifest is None:
            notes.append(
                f"{RUNS}/{folder.name} is damaged and is not counted: the command that made it makes it again"
            )
        else:
            found.append(Finished(cell, folder, read_spec(folder), manifest))
    return sorted(found, key=lambda run: run.cell), notes


def _averaged(runs: Iterable[Finished]) -> tuple[list[Finished], list[str]]:
    """Of each cell the runs that differ in their seed alone, as many as there are, and a line on each run that is kept apart."""
    cells: dict[str, list[list[Finished]]] = {}
    for run in runs:
        kinds = cells.setdefault(run.cell.key, [])
        alike = next((kind for kind in kinds if not _differing(run, kind[0])), None)
        if alike is None:
            kinds.append(alike := [])
        alike.append(run)
    kept, notes = [], []
    for kinds in cells.values():
        chosen = max(kinds, key=len)
        kept += chosen
        apart = sorted(
            (run for kind in kinds if kind is not chosen for run in kind), key=lambda run: run.cell
        )
        notes += [
            f"{run.cell.name} is kept apart from {chosen[0].cell.name} and not averaged with it: {some_of(_differing(run, chosen[0]))}"
            for run in apart
        ]
    return kept, notes


def _mixed_data(runs: Iterable[Finished]) -> list[str]:
    """A line for each corpus and seed of which the runs did not read the same data."""
    fingerprints: dict[tuple[str, int], dict[str, list[str]]] = {}
    for run in runs:
        same = fingerprints.setdefault((run.cell.corpus, run.cell.seed), {})
        same.setdefault(run.manifest["corpus"]["fingerprint"], []).append(_model(run))
    return [
        f"the models of {corpus}, seed {seed}, did not all read the same data: {' / '.join(', '.join(names) for names in same.values())}"
        for (corpus, seed), same in fingerprints.items()
        if len(same) > 1
    ]


def _model(run: Finished) -> str:
    return f"{run.cell.encoder} + {run.cell.attention}"


def _cell(folder: Path, paper: Declaration) -> Cell | None:
    """The cell whose run a folder holds, or None where it is not one of the paper's."""
    try:
        spec = read_spec(folder)
        made = (
            Path(spec["corpus"]["source"]).name,
            spec["model"]["encoder"],
            spec["model"]["attention"],
            spec["preset"],
        )
    except (RunError, KeyError, TypeError):
        return None
    runs = (cell for cell in paper.every_cell if not cell.study)
    known = next(
        (cell for cell in runs if made == (cell.corpus, cell.encoder, cell.attention, cell.preset)),
        None,
    )
    cell = None if known is None else replace(known, seed=spec["seed"])
    return cell if cell is not None and cell.name == folder.name else None


def _differing(run: Finished, other: Finished) -> list[str]:
    return differences(_but_for_seed(run), _but_for_seed(other))


def _but_for_seed(run: Finished) -> dict[str, Any]:
    """What a run was given and read, as far as it should be alike for all seeds.

    Where the split is drawn with the seed, as of a corpus without a dev file, the fingerprint differs with it; the number of rows does not.
    """
    corpus = run.manifest["corpus"]
    data = {"rows": corpus["rows"], "class_names": corpus["class_names"]}
    if not any(f"with seed {run.cell.seed}" in note for note in run.manifest["notes"]):
        data["fingerprint"] = corpus["fingerprint"][:12]
    return {key: value for key, value in run.spec.items() if key not in ("seed", "fingerprint")} | {
        "data": data
    }


def _unusual(run: Finished, paper: Declaration) -> str:
    """``training.epochs = 1, vectors = "glove.txt"``: what differs from the paper's settings, and the corpus's and the model's own.

    Settings that a run lacks are those of experiments that came later.
    """
    cell = run.cell
    usual = RunSpec.of(
        run.spec["corpus"]["source"], encoder=cell.encoder, attention=cell.attention, preset=cell.preset, seed=cell.seed,
        settings={**paper.settings, **cell.settings},
    ).to_json()  # fmt: skip
    given = {key: value for key, value in run.spec.items() if key != "fingerprint"} | {
        "vectors": Path(run.spec["vectors"]).name
    }
    return ", ".join(
        line.partition(", there ")[0]
        for line in differences(given, usual)
        if " = absent" not in line
    )

"""The cells of a sweep, corpora × encoders × attentions × seeds of a paper's tables, and the finished runs of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnaudit.core.errors import InputError, RunError, did_you_mean
from attnaudit.core.files import read_json
from attnaudit.plans.spec import RunSpec, differences
from attnaudit.runner.store import MANIFEST, digests, read_spec, some_of

RUNS = "runs"
SOURCES = ("jain2019",)
CORPORA = ("sst", "imdb", "adr", "20news_sports", "ag_news", "diabetes", "anemia", "cnn", "babi1", "babi2", "babi3", "snli")
ENCODERS, ATTENTIONS = ("bilstm", "cnn", "average"), ("additive", "dot")
SEEDS = 3
ONE_SEED = {"imdb", "cnn", "diabetes"}  # corpora so large that one training takes as long as all of a small one's


@dataclass(frozen=True, order=True)
class Cell:
    """One run of the sweep."""

    corpus: str
    seed: int
    encoder: str
    attention: str

    @property
    def parts(self) -> tuple[str, str, str]:
        return self.corpus, self.encoder, self.attention

    @property
    def name(self) -> str:
        return f"{self.corpus}-{self.encoder}-{self.attention}-s{self.seed}"


# A class of each task, every encoder and both kinds of attention, on the corpora that train fast.
QUICK = (
    *(Cell("sst", 0, encoder, "additive") for encoder in ENCODERS),
    Cell("sst", 0, "bilstm", "dot"),
    *(Cell("20news_sports", 0, encoder, "additive") for encoder in ("bilstm", "average")),
    *(Cell("babi1", 0, encoder, "additive") for encoder in ("bilstm", "average")),
    Cell("snli", 0, "average", "additive"),
)


def plan(
    source: str = "jain2019", *, quick: bool = False, corpora: Sequence[str] = (), encoders: Sequence[str] = (),
    attentions: Sequence[str] = (), seeds: int | None = None,
) -> list[Cell]:  # fmt: skip
    """The cells of a sweep, those of one corpus and seed together; what is not named is all there is.

    Raises InputError for an unknown name, for names that choose no cell, and for ``quick`` with ``seeds``.
    """
    options = {
        "source": ([source], SOURCES), "--corpus": (corpora, CORPORA),
        "--encoder": (encoders, ENCODERS), "--attention": (attentions, ATTENTIONS),
    }  # fmt: skip
    for option, (given, known) in options.items():
        for name in given:
            if name not in known:
                raise InputError("reproduce", option, repr(name), f"one of {', '.join(known)}", did_you_mean(name, known))
    if quick and seeds is not None:
        raise InputError("reproduce", "--seeds", f"{seeds} together with --quick", "one of the two", "--quick has seed 0 alone")
    expected = (corpora or CORPORA, encoders or ENCODERS, attentions or ATTENTIONS)
    everything = QUICK if quick else _whole(corpora or CORPORA, seeds)
    chosen = [cell for cell in everything if all(part in names for part, names in zip(cell.parts, expected, strict=True))]
    if not chosen:
        known = ", ".join(" ".join(cell.parts) for cell in QUICK)
        raise InputError("reproduce", "--quick", "no cell of what is named", f"some of {known}", "name others or leave --quick out")
    return chosen


def _whole(corpora: Sequence[str], seeds: int | None) -> Iterable[Cell]:
    return (
        Cell(corpus, seed, encoder, attention)
        for corpus in dict.fromkeys(corpora)
        for seed in range(seeds or (1 if corpus in ONE_SEED else SEEDS))
        for encoder in ENCODERS
        for attention in ATTENTIONS
    )


@dataclass(frozen=True)
class Finished:
    """A finished run of a cell: its folder, its settings and its outputs."""

    cell: Cell
    folder: Path
    spec: Mapping[str, Any]
    manifest: Mapping[str, Any]


def manifest_of(folder: Path) -> Mapping[str, Any] | None:
    """The manifest of a finished run of which all that a page shows is there as it was written; None where it is not."""
    try:
        manifest = read_json(folder / MANIFEST)
        shown = {
            name: known for name, known in manifest["files"].items() if name.startswith("results/") or name in ("summary.json", "spec.json")
        }
        others = [name for name in manifest["files"] if name.startswith("trace/")]
        whole = manifest["steps"] and digests(folder, list(shown)) == shown and all((folder / name).is_file() for name in others)
    except (RunError, OSError, KeyError, TypeError, AttributeError):
        return None
    return manifest if whole else None


def found_in(out: Path) -> tuple[list[Finished], list[Finished], list[str]]:
    """All finished runs that a sweep's folder holds, whichever call made them, those that are averaged, and notes on what is not."""
    runs, strangers = _finished(out)
    kept, apart = _averaged(runs)
    return runs, kept, [*strangers, *apart, *_mixed_data(kept)]


def settings_notes(runs: Sequence[Finished]) -> list[str]:
    """A line for each way in which the runs of one corpus have other settings than its defaults, with the models if not all."""
    models: dict[str, dict[str, None]] = {}
    for run in runs:
        models.setdefault(_unusual(run), {})[_model(run)] = None
    which = {settings: f" ({', '.join(names)})" if len(models) > 1 else "" for settings, names in models.items() if settings}
    return [f"settings other than the usual{names}: {settings}" for settings, names in which.items()]


def _finished(out: Path) -> tuple[list[Finished], list[str]]:
    """The finished runs of a sweep, and a line on each other run that lies among them."""
    found, notes = [], []
    for folder in sorted(path.parent for path in (out / RUNS).glob(f"*/{MANIFEST}")):
        cell, manifest = _cell(folder), manifest_of(folder)
        if cell is None:
            notes.append(f"{RUNS}/{folder.name} is no run of this sweep and is not counted")
        elif manifest is None:
            notes.append(f"{RUNS}/{folder.name} is damaged and is not counted: the command that made it makes it again")
        else:
            found.append(Finished(cell, folder, read_spec(folder), manifest))
    return sorted(found, key=lambda run: run.cell), notes


def _averaged(runs: Iterable[Finished]) -> tuple[list[Finished], list[str]]:
    """Of each cell the runs that differ in their seed alone, as many as there are, and a line on each run that is kept apart."""
    cells: dict[tuple[str, str, str], list[list[Finished]]] = {}
    for run in runs:
        kinds = cells.setdefault(run.cell.parts, [])
        alike = next((kind for kind in kinds if not _differing(run, kind[0])), None)
        if alike is None:
            kinds.append(alike := [])
        alike.append(run)
    kept, notes = [], []
    for kinds in cells.values():
        chosen = max(kinds, key=len)
        kept += chosen
        apart = sorted((run for kind in kinds if kind is not chosen for run in kind), key=lambda run: run.cell)
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


def _cell(folder: Path) -> Cell | None:
    """The cell whose run a folder holds, or None where it is not one of the sweep's."""
    try:
        spec = read_spec(folder)
        cell = Cell(spec["corpus"]["source"], spec["seed"], spec["model"]["encoder"], spec["model"]["attention"])
    except (RunError, KeyError, TypeError):
        return None
    return cell if cell.name == folder.name and cell.parts in {known.parts for known in plan()} else None


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
    return {key: value for key, value in run.spec.items() if key not in ("seed", "fingerprint")} | {"data": data}


def _unusual(run: Finished) -> str:
    """``training.epochs = 1, vectors = "glove.txt"``: what differs from the corpus's and the model's own settings."""
    cell = run.cell
    usual = RunSpec.of(cell.corpus, encoder=cell.encoder, attention=cell.attention, seed=cell.seed).to_json()
    given = {key: value for key, value in run.spec.items() if key != "fingerprint"} | {"vectors": Path(run.spec["vectors"]).name}
    return ", ".join(line.partition(", there ")[0] for line in differences(given, usual))

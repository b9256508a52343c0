"""Run the studies of docs/studies.md that are missing and write the page's tables.

    python docs/studies_tables.py --data-dir DIR --vectors FILE [--out runs/studies] [--only CORPUS...] [--done]

Each is an ordinary ``attnaudit study --full`` in the folder ``OUT/<corpus>``; finished studies are not rerun, and each leaves a record
(`records`). The tables have all records, whatever was run now; they are written between two markers of the page.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from records import PLACE, load, save, with_former

from attnaudit.core.files import read_json, write_text
from attnaudit.corpora import read_corpus
from attnaudit.experiments.adversary.experiment import divergence
from attnaudit.models.classifier import load_model
from attnaudit.runner.studies import StudySpec, run_study
from attnaudit.stats.measures import tvd
from attnaudit.studies import EVERY_STUDY
from attnaudit.studies.over_seeds import figure_and_model, model_label
from attnaudit.tracing.texts import collect

PAGE = Path(__file__).parent / "studies.md"
RECORDS = PLACE / "studies"
TRAINED = ("uniform", "seeds", "guide", "adversary")
# A tenth of train where all of it takes hours; of test, as much as leave-one-out of every seed allows.
CORPORA: dict[str, dict[str, Any]] = {
    "sst": {},
    "20news_sports": {},
    "ag_news": {"corpus.train_kept": 0.1, "corpus.test_kept": 0.5, "seeds.seeds": 5},
    "imdb": {
        "corpus.train_kept": 0.1,
        "corpus.test_kept": 0.05,
        "uniform.seeds": 3,
        "seeds.seeds": 3,
        "guide.seeds": 2,
        "adversary.strengths": (3e-4, 1e-3, 3e-3),
    },
    "deceptive_pronoun": {"deceive.models": ("embedding", "bilstm", "transformer")},
    "deceptive_sst_wiki": {"deceive.models": ("embedding", "bilstm"), "deceive.seeds": 1},
}
DECEIVED = ("deceptive_pronoun", "deceptive_sst_wiki")
_PLANTED = {"corpus.size": 5000, "corpus.symbols": 50, "training.epochs": 10, "deceive.seeds": 1}
PAIRS: dict[str, dict[str, Any]] = {
    **{f"planted-{kind}": _PLANTED for kind in ("copy", "reverse", "bigram_flip")},
    "deceptive_en_de": {"corpus.train_kept": 0.3, "training.epochs": 10, "deceive.seeds": 1},
}
Found = Mapping[str, dict[str, Any]]


def spec_of(name: str, corpus: str, options: argparse.Namespace) -> StudySpec:
    if corpus in PAIRS:
        return StudySpec.of(name, corpus, full=True, data_dir=str(options.data_dir), settings=PAIRS[corpus])
    vectors = None if corpus in DECEIVED else str(options.vectors)
    settings = {key: value for key, value in CORPORA[corpus].items() if key.partition(".")[0] in ("corpus", "training", name)}
    return StudySpec.of(name, corpus, full=True, data_dir=str(options.data_dir), vectors=vectors, settings=settings)


def studies_of(corpus: str) -> tuple[str, ...]:
    """The studies of a corpus."""
    return ("deceive",) if corpus in DECEIVED or corpus in PAIRS else TRAINED


def command_of(name: str, corpus: str) -> str:
    """The command that runs a study, wherever data and folder are."""
    own = PAIRS.get(corpus) or CORPORA[corpus]
    kept = {key: value for key, value in own.items() if key.partition(".")[0] in ("corpus", "training", name)}
    shown = {key: ",".join(map(str, value)) if isinstance(value, tuple) else value for key, value in kept.items()}
    vectors = [] if corpus in DECEIVED or corpus in PAIRS else ["--vectors VECTORS"]
    settings = [f"--set {key}={value}" for key, value in shown.items()]
    return " ".join(["attnaudit study", name, corpus, "--full --data-dir DATA", *vectors, *settings])


def run_missing(options: argparse.Namespace) -> None:
    """Run the selected studies that are not finished, and record all that are."""
    for corpus in options.only:
        for name in studies_of(corpus):
            if not options.done:
                run_study(spec_of(name, corpus, options), options.out / corpus, say=print)
            place = options.out / corpus / name
            if (place / "manifest.json").exists():
                more = {"on_train": list(on_train(corpus, options))} if name == "adversary" else {}
                summary = [row for row in read_json(place / "summary.json") if row["group"] == "all"]
                save(RECORDS / corpus / f"{name}.json", command_of(name, corpus), summary, **more)


def recorded(name: str, corpora: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The records of a study, by corpus."""
    places = {corpus: RECORDS / corpus / f"{name}.json" for corpus in corpora}
    return {corpus: load(place) for corpus, place in places.items() if place.exists()}


def cell(row: dict[str, Any] | None, digits: int = 3) -> str:
    """Value, interval, and the paper's value (°)."""
    if row is None or row["value"] is None:
        return "–"
    shown = f"{row['value']:.{digits}f}"
    shown += f" [{row['low']:.{digits}f}, {row['high']:.{digits}f}]" if row["low"] is not None else ""
    return shown + (f" ({row['reference']:g}°)" if row["reference"] is not None else "")


def table(columns: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (columns, ["---"] * len(columns), *rows))


def of_corpora(study: str, corpora: Iterable[str], columns: Mapping[str, str], models: bool = False) -> str:
    """One row per corpus, with ``models`` one per corpus and model, one column per measure; the last is the commit."""
    rows = {}
    for corpus, record in recorded(study, corpora).items():
        measures = {row["measure"]: row for row in record["summary"]}
        made = _of_models(study, corpus, measures, columns) if models else [[corpus, *(cell(measures.get(name)) for name in columns)]]
        rows[corpus] = [[*row, record["commit"]] for row in made]
    head = ["corpus", *(["model"] if models else []), *columns.values(), "commit"]
    return table(head, with_former(PAGE, head, rows, corpora))


def _of_models(study: str, corpus: str, measures: Found, columns: Mapping[str, str]) -> list[list[str]]:
    cells = {figure_and_model(name, EVERY_STUDY[study].measures): cell(row) for name, row in measures.items()}
    models = dict.fromkeys(model for _, model in cells if model)
    return [[corpus, model_label(model), *(cells.get((figure, model), "–") for figure in columns)] for model in models]


def write_tables(page: Path, parts: Iterable[tuple[str, str]], block: str = "tables") -> None:
    """Write texts and tables between the markers of a block of a page, separated by blank lines."""
    made = "\n\n".join(part for pair in parts for part in pair if part)
    begin, end = f"<!-- {block} -->", f"<!-- end of {block} -->"
    before, rest = page.read_text(encoding="utf-8").split(begin)
    write_text(page, f"{before}{begin}\n\n{made}\n\n{end}{rest.split(end)[1]}")


def on_train(corpus: str, options: argparse.Namespace) -> Iterator[list[str]]:
    """The models of the study `adversary`, on the texts that they are trained on."""
    place = options.out / corpus
    folders = {name: place / "trainings" / folder for name, folder in read_json(place / "adversary" / "manifest.json")["trainings"].items()}
    spec = spec_of("adversary", corpus, options).base
    base = f"base-s{spec.seed}"
    texts = read_corpus(spec.corpus, seed=spec.seed, preset=spec.preset)
    traces = {name: collect(load_model(folder / "model"), texts, split="train", scores=()) for name, folder in folders.items()}
    for name in folders:
        if name == base:
            continue
        distance = divergence(traces[base].alpha, traces[name].alpha).mean()
        yield [corpus, name, f"{tvd(traces[base].prediction, traces[name].prediction).mean():.3f}", f"{distance:.3f}"]


def tables() -> Iterator[tuple[str, str]]:
    """The tables of all studies that have a record, or that the page has already."""
    trained, deceived = [corpus for corpus in CORPORA if corpus not in DECEIVED], list(DECEIVED)
    differences = {
        f"difference_{figure}_uniform": f"{name}, uniform minus learned"
        for figure, name in (("f1", "F1"), ("accuracy", "accuracy"), ("roc_auc", "ROC-AUC"))
    }
    uniform = {"f1_base": "F1, learned attention", "f1_uniform": "F1, uniform attention", **differences}
    yield "### uniform", of_corpora("uniform", trained, uniform)
    across_seeds = {
        "jsd": "JSD of attention",
        "tvd": "TVD of output",
        "tau_alpha": "τ, attention with itself",
        "tau_gradient": "τ, gradient with itself",
        "tau_loo": "τ, leave-one-out with itself",
        "tau_alpha_gradient": "τ, attention – gradient",
        "tau_alpha_loo": "τ, attention – leave-one-out",
    }
    yield "### seeds", of_corpora("seeds", trained, across_seeds)
    guides = {f"f1_{name}": f"F1, {name}" for name in ("uniform", "learned", "base", "gradient", "adversary")}
    yield "### guide", of_corpora("guide", trained, guides)
    attacked = {"tvd": "mean TVD", "jsd": "mean JSD", "flipped": "flipped decisions"}
    yield "### adversary", of_corpora("adversary", trained, attacked, models=True)
    yield "", of_corpora("adversary", trained, {"area": "area under the curve, share of the maximum"})
    columns = ["corpus", "model", "mean TVD", "mean JSD", "commit"]
    records = recorded("adversary", trained).items()
    rows = {corpus: [[*row, record["commit"]] for row in record["on_train"]] for corpus, record in records}
    yield "The same models on their training texts:", table(columns, with_former(PAGE, columns, rows, trained))
    figures = {
        "accuracy": "accuracy",
        "mass": "attention on impermissible tokens",
        "tau_loo": "τ, leave-one-out",
        "tau_gradient": "τ, gradient",
    }
    yield "### deceive", of_corpora("deceive", deceived, figures, models=True)
    yield "Translators; accuracy is of gold tokens:", of_corpora("deceive", list(PAIRS), {"bleu": "BLEU", **figures}, models=True)


def main() -> None:
    names = [*CORPORA, *PAIRS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/studies"))
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="CORPUS")
    parser.add_argument("--done", action="store_true", help="tables of the studies that are finished; train nothing")
    options = parser.parse_args()
    run_missing(options)
    write_tables(PAGE, tables())


if __name__ == "__main__":
    main()

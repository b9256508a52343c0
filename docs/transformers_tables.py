"""Run the audits of docs/research/transformers.md that are missing, and write its tables.

    python docs/transformers_tables.py --data-dir DIR [--out runs/transformers] [--only NAME...] [--done]

Three small transformers are trained on SST and three on generated texts whose deciding words are known; each is
audited. Every record in docs/research/records/transformers holds its commands, commit and summary. Finished runs are not
repeated; ``--only`` and ``--done`` select what to run. The tables always show all records. Two of them show records
of the studies `uniform` and `deceive`, which `attnaudit reproduce wiegreffe2019` and `pruthi2020` make.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from attnaudit.core.files import read_json, write_text
from attnaudit.experiments import measure_label
from attnaudit.experiments.agreement import AND
from attnaudit.experiments.rows import importance_scores, over_words
from attnaudit.hf.importance import MEASURES as SCORES
from attnaudit.plans.audit import TransformerSpec
from attnaudit.plans.transformer import TransformerTraining
from attnaudit.recipes.reproduction.records import save
from attnaudit.recipes.trained import train_into
from attnaudit.recipes.transformer import audit_transformer
from attnaudit.report.models import figure_and_model, model_label
from attnaudit.results.measures import SCORES as TITLES
from attnaudit.results.record import read_summary
from attnaudit.stats.bootstrap import means_over_seeds, percentile_interval
from attnaudit.stats.kendall import kendall_tau
from attnaudit.studies import EVERY_STUDY
from attnaudit.trace import Trace

PAGE = Path(__file__).parent / "research" / "transformers.md"
RECORDS = Path(__file__).parent / "research" / "records" / "transformers"
CONFIG, SEEDS = "small-bert", (0, 1, 2)
LONGEST = 64  # tokens that the records keep of a text
PLANTED = "planted-decisive"  # generated texts
KNOWN = ("precision_", "rationale_tau_")  # the page shows the first; the records hold both
MEASURES = (
    ("prediction", "accuracy"), ("correlation", "tau_gradient"), ("correlation", "tau_loo"), ("correlation", "tau_gradient_loo"),
    ("permutation", "median_delta_y"), ("permutation", "median_delta_y_words"),
    ("maximal_change", "max_delta_y"), ("maximal_change", "flips"), ("joint", "joint_uniform"),
    ("joint", "joint_max_delta_y"), ("joint", "joint_flips"), ("adversary", "emax_jsd"), ("adversary", "emax_jsd_upper"),
    ("erasure", "never_attention"), ("erasure", "never_minimum"), ("comprehensiveness", "comprehensiveness_attention"),
    ("comprehensiveness", "sufficiency_attention"), ("identifiability", "identifiable"), ("identifiability", "max_tvd_alpha"),
    ("identifiability", "max_tvd_alpha_upper"),
)  # fmt: skip
OF_HEADS = {
    "permutation.median_delta_y": "Δŷ, weights shuffled", "maximal_change.max_delta_y": "largest Δŷ found",
    "maximal_change.flips": "flipped",
    "adversary.emax_jsd": "ε-max JSD", "erasure.never_minimum": "never flips", "correlation.tau_gradient": "τ to gradient",
    "correlation.tau_loo": "τ to leave-one-out",
}  # fmt: skip
STUDIES = {  # the study, and the record of the paper that it belongs to
    "uniform": ("uniform", "wiegreffe2019/sst-uniform-small-bert"),
    "pronoun": ("deceive", "pruthi2020/deceptive_pronoun-deceive-small-bert"),
}
UNIFORM = {
    "accuracy": "accuracy", "f1": "F1", "roc_auc": "ROC-AUC", "difference_accuracy": "accuracy, minus learned attention",
    "difference_f1": "F1, minus learned attention",
}  # fmt: skip
PRONOUN = {
    "accuracy": "accuracy", "mass": "attention on the pronoun", "found_attention": "named by attention", "found_gradient": "by gradient",
    "found_loo": "by leave-one-out", "found_change": "by maximal change", "found_random": "at random",
    "max_delta_y": "largest Δŷ found", "found_erasure": "in the smallest set",
    "flips": "flipped by a head", "flips_all": "by all heads",
}  # fmt: skip
FIGURES = ("value", "low", "high", "n")
NAMES = [*(f"sst-s{seed}" for seed in SEEDS), "scores", *(f"planted-s{seed}" for seed in SEEDS)]


def run_missing(options: argparse.Namespace) -> None:
    """Run the selected parts that are not finished, and record all that are."""
    for seed in SEEDS:
        name = f"sst-s{seed}"
        if name in options.only:
            _audit(name, seed, options)
    runs = [options.out / f"sst-s{seed}" for seed in SEEDS]
    if "scores" in options.only and all((run / "manifest.json").exists() for run in runs):
        save(
            RECORDS / "scores.json",
            "python docs/transformers_tables.py --only scores",
            agreement([taus_of(run) for run in runs]),
        )
    for seed in SEEDS:
        if f"planted-s{seed}" in options.only:
            _planted(f"planted-s{seed}", seed, options)


def _made(
    source: str, name: str, seed: int, options: argparse.Namespace, audit: Mapping[str, Any]
) -> Path:
    """Return the audit of a model trained on a corpus; make it first unless ``--done``."""
    data, run = str(options.data_dir), options.out / name
    settings = {key: value for key, value in audit["settings"].items() if key == "corpus.seed"}
    if not options.done:
        spec = TransformerTraining.of(
            source, config=CONFIG, seed=seed, settings=settings, data_dir=data
        )
        model = train_into(spec, options.out / "models" / name, further=()) / "model"
        audit_transformer(TransformerSpec.of(model, source, data_dir=data, **audit), run)
    return run


def _audit(name: str, seed: int, options: argparse.Namespace) -> None:
    settings = {"collect.scores": ("all",), "collect.max_tokens": LONGEST}
    run = _made("sst", name, seed, options, {"settings": settings})
    if (run / "manifest.json").exists():
        known = {*MEASURES, *(tuple(measure.split(".")) for measure in OF_HEADS)}
        summary = read_summary(run / "summary.json").to_dicts()
        trained = f"attnaudit run sst --model {CONFIG} --data-dir DATA --seed {seed} --out RUN"
        audited = "attnaudit audit RUN/model sst --data-dir DATA --set collect.scores=all"
        command = f"{trained}; {audited} --set collect.max_tokens={LONGEST}"
        save(RECORDS / f"{name}.json", command, [row for row in summary if _is_shown(row, known)])


def _planted(name: str, seed: int, options: argparse.Namespace) -> None:
    settings = {"corpus.seed": seed, "collect.scores": ("all",)}
    audit = {"settings": settings, "experiments": ["prediction", "plausibility"], "seed": seed}
    run = _made(PLANTED, name, seed, options, audit)
    if (run / "manifest.json").exists():
        found = (f"{known}{score}" for known in KNOWN for score in ("attention", *SCORES, "chance"))
        kept = [("prediction", "accuracy"), *(("plausibility", measure) for measure in found)]
        summary = read_summary(run / "summary.json").filter(group="all").to_dicts()
        rows = [row for row in summary if (row["experiment"], row["measure"]) in kept]
        drawn = f"--seed {seed} --set corpus.seed={seed}"
        audited = f"attnaudit audit RUN/model {PLANTED} {drawn} --set collect.scores=all"
        trained = f"attnaudit run {PLANTED} --model {CONFIG} {drawn} --out RUN"
        save(RECORDS / f"{name}.json", f"{trained}; {audited} --experiment plausibility", rows)


def _is_shown(row: Mapping[str, Any], known: Collection[tuple[str, ...]]) -> bool:
    """Say whether a row is recorded: ``known`` measures, and the agreement of scores over all rows."""
    if row["group"] != "all" and not row["group"].startswith("head:"):
        return False
    return (row["experiment"], row["measure"]) in known or (
        row["experiment"] == "agreement" and row["group"] == "all"
    )


def taus_of(run: Path) -> dict[str, np.ndarray]:
    """Return τ of each score with leave-one-out, by text; for attention the mean over its heads."""
    columns = ("instance", "tokens", "alpha", "special", "layer", "head", *_columns())
    found: list[pl.DataFrame] = []
    for part in Trace.columns(run / "trace", columns):
        scores = over_words(part, {"attention": part.ragged("alpha"), **importance_scores(part)})
        loo = scores.pop("loo")
        taus = {name: kendall_tau(score, loo)[0] for name, score in scores.items()}
        found.append(pl.DataFrame({"instance": part.instance, **taus}))
    texts = pl.concat(found).fill_nan(None).group_by("instance").mean().sort("instance")
    return {
        name: texts[name].fill_null(np.nan).to_numpy()
        for name in texts.columns
        if name != "instance"
    }


def _columns() -> list[str]:
    return [name if name in ("gradient", "loo") else f"importance_{name}" for name in SCORES]


def agreement(taus: Sequence[Mapping[str, np.ndarray]]) -> list[dict[str, Any]]:
    """Return the mean τ of each score and its difference from the best, which comes first.

    Intervals resample seeds and texts.
    """
    names = list(taus[0])
    values = np.array([[of_seed[name] for of_seed in taus] for name in names])
    known = ~np.isnan(values).any(axis=(0, 1))  # the same texts for all
    values = values[:, :, known]
    means, resampled = values.mean(axis=2), means_over_seeds(values, 0)
    order = np.argsort(-means.mean(axis=1), kind="stable")
    rows = []
    for k in order.tolist():
        (low,), (high,) = percentile_interval(resampled[:, [k]])
        (less_low,), (less_high,) = percentile_interval(resampled[:, [k]] - resampled[:, order[:1]])
        rows.append({
            "score": names[k], "seeds": means[k].tolist(), "value": float(means[k].mean()), "low": float(low), "high": float(high),
            "difference": float(means[k].mean() - means[order[0]].mean()), "difference_low": float(less_low),
            "difference_high": float(less_high), "n": int(known.sum()),
        })  # fmt: skip
    return rows


def of_seeds(records: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table with a row for each measure and a column for each training."""
    rows = [
        [
            measure_label(measure, experiment),
            *(cell(_row(record, experiment, measure)) for record in records.values()),
        ]
        for experiment, measure in MEASURES
    ]
    return table(["measure", *(name.replace("sst-s", "seed ") for name in records)], rows)


def of_known(records: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table of the precision of each score, the best first, with a column for each training."""
    cells = {
        score: [_row(record, "plausibility", f"precision_{score}") for record in records.values()]
        for score in ("attention", *SCORES, "chance")
    }  # fmt: skip
    chance = cells.pop("chance")
    best = sorted(
        (score for score in cells if any(cells[score])),
        key=lambda score: -sum(row["value"] for row in cells[score] if row is not None),
    )
    rows = [[_title(score), *map(cell, cells[score])] for score in best]
    rows += [["random order", *map(cell, chance)]] if any(chance) else []
    return table(
        [
            "Precision at the number of deciding words",
            *(name.replace("planted-s", "seed ") for name in records),
        ],
        rows,
    )


def rows_of_pairs(records: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per training, measure and pair of scores."""
    return [
        {"seed": name.removeprefix("sst-s"), "measure": kind, "first": first, "second": second}
        | {key: row[key] for key in FIGURES}
        for name, record in records.items()
        for row in record["summary"]
        if row["experiment"] == "agreement" and AND in row["measure"]
        for kind, _, pair in [row["measure"].partition("_")]
        for first, _, second in [pair.partition(AND)]
        if {first, second} <= {"attention", *SCORES}
    ]


def rows_of_heads(records: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per training, head and measure."""
    return [
        {"seed": name.removeprefix("sst-s"), "head": row["group"].rpartition(".")[2]}
        | {key: row[key] for key in ("experiment", "measure", *FIGURES)}
        for name, record in records.items()
        for row in record["summary"]
        if row["group"].startswith("head:")
    ]


def _row(
    record: Mapping[str, Any], experiment: str, measure: str, group: str = "all"
) -> dict[str, Any] | None:
    found = (
        row
        for row in record["summary"]
        if (row["experiment"], row["measure"], row["group"]) == (experiment, measure, group)
    )
    return next(found, None)


def of_heads(records: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table with a row for each head of each training."""
    rows = []
    for name, record in records.items():
        groups = sorted(
            {row["group"] for row in record["summary"] if row["group"].startswith("head:")}
        )
        for group in groups:
            cells = [cell(_row(record, *measure.split("."), group=group)) for measure in OF_HEADS]
            rows.append([name.removeprefix("sst-s"), group.rpartition(".")[2], *cells])
    return table(["seed", "head", *OF_HEADS.values()], rows)


def of_scores(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table with a row for each score that is still computed."""
    made = []
    for row in (row for row in rows if row["score"] in ("attention", *SCORES)):
        less = (
            f"{row['difference']:.3f} [{row['difference_low']:.3f}, {row['difference_high']:.3f}]"
            if row["difference"]
            else "–"
        )
        made.append(
            [
                _title(row["score"]),
                *(f"{value:.3f}" for value in row["seeds"]),
                cell({**row, "reference": None}),
                less,
            ]
        )
    return table(
        ["score", *(f"seed {seed}" for seed in SEEDS), "mean", "less than the first"], made
    )


def _title(score: str) -> str:
    return "attention, last layer" if score == "attention" else TITLES[score]


def of_models(study: str, record: Mapping[str, Any], columns: Mapping[str, str]) -> str:
    """Return a table with a row for each model of a study."""
    cells = {
        figure_and_model(row["measure"], EVERY_STUDY[study].measures): cell(row)
        for row in record["summary"]
    }
    models = [
        model
        for model in dict.fromkeys(model for _, model in cells)
        if model and any((name, model) in cells for name in columns)
    ]
    return table(
        ["model", *columns.values()],
        [
            [model_label(model), *(cells.get((name, model), "–") for name in columns)]
            for model in models
        ],
    )


def made_by(*places: str) -> str:
    """Return links to records and the commits of their code."""
    commits = ", ".join(
        dict.fromkeys(read_json(RECORDS.parent / f"{place}.json")["commit"] for place in places)
    )
    listed = ", ".join(f"[{place.partition('/')[2]}](records/{place}.json)" for place in places)
    return f"Commands and figures: {listed}; code of commit {commits}."


def cell(row: Mapping[str, Any] | None) -> str:
    """Return a value with its interval."""
    if row is None or row["value"] is None:
        return "–"
    interval = "" if row["low"] is None else f" [{row['low']:.3f}, {row['high']:.3f}]"
    return f"{row['value']:.3f}{interval}"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def write_block(page: Path, parts: Iterable[str], block: str) -> None:
    """Write parts between the markers of a block of a page, separated by blank lines."""
    made = "\n\n".join(filter(None, parts))
    begin, end = f"<!-- {block} -->", f"<!-- end of {block} -->"
    before, rest = page.read_text(encoding="utf-8").split(begin)
    write_text(page, f"{before}{begin}\n\n{made}\n\n{end}{rest.split(end)[1]}")


def recorded(folder: Path, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the records that exist in a folder, by name."""
    places = {name: folder / f"{name}.json" for name in names}
    return {name: read_json(place) for name, place in places.items() if place.exists()}


def csv_files() -> Iterator[tuple[Path, str]]:
    """Return the tables that are too long for the page, as csv."""
    if audits := recorded(RECORDS, NAMES[: len(SEEDS)]):
        for name, rows in (("heads", rows_of_heads(audits)), ("pairs", rows_of_pairs(audits))):
            if rows:
                yield RECORDS / f"{name}.csv", pl.DataFrame(rows).write_csv(float_precision=4)


def blocks() -> Iterator[tuple[str, list[str]]]:
    """Return the parts of every block of the page that has its records."""
    if audits := recorded(RECORDS, NAMES[: len(SEEDS)]):
        yield "audits", [of_seeds(audits), made_by(*(f"transformers/{name}" for name in audits))]
        yield "heads", [of_heads(audits)]
    for name, record in recorded(RECORDS, ["scores"]).items():
        yield name, [of_scores(record["summary"]), made_by(f"transformers/{name}")]
    if planted := recorded(RECORDS, (name for name in NAMES if name.startswith("planted"))):
        made = made_by(*(f"transformers/{name}" for name in planted))
        yield "planted", [of_known(planted), made]
    for name, columns in (("uniform", UNIFORM), ("pronoun", PRONOUN)):
        study, place = STUDIES[name]
        for record in recorded(RECORDS.parent, [place]).values():
            yield name, [of_models(study, record, columns), made_by(place)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/transformers"))
    parser.add_argument(
        "--only",
        nargs="+",
        choices=NAMES,
        default=NAMES,
        metavar="NAME",
        help=f"of {', '.join(NAMES)}",
    )
    parser.add_argument(
        "--done", action="store_true", help="tables of what is finished; train and audit nothing"
    )
    options = parser.parse_args()
    run_missing(options)
    for name, parts in blocks():
        write_block(PAGE, parts, name)
    for file, text in csv_files():
        write_text(file, text)


if __name__ == "__main__":
    main()

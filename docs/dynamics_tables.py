"""Run the studies of docs/dynamics.md that are missing and write the page's tables.

    python docs/dynamics_tables.py --data-dir DIR --vectors FILE [--out runs/studies] [--copying runs/copying] [--only NAME...] [--done]

Each is an ordinary ``attnaudit study dynamics --full`` in the folder ``OUT/<corpus>``, which it shares with the studies of
`studies_tables`, or ``attnaudit study copying --full`` in ``COPYING/<name>``; finished studies are not rerun. ``--only`` and ``--done``
select what to run. Each study leaves a record (`records`); the tables have all records, whatever was run now, and rows that the page had
before there were records.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
from records import PLACE, load, save, with_former
from studies_tables import CORPORA as STUDIED
from studies_tables import Found, cell, table, write_tables

from attnaudit.core.files import read_json
from attnaudit.corpora.planted.sequences import SYMBOLS
from attnaudit.corpora.registry import is_parallel
from attnaudit.results.words import figure, interval, percent
from attnaudit.runner import copying_study, run_copying
from attnaudit.runner.studies import StudySpec, run_study
from attnaudit.studies.dynamics.measures import NEEDED, timing_of_seeds
from attnaudit.trace.probe import STEPS

PAGE = Path(__file__).parent / "dynamics.md"
STEP = "step:"


def until(last: int) -> tuple[int, ...]:
    """The steps of the paper up to ``last``: on a small corpus that is tens of epochs."""
    return tuple(step for step in STEPS if step <= last)


# Steps and probe by cost: leave-one-out of the probe, at every step of every seed, takes nearly all of the time.
CORPORA: dict[str, dict[str, Any]] = {
    "sst": {"dynamics.steps": until(4000)},
    "sms_spam": {"dynamics.steps": until(2000)},
    "ag_news": {"dynamics.steps": until(4000)},
    "20news_sports": {"dynamics.steps": until(1000), "dynamics.probe": 100},
    "imdb": {"dynamics.steps": until(1000), "dynamics.probe": 100, "dynamics.seeds": 3},
    "multi30k_en_de": {"dynamics.steps": until(2000), "dynamics.probe": 50, "dynamics.seeds": 2},
}
# The task as released, and other settings that may decide whether permutations are learned; a name starts with the kind of sequences.
_TIED = {"copying.preset": "tied"}
_HALF, _QUARTER, _SMALL = ({**_TIED, "copying.embedding_scale": scale} for scale in (0.5, 0.25, 0.0625))
_LEARNED = {"copying.pretraining": 200}
COPIED: dict[str, dict[str, Any]] = {
    "permutations": {},
    "distinct": {},
    "iid": {},
    **{f"{kind}-tied": _TIED for kind in SYMBOLS},
    "permutations-tied-8_heads": {**_TIED, "copying.heads": 8},
    "permutations-tied-pretrained": {**_TIED, **_LEARNED},
    "permutations-tied-half": _HALF,
    "permutations-tied-quarter": _QUARTER,
    "permutations-tied-small": _SMALL,
    "permutations-tied-small-pretrained": {**_SMALL, **_LEARNED},
    "iid-tied-quarter": _QUARTER,
    "iid-tied-small": _SMALL,
}
PRECISION = {"copying.precision": "float32"}
RECORDS = PLACE / "copying"
OF_CORPORA = PLACE / "dynamics"

AGREEMENT = {
    "accuracy": "accuracy",
    "agreement_alpha_relevance": "A(α, r)",
    "agreement_alpha_uniform": "A(α, rᵘ)",
    "agreement_alpha_loo": "A(α, LOO)",
    "agreement_alpha_embedding": "A(α, mean embedding)",
    "agreement_alpha_logistic": "A(α, logistic)",
    "agreement_loo_uniform": "A(LOO, rᵘ)",
    "agreement_alpha_uniform_elsewhere": "A(α, rᵘ elsewhere)",
    "chance": "chance",
}
TAU = {
    "tau_alpha_relevance": "τ(α, r)",
    "tau_alpha_uniform": "τ(α, rᵘ)",
    "tau_alpha_loo": "τ(α, LOO)",
    "tau_alpha_embedding": "τ(α, mean embedding)",
    "tau_alpha_logistic": "τ(α, logistic)",
    "tau_relevance_uniform": "τ(r, rᵘ)",
    "tau_loo_uniform": "τ(LOO, rᵘ)",
}
ACCURACY = {
    "accuracy": "learned attention",
    "accuracy_uniform": "uniform attention",
    "accuracy_embedding": "mean embedding",
    "accuracy_logistic": "logistic regression",
}
TIMING = {
    "xi": "ξ",
    "best_accuracy": "best accuracy, chosen on test",
    "best_accuracy_minus_xi": "best minus ξ",
    "xi_reached": "A(α₀, α), highest, chosen on test",
    "xi_threshold": "A(α₀, rᵘ)",
}
AT_STEPS = {
    "agreement_alpha_uniform": "A(α, rᵘ)",
    "agreement_alpha_relevance": "A(α, r)",
    "agreement_reference_alpha": "A(α₀, α)",
    "agreement_reference_relevance_uniform": "A(α₀, rᵘ at this step)",
    "agreement_reference_relevance_elsewhere_uniform": "A(α₀, rᵘ elsewhere at this step)",
    "accuracy": "accuracy",
    "entropy": "entropy of α",
}
SHARES = (64, 16, 4)  # divisors of the last step: the steps shown between the first and the last
OF_COPYING = (
    "sequences", "products", "seeds", "succeeded", "token accuracy of the others", "come to attend", "upside down", "token", "attention",
    "relevance", "agreement", "attended", "lead of relevance (steps)", "entropy of attention at that point", "commit",
)  # fmt: skip
_SHARES = ("attending", "upside_down")
_MEDIANS = ("token_accuracy", "attention_accuracy", "relevance_accuracy", "agreement", "attended")


def spec_of(corpus: str, options: argparse.Namespace) -> StudySpec:
    """The corpus settings of the other studies, so that they can share a folder."""
    kept = {key: value for key, value in STUDIED.get(corpus, {}).items() if key.startswith("corpus.")}
    settings = {**kept, **CORPORA[corpus]}
    if is_parallel(corpus):
        return StudySpec.of("dynamics", corpus, full=True, data_dir=str(options.data_dir), settings=settings)
    return StudySpec.of("dynamics", corpus, full=True, data_dir=str(options.data_dir), vectors=str(options.vectors), settings=settings)


def record_of(name: str, place: Path) -> None:
    """Record a finished study of a corpus: of its summary, what the tables have."""
    summary = read_json(place / "summary.json")
    shown = {"all", *(f"{STEP}{step}" for step in steps_shown(_steps(row["group"] for row in summary)))}
    kept = [row for row in summary if row["group"] in shown]
    save(OF_CORPORA / f"{name}.json", command_on(name), kept, xi_steps=steps_of_seeds(place))


def command_on(name: str) -> str:
    """The command that runs a study of a corpus, wherever data and folder are."""
    settings = {**{key: value for key, value in STUDIED.get(name, {}).items() if key.startswith("corpus.")}, **CORPORA[name]}
    shown = [f"--set {key}={','.join(map(str, value)) if isinstance(value, tuple) else value}" for key, value in settings.items()]
    vectors = [] if is_parallel(name) else ["--vectors VECTORS"]
    return " ".join(["attnaudit study dynamics", name, "--full --data-dir DATA", *vectors, *shown])


def groups(summary: Iterable[dict[str, Any]]) -> dict[str, Found]:
    """A summary by group and measure."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in summary:
        found.setdefault(row["group"], {})[row["measure"]] = row
    return dict(found)


def _steps(names: Iterable[str]) -> list[int]:
    """The steps among the groups of a summary."""
    return sorted({int(name.removeprefix(STEP)) for name in names if name.startswith(STEP)})


def steps_of_seeds(place: Path) -> str:
    """``10, 50, never``: one entry per seed after the first."""
    watched = pl.scan_parquet(place / "results" / "dynamics.parquet").filter(pl.col("step").is_not_null(), model="base")
    fresh = watched.filter(pl.col("seed") != pl.col("seed").min())
    each = fresh.group_by("seed", "step", "instance").agg(pl.col(NEEDED).cast(pl.Float64).mean()).collect()  # tokens of a pair
    return ", ".join("never" if step is None else f"{step:.0f}" for step in timing_of_seeds(each)["xi_step"]) if len(each) else "–"


def steps_shown(steps: list[int]) -> list[int]:
    """The first two, the last, and those nearest to a few fractions of the last: most happens early."""
    expected = (*steps[:2], *(steps[-1] / share for share in SHARES), steps[-1])
    return sorted({min(steps, key=lambda step, near=near: abs(step - near)) for near in expected})


def of_copying(name: str, record: Mapping[str, Any]) -> list[str]:
    """One row: counts, some with the interval of their share, medians over seeds with intervals, the lead of relevance in steps."""
    found = {row["measure"]: row for row in record["summary"] if row["group"] == "all"}
    medians = [" ".join(filter(None, (figure(found[measure]["value"]), interval(found[measure])))) for measure in _MEDIANS]
    shares = [_share(found[measure]) for measure in _SHARES]
    lead, entropy = (_over_some(found[measure], digits) for measure, digits in (("lead", 0), ("relevance_entropy", 2)))
    precision = re.search(r"copying\.precision=(\w+)", record["command"])
    return [
        described(name), precision[1] if precision else "float32", str(found["succeeded"]["n"]), _share(found["succeeded"]),
        _stopped(found), *shares, *medians, lead, entropy, record["commit"],
    ]  # fmt: skip


def _share(row: Mapping[str, Any]) -> str:
    """``15 (53 % to 89 %)``."""
    return f"{round(row['value'] * row['n'])} ({percent(row['low'])} to {percent(row['high'])})"


def _stopped(found: Mapping[str, Mapping[str, Any]]) -> str:
    """``0.64 to 0.73, median 0.70``; a dash where all seeds succeed."""
    median, least, most = (found[f"stopped{end}"]["value"] for end in ("", "_least", "_most"))
    return "–" if median is None else f"{figure(least)} to {figure(most)}, median {figure(median)}"


def described(name: str) -> str:
    """The kind of sequences, and the settings of a variant."""
    settings = [f"{key.removeprefix('copying.')}={value}" for key, value in COPIED[name].items()]
    return ", ".join([name.partition("-")[0], *settings])


def _over_some(row: Mapping[str, Any], digits: int) -> str:
    """A median over the seeds that have the figure, and how many these are."""
    shown = filter(None, (figure(row["value"], digits), interval(row, digits))) if row["n"] else ("–",)
    return " ".join((*shown, f"({row['n']} seeds)"))


def command_of(name: str) -> str:
    """The command that runs a study of the copying task, wherever its folder is."""
    settings = [f"--set {key}={value}" for key, value in {**COPIED[name], **PRECISION}.items()]
    return " ".join(["attnaudit study copying", name.partition("-")[0], "--full", *settings, f"--out runs/copying/{name}"])


def run_missing(options: argparse.Namespace) -> None:
    """Run the selected studies that are not finished, and record those of the copying task."""
    for name in options.only:
        if name in COPIED:
            place = options.copying / name
            run_copying(copying_study(name.partition("-")[0], 0, {**COPIED[name], **PRECISION}, full=True), place)
            save(RECORDS / f"{name}.json", command_of(name), read_json(place / "summary.json"))
        else:
            run_study(spec_of(name, options), options.out / name, say=print)
            record_of(name, options.out / name / "dynamics")


def copying_tables() -> Iterator[tuple[str, str]]:
    """The table of all studies of the copying task that have a record."""
    records = {name: RECORDS / f"{name}.json" for name in COPIED}
    rows = [of_copying(name, load(record)) for name, record in records.items() if record.exists()]
    yield "### Copying", "Counts of seeds, some with the interval of their share; medians over seeds with their intervals:"
    yield "", table(list(OF_COPYING), rows)


def of_corpora(columns: Mapping[str, str]) -> str:
    """One row per corpus, one column per measure; the last is the commit."""
    made = {}
    for name, record in recorded().items():
        row = groups(record["summary"])["all"]
        made[name] = [[name, *(cell(row.get(measure)) for measure in columns), record["commit"]]]
    return _kept(["corpus", *columns.values()], made)


def during_training() -> str:
    """One row per corpus and step, for a few of its steps."""
    made = {}
    for name, record in recorded().items():
        found = groups(record["summary"])
        rows = [(step, found[f"{STEP}{step}"]) for step in _steps(found)]
        made[name] = [[name, str(step), *(cell(row.get(measure)) for measure in AT_STEPS), record["commit"]] for step, row in rows]
    return _kept(["corpus", "step", *AT_STEPS.values()], made)


def timing() -> str:
    """One row per corpus: ξ with its threshold, and the step at which each seed reaches it."""
    made = {}
    for name, record in recorded().items():
        row = groups(record["summary"])["all"]
        made[name] = [[name, *(cell(row.get(measure)) for measure in TIMING), record["xi_steps"], record["commit"]]]
    return _kept(["corpus", *TIMING.values(), "step of ξ, by seed"], made)


def _kept(columns: list[str], made: Mapping[str, list[list[str]]]) -> str:
    """The rows ``made``, and those that the page has of other corpora."""
    head = [*columns, "commit"]
    return table(head, with_former(PAGE, head, made, CORPORA))


def recorded() -> dict[str, Mapping[str, Any]]:
    """The records of studies of corpora."""
    places = {name: OF_CORPORA / f"{name}.json" for name in CORPORA}
    return {name: load(place) for name, place in places.items() if place.exists()}


def tables() -> Iterator[tuple[str, str]]:
    """The tables of all studies of corpora that have a record, or that the page has already."""
    yield "### Final models", "On all of test (translators: on the traced pairs):"
    yield "", of_corpora(AGREEMENT)
    yield "", of_corpora(TAU)
    yield "Accuracy of the compared models:", of_corpora(ACCURACY)
    yield "### During training", "All seeds, on the probe, by optimizer step:"
    yield "", during_training()
    yield "### Before or after the output?", "The seeds after the first, on the probe; α₀ is the final attention of the first:"
    yield "", timing()


def main() -> None:
    names = [*CORPORA, *COPIED]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/studies"))
    parser.add_argument("--copying", type=Path, default=Path("runs/copying"))
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--done", action="store_true", help="tables of what is finished; train nothing")
    options = parser.parse_args()
    if not options.done:
        if not {*options.only} <= {*COPIED} and None in (options.data_dir, options.vectors):
            parser.error("--data-dir and --vectors are needed to train on a corpus; --done trains nothing")
        run_missing(options)
    write_tables(PAGE, copying_tables(), "tables of copying")
    write_tables(PAGE, tables())


if __name__ == "__main__":
    main()

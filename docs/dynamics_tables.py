"""Run the studies of docs/dynamics.md that are missing and write the page's tables.

    python docs/dynamics_tables.py --data-dir DIR --vectors FILE [--out runs/studies] [--copying runs/copying] [--only NAME...] [--done]

Each is an ordinary ``attnaudit study dynamics --full`` in the folder ``OUT/<corpus>``, which it shares with the studies of
`studies_tables`, or ``attnaudit study copying --full`` in ``COPYING/<name>``; finished studies are not rerun. ``--only`` and ``--done``
select what to run. Tables of the copying task have every study with a record (`records`), tables of texts and pairs are written once all
their studies are finished.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
from records import PLACE, load, save
from studies_tables import CORPORA as STUDIED
from studies_tables import Found, by_corpus, cell, table, write_tables

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
    "distinct": {"copying.seeds": 8},  # 20 seeds of a kind take an hour on one busy core
    "iid": {"copying.seeds": 8},
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


def groups(place: Path) -> dict[str, Found]:
    """The summary of a study, by group and measure."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in read_json(place / "summary.json"):
        found.setdefault(row["group"], {})[row["measure"]] = row
    return dict(found)


def timing(found: Mapping[str, Found], places: Mapping[str, Path]) -> str:
    """One row per corpus: ξ with its threshold, and the step at which each seed reaches it."""
    rows = [[corpus, *(cell(found[corpus].get(name)) for name in TIMING), steps_of_seeds(places[corpus])] for corpus in found]
    return table(["corpus", *TIMING.values(), "step of ξ, by seed"], rows)


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


def during_training(found: Mapping[str, Mapping[str, Found]]) -> str:
    """One row per corpus and step, for a few of its steps."""
    rows = []
    for corpus, by_group in found.items():
        steps = sorted(int(name.removeprefix(STEP)) for name in by_group if name.startswith(STEP))
        rows += [[corpus, str(step), *(cell(by_group[f"{STEP}{step}"].get(name)) for name in AT_STEPS)] for step in steps_shown(steps)]
    return table(["corpus", "step", *AT_STEPS.values()], rows)


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


def copying_tables() -> Iterator[tuple[str, str]]:
    """The table of all studies of the copying task that have a record."""
    records = {name: RECORDS / f"{name}.json" for name in COPIED}
    rows = [of_copying(name, load(record)) for name, record in records.items() if record.exists()]
    yield "### Copying", "Counts of seeds, some with the interval of their share; medians over seeds with their intervals:"
    yield "", table(list(OF_COPYING), rows)


def write(options: argparse.Namespace) -> None:
    """The blocks of the page. Tables of texts and pairs need the folders of all their studies; without these they stay as they are."""
    write_tables(PAGE, copying_tables(), "tables of copying")
    places = {corpus: options.out / corpus / "dynamics" for corpus in CORPORA}
    missing = [corpus for corpus, place in places.items() if not (place / "manifest.json").exists()]
    if missing:
        print(f"tables of texts and pairs are left as they are: no finished study of {', '.join(missing)} in {options.out}")
        return
    write_tables(PAGE, of_dynamics({corpus: groups(place) for corpus, place in places.items()}, places))


def of_dynamics(found: Mapping[str, Mapping[str, Found]], places: Mapping[str, Path]) -> Iterator[tuple[str, str]]:
    finished = {corpus: by_group["all"] for corpus, by_group in found.items()}
    yield "### Final models", "On all of test (translators: on the traced pairs):"
    yield "", by_corpus(finished, AGREEMENT)
    yield "", by_corpus(finished, TAU)
    yield "Accuracy of the compared models:", by_corpus(finished, ACCURACY)
    yield "### During training", "All seeds, on the probe, by optimizer step:"
    yield "", during_training(found)
    yield "### Before or after the output?", "The seeds after the first, on the probe; α₀ is the final attention of the first:"
    yield "", timing(finished, places)


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
    write(options)


if __name__ == "__main__":
    main()

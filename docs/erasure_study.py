"""The erasure study on several corpora: run what is missing and write the tables of docs/experiments/erasure.md.

    python docs/erasure_study.py --data-dir DIR [--runs runs/serrano2019] [--only CORPUS...] [--done]

Every run is the training of an ordinary ``attnaudit run`` with ``--preset flan`` or ``han``; a finished one is not retrained but audited
again, so that all its numbers are of one version, and leaves a record (`records`). The tables have all records, whatever was run now; a row
that the page had before there were records stays. They are written between two markers of the page.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import polars as pl
from records import PLACE, load, save, with_former
from studies_tables import table

from attnaudit.core.files import read_json, write_text
from attnaudit.runner import RunSpec, audit_into
from attnaudit.runner.pipeline import train_into

PAGE = Path(__file__).parent / "experiments" / "erasure.md"
RECORDS = PLACE / "erasure"
BEGIN, END = "<!-- tables -->", "<!-- end of tables -->"
NETWORKS, ENCODERS = ("han", "flan"), ("bigru", "cnn", "none")
AMAZON = "amazon_category24"  # the user's own folder: categories, not the star ratings of the paper
CORPORA = ("imdb", "yelp", "20news_sports", "ag_news", AMAZON)
# Flip table of Serrano & Smith 2019, HAN with biGRU, in percent: both, only i*, only r, neither. Not checked against the paper.
PUBLISHED = {"Yahoo": (0.5, 8.7, 1.3, 89.6), "IMDB": (2.2, 12.2, 1.4, 84.2), "Amazon": (2.7, 7.6, 2.7, 87.1), "Yelp": (1.5, 8.9, 1.9, 87.7)}
FLIPS = {"flip_both": "both flip (%)", "flip_only_max": "only i*", "flip_only_random": "only r", "flip_neither": "neither"}
LARGER = 0.1
BANDS = (0.0, 0.05, 0.1, 0.2, 0.4, 1.01)
RANKINGS = ("random", "attention", "gradient", "gradient_attention")


def spec_of(corpus: str, network: str, encoder: str, data_dir: Path) -> RunSpec:
    """All of test, regardless of the share that the corpus keeps, and no leave-one-out, which nothing here reads."""
    source = str(data_dir / AMAZON) if corpus == AMAZON else corpus
    settings = {"collect.scores": ("gradient",), **({"corpus.test_kept": 1.0} if corpus == "imdb" else {})}
    return RunSpec.of(source, encoder=encoder, preset=network, data_dir=str(data_dir), settings=settings)


def command_of(corpus: str, network: str, encoder: str) -> str:
    """The command that trains and audits a run, wherever data and folder are."""
    kept = " --set corpus.test_kept=1.0" if corpus == "imdb" else ""
    source = f"DATA/{AMAZON}" if corpus == AMAZON else corpus
    return f"attnaudit run {source} --preset {network} --encoder {encoder} --data-dir DATA --set collect.scores=gradient{kept}"


def run_missing(options: argparse.Namespace) -> None:
    """Train the selected runs that are not finished, audit all that are, and record them."""
    for corpus in options.only:
        for network in NETWORKS:
            for encoder in ENCODERS:
                out = options.runs / f"{corpus}-{network}-{encoder}"
                if options.done and not (out / "manifest.json").exists():
                    continue
                if not options.done:
                    train_into(spec_of(corpus, network, encoder, options.data_dir), out)
                print(out, flush=True)
                audited = audit_into(out.with_name(f"{out.name}-audit"), out, ("prediction", "erasure"))
                summary = [row for row in read_json(audited / "summary.json") if row["group"] == "all"]
                save(RECORDS / f"{out.name}.json", command_of(corpus, network, encoder), summary, delta_alpha=by_delta_alpha(audited))


def by_delta_alpha(out: Path) -> dict[str, Any]:
    """The median of Δα, and where Δα lies in a band of `BANDS` or is large: the share of negative ΔJS and the number of instances."""
    gaps = pl.read_parquet(out / "results" / "erasure.parquet", columns=["delta_js", "delta_alpha"])
    bands = [negative_between(gaps, low, high) for low, high in pairwise(BANDS)]
    return {"median": gaps["delta_alpha"].median(), "large": negative_between(gaps, LARGER), "bands": bands}


def by_measure(record: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The summary of a record over all instances, by experiment and measure."""
    return {f"{row['experiment']}/{row['measure']}": row for row in record["summary"]}


def cell(row: dict[str, Any] | None, digits: int = 2, percent: bool = False) -> str:
    if row is None or row["value"] is None:
        return "–"
    value, low, high = (100 * row[name] if percent else row[name] for name in ("value", "low", "high"))
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def negative_between(gaps: pl.DataFrame, low: float, high: float = 1.01) -> str:
    """The share of negative ΔJS, in percent, where Δα lies in a band, with the number of instances."""
    inside = gaps.filter((pl.col("delta_alpha") >= low) & (pl.col("delta_alpha") < high) & pl.col("delta_js").is_not_null())
    return f"{100 * inside.select((pl.col('delta_js') < 0).mean()).item():.1f} ({inside.height})" if inside.height else "– (0)"


def recorded() -> dict[str, Mapping[str, Any]]:
    """All records, by the first cells of their rows."""
    places = {name_of(*run): RECORDS / f"{'-'.join(run)}.json" for run in product(CORPORA, NETWORKS, ENCODERS)}
    return {name: load(place) for name, place in places.items() if place.exists()}


def name_of(corpus: str, network: str, encoder: str) -> str:
    """``imdb | HAN | bigru``."""
    return f"{corpus} | {network.upper()} | {encoder}"


def one_weight(record: Mapping[str, Any]) -> list[str]:
    """What removing one weight gives."""
    found, gaps = by_measure(record), record["delta_alpha"]
    single = found["erasure/delta_js"]
    return [
        f"{found['prediction/accuracy']['value']:.3f}", str(single["n"]), str(single["undefined"]),
        cell(found["erasure/negative_delta_js"], 1, percent=True), gaps["large"], f"{gaps['median']:.3f}", cell(single, 3),
        *(cell(found.get(f"erasure/{flip}"), 1, percent=True) for flip in FLIPS),
    ]  # fmt: skip


def many_weights(record: Mapping[str, Any]) -> list[str]:
    """What removing weights in the order of a ranking gives."""
    found = by_measure(record)
    return [
        *(cell(found.get(f"erasure/removed_{ranking}")) for ranking in (*RANKINGS, "minimum")),
        *(f"{100 * found[f'erasure/never_{ranking}']['value']:.0f}" for ranking in (*RANKINGS, "minimum")),
        *(cell(found.get(f"erasure/times_minimum_{ranking}"), 1) for ranking in RANKINGS[1:]),
    ]


def of_runs(columns: list[str], cells: Callable[[Mapping[str, Any]], list[str]]) -> str:
    """A table with a row of ``cells`` for every record, and the rows that the page has of other runs."""
    head = ["corpus", "network", "encoder", *columns, "commit"]
    rows = {name: [[*name.split(" | "), *cells(record), record["commit"]]] for name, record in recorded().items()}
    names = [name_of(*run) for run in product(CORPORA, NETWORKS, ENCODERS)]
    return table(head, with_former(PAGE, head, rows, names))


def tables() -> str:
    singles = ["accuracy", "n", "excluded", "ΔJS < 0 (%)", f"… where Δα ≥ {LARGER} (%, n)", "median Δα", "mean ΔJS", *FLIPS.values()]
    walks = [f"removed, {name}" for name in (*RANKINGS, "minimum")] + [f"never, {name} (%)" for name in (*RANKINGS, "minimum")]
    walks += [f"times minimum, {name}" for name in RANKINGS[1:]]
    bands = [f"{low:g} to {min(high, 1):g}" for low, high in pairwise(BANDS)]
    published = [[corpus, *(f"{share}" for share in shares)] for corpus, shares in PUBLISHED.items()]
    parts = [
        "One weight:", of_runs(singles, one_weight),
        "Published for HAN with biGRU, in percent (not checked against the source):", table(["corpus", *FLIPS.values()], published),
        "Share of ΔJS < 0 by Δα, % (n):", of_runs(bands, lambda record: record["delta_alpha"]["bands"]),
        "Many weights, as shares of T:", of_runs(walks, many_weights),
    ]  # fmt: skip
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--runs", type=Path, default=Path("runs/serrano2019"))
    parser.add_argument("--only", nargs="+", choices=CORPORA, default=list(CORPORA), metavar="CORPUS")
    parser.add_argument("--done", action="store_true", help="tables of the runs that are finished; train nothing")
    options = parser.parse_args()
    run_missing(options)
    made = tables()
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    write_text(PAGE, f"{before}{BEGIN}\n\n{made}\n\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()

"""The erasure study on several corpora: run what is missing and write the tables of docs/experiments/erasure.md.

    python docs/erasure_study.py --data-dir DIR [--runs runs/serrano2019] [--only CORPUS...] [--done]

Every run is the training of an ordinary ``attnaudit run`` with ``--preset flan`` or ``han``; a finished one is not
retrained but audited again, so that all numbers are of one version. The tables are written between two markers of the page.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.core.files import read_json, write_text
from attnaudit.runner import RunSpec, audit_into
from attnaudit.runner.pipeline import train_into

PAGE = Path(__file__).parent / "experiments" / "erasure.md"
BEGIN, END = "<!-- tables -->", "<!-- end of tables -->"
NETWORKS, ENCODERS = ("han", "flan"), ("bigru", "cnn", "none")
AMAZON = "amazon_category24"  # the user's own folder: categories, not the star ratings of the paper
CORPORA = ("imdb", "yelp", "20news_sports", "ag_news", AMAZON)
# Flip table of Serrano & Smith 2019, HAN with biGRU, in percent: both, only i*, only r, neither. Not checked against the paper.
PUBLISHED = {"Yahoo": (0.5, 8.7, 1.3, 89.6), "IMDB": (2.2, 12.2, 1.4, 84.2), "Amazon": (2.7, 7.6, 2.7, 87.1), "Yelp": (1.5, 8.9, 1.9, 87.7)}
FLIPS = ("flip_both", "flip_only_max", "flip_only_random", "flip_neither")
LARGER = 0.1
BANDS = (0.0, 0.05, 0.1, 0.2, 0.4, 1.01)
RANKINGS = ("random", "attention", "gradient", "gradient_attention")


def spec_of(corpus: str, network: str, encoder: str, data_dir: Path) -> RunSpec:
    """All of test, regardless of the share that the corpus keeps, and no leave-one-out, which nothing here reads."""
    source = str(data_dir / AMAZON) if corpus == AMAZON else corpus
    settings = {"collect.scores": ("gradient",), **({"corpus.test_kept": 1.0} if corpus == "imdb" else {})}
    return RunSpec.of(source, encoder=encoder, preset=network, data_dir=str(data_dir), settings=settings)


def finished(options: argparse.Namespace) -> Iterator[tuple[str, str, str, Path]]:
    for corpus in options.only:
        for network in NETWORKS:
            for encoder in ENCODERS:
                out = options.runs / f"{corpus}-{network}-{encoder}"
                if options.done and not (out / "manifest.json").exists():
                    continue
                if not options.done:
                    train_into(spec_of(corpus, network, encoder, options.data_dir), out)
                print(out, flush=True)
                yield corpus, network, encoder, audit_into(out.with_name(f"{out.name}-audit"), out, ("prediction", "erasure"))


def figures(out: Path) -> dict[str, dict[str, Any]]:
    """The summary over all instances, by experiment and measure."""
    return {f"{row['experiment']}/{row['measure']}": row for row in read_json(out / "summary.json") if row["group"] == "all"}


def cell(row: dict[str, Any] | None, digits: int = 2, percent: bool = False) -> str:
    if row is None or row["value"] is None:
        return "–"
    value, low, high = (100 * row[name] if percent else row[name] for name in ("value", "low", "high"))
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def negative_between(gaps: pl.DataFrame, low: float, high: float = 1.01) -> str:
    """The share of negative ΔJS, in percent, where Δα lies in a band, with the number of instances."""
    inside = gaps.filter((pl.col("delta_alpha") >= low) & (pl.col("delta_alpha") < high) & pl.col("delta_js").is_not_null())
    return f"{100 * inside.select((pl.col('delta_js') < 0).mean()).item():.1f} ({inside.height})" if inside.height else "– (0)"


def table(columns: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (columns, ["---"] * len(columns), *rows))


def tables(runs: list[tuple[str, str, str, Path]]) -> str:
    one, many, bands = [], [], []
    for corpus, network, encoder, out in runs:
        found = figures(out)
        name = [corpus, network.upper(), encoder]
        shares = [cell(found.get(f"erasure/{flip}"), 1, percent=True) for flip in FLIPS]
        single, gaps = found["erasure/delta_js"], pl.read_parquet(out / "results" / "erasure.parquet", columns=["delta_js", "delta_alpha"])
        one.append([
            *name, f"{found['prediction/accuracy']['value']:.3f}", str(single["n"]), str(single["undefined"]),
            cell(found["erasure/negative_delta_js"], 1, percent=True), negative_between(gaps, LARGER),
            f"{gaps['delta_alpha'].median():.3f}", cell(single, 3), *shares,
        ])  # fmt: skip
        bands.append([*name, *(negative_between(gaps, low, high) for low, high in pairwise(BANDS))])
        many.append([
            *name, *(cell(found.get(f"erasure/removed_{ranking}")) for ranking in (*RANKINGS, "minimum")),
            *(f"{100 * found[f'erasure/never_{ranking}']['value']:.0f}" for ranking in (*RANKINGS, "minimum")),
            *(cell(found.get(f"erasure/times_minimum_{ranking}"), 1) for ranking in RANKINGS[1:]),
        ])  # fmt: skip
    published = [
        [corpus, "HAN", "bigru", "", "", "", "", "", "", "", *(f"{share}°" for share in shares)] for corpus, shares in PUBLISHED.items()
    ]
    head = ["corpus", "network", "encoder"]
    columns = [
        "accuracy",
        "n",
        "excluded",
        "ΔJS < 0 (%)",
        f"… where Δα ≥ {LARGER} (%, n)",
        "median Δα",
        "mean ΔJS",
        "both flip (%)",
        "only i*",
        "only r",
        "neither",
    ]
    singles = table([*head, *columns], one + published)
    walks = [*head, *(f"removed, {name}" for name in (*RANKINGS, "minimum")), *(f"never, {name} (%)" for name in (*RANKINGS, "minimum"))]
    removals = table([*walks, *(f"times minimum, {name}" for name in RANKINGS[1:])], many)
    between = table([*head, *(f"{low:g} to {min(high, 1):g}" for low, high in pairwise(BANDS))], bands)
    return (
        f"One weight (°: published, not checked against the source):\n\n{singles}\n\nShare of ΔJS < 0 by Δα, % (n):\n\n{between}\n\n"
        f"Many weights, as shares of T:\n\n{removals}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--runs", type=Path, default=Path("runs/serrano2019"))
    parser.add_argument("--only", nargs="+", choices=CORPORA, default=list(CORPORA), metavar="CORPUS")
    parser.add_argument("--done", action="store_true", help="tables of the runs that are finished; train nothing")
    options = parser.parse_args()
    made = tables(list(finished(options)))
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    write_text(PAGE, f"{before}{BEGIN}\n\n{made}\n\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()

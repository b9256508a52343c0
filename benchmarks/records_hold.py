"""Do the records of the papers' tables still hold? One short run of each kind, then and now.

    python -m benchmarks.records_hold --data-dir DIR --vectors FILE [--only TEXT]

The records in docs/research/records were made at different commits, on different machines, in many hours.
The command of a record, with less data and fewer epochs, runs under the record's commit and under
this one, on one machine, and every number of both summaries is compared to the last bit. Print a
Markdown table, in which numbers that differ by rounding, of float32 in another order of operations,
are counted separately.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from benchmarks.output import print_header, print_row
from benchmarks.same_numbers import run_with

ROUNDING = 1e-6  # relative, for values above 1
ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "docs" / "research" / "records"
# Settings of each kind of command that leave minutes; an audit trains nothing.
SHORT = {
    "reproduce": {"training.epochs": "2"},
    "run": {"training.epochs": "1"},
    "uniform": {"training.epochs": "2", "uniform.seeds": "2"},
    "seeds": {"training.epochs": "2", "seeds.seeds": "2"},
    "guide": {"training.epochs": "2", "guide.seeds": "1", "guide.epochs": "2"},
    "adversary": {
        "training.epochs": "2",
        "adversary.strengths": "0.001,0.1",
        "adversary.controls": "1",
        "adversary.epochs": "2",
    },
    "deceive": {"training.epochs": "2", "deceive.seeds": "1", "deceive.strengths": "0,1"},
    "dynamics": {"dynamics.seeds": "2", "dynamics.steps": "0,5,20", "dynamics.probe": "10"},
    "copying": {"copying.seeds": "2", "copying.steps": "60", "copying.every": "30"},
    "audit": {},
}
AVERAGE = ("--model", "average", "--attention", "additive", "--seeds", "1")


class Probe(NamedTuple):
    """A record by its path below docs/research/records, and what makes its command shorter."""

    record: str
    settings: Mapping[str, str] = {}
    options: tuple[str, ...] = ()


def _kept(train: str, test: str = "1.0") -> dict[str, str]:
    return {"corpus.train_kept": train, "corpus.test_kept": test}


# Each kind of command once for each commit that made records of it.
PROBES = (
    Probe("jain2019/20news_sports", options=AVERAGE),
    Probe("jain2019/babi1", options=AVERAGE),
    Probe("jain2019/snli", _kept("0.1", "0.05"), AVERAGE),
    Probe("jain2019/babi2", _kept("0.2", "0.2"), AVERAGE),
    Probe("jain2019/babi3", _kept("0.2", "0.1"), AVERAGE),
    Probe("serrano2019/20news_sports-flan-bigru-additive"),
    Probe("serrano2019/20news_sports-han-cnn-additive"),
    Probe("serrano2019/ag_news-flan-cnn-additive", _kept("0.1", "0.1")),
    Probe("serrano2019/amazon-flan-bigru-additive", _kept("0.1", "0.1")),
    Probe("serrano2019/amazon-flan-cnn-additive", _kept("0.1", "0.1")),
    Probe("serrano2019/imdb-flan-bigru-additive", _kept("0.02", "0.01")),
    Probe("wiegreffe2019/20news_sports-uniform"),
    Probe("wiegreffe2019/20news_sports-seeds"),
    Probe("wiegreffe2019/20news_sports-guide"),
    Probe("wiegreffe2019/20news_sports-adversary"),
    Probe("wiegreffe2019/ag_news-seeds", _kept("0.02", "0.1")),
    Probe("wiegreffe2019/imdb-guide", _kept("0.02", "0.01")),
    Probe(
        "wiegreffe2019/sst-uniform-small-bert",
        {**_kept("0.02", "0.1"), "training.epochs": "1", "collect.sample": "60"},
    ),
    Probe("pruthi2020/deceptive_pronoun-deceive", _kept("0.2", "0.2")),
    Probe(
        "pruthi2020/deceptive_pronoun-deceive-small-bert",
        {**_kept("0.05"), "collect.sample": "60"},
    ),
    Probe("pruthi2020/deceptive_en_de-deceive", {**_kept("0.005", "0.1"), "training.epochs": "1"}),
    Probe("pruthi2020/planted-copy-deceive", {"corpus.size": "400"}),
    Probe("snell2021/20news_sports-dynamics"),
    Probe("snell2021/ag_news-dynamics", _kept("0.05", "0.1")),
    Probe("snell2021/imdb-dynamics", _kept("0.02", "0.01")),
    Probe("snell2021/permutations-copying"),
    Probe("transformers/planted-s0", {"corpus.size": "300"}),
)


KEY = ("folder", "experiment", "measure", "group")
ENDS = ("low", "high")
COLUMNS = (
    *("record", "its commit", "numbers", "only then", "other values", "by rounding"),
    *("other intervals", "moved by, of their width", "only one has an interval"),
)


def commands(probe: Probe, command: str, named: Mapping[str, str], out: Path) -> list[list[str]]:
    """Return the commands of a record, shorter, each with its folder in ``out``."""
    found = []
    for number, text in enumerate(command.split("; ")):
        places = {**named, "MODEL": str(out / "0"), "RUN/model": str(out / "0" / "model")}
        words = [places.get(word, word) for word in shlex.split(text)[1:]]
        parser = argparse.ArgumentParser(allow_abbrev=False)
        parser.add_argument("--set", action="append", default=[])
        parser.add_argument("--out")
        parser.add_argument("--full", action="store_true")
        given, rest = parser.parse_known_args(words)
        kind = rest[1] if rest[0] == "study" else rest[0]
        # Earlier revisions trained and audited transformers by `hf`.
        kind = ("run" if rest[1] == "train" else "audit") if kind == "hf" else kind
        settings = dict(setting.split("=", 1) for setting in given.set)
        settings |= {**SHORT[kind], **probe.settings}
        asked = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        found.append([*rest, *probe.options, *asked, "--out", str(out / str(number))])
    return found


def summaries(folder: Path) -> pl.DataFrame:
    """Read every row of every summary in a folder."""
    rows = [
        {"folder": str(path.parent.relative_to(folder)), **row}
        for path in sorted(folder.rglob("summary.json"))
        if ".unfinished" not in path.parts
        for row in json.loads(path.read_text(encoding="utf-8"))
    ]
    columns: dict[str, Any] = dict.fromkeys(KEY, pl.String)
    columns |= dict.fromkeys(("value", "n", *ENDS), pl.Float64)
    return pl.DataFrame(rows, schema=columns, infer_schema_length=None)


def compared(then: pl.DataFrame, now: pl.DataFrame) -> list[str]:
    """Return the cells of a row: what differs between two summaries."""
    both = then.join(now, on=KEY, suffix="_now", nulls_equal=True)
    value, other = pl.col("value"), pl.col("value_now")
    apart = (value - other).abs() / pl.max_horizontal(1.0, value.abs(), other.abs())
    one_alone = value.is_null() != other.is_null()
    changed = one_alone | (pl.col("n") != pl.col("n_now"))
    shift = pl.max_horizontal((pl.col(end) - pl.col(f"{end}_now")).abs() for end in ENDS)
    found = both.select(
        "measure",
        apart=pl.when(changed).then(float("inf")).otherwise(apart).fill_null(0.0),
        lost=pl.any_horizontal(pl.col(e).is_null() != pl.col(f"{e}_now").is_null() for e in ENDS),
        moved=(shift / (pl.col("high") - pl.col("low"))).fill_nan(0.0).fill_null(0.0),
    )

    def names(chosen: pl.Expr) -> str:
        return ", ".join(found.filter(chosen)["measure"].unique().sort())

    no_width = pl.col("lost") | pl.col("moved").is_infinite()
    moved = found.filter(~no_width, pl.col("moved") > 0.0)["moved"]
    rounded = found.filter(pl.col("apart").is_between(0.0, ROUNDING, closed="right")).height
    return [
        *(f"{both.height}", f"{then.height - both.height}", names(pl.col("apart") > ROUNDING)),
        *(f"{rounded}", f"{len(moved)}", f"{moved.max() or 0.0:.2g}", names(no_width)),
    ]


def git(*arguments: str) -> str:
    """Run git in this checkout and return what it prints."""
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def spelled_then(record: str, commit: str) -> str:
    """Return the command of a record as its commit spells it, which later ones may spell anew."""
    path = f"docs/research/records/{record}.json"
    versions = git("log", "--reverse", "--format=%H", "--", path).split()
    found = (json.loads(git("show", f"{version}:{path}")) for version in versions)
    return next(one["command"] for one in found if one["commit"] == commit)


def probe_row(probe: Probe, named: Mapping[str, str]) -> list[str]:
    """Run the commands of a probe under both commits and compare them."""
    now = json.loads((RECORDS / f"{probe.record}.json").read_text(encoding="utf-8"))
    commit = now["commit"]
    with tempfile.TemporaryDirectory() as name:
        folder, source = Path(name), Path(name, "source")
        git("worktree", "add", "--quiet", "--detach", str(source), commit)
        try:
            texts = [path.read_text() for path in (source / "src/attnaudit/cli").glob("*.py")]
            encoder = any('"--encoder"' in text for text in texts)
            options = ["--encoder" if encoder and o == "--model" else o for o in probe.options]
            then = probe._replace(options=tuple(options))
            for side, asked, checkout, command in (
                ("then", then, source, spelled_then(probe.record, commit)),
                ("now", probe, ROOT, now["command"]),
            ):
                for words in commands(asked, command, named, folder / side):
                    if error := run_with(checkout, ["-m", "attnaudit", *words]):
                        failed = f"failed {side}: {error.splitlines()[-1]}"
                        return [probe.record, commit, failed, *[""] * 6]
        finally:
            git("worktree", "remove", "--force", str(source))
        cells = compared(summaries(folder / "then"), summaries(folder / "now"))
    return [probe.record, commit, *cells]


def main() -> None:
    """Print a row for each probe."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", required=True, type=Path)
    parser.add_argument("--vectors", required=True, type=Path)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    named = {"DATA": str(given.data_dir.resolve()), "VECTORS": str(given.vectors.resolve())}
    print_header(COLUMNS)
    for probe in PROBES:
        if given.only in probe.record:
            print_row(probe_row(probe, named))


if __name__ == "__main__":
    main()

"""Run all benchmarks: print their tables and put them into docs/research/benchmarks.md.

    python -m benchmarks --data-dir DIR --vectors FILE [--keep DIR] [--only PART…]

``DIR`` holds the folders of sst, imdb, 20news_sports, trec6, ag_news, snli, bAbI and cnn, ``FILE``
word vectors in the text format of GloVe. Run it on a machine that does nothing else. What a part
prints takes the place of its tables on the page, with the commit that was measured; everything else
on the page stays, such as text and tables of other runs. The runs that some parts measure are kept
in a folder.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from attnaudit.core.files import read_json, write_text
from attnaudit.recipes.reproduction.records import commit
from benchmarks.cost import cost_of_attnaudit

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "research" / "benchmarks.md"
SIGNATURE = r"`python -m benchmarks --only {}`[,;] (?:recorded in )?commit [0-9a-f]+(?:-changed)?\."
_TABLE = re.compile(r"(?:^\|.*(?:\n|\Z))+", re.MULTILINE)

CORPORA = ("sst", "imdb")
RUNS, RUNS_TITLE = "runs", "`attnaudit run sst` and `imdb`"
STEPS = ("train", "collect", "audit", "report")
DATA, VECTORS = "--data-dir {data}", "--vectors {vectors}"
PARTS = (
    ("Targets and results", "targets.py", f"{{sst}} --imdb {{imdb}} {DATA}"),
    ("The battery on SST test", "battery.py", "{sst}"),
    ("The first audit of a machine", "first_audit.py", ""),
    ("A site of 50 runs in a browser", "site.py", ""),
    ("Other attention of a transformer", "transformer_replay.py", ""),
    ("A transformer from nothing to the report", "transformer_path.py", DATA),
    ("The audit of a model of the size of BERT-base", "bert_base.py", DATA),
    ("Exact adversary against the paper's search", "adversary.py", "{sst}"),
    ("Possible and necessary weights", "ranges.py", "{sst}"),
    ("Every experiment at three lengths", "lengths.py", ""),
    ("Growth of cost", "growth.py", ""),
    ("CPU and GPU", "devices.py", ""),
    ("An audit of a million instances", "streaming.py", ""),
    ("Removals on traces of the size of IMDB", "erasure.py", ""),
    ("The adversary beyond two classes", "bounds.py", DATA),
    ("Reading a corpus", "preparing.py", f"{DATA} {VECTORS}"),
    ("Training", "training.py", DATA),
    ("The copying task, a step of one seed", "copying.py", ""),
    ("Quality on SST, three seeds", "quality.py", f"{DATA} {VECTORS}"),
    (
        "What more training rows give",
        "training_size.py",
        f"snli/bilstm ag_news/average ag_news/cnn ag_news/bilstm {DATA} {VECTORS}",
    ),
)
"""Title of the section, script and arguments of every part."""


def whole_runs(data: str, vectors: str, keep: Path) -> str:
    """Run a user's command on both corpora; return a table of its steps."""
    steps = (f"{name} (s)" for name in STEPS)
    columns = ("corpus", "test instances", "whole command (s)", *steps, "peak memory (GiB)")
    rows = [columns, ("---",) * len(columns)]
    for corpus in CORPORA:
        shutil.rmtree(keep / corpus, ignore_errors=True)
        options = ["--data-dir", data, "--vectors", vectors, "--set", "corpus.test_kept=1"]
        cost = cost_of_attnaudit(["run", corpus, *options, "--out", str(keep / corpus)])
        manifest = read_json(keep / corpus / "manifest.json")
        test, memory = manifest["corpus"]["rows"]["test"], manifest["peak_memory_bytes"] / 2**30
        seconds = (f"{manifest['timings'][name]:.1f}" for name in STEPS)
        rows.append((corpus, f"{test:,}", f"{cost.wall:.1f}", *seconds, f"{memory:.2f}"))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def output_of(script: str, arguments: str, paths: dict[str, str]) -> str:
    """Return what a benchmark prints."""
    # As the command line sets it: idle threads of OpenMP keep the cores busy.
    environment = {**os.environ, "GOMP_SPINCOUNT": "20000"}
    given = [argument.format(**paths) for argument in arguments.split()]
    command = [sys.executable, "-m", f"benchmarks.{Path(script).stem}", *given]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    )
    return done.stdout.strip()


def signed(name: str, table: str) -> str:
    """Return what a part printed, with its signature."""
    return f"{table}\n\n{_signature(name)}"


def _signature(name: str) -> str:
    return f"`python -m benchmarks --only {name}`, commit {commit()}."


def merged(page: str, name: str, title: str, table: str) -> str:
    """Replace the tables of a part on the page by ``table``.

    These are the first above its signature, as many as ``table`` has. Without a signature the table
    goes to the end of its section, and a missing section to the end of the page.
    """
    start = page.find(f"\n## {title}\n")
    if start < 0:
        return f"{page.rstrip()}\n\n## {title}\n\n{signed(name, table)}\n"
    end = following if (following := page.find("\n## ", start + 1)) >= 0 else len(page)
    signature = re.compile(SIGNATURE.format(re.escape(name))).search(page, start, end)
    if signature is None:
        return f"{page[:end].rstrip()}\n\n{signed(name, table)}\n{page[end:]}"
    earlier = list(_TABLE.finditer(page, start, signature.start()))[: len(_TABLE.findall(table))]
    first, last = (
        (earlier[0].start(), earlier[-1].end())
        if earlier
        else (signature.start(), signature.start())
    )
    kept = f"{page[last : signature.start()]}{_signature(name)}{page[signature.end() :]}"
    return f"{page[:first]}{table.strip()}\n{kept}"


def main() -> None:
    """Measure the parts asked for, one after another."""
    names = [RUNS, *(Path(script).stem for _, script, _ in PARTS)]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--vectors", required=True)
    parser.add_argument("--keep", type=Path, default=ROOT / "runs" / "benchmarks")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="PART")
    options = parser.parse_args()
    # Scripts run in the root of the checkout.
    data, vectors, keep = (
        str(Path(path).resolve()) for path in (options.data_dir, options.vectors, options.keep)
    )
    paths = {name: f"{keep}/{name}" for name in CORPORA} | {"data": data, "vectors": vectors}
    parts = [(RUNS, RUNS_TITLE, "")] + [
        (Path(script).stem, f"{title} (`benchmarks/{script}`)", arguments)
        for title, script, arguments in PARTS
    ]
    for name, title, arguments in parts:
        if name in options.only:
            table = (
                whole_runs(data, vectors, Path(keep))
                if name == RUNS
                else output_of(name, arguments, paths)
            )
            print(f"## {name}\n\n{signed(name, table)}\n", flush=True)
            write_text(PAGE, merged(PAGE.read_text(encoding="utf-8"), name, title, table))


if __name__ == "__main__":
    main()

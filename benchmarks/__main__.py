"""All benchmarks in one command: prints their tables and puts them into docs/benchmarks.md.

    python -m benchmarks --data-dir DIR --vectors FILE [--keep DIR] [--only PART...]

``DIR`` holds the folders of sst, imdb, 20news_sports, trec6, ag_news, snli, bAbI and cnn, ``FILE`` word vectors in the text format of
GloVe. Run it on a machine that does nothing else: a second process that wants the cores spoils every figure. What a part prints takes the
place of its tables on the page, with the commit that was measured; all else on the page stays, as text and tables of other runs. With
``--only`` the parts named are measured. The runs that some parts measure are kept in a folder.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from attnaudit.core.files import read_json, write_text
from attnaudit.recipes.reproduction.records import commit

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
PLOT = PAGE.with_name("growth.svg")
SIGNATURE = r"`python -m benchmarks --only {}`[,;] (?:recorded in )?commit [0-9a-f]+(?:-changed)?\."
_TABLE = re.compile(r"(?:^\|.*(?:\n|\Z))+", re.MULTILINE)

CORPORA = ("sst", "imdb")
RUNS = "runs"
RUNS_TEXT = "BiLSTM, additive attention, 8 epochs, all of test, all experiments, the report. The first command compiles kernels."
STEPS = ("train", "collect", "audit", "report")
PARTS = (
    (
        "Targets and results", "targets.py",
        "The trained models of the two runs above, measured again with compiled kernels. *plain way*: a direct implementation of the "
        "papers' pseudo-code, in this run, so *plain / ours* is the ratio to quote. *authors' code, reported*: seconds of their released "
        "code on another machine, reported to us and not measured here; what was expected is stated against these.",
        ("{sst}", "--imdb", "{imdb}", "--data-dir", "{data}"),
    ),
    ("The battery on SST test", "battery.py", "Time of every experiment compared with the plain way, on the run above.", ("{sst}",)),
    (
        "The first audit of a machine", "first_audit.py",
        "The command `attnaudit audit` on generated traces of 20 rows, with no compiled code kept, and once more into "
        "another folder.",
        (),
    ),
    (
        "A site of 50 runs in a browser", "site.py",
        "Synthetic runs made by the script, in Chromium, a page opened from disk. Expected: first paint under 1 s, a filter under 100 ms.",
        (),
    ),
    (
        "Other attention of a transformer", "transformer_replay.py",
        "Models of the sizes of BERT-base and GPT-2 small with random weights, other attention of all heads of a layer at one query: "
        "a batched pass of the whole model, the stored graph, and replays, all in this run.",
        (),
    ),
    (
        "A transformer from nothing to the report", "transformer_path.py",
        "`attnaudit hf train sst` and `attnaudit hf MODEL sst`: small-bert (4 layers × 4 heads × 128), 500 texts of test, the last layer, "
        "all experiments, the report.",
        ("--data-dir", "{data}"),
    ),
    (
        "The audit of a model of the size of BERT-base", "bert_base.py",
        "`attnaudit hf MODEL_DIR sst`: all heads of the last layer, 500 sentences of SST test, all experiments, report; random weights.",
        ("--data-dir", "{data}"),
    ),
    (
        "Exact adversary against the paper's search", "adversary.py",
        "The plain way is the paper's 500-step Adam search in torch, with context vectors rebuilt in every step, on the same trace. "
        "*least exact − plain* is the smallest difference over all instances: a value above −1e-6 means never worse.",
        ("{sst}",),
    ),
    (
        "Possible and necessary weights", "ranges.py",
        "The plain way is a minimum and a maximum for every token by `scipy.optimize.linprog`. *largest difference* is over all tokens of "
        "all instances. Of several outputs, on generated traces, the weights of attentions that were read out and the bounds that none "
        "exceeds.",
        ("{sst}",),
    ),
    (
        "Every experiment at five lengths", "lengths.py",
        "Time and working memory per instance of T tokens: ours, the plain way (a direct implementation of the papers' pseudo-code), "
        "and Captum or scipy (*other*), on generated texts and models of the papers' sizes. Each side runs in a separate process with "
        "the same allocator settings. A dash: the side does not exist, or exceeds the time limit. Memory is for all the instances that "
        "a side processes at a time. *difference* is the largest absolute difference on the same instances; for the adversary, whose "
        "plain way is a search, the smallest value of ours minus theirs. For removals, ours also finds the smallest set or the exact "
        "bounds.",
        (),
    ),
    (
        "Growth of cost", "growth.py",
        "Exponents of T, fitted over the upper half of the lengths.\n\n![Time of an instance against its tokens](growth.svg)",
        ("--plot", "{plot}", "--runs", "{sst}"),
    ),
    ("CPU and GPU", "devices.py", "", ()),
    (
        "An audit of a million instances", "streaming.py",
        "Generated traces, audited from files: all experiments that need no rationale, and the report. Memory that grows with the "
        "corpus is one number per instance and each of the 16 measures whose intervals are resampled together.",
        (),
    ),
    (
        "Removals on traces of the size of IMDB", "erasure.py",
        "Generated traces. The plain way sets weights to zero, renormalises and reads out step by step, eight orders per instance; "
        "timed on a hundred instances and extrapolated to all.",
        (),
    ),
    (
        "The adversary beyond two classes", "bounds.py",
        "Default models. *certified*: the value found and the bound agree to 1e-3; *least found − relaxed* is over the rows of "
        "the search, which has a seed of its own: below 0, it found what ours missed.",
        ("--data-dir", "{data}"),
    ),
    (
        "Reading a corpus", "preparing.py",
        "All splits are read, filtered and counted, and the word vectors are looked up; *nothing* is the interpreter with the library.",
        ("--data-dir", "{data}", "--vectors", "{vectors}"),
    ),
    ("Training", "training.py", "", ("--data-dir", "{data}")),
    (
        "The copying task, a step of one seed", "copying.py",
        "The model and batches of `attnaudit study copying permutations --set copying.preset=tied`. *In turn*: one seed after another, with "
        "all threads in each operation.",
        (),
    ),
    ("Quality on SST, three seeds", "quality.py", "", ("--data-dir", "{data}", "--vectors", "{vectors}")),
    (
        "What more training rows give", "training_size.py",
        "Additive attention, one seed; *unseen test words* are not in the vocabulary of these rows. The published models trained on "
        "550,000 pairs (SNLI) and 60,000 texts with dev (AG News).",
        (
            "snli/bilstm", "ag_news/average", "ag_news/cnn", "ag_news/bilstm", "--data-dir", "{data}", "--vectors", "{vectors}",
        ),
    ),
)  # fmt: skip


def whole_run(corpus: str, data: str, vectors: str, out: str) -> str:
    """The command a user gives, from nothing to the report, as one row of its steps."""
    program = str(Path(sys.executable).with_name("attnaudit"))
    begun = time.perf_counter()
    command = [
        program,
        "run",
        corpus,
        "--data-dir",
        data,
        "--vectors",
        vectors,
        "--set",
        "corpus.test_kept=1",
        "--out",
        out,
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - begun
    manifest = read_json(Path(out) / "manifest.json")
    steps = " | ".join(f"{manifest['timings'][name]:.1f}" for name in STEPS)
    memory = manifest["peak_memory_bytes"] / 2**30
    return f"| {corpus} | {manifest['corpus']['rows']['test']:,} | {seconds:.1f} | {steps} | {memory:.2f} |"


def script(name: str, arguments: list[str]) -> str:
    """What a benchmark prints."""
    environment = {**os.environ, "GOMP_SPINCOUNT": "20000"}
    done = subprocess.run(
        [sys.executable, str(HERE / name), *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    return done.stdout.strip()


def signed(name: str, table: str) -> str:
    """What a part printed, with its signature."""
    return f"{table}\n\n{_named(name)}"


def _named(name: str) -> str:
    """The command that measures a part again, and the commit of the source, ``…-changed`` where that was changed."""
    return f"`python -m benchmarks --only {name}`, commit {commit()}."


def runs_of(options: argparse.Namespace, kept: Path) -> str:
    """Run the command on both corpora anew, into the folder of what is kept."""
    columns = (
        "corpus",
        "test instances",
        "whole command (s)",
        *(f"{name} (s)" for name in STEPS),
        "peak memory (GiB)",
    )
    table = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    for corpus in CORPORA:
        shutil.rmtree(kept / corpus, ignore_errors=True)
        table.append(whole_run(corpus, options.data_dir, options.vectors, str(kept / corpus)))
    return "\n".join(table)


def main() -> None:
    names = [RUNS, *(Path(name).stem for _, name, _, _ in PARTS)]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--vectors", required=True)
    parser.add_argument(
        "--keep",
        type=Path,
        default=HERE.parent / "runs" / "benchmarks",
        help="runs/benchmarks by default",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=names,
        default=names,
        metavar="PART",
        help=f"of {', '.join(names)}",
    )
    options = parser.parse_args()
    paths = {corpus: str(options.keep / corpus) for corpus in CORPORA}
    paths |= {"data": options.data_dir, "vectors": options.vectors, "plot": str(PLOT)}

    def put(name: str, title: str, text: str, measure: Callable[[], str]) -> None:
        if name in options.only:
            table = measure()
            print(f"## {name}\n\n{signed(name, table)}\n", flush=True)
            write_text(
                PAGE,
                merged(
                    PAGE.read_text(encoding="utf-8"), name, f"{title}\n\n{text}".rstrip(), table
                ),
            )

    put(RUNS, "`attnaudit run sst` and `imdb`", RUNS_TEXT, lambda: runs_of(options, options.keep))
    for title, name, text, arguments in PARTS:
        filled = [argument.format(**paths) for argument in arguments]
        put(
            Path(name).stem,
            f"{title} (`benchmarks/{name}`)",
            text,
            lambda name=name, filled=filled: script(name, filled),
        )


def merged(page: str, name: str, section: str, table: str) -> str:
    """The page with ``table``, what the part ``name`` printed, in place of its tables of before; all else stays.

    These are the first above its signature, as many as ``table`` has. Where there is no signature the table goes to the end of its section;
    a page without one gets the ``section``, a title and a text.
    """
    title = section.partition("\n")[0]
    start = page.find(f"\n## {title}\n")
    if start < 0:
        return f"{page.rstrip()}\n\n## {section}\n\n{signed(name, table)}\n"
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
    return f"{page[:first]}{table.strip()}\n{page[last : signature.start()]}{_named(name)}{page[signature.end() :]}"


if __name__ == "__main__":
    main()

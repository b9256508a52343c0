"""The four open questions on every corpus at hand: what is trained, and a record of each finished study.

``python -m benchmarks.questions DIR`` does the studies below that have no record yet, one after the other, and resumes; with
``1/2`` and ``2/2`` two processes share them. Each record is ``docs/research/records/questions/<study>-<corpus>.json``, written when
its study ends. The cells were fixed before the first of them was run. Later, as all studies together have ten hours, the slow
corpora were halved and their texts cut to 100 words; no result of theirs had been seen. Word vectors are the GloVe vectors of the
data folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from attnaudit.core import write_json
from attnaudit.corpora import CORPORA
from attnaudit.corpora.read import read_corpus
from attnaudit.plans.spec import RunSpec
from attnaudit.recipes.studies import study
from attnaudit.results import read_summary
from attnaudit.studies import EVERY_STUDY

RECORDS = Path(__file__).parents[1] / "docs" / "research" / "records" / "questions"
ROWS, SLOW_ROWS, TEST = 5000, 2500, 1000  # of train, of train of the slow corpora, of test
# Ten seeds where a training takes under a minute on one core, else five.
FAST = ("sst", "ag_news", "subj", "mr", "trec6", "sms_spam", "deceptive_pronoun")
SLOW = ("ag_news4", "imdb", "20news_sports", "yelp", "yahoo", "amazon", "movies_rationales")
# Tasks whose need is known: a majority of n words needs no attention, one word of n little, a copy all.
PLANTED = {
    "majority": ("planted-prior", {"corpus.planted": "majority"}),
    "decisive": ("planted-decisive", {"corpus.size": 4000, "corpus.length": (10, 40)}),
    "decisive-long": ("planted-decisive", {"corpus.size": 4000, "corpus.length": (100, 200)}),
    "copy": ("planted-copy", {"corpus.size": 4000}),
}
STUDIES = {
    "need": (*PLANTED, *FAST, *SLOW),
    "transfer": ("sst", "ag_news", "imdb", "20news_sports", "subj"),
    "encoder": ("sst", "ag_news", "imdb", "20news_sports", "yelp"),
    "complexity": ("sst", "ag_news", "imdb", "ag_news4"),
}
MODEL = {"model.hidden": 64, "collect.scores": ()}


def cells(part: str = "1/1") -> list[tuple[str, str]]:
    """Return the cells of a part, each a study and a corpus. The studies of a corpus share trainings."""
    number, parts = map(int, part.split("/"))
    mine = {one for group in (PLANTED, FAST, SLOW) for one in tuple(group)[number - 1 :: parts]}
    return [(name, one) for name, corpora in STUDIES.items() for one in corpora if one in mine]


def options(name: str, corpus: str) -> tuple[str, dict[str, Any]]:
    """Return the corpus and the settings of a cell."""
    source, own = PLANTED.get(corpus, (corpus, {}))
    settings = {**own, f"{name}.seeds": 5 if corpus in SLOW or name == "complexity" else 10}
    if corpus == "copy":
        return source, settings
    settings |= MODEL
    if name == "complexity":
        settings["complexity.hidden"] = (16, 128)  # a training of 256 takes five minutes
    if name == "complexity" and corpus == "ag_news4":
        settings["complexity.texts"] = 30  # a linear program for each pair of its classes
    if source in CORPORA:
        if corpus in SLOW:
            settings["corpus.max_tokens"] = 100
        sizes = {
            part: len(split)
            for part, split in read_corpus(RunSpec.of(source).corpus).splits.items()
        }
        for part, most in (("train", SLOW_ROWS if corpus in SLOW else ROWS), ("test", TEST)):
            if sizes[part] > most:
                settings[f"corpus.{part}_kept"] = round(most / sizes[part], 3)
    return source, settings


def run(place: Path, part: str = "1/1") -> None:
    """Do the studies of one part of all cells that have no record."""
    vectors = next(Path(os.environ["ATTNAUDIT_DATA"], "glove").glob("*.txt.gz"))
    for name, corpus in cells(part):
        record = RECORDS / f"{name}-{corpus}.json"
        if record.exists():
            continue
        source, settings = options(name, corpus)
        given: dict[str, Any] = {} if corpus == "copy" else {"vectors": str(vectors)}
        start = time.monotonic()
        try:
            folder = study(
                name, source, place / corpus, say=print, full=True, settings=settings, **given
            )
        except Exception as error:  # noqa: BLE001 - the next cell may work
            print(f"{name} {corpus}: {error!r}", flush=True)
            continue
        write_json(record, record_of(name, source, settings, folder, time.monotonic() - start))
        print(f"{name} {corpus}: {time.monotonic() - start:.0f} s", flush=True)


def record_of(
    name: str, source: str, settings: dict[str, Any], folder: Path, seconds: float
) -> dict[str, Any]:
    """Return what a record holds."""
    shown = [
        f"--set {key}={','.join(map(str, one)) if isinstance(one, tuple) else one}"
        for key, one in settings.items()
    ]
    summary = read_summary(folder / "summary.json")
    commit = subprocess.run(["git", "rev-parse", "--short=9", "HEAD"], capture_output=True, text=True, check=True)  # fmt: skip
    outcomes = {one.claim: one.outcome(summary) for one in EVERY_STUDY[name].hypotheses}
    return {
        "command": f"attnaudit study {name} {source} --full --data-dir DATA --vectors VECTORS {' '.join(shown)}",
        "commit": commit.stdout.strip(),
        "seconds": round(seconds),
        "outcomes": outcomes,
        "summary": summary.to_dicts(),
    }


if __name__ == "__main__":
    run(Path(sys.argv[1]), *sys.argv[2:])

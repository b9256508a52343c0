"""The Stanford Natural Language Inference corpus: does a premise entail a hypothesis, contradict it, or neither?"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from attnaudit.corpora.formats.jsonl import jsonl_rows
from attnaudit.corpora.formats.layouts import Layout, Sources, any_layout, renamed_source, split_files, tables
from attnaudit.corpora.formats.rows import Columns
from attnaudit.corpora.named.registered import Registered, always

RELATIONS = ("contradiction", "entailment", "neutral")
RELATION_CLASSES = {name: str(number) for number, name in enumerate(RELATIONS)}
INFERENCE_SETTINGS = {"training.epochs": 25, "training.batch_size": 128}


def _upstream() -> Layout:
    rows = partial(jsonl_rows, columns=Columns("sentence1", "gold_label", question="sentence2"))
    plain = split_files({split: (f"snli_1.0_{split}.jsonl*",) for split in ("train", "dev", "test")}, rows, ("train", "dev", "test"))

    def layout(folder: Path) -> Sources:
        return {split: renamed_source(source, RELATION_CLASSES, {"-": "without a gold label"}) for split, source in plain(folder).items()}

    return layout


SNLI = Registered(
    name="snli",
    title="the Stanford Natural Language Inference corpus",
    citation="Bowman et al. 2015",
    bibtex="""@inproceedings{bowman2015large,
  title = {A Large Annotated Corpus for Learning Natural Language Inference},
  author = {Bowman, Samuel R. and Angeli, Gabor and Potts, Christopher and Manning, Christopher D.},
  booktitle = {Proceedings of EMNLP},
  year = {2015}
}""",
    licence="CC BY-SA 4.0",
    class_names=RELATIONS,
    sources=any_layout(
        _upstream(),
        tables(Columns("premise", "label", question="hypothesis"), RELATION_CLASSES, {"-": "without a gold label"}),
        expected="snli_1.0_train.jsonl, snli_1.0_dev.jsonl and snli_1.0_test.jsonl, or train, dev and test with premise, hypothesis, label",
        within=("snli_1.0",),
    ),
    task="inference",
    homepage="https://nlp.stanford.edu/projects/snli/",
    folders=("snli", "snli_1.0"),
    min_df=3,
    settings=always(INFERENCE_SETTINGS),
    expected={"paper": {"train": (183187, 183416, 182764), "dev": (3278, 3329, 3235), "test": (3237, 3368, 3219)}},
    differs=("classes are sorted by name; the paper's order is neutral, contradiction, entailment",),
)

"""Sentences, alone or in pairs of premise and hypothesis.

Alone: the trees of the Stanford Sentiment Treebank, SMS spam, questions of TREC, sentences of Pang & Lee. In pairs: SNLI and SICK.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from attnaudit.core.numbers import count
from attnaudit.core.papers import Paper
from attnaudit.corpora.corpus import SPLITS
from attnaudit.corpora.entry import Bounds, CorpusEntry, Download, always
from attnaudit.corpora.formats.layouts import (
    any_layout,
    class_files,
    one_file,
    renamed,
    split_files,
    tables,
)
from attnaudit.corpora.formats.lines import filled_lines, numbered_lines
from attnaudit.corpora.formats.rows import Columns, Row
from attnaudit.corpora.formats.tables import header_indices, jsonl_rows, table_rows, tsv_records

_PIECE = re.compile(
    r"[()]|[^() \t\r\n]+"
)  # other white space, such as a no-break space, may be inside a word
_LABELS = frozenset("01234")


class BadTree(ValueError):
    """A line that is no tree; the message says what was found."""


def read_tree(line: str) -> tuple[str, list[str]]:
    """The label of the root and the words at the leaves, from left to right. Raises BadTree."""
    words: list[str] = []
    open_nodes: list[int] = []  # for each bracket still open, how many pieces it has had
    root, closed = "", False
    for piece in _PIECE.findall(line):
        if closed:
            raise BadTree(f"'{piece}' after the end of the tree")
        if piece == "(":
            _begin(open_nodes)
        elif piece == ")":
            _end(open_nodes)
            closed = not open_nodes
        elif not open_nodes:
            raise BadTree(f"'{piece}' before the first bracket")
        elif open_nodes[-1] == 0:
            if piece not in _LABELS:
                raise BadTree(f"label '{piece}' where 0 to 4 was expected")
            root = root or piece
            open_nodes[-1] = 1
        else:
            words.append(piece)
            open_nodes[-1] += 1
    if not closed:
        raise BadTree(f"a tree with {count(len(open_nodes), 'bracket')} not closed")
    return root, words


def _begin(open_nodes: list[int]) -> None:
    if open_nodes:
        if open_nodes[-1] == 0:
            raise BadTree("a bracket where a label from 0 to 4 was expected")
        open_nodes[-1] += 1
    open_nodes.append(0)


def _end(open_nodes: list[int]) -> None:
    if not open_nodes:
        raise BadTree("a closing bracket that nothing opened")
    if open_nodes.pop() < 2:
        raise BadTree("a node without a word")


_TWO = {"0": "0", "1": "0", "3": "1", "4": "1"}
_BRACKET = re.compile(r"-[lr]rb-", re.IGNORECASE)
_NO_WORD = re.compile(r"[\W_]+")


def clean(text: str) -> str:
    """Lower case, and one space for anything between letters and digits; the treebank's names of brackets go."""
    return _NO_WORD.sub(" ", _BRACKET.sub(" ", text.lower())).strip()


def tree_rows(path: Path, class_of: Mapping[str, str] = _TWO) -> Iterator[Row]:
    """A row for each tree, by default labels 0 and 1 as class 0, 3 and 4 as class 1; neutral trees are then excluded."""
    for row, number, line in filled_lines(path):
        try:
            label, words = read_tree(line)
        except BadTree as error:
            yield Row(row, number, problem=str(error))
        else:
            yield Row(
                row,
                number,
                " ".join(words),
                class_of.get(label),
                left_out="" if label in class_of else "neutral",
            )


_FILES = {split: (f"{split}.txt",) for split in SPLITS}
_EXPECTED = "the tree files train.txt, dev.txt and test.txt, or train.csv, dev.csv and test.csv"

SST = CorpusEntry(
    name="sst", title="the Stanford Sentiment Treebank", short="SST",
    licence="not stated by its authors; used for research", class_names=("negative", "positive"),
    paper=Paper(
        "socher2013",
        "Socher, Richard and Perelygin, Alex and Wu, Jean and Chuang, Jason and Manning, Christopher D. and Ng, Andrew "
        "and Potts, Christopher",
        "Recursive Deep Models for Semantic Compositionality Over a Sentiment Treebank", "Proceedings of EMNLP", 2013,
    ),
    sources=any_layout(split_files(_FILES, tree_rows, SPLITS), tables(), expected=_EXPECTED, within=("trees",)),
    homepage="https://nlp.stanford.edu/sentiment/",
    downloads=(
        Download(
            "https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip",
            "5c613a4f673fc74097d523a2c83f38e0cc462984d847b82c7aaf36b01cbbbfcc", 789_539,
        ),
    ),
    folders=("sst", "trees"),
    min_df=1, mask_digits=False, clean=clean, bounds={"paper": Bounds(more_than=5), "code2019": Bounds(more_than=5, below_longest=True)},
    expected={
        "paper": {"train": (3035, 3321), "dev": (397, 425), "test": (863, 863)},
        "code2019": {"train": (3034, 3321), "dev": (397, 424), "test": (863, 862)},
    },
)  # fmt: skip

SST5 = replace(
    SST, name="sst5", title="the Stanford Sentiment Treebank with five classes", short="",
    class_names=("very negative", "negative", "neutral", "positive", "very positive"),
    sources=any_layout(
        split_files(_FILES, partial(tree_rows, class_of={label: label for label in _LABELS}), SPLITS), tables(),
        expected=_EXPECTED, within=("trees",),
    ),
    folders=("sst5", "sst", "trees"),
    bounds={},
    expected={
        "paper": {"train": (1092, 2218, 1624, 2322, 1288), "dev": (139, 289, 229, 279, 165), "test": (279, 633, 389, 510, 399)},
    },
    differs=("not among the corpora of Jain & Wallace 2019; texts are cleaned as theirs of SST with two classes",),
)  # fmt: skip


def message_rows(path: Path) -> Iterator[Row]:
    """Rows of a file of lines ``ham <tab> message``, without header."""
    return renamed(_lines(path), {"ham": "0", "spam": "1"})


def _lines(path: Path) -> Iterator[Row]:
    for row, (number, line) in enumerate(numbered_lines(path)):
        label, tab, message = line.rstrip("\r\n").partition("\t")
        yield (
            Row(row, number, message, label)
            if tab
            else Row(row, number, problem="a line without a tab after its label")
        )


SMS_SPAM = CorpusEntry(
    name="sms_spam", title="the SMS Spam Collection",
    licence="CC BY 4.0", class_names=("ham", "spam"),
    paper=Paper(
        "almeida2011", "Almeida, Tiago A. and G{\\'o}mez Hidalgo, Jos{\\'e} Mar{\\'i}a and Yamakami, Akebo",
        "Contributions to the Study of {SMS} Spam Filtering: New Collection and Results",
        "Proceedings of the ACM Symposium on Document Engineering", 2011,
    ),
    sources=any_layout(split_files({"all": ("SMSSpamCollection*",)}, message_rows, ()), tables(), expected="SMSSpamCollection, or all.csv"),
    homepage="https://archive.ics.uci.edu/dataset/228/sms+spam+collection",
    downloads=(
        Download(
            "https://archive.ics.uci.edu/ml/machine-learning-databases/00228/smsspamcollection.zip",
            "1587ea43e58e82b14ff1f5425c88e17f8496bfcdb67a583dbff9eefaf9963ce3", 203_415,
        ),
    ),
    expected={"paper": {"train+dev+test": (4827, 747)}},
    differs=("not among the corpora of Jain & Wallace 2019; no published split",),
)  # fmt: skip


_CLASSES = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")


def question_rows(path: Path) -> Iterator[Row]:
    """Rows of a file of lines ``DESC:manner How did …``, in Latin-1; only the class before the colon counts."""
    for row, number, line in filled_lines(path, "latin-1"):
        label, _, question = line.strip().partition(" ")
        coarse = label.partition(":")[0]
        if coarse in _CLASSES:
            yield Row(row, number, question, str(_CLASSES.index(coarse)))
        else:
            yield Row(
                row,
                number,
                problem=f"class '{coarse[:20]}' where one of {', '.join(_CLASSES)} was expected",
            )


TREC6 = CorpusEntry(
    name="trec6", title="the questions of TREC by six kinds of answer",
    licence="not stated", class_names=("abbreviation", "description", "entity", "human", "location", "number"),
    paper=Paper("li2002", "Li, Xin and Roth, Dan", "Learning Question Classifiers", "Proceedings of COLING", 2002),
    sources=any_layout(
        split_files({"train": ("train_5500.label*",), "test": ("TREC_10.label*",)}, question_rows), tables(),
        expected="train_5500.label and TREC_10.label, or train.csv and test.csv",
    ),
    homepage="https://cogcomp.seas.upenn.edu/Data/QA/QC/",
    downloads=(
        Download(
            "https://cogcomp.seas.upenn.edu/Data/QA/QC/train_5500.label",
            "9e4c8bdcaffb96ed61041bd64b564183d52793a8e91d84fc3a8646885f466ec3", 335_858, "train_5500.label",
        ),
        Download(
            "https://cogcomp.seas.upenn.edu/Data/QA/QC/TREC_10.label",
            "033f22c028c2bbba9ca682f68ffe204dc1aa6e1cf35dd6207f2d4ca67f0d0e8e", 23_354, "TREC_10.label",
        ),
    ),
    folders=("trec6", "trec"),
    expected={"paper": {"train+dev": (86, 1162, 1250, 1223, 835, 896), "test": (9, 138, 94, 65, 81, 113)}},
    differs=("not among the corpora of Jain & Wallace 2019",),
)  # fmt: skip


def sentence_rows(path: Path, label: str, encoding: str) -> Iterator[Row]:
    """A row for each line that is not empty, all with one label."""
    return (
        Row(row, number, line.strip(), label) for row, number, line in filled_lines(path, encoding)
    )


MR = CorpusEntry(
    name="mr", title="the sentence polarity dataset of film reviews",
    licence="not stated", class_names=("negative", "positive"),
    paper=Paper(
        "pang2005", "Pang, Bo and Lee, Lillian",
        "Seeing Stars: Exploiting Class Relationships for Sentiment Categorization with Respect to Rating Scales",
        "Proceedings of ACL", 2005,
    ),
    sources=any_layout(
        class_files({"0": ("rt-polarity.neg",), "1": ("rt-polarity.pos",)}, partial(sentence_rows, encoding="cp1252")), tables(),
        expected="rt-polarity.neg and rt-polarity.pos, or all.csv", within=("rt-polaritydata",),
    ),
    homepage="http://www.cs.cornell.edu/people/pabo/movie-review-data/",
    downloads=(
        Download(
            "https://storage.googleapis.com/seldon-datasets/sentence_polarity_v1/rt-polaritydata.tar.gz",
            "a05befe52aafda71d458d188a1c54506a998b1308613ba76bbda2e5029409ce9", 487_770,
        ),
    ),
    folders=("mr", "rt-polaritydata"),
    expected={"paper": {"train+dev+test": (5331, 5331)}},
    differs=("not among the corpora of Jain & Wallace 2019; no published split; its sentences are those of SST",),
)  # fmt: skip

SUBJ = CorpusEntry(
    name="subj", title="the subjectivity dataset of film reviews and plots",
    licence="not stated", class_names=("objective", "subjective"),
    paper=Paper(
        "pang2004", "Pang, Bo and Lee, Lillian",
        "A Sentimental Education: Sentiment Analysis Using Subjectivity Summarization Based on Minimum Cuts", "Proceedings of ACL", 2004,
    ),
    sources=any_layout(
        class_files(
            {"0": ("plot.tok.gt9.5000", "subj.objective"), "1": ("quote.tok.gt9.5000", "subj.subjective")},
            partial(sentence_rows, encoding="latin-1"),
        ),
        tables(),
        expected="plot.tok.gt9.5000 and quote.tok.gt9.5000, or all.csv", within=("rotten_imdb",),
    ),
    homepage="http://www.cs.cornell.edu/people/pabo/movie-review-data/",
    downloads=(
        Download("http://www.cs.cornell.edu/people/pabo/movie-review-data/rotten_imdb.tar.gz"),
    ),
    folders=("subj", "rotten_imdb"),
    expected={"paper": {"train+dev+test": (5000, 5000)}},
    differs=("not among the corpora of Jain & Wallace 2019; no published split",),
)  # fmt: skip


RELATIONS = ("contradiction", "entailment", "neutral")
RELATION_CLASSES = {name: str(number) for number, name in enumerate(RELATIONS)}
INFERENCE_SETTINGS = {"training.epochs": 25, "training.batch_size": 128}


_NO_GOLD = {"-": "without a gold label"}


def snli_rows(path: Path) -> Iterator[Row]:
    """Rows of an original file; ``-`` stands for a pair whose annotators did not agree."""
    return renamed(
        jsonl_rows(path, Columns("sentence1", "gold_label", question="sentence2")),
        RELATION_CLASSES,
        _NO_GOLD,
    )


SNLI = CorpusEntry(
    name="snli", title="the Stanford Natural Language Inference corpus", short="SNLI",
    licence="CC BY-SA 4.0", class_names=RELATIONS,
    paper=Paper(
        "bowman2015", "Bowman, Samuel R. and Angeli, Gabor and Potts, Christopher and Manning, Christopher D.",
        "A Large Annotated Corpus for Learning Natural Language Inference", "Proceedings of EMNLP", 2015,
    ),
    task="inference",
    sources=any_layout(
        split_files({split: (f"snli_1.0_{split}.jsonl*",) for split in SPLITS}, snli_rows, SPLITS),
        tables(Columns("premise", "label", question="hypothesis"), RELATION_CLASSES, _NO_GOLD),
        expected="snli_1.0_train.jsonl, snli_1.0_dev.jsonl and snli_1.0_test.jsonl, or train, dev and test with premise, hypothesis, label",
        within=("snli_1.0",),
    ),
    homepage="https://nlp.stanford.edu/projects/snli/",
    downloads=(
        Download(
            "https://nlp.stanford.edu/projects/snli/snli_1.0.zip",
            "afb3d70a5af5d8de0d9d81e2637e0fb8c22d1235c2749d83125ca43dab0dbd3e", 94_550_081,
        ),
    ),
    folders=("snli", "snli_1.0"),
    min_df=3, settings=always(INFERENCE_SETTINGS),
    expected={"paper": {"train": (183187, 183416, 182764), "dev": (3278, 3329, 3235), "test": (3237, 3368, 3219)}},
    differs=("classes are sorted by name; the paper's order is neutral, contradiction, entailment",),
)  # fmt: skip


_SETS = {"train": "TRAIN", "dev": "TRIAL", "test": "TEST"}
_SICK_CLASSES = {name.upper(): number for name, number in RELATION_CLASSES.items()}


def split_rows(path: Path) -> Iterator[Row]:
    """Rows of one of the three files of SemEval 2014."""
    return renamed(
        table_rows(
            path, Columns("sentence_A", "entailment_judgment", question="sentence_B"), tsv_records
        ),
        _SICK_CLASSES,
    )


def set_rows(path: Path, chosen: str) -> Iterator[Row]:
    """Rows of one set of the whole file, whose column ``SemEval_set`` names it. Raises InputError."""
    return renamed(_of_set(path, chosen), _SICK_CLASSES)


def _of_set(path: Path, chosen: str) -> Iterator[Row]:
    records = tsv_records(path)
    _, header = next(records, (0, []))
    text, question, label, of_set = header_indices(
        path, header, ("sentence_A", "sentence_B", "entailment_label", "SemEval_set")
    )
    row = itertools.count()
    for line, fields in records:
        problem = _problem(fields, len(header), of_set)
        if problem and chosen == _SETS["train"]:  # reported once, not with every set
            yield Row(next(row), line, problem=problem)
        elif not problem and fields[of_set].strip() == chosen:
            yield Row(next(row), line, fields[text], fields[label], question=fields[question])


def _problem(fields: list[str], width: int, of_set: int) -> str:
    """Why a record belongs to no set, or nothing."""
    if len(fields) != width:
        return f"{count(len(fields), 'field')} where the header has {width}"
    name = fields[of_set].strip()
    return (
        ""
        if name in _SETS.values()
        else f"SemEval_set '{name}' where {', '.join(_SETS.values())} was expected"
    )


SICK = CorpusEntry(
    name="sick_nli", title="SICK, inference",
    licence="CC BY-NC-SA 3.0", class_names=RELATIONS,
    paper=Paper(
        "marelli2014",
        "Marelli, Marco and Menini, Stefano and Baroni, Marco and Bentivogli, Luisa and Bernardi, Raffaella and Zamparelli, Roberto",
        "A {SICK} Cure for the Evaluation of Compositional Distributional Semantic Models", "Proceedings of LREC", 2014,
    ),
    task="inference",
    sources=any_layout(
        split_files({"train": ("SICK_train.txt",), "dev": ("SICK_trial.txt",), "test": ("SICK_test_annotated.txt",)}, split_rows, SPLITS),
        one_file("SICK.txt", set_rows, _SETS), tables(Columns("premise", "label", question="hypothesis"), RELATION_CLASSES),
        expected="SICK.txt, or SICK_train.txt, SICK_trial.txt and SICK_test_annotated.txt, or tables with premise, hypothesis and label",
    ),
    homepage="https://zenodo.org/records/2787612",
    downloads=(
        Download(
            "https://zenodo.org/record/2787612/files/SICK.zip?download=1",
            "da272af924399fc2de4889ed55383e38822c10d16c4a949a89d597d09a0b7912", 217_584,
        ),
    ),
    folders=("sick_nli", "sick"),
    settings=always(INFERENCE_SETTINGS), expected={"paper": {"train": (665, 1299, 2536), "dev": (74, 144, 282), "test": (720, 1414, 2793)}},
    differs=("not among the corpora of Jain & Wallace 2019; trained as SNLI",),
)  # fmt: skip

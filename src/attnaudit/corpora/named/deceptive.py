"""The corpora of Pruthi et al. 2020: texts, each with a mask of the words that a deceptive attention must keep off, and Multi30K.

The mask is the rationale of a text: its words decide the label (pronouns, gendered words), or hold all that does (the sentence next to
one of an encyclopedia).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from pathlib import Path

from attnaudit.core.papers import PRUTHI2020, Paper
from attnaudit.corpora.corpus import SPLITS
from attnaudit.corpora.entry import CorpusEntry, Download, PairFiles
from attnaudit.corpora.formats.layouts import (
    Layout,
    Rows,
    Sources,
    any_layout,
    first_that_fits,
    renamed,
)
from attnaudit.corpora.formats.lines import numbered_lines
from attnaudit.corpora.formats.rows import BadCell, Columns, Row, Span, SplitSource, word_spans
from attnaudit.corpora.formats.tables import file_source

_HOMEPAGE = "https://github.com/danishpruthi/deceptive-attention"
_RAW = "https://raw.githubusercontent.com"
_DECEPTIVE = f"{_RAW}/danishpruthi/deceptive-attention/759f6bd377fe3cfb0eaa240aa290d6f75060c3fd/src/seq2seq_tasks/data"
_MULTI30K = f"{_RAW}/multi30k/dataset/c9be912dc05a3ebf9ae5bb5f7f58c1791cda43ab/data/task1/raw"
_SEXES = {"M": "0", "F": "1", "0": "0", "1": "1"}
_NUMBERS = {"0": "0", "1": "1"}


def tabbed_rows(path: Path) -> Iterator[Row]:
    """Rows of lines ``label<TAB>text``."""
    for row, (number, line) in enumerate(numbered_lines(path)):
        label, tab, text = line.partition("\t")
        yield (
            Row(row, number, text, label)
            if tab
            else Row(row, number, problem="a line without a tab between label and text")
        )


def masked(rows: Iterator[Row], masks: Path) -> Iterator[Row]:
    """Rows with what the same line of ``masks`` says: a 0 or 1 for every word of the text."""
    lines = (line for _, line in numbered_lines(masks))
    for row, mask in zip_longest(rows, lines):
        if row is None:
            return  # more masks than rows: an empty line at the end, say
        try:
            yield (
                row
                if row.problem or not isinstance(row.text, str)
                else replace(row, evidence=_marked(row.text, mask, masks.name))
            )
        except BadCell as error:
            yield replace(row, problem=str(error))


def _marked(text: str, mask: str | None, name: str) -> list[Span]:
    if mask is None:
        raise BadCell(f"no mask: {name} has fewer lines")
    bits, words = mask.split(), len(text.split())
    if len(bits) != words or set(bits) - {"0", "1"}:
        raise BadCell(
            f"a mask of {len(bits)} entries in {name} for {words} words, where a 0 or 1 for each was expected"
        )
    return word_spans(text, [(k, k + 1) for k, bit in enumerate(bits) if bit == "1"])


def _with_masks(texts: str, masks: str, classes: dict[str, str], rows: Rows) -> Layout:
    """A file of texts and one of masks for each split."""

    def layout(folder: Path) -> Sources:
        found: Sources = {}
        for split in SPLITS:
            text, mask = (
                first_that_fits(folder, (pattern.format(split),)) for pattern in (texts, masks)
            )
            if text is None or mask is None:
                return {}
            found[split] = SplitSource(text, partial(_read, text, mask, classes, rows))
        return found

    return layout


def _read(text: Path, mask: Path, classes: dict[str, str], rows: Rows) -> Iterator[Row]:
    return masked(renamed(rows(text), classes), mask)


def _registered(
    name: str, title: str, classes: dict[str, str], class_names: tuple[str, str], folder: str, licence: str,
    counts: dict[str, tuple[int, ...]],
) -> CorpusEntry:  # fmt: skip
    return CorpusEntry(
        name=name, title=title,
        licence=licence, class_names=class_names, paper=PRUTHI2020,
        sources=any_layout(
            _with_masks("{}.txt", "{}.txt.block", classes, tabbed_rows),  # as published
            _with_masks("{}.csv*", "{}.block*", classes, lambda path: file_source(path, Columns()).rows()),
            expected="train.txt, dev.txt and test.txt, each with its .block file",
        ),
        homepage=_HOMEPAGE, folders=(name, f"deceptive/{folder}", folder),
        expected={"paper": counts},
        how_to_get="copy train, dev and test.txt with their .block files from src/classification_tasks/data of the authors' repository",
        differs=("not among the corpora of Jain & Wallace 2019",),
    )  # fmt: skip


DECEPTIVE = (
    _registered(
        "deceptive_pronoun", "sentences by the sex of their pronouns", _SEXES, ("male", "female"), "pronoun",
        "not stated; sentences of Wikipedia", {"train": (4528, 4489), "dev": (529, 598), "test": (579, 548)},
    ),
    _registered(
        "deceptive_sst_wiki", "SST, each with a sentence of Wikipedia", _NUMBERS, ("negative", "positive"), "sst-wiki",
        "not stated; SST and sentences of Wikipedia", {"train": (3310, 3610), "dev": (428, 444), "test": (912, 909)},
    ),
    _registered(
        "deceptive_occupation", "biographies of physicians and surgeons", _NUMBERS, ("physician", "surgeon"), "occupation-classification",
        "not stated; biographies of real people", {"train": (17629,), "dev": (1701, 818), "test": (3422, 1615)},
    ),
)  # fmt: skip

MULTI30K = CorpusEntry(
    name="multi30k_en_de", title="captions of Multi30K in English and German", short="Multi30K",
    licence="CC BY-NC-SA 4.0, as far as known",
    paper=Paper(
        "elliott2016", "Elliott, Desmond and Frank, Stella and Sima'an, Khalil and Specia, Lucia",
        "Multi30K: Multilingual English-German Image Descriptions", "Proceedings of the 5th Workshop on Vision and Language", 2016,
    ),
    task="translation",
    pairs=(PairFiles("src", "trg", "dev", "test_2016_flickr"), PairFiles("en", "de", "val", "test_2016_flickr")),
    homepage="https://github.com/multi30k/dataset",
    downloads=tuple(
        Download(f"{_MULTI30K}/{split}.{side}.gz", path=f"{split}.{side}.gz")
        for split in ("train", "val", "test_2016_flickr") for side in ("en", "de")
    ),
    expected={"paper": {"train": (29000,), "dev": (1014,), "test": (1000,)}},
)  # fmt: skip
DECEPTIVE_PAIRS = replace(
    MULTI30K, name="deceptive_en_de", title="captions of Multi30K, tokenised, with word alignments", short="Multi30K, aligned",
    licence="not stated", paper=PRUTHI2020,
    pairs=(PairFiles("src", "trg", "dev", "test"), PairFiles("en-de.src", "en-de.trg", "dev", "test")),
    units="words", homepage=_HOMEPAGE,
    downloads=tuple(
        Download(f"{_DECEPTIVE}/{split}.en-de.{ending}", path=f"{split}.{ending}") for split in SPLITS for ending in ("src", "trg", "align")
    ),
)  # fmt: skip

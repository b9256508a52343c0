"""Parallel corpora: captions of Multi30K in English and German, whole and as Pruthi et al. 2020 prepared them."""

from __future__ import annotations

from attnaudit.corpora.entry import CorpusEntry, Download, PairFiles
from attnaudit.corpora.named.deceptive import PRUTHI_2020

_ELLIOTT = """@inproceedings{elliott2016multi30k,
  title = {Multi30K: Multilingual English-German Image Descriptions},
  author = {Elliott, Desmond and Frank, Stella and Sima'an, Khalil and Specia, Lucia},
  booktitle = {Proceedings of the 5th Workshop on Vision and Language},
  year = {2016}
}"""
_MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/c9be912dc05a3ebf9ae5bb5f7f58c1791cda43ab/data/task1/raw"
_DECEPTIVE = (
    "https://raw.githubusercontent.com/danishpruthi/deceptive-attention/759f6bd377fe3cfb0eaa240aa290d6f75060c3fd/src/seq2seq_tasks/data"
)

MULTI30K = CorpusEntry(
    name="multi30k_en_de",
    title="captions of Multi30K in English and German",
    short="Multi30K",
    citation="Elliott et al. 2016",
    bibtex=_ELLIOTT,
    licence="CC BY-NC-SA 4.0, as far as known",
    class_names=(),
    task="translation",
    pairs=(PairFiles("src", "trg", "dev", "test_2016_flickr"), PairFiles("en", "de", "val", "test_2016_flickr")),
    homepage="https://github.com/multi30k/dataset",
    downloads=tuple(
        Download(f"{_MULTI30K}/{name}.gz", path=f"{name}.gz")
        for split in ("train", "val", "test_2016_flickr")
        for name in (f"{split}.en", f"{split}.de")
    ),
    expected={"paper": {"train": (29000,), "dev": (1014,), "test": (1000,)}},
)
DECEPTIVE_PAIRS = CorpusEntry(
    name="deceptive_en_de",
    title="captions of Multi30K, tokenised, with word alignments",
    short="Multi30K, aligned",
    citation="Pruthi et al. 2020",
    bibtex=PRUTHI_2020,
    licence="not stated",
    class_names=(),
    task="translation",
    pairs=(PairFiles("src", "trg", "dev", "test"), PairFiles("en-de.src", "en-de.trg", "dev", "test")),
    units="words",
    homepage="https://github.com/danishpruthi/deceptive-attention",
    downloads=tuple(
        Download(f"{_DECEPTIVE}/{split}.en-de.{ending}", path=f"{split}.{ending}")
        for split in ("train", "dev", "test")
        for ending in ("src", "trg", "align")
    ),
    expected={"paper": {"train": (29000,), "dev": (1014,), "test": (1000,)}},
)

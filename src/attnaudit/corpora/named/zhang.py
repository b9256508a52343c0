"""The corpora of Zhang, Zhao & LeCun 2015: csv files without header, of a class index counted from 1 and texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from attnaudit.core.numbers import count
from attnaudit.core.papers import Paper
from attnaudit.corpora.entry import CorpusEntry, Download
from attnaudit.corpora.formats.layouts import Layout, Sources, any_layout, split_files, tables
from attnaudit.corpora.formats.rows import Row
from attnaudit.corpora.formats.tables import csv_records

_ZHANG = Paper(
    "zhang2015", "Zhang, Xiang and Zhao, Junbo and LeCun, Yann",
    "Character-level Convolutional Networks for Text Classification", "Advances in Neural Information Processing Systems", 2015,
)  # fmt: skip
_FILES = {"train": ("train.csv", "train.csv.gz"), "test": ("test.csv", "test.csv.gz")}
_NO_CLASSES: Mapping[str, str] = {}


def class_csv(
    fields: int, text: Callable[[list[str]], str], classes: Mapping[str, str], left_out: Mapping[str, str] = _NO_CLASSES,
    files: Mapping[str, Sequence[str]] = _FILES,
) -> Layout:  # fmt: skip
    """Files of ``fields`` columns; ``text`` makes a text of them, ``classes`` gives the label of an index.

    A train file that does not begin with a number has a header, and is of another layout.
    """
    plain = split_files(
        files, partial(class_rows, fields=fields, text=text, classes=classes, left_out=left_out)
    )

    def layout(folder: Path) -> Sources:
        found = plain(folder)
        return found if found and _begins_with_number(found["train"].path) else {}

    return layout


def class_rows(
    path: Path,
    fields: int,
    text: Callable[[list[str]], str],
    classes: Mapping[str, str],
    left_out: Mapping[str, str],
) -> Iterator[Row]:
    """Rows of one file. Raises InputError."""
    for row, (line, cells) in enumerate(csv_records(path)):
        index = cells[0].strip()
        if len(cells) != fields:
            yield Row(
                row, line, problem=f"{count(len(cells), 'field')} where {fields} were expected"
            )
        elif index in classes:
            yield Row(row, line, text(cells), classes[index])
        elif index in left_out:
            yield Row(row, line, left_out=left_out[index])
        else:
            yield Row(
                row,
                line,
                problem=f"class index '{index[:20]}' where 1 to {len(classes) + len(left_out)} was expected",
            )


def _begins_with_number(path: Path) -> bool:
    first = next(csv_records(path), None)
    return first is not None and first[1][0].strip().lstrip("+-").isdecimal()


_OTHER = "of another class"
_JOINED = "the texts of these files are title and description; the paper used the description alone"
_STARS = ("1 star", "2 stars", "3 stars", "4 stars", "5 stars")
_TOPICS = (
    "Society & Culture", "Science & Mathematics", "Health", "Education & Reference", "Computers & Internet", "Sports",
    "Business & Finance", "Entertainment & Music", "Family & Relationships", "Politics & Government",
)  # fmt: skip
_SPLIT = "the split of Serrano & Smith 2019 is not published"


def clean(text: str) -> str:
    """A backslash stands for a line end in the original files of AG's news."""
    return text.replace("\\", " ")


def clean_review(text: str) -> str:
    """A backslash and n stand for a line end in the original files, a backslash and a quotation mark for the mark."""
    return text.replace("\\n", " ").replace('\\"', '"')


def _numbered(classes: Sequence[object]) -> dict[str, str]:
    """Classes by their index in the files, from 1."""
    return {str(index): str(name) for index, name in enumerate(classes, start=1)}


def _ag_news(*layouts: Layout) -> Callable[[Path], Sources]:
    expected = "train.csv and test.csv, without header (class, title, description) or with the header text,label"
    return any_layout(*layouts, expected=expected, within=("ag_news_csv",))


_NEWS_FILES = {**_FILES, "train": (*_FILES["train"], "train_first*.csv")}
AG_NEWS = CorpusEntry(
    name="ag_news", title="AG's news of the world and of business", short="AG News",
    licence="non-commercial research, as its readme says", class_names=("world", "business"), paper=_ZHANG,
    sources=_ag_news(
        class_csv(3, lambda cells: cells[2], {"1": "0", "3": "1"}, {"2": _OTHER, "4": _OTHER}, _NEWS_FILES),
        tables(classes={"0": "0", "2": "1"}, left_out={"1": _OTHER, "3": _OTHER}, note=_JOINED),
    ),
    homepage="http://groups.di.unipi.it/~gulli/AG_corpus_of_news_articles.html",
    downloads=(
        Download(
            "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/train.csv",
            "76a0a2d2f92b286371fe4d4044640910a04a803fdd2538e0f3f29a5c6f6b672e", 29_470_338, "train.csv",
        ),
        Download(
            "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/test.csv",
            "521465c2428ed7f02f8d6db6ffdd4b5447c1c701962353eb2c40d548c3c85699", 1_857_427, "test.csv",
        ),
    ),
    folders=("ag_news", "ag_news_csv"),
    min_df=5, clean=clean, expected={"paper": {"train+dev": (30000, 30000), "test": (1900, 1900)}},
    differs=("files with the header text,label hold title and description together, where the paper used the description alone",),
)  # fmt: skip
AG_NEWS4 = replace(
    AG_NEWS, name="ag_news4", title="AG's news", short="",
    class_names=("world", "sports", "business", "sci/tech"),
    sources=_ag_news(class_csv(3, lambda cells: f"{cells[1]} {cells[2]}", _numbered(range(4)), files=_NEWS_FILES), tables()),
    folders=("ag_news4", "ag_news", "ag_news_csv"),
    expected={"paper": {"train+dev": (30000,) * 4, "test": (1900,) * 4}},
    differs=("not among the corpora of Jain & Wallace 2019, who used two of its classes; texts are title and description",),
)  # fmt: skip

YELP = CorpusEntry(
    name="yelp", title="reviews of Yelp by stars",
    licence="terms of use of the Yelp Dataset: academic use, not to be passed on", class_names=_STARS, paper=_ZHANG,
    sources=any_layout(
        class_csv(2, lambda cells: cells[1], _numbered(range(5))), tables(needed=("test",)),
        expected="train.csv and test.csv without header (class, review), or tables with the header text,label",
        within=("yelp_review_full_csv",),
    ),
    homepage="https://www.yelp.com/dataset",
    downloads=(
        Download(
            "https://s3.amazonaws.com/fast-ai-nlp/yelp_review_full_csv.tgz",
            "56006b0a17a370f1e366504b1f2c3e3754e4a3dda17d3e718a885c552869a559", 196_146_755,
        ),
    ),
    folders=("yelp", "yelp_review_full_csv"),
    min_df=5, clean=clean_review, expected={"paper": {"train+dev": (130_000,) * 5, "test": (10_000,) * 5}},
    differs=(_SPLIT, "files without a train split are taken together and split 80/10/10"),
)  # fmt: skip
YAHOO = replace(
    YELP, name="yahoo", title="questions of Yahoo! Answers by topic",
    licence="Yahoo! Webscope: research use", class_names=(),
    sources=any_layout(
        class_csv(4, lambda cells: " ".join(cells[1:]), _numbered(_TOPICS)),
        tables(classes={str(index): topic for index, topic in enumerate(_TOPICS)}),
        expected="train.csv and test.csv without header (class, title, question, answer), or tables with the header text,label",
        within=("yahoo_answers_csv",),
    ),
    homepage="https://webscope.sandbox.yahoo.com/catalog.php?datatype=l",
    downloads=(
        Download(
            "https://s3.amazonaws.com/fast-ai-nlp/yahoo_answers_csv.tgz",
            "2d4277855faf8b35259009425fa8f7fe1888b5644b47165508942d000f4c96ae", 319_476_345,
        ),
    ),
    folders=("yahoo", "yahoo_answers_csv", "yahoo_answers_2class"),
    expected={"paper": {"train+dev": (1_400_000,), "test": (60_000,)}},
    differs=(_SPLIT, "the classes are the topics that train has: ten of the whole corpus, fewer of a sample"),
)  # fmt: skip
AMAZON = replace(
    YELP, name="amazon", title="reviews of Amazon",
    licence="not stated", class_names=(),
    sources=any_layout(
        class_csv(3, lambda cells: f"{cells[1]} {cells[2]}", _numbered(_STARS)),
        tables(note="the labels of these files are product categories, not the stars of the review"),
        expected="train.csv and test.csv without header (class, title, review), or tables with the header text,label",
        within=("amazon_review_full_csv",),
    ),
    homepage="https://jmcauley.ucsd.edu/data/amazon/",
    downloads=(
        Download("https://s3.amazonaws.com/fast-ai-nlp/amazon_review_full_csv.tgz"),
    ),
    folders=("amazon", "amazon_review_full_csv", "amazon_category24"),
    expected={"paper": {"train+dev": (3_000_000,), "test": (650_000,)}},
    differs=(_SPLIT, "amazon_category24 has 24 product categories, another task than the five stars of Serrano & Smith 2019"),
)  # fmt: skip

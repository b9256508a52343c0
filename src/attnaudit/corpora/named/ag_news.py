"""AG's news: two of its classes as Jain & Wallace 2019 used them, and all four."""

from __future__ import annotations

from attnaudit.corpora.formats.class_csv import ZHANG_2015, class_csv
from attnaudit.corpora.formats.layouts import any_layout, tables
from attnaudit.corpora.named.registered import Registered

_FILES = {"train": ("train.csv", "train.csv.gz", "train_first*.csv"), "test": ("test.csv", "test.csv.gz")}
_WANTED = "train.csv and test.csv, without header (class, title, description) or with the header text,label"
_OTHER = "of another class"
_JOINED = "the texts of these files are title and description; the paper used the description alone"
_LICENCE = "non-commercial research, as its readme says"
_HOMEPAGE = "http://groups.di.unipi.it/~gulli/AG_corpus_of_news_articles.html"


def clean(text: str) -> str:
    """A backslash stands for a line end in the original files."""
    return text.replace("\\", " ")


AG_NEWS = Registered(
    name="ag_news",
    title="AG's news of the world and of business",
    citation="Zhang et al. 2015",
    bibtex=ZHANG_2015,
    licence=_LICENCE,
    class_names=("world", "business"),
    sources=any_layout(
        class_csv(_FILES, 3, lambda cells: cells[2], {"1": "0", "3": "1"}, {"2": _OTHER, "4": _OTHER}),
        tables(classes={"0": "0", "2": "1"}, left_out={"1": _OTHER, "3": _OTHER}, note=_JOINED),
        expected=_WANTED,
        within=("ag_news_csv",),
    ),
    homepage=_HOMEPAGE,
    folders=("ag_news", "ag_news_csv"),
    min_df=5,
    clean=clean,
    expected={"paper": {"train+dev": (30000, 30000), "test": (1900, 1900)}},
    differs=("files with the header text,label hold title and description together, where the paper used the description alone",),
)

AG_NEWS4 = Registered(
    name="ag_news4",
    title="AG's news",
    citation="Zhang et al. 2015",
    bibtex=ZHANG_2015,
    licence=_LICENCE,
    class_names=("world", "sports", "business", "sci/tech"),
    sources=any_layout(
        class_csv(_FILES, 3, lambda cells: f"{cells[1]} {cells[2]}", {str(index + 1): str(index) for index in range(4)}),
        tables(),
        expected=_WANTED,
        within=("ag_news_csv",),
    ),
    homepage=_HOMEPAGE,
    folders=("ag_news4", "ag_news", "ag_news_csv"),
    min_df=5,
    clean=clean,
    expected={"paper": {"train+dev": (30000,) * 4, "test": (1900,) * 4}},
    differs=("not among the corpora of Jain & Wallace 2019, who used two of its classes; texts are title and description",),
)

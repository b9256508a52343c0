"""Reviews and questions of Yelp, Yahoo! Answers and Amazon, the corpora of Serrano & Smith 2019, from the copies that can be had."""

from __future__ import annotations

from attnaudit.corpora.formats.class_csv import ZHANG_2015, class_csv
from attnaudit.corpora.formats.layouts import any_layout, tables
from attnaudit.corpora.named.registered import Registered

_FILES = {"train": ("train.csv", "train.csv.gz"), "test": ("test.csv", "test.csv.gz")}
_STARS = ("1 star", "2 stars", "3 stars", "4 stars", "5 stars")
_TOPICS = (
    "Society & Culture", "Science & Mathematics", "Health", "Education & Reference", "Computers & Internet", "Sports",
    "Business & Finance", "Entertainment & Music", "Family & Relationships", "Politics & Government",
)  # fmt: skip
_SPLIT = "the split of Serrano & Smith 2019 is not published"


def clean(text: str) -> str:
    """A backslash and n stand for a line end in the original files, a backslash and a quotation mark for the mark."""
    return text.replace("\\n", " ").replace('\\"', '"')


YELP = Registered(
    name="yelp",
    title="reviews of Yelp by stars",
    citation="Zhang et al. 2015",
    bibtex=ZHANG_2015,
    licence="terms of use of the Yelp Dataset: academic use, not to be passed on",
    class_names=_STARS,
    sources=any_layout(
        class_csv(_FILES, 2, lambda cells: cells[1], {str(index + 1): str(index) for index in range(5)}),
        tables(needed=("test",)),
        expected="train.csv and test.csv without header (class, review), or tables with the header text,label",
        within=("yelp_review_full_csv",),
    ),
    homepage="https://www.yelp.com/dataset",
    folders=("yelp", "yelp_review_full_csv"),
    min_df=5,
    clean=clean,
    expected={"paper": {"train+dev": (130_000,) * 5, "test": (10_000,) * 5}},
    differs=(_SPLIT, "files without a train split are taken together and split 80/10/10"),
)

YAHOO = Registered(
    name="yahoo",
    title="questions of Yahoo! Answers by topic",
    citation="Zhang et al. 2015",
    bibtex=ZHANG_2015,
    licence="Yahoo! Webscope: research use",
    class_names=(),
    sources=any_layout(
        class_csv(_FILES, 4, lambda cells: " ".join(cells[1:]), {str(index + 1): topic for index, topic in enumerate(_TOPICS)}),
        tables(classes={str(index): topic for index, topic in enumerate(_TOPICS)}),
        expected="train.csv and test.csv without header (class, title, question, answer), or tables with the header text,label",
        within=("yahoo_answers_csv",),
    ),
    homepage="https://webscope.sandbox.yahoo.com/catalog.php?datatype=l",
    folders=("yahoo", "yahoo_answers_csv", "yahoo_answers_2class"),
    min_df=5,
    clean=clean,
    expected={"paper": {"train+dev": (1_400_000,), "test": (60_000,)}},
    differs=(_SPLIT, "the classes are the topics that train has: ten of the whole corpus, fewer of a sample"),
)

AMAZON = Registered(
    name="amazon",
    title="reviews of Amazon",
    citation="Zhang et al. 2015",
    bibtex=ZHANG_2015,
    licence="not stated",
    class_names=(),
    sources=any_layout(
        class_csv(_FILES, 3, lambda cells: f"{cells[1]} {cells[2]}", {str(index + 1): stars for index, stars in enumerate(_STARS)}),
        tables(note="these files tell the category of the product, not the stars of the review"),
        expected="train.csv and test.csv without header (class, title, review), or tables with the header text,label",
        within=("amazon_review_full_csv",),
    ),
    homepage="https://jmcauley.ucsd.edu/data/amazon/",
    folders=("amazon", "amazon_review_full_csv", "amazon_category24"),
    min_df=5,
    clean=clean,
    expected={"paper": {"train+dev": (3_000_000,), "test": (650_000,)}},
    differs=(_SPLIT, "amazon_category24 has 24 product categories, another task than the five stars of Serrano & Smith 2019"),
)

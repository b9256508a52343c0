"""Whole reviews and posts, a file each: IMDB, baseball and hockey of the 20 Newsgroups, and the Movies of ERASER with rationales."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any

from attnaudit.core.errors import InputError
from attnaudit.core.papers import DEYOUNG2020, Paper
from attnaudit.corpora.corpus import SPLITS
from attnaudit.corpora.entry import Bounds, CorpusEntry, Download, Parting
from attnaudit.corpora.formats.layouts import (
    Layout,
    any_layout,
    jsonl_files,
    one_file,
    renamed,
    split_files,
    tables,
)
from attnaudit.corpora.formats.lines import whole_text
from attnaudit.corpora.formats.rows import BadCell, Columns, Row, Span, word_spans
from attnaudit.corpora.formats.tables import object_rows

STARS = ("1", "2", "3", "4", "7", "8", "9", "10")  # reviews of 5 and 6 stars are not among them
_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")


def without_breaks(text: str) -> str:
    """HTML line breaks become spaces."""
    return _LINE_BREAK.sub(" ", text)


def review_rows(folder: Path) -> Iterator[Row]:
    """The reviews of ``neg`` and then of ``pos``, each by the number in its file name. Raises InputError without one of them."""

    def numbered(file: Path) -> tuple[int, str]:
        found = _NUMBER.match(file.name)
        return int(found[0]) if found else -1, file.name

    return _class_rows(
        folder,
        ("neg", "pos"),
        "*.txt",
        numbered,
        ("no review", "a folder with txt files, one for each review"),
    )


def _class_rows(
    folder: Path,
    classes: Sequence[str],
    pattern: str,
    order: Callable[[Path], Any],
    missing: tuple[str, str],
    encoding: str = "utf-8",
) -> Iterator[Row]:
    """A row for each file of the folders of the classes, one after the other; ``missing``: found and expected where one has none."""
    number = count()
    for label, name in enumerate(classes):
        files = sorted((folder / name).glob(pattern), key=order)
        if not files:
            raise InputError("read corpus", str(folder / name), *missing)
        for file in files:
            yield Row(
                next(number),
                None,
                whole_text(file, encoding),
                str(label),
                file=f"{name}/{file.name}",
            )


def star_rows(folder: Path) -> Iterator[Row]:
    """The same reviews by the stars in their file names, as ``7_10.txt``; those without stars are bad rows."""
    for row in review_rows(folder):
        stars = Path(row.file).stem.partition("_")[2]
        if stars in STARS:
            yield replace(row, label=str(STARS.index(stars)))
        else:
            yield replace(
                row, problem=f"stars '{stars[:20]}' where one of {', '.join(STARS)} was expected"
            )


IMDB = CorpusEntry(
    name="imdb", title="the Large Movie Review Dataset of IMDB", short="IMDB",
    licence="not stated by its authors, who ask to be cited", class_names=("negative", "positive"),
    paper=Paper(
        "maas2011", "Maas, Andrew L. and Daly, Raymond E. and Pham, Peter T. and Huang, Dan and Ng, Andrew Y. and Potts, Christopher",
        "Learning Word Vectors for Sentiment Analysis", "Proceedings of ACL", 2011,
    ),
    sources=any_layout(
        split_files({"train": ("train/",), "test": ("test/",)}, review_rows), tables(),
        expected="the folders train and test of aclImdb, each with neg and pos, or train.csv and test.csv", within=("aclImdb",),
    ),
    homepage="https://ai.stanford.edu/~amaas/data/sentiment/",
    downloads=(
        Download(
            "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
            "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe", 84_125_825,
        ),
    ),
    folders=("imdb", "aclImdb"),
    min_df=10, clean=without_breaks, parting=Parting(dev_share=0.2, test_kept=0.2), bounds={"paper": Bounds(more_than=6, less_than=400)},
    expected={"paper": {"train+dev": (10335, 10184), "test": (2078, 2074)}},
    differs=(
        "lengths are counted in words of the review; the authors counted numbers of the Keras version, which has no punctuation",
        "the kept fifth of test is another draw: the authors' 2184 and 2172 rows are not published",
    ),
)  # fmt: skip

IMDB_STARS = replace(
    IMDB, name="imdb_stars", title="the Large Movie Review Dataset of IMDB by stars", short="",
    class_names=tuple(f"{stars} star{'s' * (stars != '1')}" for stars in STARS),
    sources=any_layout(
        split_files({"train": ("train/",), "test": ("test/",)}, star_rows),
        expected="the folders train and test of aclImdb, each with neg and pos, whose file names end in the stars", within=("aclImdb",),
    ),
    folders=("imdb_stars", "imdb", "aclImdb"),
    parting=Parting(dev_share=0.2), bounds={}, expected={},
    differs=("Serrano & Smith 2019 used another collection of reviews of IMDB, with ten classes; here 5 and 6 stars are missing",),
)  # fmt: skip


_GROUPS = ("rec.sport.baseball", "rec.sport.hockey")
_QUOTATION = re.compile(r"(writes in|writes:|wrote:|says:|said:|^In article|^Quoted from|^\||^>)")


def post_body(post: str) -> str:
    """The body of a post: by the rules of scikit-learn's 20 Newsgroups with ``remove=("headers", "footers", "quotes")``."""
    return without_quotations(without_signature(without_header(post.replace("\r\n", "\n"))))


def without_header(post: str) -> str:
    """What comes after the first empty line."""
    return post.partition("\n\n")[2]


def without_signature(text: str) -> str:
    """What comes before the last line that is empty or made of hyphens, not counting those at the end; all where there is none."""
    lines = text.strip().split("\n")
    ends = [number for number, line in enumerate(lines) if not line.strip().strip("-")]
    return "\n".join(lines[: ends[-1]]) if ends and ends[-1] > 0 else text


def without_quotations(text: str) -> str:
    """Lines that are not quoted and do not introduce a quotation."""
    return "\n".join(line for line in text.split("\n") if not _QUOTATION.search(line))


def post_rows(folder: Path) -> Iterator[Row]:
    """The posts of one folder after the other, by number, decoded as Latin-1. Raises InputError where a group has none."""
    missing = ("no post", "a folder with a file for each post")
    return _class_rows(
        folder, _GROUPS, "[0-9]*", lambda file: (len(file.name), file.name), missing, "latin-1"
    )


NEWS_SPORTS = CorpusEntry(
    name="20news_sports", title="posts on baseball and hockey of the 20 Newsgroups", short="20News sports",
    licence="not stated; public posts with names and addresses of their authors", class_names=("baseball", "hockey"),
    paper=Paper("lang1995", "Lang, Ken", "NewsWeeder: Learning to Filter Netnews", "Proceedings of ICML", 1995),
    sources=any_layout(
        split_files({split: (f"20news-bydate-{split}/",) for split in ("train", "test")}, post_rows), tables(),
        expected="the folders 20news-bydate-train and 20news-bydate-test, or train.csv and test.csv with whole posts",
        within=("20news-bydate",),
    ),
    homepage="http://qwone.com/~jason/20Newsgroups/",
    downloads=(
        Download("https://ndownloader.figshare.com/files/5975967", "8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610"),
    ),
    folders=("20news_sports", "20news", "20news-bydate"),
    min_df=2, clean=post_body, parting=Parting(pooled=True, pool_shares=(0.16, 0.2)), bounds={"paper": Bounds(more_than=6, less_than=500)},
    expected={"paper": {"train+dev+test": (880, 883)}},
    differs=("the split is another draw: the authors' (train 716/710, test 151/183) is of another order of the posts",),
)  # fmt: skip


_LABELS = {"NEG": "0", "POS": "1"}
_FILES = {"train": ("train.jsonl",), "dev": ("val.jsonl",), "test": ("test.jsonl",)}
Document = Callable[[str], "str | None"]  # the text of a name; None where there is none


def annotation_rows(path: Path) -> Iterator[Row]:
    """Rows of a split whose reviews are files of the folder ``docs`` next to it."""

    def document(name: str) -> str | None:
        file = path.parent / "docs" / name
        return whole_text(file) if file.is_file() else None

    return renamed(object_rows(path, None, partial(_annotated, document=document)), _LABELS)


def archive_rows(path: Path, member: str) -> Iterator[Row]:
    """Rows of a split within the tar.gz that ERASER distributes. Raises InputError."""
    texts = _texts(path)
    lines = next((text for name, text in texts.items() if name.endswith(f"/{member}")), None)
    if lines is None:
        raise InputError(
            "read corpus",
            str(path),
            f"an archive without {member}",
            "movies.tar.gz as ERASER distributes it",
        )
    documents = {name.rpartition("/")[2]: text for name, text in texts.items() if "/docs/" in name}
    numbered = enumerate(lines.splitlines(keepends=True), start=1)
    return renamed(
        object_rows(path, None, partial(_annotated, document=documents.get), numbered), _LABELS
    )


def pack_rows(path: Path) -> Iterator[Row]:
    """Rows of a jsonl file with ``document``, ``label`` and ``evidences``."""

    def fields(found: dict[str, Any]) -> dict[str, Any]:
        document = found.get("document")
        return {
            "text": document,
            "label": found.get("label"),
            "evidence": _evidence(document, found.get("evidences")),
        }

    return renamed(object_rows(path, Columns("document", "label"), fields), _LABELS)


def _annotated(annotation: Mapping[str, Any], document: Document) -> dict[str, Any]:
    name = annotation.get("annotation_id")
    if not isinstance(name, str) or "/" in name:
        raise BadCell(f"annotation_id {str(name)[:40]!r} where the name of a document was expected")
    text = document(name)
    if text is None:
        raise BadCell(f"a missing document (docs/{name[:60]})")
    return {
        "text": text,
        "label": annotation.get("classification"),
        "evidence": _evidence(text, _of_groups(annotation.get("evidences"))),
    }


def _of_groups(groups: object) -> object:
    """The stretches of all groups, as one list."""
    if not isinstance(groups, list):
        return groups
    if not all(isinstance(group, list) for group in groups):
        raise BadCell(f"evidences {str(groups)[:40]!r} where a list of lists was expected")
    return list(chain.from_iterable(groups))


def _evidence(text: object, stretches: object) -> list[Span] | None:
    """The characters of stretches of words; none where nothing is marked."""
    if not stretches or not isinstance(text, str):
        return None
    try:
        pairs = [(int(item["start_token"]), int(item["end_token"])) for item in stretches]  # type: ignore[attr-defined]
    except (TypeError, KeyError, ValueError, OverflowError) as error:
        raise BadCell("evidence without start_token and end_token") from error
    return word_spans(text, pairs) or None


def _texts(path: Path) -> dict[str, str]:
    """The texts of an archive by name: a few megabytes. Raises InputError."""
    try:
        with tarfile.open(path) as archive:
            files = (
                (member.name, archive.extractfile(member)) for member in archive if member.isfile()
            )
            return {
                name: file.read().decode("utf-8", errors="surrogateescape")
                for name, file in files
                if file
            }
    except (tarfile.TarError, EOFError, OSError) as error:
        raise InputError(
            "read corpus",
            str(path),
            f"a damaged archive ({error})",
            "a whole file",
            "copy or download it again",
        ) from error


def _original() -> Layout:
    plain = split_files(_FILES, annotation_rows, SPLITS)
    return lambda folder: plain(folder) if (folder / "docs").is_dir() else {}


MOVIES = CorpusEntry(
    name="movies_rationales", title="the film reviews with rationales of ERASER",
    licence="not stated", class_names=("negative", "positive"), paper=DEYOUNG2020,
    sources=any_layout(
        _original(), one_file("movies.tar.gz", archive_rows, {split: names[0] for split, names in _FILES.items()}),
        jsonl_files(pack_rows, SPLITS),
        expected="train.jsonl, val.jsonl and test.jsonl next to the folder docs, or movies.tar.gz", within=("movies",),
    ),
    homepage="https://www.eraserbenchmark.com/",
    downloads=(
        Download(
            "http://www.eraserbenchmark.com/zipped/movies.tar.gz",
            "66e18d4e6c9df9e9f5544572b0bfe92a39673f74ecbfc3859b46cedb2f5b2dee", 3_899_487,
        ),
    ),
    folders=("movies_rationales", "eraser_movies", "movies"),
    expected={"paper": {"train": (800, 800), "dev": (100, 100), "test": (100, 99)}},
    differs=("not among the corpora of Jain & Wallace 2019",),
)  # fmt: skip

"""Whole reviews of films: IMDB, and the Movies of ERASER with rationales."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from attnaudit.core.errors import InputError
from attnaudit.corpora.entry import Bounds, CorpusEntry, Download, Parting
from attnaudit.corpora.formats.layouts import Layout, Sources, any_layout, first_that_fits, renamed, split_files, tables
from attnaudit.corpora.formats.lines import text_lines, whole_text
from attnaudit.corpora.formats.rows import BadCell, Columns, Row, Span, SplitSource, word_spans
from attnaudit.corpora.formats.tables import object_rows, objects

_CLASSES = ("neg", "pos")
STARS = ("1", "2", "3", "4", "7", "8", "9", "10")  # reviews of 5 and 6 stars are not among them
_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")


def clean(text: str) -> str:
    """HTML line breaks become spaces."""
    return _LINE_BREAK.sub(" ", text)


def review_rows(folder: Path) -> Iterator[Row]:
    """The reviews of ``neg`` and then of ``pos``, each by the number in its file name. Raises InputError without one of them."""
    row = 0
    for label, name in enumerate(_CLASSES):
        files = sorted((folder / name).glob("*.txt"), key=_numbered)
        if not files:
            raise InputError("read corpus", str(folder / name), "no review", "a folder with txt files, one for each review")
        for file in files:
            yield Row(row, None, whole_text(file), str(label), file=f"{name}/{file.name}")
            row += 1


def star_rows(folder: Path) -> Iterator[Row]:
    """The same reviews by the stars in their file names, as ``7_10.txt``; those without stars are bad rows."""
    for row in review_rows(folder):
        stars = Path(row.file).stem.partition("_")[2]
        if stars in STARS:
            yield replace(row, label=str(STARS.index(stars)))
        else:
            yield replace(row, problem=f"stars '{stars[:20]}' where one of {', '.join(STARS)} was expected")


def _numbered(file: Path) -> tuple[int, str]:
    found = _NUMBER.match(file.name)
    return int(found[0]) if found else -1, file.name


_DOWNLOADS = (
    Download(
        "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
        "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
        84_125_825,
    ),
)

IMDB = CorpusEntry(
    name="imdb",
    title="the Large Movie Review Dataset of IMDB",
    short="IMDB",
    citation="Maas et al. 2011",
    bibtex="""@inproceedings{maas2011learning,
  title = {Learning Word Vectors for Sentiment Analysis},
  author = {Maas, Andrew L. and Daly, Raymond E. and Pham, Peter T. and Huang, Dan and Ng, Andrew Y. and Potts, Christopher},
  booktitle = {Proceedings of ACL},
  year = {2011}
}""",
    licence="not stated by its authors, who ask to be cited",
    class_names=("negative", "positive"),
    sources=any_layout(
        split_files({"train": ("train/",), "test": ("test/",)}, review_rows),
        tables(),
        expected="the folders train and test of aclImdb, each with neg and pos, or train.csv and test.csv",
        within=("aclImdb",),
    ),
    homepage="https://ai.stanford.edu/~amaas/data/sentiment/",
    downloads=_DOWNLOADS,
    folders=("imdb", "aclImdb"),
    min_df=10,
    clean=clean,
    parting=Parting(dev_share=0.2, test_kept=0.2),
    bounds={"paper": Bounds(more_than=6, less_than=400)},
    expected={"paper": {"train+dev": (10335, 10184), "test": (2078, 2074)}},
    differs=(
        "lengths are counted in words of the review; the authors counted numbers of the Keras version, which has no punctuation",
        "the kept fifth of test is another draw: the authors' 2184 and 2172 rows are not published",
    ),
)

IMDB_STARS = replace(
    IMDB,
    name="imdb_stars",
    short="",
    title="the Large Movie Review Dataset of IMDB by stars",
    class_names=tuple(f"{stars} star{'s' * (stars != '1')}" for stars in STARS),
    sources=any_layout(
        split_files({"train": ("train/",), "test": ("test/",)}, star_rows),
        expected="the folders train and test of aclImdb, each with neg and pos, whose file names end in the stars",
        within=("aclImdb",),
    ),
    folders=("imdb_stars", "imdb", "aclImdb"),
    parting=Parting(dev_share=0.2),
    bounds={},
    expected={},
    differs=("Serrano & Smith 2019 used another collection of reviews of IMDB, with ten classes; here 5 and 6 stars are missing",),
)


_LABELS = {"NEG": "0", "POS": "1"}
_FILES = {"train": ("train.jsonl",), "dev": ("val.jsonl",), "test": ("test.jsonl",)}
Document = Callable[[str], "str | None"]  # the text of a name; None where there is none


def annotation_rows(path: Path) -> Iterator[Row]:
    """Rows of a split whose reviews are files of the folder ``docs`` next to it."""

    def document(name: str) -> str | None:
        file = path.parent / "docs" / name
        return whole_text(file) if file.is_file() else None

    return _rows(objects(path), document)


def archive_rows(path: Path, member: str) -> Iterator[Row]:
    """Rows of a split within the tar.gz that ERASER distributes. Raises InputError."""
    texts = _texts(path)
    lines = next((text for name, text in texts.items() if name.endswith(f"/{member}")), None)
    if lines is None:
        raise InputError("read corpus", str(path), f"an archive without {member}", "movies.tar.gz as ERASER distributes it")
    documents = {name.rpartition("/")[2]: text for name, text in texts.items() if "/docs/" in name}
    return _rows(objects(path, text_lines(lines)), documents.get)


def pack_rows(path: Path) -> Iterator[Row]:
    """Rows of a jsonl file with ``document``, ``label`` and ``evidences``."""

    def fields(found: dict[str, Any]) -> dict[str, Any]:
        document = found.get("document")
        return {"text": document, "label": found.get("label"), "evidence": _evidence(document, found.get("evidences"))}

    return renamed(object_rows(path, Columns("document", "label"), fields), _LABELS)


def _rows(found: Iterator[tuple[int, int, dict[str, Any] | str]], document: Document) -> Iterator[Row]:
    for row, line, annotation in found:
        try:
            cells: dict[str, Any] = {"problem": annotation} if isinstance(annotation, str) else _annotated(annotation, document)
        except BadCell as error:
            cells = {"problem": str(error)}
        yield from renamed(iter([Row(row, line, **cells)]), _LABELS)


def _annotated(annotation: Mapping[str, Any], document: Document) -> dict[str, Any]:
    name = annotation.get("annotation_id")
    if not isinstance(name, str) or "/" in name:
        raise BadCell(f"annotation_id {str(name)[:40]!r} where the name of a document was expected")
    text = document(name)
    if text is None:
        raise BadCell(f"a missing document (docs/{name[:60]})")
    return {"text": text, "label": annotation.get("classification"), "evidence": _evidence(text, _of_groups(annotation.get("evidences")))}


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
            files = ((member.name, archive.extractfile(member)) for member in archive if member.isfile())
            return {name: file.read().decode("utf-8", errors="surrogateescape") for name, file in files if file}
    except (tarfile.TarError, EOFError, OSError) as error:
        raise InputError("read corpus", str(path), f"a damaged archive ({error})", "a whole file", "copy or download it again") from error


def _archive() -> Layout:
    def layout(folder: Path) -> Sources:
        path = first_that_fits(folder, ("movies.tar.gz",))
        return {split: SplitSource(path, partial(archive_rows, path, names[0])) for split, names in _FILES.items()} if path else {}

    return layout


def _original() -> Layout:
    plain = split_files(_FILES, annotation_rows, tuple(_FILES))
    return lambda folder: plain(folder) if (folder / "docs").is_dir() else {}


MOVIES = CorpusEntry(
    name="movies_rationales",
    title="the film reviews with rationales of ERASER",
    citation="DeYoung et al. 2020",
    bibtex="""@inproceedings{deyoung2020eraser,
  title = {{ERASER}: A Benchmark to Evaluate Rationalized {NLP} Models},
  author = {DeYoung, Jay and Jain, Sarthak and Rajani, Nazneen Fatema and Lehman, Eric and Xiong, Caiming and Socher, Richard and Wallace, Byron C.},
  booktitle = {Proceedings of ACL},
  year = {2020}
}""",  # noqa: E501  (an author list is one line)
    licence="not stated",
    class_names=("negative", "positive"),
    sources=any_layout(
        _original(),
        _archive(),
        split_files({split: (f"{split}.jsonl", f"{split}.jsonl.gz") for split in _FILES}, pack_rows, tuple(_FILES)),
        expected="train.jsonl, val.jsonl and test.jsonl next to the folder docs, or movies.tar.gz",
        within=("movies",),
    ),
    homepage="https://www.eraserbenchmark.com/",
    downloads=(
        Download(
            "http://www.eraserbenchmark.com/zipped/movies.tar.gz",
            "66e18d4e6c9df9e9f5544572b0bfe92a39673f74ecbfc3859b46cedb2f5b2dee",
            3_899_487,
        ),
    ),
    folders=("movies_rationales", "eraser_movies", "movies"),
    expected={"paper": {"train": (800, 800), "dev": (100, 100), "test": (100, 99)}},
    differs=("not among the corpora of Jain & Wallace 2019",),
)

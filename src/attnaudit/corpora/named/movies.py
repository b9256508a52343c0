"""Film reviews with the words that annotators marked as reasons for their label, in the layout of ERASER."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from attnaudit.core.errors import InputError
from attnaudit.corpora.formats.evidence import Span, word_spans
from attnaudit.corpora.formats.jsonl import object_rows, objects
from attnaudit.corpora.formats.layouts import Layout, Sources, any_layout, first_that_fits, renamed, split_files
from attnaudit.corpora.formats.lines import text_lines, whole_text
from attnaudit.corpora.formats.rows import BadCell, Columns, Row, SplitSource
from attnaudit.corpora.named.registered import Registered

_CLASSES = {"NEG": "0", "POS": "1"}
_FILES = {"train": ("train.jsonl",), "dev": ("val.jsonl",), "test": ("test.jsonl",)}
Document = Callable[[str], "str | None"]  # the text of a name; None where there is none


def annotation_rows(path: Path) -> Iterator[Row]:
    """Rows of a split whose reviews are files of the folder ``docs`` beside it."""

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

    return renamed(object_rows(path, Columns("document", "label"), fields), _CLASSES)


def _rows(found: Iterator[tuple[int, int, dict[str, Any] | str]], document: Document) -> Iterator[Row]:
    for row, line, annotation in found:
        try:
            cells: dict[str, Any] = {"problem": annotation} if isinstance(annotation, str) else _annotated(annotation, document)
        except BadCell as error:
            cells = {"problem": str(error)}
        yield from renamed(iter([Row(row, line, **cells)]), _CLASSES)


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


MOVIES = Registered(
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
        expected="train.jsonl, val.jsonl and test.jsonl beside the folder docs, or movies.tar.gz",
        within=("movies",),
    ),
    homepage="https://www.eraserbenchmark.com/",
    folders=("movies_rationales", "eraser_movies", "movies"),
    expected={"paper": {"train": (800, 800), "dev": (100, 100), "test": (100, 99)}},
    differs=("not among the corpora of Jain & Wallace 2019",),
)

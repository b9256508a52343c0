"""Every way in which a corpus can be bad gives one line that says where, what was found and what was expected."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attnaudit.core.errors import InputError
from attnaudit.corpora import CORPORA, Corpus, SkippedRow, read_corpus

from .corpus_files import write_reviews, write_trees
from .writing import ROWS, encoded, write, write_folder

SKIP = ", or skip such rows: --on-bad-row skip"


def refused(source: Path | str, **options: object) -> str:
    with pytest.raises(InputError) as caught:
        read_corpus(source, **options)  # type: ignore[arg-type]
    line = str(caught.value)
    assert "\n" not in line
    return line


def same_when_skipped(path: Path, bad: list[SkippedRow]) -> Corpus:
    corpus = read_corpus(path, on_bad_row="skip")
    assert list(corpus.skipped) == bad
    assert sum(map(len, corpus.splits.values())) == len(ROWS)
    return corpus


def test_missing_column(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", ROWS, ("Text", "label"))
    hint = "did you mean Text? name it with --text-column (text= in Python)"
    assert (
        refused(path)
        == f"read corpus: {path}: columns Text, label; expected one column 'text'; {hint}"
    )
    for kind in ("tsv", "jsonl", "parquet"):
        assert "columns text, y; expected one column 'label'" in refused(
            write(tmp_path / f"b.{kind}", ROWS, ("text", "y"))
        )


def test_columns_that_are_called_alike_are_named(tmp_path: Path) -> None:
    names = [*(f"column {number}" for number in range(20)), "BODY", "Bodies"]
    path = tmp_path / "a.csv"
    path.write_text(",".join(names) + "\n")
    assert "did you mean BODY or Bodies? name it with --text-column (text= in Python)" in refused(
        path, text="body"
    )
    assert refused(path, text="words").endswith(
        "expected one column 'words'; name it with --text-column (text= in Python)"
    )


def test_a_column_twice(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label,text\na,0,b\n")
    assert refused(path).endswith(
        "2 columns of that name; expected one column 'text'; rename the others"
    )


def test_truncated_gzip(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv.gz")
    path.write_bytes(path.read_bytes()[:-20])
    expected = f"read corpus: {path}: the gzip file is cut off; expected a whole file; copy or download it again"
    assert refused(path) == expected
    assert refused(path, on_bad_row="skip") == expected


def test_damaged_gzip(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv.gz")
    raw = bytearray(path.read_bytes())
    raw[40:60] = b"\xff" * 20
    path.write_bytes(bytes(raw))
    assert "damaged gzip" in refused(path)
    path.write_bytes(encoded("csv", ROWS))
    assert (
        refused(path)
        == f"read corpus: {path}: no gzip file; expected gzip, as the name says; rename it or compress it again"
    )


def test_gzip_without_the_name_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(gzip.compress(encoded("csv", ROWS)))
    assert sum(map(len, read_corpus(path).splits.values())) == len(ROWS)


@pytest.mark.parametrize(
    ("kind", "line"), [("csv", " (line 2)"), ("tsv", " (line 2)"), ("jsonl", " (line 1)")]
)
def test_invalid_utf8(tmp_path: Path, kind: str, line: str) -> None:
    path = tmp_path / f"a.{kind}"
    path.write_bytes(encoded(kind, [("caf_ au lait", 1), *ROWS]).replace(b"caf_", b"caf\xe9"))
    told = refused(path)
    at = (
        "character 13" if kind == "jsonl" else "character 3"
    )  # of the line, which begins with {"text": "
    do = "read the file with --encoding cp1252 if 'café' is right, else with the one in which it was saved"
    assert (
        told
        == f"read corpus: {path}: row 0{line}: invalid UTF-8 (byte 0xe9 at {at}); expected a text and a label; {do}"
    )
    same_when_skipped(path, [SkippedRow(str(path), 0, f"invalid UTF-8 (byte 0xe9 at {at})")])


def test_invalid_utf8_in_parquet_and_escapes(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", [("caf__ au lait", 1), *ROWS])
    path.write_bytes(path.read_bytes().replace(b"caf__", b"caf\xe9_"))
    assert f"{path}: row 0: invalid UTF-8 (byte 0xe9 at character 3)" in refused(path)
    path = write(tmp_path / "a.jsonl", [("half \ud83d", 1), *ROWS])
    assert "invalid UTF-8 (half a character U+D83D at character 5)" in refused(path)


def test_a_parquet_column_whose_name_is_not_utf8(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.parquet", ROWS, ("text", "note")).read_bytes()
    for old, new in ((b"text", b"te\xfft"), (b"note", b"no\xffe")):
        (tmp_path / "a.parquet").write_bytes(whole.replace(old, new))
        assert f"a column name with invalid UTF-8 ({new!r}); expected names in UTF-8" in refused(
            tmp_path / "a.parquet"
        )


def written(corpus: Corpus) -> str:
    """All that a run writes down of a corpus but its words; fails where that is not UTF-8."""
    lines = [corpus.name, *corpus.notes, *(f"{row.file}: {row.reason}" for row in corpus.skipped)]
    return "\n".join(lines).encode("utf-8").decode("utf-8")


def test_skipped_rows_can_be_written_down(tmp_path: Path) -> None:
    lines = "".join(
        f"{'spam' if row % 2 else 'ham'}\tmessage {row} of {'so ' * row}many\n" for row in range(40)
    )
    (tmp_path / "sms_spam").mkdir()
    (tmp_path / "sms_spam" / "SMSSpamCollection").write_bytes(
        lines.encode() + b"sp\xffm\tbuy this\n"
    )
    assert "label 'sp\\udcffm' where" in written(
        read_corpus("sms_spam", data_dir=tmp_path, on_bad_row="skip")
    )


def test_a_file_of_a_folder_may_have_any_name(tmp_path: Path) -> None:
    write_reviews(tmp_path / "imdb", 40)
    odd = os.fsencode(tmp_path / "imdb" / "train" / "pos") + b"/9\xff.txt"
    Path(os.fsdecode(odd)).write_bytes(b"a \xff film")
    assert "pos/9\\udcff.txt: invalid UTF-8 (byte 0xff at character 2)" in written(
        read_corpus("imdb", data_dir=tmp_path, on_bad_row="skip")
    )


def test_a_place_whose_name_is_not_utf8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / os.fsdecode(b"f\xffilms")
    path = write(place / "a.csv")
    told = "a path with invalid UTF-8 (byte 0xff at character"
    assert told in refused(path)
    assert told in refused(place)
    assert told in refused("sst", data_dir=place)
    assert refused(path).encode("utf-8").endswith(b"expected a name in UTF-8; rename it")
    monkeypatch.setenv("ATTNAUDIT_DATA", str(place))
    assert told in refused("sst")


def test_utf16(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(encoded("csv", ROWS).decode().encode("utf-16"))
    assert f"{path}: a file in UTF-16; expected UTF-8" in refused(path)


@pytest.mark.parametrize("text", ["", "   ", "\u00a0\t"])
def test_empty_text(tmp_path: Path, text: str) -> None:
    for kind, where in (
        ("csv", "row 2 (line 4)"),
        ("jsonl", "row 2 (line 3)"),
        ("parquet", "row 2"),
    ):
        path = write(tmp_path / f"a.{kind}", [("a", 0), ("b", 1), (text, 1), *ROWS[2:]])
        assert (
            refused(path)
            == f"read corpus: {path}: {where}: an empty text; expected a text and a label; correct the row{SKIP}"
        )
        corpus = (
            same_when_skipped(path, [SkippedRow(str(path), 2, "an empty text")])
            if kind == "csv"
            else None
        )
        if corpus:
            assert "1 bad row skipped: 1 an empty text" in corpus.notes


def test_a_text_without_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "attnaudit.corpora.prepare.tokenise.normalise",
        lambda word, *how: "" if word == "~" else word,
    )
    path = write(tmp_path / "a.csv", [*ROWS, ("~ ~", 0)])
    assert "a text without a word; expected a text and a label" in refused(path)
    same_when_skipped(path, [SkippedRow(str(path), len(ROWS), "a text without a word")])


@pytest.mark.parametrize(
    ("kind", "label", "got"),
    [
        ("csv", "", "no label (empty)"),
        ("csv", "NaN", "no label (NaN)"),
        ("tsv", "null", "no label (null)"),
        ("jsonl", None, "no label (null)"),
        ("jsonl", float("nan"), "no label (null)"),
        ("jsonl", [1], "a label of type list"),
        ("jsonl", "\udcff", "a label with invalid UTF-8 (byte 0xff at character 0)"),
        ("parquet", None, "no label (null)"),
        ("parquet", float("nan"), "no label (null)"),
    ],
)
def test_no_label(tmp_path: Path, kind: str, label: object, got: str) -> None:
    path = write(tmp_path / f"a.{kind}", [*ROWS, ("some text", label)])
    assert f"{got}; expected a text and a label" in refused(path)
    same_when_skipped(path, [SkippedRow(str(path), len(ROWS), got)])


@pytest.mark.parametrize(
    ("text", "got"),
    [(None, "no text (null)"), (float("nan"), "no text (null)"), (7, "a text of type int")],
)
def test_no_text(tmp_path: Path, text: object, got: str) -> None:
    path = write(tmp_path / "a.jsonl", [*ROWS, (text, 1)])
    assert got in refused(path)
    same_when_skipped(path, [SkippedRow(str(path), len(ROWS), got)])


@pytest.mark.parametrize(
    ("line", "got"),
    [
        ("{", "no JSON (Expecting property name enclosed in double quotes at column 2)"),
        ("[1]", "a JSON list where an object was expected"),
        ("[" * 100_000, "no usable JSON"),
        ('{"text": "x"}', "no label (null)"),
    ],
)
def test_bad_json(tmp_path: Path, line: str, got: str) -> None:
    path = write(tmp_path / "a.jsonl")
    path.write_text(path.read_text() + "\n" + line)
    assert f"row {len(ROWS)} (line {len(ROWS) + 2}): {got}" in refused(path)
    assert read_corpus(path, on_bad_row="skip").skipped[0].row == len(ROWS)


def test_wrong_number_of_fields(tmp_path: Path) -> None:
    for kind, row in (("csv", "a,b,0"), ("tsv", "only one field")):
        path = write(tmp_path / f"a.{kind}")
        path.write_text(path.read_text() + row + "\n")
        count = row.count(",") + 1
        assert f"row {len(ROWS)} (line " in refused(path)
        same_when_skipped(
            path,
            [
                SkippedRow(
                    str(path),
                    len(ROWS),
                    f"{count} field{'' if count == 1 else 's'} where the header has 2",
                )
            ],
        )


def test_open_quotation_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('text,label\ngood,1\n"bad,0\nworse,0\n')
    expected = "unexpected end of data; expected fields quoted as RFC 4180 says; correct its quotation marks or line ends"
    assert (
        refused(path, on_bad_row="skip")
        == f"read corpus: {path}: row that begins in line 3: {expected}"
    )


def test_one_class_only(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", [(text, 1) for text, _ in ROWS])
    assert (
        refused(path)
        == f"read corpus: {path}: only rows of class 1; expected at least two classes to train on"
    )
    folder = write_folder(tmp_path / "f", {"train": [ROWS[0]] * 3, "test": ROWS})
    assert "no row of train has" in refused(folder)


def test_a_label_that_train_lacks(tmp_path: Path) -> None:
    folder = write_folder(
        tmp_path / "f",
        {"train": ROWS, "dev": ROWS[:4], "test": [*ROWS[:4], ("odd", 2), ("more", 2)]},
    )
    got = "label '2', which no row of train has (2 such rows); expected one of 0, 1; add rows of that class to train"
    assert refused(folder) == f"read corpus: {folder / 'test.csv'}: row 4: {got}{SKIP}"
    corpus = read_corpus(folder, on_bad_row="skip")
    assert len(corpus.splits["test"]) == 4
    assert [skipped.row for skipped in corpus.skipped] == [4, 5]
    assert corpus.skipped[0].reason == "label '2' is not in train"


def test_test_has_nothing_in_common_with_train(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "f", {"train": ROWS, "dev": ROWS, "test": [("odd", 2)]})
    assert "no row with a label that train has; expected rows for test" in refused(
        folder, on_bad_row="skip"
    )


def test_a_class_that_dev_or_test_lacks_is_told(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "f", {"train": ROWS, "dev": ROWS, "test": ROWS[:1]})
    assert "test has no row of class 0" in read_corpus(folder).notes


def test_dev_of_one_class_chooses_no_epoch(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "f", {"train": ROWS, "dev": ROWS[:1], "test": ROWS})
    expected = "expected rows of at least two classes, to choose an epoch by; add rows, or leave the dev file out to take 15 % of train"
    assert refused(folder) == f"read corpus: f: only 1 row of class 1 for dev; {expected}"
    assert "only 1 row of class 0 for dev" in refused(
        write(tmp_path / "rare.csv", [(f"text {row}", row // 10) for row in range(12)])
    )


def test_folders(tmp_path: Path) -> None:
    expected = "with one of .csv, .tsv, .jsonl, .ndjson, .parquet, perhaps with .gz; to split one file 80/10/10, name the file itself"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert (
        refused(empty)
        == f"read corpus: {empty}: no train split among no files; expected a file train {expected}"
    )
    folder = write_folder(tmp_path / "f", {"train": ROWS})
    assert (
        refused(folder)
        == f"read corpus: {folder}: no test split among train.csv; expected a file test {expected}"
    )
    write(folder / "train.jsonl.gz")
    assert "both train.csv and train.jsonl.gz; expected one file for train" in refused(folder)


def test_unknown_names_and_missing_files(tmp_path: Path) -> None:
    known = ", ".join(name for name, entry in CORPORA.items() if entry.task != "translation")
    line = f"read corpus: sts: an unknown corpus; expected one of {known}, a file or a folder; did you mean sst?"
    assert refused("sts") == line
    path = write(tmp_path / "films.csv")
    missing = tmp_path / "film.csv"
    expected = "a file, a folder or the name of a corpus; did you mean films.csv?"
    assert (
        refused(missing) == f"read corpus: {missing}: no such file or folder; expected {expected}"
    )
    text = path.rename(tmp_path / "films.txt")
    assert refused(text) == (
        f"read corpus: {text}: a file of format '.txt'; expected one of .csv, .tsv, .jsonl, .ndjson, .parquet, perhaps with .gz"
    )


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.csv.gz"])
def test_empty_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"" if not name.endswith("gz") else gzip.compress(b""))
    assert refused(path) == f"read corpus: {path}: an empty file; expected a file with rows"
    path.write_bytes(b"")
    assert "an empty file" in refused(path)


def test_no_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", [])
    assert refused(path) == f"read corpus: {path}: no row; expected at least one row of each class"
    path = write(tmp_path / "b.csv", [("", 0), ("", 1)])
    assert "no usable row among 2" in refused(path, on_bad_row="skip")
    path = tmp_path / "c.parquet"
    path.write_bytes(b"PAR1")
    assert "no readable parquet" in refused(path)


def test_too_few_rows_and_too_many_classes(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", ROWS[:4])
    assert "4 rows, none of whose classes has three" in refused(path)
    path = write(tmp_path / "b.csv", [(f"text {row}", f"score {row}") for row in range(50)])
    assert "50 different labels in 50 rows; expected classes that many rows share" in refused(path)
    folder = write_folder(tmp_path / "f", {"train": ROWS[:2], "test": ROWS})
    assert "no dev file, and 2 train rows, none of whose classes has two" in refused(folder)


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.csv")

    def forbidden(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", forbidden)
    assert (
        refused(path) == f"read corpus: {path}: Permission denied; expected a file that can be read"
    )


@pytest.mark.parametrize(
    ("options", "got"),
    [
        (
            {"on_bad_row": "skp"},
            "corpus.on_bad_row: 'skp'; expected one of error, skip; did you mean skip?",
        ),
        (
            {"preset": "code"},
            "preset: 'code'; expected one of paper, code2019, flan, han; did you mean code2019?",
        ),
        (
            {"sentences": "line"},
            "corpus.sentences: 'line'; expected one of rule, lines; did you mean lines?",
        ),
        ({"max_tokens": 0}, "corpus.max_tokens: 0; expected 1 or more"),
        ({"min_df": 0}, "corpus.min_df: 0; expected 1 or more"),
        ({"test_kept": 0.0}, "corpus.test_kept: 0.0; expected a number above 0, up to 1"),
        ({"test_kept": 1.5}, "corpus.test_kept: 1.5; expected a number above 0, up to 1"),
        ({"size": 60}, "corpus.size: corpus sst; expected a corpus planted-<kind>"),
    ],
)
def test_settings(options: dict[str, Any], got: str, tmp_path: Path) -> None:
    if "size" in options:
        write_trees(tmp_path / "sst")
    with pytest.raises(InputError) as caught:
        read_corpus("sst", data_dir=tmp_path, **options)
    assert str(caught.value) == f"read settings: setting {got}"


def test_named_corpus_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    do = "get them with attnaudit corpora fetch sst; or name their folder with --data-dir"
    expected = f"expected the files of the Stanford Sentiment Treebank; {do}"
    assert (
        refused("sst", data_dir=tmp_path)
        == f"read corpus sst: {tmp_path}: no folder sst, trees (--data-dir); {expected}"
    )
    monkeypatch.setenv("ATTNAUDIT_DATA", str(tmp_path))
    assert "($ATTNAUDIT_DATA)" in refused("sst")
    monkeypatch.delenv("ATTNAUDIT_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert (
        f"{tmp_path / 'attnaudit' / 'corpora'}: no folder sst, trees (the user's cache)"
        in refused("sst")
    )


def test_a_million_tokens(tmp_path: Path) -> None:
    folder = write_folder(
        tmp_path / "f", {"train": [("so " * 1_000_000, 0), *ROWS], "dev": ROWS, "test": ROWS}
    )
    note = "1 row of train longer than 10000 tokens kept whole (longest 1000000, row 0); --max-tokens cuts them"
    assert note in read_corpus(folder).notes
    write(folder / "train.csv", [("so " * 20_000, 0), *ROWS])
    assert (
        "1 row of train cut to 100 tokens (longest 20000)"
        in read_corpus(folder, max_tokens=100).notes
    )


@pytest.mark.parametrize(
    "make", [lambda n: "(" * n, lambda n: "x" * n, lambda n: "'" * n, lambda n: "a.b" * n]
)
def test_a_text_without_spaces_takes_no_longer_than_its_length(
    make: Callable[[int], str], tmp_path: Path
) -> None:
    path = write(tmp_path / "a.csv", [*ROWS, (make(40_000), 1)])
    assert sum(map(len, read_corpus(path).splits.values())) == len(ROWS) + 1

"""One corpus, many containers."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attnaudit.corpora.read import read_corpus

from .writing import LABELS, ROWS, TEXTS, counts, encoded, refused, sizes, write, write_folder

FORMATS = ["csv", "tsv", "jsonl", "parquet", "csv.gz", "tsv.gz", "jsonl.gz", "parquet.gz"]


def labels_by_row(corpus):
    splits = corpus.splits.values()
    rows, labels = (np.concatenate([vars(one)[k] for one in splits]) for k in ("instance", "label"))
    return dict(sorted(zip(rows.tolist(), labels.tolist(), strict=True)))


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_holds_the_same_corpus(tmp_path, kind):
    corpus = read_corpus(write(tmp_path / f"films.{kind}"))
    plain = read_corpus(write(tmp_path / "plain/films.csv"))
    assert corpus.fingerprint == plain.fingerprint
    assert (corpus.name, corpus.class_names, corpus.min_df) == ("films", ("0", "1"), 1)
    assert labels_by_row(corpus) == dict(enumerate(LABELS))


def test_views_of_strings_are_strings(tmp_path):
    columns = {"text": TEXTS, "label": [str(label) for label in LABELS]}
    views = {name: pa.array(values, pa.string_view()) for name, values in columns.items()}
    pq.write_table(pa.table(views), tmp_path / "films.parquet")
    plain = read_corpus(write(tmp_path / "plain/films.csv"))
    assert read_corpus(tmp_path / "films.parquet").fingerprint == plain.fingerprint


@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_byte_order_mark_and_crlf_change_nothing(tmp_path, kind):
    rows = [(text.replace("\n", " "), label) for text, label in ROWS]
    plain = read_corpus(write(tmp_path / f"a.{kind}", rows))
    marked = tmp_path / f"b.{kind}"
    marked.write_bytes(b"\xef\xbb\xbf" + encoded(kind, rows).replace(b"\n", b"\r\n"))
    assert read_corpus(marked).fingerprint == plain.fingerprint


def test_quotation_marks_in_a_plain_tsv_are_text(tmp_path):
    path = tmp_path / "a.tsv"
    body = "".join(
        f'"Great" he said, row {row}\t{row % 2}\n"open ended {row}\t{row % 2}\n'
        for row in range(12)
    )
    path.write_text("text\tlabel\n" + body)
    corpus = read_corpus(path)
    assert sum(map(len, corpus.splits.values())) == 24
    assert corpus.splits["train"].tokens[0][:3] == ['"', "great", '"']


def test_long_fields_and_empty_lines(tmp_path):
    path = write(tmp_path / "a.csv", [("word " * 60_000, 0), *ROWS])
    path.write_text(path.read_text().replace("\n", "\n\n", 1) + "\n\n")
    corpus = read_corpus(path)
    assert sum(map(len, corpus.splits.values())) == 1 + len(ROWS)
    note = "longer than 10000 tokens kept whole (longest 60000, row 0); corpus.max_tokens cuts them"
    assert any(note in one for one in corpus.notes)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["spam", "ham"], ("ham", "spam")),
        (["10", "9"], ("9", "10")),
        (["1.0", "1", "0"], ("0", "1")),
        (["-1", "+1", "0.5"], ("-1", "0.5", "1")),
        (["007", "7"], ("007", "7")),
        ([" b ", "b", "a"], ("a", "b")),
    ],
)
def test_class_names(tmp_path, names, expected):
    rows = [(text, names[row % len(names)]) for row, text in enumerate(TEXTS)]
    assert read_corpus(write(tmp_path / "a.csv", rows)).class_names == expected


def test_one_file_is_split_by_class(tmp_path):
    rows = [(f"text number {'x' * row}", int(row % 4 == 0)) for row in range(400)]
    corpus = read_corpus(write(tmp_path / "a.csv", rows), seed=3)
    assert counts(corpus) == {"train": [240, 80], "dev": [30, 10], "test": [30, 10]}
    assert corpus.notes[0].startswith("one file, split 80/10/10 by class with seed 3: train 320")
    other = read_corpus(tmp_path / "a.csv", seed=4)
    assert other.fingerprint != corpus.fingerprint
    assert labels_by_row(other) == labels_by_row(corpus)


def test_a_folder_with_three_splits_and_other_files(tmp_path):
    splits = {"train": ROWS, "valid": ROWS[:4], "test": ROWS[:6], "train_extra": ROWS}
    folder = write_folder(tmp_path / "films", splits)
    (folder / "README.md").write_text("hello")
    (folder / "dev.txt").write_text("not a known format")
    corpus = read_corpus(folder)
    assert sizes(corpus) == [24, 4, 6]
    assert corpus.name == "films"
    assert corpus.splits["dev"].instance.tolist() == [0, 1, 2, 3]
    assert corpus.notes == (
        "warning: rows with the same words: 4 of 4 rows of dev also in train, 6 of 6 rows of test also in train, 4 of 6 rows of test also in dev, 12 within train",
    )


def test_dev_is_taken_from_train_and_test_changes_nothing(tmp_path):
    one = read_corpus(write_folder(tmp_path / "a", {"train": ROWS, "test": ROWS[:6]}), seed=1)
    two = read_corpus(write_folder(tmp_path / "b", {"train": ROWS, "test": ROWS[3:4]}), seed=1)
    assert one.notes[0].startswith("no dev file: 15 % of train, drawn by class with seed 1: ")
    for name in ("train", "dev"):
        assert one.splits[name].tokens == two.splits[name].tokens
    rows = np.concatenate([one.splits["train"].instance, one.splits["dev"].instance])
    assert sorted(rows.tolist()) == list(range(24))


def test_max_tokens_and_min_df(tmp_path):
    path = write(tmp_path / "a.csv")
    corpus = read_corpus(path, max_tokens=4, min_df=2)
    assert max(len(tokens) for split in corpus.splits.values() for tokens in split.tokens) == 4
    assert any("6 rows cut to 4 tokens (longest 10, row " in note for note in corpus.notes)
    assert corpus.min_df == 2
    others = [read_corpus(path), read_corpus(path, max_tokens=4)]
    assert len({one.fingerprint for one in (corpus, *others)}) == 3


def test_a_share_of_test(tmp_path):
    folder = write_folder(tmp_path / "a", {"train": ROWS, "test": ROWS})
    whole, half = read_corpus(folder), read_corpus(folder, test_kept=0.5)
    assert set(half.splits["test"].instance) < set(whole.splits["test"].instance)
    one, all_rows = (np.bincount(corpus.splits["test"].label) for corpus in (half, whole))
    assert one.tolist() == ((all_rows + 1) // 2).tolist()
    assert half.splits["train"].instance.tolist() == whole.splits["train"].instance.tolist()
    assert half.fingerprint != whole.fingerprint
    small = write_folder(tmp_path / "b", {"train": ROWS, "test": [("one film", 0), ("another", 1)]})
    assert "50 % of test" in refused(small, test_kept=0.5).got


def test_gzip_is_known_by_its_bytes(tmp_path):
    plain = encoded("csv", ROWS)
    for name, content in (("a.csv", gzip.compress(plain)), ("b.csv.gz", plain)):
        (tmp_path / name).write_bytes(content)
        assert sum(sizes(read_corpus(tmp_path / name))) == len(ROWS)

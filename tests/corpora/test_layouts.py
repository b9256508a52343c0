"""Every upstream layout gives the rows that were written, and every way in which its files can be bad gives one line."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from attnaudit.corpora import read_corpus

from . import corpus_files as files
from .corpus_files import put
from .writing import bad_row, counts, refused, sizes, write


def test_trees_with_five_classes(tmp_path: Path) -> None:
    files.write_trees(tmp_path / "sst5" / "trees")
    corpus = read_corpus("sst5", data_dir=tmp_path)
    assert counts(corpus) == {split: [2] * 5 for split in ("train", "dev", "test")}
    assert " ".join(corpus.splits["dev"].tokens[2]) == "number c of the dev sentences here"
    assert counts(read_corpus("sst", data_dir=tmp_path / "sst5"))["test"] == [4, 4]


def test_a_latin_1_byte_in_a_tree_file(tmp_path: Path) -> None:
    files.write_trees(tmp_path / "sst5")
    path = tmp_path / "sst5" / "train.txt"
    path.write_bytes(path.read_bytes() + b"(2 (2 caf\xe9) (2 au))\n")
    error = bad_row("sst5", 10, "byte 0xe9", data_dir=tmp_path)
    assert error.where == f"{path}: row 10 (line 11)"


def test_reviews_in_folders(tmp_path: Path) -> None:
    files.write_reviews(tmp_path / "imdb" / "aclImdb")
    corpus = read_corpus("imdb", data_dir=tmp_path)
    assert counts(corpus) == {"train": [16, 16], "dev": [4, 4], "test": [4, 4]}
    for told in ("20 % of test", "no dev file: 20 % of train", "test has"):
        assert any(note.startswith(told) for note in corpus.notes)
    whole = read_corpus("imdb", data_dir=tmp_path, test_kept=1)
    assert counts(whole)["test"] == [20, 20]
    # The published count is not of all rows.
    assert not any(note.startswith("test has") for note in whole.notes)
    train = corpus.splits["train"]
    for row, tokens, label in zip(train.instance, train.tokens, train.label, strict=True):
        assert (label, tokens.count("so")) == divmod(row, 20)  # neg first, by number
        assert "br" not in tokens
    path = put(tmp_path / "imdb" / "aclImdb" / "train" / "neg" / "7_3.txt", "")
    assert bad_row("imdb", 7, data_dir=tmp_path).where == f"{path}: row 7"


def test_reviews_by_stars(tmp_path: Path) -> None:
    folder, groups = tmp_path / "imdb_stars", (("neg", (1, 2, 3, 4)), ("pos", (7, 8, 9, 10)))
    for split, (group, stars), row in product(("train", "test"), groups, range(20)):
        star = stars[row % 4]
        put(folder / split / group / f"{row}_{star}.txt", f"A film of {star} stars, number {row}.")
    corpus = read_corpus("imdb_stars", data_dir=tmp_path)
    assert counts(corpus) == {"train": [4] * 8, "dev": [1] * 8, "test": [5] * 8}
    assert (corpus.class_names[0], corpus.class_names[-1]) == ("1 star", "10 stars")
    put(folder / "test" / "neg" / "3_6.txt", "Neither good nor bad.")
    error = refused("imdb_stars", data_dir=tmp_path)
    assert "neg/3_6.txt" in error.where
    assert "label '6' where one of 1, 2, 3, 4, 7, 8, 9, 10" in error.got


def test_posts_are_pooled_and_drawn_anew(tmp_path: Path) -> None:
    files.write_posts(tmp_path / "20news_sports")
    corpus = read_corpus("20news_sports", data_dir=tmp_path)
    assert counts(corpus) == {"train": [13, 13], "dev": [3, 3], "test": [4, 4]}
    assert corpus.notes[0].startswith("train and test taken together, split 64/16/20 by class")
    rows: dict[int, list[str]] = {}
    for split in corpus.splits.values():
        rows |= dict(zip(split.instance.tolist(), split.tokens, strict=True))
    assert sorted(rows) == list(range(40))
    for row, tokens in rows.items():
        assert tokens.count("very") == row % 10 + (10 if row >= 20 else 0)
        assert "café" in tokens
        assert not {"subject", "writes", "someone@example.org", "think", "--"} & set(tokens)


def test_two_classes_of_the_news_and_four(tmp_path: Path) -> None:
    files.write_class_csv(tmp_path / "ag_news" / "ag_news_csv", classes=4, fields=3, number=20)
    two, four = (read_corpus(name, data_dir=tmp_path) for name in ("ag_news", "ag_news4"))
    assert counts(two) == {"train": [17, 17], "dev": [3, 3], "test": [20, 20]}
    assert counts(four) == {"train": [17] * 4, "dev": [3] * 4, "test": [20] * 4}
    assert "rows of train excluded by the corpus's definition: 40 of another class" in two.notes
    description, both = two.splits["test"].tokens[1], four.splits["test"].tokens[2]
    assert len(both) == 2 * len(description)
    assert two.splits["test"].instance.tolist()[:3] == [0, 2, 4]


@pytest.mark.parametrize(
    ("line", "got"),
    [
        ('"5","title","text"', "label '5' where one of 1, 3 was expected"),
        ('"1","text"', "2 fields where 3 were expected"),
        ('"1","title",""', "an empty text"),
    ],
)
def test_bad_rows_of_a_class_csv(line: str, got: str, tmp_path: Path) -> None:
    files.write_class_csv(tmp_path / "ag_news", classes=4, fields=3)
    path = tmp_path / "ag_news" / "train.csv"
    path.write_text(path.read_text() + line + "\n")
    error = bad_row("ag_news", 32, got, data_dir=tmp_path)
    assert error.where == f"{path}: row 32 (line 33)"


def test_stars_and_topics(tmp_path: Path) -> None:
    for name, folder, classes, fields in (
        ("yelp", "yelp_review_full_csv", 5, 2),
        ("amazon", "amazon_review_full_csv", 5, 3),
        ("yahoo", "yahoo_answers_csv", 10, 4),
    ):
        files.write_class_csv(tmp_path / name / folder, classes, fields)
        corpus = read_corpus(name, data_dir=tmp_path)
        assert counts(corpus)["test"] == [8] * classes
        first = "Society & Culture" if name == "yahoo" else "1 star"
        assert corpus.class_names[corpus.splits["test"].label[0]] == first


def test_a_sample_without_train_is_pooled(tmp_path: Path) -> None:
    for split in ("dev", "test"):
        rows = [(f"{split} {'so ' * row} good", row % 5) for row in range(50)]
        write(tmp_path / "yelp" / f"{split}.csv.gz", rows)
    corpus = read_corpus("yelp", data_dir=tmp_path)
    assert counts(corpus) == {"train": [16] * 5, "dev": [2] * 5, "test": [2] * 5}
    assert corpus.notes[0].startswith("dev and test taken together, split 80/10/10 by class")


def test_the_users_own_tweets(tmp_path: Path) -> None:
    rows = [(f"my head {'so ' * row} hurts again", int(row % 4 == 0)) for row in range(1, 81)]
    path = write(tmp_path / "adr" / "tweets.csv.gz", rows)
    corpus = read_corpus("adr", data_dir=tmp_path)
    assert sum(sizes(corpus)) == 79
    assert "rows excluded by the corpus's definition: 1 at most 5 words" in corpus.notes
    path.rename(path.with_name("train.csv.gz"))
    error = refused("adr", data_dir=tmp_path)
    assert error.got == "no test split among train.csv.gz"
    assert "withdrawn by the authors" in error.do


def test_trec(tmp_path: Path) -> None:
    kinds = ("ABBR:exp", "DESC:manner", "ENTY:animal", "HUM:ind", "LOC:city", "NUM:date")
    for name in ("train_5500.label", "TREC_10.label"):
        lines = [f"{kind} What caf\xe9 {'so ' * row}?" for row in range(7) for kind in kinds]
        path = put(tmp_path / "trec6" / name, "\n".join(lines) + "\n", "latin-1")
    corpus = read_corpus("trec6", data_dir=tmp_path)
    assert counts(corpus) == {"train": [6] * 6, "dev": [1] * 6, "test": [7] * 6}
    assert corpus.splits["test"].tokens[1] == ["what", "café", "?"]
    path.write_bytes(b"DOSC:x What ?\n" + path.read_bytes())
    bad_row("trec6", 0, "label 'DOSC'", data_dir=tmp_path)


def test_messages(tmp_path: Path) -> None:
    lines = [f'{("ham", "spam")[row % 4 == 0]}\tSay "hi" {"so " * row}£{row}' for row in range(40)]
    path = put(tmp_path / "sms_spam" / "SMSSpamCollection", "\n".join(lines) + "\n")
    corpus = read_corpus("sms_spam", data_dir=tmp_path)
    assert counts(corpus) == {"train": [24, 8], "dev": [3, 1], "test": [3, 1]}
    path.write_text(path.read_text() + "ham without a tab\n")
    assert bad_row("sms_spam", 40, data_dir=tmp_path).where.endswith("row 40 (line 41)")


@pytest.mark.parametrize(
    ("name", "names", "encoding"),
    [
        ("mr", ("rt-polarity.neg", "rt-polarity.pos"), "cp1252"),
        ("subj", ("plot.tok.gt9.5000", "quote.tok.gt9.5000"), "latin-1"),
    ],
)
def test_sentences_in_a_file_for_each_class(
    name: str, names: tuple[str, str], encoding: str, tmp_path: Path
) -> None:
    for label, file in enumerate(names):
        lines = "".join(f"caf\xe9 {label} {'so ' * row}\n" for row in range(20))
        put(tmp_path / name / file, lines, encoding)
    corpus = read_corpus(name, data_dir=tmp_path)
    assert counts(corpus) == {"train": [16, 16], "dev": [2, 2], "test": [2, 2]}
    for split in corpus.splits.values():
        assert all(tokens[0] == "café" for tokens in split.tokens)
        assert (split.label == (split.instance >= 20)).all()


def test_inference_with_unlabelled_pairs(tmp_path: Path) -> None:
    files.write_snli(tmp_path / "snli" / "snli_1.0")
    corpus = read_corpus("snli", data_dir=tmp_path)
    assert corpus.task == "inference"
    assert counts(corpus) == {split: [6, 6, 6] for split in ("train", "dev", "test")}
    assert "rows of dev excluded by the corpus's definition: 6 without a gold label" in corpus.notes
    dev = corpus.splits["dev"]
    for question, label in zip(dev.question or (), dev.label, strict=True):
        assert question == ["he", "is", corpus.class_names[label], "."]
    path = tmp_path / "snli" / "snli_1.0" / "snli_1.0_dev.jsonl"
    path.write_text(path.read_text().replace('"He is entailment."', '""', 1))
    bad_row("snli", 0, "an empty question", data_dir=tmp_path)


def test_sick_in_one_file_and_in_three(tmp_path: Path) -> None:
    put(tmp_path / "one" / "sick_nli" / "SICK.txt", files.sick_table(sets=True))
    for name, split in (("train", "TRAIN"), ("trial", "TRIAL"), ("test_annotated", "TEST")):
        table = files.sick_table(sets=False, split=split)
        put(tmp_path / "three" / "sick_nli" / f"SICK_{name}.txt", table)
    one, three = (read_corpus("sick_nli", data_dir=tmp_path / name) for name in ("one", "three"))
    assert one.fingerprint == three.fingerprint
    assert counts(one) == {split: [2, 2, 2] for split in ("train", "dev", "test")}
    assert " ".join(one.splits["dev"].tokens[1]) == 'a dog of " trial " so runs'


@pytest.mark.parametrize(
    ("name", "write_files", "path"),
    [
        ("sst5", files.write_trees, "train.txt"),
        ("ag_news", lambda folder: files.write_class_csv(folder, 4, 3), "test.csv"),
        ("babi1", files.write_babi, "qa1_some-facts_test.txt"),
        ("snli", files.write_snli, "snli_1.0_dev.jsonl"),
        ("movies_rationales", files.write_movies, "val.jsonl"),
        ("diabetes", files.write_mimic, "NOTEEVENTS.csv"),
        ("diabetes", files.write_mimic, "DIAGNOSES_ICD.csv"),
    ],
)
def test_an_empty_file(
    name: str, write_files: Callable[[Path], None], path: str, tmp_path: Path
) -> None:
    write_files(tmp_path / name)
    put(tmp_path / name / path, "")
    error = refused(name, data_dir=tmp_path)
    assert (error.where, error.got) == (str(tmp_path / name / path), "an empty file")

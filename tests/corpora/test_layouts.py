"""Every upstream layout gives the rows that were written, and every way in which its files can be bad gives one line."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from attnaudit.core.errors import InputError
from attnaudit.corpora import Corpus, read_corpus

from . import corpus_files as files
from .corpus_files import put
from .writing import refused


def counts(corpus: Corpus) -> dict[str, list[int]]:
    return {
        name: np.bincount(split.label, minlength=len(corpus.class_names)).tolist()
        for name, split in corpus.splits.items()
    }


def bad_row(name: str, data_dir: Path, row: int) -> InputError:
    """The refusal of a corpus with one bad row, which is set aside when bad rows are skipped."""
    corpus = read_corpus(name, data_dir=data_dir, on_bad_row="skip")
    assert [skipped.row for skipped in corpus.skipped] == [row]
    assert any("1 bad row" in note for note in corpus.notes)
    error = refused(name, data_dir=data_dir)
    assert f"row {row}" in error.where
    assert corpus.skipped[0].reason == error.got
    return error


def test_trees_with_five_classes(tmp_path: Path) -> None:
    files.write_trees(tmp_path / "sst5" / "trees")
    corpus = read_corpus("sst5", data_dir=tmp_path)
    assert counts(corpus) == {split: [2] * 5 for split in ("train", "dev", "test")}
    assert corpus.splits["dev"].tokens[2] == [
        "number",
        "c",
        "of",
        "the",
        "dev",
        "sentences",
        "here",
    ]
    assert counts(read_corpus("sst", data_dir=tmp_path / "sst5"))["test"] == [4, 4]


def test_a_latin_1_byte_in_a_tree_file(tmp_path: Path) -> None:
    files.write_trees(tmp_path / "sst5")
    path = tmp_path / "sst5" / "train.txt"
    path.write_bytes(
        path.read_bytes() + files.tree("caf_ au lait", 2).encode().replace(b"caf_", b"caf\xe9")
    )
    error = bad_row("sst5", tmp_path, 10)
    assert error.where == f"{path}: row 10 (line 11)"
    assert "byte 0xe9" in error.got


def test_reviews_in_folders(tmp_path: Path) -> None:
    files.write_reviews(tmp_path / "imdb" / "aclImdb")
    corpus = read_corpus("imdb", data_dir=tmp_path)
    assert counts(corpus) == {"train": [16, 16], "dev": [4, 4], "test": [4, 4]}
    assert "20 % of test, drawn by class with seed 0: 8 of 40" in corpus.notes
    assert "no dev file: 20 % of train, drawn by class with seed 0: train 32, dev 8" in corpus.notes
    whole = read_corpus("imdb", data_dir=tmp_path, test_kept=1)
    assert counts(whole) == {"train": [16, 16], "dev": [4, 4], "test": [20, 20]}
    assert [note for note in corpus.notes if note.startswith("test has")]
    assert not [
        note for note in whole.notes if note.startswith("test has")
    ]  # the published count is not of all rows
    train = corpus.splits["train"]
    rows = dict(
        zip(
            train.instance.tolist(),
            zip(train.tokens, train.label.tolist(), strict=True),
            strict=True,
        )
    )
    for row, (tokens, label) in rows.items():
        assert label == row // 20  # neg first, by number
        assert tokens.count("so") == row % 20
        assert "br" not in " ".join(tokens).replace("number", "")
    path = put(tmp_path / "imdb" / "aclImdb" / "train" / "neg" / "7_3.txt", "")
    assert bad_row("imdb", tmp_path, 7).where == f"{path}: row 7"


def test_reviews_by_stars(tmp_path: Path) -> None:
    folder = tmp_path / "imdb_stars" / "aclImdb"
    for split in ("train", "test"):
        for group, stars in (("neg", (1, 2, 3, 4)), ("pos", (7, 8, 9, 10))):
            for row in range(20):
                put(
                    folder / split / group / f"{row}_{stars[row % 4]}.txt",
                    f"A film of {stars[row % 4]} stars, number {row}.",
                )
    corpus = read_corpus("imdb_stars", data_dir=tmp_path)
    assert counts(corpus) == {"train": [4] * 8, "dev": [1] * 8, "test": [5] * 8}
    assert corpus.class_names[0] == "1 star"
    assert corpus.class_names[-1] == "10 stars"
    put(folder / "test" / "neg" / "3_6.txt", "Neither good nor bad.")
    error = refused("imdb_stars", data_dir=tmp_path)
    assert "neg/3_6.txt" in error.where
    assert "label '6' where one of 1, 2, 3, 4, 7, 8, 9, 10" in error.got


def test_posts_are_pooled_and_drawn_anew(tmp_path: Path) -> None:
    files.write_posts(tmp_path / "20news_sports")
    corpus = read_corpus("20news_sports", data_dir=tmp_path)
    assert counts(corpus) == {"train": [13, 13], "dev": [3, 3], "test": [4, 4]}
    assert (
        "train and test taken together, split 64/16/20 by class with seed 0: train 26, dev 6, test 8"
        in corpus.notes
    )
    instances = np.concatenate([split.instance for split in corpus.splits.values()])
    assert sorted(instances.tolist()) == list(range(40))
    words = [word for split in corpus.splits.values() for tokens in split.tokens for word in tokens]
    assert "café" in words
    assert not {"subject", "writes", "someone@example.org", "think", "--"} & set(words)
    for split in corpus.splits.values():
        for row, tokens in zip(split.instance.tolist(), split.tokens, strict=True):
            assert tokens.count("very") == row % 10 + (10 if row >= 20 else 0)


def test_two_classes_of_the_news_and_four(tmp_path: Path) -> None:
    files.write_class_csv(tmp_path / "ag_news" / "ag_news_csv", classes=4, fields=3, number=20)
    two, four = (read_corpus(name, data_dir=tmp_path) for name in ("ag_news", "ag_news4"))
    assert counts(two) == {"train": [17, 17], "dev": [3, 3], "test": [20, 20]}
    assert counts(four) == {"train": [17] * 4, "dev": [3] * 4, "test": [20] * 4}
    assert "rows of train excluded by the corpus's definition: 40 of another class" in two.notes
    assert two.splits["test"].tokens[1][:2] == ["field", "qqq"]
    assert two.splits["test"].tokens[1][-1] == "qqq"
    assert len(four.splits["test"].tokens[2]) == 2 * len(
        two.splits["test"].tokens[1]
    )  # title and description
    assert two.splits["test"].instance.tolist()[:3] == [0, 2, 4]


def write_table(
    path: Path, rows: list[tuple[str, int]], names: tuple[str, ...] = ("text", "label")
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([names, *rows])
    return path


def test_news_with_a_header_hold_title_and_description(tmp_path: Path) -> None:
    for split in ("train", "test"):
        rows = [(f"{split} text {'so ' * row}", row % 4) for row in range(80)]
        write_table(tmp_path / "ag_news" / f"{split}.csv.gz", rows)
    corpus = read_corpus("ag_news", data_dir=tmp_path)
    assert counts(corpus)["test"] == [20, 20]
    assert (
        "the texts of these files are title and description; the paper used the description alone"
        in corpus.notes
    )
    write_table(tmp_path / "ag_news" / "train.csv.gz", [("some text", 0)], ("body", "label"))
    assert refused("ag_news", data_dir=tmp_path).got == "columns body, label"


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
    error = bad_row("ag_news", tmp_path, 32)
    assert (error.where, error.got) == (f"{path}: row 32 (line 33)", got)


def test_a_label_that_a_table_should_not_have(tmp_path: Path) -> None:
    for split in ("train", "test"):
        write_table(
            tmp_path / "ag_news" / f"{split}.csv.gz",
            [(f"text {'so ' * row}", row % 5) for row in range(20)],
        )
    error = refused("ag_news", data_dir=tmp_path)
    assert error.where.endswith("row 4 (line 6)")
    assert error.got == "label '4' where one of 0, 2 was expected"


def test_stars_and_topics(tmp_path: Path) -> None:
    files.write_class_csv(tmp_path / "yelp" / "yelp_review_full_csv", classes=5, fields=2)
    files.write_class_csv(tmp_path / "amazon" / "amazon_review_full_csv", classes=5, fields=3)
    files.write_class_csv(tmp_path / "yahoo" / "yahoo_answers_csv", classes=10, fields=4)
    yelp, amazon, yahoo = (
        read_corpus(name, data_dir=tmp_path) for name in ("yelp", "amazon", "yahoo")
    )
    assert (
        yelp.class_names
        == amazon.class_names
        == ("1 star", "2 stars", "3 stars", "4 stars", "5 stars")
    )
    assert counts(yelp)["test"] == counts(amazon)["test"] == [8] * 5
    assert counts(yahoo)["test"] == [8] * 10
    assert "Society & Culture" in yahoo.class_names
    first = yahoo.class_names.index("Society & Culture")
    assert yahoo.splits["test"].label.tolist()[0] == first
    assert yahoo.splits["test"].tokens[0][-1] == "qqq"


def test_a_sample_without_train_is_pooled(tmp_path: Path) -> None:
    for split in ("dev", "test"):
        write_table(
            tmp_path / "yelp" / f"{split}.csv.gz",
            [(f"{split} {'so ' * row} good", row % 5) for row in range(50)],
        )
    corpus = read_corpus("yelp", data_dir=tmp_path)
    assert counts(corpus) == {"train": [16] * 5, "dev": [2] * 5, "test": [2] * 5}
    assert (
        "dev and test taken together, split 80/10/10 by class with seed 0: train 80, dev 10, test 10"
        in corpus.notes
    )
    assert not [note for note in corpus.notes if "instead" in note]


def test_the_users_own_tweets(tmp_path: Path) -> None:
    rows = [(f"my head {'so ' * row} hurts again", int(row % 4 == 0)) for row in range(1, 81)]
    write_table(tmp_path / "adr" / "tweets.csv", rows).rename(tmp_path / "adr" / "tweets.csv.gz")
    corpus = read_corpus("adr", data_dir=tmp_path)
    assert sum(map(sum, counts(corpus).values())) == 79
    assert "rows excluded by the corpus's definition: 1 at most 5 words" in corpus.notes
    (tmp_path / "adr" / "tweets.csv.gz").rename(tmp_path / "adr" / "train.csv.gz")
    error = refused("adr", data_dir=tmp_path)
    assert error.got == "no test split among train.csv.gz"
    assert "withdrawn by the authors" in error.do
    write_table(tmp_path / "adr" / "test.csv.gz", rows)
    assert sum(map(sum, counts(read_corpus("adr", data_dir=tmp_path)).values())) == 2 * 79


def test_a_table_without_the_header_that_was_expected(tmp_path: Path) -> None:
    put(tmp_path / "adr" / "tweets.csv", "my head hurts again today,1\nall is well here today,0\n")
    error = refused("adr", data_dir=tmp_path)
    assert error.where.endswith("tweets.csv")
    assert error.expected == "one column 'text'"


def test_trec(tmp_path: Path) -> None:
    kinds = ("ABBR:exp", "DESC:manner", "ENTY:animal", "HUM:ind", "LOC:city", "NUM:date")
    for name in ("train_5500.label", "TREC_10.label"):
        lines = [f"{kind} What caf\xe9 {'so ' * row}?" for row in range(7) for kind in kinds]
        put(tmp_path / "trec6" / name, "\n".join(lines) + "\n", "latin-1")
    corpus = read_corpus("trec6", data_dir=tmp_path)
    assert counts(corpus) == {"train": [6] * 6, "dev": [1] * 6, "test": [7] * 6}
    assert corpus.splits["test"].tokens[1] == ["what", "café", "?"]
    path = tmp_path / "trec6" / "TREC_10.label"
    path.write_bytes(b"DOSC:x What ?\n" + path.read_bytes())
    error = bad_row("trec6", tmp_path, 0)
    assert error.where == f"{path}: row 0 (line 1)"
    assert "label 'DOSC'" in error.got


def test_messages(tmp_path: Path) -> None:
    lines = [f'{("ham", "spam")[row % 4 == 0]}\tSay "hi" {"so " * row}£{row}' for row in range(40)]
    path = put(tmp_path / "sms_spam" / "SMSSpamCollection", "\n".join(lines) + "\n")
    corpus = read_corpus("sms_spam", data_dir=tmp_path)
    assert counts(corpus) == {"train": [24, 8], "dev": [3, 1], "test": [3, 1]}
    path.write_text(path.read_text() + "ham without a tab\n")
    assert bad_row("sms_spam", tmp_path, 40).where.endswith("row 40 (line 41)")
    path.write_text("\n".join([*lines, "eggs\tand bacon"]))
    assert "label 'eggs'" in bad_row("sms_spam", tmp_path, 40).got


def test_sentences_in_a_file_for_each_class(tmp_path: Path) -> None:
    for name, folder, names in (
        ("mr", "rt-polaritydata", ("rt-polarity.neg", "rt-polarity.pos")),
        ("subj", "rotten_imdb", ("plot.tok.gt9.5000", "quote.tok.gt9.5000")),
    ):
        for label, file in enumerate(names):
            encoding = "cp1252" if name == "mr" else "latin-1"
            put(
                tmp_path / name / folder / file,
                "".join(f"caf\xe9 {label} {'so ' * row}\n" for row in range(20)),
                encoding,
            )
        corpus = read_corpus(name, data_dir=tmp_path)
        assert counts(corpus) == {"train": [16, 16], "dev": [2, 2], "test": [2, 2]}
        for split in corpus.splits.values():
            assert all(tokens[0] == "café" for tokens in split.tokens)
            assert (split.label == (split.instance >= 20)).all()


def test_inference_with_unlabelled_pairs(tmp_path: Path) -> None:
    files.write_snli(tmp_path / "snli" / "snli_1.0")
    corpus = read_corpus("snli", data_dir=tmp_path)
    assert corpus.task == "inference"
    assert corpus.class_names == ("contradiction", "entailment", "neutral")
    assert counts(corpus) == {split: [6, 6, 6] for split in ("train", "dev", "test")}
    assert "rows of dev excluded by the corpus's definition: 6 without a gold label" in corpus.notes
    assert corpus.splits["dev"].question is not None
    assert corpus.splits["dev"].question[:3] == [
        ["he", "is", name, "."] for name in ("entailment", "neutral", "contradiction")
    ]
    assert corpus.splits["dev"].label.tolist()[:3] == [1, 2, 0]
    path = tmp_path / "snli" / "snli_1.0" / "snli_1.0_dev.jsonl"
    path.write_text(path.read_text().replace('"He is entailment."', '""', 1))
    error = bad_row("snli", tmp_path, 0)
    assert (error.where, error.got) == (f"{path}: row 0 (line 1)", "an empty question")
    path.write_text(path.read_text().replace('"neutral"', '"maybe"', 1).replace('""', '"x"', 1))
    assert "label 'maybe'" in bad_row("snli", tmp_path, 1).got


def test_sick_in_one_file_and_in_three(tmp_path: Path) -> None:
    put(tmp_path / "one" / "sick_nli" / "SICK.txt", files.sick_table(sets=True))
    for name, split in (("train", "TRAIN"), ("trial", "TRIAL"), ("test_annotated", "TEST")):
        put(
            tmp_path / "three" / "sick_nli" / f"SICK_{name}.txt",
            files.sick_table(sets=False, split=split),
        )
    one, three = (read_corpus("sick_nli", data_dir=tmp_path / name) for name in ("one", "three"))
    assert one.fingerprint == three.fingerprint
    assert counts(one) == {split: [2, 2, 2] for split in ("train", "dev", "test")}
    assert one.splits["dev"].tokens[1] == ["a", "dog", "of", '"', "trial", '"', "so", "runs"]
    path = tmp_path / "three" / "sick_nli" / "SICK_trial.txt"
    path.write_text(path.read_text().replace("NEUTRAL", "UNSURE", 1))
    assert "label 'UNSURE'" in bad_row("sick_nli", tmp_path / "three", 0).got
    whole = tmp_path / "one" / "sick_nli" / "SICK.txt"
    whole.write_text(whole.read_text().replace("\tTRIAL\n", "\tTRAIL\n", 1))
    assert "'TRAIL'" in bad_row("sick_nli", tmp_path / "one", 6).got


@pytest.mark.parametrize(
    ("name", "write", "path"),
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
def test_an_empty_file(name: str, write: Callable[[Path], None], path: str, tmp_path: Path) -> None:
    write(tmp_path / name)
    put(tmp_path / name / path, "")
    error = refused(name, data_dir=tmp_path)
    assert (error.where, error.got) == (str(tmp_path / name / path), "an empty file")

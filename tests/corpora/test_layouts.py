"""Every upstream layout gives the rows that were written, and every way in which its files can be bad gives one line."""

from itertools import product

import pytest

from attnaudit.corpora.read import read_corpus

from . import corpus_files as files
from .corpus_files import put
from .writing import bad_row, counts, refused, sizes, write


def write_stars(folder):
    groups = (("neg", (1, 2, 3, 4)), ("pos", (7, 8, 9, 10)))
    for split, (group, stars), row in product(("train", "test"), groups, range(20)):
        star = stars[row % 4]
        put(folder / split / group / f"{row}_{star}.txt", f"A film of {star} stars, number {row}.")


def write_trec(folder):
    kinds = ("ABBR:exp", "DESC:manner", "ENTY:animal", "HUM:ind", "LOC:city", "NUM:date")
    for name in ("train_5500.label", "TREC_10.label"):
        lines = [f"{kind} What caf\xe9 {'so ' * row}?" for row in range(7) for kind in kinds]
        put(folder / name, "\n".join(lines) + "\n", "latin-1")


def write_messages(folder):
    lines = [f'{("ham", "spam")[row % 4 == 0]}\tSay "hi" {"so " * row}£{row}' for row in range(40)]
    put(folder / "SMSSpamCollection", "\n".join(lines) + "\n")


def write_sentences(folder, *names, encoding):
    for label, file in enumerate(names):
        lines = "".join(f"caf\xe9 {label} {'so ' * row}\n" for row in range(20))
        put(folder / file, lines, encoding)


HALVES = {"train": [16, 16], "dev": [2, 2], "test": [2, 2]}
LAYOUTS = {
    "sst5": (
        lambda folder: files.write_trees(folder / "trees"),
        {split: [2] * 5 for split in ("train", "dev", "test")},
        "number a of the test sentences here",
    ),
    "imdb_stars": (
        write_stars,
        {"train": [4] * 8, "dev": [1] * 8, "test": [5] * 8},
        "a film of qqq stars , number qqq .",
    ),
    "yelp": (
        lambda folder: files.write_class_csv(folder / "yelp_review_full_csv", 5, 2),
        {"train": [7] * 5, "dev": [1] * 5, "test": [8] * 5},
        'field qqq says " test " , row of qqq',
    ),
    "trec6": (write_trec, {"train": [6] * 6, "dev": [1] * 6, "test": [7] * 6}, "what café ?"),
    "sms_spam": (write_messages, {"train": [24, 8], "dev": [3, 1], "test": [3, 1]}, 'say " hi "'),
    "mr": (
        lambda folder: write_sentences(
            folder, "rt-polarity.neg", "rt-polarity.pos", encoding="cp1252"
        ),
        HALVES,
        "café qqq",
    ),
    "subj": (
        lambda folder: write_sentences(
            folder, "plot.tok.gt9.5000", "quote.tok.gt9.5000", encoding="latin-1"
        ),
        HALVES,
        "café qqq",
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_gives_its_rows(name, tmp_path):
    write_files, expected, begins = LAYOUTS[name]
    write_files(tmp_path / name)
    corpus = read_corpus(name, data_dir=tmp_path)
    assert counts(corpus) == expected
    assert " ".join(corpus.splits["test"].tokens[0]).startswith(begins)


@pytest.mark.parametrize(
    ("name", "path", "row", "got"),
    [
        ("sst5", "trees/train.txt", b"(2 (2 caf\xe9) (2 au))\n", "byte 0xe9"),
        ("yelp", "yelp_review_full_csv/train.csv", b'"6","text"\n', "label '6'"),
        ("yelp", "yelp_review_full_csv/train.csv", b'"1"\n', "1 field where 2"),
        ("yelp", "yelp_review_full_csv/train.csv", b'"1",""\n', "an empty text"),
        ("trec6", "TREC_10.label", b"DOSC:x What ?\n", "label 'DOSC'"),
        ("sms_spam", "SMSSpamCollection", b"ham without a tab\n", "a line without"),
    ],
)
def test_a_bad_line_is_named(name, path, row, got, tmp_path):
    LAYOUTS[name][0](tmp_path / name)
    file = tmp_path / name / path
    lines = file.read_bytes().count(b"\n")
    file.write_bytes(file.read_bytes() + row)
    error = bad_row(name, lines, got, data_dir=tmp_path)
    assert error.where == f"{file}: row {lines} (line {lines + 1})"


def test_reviews_in_folders(tmp_path):
    files.write_reviews(tmp_path / "imdb/aclImdb")
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
    path = put(tmp_path / "imdb/aclImdb/train/neg/7_3.txt", "")
    assert bad_row("imdb", 7, data_dir=tmp_path).where == f"{path}: row 7"


def test_posts_are_pooled_and_drawn_anew(tmp_path):
    files.write_posts(tmp_path / "20news_sports")
    corpus = read_corpus("20news_sports", data_dir=tmp_path)
    assert counts(corpus) == {"train": [13, 13], "dev": [3, 3], "test": [4, 4]}
    assert corpus.notes[0].startswith("train and test taken together, split 64/16/20 by class")
    rows = {}
    for split in corpus.splits.values():
        rows |= dict(zip(split.instance.tolist(), split.tokens, strict=True))
    assert sorted(rows) == list(range(40))
    for row, tokens in rows.items():
        assert tokens.count("very") == row % 10 + (10 if row >= 20 else 0)
        assert "café" in tokens
        assert not {"subject", "writes", "someone@example.org", "think", "--"} & set(tokens)


def test_two_classes_of_the_news_and_four(tmp_path):
    files.write_class_csv(tmp_path / "ag_news/ag_news_csv", classes=4, fields=3, number=20)
    two, four = (read_corpus(name, data_dir=tmp_path) for name in ("ag_news", "ag_news4"))
    assert counts(two) == {"train": [17, 17], "dev": [3, 3], "test": [20, 20]}
    assert counts(four) == {"train": [17] * 4, "dev": [3] * 4, "test": [20] * 4}
    assert "rows of train excluded by the corpus's definition: 40 of another class" in two.notes
    description, both = two.splits["test"].tokens[1], four.splits["test"].tokens[2]
    assert len(both) == 2 * len(description)
    assert two.splits["test"].instance.tolist()[:3] == [0, 2, 4]


def test_the_users_own_tweets(tmp_path):
    rows = [(f"my head {'so ' * row} hurts again", int(row % 4 == 0)) for row in range(1, 81)]
    path = write(tmp_path / "adr/tweets.csv.gz", rows)
    corpus = read_corpus("adr", data_dir=tmp_path)
    assert sum(sizes(corpus)) == 79
    assert "rows excluded by the corpus's definition: 1 at most 5 words" in corpus.notes
    path.rename(path.with_name("train.csv.gz"))
    error = refused("adr", data_dir=tmp_path)
    assert error.got == "no test split among train.csv.gz"
    assert "withdrawn by the authors" in error.do


def test_inference_with_unlabelled_pairs(tmp_path):
    files.write_snli(tmp_path / "snli/snli_1.0")
    corpus = read_corpus("snli", data_dir=tmp_path)
    assert corpus.task == "inference"
    assert counts(corpus) == {split: [6, 6, 6] for split in ("train", "dev", "test")}
    assert "rows of dev excluded by the corpus's definition: 6 without a gold label" in corpus.notes
    dev = corpus.splits["dev"]
    for question, label in zip(dev.question or (), dev.label, strict=True):
        assert question == ["he", "is", corpus.class_names[label], "."]
    path = tmp_path / "snli/snli_1.0/snli_1.0_dev.jsonl"
    path.write_text(path.read_text().replace('"He is entailment."', '""', 1))
    bad_row("snli", 0, "an empty question", data_dir=tmp_path)


def test_sick_in_one_file_and_in_three(tmp_path):
    put(tmp_path / "one/sick_nli/SICK.txt", files.sick_table(sets=True))
    for name, split in (("train", "TRAIN"), ("trial", "TRIAL"), ("test_annotated", "TEST")):
        table = files.sick_table(sets=False, split=split)
        put(tmp_path / "three/sick_nli" / f"SICK_{name}.txt", table)
    one, three = (read_corpus("sick_nli", data_dir=tmp_path / name) for name in ("one", "three"))
    assert one.fingerprint == three.fingerprint
    assert counts(one) == {split: [2, 2, 2] for split in ("train", "dev", "test")}
    assert " ".join(one.splits["dev"].tokens[1]) == 'a dog of " trial " so runs'

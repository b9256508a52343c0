"""The corpora of Pruthi et al. 2020 with their masks; texts without some of their words; a part of train."""

import gzip
from dataclasses import replace

import pytest

from attnaudit.core import InputError
from attnaudit.corpora.planted import planted_corpus
from attnaudit.corpora.prepare.derived import without_words
from attnaudit.corpora.read import read_corpus

from .writing import marked

TEXTS = ["M\the went  home .", "F\tthen she left .", "F\ther dog saw her .", "M\tall of his work"]
MASKS = ["1 0 0 0", "0 1 0 0", "1 0 0 1 0", "0 0 1 0"]


def write_plain(folder, masks=MASKS):
    folder.mkdir(parents=True)
    for split in ("train", "dev", "test"):
        (folder / f"{split}.txt").write_text("\n".join(TEXTS) + "\n")
        (folder / f"{split}.txt.block").write_text("\n".join(masks) + "\n\n")
    return folder


def write_tables(folder):
    folder.mkdir(parents=True)
    for split in ("train", "dev", "test"):
        rows = "".join(f'"{text.partition(chr(9))[2]}",{int(text[0] == "F")}\n' for text in TEXTS)
        (folder / f"{split}.csv.gz").write_bytes(gzip.compress(f"text,label\n{rows}".encode()))
        masks = "\n".join(MASKS) + "\n"
        (folder / f"{split}.block.gz").write_bytes(gzip.compress(masks.encode()))
    return folder


def test_both_layouts_give_words_with_their_masks(tmp_path):
    write_plain(tmp_path / "plain/deceptive/pronoun")
    write_tables(tmp_path / "tables/deceptive_pronoun")
    plain, tables = (
        read_corpus("deceptive_pronoun", data_dir=tmp_path / name) for name in ("plain", "tables")
    )
    assert plain.fingerprint == tables.fingerprint
    assert plain.class_names == ("male", "female")
    test = plain.splits["test"]
    assert test.label.tolist() == [0, 1, 1, 0]
    assert test.tokens[0] == ["he", "went", "home", "."]
    assert marked(test) == [["he"], ["she"], ["her", "her"], ["his"]]


@pytest.mark.parametrize(
    ("masks", "got"),
    [
        (
            ["1 0 0 0", "0 1 0", *MASKS[2:]],
            r"train\.txt: row 1 \(line 2\): a mask of 3 entries in train\.txt\.block for 4 words",
        ),
        (
            ["1 0 0 2", *MASKS[1:]],
            r"train\.txt: row 0 \(line 1\): a mask of 4 entries .* where a 0 or 1 for each was expected",
        ),
        (MASKS[:3], r"train\.txt: row 3 \(line 4\): a mask of 0 entries"),
    ],
)
def test_a_mask_that_does_not_fit_names_its_row(tmp_path, masks, got):
    write_plain(tmp_path / "deceptive_pronoun", masks)
    with pytest.raises(InputError, match=got):
        read_corpus("deceptive_pronoun", data_dir=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "folder"), [("deceptive_pronoun", "pronoun"), ("deceptive_sst_wiki", "sst-wiki")]
)
def test_the_published_files(real_data, name, folder):
    corpus = read_corpus(name, data_dir=real_data / "raw")
    assert not [note for note in corpus.notes if "published corpus has" in note]
    masks = (real_data / "raw/deceptive" / folder / "dev.txt.block").read_text().splitlines()
    dev = corpus.splits["dev"]
    assert dev.rationale is not None
    for mask, marks in zip(masks, dev.rationale, strict=True):
        assert any(marks) == ("1" in mask)
    tables = read_corpus(name, data_dir=real_data)
    assert tables.splits["test"].tokens == corpus.splits["test"].tokens
    assert tables.splits["test"].rationale == corpus.splits["test"].rationale


def test_words_are_taken_out_of_texts(tmp_path):
    write_plain(tmp_path / "deceptive_pronoun")
    corpus = read_corpus("deceptive_pronoun", data_dir=tmp_path)
    words = ("he", "she", "her", "his")
    rationale, listed = (without_words(corpus, how) for how in ("rationale", words))
    for changed in (rationale, listed):
        left = [" ".join(row) for row in changed.splits["test"].tokens]
        assert left == ["went home .", "then left .", "dog saw .", "all of work"]
        assert changed.fingerprint != corpus.fingerprint
    assert rationale.fingerprint == listed.fingerprint
    assert rationale.notes[-1] == "removed from every text: the words of the rationale"
    less = without_words(corpus, ("he", "went", "home", "."))
    assert less.splits["test"].instance.tolist() == [1, 2, 3]
    assert "1 row of test excluded: all their words are removed" in less.notes


def test_given_sentences_lose_the_words_that_are_removed():
    corpus = planted_corpus("decisive", size=40, length=(10, 10))
    splits = {
        name: replace(part, sentences=[[4, 6]] * len(part)) for name, part in corpus.splits.items()
    }
    test = without_words(replace(corpus, splits=splits), "rationale").splits["test"]
    assert [sum(row) for row in test.sentences or ()] == [9] * len(test)

"""The treebank: its trees, its cleaning, and the published counts."""

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnaudit.corpora.cleaning import treebank
from attnaudit.corpora.formats.readers import read_tree, trees
from attnaudit.corpora.formats.rows import BadCell
from attnaudit.corpora.prepare.tokenise import Tokeniser
from attnaudit.corpora.read import read_corpus

from .writing import counts, refused

TREE = "(3 (2 The) (4 (3 gorgeous) (2 film)))"
WORDS = st.text(
    st.characters(exclude_characters="() \t\r\n", exclude_categories=["Cs"]), min_size=1, max_size=5
)
TREES = st.recursive(
    st.tuples(st.integers(0, 4), WORDS),
    lambda tree: st.tuples(st.integers(0, 4), tree, tree),
    max_leaves=12,
)


def bracketed(tree):
    return f"({tree[0]} {' '.join(part if isinstance(part, str) else bracketed(part) for part in tree[1:])})"


def leaves(tree):
    return [
        leaf for part in tree[1:] for leaf in ([part] if isinstance(part, str) else leaves(part))
    ]


@given(TREES)
def test_trees_are_read_back(tree):
    text = " ".join(leaves(tree))
    assert read_tree(bracketed(tree) + "\n") == {"label": str(tree[0]), "text": text}


@pytest.mark.parametrize(
    "line",
    [
        "(3 (2 The) (2 film",
        "(3 (2 The)) film)",
        ")",
        "3 film",
        "(7 film)",
        "((2 film))",
        "(3 (2) film)",
        "(3 film)(2 more)",
    ],
)
def test_bad_trees(line):
    with pytest.raises(BadCell):
        read_tree(line)


@given(TREES, st.data())
def test_a_tree_that_is_cut_off_is_refused(tree, data):
    line = bracketed(tree)
    with pytest.raises(BadCell):
        read_tree(line[: data.draw(st.integers(1, len(line) - 1))])


def test_a_broken_file_names_file_and_line(tmp_path):
    folder = tmp_path / "sst"
    folder.mkdir()
    for split in ("train", "dev", "test"):
        (folder / f"{split}.txt").write_text(
            "(3 (2 one two three) (2 four five six))\n(1 (2 one two three) (2 four five seven))\n"
        )
    broken = folder / "dev.txt"
    broken.write_text(broken.read_text() + "\n" + TREE[:-1])
    assert refused("sst", data_dir=tmp_path).where == f"{broken}: row 2 (line 4)"
    corpus = read_corpus("sst", data_dir=tmp_path, on_bad_row="skip")
    assert corpus.class_names == ("negative", "positive")
    assert "train has 1/1 rows per class where the published corpus has 3035/3321" in corpus.notes


def test_cleaning():
    assert treebank(
        "The 21st Century 's `` Conan '' -LRB- co-writer\\/director -RRB- J.R.R. André_B ."
    ) == ("the 21st century s conan co writer director j r r andré b")


@pytest.mark.slow
def test_published_counts(sst, real_data):
    assert counts(sst) == {"train": [3035, 3321], "dev": [397, 425], "test": [863, 863]}
    code = read_corpus("sst", data_dir=real_data / "raw", preset="code2019")
    assert counts(code) == {"train": [3034, 3321], "dev": [397, 424], "test": [863, 862]}
    assert not [note for corpus in (sst, code) for note in corpus.notes if "published" in note]
    excluded = "rows of test excluded by the corpus's definition: 389 neutral, 95 at most 5 words"
    assert excluded in sst.notes
    assert f"{excluded}, 1 52 words or more" in code.notes


@pytest.mark.slow
def test_every_row_is_the_authors_row(real_data):
    """Of 9613 rows one differs: today's spaCy keeps ``28k`` whole."""
    with (real_data / "raw/sst/jain_wallace_sst_dataset.csv").open(
        encoding="utf-8", newline=""
    ) as file:
        theirs = [(row["exp_split"], row["label"], row["text"]) for row in csv.DictReader(file)]
    tokenise = Tokeniser(mask_digits=False)
    ours = [
        (split, str(int(str(row.label) > "2")), " ".join(tokenise(treebank(str(row.text)))))
        for split in ("train", "dev", "test")
        for row in trees(real_data / "raw/sst" / f"{split}.txt")
        if row.label != "2"
    ]
    assert len(ours) == len(theirs)
    different = [
        (mine[2], other[2]) for mine, other in zip(ours, theirs, strict=True) if mine != other
    ]
    assert [(mine.replace("28k", "28 k"), other) for mine, other in different] == [
        (other, other) for _, other in different
    ]
    assert len(different) == 1

"""Pairs of texts are read whole or refused with their line."""

import numpy as np
import pytest

from attnaudit.core import InputError
from attnaudit.corpora.prepare.tokenise import Words, learn_pieces
from attnaudit.corpora.read import read_parallel
from attnaudit.corpora.spec import ParallelSpec
from tests.corpora.writing import sizes
from tests.pairs import edit, reversed_pairs, write_pairs


def read(folder, seed=0, **how):
    return read_parallel(ParallelSpec(str(folder), **how), seed=seed)  # pyright: ignore[reportArgumentType]


def test_pairs_and_alignments_come_back(tmp_path):
    corpus = read(write_pairs(tmp_path))
    expected = reversed_pairs(16, seed=2)
    test = corpus.splits["test"]
    assert (test.source, test.target) == (expected.source, expected.target)
    assert test.links is not None
    assert set(map(tuple, test.links.T.tolist())) == set(
        map(tuple, np.array(expected.links).T.tolist())
    )
    assert corpus.notes == ()


def test_other_endings_and_names(tmp_path):
    folder = write_pairs(tmp_path, aligned=False)
    for path in list(folder.iterdir()):
        split, ending = path.name.split(".")
        path.rename(
            folder
            / f"{ {'dev': 'val', 'test': 'news'}.get(split, split) }.{ {'src': 'en', 'trg': 'fr'}[ending] }"
        )
    corpus = read(folder, source_ending="en", target_ending="fr", dev="val", test="news")
    assert sizes(corpus) == [120, 20, 16]
    assert corpus.splits["train"].links is None


@pytest.mark.parametrize(
    ("ending", "told"),
    [("trg", "dev.src and dev.trg: 20 and 19"), ("align", "dev.align and dev.src: 19 and 20")],
)
def test_files_of_different_lengths_are_told_with_both(tmp_path, ending, told):
    folder = write_pairs(tmp_path)
    edit(folder / f"dev.{ending}", 4, None)
    with pytest.raises(InputError, match=f"{told} lines"):
        read(folder)


@pytest.mark.parametrize(
    ("ending", "text", "got"),
    [
        ("src", "   ", "an empty source"),
        ("trg", "", "an empty target"),
        ("src", "a1 " * 9, "a source with 9 words, where 1 to 8"),
    ],
)
def test_a_bad_side_names_its_line_or_is_skipped(tmp_path, ending, text, got):
    folder = write_pairs(tmp_path)
    edit(folder / f"train.{ending}", 5, text)
    with pytest.raises(InputError, match=rf"train.src: row 4 \(line 5\): {got}"):
        read(folder, max_words=8)
    corpus = read(folder, max_words=8, on_bad_row="skip")
    assert [(row.row, row.reason[: len(got)]) for row in corpus.skipped] == [(4, got)]
    train = corpus.splits["train"]
    assert len(train) == 119
    assert 4 not in train.instance.tolist()
    assert train.links is not None
    told = reversed_pairs(120)
    assert train.links[:, train.links[0] == 4].shape[1] == len(
        told.source[5].split()
    )  # links moved up with their rows


def test_links_beyond_the_texts_are_left_out_counted_and_named(tmp_path):
    folder = write_pairs(tmp_path)
    edit(folder / "test.align", 2, f"0-0 0-99 {'9' * 23}-0 0-{'1' + '0' * 5000}")
    edit(folder / "test.align", 7, "50-0")
    corpus = read(folder)
    assert corpus.notes == (
        "test.align: 2 lines with links to words beyond the text, which are excluded: line 2, 7",
    )
    links = corpus.splits["test"].links
    assert links is not None
    assert links[:, links[0] == 1].T.tolist() == [[1, 0, 0]]
    assert not (links[0] == 6).any()


def test_a_line_that_is_no_alignment(tmp_path):
    folder = write_pairs(tmp_path)
    edit(folder / "test.align", 2, "0-0 x-1")
    with pytest.raises(InputError, match=r"test\.align: line 2: 'x-1'"):
        read(folder)


def test_a_missing_file(tmp_path):
    folder = write_pairs(tmp_path)
    (folder / "test.trg").unlink()
    with pytest.raises(InputError, match=r"no file \.trg of the same name among"):
        read(folder)
    with pytest.raises(InputError, match="no dev split among"):
        read(write_pairs(tmp_path / "whole", {"train": 5}))


def test_shares_are_drawn_with_the_seed(tmp_path):
    folder = write_pairs(tmp_path)
    one, again, other = (read(folder, seed, train_kept=0.25).splits["train"] for seed in (0, 0, 1))
    assert len(one) == 30
    assert one.instance.tolist() == again.instance.tolist() != other.instance.tolist()


def test_taken_rows_keep_their_links():
    pairs = reversed_pairs(9)
    part = pairs.take(np.array([2, 5]))
    assert part.links is not None
    assert pairs.links is not None
    for new, old in enumerate((2, 5)):
        assert (
            part.links[1:, part.links[0] == new].tolist()
            == pairs.links[1:, pairs.links[0] == old].tolist()
        )


def test_units_join_to_what_they_were_cut_from():
    texts = [
        "Zwei junge, weiße Männer sind im Freien.",
        "Ein Mann schläft in einem grünen Raum.",
    ] * 20
    for units in (Words(), learn_pieces(texts, 60)):
        assert [units.join(tokens) for tokens in units(texts)] == texts


@pytest.mark.parametrize(("name", "links"), [("multi30k_en_de", False), ("deceptive_en_de", True)])
def test_real_pairs_come_whole(name, links, real_data):
    """As the data's own page counts them: 29,000, 1,014 and 1,000 pairs, 45 lines with an index out of range."""
    corpus = read_parallel(ParallelSpec(name, str(real_data)))
    assert sizes(corpus) == [29000, 1014, 1000]
    assert not corpus.skipped
    assert (corpus.splits["test"].links is not None) == links
    beyond = [int(note.split(": ")[1].split()[0]) for note in corpus.notes]
    assert sum(beyond) == (45 if links else 0)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le"])
def test_pairs_in_another_encoding(tmp_path, encoding):
    plain, other = (write_pairs(tmp_path / name) for name in ("plain", "other"))
    for folder, of in ((plain, "utf-8"), (other, encoding)):
        edit(folder / "train.trg", 3, "pour un café")
        edit(folder / "train.align", 3, "")
        for path in folder.iterdir():
            path.write_bytes(path.read_text().encode(of))
    assert read(other, encoding=encoding).fingerprint == read(plain).fingerprint
    with pytest.raises(InputError, match=r"corpus\.encoding"):
        read(other)
    with pytest.raises(
        InputError, match=r"line 3\): a target with invalid characters .* corpus.encoding"
    ):
        read(plain, encoding="ascii")

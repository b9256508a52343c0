"""Pairs in the pieces of translators' own tokenizers, each side in its own vocabulary."""

import numpy as np
import polars as pl
import pytest

from attnaudit.core.errors import InputError
from attnaudit.hf.encode import encode, load_tokenizer
from attnaudit.hf.texts import Texts
from attnaudit.trace import Trace
from tests.hf.command import audit, refused
from tests.hf.encoding import words_of
from tests.hf.translators import KINDS, pairs, target, translator

SOURCES = ("the WOODEN ladder", "It's  3.5 😀 zürich", "a mill near the river")


@pytest.fixture(scope="module")
def translators(tmp_path_factory):
    """Folder, model and tokenizer of every kind."""
    place = tmp_path_factory.mktemp("translators")
    return {
        kind: (place / str(k), *translator(kind, place / str(k))) for k, kind in enumerate(KINDS)
    }


def given(*rows):
    return Texts(
        "given",
        "seq2seq",
        list(rows),
        np.arange(len(rows)),
        ["test"] * len(rows),
        "",
        list(map(target, rows)),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_both_sides_are_in_the_tokenizers_own_pieces(kind, translators):
    folder, model, _ = translators[kind]
    own = load_tokenizer(folder)
    found = encode(model, own, given(*SOURCES))
    assert found.written is not None
    words = words_of(found)
    for row, text in enumerate(SOURCES):
        assert found.ids[row].tolist() == own(text)["input_ids"]
        assert found.written.next_ids[row].tolist() == own(text_target=target(text))["input_ids"]
        assert found.written.ids[row][0] in (
            model.config.decoder_start_token_id,
            found.written.next_ids[row][-1],
        )  # of mBART the language code
        plain = [word for word in words[row] if word not in own.all_special_tokens]
        assert "".join(plain) == "".join(text.split())


@pytest.mark.parametrize("kind", KINDS)
def test_language_codes_are_given_and_the_end_is_predicted(kind, translators):
    _, model, own = translators[kind]
    found = encode(model, own, given(*SOURCES))
    assert found.written is not None
    names = [own.convert_ids_to_tokens(row.tolist()) for row in found.written.next_ids]
    forced = [
        [name for name, mark in zip(row, marks, strict=True) if mark]
        for row, marks in zip(names, found.written.forced, strict=True)
    ]
    code = {"mbart": ["ro_RO"], "nllb": ["deu_Latn"]}.get(kind, [])
    assert forced == [code] * len(SOURCES)
    cut = encode(model, own, given(*SOURCES), max_tokens=6)
    assert cut.written is not None
    assert cut.ids.lengths.max() <= 6
    ends = cut.written.next_ids.values == own.eos_token_id
    # The end of a text that is cut is none of its own.
    assert (cut.written.forced.values | ~ends).all()
    assert "the limit of max_tokens, and cut" in cut.notes[-1]


def test_what_cannot_be_read_is_one_line(translators):
    _, model, own = translators["mbart"]
    own = type(own)(vocab=own._vocab, src_lang="en_XX")
    with pytest.raises(
        InputError,
        match=r"no language of the targets \(tgt_lang\); expected a language code; read it with src_lang",
    ):
        encode(model, own, given("one"))


@pytest.mark.slow
def test_a_folder_is_audited_at_positions_of_the_targets(translators, tmp_path, capsys):
    folder, _, own = translators["t5"]
    source, out = pairs(tmp_path / "pairs", 3), tmp_path / "out"
    options = ("collect.cross=true", "corpus.target_ending=tgt", "collect.scores=gradient")
    command = (folder, source, *(f"--set={option}" for option in options))
    chosen = ("--experiment", "permutation", "--experiment", "prediction")
    assert audit(*command, *chosen, out=out) == 0
    assert pl.read_parquet(out / "results/prediction.parquet").height == 3 * 4
    trace = Trace.first(out / "trace")
    assert any("one position" in note for note in trace.metadata["corpus"]["notes"])
    for row in range(len(trace)):
        assert len(trace.cell("written_ids", row)) == trace.array("query")[row] + 1
        assert trace.cell("question", row)[0] == own.pad_token
    line = refused(capsys, *command, "--set", "collect.positions=some")
    assert "collect.positions: 'some'; expected one of one, all, last" in line

"""Texts in the pieces of a model's own tokenizer."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from attnaudit.core.errors import InputError
from attnaudit.core.ragged import Ragged
from attnaudit.corpora.read import read_corpus
from attnaudit.hf.classes import Outputs, match_outputs
from attnaudit.hf.encode import encode, limits_of, load_tokenizer, notes_of, output_names
from attnaudit.hf.texts import Texts, read_texts
from attnaudit.trace.words import join_tokens, to_words
from tests.hf.classes import tiny
from tests.hf.encoding import words_of
from tests.hf.tokenizing import SIZE, tokenizer

KINDS = {
    "wordpiece": "BertForSequenceClassification",
    "bytes": "RobertaForSequenceClassification",
    "pieces": "BartForSequenceClassification",
}
INPUTS = ["input_ids", "attention_mask"]


def small(name: str, **settings: Any) -> Any:
    return tiny(name, vocab_size=SIZE, **settings)


def given(*rows: str, second: list[str] | None = None, **more: Any) -> Texts:
    label = np.arange(len(rows), dtype=np.int32) % 3
    return Texts(
        "given",
        "classification",
        list(rows),
        np.arange(len(rows)),
        ["test"] * len(rows),
        "",
        second,
        label,
        ("a", "b", "c"),
        **more,
    )


TEXTS = (
    "The baker found, again,  a WOODEN ladder!",
    "It's 3.5 😀 zürich",
    "one",
    "the harbour\nand a mill ",
)


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_are_the_tokenizers_and_read_as_the_text(kind: str) -> None:
    own = tokenizer(kind)
    found = encode(small(KINDS[kind]), own, given(*TEXTS))
    assert [row.tolist() for row in found.ids] == own(list(TEXTS))["input_ids"]
    for row, text in enumerate(TEXTS):
        special = found.special[row].tolist()
        assert special == [True, *[False] * (len(special) - 2), True]
        assert (found.tokens[row][0], found.tokens[row][-1]) == ("[CLS]", "[SEP]")
        assert "".join(words_of(found)[row][1:-1]) == "".join(text.split())
        assert not any("Ġ" in token or "▁" in token or "##" in token for token in found.tokens[row])
        ids = found.word_id[row]
        assert_array_equal(ids == -1, special)
        assert_array_equal(np.unique(ids[1:-1]), np.arange(ids.max() + 1))
        assert (np.diff(ids[1:-1]) >= 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_words_are_parted_at_white_space_and_punctuation_by_every_tokenizer(kind: str) -> None:
    found = encode(
        small(KINDS[kind]), tokenizer(kind), given("The baker found, again,  a WOODEN ladder!")
    )
    assert words_of(found)[0] == [
        "[CLS]",
        "The",
        "baker",
        "found",
        ",",
        "again",
        ",",
        "a",
        "WOODEN",
        "ladder",
        "!",
        "[SEP]",
    ]


def test_a_tokenizer_without_words_of_its_own_has_words_all_the_same() -> None:
    own = tokenizer("pieces")
    own.backend_tokenizer.pre_tokenizer = None
    found = encode(small("BertForSequenceClassification"), own, given("the baker, again"))
    assert words_of(found)[0][1:-1] == ["the", "baker", ",", "again"]


def test_a_character_of_several_pieces_is_shown_once() -> None:
    found = encode(small("RobertaForSequenceClassification"), tokenizer("bytes"), given("a 😀 b"))
    assert words_of(found)[0][1:-1] == ["a", "😀", "b"]
    assert "".join(found.tokens[0]).count("😀") == 1
    assert all(found.tokens[0])


def test_texts_that_occur_twice_are_noted() -> None:
    model, same = (
        small("BertForSequenceClassification"),
        given("the baker", "a ladder", "the baker", "the baker"),
    )
    notes = notes_of(same, encode(model, tokenizer("wordpiece"), same), None)
    assert notes == ["2 of 4 texts are the same as an earlier one, and counted again"]


def test_pieces_of_bytes_are_shown_as_the_text_that_they_stand_for() -> None:
    """No letters of the byte alphabet: neither for white space, nor for a part of a character."""
    found = encode(
        small("RobertaForSequenceClassification"), tokenizer("bytes"), given("a  b\n\n😀 é")
    )
    shown = found.tokens[0]
    assert not any(set(token) & set("ĠĊðŁĺ") for token in shown)
    assert any(token.startswith("‹") for token in shown)
    assert "␣" in shown or "␣b" in shown
    names = output_names(small("GPT2LMHeadModel"), tokenizer("bytes"), ())
    assert not any("Ġ" in name for name in names)
    assert len(set(names)) == len(names)


def test_a_pair_is_one_row_whose_words_count_on() -> None:
    own = tokenizer("wordpiece", model_input_names=[*INPUTS, "token_type_ids"])
    found = encode(
        small("BertForSequenceClassification"), own, given("the baker", second=["a ladder"])
    )
    both = own("the baker", "a ladder")
    assert found.ids[0].tolist() == both["input_ids"]
    assert found.type_ids is not None
    assert found.type_ids[0].tolist() == both["token_type_ids"]
    assert words_of(found)[0] == ["[CLS]", "the", "baker", "[SEP]", "a", "ladder", "[SEP]"]
    words = found.word_id[0]
    assert_array_equal(np.unique(words), [-1, 0, 1, 2, 3])


@pytest.mark.parametrize(
    "name",
    [
        "BertForSequenceClassification",
        "DistilBertForSequenceClassification",
        "ModernBertForSequenceClassification",
    ],
)
def test_a_padded_batch_has_the_logits_of_each_text_alone(name: str) -> None:
    model = small(name)
    found = encode(model, tokenizer("wordpiece"), given(*TEXTS))
    with torch.no_grad():
        together = model(**found.batch([3, 0, 1])).logits
        for row, logits in zip((3, 0, 1), together, strict=True):
            own = dict(tokenizer("wordpiece")(TEXTS[row], return_tensors="pt").items())
            takes = {
                name: value
                for name, value in own.items()
                if name != "token_type_ids" or name.startswith("Bert")
            }
            torch.testing.assert_close(model(**takes).logits[0], logits, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("batching", ["any", "of one length", "none"])
def test_batches_are_bounded_and_hold_every_row_once(batching: str) -> None:
    random = np.random.default_rng(0)
    rows = [" ".join(["the"] * length) for length in random.integers(1, 12, 40)]
    found = encode(small("BertForSequenceClassification"), tokenizer("wordpiece"), given(*rows))
    batches = list(found.batches(50, batching))
    assert sorted(np.concatenate(batches).tolist()) == list(range(40))
    for batch in batches:
        lengths = found.ids.lengths[batch]
        assert len(batch) == 1 or len(batch) * lengths.max() <= 50
        assert found.batch(batch)["input_ids"].shape == (len(batch), lengths.max())
        assert batching == "any" or len(set(lengths.tolist())) == 1
    assert len(batches) == 40 if batching == "none" else len(batches) < 30


def test_texts_longer_than_the_model_are_cut_and_counted() -> None:
    long = " ".join(["the"] * 100 + ["mill"])
    model = small("BertForSequenceClassification")
    found = encode(model, tokenizer("wordpiece"), given(long, "the mill"))
    assert found.ids.lengths.tolist() == [64, 4]
    assert found.notes == (
        "1 of 2 texts is longer than 64 tokens, the limit of the model, and cut",
    )
    shorter = encode(model, tokenizer("wordpiece"), given(long), max_tokens=10)
    assert shorter.tokens[0] == ["[CLS]", *["the"] * 8, "[SEP]"]
    assert shorter.notes == (
        "1 of 1 texts is longer than 10 tokens, the limit of max_tokens, and cut",
    )
    by_tokenizer = encode(
        model, tokenizer("wordpiece", model_max_length=20), given(long, long), max_tokens=70
    )
    assert by_tokenizer.notes == (
        "2 of 2 texts are longer than 20 tokens, the limit of the tokenizer (model_max_length), and cut",
    )
    with torch.no_grad():
        model(**found.batch([0]))


def test_a_prompt_is_cut_at_its_start_and_the_tokenizer_is_as_before() -> None:
    own = tokenizer("bytes", special="[CLS] $A")
    own.backend_tokenizer.enable_truncation(7)
    prompt = Texts(
        "given", "causal-lm", [" ".join(["the"] * 100 + ["mill"])], np.arange(1), ["all"], ""
    )
    found = encode(small("GPT2LMHeadModel"), own, prompt, max_tokens=6)
    assert found.tokens[0][0] == "[CLS]"
    assert "".join(found.tokens[0]).endswith("themill")
    assert (len(found.notes), len(found.tokens[0]), found.label) == (1, 6, None)
    assert (own.truncation_side, (own.backend_tokenizer.truncation or {}).get("max_length")) == (
        "right",
        7,
    )


@pytest.mark.parametrize(
    "name",
    [
        "RobertaForSequenceClassification",
        "BertForSequenceClassification",
        "MPNetForSequenceClassification",
    ],
)
def test_the_longest_text_is_the_longest_that_the_model_reads(name: str) -> None:
    model = small(name)
    longest = min(limits_of(model, tokenizer("bytes")).values())
    assert longest == (64 if name.startswith("Bert") else 62)
    model(input_ids=torch.full((1, longest), 9))
    with pytest.raises((IndexError, RuntimeError)):
        model(input_ids=torch.full((1, longest + 1), 9))


def test_a_limit_of_the_tokenizer_counts_and_that_of_neither_is_none() -> None:
    limited = limits_of(
        small("BertForSequenceClassification"), tokenizer("bytes", model_max_length=20)
    )
    assert limited == {"the model": 64, "the tokenizer (model_max_length)": 20}
    assert limits_of(small("XLNetForSequenceClassification"), tokenizer("bytes")) == {}


@pytest.mark.parametrize("name", ["T5ForConditionalGeneration", "BartForConditionalGeneration"])
def test_an_encoder_decoder_is_given_what_it_is_to_write_shifted(name: str) -> None:
    model, own = small(name), tokenizer("pieces", special="$A [SEP]")
    pairs = Texts(
        "given",
        "seq2seq",
        ["the baker", "a mill near the river"],
        np.arange(2),
        ["test"] * 2,
        "",
        ["a ladder", "one"],
    )
    found = encode(model, own, pairs)
    assert found.written is not None
    written = found.written
    batch = found.batch([0, 1])
    assert (batch["input_ids"].shape, set(batch)) == (
        (2, found.ids.lengths.max()),
        {"input_ids", "attention_mask", "decoder_input_ids"},
    )
    for row, target in enumerate(("a ladder", "one")):
        labels = own(target)["input_ids"]
        assert written.next_ids[row].tolist() == labels
        assert written.ids[row].tolist() == [model.config.decoder_start_token_id, *labels[:-1]]
    assert "".join(written.tokens[0][1:]) == "␣aladder"
    assert join_tokens(written.tokens, written.word_id)[0][1:] == ["␣a", "ladder"]
    short = found.take(np.array([0, 0])).up_to(np.array([1, 2])).written
    assert short is not None
    assert short.word_id.lengths.tolist() == [1, 2]
    assert short.word_id.values[[0, 1]].tolist() == [-1, -1]
    for row in (0, 1):
        assert_array_equal(short.ids[row], written.ids[0][: row + 1])


def test_rationales_mark_the_pieces_of_their_characters() -> None:
    marked = given("the WOODEN ladder", "one mill", "a mill", spans=[((4, 10),), None, ()])
    for kind, name in KINDS.items():
        found = encode(small(name), tokenizer(kind), marked)
        assert found.rationale is not None
        shown = [
            token for token, mark in zip(found.tokens[0], found.rationale[0], strict=True) if mark
        ]
        assert "".join(shown) == "WOODEN"
        assert (found.rationale[1], any(found.rationale[2]), len(found.rationale[2])) == (
            [],
            False,
            len(found.tokens[2]),
        )
        pair = encode(small(name), tokenizer(kind), replace(marked, second=["the narrow mill"] * 3))
        assert pair.rationale is not None
        assert sum(pair.rationale[0]) == sum(found.rationale[0])


def test_pieces_are_summed_to_words() -> None:
    found = encode(
        small("BertForSequenceClassification"),
        tokenizer("wordpiece"),
        given(*TEXTS, second=["the mill"] * 4),
    )
    scores = found.ids.with_values(np.random.default_rng(0).random(len(found.ids.values)))
    words = to_words(scores, found.word_id)
    assert words.lengths.tolist() == [len(row) for row in words_of(found)]
    np.testing.assert_allclose(words.sum(), scores.sum())
    for row, ids in enumerate(found.word_id):
        naive: list[float] = []
        for position, word in enumerate(ids):
            if position and word != -1 and word == ids[position - 1]:
                naive[-1] += scores[row][position]
            else:
                naive.append(scores[row][position])
        np.testing.assert_allclose(words[row], naive)
    assert len(to_words(Ragged.from_rows([], np.float64), Ragged.from_rows([], np.int32))) == 0


def test_neighbouring_special_tokens_and_texts_are_not_one_word() -> None:
    word_id = Ragged.from_rows([[-1, -1, 0, 0], [0, 1], [-1], [], [-1]], np.int32)
    scores = word_id.with_values(np.arange(1.0, 9.0))
    assert [row.tolist() for row in to_words(scores, word_id)] == [[1, 2, 7], [5, 6], [7], [], [8]]


NAMED = {"id2label": {0: "Positive", 1: "NEGATIVE"}, "label2id": {"Positive": 0, "NEGATIVE": 1}}


def classifier(**names: Any) -> Any:
    model = small("BertForSequenceClassification")
    for name, value in names.items():
        setattr(model.config, name, value)
    return model


def test_classes_are_matched_by_name_by_number_or_by_count() -> None:
    outputs = match_outputs(classifier(**NAMED), ("negative", "positive"))
    assert (outputs.names, outputs.of_class.tolist(), outputs.notes) == (
        ("Positive", "NEGATIVE"),
        [1, 0],
        [],
    )
    found = encode(
        classifier(**NAMED),
        tokenizer("wordpiece"),
        replace(given("one", "mill"), class_names=("negative", "positive")),
    )
    assert found.label is not None
    assert (found.class_names, found.label.tolist()) == (("Positive", "NEGATIVE"), [1, 0])
    assert match_outputs(classifier(), ("x", "y", "z")).names == ("x", "y", "z")
    numbers = match_outputs(classifier(**NAMED), ("0", "1"))
    assert (numbers.names, numbers.of_class.tolist()) == (("Positive", "NEGATIVE"), [0, 1])
    assert "0 is Positive, 1 is NEGATIVE" in numbers.notes[0]
    assert match_outputs(classifier(), ("2",)).of_class.tolist() == [2]  # one class alone


def test_names_of_outputs_can_be_stated() -> None:
    unnamed = classifier()
    assert (
        "LABEL_0 is x, LABEL_1 is y, LABEL_2 is z"
        in match_outputs(unnamed, ("x", "y", "z")).notes[0]
    )
    stated = match_outputs(unnamed, ("x", "y", "z"), ("z", "X", "y"))
    assert (stated.names, stated.of_class.tolist(), stated.notes) == (
        ("z", "X", "y"),
        [1, 2, 0],
        [],
    )
    assert match_outputs(classifier(**NAMED), ("bad",), ("good", "bad")).of_class.tolist() == [1]
    blank = Outputs(
        ("very bad", "good"), ("LABEL_0", "LABEL_1"), np.arange(2, dtype=np.int32), "order"
    )
    assert (
        "LABEL_0 is “very bad”, LABEL_1 is good; if wrong, --classes 'good,very bad'"
        in blank.notes[0]
    )
    for names, got in (
        (("a", "b"), "a, b (2); expected 3 different names"),
        (("a", "b", "A"), "a, b, A (3); expected 3 different"),
    ):
        with pytest.raises(InputError, match=re.escape(f"--classes: {got}")):
            match_outputs(unnamed, ("a", "b"), names)


def test_names_that_contradict_each_other_are_noted() -> None:
    """Programs of the transformers library read ``id2label``; without names there, ``label2id`` is all that is known."""
    both = classifier(
        id2label={0: "Positive", 1: "NEGATIVE"}, label2id={"NEGATIVE": 0, "Positive": 1}
    )
    (note,) = match_outputs(both, ("negative", "positive")).notes
    assert note.startswith(
        "config.json contradicts itself: output 0 is Positive in id2label, and output 1 in label2id; id2label is used"
    )
    assert match_outputs(both, ("negative", "positive"), ("negative", "positive")).notes == []
    for known in ({"LABEL_0": 0, "LABEL_1": 1}, None):
        assert (
            match_outputs(
                classifier(id2label=NAMED["id2label"], label2id=known), ("negative", "positive")
            ).notes
            == []
        )
    alone = match_outputs(classifier(label2id={"c": 0, "a": 1, "b": 2}), ("a", "b", "c"))
    assert (alone.names, alone.of_class.tolist(), alone.matched) == (
        ("c", "a", "b"),
        [1, 2, 0],
        "name",
    )
    many = {f"class {11 - number}": number for number in range(12)}
    twelve = classifier(num_labels=12, label2id=many)
    assert match_outputs(twelve, tuple(many)).names == tuple(many)


@pytest.mark.parametrize(
    ("names", "corpus", "line"),
    [
        (NAMED, ("bad", "good"), "classes NEGATIVE, Positive where the corpus has bad, good"),
        (NAMED, ("0", "2"), "where the corpus has 0, 2"),
        ({}, ("bad", "good"), "3 classes without names where the corpus has 2"),
        (
            {"id2label": {0: "pos", 1: "Pos"}, "label2id": {}},
            ("neg", "pos"),
            "two outputs named pos; expected a name for each output; name",
        ),
        (
            {"problem_type": "multi_label_classification"},
            ("a", "b", "c"),
            "problem_type multi_label_classification",
        ),
    ],
)
def test_classes_that_do_not_fit_are_refused(
    names: dict[str, Any], corpus: tuple[str, ...], line: str
) -> None:
    with pytest.raises(InputError, match=line):
        match_outputs(classifier(**names), corpus)


def test_what_cannot_be_tokenised_is_refused_with_one_line(tmp_path: Path) -> None:
    model, own = small("BertForSequenceClassification"), tokenizer("wordpiece")
    with pytest.raises(InputError, match="no tokenizer"):
        encode(model, None, given("one"))
    with pytest.raises(InputError, match="a slow tokenizer"):
        encode(model, type("Slow", (), {"is_fast": False})(), given("one"))
    with pytest.raises(
        InputError,
        match="the tokenizer: the path models/bert; expected a tokenizer of the transformers library; read it",
    ):
        encode(model, "models/bert", given("one"))
    with pytest.raises(
        InputError,
        match=r"given, test, row 1: token \d+ of the tokenizer; expected one below 99, the model's vocabulary",
    ):
        encode(
            tiny("BertForSequenceClassification"),
            own,
            given("a", "the wooden ladder harbour river"),
        )
    with pytest.raises(InputError, match="row 1: a text without a token"):
        encode(model, own, given("one", "\u200b"))
    skipped = encode(model, own, given("one", "\u200b", "mill"), on_empty="skip")
    assert (skipped.instance.tolist(), skipped.notes[-1:]) == (
        [0, 2],
        ("1 text without a token skipped",),
    )
    with pytest.raises(InputError, match="max_tokens: 2"):
        encode(model, own, given("one"), max_tokens=2)
    with pytest.raises(
        InputError, match="texts read for classification; expected texts for causal-lm"
    ):
        encode(small("GPT2LMHeadModel"), own, given("one"))
    with pytest.raises(InputError, match=r"no tokenizer\.json"):
        load_tokenizer(tmp_path)
    own.save_pretrained(tmp_path)
    assert load_tokenizer(tmp_path)("one")["input_ids"] == own("one")["input_ids"]
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0"')
    with pytest.raises(InputError, match="read tokenizer"):
        load_tokenizer(tmp_path)


def test_token_types_that_the_model_does_not_have_are_refused() -> None:
    own = tokenizer("bytes", model_input_names=[*INPUTS, "token_type_ids"])
    with pytest.raises(InputError, match="token type 1 of the tokenizer; expected one below 1"):
        encode(
            small("RobertaForSequenceClassification", type_vocab_size=1),
            own,
            given("one", second=["mill"]),
        )


def write(path: Path, rows: list[tuple[str, str]]) -> Path:
    path.write_text(
        "text,label\n" + "".join(f'"{text}",{label}\n' for text, label in rows), encoding="utf-8"
    )
    return path


def test_the_texts_of_a_file_are_those_of_the_file_in_the_rows_and_splits_of_a_run(
    tmp_path: Path,
) -> None:
    rows = [(f"Number {row}, it's  FINE", ("good", "bad")[row % 2]) for row in range(40)]
    path = write(tmp_path / "mine.csv", rows)
    corpus = read_corpus(path, seed=3)
    for name in ("train", "dev", "test"):
        part, split = read_texts(path, split=name, seed=3), corpus.splits[name]
        assert_array_equal(part.instance, split.instance)
        assert part.label is not None
        assert_array_equal(part.label, split.label)
        assert part.text == [rows[row][0] for row in split.instance.tolist()]
    texts = read_texts(path)
    assert (texts.text, texts.instance.tolist(), set(texts.split)) == (
        [text for text, _ in rows],
        list(range(40)),
        {"all"},
    )
    assert (texts.class_names, texts.second, texts.spans) == (("bad", "good"), None, None)
    assert (
        texts.fingerprint
        != read_texts(write(path, [*rows[:-1], ("Number 39, it's FINE", "bad")])).fingerprint
    )


def test_options_of_words_are_refused_for_raw_texts(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.csv", [("a b", "x"), ("c", "y")] * 10)
    options: dict[str, Any] = {
        "lowercase": False,
        "tokenizer": "whitespace",
        "max_tokens": 5,
        "min_df": 2,
        "digits": "mask",
    }
    for name, value in options.items():
        with pytest.raises(InputError, match=f"corpus.{name}"):
            read_texts(path, **{name: value})


def test_a_planted_corpus_gives_its_words_joined_with_the_characters_of_its_rationale() -> None:
    part, split = (
        read_texts("planted-decisive", size=60),
        read_corpus("planted-decisive", size=60).splits["test"],
    )
    assert part.text == [" ".join(words) for words in split.tokens]
    assert part.spans is not None
    for text, spans, words, marks in zip(
        part.text, part.spans, split.tokens, split.rationale or [], strict=True
    ):
        assert [text[start:stop] for start, stop in spans or ()] == [
            word for word, mark in zip(words, marks, strict=True) if mark
        ]
    questions = read_texts("planted-question", size=60)
    assert questions.second is not None
    assert questions.second[0].startswith("where is ")


def test_registered_texts_are_the_words_of_their_files_in_the_rows_of_the_paper(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "sst"
    folder.mkdir()
    tree = (
        "({label} (2 The) (2 (2 n't) (2 (2 good) (2 (2 ,) (2 (2 rather) (2 (2 dull) (2 film.)))))))"
    )
    for split in ("train", "dev", "test"):
        (folder / f"{split}.txt").write_text(
            "".join(f"{tree.format(label=label)}\n" for label in "0413")
        )
    texts = read_texts("sst", data_dir=tmp_path)
    assert set(texts.text) == {"The n't good , rather dull film."}
    assert_array_equal(
        texts.instance, read_corpus("sst", data_dir=tmp_path).splits["test"].instance
    )


def test_prompts_are_lines_or_a_column_without_labels(tmp_path: Path) -> None:
    lines = tmp_path / "prompts.txt"
    lines.write_text("The baker found\n\n  a ladder,\n", encoding="utf-8")
    texts = read_texts(lines, "causal-lm")
    assert (texts.text, texts.instance.tolist(), texts.label) == (
        ["The baker found", "  a ladder,"],
        [0, 1],
        None,
    )
    table = tmp_path / "prompts.jsonl"
    table.write_text('{"text": "The baker"}\n{"text": ""}\n')
    with pytest.raises(
        InputError,
        match=r"row 1 \(line 2\): an empty text; expected a text; correct the row, or skip such rows",
    ):
        read_texts(table, "causal-lm")
    skipped = read_texts(table, "causal-lm", on_bad_row="skip")
    assert (skipped.text, len(skipped.skipped)) == (["The baker"], 1)
    assert read_texts("planted-decisive", "causal-lm", size=40).label is None
    with pytest.raises(InputError, match="a question in each row"):
        read_texts("planted-question", "causal-lm", size=40)


def test_pairs_are_sources_and_targets() -> None:
    texts = read_texts("planted-reverse", "seq2seq", size=40)
    assert texts.second is not None
    assert [word.replace("s", "t") for word in texts.text[0].split()][::-1] == texts.second[
        0
    ].split()

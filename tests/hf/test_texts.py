"""Texts in the pieces of a model's own tokenizer."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from attnaudit.core.errors import InputError
from attnaudit.core.ragged import Ragged
from attnaudit.corpora.read import read_corpus
from attnaudit.hf.classes import match_outputs
from attnaudit.hf.encode import encode, limits_of, load_tokenizer, output_names
from attnaudit.hf.texts import Texts, read_texts
from attnaudit.trace.words import join_tokens, to_words
from tests.hf.classes import tiny
from tests.hf.encoding import words_of
from tests.hf.tokenizing import small, tokenizer

BERT, GPT2 = "BertForSequenceClassification", "GPT2LMHeadModel"
KINDS = {
    "wordpiece": BERT,
    "bytes": "RobertaForSequenceClassification",
    "pieces": "AlbertForSequenceClassification",
}
TYPES = ["input_ids", "attention_mask", "token_type_ids"]
TEXTS = (
    "The baker found, again,  a WOODEN ladder!",
    "It's 3.5 😀 zürich",
    "one",
    "the harbour\nand a mill ",
)


def given(*rows, second=None, kind: Any = "classification", **more):
    numbers = np.arange(len(rows))
    if kind == "classification":
        more = {"label": (numbers % 3).astype(np.int32), "class_names": ("a", "b", "c"), **more}
    return Texts("given", kind, list(rows), numbers, ["test"] * len(rows), "", second, **more)


def encoded(*rows, kind="wordpiece", second=None, **more):
    model = small(KINDS[kind])
    return encode(model, tokenizer(kind), given(*rows, second=second, **more))


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_are_the_tokenizers_and_read_as_the_text(kind):
    found = encoded(*TEXTS, kind=kind)
    assert [row.tolist() for row in found.ids] == tokenizer(kind)(list(TEXTS))["input_ids"]
    for row, (text, words) in enumerate(zip(TEXTS, words_of(found), strict=True)):
        special, ids = found.special[row].tolist(), found.word_id[row]
        assert special == [True, *[False] * (len(special) - 2), True]
        assert (found.tokens[row][0], found.tokens[row][-1]) == ("[CLS]", "[SEP]")
        assert "".join(words[1:-1]) == "".join(text.split())
        assert not any("Ġ" in token or "▁" in token or "##" in token for token in found.tokens[row])
        assert_array_equal(ids == -1, special)
        assert_array_equal(np.unique(ids[1:-1]), np.arange(ids.max() + 1))
        assert (np.diff(ids[1:-1]) >= 0).all()
    expected = ["The", "baker", "found", ",", "again", ",", "a", "WOODEN", "ladder", "!"]
    assert words_of(found)[0] == ["[CLS]", *expected, "[SEP]"]


def test_a_tokenizer_without_words_of_its_own_has_words_all_the_same():
    own = tokenizer("pieces")
    own.backend_tokenizer.pre_tokenizer = None
    found = encode(small(BERT), own, given("the baker, again"))
    assert words_of(found)[0][1:-1] == ["the", "baker", ",", "again"]


def test_pieces_of_bytes_are_shown_as_the_text_that_they_stand_for():
    """No letters of the byte alphabet: neither for white space, nor for a part of a character."""
    found = encoded("a  b\n\n😀 é", kind="bytes")
    shown = found.tokens[0]
    assert not any(set(token) & set("ĠĊðŁĺ") for token in shown)
    assert any(token.startswith("‹") for token in shown)
    assert "".join(shown).count("😀") == 1
    assert words_of(found)[0][1:-1] == ["a", "b", "😀", "é"]
    names = output_names(small(GPT2), tokenizer("bytes"), ())
    assert not any("Ġ" in name for name in names)
    assert len(set(names)) == len(names)


def test_a_blank_piece_is_named_by_its_number():
    own = tokenizer("wordpiece")
    own.add_tokens("\u3000")
    assert output_names(tiny(GPT2, vocab_size=len(own)), own, ())[-1] == f"<{len(own) - 1}>"


def test_a_pair_is_one_row_whose_words_count_on():
    model, own = small(BERT), tokenizer("wordpiece", model_input_names=TYPES)
    found = encode(model, own, given("the baker", second=["a ladder"]))
    both = own("the baker", "a ladder")
    assert found.ids[0].tolist() == both["input_ids"]
    assert found.type_ids is not None
    assert found.type_ids[0].tolist() == both["token_type_ids"]
    assert words_of(found)[0] == ["[CLS]", "the", "baker", "[SEP]", "a", "ladder", "[SEP]"]
    assert_array_equal(np.unique(found.word_id[0]), [-1, 0, 1, 2, 3])


@pytest.mark.parametrize("batching", ["any", "of one length", "none"])
def test_batches_are_bounded_and_hold_every_row_once(batching):
    random = np.random.default_rng(0)
    found = encoded(*[" ".join(["the"] * length) for length in random.integers(1, 12, 40)])
    batches = list(found.batches(50, batching))
    assert sorted(np.concatenate(batches).tolist()) == list(range(40))
    for batch in batches:
        lengths = found.ids.lengths[batch]
        assert len(batch) == 1 or len(batch) * lengths.max() <= 50
        assert found.batch(batch)["input_ids"].shape == (len(batch), lengths.max())
        assert batching == "any" or len(set(lengths.tolist())) == 1
    assert len(batches) == 40 if batching == "none" else len(batches) < 30


LONG = " ".join(["the"] * 100 + ["mill"])


@pytest.mark.parametrize(
    ("most", "of_tokenizer", "length", "limit"),
    [
        (None, None, 64, "64 tokens, the limit of the model"),
        (10, None, 10, "10 tokens, the limit of max_tokens"),
        (70, 20, 20, "20 tokens, the limit of the tokenizer (model_max_length)"),
    ],
)
def test_texts_longer_than_a_limit_are_cut_and_counted(most, of_tokenizer, length, limit):
    model, options = small(BERT), {}
    if of_tokenizer is not None:
        options["model_max_length"] = of_tokenizer
    own = tokenizer("wordpiece", **options)
    found = encode(model, own, given(LONG, "the mill"), max_tokens=most)
    assert found.ids.lengths.tolist() == [length, 4]
    assert found.notes == (f"1 of 2 texts is longer than {limit}, and cut",)
    assert found.tokens[0] == ["[CLS]", *["the"] * (length - 2), "[SEP]"]
    with torch.no_grad():
        model(**found.batch([0]))


def test_a_prompt_is_cut_at_its_start_and_the_tokenizer_is_as_before():
    own = tokenizer("bytes", special="[CLS] $A")
    own.backend_tokenizer.enable_truncation(7)
    prompt = given(LONG, kind="causal-lm")
    found = encode(small(GPT2), own, prompt, max_tokens=6)
    assert len(found.tokens[0]) == 6
    assert found.tokens[0][0] == "[CLS]"
    assert "".join(found.tokens[0]).endswith("themill")
    assert found.label is None
    assert own.truncation_side == "right"
    assert (own.backend_tokenizer.truncation or {}).get("max_length") == 7


@pytest.mark.parametrize(
    ("name", "longest"), [("RobertaForSequenceClassification", 62), (BERT, 64)]
)
def test_the_longest_text_is_the_longest_that_the_model_reads(name, longest):
    model = small(name)
    own = tokenizer("bytes", model_max_length=99)
    assert min(limits_of(model, own).values()) == longest
    model(input_ids=torch.full((1, longest), 9))
    with pytest.raises((IndexError, RuntimeError)):
        model(input_ids=torch.full((1, longest + 1), 9))
    unlimited = small("XLNetForSequenceClassification")
    assert limits_of(unlimited, tokenizer("bytes")) == {}


@pytest.mark.parametrize("name", ["T5ForConditionalGeneration", "BartForConditionalGeneration"])
def test_an_encoder_decoder_is_given_what_it_is_to_write_shifted(name):
    model, own = small(name), tokenizer("pieces", special="$A [SEP]")
    targets = ["a ladder", "one"]
    pairs = given("the baker", "a mill near the river", kind="seq2seq", second=targets)
    found = encode(model, own, pairs)
    written = found.written
    assert written is not None
    assert set(found.batch([0, 1])) == {"input_ids", "attention_mask", "decoder_input_ids"}
    for row, target in enumerate(targets):
        labels = own(target)["input_ids"]
        assert written.next_ids[row].tolist() == labels
        assert written.ids[row].tolist() == [model.config.decoder_start_token_id, *labels[:-1]]
    assert join_tokens(written.tokens, written.word_id)[0][1:] == ["␣a", "ladder"]


@pytest.mark.parametrize("kind", KINDS)
def test_rationales_mark_the_pieces_of_their_characters(kind):
    spans = [((4, 10),), None, ()]
    rows = ("the WOODEN ladder", "one mill", "a mill")
    found = encoded(*rows, kind=kind, spans=spans)
    pair = encoded(*rows, kind=kind, spans=spans, second=["the narrow mill"] * 3)
    for one in (found, pair):
        assert one.rationale is not None
        pieces = zip(one.tokens[0], one.rationale[0], strict=True)
        assert "".join(token for token, mark in pieces if mark) == "WOODEN"
        assert one.rationale[1] == []
        assert one.rationale[2] == [False] * len(one.tokens[2])


def test_pieces_are_summed_to_words():
    word_id = Ragged.from_rows([[-1, -1, 0, 0], [0, 1], [-1], [], [-1]], np.int32)
    summed = to_words(word_id.with_values(np.arange(1.0, 9.0)), word_id)
    assert [row.tolist() for row in summed] == [[1, 2, 7], [5, 6], [7], [], [8]]


NAMED = {"id2label": {0: "Positive", 1: "NEGATIVE"}, "label2id": {"Positive": 0, "NEGATIVE": 1}}


def classifier(**names):
    model = tiny(BERT)
    for name, value in names.items():
        setattr(model.config, name, value)
    return model


MATCHES = [
    (NAMED, ("negative", "positive"), None, ("Positive", "NEGATIVE"), [1, 0], ""),
    ({}, ("x", "y", "z"), None, ("x", "y", "z"), [0, 1, 2], "LABEL_0 is x, LABEL_1 is y"),
    (NAMED, ("0", "1"), None, ("Positive", "NEGATIVE"), [0, 1], "0 is Positive, 1 is NEGATIVE"),
    ({}, ("0", "2"), None, ("0", "1", "2"), [0, 2], "2 is LABEL_2"),
    (NAMED, ("null", "positive"), None, ("Positive", "NEGATIVE"), [-1, 0], "null are read as not"),
    ({}, ("null", "x"), ("x", "null", "nan"), ("x", "null", "nan"), [1, 0], ""),
    ({}, ("x", "y", "z"), ("z", "X", "y"), ("z", "X", "y"), [1, 2, 0], ""),
    (NAMED, ("bad",), ("good", "bad"), ("good", "bad"), [1], ""),
]


@pytest.mark.parametrize(("own", "classes", "stated", "names", "outputs", "note"), MATCHES)
def test_classes_are_matched_by_name_by_number_or_by_order(
    own, classes, stated, names, outputs, note
):
    found = match_outputs(classifier(**own), classes, stated)
    assert (found.names, found.of_class.tolist()) == (names, outputs)
    assert bool(found.notes) == bool(note)
    assert note in "".join(found.notes)


@pytest.mark.parametrize(
    ("names", "corpus", "stated", "line"),
    [
        (NAMED, ("bad", "good"), None, "classes NEGATIVE, Positive where the corpus has bad, good"),
        ({}, ("bad", "good"), None, "3 classes without names where the corpus has bad, good"),
        ({"id2label": {0: "pos", 1: "Pos"}}, ("neg", "pos"), None, r"pos, Pos \(2\)"),
        ({}, ("1", "2"), None, "classes 1, 2 without a 0, of 3 outputs"),
        ({"id2label": {0: "pos", 1: " "}}, ("pos",), None, "2 different names"),
        ({}, ("a", "b"), ("a", "b", "A"), r"a, b, A \(3\); expected 3 different"),
    ],
)
def test_classes_that_do_not_fit_are_refused(names, corpus, stated, line):
    with pytest.raises(InputError, match=line):
        match_outputs(classifier(**names), corpus, stated)


def test_what_cannot_be_tokenised_is_refused_with_one_line(tmp_path):
    model, own = small(BERT), tokenizer("wordpiece")
    expected = r"given, test, row 1: token \d+ of the tokenizer; expected one below 99"
    with pytest.raises(InputError, match=expected):
        encode(tiny(BERT), own, given("a", "the wooden ladder harbour river"))
    with pytest.raises(InputError, match="row 1: a text without a token"):
        encode(model, own, given("one", "\u200b"))
    skipped = encode(model, own, given("one", "\u200b", "mill"), on_empty="skip")
    assert skipped.instance.tolist() == [0, 2]
    assert skipped.notes == ("1 text without a token skipped",)
    with pytest.raises(InputError, match="expected a fast tokenizer"):
        encode(model, "models/bert", given("one"))
    with pytest.raises(InputError, match="max_tokens: 2"):
        encode(model, own, given("one"), max_tokens=2)
    with pytest.raises(InputError, match="expected texts for causal-lm"):
        encode(small(GPT2), own, given("one"))
    with pytest.raises(InputError, match=r"no tokenizer\.json"):
        load_tokenizer(tmp_path)
    own.save_pretrained(tmp_path)
    assert load_tokenizer(tmp_path)("one")["input_ids"] == own("one")["input_ids"]


def test_a_planted_corpus_gives_its_words_joined_with_the_characters_of_its_rationale():
    part = read_texts("planted-decisive", size=60)
    split = read_corpus("planted-decisive", size=60).splits["test"]
    assert part.text == [" ".join(words) for words in split.tokens]
    rows = zip(part.text, part.spans or (), split.tokens, split.rationale or (), strict=True)
    for text, spans, words, marks in rows:
        marked = [word for word, mark in zip(words, marks, strict=True) if mark]
        assert [text[start:stop] for start, stop in spans or ()] == marked
    questions = read_texts("planted-question", size=60).second
    assert questions is not None
    assert questions[0].startswith("where is ")

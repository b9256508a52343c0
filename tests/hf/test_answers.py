"""Answers of several tokens: their probability, the attention that writes them, words left out."""

from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from attnaudit.core.errors import InputError
from attnaudit.experiments import audit
from attnaudit.hf import collect, read_texts
from attnaudit.hf.texts import with_answers
from attnaudit.tracing.settings import ReplacementSettings
from tests.hf.tokenizing import small, tokenizer

ROWS = pl.DataFrame(
    {
        "text": [
            "It was late . Mary went home .",
            "Rain fell . The dog slept . It was old .",
            "No .",
        ],
        "question": ["Where is Mary ?", "Who slept ?", "Why ?"],
        "answer": ["at home now", "the old dog", "because"],
    }
)
COLUMNS: dict[str, Any] = {"question": "question", "answer": "answer"}


@pytest.fixture(scope="module")
def model() -> Any:
    return small("GPT2LMHeadModel")


@pytest.fixture(scope="module")
def own():
    return tokenizer("wordpiece", "$A")


def naive(model, own, prompt, answer):
    """The geometric mean of the answer's tokens' probabilities, and their mean attention."""
    ids = own(prompt)["input_ids"]
    written = own(answer)["input_ids"]
    with torch.no_grad():
        out = model(torch.tensor([ids + written]), output_attentions=True)
    logs = out.logits[0].double().log_softmax(-1)
    places = range(len(ids) - 1, len(ids) + len(written) - 1)
    found = [logs[place, token].item() for place, token in zip(places, written, strict=True)]
    row = out.attentions[-1][0].mean(dim=0)[list(places)].mean(dim=0)[: len(ids)].numpy()
    return float(np.exp(np.mean(found))), row / row.sum(), len(ids)


def test_prediction_attention_and_leave_one_out_are_those_of_own_passes(model, own):
    eager: Any = small("GPT2LMHeadModel", attn_implementation="eager")
    trace = collect(model, own, read_texts(ROWS, "causal-lm", **COLUMNS), scores="loo")
    assert (len(trace), trace.has("alpha"), trace.class_names[1]) == (3, False, "the answer")
    for row, (text, question, answer) in enumerate(ROWS.iter_rows()):
        prompt = f"{text} {question}"
        probability, shown, size = naive(eager, own, prompt, answer)
        assert trace.prediction[row, 1] == pytest.approx(probability, rel=1e-5)
        assert trace.ragged("importance_shown")[row] == pytest.approx(shown, abs=1e-5)
        words = prompt.split()
        assert "".join(trace.tokens(row)).replace("##", "") == "".join(words)
        assert len(trace.tokens(row)) == size
        loo, ids = trace.ragged("loo")[row], np.array(trace.cell("word_id", row))
        for word in (0, len(words) // 2):
            without = " ".join(words[:word] + words[word + 1 :])
            changed = abs(naive(eager, own, without, answer)[0] - probability)
            assert loo[ids == word] == pytest.approx(changed, abs=1e-5)


def test_passages_are_exchanged_and_the_question_stays(model, own):
    many = pl.concat([ROWS] * 4)
    texts = read_texts(many, "causal-lm", **COLUMNS)
    options = {"segments": r"\. ", "replacement": ReplacementSettings(texts=12, copies=20)}
    trace = collect(model, own, texts, heatmap="rollout", **options)
    assert trace.tokens(1)[-1] == "Who slept ?"
    assert trace.tokens(1)[:3] == ["Rain fell .", "The dog slept .", "It was old ."]
    asked = len(trace.tokens(1)) - 1
    assert all(asked not in lost for lost in trace.cell("replaced", 1))
    assert trace.ragged("loo")[1][asked] == 0.0
    results = audit(trace)
    assert {*results} >= {"replacement", "surrogate"}
    assert "adversary" not in results


def test_known_words_are_marked_where_a_row_has_them(model, own):
    table = ROWS.with_columns(known=pl.Series([[[14, 18]], None, [[0, 2]]]))
    texts = read_texts(table, "causal-lm", rationale="known", **COLUMNS)
    trace = collect(model, own, texts, replacement=None)
    marked = [
        [token for token, mark in zip(trace.tokens(row), marks, strict=True) if mark]
        for row, marks in enumerate(trace.table["rationale"].to_list())
        if marks is not None
    ]
    assert ["".join(row).replace("##", "") for row in marked] == ["Mary", "No"]
    assert trace.table["rationale"].null_count() == 1


def test_each_token_of_an_answer_is_a_row_with_attention_if_asked(model, own):
    trace = collect(model, own, read_texts(ROWS, "causal-lm", **COLUMNS), positions="all")
    heads = range(4)
    for (instance,), rows in trace.table.group_by("instance"):
        text, question, answer = ROWS.row(int(instance))
        prompt, written = (len(own(one)["input_ids"]) for one in (f"{text} {question}", answer))
        expected = product(range(prompt - 1, prompt - 1 + written), heads)
        assert sorted(rows.select("query", "head").rows()) == list(expected)
    assert trace.table["instance"].n_unique() == len(ROWS)


def test_a_translation_is_an_answer_too():
    model: Any = small("MarianMTModel")
    own = tokenizer("wordpiece", "$A [SEP]")
    pairs = [("It was late .", "Es war kalt ."), ("Rain fell .", "Regen .")]
    trace = collect(model, own, pairs, positions="answer", scores="loo")
    for row, (source, target) in enumerate(pairs):
        ids, written = own(source)["input_ids"], own(target)["input_ids"]
        given = model.prepare_decoder_input_ids_from_labels(labels=torch.tensor([written]))
        with torch.no_grad():
            logits = model(torch.tensor([ids]), decoder_input_ids=given).logits[0]
        logs = logits.double().log_softmax(-1)[range(len(written)), written]
        assert trace.prediction[row, 1] == pytest.approx(float(logs.mean().exp()), rel=1e-5)


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "MarianMTModel"])
def test_answers_that_the_model_writes_are_its_most_probable_tokens(name):
    model: Any = small(name)
    texts, special = read_texts([("It was", "x")] * 2, "seq2seq"), "$A [SEP]"
    if name.startswith("GPT"):
        texts, special = read_texts(ROWS["text"].to_list(), "causal-lm"), "$A"
    own = tokenizer("wordpiece", special)
    found = with_answers(model, own, texts, 3)
    written = found.answer or found.second
    assert written is not None
    assert all(answer.strip() for answer in written)
    if name.startswith("GPT"):
        ids = own(texts.text[0])["input_ids"]
        for _ in range(3):
            with torch.no_grad():
                ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
        assert written[0] == own.decode(ids[-3:], skip_special_tokens=True)
    trace = collect(model, own, texts, generate=3, scores="loo", replacement=None)
    assert len(trace) == len(found)
    with pytest.raises(InputError, match="a classifier; expected a language model"):
        with_answers(small(), own, texts, 3)


def test_wrong_answers_are_refused(model, own):
    with pytest.raises(InputError, match=r"texts without answers.*--column answer=NAME"):
        collect(model, own, ["a text"], positions="answer")
    rows = pl.DataFrame({"text": ["It was"], "answer": ["\u200b"]})
    with pytest.raises(InputError, match=r"row 0.*an answer whose tokens are not apart"):
        collect(model, own, read_texts(rows, "causal-lm", answer="answer"))
    with pytest.raises(InputError, match="an empty answer"):
        read_texts(pl.DataFrame({"text": ["a"], "answer": [""]}), "causal-lm", answer="answer")

"""Labels of tokens and ends of answers: what a trace predicts is what the whole model does, by hooks of its own."""

import numpy as np
import pytest
import torch
from torch import nn
from transformers.models.bert import modeling_bert

import attnaudit as aa
from attnaudit.core.errors import InputError, TraceError
from attnaudit.hf import check_model, collect, load_pretrained
from attnaudit.hf.model import reading
from attnaudit.hf.unwrap import one_output
from tests.hf.classes import tiny
from tests.hf.command import audit, refused, write
from tests.hf.exact import assert_exact_under_any_attention
from tests.hf.tokenizing import small, tokenizer

TOKENIZER = tokenizer("wordpiece")
TEXTS = ["the baker bakes", "it was bad and long"]
PAIRS = [("a good film", "what is good ?"), ("it was bad and long", "was it bad ?")]
NER, QA = "BertForTokenClassification", "BertForQuestionAnswering"


def labeller(name=NER):
    model = small(name)
    if name != QA:
        model.config.id2label = {0: "O", 1: "PER", 2: "LOC"}
    return model


def by_hand(model, given, row, alpha, patching):
    """The output with other weights of one head at one query, replaced in the class's own function."""
    calls = []

    def attend(module, query, key, value, *args, **_):
        weights = (query @ key.transpose(2, 3) * query.shape[-1] ** -0.5).softmax(dim=-1)
        if len(calls) == row["layer"]:
            weights[0, row["head"], row["query"]] = torch.from_numpy(alpha).float()
        calls.append(module)
        return (weights @ value).transpose(1, 2).contiguous(), weights

    text = TOKENIZER(*given, return_tensors="pt")
    model.set_attn_implementation("eager")
    with patching.context() as patch, torch.no_grad():
        patch.setattr(modeling_bert, "eager_attention_forward", attend)
        return model(**text)


def assert_the_models(trace, model, texts, probability, patching):
    random = np.random.default_rng(0)
    alpha = [random.dirichlet(np.ones(length)) for length in trace.lengths]
    found = trace.predict(alpha)
    assert np.abs(found - trace.prediction).max() > 1e-3
    for k, row in enumerate(trace.table.to_dicts()):
        output = by_hand(model, texts[row["instance"]], row, alpha[k], patching)
        np.testing.assert_allclose(found[k], probability(output, row), atol=1e-5)


@pytest.mark.parametrize("layers", [pytest.param("last", marks=pytest.mark.slow), "all"])
def test_a_label_under_any_weights_is_that_of_the_model(layers, monkeypatch):
    model = labeller()
    trace = collect(model, TOKENIZER, TEXTS, layers=layers, positions="all", scores=["gradient"])
    assert list(trace.class_names) == ["O", "PER", "LOC"]
    assert len({(row["instance"], row["query"]) for row in trace.table.to_dicts()}) == 8

    def probability(output, row):
        return output.logits[0, row["query"]].softmax(dim=-1)

    assert_the_models(trace, model, [(text,) for text in TEXTS], probability, monkeypatch)


@pytest.mark.parametrize("end", ["start", "end"])
def test_an_end_of_an_answer_under_any_weights_is_that_of_the_model(end, monkeypatch):
    model = labeller(QA)
    trace = collect(model, TOKENIZER, PAIRS, layers="all", scores=["gradient"], output=end)
    assert list(trace.class_names) == ["elsewhere", end]
    text = TOKENIZER(PAIRS[1][1], PAIRS[1][0], return_tensors="pt")
    with torch.no_grad():
        scores = model(**text)[f"{end}_logits"][0].softmax(dim=-1)
    second = trace.take(np.flatnonzero(trace.instance == 1))
    assert set(second.table["query"]) == {int(scores.argmax())}
    assert second.cell("ids", 0) == text["input_ids"][0].tolist()
    np.testing.assert_allclose(second.prediction[:, 1], float(scores.max()), atol=1e-6)

    def probability(output, row):
        own = float(output[f"{end}_logits"][0].softmax(dim=-1)[row["query"]])
        return [1 - own, own]

    with_own, again = (
        aa.audit(trace, ["permutation"], replay=one)["permutation"].table for one in (None, model)
    )
    assert with_own.equals(again)
    asked_first = [pair[::-1] for pair in PAIRS]
    assert_the_models(trace, model, asked_first, probability, monkeypatch)


def test_leaving_words_out_follows_the_position_and_hides_its_own_word():
    model = labeller()
    trace = collect(model, TOKENIZER, TEXTS, layers="all", scores=["loo"], positions="all")
    for k, row in enumerate(trace.table.to_dicts()):
        ids = np.array(TOKENIZER(TEXTS[row["instance"]])["input_ids"])
        words, query = np.array(row["word_id"]), row["query"]
        for word in range(words.max() + 1):
            gone = words == word
            changed, place = ids[~gone], query - int(gone[:query].sum())
            if word == words[query]:
                changed, place = np.where(gone, TOKENIZER.vocab["[MASK]"], ids), query
            with torch.no_grad():
                logits = model(input_ids=torch.from_numpy(changed)[None]).logits[0, place]
            tvd = np.abs(logits.softmax(dim=-1).numpy() - trace.prediction[k]).sum() / 2
            np.testing.assert_allclose(np.array(row["loo"])[gone], tvd, atol=1e-6)


def test_positions_are_first_pieces_of_words_drawn_by_the_seed():
    model, options = labeller(), {"layers": "all", "heads": [0], "scores": ["gradient"]}
    every = collect(model, TOKENIZER, TEXTS, positions="all", **options)
    first = {0: set(), 1: set()}
    for row in every.table.to_dicts():
        words = row["word_id"]
        assert words[row["query"]] not in (-1, words[row["query"] - 1])
        first[row["instance"]].add(row["query"])
    drawn = [
        set(collect(model, TOKENIZER, TEXTS, seed=k, **options).table["query"]) for k in (0, 7)
    ]
    assert drawn[0] != drawn[1]
    assert drawn[0] | drawn[1] <= first[0] | first[1]


class Neighbours(nn.Linear):
    """An output layer that reads two tokens."""

    def forward(self, states):
        return super().forward(states + states.roll(1, dims=1))


def test_a_label_that_depends_on_several_positions_is_refused():
    model = labeller()
    model.classifier.__class__ = Neighbours
    with pytest.raises(InputError, match="a prediction that is read from several positions"):
        collect(model, TOKENIZER, TEXTS)


def test_what_does_not_fit_is_refused_in_one_line():
    model = labeller(QA)
    with pytest.raises(InputError, match=r"start or end of an answer; .*collect\.output=start"):
        check_model(model)
    with pytest.raises(InputError, match="output middle; expected start or end"):
        one_output(model, "middle")
    with pytest.raises(InputError, match=r"texts alone .* expected a question for each"):
        collect(model, TOKENIZER, TEXTS, output="start")
    with pytest.raises(InputError, match="positions all: a model for question-answering"):
        collect(model, TOKENIZER, PAIRS, output="start", positions="all")
    with pytest.raises(InputError, match="segments for a model that labels tokens"):
        collect(labeller(), TOKENIZER, ["a. b."], segments="[.]")


def test_weights_that_are_no_attention_are_not_predicted_with():
    trace = collect(labeller(), TOKENIZER, TEXTS, layers="all", heads=[0], scores=["gradient"])
    own = [trace.alpha[row] for row in range(len(trace))]
    np.testing.assert_allclose(trace.predict(own), trace.prediction, atol=1e-5)
    for wrong in (own[:1], [own[0][1:], *own[1:]]):
        with pytest.raises(TraceError, match="expected one for each token of 4 rows"):
            trace.predict(wrong)
    with pytest.raises(TraceError, match=r"alpha, instance 1: .* with a sum of 1"):
        trace.predict([*own[:2], own[2] / 2, own[3]])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["DistilBert", "Llama", "DebertaV2", "Electra"])
@pytest.mark.parametrize("head", ["ForTokenClassification", "ForQuestionAnswering"])
def test_other_classes_are_exact_under_any_attention(name, head, tmp_path):
    model = tiny(f"{name}{head}")
    model = one_output(model, "end" if "Question" in head else None)
    gate = check_model(model)
    assert gate.can_be_audited
    with reading(model):
        assert_exact_under_any_attention(model, gate, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), [(NER, ()), (QA, ("--column", "question=asked"))])
def test_the_command_audits_labels(name, options, tmp_path, capsys):
    model, out = tmp_path / "model", tmp_path / "out"
    labeller(name).save_pretrained(model)
    TOKENIZER.save_pretrained(model)
    rows = [f"{text} {k},{asked}" for k in range(4) for text, asked in PAIRS]
    texts = write(tmp_path / "texts.csv", "text,asked", *rows)
    if name == QA:
        assert "collect.output=start" in refused(capsys, model, texts, *options)
        assert "question=NAME" in refused(capsys, model, texts, "--set", "collect.output=end")
        options = (*options, "--set", "collect.output=end")
    assert audit(model, "--check") == 0
    assert audit(model, texts, *options, out=out) == 0
    assert (out / "report.html").exists()
    assert load_pretrained(model).config.architectures == [name]

"""The collector: a trace is the same whatever the batches, the padding, the order and the shards."""

import math
from functools import reduce
from itertools import product

import numpy as np
import pytest
import torch

import attnaudit
from attnaudit.corpora.planted import planted_corpus
from attnaudit.stats.measures import predicted_class
from attnaudit.trace import TanhTail, Trace, write_shards
from attnaudit.tracing.texts import collect, collect_shards
from attnaudit.training.texts import predict
from tests.models.tiny import of_sentences, tiny_model, tiny_split, trace_of
from tests.oracles.importance import probabilities, rows_of, without

LENGTHS = [5, 1, 17, 3, 9, 30, 2, 8]
SENTENCES = [[4], [3, 1], [2, 30, 5], [1] * 7, [6, 2, 9, 4, 4, 1, 3, 8, 2]]
COLUMNS = ("alpha", "gradient", "importance_full_gradient", "loo", "readout")


def assert_same(first, second):
    """Whatever the order of texts."""
    one, other = (
        trace.take(np.argsort(trace.instance, kind="stable")) for trace in (first, second)
    )
    assert one.table["tokens"].equals(other.table["tokens"])
    for name in filter(one.has, COLUMNS):
        np.testing.assert_allclose(
            one.ragged(name).values, other.ragged(name).values, atol=1e-6, err_msg=name
        )
    np.testing.assert_allclose(one.prediction, other.prediction, atol=1e-6)


KINDS = [
    *product(["bilstm", "bigru", "cnn", "average", "none"], [False, True]),
    ("transformer", False),
]


@pytest.mark.parametrize(("encoder", "has_question"), KINDS)
def test_batches_padding_shards_and_order_do_not_matter(encoder, has_question):
    model = tiny_model(encoder, "additive", classes=3, has_question=has_question)
    split = tiny_split(LENGTHS, classes=3, has_question=has_question)
    together, turned = trace_of(model, split), split.take(np.array([3, 0, 7, 5, 1, 2, 6, 4]))
    for other in (trace_of(model, split, budget=1), trace_of(model, turned, shard_rows=3)):
        assert_same(together, other)


@pytest.mark.parametrize("ends", [True, False])
def test_a_trace_drops_nothing_and_leaves_a_model_as_it_was(ends):
    """Nor between the layers of a recurrent encoder, such as that of a plug-in."""
    model, split = tiny_model("bilstm", "additive").train(), tiny_split(LENGTHS)
    two = {"input_size": 12, "hidden_size": 8, "num_layers": 2, "batch_first": True, "dropout": 0.5}
    model.encoder.forward_rnn = torch.nn.LSTM(**two)
    next(model.parameters()).requires_grad_(False)

    def states():
        layers = [vars(module).get("dropout") for module in model.modules()]
        wanted = [weight.requires_grad for weight in model.parameters()]
        return [*layers, *wanted, *(module.training for module in model.modules())]

    before, shards = states(), collect_shards(model, split, shard_rows=3, scores=("gradient",))
    first = next(shards)
    if ends:
        list(shards)
    else:
        # As by an error of what reads the shards.
        shards.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert states() == before
    assert_same(first, next(collect_shards(model, split, shard_rows=3, scores=("gradient",))))


@pytest.mark.parametrize("encoder", ["bigru", "cnn", "none"])
def test_batches_and_shards_of_texts_of_sentences(encoder, monkeypatch):
    model, split = (
        tiny_model(encoder, "additive", classes=3, hierarchical=True),
        of_sentences(SENTENCES, classes=3),
    )
    together = trace_of(model, split)
    assert_same(together, trace_of(model, split, budget=1))
    assert_same(together, trace_of(model, split, shard_rows=2))
    assert_same(together, trace_of(model, split.take(np.array([3, 0, 4, 1, 2]))))
    monkeypatch.setattr("attnaudit.models.batch.SENTENCE_BUDGET", 10)
    assert_same(together, trace_of(model, split))
    assert together.alpha.lengths.tolist() == [len(row) for row in SENTENCES]
    assert together.tokens(1) == [" ".join(split.tokens[1][:3]), split.tokens[1][3]]
    np.testing.assert_allclose(together.prediction, predict(model, model.inputs(split)), atol=1e-6)


@pytest.mark.parametrize("hierarchical", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_tokens_deleted_from_the_input(classes, hierarchical):
    """Against texts shortened one by one, as the measures are defined."""
    model = tiny_model("bigru", "additive", classes, hierarchical=hierarchical)
    flat = tiny_split([1, 2, 5, 23, 12], classes)
    split = of_sentences(SENTENCES, classes) if hierarchical else flat
    trace = trace_of(model, split, erase_input=True, shard_rows=2)

    def probability(one, chosen):
        """Of the class that is predicted of the whole text."""
        found = probabilities(model, one)
        return found[chosen] if len(found) > 1 else abs(1 - chosen - found[0])

    columns = {"attention": "alpha", "gradient": "gradient", "loo": "loo"}
    for row, one in enumerate(rows_of(model.inputs(split))):
        chosen = int(predicted_class(probabilities(model, one)[None])[0])
        before, size = probability(one, chosen), len(one.positions[0])
        for (name, column), (k, share) in product(
            columns.items(), enumerate((0.01, 0.05, 0.1, 0.2, 0.5))
        ):
            order = np.argsort(-trace.ragged(column)[row], kind="stable").tolist()
            count = max(math.ceil(share * size), 1)
            for way, gone in (("comprehensiveness", order[:count]), ("sufficiency", order[count:])):
                found = trace.array(f"input_{way}_{name}")[row, k]
                if size == 1:
                    assert np.isnan(found)
                    continue
                shorter = reduce(without, sorted(gone, reverse=True), one)
                fall = before - probability(shorter, chosen)
                assert found == pytest.approx(fall, abs=2e-6), (row, name, way, share)
    table = attnaudit.audit(trace, ["comprehensiveness"])["comprehensiveness"].table
    expected = trace.array("input_sufficiency_loo").mean(axis=1)
    np.testing.assert_allclose(table["input_sufficiency_loo"].to_numpy(), expected, equal_nan=True)
    assert (table["input_sufficiency_loo"].null_count() > 0) == bool(np.isnan(expected).any())


@pytest.mark.parametrize("has_question", [False, True])
def test_the_number_of_threads_does_not_matter_and_is_given_back(has_question, monkeypatch):
    model, split = (
        tiny_model("bilstm", "additive", has_question=has_question, classes=3),
        tiny_split(LENGTHS, classes=3, has_question=has_question),
    )
    before, tables = torch.get_num_threads(), []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
        try:
            tables.append(trace_of(model, split, budget=20).table)
            assert torch.get_num_threads() == threads
            with monkeypatch.context() as broken:
                broken.setattr("attnaudit.tracing.texts.leave_one_out", lambda *_: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    list(collect_shards(model, split))
            assert torch.get_num_threads() == threads
        finally:
            torch.set_num_threads(before)
    assert tables[0].equals(tables[1])


@pytest.mark.parametrize("attention", ["additive", "dot"])
def test_a_model_that_is_asked_leaves_a_trace_with_a_tail(attention, tmp_path):
    """Written and read again, the trace gives the model's own predictions, and 0 to answers that a row does not allow."""
    model, split = (
        tiny_model("bilstm", attention, classes=5, has_question=True),
        tiny_split(LENGTHS, classes=5, has_question=True),
    )
    write_shards(tmp_path, collect_shards(model, split, shard_rows=3))
    trace = Trace.read(tmp_path)
    assert isinstance(trace.tail, TanhTail)
    assert trace.metadata["residual"] < 1e-6
    assert [trace.tokens(row) for row in range(len(trace))] == split.tokens
    assert trace.array("label").tolist() == split.label.tolist()
    probabilities = predict(model, model.inputs(split))
    np.testing.assert_allclose(trace.readout(trace.alpha), probabilities, atol=1e-6)
    assert split.candidates is not None
    np.testing.assert_array_equal(trace.candidates, split.candidates)
    assert trace.table["question"].to_list() == split.question


def test_gradient_is_of_the_predicted_answer_where_a_question_is_asked():
    model = tiny_model("cnn", "additive", classes=4, has_question=True)
    split = tiny_split(LENGTHS, classes=4, has_question=True)
    default, predicted, every = (
        trace_of(model, split, gradient_of=of).ragged("gradient").values
        for of in (None, "predicted", "all")
    )
    np.testing.assert_array_equal(default, predicted)
    assert not np.allclose(every, predicted)


def test_collect_refuses_a_corpus_of_other_classes():
    corpus = planted_corpus("decisive", size=60, seed=3)
    with pytest.raises(attnaudit.InputError, match="those of the model: class 0, class 1"):
        collect(tiny_model("average", "additive"), corpus)
    model = tiny_model("average", "additive")
    model.class_names = corpus.class_names
    with pytest.raises(attnaudit.InputError, match="split 'nowhere'"):
        collect(model, corpus, "nowhere")
    model = tiny_model("average", "additive", has_question=True)
    model.class_names = corpus.class_names
    with pytest.raises(attnaudit.InputError, match="a corpus without questions; expected one with"):
        collect(model, corpus)

"""Several heads, and a transformer: a row of the trace for each head, each exact by itself."""

import numpy as np
import pytest
import torch

from attnaudit.core import InputError
from attnaudit.corpora.corpus import Corpus
from attnaudit.corpora.prepare.derived import taught_by
from attnaudit.studies.seeds import Seeds
from attnaudit.tracing.texts import collect_shards
from tests.models.tiny import tiny_model, tiny_split

LENGTHS = [5, 1, 9, 2, 7]


def headed(encoder, classes=2, attention="additive"):
    return tiny_model(encoder, attention, classes, heads=4, embedding=12)


@pytest.mark.parametrize("attention", ["additive", "dot"])
@pytest.mark.parametrize(
    ("encoder", "classes"), [("transformer", 2), ("transformer", 3), ("bilstm", 2), ("cnn", 3)]
)
def test_every_head_reads_out_the_prediction(encoder, classes, attention):
    model, split = headed(encoder, classes, attention), tiny_split(LENGTHS, classes)
    trace = next(collect_shards(model, split))
    assert len(trace) == 4 * len(LENGTHS)
    assert sorted(trace.array("head").tolist()) == sorted([0, 1, 2, 3] * len(LENGTHS))
    batch = model.inputs(split).batch(np.arange(len(LENGTHS)))
    with torch.no_grad():
        done = model(batch)
    for head in range(4):
        rows = np.flatnonzero(trace.array("head") == head)
        mine = trace.take(rows)
        np.testing.assert_array_equal(mine.instance, split.instance)
        np.testing.assert_allclose(
            mine.alpha.values, done.alpha[:, head][batch.attended].numpy(), atol=1e-6
        )
        np.testing.assert_allclose(mine.readout(mine.alpha), mine.prediction, atol=1e-5)
    assert (
        np.abs(np.diff(trace.alpha.values[: 4 * 5].reshape(4, 5), axis=0)).max() > 1e-3
    )  # heads differ


def test_what_wants_one_attention_a_text_says_so():
    trace = next(collect_shards(headed("transformer"), tiny_split(LENGTHS)))
    with pytest.raises(InputError, match="seeds of a model: 4 heads; expected one attention"):
        Seeds().check_model(headed("transformer").settings)
    corpus = Corpus("tiny", ("class 0", "class 1"), {"test": tiny_split(LENGTHS)}, 1, "")
    with pytest.raises(InputError, match="several rows of one instance"):
        taught_by(corpus, trace, "alpha", "here")

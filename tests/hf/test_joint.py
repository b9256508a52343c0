"""All heads of all layers at once, as passes of the whole model give them."""

from dataclasses import replace

import numpy as np
import pytest

from attnaudit.core.ragged import concatenate
from attnaudit.experiments import joint
from attnaudit.experiments.joint import Joint, groups_of
from attnaudit.stats.measures import tvd
from attnaudit.trace.joint import JointReadout
from tests.hf.classes import tiny
from tests.hf.encoding import random_texts
from tests.hf.test_trace import REPLAYED, traced
from tests.oracles.joint import NaiveHeads
from tests.traces import random_attention

HEADS, TEXTS, SHUFFLES, SWEEPS = 4, 2, 3, 2
CLASSES = [
    *((name, {}) for name in (*REPLAYED, "FalconForCausalLM", "GPTBigCodeForCausalLM")),
    ("FalconForCausalLM", {"multi_query": False}),
    *(
        (name, {"sliding_window": 4})
        for name in ("MistralForCausalLM", "Gemma3ForCausalLM", "GptOssForCausalLM")
    ),
]
FAST = ("BertForSequenceClassification", "MarianMTModel", "MistralForCausalLM")


@pytest.mark.parametrize("name", ["BertForSequenceClassification", "GPT2LMHeadModel"])
def test_all_layers_at_once_are_passes_of_the_whole_model(name, tmp_path):
    model = tiny(name)
    case = traced(model, tmp_path, texts=random_texts(model, TEXTS))
    texts, trace = case.texts, case.trace
    table = Joint(shuffles=SHUFFLES, sweeps=SWEEPS)(trace)
    drawn = [[row.copy() for row in shuffled] for shuffled in joint.shuffles_of(trace, 0, SHUFFLES)]
    for text in range(TEXTS):
        rows = np.flatnonzero(trace.instance == text)

        def of_layers(alpha, rows=rows):
            return [
                np.stack([alpha[row] for row in rows if trace.array("layer")[row] == layer])
                for layer in (0, 1)
            ]

        naive = NaiveHeads(model, texts.batch([text]), int(trace.array("query")[rows[0]]), HEADS)
        own = of_layers(list(trace.alpha))
        assert naive.change(own) <= 1e-6
        uniform = [np.full_like(weights, 1 / weights.shape[1]) for weights in own]
        shuffled = [of_layers(alpha) for alpha in drawn]
        changes = [naive.change(weights) for weights in shuffled]
        worst = [naive.by_turns(weights, layer, SWEEPS) for layer, weights in enumerate(own)]
        found = table[rows]
        assert found["layers_uniform"].to_numpy() == pytest.approx(naive.change(uniform), abs=1e-5)
        assert found["layers_shuffled"].to_numpy() == pytest.approx(np.median(changes), abs=1e-5)
        largest = max(
            naive.change(worst),
            *changes,
            naive.change(uniform),
            float(found["joint_max_delta_y"].to_numpy().max()),
        )
        assert found["layers_max_delta_y"].to_numpy() == pytest.approx(largest, abs=1e-5)
        by_layer = bool(found["joint_flips"].any())
        assert found["layers_flips"].unique().to_list() == [
            by_layer or any(map(naive.flips, [uniform, worst, *shuffled]))
        ]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param(name, options, marks=() if name in FAST else pytest.mark.slow)
        for name, options in CLASSES
    ],
)
def test_weights_in_all_layers_give_what_a_pass_of_the_whole_model_gives(name, options, tmp_path):
    """Of some heads, in one layer and in all; also of texts longer than a window of the layers."""
    for cross in (False, True)[: 1 + (name in ("MarianMTModel", "T5ForConditionalGeneration"))]:
        model = tiny(name, **options)
        texts = random_texts(model, 2)
        case = traced(model, tmp_path / str(cross), texts=texts, cross=cross)
        trace = case.trace
        three = trace.take(np.flatnonzero(trace.array("head") != 1))
        for some in (three, three.take(np.flatnonzero(three.array("layer") == 0))):
            groups = groups_of(some, ("instance",))
            alphas = [some.alpha, random_attention(some.alpha)]
            several = concatenate([alpha.take(rows) for rows in groups for alpha in alphas])
            chosen = np.repeat(np.arange(len(groups)), len(alphas))
            found = JointReadout(some.readout, some.alpha, groups).predict_from_attention(
                chosen, several
            )
            assert (
                tvd(
                    found[:: len(alphas)], some.prediction[groups.values[groups.offsets[:-1]]]
                ).max()
                <= 1e-5
            )
            one = replace(case, trace=some)
            expected = np.stack([one.passed(rows, alpha) for rows in groups for alpha in alphas])
            assert tvd(found, expected).max() <= 1e-5

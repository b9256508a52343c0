"""Models that mix tokens by attention in some layers alone: those are audited exactly, and the others are counted."""

import pytest

from attnaudit.hf.gate import check_model
from attnaudit.hf.model import reading
from tests.hf.classes import HYBRIDS, tiny
from tests.hf.exact import assert_exact_under_any_attention


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=pytest.mark.slow) if k % 2 else one for k, one in enumerate(HYBRIDS)],
)
def test_the_layers_with_attention_are_audited_and_the_others_are_counted(name, tmp_path):
    model = tiny(name)
    gate = check_model(model)
    assert [(one.stack, one.layer) for one in gate.layers] == [("decoder", 0)]
    layers, ways = gate.notes
    assert layers == "1 of 2 layers has no softmax attention: nothing here is about it"
    assert ways.startswith(
        "with every token attending to itself alone, other tokens still move the logits, by up to "
    )
    with reading(model):
        assert_exact_under_any_attention(model, gate, tmp_path)

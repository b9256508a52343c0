"""The copying model of the preset ``snell2021`` against the released one, written with torch's modules (`tests.oracles.snell2021`)."""

import re
from functools import partial
from pathlib import Path

import pytest
import torch

from attnaudit.copying.model import Copier, as_symbols, descend
from attnaudit.copying.study import PRESETS, SUCCESS, Copying
from tests.models.test_copying_model import batch_of, slope_of
from tests.oracles.snell2021 import Released, of_released

STUDY = Copying("iid", "snell2021", 7, 5, hidden=16, embedding=16)
SEQUENCES = STUDY.sequences
PAGE = Path(__file__).parents[2] / "docs/research/dynamics.md"
batches = partial(batch_of, sequences=SEQUENCES)


def released(weights):
    model = Released(SEQUENCES.symbols, STUDY.hidden).to(weights["embedding.weight"].dtype)
    model.load(weights)
    return model


@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-10), (torch.float32, 2e-5)])
def test_loss_and_gradient_are_those_of_the_released_model(dtype, near, uniform):
    ours = Copier.fresh(STUDY, 4).to(dtype)
    theirs, (source, gold) = released(ours.state_dict()), as_symbols(*batches(0, 0))
    losses = ours.loss(source, gold, uniform), theirs.loss(source, gold, uniform)
    for loss in losses:
        loss.backward()
    assert losses[0].item() == pytest.approx(losses[1].item(), abs=near)
    gradients = of_released({name: slope_of(weight) for name, weight in ours.named_parameters()})
    for name, weight in theirs.named_parameters():
        expected = slope_of(weight)
        torch.testing.assert_close(gradients[name], expected, atol=near, rtol=0, msg=name)


def test_a_training_is_that_of_the_released_model():
    """Torch's Adam with its defaults, as the released loop has it, for some steps."""
    ours = Copier.fresh(STUDY, 4).double()
    theirs = released(ours.state_dict())
    optimizers = [torch.optim.Adam(model.parameters()) for model in (ours, theirs)]
    losses = descend(ours, optimizers[0], (batches(4, step) for step in range(12)))
    for step in range(12):
        optimizers[1].zero_grad()
        loss = theirs.loss(*as_symbols(*batches(4, step)))
        loss.backward()
        optimizers[1].step()
        assert losses[step] == pytest.approx(loss.item(), abs=1e-6)
    weights = of_released({name: part.detach() for name, part in ours.named_parameters()})
    for name, weight in theirs.named_parameters():
        torch.testing.assert_close(weights[name], weight.detach(), atol=1e-6, rtol=0, msg=name)


def test_attention_and_output_relevance_are_those_of_the_released_model():
    ours, (source, gold) = Copier.fresh(STUDY, 2).double(), as_symbols(*batches(1, 1))
    theirs = released(ours.state_dict())
    with torch.no_grad():
        result = ours(source, gold)
        logits, alpha = theirs(source, theirs.before(gold))
        torch.testing.assert_close(result.logits, logits)
        torch.testing.assert_close(result.alpha[:, 0], alpha.transpose(0, 1))
        relevance = ours.output_relevance(result, gold)
        for position in range(SEQUENCES.positions):
            logp = theirs(source, theirs.before(gold), only=position)[0].log_softmax(2)
            torch.testing.assert_close(
                relevance[:, :, position], logp.gather(2, gold[..., None])[..., 0].T
            )


def released_settings():
    """Setting to value, as the table of docs/research/dynamics.md states them with their source."""
    lines = PAGE.read_text().partition("| setting | released value | source |")[2].splitlines()[2:]
    rows = [re.split(r"\s*\|\s*", line.strip("| ")) for line in lines[: lines.index("")]]
    assert all(len(row) == 3 and row[2] for row in rows)
    return {setting.strip("`"): value for setting, value, _ in rows}


def test_the_default_study_has_every_released_setting():
    """The table of the page states values with their source; the training that a study without settings asks for has them all."""
    study = Copying("permutations")
    made = {
        **{name: str(getattr(study, name)) for name in ("length", "hidden", "embedding", "heads", "batch", "steps", "seeds", "every")},
        "encoder": study.encoder, "embedding_scale": f"{study.embedding_scale:g}", "learning_rate": f"{study.learning_rate:g}",
        "symbols": ", ".join(f"{Copying(kind).sequences.symbols} ({kind})" for kind in ("permutations", "distinct", "iid")),
        "symbols of both sides": "the same" if study.sequences.shared else "others",
        "end": f"after {study.length} symbols" if study.sequences.positions == 41 else "none",
        "output": f"untied, after a {PRESETS[study.preset].output}",
        "bias of the queries": "no" if Copier(study).attention.bias is None else "yes",
        "success": f"token accuracy > {SUCCESS}",
    }  # fmt: skip
    assert released_settings() == made
    assert study.sequences.vocabulary == 42

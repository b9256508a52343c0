"""What a training minimises, against the formulas written out row by row; and models whose attention is even or given."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from attnaudit.core import InputError
from attnaudit.core.ragged import Ragged
from attnaudit.corpora.prepare.derived import marks
from attnaudit.models.presets import model_preset
from attnaudit.tracing.texts import collect_shards
from attnaudit.training.settings import Adversary, Deceive
from attnaudit.training.texts import labels_loss, objective_loss
from tests.models.tiny import built, tiny_model, tiny_split
from tests.oracles.importance import naive_leave_one_out, one_row

LENGTHS = [4, 1, 7, 3, 2, 6]
BASE = {2: [[0.3], [0.9], [0.5], [0.2], [0.7], [0.4]], 3: [[0.2, 0.3, 0.5], [0.6, 0.2, 0.2]] * 3}


def taught(classes):
    """A split that says what some other model does; one weight is 0."""
    split, random = tiny_split(LENGTHS, classes), np.random.default_rng(1)
    raw = random.random(sum(LENGTHS)) + 0.05
    raw[5] = 0.0
    rows = Ragged.from_lengths(raw, LENGTHS)
    attention = rows.with_values((raw / rows.spread(rows.sum())).astype(np.float32))
    return replace(split, attention=attention, prediction=np.array(BASE[classes]))


def naive_kl(p, q):
    return sum(
        a * (math.log(max(a, 1e-30)) - math.log(max(b, 1e-30)))
        for a, b in zip(p.tolist(), q.tolist(), strict=True)
    )


def outputs(model, split, row):
    """Attention over the tokens and probabilities of one text, by itself."""
    batch = model.inputs(split).batch(np.array([row]))
    with torch.no_grad():
        done = model(batch)
        return done.alpha[batch.attended].numpy(), model.probabilities(done.logits)[0].numpy()


@pytest.mark.parametrize("classes", [2, 3])
def test_the_adversary_s_loss_is_the_paper_s(classes):
    model, split = tiny_model("bilstm", "additive", classes), taught(classes)
    assert split.attention is not None
    expected = []
    for row in range(len(split)):
        alpha, probability = outputs(model, split, row)
        base, said = split.attention[row], np.array(BASE[classes][row])
        moved = abs(probability - said).sum() * (1.0 if classes == 2 else 0.5)
        expected.append(moved - 0.3 * naive_kl(alpha, base))
    labels = labels_loss(model, split.label, 1.0)
    loss = objective_loss(Adversary(0.3), model, split, labels)
    for rows in (np.arange(len(split)), np.array([4, 2])):
        found = loss(model(model.inputs(split).batch(rows)), rows)
        assert float(found.detach()) == pytest.approx(np.mean(np.array(expected)[rows]), rel=1e-4)


@pytest.mark.parametrize(
    ("encoder", "classes", "heads"),
    [
        ("bilstm", 2, "mean"),
        ("bilstm", 3, "mean"),
        ("transformer", 2, "mean"),
        ("transformer", 2, "max"),
    ],
)
def test_the_deceiving_loss_is_the_paper_s(encoder, classes, heads):
    """Of several heads their mean, or the worst of them."""
    model, split = tiny_model(encoder, "additive", classes), tiny_split(LENGTHS, classes)
    words = (split.tokens[0][1], split.tokens[2][0], split.tokens[1][0])
    assert set(split.tokens[1]) <= set(words), "a text with no other word"
    labels, rows = labels_loss(model, split.label, 2.5), np.arange(len(split))
    done, penalties = model(model.inputs(split).batch(rows)), []
    for tokens, alpha in zip(split.tokens, done.alpha.detach().numpy(), strict=True):
        allowed = np.array([token not in words for token in tokens])
        left = alpha[..., 1 : len(tokens) + 1] @ allowed
        worst = left.min() if heads == "max" else left.mean()
        penalties.append(-math.log(worst) if allowed.any() else 0.0)
    assert max(penalties) > 0.01
    losses = [
        float(
            objective_loss(Deceive(strength, words, heads), model, split, labels)(
                done, rows
            ).detach()
        )
        for strength in (0.0, 0.7)
    ]
    assert losses[0] == float(labels(done, rows).detach())
    assert losses[1] == pytest.approx(losses[0] + 0.7 * np.mean(penalties), rel=1e-4)


def test_a_text_with_nothing_but_impermissible_words_still_learns():
    """Its penalty is infinite: neither the loss nor a gradient is."""
    model, split = tiny_model("average", "additive"), tiny_split([1, 3])
    loss = objective_loss(
        Deceive(1.0, tuple(split.tokens[0])), model, split, labels_loss(model, split.label, 1.0)
    )
    rows = np.arange(2)
    loss(model(model.inputs(split).batch(rows)), rows).backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_impermissible_tokens_are_those_listed_or_those_of_the_rationale():
    split = replace(tiny_split([2, 3]), rationale=[[True, False], [False, False, True]])
    assert marks(split, "rationale") == [[True, False], [False, False, True]]
    assert marks(split, (split.tokens[1][0],))[1][0]
    with pytest.raises(InputError, match="no rationale of instance 1 of train"):
        marks(replace(split, rationale=[[True, False], []]), "rationale", "train")
    with pytest.raises(InputError, match=r"no rationale .* of the split.*--set deceive.words="):
        marks(tiny_split([2]), "rationale")


def test_an_adversary_without_a_base_and_a_negative_strength_are_refused():
    model, split = tiny_model("average", "additive"), tiny_split([2])
    with pytest.raises(InputError, match="taught by the trace of a base model"):
        objective_loss(Adversary(0.1), model, split, labels_loss(model, split.label, 1.0))
    for objective in (Adversary, Deceive):
        with pytest.raises(InputError, match=r"strength: -0\.1; expected 0 or more"):
            objective(-0.1)


@pytest.mark.parametrize("encoder", ["none", "average", "cnn"])
def test_leave_one_out_of_a_score_that_dwarfs_all_others(encoder):
    """Without it the others count, however small they were beside it."""
    model, split = tiny_model(encoder, "dot"), tiny_split(LENGTHS)
    with torch.no_grad():
        for parameter in model.attention.parameters():
            parameter.mul_(3000.0)
    trace, inputs = next(collect_shards(model, split)), model.inputs(split)
    for row in range(len(LENGTHS)):
        np.testing.assert_allclose(
            trace.ragged("loo")[row], naive_leave_one_out(model, one_row(inputs, row)), atol=1e-6
        )


def test_imposed_attention_is_what_the_model_uses():
    split, settings = taught(2), replace(model_preset("average", "uniform"), attention="imposed")
    model = built(settings)
    trace = next(collect_shards(model, split, scores=("gradient",)))
    assert split.attention is not None
    np.testing.assert_allclose(trace.alpha.values, split.attention.values, atol=1e-7)
    assert not trace.has("loo")
    with pytest.raises(InputError, match="leave-one-out of a model whose attention is given"):
        next(collect_shards(model, split))
    with pytest.raises(InputError, match="a text without weights"):
        next(collect_shards(model, tiny_split(LENGTHS), scores=()))

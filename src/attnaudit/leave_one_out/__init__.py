"""Leave-one-out, Algorithm 1 of Jain & Wallace 2019: every token deleted in turn, everything run again, attention included.

Exact, but without redoing work: each encoder has its own file, named after it, that says which hidden states a deletion leaves alone.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from attnaudit.leave_one_out.average import average_without_each
from attnaudit.leave_one_out.bilstm import bilstm_without_each
from attnaudit.leave_one_out.cnn import cnn_without_each
from attnaudit.models.batch import Batch
from attnaudit.models.classifier import Classifier, Forward

WITHOUT_EACH = {"average": average_without_each, "cnn": cnn_without_each, "bilstm": bilstm_without_each}


def leave_one_out(model: Classifier, batch: Batch, done: Forward) -> Float[Tensor, "B L"]:
    """TVD between the prediction and the one without the token at each attended position; other positions hold no meaning.

    A text of one token leaves nothing to attend to: its prediction without it is the activation of the bias. ``done`` is the
    model's own pass over ``batch``.
    """
    logits = WITHOUT_EACH[model.settings.encoder](model, batch, done).double()
    gap = (model.probabilities(logits) - model.probabilities(done.logits.double())[:, None, :]).abs().sum(dim=-1)
    return gap if model.classes == 2 else 0.5 * gap

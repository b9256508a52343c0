"""Leave-one-out, Algorithm 1 of Jain & Wallace 2019: every token deleted in turn, everything run again, attention included.

Exact, but without redoing work: each kind of encoder has its own file that says which hidden states a deletion leaves alone (a
transformer's leaves none alone, and several heads are run again). Where
positions are sentences, a sentence is deleted, and the vectors of the others are those they were.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from attnaudit.models.batch import Batch
from attnaudit.models.classifier import AttentionModel, Forward
from attnaudit.tracing.leave_one_out.average import average_without_each
from attnaudit.tracing.leave_one_out.cnn import cnn_without_each
from attnaudit.tracing.leave_one_out.recurrent import recurrent_without_each
from attnaudit.tracing.leave_one_out.rerun import logits_without_each

WITHOUT_EACH = {
    "average": average_without_each, "none": average_without_each, "cnn": cnn_without_each,
    "bilstm": recurrent_without_each, "bigru": recurrent_without_each,
}  # fmt: skip


def leave_one_out(model: AttentionModel, batch: Batch, done: Forward) -> Float[Tensor, "B L"]:
    """TVD between the prediction and the one without the token at each attended position; other positions hold no meaning.

    A text of one token leaves nothing to attend to: its prediction without it is that of the offset alone. A question stays as it is,
    and so do the answers that are allowed. ``done`` is the model's own pass over ``batch``.
    """
    if done.alpha.ndim == 3 or model.settings.encoder not in WITHOUT_EACH:
        logits = logits_without_each(model, batch).double()
    else:
        pooled = WITHOUT_EACH[model.settings.encoder](model, batch, done).readout()
        logits = model.logits(pooled + done.asked.offset[:, None].double(), batch)
    return model.distance(model.probabilities(logits), model.probabilities(done.logits.double())[:, None])

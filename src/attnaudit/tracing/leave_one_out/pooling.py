"""Leave-one-out of encoders whose states depend on a window of tokens, or on a single one.

Deleting ``t`` changes the hidden states of at most ``R`` positions on either side, where ``R`` is
half the widest kernel, and 0 for encoders of single tokens. All others keep their states and
scores, so that only the softmax is computed again. A convolution is a sum over its window of one
linear map per offset. So each token goes through these maps once, and a changed window is a sum
of finished pieces.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnaudit.models.attention import attend
from attnaudit.models.batch import Batch
from attnaudit.models.classifier import AttentionModel, Forward

Logits = Float[Tensor, "B L K"]
# Weights in memory at a time, 32 MB in float64: there is one per text, deletion and position.
CELLS = 1 << 22


def pooling_without_each(model: AttentionModel, batch: Batch, done: Forward) -> Logits:
    """Compute the logits without each token, for convolutions or an encoder of single tokens.

    Args:
        model: A model with one head and scores of hidden states.
        batch: The texts.
        done: The model's forward pass over them.

    Returns:
        The logits, in float64.
    """
    kernels = [one.kernel_size[0] for one in getattr(model.encoder, "convolutions", ())]
    radius = max(kernels, default=1) // 2
    # The states of the S nearest neighbours of each position once that is deleted, and which of
    # these are attended. With windows of one token no other position sees the deleted one.
    near, there = done.hidden[:, :, None][:, :, :0], batch.attended[..., None][..., :0]
    if radius:
        near = changed_hidden(model, done.embedded, radius)
        there = neighbours(batch.attended, radius)
    query = None if done.query is None else done.query[:, None]
    scores = model.attention(done.hidden, query).double()
    readouts = model.head.readout(done.hidden).double()
    near_scores = model.attention(near, None if query is None else query[:, None]).double()
    near_readouts = model.head.readout(near).double()
    (rows, width), size = scores.shape, near.shape[2]
    place, pooled = torch.arange(width, device=scores.device), []
    for part in place.split(max(1, CELLS // (rows * width))):
        far = batch.attended[:, None] & ((place - part[:, None]).abs() > size // 2)
        both = torch.cat([scores[:, None].expand(far.shape), near_scores[:, part]], dim=-1)
        weights = attend(both, torch.cat([far, there[:, part]], dim=-1))
        own = torch.einsum("bls,blsp->blp", weights[..., width:], near_readouts[:, part])
        pooled.append(weights[..., :width] @ readouts + own)
    return model.logits(torch.cat(pooled, dim=1) + done.offset[:, None].double(), batch)


def changed_hidden(
    model: AttentionModel, embedded: Float[Tensor, "B L E"], radius: int
) -> Float[Tensor, "B L S m"]:
    """Compute the hidden states of the neighbours of each position once that is deleted.

    Args:
        model: A model with convolutions.
        embedded: Embedded tokens.
        radius: Half the widest kernel.

    Returns:
        States of the ``S = 2 · radius`` neighbours of each position, from left to right.
    """
    width = embedded.shape[1]
    parts = []
    for convolution in model.encoder.convolutions:
        kernel = convolution.kernel_size[0]
        pieces = torch.einsum("ble,hek->bklh", embedded, convolution.weight)
        # A changed window reaches up to 2 · radius positions away, past the ends of the text.
        pieces = torch.nn.functional.pad(pieces, (0, 0, 2 * radius, 2 * radius))
        neighbour = []
        for offset in [*range(-radius, 0), *range(1, radius + 1)]:
            starts = [seen_from(offset, tap - kernel // 2) + 2 * radius for tap in range(kernel)]
            neighbour.append(
                sum(pieces[:, k, start : start + width] for k, start in enumerate(starts))
                + convolution.bias
            )
        parts.append(torch.stack(neighbour, dim=2))
    return torch.relu(torch.cat(parts, dim=-1))


def seen_from(offset: int, step: int) -> int:
    """Return the position that is ``step`` away from another once position 0 is deleted.

    Args:
        offset: Position before the deletion, not 0.
        step: Distance after the deletion, with its sign.

    Returns:
        The position before the deletion.
    """
    position = offset + step
    crossed = (offset < 0 <= position) or (position <= 0 < offset)
    return position + (1 if offset < 0 else -1) if crossed else position


def neighbours(attended: Bool[Tensor, "B L"], radius: int) -> Bool[Tensor, "B L S"]:
    """Mark which neighbours of each position are attended.

    Args:
        attended: Mask of the attended positions.
        radius: Largest distance of a neighbour.

    Returns:
        A mask of the ``S = 2 · radius`` neighbours, from left to right.
    """
    width = attended.shape[1]
    padded = torch.nn.functional.pad(attended, (radius, radius))
    offsets = [*range(-radius, 0), *range(1, radius + 1)]
    return torch.stack(
        [padded[:, radius + offset : radius + offset + width] for offset in offsets], dim=2
    )

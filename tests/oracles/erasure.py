"""Removals of Serrano & Smith 2019 as the paper describes them: weights set to 0, the rest renormalised, the output read out again."""

from itertools import combinations

import numpy as np
import torch

from attnaudit.trace import TanhTail
from tests.oracles.readout import naive_jsd, naive_prediction


def after_removal(trace, row, gone):
    """The prediction without some positions; None where that leaves no weight."""
    alpha = np.array(trace.alpha[row])
    alpha[list(gone)] = 0.0
    return naive_prediction(trace, row, alpha / alpha.sum()) if alpha.sum() > 0 else None


def decided(prediction):
    return int(prediction[0] >= 0.5) if len(prediction) == 1 else int(np.argmax(prediction))


def flips(trace, row, gone):
    after = after_removal(trace, row, gone)
    return after is not None and decided(after) != decided(
        naive_prediction(trace, row, trace.alpha[row])
    )


def naive_first_flip(trace, row, order):
    """How many go, one after another, until the decision is another one."""
    return next((k for k in range(1, len(order)) if flips(trace, row, order[:k])), None)


def output_jsd(p, q):
    """Divergence of two predictions; one sigmoid output stands for two classes."""
    whole = [np.array([*v, 1.0 - v[0]]) if len(v) == 1 else np.array(v) for v in (p, q)]
    return naive_jsd(*whole)


def torch_logits(trace, row, pooled):
    """The logits of all classes from the attended sum with the offset; a sigmoid counts as two."""
    tail = trace.readout.tail
    if isinstance(tail, TanhTail):
        pooled = torch.tanh(pooled) @ torch.tensor(tail.weight.T) + torch.tensor(tail.bias)
    if trace.metadata["activation"] == "sigmoid":
        pooled = torch.cat([torch.zeros(1, dtype=torch.float64), pooled])
    if trace.candidates is not None:
        pooled = pooled.masked_fill(torch.tensor(~trace.candidates[row]), -torch.inf)
    return pooled


def weight_gradient(trace, row):
    """``∂p_max/∂alpha`` by torch, in float64; of the log-odds, whose order is the same and does not underflow."""
    alpha = torch.tensor(trace.alpha[row], dtype=torch.float64, requires_grad=True)
    sums = alpha @ torch.tensor(trace.readout.contribution[row])
    logits = torch_logits(trace, row, torch.tensor(trace.readout.offset[row]) + sums)
    probability = torch.softmax(logits, 0).max()
    log_odds = torch.log(probability) - torch.log1p(-probability)
    return torch.autograd.grad(log_odds, alpha)[0].numpy()


def greedy_removal(trace, row):
    """Behind a tail: one position, where one is enough; else one after another, that whose removal lowers the lead over the nearest rival
    most, the tail taken as its tangent at what is left. None where the decision never flips.
    """
    alpha, size = trace.alpha[row], len(trace.alpha[row])
    one = next(([t] for t in range(size) if flips(trace, row, [t])), None)
    if one is not None:
        return one
    gone = []
    while not flips(trace, row, gone):
        pull, parts = slope_of_lead(trace, row, gone), trace.readout.contribution[row]
        sums = {}
        for t in set(range(size)) - set(gone):
            left = np.delete(np.arange(size), [*gone, t])
            if alpha[left].sum() > 0:
                sums[t] = float(alpha[left] @ parts[left] @ pull / alpha[left].sum())
        if not sums:
            return None
        gone.append(min(sums, key=sums.__getitem__))
    return gone


def slope_of_lead(trace, row, gone):
    """∂(logit of the model's decision − highest other logit)/∂(attended sum), without the positions ``gone``, by torch."""
    alpha, readout = np.array(trace.alpha[row]), trace.readout
    alpha[list(gone)] = 0.0
    sums = readout.offset[row] + alpha @ readout.contribution[row] / alpha.sum()
    pooled = torch.tensor(sums, requires_grad=True)
    logits = torch_logits(trace, row, pooled)
    own = decided(naive_prediction(trace, row, trace.alpha[row]))
    rival = torch.cat([logits[:own], logits[own + 1 :]]).max()
    lead = logits[own] - (rival if rival.isfinite() else 0.0)
    return torch.autograd.grad(lead, pooled)[0].numpy()


def exhaustive_minimum(trace, row):
    """The size of the smallest set whose removal flips the decision, by trying them all; None where none does."""
    size = len(trace.alpha[row])
    return next(
        (
            k
            for k in range(1, size)
            if any(flips(trace, row, gone) for gone in combinations(range(size), k))
        ),
        None,
    )


def every_removal_minimum(trace, row):
    """The same by one product over all sets at once: for an identity tail, and rows too long to try the sets one by one."""
    alpha, readout = trace.alpha[row], trace.readout
    size = len(alpha)
    kept = (np.arange(1, 2**size)[:, None] >> np.arange(size)) & 1
    mass = kept @ alpha
    kept, mass = kept[mass > 0], mass[mass > 0]
    # Times their mass, so that nothing is rounded where weights and readouts are not.
    logits = readout.offset[row] * mass[:, None] + (kept * alpha) @ readout.contribution[row]
    made = (logits[:, 0] >= 0).astype(int) if logits.shape[1] == 1 else np.argmax(logits, axis=1)
    flipped = made != made[-1]  # the last set keeps all
    return int((size - kept.sum(axis=1))[flipped].min()) if flipped.any() else None

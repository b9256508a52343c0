"""Jain & Wallace 2019, Algorithm 3, in torch: autograd, one padded batch, context vectors rebuilt in every step."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attnaudit.trace import TanhTail


@dataclass(frozen=True)
class Model:
    """What stands behind a batch: ``hidden`` (B, T, m), ``weight`` (m, C), ``bias`` (B, C), ``mask`` (B, T) true at tokens.

    ``tail`` is the weight (C, m) and the bias (C,) that a tanh goes through, ``allowed`` (B, C) the answers.
    """

    hidden: Tensor
    weight: Tensor
    bias: Tensor
    mask: Tensor
    sigmoid: bool
    tail: tuple[Tensor, Tensor] | None = None
    allowed: Tensor | None = None

    def predict(self, attention):
        """(B, k, T) to (B, k, C)."""
        context = torch.einsum("bkt,btm->bkm", attention, self.hidden)
        logits = context @ self.weight + self.bias[:, None]
        if self.tail is not None:
            logits = torch.tanh(logits) @ self.tail[0].T + self.tail[1]
        if self.allowed is not None:
            logits = logits.masked_fill(~self.allowed[:, None], -torch.inf)
        return torch.sigmoid(logits) if self.sigmoid else torch.softmax(logits, dim=-1)


def padded(trace, width=0, dtype=torch.float64):
    """The trace as one padded batch and its attention (B, T); hidden states of ``width`` numbers, random but for what they read out.

    Width 0 takes the readout itself as hidden states.
    """
    readout, longest = trace.readout, int(trace.alpha.lengths.max())
    classes = readout.offset.shape[1]
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(width, classes)) if width else np.eye(classes)
    size = len(weight)
    hidden, alpha = np.zeros((len(trace), longest, size)), np.zeros((len(trace), longest))
    for row, contribution in enumerate(readout.contribution):
        states = rng.normal(size=(len(contribution), size))
        hidden[row, : len(contribution)] = states + (
            contribution - states @ weight
        ) @ np.linalg.pinv(weight)
        alpha[row, : len(contribution)] = trace.alpha[row]
    mask = torch.arange(longest) < torch.tensor(trace.alpha.lengths)[:, None]
    states, matrix, bias, attention = (
        torch.tensor(part, dtype=dtype) for part in (hidden, weight, readout.offset, alpha)
    )
    tail = None
    if isinstance(readout.tail, TanhTail):
        tail = (
            torch.tensor(readout.tail.weight, dtype=dtype),
            torch.tensor(readout.tail.bias, dtype=dtype),
        )
    allowed = None if readout.candidates is None else torch.tensor(readout.candidates)
    return Model(
        states, matrix, bias, mask, readout.activation == "sigmoid", tail, allowed
    ), attention


def torch_tvd(p, q):
    gap = (p - q).abs().sum(-1)
    return gap if p.shape[-1] == 1 else 0.5 * gap


def torch_jsd(p, q):
    """Zeros, padding among them, add nothing and have no slope."""
    log_middle = _log(0.5 * (p + q))
    return 0.5 * (p * (_log(p) - log_middle) + q * (_log(q) - log_middle)).sum(-1)


def _log(p):
    return torch.where(p > 0, p, torch.ones_like(p)).log()


def adversary_loss(scores, model, alpha, epsilon, penalty):
    """One loss per instance: minus the divergences, plus what the outputs move beyond ε."""
    k = scores.shape[1]
    attention = torch.softmax(scores.masked_fill(~model.mask[:, None], -torch.inf), dim=-1)
    target = model.predict(alpha[:, None])
    to_model = torch_jsd(attention, alpha[:, None].expand_as(attention)).sum(1)
    among = torch.zeros_like(to_model)
    for i in range(k):
        for j in range(i):
            among = among + torch_jsd(attention[:, i], attention[:, j])
    beyond = torch.relu(torch_tvd(model.predict(attention), target) - epsilon).mean(1)
    return -to_model - among / max(k * (k - 1), 1) + penalty * beyond


def naive_search(model, alpha, scores, epsilon=0.01, steps=500, learning_rate=0.01, penalty=500):
    """The attentions (B, k, T) that ``steps`` of Adam with AMSGrad reach from ``scores``."""
    scores = scores.clone().requires_grad_(True)
    optimiser = torch.optim.Adam([scores], lr=learning_rate, amsgrad=True)
    for _ in range(steps):
        optimiser.zero_grad()
        adversary_loss(scores, model, alpha, epsilon, penalty).sum().backward()
        optimiser.step()
    return torch.softmax(scores.detach().masked_fill(~model.mask[:, None], -torch.inf), dim=-1)


def searched_jsd(trace, epsilon=0.01, k=5, steps=500):
    """ε-max JSD (n,) that the paper's search finds: the best of its ends within ε, 0 if there is none."""
    model, alpha = padded(trace)
    noise = torch.randn(len(trace), k, alpha.shape[1], generator=torch.Generator().manual_seed(0))
    ends = naive_search(model, alpha, 3.0 * noise.double(), epsilon, steps)
    own = alpha[:, None]
    within = torch_tvd(model.predict(ends), model.predict(own)) <= epsilon
    return torch.where(within, torch_jsd(ends, own.expand_as(ends)), 0.0).amax(1).numpy()

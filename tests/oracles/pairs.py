"""What a translator's trace holds, worked out for one gold token of one pair as the definitions say it."""

import numpy as np
import torch

from attnaudit.corpora.prepare.vocabulary import BOS, EOS, PAD, UNK


def weighted(model, one, at, head, alpha):
    """The distribution over all words when one head attends by ``alpha`` and the others as they do."""
    with torch.no_grad():
        done = model(one)
        mine = done.alpha.clone()
        mine[0, head, at] = torch.from_numpy(alpha)
        return torch.softmax(
            model.logits(model.combined_from_attention(mine, done.hidden, done.states))[0, at],
            dim=-1,
        ).numpy()


def relevance(model, one, at, head):
    """Log-probability of the gold token with all of a head's attention on each source position in turn."""
    length = one.source.shape[1]
    return [
        float(np.log(weighted(model, one, at, head, np.eye(length)[place])[int(one.gold[0, at])]))
        for place in range(length)
    ]


def leave_one_out(model, one, at):
    """TVD over all words when a source token is deleted."""

    def told(source):
        return torch.softmax(model.logits(model.write(source, one.before))[0, at], dim=-1)

    with torch.no_grad():
        ids = one.source[0].tolist()
        without = [
            torch.tensor([ids[:place] + ids[place + 1 :]], dtype=torch.int64)
            for place in range(len(ids))
        ]
        whole = told(one.source)
        return [0.5 * float((told(rest) - whole).abs().sum()) for rest in without]


def gradient_of_gold(model, one, at, step=1e-6):
    """``|e · ∂p/∂e|`` of every source position by differences: the embedding is stretched a little, attention held."""
    embedded = model.source_embedding(one.source).detach()
    alpha = model(one).alpha.detach()

    def gold(scaled):
        hidden, start = model.from_embedded(scaled)
        states, _ = model.decoder(model.target_embedding(one.before), start)
        logits = model.logits(model.combined_from_attention(alpha, hidden, states))[0, at]
        return float(torch.softmax(logits, dim=-1)[one.gold[0, at]])

    found = []
    with torch.no_grad():
        for place in range(embedded.shape[1]):
            stretch = torch.ones(1, embedded.shape[1], 1, dtype=embedded.dtype)
            stretch[0, place] = step
            up, down = embedded.clone(), embedded.clone()
            up[0, place] *= 1 + step
            down[0, place] *= 1 - step
            found.append(abs(gold(up) - gold(down)) / (2 * step))
    return found


def greedy(model, ids):
    """The most likely word, one after another, each from the whole of what was written before."""
    source, written = torch.from_numpy(ids)[None], [BOS]
    with torch.no_grad():
        for _ in range(2 * len(ids) + 10):
            logits = model.logits(model.write(source, torch.tensor([written])))[0, -1].clone()
            logits[[PAD, UNK, BOS]] = -torch.inf
            word = int(logits.argmax())
            if word == EOS:
                break
            written.append(word)
    return written[1:]

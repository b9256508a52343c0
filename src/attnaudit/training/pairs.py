"""Translators: training on gold tokens, teacher forcing and beam search."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from attnaudit.core import InputError, Progress, silent
from attnaudit.corpora.corpus import ParallelCorpus
from attnaudit.corpora.prepare.vocabulary import BOS, EOS, PAD, UNK
from attnaudit.models.batch import Inputs, PairBatch, PairInputs
from attnaudit.models.seq2seq import EncoderDecoder, PairForward, State
from attnaudit.models.translator import Translator
from attnaudit.training.loop import (
    SMALLEST_WEIGHT,
    Epoch,
    TrainingSplit,
    evaluating,
    minimise,
    passes,
    require_finite,
)
from attnaudit.training.settings import DeceivePairs, TrainingSettings

# Maps model, forward pass and batch to logits (N, V) and the tokens that they predict.
Predictions = Callable[[Any, Any, Any], tuple[Tensor, Tensor]]
# Padded target tokens of one evaluation batch. Each of them has a logit for every target word,
# which is what fills the memory.
BUDGET = 2_048
# Padded target tokens of the pairs that are decoded together. Decoding holds the logits of only one
# token per hypothesis, so batches may be larger.
DECODING_BUDGET = 4_096


def train_translator(
    translator: Translator,
    corpus: ParallelCorpus,
    settings: TrainingSettings,
    objective: DeceivePairs | None = None,
    **options: Any,
) -> list[Epoch]:
    """Train a translator with teacher forcing, and keep the weights of its best epoch on dev.

    Args:
        translator: The translator; its model changes in place.
        corpus: The corpus, of which train and dev are used.
        settings: Settings of the training. The dev score is minus the mean loss with
            ``select="loss"``, else the accuracy.
        objective: A penalty that is added to the loss.
        **options: Fields of `training.loop.TrainingOptions`.

    Returns:
        All epochs.

    Raises:
        InputError: A split lacks what the objective needs, or a loss is not finite.
    """
    data, dev = (
        tokens_to_learn(
            translator.inputs(corpus.splits[name], f"{name} split"), gold_logits, BUDGET, objective
        )
        for name in ("train", "dev")
    )
    return minimise(translator.model, data, dev, settings, **options)


def tokens_to_learn(
    inputs: Inputs | PairInputs,
    predictions: Predictions,
    budget: int,
    objective: DeceivePairs | None = None,
) -> TrainingSplit:
    """Prepare a split for predicting each token from those before it.

    Args:
        inputs: The rows.
        predictions: Logits of the tokens of a batch, and the tokens.
        budget: Largest padded size of an evaluation batch in positions.
        objective: A penalty that is added to the loss.
    """

    def loss(model, rows, device):
        batch: Any = inputs.batch(rows, device)
        done = model(batch)
        plain = functional.cross_entropy(*predictions(model, done, batch))
        if objective is None:
            return plain
        return plain + objective.strength * deception_penalty(done.alpha, batch)

    def scores(model, select):
        mean_loss, accuracy = token_scores(model, inputs, predictions, budget)
        require_finite("dev split", "a loss", mean_loss)
        return (-mean_loss if select == "loss" else accuracy), accuracy

    return TrainingSplit(inputs, loss, scores)


def deception_penalty(alpha: Float[Tensor, "B H U T"], batch: PairBatch) -> Tensor:
    """Return the mean over gold tokens of ``− log(1 − Σ_{s∈I_t} alpha_ts)`` (`DeceivePairs`).

    Args:
        alpha: Attention of every head.
        batch: Pairs with alignments. The source tokens aligned with gold token t are I_t, the
            impermissible ones.

    Returns:
        The penalty in nats.

    Raises:
        InputError: The corpus has no alignments.
    """
    if batch.aligned is None:
        raise InputError(
            "train",
            "objective deceive_pairs",
            "a corpus without alignments",
            "files <split>.align next to the texts",
        )
    mass = (alpha.mean(dim=1) * batch.aligned).sum(dim=-1)
    # A gold token aligned with the whole source leaves no permissible weight. No model could avoid
    # its infinite penalty, so it does not count.
    counted = batch.written & (batch.aligned.sum(dim=-1) < batch.aligned.shape[-1])
    penalty = (1.0 - mass).clamp_min(SMALLEST_WEIGHT).log() * counted
    return -penalty.sum() / batch.written.sum()


def gold_logits(
    model: EncoderDecoder, done: PairForward, batch: PairBatch
) -> tuple[Float[Tensor, "N V"], Int[Tensor, " N"]]:
    """Return the logits at every gold token of a batch, and the ids of the tokens."""
    # Selecting before the output layer saves the logits of padding.
    return model.logits(done.combined[batch.written]), batch.gold[batch.written]


def teacher_forced(model: EncoderDecoder, inputs: PairInputs) -> tuple[float, float]:
    """Return the mean loss (nats) and the accuracy over all gold tokens.

    Each token is predicted from the gold tokens before it.

    Args:
        model: The model.
        inputs: The pairs.

    Returns:
        Loss and accuracy.
    """
    return token_scores(model, inputs, gold_logits, BUDGET)


def token_scores(
    model: Any, inputs: Inputs | PairInputs, predictions: Predictions, budget: int
) -> tuple[float, float]:
    """Return mean loss (nats) and accuracy over all tokens; arguments as in `tokens_to_learn`."""
    loss, right, count = 0.0, 0, 0
    for _, batch, done in passes(model, inputs, budget):
        logits, gold = predictions(model, done, batch)
        loss += float(functional.cross_entropy(logits, gold, reduction="sum"))
        # An unknown word stands for any rare word, so predicting it never counts as right.
        right += int(((logits.argmax(dim=-1) == gold) & (gold != UNK)).sum())
        count += len(gold)
    return loss / count, right / count


def decode(
    model: EncoderDecoder, inputs: PairInputs, beam: int = 5, progress: Progress = silent
) -> list[list[int]]:
    """Translate every source by beam search.

    Args:
        model: The model.
        inputs: The pairs. Their targets only decide which sources share a batch.
        beam: Number of hypotheses that each step keeps.
        progress: Receives the number of pairs done.

    Returns:
        For each source, the ids of the hypothesis with the highest mean log-probability. It ends at
        EOS, or after ``2 T + 10`` tokens for T source tokens. Unknown words are never written.
    """
    targets: list[list[int]] = [[] for _ in range(len(inputs))]
    device = next(model.parameters()).device
    done = 0
    with torch.inference_mode(), evaluating(model):
        for rows in inputs.batches_by_length(DECODING_BUDGET):
            source = inputs.batch(rows, device).source
            for row, target in zip(rows.tolist(), _search(model, source, beam), strict=True):
                targets[row] = target
            done += len(rows)
            progress("translate", done, len(inputs))
    return targets


class _Beams(NamedTuple):
    """Hypotheses of every source: summed log-probability, length and tokens."""

    score: Float[Tensor, "B k"]
    length: Float[Tensor, "B k"]
    tokens: Int[Tensor, "B k U"]


def _search(model: EncoderDecoder, source: Int[Tensor, "B T"], beam: int) -> list[list[int]]:
    rows, longest = len(source), 2 * source.shape[1] + 10
    hidden, state = model.encode(source)
    hidden = hidden.repeat_interleave(beam, dim=0)
    state = state[0].repeat_interleave(beam, dim=1), state[1].repeat_interleave(beam, dim=1)
    last = source.new_full((rows * beam,), BOS)
    score = torch.full((rows, beam), -torch.inf, device=source.device)
    # All beams are equal at first. Only one may be extended, or the beam would fill with copies.
    score[:, 0] = 0.0
    beams = _Beams(score, torch.zeros_like(score), source.new_full((rows, beam, 0), PAD))
    first = beam * torch.arange(rows, device=source.device)[:, None]
    for _ in range(longest):
        step, state = _next(model, hidden, last, state)
        beams, origin = _extend(beams, step.view(rows, beam, -1))
        place = (origin + first).flatten()
        state = state[0][:, place], state[1][:, place]
        last = beams.tokens[..., -1].flatten()
        if _ended(last).all():
            break
    # Means are compared, because a sum of log-probabilities favours short targets.
    best = (beams.score / beams.length.clamp_min(1)).argmax(dim=1)
    return [
        [token for token in beams.tokens[row, k].tolist() if token not in (PAD, EOS)]
        for row, k in enumerate(best.tolist())
    ]


def _next(
    model: EncoderDecoder, hidden: Tensor, last: Int[Tensor, " n"], state: State
) -> tuple[Float[Tensor, "n V"], State]:
    """Return the log-probabilities of the next token; after EOS it is padding, at no cost."""
    states, state = model.decoder(model.target_embedding(last)[:, None], state)
    logits = model.logits(model.attend(hidden, states).combined[:, 0])
    logits[:, [PAD, UNK, BOS]] = -torch.inf
    scores = torch.log_softmax(logits, dim=-1)
    # Free padding keeps an ended hypothesis in the beam, with its score, next to those that grow.
    ended = _ended(last)
    scores[ended] = -torch.inf
    scores[ended, PAD] = 0.0
    return scores, state


def _extend(beams: _Beams, step: Float[Tensor, "B k V"]) -> tuple[_Beams, Int[Tensor, "B k"]]:
    """Return the best continuations of every row, and the beam that each one extends."""
    # The best of all k · V continuations: several may extend one beam, and none another.
    beam, words = step.shape[1:]
    score, place = (beams.score[..., None] + step).flatten(1).topk(beam, dim=1)
    origin, word = place // words, place % words
    length = torch.gather(beams.length, 1, origin) + (word != PAD)
    index = origin[..., None].expand(-1, -1, beams.tokens.shape[2])
    tokens = torch.cat([torch.gather(beams.tokens, 1, index), word[..., None]], dim=2)
    return _Beams(score, length, tokens), origin


def _ended(last: Tensor) -> Tensor:
    return (last == EOS) | (last == PAD)

"""Importance of every token of a text for a transformer's prediction, by several measures."""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attnaudit.core import InputError, require, require_known
from attnaudit.core.random import stream_keys, uniform
from attnaudit.hf.choose import Numbers, choose_layers
from attnaudit.hf.encoded import Encoded
from attnaudit.hf.gate import Gate
from attnaudit.hf.importance.alti import alti, require_post_norm
from attnaudit.hf.importance.attnlrp import attnlrp, require_rules
from attnaudit.hf.importance.case import OPERATION, Case, Graph, embeddings_as, ends_of, read_logits
from attnaudit.hf.model import FAILURES, NO_TOKEN, positions_per_pass, without_padding
from attnaudit.torch.capture import Exchange, forward
from attnaudit.trace import COLUMNS, SHOWN


def gradient_input(case: Case) -> Float[Tensor, "B T"]:
    """Compute ``|e_t · ∂ŷ/∂e_t|``.

    ŷ is the probability of the predicted output. The gradient also goes through attention weights.
    """
    return case.graph.times_input() * case.mask


def gradient(case: Case) -> Float[Tensor, "B T"]:
    """Compute ``Σ_c |e_t · ∂ŷ_c/∂e_t|`` over the classes, with every attention weight held fixed.

    For a language model only the predicted token counts, as there are too many outputs.

    References:
        Jain & Wallace 2019, Algorithm 1.
    """
    graph, classes = Graph(case, held=True), case.logits.shape[1]
    if case.ends is not None and case.texts.at is None:
        return graph.times_input() * case.mask
    if classes == 2:
        return 2 * graph.times_input() * case.mask  # both are the same
    parts = [graph.times_input(output) for output in range(classes)]
    return torch.stack(parts).sum(dim=0) * case.mask


def integrated_gradients(case: Case) -> Float[Tensor, "B T"]:
    """Return the absolute values of `attributions`."""
    return attributions(case).abs()


def attributions(case: Case) -> Float[Tensor, "B T"]:
    """Compute integrated gradients of the predicted output's probability, with captum.

    The path begins at the embedding of padding, or at 0 if there is none. Special tokens keep their
    own embedding, so that their attribution is 0.

    References:
        Sundararajan et al. 2017.
    """
    require("captum", f"{OPERATION}: integrated_gradients")
    # Captum is optional, and takes seconds to import.
    from captum.attr import IntegratedGradients

    pad = case.model.config.get_text_config().pad_token_id
    special, predicted = ~case.mask, case.prediction.argmax(dim=-1)
    special[case.mask] = torch.from_numpy(case.texts.special.values).to(special.device)
    path: list[Tensor] = []

    def see(own, module):
        begin = torch.zeros_like(own)
        if pad not in (None, NO_TOKEN):
            begin = module.forward(torch.full_like(case.inputs["input_ids"], pad))
        path.extend([torch.where(special[..., None], own, begin), own.clone()])
        return own

    def probability(embedded, rows):
        inputs = {name: value[rows] for name, value in case.inputs.items()}
        ends = None if case.ends is None else case.ends[rows]
        with embeddings_as(case.model, inputs, lambda *_: embedded.clone()):
            logits = read_logits(case.model, inputs, ends)
        return logits.float().softmax(dim=-1).gather(1, predicted[rows, None])[:, 0]

    with torch.no_grad(), embeddings_as(case.model, case.inputs, see):
        case.model(**case.inputs)
    begin, end = path
    found = IntegratedGradients(probability).attribute(
        end,
        begin,
        additional_forward_args=(torch.arange(len(case.texts), device=case.mask.device),),
        n_steps=case.steps,
        internal_batch_size=max(case.rows_per_pass, len(case.texts)),
    )
    return found.sum(dim=-1) * case.mask


def loo(case: Case) -> Float[Tensor, "B T"]:
    """Compute the TVD between predictions with and without the word, or the segment, of a token.

    It is deleted, and the whole model runs again. The only one of a text, and the one whose label
    is predicted, are replaced, as in `loo_mask`. Special tokens get 0.
    """
    return _without_words(case, deleted=True)


def loo_mask(case: Case) -> Float[Tensor, "B T"]:
    """Compute `loo`, but replace every token of the word by a neutral one.

    The neutral token is the mask, else the unknown token, else padding.
    """
    return _without_words(case, deleted=False)


def _without_words(case: Case, deleted: bool) -> Float[Tensor, "B T"]:
    model, texts = case.model, case.texts
    words = [
        (row, ids == word)
        for row, ids in enumerate(texts.unit)
        for word in range(int(ids.max(initial=-1)) + 1)
    ]
    out = torch.zeros_like(case.mask, dtype=torch.float32)
    if not words:
        return out
    changed = _changed(texts, words, deleted)
    case.forget_graph()
    batching, padding = case.gate.batching, nullcontext()
    reads_last = case.ends is None and (case.gate.reads or 0) < 0
    if reads_last and texts.nothing == model.config.get_text_config().pad_token_id:
        # A word replaced by padding would hide the end of the text.
        batching = "none" if batching == "none" else "of one length"
        padding = without_padding(model)
    with padding, torch.no_grad():
        for batch in changed.batches(positions_per_pass(model, case.budget), batching):
            part = changed.take(batch)
            inputs = part.batch(range(len(part)), model.device)
            prediction = read_logits(model, inputs, ends_of(model, part)).float().softmax(dim=-1)
            rows, chosen = zip(*(words[number] for number in batch), strict=True)
            tvds = 0.5 * (prediction - case.prediction[list(rows)]).abs().sum(dim=-1)
            for row, tokens, tvd in zip(rows, chosen, tvds, strict=True):
                out[row, np.flatnonzero(tokens)] = tvd
    return out


def _changed(texts: Encoded, words: list[tuple[int, np.ndarray]], deleted: bool) -> Encoded:
    """Return one text per word, without that word."""
    every = texts.take(np.array([row for row, _ in words], dtype=np.int64))
    chosen = np.concatenate([mask for _, mask in words])
    stays = [mask.all() for _, mask in words]
    if every.at is not None:
        labelled = (mask[at] for (_, mask), at in zip(words, every.at, strict=True))
        stays = [one or other for one, other in zip(stays, labelled, strict=True)]
    kept = ~chosen | np.repeat(stays, every.ids.lengths) if deleted else np.ones_like(chosen)
    ids = every.ids.with_values(np.where(chosen & kept, texts.nothing, every.ids.values))
    types = every.type_ids and every.type_ids.where(kept)
    units = {"word_id": every.word_id, "segment": every.segment}
    left: dict[str, Any] = {name: one and one.where(kept) for name, one in units.items()}
    if every.at is not None:
        before = kept & (ids.places < ids.spread(every.at))
        left["at"] = ids.with_values(before.astype(np.int64)).sum()
    return replace(every, ids=ids.where(kept), type_ids=types, **left)


def value_zeroing(case: Case) -> Float[Tensor, "B T"]:
    """Compute how far the query's last hidden state turns without the value of a token.

    The score is 1 minus the cosine of the states with and without it. All heads of the last
    attention lose the value; no other token gets its weight. The last hidden state is the one that
    the prediction reads, after the last normalisation if there is one.

    References:
        Mohebbi et al. 2023.
    """
    usual = _last_state(case, torch.arange(len(case.texts)))
    texts, tokens = case.mask.shape
    out = torch.zeros(texts, tokens, device=case.mask.device)
    last = len(case.attentions) - 1
    for part in torch.cartesian_prod(torch.arange(texts), torch.arange(tokens)).split(
        case.rows_per_pass
    ):
        rows, zeroed = part.to(case.mask.device).unbind(dim=1)

        def exchange(attention, zeroed=zeroed):
            if attention.index != last:
                return None
            weights = attention.weights.clone()
            # A weight of 0 acts like a value of 0.
            weights[torch.arange(len(zeroed), device=zeroed.device), :, :, zeroed] = 0
            return weights

        state = _last_state(case, rows, exchange)
        out[rows, zeroed] = 1 - torch.cosine_similarity(usual[rows], state, dim=-1)
    return (out * case.mask).clamp(min=0)


def _last_state(case: Case, rows: Tensor, exchange: Exchange | None = None) -> Float[Tensor, "m E"]:
    """Return rows' last hidden states at the query, from the decoder if there is one."""
    inputs: dict[str, Any] = {name: value[rows] for name, value in case.inputs.items()}
    output = forward(case.model, inputs | {"output_hidden_states": True}, exchange).output
    states = getattr(output, "decoder_hidden_states", None) or output.hidden_states
    return states[-1][torch.arange(len(rows), device=rows.device), case.query[rows]].float()


def rollout(case: Case) -> Float[Tensor, "B T"]:
    """Compute every token's share of the query's mixture over all layers.

    Heads are averaged, and ``A = ½W + ½I`` is multiplied over the layers, so that shares sum to 1.
    Cross-attention is a decoder layer that mixes in the encoder's states of the text. Tokens that
    the decoder has written then have the rest of the sum.
    """
    texts, tokens = case.mask.shape
    text = torch.eye(tokens, device=case.mask.device).expand(texts, -1, -1)
    written: Tensor | None = None  # shares of the text in tokens that a decoder has written
    for layer, attention in zip(case.gate.layers, case.attentions, strict=True):
        # The tokens share a sink's weight, so that rows sum to 1.
        weights = attention.weights.float().mean(dim=1)
        weights = weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-12)
        if case.texts.written is None or layer.stack == "encoder":
            text = 0.5 * weights @ text + 0.5 * text
            continue
        if written is None:
            written = text.new_zeros(texts, weights.shape[1], tokens)
        below = text if layer.stack == "cross" else written
        written = 0.5 * weights @ below + 0.5 * written
    return case.over_queries(text if written is None else written)


def mean_of_heads(
    case: Case, layers: Numbers = "last", heads: Numbers = "all"
) -> Float[Tensor, "B T"]:
    """Average the weights that heads give to the text at the query that the prediction reads.

    Those of an encoder–decoder are its cross-attention. The rest of a sink's row has no token.

    Args:
        case: The batch.
        layers: ``last``, ``all`` or numbers from 0.
        heads: ``all`` or numbers from 0.

    Raises:
        InputError: There is no such layer or head.
    """
    cross = any(layer.stack == "cross" for layer in case.gate.layers)
    weights = [
        case.at_query(one.number, case.attentions[one.number].weights)[:, list(one.heads)]
        for one in choose_layers(case.gate, layers, heads, cross)
    ]
    return torch.cat(weights, dim=1).mean(dim=1)


def random(case: Case) -> Float[Tensor, "B T"]:
    """Draw a number for each token, keyed by the seed and the text: chance, for comparison."""
    places = case.texts.ids
    streams = stream_keys(case.seed, "random score", case.texts.instance)
    drawn = uniform(places.spread(streams), places.places)
    out = torch.zeros(case.mask.shape, device=case.mask.device)
    out[case.mask] = torch.from_numpy(drawn).to(out)
    return out


Score = Callable[[Case], Float[Tensor, "B T"]]
MEASURES: dict[str, Score] = {
    "gradient": gradient,
    "loo": loo,
    "loo_mask": loo_mask,
    "gradient_input": gradient_input,
    "integrated_gradients": integrated_gradients,
    "rollout": rollout,
    "value_zeroing": value_zeroing,
    "mean_last": mean_of_heads,
    "mean_all": partial(mean_of_heads, layers="all"),
    "attnlrp": attnlrp,
    "alti": alti,
    "random": random,
}
"""Functions of a batch that return values (B, T), 0 on padding, by name; ``head_3_11`` is one."""
# The others are only computed on request.
USUAL = ("gradient", "loo", "gradient_input", "rollout", "random")
# Measures that are defined for some models only, with their checks.
CHECKS: dict[str, Callable[[Any], None]] = {"attnlrp": require_rules, "alti": require_post_norm}
_OF_HEAD = re.compile(r"head_(\d+)_(\d+)")


def require_measures(names: str | Iterable[str]) -> tuple[str, ...]:
    """Return the names of measures, or of one.

    Raises:
        InputError: A name is unknown.
    """
    names = (names,) if isinstance(names, str) else tuple(names)
    for name in names:
        if not _OF_HEAD.fullmatch(name):
            require_known(OPERATION, "measure", name, (*MEASURES, "head_<layer>_<head>"))
    return names


def require_heatmap(name: str, heads: Mapping[int, int] | None = None) -> str:
    """Return the measure of a heatmap such as ``mean-last`` or ``head:3.11``.

    Args:
        name: Name of the heatmap.
        heads: Number of heads of each layer, as far as it is known (`heads_of_text`).

    Raises:
        InputError: The name is unknown, or there is no such layer or head.
    """
    operation, measured = "show heatmap", re.sub("[-:.]", "_", name)
    head = _OF_HEAD.fullmatch(measured)
    if head is None:
        known = [one.replace("_", "-") for one in MEASURES]
        require_known(operation, "--heatmap", name.replace("_", "-"), [*known, "head:L.H"])
    elif heads is not None:
        layer, number = map(int, head.groups())
        if number >= heads.get(layer, 0):
            known = ", ".join(f"{one}.0 to {one}.{size - 1}" for one, size in heads.items())
            raise InputError(operation, f"--heatmap {name}", "no such head", f"a head of {known}")
    return measured


def defined_measures(
    model: Any, names: str | Iterable[str], heatmap: str | None = None
) -> tuple[str, ...]:
    """Return the names of measures; ``all`` stands for those that are defined for the model.

    Args:
        model: The model.
        names: Names.
        heatmap: Measure or heatmap that must be defined too.

    Raises:
        InputError: A name is unknown, or a measure that is named is not defined for the model.
    """
    names = (names,) if isinstance(names, str) else tuple(names)
    named, defined = require_measures(name for name in names if name != "all"), list(MEASURES)
    asked = {*named, require_heatmap(heatmap)} if heatmap else {*named}
    for name in CHECKS if "all" in names else asked & {*CHECKS}:
        try:
            CHECKS[name](model)
        except FAILURES as error:
            if name in asked:
                expected, do = f"a model for which {name} is defined", "choose another measure"
                got = str(error)
                raise InputError(OPERATION, type(model).__name__, got, expected, do) from error
            defined.remove(name)
    return tuple(defined) if "all" in names else named


def heads_of_text(gate: Gate) -> dict[int, int]:
    """Return the number of heads of each layer whose last attention is over the text."""
    stacks = [layer.stack for layer in gate.layers]
    stack = "cross" if "cross" in stacks else stacks[-1]
    return {layer.layer: layer.heads for layer in gate.layers if layer.stack == stack}


def measure(case: Case, names: Iterable[str], heatmap: str | None = None) -> dict[str, np.ndarray]:
    """Measure the tokens of one batch, row after row.

    Args:
        case: The batch.
        names: Names of measures. Those that run other texts come last: they free the memory of the
            pass that the others share.
        heatmap: Measure of the heatmap that is shown, ``shown`` in the result: its values divided
            by their sum over the text, or equal ones if all are 0. It replaces the measure itself,
            unless that is ``loo`` or ``gradient``, with which experiments compare.

    Raises:
        InputError: A value is not finite, or a head does not exist.
    """
    found, wanted = dict[str, np.ndarray](), require_measures(names)
    every = {*wanted, heatmap} if heatmap else {*wanted}
    for name in sorted(sorted(every), key=lambda name: name.startswith("loo")):
        values = _measure_named(name)(case).float()
        wrong = (~values.isfinite() & case.mask).any(dim=1).cpu().numpy()
        if wrong.any():
            shown = ", ".join(map(str, sorted(case.texts.instance[wrong].tolist())[:3]))
            got = f"{name} that is no finite number, in instances {shown}"
            do = "check the model's weights"
            raise InputError(OPERATION, type(case.model).__name__, got, "finite numbers", do)
        found[name] = values[case.mask].cpu().numpy()
    if heatmap is not None:
        kept = heatmap in wanted and heatmap in COLUMNS
        own = case.texts.ids.with_values(found[heatmap] if kept else found.pop(heatmap))
        total = own.spread(own.sum())
        equal = 1.0 / own.spread(own.lengths)
        found[SHOWN] = np.where(total > 0.0, own.values / np.where(total > 0.0, total, 1.0), equal)
    return found


def _measure_named(name: str) -> Score:
    if head := _OF_HEAD.fullmatch(name):
        return partial(mean_of_heads, layers=[int(head[1])], heads=[int(head[2])])
    return MEASURES[name]

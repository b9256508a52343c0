"""Checks that a model must pass before a number of its attention is believed.

Every check is tried on the model itself, and has a figure and a limit. A model that fails one is
refused with a line that names its class, the check and the figure.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from attnaudit.core import count, describe_error
from attnaudit.hf.classes import require_classes
from attnaudit.hf.labels import OneOutput, require_end
from attnaudit.hf.layers import LENGTHS, Layer, Probe, layers_of, refusal
from attnaudit.hf.model import (
    FAILURES,
    OF_TOKENS,
    WRITING,
    ModelTask,
    difference,
    logits_at_query,
    no_task,
    reading,
    reporting,
    require_task,
    task_of,
)
from attnaudit.hf.replay import EXACT as EXACT_TVD
from attnaudit.hf.replay import ROUNDING, queries_read, states_of, ways
from attnaudit.hf.unwrap import unwrap
from attnaudit.torch.capture import Exchange, Pass, forward
from attnaudit.training.loop import torch_threads

EXACT = 1e-6  # of weights
BATCHED, PADDED, OTHERS, MIXED = "batched", "padded", "other layers", "other ways"
STACKS = ("encoder", "decoder", "cross")
LABELLED = 4  # the position, within both texts, whose label is checked
REPORTED = ("encoder_attentions", "attentions", "decoder_attentions", "cross_attentions")


@dataclass(frozen=True)
class Check:
    """One property of a model; without a limit it is information.

    Attributes:
        name: Short name.
        meaning: What the figure measures, for readers who know the model but not this package.
            Differences of logits are relative to the largest.
        figure: The value found, None if it could not be measured.
        most: Largest value allowed.
        least: Smallest value allowed.
        reason: Why there is no figure.
    """

    name: str
    meaning: str
    figure: float | None
    most: float | None = None
    least: float | None = None
    reason: str = ""

    @property
    def passed(self) -> bool:
        """True if the figure is within its limit."""
        if self.figure is None:
            return True
        high = self.most is not None and not self.figure <= self.most
        return not high and (self.least is None or self.figure >= self.least)

    @property
    def wanted(self) -> str:
        """The limit in words, empty without one."""
        if self.most is None:
            return "" if self.least is None else f"at least {self.least:g}"
        return f"at most {self.most:g}"

    def to_json(self) -> dict[str, Any]:
        """Return the part that a trace keeps."""
        parts = {name: getattr(self, name) for name in ("name", "meaning", "figure", "reason")}
        return {**parts, "limit": self.wanted}


@dataclass(frozen=True)
class Gate:
    """A model that passed.

    Attributes:
        model: Name of its class.
        layers: Its layers in order of computation.
        checks: The checks.
        task: What it predicts, None for a class that an audit does not know.
        reads: Query that a prediction is read from, counted from the end if it is negative; None if
            it is not a single one. If any token is labelled, one of them.
    """

    model: str
    layers: tuple[Layer, ...]
    checks: tuple[Check, ...]
    task: ModelTask | None = None
    reads: int | None = None

    @property
    def can_be_audited(self) -> bool:
        """True if the model predicts a class or a token from one position."""
        return self.task is not None and self.reads is not None

    def _figure(self, name: str) -> float:
        return next((check.figure or 0.0 for check in self.checks if check.name == name), 0.0)

    @property
    def batching(self) -> str:
        """Texts that may share a batch: ``any``, those ``of one length``, or ``none``.

        A mixture of experts of limited capacity allows none.
        """
        if self._figure(BATCHED) > ROUNDING:
            return "none"
        return "any" if self._figure(PADDED) <= ROUNDING else "of one length"

    @property
    def notes(self) -> list[str]:
        """Notes on a model that mixes tokens in other ways too, as convolutions do."""
        others, moved = int(self._figure(OTHERS)), self._figure(MIXED)
        notes = []
        if others:
            part = f"{others} of {count(len(self.layers) + others, 'layer')}"
            have, them = ("has", "it") if others == 1 else ("have", "them")
            notes.append(f"{part} {have} no softmax attention: nothing here is about {them}")
        if moved > ROUNDING:
            notes.append(
                "with every token attending to itself alone, other tokens still move the logits, "
                f"by up to {moved:.0%} of the largest: they reach the prediction without these "
                "weights too, and nothing here is about that"
            )
        return notes

    def to_json(self) -> dict[str, Any]:
        """Return the part that a trace keeps."""
        return {
            "model": self.model,
            "task": self.task,
            "reads": self.reads,
            "checks": [check.to_json() for check in self.checks],
            "layers": [asdict(layer) for layer in self.layers],
        }


def check_model(model: Any) -> Gate:
    """Check a model of the transformers library on two short texts of random tokens.

    The model is left as it was. Figures are those of operations on one thread, whatever torch is
    set to.

    Args:
        model: The model.

    Returns:
        Its layers and what was measured.

    Raises:
        InputError: The model is of a kind that cannot be audited, or fails a check.
    """
    model = unwrap(model)
    name = type(model).__name__
    for got, expected, *do in objections(model):
        raise refusal(name, got, expected, *do)
    task = task_of(model)
    if task not in (None, *WRITING):
        require_classes(model)
    with reading(model), torch_threads(1):
        before, probe = _state(model), Probe.of(model)
        logits = _logits(model, _run(model, probe, f"logits for texts of {probe.lengths} tokens"))
        if not logits.isfinite().all():
            do = "check the size of its weights"
            raise refusal(name, "logits that are no finite numbers", "finite logits", do)
        seen = forward(model, probe.inputs)
        layers = layers_of(model, seen, probe)
        checks = [*_passed(name, _checks(model, probe, logits, seen, layers))]
        reads = _query_read(model, probe, layers)
        if task is not None and reads is not None:
            states = states_of(model, probe.alone(0), task, reads)
            found = list(zip(layers, ways(model, states), strict=True))
            # No query of an encoder is what a decoder's prediction reads.
            unread = "encoder" if probe.targets else ""
            layers = tuple(
                replace(layer, way="" if layer.stack == unread else way)
                for layer, (way, _) in found
            )
            errors = (error for layer, (_, error) in found if layer.stack != unread)
            checks += _passed(name, _replays(model, probe, reads, max(errors, default=0.0)))
        changed = sum(a != b for a, b in zip(before, _state(model), strict=True))
        meaning = "modules, hooks and implementations of attention that the checks left changed"
        checks += _passed(name, [Check("handed back", meaning, changed, most=0)])
    return Gate(name, layers, tuple(checks), task, reads)


def _passed(name: str, checks: Iterable[Check]) -> Iterator[Check]:
    """Make one check after the other, and refuse the model at the first that fails."""
    for check in checks:
        if not check.passed:
            raise refusal(name, f"{check.name}: {check.figure:.2g}, {check.meaning}", check.wanted)
        yield check


def _state(model: nn.Module) -> list[Any]:
    """Return what a pass may not change."""
    modules = list(model.modules())
    hooks = [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in modules]
    models = [module for module in modules if isinstance(module, PreTrainedModel)]
    attention = [module.config._attn_implementation for module in models]
    return [[type(module) for module in modules], hooks, attention]


def _run(model: Any, probe: Probe, expected: str, **options: bool) -> Any:
    """Run the model as it is. A failure is the refusal of one from which this is expected."""
    try:
        with torch.no_grad():
            return model(**probe.inputs, **options)
    except FAILURES as error:
        raise refusal(type(model).__name__, describe_error(error), expected) from error


def _logits(model: Any, output: Any) -> Tensor:
    logits = getattr(output, "logits", None)
    if logits is None:
        expected = "a model with a head, such as ForSequenceClassification or ForCausalLM"
        raise refusal(type(model).__name__, "an output without logits", expected)
    return logits


def _change(probe: Probe, logits: Tensor, reference: Tensor) -> float:
    """Return the largest difference of logits that are not of padding, relative."""
    if reference.shape[:-1] == probe.mask.shape:
        logits, reference = logits[probe.mask], reference[probe.mask]
    return difference(logits, reference)


def _of_tokens(probe: Probe, weights: Float[Tensor, "B H Q K"]) -> Tensor:
    """Select the weights of queries that are no padding."""
    queries = weights.transpose(1, 2)
    return queries[probe.mask] if queries.shape[:2] == probe.mask.shape else queries


def _checks(
    model: Any, probe: Probe, logits: Tensor, seen: Pass, layers: Sequence[Layer]
) -> Iterator[Check]:
    """Make the checks of the attention that was read, the quick ones first."""
    attentions = seen.attentions

    def change(exchange):
        changed = forward(model, probe.inputs, exchange).output.logits
        return _change(probe, changed, seen.output.logits)

    def apart(row):
        with torch.no_grad():
            (alone,) = model(**probe.alone(row)).logits
        return difference(alone, logits[row][: len(alone)])

    meaning = "change of the logits when the attention is read during the pass"
    yield Check("watched", meaning, _change(probe, seen.output.logits, logits), most=ROUNDING)
    yield from _reported(model, probe, logits, seen, layers)
    total = getattr(model.config, "num_hidden_layers", None)
    if isinstance(total, int) and not probe.targets:
        meaning = "layers without softmax attention; layers below are counted without them"
        yield Check(OTHERS, meaning, max(total - len(layers), 0))
    readers = sorted({name for one in attentions for name in one.elsewhere})
    meaning = "functions that read the weights besides the product with the values: "
    named = ", ".join(readers) or "replaced weights would not reach them"
    yield Check("elsewhere", f"{meaning}{named}", len(readers), most=0)
    sums = [_of_tokens(probe, one.weights).sum(dim=-1) for one in attentions if not one.sink]
    off = max((float((1 - each).abs().max()) for each in sums), default=None)
    meaning = "largest difference of the sum of the weights of a query from 1"
    yield Check("sums", meaning, off, most=10 * EXACT)
    padding = (~probe.mask)[:, None, None].float()
    of_text = [one.weights for one in attentions if one.weights.shape[-1] == padding.shape[-1]]
    figure = max(float(_of_tokens(probe, weights * padding).max()) for weights in of_text)
    yield Check("padding", "largest weight that a token gives to padding", figure, most=EXACT)
    meaning = "change of the logits when all weights are replaced by themselves"
    yield Check("same weights", meaning, change(lambda one: one.weights), most=0)
    meaning = "least change of the logits when one layer's weights are replaced by uniform ones"
    moved = min(change(_uniform(one.index)) for one in attentions)
    yield Check("uniform weights", meaning, moved, least=EXACT)
    meaning = "difference of the logits of a text alone and in a batch; decides what shares one"
    yield Check(BATCHED, meaning, apart(0))
    meaning = "difference of the logits of a text with padding; decides what shares a batch"
    yield Check(PADDED, meaning, apart(1))


def _reported(
    model: Any, probe: Probe, logits: Tensor, seen: Pass, layers: Sequence[Layer]
) -> Iterator[Check]:
    """Compare with the weights that the model reports, computed by its own eager attention."""
    expected = "attention by the model's own code (attn_implementation eager)"
    with reporting(model):
        output = _run(model, probe, expected, output_attentions=True)
    kinds = (output.get(name) or () for name in REPORTED)
    reported = [weights for kind in kinds for weights in kind if weights is not None]
    number, reason = len(reported), "" if reported else "it reports no attention"
    if not reported and not probe.targets:
        number = getattr(model.config, "num_hidden_layers", None)
    off = None if not number else abs(number - len(layers))
    meaning = "layers of attention found, more or fewer than the model reports or has"
    yield Check("layers", meaning, off, most=0, reason=reason)
    # Models report the layers of one stack after those of the other.
    order = sorted(range(len(layers)), key=lambda k: STACKS.index(layers[k].stack))
    pairs = list(zip((seen.attentions[k] for k in order), reported, strict=False))
    figure, change = None, _change(probe, _logits(model, output), logits)
    if reported and change > ROUNDING:
        reason = f"its logits are others, by {change:.2g}, when it reports attention"
    elif any(not o.sink and (own.sum(dim=-1) - 1).abs().max() > ROUNDING for o, own in pairs):
        reason = "what it reports does not sum to 1"
    elif reported:
        figure = max(
            float(_of_tokens(probe, (own - one.weights).abs()).max())
            if own.shape == one.weights.shape
            else torch.inf
            for one, own in pairs
        )
    meaning = "largest difference from the weights that the model reports (output_attentions)"
    yield Check("reported weights", meaning, figure, most=ROUNDING, reason=reason)


def _query_read(model: Any, probe: Probe, layers: Iterable[Layer]) -> int | None:
    """Find the query that predictions are read from, the same for all texts that show it.

    Raises:
        InputError: A causal language model sees later tokens.
    """
    task = task_of(model)
    if task == "causal-lm" and any(one.stack != "decoder" for one in layers):
        got, do = "attention to later tokens", "set is_decoder if it was trained as one"
        raise refusal(type(model).__name__, got, "a causal language model", do)
    if task == "question-answering":
        return LABELLED  # the weights of other positions, which share a softmax with it, are kept
    if task in (None, *WRITING):
        return task and -1
    places: list[set[int]] = []
    for row, length in enumerate(LENGTHS):
        read = queries_read(model, probe.alone(row), task, LABELLED)
        if len(read) > 1 or (task in OF_TOKENS and read not in ([], [LABELLED])):
            return None
        places += [{position, position - length} for position in read]
    if task in OF_TOKENS:
        return LABELLED
    return min(set.intersection(*places), key=abs, default=None) if places else None


def _replays(model: Any, probe: Probe, reads: int, error: float) -> Iterator[Check]:
    """Check that each layer is replayed, and whether attention is the only way of tokens.

    Convolutions and state-space layers mix tokens too, and a class can hide a second attention
    whose weights are not read. All of these still act when every token attends to itself alone (in
    cross-attention, to the first token). What is left of the other tokens came such a way. The
    first token and the query's stay.
    """
    meaning = "TVD of the predictions of a replay and of the whole model under other attention"
    yield Check("replay", meaning, error, most=EXACT_TVD)

    def itself(attention):
        queries, keys = attention.weights.shape[-2:]
        to = torch.arange(queries) * (queries == keys)
        return functional.one_hot(to, keys).to(attention.weights).expand_as(attention.weights)

    texts = probe.alone(0)
    first = texts["input_ids"][0, 1]
    second = next(token for token in texts["input_ids"][0, 2:-1] if token != first)
    others = dict(texts)
    for name in (name for name in texts if name.endswith("input_ids")):
        others[name] = torch.where(texts[name] == first, second, first)
        others[name][:, [0, reads]] = texts[name][:, [0, reads]]
    own, other = (
        logits_at_query(forward(model, given, itself).output, require_task(model), reads)
        for given in (texts, others)
    )
    meaning = "change of the logits by other tokens when each token only attends to itself"
    yield Check(MIXED, meaning, difference(other, own))


def _uniform(index: int) -> Exchange:
    def exchange(attention):
        uniform = torch.full_like(attention.weights, 1 / attention.weights.shape[-1])
        return uniform if attention.index == index else None

    return exchange


def objections(model: Any) -> Iterator[tuple[str, ...]]:
    """Yield what is wrong with the kind of a model: what was found, expected, and what to do."""
    if not isinstance(model, PreTrainedModel):
        parts = {**getattr(model, "__dict__", {}), **getattr(model, "_modules", {})}
        inner = (name for name, part in parts.items() if isinstance(part, PreTrainedModel))
        name = next(inner, None)
        read = f"take its attribute {name}, if that predicts the same" if name else ""
        read = read or "read it with from_pretrained"
        yield "no model of the transformers library", "a PreTrainedModel", read
    kinds = (type(module) for module in model.modules())
    quantised = next((kind.__name__ for kind in kinds if ".quantized" in kind.__module__), None)
    if quantised is not None:
        got = f"a quantised model (torch.ao.quantization, modules of class {quantised})"
        expected = "a model in floating point, as gradients need it"
        yield got, expected, "audit the model before it is quantised"
    weights = dict(model.named_parameters())
    if any(weight.is_meta for weight in weights.values()):
        got, expected = "weights without values (device meta)", "a model with its weights"
        yield got, expected, "read it with from_pretrained"
    if model.main_input_name != "input_ids":
        yield f"a model of {model.main_input_name}", "a model of tokens"
    task = task_of(model)
    if model.config.is_encoder_decoder and task not in (None, *WRITING):
        yield "a classifier with encoder and decoder", "one with a single stack of layers"
    if task == "question-answering" and not issubclass(type(model), OneOutput):
        require_end(type(model).__name__, None)
    from_library = type(model).__module__.startswith("transformers.")
    if task is None and from_library and model.get_output_embeddings() is None:
        raise no_task(type(model).__name__)
    halves = (torch.float16, torch.bfloat16) if model.device.type == "cpu" else ()
    others = {torch.float64, *halves} & {weight.dtype for weight in weights.values()}
    if others:
        got = f"weights in {', '.join(sorted(map(str, others)))}"
        got += "" if torch.float64 in others else " on a CPU"
        save = "model.float().save_pretrained(DIR), with its tokenizer, and audit DIR"
        yield got, "float32", f"save it so in Python: {save}"
    if torch.is_inference_mode_enabled() or any(w.is_inference() for w in weights.values()):
        do = "read the model and audit it outside of it; torch.no_grad() may stay"
        yield "torch.inference_mode()", "tensors that may have gradients", do
    if (default := torch.get_default_dtype()) != torch.float32:
        expected = "torch.float32, as the weights are"
        yield f"torch's default type {default}", expected, "torch.set_default_dtype(torch.float32)"
    damaged = next((path for path, w in weights.items() if not w.isfinite().all()), None)
    if damaged is not None:
        got, do = (
            f"weights {damaged} that are no finite numbers",
            "train it again, or take an earlier",
        )
        yield got, "finite weights", f"{do} checkpoint"

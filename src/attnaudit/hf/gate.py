"""Checks that a model must pass before a number of its attention is believed.

Every check is tried on the model itself, and has a figure and a limit. A model that fails one is
refused with a line that names its class, the check and the figure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel, logging

from attnaudit.core.errors import describe_error
from attnaudit.core.numbers import count
from attnaudit.hf.capture import Attention, Exchange, Pass, forward
from attnaudit.hf.classes import require_classes
from attnaudit.hf.layers import Layer, Probe, layers_of, refusal
from attnaudit.hf.model import ModelTask, difference, logits_at_query, reading, task_of
from attnaudit.hf.replay import EXACT as EXACT_TVD
from attnaudit.hf.replay import ROUNDING, queries_read, states_of, ways
from attnaudit.training.loop import torch_threads

EXACT = 1e-6  # of weights
BATCHED, PADDED, OTHERS, MIXED = "batched", "padded", "other layers", "other ways"
STACKS = ("encoder", "decoder", "cross")
# Failures of a model whose configuration contradicts itself.
CONTRADICTIONS = (RuntimeError, ValueError, TypeError, IndexError)
# The library's mark of a model with hooks that record what it reports.
MARK = "_output_capturing_hooks_installed"
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
            it is not a single one.
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
    name = type(model).__name__
    for got, expected, *do in _objections(model):
        raise refusal(name, got, expected, *do)
    if task_of(model) == "classification":
        require_classes(model)
    checks: list[Check] = []
    with reading(model), torch_threads(1):
        trial = _Trial(model)
        for check in trial.checks():
            if not check.passed:
                got = f"{check.name}: {check.figure:.2g}, {check.meaning}"
                raise refusal(name, got, check.wanted)
            checks.append(check)
    return Gate(name, trial.layers, tuple(checks), trial.task, trial.reads)


def _objections(model: Any) -> Iterator[tuple[str, ...]]:
    """Yield what is wrong with the kind of a model: what was found, expected, and what to do."""
    if not isinstance(model, PreTrainedModel):
        read = "read it with from_pretrained"
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


def implementations(model: nn.Module) -> list[str | None]:
    """Return the implementations of attention of a model and of the models inside it."""
    inner = (module for module in model.modules() if isinstance(module, PreTrainedModel))
    return [module.config._attn_implementation for module in inner]


def _state(model: nn.Module) -> list[Any]:
    """Return what a pass may not change."""
    modules = list(model.modules())
    hooks = [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in modules]
    return [[type(module) for module in modules], hooks, implementations(model)]


class _Trial:
    """A model, and a pass of it over the probe."""

    def __init__(self, model: Any) -> None:
        self.model, self.probe, self.name = model, Probe.of(model), type(model).__name__
        self.task: ModelTask | None = task_of(model)
        self.state = _state(model)
        try:
            with torch.no_grad():
                self.logits = self._logits(model(**self.probe.inputs))
        except CONTRADICTIONS as error:
            expected = f"logits for texts of {self.probe.lengths} tokens"
            raise refusal(self.name, describe_error(error), expected) from error
        if not self.logits.isfinite().all():
            got, do = "logits that are no finite numbers", "check the size of its weights"
            raise refusal(self.name, got, "finite logits", do)
        self.seen: Pass = forward(model, self.probe.inputs)
        self.layers = layers_of(model, self.seen, self.probe)
        self.reads: int | None = None

    def _logits(self, output: Any) -> Tensor:
        logits = getattr(output, "logits", None)
        if logits is None:
            expected = "a model with a head, such as ForSequenceClassification or ForCausalLM"
            raise refusal(self.name, "an output without logits", expected)
        return logits

    def checks(self) -> Iterator[Check]:
        """Make one check after the other, the quick ones first."""
        attentions, probe = self.seen.attentions, self.probe

        def change(exchange: Exchange) -> float:
            output = forward(self.model, probe.inputs, exchange).output
            return self._change(output, self.seen.output)

        meaning = "change of the logits when the attention is read during the pass"
        yield Check("watched", meaning, self._change(self.seen.output), most=ROUNDING)
        yield from self._reported()
        total = getattr(self.model.config, "num_hidden_layers", None)
        if isinstance(total, int) and not probe.targets:
            meaning = "layers without softmax attention; layers below are counted without them"
            yield Check(OTHERS, meaning, max(total - len(self.layers), 0))
        readers = sorted({name for one in attentions for name in one.elsewhere})
        meaning = "functions that read the weights besides the product with the values: "
        named = ", ".join(readers) or "replaced weights would not reach them"
        yield Check("elsewhere", f"{meaning}{named}", len(readers), most=0)
        sums = [self._of_tokens(one, one.weights).sum(dim=-1) for one in attentions if not one.sink]
        off = max((float((1 - each).abs().max()) for each in sums), default=None)
        meaning = "largest difference of the sum of the weights of a query from 1"
        yield Check("sums", meaning, off, most=10 * EXACT)
        padded = [self._of_tokens(one, one.weights * self._padding(one)) for one in attentions]
        figure = max(float(each.max()) for each in padded)
        yield Check("padding", "largest weight that a token gives to padding", figure, most=EXACT)
        meaning = "change of the logits when all weights are replaced by themselves"
        yield Check("same weights", meaning, change(lambda one: one.weights), most=0)
        meaning = "least change of the logits when one layer's weights are replaced by uniform ones"
        moved = min(change(_uniform(one.index)) for one in attentions)
        yield Check("uniform weights", meaning, moved, least=EXACT)
        meaning = "difference of the logits of a text alone and in a batch; decides what shares one"
        yield Check(BATCHED, meaning, self._apart(0))
        meaning = "difference of the logits of a text with padding; decides what shares a batch"
        yield Check(PADDED, meaning, self._apart(1))
        self.reads = self._query_read()
        if self.task is not None and self.reads is not None:
            yield from self._replays(self.task, self.reads)
        changed = sum(a != b for a, b in zip(self.state, _state(self.model), strict=True))
        meaning = "modules, hooks and implementations of attention that the checks left changed"
        yield Check("handed back", meaning, changed, most=0)

    def _reported(self) -> Iterator[Check]:
        """Compare with the weights that the model reports, computed by its own eager attention."""
        try:
            with _reporting(self.model), torch.no_grad():
                output = self.model(**self.probe.inputs, output_attentions=True)
        except CONTRADICTIONS as error:
            expected = "attention by the model's own code (attn_implementation eager)"
            raise refusal(self.name, describe_error(error), expected) from error
        kinds = (output.get(name) or () for name in REPORTED)
        reported = [weights for kind in kinds for weights in kind if weights is not None]
        number, reason = len(reported), "" if reported else "it reports no attention"
        if not reported and not self.probe.targets:
            number = getattr(self.model.config, "num_hidden_layers", None)
        off = None if not number else abs(number - len(self.layers))
        meaning = "layers of attention found, more or fewer than the model reports or has"
        yield Check("layers", meaning, off, most=0, reason=reason)
        figure, change = None, self._change(output)
        # Models report the layers of one stack after those of the other.
        order = sorted(range(len(self.layers)), key=lambda k: STACKS.index(self.layers[k].stack))
        pairs = list(zip((self.seen.attentions[k] for k in order), reported, strict=False))
        if reported and change > ROUNDING:
            reason = f"its logits are others, by {change:.2g}, when it reports attention"
        elif any(not o.sink and (own.sum(dim=-1) - 1).abs().max() > ROUNDING for o, own in pairs):
            reason = "what it reports does not sum to 1"
        elif reported:
            figure = max(self._difference(one, own) for one, own in pairs)
        meaning = "largest difference from the weights that the model reports (output_attentions)"
        yield Check("reported weights", meaning, figure, most=ROUNDING, reason=reason)

    def _difference(self, attention: Attention, own: Tensor) -> float:
        if own.shape != attention.weights.shape:
            return torch.inf
        return float(self._of_tokens(attention, (own - attention.weights).abs()).max())

    def _of_tokens(self, attention: Attention, weights: Tensor) -> Tensor:
        """Select the rows of weights (B, H, Q, K) whose query is no padding."""
        if attention.weights.shape[-2] != self.probe.mask.shape[1]:
            return weights
        return weights.transpose(1, 2)[self.probe.mask]

    def _padding(self, attention: Attention) -> Tensor:
        """Mark the keys that are padding, (B, 1, 1, K)."""
        keys, mask = attention.weights.shape[-1], self.probe.mask
        mask = mask if keys == mask.shape[1] else torch.ones(len(mask), keys, dtype=torch.bool)
        return (~mask)[:, None, None].float()

    def _change(self, output: Any, reference: Any = None) -> float:
        """Return the largest difference of logits that are not of padding, relative."""
        found = self._logits(output)
        logits = self.logits if reference is None else self._logits(reference)
        if logits.dim() == 3 and logits.shape[1] == self.probe.mask.shape[1]:
            found, logits = found[self.probe.mask], logits[self.probe.mask]
        return difference(found, logits)

    def _apart(self, row: int) -> float:
        """Return how far the logits of a text change when it is alone, without padding."""
        with torch.no_grad():
            alone = self._logits(self.model(**self.probe.alone(row)))
        together = self.logits[row]
        if together.dim() == 2 and len(together) == self.probe.mask.shape[1]:
            together = together[self.probe.mask[row]]
        return difference(alone[0], together)

    def _query_read(self) -> int | None:
        """Find the query that predictions are read from, the same for all texts that show it.

        Raises:
            InputError: A causal language model sees later tokens.
        """
        if self.task != "classification":
            if self.task == "causal-lm" and any(one.stack != "decoder" for one in self.layers):
                got, do = "attention to later tokens", "set is_decoder if it was trained as one"
                raise refusal(self.name, got, "a causal language model", do)
            return None if self.task is None else -1
        found: list[set[int]] = []
        for row in range(len(self.probe.mask)):
            inputs = self.probe.alone(row)
            seen = forward(self.model, inputs)
            read = queries_read(self.model, inputs, seen)
            if len(read) > 1:
                return None
            queries = seen.attentions[-1].weights.shape[2]
            found += [{position, position - queries} for position in read]
        return min(set.intersection(*found), key=abs, default=None) if found else None

    def _replays(self, task: ModelTask, reads: int) -> Iterator[Check]:
        """Find how each layer is replayed, and whether attention is the only way of tokens."""
        inputs = self.probe.alone(0)
        seen = forward(self.model, inputs)
        states = states_of(self.model, inputs, task, reads, seen)
        # No query of an encoder is what a decoder's prediction reads.
        unread = "encoder" if self.model.config.is_encoder_decoder else ""
        found = list(zip(self.layers, ways(self.model, states, seen), strict=True))
        read = [layer.stack != unread for layer in self.layers]
        self.layers = tuple(
            replace(layer, way=way if is_read else "")
            for (layer, (way, _)), is_read in zip(found, read, strict=True)
        )
        errors = (error for (_, (_, error)), is_read in zip(found, read, strict=True) if is_read)
        meaning = "TVD of the predictions of a replay and of the whole model under other attention"
        yield Check("replay", meaning, max(errors, default=0.0), most=EXACT_TVD)
        meaning = "change of the logits by other tokens when each token only attends to itself"
        yield Check(MIXED, meaning, self._other_ways(task, reads))

    def _other_ways(self, task: ModelTask, reads: int) -> float:
        """Return how far the logits of a text move when other tokens take the place of its own.

        Convolutions and state-space layers mix tokens too, and a class can hide a second attention
        whose weights are not read. All of these still act when every token attends to itself alone
        (in cross-attention, to the first token). What is left of the other tokens came such a way.
        """

        def itself(attention: Attention) -> Tensor:
            queries, keys = attention.weights.shape[-2:]
            inside = self.layers[attention.index].stack != "cross" and queries == keys
            to = torch.arange(keys) if inside else torch.zeros(queries, dtype=torch.int64)
            return functional.one_hot(to, keys).to(attention.weights).expand_as(attention.weights)

        own, other = (
            logits_at_query(forward(self.model, texts, itself).output, task)
            for texts in (self.probe.alone(0), self._with_other_tokens(task, reads))
        )
        return difference(other, own)

    def _with_other_tokens(self, task: ModelTask, reads: int) -> Mapping[str, Tensor]:
        """Exchange all tokens but the first, those of the query, and the token of the end."""
        inputs = {name: ids.clone() for name, ids in self.probe.alone(0).items()}
        drawn, both = inputs["input_ids"][0, 1:-1].clone(), self.model.config.is_encoder_decoder
        for (ids,) in (inputs[name] for name in inputs if name.endswith("input_ids")):
            kept = {0, reads % len(ids)}
            if both:
                # A classifier looks for the token of the end; its decoder is given the text one
                # position later.
                before = reads - (task == "classification")
                kept |= {len(ids) - 1, before % len(ids)}
            for place in set(range(len(ids))) - kept:
                ids[place] = drawn[drawn != ids[place]][0]
        return inputs


def _uniform(index: int) -> Exchange:
    def exchange(attention: Attention) -> Tensor | None:
        uniform = torch.full_like(attention.weights, 1 / attention.weights.shape[-1])
        return uniform if attention.index == index else None

    return exchange


@contextmanager
def _reporting(model: Any) -> Iterator[None]:
    """Let the model compute attention by its own code, and remove the hooks that record reports.

    The library's hooks are local functions, with which a model can no longer be pickled.
    """
    own, verbosity = model.config._attn_implementation, logging.get_verbosity()
    before = [(one, set(one._forward_hooks), MARK in vars(one)) for one in model.modules()]
    logging.set_verbosity_error()  # a class without a choice of implementations says so
    try:
        if own != "eager":
            model.set_attn_implementation("eager")
        yield
    finally:
        if own != "eager":
            model.set_attn_implementation(own)
        logging.set_verbosity(verbosity)
        for module, known, marked in before:
            for key in set(module._forward_hooks) - known:
                del module._forward_hooks[key]
            if not marked:
                vars(module).pop(MARK, None)

"""The gate: what must hold of a model before a number of its attention is believed, tried on the model itself.

Every check has a figure and a limit. A model that fails one is refused with a line that names its class, the check and the figure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, logging

from attnaudit.core.errors import describe_error
from attnaudit.core.numbers import count
from attnaudit.hf.capture import Attention, Pass, forward, reading
from attnaudit.hf.classes import require_classes
from attnaudit.hf.layers import Layer, layers_of, lengths_of, refused
from attnaudit.hf.other_ways import other_ways
from attnaudit.hf.probe import Probe, probe_of
from attnaudit.hf.replay import EXACT as EXACT_TVD
from attnaudit.hf.replay import ROUNDING, ModelTask, Query, positions_read, states_of, task_of, ways
from attnaudit.training.loop import torch_threads

EXACT = 1e-6  # of weights
BATCHED, PADDED, OTHERS, MIXED = "batched", "padded", "other layers", "other ways"
STACKS = ("encoder", "decoder", "cross")
FAILURES = (
    RuntimeError,
    ValueError,
    TypeError,
    IndexError,
)  # of a model whose configuration contradicts itself
MARK = "_output_capturing_hooks_installed"  # transformers' own, on a model with hooks that record what it reports
REPORTED = ("encoder_attentions", "attentions", "decoder_attentions", "cross_attentions")


@dataclass(frozen=True)
class Check:
    """One property of a model, as a ``figure`` that is ``most`` or less, or ``least`` or more; with neither it is information.

    ``meaning`` says what the figure measures, for a reader who knows the model and not this package. A figure of None could not be
    measured, for the ``reason`` given. Differences of logits are relative to the largest.
    """

    name: str
    meaning: str
    figure: float | None
    most: float | None = None
    least: float | None = None
    reason: str = ""

    @property
    def passed(self) -> bool:
        if self.figure is None:
            return True
        return (self.most is None or self.figure <= self.most) and (
            self.least is None or self.figure >= self.least
        )

    @property
    def wanted(self) -> str:
        """The limit in words; empty without one."""
        if self.most is None:
            return "" if self.least is None else f"at least {self.least:g}"
        return f"at most {self.most:g}"

    def to_json(self) -> dict[str, Any]:
        """What a trace keeps of it: whoever reads the trace later sees what was asked of the model then."""
        return {
            "name": self.name,
            "meaning": self.meaning,
            "figure": self.figure,
            "limit": self.wanted,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Gate:
    """A model that passed: its class, its layers in order of computation, and what was checked.

    ``task`` is what it predicts, None for a class that an audit does not know; ``reads`` is the query that a prediction is read from,
    counted from the end where it is negative, None where it is not one.
    """

    model: str
    layers: tuple[Layer, ...]
    checks: tuple[Check, ...]
    task: ModelTask | None = None
    reads: int | None = None

    @property
    def can_be_audited(self) -> bool:
        """Whether the model predicts a class or a token, and reads it at one position."""
        return self.task is not None and self.reads is not None

    @property
    def batching(self) -> str:
        """Which texts may share a batch: ``any``, those ``of one length``, or ``none``, as in a mixture of experts of limited capacity."""
        figures = {check.name: check.figure or 0 for check in self.checks}
        if figures[BATCHED] > ROUNDING:
            return "none"
        return "any" if figures[PADDED] <= ROUNDING else "of one length"

    @property
    def notes(self) -> list[str]:
        """What the user should know of a model that mixes tokens otherwise too, as state-space layers and convolutions do."""
        figures = {check.name: check.figure or 0 for check in self.checks}
        others, ways = int(figures.get(OTHERS, 0)), figures.get(MIXED, 0)
        have, them = ("has", "it") if others == 1 else ("have", "them")
        of = f"{others} of {count(len(self.layers) + others, 'layer')}"
        found = (
            [f"{of} {have} no softmax attention: nothing here is about {them}"] if others else []
        )
        if ways > ROUNDING:
            moved = f"with every token attending to itself alone, other tokens still move the logits, by up to {ways:.0%} of the largest"
            found.append(
                f"{moved}: they reach the prediction without these weights too, and nothing here is about that"
            )
        return found

    def to_json(self) -> dict[str, Any]:
        """What a trace keeps of it."""
        checks, layers = (
            [check.to_json() for check in self.checks],
            [vars(layer) for layer in self.layers],
        )
        return {
            "model": self.model,
            "task": self.task,
            "reads": self.reads,
            "checks": checks,
            "layers": layers,
        }


def check_model(model: Any) -> Gate:
    """Check a model of the transformers library on two short texts of random tokens, and return what was measured.

    Raises InputError where the model is of a kind that cannot be audited, or fails a check. The model is left as it was. Figures are those
    of operations on one thread, whatever torch is set to.
    """
    _check_kind(model)
    before = _state(model)
    with reading(model), torch_threads(1):
        trial = _Trial.of(model)
        checks = [_require(trial.name, check) for check in trial.checks()]
        task, reads, layers, replays = trial.replays()
    changed = sum(one != other for one, other in zip(before, _state(model), strict=True))
    back = Check(
        "handed back",
        "modules, modes, hooks and implementations of attention that the checks left changed",
        changed,
        most=0,
    )
    checks += [_require(trial.name, check) for check in (*replays, back)]
    return Gate(trial.name, layers, tuple(checks), task, reads)


def _require(name: str, check: Check) -> Check:
    if not check.passed:
        raise refused(name, f"{check.name}: {check.figure:.2g}, {check.meaning}", check.wanted)
    return check


def _state(model: nn.Module) -> list[Any]:
    """What a check may not change: modules, their modes and hooks, and implementations of attention."""
    return [
        [type(module) for module in model.modules()],
        [module.training for module in model.modules()],
        [
            sum(
                map(
                    _is_foreign,
                    (*module._forward_hooks.values(), *module._forward_pre_hooks.values()),
                )
            )
            for module in model.modules()
        ],
        implementations(model),
        [
            getattr(getattr(model, "config", None), name, None)
            for name in ("use_cache", "pad_token_id")
        ],
    ]


def implementations(model: nn.Module) -> list[str | None]:
    """Of attention, in a model and in the models within it."""
    return [
        module.config._attn_implementation
        for module in model.modules()
        if isinstance(module, PreTrainedModel)
    ]


def _is_foreign(hook: Callable[..., Any]) -> bool:
    """Whether a hook is not one of the library's own, which it leaves on a model that has reported attention."""
    return not hook.__module__.startswith("transformers.")


@dataclass(frozen=True)
class _Trial:
    """A model with the pass that the checks are about; ``logits`` are those of the model when nothing watches it."""

    model: Any
    probe: Probe
    logits: Tensor
    seen: Pass
    layers: tuple[Layer, ...]

    @classmethod
    def of(cls, model: Any) -> _Trial:
        probe = probe_of(model)
        logits = _untouched(model, probe)
        seen = forward(model, probe.inputs)
        return cls(model, probe, logits, seen, layers_of(model, seen, probe))

    @property
    def name(self) -> str:
        return type(self.model).__name__

    def checks(self) -> Iterator[Check]:
        """All checks, each made when it is asked for."""
        watched = "change of the logits when the attention is read during the pass"
        yield Check("watched", watched, self._change(self.seen.output), most=ROUNDING)
        yield from self._reported()
        total = getattr(self.model.config, "num_hidden_layers", None)
        if isinstance(total, int) and not self.probe.targets:
            others = "layers of the model without softmax attention; layers below are counted without them"
            yield Check(OTHERS, others, max(total - len(self.layers), 0))
        elsewhere = {name for one in self.seen.attentions for name in one.elsewhere}
        reads = "functions that read the weights besides the product with the values"
        named = (
            f"{reads}: {', '.join(sorted(elsewhere))}"
            if elsewhere
            else f"{reads}; replaced weights would not reach them"
        )
        yield Check("elsewhere", named, len(elsewhere), most=0)
        yield Check(
            "sums",
            "largest difference of the sum of the weights of a query from 1",
            self._sums(),
            most=10 * EXACT,
        )
        yield Check(
            "padding",
            "largest weight that a token gives to padding",
            self._on_padding(),
            most=EXACT,
        )
        same = forward(self.model, self.probe.inputs, lambda attention: attention.weights)
        yield Check(
            "same weights",
            "change of the logits when all weights are replaced by themselves",
            self._change(same.output, self.seen.output),
            most=0,
        )
        yield Check(
            "uniform weights",
            "least change of the logits when the weights of one layer are replaced by uniform ones; 0: the replacement does nothing",
            self._least_move(),
            least=EXACT,
        )
        yield Check(
            BATCHED,
            "difference of the logits of a text alone and in a batch; decides whether texts share one",
            self._apart(0),
        )
        padded = "difference of the logits of a text with and without padding; decides whether lengths are mixed"
        yield Check(PADDED, padded, self._apart(1))

    def replays(self) -> tuple[ModelTask | None, int | None, tuple[Layer, ...], list[Check]]:
        """What the model predicts, the query that this is read from, and the layers with the way in which each is replayed."""
        task = task_of(self.model)
        if task == "causal-lm" and self._sees_later_tokens():
            got, expected = (
                "logits that follow from later tokens, as those of a masked language model",
                "a causal language model",
            )
            raise refused(
                self.name,
                got,
                expected,
                "where it was trained as one, set is_decoder in config.json",
            )
        reads = None if task is None else self._reads(task)
        if task is None or reads is None:
            return task, None, self.layers, []
        inputs = self.probe.alone(0)
        seen = forward(self.model, inputs)
        queries = seen.attentions[-1].weights.shape[2]
        states = states_of(self.model, inputs, Query(task, reads % queries), seen)
        own = "encoder" if self.model.config.is_encoder_decoder else ""
        tried = [
            found if layer.stack != own else ("", 0.0)
            for layer, found in zip(self.layers, ways(self.model, states, seen), strict=True)
        ]
        meaning = (
            "total variation distance of the predictions when a part of the model is run again, as in an audit, and when all of it is, "
            "under random attention of one layer"
        )
        check = Check("replay", meaning, max(difference for _, difference in tried), most=EXACT_TVD)
        mixed = "change of the logits by other tokens when every token attends to itself alone; above 0, attention is not their only way"
        others = Check(MIXED, mixed, other_ways(self.model, inputs, self.layers, task, reads))
        return (
            task,
            reads,
            tuple(
                replace(layer, way=way) for layer, (way, _) in zip(self.layers, tried, strict=True)
            ),
            [check, others],
        )

    def _reads(self, task: ModelTask) -> int | None:
        """The query that predictions are read from, from the start or, negative, from the end: the same of all texts that tell."""
        if task != "classification":
            return -1
        found: list[set[int]] = []
        for row in range(len(self.probe.lengths)):
            inputs = self.probe.alone(row)
            seen = forward(self.model, inputs)
            read, queries = (
                positions_read(self.model, inputs, seen),
                seen.attentions[-1].weights.shape[2],
            )
            if len(read) > 1:
                return None
            found += [{position, position - queries} for position in read]
        return min(set.intersection(*found), key=abs, default=None) if found else None

    def _sees_later_tokens(self) -> bool:
        """Whether another last token changes the logits before it."""
        inputs = self.probe.alone(0)
        ids = inputs["input_ids"].clone()
        ids[:, -1] = ids[ids != ids[:, -1:]][0]
        with torch.no_grad():
            own, other = (
                _logits(self.model, self.model(**{**inputs, "input_ids": one}))
                for one in (inputs["input_ids"], ids)
            )
        return bool((own - other)[:, :-1].abs().max() > ROUNDING * own.abs().max())

    def _change(self, output: Any, reference: Any = None) -> float:
        """The largest difference of logits, relative to the largest logit."""
        logits = self.logits if reference is None else _logits(self.model, reference)
        return float(
            (self._real(_logits(self.model, output)) - self._real(logits)).abs().max()
            / self._real(logits).abs().max()
        )

    def _real(self, logits: Tensor) -> Tensor:
        """The logits that are not of padding: of each text, or of the tokens of a text, or of those that a decoder has written."""
        return (
            logits[self.probe.mask]
            if logits.dim() == 3 and logits.shape[1] == self.probe.mask.shape[1]
            else logits
        )

    def _sums(self) -> float | None:
        off = [
            (1 - self._queries(one, one.weights).sum(dim=-1)).abs().max()
            for one in self.seen.attentions
            if not one.sink
        ]
        return float(max(off)) if off else None

    def _on_padding(self) -> float:
        return max(
            float(self._queries(one, one.weights * self._padding(one)).max())
            for one in self.seen.attentions
        )

    def _padding(self, attention: Attention) -> Tensor:
        """1 for the keys that are padding, 0 for all others, as (B, 1, 1, K)."""
        keys = attention.weights.shape[-1]
        mask = (
            self.probe.mask
            if keys == self.probe.mask.shape[1]
            else torch.ones(len(self.probe.mask), keys, dtype=torch.bool)
        )
        return (~mask)[:, None, None].float()

    def _queries(self, attention: Attention, weights: Tensor) -> Tensor:
        """The rows of weights (B, H, Q, K) whose query is no padding."""
        return (
            weights.transpose(1, 2)[self.probe.mask]
            if attention.weights.shape[-2] == self.probe.mask.shape[1]
            else weights
        )

    def _least_move(self) -> float:
        """How far the logits move at least when the weights of one attention are replaced by uniform ones."""
        changes = [
            forward(self.model, self.probe.inputs, _uniform(one.index)).output
            for one in self.seen.attentions
        ]
        return min(self._change(output, self.seen.output) for output in changes)

    def _apart(self, row: int) -> float:
        """How far the logits of a text change when it is alone, without padding."""
        with torch.no_grad():
            alone = _logits(self.model, self.model(**self.probe.alone(row)))
        together = self.logits[row]
        if together.dim() == 2 and len(together) == self.probe.mask.shape[1]:
            together = together[self.probe.mask[row]]
        return float((alone[0] - together).abs().max() / together.abs().max())

    def _reported(self) -> Iterator[Check]:
        """The weights that the model itself reports, computed by its own eager attention."""
        try:
            with eager(self.model), without_hooks_left(self.model), torch.no_grad():
                output = self.model(**self.probe.inputs, output_attentions=True)
        except FAILURES as error:
            raise refused(
                self.name,
                describe_error(error),
                "attention by the model's own code (attn_implementation eager)",
            ) from error
        reported = [
            weights
            for name in REPORTED
            for weights in (output.get(name) or ())
            if weights is not None
        ]
        number = "layers of attention found, more or fewer than the model reports or has"
        weights = (
            "largest difference from the weights that the model itself reports (output_attentions)"
        )
        if not reported:
            expected = getattr(self.model.config, "num_hidden_layers", None)
            none = "it reports no attention"
            yield Check(
                "layers",
                number,
                None
                if expected is None or self.probe.targets
                else abs(expected - len(self.layers)),
                most=0,
                reason=none,
            )
            yield Check("reported weights", weights, None, reason=none)
            return
        yield Check("layers", number, abs(len(reported) - len(self.layers)), most=0)
        change = self._change(output)
        if change > ROUNDING:
            yield Check(
                "reported weights",
                weights,
                None,
                reason=f"its logits are others, by {change:.2g}, when it reports attention",
            )
            return
        pairs = list(zip(self._by_stack(), reported, strict=True))
        if any(not one.sink and (own.sum(dim=-1) - 1).abs().max() > ROUNDING for one, own in pairs):
            yield Check(
                "reported weights", weights, None, reason="what it reports does not sum to 1"
            )
            return
        yield Check(
            "reported weights",
            weights,
            max(self._difference(one, own) for one, own in pairs),
            most=ROUNDING,
        )

    def _by_stack(self) -> list[Attention]:
        """The attentions in the order in which models report them."""
        order = sorted(
            range(len(self.layers)), key=lambda k: (STACKS.index(self.layers[k].stack), k)
        )
        return [self.seen.attentions[k] for k in order]

    def _difference(self, attention: Attention, own: Tensor) -> float:
        if own.shape != attention.weights.shape:
            return float("inf")
        return float(self._queries(attention, (own - attention.weights).abs()).max())


@contextmanager
def eager(model: Any) -> Iterator[None]:
    """Within, the model computes attention by its own code, where its class allows this choice; after it, as it did before."""
    before = model.config._attn_implementation
    if before == "eager":
        yield
        return
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # a class without the choice says so
    try:
        model.set_attn_implementation("eager")
        yield
    finally:
        model.set_attn_implementation(before)
        logging.set_verbosity(verbosity)


@contextmanager
def without_hooks_left(model: nn.Module) -> Iterator[None]:
    """After it, the hooks by which the library records what a model reports are removed, unless they were there before.

    They are local functions, with which a model can no longer be pickled. A model whose hooks have no known mark keeps them: without
    them it would report nothing in its next pass.
    """
    before = [
        (module, set(module._forward_hooks), MARK in vars(module)) for module in model.modules()
    ]
    try:
        yield
    finally:
        if any(MARK in vars(module) and not marked for module, _, marked in before):
            for module, known, marked in before:
                for key in set(module._forward_hooks) - known:
                    del module._forward_hooks[key]
                if not marked:
                    vars(module).pop(MARK, None)


def _uniform(index: int) -> Callable[[Attention], Tensor | None]:
    def replace(attention: Attention) -> Tensor | None:
        return (
            torch.full_like(attention.weights, 1 / attention.weights.shape[-1])
            if attention.index == index
            else None
        )

    return replace


def _logits(model: Any, output: Any) -> Tensor:
    if getattr(output, "logits", None) is None:
        raise refused(
            type(model).__name__,
            "an output without logits",
            "a model with a head, such as ForSequenceClassification or ForCausalLM",
        )
    return output.logits


def _untouched(model: Any, probe: Probe) -> Tensor:
    """The logits of the model when nothing watches it. Raises InputError where it has none, or fails on short texts."""
    try:
        with torch.no_grad():
            logits = _logits(model, model(**probe.inputs))
    except FAILURES as error:
        raise refused(
            type(model).__name__,
            describe_error(error),
            f"logits for texts of {lengths_of(probe)} tokens",
        ) from error
    if not logits.isfinite().all():
        raise refused(
            type(model).__name__,
            "logits that are no finite numbers",
            "finite logits",
            "check the size of its weights",
        )
    return logits


def _check_kind(model: Any) -> None:
    name = type(model).__name__
    if not isinstance(model, PreTrainedModel):
        raise refused(
            name,
            "no model of the transformers library",
            "a PreTrainedModel",
            "read it with from_pretrained",
        )
    quantised = next(
        (
            type(module).__name__
            for module in model.modules()
            if ".quantized" in type(module).__module__
        ),
        None,
    )
    if quantised is not None:
        got = f"a quantised model (torch.ao.quantization, modules of class {quantised})"
        raise refused(
            name,
            got,
            "a model in floating point, as gradients need it",
            "audit the model before it is quantised",
        )
    if any(parameter.is_meta for parameter in model.parameters()):
        raise refused(
            name,
            "weights without values (device meta)",
            "a model with its weights",
            "read it with from_pretrained",
        )
    if model.main_input_name != "input_ids":
        raise refused(name, f"a model of {model.main_input_name}", "a model of tokens")
    on_cpu = model.device.type == "cpu"
    others = {torch.float64, *((torch.float16, torch.bfloat16) if on_cpu else ())} & {
        parameter.dtype for parameter in model.parameters()
    }
    if others:
        got = f"weights in {', '.join(sorted(map(str, others)))}{' on a CPU' if torch.float64 not in others else ''}"
        do = "save it so in Python: model.float().save_pretrained(DIR), with its tokenizer, and audit DIR"
        raise refused(name, got, "float32", do)
    if torch.is_inference_mode_enabled() or any(
        parameter.is_inference() for parameter in model.parameters()
    ):
        got, do = (
            "torch.inference_mode()",
            "read the model and audit it outside of it; torch.no_grad() may stay",
        )
        raise refused(name, got, "tensors that may have gradients", do)
    if torch.get_default_dtype() != torch.float32:
        got, do = (
            f"torch's default type {torch.get_default_dtype()}",
            "torch.set_default_dtype(torch.float32)",
        )
        raise refused(name, got, "torch.float32, as the weights are", do)
    damaged = next(
        (path for path, parameter in model.named_parameters() if not parameter.isfinite().all()),
        None,
    )
    if damaged is not None:
        raise refused(
            name,
            f"weights {damaged} that are no finite numbers",
            "finite weights",
            "train it again, or take an earlier checkpoint",
        )
    if task_of(model) == "classification":
        require_classes(model)

"""A model at hand as the tail of traces that store none: it is run again from the sum of a row."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from transformers import PreTrainedModel

from attnaudit.core.errors import InputError, TraceError
from attnaudit.core.ragged import Ragged
from attnaudit.hf.capture import forward
from attnaudit.hf.gate import Gate, check_model, implementations
from attnaudit.hf.load import load_pretrained
from attnaudit.hf.model import FAILURES, logits_at_query, model_fingerprint, reading
from attnaudit.hf.replay import (
    States,
    Weights,
    replayed,
    states_of,
    way_of_text,
)
from attnaudit.models.weights import Fingerprinted
from attnaudit.trace.schema import IDS
from attnaudit.trace.tails import OutputLayer

STATES = 1 << 30  # bytes of states of texts that are kept
OF_TEXTS, OF_TOKENS = 64, 256  # replays in a pass, of whole texts and of one position
SAME = 1e-5  # of an attended sum, relative to the model's own: a trace has float32
PLACE = ("stack", "layer", "head", "query")


class Replay(Fingerprinted):
    """A checked model of the transformers library, for audits of traces whose tail is ``replay``.

    Attributes:
        model: The model.
        gate: Its checks (`check_model`).
    """

    def __init__(self, model: Any, gate: Gate) -> None:
        self.model = model
        self._accept(gate)

    def _accept(self, gate: Gate) -> None:
        self.gate, self._implementations = gate, implementations(self.model)
        self._numbers = {(layer.stack, layer.layer): k for k, layer in enumerate(gate.layers)}
        self._states: OrderedDict[Any, States] = OrderedDict()

    def __repr__(self) -> str:
        return f"Replay({self.gate.model}, {self.fingerprint[:12]}…)"

    def current_fingerprint(self) -> str:
        """Compute `model_fingerprint` of the model as it is now."""
        return model_fingerprint(self.model)

    def current_logits(self, table: pl.DataFrame) -> Float[np.ndarray, "n C"]:
        """Run the whole model as it is now on the texts of a trace's rows."""
        task, places = self.gate.task, self.of_rows(table).places
        assert task is not None  # else nothing was collected
        with reading(self.model):
            outputs = [forward(self.model, self._inputs(place)).output for place in places]
        return np.concatenate([_array(logits_at_query(output, task)) for output in outputs])

    def of_rows(self, table: pl.DataFrame) -> Rows:
        """Return the tail of the rows of a trace.

        A model whose attention was set to another implementation since is checked again.

        Raises:
            TraceError: Rows do not say where their attention stands.
            InputError: The model fails a check.
        """
        if implementations(self.model) != self._implementations:
            self._accept(check_model(self.model))
        for name in ("ids", *PLACE):
            if name not in table.columns:
                expected = "the text and the place of every attention"
                raise TraceError("replay", f"column {name}", "no such column", expected)
        return Rows(self, table)

    def _inputs(self, row: Mapping[str, Any]) -> dict[str, Tensor]:
        ids = {
            "input_ids": row["ids"],
            "attention_mask": [1] * len(row["ids"]),
            "token_type_ids": row.get("type_ids"),
            "decoder_input_ids": row.get("written_ids"),
        }
        given = {name: torch.tensor([value]) for name, value in ids.items() if value is not None}
        return {name: value.to(self.model.device) for name, value in given.items()}

    def number(self, row: Mapping[str, Any]) -> int:
        """Return the number of a row's attention in a pass."""
        return self._numbers[row["stack"], row["layer"]]

    def states(self, row: Mapping[str, Any]) -> States:
        """Return what replays of a row's text start from; those used last are kept."""
        key, task = _text(row), self.gate.task
        assert task is not None
        if key in self._states:
            self._states.move_to_end(key)
            return self._states[key]
        inputs = self._inputs(row)
        states = self._states[key] = states_of(self.model, inputs, task, row["query"])
        while sum(one.size for one in self._states.values()) > STATES and len(self._states) > 1:
            self._states.popitem(last=False)
        return states


def _text(row: Mapping[str, Any]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(row.get(name) or ()) for name in IDS)


def _array(values: Tensor) -> np.ndarray:
    return values.double().cpu().numpy()


def replay_of(model: Any) -> Replay:
    """Check a model of the transformers library, or that in a folder, for replays.

    Raises:
        InputError: It cannot be read, or fails a check.
    """
    if isinstance(model, str | Path):
        model = load_pretrained(model)
    if not isinstance(model, PreTrainedModel):
        expected = "a model of the transformers library, its folder, or the module that the trace "
        got = f"a {type(model).__name__}"
        raise InputError("audit", "replay", got, f"{expected}holds")
    return Replay(model, check_model(model))


@dataclass(frozen=True)
class Rows:
    """The tail of the rows of a trace, from pooled vectors to logits.

    Attributes:
        network: The model.
        table: The rows.
        to_hidden: Return what the output layer is given, instead of the logits.
    """

    network: Replay
    table: pl.DataFrame
    to_hidden: bool = False

    @cached_property
    def places(self) -> list[dict[str, Any]]:
        """Text, layer, head and query of every row."""
        names = [name for name in (*IDS, *PLACE, "first_key") if name in self.table.columns]
        return self.table.select(names).to_dicts()

    @cached_property
    def output_layer(self) -> OutputLayer | None:
        """The layer that scores the vocabulary, None if the model cannot be read up to there."""
        module, inner = self.network.model.get_output_embeddings(), replace(self, to_hidden=True)
        if not isinstance(module, nn.Linear):
            return None
        place = self.places[0]
        own = self.network.states(place).sums[self.network.number(place)][place["head"]]
        try:
            inner(_array(own)[None], np.zeros(1, np.int64))
        except FAILURES:
            return None
        parts = (module.bias, getattr(self.network.model, "final_logits_bias", None))
        weight = module.weight.detach().float().cpu().numpy()
        known = [part.detach().float().cpu().numpy().ravel() for part in parts if part is not None]
        return OutputLayer(inner, weight, sum(known, np.zeros(len(weight), np.float32)))

    def __call__(
        self, pooled: Float[np.ndarray, "n P"], rows: Int64[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n C"]:
        """Return the logits of rows with other attended sums."""
        one = Ragged.from_lengths(rows, np.ones(len(rows), np.int64))
        # Texts whose states are held at once.
        parts = np.split(np.arange(len(rows)), range(OF_TOKENS, len(rows), OF_TOKENS))
        return np.concatenate([self.together(pooled[part], one.take(part)) for part in parts])

    def together(self, pooled: Float[np.ndarray, "M P"], rows: Ragged) -> Float[np.ndarray, "m C"]:
        """Return the logits of groups of rows of one text, with all sums of a group replaced."""
        return self._replay(rows, torch.from_numpy(pooled))

    def logits_from_attention(self, alpha: Ragged, rows: Ragged) -> Float[np.ndarray, "m C"]:
        """Return the logits of groups of rows of one text, with all weights of a group replaced.

        Values are those that the pass computes.
        """
        return self._replay(rows, alpha)

    def _replay(self, rows: Ragged, values: Tensor | Ragged) -> np.ndarray:
        """Replay groups of rows with new sums, or new weights, of every row."""
        network, weights = self.network, isinstance(values, Ragged)
        groups: defaultdict[Any, list[int]] = defaultdict(list)
        for k, own in enumerate(rows):
            places = [self.places[row] for row in own.tolist()]
            groups[_text(places[0]), tuple(sorted({*map(network.number, places)}))].append(k)
        logits: dict[int, np.ndarray] = {}
        runs: defaultdict[Any, list[tuple[int, States]]] = defaultdict(list)
        with reading(network.model):
            for (text, attentions), group in groups.items():
                states = network.states(self.places[rows[group[0]][0]])
                way = network.gate.layers[attentions[0]].way
                if way == "position" and (len(attentions) > 1 or weights):
                    way = "upper"  # layers hear of each other at all positions
                way = way_of_text(network.model, states, attentions, way)
                shared = self.to_hidden and way == "position"  # texts share a pass
                runs[attentions, way, None if shared else text] += [(k, states) for k in group]
            for (attentions, way, _), part in runs.items():
                size = OF_TOKENS if way == "position" else OF_TEXTS
                for start in range(0, len(part), size):
                    numbers, texts = zip(*part[start : start + size], strict=True)
                    changes = {
                        one: self._change(one, numbers, texts, rows, values) for one in attentions
                    }
                    found = self._pass(texts, changes, way)
                    logits.update(zip(numbers, _array(found), strict=True))
        return np.stack([logits[k] for k in range(len(rows))]) if logits else np.zeros((0, 1))

    def _change(
        self,
        attention: int,
        numbers: Sequence[int],
        texts: Sequence[States],
        rows: Ragged,
        values: Tensor | Ragged,
    ) -> Tensor | Weights:
        """Put the values of some groups in place of those of an attention."""
        layer = self.network.gate.layers[attention]
        found = [
            (number, place, self.places[rows.values[place]])
            for number, k in enumerate(numbers)
            for place in range(rows.offsets[k], rows.offsets[k + 1])
        ]
        found = [one for one in found if self.network.number(one[2]) == attention]
        where = [number for number, _, _ in found], [row["head"] for _, _, row in found]
        if not isinstance(values, Ragged):
            sums = torch.stack([one.sums[attention] for one in texts])
            sums[where] = values[[place for _, place, _ in found]].to(sums)
            return sums
        row = found[0][2]
        written = row.get("written_ids") if layer.stack == "decoder" else None
        first, keys = row.get("first_key", 0), len(row["ids"] if written is None else written)
        new = torch.full((len(texts), layer.heads, keys), torch.nan)
        for number, place, row in found:
            # A sink comes last; it has a weight and no value.
            alpha = values[place][: len(values[place]) - layer.sink]
            new[number, row["head"]] = 0.0
            new[number, row["head"], first : first + len(alpha)] = torch.from_numpy(alpha).float()
        return Weights(new.to(texts[0].logits.device))

    def _pass(
        self, texts: Sequence[States], changes: Mapping[int, Tensor | Weights], way: str
    ) -> Tensor:
        model, states = self.network.model, texts[0]
        if self.to_hidden:
            handle = model.get_output_embeddings().register_forward_pre_hook(_stop)
            try:
                self._replayed(texts, changes, way)
                raise IndexError("the output layer is not called")
            except _Reached as reached:
                return reached.args[0][:, -1].float()
            finally:
                handle.remove()
        changed = torch.zeros(len(texts), dtype=torch.bool)
        for attention, new in changes.items():
            if isinstance(new, Weights):
                return self._replayed(texts, changes, way)
            own = states.sums[attention]
            limit = SAME * own.abs().amax(dim=-1).clamp(min=1e-30)
            changed |= ((new - own).abs().amax(dim=-1) > limit).any(dim=-1).cpu()
        logits = states.logits.repeat(len(texts), 1)
        if changed.any():
            part = {one: new[changed] for one, new in changes.items() if isinstance(new, Tensor)}
            logits[changed] = self._replayed(texts[: int(changed.sum())], part, way)
        return logits

    def _replayed(self, texts: Sequence[States], changes: Mapping[int, Any], way: str) -> Tensor:
        model, states = self.network.model, texts[0]
        try:
            return replayed(model, states, changes, way, texts)
        except ValueError:
            return replayed(model, states, changes, "full")  # the pass lacks keys


class _Reached(Exception):
    """The output layer is called, with the value as its input."""


def _stop(layer: nn.Module, given: tuple[Tensor, ...]) -> None:
    raise _Reached(given[0])

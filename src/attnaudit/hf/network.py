"""A model at hand as the tail of traces that store none: it is run again from the sum of a row."""

from __future__ import annotations

import time
from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from transformers import PreTrainedModel

from attnaudit.core import InputError, TraceError
from attnaudit.core.progress import ignore
from attnaudit.core.ragged import Ragged
from attnaudit.hf.choose import Chosen
from attnaudit.hf.encoded import Encoded
from attnaudit.hf.gate import Gate, check_model
from attnaudit.hf.load import load_pretrained
from attnaudit.hf.model import (
    FAILURES,
    frozen,
    logits_at_query,
    model_fingerprint,
    reading,
    require_task,
)
from attnaudit.hf.replay import States, Weights, replayed, states_of, way_of_text
from attnaudit.hf.unwrap import one_output, unwrap
from attnaudit.models.weights import Fingerprinted
from attnaudit.torch.capture import forward
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
        replays: Called with the number of outputs that were just computed, for progress.
    """

    def __init__(self, model: Any, gate: Gate) -> None:
        self.model, self.gate, self.replays = model, gate, ignore
        self._numbers = {(layer.stack, layer.layer): k for k, layer in enumerate(gate.layers)}
        self._states: OrderedDict[Any, States] = OrderedDict()

    def __repr__(self) -> str:
        return f"Replay({self.gate.model}, {self.fingerprint[:12]}…)"

    def current_fingerprint(self) -> str:
        """Compute `model_fingerprint` of the model as it is now."""
        return model_fingerprint(self.model)

    def current_logits(self, table: pl.DataFrame) -> Float[np.ndarray, "n C"]:
        """Run the whole model as it is now on the texts of a trace's rows."""
        places, task = self.of_rows(table).places, require_task(self.model)
        with reading(self.model):
            outputs = [forward(self.model, self._inputs(place)).output for place in places]
        pairs = zip(outputs, places, strict=True)
        logits = [logits_at_query(output, task, place["query"]) for output, place in pairs]
        return np.concatenate([_array(one) for one in logits])

    def of_rows(self, table: pl.DataFrame) -> Rows:
        """Return the tail of the rows of a trace.

        Raises:
            TraceError: Rows do not say where their attention stands.
        """
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
        key, cache = _text(row), self._states
        if key in cache:
            cache.move_to_end(key)
            return cache[key]
        inputs, task = self._inputs(row), require_task(self.model)
        cache[key] = states = states_of(self.model, inputs, task, row["query"])
        while sum(one.size for one in cache.values()) > STATES and len(cache) > 1:
            cache.popitem(last=False)
        return states


def _text(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the key of a text, read at the query of a row."""
    return *(tuple(row.get(name) or ()) for name in IDS), row["query"]


def _array(values: Tensor) -> np.ndarray:
    return values.double().cpu().numpy()


def replay_of(model: Any, output: str | None = None) -> Replay:
    """Check a model of the transformers library, or that in a folder, for replays.

    Raises:
        InputError: It cannot be read, or fails a check.
    """
    model = load_pretrained(model) if isinstance(model, str | Path) else unwrap(model)
    if not isinstance(model, PreTrainedModel):
        expected = "a model of the transformers library, its folder, or the module that the trace "
        raise InputError("audit", "replay", f"a {type(model).__name__}", f"{expected}holds")
    model = one_output(model, output)
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
        network, logits = self.network, dict[int, np.ndarray]()
        texts: dict[Any, States] = {}
        runs: defaultdict[Any, list[tuple[int, States]]] = defaultdict(list)
        with reading(network.model):
            for k, own in enumerate(rows):
                places = [self.places[row] for row in own.tolist()]
                text = _text(places[0])
                if text not in texts:
                    texts[text] = network.states(places[0])
                states = texts[text]
                attentions = tuple(sorted({*map(network.number, places)}))
                way = network.gate.layers[attentions[0]].way
                alone = way in ("position", "query")
                if alone and (len(attentions) > 1 or isinstance(values, Ragged)):
                    way = "upper"  # layers hear of each other at all positions
                way = way_of_text(network.model, states, attentions, way)
                shared = self.to_hidden and way == "position"  # texts share a pass
                runs[attentions, way, None if shared else text].append((k, states))
            for (attentions, way, _), run in runs.items():
                size = OF_TOKENS if way == "position" else OF_TEXTS
                for start in range(0, len(run), size):
                    part = run[start : start + size]
                    changes = {one: self._change(one, part, rows, values) for one in attentions}
                    found = self._pass([states for _, states in part], changes, way)
                    numbers = [number for number, _ in part]
                    logits.update(zip(numbers, _array(found), strict=True))
                    network.replays(len(part))
        return np.stack([logits[k] for k in range(len(rows))]) if logits else np.zeros((0, 1))

    def _change(
        self,
        attention: int,
        part: Sequence[tuple[int, States]],
        rows: Ragged,
        values: Tensor | Ragged,
    ) -> Tensor | Weights:
        """Put the values of some groups in place of those of an attention."""
        layer = self.network.gate.layers[attention]
        found = [
            (number, place, row)
            for number, (k, _) in enumerate(part)
            for place in range(rows.offsets[k], rows.offsets[k + 1])
            if self.network.number(row := self.places[rows.values[place]]) == attention
        ]
        numbers, places, own = (list(column) for column in zip(*found, strict=True))
        heads = [row["head"] for row in own]
        if not isinstance(values, Ragged):
            sums = torch.stack([states.sums[attention] for _, states in part])
            sums[numbers, heads] = values[places].to(sums)
            return sums
        row = own[0]
        written = row.get("written_ids") if layer.stack == "decoder" else None
        first, keys = row.get("first_key", 0), len(row["ids"] if written is None else written)
        new = torch.full((len(part), layer.heads, keys), torch.nan)
        for number, place, head in zip(numbers, places, heads, strict=True):
            # A sink comes last; it has a weight and no value.
            alpha = values[place][: len(values[place]) - layer.sink]
            new[number, head] = 0.0
            new[number, head, first : first + len(alpha)] = torch.from_numpy(alpha).float()
        return Weights(new.to(part[0][1].logits.device))

    def _pass(
        self, texts: Sequence[States], changes: Mapping[int, Tensor | Weights], way: str
    ) -> Tensor:
        """Run one pass, for rows of different texts only up to the output layer."""
        model, states = self.network.model, texts[0]
        if self.to_hidden:
            hidden = None
            if way == "position":
                hidden = torch.cat([one.hidden(min(changes)) for one in texts])
            handle = model.get_output_embeddings().register_forward_pre_hook(_stop)
            try:
                replayed(model, states, changes, way, hidden)
                raise IndexError("the output layer is not called")
            except _Reached as reached:
                return reached.args[0][:, -1].float()
            finally:
                handle.remove()
        sums = {one: new for one, new in changes.items() if isinstance(new, Tensor)}
        if not sums:
            try:
                return replayed(model, states, changes, way)
            except ValueError:  # the cache lacks keys
                return replayed(model, states, changes, "full")
        changed = torch.zeros(len(texts), dtype=torch.bool)
        for attention, new in sums.items():
            own = states.sums[attention]
            limit = SAME * own.abs().amax(dim=-1).clamp(min=1e-30)
            changed |= ((new - own).abs().amax(dim=-1) > limit).any(dim=-1).cpu()
        logits = states.logits.repeat(len(texts), 1)
        if changed.any():
            part = {one: new[changed] for one, new in sums.items()}
            logits[changed] = self._known(states, part, way)
        return logits

    def _known(self, states: States, sums: Mapping[int, Tensor], way: str) -> Tensor:
        """Replay each distinct sum of a classifier's text once: experiments ask for the same."""
        model, (attention, *others) = self.network.model, sums
        if others or way in ("position", "step") or states.task != "classification":
            return replayed(model, states, sums, way)
        new = sums[attention]
        rows = [row.tobytes() for row in new.flatten(1).cpu().numpy()]
        keys = [blake2b(row, digest_size=16, salt=b"%d" % attention).digest() for row in rows]
        fresh = {key: k for k, key in enumerate(keys) if key not in states.known}
        if fresh:
            found = replayed(model, states, {attention: new[[*fresh.values()]]}, way)
            states.known.update(zip(fresh, found.cpu().numpy().copy(), strict=True))
        return torch.from_numpy(np.stack([states.known[key] for key in keys])).to(states.logits)


class _Reached(Exception):
    """The output layer is called, with the value as its input."""


def _stop(layer: nn.Module, given: tuple[Tensor, ...]) -> None:
    raise _Reached(given[0])


COPIES = 16  # rows of a measured pass, about as many as experiments ask for at once


def pass_seconds(
    network: Replay, encoded: Encoded, chosen: Sequence[Chosen]
) -> tuple[float, list[tuple[float, bool]], int]:
    """Measure passes over the text of median length.

    Returns:
        The CPU seconds of a whole pass over a text, those of a replay of every attention and
        whether they grow with the length of texts, and the tokens of the text.
    """
    model, gate = network.model, network.gate
    row = int(np.argsort(encoded.ids.lengths)[len(encoded) // 2])

    def fastest(work):
        spent = []
        for _ in range(3):
            begun = time.process_time()
            work()
            spent.append(time.process_time() - begun)
        return min(spent) / COPIES

    with frozen(model), torch.no_grad():
        inputs = encoded.batch([row], model.device)
        copies = {name: value.repeat(COPIES, 1) for name, value in inputs.items()}
        whole, replays = fastest(lambda: forward(model, copies)), list[tuple[float, bool]]()
        states = states_of(model, inputs, require_task(model), gate.reads or 0)
        for one in chosen:
            sums, way = states.sums[one.number].repeat(COPIES, 1, 1), one.layer.way
            given = model, states, {one.number: sums}, way
            replays.append((fastest(lambda given=given: replayed(*given)), way != "position"))
    return whole, replays, int(encoded.ids.lengths[row])

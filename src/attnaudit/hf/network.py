"""A transformer at hand, as the tail of traces that store none: it is run again from the attended sum of a row on."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from jaxtyping import Float, Int64
from torch import nn
from transformers import PreTrainedModel

from attnaudit.core.errors import InputError, TraceError
from attnaudit.core.ragged import Ragged
from attnaudit.hf.capture import forward, reading
from attnaudit.hf.fingerprint import model_fingerprint
from attnaudit.hf.gate import Gate, check_model, implementations
from attnaudit.hf.load import load_pretrained
from attnaudit.hf.products import fast_products
from attnaudit.hf.replay import (
    FAILS,
    Changes,
    KeysLeftOutError,
    Query,
    States,
    Weights,
    logits_at_query,
    replayed,
    replayed_together,
    states_of,
    way_of_text,
)
from attnaudit.models.weights import Fingerprinted
from attnaudit.trace.schema import IDS
from attnaudit.trace.tails import OutputLayer

KEPT = 1 << 30  # bytes of states of texts that are kept
OF_TEXTS, OF_TOKENS = 64, 256  # replays in a pass, of whole texts and of one position
# The way for several layers, which hear of each other at all positions, and for weights, which need all keys, by that of one layer's sums.
WITH_ALL_POSITIONS = {"position": "upper", "last two": "upper", "step": "copied step"}
SAME = 1e-5  # of an attended sum, relative to the model's own: float32 of a trace


class Replay(Fingerprinted):
    """A checked model of the transformers library (`check_model`), for audits of traces whose tail is ``replay``."""

    def __init__(self, model: Any, gate: Gate) -> None:
        self.model = model
        self._take(gate)

    def _take(self, gate: Gate) -> None:
        self.gate, self.implementations = gate, implementations(self.model)
        self.numbers = {
            (layer.stack, layer.layer): number for number, layer in enumerate(gate.layers)
        }
        self.kept = Kept()

    def __repr__(self) -> str:
        return f"Replay({self.gate.model}, {self.fingerprint[:12]}…)"

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Within, the model is read (`capture.reading`), with `fast_products`: all that is compared is rounded alike."""
        with reading(self.model), self._products:
            yield

    @cached_property
    def _products(self) -> AbstractContextManager[Any]:
        return fast_products(self.model)

    def current_fingerprint(self) -> str:
        """`model_fingerprint`, as it is."""
        return model_fingerprint(self.model)

    def current_logits(self, table: pl.DataFrame) -> Float[np.ndarray, "n C"]:
        """The logits of the rows' texts, by passes of the whole model as it is. Raises TraceError as `of_rows`."""
        assert self.gate.task is not None
        with self.reading():
            passes = [
                forward(self.model, self.inputs(place)) for place in self.of_rows(table).places
            ]
        return np.concatenate(
            [logits_at_query(one.output, self.gate.task).double().cpu().numpy() for one in passes]
        )

    def of_rows(self, table: pl.DataFrame) -> Rows:
        """The tail of the rows of a trace. A model whose attention was set to another implementation since it was checked is checked again.

        Raises TraceError for rows that do not say where their attention stands, and InputError as `check_model`.
        """
        if implementations(self.model) != self.implementations:
            self._take(check_model(self.model))
        missing = [
            name for name in ("ids", "stack", "layer", "head", "query") if name not in table.columns
        ]
        if missing:
            raise TraceError(
                "replay",
                f"column {missing[0]}",
                "no such column",
                "the text and the place of every attention",
            )
        return Rows(self, table)

    def inputs(self, row: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """What the model was given for a row."""
        inputs = {
            "input_ids": torch.tensor([row["ids"]]),
            "attention_mask": torch.ones(1, len(row["ids"]), dtype=torch.long),
        }
        names = {"type_ids": "token_type_ids", "written_ids": "decoder_input_ids"}
        inputs |= {
            names[name]: torch.tensor([row[name]]) for name in names if row.get(name) is not None
        }
        return {name: value.to(self.model.device) for name, value in inputs.items()}

    def states(self, row: Mapping[str, Any]) -> States:
        """What replays of a row's text start from."""
        assert self.gate.task is not None  # else nothing was collected
        query = Query(self.gate.task, row["query"])
        return self.kept.get(text_of(row), lambda: states_of(self.model, self.inputs(row), query))


class Kept:
    """States of the texts used last, up to `KEPT` bytes."""

    def __init__(self) -> None:
        self._found: OrderedDict[Any, States] = OrderedDict()
        self._size = 0

    def get(self, key: Any, make: Callable[[], States]) -> States:
        """The states of a text, made where they are not kept."""
        if key in self._found:
            self._found.move_to_end(key)
            return self._found[key]
        states = self._found[key] = make()
        self._size += states.size
        while self._size > KEPT and len(self._found) > 1:
            self._size -= self._found.popitem(last=False)[1].size
        return states


def text_of(row: Mapping[str, Any]) -> tuple[tuple[int, ...], ...]:
    """What the model was given for a row, by which its states are kept."""
    return tuple(tuple(row.get(name) or ()) for name in IDS)


def replay_of(model: Any) -> Replay:
    """A model of the transformers library, or the folder of one, checked (`check_model`). Raises InputError."""
    if isinstance(model, str | Path):
        model = load_pretrained(model)
    if not isinstance(model, PreTrainedModel):
        expected = (
            "a model of the transformers library, its folder, or the module that the trace holds"
        )
        raise InputError("audit", "replay", f"a {type(model).__name__}", expected)
    return Replay(model, check_model(model))


@dataclass(frozen=True)
class Rows:
    """The tail of some rows, ``(pooled (n, P), rows (n,)) -> logits (n, C)``."""

    network: Replay
    table: pl.DataFrame

    @cached_property
    def output_layer(self) -> OutputLayer | None:
        """The layer that scores the vocabulary; None of a model without one, or that cannot be read up to there."""
        module, inner = (
            self.network.model.get_output_embeddings(),
            Hidden(self.network, self.places),
        )
        if not isinstance(module, nn.Linear) or not inner.is_reached:
            return None
        weight = module.weight.detach().float().cpu().numpy()
        added = [module.bias, getattr(self.network.model, "final_logits_bias", None)]
        bias = sum(
            (one.detach().float().cpu().numpy().ravel() for one in added if one is not None),
            np.zeros(len(weight), np.float32),
        )
        return OutputLayer(inner, weight, bias)

    @cached_property
    def places(self) -> list[dict[str, Any]]:
        names = [*IDS, "stack", "layer", "head", "query", "first_key"]
        names = [name for name in names if name in self.table.columns]
        return self.table.select(names).to_dicts()

    def __call__(
        self, pooled: Float[np.ndarray, "n P"], rows: Int64[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n C"]:
        groups: defaultdict[Any, list[int]] = defaultdict(list)
        for k, row in enumerate(rows.tolist()):
            place = self.places[row]
            groups[text_of(place), place["stack"], place["layer"]].append(k)
        found: dict[int, np.ndarray] = {}
        with self.network.reading():
            for group in groups.values():
                found |= self._of_text(pooled, rows, group)
        return np.stack([found[k] for k in range(len(rows))]) if found else np.zeros((0, 1))

    def together(self, pooled: Float[np.ndarray, "M P"], rows: Ragged) -> Float[np.ndarray, "m C"]:
        """The logits of groups of rows, each of one text, all sums of a group replaced at once."""

        def changes(of_group: tuple[int, ...], groups: list[int]) -> Changes:
            sums: dict[int, torch.Tensor] = {}
            states = self.network.states(self.places[of_group[0]])
            for k, row in enumerate(of_group):
                own = sums.setdefault(
                    self._number(row), states.sums[self._number(row)].repeat(len(groups), 1, 1)
                )
                own[:, self.places[row]["head"]] = torch.from_numpy(
                    pooled[rows.offsets[groups] + k]
                ).to(own)
            return sums

        return self._of_groups(rows, changes)

    def logits_from_attention(self, alpha: Ragged, rows: Ragged) -> Float[np.ndarray, "m C"]:
        """The logits of groups of rows, each of one text, all weights of a group replaced at once; values are those of their pass."""

        def changes(of_group: tuple[int, ...], groups: list[int]) -> Changes:
            layers: defaultdict[int, list[int]] = defaultdict(list)
            for k, row in enumerate(of_group):
                layers[self._number(row)].append(k)
            return {
                number: self._weights(number, of_group, ks, alpha, rows.offsets[groups])
                for number, ks in layers.items()
            }

        return self._of_groups(rows, changes)

    def _weights(
        self,
        number: int,
        of_group: tuple[int, ...],
        ks: list[int],
        alpha: Ragged,
        starts: Int64[np.ndarray, " N"],
    ) -> Weights:
        """The weights of an attention, those of the rows number ``ks`` of each group."""
        values = torch.from_numpy(
            np.stack([[alpha[start + k] for k in ks] for start in starts.tolist()])
        )
        layer, place = self.network.gate.layers[number], self.places[of_group[ks[0]]]
        read = (
            place["written_ids"]
            if layer.stack == "decoder" and place.get("written_ids") is not None
            else place["ids"]
        )
        return Weights(
            [self.places[of_group[k]]["head"] for k in ks],
            layer.heads,
            values,
            place.get("first_key", 0),
            len(read),
        )

    def _number(self, row: int) -> int:
        place = self.places[row]
        return self.network.numbers[place["stack"], place["layer"]]

    def _of_groups(
        self, rows: Ragged, changes: Callable[[tuple[int, ...], list[int]], Changes]
    ) -> Float[np.ndarray, "m C"]:
        """The logits of every group of rows; ``changes`` are those of some of its groups, which are of the same rows."""
        same: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
        for k in range(len(rows)):
            same[tuple(rows[k].tolist())].append(k)
        found: dict[int, np.ndarray] = {}
        with self.network.reading():
            for of_group, groups in same.items():
                for start in range(0, len(groups), OF_TEXTS):
                    part = groups[start : start + OF_TEXTS]
                    found |= dict(
                        zip(part, self._changed(of_group[0], changes(of_group, part)), strict=True)
                    )
        return np.stack([found[k] for k in range(len(rows))])

    def _changed(self, row: int, changes: Changes) -> Float[np.ndarray, "N C"]:
        """The logits of the text of a row, N times."""
        model, states, way = (
            self.network.model,
            self.network.states(self.places[row]),
            self.network.gate.layers[min(changes)].way,
        )
        if len(changes) > 1 or any(isinstance(change, Weights) for change in changes.values()):
            way = WITH_ALL_POSITIONS.get(way, way)
        return _replayed(model, states, changes, way).double().cpu().numpy()

    def _of_text(
        self, pooled: np.ndarray, rows: np.ndarray, group: list[int]
    ) -> dict[int, np.ndarray]:
        """The logits of rows of one text and layer."""
        network, place = self.network, self.places[rows[group[0]]]
        number = network.numbers[place["stack"], place["layer"]]
        states = network.states(place)
        own = states.sums[number]
        found: dict[int, np.ndarray] = {}
        changed: list[int] = []
        for k in group:
            head = own[self.places[rows[k]]["head"]].double().cpu().numpy()
            if np.abs(pooled[k] - head).max() <= SAME * max(np.abs(head).max(), 1e-30):
                found[k] = states.logits[0].double().cpu().numpy()
            else:
                changed.append(k)
        way = network.gate.layers[number].way
        at_once = OF_TEXTS if way in ("upper", "full") else OF_TOKENS
        for start in range(0, len(changed), at_once):
            part = changed[start : start + at_once]
            sums = own.repeat(len(part), 1, 1)
            for place_in_part, k in enumerate(part):
                sums[place_in_part, self.places[rows[k]]["head"]] = torch.from_numpy(pooled[k]).to(
                    sums
                )
            logits = _replayed(network.model, states, {number: sums}, way).double().cpu().numpy()
            found |= dict(zip(part, logits, strict=True))
        return found


def _replayed(model: Any, states: States, changes: Changes, way: str) -> Float[torch.Tensor, "N C"]:
    """`replayed`; by a pass of the whole model where the way does not hold for this text, or its keys were not kept, as before a window."""
    try:
        return replayed(model, states, changes, way_of_text(model, states, changes, way))
    except KeysLeftOutError:
        return replayed(model, states, changes, "full")


@dataclass(frozen=True)
class Hidden:
    """What the output layer is given, ``(pooled (n, P), rows (n,)) -> (n, H)``, of several texts at once where one position is enough."""

    network: Replay
    places: list[dict[str, Any]]

    def _number(self, place: dict[str, Any]) -> int:
        return self.network.numbers[place["stack"], place["layer"]]

    def _way(self, place: dict[str, Any]) -> str:
        return self.network.gate.layers[self._number(place)].way

    def __call__(
        self, pooled: Float[np.ndarray, "n P"], rows: Int64[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n H"]:
        found = np.zeros((len(rows), self.width), np.float32)
        with self.network.reading():
            for start in range(0, len(rows), OF_TOKENS):
                part = slice(start, start + OF_TOKENS)
                found[part] = self._read(
                    pooled[part], [self.places[row] for row in rows[part].tolist()]
                )
        return found

    @property
    def is_reached(self) -> bool:
        """Whether the model calls its output layer, and computes its logits from what that layer gives without an error."""
        place = self.places[0]
        pooled = (
            self.network.states(place)
            .sums[self._number(place)][place["head"]]
            .float()
            .cpu()
            .numpy()
        )
        try:
            self(pooled[None], np.zeros(1, np.int64))
        except FAILS:
            return False
        return True

    @property
    def width(self) -> int:
        return self.network.model.get_output_embeddings().in_features

    def _read(self, pooled: np.ndarray, places: list[dict[str, Any]]) -> np.ndarray:
        """Rows whose texts are replayed at one position share a pass; those of any other text have a pass of their own."""
        states, numbers = (
            [self.network.states(place) for place in places],
            list(map(self._number, places)),
        )
        groups: defaultdict[Any, list[int]] = defaultdict(list)
        for k, (one, number) in enumerate(zip(states, numbers, strict=True)):
            way = way_of_text(
                self.network.model, one, [number], self._way(places[k])
            )  # now: in `_pass` there are no logits
            groups[number, None if way == "position" else id(one)].append(k)
        found = np.empty((len(places), self.width), np.float32)
        for (number, _), ks in groups.items():
            sums = torch.stack([states[k].sums[number] for k in ks])
            sums[torch.arange(len(ks)), [places[k]["head"] for k in ks]] = torch.from_numpy(
                pooled[ks]
            ).to(sums)
            found[ks] = self._pass([states[k] for k in ks], number, sums, self._way(places[ks[0]]))
        return found

    def _pass(self, states: list[States], number: int, sums: torch.Tensor, way: str) -> np.ndarray:
        model = self.network.model
        with _input_of(model.get_output_embeddings()) as hidden:
            if all(one is states[0] for one in states):
                _replayed(model, states[0], {number: sums}, way)
            else:
                replayed_together(model, states, {number: sums})
        return hidden[-1][:, -1].float().cpu().numpy()


@contextmanager
def _input_of(layer: nn.Linear) -> Iterator[list[torch.Tensor]]:
    """Within, a layer leaves what it is given in the list, and gives zeros, which take no memory."""
    given: list[torch.Tensor] = []

    def keep(input: torch.Tensor) -> torch.Tensor:
        given.append(input)
        return input.new_zeros(1).expand(*input.shape[:-1], layer.out_features)

    before = vars(layer).get("forward")  # of this layer alone, as a hook leaves it
    layer.forward = keep
    try:
        yield given
    finally:
        del layer.forward
        if before is not None:
            layer.forward = before

"""Collect: a transformer and texts give a trace with a row for every head of some layers, at the query that the prediction reads."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attnaudit.core.errors import InputError
from attnaudit.core.progress import Progress, silent
from attnaudit.core.ragged import Ragged
from attnaudit.hf.capture import Attention, forward, reading
from attnaudit.hf.classes import outputs_of
from attnaudit.hf.encode import encode, kind_of, notes_of, require_texts
from attnaudit.hf.encoded import Encoded
from attnaudit.hf.fingerprint import model_fingerprint
from attnaudit.hf.gate import Gate, check_model
from attnaudit.hf.importance import USUAL, known, measured
from attnaudit.hf.importance.case import Case, frozen, positions_within
from attnaudit.hf.importance.gradients import alpha_gradients
from attnaudit.hf.layers import Layer
from attnaudit.hf.network import Replay
from attnaudit.hf.pieces import of_spelled_bytes, spells_bytes
from attnaudit.hf.positions import Positions, at_positions, positions_of
from attnaudit.hf.probe import probe_of
from attnaudit.hf.products import fast_products
from attnaudit.hf.replay import FAILS, ROUNDING, apart, states_at
from attnaudit.hf.resume import hidden_input, layers_around, record
from attnaudit.hf.sources import read_texts
from attnaudit.hf.tail import MOST_PARAMETERS, write_tail
from attnaudit.trace import Trace, concatenate
from attnaudit.trace.tails import GRAPH_FILE, GraphTail
from attnaudit.trace.words import SPECIAL

OPERATION = "collect"
SHARD_TEXTS, SHARD_BYTES = 64, 1 << 26  # of a file, whichever is less
BUDGET = 4096  # padded positions of a batch
SINK = "<sink>"  # the token of a sink: a position that takes attention and gives nothing
Layers = str | Sequence[int]


@dataclass(frozen=True)
class Chosen:
    """An attention whose rows are collected: its number in a pass, its layer, its heads."""

    number: int
    layer: Layer
    heads: tuple[int, ...]


def choose_layers(
    gate: Gate, layers: Layers = "last", heads: str | Sequence[int] = "all", cross: bool = False
) -> tuple[Chosen, ...]:
    """The attentions of ``layers`` ("last", "all" or numbers from 0) and ``heads`` ("all" or numbers), of cross-attention with ``cross``.

    Raises InputError for a model whose prediction reads no single query, and for layers and heads that it does not have.
    """
    if not gate.can_be_audited:
        got = (
            "a class of an unknown task"
            if gate.task is None
            else "a prediction that is read from several positions, such as their mean"
        )
        expected = (
            "a classifier that reads one position, a causal language model or an encoder–decoder"
        )
        raise InputError(OPERATION, gate.model, got, expected)
    stack = (
        "cross"
        if cross
        else "decoder"
        if any(layer.stack == "cross" for layer in gate.layers)
        else gate.layers[-1].stack
    )
    found = {
        layer.layer: (number, layer)
        for number, layer in enumerate(gate.layers)
        if layer.stack == stack
    }
    if not found:
        raise InputError(
            OPERATION, gate.model, "no cross-attention", "an encoder–decoder", "leave out --cross"
        )
    every = {"last": [max(found)], "all": sorted(found)}
    wanted = (
        every[layers]
        if isinstance(layers, str) and layers in every
        else _numbers("layers", layers, "last, all")
    )
    for layer in wanted:
        if layer not in found:
            raise InputError(
                OPERATION,
                f"layer {layer}",
                f"no such layer of {stack} attention",
                f"0 to {max(found)}, last or all",
            )
    return tuple(
        Chosen(*found[layer], _heads(found[layer][1], heads)) for layer in dict.fromkeys(wanted)
    )


def _heads(layer: Layer, heads: str | Sequence[int]) -> tuple[int, ...]:
    wanted = (
        range(layer.heads)
        if isinstance(heads, str) and heads == "all"
        else _numbers("heads", heads, "all")
    )
    for head in wanted:
        if not 0 <= head < layer.heads:
            raise InputError(
                OPERATION,
                f"head {head}",
                f"layer {layer.layer} has {layer.heads} heads",
                f"0 to {layer.heads - 1}, or all",
            )
    return tuple(dict.fromkeys(wanted))


def _numbers(name: str, given: Any, words: str) -> list[int]:
    """Numbers of layers or heads. Raises InputError for anything but a list of one number or more."""
    numbers = list(given) if isinstance(given, Iterable) else []
    if not numbers or not all(isinstance(number, int | np.integer) for number in numbers):
        raise InputError(OPERATION, name, repr(given), f"{words} or a list of numbers, as [0, 3]")
    return list(map(int, numbers))


def collect_shards(
    model: Any, encoded: Encoded, gate: Gate, chosen: Sequence[Chosen], folder: Path | None = None, *, class_names: Sequence[str],
    scores: str | Sequence[str] = USUAL, metadata: Mapping[str, Any] | None = None, budget: int = BUDGET, shard_texts: int | None = None,
    graph: bool = True, progress: Progress = silent,
) -> Iterator[Trace]:  # fmt: skip
    """The trace of encoded texts, each with a row for every head that is ``chosen`` (`choose_layers`), ``shard_texts`` of them at a time.

    By default as many texts as make a file of `SHARD_BYTES` are in a shard.

    Where only the last layer is chosen and what follows it can be exported, the tail is an ONNX graph, written into ``folder`` (a temporary
    one by default); else, and without ``graph``, the model is the tail (`Replay`). ``scores`` are measures of the importance of tokens
    (`attnaudit.hf.importance`). ``budget`` bounds the padded positions of a batch, and with it memory.
    """
    with tempfile.TemporaryDirectory() as temporary, frozen(model):
        encoded = _up_to_what_is_read(model, gate, encoded)
        work = _Work(
            model, gate, tuple(chosen), encoded, folder or Path(temporary), tuple(class_names), known(scores), dict(metadata or {}), budget,
            graph,
        )  # fmt: skip
        shard_texts = shard_texts or texts_of_a_shard(encoded, chosen, class_names)
        for start in range(0, len(encoded), shard_texts):
            part = encoded.take(np.arange(start, min(start + shard_texts, len(encoded))))
            with _unlike_the_checks(gate, part):
                shard = work.shard(part)
            yield shard
            progress("collect", min(start + shard_texts, len(encoded)), len(encoded))


def _up_to_what_is_read(model: Any, gate: Gate, encoded: Encoded) -> Encoded:
    """The texts without padding tokens at their own end, for a classifier that reads the last token which is no padding.

    Such as a decoder whose tokenizer appends [EOS], and pads with it too. Where the model gives other logits without them, it reads them.
    """
    pad = model.config.get_text_config().pad_token_id
    if gate.task != "classification" or gate.reads != -1 or pad is None:
        return encoded
    sizes = np.array(
        [1 + np.flatnonzero(ids != pad).max(initial=0) for ids in encoded.ids], dtype=np.int64
    )
    ended = np.flatnonzero(sizes < encoded.ids.lengths)
    if not len(ended):
        return encoded
    shorter = replace(encoded.up_to(sizes), label=encoded.label)
    with reading(model), torch.no_grad():
        logits, own = (
            model(**texts.batch(ended[:1], model.device)).logits for texts in (shorter, encoded)
        )
    return shorter if apart(logits, own) <= ROUNDING else encoded


def texts_of_a_shard(encoded: Encoded, chosen: Sequence[Chosen], class_names: Sequence[str]) -> int:
    """How many texts of the longest kind fit into a file."""
    longest, outputs = int(encoded.ids.lengths.max(initial=1)), len(class_names)
    of_text = sum(len(one.heads) * (longest * one.layer.width + outputs) * 4 for one in chosen)
    return int(np.clip(SHARD_BYTES // of_text, 1, SHARD_TEXTS))


@contextmanager
def _unlike_the_checks(gate: Gate, encoded: Encoded) -> Iterator[None]:
    """Within, a failure of torch or of the model is an InputError: what works on the texts of the checks fails on these."""
    try:
        yield
    except FAILS as error:
        longest = int(encoded.ids.lengths.max(initial=0))
        reason = str(error).partition("\n")[0].rstrip(".")
        got = f"it fails on texts of up to {longest} tokens ({type(error).__name__}: {reason})"
        expected = (
            "a model that treats texts of all lengths as it does the short ones of the checks"
        )
        raise InputError(
            OPERATION, gate.model, got, expected, "cut the texts (--max-tokens), or mend the model"
        ) from error


@dataclass(frozen=True)
class _Text:
    """What one text left: logits (C,), and of each chosen attention at the query weights (H, K), values (H, K, D) and slopes (H, K).

    K counts the keys that the query ``sees``, a stretch of the text. ``slopes`` are those of the predicted output's probability by the
    weights, ``hidden`` (W,) what the layer of a graph was given.
    """

    query: int
    logits: np.ndarray
    sees: tuple[slice, ...]
    weights: tuple[np.ndarray, ...]
    values: tuple[np.ndarray, ...]
    slopes: tuple[np.ndarray, ...]
    hidden: np.ndarray


@dataclass(frozen=True)
class _Work:
    """What all shards of a trace share."""

    model: Any
    gate: Gate
    chosen: Sequence[Chosen]
    encoded: Encoded
    folder: Path
    class_names: tuple[str, ...]
    scores: tuple[str, ...]
    metadata: dict[str, Any]
    budget: int
    graph: bool

    @cached_property
    def network(self) -> Replay:
        return Replay(self.model, self.gate)

    @cached_property
    def layers(self) -> nn.ModuleList | None:
        """The layers around the last chosen attention, where the tail is a graph."""
        return layers_around(self.model, self.chosen[-1].layer.path)

    @cached_property
    def tail(self) -> GraphTail | Replay:
        last = self.chosen[-1]
        if (
            not self.graph
            or len(self.chosen) > 1
            or last.layer.way != "position"
            or _output_size(self.model) > MOST_PARAMETERS
        ):
            return self.network
        probe = probe_of(self.model)
        texts = [
            states_at(self.model, probe.alone(row), self._task, self.gate.reads or 0)
            for row in range(len(probe.lengths))
        ]
        return write_tail(self.model, texts, last.number, self.folder / GRAPH_FILE) or self.network

    @property
    def _task(self) -> Any:
        return self.gate.task

    @cached_property
    def products(self) -> AbstractContextManager[Any]:
        return fast_products(self.model)

    @cached_property
    def call(self) -> int:
        """Which call of a layer of the stack computes the attention whose tail is a graph."""
        assert self.layers is not None
        call = record(self.model, probe_of(self.model).alone(0), self.layers).call_of(
            self.chosen[-1].number
        )
        assert call is not None
        return call

    def shard(self, encoded: Encoded) -> Trace:
        texts: dict[int, _Text] = {}
        scores = {name: np.zeros(len(encoded.ids.values), np.float32) for name in self.scores}
        graph = isinstance(self.tail, GraphTail)
        inputs = (
            partial(hidden_input, self.layers, self.call)
            if graph and self.layers is not None
            else lambda: nullcontext([])
        )
        with self.products:
            for rows in encoded.batches(
                positions_within(self.model, self.budget), self.gate.batching
            ):
                case = Case(self.model, self.gate, encoded.take(rows), self.budget)
                with inputs() as hidden:
                    slopes = alpha_gradients(case, [one.number for one in self.chosen])
                texts |= dict(zip(rows.tolist(), self._texts(case, slopes, *hidden), strict=True))
                del slopes, hidden
                for name, values in measured(case, self.scores).items():
                    scores[name][encoded.ids.positions(rows)] = values
        ragged = {name: encoded.ids.with_values(values) for name, values in scores.items()}
        found = [
            self._trace(encoded, texts, ragged, k, head)
            for k, one in enumerate(self.chosen)
            for head in one.heads
        ]
        trace = concatenate(found)
        per_layer = (
            np.tile(np.arange(len(encoded)), len(found)),
            np.repeat(np.arange(len(found)), len(encoded)),
        )
        return trace.take(np.lexsort((per_layer[1], per_layer[0])))

    def _texts(
        self, case: Case, slopes: Mapping[int, Tensor], hidden: Tensor | None = None
    ) -> Iterator[_Text]:
        """What each text of a batch left; ``hidden`` (B, T, W) is what the layer of a graph was given."""
        attentions = [case.attentions[one.number] for one in self.chosen]
        for row in range(len(case.texts)):
            query = _query(self.gate, case.texts, row)
            sees = tuple(
                _seen(self.gate, one.layer, found, case.texts, row)
                for one, found in zip(self.chosen, attentions, strict=True)
            )
            yield _Text(
                query, _plain(case.logits[row]), sees,
                tuple(_plain(one.weights[row, :, query, keys]) for one, keys in zip(attentions, sees, strict=True)),
                tuple(_plain(one.values[row, :, keys]) for one, keys in zip(attentions, sees, strict=True)),
                tuple(_plain(slopes[one.number][row, :, keys]) for one, keys in zip(self.chosen, sees, strict=True)),
                np.zeros(0, np.float32) if hidden is None else _plain(hidden[row, query]),
            )  # fmt: skip

    def _trace(
        self,
        encoded: Encoded,
        texts: Mapping[int, _Text],
        scores: Mapping[str, Ragged],
        k: int,
        head: int,
    ) -> Trace:
        """The rows of one head, one for each text."""
        one, rows = self.chosen[k], range(len(encoded))
        written = encoded.written is not None and one.layer.stack == "decoder"
        tokens, other = (
            (encoded.written_tokens, encoded.tokens)
            if written
            else (encoded.tokens, encoded.written_tokens)
        )
        words = encoded.written_word_id if written else encoded.word_id
        assert tokens is not None
        assert words is not None
        sees = [texts[row].sees[k] for row in rows]
        tokens = [row[keys] for row, keys in zip(tokens, sees, strict=True)]
        words = [row[keys] for row, keys in zip(words, sees, strict=True)]
        special, word_id = (
            [(row == SPECIAL).tolist() for row in words],
            [row.tolist() for row in words],
        )
        alpha, readout = (
            [texts[row].weights[k][head] for row in rows],
            [texts[row].values[k][head] for row in rows],
        )
        slopes = [texts[row].slopes[k][head] for row in rows]
        scores = {} if written else scores
        measured = {
            name: [row[keys] for row, keys in zip(values, sees, strict=True)]
            for name, values in scores.items()
        }
        marked = (
            None
            if encoded.rationale is None or written
            else zip(encoded.rationale, sees, strict=True)
        )
        rationale = (
            None if marked is None else [marks[keys] if marks else None for marks, keys in marked]
        )
        if one.layer.sink:
            tokens = [[*row, SINK] for row in tokens]
            special, word_id = (
                [[*row, True] for row in special],
                [[*row, SPECIAL] for row in word_id],
            )
            alpha = [
                np.append(row, max(1.0 - float(row.sum()), 0.0)).astype(np.float32) for row in alpha
            ]
            readout = [np.concatenate([row, np.zeros_like(row[:1])]) for row in readout]
            slopes = [np.append(row, np.float32(0)) for row in slopes]
            measured = {
                name: [np.append(row, np.float32(0)) for row in values]
                for name, values in measured.items()
            }
            rationale = (
                None if rationale is None else [marks and [*marks, False] for marks in rationale]
            )
        graph = isinstance(self.tail, GraphTail)
        offset = [
            self._offset(texts[row], k, head) if graph else np.zeros(one.layer.width, np.float32)
            for row in rows
        ]
        return Trace.from_arrays(
            activation="softmax", class_names=self.class_names, metadata=self.metadata, tail=self.tail,
            origin=f"{one.layer.path}, head {head}",
            instance=encoded.instance, split=encoded.split, label=self._labels(encoded), tokens=tokens, alpha=Ragged.from_rows(alpha),
            readout=Ragged.from_rows(readout), offset=np.stack(offset),
            prediction=np.stack([_softmax(texts[row].logits) for row in rows]), rationale=rationale,
            special=special, word_id=word_id, stack=[one.layer.stack] * len(rows), layer=np.full(len(rows), one.layer.layer, np.int32),
            head=np.full(len(rows), head, np.int32), query=np.array([texts[row].query for row in rows], np.int32),
            first_key=np.array([keys.start for keys in sees], np.int32),
            sink=np.full(len(rows), one.layer.sink), alpha_gradient=Ragged.from_rows(slopes), question=other, **self._ids(encoded),
            **{_column(name): Ragged.from_rows(values) for name, values in measured.items()},
        )  # fmt: skip

    def _offset(self, text: _Text, k: int, head: int) -> np.ndarray:
        """The attended sums of the other heads, zeros in place of this one's, and the hidden state that the layer was given."""
        sums = np.einsum("hk,hkd->hd", text.weights[k].astype(np.float64), text.values[k]).astype(
            np.float32
        )
        sums[head] = 0.0
        return np.concatenate([sums.reshape(-1), text.hidden])

    def _ids(self, encoded: Encoded) -> dict[str, Any]:
        """What the model was given, for replays; a trace with a graph needs it not."""
        if isinstance(self.tail, GraphTail):
            return {}
        columns = {"ids": encoded.ids, "type_ids": encoded.type_ids, "written_ids": encoded.written}
        return {
            name: [row.tolist() for row in column]
            for name, column in columns.items()
            if column is not None
        }

    def _labels(self, encoded: Encoded) -> list[int | None] | None:
        label = (
            encoded.label
            if encoded.next_ids is None
            else encoded.next_ids.values[encoded.next_ids.offsets[1:] - 1]
        )
        return (
            None if label is None else [None if number < 0 else number for number in label.tolist()]
        )


def _query(gate: Gate, encoded: Encoded, row: int) -> int:
    assert gate.reads is not None
    queries = (encoded.ids if encoded.written is None else encoded.written).lengths[row]
    return int(gate.reads % queries)


def _seen(gate: Gate, layer: Layer, found: Attention, encoded: Encoded, row: int) -> slice:
    """The keys of a text that no mask hides from the query of ``found``. Raises InputError where hidden ones lie between them."""
    own = encoded.ids if encoded.written is None or layer.stack != "decoder" else encoded.written
    assert found.hidden is not None
    seen = np.flatnonzero(
        ~found.hidden[row, _query(gate, encoded, row), : int(own.lengths[row])].cpu().numpy()
    )
    if not len(seen) or len(seen) <= seen[-1] - seen[0]:
        got = f"in layer {layer.layer} the query sees {len(seen)} tokens with others between them that it does not see"
        raise InputError(
            OPERATION,
            gate.model,
            got,
            "one stretch of tokens",
            "choose other layers (--layers), or shorter texts (--max-tokens)",
        )
    return slice(int(seen[0]), int(seen[-1]) + 1)


def windows(model: Any, gate: Gate, chosen: Sequence[Chosen], encoded: Encoded) -> list[str]:
    """A note on each layer whose query sees a part of the longest text alone, as in a sliding window. Raises InputError as `_seen`."""
    lengths = (
        encoded.ids
        if encoded.written is None or chosen[0].layer.stack == "cross"
        else encoded.written
    ).lengths
    longest = encoded.take(np.array([int(lengths.argmax())]))
    with reading(model), _unlike_the_checks(gate, longest):
        found = forward(model, longest.batch([0], model.device), masks=True).attentions
    parts: dict[tuple[int, int], list[int]] = {}
    for one in chosen:
        keys, tokens = _seen(gate, one.layer, found[one.number], longest, 0), int(lengths.max())
        if keys.stop - keys.start < tokens:
            parts.setdefault((keys.stop - keys.start, tokens), []).append(one.layer.layer)
    return [
        f"layer{'s' * (len(layers) > 1)} {', '.join(map(str, layers))}: of the longest text the query sees {seen} of {tokens} tokens, as "
        "the model masks the others; rows have the tokens that it sees"
        for (seen, tokens), layers in parts.items()
    ]


def _column(score: str) -> str:
    """The column of a measure of importance."""
    return score if score in ("gradient", "loo") else f"importance_{score}"


def output_names(model: Any, tokenizer: Any, class_names: Sequence[str]) -> tuple[str, ...]:
    """The names of a model's outputs: its classes, or the tokens of its vocabulary; an output that is no token has its number."""
    if class_names:
        return tuple(class_names)
    targets = getattr(
        tokenizer, "target_encoder", None
    )  # of Marian, where the vocabulary of targets is another
    size, known = (
        model.get_output_embeddings().weight.shape[0],
        len(tokenizer if targets is None else targets),
    )
    names = [
        *tokenizer.convert_ids_to_tokens(list(range(min(size, known)))),
        *(None for _ in range(size - known)),
    ]
    if spells_bytes(tokenizer):
        names = [
            name if name is None or name in tokenizer.all_special_tokens else of_spelled_bytes(name)
            for name in names
        ]
    found: list[str] = []
    taken: set[str] = set()
    for number, name in enumerate(names):
        found.append(f"<{number}>" if name is None or name in taken else str(name))
        taken.add(found[-1])
    return tuple(found)


def _output_size(model: Any) -> int:
    output = model.get_output_embeddings()
    return 0 if output is None else int(output.weight.numel())


def _plain(values: Tensor) -> np.ndarray:
    return values.float().cpu().numpy()


def _softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits.astype(np.float64) - logits.max())
    return (powers / powers.sum()).astype(np.float32)


def collect(
    model: Any, tokenizer: Any, corpus: Any, *, layers: Layers = "last", heads: str | Sequence[int] = "all", cross: bool = False,
    positions: Positions | None = None, seed: int = 0, scores: str | Sequence[str] | None = None, class_names: Sequence[str] | None = None,
    folder: str | Path | None = None, max_tokens: int | None = None, progress: Progress = silent,
) -> Trace:  # fmt: skip
    """The trace of a model of the transformers library on the texts of ``corpus``, with a row for every text and head.

    ``corpus`` is a path, the name of a corpus, a `Corpus` (its test split), a list of texts or of pairs, a DataFrame, or what
    `attnaudit.hf.read_texts` gives, which has options. ``class_names`` are those of a classifier's outputs in place of its own. The model
    is checked first (`check_model`). ``layers`` are "last", "all" or numbers, ``heads`` "all" or numbers, ``cross`` chooses the
    cross-attention of an encoder–decoder, ``scores`` are measures of importance, or one (by default `attnaudit.hf.importance.USUAL`).
    ``positions`` of a text, or of a target, are those whose next token is predicted: the "last" (the default of a causal language model),
    "one" drawn with ``seed`` (that of an encoder–decoder) or "all"; column ``query`` says which one a row is of, and rows of one text are
    drawn together in every interval. A tail that is stored as a graph stays in ``folder``, by default a temporary one. Raises InputError
    for a model that cannot be audited and for texts that do not fit it.
    """
    scores = known(USUAL if scores is None else scores)
    gate = check_model(model)
    chosen = choose_layers(gate, layers, heads, cross)
    positions = positions_of(kind_of(model), positions)
    texts = read_texts(corpus, kind_of(model), seed=seed, progress=progress)
    outputs = outputs_of(model, texts, class_names)
    encoded = encode(
        model, tokenizer, texts, max_tokens=max_tokens, on_empty="skip", outputs=outputs
    )
    require_texts(encoded, texts, texts.name)
    encoded = at_positions(encoded, positions, seed)
    metadata = {
        "corpus": {
            "name": texts.name, "task": texts.kind, "fingerprint": texts.fingerprint, "positions": positions,
            "notes": [*gate.notes, *windows(model, gate, chosen, encoded), *notes_of(texts, encoded, outputs)],
        },
        "model": {"name": gate.model, "fingerprint": model_fingerprint(model), **(outputs.to_json() if outputs else {})},
        "gate": gate.to_json(),
    }  # fmt: skip
    with ExitStack() as stack:
        if folder is None:
            folder = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="attnaudit-", ignore_cleanup_errors=True)
            )
        shards = collect_shards(
            model, encoded, gate, chosen, Path(folder), class_names=output_names(model, tokenizer, encoded.class_names), scores=scores,
            metadata=metadata, progress=progress,
        )  # fmt: skip
        trace = concatenate(list(shards))
        weakref.finalize(trace.tail, stack.pop_all().close)  # which may read its graph from there
    return trace

"""Collect: a transformer and texts give a trace, at the query that the prediction reads."""

import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from torch import Tensor
from transformers import Pipeline, PreTrainedModel

from attnaudit.core import InputError, Progress, describe_error, silent
from attnaudit.core.errors import did_you_mean
from attnaudit.core.ragged import Ragged
from attnaudit.core.settings import check_numbers
from attnaudit.corpora.spec import CorpusSpec, ParallelSpec
from attnaudit.hf.choose import OPERATION, Chosen, Numbers, choose_layers, keys_seen
from attnaudit.hf.classes import outputs_of
from attnaudit.hf.encode import encode, notes_of, output_names
from attnaudit.hf.encoded import Encoded, Positions, Written, positions_of
from attnaudit.hf.gate import Gate, check_model
from attnaudit.hf.importance import (
    USUAL,
    defined_measures,
    heads_of_text,
    measure,
    require_heatmap,
    require_measures,
)
from attnaudit.hf.importance.case import Case
from attnaudit.hf.labels import labelled
from attnaudit.hf.layers import Probe
from attnaudit.hf.model import (
    FAILURES,
    WRITING,
    frozen,
    model_fingerprint,
    positions_per_pass,
    require_task,
)
from attnaudit.hf.network import Replay
from attnaudit.hf.record import record
from attnaudit.hf.replacement import PieceReplacement, SegmentDonors, WordDonors
from attnaudit.hf.replay import states_of
from attnaudit.hf.tail import MOST_PARAMETERS, write_tail
from attnaudit.hf.texts import read_texts, with_answers, with_segments
from attnaudit.hf.unwrap import one_output, unwrap
from attnaudit.trace import COLUMNS, SHOWN, Trace, aggregate, concatenate
from attnaudit.trace.tails import GRAPH_FILE, GraphTail
from attnaudit.trace.words import SPECIAL
from attnaudit.tracing.settings import HEATMAP, ReplacementSettings

SHARD_TEXTS, SHARD_BYTES = 64, 1 << 26  # of a file, whichever is less
BUDGET = 4096  # padded positions of a batch
ANSWER = ["another answer", "the answer"]
SINK = "<sink>"  # a position that takes attention and gives nothing


@dataclass(frozen=True)
class ShardOptions:
    """Contents of a trace, and options of its computation.

    Attributes:
        class_names: Names of the outputs.
        scores: Measures of importance.
        heatmap: The heatmap that is shown (`require_heatmap`); None for no column of it.
        replacement: Settings of the copies of texts with words replaced; None for no copies.
        part: Texts to trace, ascending; by default all. Replacement words come from all texts.
        metadata: Entries to add to the trace's metadata.
        budget: Padded positions of a batch; it bounds memory.
        shard_texts: Texts of a shard, by default as many as make a file of `SHARD_BYTES`.
        graph: False to replay the model even if the tail can be stored as a graph.
        progress: Receives the number of texts done.
    """

    class_names: Sequence[str]
    scores: str | Sequence[str] = USUAL
    heatmap: str | None = HEATMAP
    replacement: ReplacementSettings | None = None
    part: np.ndarray | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    budget: int = BUDGET
    shard_texts: int | None = None
    graph: bool = True
    progress: Progress = silent


def collect_shards(
    model: Any,
    encoded: Encoded,
    gate: Gate,
    chosen: Sequence[Chosen],
    folder: Path | None = None,
    **options: Any,
) -> Iterator[Trace]:
    """Collect the trace of encoded texts shard by shard, with a row for every chosen head.

    If only the last layer is chosen, and what follows it can be exported, the tail is an ONNX
    graph; else the model is the tail (`Replay`).

    Args:
        model: The model.
        encoded: The texts.
        gate: Checks of the model.
        chosen: Attentions (`choose_layers`).
        folder: Folder of the graph, by default a temporary one.
        **options: Fields of `ShardOptions`.

    Raises:
        InputError: The model fails on these texts, or a query sees no stretch of tokens.
    """
    given = ShardOptions(**options)
    with tempfile.TemporaryDirectory() as temporary, frozen(model):
        encoded = _without_padding_at_ends(model, gate, encoded)
        collector = _Collector(model, gate, chosen, folder or Path(temporary), given)
        texts = np.arange(len(encoded)) if given.part is None else given.part
        replaced, settings = None, given.replacement
        # Words of the text are replaced, and a decoder's own attention is over its target.
        answers = encoded.answered is not None
        of_text = answers or encoded.keys_of(chosen[0].layer.stack) is encoded
        if settings is not None and settings.texts and of_text:
            ends = (encoded.read.ids.lengths,) if gate.task in WRITING else ()
            ends = ends if encoded.at is None else (encoded.at,)
            replaced = PieceReplacement(
                keys=(encoded.instance, *ends),
                donors=(WordDonors if encoded.segment is None else SegmentDonors)(encoded),
                outputs=len(ANSWER if answers else given.class_names),
                settings=settings,
                progress=given.progress,
                model=model,
                gate=gate,
                budget=given.budget,
            )
        size = given.shard_texts or texts_of_a_shard(encoded, chosen, given.class_names)
        for start in range(0, len(texts), size):
            own = texts[start : start + size]
            part = encoded.take(own)
            try:
                shard = collector.shard(part, {} if replaced is None else replaced.columns(own))
            except FAILURES as error:
                longest = int(part.ids.lengths.max(initial=0))
                got = f"it fails on texts of up to {longest} tokens ({describe_error(error)})"
                expected = "a model that treats all texts as it does the short ones of the checks"
                do = "cut the texts (--set collect.max_tokens=…), or mend the model"
                raise InputError(OPERATION, gate.model, got, expected, do) from error
            yield shard
            given.progress("collect", start + len(part), len(texts))


def _without_padding_at_ends(model: Any, gate: Gate, encoded: Encoded) -> Encoded:
    """Remove padding tokens at the end of texts, of which a classifier reads the last other token.

    As in a decoder whose tokenizer appends [EOS] and pads with it too.
    """
    pad = model.config.get_text_config().pad_token_id
    if gate.task != "classification" or gate.reads != -1 or pad is None:
        return encoded
    sizes = np.array([1 + np.flatnonzero(ids != pad).max(initial=0) for ids in encoded.ids])
    return replace(encoded.up_to(sizes), label=encoded.label)


def texts_of_a_shard(encoded: Encoded, chosen: Sequence[Chosen], class_names: Sequence[str]) -> int:
    """Return how many texts of the longest kind fit into a file."""
    longest, outputs = int(encoded.ids.lengths.max(initial=1)), len(class_names)
    size = sum(len(one.heads) * (longest * one.layer.width + outputs) * 4 for one in chosen)
    return int(np.clip(SHARD_BYTES // size, 1, SHARD_TEXTS))


@dataclass(frozen=True)
class _Collector:
    """State shared by the shards of a trace."""

    model: Any
    gate: Gate
    chosen: Sequence[Chosen]
    folder: Path
    options: ShardOptions

    @cached_property
    def tail(self) -> GraphTail | Replay:
        last, output = self.chosen[-1], self.model.get_output_embeddings()
        network, gate = Replay(self.model, self.gate), self.gate
        alone = self.options.graph and len(self.chosen) == 1 and last.layer.way == "position"
        if not alone or (output is not None and output.weight.numel() > MOST_PARAMETERS):
            return network
        probe, task = Probe.of(self.model), require_task(self.model)
        texts = [
            states_of(self.model, probe.alone(row), task, gate.reads or 0)
            for row in range(len(probe.mask))
        ]
        return write_tail(self.model, texts, last.number, self.folder / GRAPH_FILE) or network

    def shard(self, encoded: Encoded, replaced: Mapping[str, pl.Series]) -> Trace:
        """Return the trace of texts.

        Args:
            encoded: The texts.
            replaced: Columns about replaced words, one value per text.
        """
        found: dict[int, list[dict[str, Any]]] = {}
        size = positions_per_pass(self.model, self.options.budget)
        seed = self.options.replacement.seed if self.options.replacement else 0
        heatmap = self.options.heatmap and require_heatmap(self.options.heatmap)
        answers = encoded.answered is not None
        for rows in encoded.batches(size, self.gate.batching):
            part = encoded.take(rows)
            case = Case(self.model, self.gate, part, self.options.budget, seed=seed)
            columns: dict[int, Tensor] = {}
            if not answers:
                slopes = case.graph.slopes_of_weights(one.number for one in self.chosen)
                columns = {number: case.at_query(number, one) for number, one in slopes.items()}
                del slopes
            hidden = None  # the input of the last layer, which a graph reads
            if not answers and isinstance(self.tail, GraphTail):
                hidden = record(self.model, case.inputs)[1][self.chosen[-1].number].call.hidden
            scores = {
                name if name in COLUMNS else f"importance_{name}": case.texts.ids.with_values(one)
                for name, one in measure(case, self.options.scores, heatmap).items()
            }
            for k, row in enumerate(rows.tolist()):
                if answers:
                    found[row] = [_answer_row(case, k, scores)]
                else:
                    found[row] = self._rows(case, k, columns, scores, hidden)
        texts, every = zip(*((k, row) for k in sorted(found) for row in found[k]), strict=True)
        # Copies of a text do not apply to a row with only some of its positions.
        whole = [
            k if answers or len(row["tokens"]) - row["sink"] == len(encoded.tokens[k]) else None
            for k, row in zip(texts, every, strict=True)
        ]
        metadata = dict(self.options.metadata)
        if f"importance_{SHOWN}" in every[0]:
            metadata["heatmap"] = self.options.heatmap
        trace = Trace.from_arrays(
            activation="softmax",
            class_names=ANSWER if answers else list(self.options.class_names),
            metadata=metadata,
            tail=None if answers else self.tail,
            origin=self.gate.model,
            **{name: [row[name] for row in every] for name in every[0]},
            **{name: one.gather(pl.Series(whole)) for name, one in replaced.items()},
        )
        return trace if encoded.segment is None else aggregate(trace)

    def _rows(
        self,
        case: Case,
        k: int,
        slopes: Mapping[int, Tensor],
        scores: Mapping[str, Ragged],
        hidden: Tensor | None,
    ) -> list[dict[str, Any]]:
        """Return the rows of one text of a batch."""
        texts, query, rows = case.texts, int(case.query[k]), []
        text = _of_text(case, k)
        if hidden is None:  # for replays
            written = texts.written and texts.written.ids
            ids = {"ids": texts.ids, "type_ids": texts.type_ids, "written_ids": written}
            text |= {name: one[k].tolist() for name, one in ids.items() if one is not None}
        for one in self.chosen:
            attention, layer, sink = case.attentions[one.number], one.layer, int(one.layer.sink)
            keys = keys_seen(self.gate, layer, attention, texts, k, query)
            weights = _array(attention.weights[k, :, query, keys])
            values = _array(attention.values[k, :, keys])
            sums = np.einsum("hk,hkd->hd", weights.astype(np.float64), values).astype(np.float32)
            slope = np.pad(_array(slopes[one.number][k, :, keys]), ((0, 0), (0, sink)))
            values = np.pad(values, ((0, 0), (0, sink), (0, 0)))
            if sink:  # a position behind the tokens
                rest = 1.0 - weights.sum(axis=1, keepdims=True).astype(np.float64)
                weights = np.concatenate([weights, rest.clip(min=0).astype(np.float32)], axis=1)
            own = texts.keys_of(layer.stack)
            columns = {
                **text,
                **_of_tokens(case, k, own, keys, scores, sink),
                "query": query,
                "stack": layer.stack,
                "layer": layer.layer,
                "sink": layer.sink,
                "first_key": keys.start,
            }
            if texts.written is not None:
                columns["question"] = (texts if own is texts.written else texts.written).tokens[k]
            for head in one.heads:
                offset = np.zeros(layer.width, np.float32)
                if hidden is not None:
                    # The sums of the other heads, and the hidden state that the layer was given.
                    others = sums.copy()
                    others[head] = 0.0
                    offset = np.concatenate([others.reshape(-1), _array(hidden[k, query])])
                of_head = {"alpha": weights[head], "readout": values[head], "offset": offset}
                rows.append({**columns, **of_head, "head": head, "alpha_gradient": slope[head]})
        return rows


def _answer_row(case: Case, k: int, scores: Mapping[str, Ragged]) -> dict[str, Any]:
    """Return the row of a text whose answer is predicted; it has scores and no attention.

    The weights of several queries act on an answer together, which no readout can tell.
    """
    texts = case.texts
    assert texts.answered is not None
    if texts.written is not None:
        prompt, answer = slice(None), texts.written.tokens[k][1:]
    else:
        size = len(texts.tokens[k]) + int(texts.answered[k].min()) + 1
        prompt, answer = slice(size), texts.tokens[k][size:]
    of_tokens = _of_tokens(case, k, texts, prompt, scores)
    return {**_of_text(case, k), **of_tokens, "question": answer}


def _of_tokens(
    case: Case,
    k: int,
    own: Encoded | Written,
    chosen: slice,
    scores: Mapping[str, Ragged],
    sink: int = 0,
) -> dict[str, Any]:
    """Return the columns of some tokens of a text or its target, with a sink behind them."""
    texts = case.texts
    words = np.pad(own.word_id[k][chosen], (0, sink), constant_values=SPECIAL)
    columns: dict[str, Any] = {
        "tokens": own.tokens[k][chosen] + [SINK] * sink,
        "word_id": words,
        "special": words == SPECIAL,
    }
    if own is not texts:
        return columns
    columns |= {name: np.pad(one[k][chosen], (0, sink)) for name, one in scores.items()}
    columns |= texts.groups(k, chosen, sink)
    if (shown := columns.get(f"importance_{SHOWN}")) is not None:
        # Values of tokens that are left out are missing from the sum.
        shown = shown if shown.any() else np.ones_like(shown)
        columns[f"importance_{SHOWN}"] = shown / shown.sum()
    if texts.rationale is not None:
        marks = texts.rationale[k]
        columns["rationale"] = marks[chosen] + [False] * sink if marks else None
    return columns


def _of_text(case: Case, k: int) -> dict[str, Any]:
    """Return columns of a text, the same in all of its rows."""
    texts, label = case.texts, None  # an answer is right or wrong by no label
    if texts.answered is not None:
        pass
    elif texts.written is not None:
        label = texts.written.next_ids[k][-1]
    elif texts.label is not None:
        label = texts.label[k]
    return {
        "instance": texts.instance[k],
        "split": texts.split[k],
        "prediction": _array(case.logits[k].double().softmax(dim=-1)),
        **({} if label is None else {"label": int(label) if label >= 0 else None}),
    }


def _array(values: Tensor) -> np.ndarray:
    return values.float().cpu().numpy()


@dataclass(frozen=True)
class CollectOptions:
    """Options of `collect`.

    Attributes:
        layers: ``last``, ``all`` or numbers from 0.
        heads: ``all`` or numbers from 0.
        cross: True for the cross-attention of an encoder–decoder.
        positions: Positions of a text, or of a target, whose label or next token is predicted: the
            ``last`` (default of a causal language model), ``one`` that is drawn (of an
            encoder–decoder and of a classifier of tokens), or ``all``. Column ``query`` has the
            position of a row.
        seed: Seed of the draw.
        scores: Measures of importance, or one of them.
        heatmap: The heatmap that people are shown, which is what an audit judges: ``mean-last``,
            the mean over the heads of the last layer, ``mean-all`` over those of all layers,
            ``head:3.11`` of one layer and head, or any measure, as ``rollout``. Values are
            magnitudes divided by their sum over the text. None for no heatmap.
        replacement: Settings of the copies of texts with words replaced; None for no copies.
        class_names: Names of a classifier's outputs in place of its own.
        max_tokens: Longest text in tokens.
        output: Name of the output to audit, of a classifier whose outputs are probabilities of
            their own (several labels); ``start`` or ``end`` of an extracted answer.
        segments: Positions of the trace in place of tokens: ``sentences``, ``lines``, or a regular
            expression for what separates segments. By default those of the texts, if
            `read_texts` was given ``segments="column"``.
        generate: Tokens of an answer that the model writes itself, at most; the prediction is of
            this answer.
        progress: Receives the number of texts done.
    """

    layers: Numbers = "last"
    heads: Numbers = "all"
    cross: bool = False
    positions: Positions | None = None
    seed: int = 0
    scores: str | Sequence[str] | None = None
    heatmap: str | None = HEATMAP
    replacement: ReplacementSettings | None = None
    class_names: Sequence[str] | None = None
    max_tokens: int | None = None
    output: str | None = None
    segments: str | None = None
    generate: int | None = None
    progress: Progress = silent


def collect(model: Any, tokenizer: Any = None, corpus: Any = None, **options: Any) -> Trace:
    """Collect the trace of a model of the transformers library, a row for every text and head.

    The model is checked first (`check_model`). Rows of one text are drawn together in every
    interval.

    Args:
        model: The model, also within a pipeline, DataParallel or `torch.compile`, or with adapters
            of PEFT, which are merged into a copy.
        tokenizer: Its fast tokenizer. A pipeline has one: ``collect(pipeline, corpus)``.
        corpus: A path, the name of a corpus, a `Corpus` (its test split), a list of texts or of
            pairs, a DataFrame, or the result of `read_texts`, which has options.
        **options: Fields of `CollectOptions`, and others of `read_texts`, as ``text="body"``.

    Returns:
        The trace.

    Raises:
        InputError: The model cannot be audited, or the texts do not fit it.
    """
    own = {one.name for one in fields(CollectOptions)}
    reading = {name: options.pop(name) for name in options.keys() - own}
    of_files = {one.name for spec in (CorpusSpec, ParallelSpec) for one in fields(spec)}
    for name in sorted(reading.keys() - of_files - {"split", "preset"}):
        near = did_you_mean(name, own | of_files)
        raise InputError(
            OPERATION, f"option {name}", "no such option", ", ".join(sorted(own)), near
        )
    check_numbers(given := CollectOptions(**options), operation=OPERATION)
    scores = require_measures(USUAL if given.scores is None else given.scores)
    if isinstance(model, Pipeline):
        tokenizer, corpus = (model.tokenizer, tokenizer) if corpus is None else (tokenizer, corpus)
        tokenizer = model.tokenizer if tokenizer is None else tokenizer
    model = one_output(unwrap(model), given.output)
    if isinstance(model, PreTrainedModel):
        require_task(model)  # refused before the passes of the checks
    gate = check_model(model)
    chosen = choose_layers(gate, given.layers, given.heads, given.cross)
    if given.heatmap is not None:
        require_heatmap(given.heatmap, heads_of_text(gate))
    defined_measures(model, scores, given.heatmap)
    task, seed = require_task(model), given.seed
    texts = read_texts(corpus, task, seed=seed, progress=given.progress, **reading)
    texts = with_segments(texts, given.segments)
    texts = with_answers(model, tokenizer, texts, given.generate, given.progress)
    answers = texts.answer is not None or given.generate is not None
    positions = positions_of(task, given.positions, answers)
    outputs = outputs_of(model, texts, given.class_names)
    cut = {"max_tokens": given.max_tokens, "on_empty": "skip"}
    encoded = encode(model, tokenizer, texts, outputs=outputs, **cut)
    encoded = labelled(model, encoded, positions, seed, gate.batching)
    metadata = {
        "corpus": {
            "name": texts.name,
            "task": texts.kind,
            "fingerprint": texts.fingerprint,
            "positions": positions,
            "notes": [*gate.notes, *notes_of(texts, encoded, outputs)],
        },
        "model": {
            "name": gate.model,
            "fingerprint": model_fingerprint(model),
            **(outputs.to_json() if outputs else {}),
            **({"output": given.output} if given.output else {}),
        },
        "gate": gate.to_json(),
    }
    names = output_names(model, tokenizer, encoded.class_names)
    with ExitStack() as stack:
        temporary = tempfile.TemporaryDirectory(prefix="attnaudit-", ignore_cleanup_errors=True)
        folder = Path(stack.enter_context(temporary))
        shared = {"class_names": names, "scores": scores, "metadata": metadata}
        shared |= {"replacement": given.replacement, "heatmap": given.heatmap}
        shards = collect_shards(
            model, encoded, gate, chosen, folder, **shared, progress=given.progress
        )
        trace = concatenate(list(shards))
        # The tail may read its graph from there, as long as it lives.
        weakref.finalize(trace.tail, stack.pop_all().close)
    return trace

"""What if the attention of all heads of a layer changes at once? One head alone may hardly "
"matter because the others say the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int64

from attnaudit.core.papers import JAIN2019, WIEGREFFE2019
from attnaudit.core.ragged import Ragged, concatenate
from attnaudit.core.random import shuffled
from attnaudit.core.settings import setting
from attnaudit.experiments.maximal_change.found import one_head
from attnaudit.experiments.rows import keys, require, row_streams
from attnaudit.experiments.through_tail import is_flip, two_classes
from attnaudit.results import summarise_means
from attnaudit.results.groups import by_group
from attnaudit.results.measures import Measure
from attnaudit.stats.measures import predicted_class, tvd
from attnaudit.trace import Trace
from attnaudit.trace.joint import JointReadout

NUMBERS = 1 << 22  # attended sums of one call
_NAMED = ("split", "instance", "query")


@dataclass(frozen=True)
class Joint:
    """The attention of all heads of a layer, at one query, replaced at once; all other layers as they follow from it.

    ``joint_uniform`` is the TVD to the output with uniform weights in all heads, ``joint_shuffled`` the median over ``shuffles`` with each
    head's weights shuffled by itself, ``joint_max_delta_y`` the largest that was found: with all weight of each head on one token
    (the heads in turn, ``sweeps`` times), or by one head alone, and ``joint_flips`` whether one of those tried flips the decision. In a
    trace of several layers ``layers_uniform``, ``layers_shuffled``, ``layers_max_delta_y`` and ``layers_flips`` are the same for all
    recorded heads of all layers at once, with the weights that each layer's search ended with in place of a further search; what one
    layer can do counts too. The values of a layer are those that follow from the layers below. A row has the figures of its layer and text.
    """

    name = "joint"
    needs = ("head",)
    scope = "traces of several heads"
    papers = (JAIN2019, WIEGREFFE2019)
    measures = (
        Measure(
            "joint_uniform",
            "Δŷ with uniform weights in all heads of the layer",
            "Total variation distance of the output with uniform weights in all heads of a layer "
            "at once, 0 to 1.",
            "higher",
        ),
        Measure(
            "joint_shuffled",
            "median Δŷ with shuffled weights in all heads of the layer",
            "Median total variation distance with the weights of every head of a layer shuffled, "
            "0 to 1.",
            "higher",
        ),
        Measure(
            "joint_max_delta_y",
            "largest Δŷ found, all heads of the layer at once",
            "Largest total variation distance found with all weight of each head of a layer on "
            "one token, 0 to 1.",
            "higher",
        ),
        Measure(
            "joint_flips",
            "share flipped by weights of all heads of the layer",
            "Share of texts whose decision flips under some weights tried for all heads of a "
            "layer at once.",
        ),
        Measure(
            "layers_uniform",
            "Δŷ with uniform weights in all heads of all layers",
            "Total variation distance of the output with uniform weights in all recorded heads, 0 "
            "to 1.",
            "higher",
        ),
        Measure(
            "layers_shuffled",
            "median Δŷ with shuffled weights in all heads of all layers",
            "Median total variation distance with the weights of all recorded heads shuffled, 0 "
            "to 1.",
            "higher",
        ),
        Measure(
            "layers_max_delta_y",
            "largest Δŷ found, all heads of all layers at once",
            "Largest total variation distance found with other weights in all recorded heads, 0 "
            "to 1.",
            "higher",
        ),
        Measure(
            "layers_flips",
            "share flipped by weights of all heads of all layers",
            "Share of texts whose decision flips under some weights tried for all recorded heads "
            "at once.",
        ),
    )
    seed: int = 0
    shuffles: int = setting("Number of random shuffles of the weights of all heads.", 20)
    sweeps: int = setting(
        "Number of passes over all heads in the search for the largest change.", 2
    )

    def __post_init__(self) -> None:
        require(self, "shuffles", 1 <= self.shuffles <= 10_000, "a whole number from 1 to 10,000")
        require(self, "sweeps", 1 <= self.sweeps <= 100, "a whole number from 1 to 100")

    def refuses(self, trace: Trace) -> str | None:
        several = trace.has("instance") and len(np.unique(trace.array("head"))) > 1
        return None if several else "a layer of one head is what the other experiments are about"

    def __call__(self, trace: Trace) -> pl.DataFrame:
        alone = one_head(trace).change  # which all heads at once can do too
        tried = [_uniform(trace.alpha), *_shuffled(trace, self.seed, self.shuffles)]
        layer = _Search(
            JointReadout(trace.readout, trace.alpha, groups_of(trace, (*_NAMED, "layer")))
        )
        most = layer.most(self.sweeps)
        change, flips = (
            _to_rows(values, layer.joint.groups) for values in (most.change, most.flips)
        )
        found = self._measured(
            "joint",
            layer,
            layer.with_sums(tried),
            np.maximum(alone.largest, change),
            alone.flips | flips,
        )
        if trace.has("layer") and len(np.unique(trace.array("layer"))) > 1:
            everything = _Search(JointReadout(trace.readout, trace.alpha, groups_of(trace, _NAMED)))
            compared = everything.with_attention([*tried, most.alpha])
            found |= self._measured(
                "layers", everything, compared, found["joint_max_delta_y"], found["joint_flips"]
            )
        return keys(trace).with_columns(pl.Series(name, values) for name, values in found.items())

    def _measured(
        self,
        name: str,
        search: _Search,
        compared: Compared,
        largest: Float[np.ndarray, " n"],
        flips: Bool[np.ndarray, " n"],
    ) -> dict[str, np.ndarray]:
        """At every row the measures ``<name>_…`` of its group, with what else was found: the "
        "``largest`` change, and ``flips``."""
        groups = search.joint.groups
        measured = {
            "uniform": compared.change[0],
            "shuffled": np.median(compared.change[1 : self.shuffles + 1], axis=0),
            "max_delta_y": np.maximum(compared.change.max(axis=0), _to_groups(largest, groups)),
            "flips": compared.flips.any(axis=0) | _to_groups(flips, groups),
        }
        return {
            f"{name}_{measure}": _to_rows(values, groups) for measure, values in measured.items()
        }

    def summarise(self, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        known = [measure.name for measure in self.measures]

        def measured(rows: pl.LazyFrame) -> pl.LazyFrame:
            return rows.select(name for name in rows.collect_schema().names() if name in known)

        return summarise_means(self.name, by_group(table, measured), self.seed)


def groups_of(trace: Trace, names: tuple[str, ...]) -> Ragged:
    """The rows of every group of one value of the columns ``names``, in the order of their first "
    "rows."""
    found: dict[tuple[object, ...], list[int]] = {}
    columns = [trace.table.column(name).to_pylist() for name in names if trace.has(name)]
    for row, name in enumerate(zip(*columns, strict=True)):
        found.setdefault(name, []).append(row)
    return Ragged.from_rows(found.values(), np.int64)


def _uniform(alpha: Ragged) -> Ragged:
    return alpha.with_values(1.0 / alpha.spread(alpha.lengths.astype(np.float64)))


def _shuffled(trace: Trace, seed: int, shuffles: int) -> Iterator[Ragged]:
    streams, alpha = row_streams(trace, seed, Joint.name), trace.alpha
    for k in range(shuffles):
        alpha = shuffled(alpha, streams, k)
        yield alpha


def _to_groups(values: np.ndarray, groups: Ragged) -> np.ndarray:
    """The largest of the values of its rows, for each group."""
    return groups.with_values(values[groups.values]).reduce(
        np.maximum if values.dtype != bool else np.logical_or
    )


def _to_rows(values: np.ndarray, groups: Ragged) -> np.ndarray:
    """A value of each group at all of its rows."""
    out = np.zeros(len(groups.values), values.dtype)
    out[groups.values] = groups.spread(values)
    return out


@dataclass(frozen=True)
class Most:
    """The largest change found of every group, the weights of all rows that give it, and whether "
    "some that were tried flip the decision."""

    change: Float[np.ndarray, " g"]
    flips: Bool[np.ndarray, " g"]
    alpha: Ragged


class Compared(NamedTuple):
    """How far k outputs of g groups are from their own (TVD), and whether they decide otherwise."""

    change: Float[np.ndarray, "k g"]
    flips: Bool[np.ndarray, "k g"]


@dataclass(frozen=True)
class _Search:
    """Groups, whose outputs under other weights are compared with their own."""

    joint: JointReadout

    @cached_property
    def own(self) -> Float[np.ndarray, "g C"]:
        joint, everything = self.joint, np.arange(len(self.joint.groups))
        parts = [
            joint.predict(part, joint.own[joint.groups.take(part).values])
            for part in self._parts(everything)
        ]
        return np.concatenate(parts)

    def with_sums(self, alphas: Sequence[Ragged]) -> Compared:
        """Under each of the ``alphas``, of all rows, by attended sums of the contributions of "
        "the trace."""
        joint, everything = self.joint, np.arange(len(self.joint.groups))
        sums = [joint.sums(alpha) for alpha in alphas]
        compared = [
            self._compared(
                everything,
                lambda part, of=of: joint.predict(part, of[joint.groups.take(part).values]),
            )
            for of in sums
        ]
        return Compared(*(np.stack(values) for values in zip(*compared, strict=True)))

    def with_attention(self, alphas: Sequence[Ragged]) -> Compared:
        """Under each of the ``alphas``, of all rows, with the values that follow from it; those "
        "of a text in one batch."""
        joint, number, rows = self.joint, len(alphas), len(self.joint.alpha)
        everything = concatenate(list(alphas))
        chosen, which = (
            np.repeat(np.arange(len(joint.groups)), number),
            np.tile(np.arange(number), len(joint.groups)),
        )

        def predicted(part: Int64[np.ndarray, " b"]) -> np.ndarray:
            of_groups = joint.groups.take(chosen[part])
            return joint.predict_from_attention(
                chosen[part],
                everything.take(of_groups.values + rows * of_groups.spread(which[part])),
            )

        return Compared(
            *(values.reshape(-1, number).T for values in self._compared(chosen, predicted))
        )

    def _compared(
        self, groups: Int64[np.ndarray, " m"], predicted: Callable[[np.ndarray], np.ndarray]
    ) -> tuple[Float[np.ndarray, " m"], Bool[np.ndarray, " m"]]:
        """Change and flip of many groups; ``predicted(part)`` are outputs of some of them, by "
        "their positions."""
        change, flips = np.zeros(len(groups)), np.zeros(len(groups), bool)
        for part in self._parts(groups):
            prediction = predicted(part)
            change[part], flips[part] = (
                tvd(prediction, self.own[groups[part]]),
                self._flips(prediction, groups[part]),
            )
        return change, flips

    def _parts(self, groups: Int64[np.ndarray, " m"]) -> Iterator[Int64[np.ndarray, " b"]]:
        """Positions of ``groups``, in parts that memory holds: of a group its sums, and the "
        "input of the tail."""
        size = (
            self.joint.groups.lengths[groups] * self.joint.own.shape[1]
            + self.joint.readout.offset.shape[1]
        )
        return Ragged.from_lengths(np.zeros(0), size).blocks(NUMBERS)

    def _flips(
        self, prediction: Float[np.ndarray, "m C"], groups: Int64[np.ndarray, " m"]
    ) -> np.ndarray:
        both, decided = two_classes(prediction), predicted_class(self.own)[groups]
        at = np.arange(len(both)), decided
        lead, others = both[at], both.copy()
        others[at] = -np.inf
        return is_flip(lead - others.max(axis=1))

    def most(self, sweeps: int) -> Most:
        """The heads in turn: each is given all weight on the token that changes the output most, "
        "the others as they are by then."""
        joint, groups = self.joint, self.joint.groups
        current, best = joint.own.copy(), np.zeros(len(groups))
        alpha, flips = joint.alpha.values.copy(), np.zeros(len(groups), bool)
        for _ in range(sweeps):
            for place in range(int(groups.lengths.max())):
                having = np.flatnonzero(groups.lengths > place)
                rows = groups.values[groups.offsets[having] + place]
                lengths = joint.alpha.lengths[rows]
                tried = np.repeat(having, lengths)
                token = joint.alpha.positions(rows)
                sums = joint.readout.contribution.values[token]
                changed, flipped = self._with_one(tried, place, sums, current)
                offsets = np.concatenate([[0], np.cumsum(lengths)])
                for k, group in enumerate(having.tolist()):
                    part = slice(offsets[k], offsets[k + 1])
                    flips[group] |= flipped[part].any()
                    top = int(changed[part].argmax())
                    if changed[part][top] > best[group] + 1e-9:
                        best[group], current[rows[k]] = changed[part][top], sums[part][top]
                        alpha[joint.alpha.offsets[rows[k]] : joint.alpha.offsets[rows[k] + 1]] = (
                            np.arange(lengths[k]) == top
                        )
        return Most(best, flips, joint.alpha.with_values(alpha))

    def _with_one(
        self,
        tried: Int64[np.ndarray, " m"],
        place: int,
        sums: Float[np.ndarray, "m P"],
        current: Float[np.ndarray, "n P"],
    ) -> tuple[np.ndarray, np.ndarray]:
        """Change and flip of the groups ``tried``, with ``sums`` in their row number ``place`` "
        "and the current ones in the others."""

        def predicted(part: Int64[np.ndarray, " b"]) -> np.ndarray:
            rows = self.joint.groups.take(tried[part])
            found = current[rows.values]
            found[rows.offsets[:-1] + place] = sums[part]
            return self.joint.predict(tried[part], found)

        return self._compared(tried, predicted)

"""Replace the attention of all heads of a layer at once.

A single head may hardly matter because the others carry the same information.
"""

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
from attnaudit.core.settings import Settings, setting
from attnaudit.core.shapes import Indices, PerRow, RowInts, RowMask
from attnaudit.core.tolerance import TOLERANCE
from attnaudit.experiments.maximal_change.search import largest_change, single_tokens
from attnaudit.experiments.ranges.line import lowest
from attnaudit.experiments.rows import (
    make_table,
    row_streams,
    summarise_measures,
)
from attnaudit.experiments.through_tail import Outputs
from attnaudit.results import Measure
from attnaudit.stats.measures import LN2, jsd, predicted_class
from attnaudit.trace import SHOWN, Trace
from attnaudit.trace.joint import JointReadout

# Attended sums of one call: 32 MiB.
NUMBERS = 1 << 22
BISECTIONS = 10  # the share of moved weight is then known to 1/512
# Rows that are equal in these columns have one output, which all of their heads share.
TEXT = ("split", "instance", "query")


@dataclass(frozen=True)
class Joint(Settings):
    """Change of the output when the attention of all heads of a layer is replaced at once.

    ``joint_uniform`` is the TVD to the output with uniform weights in all heads.
    ``joint_shuffled`` is the median TVD over ``shuffles``, each of which shuffles the weights of
    every head. ``joint_max_delta_y`` is the largest TVD found: with all weight of each head on one
    token (the heads in turn, ``sweeps`` times), or by changing only one head. ``joint_flips`` tells
    whether any of the weights tried flips the decision.

    In a trace with ``importance_shown``, ``joint_emax_jsd`` is the largest JSD found of the mean of
    a layer's heads from the model's own, with a TVD of at most ``epsilon``.

    In a trace of several layers, ``layers_uniform``, ``layers_shuffled``, ``layers_max_delta_y``
    and ``layers_flips`` are the same for all recorded heads of all layers. There is no further
    search: the weights that each layer's search ends with are tried together, and changes by one
    layer count too. The values of a layer are recomputed from the layers below. Each row has the
    figures of its layer and text.

    Attributes:
        seed: Seed of the shuffles.
        shuffles: Number of shuffles.
        sweeps: Passes over all heads in the search.
        epsilon: Change of the output (TVD) that counts as none for another mean of the heads.
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
            "Share of decisions that flip under some weights tried for all heads of a "
            "layer at once.",
        ),
        Measure(
            "joint_emax_jsd",
            "JSD of the most different mean of the heads found with nearly the same output",
            "Largest JSD found between the mean of the weights of all heads of a layer and another "
            "with nearly the same output, 0 to ln 2: there may be more different ones.",
            "lower",
            range=(0.0, LN2),
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
            "Share of decisions that flip under some weights tried for all recorded heads at once.",
        ),
    )
    summarise = summarise_measures
    seed: int = 0
    shuffles: int = setting(
        "Number of random shuffles of the weights of all heads.", 20, least=1, most=10_000
    )
    sweeps: int = setting(
        "Number of passes over all heads in the search for the largest change.",
        2,
        least=1,
        most=100,
    )
    epsilon: float = setting(
        "Largest change of the output (TVD) of another mean of the heads.", 0.01, least=0, most=1
    )

    def refuses(self, trace: Trace) -> str | None:
        """Explain why the experiment does not apply to a trace; None if it does."""
        several = trace.has("instance") and len(np.unique(trace.array("head"))) > 1
        return None if several else "a layer of one head is what the other experiments are about"

    def passes(self, tokens: RowInts, heads: int) -> PerRow:
        """Estimate how many outputs of a network each row asks for, by its tokens."""
        return (heads > 1) * (self.sweeps * tokens + (BISECTIONS * tokens + self.shuffles) / heads)

    def __call__(self, trace: Trace) -> pl.DataFrame:
        """Compute the changes of each row's layer and text."""
        readout, alpha = trace.readout, trace.alpha
        # All heads together can do what one can, so their largest change is never smaller.
        outputs = Outputs.of(readout, alpha)
        alone = largest_change(outputs, single_tokens(outputs))
        uniform = alpha.with_values(1.0 / alpha.spread(alpha.lengths))
        tried = [uniform, *shuffles_of(trace, self.seed, self.shuffles)]
        layer = JointSearch(readout, alpha, groups_of(trace, (*TEXT, "layer")))
        most = layer.search(self.sweeps)
        largest = np.maximum(alone.largest, layer.to_rows(most.change))
        flips = alone.flips | layer.to_rows(most.flips)
        columns = self._measure("joint", layer, layer.compare(tried, follow=False), largest, flips)
        if trace.has(f"importance_{SHOWN}"):
            columns["joint_emax_jsd"] = layer.to_rows(layer.furthest_mean(self.epsilon))
        # Layers hear of each other through tokens, which a trace of segments no longer has.
        is_replayed = trace.has("layer") and not trace.metadata.get("segments")
        if is_replayed and len(np.unique(trace.array("layer"))) > 1:
            text = JointSearch(readout, alpha, groups_of(trace, TEXT))
            found = columns["joint_max_delta_y"], columns["joint_flips"]
            columns |= self._measure(
                "layers", text, text.compare([*tried, most.alpha], follow=True), *found
            )
        return make_table(trace, columns)

    def _measure(
        self,
        name: str,
        search: JointSearch,
        compared: Compared,
        largest: PerRow,
        flips: RowMask,
    ) -> dict[str, np.ndarray]:
        """Measure the groups and spread the values to their rows.

        ``largest`` and ``flips`` were found in single rows, and count for their groups too.
        """
        measures = {
            "uniform": compared.change[0],
            "shuffled": np.median(compared.change[1 : self.shuffles + 1], axis=0),
            "max_delta_y": np.maximum(compared.change.max(axis=0), search.from_rows(largest)),
            "flips": compared.flips.any(axis=0) | search.from_rows(flips),
        }
        return {f"{name}_{measure}": search.to_rows(v) for measure, v in measures.items()}


def groups_of(trace: Trace, names: Sequence[str]) -> Ragged:
    """Group the rows of a trace.

    Args:
        trace: The trace.
        names: Columns in which the rows of a group are equal; those it lacks are ignored.

    Returns:
        Row numbers of each group, ordered by their first rows.
    """
    present = [name for name in names if trace.has(name)]
    rows = trace.table.with_row_index("row").group_by(present, maintain_order=True).agg("row")
    return Ragged.from_rows(rows["row"].to_list(), np.int64)


def shuffles_of(trace: Trace, seed: int, shuffles: int) -> list[Ragged]:
    """Shuffle the weights of each row.

    Args:
        trace: The trace.
        seed: Seed of the shuffles.
        shuffles: Number of shuffles.

    Returns:
        Attention of all rows, for each shuffle.
    """
    streams, alphas = row_streams(trace, seed, Joint.name), [trace.alpha]
    # A shuffle of shuffled weights is as random as a shuffle of the original ones.
    for k in range(shuffles):
        alphas.append(shuffled(alphas[-1], streams, k))
    return alphas[1:]


# Maps the numbers of some alternatives, and the rows of their groups, to predictions.
Predict = Callable[[Int64[np.ndarray, " b"], Ragged], Float[np.ndarray, "b C"]]


class Compared(NamedTuple):
    """Changes of the output (TVD) and flips, for k alternatives of g groups."""

    change: Float[np.ndarray, "*k g"]
    flips: Bool[np.ndarray, "*k g"]


class Found(NamedTuple):
    """Outcome of a search.

    Attributes:
        change: Largest change of the output found in each group, in TVD.
        flips: Whether any attention tried flips the decision of the group.
        alpha: Attention of all rows at the end of the search.
    """

    change: Float[np.ndarray, " g"]
    flips: Bool[np.ndarray, " g"]
    alpha: Ragged


@dataclass(frozen=True)
class JointSearch(JointReadout):
    """Search for attention of all rows of a group that changes the group's output."""

    @cached_property
    def outputs(self) -> Outputs:
        """Outputs of the groups under the model's own attention."""
        groups = np.arange(len(self.groups))
        read = self._read(groups, lambda part, rows: self.predict(part, self.own[rows.values]))
        own = np.concatenate([prediction for _, prediction in read])
        return Outputs(self.readout, self.alpha, own, predicted_class(own))

    def from_rows(self, values: np.ndarray) -> np.ndarray:
        """Return the largest value among the rows of each group."""
        return self.groups.with_values(values[self.groups.values]).max()

    def to_rows(self, values: np.ndarray) -> np.ndarray:
        """Return the value of each row's group."""
        rows = np.empty(len(self.groups.values), values.dtype)
        rows[self.groups.values] = self.groups.spread(values)
        return rows

    def compare(self, alphas: Sequence[Ragged], follow: bool) -> Compared:
        """Compare the groups' outputs under alternative attention with their own.

        Args:
            alphas: Alternatives, each the attention of all rows.
            follow: Whether to recompute the values of upper layers from it; otherwise they are
                those of the trace.
        """
        rows, sums = len(self.alpha), self.readout.weighted_sums
        every = concatenate(list(alphas)) if follow else np.vstack([sums(a) for a in alphas])
        # Alternatives of a text are neighbours, so that a network reads them in one batch.
        groups = np.repeat(np.arange(len(self.groups)), len(alphas))
        which = np.tile(np.arange(len(alphas)), len(self.groups))

        def predict(part, members):
            chosen = members.values + rows * members.spread(which[part])
            if isinstance(every, Ragged):
                return self.predict_from_attention(groups[part], every.take(chosen))
            return self.predict(groups[part], every[chosen])

        compared = self._compare(groups, predict)
        return Compared(*(values.reshape(-1, len(alphas)).T for values in compared))

    def search(self, sweeps: int) -> Found:
        """Move all weight of each head in turn to the token that changes the output most.

        The other heads keep the weights that earlier steps gave them. A head is left as it is if
        no token changes the output more than before.

        Args:
            sweeps: Passes over all heads.
        """
        groups, own, contribution = self.groups, self.alpha, self.readout.contribution
        current, best = self.own.copy(), np.zeros(len(groups))
        alpha, flips = own.values.copy(), np.zeros(len(groups), bool)
        for place in np.tile(np.arange(groups.lengths.max()), sweeps).tolist():
            having = np.flatnonzero(groups.lengths > place)
            rows = groups.values[groups.offsets[having] + place]
            tokens = Ragged.from_lengths(own.positions(rows), own.lengths[rows])
            compared = self._each_token(tokens, having, place, current)
            flips[having] |= tokens.with_values(compared.flips).max()
            top = lowest(tokens.with_values(-compared.change))
            # Any smaller gain could be rounding, and the order of a sum would choose the token.
            better = compared.change[top] > best[having] + TOLERANCE.solver
            best[having[better]], rows = compared.change[top][better], rows[better]
            top = tokens.values[top[better]]
            current[rows] = contribution.values[top]
            alpha[own.positions(rows)], alpha[top] = 0.0, 1.0
        return Found(best, flips, own.with_values(alpha))

    def furthest_mean(self, epsilon: float) -> Float[np.ndarray, " g"]:
        """Find how far the mean of a group's heads moves with nearly the same output.

        All heads move one share of their weight to the same token, for each token in turn. The
        share is bisected: the largest of those tried counts whose output changes by ``epsilon`` at
        most.

        Returns:
            The largest JSD from the group's own mean, a lower bound; NaN if its rows differ in
            their number of positions.
        """
        groups, alpha = self.groups, self.alpha
        sizes = groups.with_values(alpha.lengths[groups.values])
        least = sizes.reduce(np.minimum)
        tokens = Ragged.from_lengths(np.zeros(least.sum()), least)
        tried, place = tokens.row_of_value, tokens.places
        share, low, high = np.ones(len(tried)), np.zeros(len(tried)), np.ones(len(tried))

        def predict(part, members):
            rows, moved = members.values, members.spread(share[part])[:, None]
            token = alpha.offsets[rows] + members.spread(place[part])
            vertex = self.readout.contribution.values[token]
            return self.predict(tried[part], (1.0 - moved) * self.own[rows] + moved * vertex)

        for _ in range(BISECTIONS):
            inside = self._compare(tried, predict).change <= epsilon
            low, high = np.where(inside, share, low), np.where(inside, high, share)
            share = (low + high) / 2.0
        found = np.full(len(groups), np.nan)
        for group in np.flatnonzero(least == sizes.max()).tolist():
            own = np.mean([alpha[row] for row in groups[group].tolist()], axis=0)
            moved = tokens.with_values(low)[group][:, None]
            other = (1.0 - moved) * own + moved * np.eye(len(own))
            found[group] = jsd(other, np.broadcast_to(own, other.shape)).max()
        return found

    def _each_token(
        self,
        tokens: Ragged,
        groups: Indices,
        place: int,
        current: Float[np.ndarray, "n P"],
    ) -> Compared:
        """Put all weight on each token in turn, in the row at ``place`` of each group."""
        tried, sums = tokens.spread(groups), self.readout.contribution.values

        def predict(part, members):
            replaced = current[members.values]
            replaced[members.offsets[:-1] + place] = sums[tokens.values[part]]
            return self.predict(tried[part], replaced)

        return self._compare(tried, predict)

    def _compare(self, groups: Indices, predict: Predict) -> Compared:
        """Compare alternatives of ``groups`` with the groups' own outputs."""
        compared = Compared(np.zeros(len(groups)), np.zeros(len(groups), bool))
        for part, prediction in self._read(groups, predict):
            compared.change[part] = self.outputs.distance(prediction, groups[part])
            compared.flips[part] = self.outputs.flips(prediction, groups[part])
        return compared

    def _read(
        self, groups: Indices, predict: Predict
    ) -> Iterator[tuple[Int64[np.ndarray, " b"], Float[np.ndarray, "b C"]]]:
        """Predict alternatives of ``groups`` in calls of bounded memory."""
        # A call holds the attended sums of all heads of a group, and one input of the tail.
        sums = self.groups.lengths[groups] * self.own.shape[1]
        numbers = sums + self.readout.offset.shape[1]
        for part in Ragged.from_lengths(groups, numbers).blocks(NUMBERS):
            yield part, predict(part, self.groups.take(groups[part]))

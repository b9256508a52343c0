"""The smallest set of positions whose removal flips the decision.

With an identity tail it is found exactly, which Serrano & Smith 2019 call out of reach. A class
``y'`` overtakes the predicted ``y`` once the logits of what is left, ``offset + Σ_{t∉S} alpha_t ·
contribution_t / Σ_{t∉S} alpha_t``, differ the other way. The weight left is positive, so the sign
that must turn is that of ``Σ_{t∉S} m_t`` with ``m_t = alpha_t · (contribution_ty − contribution_ty' +
offset_y − offset_y')``. Of all sets of one size the one with the largest ``m_t`` leaves the least, so
a sort finds the smallest set against ``y'``, and the least over rivals ``y'`` is the smallest of all:
O(C · T log T). Through another tail the search is greedy.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int64

from attnaudit.experiments.erasure.removal import Rows, Walks, added_up, order_by, without_each
from attnaudit.trace.tails import IdentityTail

TRIED, GREEDY = 4, 8  # next positions read at each step of the search behind a network, and steps
NONE = np.iinfo(np.int64).max


class SmallestSet:
    """Smallest sets so far that flip the decisions of ``rows``.

    Attributes:
        size: Number of positions, ``(n,)``; `NONE` where no removal has flipped the decision.
        marked: Positions of the sets, ``(N,)``.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.size = np.full(len(rows.alpha), NONE)
        self.marked = np.zeros(len(rows.alpha.values), bool)

    def offer(self, size: Int64[np.ndarray, "k n"], orders: Int64[np.ndarray, "k N"]) -> None:
        """Take the first ``size`` positions of an order where they are no more than so far.

        Args:
            size: Positions after which each order flips the decision, 0 for never.
            orders: Orders of removal; the last of equally small sets is taken.
        """
        alpha = self.rows.alpha
        within = np.arange(len(self.marked)) - alpha.spread(alpha.offsets[:-1])
        size = np.where(size > 0, size, NONE)
        best = len(size) - 1 - size[::-1].argmin(axis=0)
        smaller = np.flatnonzero((size.min(axis=0) <= self.size) & (size.min(axis=0) < NONE))
        self.size[smaller] = size.min(axis=0)[smaller]
        places = alpha.positions(smaller)
        chosen = orders[alpha.spread(best)[places], places]
        self.marked[chosen] = within[places] < alpha.spread(self.size)[places]

    def complete(self) -> Bool[np.ndarray, " n"]:
        """Search for smaller sets than those offered.

        Returns:
            Where no smaller set flips the decision, or none does at all. All single positions are
            tried, so that two are proven too where one is not enough.
        """
        if isinstance(self.rows.readout.tail, IdentityTail):
            self._solve()
            return np.ones(len(self.size), bool)
        self._search()
        return self.size <= 2

    def _solve(self) -> None:
        """Find the smallest sets with an identity tail."""
        rows, alpha = self.rows, self.rows.alpha
        contribution, offset = rows.readout.contribution.values, rows.readout.offset
        decided, everyone = rows.outputs.decided, np.arange(len(alpha))
        if rows.readout.activation == "sigmoid":
            sign = np.where(decided == 1, 1.0, -1.0)
            lead = alpha.spread(sign) * (contribution[:, 0] + alpha.spread(offset[:, 0]))
            self._solve_against(lead, decided == 0)
            return
        allowed = rows.readout.candidates
        mine = contribution[np.arange(len(contribution)), alpha.spread(decided)]
        for rival in reversed(range(offset.shape[1])):  # of equally small sets the first rival's
            gap = alpha.spread(offset[everyone, decided] - offset[:, rival])
            possible = decided != rival
            if allowed is not None:
                possible &= allowed[:, rival]
            self._solve_against(mine - contribution[:, rival] + gap, rival < decided, possible)

    def _solve_against(
        self,
        lead: Float[np.ndarray, " N"],
        wins_ties: Bool[np.ndarray, " n"],
        possible: Bool[np.ndarray, " n"] | None = None,
    ) -> None:
        """Offer the sets that let one rival win, whose logit each position alone puts behind by ``lead``."""
        rows, alpha = self.rows, self.rows.alpha
        margin = alpha.values * lead
        order = order_by(alpha.with_values(margin))
        both = np.column_stack([margin, alpha.values])[order]
        left, mass = added_up(alpha, both[None], backwards=True)[0].T
        slack = alpha.spread(rows.slack) * mass
        loses = (left < -slack) | (alpha.spread(wins_ties) & (left <= slack) & (mass > 0.0))
        within = np.arange(len(left)) - alpha.spread(alpha.offsets[:-1])
        size = alpha.with_values(np.where(loses & (within > 0), within, NONE)).reduce(np.minimum)
        size[size == NONE] = 0
        if possible is not None:
            size[~possible] = 0
        self.offer(size[None], order[None])

    def _search(self) -> None:
        """Try single positions, the order of what each does alone, and greedy removal."""
        rows, alpha = self.rows, self.rows.alpha
        left = without_each(alpha, rows.terms)
        lead = rows.measure(left, alpha.row_of_value, rows.outputs.lead)
        order = order_by(alpha.with_values(-np.nan_to_num(lead, nan=np.inf)))
        if rows.exact:
            size = rows.measure(left[order[alpha.offsets[:-1]]], np.arange(len(alpha)), rows.flips)
            size = (size == 1.0).astype(np.int64)
        else:
            size = Walks(rows, order[None], keep=False).first(rows.flips)
        self.offer(size[None], order[None])
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        self._remove_greedily(rank)

    def _remove_greedily(self, rank: Int64[np.ndarray, " N"]) -> None:
        """Remove the best next position again and again, while that may give smaller sets.

        Behind a tanh tail it is that which lowers the lead most along the tail's tangent, behind a
        network the best of the next few in the order ``rank``.
        """
        rows, erased = self.rows, np.zeros(len(rank), bool)
        for count in range(1, int(rows.alpha.lengths.max()) if rows.exact else GREEDY + 1):
            pending = np.flatnonzero((self.size > max(count, 2)) & (rows.alpha.lengths > count))
            if len(pending) == 0:
                break
            places, part = rows.alpha.positions(pending), rows.alpha.take(pending)
            row = part.spread(pending)
            terms = np.where(erased[places, None], 0.0, rows.terms[places])
            left = without_each(part, terms)
            possible = ~erased[places] & (left[:, -1] > 0.0)
            if rows.exact:
                now = part.with_values(terms).sum()
                slopes = rows.slopes(now[:, :-1] / now[:, -1:], pending, nearest=True)
                with np.errstate(invalid="ignore", divide="ignore"):
                    score = (left[:, :-1] / left[:, -1:] * part.spread(slopes)).sum(axis=1)
            else:
                score = rank[places]
            tried = _lowest(score, row, possible, 1 if rows.exact else TRIED)
            lead = rows.measure(left[tried], row[tried], rows.outputs.lead)
            best = tried[_lowest(lead, row[tried], np.ones(len(tried), bool), 1)]
            erased[places[best]] = True
            flips = rows.measure(left[best], row[best], rows.flips) == 1.0
            done = row[best[flips]]
            self.size[done] = count
            self.marked[rows.alpha.positions(done)] = erased[rows.alpha.positions(done)]


def _lowest(
    score: np.ndarray, row: Int64[np.ndarray, " m"], possible: Bool[np.ndarray, " m"], most: int
) -> Int64[np.ndarray, " c"]:
    """At most so many of the possible entries of each row, those of the lowest score first."""
    entries = np.flatnonzero(possible)
    order = entries[np.lexsort((score[entries], row[entries]))]
    return order[np.arange(len(order)) - np.searchsorted(row[order], row[order]) < most]

"""The smallest set of positions whose removal flips the decision.

With an identity tail the search is exact, which Serrano & Smith 2019 call out of reach. A class
``y'`` overtakes the predicted class ``y`` if the difference of their logits changes its sign. The
logits are sums over the positions left, divided by the weight left, which is positive. So the sign
is that of ``Σ_{t∉S} m_t``, the margins left, with contributions ``r_t`` and offset ``o``:

    m_t = alpha_t · (r_ty − r_ty' + o_y − o_y')

Among all sets of one size, the one with the largest margins leaves the least. So a sort finds the
smallest set against ``y'``, and the smallest over all rivals is the answer: O(C · T log T). Behind
another tail the search is greedy.
"""

import numpy as np
from jaxtyping import Int64

from attnaudit.core.shapes import Indices, PerPosition, RowMask, Values
from attnaudit.experiments.erasure.removal import Orders, Rows, Walks, added_up, without_each
from attnaudit.trace import IdentityTail

# Behind a network: positions read at each step of the greedy search, and steps.
TRIED, GREEDY = 4, 8
# Larger than any size, so that a minimum ignores rows without a set.
NONE = np.iinfo(np.int64).max


class SmallestSet:
    """Smallest sets so far that flip the decisions of ``rows``.

    Attributes:
        size: Number of positions, ``(n,)``; `NONE` if no removal has flipped the decision.
        marked: Positions of the sets, ``(N,)``.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.size = np.full(len(rows.alpha), NONE)
        self.marked = np.zeros(len(rows.alpha.values), bool)

    def offer(self, size: Int64[np.ndarray, "k n"], orders: Orders) -> None:
        """Replace sets by heads of orders that are at most as large.

        Args:
            size: Number of positions after which each order flips the decision; 0 for never.
            orders: Orders of removal; the last of several equally short heads is taken.
        """
        alpha, size = self.rows.alpha, np.where(size > 0, size, NONE)
        last_best, least = len(size) - 1 - size[::-1].argmin(axis=0), size.min(axis=0)
        smaller = np.flatnonzero((least <= self.size) & (least < NONE))
        self.size[smaller] = least[smaller]
        part = alpha.take(smaller)
        positions = orders[part.spread(last_best[smaller]), alpha.positions(smaller)]
        self.marked[positions] = part.places < part.spread(least[smaller])

    def complete(self) -> RowMask:
        """Search for smaller sets than those offered.

        Returns:
            Whether it is proven that no smaller set flips the decision, or none at all.
        """
        if isinstance(self.rows.readout.tail, IdentityTail):
            self._solve()
            return np.ones(len(self.size), bool)
        self._search()
        # The search tries all single positions, so a set of two is proven too.
        return self.size <= 2

    def _solve(self) -> None:
        """Find the smallest sets with an identity tail."""
        readout, decided = self.rows.readout, self.rows.outputs.decided
        contribution, offset, alpha = readout.contribution.values, readout.offset, self.rows.alpha
        # The sign of one logit decides, and class 1 wins at 0. Of several the first wins.
        one_logit = readout.activation == "sigmoid"
        if one_logit:
            contribution, offset = (
                np.hstack([np.zeros_like(part), part]) for part in (contribution, offset)
            )
        mine = np.take_along_axis(contribution, alpha.spread(decided)[:, None], axis=1)[:, 0]
        own_offset = np.take_along_axis(offset, decided[:, None], axis=1)[:, 0]
        # Backwards, so that among equally small sets the one of the first rival stays.
        for rival in reversed(range(offset.shape[1])):
            possible = decided != rival
            if readout.candidates is not None:
                possible &= readout.candidates[:, rival]
            lead = mine - contribution[:, rival] + alpha.spread(own_offset - offset[:, rival])
            self._offer_against(lead, (rival < decided) != one_logit, possible)

    def _offer_against(
        self,
        lead: PerPosition,
        wins_ties: RowMask,
        possible: RowMask,
    ) -> None:
        """Offer the smallest sets that let one rival win.

        Args:
            lead: Lead of the predicted class, in logits, with all weight on each position.
            wins_ties: Whether the rival wins if both logits are equal.
            possible: Whether the class is a rival in each row.
        """
        alpha = self.rows.alpha
        order = alpha.with_values(alpha.values * lead).descending()
        terms = np.column_stack([alpha.values * lead, alpha.values])
        margin, mass = added_up(alpha, terms, order[None], backwards=True).T
        # The lead is the margin divided by the weight left. Within the slack it is a tie.
        slack = alpha.spread(self.rows.slack) * mass
        loses = (margin < -slack) | (alpha.spread(wins_ties) & (margin <= slack) & (mass > 0.0))
        removed = alpha.places
        loses &= (removed > 0) & alpha.spread(possible)
        size = alpha.with_values(np.where(loses, removed, NONE)).reduce(np.minimum)
        self.offer(np.where(size < NONE, size, 0)[None], order[None])

    def _search(self) -> None:
        """Try single positions, removal in the order of their effects, and greedy removal."""
        rows, alpha = self.rows, self.rows.alpha
        left = without_each(alpha, rows.terms)
        lead = rows.measure(left, alpha.row_of_value, rows.outputs.lead)
        order = alpha.with_values(np.nan_to_num(lead, nan=np.inf)).argsort()
        if rows.exact:
            best = order[alpha.offsets[:-1]]
            size = 1 * (rows.measure(left[best], np.arange(len(alpha)), rows.flips) == 1.0)
        else:
            size = Walks(rows, order[None], keep=False).first(rows.flips)
        self.offer(size[None], order[None])
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        self._remove_greedily(rank)

    def _remove_greedily(self, rank: Int64[np.ndarray, " N"]) -> None:
        """Remove the best next position repeatedly, while that may give smaller sets.

        Behind a tanh tail the best position is the one that lowers the lead most along the tail's
        tangent. Behind a network it is the best of the next few in the order of ``rank``.
        """
        rows, erased = self.rows, np.zeros(len(rank), bool)
        for count in range(1, int(rows.alpha.lengths.max()) if rows.exact else GREEDY + 1):
            # All sets of one position are known, so sets of two cannot become smaller.
            pending = np.flatnonzero((self.size > max(count, 2)) & (rows.alpha.lengths > count))
            if len(pending) == 0:
                break
            places, part = rows.alpha.positions(pending), rows.alpha.take(pending)
            row, terms = part.spread(pending), np.where(erased[places, None], 0, rows.terms[places])
            left = without_each(part, terms)
            score, most = rank[places], TRIED
            if rows.exact:
                now, mass = part.with_values(terms).sum(), left[:, -1:]
                slopes = rows.slopes(now[:, :-1] / now[:, -1:], pending, nearest=True)
                sums = left[:, :-1] / np.where(mass > 0.0, mass, 1.0)
                score, most = (sums * part.spread(slopes)).sum(axis=1), 1
            possible = np.flatnonzero(~erased[places] & (left[:, -1] > 0.0))
            tried = possible[_lowest(score[possible], row[possible], most)]
            lead = rows.measure(left[tried], row[tried], rows.outputs.lead)
            best = tried[_lowest(lead, row[tried], 1)]
            erased[places[best]] = True
            flips = rows.measure(left[best], row[best], rows.flips) == 1.0
            done = rows.alpha.positions(row[best[flips]])
            self.size[row[best[flips]]] = count
            self.marked[done] = erased[done]


def _lowest(
    score: Values | Indices,
    row: Indices,
    most: int,
) -> Int64[np.ndarray, " c"]:
    """Choose the entries of lowest score in each row, at most ``most``."""
    order = np.lexsort((score, row))
    return order[np.arange(len(order)) - np.searchsorted(row[order], row[order]) < most]

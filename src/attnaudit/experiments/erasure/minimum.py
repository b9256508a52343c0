"""The smallest set of positions whose removal flips the decision.

With an identity tail it is found exactly, which Serrano & Smith 2019 call out of reach. A class ``y'`` overtakes the decided ``y`` once
the logits left, ``offset + Σ_{t∉S} alpha_t · contribution_t / Σ_{t∉S} alpha_t``, differ the other way. The weight left is positive, and
multiplying by it leaves the sign: what must turn negative is ``Σ_{t∉S} m_t`` with ``m_t = alpha_t · (contribution_ty − contribution_ty' +
offset_y − offset_y')``. Of all sets of one size the one with the largest ``m_t`` leaves the least, so that a sort finds the smallest set
against ``y'``, and the least over rivals ``y'`` is the smallest of all: O(C · T log T). Through another tail positions are removed
greedily, and the set is small, not proven smallest.
"""

from __future__ import annotations

import math

import numpy as np

from attnaudit.core.kernels import kernel
from attnaudit.experiments.erasure.rankings import along, descending
from attnaudit.experiments.erasure.walk import decision, without_one
from attnaudit.experiments.readout_pooled import pooled_logits, pull_back


@kernel
def smallest_flip(row, decided):
    """The first positions of an order, and how many of them, that flip the decision when removed; 0 where no removal does."""
    if row.head.tail:
        return _greedy_flip(row, decided)
    if row.head.sigmoid:
        sign = 1.0 if decided == 1 else -1.0
        return _fewest_against(sign * row.weights * (row.contribution[:, 0] + row.offset[0]), row.weights, decided == 0, row.slack)
    best, fewest = np.arange(len(row.weights)), 0
    for rival in range(len(row.offset)):
        if row.head.allowed[rival] and rival != decided:
            lead = row.contribution[:, decided] - row.contribution[:, rival] + (row.offset[decided] - row.offset[rival])
            order, count = _fewest_against(row.weights * lead, row.weights, rival < decided, row.slack)
            if count > 0 and (fewest == 0 or count < fewest):
                best, fewest = order, count
    return best, fewest


@kernel
def _fewest_against(margin, weights, wins_ties, slack):
    """How many of the largest margins must go for the sum of those left to be negative, or 0 where the rival ``wins_ties``.

    A lead, which is that sum over the weight left, of at most ``slack`` is 0.
    """
    order = descending(margin)
    left, mass, fewest = 0.0, 0.0, 0
    for k in range(len(order) - 1, 0, -1):
        left += margin[order[k]]
        mass += weights[order[k]]
        if left < -slack * mass or (wins_ties and left <= slack * mass and mass > 0.0):
            fewest = k
    return order, fewest


@kernel
def _greedy_flip(row, decided):
    """One position, where one is enough; else remove, one after another, that whose removal lowers the lead over the nearest rival most,
    the tail taken as its tangent."""
    size = len(row.weights)
    order, gone = np.arange(size), np.zeros(size, np.bool_)
    logits, prediction = np.empty(len(row.head.allowed)), np.empty(len(row.head.allowed))
    for place in range(size):
        if without_one(place, row, prediction, logits) and decision(logits, row) != decided:
            order[0], order[place] = place, 0
            return order, 1
    for count in range(size):
        mass, moment = _left(row, gone)
        pooled = row.offset + moment / mass
        pooled_logits(pooled, row.head, logits)
        if decision(logits, row) != decided:
            return order, count
        place = _steepest(row, gone, mass, moment, _slope_of_lead(pooled, row, logits, decided))
        if place < 0:
            break
        gone[place] = True
        there = _place_of(order, place)
        order[there], order[count] = order[count], place
    return order, 0


@kernel
def _left(row, gone):
    mass, moment = 0.0, np.zeros(len(row.offset))
    for t in range(len(gone)):
        if not gone[t]:
            mass += row.weights[t]
            moment += row.weights[t] * row.contribution[t]
    return mass, moment


@kernel
def _slope_of_lead(pooled, row, logits, decided):
    """How the lead over the nearest rival moves with the attended sum."""
    rival, slopes, pull = -1, np.zeros(len(logits)), np.empty(len(pooled))
    for c in range(len(logits)):
        if row.head.allowed[c] and c != decided and (rival < 0 or logits[c] > logits[rival]):
            rival = c
    slopes[decided] = 1.0
    if rival >= 0:
        slopes[rival] = -1.0
    pull_back(pooled, row.head, slopes, pull)
    return pull


@kernel
def _steepest(row, gone, mass, moment, pull):
    """The position to go next; −1 where none could go and leave weight."""
    best, least, whole, single = -1, math.inf, 0.0, along(row.contribution, pull)
    for p in range(len(pull)):
        whole += moment[p] * pull[p]
    for t in range(len(gone)):
        rest = mass - row.weights[t]
        if not gone[t] and rest > 0.0:
            value = (whole - row.weights[t] * single[t]) / rest
            if value < least:
                best, least = t, value
    return best


@kernel
def _place_of(order, position):
    for k in range(len(order)):
        if order[k] == position:
            return k
    return -1

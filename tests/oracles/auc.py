"""The area under the ROC curve, pair by pair."""


def every_pair(ours, theirs):
    """The share of pairs in which ours is larger; ties count half."""
    won = [1.0 if one > other else 0.5 if one == other else 0.0 for one in ours for other in theirs]
    return sum(won) / len(won)


def over_constructions(faithful, unfaithful):
    """The mean over pairs of constructions of the share of their pairs."""
    found = [
        every_pair(ours, theirs) for ours in faithful.values() for theirs in unfaithful.values()
    ]
    return sum(found) / len(found)

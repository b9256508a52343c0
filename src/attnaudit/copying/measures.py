"""Measures of the copying study: names, labels and meanings."""

from attnaudit.copying.study import SUCCESS
from attnaudit.results import Measure
from attnaudit.results.measures import SCORE
from attnaudit.stats.agreement import TOP

_AT_END = "of the trained model, on sequences never trained on"
_RIGHT = "at the position that the symbol comes from"
MEASURES = (
    Measure(
        "succeeded",
        f"share of seeds that succeeded (token accuracy above {SUCCESS})",
        f"Share of seeds whose token accuracy is above {SUCCESS} in the end.",
    ),
    Measure(
        "failed",
        "share of seeds that did not succeed",
        f"Share of seeds whose token accuracy is {SUCCESS} or less in the end.",
    ),
    Measure(
        "attending",
        "share that learn to attend (attention right more often than not in the end)",
        f"Share of seeds whose largest weight is {_RIGHT} for more than half of the symbols in "
        f"the end.",
    ),
    Measure(
        "upside_down",
        "share whose dictionary is upside down (the right position has the least output relevance "
        "more often than not)",
        "Share of seeds in which the position that a symbol comes from would, with all attention, "
        "make it less likely than any other "
        "position, for more than half of the symbols.",
    ),
    Measure(
        "relevance_first",
        "share of successes whose relevance was right first",
        "Share of successful seeds whose output relevance was right for more than half of the "
        "symbols at an earlier step than attention.",
    ),
    Measure(
        "attention_first",
        "share of successes whose attention was right first",
        "Share of successful seeds whose attention was right for more than half of the symbols at "
        "an earlier step than output relevance.",
    ),
    Measure(
        "token_accuracy",
        "token accuracy, median over seeds",
        f"Share of symbols that are the likeliest output, given the right ones before; {_AT_END}.",
    ),
    Measure(
        "stopped",
        "token accuracy of the seeds that did not succeed, median",
        f"Median token accuracy of the other seeds; {_AT_END}.",
    ),
    Measure("stopped_least", "the lowest of these", "Lowest token accuracy of a seed in the end."),
    Measure(
        "stopped_most",
        "the highest of these",
        "Highest token accuracy of a seed that did not succeed.",
    ),
    Measure(
        "attention_accuracy",
        "attention accuracy, median",
        f"Share of symbols whose largest weight, mean over heads, is {_RIGHT}; {_AT_END}.",
    ),
    Measure(
        "relevance_accuracy",
        "output-relevance accuracy, median",
        f"Share of symbols whose highest output relevance is {_RIGHT}; {_AT_END}. Output "
        f"relevance of a position is the log-probability of "
        "the symbol with all attention on it.",
    ),
    Measure(
        "agreement",
        f"share with attention where output relevance is in its top {TOP} %, median",
        f"Share of symbols whose largest weight is at one of the top {TOP} % of positions by "
        f"output relevance.",
    ),
    Measure(
        "attended",
        "positions by which attention is after the right one (negative: before), median of medians",
        "Median over symbols of the number of positions from the one that the symbol comes from "
        "to the largest weight.",
    ),
    Measure(
        "relevance_least",
        "share with the least output relevance at the right position, median",
        f"Share of symbols whose lowest output relevance is {_RIGHT}.",
    ),
    Measure(
        "attention_symbol",
        "attention accuracy, any position with the right symbol counting, median",
        "Share of symbols whose largest weight is at a position with that symbol.",
    ),
    Measure(
        "relevance_symbol",
        "output-relevance accuracy, any position with the right symbol counting, median",
        "Share of symbols whose highest output relevance is at a position with that symbol.",
    ),
    Measure(
        "entropy",
        "entropy of attention in nats, median",
        "Mean entropy of attention over the positions, in nats.",
    ),
    Measure(
        "relevance_step",
        "step at which relevance was first right more often than not",
        "First measured step at which output relevance is right for more than half of the "
        "symbols, median over seeds.",
    ),
    Measure(
        "relevance_entropy",
        "entropy of attention in nats at that step, median",
        "Mean entropy of attention at that step, in nats.",
    ),
    Measure(
        "attention_step",
        "step at which attention was first right more often than not",
        "First measured step at which attention is right for more than half of the symbols, "
        "median over seeds.",
    ),
    Measure(
        "lead",
        "steps by which relevance was earlier",
        "Step of attention minus that of output relevance, median over seeds.",
    ),
    Measure(
        "best_head_accuracy",
        "attention accuracy of the best head, median",
        "The highest attention accuracy of a head of a seed.",
    ),
    Measure(
        f"head_{SCORE}_accuracy",
        f"attention accuracy of head {SCORE}, median",
        f"Share of symbols whose largest weight of this head is {_RIGHT}.",
    ),
)

"""The tables of a reproduction as Markdown, for the documentation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attnaudit.report.reproduction.verdict import SYMBOLS
from attnaudit.report.reproduction.view import Block, Entry, NumberTable
from attnaudit.results.words import figure


def as_markdown(content: Mapping[str, Any]) -> str:
    """What the page says, without its pictures."""
    parts = ["# Reproduction of Jain & Wallace 2019", *map(_plain, content["verdict"]), _plain(content["extent"]), _tallies(content)]
    parts += [_plain(content["contrast_sentence"]), _contrasts(content), _left_out(content), _plain(content["intervals"])]
    parts += [_plain(content["interval_rule"] if content["tallies"] else ""), "\n".join(f"- {_plain(note)}" for note in content["notes"])]
    for section in content["sections"]:
        parts += [f"## {_plain(section.title)}", *(f"- {_plain(note)}" for note in section.notes)]
        parts += [_numbers(table) for table in (section.table, *section.further) if table.columns]
    return "\n\n".join(filter(None, parts)) + "\n"


def _tallies(content: Mapping[str, Any]) -> str:
    heads = ["", *(f"{symbol} {head}" for _, symbol, head in content["degrees"]), "all"]
    return _table(heads, [[tally.kind, *map(str, tally.counts), str(tally.total)] for tally in content["tallies"]])


def _contrasts(content: Mapping[str, Any]) -> str:
    rows = [
        [content["titles"][one.corpus], one.attention, one.pair, *(figure(value) for value in (one.paper, one.rerun, one.ours)), one.words]
        for one in content["contrasts"]
    ]
    return _table(["average less BiLSTM", "attention", "mean τ", "paper", "re-run", "ours", "ours is"], rows)


def _left_out(content: Mapping[str, Any]) -> str:
    if not content["left_out"]:
        return ""
    return "Not run:\n\n" + _table(["corpus", "models", "reason"], [[*row] for row in content["left_out"]])


def _numbers(table: NumberTable) -> str:
    heads = [column.head if column.title == "all instances" else f"{column.head}, {column.title}" for column in table.columns]
    rows = [row for block in table.blocks for row in _block(block)]
    return f"{_plain(table.caption)}\n\n" + _table(["model", "", *heads], rows)


def _block(block: Block) -> Iterable[list[str]]:
    for label, entries in block.lines:
        yield [" + ".join(block.model), label, *map(_entry, entries)]


def _entry(entry: Entry) -> str:
    return " ".join(filter(None, (SYMBOLS.get(entry.degree, ""), entry.text, entry.interval)))


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(_plain, line)) + " |" for line in lines)


def _plain(text: str) -> str:
    """Text that stays text: one line, and no character that Markdown or HTML would take for its own."""
    return re.sub(r"([\\`*_<>\[\]|])", r"\\\1", " ".join(text.split()))

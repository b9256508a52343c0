"""Remarks on a corpus for its user: excluded, shortened, missing and repeated rows."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from attnaudit.core import count
from attnaudit.corpora.corpus import SPLITS, Split
from attnaudit.corpora.formats.lines import bad_file
from attnaudit.corpora.formats.rows import Task
from attnaudit.corpora.prepare.gathering import Gathered

# A run of letters in scripts without blanks between words, and these scripts by the language of the
# tokenizer that splits them. Any Japanese text has kana, besides Chinese characters.
_RUN = re.compile("[\u0e00-\u9fff]{8}")
_SCRIPTS = {
    "ja": re.compile("[\u3040-\u30ff]"),
    "zh": re.compile("[\u3400-\u9fff]"),
    "th": re.compile("[\u0e00-\u0e7f]"),
    "km": re.compile("[\u1780-\u17ff]"),
    "my": re.compile("[\u1000-\u109f]"),
}
WARNING = "warning: "
"""Begins a remark that a reader must know before using a result."""
_LONG = 10_000  # tokens; far above the longest review or article of the literature


def gathering_remarks(gathered: Mapping[str, Gathered], max_tokens: int | None) -> Iterator[str]:
    """Describe the rows that were excluded, skipped, cut, or are very long."""
    for name, rows in gathered.items():
        of = "" if name == "all" else f" of {name}"
        left_out = [f"{number} {reason}" for reason, number in rows.left_out.items() if number]
        if left_out:
            yield f"rows{of} excluded by the corpus's definition: {', '.join(left_out)}"
        if rows.skipped:
            # Without what differs from row to row.
            reasons = Counter(row.reason.split(" (")[0] for row in rows.skipped)
            listed = ", ".join(f"{number} {reason}" for reason, number in sorted(reasons.items()))
            yield f"{WARNING}{count(len(rows.skipped), 'bad row')}{of} skipped: {listed}"
        limit = _LONG if max_tokens is None else max_tokens
        longer = [example for example in rows.examples if example.length > limit]
        if longer:
            longest = max(longer, key=lambda example: example.length)
            done, do = f"cut to {limit} tokens", ""
            if max_tokens is None:
                done, do = f"longer than {limit} tokens kept whole", "; corpus.max_tokens cuts them"
            where = f"longest {longest.length}, row {longest.instance}"
            yield f"{count(len(longer), 'row')}{of} {done} ({where}){do}"


def class_remarks(
    name: str, classes: tuple[str, ...], splits: Mapping[str, Split], task: Task
) -> Iterator[str]:
    """Name the classes that dev or test lack; answers are many, and no split needs all of them.

    Raises:
        InputError: If dev has one class, since the ROC-AUC of an epoch needs two.
    """
    yield from name_remarks(classes)
    for split in SPLITS[1:] if task != "question_answering" else ():
        present = {classes[label] for label in splits[split].label}
        if split == "dev" and len(present) < 2 and task == "classification":
            got = f"only {count(len(splits[split]), 'row')} of class {min(present)} for dev"
            expected, do = "rows of two classes, to choose an epoch by", "add rows, or have no dev"
            raise bad_file(name, got, expected, f"{do} file to take 15 % of train")
        if missing := [one for one in classes if one not in present]:
            yield f"{WARNING}{split} has no row of class {', '.join(missing[:8])}"


def name_remarks(classes: Collection[str]) -> Iterator[str]:
    """Point to names of classes that may mean the same, as ``TRUE`` and ``true`` or 01 and 1."""
    alike = defaultdict[str, list[str]](list)
    for name in classes:
        key = " ".join(name.casefold().split())
        alike[(key.lstrip("0") or "0") if key.isdecimal() else key].append(name)
    for names in alike.values():
        if len(names) > 1:
            yield f"{WARNING}{' and '.join(map(repr, names))} are read as {len(names)} classes"


def count_remarks(
    expected: Mapping[str, tuple[int, ...]], splits: Mapping[str, Split]
) -> Iterator[str]:
    """Name the splits that have other numbers of rows than the published corpus."""
    for row in counts_compared(expected, splits):
        if not row["same"]:
            per_class = " per class" if "/" in row["published"] else ""
            published = f"where the published corpus has {row['published']}"
            yield f"{row['split']} has {row['here']} rows{per_class} {published}"


def counts_compared(
    expected: Mapping[str, tuple[int, ...]], splits: Mapping[str, Split]
) -> list[dict[str, Any]]:
    """Compare published numbers of rows, per class or in all, with those of the splits.

    Returns:
        A row for each split, or splits joined by a plus: ``published`` and ``here`` are the numbers
        joined by slashes, ``same`` tells whether they agree.
    """
    rows = []
    for name, numbers in expected.items():
        label = np.concatenate([splits[split].label for split in name.split("+")])
        found = np.bincount(label, minlength=len(numbers)) if len(numbers) > 1 else [len(label)]
        published, here = ("/".join(map(str, one)) for one in (numbers, found))
        same = published == here
        rows.append({"split": name, "published": published, "here": here, "same": same})
    return rows


def repeated_rows(splits: Mapping[str, Split]) -> list[dict[str, Any]]:
    """Count the rows of each split whose words stand elsewhere.

    Returns:
        For each split the rows whose words stood before ``within`` it and in earlier splits
        (``in_train``, ``in_dev``), and anywhere with another label (``conflicts``).
    """
    labels: dict[bytes, set[int]] = defaultdict(set)
    for split in splits.values():
        for digest, label in zip(split.digests, split.label.tolist(), strict=True):
            labels[digest].add(label)
    rows: list[dict[str, Any]] = []
    known: dict[str, set[bytes]] = {}
    for name, split in splits.items():
        own = split.digests
        row = {"split": name, "rows": len(own), "within": len(own) - len(set(own))}
        for before in SPLITS[:-1]:
            shared = sum(digest in known[before] for digest in own) if before in known else None
            row[f"in_{before}"] = shared
        rows.append({**row, "conflicts": sum(len(labels[digest]) > 1 for digest in own)})
        known[name] = set(own)
    return rows


def script_remarks(split: Split) -> Iterator[str]:
    """Report unsplit text in scripts without blanks, and name a tokenizer that splits it."""
    runs = [run for tokens in split.tokens if (run := _RUN.search(" ".join(tokens)))]
    if not 2 * len(runs) >= len(split) > 0:
        return
    for language, script in _SCRIPTS.items():
        if 2 * sum(bool(script.search(run.string)) for run in runs) >= len(runs):
            yield (
                f"{WARNING}{len(runs)} of {count(len(split), 'text')} of train have whole "
                "sentences as one word, as their script has no blanks: --set "
                f"corpus.tokenizer={language} finds their words"
            )
            return


def repetition_remarks(splits: Mapping[str, Split]) -> Iterator[str]:
    """Name the splits that repeat rows of their own, or of an earlier one, which is a warning."""
    within, shared, conflicts = [], [], 0
    for row in repeated_rows(splits):
        name, conflicts = row["split"], conflicts + row["conflicts"]
        if row["within"]:
            within.append(f"{row['within']} within {name}")
        shared += [
            f"{row[f'in_{one}']} of {count(row['rows'], 'row')} of {name} also in {one}"
            for one in SPLITS[:-1]
            if row[f"in_{one}"]
        ]
    if found := [*shared, *within]:
        told = f" ({count(conflicts, 'row')} with another label)" if conflicts else ""
        start = WARNING if shared or conflicts else ""
        yield f"{start}rows with the same words: {', '.join(found)}{told}"

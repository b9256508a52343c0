"""What a user should know about a corpus, in one line each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from attnaudit.corpora.corpus import SPLITS, Split, Task
from attnaudit.corpora.prepare.gathered import Gathered

LONG = 10_000  # tokens; far above the longest review or article of the literature


def gathering_remarks(gathered: Mapping[str, Gathered], max_tokens: int | None) -> Iterator[str]:
    """What is excluded, skipped, cut, or very long."""
    for name, rows in gathered.items():
        of = "" if name == "all" else f" of {name}"
        left_out = [f"{count} {reason}" for reason, count in rows.left_out.items() if count]
        if left_out:
            yield f"rows{of} excluded by the corpus's definition: {', '.join(left_out)}"
        if rows.skipped:
            reasons = Counter(_kind(row.reason) for row in rows.skipped)
            listed = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
            yield f"{len(rows.skipped)} bad row(s){of} skipped: {listed}"
        lengths = np.array([example.length for example in rows.examples], dtype=np.int64)
        limit = LONG if max_tokens is None else max_tokens
        count = int((lengths > limit).sum())
        if count and max_tokens is None:
            longest = f"longest {lengths.max()}, row {rows.examples[int(lengths.argmax())].instance}"
            yield f"{count} row(s){of} longer than {LONG} tokens are kept whole ({longest}); --max-tokens cuts them"
        elif count:
            yield f"{count} row(s){of} cut to {max_tokens} tokens (longest {lengths.max()})"


def class_remarks(class_names: tuple[str, ...], splits: Mapping[str, Split], task: Task) -> Iterator[str]:
    """Classes that dev or test lack; answers are many, and no split needs all of them."""
    for name in SPLITS[1:]:
        missing = sorted(set(range(len(class_names))) - set(splits[name].label.tolist()))
        if missing and task != "question_answering":
            yield f"{name} has no row of class {', '.join(class_names[number] for number in missing[:8])}"


def count_remarks(expected: Mapping[str, tuple[int, ...]], splits: Mapping[str, Split]) -> Iterator[str]:
    """Splits whose rows are not as many as are known of the corpus: per class, or in all; ``train+dev`` are the two together."""
    for name, counts in expected.items():
        label = np.concatenate([splits[split].label for split in name.split("+")])
        got = (len(label),) if len(counts) == 1 else tuple(np.bincount(label, minlength=len(counts)).tolist())
        if got != counts:
            per_class = " per class" if len(counts) > 1 else ""
            yield f"{name} has {_per_class(got)} rows{per_class} where the published corpus has {_per_class(counts)}"


def duplicate_remarks(splits: Mapping[str, Split], digests: Mapping[str, list[bytes]]) -> Iterator[str]:
    """Rows with the same words, within a split and across splits; ``digests`` are `row_digests` of each split."""
    found = []
    seen: dict[str, dict[bytes, int]] = {}
    for name in SPLITS:
        labels = splits[name].label.tolist()
        first: dict[bytes, int] = {}
        for digest, label in zip(digests[name], labels, strict=True):
            first.setdefault(digest, label)
        repeated = len(labels) - len(first)
        if repeated:
            found.append(f"{repeated} within {name}")
        for other, known in seen.items():
            shared = [(label, known[digest]) for digest, label in zip(digests[name], labels, strict=True) if digest in known]
            conflicts = sum(label != there for label, there in shared)
            if shared:
                found.append(f"{len(shared)} of {name} also in {other}" + (f" ({conflicts} with another label)" if conflicts else ""))
        seen[name] = first
    if found:
        yield f"rows with the same words: {', '.join(found)}"


def _kind(reason: str) -> str:
    """A reason without what differs from row to row."""
    return reason.split(" (")[0]


def _per_class(counts: tuple[int, ...]) -> str:
    return "/".join(map(str, counts))

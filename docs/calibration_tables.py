"""Write constructions and verdicts into their pages: ``python docs/calibration_tables.py``."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from attnaudit.calibration import CONSTRUCTIONS
from attnaudit.calibration.verdicts import CODES
from attnaudit.experiments.verdict import held_out

DOCS = Path(__file__).parent
PAGES = [DOCS / "verdict.md", DOCS / "research" / "calibration.md"]
LIST = DOCS / "research" / "records" / "calibration" / "constructions.csv"


def listed() -> str:
    """Return every construction, with the reason why its truth is known, as csv."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["construction", "title", "truth", "half", "encoders", "why the truth is known"])
    for name, one in CONSTRUCTIONS.items():
        rows.writerow([name, one.title, one.truth, one.half, " ".join(one.encoders), one.reason])
    return text.getvalue()


def constructions() -> str:
    """Return the names of the constructions, a row for each half and truth."""
    names: dict[tuple[str, str], list[str]] = {}
    for name, one in CONSTRUCTIONS.items():
        known = one.truth in ("faithful", "unfaithful")
        truth = "nothing to explain" if one.truth == "none" else one.truth
        names.setdefault((one.half if known else "–", truth), []).append(f"`{name}`")
    rows = [f"| {half} | {truth} | {', '.join(each)} |" for (half, truth), each in names.items()]
    return "\n".join(["| half | truth | constructions |", "|---|---|---|", *rows])


def verdicts() -> str:
    """Return the number of held-out models by answer, a row for each kind and truth."""
    rows = [
        f"| {kind} | {truth} | {' | '.join(str(counts.get(code, 0)) for code in CODES)} |"
        for kind in ("classifiers", "transformers")
        for truth, counts in held_out(kind).items()
    ]
    titles = f"| models | truth | {' | '.join(CODES)} |"
    return "\n".join([titles, f"|---|---|{'---|' * len(CODES)}", *rows])


def with_table(page: str) -> str:
    """Return the page with its tables between their marks."""
    for part, make in PARTS.items():
        begin, end = f"<!-- {part} -->", f"<!-- end of {part} -->"
        if begin in page:
            before, _, rest = page.partition(begin)
            page = f"{before}{begin}\n\n{make()}\n\n{end}{rest.partition(end)[2]}"
    return page


PARTS = {"constructions": constructions, "verdicts": verdicts}

if __name__ == "__main__":
    for page in PAGES:
        page.write_text(with_table(page.read_text(encoding="utf-8")), encoding="utf-8")
    LIST.parent.mkdir(parents=True, exist_ok=True)
    LIST.write_text(listed(), encoding="utf-8")

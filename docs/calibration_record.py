"""Ship what a calibration gave: ``python docs/calibration_record.py DIR`` copies its degree and its scores into the package.

DIR is the folder of ``attnaudit calibrate --out DIR``. The degree then appears on the card of every audit; the command is in the file.
Without DIR, what the shipped degree says of the half held (``held``) is computed again from the models in its file, and the intervals of
AUCs from these and the numbers of constructions.
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

from attnaudit.calibration.degree import DATA, Degree, evaluated
from attnaudit.calibration.score import LEAST
from attnaudit.core.errors import InputError
from attnaudit.core.files import read_json, write_json
from attnaudit.stats.inference import newcombe_interval

PACKAGE = Path(__file__).parents[1] / "src" / "attnaudit"


def ship(folder: Path, package: Path = PACKAGE) -> Path:
    """Write ``degree.json`` and ``scores.csv`` of a finished calibration into the package. Raises InputError where it has no degree."""
    degree = read_json(folder / "calibration" / "degree.json")
    if degree is None:
        raise InputError(
            "ship",
            str(folder),
            "a calibration without a degree",
            "one with constructions of both halves and truths",
        )
    place = package / DATA
    write_json(place, Degree.from_json(degree).to_json())
    rounded = pl.read_parquet(folder / "calibration" / "scores.parquet").with_columns(
        pl.col(pl.Float64).round(4)
    )
    rounded.write_csv(place.with_name("scores.csv"))
    return place


def evaluate_again(package: Path = PACKAGE) -> Path:
    """Replace ``held`` in the package's ``degree.json`` and the intervals in its ``scores.csv``, and nothing else."""
    place = package / DATA
    plain = read_json(place)
    write_json(place, {**plain, "held": evaluated(Degree.from_json(plain), "held")})
    scores = pl.read_csv(place.with_name("scores.csv"))
    ends = [_interval(*of) for of in scores.select("auc", "faithful", "unfaithful").iter_rows()]
    scores = scores.with_columns(
        pl.Series(name, [end[k] for end in ends], pl.Float64).round(4)
        for k, name in enumerate(("low", "high"))
    )
    scores.write_csv(place.with_name("scores.csv"))
    return place


def _interval(
    auc: float | None, faithful: int, unfaithful: int
) -> tuple[float | None, float | None]:
    return (
        (None, None)
        if auc is None or min(faithful, unfaithful) < LEAST
        else newcombe_interval(auc, faithful, unfaithful)
    )


if __name__ == "__main__":
    print(ship(Path(sys.argv[1])) if sys.argv[1:] else evaluate_again())

"""Ship the scores of a calibration: ``python docs/calibration_record.py DIR`` copies them into the package.

DIR is the folder of ``attnaudit study calibration --out DIR``. Cards then show how well each measure tells faithful models from unfaithful.
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

from attnaudit.calibration.separation import SCORES

PACKAGE = Path(__file__).parents[1] / "src" / "attnaudit"


def ship(folder: Path, package: Path = PACKAGE) -> Path:
    """Write ``scores.csv`` of a finished calibration into the package."""
    scores = pl.read_parquet(folder / "calibration" / "scores.parquet")
    scores.with_columns(pl.col(pl.Float64).round(4)).write_csv(package / SCORES)
    return package / SCORES


if __name__ == "__main__":
    print(ship(Path(sys.argv[1])))

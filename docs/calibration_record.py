"""Record how often verdicts are right: ``python docs/calibration_record.py COMMIT DIR…``.

Each DIR is the folder of ``attnaudit study calibration --out DIR`` at that commit. The package ships
the record; cards read from it how often an answer was wrong. Models of the other kind in the record,
classifiers or transformers, stay as they are.
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

from attnaudit.calibration.score import auc_interval, truth_pairs
from attnaudit.calibration.verdicts import CODES, confusion
from attnaudit.core.files import read_json, write_json

PACKAGE = Path(__file__).parents[1] / "src" / "attnaudit"
RECORD = "experiments/verdict.json"


def ship(commit: str, folders: list[Path], package: Path = PACKAGE) -> Path:
    """Write the results of held-out models into the package and return the file."""
    read = [pl.read_parquet(folder / "calibration" / "verdicts.parquet") for folder in folders]
    held = pl.concat(read).filter(pl.col("half") != "fit")
    (half,) = held["half"].unique()
    kind = "transformers" if half == "transformer" else "classifiers"
    scored = held.filter(pl.col("confirmed"), pl.col("score").is_not_null())
    pairs = truth_pairs(scored.with_columns(value=pl.col("score")))
    answers = confusion(held)
    models = {row["truth"]: {code: row[code] for code in CODES} for row in answers.to_dicts()}
    shares = answers.select("truth", "models", "right", "wrong", "agree").to_dicts()
    facts = {
        "commit": commit,
        "models": models,
        "auc": auc_interval(pairs)._asdict(),
        "constructions": list(pairs.shape),
        "shares": shares,
        "unconfirmed": held.filter(~pl.col("confirmed")).height,
    }
    known = read_json(package / RECORD) if (package / RECORD).exists() else {}
    write_json(package / RECORD, {**known, kind: facts})
    return package / RECORD


if __name__ == "__main__":
    print(ship(sys.argv[1], list(map(Path, sys.argv[2:]))))

"""Declaration of a paper: its cells, the tables they fill, and known reasons."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from importlib.resources import files
from itertools import product
from typing import Any

from attnaudit.core import InputError, did_you_mean
from attnaudit.core.papers import Paper

DATA = "papers/data"


@dataclass(frozen=True, order=True)
class Cell:
    """One command: a run that is audited, or a study.

    Attributes:
        corpus: Its corpus.
        seed: Seed of a run; a study sets its own.
        encoder: Encoder of the model.
        attention: Its attention.
        preset: Its preset.
        study: Name of the study; empty for a run.
        variant: Tells cells with other settings apart.
        config: Transformer that is trained in place of a classifier.
        quick: Whether a study has the scale that two cores finish in minutes.
        seeds: Number of seeds with which a run is made.
        settings: Dotted settings, as of ``--set``.
        vectors: Whether the word vectors are those of the call.
    """

    corpus: str
    seed: int = 0
    encoder: str = ""
    attention: str = ""
    preset: str = "paper"
    study: str = ""
    variant: str = ""
    config: str = ""
    quick: bool = False
    seeds: int = field(default=1, compare=False)
    settings: Mapping[str, Any] = field(default_factory=dict, compare=False)
    vectors: bool = field(default=True, compare=False)

    @property
    def model(self) -> str:
        """Model as tables name it, such as ``han bigru additive``; the variant of a study."""
        preset = "" if self.preset == "paper" else self.preset
        parts = (preset, self.encoder, self.attention, self.config, self.variant)
        return " ".join(filter(None, parts))

    @property
    def title(self) -> str:
        """Name without seed and scale, as of reasons: ``imdb-han-bigru-additive``."""
        return "-".join(filter(None, (self.corpus, self.study, *self.model.split())))

    @property
    def key(self) -> str:
        """Name of its record, without the seed."""
        return f"{self.title}-quick" if self.quick else self.title

    @property
    def name(self) -> str:
        """Name of its folder."""
        return self.key if self.study else f"{self.key}-s{self.seed}"


@dataclass(frozen=True)
class Table:
    """A table of the page, with a row for each cell of a study, or for each run.

    Attributes:
        title: Its title.
        columns: Labels by measure: ``erasure/delta_js`` of runs, ``f1_base`` of studies. ``#n``
            after a measure counts its instances, ``#undefined`` those excluded; ``@`` names a bin
            of the largest weight. A label that ends in ``(%)`` shows a share in percent.
        study: The study; empty for runs.
        by: Several rows for each cell: ``model`` for each model of a study, whose name ends its
            measures; another word for each group of instances that begins with it.
        only: Corpora of the rows; all by default.
    """

    title: str
    columns: Mapping[str, str]
    study: str = ""
    by: str = ""
    only: Sequence[str] = ()


@dataclass(frozen=True)
class Declaration:
    """A paper as cells.

    Attributes:
        paper: The paper.
        question: What it asks.
        cells: Its cells.
        quick: Cells of ``--quick``.
        page: Its page in the documentation.
        tables: Tables of its page.
        settings: Dotted settings of all cells.
        reasons: Why a number is not the published one, by the key or the corpus of a cell, or by
            either and ``/measure``; the longer name is taken.
        missing: Why corpora have no record here.
        classes: Number of classes of corpora; a run with another number is of another task.
    """

    paper: Paper
    question: str
    cells: tuple[Cell, ...]
    quick: tuple[Cell, ...]
    page: str
    tables: tuple[Table, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    classes: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, paper: Paper) -> Declaration:
        """Read the declaration of a paper from its file of `DATA`.

        A table of ``cells`` or ``quick`` stands for a cell for each combination of its lists.
        """
        text = files("attnaudit").joinpath(f"{DATA}/{paper.key}.toml").read_text(encoding="utf-8")
        plain = tomllib.loads(text)
        cells = {name: tuple(_combined(plain[name])) for name in ("cells", "quick")}
        tables = tuple(Table(**one) for one in plain["tables"])
        return cls(paper, **{**plain, **cells, "tables": tables})

    @property
    def name(self) -> str:
        """Key of the paper."""
        return self.paper.key

    @property
    def every_cell(self) -> tuple[Cell, ...]:
        """Cells of both scales, each once, with seed 0."""
        cells = (replace(cell, seed=0) for cell in (*self.cells, *self.quick))
        return tuple({cell.key: cell for cell in cells}.values())

    def left_out(self, only: Sequence[str] = ()) -> str:
        """Say how much ``--quick`` leaves out of the cells of a call."""
        every, few = (
            {cell.title for cell in _chosen(some, only)} for some in (self.cells, self.quick)
        )
        cells = f"{len(every - few)} of {len(every)} cells"
        return f"--quick leaves out {cells}, further seeds and the published scale of studies"

    def reason(self, cell: Cell, measure: str) -> str:
        """Return why a number of a cell is not the published one; empty if no reason is known."""
        keys = [cell.title, cell.corpus]
        named = [*(f"{key}/{measure}" for key in keys), *keys]
        return next((self.reasons[name] for name in named if name in self.reasons), "")

    def plan(
        self, only: Sequence[str] = (), *, quick: bool = False, seeds: int | None = None
    ) -> list[Cell]:
        """List the cells of a call, those of one corpus and seed together.

        Args:
            only: Patterns of their titles, such as ``sst-*``; all by default.
            quick: Whether it is a call with ``--quick``.
            seeds: Number of seeds of every run.

        Raises:
            InputError: For a pattern that chooses no cell, or for ``seeds`` with ``quick`` or of
                studies.
        """
        of_scale = self.quick if quick else self.cells
        for pattern in only:
            if not _chosen(of_scale, [pattern]):
                titles = [cell.title for cell in of_scale]
                expected = f"a pattern of cells of {self.name} such as {titles[0]}"
                near = did_you_mean(pattern, titles) or "--dry-run lists them"
                raise InputError("reproduce", f"--only {pattern}", "no such cell", expected, near)
        if seeds is not None and quick:
            got, do = f"{seeds} together with --quick", "--quick has only seed 0"
            raise InputError("reproduce", "--seeds", got, "one of the two", do)
        if seeds is not None and all(cell.study for cell in self.cells):
            got = f"{seeds}, and every cell of {self.name} is a study"
            do = f"--set {self.cells[0].study}.seeds={seeds}"
            raise InputError("reproduce", "--seeds", got, "seeds of a study by its own setting", do)
        return list(_with_seeds(_chosen(of_scale, only), seeds))


def _chosen(cells: Sequence[Cell], only: Sequence[str]) -> list[Cell]:
    return [cell for cell in cells if any(fnmatchcase(cell.title, one) for one in only or "*")]


def _combined(tables: Sequence[Mapping[str, Any]]) -> Iterator[Cell]:
    """Yield a cell for each combination of the lists of a table, the last list fastest."""
    for table in tables:
        lists = {name: one for name, one in table.items() if isinstance(one, list)}
        for values in product(*lists.values()):
            yield Cell(**{**table, **dict(zip(lists, values, strict=True))})


def _with_seeds(cells: Sequence[Cell], seeds: int | None) -> Iterator[Cell]:
    """Yield every cell with every seed, in the order of corpora and seeds."""
    most = max(seeds or cell.seeds for cell in cells)
    for corpus, seed in product(dict.fromkeys(cell.corpus for cell in cells), range(most)):
        for cell in cells:
            if cell.corpus == corpus and seed < (1 if cell.study else seeds or cell.seeds):
                yield replace(cell, seed=seed)

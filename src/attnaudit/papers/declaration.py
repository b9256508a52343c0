"""What reproducing a paper means: its cells, the tables that they fill, and reasons where a number is not the published one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.core.papers import Paper


@dataclass(frozen=True, order=True)
class Cell:
    """One command: a run (`attnaudit run`) that is audited, or with ``study`` a study (`attnaudit study`), of a corpus.

    A run is made once with each of ``seeds`` seeds; a study sets its own. ``settings`` are dotted, as of ``--set``. A cell with ``quick``
    is a study at the smaller scale that two cores finish in minutes. ``variant`` tells cells with other settings apart; ``config`` names a
    transformer that is trained in place of a classifier. With ``vectors`` false the word vectors are not those of the call.
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
        """What the rows of a table say of the model: ``han bigru``; of a study its variant."""
        preset = "" if self.preset == "paper" else self.preset
        return " ".join(
            filter(None, (preset, self.encoder, self.attention, self.config, self.variant))
        )

    @property
    def key(self) -> str:
        """The name without the seed, under which published numbers, reasons and records are found: ``imdb-han-bigru-additive``."""
        return "-".join(
            filter(
                None, (self.corpus, self.study, *self.model.split(), "quick" if self.quick else "")
            )
        )

    @property
    def name(self) -> str:
        """The name of the cell's folder."""
        return self.key if self.study else f"{self.key}-s{self.seed}"


@dataclass(frozen=True)
class Table:
    """A table of the page: a row for each cell of ``study`` (``""``: of each run), a column for each of ``columns``.

    A column is a measure, ``erasure/delta_js`` of runs and ``f1_base`` of studies, with its label; ``#n`` behind a measure counts its
    instances, ``#undefined`` those excluded, and a label that ends in ``(%)`` shows a share in percent. ``by`` makes several rows of a
    cell: ``model`` one for each model of a study, whose name ends its measures, any other word one for each group of instances that begins
    with it. ``only`` are the corpora of the rows.
    """

    title: str
    columns: Mapping[str, str]
    study: str = ""
    by: str = ""
    only: tuple[str, ...] = ()
    config: str = ""


@dataclass(frozen=True)
class Declaration:
    """A paper as cells.

    ``quick`` are the cells of ``--quick``; ``settings`` hold for all cells. ``tables`` are those of the page; without any the numbers
    are compared with two runs of the authors (`published.compare`). ``reasons`` say why a number is not the published one: by the key of a
    cell, by its corpus, by ``corpus/measure`` or ``key/measure``; a longer name comes before a shorter one. ``missing`` says why
    corpora have no record here. A run of a corpus with another number of classes than ``classes`` says is of another task, and not
    compared. ``page`` is where the tables are in the documentation.
    """

    paper: Paper
    question: str
    cells: tuple[Cell, ...]
    quick: tuple[Cell, ...]
    page: str
    tables: tuple[Table, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    classes: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.paper.key

    @property
    def corpora(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell.corpus for cell in self.cells))

    @property
    def every_cell(self) -> tuple[Cell, ...]:
        """Those of both scales; each once, with seed 0."""
        return tuple(
            {cell.key: replace(cell, seed=0) for cell in (*self.cells, *self.quick)}.values()
        )

    def left_out(self, corpora: Sequence[str] = ()) -> str:
        """What ``--quick`` leaves out of the ``corpora``, or of all, in words."""
        named = corpora or self.corpora
        made = {replace(cell, quick=False).key for cell in self.quick}
        quick = [cell.key for cell in self.quick if cell.quick and cell.corpus in named]
        whole, some = list[str](), list[str]()
        for corpus in named:
            keys = {cell.key for cell in self.cells if cell.corpus == corpus}
            if not keys & made:
                whole.append(corpus)
            elif keys - made:
                some.append(f"{len(keys - made)} of {len(keys)} cells of {corpus}")
        parts = ([f"all of {', '.join(whole)}"] if whole else []) + some
        parts += (
            ["all seeds but the first"]
            if any(cell.seeds > 1 for cell in self.cells if not cell.study)
            else []
        )
        parts += [f"the published scale of {', '.join(quick)}"] if quick else []
        return f"--quick leaves out {'; '.join(parts) or 'nothing'}"

    def reason(self, cell: Cell, measure: str) -> str:
        """Why a number of a cell is not the published one; empty where no reason is known."""
        keys = [replace(cell, quick=False).key, cell.corpus]
        named = [*(f"{key}/{measure}" for key in keys), *keys]
        return next((self.reasons[name] for name in named if name in self.reasons), "")

    def plan(
        self, *, quick: bool = False, corpora: Sequence[str] = (), encoders: Sequence[str] = (), attentions: Sequence[str] = (),
        studies: Sequence[str] = (), seeds: int | None = None,
    ) -> list[Cell]:  # fmt: skip
        """The cells of a call, those of one corpus and seed together; what is not named is all there is.

        Raises InputError for an unknown name, for names that choose no cell, and for ``seeds`` with ``quick`` or of studies.
        """
        cells = self.quick if quick else self.cells
        options = {
            "corpus": corpora,
            "encoder": encoders,
            "attention": attentions,
            "study": studies,
        }
        for part, given in options.items():
            known = list(dict.fromkeys(filter(None, (getattr(cell, part) for cell in self.cells))))
            for name in given:
                if name not in known:
                    expected = (
                        f"one of {', '.join(known)}"
                        if known
                        else f"none: the cells of {self.name} have no {part} to choose"
                    )
                    raise InputError(
                        "reproduce", f"--{part}", repr(name), expected, did_you_mean(name, known)
                    )
        self._check_seeds(quick, seeds)
        chosen = [
            cell
            for cell in cells
            if all(not given or getattr(cell, part) in given for part, given in options.items())
        ]
        if not chosen:
            known = ", ".join(
                " ".join(filter(None, (cell.corpus, cell.study, cell.model))) for cell in cells
            )
            named = " ".join(
                f"--{part} {name}" for part, given in options.items() for name in given
            )
            where = f"--quick {named}".rstrip() if quick else named
            raise InputError(
                "reproduce",
                where,
                "no such cell",
                f"some of {known}",
                "name others" + " or leave --quick out" * quick,
            )
        return list(_of_seeds(chosen, seeds))

    def _check_seeds(self, quick: bool, seeds: int | None) -> None:
        if seeds is None:
            return
        if quick:
            raise InputError(
                "reproduce",
                "--seeds",
                f"{seeds} together with --quick",
                "one of the two",
                "--quick has seed 0 alone",
            )
        if all(cell.study for cell in self.cells):
            study = self.cells[0].study
            got = f"{seeds}, and every cell of {self.name} is a study"
            raise InputError(
                "reproduce",
                "--seeds",
                got,
                "seeds of a study by its own setting",
                f"--set {study}.seeds={seeds}",
            )


def _of_seeds(cells: Iterable[Cell], seeds: int | None) -> Iterable[Cell]:
    """Every cell with every seed, in the order of corpora and seeds."""
    cells = list(cells)
    most = max(seeds or cell.seeds for cell in cells)
    for corpus, seed in product(dict.fromkeys(cell.corpus for cell in cells), range(most)):
        for cell in cells:
            if cell.corpus == corpus and seed < (1 if cell.study else seeds or cell.seeds):
                yield replace(cell, seed=seed)

"""A page of any report: one self-contained file of sections that opens without a network."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from attnaudit.core.files import write_text
from attnaudit.core.numbers import count, thousands
from attnaudit.core.printable import data_without_controls, without_controls
from attnaudit.report import words
from attnaudit.report.charts.palette import LegendEntry
from attnaudit.report.charts.svg import Figure
from attnaudit.report.meanings import Terms, explained, measure_meaning

if TYPE_CHECKING:
    from attnaudit.report.card import VerdictCard

TEMPLATES = "report/templates"
SAVE = ("colours.js", "save.js")  # the scripts that save figures and heatmaps


@dataclass(frozen=True)
class Section:
    """A part of a page: ``template`` names a file of `TEMPLATES`, without its endings, and ``content`` is what it shows.

    ``links`` are its entries in the navigation: (title, address). ``scripts`` are files that it needs; ``data`` is what they read, by the
    id of the element that holds it; ``styles`` are those that no other section needs.
    """

    template: str
    content: Mapping[str, Any] = field(default_factory=dict)
    links: tuple[tuple[str, str], ...] = ()
    scripts: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    styles: tuple[str, ...] = ()


def write_page(
    path: Path, sections: Iterable[Section | None], heading: str, subtitle: str = "", *, title: str = "",
    links: Sequence[tuple[str, str]] = (), styles: Sequence[str] = ("report.css",), loads: bool = False,
) -> Path:  # fmt: skip
    """Write the page of ``sections`` (None: none) to ``path`` and return it. Raises RunError.

    ``title`` is that of the browser's window, by default the ``heading``; ``links`` end the navigation. A page that
    ``loads`` may run the files of data that its own script names.
    """
    write_text(
        path,
        page_text(
            sections, heading, subtitle, title=title, links=links, styles=styles, loads=loads
        ),
    )
    return path


def page_text(
    sections: Iterable[Section | None], heading: str, subtitle: str = "", *, title: str = "", links: Sequence[tuple[str, str]] = (),
    styles: Sequence[str] = ("report.css",), bare: bool = False, connects: bool = False, loads: bool = False,
) -> str:  # fmt: skip
    """The page as text; ``bare`` without its head, for a page within another; with ``connects`` its script may ask the page's server."""
    shown = [section for section in sections if section is not None]
    scripts = {name: section for section in shown for name in section.scripts}
    script = "".join(_script(name, section) for name, section in scripts.items())
    theme = style_of("scheme.js")
    term = Terms()
    parts = [rendered(section.template, {"term": term, **section.content}) for section in shown]
    own = [link for section in shown for link in section.links]
    if term.defined:
        parts, own = (
            [*parts, rendered("definitions", {"defined": term.defined})],
            [*own, ("Definitions", "#definitions")],
        )
    styles = [*styles, *dict.fromkeys(name for section in shown for name in section.styles)]
    content = {
        "heading": heading, "subtitle": subtitle, "title": title or heading, "bare": bare, "connects": connects,
        "style": Markup("\n".join(map(style_of, styles))),
        "links": [*own, *links], "parts": parts,
        "data": {name: data_without_controls(data) for section in shown for name, data in section.data.items()},
        "script": Markup(script), "scheme": Markup(theme),
        # by these hashes the page's policy lets these scripts run and no other
        "hashes": [_hash(text) for text in (theme, script) if text], "loads": loads,
    }  # fmt: skip
    return str(rendered("page", content))


def card_section(card: VerdictCard, left_out: Sequence[tuple[str, str]] = ()) -> Section:
    """The card, and below it what has no answer: (name, reason)."""
    content = {
        "card": card,
        "left_out": left_out,
        "meaning_of": partial(measure_meaning, unit=card.unit),
    }
    return Section("card", content, (("Verdict", "#verdict"),))


def figures_section(
    figures: Sequence[Figure], legend: Sequence[LegendEntry] = ()
) -> Section | None:
    """Figures with the legend that they share; None without any."""
    return (
        Section("figures", {"figures": figures, "legend": legend}, (("Figures", "#figures"),), SAVE)
        if figures
        else None
    )


@cache
def environment() -> Environment:
    """Templates that escape every text; only the package's own style, script and drawings are marked as safe."""
    loader = PackageLoader("attnaudit", TEMPLATES)
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"figure": words.figure, "percent": words.percent, "drawing": Markup}
    environment.globals |= {
        "count": count,
        "thousands": thousands,
        "of_unit": words.of_unit,
        "row_of_heads": words.row_of_heads,
        "term": explained,
        "explained": explained,
    }
    return environment


def rendered(template: str, content: Mapping[str, Any]) -> Markup:
    """A template with its content. Control characters of labels, names and texts are shown: they could hide or turn round what follows."""
    return Markup(
        without_controls(environment().get_template(f"{template}.html.j2").render(content))
    )


def _script(name: str, section: Section) -> str:
    """A script of a section, whose content says which parts of it the page needs; no text of a user enters it."""
    return environment().get_template(name).render(section.content) + "\n"


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def style_of(name: str) -> str:
    """A style sheet or script of the package, as it stands."""
    return files("attnaudit").joinpath(TEMPLATES).joinpath(name).read_text(encoding="utf-8")

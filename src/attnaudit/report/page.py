"""A page of any report: one self-contained file of sections that opens without a network."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from attnaudit.core import count, thousands, write_text
from attnaudit.core.escapes import data_without_controls, without_controls
from attnaudit.report import words
from attnaudit.report.charts.palette import LegendEntry
from attnaudit.report.charts.svg import Figure
from attnaudit.report.meanings import Terms, explained, measure_meaning

if TYPE_CHECKING:
    from attnaudit.report.card import VerdictCard

MOST_FIGURES = 8  # that are shown at once
SAVE = ("heatmap.js", "sections/save.js")  # the scripts that save figures and heatmaps
_WRAPPED = re.compile(r"(?<=[\w,;:.)”])\n(?=[\w“(←→↑↓]|\{\{ )")  # prose, in templates only
_MACROS = ("section", "folded", "scroll", "table", "choice", "swatch", "shaded")


@dataclass(frozen=True)
class Section:
    """A part of a page.

    Attributes:
        template: Name of a file of ``templates``, without its endings.
        content: Its HTML.
        title: Its entry in the navigation, which leads to the template's name; empty for none.
        scripts: Files of ``scripts`` that it needs, each after those that it needs itself.
        data: Data of scripts, by the id of the element that holds them.
        styles: Files of ``styles`` that no other section needs.
        links: Further entries in the navigation: (title, address).
    """

    template: str
    content: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    scripts: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    styles: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()


def write_page(
    path: Path, sections: Iterable[Section | None], heading: str, subtitle: str = "", **options: Any
) -> Path:
    """Write the page of ``sections`` to ``path`` and return it, with the options of `page_text`.

    Raises:
        RunError: If it cannot be written.
    """
    write_text(path, page_text(sections, heading, subtitle, **options))
    return path


def page_text(
    sections: Iterable[Section | None],
    heading: str,
    subtitle: str = "",
    *,
    title: str = "",
    kicker: str = "attnaudit · is attention a faithful explanation?",
    links: Sequence[tuple[str, str]] = (),
    bare: bool = False,
    allows: str = "",
) -> str:
    """Return the text of a page.

    Args:
        sections: Its sections; None is skipped.
        heading: Heading.
        subtitle: Line below the heading.
        title: Title of the browser's window; by default the heading.
        kicker: Line above the heading.
        links: End of the navigation: (title, address).
        bare: Leaves out the masthead, for a page within another.
        allows: Ends the content policy: ``'strict-dynamic'`` lets the page's script run files of
            data, ``; connect-src 'self'`` lets it ask the page's server.
    """
    shown = [section for section in sections if section is not None]
    scripts = list(dict.fromkeys(name for section in shown for name in section.scripts))
    script = "".join(map(_script, ["dom.js", *scripts])) if scripts else ""
    scheme, term = _read("scripts/scheme.js"), Terms()
    parts = [rendered(one.template, {"term": term, **one.content}) for one in shown]
    navigation = [
        link
        for one in shown
        for link in (*([(one.title, f"#{one.template}")] if one.title else ()), *one.links)
    ]
    if term.defined:
        parts.append(rendered("definitions", {"defined": term.defined}))
        navigation.append(("Definitions", "#definitions"))
    styles = dict.fromkeys(name for section in shown for name in section.styles)
    data = {name: read for section in shown for name, read in section.data.items()}
    policy = f"{_policy([scheme, script])} {allows}".rstrip()
    content = {
        "heading": heading,
        "subtitle": subtitle,
        "kicker": kicker,
        "title": title or heading,
        "bare": bare,
        "policy": Markup(policy),
        "style": Markup("\n".join(map(style_of, ["report.css", *styles]))),
        "links": [*navigation, *links],
        "parts": parts,
        "data": {name: data_without_controls(read) for name, read in data.items()},
        "script": Markup(script),
        "scheme": Markup(scheme),
    }
    return str(rendered("page", content))


def policy_of(text: str) -> str:
    """Return the content policy for a page that may have been written by anyone.

    Only scripts of this package run, whatever the page itself allows.
    """
    return _policy(filter(_scripts().fullmatch, re.findall(r"<script>(.*?)</script>", text, re.S)))


def _policy(scripts: Iterable[str]) -> str:
    """Return the policy that allows these scripts only, by their hashes."""
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts if script)
    hashes = [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests]
    return f"{_POLICY} {' '.join(hashes)}".rstrip()


_POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
    "style-src 'unsafe-inline'; script-src"
)


@cache
def _scripts() -> re.Pattern[str]:
    """Return a pattern for scripts of this package, one after another."""
    place = files("attnaudit.report").joinpath("scripts")
    folders = ("", "sections/")
    names = [
        f"{folder}{file.name}"
        for folder in folders
        for file in place.joinpath(folder).iterdir()
        if file.is_file()
    ]
    return re.compile(f"(?:{'|'.join(re.escape(_script(name)) for name in names)})+")


def card_section(
    card: VerdictCard, left_out: Sequence[tuple[str, str]] = (), is_folded: bool = False
) -> Section:
    """Make the section of a card, and below it what has no answer: (name, reason)."""
    meaning_of = partial(measure_meaning, unit=card.unit)
    content = {"card": card, "left_out": left_out, "meaning_of": meaning_of, "is_folded": is_folded}
    return Section("card", content, links=(("Measures" if is_folded else "Verdict", "#verdict"),))


def figures_section(
    figures: Sequence[Figure], legend: Sequence[LegendEntry] = (), shown: int = MOST_FIGURES
) -> Section | None:
    """Make the section of figures with the legend that they share; None without any.

    Args:
        figures: The figures.
        legend: The legend.
        shown: How many are shown at once; the others are folded.
    """
    content = {"figures": figures, "legend": legend, "shown": shown}
    return Section("figures", content, "Figures", SAVE) if figures else None


@cache
def environment() -> Environment:
    """Return the templates, which escape every text but the package's own style and drawings."""
    environment = Environment(
        loader=FunctionLoader(lambda name: _WRAPPED.sub(" ", _read(f"templates/{name}"))),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"figure": words.figure, "percent": words.percent, "drawing": Markup}
    environment.globals |= {
        "count": count,
        "thousands": thousands,
        "row_of_heads": words.row_of_heads,
        "term": explained,
        "explained": explained,
    }
    macros = environment.get_template("macros.html.j2").module
    environment.globals |= {name: getattr(macros, name) for name in _MACROS}
    return environment


def rendered(template: str, content: Mapping[str, Any]) -> Markup:
    """Render a template, with control characters shown: they could hide or turn what follows."""
    return Markup(
        without_controls(environment().get_template(f"{template}.html.j2").render(content))
    )


def _script(name: str) -> str:
    """Return a script; that of a section keeps its names to itself."""
    text = _read(f"scripts/{name}")
    return f"{{\n{text}}}\n" if name.startswith("sections/") else text


def style_of(name: str) -> str:
    """Return a style sheet of the package."""
    return _read(f"styles/{name}")


@cache
def _read(name: str) -> str:
    return files("attnaudit.report").joinpath(name).read_text(encoding="utf-8")

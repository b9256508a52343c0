"""The commands about corpora: list, check and fetch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from attnaudit.cli import options as o
from attnaudit.cli.bars import progress
from attnaudit.corpora.spec import CorpusSpec

app = typer.Typer(rich_markup_mode=None)

Source = Annotated[
    str,
    typer.Argument(
        metavar="CORPUS",
        show_default=False,
        help="A registered name, a file, or a folder, as for attnaudit run.",
    ),
]
Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", show_default=False, help="A registered name; see attnaudit corpora list."
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="URL", help="URL of a mirror (http or https); the checksum must agree."
    ),
]
Place = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help="Folder to put the corpus into; default: $ATTNAUDIT_DATA, then the user's cache.",
    ),
]
NoCheck = Annotated[
    bool,
    typer.Option(
        "--no-check", help="Do not read the corpus after the download (slow for a large one)."
    ),
]


@app.callback()
def corpora() -> None:
    """List, check and fetch corpora.

    \b
    attnaudit corpora list                  names, licences, and local folders
    attnaudit corpora fetch sst             download one from its authors
    attnaudit corpora check reviews.csv     describe one, registered or your own
    """


@app.command("list", short_help="Names, licences, citations and local folders.")
def list_(data_dir: o.DataDir = None, as_json: o.Json = False) -> None:
    """List the registered corpora: task, classes, licence, citation, and the local folder or how to get it.

    \b
    Examples:
      attnaudit corpora list
      attnaudit corpora list --data-dir data --json
    """
    from attnaudit.cli.show import show_listing
    from attnaudit.corpora.registry import listed_corpora

    show_listing(listed_corpora(data_dir), as_json)


@app.command(short_help="Describe a corpus: classes, lengths, repeated rows, damage.")
@o.takes(CorpusSpec)
def check(
    corpus: Source,
    as_json: o.Json = False,
    **options: Any,
) -> None:
    """Read a corpus as attnaudit run does, with seed 0, and describe it.

    Prints rows per class compared with the published numbers, lengths in tokens, words outside the vocabulary of train, rows with the same
    words and those of them with another label, damage by encodings and markup, rationales, and skipped rows. Findings are not
    errors: the exit status is 0 when the corpus could be read.

    \b
    Examples:
      attnaudit corpora check sst --data-dir data
      attnaudit corpora check reviews.csv.gz --text-column body --label-column stars --on-bad-row skip
      attnaudit corpora check folder/with/train/and/test --json
    """
    from attnaudit.cli.show import show_check
    from attnaudit.corpora.check import check_source

    with progress() as bar:
        found = check_source(corpus, progress=bar, **o.given(**options))
    show_check(found, as_json)


@app.command(short_help="Download a corpus from its authors.")
def fetch(
    name: Name,
    data_dir: Place = None,
    address: Address = None,
    no_check: NoCheck = False,
    as_json: o.Json = False,
) -> None:
    """Download a registered corpus, check its checksum, unpack it into DIR/NAME and read it once.

    The same command resumes an interrupted download. An existing corpus is left as it is. Where no program may fetch a corpus, the
    command prints how to get it and ends with exit status 2.

    \b
    Examples:
      attnaudit corpora fetch sst
      attnaudit corpora fetch imdb --data-dir data --from https://mirror.example.org/aclImdb_v1.tar.gz
    """
    from attnaudit.cli.show import show_fetched
    from attnaudit.corpora.check import CorpusCheck, check_source
    from attnaudit.corpora.fetch import fetch_corpus

    checks: list[CorpusCheck] = []
    with progress() as bar:

        def read(place: Path) -> None:
            checks.append(check_source(name, data_dir=place, progress=bar))

        fetched = fetch_corpus(name, data_dir, address, bar, None if no_check else read)
    show_fetched(fetched, checks[0] if checks else None, as_json)

"""The commands about corpora: list, check and fetch."""

from pathlib import Path
from typing import Annotated

import typer

from attnaudit.cli import options as o
from attnaudit.cli.bars import progress

app = typer.Typer(rich_markup_mode=None)

Name = Annotated[str, o.argument("NAME", "A registered name; see attnaudit corpora list.")]


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
    """List the registered corpora: task, classes, licence, citation, and where each is.

    \b
    Examples:
      attnaudit corpora list
      attnaudit corpora list --data-dir data --json
    """
    from attnaudit.cli.show import show_listing
    from attnaudit.corpora.registry import listed_corpora

    show_listing(listed_corpora(data_dir), as_json)


@app.command(short_help="Describe a corpus: classes, lengths, repeated rows, damage.")
def check(
    corpus: o.Corpus,
    column: o.Column = None,
    settings: o.Settings = None,
    data_dir: o.DataDir = None,
    as_json: o.Json = False,
) -> None:
    """Read a corpus as attnaudit run does, with seed 0, and describe it.

    Prints rows per class compared with the published numbers, lengths in tokens, words outside the
    vocabulary of train, repeated rows, damage by encodings and markup, rationales, and skipped
    rows. Findings are not errors: the exit status is 0 when the corpus could be read.

    \b
    Examples:
      attnaudit corpora check sst --data-dir data
      attnaudit corpora check reviews.csv.gz --column text=body --set corpus.on_bad_row=skip
      attnaudit corpora check folder/with/train/and/test --json
    """
    from attnaudit.cli.show import show_check
    from attnaudit.corpora.check import check_source
    from attnaudit.recipes.work import corpus_options

    options = corpus_options(o.assigned(settings))
    given = o.given(data_dir=data_dir, **o.columns(column))
    with progress() as bar:
        found = check_source(corpus, progress=bar, **options, **given)
    show_check(found, as_json)


@app.command(short_help="Download a corpus from its authors.")
def fetch(
    name: Name,
    address: Annotated[
        str | None,
        o.option("--from", o.FILES, "URL of a mirror; the checksum must agree.", metavar="URL"),
    ] = None,
    data_dir: o.DataDir = None,
    as_json: o.Json = False,
) -> None:
    """Download a registered corpus, check its checksum, unpack it into DIR/NAME and read it once.

    An existing corpus is left as it is. If no program may fetch a corpus, the command prints how to
    get it and exits with status 2.

    \b
    Examples:
      attnaudit corpora fetch sst
      attnaudit corpora fetch imdb --data-dir data --from https://mirror.example.org/aclImdb.tar.gz
    """
    from attnaudit.cli.show import show_fetched
    from attnaudit.corpora.check import CorpusCheck, check_source
    from attnaudit.corpora.fetch import fetch_corpus

    checks: list[CorpusCheck] = []
    with progress() as bar:

        def read(place):
            checks.append(check_source(name, data_dir=str(place), progress=bar))

        place = None if data_dir is None else Path(data_dir)
        fetched = fetch_corpus(name, place, address, bar, read)
    show_fetched(fetched, checks, as_json)

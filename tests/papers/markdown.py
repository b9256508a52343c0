"""The page of a paper as text, for tests of what it says."""

from docs.papers_tables import markdown_table, plain

from attnaudit.report.paper_page import content_of


def markdown_of(found):
    """Return the page of a paper as Markdown, without its title and figure."""
    content = content_of(found)
    paper = found.paper
    parts = [
        f"{paper.paper.citation}, {paper.paper.title}: {paper.question}",
        *content["verdict"],
        content["rule"],
        "\n".join(f"- {plain(note)}" for note in content["notes"]),
    ]
    for table in content["tables"]:
        filled = markdown_table([head for head, _ in table.heads], table.rows)
        parts += [f"### {table.title}", table.tally, filled, _listed(table.reasons)]
    if content["missing"]:
        parts += ["Without a record:", _listed(content["missing"])]
    if content["commands"]:
        commands = (f"- `{key}`: `{command}`" for key, command, _, _ in content["commands"])
        parts += ["Commands:", "\n".join(commands)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _listed(pairs):
    return "\n".join(f"- {plain(names)}: {plain(reason)}" for names, reason in pairs)

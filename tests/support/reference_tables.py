"""What the reference takes from the program word for word, each as the Markdown of one part of a page."""

from __future__ import annotations

import re

import manual
import sql_contract
from generated import code, plain, table

from arcacct.cli.metrics import HELP
from arcacct.db.lives import MEANING
from arcacct.db.schema import ACCOUNTING, PUBLISHING
from arcacct.jobs.precedence import PRECEDENCE, SOURCES


def views() -> str:
    """The list of all views, then a section for each: its columns, with what the comments of the schema say."""
    kinds = {view: kind for kind in (ACCOUNTING, PUBLISHING) for view in sql_contract.documented(kind)}
    listed = [(f"[{view}](#{view})", f"`{kind.folder}.db`") for view, kind in kinds.items()]
    parts = [table(("view", "database"), listed)]
    for view, kind in kinds.items():
        columns = [(code(one.name), plain(one.meaning)) for one in sql_contract.documented(kind)[view]]
        parts.append(f"## {view}\n\n{table(('column', 'what it is; unit; where it is from'), columns)}")
    return "\n".join(parts)


def precedence() -> str:
    """Who may tell which value, and what the words for the sources stand for."""
    rows = [(", ".join(map(code, row.fields)), " > ".join(row.order), row.reason) for row in PRECEDENCE]
    words = "\n".join(f"* `{source}`: {meaning}" for source, meaning in SOURCES.items())
    return f"{table(('what', 'the strongest first', 'why'), rows)}\n{words}\n"


_RULE = re.compile(
    r"""\ +-\ alert:\ (?P<name>\w+)\n
        \ +expr:\ '(?P<expr>.*)'\n
        \ +for:\ (?P<since>\w+)\n
        \ +labels:\n\ +severity:\ (?P<severity>\w+)\n
        \ +annotations:\n
        \ +summary:\ '(?P<summary>.*)'\n
        \ +description:\ '(?P<todo>.*)'\n""",
    re.VERBOSE,
)


def metrics() -> str:
    """Every metric of `arcacct metrics`, in the order of its table."""
    rows = [
        (code(name), "counter" if name.endswith("_total") else "gauge", ", ".join(map(code, labels)), plain(text))
        for name, (text, labels) in HELP.items()
    ]
    return table(("metric", "type", "labels", "meaning"), rows)


def alerts() -> str:
    """Every rule of etc/arcacct.rules.yaml."""
    text = (manual.ROOT / "etc" / "arcacct.rules.yaml").read_text(encoding="utf-8")
    rules = list(_RULE.finditer(text))
    assert len(rules) == text.count("- alert:")
    parts = []
    for rule in rules:
        found = {name: value.replace("''", "'") for name, value in rule.groupdict().items()}
        parts.append(
            f"### {found['name']}\n\n{found['severity'].capitalize()}, when this holds for {found['since']}:\n\n"
            f"```text\n{found['expr']}\n```\n\n{plain(found['todo'])}\n"
        )
    return "\n".join(parts)


def doubts() -> str:
    """What may be wrong between the two databases."""
    return "".join(f"* {plain(text)}.\n" for text in MEANING.values())

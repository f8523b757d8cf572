"""What the reference takes from the program word for word, each as the Markdown of one part of a page."""

from __future__ import annotations

import sql_contract
from generated import code, plain, table

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

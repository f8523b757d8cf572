"""
Datasette as it is served, on databases of arcacct: pages, with the SQL that each of them made it run.

A program of its own, since its libraries warn of what pytest makes errors: ``datasette_pages.py METADATA SETTINGS
DATABASE... < paths.json`` prints, as its last line, a JSON list of
``{path, status, text, cpu_s, sql: [[database, text, parameters]], errors}``. (Datasette prints what it refuses, too.)
"""

from __future__ import annotations

import asyncio
import json
import pathlib
import sys
import time
from typing import Any

from datasette.app import Datasette
from datasette.database import Database
from datasette.utils import parse_metadata

ran: list[tuple[str, str, Any]] = []
errors: list[str] = []
_execute = Database.execute


async def noted(database: Database, sql: str, params: Any = None, *args: Any, **more: Any) -> Any:
    """What a page asks of a database goes through here, also what it asks within a time limit and gives up."""
    ran.append((database.name, sql, params))
    try:
        return await _execute(database, sql, params, *args, **more)
    except Exception as error:
        errors.append(f"{type(error).__name__}: {sql}")
        raise


async def fetched(datasette: Datasette, path: str) -> dict[str, object]:
    ran.clear()
    errors.clear()
    began_s = time.process_time()
    answer = await datasette.client.get(path)
    cpu_s = time.process_time() - began_s
    found = {"path": path, "status": answer.status_code, "text": answer.text, "cpu_s": cpu_s}
    return {**found, "sql": [*ran], "errors": [*errors]}


async def main(metadata: str, settings: str, *databases: str) -> None:
    found = parse_metadata(metadata)
    Database.execute = noted
    # It prints a traceback with all locals for each page that is not there or not allowed: 0.3 s each.
    sys.modules["datasette.handle_exception"].rich = None
    portal = pathlib.Path(__file__).parents[2] / "etc/portal"
    datasette = Datasette(
        databases,
        metadata=found,
        settings=json.loads(settings),
        plugins_dir=str(portal / "plugins"),
        template_dir=str(portal / "templates"),
    )
    await datasette.invoke_startup()
    print(json.dumps([await fetched(datasette, path) for path in json.load(sys.stdin)]))


with open(sys.argv[1], encoding="utf-8") as file:
    text = file.read()
asyncio.run(main(text, *sys.argv[2:]))

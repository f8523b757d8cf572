"""The common parts of commands that query: the choice of the database, progress, completion, benchmarks as options."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import click
from click.shell_completion import CompletionItem

from arcacct.benchmark import Benchmark
from arcacct.cli.options import Parsed, places_of
from arcacct.cli.progress import at_work
from arcacct.cli.targets import with_options
from arcacct.config.paths import benchmark
from arcacct.database import access
from arcacct.database.connection import Connection
from arcacct.errors import InputError
from arcacct.queries import questions
from arcacct.queries.usage import Conversion
from arcacct.records.row_mapping import schema_version
from arcacct.wording import strip_control

# Shared by commands that query: the choice of the database, progress on a terminal, names for completion.


_HARMLESS = re.compile(r"[\w/.,:=@%+ -]+")
"""
Names that a shell may write into a command line: bash takes them unchanged, and would run ``$(...)`` in a name that a
user has chosen.
"""


def database_of(ctx: click.Context) -> str:
    """
    Return the database to query: --database, of any owner, else the configured one.

    Raises ConfigError, and StoreError if the configured one is missing.
    """
    given: str | None = ctx.obj["database"]
    if given:
        return os.path.abspath(given)
    here = places_of(ctx)
    access.require(here)
    return here.database


def opened(ctx: click.Context) -> AbstractContextManager[Connection]:
    """Open the database to query, for reading. Raises as `database_of` and `reading.opened_to_ask`."""
    return questions.opened_to_ask(database_of(ctx), anybodys=bool(ctx.obj["database"]))


@contextmanager
def asking(ctx: click.Context) -> Iterator[Connection]:
    """Open the database for reading. A terminal shows that a query is at work if it takes longer than a second."""
    with access.translating(database_of(ctx)), opened(ctx) as con, at_work("asking"):
        yield con


arcctl_option = click.option(
    "--arcctl",
    type=click.Choice(["6", "7"]),
    help="Use the format of arcctl in ARC 6 or ARC 7; default: 7 for a database of ARC 7, else 6.",
)


def arcctl_version(con: Connection, given: str | None) -> int:
    """Return the version of arcctl to imitate, 6 or 7."""
    return int(given) if given else 5 + schema_version(con)


def completed(kind: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Shell completion with values of the database: user, vo, fqan, queue, state, endpoint or job."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            with opened(with_options(ctx)) as con:
                names = questions.names(con, kind, incomplete)
                return [
                    CompletionItem(name) for name in names if _HARMLESS.fullmatch(name) and strip_control(name) == name
                ]
        except Exception:  # noqa: BLE001  a shell that completes must never see an error
            return []

    return complete


# Benchmarks on the command line.


def _rating(text: str) -> str:
    """A benchmark of a type that APEL knows, as it is recorded."""
    found = benchmark(text)
    Benchmark.parse(found)
    return found


def _conversion(text: str) -> Conversion:
    """``TYPE:VALUE`` for every job, or ``TYPE=FACTOR`` for those of a type."""
    try:
        return Conversion.parse(text)
    except InputError as error:
        raise ValueError(f"{error}, or TYPE=FACTOR, as HEPSPEC=1.1") from None


RATING = Parsed("benchmark", _rating)
AS_RATING = Parsed("benchmark", _conversion)

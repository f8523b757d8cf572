"""What the manual tells people who ask: its recipes run, its tables are those of the schema."""

from __future__ import annotations

import json
import re

import arex_corpus as corpus
import manual
import pytest
from installed import arcacct

from arcacct.database.access import initialise

RECIPES = [
    (database, statement)
    for database, statement in re.findall(r"^```sql\n-- (\w+)\.db\n(.*?)^```$", manual.text(), re.MULTILINE | re.DOTALL)
    if "v1_" in statement
]


def test_the_manual_has_ten_recipes() -> None:
    """There are at least ten queries on the views."""
    assert len(RECIPES) >= 10


@pytest.mark.parametrize(
    "statement", [statement for database, statement in RECIPES if database == "accounting"], ids=lambda text: text[:40]
)
def test_a_recipe_runs(ours, statement) -> None:
    """Each recipe answers by `arcacct query`."""
    done = arcacct("--config", ours.conf, "query", "--format", "json", statement)

    assert (done.returncode, done.stderr) == (0, "")
    assert isinstance(json.loads(done.stdout), list)


@pytest.mark.parametrize("statement", [statement for database, statement in RECIPES if database == "publishing"])
def test_a_recipe_of_the_ledger_runs(ours, statement) -> None:
    """Each recipe for publishing.db answers by `arcacct query --ledger`."""
    here = corpus.place(ours.control)
    initialise(here)

    done = arcacct("--config", ours.conf, "query", "--ledger", "--format", "json", statement)

    assert (done.returncode, done.stderr) == (0, "")

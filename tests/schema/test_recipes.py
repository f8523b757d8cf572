"""What the manual tells people who ask: its recipes run, its tables are those of the schema."""

from __future__ import annotations

import json
import re
from contextlib import closing

import arex_corpus as corpus
import manual
import pytest
from campaigns import sample
from installed import arcacct

from arcacct.database.access import initialise, open_accounting
from arcacct.database.schema import SOURCES, create_views

RECIPES = [
    one
    for one in re.findall(r"^```sql\n(-- \w+\.db\n.*?)^```$", manual.text(), re.MULTILINE | re.DOTALL)
    if "v1_" in one
]


def test_the_manual_has_ten_recipes() -> None:
    """There are at least ten queries on the views, and some are on the ledger."""
    assert len(RECIPES) >= 10
    assert any(one.startswith("-- publishing.db\n") for one in RECIPES)


@pytest.mark.parametrize("statement", sample(RECIPES, 8), ids=lambda text: text.split("\n", 1)[1][:40])
def test_a_recipe_runs_as_printed(ours, statement) -> None:
    """Each recipe is copied with its first line and answers by `arcacct query`, whichever database it asks."""
    here = corpus.place(ours.control)
    initialise(here)
    with closing(open_accounting(here)) as con:
        create_views(con, *SOURCES)

    done = arcacct("--config", ours.conf, "query", statement, "--format", "json")

    assert (done.returncode, done.stderr) == (0, "")
    assert isinstance(json.loads(done.stdout), list)

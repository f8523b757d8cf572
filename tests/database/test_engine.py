"""SQLite's module, imported without what the hook does not need."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hook_host import PROJECT

START = f"import sys; sys.path.append({PROJECT!r}); "


def said(code: str) -> list[str]:
    """The words that a bare interpreter prints."""
    command = [sys.executable, "-I", "-S", "-c", START + code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_functools_is_not_imported_and_not_replaced() -> None:
    """The stand-in is gone afterwards: whoever imports functools later gets the real one."""
    found = said(
        "import arcacct.database.connection; print('functools' in sys.modules, 'collections' in sys.modules);"
        "import functools; print(functools.partial is not None, functools.lru_cache(1)(len)('four'))"
    )

    assert found == ["False", "False", "True", "4"]


@pytest.mark.parametrize(
    "before",
    ["import functools", "import sqlite3", "import _functools; del _functools._lru_cache_wrapper; import functools"],
    ids=["functools first", "sqlite3 first", "a Python without the C function"],
)
def test_it_is_the_same_module_whatever_came_first(before: str) -> None:
    """Beside functools or sqlite3, and in a Python that is made differently, the real import takes place."""
    found = said(
        f"{before}; from arcacct.database.connection import connect, Connection; import sqlite3;"
        "print(Connection is sqlite3.Connection, connect(':memory:').execute('SELECT 6 * 7').fetchone()[0])"
    )

    assert found == ["True", "42"]


def test_more_statements_than_are_kept_work() -> None:
    """Statements come and go in the cache of prepared ones without harm."""
    found = said(
        "from arcacct.database.connection import connect; con = connect(':memory:', cached_statements=2);"
        "[con.execute(f'SELECT {number % 3}').fetchone() for number in range(9)];"
        "print(con.execute('SELECT ?', ('still works',)).fetchone()[0])"
    )

    assert found == ["still", "works"]

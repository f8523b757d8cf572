"""
SQLite's own module, `_sqlite3`, without the half of the standard library that its import brings. On the hook's path.

It asks `functools` for `lru_cache`, to keep prepared statements, and for nothing else; `functools` brings
`collections`, `operator`, `types` and more, a fifth of the time that the interpreter needs to start. The C function
below `functools.lru_cache` is built in and does the same. (The `sqlite3` package would bring `datetime` as well; its
classes are these.)
"""

import _functools  # type: ignore[import-not-found]
import sys


class _Functools:
    """What stands for `functools` while `_sqlite3` is imported."""

    @staticmethod
    def lru_cache(maxsize: int) -> "object":
        return lambda function: _functools._lru_cache_wrapper(function, maxsize, False, tuple)  # noqa: SLF001


def _import_alone() -> None:
    if "functools" in sys.modules or "_sqlite3" in sys.modules or not hasattr(_functools, "_lru_cache_wrapper"):
        return
    sys.modules["functools"] = _Functools  # type: ignore[assignment]
    try:
        import _sqlite3  # noqa: F401, PLC0415
    except Exception:  # noqa: BLE001, S110  a Python in which that does not do imports it below, with all it wants
        pass
    finally:
        del sys.modules["functools"]


_import_alone()
from _sqlite3 import (  # noqa: E402
    Connection,
    DatabaseError,
    DataError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    ProgrammingError,
    connect,
)

__all__ = [
    "Connection",
    "DataError",
    "DatabaseError",
    "IntegrityError",
    "InterfaceError",
    "OperationalError",
    "ProgrammingError",
    "connect",
]

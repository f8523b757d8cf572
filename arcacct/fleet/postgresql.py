"""
The dataset in PostgreSQL, for federations that work there: tables of ``schema/fleet/postgresql.sql``, filled by psql.

psql finds the server as it always does (``PGSERVICE``, ``PGHOST``, ``~/.pgpass``): we are told no password and have
none to lose. A month of a CE is one transaction; one that is there already with the same files costs nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from arcacct.dataset.columns import columns
from arcacct.dataset.layout import Partition
from arcacct.errors import StoreError, TargetError, UsageError
from arcacct.fleet.checks import damaged
from arcacct.fleet.manifests import Dataset, Exported
from arcacct.resources import resource
from arcacct.targets.postgresql import quoted

_PSQL = ("psql", "-X", "-w", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-v", "SHOW_CONTEXT=never")
_NO_SERVER = 2
"""psql's exit code when there is no connection; what the server refuses is 3."""
_BEFORE = re.compile(r"^(psql:\S+ )?(ERROR|HINT|DETAIL|error): +|^psql: error: ")
_AT_ONCE = 16_384
"""Rows that are text at a time."""
_ESCAPED = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\ufffd"}
"""Of COPY; no text of PostgreSQL has a NUL."""
_SPECIAL = r"[\\\t\n\r\x00]"
_KNOWN = b"""
SELECT json_build_array(site, year, month::integer, ce, written_s, finished_log_seq, digest) FROM arcacct.partitions;
"""


class Loaded(NamedTuple):
    """What became of the partitions."""

    taken: int
    jobs: int
    """Of those that were taken."""
    unchanged: int
    older: int
    """Of which the server has a later export."""
    problems: tuple[str, ...]


def load(found: Dataset, tables: Sequence[str], advanced: Callable[[int, int], object] = lambda *_: None) -> Loaded:
    """
    Bring the tables of PostgreSQL to what a dataset says; ``advanced``: told how many of how many are done.

    What cannot be read, or is refused, is among the problems, and all the rest is loaded. Raises UsageError without
    psql or pyarrow, TargetError without a server.
    """
    known = _known()
    taken = jobs = unchanged = older = 0
    problems = [*found.problems]
    for number, one in enumerate(found.partitions):
        advanced(number, len(found.partitions))
        digest, revision = _digest(one, tables), (one.manifest.written_s, one.manifest.finished_log_seq)
        there = known.get(one.partition)
        if there == (*revision, digest):
            unchanged += 1
        elif there is not None and there[:2] > revision:
            older += 1
        else:
            try:
                wrong = [said for _path, said in damaged([one], deep=True)]
                if wrong:
                    pass
                elif _psql(_partition(one, tables, digest)).strip() == "t":
                    taken += 1
                    jobs += one.jobs.rows
                else:
                    older += 1  # By another load, meanwhile.
            except (OSError, StoreError) as error:
                wrong = [f"{one.path}: {error}; it may have been exported again meanwhile: repeat this"]
            except _Refused as error:
                wrong = [f"{one.path}: PostgreSQL did not take {one.partition}: {error}"]
            problems += wrong
    return Loaded(taken, jobs, unchanged, older, tuple(problems))


class _Refused(Exception):
    """What the server says of a statement."""


def _known() -> dict[Partition, tuple[int, int, str]]:
    """The revision and the digest of each partition that the server has; where it has no tables yet, they are made."""
    try:
        if not _psql([b"SELECT to_regclass('arcacct.partitions');\n"]).strip():
            with open(resource("schema", "fleet", "postgresql.sql"), "rb") as file:
                _psql([b"BEGIN;\n", file.read(), b"COMMIT;\n"])
        rows = map(json.loads, _psql([_KNOWN]).splitlines())
        return {Partition(*row[:4]): (row[4], row[5], row[6]) for row in rows}
    except _Refused as error:
        raise TargetError(f"PostgreSQL refuses: {error}") from error


def _psql(script: Iterable[bytes]) -> str:
    """What a script answers. Raises _Refused, UsageError without psql, TargetError without a server."""
    try:
        psql = subprocess.Popen(_PSQL, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except FileNotFoundError as error:
        raise UsageError("PostgreSQL is asked by psql: apt-get install postgresql-client") from error
    assert psql.stdin is not None
    with psql:
        try:
            psql.stdin.write(b"SET client_encoding = 'UTF8';\n")
            for piece in script:
                psql.stdin.write(piece)
        except BrokenPipeError:
            pass  # It says why.
        except BaseException:
            psql.kill()
            raise
        out, err = psql.communicate()
    if psql.returncode == 0:
        return out.decode()
    said = "; ".join(_BEFORE.sub("", line).strip() for line in err.decode(errors="replace").splitlines())
    if psql.returncode == _NO_SERVER:
        raise TargetError(
            f"psql reaches no server: {said}; PGSERVICE, PGHOST, PGDATABASE tell it where, ~/.pgpass passwords"
        )
    raise _Refused(said)


def _partition(one: Exported, tables: Sequence[str], digest: str) -> Iterator[bytes]:
    yield b"BEGIN;\nSELECT FROM arcacct.begin_partition();\n"
    for table in tables:
        if one.manifest.tables[table].rows:
            yield from _copied(one, table)
    site, year, month, ce = one.partition
    told = one.manifest
    values = (
        *(quoted(site), quoted(ce), str(year), quoted(f"{month:02d}"), quoted(told.life)),
        *(str(told.written_s), str(told.finished_log_seq), quoted(told.names), quoted(digest)),
    )
    yield f"SELECT arcacct.take_partition({', '.join(values)});\nCOMMIT;\n".encode()


def _copied(one: Exported, table: str) -> Iterator[bytes]:
    """The rows of a file, as COPY reads them; columns that the dataset may gain are left out."""
    parquet, pa, pc = (import_module(name) for name in ("pyarrow.parquet", "pyarrow", "pyarrow.compute"))
    with one.open(table) as source, parquet.ParquetFile(source) as file:
        there = set(file.schema_arrow.names)
        names = [column.name for column in columns()[table] if column.name in there]
        yield f"COPY incoming_{table} (site, year, month, ce, {', '.join(names)}) FROM STDIN;\n".encode()
        site, year, month, ce = one.partition
        front = pa.scalar(f"{site}\t{year}\t{month:02d}\t{ce}")
        for batch in file.iter_batches(_AT_ONCE, columns=names):
            texts = [_text(pa, pc, batch.column(name)) for name in names]
            rows = pc.binary_join_element_wise(front, *texts, "\t", null_handling="replace", null_replacement="\\N")
            lines = pc.binary_join_element_wise(rows, "", "\n")
            # All lines stand one behind the other there.
            yield lines.buffers()[2].slice(0, pc.sum(pc.binary_length(lines)).as_py()).to_pybytes()
    yield b"\\.\n"


def _text(pa: Any, pc: Any, column: Any) -> Any:
    if not pa.types.is_string(column.type):
        return column.cast(pa.string())
    if pc.any(pc.match_substring_regex(column, _SPECIAL)).as_py():
        for raw, said in _ESCAPED.items():
            column = pc.replace_substring(column, raw, said)
    return column


def _digest(one: Exported, tables: Sequence[str]) -> str:
    """Of the files that are to be loaded of it."""
    files = " ".join(f"{name} {one.manifest.tables[name].sha256}" for name in tables)
    return hashlib.sha256(files.encode()).hexdigest()

"""Usage over many CEs, like `arcacct stats` of one CE: the engine groups and sums, the rest is the same code."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from arcacct.fleet.dataset import Dataset, Engine, EngineFailed, Exported, script
from arcacct.queries.questions import (
    WAIT_CLASSES,
    WALLTIME_CLASSES,
    MeasuredPart,
    Selection,
    UsagePart,
    Waits,
    classified,
)
from arcacct.queries.usage import NEEDS, Conversion, UsageOrder, UsageTable, tabulated
from arcacct.secrecy import without_credentials
from arcacct.times import LAST_SECOND

FLEET_NEEDS = {"site": "site", "ce": "ce"} | NEEDS
"""The dimensions, and the column of counted_jobs for each."""
_FILTERS = {
    "users": "user_dn",
    "vos": "vo",
    "queues": "queue",
    "states": "status",
    "endpoints": "endpoint_type",
    "fqans": "fqan",
}
_LONG = "a text of more than 8192 bytes"
"""The text of counted_jobs in place of one."""
_DETAILS = ("is_failed", "stage_in_bytes", "stage_out_bytes")
_BENCHMARK = ("benchmark_type", "benchmark_value")
_MADE_OF = {
    "benchmark": _BENCHMARK,
    "cores": ("known_cores",),
    "wait": (classified("wait_s", WAIT_CLASSES),),
    "walltime": (classified("measured_wall_s", WALLTIME_CLASSES),),
}
"""Keys that are not columns of counted_jobs."""
_BOUNDS = {"after_s": "end_time >", "until_s": "end_time <=", "from_s": "end_time >=", "before_s": "end_time <"}


class FleetSelection(NamedTuple):
    """The selected CEs; empty: all."""

    sites: tuple[str, ...] = ()
    ces: tuple[str, ...] = ()


def concerned(found: Dataset, selection: Selection, which: FleetSelection) -> Dataset:
    """Return only the months in which jobs of the selection can have ended: the other files are not opened."""
    # Both included.
    first_s = max(selection.from_s or 0, (selection.after_s or -1) + 1)
    last_s = min(selection.until_s or LAST_SECOND, (selection.before_s or LAST_SECOND + 1) - 1)

    def is_asked(one: Exported) -> bool:
        of = one.partition
        begin_s, end_s = of.bounds
        is_other = (which.sites and of.site not in which.sites) or (which.ces and of.ce not in which.ces)
        return begin_s <= last_s and end_s > first_s and not is_other

    return replace(found, is_asked=is_asked)


def tables_of(selection: Selection, *, measured: bool) -> list[str]:
    """The tables that `usage` reads."""
    asked = {"transfers" if attribute == "dtrurl" else "attributes" for attribute, _value in selection.extra}
    return ["jobs", *sorted(asked), *(["accelerators"] if measured else [])]


def usage(
    engine: Engine,
    selection: Selection,
    by: Sequence[str],
    *,
    details: bool,
    active: bool = False,
    measured: bool = False,
    order: UsageOrder | None = None,
    conversion: Conversion | None = None,
    exact: bool = False,
) -> UsageTable:
    """As `arcacct.queries.usage.usage`, also by site and ce; a dataset has only jobs that have ended."""
    keys = tuple(dict.fromkeys(FLEET_NEEDS[name] for name in by))
    everything = active or bool(selection.states) or "status" in by
    parts = _parts(engine, selection, keys, details=details, everything=everything)
    told = _measured_parts(engine, selection, keys, everything=everything) if measured else None
    return tabulated(
        parts,
        told,
        by,
        FLEET_NEEDS,
        details=details,
        measured=measured,
        order=order,
        conversion=conversion,
        exact=exact,
    )


def _parts(
    engine: Engine, selection: Selection, keys: Sequence[str], *, details: bool, everything: bool
) -> Iterator[UsagePart]:
    where, values = _where(selection, everything=everything)
    columns = _columns(keys)
    amounts = {name: name if details else "0" for name in _DETAILS}
    asked = script("usage").format(keys="".join(f"{column}, " for column in columns), where=where, **amounts)
    for row in engine.rows(asked, values):
        cores, kind, value, *numbers = row[len(columns) :]
        yield UsagePart(_key(keys, row), cores, _benchmark(kind, value), *map(int, numbers))


def _measured_parts(
    engine: Engine, selection: Selection, keys: Sequence[str], *, everything: bool
) -> Iterator[MeasuredPart]:
    where, values = _where(selection, everything=everything)
    columns = _columns(keys)
    grouped = f"GROUP BY {', '.join(columns)}" if columns else ""
    asked = script("measured").format(keys="".join(f"{column}, " for column in columns), where=where, grouped=grouped)
    for row in engine.rows(asked, values):
        yield MeasuredPart(_key(keys, row), *row[len(columns) :])


def waits(engine: Engine, selection: Selection) -> list[Waits]:
    """As `arcacct.queries.questions.waits`."""
    where, values = _where(selection, everything=False)
    found = []
    for key in ("''", "vo"):
        rows = engine.rows(script("waits").format(key=key, where=where), values)
        found += [Waits(_shown("vo", row[0]) if key == "vo" else "", *map(int, row[1:])) for row in rows]
    return found


def first_end_s(engine: Engine) -> int | None:
    """Return when the first job that counts ended, UTC seconds; ``None``: there is none."""
    where, values = _where(Selection(), everything=False)
    ((found,),) = engine.rows(f"SELECT min(end_time) FROM counted_jobs WHERE {where}", values)
    return None if found is None else int(found)


def _columns(keys: Sequence[str]) -> list[str]:
    """
    Return the columns of counted_jobs: engines write numbers in many ways, so a benchmark becomes a text only here.
    """
    return [column for key in keys for column in _MADE_OF.get(key, (key,))]


def _key(keys: Sequence[str], row: Sequence[Any]) -> tuple[str | None, ...]:
    coming = iter(row)
    return tuple(
        _benchmark(next(coming), next(coming)) if key == "benchmark" else _shown(key, next(coming)) for key in keys
    )


def _benchmark(kind: str | None, value: float | None) -> str | None:
    if kind == _LONG:
        raise EngineFailed(f"benchmark_type has {_LONG}")
    return None if kind is None else f"{kind}:{value!r}"


def _shown(key: str, value: Any) -> str | None:
    if value == _LONG:
        raise EngineFailed(f"{key} has {_LONG}")
    if key == "month":
        return f"{value // 100:04d}-{value % 100:02d}"
    if key == "cores":
        return None if value is None else str(value)
    if key == "day":
        return time.strftime("%Y-%m-%d", time.gmtime(value))
    return value or None


def _where(selection: Selection, *, everything: bool) -> tuple[str, dict[str, object]]:
    conditions = ["is_possible = 1"] if everything else ["is_possible = 1", "is_published = 1"]
    values: dict[str, object] = {}
    given = selection._asdict()
    for field, condition in (*_BOUNDS.items(), ("submitted_after_s", "submit_time >")):
        if given[field] is not None:
            conditions.append(f"{condition} :{field}")
            values[field] = given[field]
    for field, column in _FILTERS.items():
        if given[field]:
            conditions.append(f"{column} IN ({_named(field, given[field], values)})")
    for number, attribute in enumerate(dict.fromkeys(attribute for attribute, _value in selection.extra)):
        asked = [value for one, value in selection.extra if one == attribute]
        conditions.append(_extra(f"extra_{number}", attribute, asked, values))
    return " AND ".join(conditions), values


def _extra(name: str, attribute: str, asked: Sequence[str], values: dict[str, object]) -> str:
    marks = _named(name, asked, values)
    table, condition = "attributes", f"kind = 'info' AND name = :{name} AND value IN ({marks})"
    if attribute == "vomsfqan":
        condition = f"kind = 'token' AND name IN ('mainfqan', 'vomsfqan') AND value IN ({marks})"
    elif attribute == "rte":
        condition = f"kind = 'rte' AND value IN ({marks})"
    elif attribute == "dtrurl":
        # In the spelling of the dataset.
        marks = _named(name, [*map(without_credentials, asked)], values)
        table, condition = "transfers", f"url IN ({marks})"
    else:
        values[name] = attribute
    return f"(site, ce, record_id) IN (SELECT site, ce, record_id FROM {table} WHERE {condition})"


def _named(name: str, asked: Sequence[str], values: dict[str, object]) -> str:
    names = [f"{name}_{number}" for number in range(len(asked))]
    values.update(zip(names, asked, strict=True))
    return ", ".join(f":{one}" for one in names)

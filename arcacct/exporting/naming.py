"""What a dataset says of users: their names, pseudonyms by the key of the site, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from arcacct.dataset.columns import columns
from arcacct.exporting.jobs import Job, Values
from arcacct.records.pseudonyms import Names, fqan_without_names, is_kept_attribute

_NAMED = ("user_dn", "job_name", "client_host")
"""Columns of jobs whose text is a name, or leads to one."""
_WITH_NAMES = ("fqan", "vo_group")
"""Of which a part may be one."""


class Concealer:
    """Jobs without names: with the pseudonyms of ``names``, or with nothing where names stood."""

    def __init__(self, names: Names | None) -> None:
        place = {column.name: number for number, column in enumerate(columns()["jobs"])}
        self._of = lru_cache(maxsize=65536)(lambda name: None if not name or names is None else names.of(name))
        self._fqan = lru_cache(maxsize=65536)(lambda text: fqan_without_names(self._of, text))
        self._ways: dict[int, Callable[[Any], Any]] = {
            **{place[one]: self._of for one in _NAMED},
            **{place[one]: self._fqan for one in _WITH_NAMES},
            place["local_user"]: self._account,
        }

    def __call__(self, job: Job) -> Job:
        """The job, as far as anybody may know it."""
        values = list(job.values)
        for number, way in self._ways.items():
            values[number] = way(values[number])
        children = dict(job.children)
        if "attributes" in children:
            children["attributes"] = [self._attribute(*row) for row in children["attributes"]]
        if "transfers" in children:
            # Paths on storage name users more often than not.
            children["transfers"] = [(row[0], _host(row[1]), *row[2:]) for row in children["transfers"]]
        return job._replace(values=tuple(values), children=children)

    def _account(self, text: Any) -> str | None:
        user, colon, group = str(text or "").partition(":")
        new = self._of(user)
        return None if new is None else f"{new}{colon}{self._of(group) if group == user else group}"

    def _attribute(self, record_id: int, kind: str, name: str, value: Any) -> Values:
        if kind == "token":
            value = self._fqan(value) if is_kept_attribute(name) else self._of(value)
        elif kind == "info" and name == "localuser":
            value = self._account(value)
        elif kind == "info" and name in ("jobname", "clienthost"):
            value = self._of(value)
        return record_id, kind, name, value


def _host(url: Any) -> str | None:
    """Of a URL what tells where the file was, and no more."""
    scheme, colon, rest = str(url or "").partition("://")
    # Users of storage stand before an @.
    return f"{scheme}{colon}{rest.partition('/')[0].partition('?')[0].rpartition('@')[2]}" if colon else None

"""Pseudonyms of users, made with the site's key, and the records and months that have them."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress

from arcacct.config.paths import Places
from arcacct.database.connection import Connection
from arcacct.database.location import PSEUDONYMS, own_as
from arcacct.database.schema import sync
from arcacct.errors import StoreError

# Pseudonyms replace the names of users. A user always has the same pseudonym.
#
# They are keyed hashes: without the key, a list of known DNs does not reveal the users.


_KEY_BYTES = 32
PSEUDONYM = re.compile("pseudonym-[0-9a-f]{20}")
GLOB = "pseudonym-*"
"""For SQL."""
KEPT_ATTRIBUTES = ("mainfqan", "vomsfqan", "iss", "aud", "scope", "wlcg.groups", "wlcg.ver", "groups")
"""
AuthTokenAttributes.AttrKey of claims that name no person, changed only by `fqan_without_names`; all other claims of a
token may name one.
"""


class Names:
    """Makes pseudonyms with the site's key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, name: str) -> str:
        """Return the pseudonym of a name, always the same; an empty name or a pseudonym is returned unchanged."""
        if not name or PSEUDONYM.fullmatch(name):
            return name
        import hmac  # noqa: PLC0415  few sites replace names

        return f"pseudonym-{hmac.new(self._key, name.encode('utf-8', 'surrogateescape'), 'sha256').hexdigest()[:20]}"


def site_names(here: Places) -> Names:
    """
    Return the pseudonyms of the site. The key is in the directory of the database, and is created once.

    A person who has the key can find users by trying names. Raises StoreError if the key is unusable.
    """
    path = os.path.join(here.directory, PSEUDONYMS)
    try:
        with suppress(FileExistsError):
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                own_as(fd, here.directory)
                os.write(fd, os.urandom(_KEY_BYTES))
                os.fsync(fd)
            finally:
                os.close(fd)
            sync(here.directory)
        with open(path, "rb") as file:
            key, mode = file.read(_KEY_BYTES + 1), os.fstat(file.fileno()).st_mode
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; run as the owner of the database") from error
    if len(key) != _KEY_BYTES or stat.S_IMODE(mode) & 0o077:
        raise StoreError(f"{path}: it must have {_KEY_BYTES} bytes that only its owner may read: restore a copy")
    return Names(key)


def fqan_without_names(of: Callable[[str], str | None], value: object) -> object:
    """Replace names in a VOMS attribute: a part that is neither group, role nor capability may name a person."""
    if not isinstance(value, str) or not value.startswith("/"):
        return value
    parts = []
    for part in value.split("/"):
        key, equals, name = part.partition("=")
        parts.append(f"{key}={of(name) or ''}" if equals and key not in ("Role", "Capability") else part)
    return "/".join(parts)


# The records and months with pseudonyms instead of names (`pseudonymise`): they are never sent again, nor changed.


def pseudonymised(con: Connection, record_ids: Sequence[int]) -> set[int]:
    """Return the RecordIDs, among ``record_ids``, of records with pseudonyms."""
    if con.execute("SELECT 1 FROM PseudonymisedRecords LIMIT 1").fetchone() is None:
        return set()
    listed = ", ".join(str(int(one)) for one in record_ids)
    rows = con.execute(f"SELECT RecordID FROM PseudonymisedRecords WHERE RecordID IN ({listed})")
    return {record_id for (record_id,) in rows}


def count_pseudonymised(con: Connection) -> int:
    """Return the number of records with pseudonyms."""
    return int(con.execute("SELECT count(*) FROM PseudonymisedRecords").fetchone()[0])


def closed_months(con: Connection) -> set[tuple[int, int]]:
    """Return the months with pseudonyms, as ``(2026, 11)``: their sums have other keys than the sent ones."""
    return {divmod(month, 100) for (month,) in con.execute("SELECT Month FROM PseudonymisedMonths")}

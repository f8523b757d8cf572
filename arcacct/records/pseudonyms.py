"""Pseudonyms of users by the key of the site, and the records and months that have them."""

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

# Names of this site's own in the place of its users': the same for the same user, and nobody else can tell whose.
#
# A keyed hash: without the key a list of known DNs does not lead back to them.


_KEY_BYTES = 32
PSEUDONYM = re.compile("pseudonym-[0-9a-f]{20}")
GLOB = "pseudonym-*"
"""For SQL."""
_KEPT_ATTRIBUTES = ("mainfqan", "vomsfqan", "iss", "aud", "scope", "wlcg.groups", "wlcg.ver", "groups")
"""AuthTokenAttributes.AttrKey of what names no person: all other claims of a token may."""


class Names:
    """Pseudonyms by the key of the site."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, name: str) -> str:
        """The pseudonym of a name, always the same; of one that is a pseudonym itself."""
        if not name or PSEUDONYM.fullmatch(name):
            return name
        import hmac  # noqa: PLC0415  few sites replace names

        return f"pseudonym-{hmac.new(self._key, name.encode('utf-8', 'surrogateescape'), 'sha256').hexdigest()[:20]}"


def site_names(here: Places) -> Names:
    """By the key beside the database, which is made once; who has it can try names. Raises StoreError."""
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
        raise StoreError(f"{path}: it is to have {_KEY_BYTES} bytes that only its owner may read: put the copy back")
    return Names(key)


def is_kept_attribute(key: str) -> bool:
    """Whether an attribute of a credential stays as it is, but for `fqan_without_names`."""
    return key in _KEPT_ATTRIBUTES


def fqan_without_names(of: Callable[[str], str | None], value: object) -> object:
    """An attribute of VOMS whose parts name no person: a part that is neither group, role nor capability may."""
    if not isinstance(value, str) or not value.startswith("/"):
        return value
    parts = value.split("/")
    odd = [("=" in part and part.partition("=")[0] not in ("Role", "Capability")) for part in parts]
    return "/".join(
        f"{part.partition('=')[0]}={of(part.partition('=')[2]) or ''}" if is_odd else part
        for part, is_odd in zip(parts, odd, strict=True)
    )


# Which records and months have pseudonyms instead of names (`forgetting`): they are never sent again, nor changed.


def pseudonymised(con: Connection, record_ids: Sequence[int]) -> set[int]:
    """Which of these records have pseudonyms."""
    if con.execute("SELECT 1 FROM PseudonymisedRecords LIMIT 1").fetchone() is None:
        return set()
    listed = ", ".join(str(int(one)) for one in record_ids)
    rows = con.execute(f"SELECT RecordID FROM PseudonymisedRecords WHERE RecordID IN ({listed})")
    return {record_id for (record_id,) in rows}


def closed_months(con: Connection) -> set[tuple[int, int]]:
    """The months, as ``(2026, 11)``, of which some have: their sums have other keys than those that were sent."""
    return {divmod(month, 100) for (month,) in con.execute("SELECT Month FROM PseudonymisedMonths")}

"""
Names of this site's own in the place of its users': the same for the same user, and nobody else can tell whose.

A keyed hash: without the key a list of known DNs does not lead back to them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets

from arcacct.conf.places import Places
from arcacct.db.place import PSEUDONYMS, own_as
from arcacct.errors import StoreError
from arcacct.files.foreign import private

_KEY_BYTES = 32
_SHOWN = 13
"""Letters of a pseudonym, of five bits each: two of a million users are alike in one site of forty million."""


def key(here: Places) -> bytes:
    """
    The key of this site, beside its databases, for its owner alone; made when it is asked for first.

    Raises StoreError when it can be neither read nor made, or is none.
    """
    path = f"{here.directory}/{PSEUDONYMS}"
    try:
        try:
            with open(path, "xb", opener=private) as file:
                file.write(secrets.token_bytes(_KEY_BYTES).hex().encode())
                own_as(file.fileno(), here.directory)
                file.flush()
                os.fsync(file.fileno())
        except FileExistsError:
            pass
        with open(path, "rb") as file:
            found = bytes.fromhex(file.read(4 * _KEY_BYTES).decode("ascii").strip())
    except OSError as error:
        who = "the user who owns the databases"
        raise StoreError(f"{path}: cannot be used for pseudonyms: {error.strerror}; run this as {who}") from error
    except ValueError as error:
        raise StoreError(f"{path}: is no key for pseudonyms; put it back from a backup, or remove it") from error
    if len(found) != _KEY_BYTES:
        raise StoreError(f"{path}: is no key for pseudonyms; put it back from a backup, or remove it")
    return found


def pseudonym(site_key: bytes, name: str) -> str:
    """What a user is called instead: ``user-`` and letters."""
    digest = hmac.digest(site_key, name.encode("utf-8", "surrogatepass"), hashlib.sha256)
    return f"user-{base64.b32encode(digest)[:_SHOWN].decode('ascii').lower()}"

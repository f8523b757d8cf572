"""
What must not come out, in the forms in which it may come back: as it is, encoded for a URL, for HTML, JSON or a header.

A proxy's or balancer's error page quotes requests, with the token in a header or the password in Proxy-Authorization.
"""

from __future__ import annotations

import base64
import html
import json
import re
from urllib.parse import quote, unquote

from arcacct.wording import HIDDEN, SHORTEST, keep_secret

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def keep(secret: str) -> None:
    """Hide a token or password from now on, wherever anything is printed, logged or noted in the ledger."""
    keep_secret(_forms(secret))


def keep_login(url: str) -> None:
    """Hide the password of a URL, or of what should be one: ``[SCHEME://]USER:PASSWORD@HOST``."""
    login, at, _host = _after_scheme(url).rpartition("@")
    _user, colon, password = login.partition(":")
    if not (at and colon):
        return
    for text in (login, unquote(login)):
        # What Proxy-Authorization has in it.
        keep_secret(_in_base64(text))
    if len(password) < SHORTEST:
        # By itself such a word is everywhere.
        keep_secret([f":{password}@"])
    else:
        keep(password)


def without_login(url: str) -> str:
    """A URL, or what should be one, as it may be shown: all before its last ``@`` is hidden, but the scheme."""
    rest = _after_scheme(url)
    _login, at, host = rest.rpartition("@")
    return f"{url[: len(url) - len(rest)]}{HIDDEN}@{host}" if at else url


def _after_scheme(url: str) -> str:
    found = _SCHEME.match(url)
    return url[found.end() :] if found else url


def _forms(secret: str) -> set[str]:
    found = set()
    for text in {secret, unquote(secret)}:
        quoted = quote(text, safe="", errors="surrogatepass")
        found |= {text, quoted, quote(text, errors="surrogatepass"), html.escape(text), json.dumps(text)[1:-1]}
        found |= {json.dumps(text, ensure_ascii=False)[1:-1], text.encode("unicode_escape").decode("ascii")}
        found |= _in_base64(text)
    return found


def _in_base64(text: str) -> set[str]:
    data = text.encode("utf-8", "surrogatepass")
    padded = {encoded(data).decode("ascii") for encoded in (base64.b64encode, base64.urlsafe_b64encode)}
    return padded | {text.rstrip("=") for text in padded}

"""
Secrets, in the forms that answers may quote: unchanged, or encoded for a URL, for HTML, JSON or a header.

A proxy's or balancer's error page quotes requests, with the token in a header or the password in Proxy-Authorization.
"""

from __future__ import annotations

import base64
import json
import re
from urllib.parse import quote, unquote

from arcacct.wording import HIDDEN, SHORTEST, keep_secret

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_BEFORE_PATH = re.compile(r"[^/?#]*")


def keep(secret: str) -> None:
    """Hide a token or password from now on, wherever anything is printed, logged or noted in the ledger."""
    import html  # noqa: PLC0415  it knows each of HTML's 2,231 characters by name, and few runs have a secret

    for text in {secret, unquote(secret)}:
        quoted = {quote(text, safe="", errors="surrogatepass"), quote(text, errors="surrogatepass")}
        escaped = {html.escape(text), json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
        keep_secret({text, text.encode("unicode_escape").decode("ascii")} | quoted | escaped | _in_base64(text))


def keep_login(url: str) -> None:
    """
    Hide the password of a URL, or of a text that should be one: ``[SCHEME://]USER:PASSWORD@HOST``.

    Also of ``USER:PASSWORD`` alone, if the host was forgotten: a text that cannot be a port counts as a password.
    """
    rest = _after_scheme(url)
    login, at, _host = rest.rpartition("@")
    if not at:
        login = rest if _is_login(rest) else ""
    _user, colon, password = login.partition(":")
    if not colon:
        return
    for text in (login, unquote(login)):
        # The content of Proxy-Authorization.
        keep_secret(_in_base64(text))
    if len(password) < SHORTEST:
        # Such a word alone occurs everywhere.
        keep_secret([f":{password}{at}"])
    else:
        keep(password)


def without_login(url: str) -> str:
    """
    Return a URL, or a text that should be one, without secrets: everything before its last ``@`` is hidden, except the
    scheme.

    Text in the place of a port is hidden too, if it is not a port.
    """
    rest = _after_scheme(url)
    scheme = url[: len(url) - len(rest)]
    _login, at, host = rest.rpartition("@")
    if at:
        return f"{scheme}{HIDDEN}@{host}"
    return f"{scheme}{rest.partition(':')[0]}:{HIDDEN}" if _is_login(rest) else url


def without_credentials(url: str) -> str:
    """
    Return the URL of a user's file without user, password and query: any reader of a signed query can use it.

    The path of a file in SRM stays, which is in the query (``?SFN=``). The view `v1_transfers` shows the same.
    """
    if type(url) is not str or ("@" not in url and "?" not in url):
        return url
    scheme, colon, rest = url.partition("://")
    if colon:
        authority, slash, path = rest.partition("/")
        url = f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"
    place, _mark, query = url.partition("?")
    is_path = place[:6].lower() == "srm://" and query[:4].lower() == "sfn="
    return f"{place}?{query.partition('&')[0]}" if is_path else place


def _is_login(text: str) -> bool:
    """Whether what follows the first colon cannot be a port, nor a part of an address of IPv6."""
    _name, colon, port = _BEFORE_PATH.match(text)[0].partition(":")  # type: ignore[index]  # it matches nothing, too
    return bool(colon) and not text.startswith("[") and not (port.isascii() and (port.isdigit() or not port))


def _after_scheme(url: str) -> str:
    found = _SCHEME.match(url)
    return url[found.end() :] if found else url


def _in_base64(text: str) -> set[str]:
    data = text.encode("utf-8", "surrogatepass")
    padded = {encoded(data).decode("ascii") for encoded in (base64.b64encode, base64.urlsafe_b64encode)}
    return padded | {text.rstrip("=") for text in padded}

"""The rules for features that a web server provides."""

from __future__ import annotations

import time
from collections.abc import Iterable
from urllib.parse import quote

from arcacct.errors import InputError
from arcacct.features.keys import KEYS
from arcacct.features.reader import Features

TYPE_CHECKING = False
if TYPE_CHECKING:
    from arcacct.features.http import Reply, Web

_OK = "ok", ""
_SHORT_S = 60.0
_LIMIT_S = 5.0
_NOT_SERVED = "features are read from directories"
_HEADERS = ("Content-Type", "Content-Length", "ETag", "Last-Modified")


def check_web(locations: dict[str, str], features: dict[str, Features], web: Web | None) -> dict[int, tuple[str, str]]:
    """The verdicts of rules 27 to 31, each with its reason."""
    served = {kind: place for kind, place in locations.items() if not place.startswith("/")}
    if not served or web is None:
        return dict.fromkeys(range(27, 32), ("unseen", _NOT_SERVED))
    began = time.monotonic()
    try:
        found = {
            27: _of_problems(text for kind, place in served.items() for text in _served(web, place, features[kind])),
            28: _freshness(web, served, features),
            29: _of_problems(text for kind, place in served.items() for text in _methods(web, place, features[kind])),
        }
    except InputError as error:
        found = {rule: ("fail", str(error)) for rule in (27, 28, 29)}
    slow = time.monotonic() - began > _LIMIT_S
    plain = any(place.startswith("http://") for place in served.values())
    found[30] = ("unseen", "http without TLS") if plain else _OK
    found[31] = ("warn", "slow") if slow else _OK
    return found


def _of_problems(problems: Iterable[str]) -> tuple[str, str]:
    text = "; ".join(problems)
    return ("fail", text) if text else _OK


def _served(web: Web, place: str, features: Features) -> list[str]:
    wrong = []
    for key in features.values:
        answer = web.request(f"{place}/{key}")
        kind = answer.headers.get_content_type() if answer.headers.get("Content-Type") else "nothing"
        if kind != "text/plain":
            wrong.append(f"{key} is served as {kind}, not as text/plain")
    missing = next((key for key in KEYS if key not in features.values), "no_such_key")
    answer = web.request(f"{place}/{missing}")
    if answer.status != 404:
        wrong.append(f"{missing}: a key that is not there answers {answer.status}, not 404")
    elif answer.body:
        wrong.append(f"{missing}: 404 has a body, which simple readers take for the value")
    return wrong


def _freshness(web: Web, served: dict[str, str], features: dict[str, Features]) -> tuple[str, str]:
    from arcacct.features.http import freshness_s  # noqa: PLC0415  only where there is a web to check

    wrong, silent = [], []
    for kind, place in served.items():
        for key in features[kind].values:
            answer = web.request(f"{place}/{key}")
            if not answer.headers.get("Cache-Control") and not answer.headers.get("Expires"):
                silent.append(key)
            elif KEYS[key].dynamic and freshness_s(answer.headers) > _SHORT_S:
                wrong.append(f"{key} may change and is said to hold for more than {_SHORT_S:g} s")
    if wrong:
        return _of_problems(wrong)
    return ("warn", f"no Cache-Control or Expires: {', '.join(silent)}") if silent else _OK


def _methods(web: Web, place: str, features: Features) -> list[str]:
    wrong = []
    for key in list(features.values)[:1]:
        full, head = web.request(f"{place}/{key}"), web.request(f"{place}/{key}", method="HEAD")
        if head.status != full.status or _told(head) != _told(full):
            wrong.append(f"{key}: HEAD has other headers than GET")
        etag = full.headers.get("ETag")
        if etag and web.request(f"{place}/{key}", headers={"If-None-Match": etag}).status != 304:
            wrong.append(f"{key}: the same ETag does not answer 304")
    outside = web.request(f"{place}/{quote('../', safe='')}{quote('../etc/passwd', safe='')}")
    if outside.status == 200:
        wrong.append("a path out of the directory is served")
    return wrong


def _told(answer: Reply) -> list[str | None]:
    return [answer.headers.get(name) for name in _HEADERS]

"""Read ClassAds from files and outputs: the history file, `condor_history -long`, `-json` and `-jsonl`."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from arcacct.errors import InputError
from arcacct.files.json_reader import Found, Objects, is_torn
from arcacct.records.rejected import Fault
from arcacct.sources.engine.batch_runs import with_beginning

LARGEST_AD = 4 * 1024 * 1024
"""In bytes, or characters of JSON. Ads usually have some 5 kB."""
KEPT = 1024 * 1024
"""The most bytes of unusable content that are kept."""
_MOST_OTHERS = 5
"""So many repeated attributes with different values mean that two ads are joined: a schedd repeats only a few."""
_MOST_NAMES = 10_000
_LONGEST_NAME = 200
"""The longest attribute name in the cache. `_MOST_NAMES` is the most names in it."""
_MOST_SEEN = 50
"""The first lines of an input that may show that it has ads."""
_ATTRIBUTE = re.compile(rb"[ \t]*([A-Za-z_'][^= \t\"]*)[ \t]*=(?!=)[ \t]*(.*)", re.DOTALL)
_BANNER = re.compile(rb"\*\*\* .*")
_IN_BANNER = re.compile(rb'\b(\w++) = ("[^"]*+"|\S++)')
_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")
_REAL = re.compile(r"[+-]?[0-9]{0,30}\.?[0-9]{1,40}(?:[eE][+-]?[0-9]{1,4})?")
_BETWEEN = r"[ \t\r\n,\[\]]*"
_BEGINS = r"^(?=\{)"
"""condor_history prints each ad at the start of a line."""
_EXPRESSION = re.compile(r"/Expr\((.*)\)/", re.DOTALL)
_IN_BOTH = ("clusterid", "procid")
_IDS = ("globaljobid", *_IN_BOTH)


class Expression(NamedTuple):
    """A value that only HTCondor can evaluate."""

    text: str


Value = str | int | float | bool | Expression | None
"""``None``: undefined or an error."""
Ad = dict[str, Value]
"""Values by attribute name in lower case."""


class ParsedAd(NamedTuple):
    """One ad."""

    what: Ad | Fault | None
    """``None``: the ad is still being written."""
    position: str
    content: bytes
    """The ad as an output of its own, at most KEPT bytes."""
    length: int
    """The length of the whole ad in bytes."""


def value_of(text: str) -> Value:
    """Return the value after ``=`` in a line. Raises ValueError for a text without a closing quote."""
    if text.startswith('"'):
        return _text_of(text)
    if _INTEGER.fullmatch(text):
        return int(text)
    if _REAL.fullmatch(text):
        return float(text)
    return _WORDS.get(text.lower(), Expression(text)) if len(text) < 10 else Expression(text)


_WORDS: dict[str, bool | None] = {"true": True, "false": False, "undefined": None, "error": None}


def _text_of(text: str) -> str | Expression:
    place = 1
    while True:
        place = text.find('"', place)
        if place < 0:
            raise ValueError(f"a text is not closed on its line: {text[:40]!r}")
        if text[place - 1] != "\\" or place == 1:
            break
        if place == len(text) - 1:
            break
        place += 1
    if place < len(text) - 1:
        return Expression(text)
    return text[1:-1].replace('\\"', '"')


def json_value(value: Any) -> Value:
    """Convert a JSON value to the value of a line. Lists and ads within ads become expressions."""
    if isinstance(value, str):
        match = _EXPRESSION.fullmatch(value)
        return Expression(match[1]) if match else value
    if value is None or isinstance(value, (bool, int, float)):
        return value
    try:
        return Expression(json.dumps(value)[:KEPT])
    except RecursionError:
        return Expression("nested too deeply")


def read(chunks: Iterable[bytes], wanted: Collection[str]) -> Iterator[ParsedAd]:
    """
    Yield each ad of a file or output, in its order, with its ``wanted`` attributes (in lower case). Memory is bounded.

    Raises InputError when the input has no ads.
    """
    first, whole = with_beginning(chunks)
    if first[:1] in (b"[", b"{"):
        return _json_ads(whole, wanted, is_list=first.startswith(b"["))
    lines = first.split(b"\n", _MOST_SEEN)[:_MOST_SEEN]
    if first and not any(_ATTRIBUTE.match(line) or _BANNER.match(line) for line in lines):
        shown = lines[0][:40].decode("utf-8", "backslashreplace")
        raise InputError(f"it begins with {shown!r}, not a ClassAd: use condor_history -json, or a history file")
    return _Blocks(wanted).of(whole)


class _Blocks:
    """Ads in lines. Each ends at its banner, at a blank line or at the end of the input."""

    def __init__(self, wanted: Collection[str]) -> None:
        self._wanted = wanted
        self._names: dict[bytes, str] = {}
        """Names in lower case, by their spelling in the file; empty for an attribute that is not wanted."""
        self._has_banners = False
        self._fits = False
        """Whether the previous banner gave the byte at which its ad starts."""
        self._number = 0
        self._place = 0
        self._begin()

    def _begin(self) -> None:
        self._lines: list[bytes] = []
        self._first = 0
        self._start = 0
        self._length = 0

    def of(self, chunks: Iterable[bytes]) -> Iterator[ParsedAd]:
        """Yield all ads."""
        rest = b""
        for chunk in chunks:
            line_end = chunk.find(b"\n") if len(rest) > LARGEST_AD else 0
            if line_end < 0:
                # Skip the rest of a line that is longer than any ad.
                self._place += len(chunk)
                continue
            self._place += line_end
            *lines, rest = (rest + chunk[line_end:]).split(b"\n")
            for line in lines:
                if line.strip() and not line.startswith(b"*** "):
                    self._number += 1
                    self._add(line + b"\n")
                    self._place += len(line) + 1
                else:
                    yield from self._line(line + b"\n")
            if len(rest) > LARGEST_AD:
                self._place += len(rest) - LARGEST_AD - 1
                rest = rest[: LARGEST_AD + 1]
        if rest:
            yield from self._line(rest)
        if self._lines:
            yield from self._last(is_cut=bool(rest))

    def _line(self, line: bytes) -> Iterator[ParsedAd]:
        self._number += 1
        if line.startswith(b"*** "):
            self._has_banners = True
            if self._lines:
                self._add(line)
                yield from self._ended(line)
                self._begin()
        elif line.strip():
            self._add(line)
        elif self._lines and not self._has_banners:
            yield self._ad(self._lines, self._first)
            self._begin()
        self._place += len(line)

    def _add(self, line: bytes) -> None:
        if not self._lines:
            self._first, self._start = self._number, self._place
        self._length += len(line)
        if self._length <= LARGEST_AD:
            self._lines.append(line)

    def _ended(self, banner: bytes) -> Iterator[ParsedAd]:
        """Yield the ad before a banner, and an incomplete ad before it, if there is one."""
        told = {name.lower(): value for name, value in _IN_BANNER.findall(banner)}
        offset = int(told[b"offset"]) if told.get(b"offset", b"").isdigit() else -1
        whole = self._ad(self._lines, self._first, told)
        if not _has_id(whole) and self._fits and self._start < offset:
            text = b"".join(self._lines)
            torn, rest = text[: offset - self._start], text[offset - self._start :]
            own = self._ad(rest.splitlines(keepends=True), self._first + torn.count(b"\n"), told)
            if _has_id(own):
                # Without its line end, so that a retry also finds it incomplete.
                yield self._told(Fault("truncated: its end was never written"), [torn.rstrip(b"\n")], self._first)
                yield own
                return
        # The offsets in banners are wrong in a part of a file, in joined files and in an edited file.
        self._fits = offset == self._start
        yield whole

    def _last(self, *, is_cut: bool) -> Iterator[ParsedAd]:
        if self._has_banners:
            # The schedd writes the banner last. It is not there yet.
            yield self._told(None, self._lines, self._first)
        elif is_cut:
            yield self._told(Fault("truncated: its last line has no end"), self._lines, self._first)
        else:
            yield self._ad(self._lines, self._first)

    def _ad(self, lines: list[bytes], number: int, banner: dict[bytes, bytes] | None = None) -> ParsedAd:
        what: Ad | Fault
        try:
            what = self._checked(lines, banner or {})
        except ValueError as error:
            what = Fault(str(error))
        return self._told(what, lines, number)

    def _checked(self, lines: list[bytes], banner: dict[bytes, bytes]) -> Ad:
        if self._length > LARGEST_AD:
            raise ValueError(f"longer than any job ({self._length} bytes)")
        ad = self._values(lines)
        for name in _IN_BOTH:
            told = banner.get(name.encode(), b"").decode("utf-8", "backslashreplace")
            if told and name in ad and told != str(ad[name]):
                raise ValueError(f"its {name} is {ad[name]}, and {told} in the line after it")
        return ad

    def _attribute(self, line: bytes) -> tuple[str, bytes]:
        """
        Return the name of an attribute and its value. The name is empty if the attribute is not wanted. Raises
        ValueError.
        """
        before, _, text = line.partition(b" = ")
        name = self._names.get(before)
        if name is None:
            match = _ATTRIBUTE.match(line)
            if match is None:
                raise ValueError(f"not an attribute: {line[:40].decode('utf-8', 'backslashreplace').strip()!r}")
            name = match[1].decode("utf-8", "backslashreplace").lower()
            name, text = name if name in self._wanted else "", match[2]
            if before == match[1] and len(before) <= _LONGEST_NAME and len(self._names) < _MOST_NAMES:
                self._names[before] = name
        return name, text

    def _values(self, lines: Iterable[bytes]) -> Ad:
        found: Ad = {}
        others = 0
        for line in lines:
            if line.startswith(b"*** ") or not line.strip():
                continue
            name, text = self._attribute(line.rstrip(b" \t\r\n"))
            if not name:
                if text.startswith(b'"') and not (len(text) > 1 and text.endswith(b'"')):
                    _text_of(text.decode("utf-8", "backslashreplace"))
                continue
            value = value_of(text.decode("utf-8", "backslashreplace"))
            if found.get(name, value) != value:
                others += 1
                if name in _IDS or others == _MOST_OTHERS:
                    raise ValueError("two jobs in one: the end of the first was never written")
            found[name] = value
        return found

    @staticmethod
    def _told(what: Ad | Fault | None, lines: list[bytes], number: int) -> ParsedAd:
        content = b"".join(lines)
        return ParsedAd(what, f"line {number}", content[:KEPT], len(content))


def _has_id(ad: ParsedAd) -> bool:
    """Whether the ad is readable and has a GlobalJobId."""
    return isinstance(ad.what, dict) and isinstance(ad.what.get(_IDS[0]), str)


def _json_ads(chunks: Iterable[bytes], wanted: Collection[str], *, is_list: bool) -> Iterator[ParsedAd]:
    """
    Yield the ads of a list, of one line each, or one after another. A damaged part ends where the next ad starts.

    Raises InputError for a list without an end: its last ads may be missing.
    """
    ends = b""
    """The last byte that is not blank."""

    def passing() -> Iterator[bytes]:
        nonlocal ends
        for chunk in chunks:
            ends = chunk.strip()[-1:] or ends
            yield chunk

    stream = Objects(_BETWEEN, _BEGINS, LARGEST_AD)
    last: tuple[Found, str] | None = None
    """The last ad is held until the following text shows that it was complete."""
    number = 1
    failure: InputError | None = None
    try:
        for found in _objects(stream, passing()):
            text = stream.text
            if last is not None and found.value is None and is_torn(last[0].value, text):
                last = (found, last[1] + text)
                continue
            if last is not None:
                yield _json_ad(*last, number, wanted)
                number += 1
            last = (found, text)
    except InputError as error:
        # The program that prints the ads failed. The ads before that are good.
        failure = error
    if last is not None:
        yield _json_ad(*last, number, wanted)
    if failure is not None:
        raise failure
    # An ad without an end says so itself.
    if is_list and ends != b"]" and (last is None or not last[0].is_cut):
        raise InputError("truncated: its list of ads has no end")


def _json_ad(found: Found, text: str, number: int, wanted: Collection[str]) -> ParsedAd:
    what: Ad | Fault
    if found.value is not None:
        what = {name.lower(): json_value(value) for name, value in found.value.items() if name.lower() in wanted}
    elif found.is_too_long:
        what = Fault(f"longer than any job ({len(text)} characters)")
    else:
        what = Fault("truncated: it ends before its end" if found.is_cut else "damaged: not JSON")
    content = text.encode("utf-8", "surrogateescape")
    return ParsedAd(what, f"ad {number}", content[:KEPT], len(content))


def _objects(stream: Objects, chunks: Iterable[bytes]) -> Iterator[Found]:
    decode = codecs.getincrementaldecoder("utf-8")("backslashreplace").decode
    for chunk in chunks:
        yield from stream.feed(decode(chunk))
    yield from stream.feed(decode(b"", final=True), final=True)

"""JSON from other programs: one text or a stream of any length, read in one pass with limits of size and depth."""

from __future__ import annotations

import codecs
import json
import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

from arcacct.errors import InputError

# JSON from other programs: read in one pass, with a limit of depth.  The decoder of the standard library recurses: a
# few kB of brackets raise RecursionError, and a decoded value can be nested so deeply that no other function can
# recurse over it. So the depth is found first, without recursion.


DEEPEST = 64
"""Levels. Formats in accounting have fewer than 10."""

# Inside a string. JSON strings contain no line ends, so a string without its end damages only its line.
_IN_STRING = r'[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+'
_FLAT = rf'[^"\[\]{{}}]*+(?:"{_IN_STRING}"[^"\[\]{{}}]*+)*+'
_string = re.compile(_IN_STRING)
flat = re.compile(_FLAT)
"""Matches up to the next bracket, or to a string without an end on its line."""
_leaves = re.compile(rf'(?:[^"\[\]{{}}]++|"{_IN_STRING}"|[\[{{]{_FLAT}[\]}}])*+')
"""With the objects and arrays that nothing is nested in: nearly all, in one step."""


class BeyondBoundsError(ValueError):
    """JSON that is longer, or has more levels, than its reader allows."""


def parsed(text: str | bytes, *, most_depth: int = DEEPEST, most_length: int | None = None) -> Any:
    """
    Return the value of a text that is one JSON value; bytes are UTF-8.

    Raises ValueError for anything else: damaged, NaN or Infinity, an integer of thousands of digits; BeyondBoundsError
    for more than ``most_depth`` levels, and for more bytes or characters than ``most_length``. Takes time and memory in
    proportion to the text.
    """
    if most_length is not None and len(text) > most_length:
        raise BeyondBoundsError(f"JSON of {len(text)} {'bytes' if isinstance(text, bytes) else 'characters'}")
    if isinstance(text, bytes):
        text = text.decode("utf-8-sig")
    if text.count("[") + text.count("{") > most_depth:
        scan = Scan(most_depth)
        scan.end(text, len(text) - len(text.lstrip()))
        if scan.is_too_deep:
            raise BeyondBoundsError(f"JSON of more than {most_depth} levels")
    return _decoder.decode(text)


class Scan:
    """
    Finds the end of one object, array or string in pieces of text, each read once.

    It checks only brackets and strings, so the value may still be damaged. ``is_too_deep``: there were more than
    ``most_depth`` levels. ``is_broken``: it has no end, since a line ends within a string, or it is not such a value.
    """

    __slots__ = ("_depth", "_in_string", "_is_escaped", "_most_depth", "is_broken", "is_too_deep")

    def __init__(self, most_depth: int = DEEPEST) -> None:
        self._most_depth = most_depth
        self._depth = 0
        self._in_string = self._is_escaped = False
        self.is_broken = self.is_too_deep = False

    def end(self, piece: str, start: int = 0) -> int | None:
        """
        Return the position after the value in this piece; ``None``: it continues.

        The value starts at ``start`` in the first piece, and continues there in each further piece.
        """
        place, length = start, len(piece)
        while place < length and not self.is_broken:
            if self._in_string:
                place = self._passed_string(piece, place)
                if self._in_string or self._depth or self.is_broken:
                    continue
                return place
            if self._depth:
                # Leaves are not counted, so that near the limit each bracket is a separate step.
                counts_all = self._depth >= self._most_depth - 1 and not self.is_too_deep
                found = (flat if counts_all else _leaves).match(piece, place)
                place = found.end() if found else place
                if place == length:
                    break
            sign = piece[place]
            place += 1
            if sign == '"':
                self._in_string = True
            elif sign in "[{":
                self._depth += 1
                self.is_too_deep |= self._depth > self._most_depth
            elif not self._depth:
                self.is_broken = True
            else:
                self._depth -= 1
                if not self._depth:
                    return place
        return None

    def _passed_string(self, piece: str, place: int) -> int:
        """Return the position after the part of a string in this piece."""
        if self._is_escaped:
            self._is_escaped = False
            place += piece[place] != "\n"
        found = _string.match(piece, place)
        place = found.end() if found else place
        if place == len(piece):
            return place
        if piece[place] == '"':
            self._in_string = False
        elif piece[place] == "\\" and place + 1 == len(piece):
            self._is_escaped = True
        else:
            self.is_broken = True
        return place + 1


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)


# JSON from streams of any length: objects one after the other (`Objects`), or the values of one document (`Reader`).
# The work is proportional to the input, for any content: an incomplete value is not decoded again with each new piece,
# and damage is not read again from each object that seems to start in it. One value is in memory, up to the limit of
# the source.


_LONGEST_TOKEN = 16
"""Characters of a literal or an escape that the end of a piece can cut; of a string the decoder says so."""
_SHALLOW = 32
"""Levels that an object keeps that is nested too deeply."""
_LONGEST_NUMBER = 40
_BLANK = re.compile(r"[ \t\r\n]*")
_MEMBER = re.compile(r'[\s,]*(?:\}|"[^"\n]*"\s*:)')
_SCALAR = re.compile(r"[^,:\[\]{}\s]*")
_CUT = "truncated: it ends before the end of its JSON"
MISSING = object()
_NO_END = -1
_MOST_DAMAGED = 2 * 1024 * 1024
"""Characters of damage that are kept until an object starts; further ones are skipped."""
_BEGINNING = 64
"""Characters that show whether an object starts."""
_BEFORE = 2
"""Characters that a pattern for the start of an object may look back."""
_plain = json.JSONDecoder()
_patient = json.JSONDecoder(
    # Python refuses thousands of digits. The reader of the field refuses NaN, so that only this field is lost.
    parse_int=lambda digits: int(digits) if len(digits) <= _LONGEST_NUMBER else float("nan"),
)


class Found(NamedTuple):
    """An object of a stream, or the reason why there is none."""

    value: dict[str, Any] | None
    fault: str = ""
    is_cut: bool = False
    """Whether the stream ends within it."""
    is_too_long: bool = False


class _Text(str):
    """A text whose lines are not counted: the decoder does so for each of its errors, from the beginning."""

    __slots__ = ()

    def count(self, *_: object) -> int:
        return 0

    def rfind(self, *_: object) -> int:
        return 0


class Objects:
    """
    The objects of a stream, fed with text as it arrives; damage ends at the start of the next object.

    ``between`` matches the text between objects; ``begins`` matches, without a character, where one can start. An
    object of more than ``most_characters`` is refused. Integers of thousands of digits are NaN; in an object that is
    nested too deeply for Python the deep parts are null.
    """

    def __init__(self, between: str, begins: str, most_characters: int) -> None:
        self._between = re.compile(between)
        self._begins = re.compile(begins, re.MULTILINE)
        self._most_characters = most_characters
        self._text = ""
        self._coming: list[str] = []
        self._length = 0
        """The length of the text and the later pieces."""
        self._tried = 0
        """The length at which its first object was last decoded without success; 0: never."""
        self._scan: Scan | None = None
        """Searches for the end of that object, if it is only incomplete."""
        self._scan_end: int | None = None
        self._damage: Found | None = None
        """The problem of a text in which no object starts."""
        self._is_given = False
        """Whether it continues damage that was already returned."""
        self._begin = self._end = 0
        self._known_until = self._fails_until = 0
        """Within damage: up to where the ends of objects are known; up to where all fail that do not end before."""
        self._places = array("q")
        """Their starts, ascending."""
        self._ends = array("q")
        """The end of each of these; `_NO_END`; or the start itself: only decoding shows the end."""

    @property
    def text(self) -> str:
        """Return the last piece, as it was read; call this before the next."""
        return self._text[self._begin : self._end]

    def feed(self, piece: str, *, final: bool = False) -> Iterator[Found]:
        """Return the objects that this text completes; ``final``: it is the last text."""
        if not self._is_worth_trying(piece) and not final:
            return
        self._text = _Text("".join([self._text, *self._coming]))
        self._coming.clear()
        place = 0
        if self._damage is not None:
            damage, is_given = self._damage, self._is_given
            place = self._behind_damage(final=final)
            if place and not is_given:
                self._begin, self._end = 0, place
                yield damage
        while self._damage is None:
            blank = self._between.match(self._text, place)
            place = blank.end() if blank else place
            if place >= self._length:
                break
            found, after = self._next(place, final=final)
            if found is None:
                break
            self._scan = None
            self._begin, self._end = place, after
            place = after
            yield found
        self._text = self._text[place:]
        self._length = self._tried = len(self._text)
        self._begin = self._end = self._known_until = self._fails_until = 0

    def _is_worth_trying(self, piece: str) -> bool:
        """Whether anything can be there now that was not before."""
        before = self._length
        self._coming.append(piece)
        self._length += len(piece)
        if self._scan is None:
            # After damage only the start of an object matters.
            return not self._tried or "{" in piece or self._length >= _MOST_DAMAGED
        if self._scan_end is None:
            end = self._scan.end(piece)
            self._scan_end = None if end is None else before + end
        # It may also be damaged, so that it has no end: search for it each time that its length has doubled.
        is_far = self._length >= min(2 * self._tried, self._most_characters)
        return is_far or self._scan_end is not None or self._scan.is_broken

    def _behind_damage(self, *, final: bool) -> int:
        """Return where the next object starts, or how much damage is not needed to find it; 0: more must come."""
        begins = self._begins.search(self._text, max(1, self._tried - _BEGINNING))
        if begins is not None or final:
            self._damage, self._is_given = None, False
            return self._length if begins is None else begins.start()
        self._is_given |= self._length >= _MOST_DAMAGED
        if not self._is_given:
            return 0
        return max(0, self._length - _BEGINNING)

    def _next(self, place: int, *, final: bool) -> tuple[Found | None, int]:
        """Return the object at a position, and its end; ``None``: more must come first."""
        is_cut = knows_place = False
        fails_at, fault = place, "no object starts here"
        if place < self._known_until and self._text[place] == "{" and not self._may_begin(place):
            fault = "it has no end"
        elif self._text[place] == "{":
            try:
                return self._decoded(place)
            except json.JSONDecodeError as error:
                fault, fails_at, knows_place = f"{error.msg} at character {error.pos - place}", error.pos, True
                if error.msg.startswith("Unterminated") or self._length - error.pos <= _LONGEST_TOKEN:
                    is_cut = self._end_of(place) is None and not self._is_broken()
            except RecursionError:
                fault, fails_at = "nested too deeply", self._length
                is_cut = not self._is_broken()
        is_too_long = is_cut and self._length - place >= self._most_characters
        if is_cut and not is_too_long and not final:
            return None, place
        following = self._following(place, fails_at, knows_place=knows_place, keeps_last=is_cut and not final)
        if is_too_long:
            fault = f"longer than {self._most_characters} characters"
        found = Found(None, fault, is_cut and final and following is None, is_too_long)
        if following is None and not final:
            self._scan, self._damage = None, found
            return None, place
        return found, self._length if following is None else following

    def _decoded(self, place: int) -> tuple[Found, int]:
        """The object at a place, and where it ends. Raises JSONDecodeError; RecursionError if it does not end."""
        try:
            try:
                value, after = _plain.raw_decode(self._text, place)
            except json.JSONDecodeError:
                raise
            except ValueError:
                value, after = _patient.raw_decode(self._text, place)
        except RecursionError:
            end = self._end_of(place)
            if end is None:
                raise
            value, after = _shallow(self._text[place:end]), end
        return Found(value, "" if value is not None else "nested too deeply, and damaged"), after

    def _end_of(self, place: int) -> int | None:
        """Return where the object at a position ends; ``None``: not in the present text."""
        if self._scan is None:
            self._scan = Scan()
            self._scan_end = self._scan.end(self._text, place)
        return self._scan_end

    def _is_broken(self) -> bool:
        return self._scan is not None and self._scan.is_broken

    def _following(self, place: int, fails_at: int, *, knows_place: bool, keeps_last: bool) -> int | None:
        """
        Return where the next object starts after damage at a position; ``None``: nowhere in the present text.

        The decoder came to ``fails_at``, so an object that starts earlier and does not end before it would fail at the
        same position: it is not decoded again.
        """
        if place >= self._known_until:
            begins = self._begins.search(self._text, place + 1)
            if begins is None or begins.start() >= fails_at:
                return None if begins is None else begins.start()
            self._look_for_ends(place, fails_at, all_begin=knows_place, keeps_last=keeps_last)
            self._known_until, self._fails_until = fails_at, place
        self._fails_until = max(self._fails_until, fails_at)
        for begins in self._begins.finditer(self._text, place + 1):
            begin = begins.start()
            if begin >= self._known_until or self._may_begin(begin):
                return begin
        return None

    def _may_begin(self, place: int) -> bool:
        """Whether an object may start at a known position."""
        number = bisect_left(self._places, place)
        end = self._ends[number] if number < len(self._places) and self._places[number] == place else _NO_END
        if end == place:
            self._known_until = place
            return True
        return end != _NO_END and (end <= self._fails_until or place >= self._fails_until)

    def _look_for_ends(self, place: int, until: int, *, all_begin: bool, keeps_last: bool) -> None:
        """
        Find where objects end that begin and end between two places: where one can begin, and behind another one.

        Text in a string is not an object. But a text that the decoder rejected may be cut in a string, and an object
        follow (``all_begin``). The last one without an end may still get it (``keeps_last``).
        """
        self._places, self._ends = array("q"), array("q")
        inside: list[tuple[int, int]] = []
        begins = (found.start() for found in self._begins.finditer(self._text, place + 1))
        begin = next(begins, until)
        behind: int | None = None
        depth = 0
        for bracket in chain(_brackets(self._text, place, until), [until]):
            while begin < bracket:
                if all_begin:
                    self._places.append(begin)
                    self._ends.append(begin)
                begin = next(begins, until)
            if bracket == until:
                break
            sign = self._text[bracket]
            if sign in "[{":
                depth += 1
                follows = behind is not None and self._between.fullmatch(self._text, behind, bracket)
                if begin == bracket or (sign == "{" and follows):
                    inside.append((len(self._places), depth))
                    self._places.append(bracket)
                    self._ends.append(_NO_END)
                begin = next(begins, until) if begin == bracket else begin
            else:
                if inside and inside[-1][1] == depth:
                    self._ends[inside.pop()[0]] = bracket + 1
                depth -= 1
            behind = bracket + 1 if sign == "}" else None
        if keeps_last and inside:
            self._ends[inside[-1][0]] = self._places[inside[-1][0]]


Begins = tuple[re.Pattern[str], re.Pattern[str]]
"""Matches the start of a long list, and the start of each of its objects, and nothing else of a whole document."""


class Reader:
    """
    The values of a JSON document that arrives in pieces, or of several, one after the other.

    At most ``most_kept`` characters of the text since `keep` are kept. ``begins``: damage ends at the start of the next
    object of a long list. While ``is_in_list`` is false no object may start, and InputError is raised before one that
    does.
    """

    def __init__(self, chunks: Iterable[bytes], most_kept: int, begins: Begins | None = None) -> None:
        self._pieces = _pieces(chunks, begins)
        self._coming: tuple[str, bool] | None = None
        """The next piece, if it was read in advance."""
        self.is_in_list = False
        self._text = ""
        self._place = 0
        self._before = 0
        """Characters before the text."""
        self._most_kept = most_kept
        self._kept: list[str] = []
        self._kept_from = 0
        """The position in the text of the first character that is not yet kept."""
        self._left_to_keep = 0

    @property
    def passed(self) -> int:
        """Return how many characters were read."""
        return self._before + self._place

    def keep(self) -> None:
        """Keep the text from the present position."""
        self._kept, self._kept_from, self._left_to_keep = [], self._place, self._most_kept

    @property
    def kept(self) -> str:
        """Return the kept text."""
        return "".join(
            [*self._kept, self._text[self._kept_from : min(self._place, self._kept_from + self._left_to_keep)]]
        )

    def pass_damage(self) -> bool:
        """Skip everything up to the next start of an object of the list; return whether there is one."""
        self.is_in_list = False
        while True:
            self._place = len(self._text)
            try:
                if not self._comes():
                    return False
            except InputError:
                self.is_in_list = True
                return True

    def is_at_end(self) -> bool:
        """Skip blanks, and return whether the end is reached."""
        while True:
            self._place = _BLANK.match(self._text, self._place).end()  # type: ignore[union-attr]
            if self._place < len(self._text):
                return False
            if not self._comes():
                return True

    def comes(self, signs: str) -> bool:
        """Whether one of these characters comes next."""
        return self._next_sign() in signs

    def skip(self, sign: str) -> bool:
        """Whether this character comes next; if so, skip it."""
        if self._next_sign() != sign:
            return False
        self._place += 1
        return True

    def expect(self, sign: str) -> None:
        """Skip this character. Raises InputError if it does not come next."""
        if not self.skip(sign):
            raise InputError(f"damaged: {sign!r} expected before {self._text[self._place : self._place + 20]!r}")

    def whole(self) -> Any:
        """Return the next value, if it is complete and Python's decoder accepts it; else `MISSING`."""
        self._next_sign()
        try:
            found, end = _plain.raw_decode(self._text, self._place)
        except (ValueError, RecursionError):
            return MISSING
        if end == len(self._text) and type(found) in (int, float):
            # More digits may follow.
            return MISSING
        self._place = end
        return found

    def value(self, most_characters: int) -> Any:
        """
        Return the next value.

        Raises BeyondBoundsError for one that is too long, or nested too deeply for Python, and skips it; InputError if
        the document is damaged or ends.
        """
        found = self.whole()
        if found is not MISSING:
            return found
        text = self._passed(most_characters)
        try:
            return _patient.decode(text)
        except RecursionError:
            raise BeyondBoundsError("nested too deeply") from None
        except ValueError as error:
            raise InputError(f"damaged: {error}") from None

    def _passed(self, most_characters: int) -> str:
        """The text of the next value. Raises BeyondBoundsError for a longer one, and passes it."""
        scan = Scan() if self._next_sign() in '[{"' else None
        pieces, length = [], 0
        while True:
            if scan is None:
                end: int | None = _SCALAR.match(self._text, self._place).end()  # type: ignore[union-attr]
                end = None if end == len(self._text) else end
            else:
                end = scan.end(self._text, self._place)
            piece = self._text[self._place : end]
            self._place += len(piece)
            length += len(piece)
            if length <= most_characters:
                pieces.append(piece)
            if end is not None:
                break
            if scan is not None and scan.is_broken:
                raise InputError("damaged: a line ends within a string")
            if not self._comes():
                raise InputError(_CUT)
        if length > most_characters:
            raise BeyondBoundsError(f"longer than {most_characters} characters")
        return "".join(pieces)

    def _next_sign(self) -> str:
        if self.is_at_end():
            raise InputError(_CUT)
        return self._text[self._place]

    def _comes(self) -> bool:
        """
        Read more after the text, which is used up; returns whether there was any.

        Raises InputError where an object of the list begins in another value.
        """
        if self._coming is None:
            self._coming = next(self._pieces, None)
        if self._coming is None:
            return False
        text, begins = self._coming
        if begins and not self.is_in_list:
            raise InputError("damaged: the next object starts inside it")
        piece = self._text[self._kept_from :][: self._left_to_keep]
        self._kept.append(piece)
        self._left_to_keep -= len(piece)
        self._before += len(self._text)
        self._text, self._place, self._kept_from = text, 0, 0
        self._coming = None
        return True


def _pieces(chunks: Iterable[bytes], begins: Begins | None) -> Iterator[tuple[str, bool]]:
    """
    Yield the text of a document in pieces, none of them empty, and whether an object of its list starts with the piece.
    """
    decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
    texts = filter(None, map(decode, chunks))
    if begins is None:
        yield from ((text, False) for text in texts)
        return
    text, place = "", 0
    sought, is_beginning = begins[0], False
    for more in chain(texts, [""]):
        # With the text that a pattern may look back at. A possible start of a match waits for the rest of it.
        seen = max(0, place - _BEFORE)
        text, place = text[seen:] + more, place - seen
        safe = max(place, len(text) - _BEGINNING) if more else len(text)
        start = place
        while (found := sought.search(text, start)) is not None:
            if found.end() > safe:
                safe = min(safe, found.start())
                break
            start = found.end()
            if sought is begins[0]:
                sought = begins[1]
                continue
            if found.start() > place:
                yield text[place : found.start()], is_beginning
            place, is_beginning = found.start(), True
        if safe > place:
            yield text[place:safe], is_beginning
            place, is_beginning = safe, False


def is_torn(value: Any, damage: str) -> bool:
    """
    Whether an object seemed to end too early: members follow it, without its own last name.

    (It lost the start of an object within it. After a complete one, these are members of the next, which has all its
    names.)
    """
    return type(value) is dict and _MEMBER.match(damage) is not None and f'"{next(reversed(value), "")}"' not in damage


def _shallow(text: str) -> dict[str, Any] | None:
    """Return an object with null for parts that are nested too deeply; ``None`` if it is also damaged."""
    pieces = []
    done = depth = 0
    for bracket in _brackets(text, 0, len(text)):
        if text[bracket] in "[{":
            depth += 1
            if depth == _SHALLOW + 1:
                pieces += [text[done:bracket], "null"]
        else:
            if depth == _SHALLOW + 1:
                done = bracket + 1
            depth -= 1
    try:
        value: dict[str, Any] = _patient.decode("".join([*pieces, text[done:]]))
    except ValueError:
        return None
    return value


def _brackets(text: str, place: int, until: int) -> Iterator[int]:
    """Return the brackets between two positions outside of strings; no string is longer than its line."""
    while (found := flat.match(text, place, until)) and found.end() < until:
        place = found.end()
        if text[place] == '"':
            line_end = text.find("\n", place, until)
            place = until if line_end < 0 else line_end
        else:
            yield place
            place += 1

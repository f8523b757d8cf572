"""Options that belong together reach a command as one value: their names and types are written down once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import TypeVar

_Result = TypeVar("_Result")


def together(
    make: Callable[..., object], name: str, options: Iterable[str] | None = None
) -> Callable[[Callable[..., _Result]], Callable[..., _Result]]:
    """
    What ``make`` makes of these options is one parameter of the command, called ``name``.

    Without ``options``: those with the names of its fields; ``make`` is a NamedTuple then.
    """
    names = tuple(make.__annotations__ if options is None else options)

    def decorated(command: Callable[..., _Result]) -> Callable[..., _Result]:
        @wraps(command)
        def called(*args: object, **given: object) -> _Result:
            made = make(**{option: given.pop(option) for option in names})
            return command(*args, **given, **{name: made})

        return called

    return decorated

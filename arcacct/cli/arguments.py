"""Options that belong together reach a command as one value: their names and types are written down once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce, wraps
from typing import Any

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Of the function of a command, as `click.option` returns it."""


def together(make: Callable[..., object], name: str, options: Iterable[str] | None = None) -> Decorator:
    """
    What ``make`` makes of these options is one parameter of the command, called ``name``.

    Without ``options``: those with the names of its fields; ``make`` is a NamedTuple then.
    """
    names = tuple(make.__annotations__ if options is None else options)

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def called(*args: object, **given: object) -> Any:
            made = make(**{option: given.pop(option) for option in names})
            return command(*args, **given, **{name: made})

        return called

    return decorated


def in_order(*decorators: Decorator) -> Decorator:
    """All of them as one, the first outermost: options stand in this order in a command's help."""
    return lambda command: reduce(lambda made, decorator: decorator(made), reversed(decorators), command)

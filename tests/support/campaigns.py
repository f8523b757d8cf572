"""Whether this run plays the long campaigns (`pytest --campaigns`), and how much of a thing it plays otherwise."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

_CAMPAIGNS = "ARCACCT_CAMPAIGNS"
_EXAMPLES = "ARCACCT_EXAMPLES"
"""Of the environment: how many examples of each property, in place of what the test says."""
_SHARE = 8
T = TypeVar("T")


def start_campaigns() -> None:
    """Play them in this process and in those that it starts."""
    os.environ[_CAMPAIGNS] = "1"


def has_campaigns() -> bool:
    """Whether everything is played at full length."""
    return _CAMPAIGNS in os.environ


def examples(most: int) -> int:
    """How many generated examples of a property: all of them in a campaign, else an eighth, five at least."""
    if given := os.environ.get(_EXAMPLES):
        return int(given)
    return most if has_campaigns() else min(most, max(5, most // _SHARE))


def sample(parameters: Sequence[T], most: int) -> list[T]:
    """The parameters of a test that walks over a whole table: all in a campaign, else so many, evenly spread."""
    if has_campaigns() or len(parameters) <= most:
        return list(parameters)
    step = (len(parameters) - 1) / (most - 1)
    return [parameters[round(index * step)] for index in range(most)]

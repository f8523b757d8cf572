"""Whether this run plays the long campaigns (`pytest --campaigns`), and how much of a thing it plays otherwise."""

from __future__ import annotations

import itertools
import math
import os
import random
from collections.abc import Sequence
from typing import Any, TypeVar

_CAMPAIGNS = "ARCACCT_CAMPAIGNS"
_EXAMPLES = "ARCACCT_EXAMPLES"
"""Of the environment: how many examples of each property, in place of what the test says."""
_SHARE = 20
T = TypeVar("T")


def start_campaigns() -> None:
    """Play them in this process and in those that it starts."""
    os.environ[_CAMPAIGNS] = "1"


def has_campaigns() -> bool:
    """Whether everything is played at full length."""
    return _CAMPAIGNS in os.environ


def examples(most: int) -> int:
    """How many generated examples of a property: all of them in a campaign, else a twentieth, five at least."""
    if given := os.environ.get(_EXAMPLES):
        return int(given)
    return most if has_campaigns() else min(most, max(5, most // _SHARE))


def sample(parameters: Sequence[T], most: int) -> list[T]:
    """The parameters of a test that walks over a whole table: all in a campaign, else so many, evenly spread."""
    if has_campaigns() or len(parameters) <= most:
        return list(parameters)
    step = (len(parameters) - 1) / (most - 1)
    return [parameters[round(index * step)] for index in range(most)]


def cross(most: int, *tables: Sequence[Any]) -> list[tuple[Any, ...]]:
    """
    Each row of a table with each row of the others: all in a campaign, else so many, always the same.

    A table that has no more rows than that has each of its rows among them.
    """
    if has_campaigns() or most >= math.prod(map(len, tables)):
        return list(itertools.product(*tables))
    chance = random.Random(0)
    rounds = ([chance.sample(table, len(table)) for _ in range(0, most, len(table))] for table in tables)
    return list(zip(*([*itertools.chain(*one)][:most] for one in rounds), strict=True))

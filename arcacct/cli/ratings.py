"""Benchmarks on the command line."""

from __future__ import annotations

from typing import Any

import click

from arcacct.benchmark import Benchmark
from arcacct.errors import InputError
from arcacct.queries.usage import Conversion


class Rating(click.ParamType[str]):
    """A benchmark as ``TYPE:VALUE``, in the spelling that is recorded."""

    name = "benchmark"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The benchmark; fails with what would be right."""
        text = str(value).strip()
        try:
            Benchmark.parse(text)
        except InputError as error:
            self.fail(str(error), param, ctx)
        return text


class AsRating(click.ParamType[Conversion]):
    """``TYPE:VALUE`` for every job, or ``TYPE=FACTOR`` for those of a type."""

    name = "benchmark"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Conversion:
        """The conversion; fails with what would be right."""
        try:
            return Conversion.parse(str(value).strip())
        except InputError as error:
            self.fail(f"{error}, or TYPE=FACTOR, as HEPSPEC=1.1", param, ctx)


RATING = Rating()
AS_RATING = AsRating()

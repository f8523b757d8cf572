"""
Records made of parts: values that many jobs share are judged and rendered once, the rest by one test and one text.

A format's complete rules and its own functions judge and render the parts, with a job that is valid otherwise; so there
is one definition of each. A job that the test does not find valid is handled by the complete rules and the text.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Generic, TypeVar

from arcacct.publishing.ledger import Names
from arcacct.publishing.plugin import Acceptance, RecordFormat, RenderedRecord
from arcacct.records.model import AAR
from arcacct.records.states import COMPLETED
from arcacct.targets.common import EXACT, INT2, INT4, Kept
from arcacct.targets.verdicts import SMALLEST_WIDTH, changed, sound_hosts

Options = TypeVar("Options")
Plain = tuple[str, str | None, Names] | None
"""Key, authorisation group and names of a record that needs no repair; ``None`` for any other one."""

_NODES = ("node_names",)
_LATEST = 2**37
"""The latest time, in the year 6325: every receiver's calendar ends in 9999."""

SOUND = AAR(
    record_id=1, job_id="sound", local_job_id="1", endpoint_type=None, endpoint_url="https://ce.example.org/arex",
    queue=None, user_dn=None, vo=None, status=COMPLETED, exit_code=0, submit_time=1, end_time=2, node_count=1,
    core_count=1, memory_kib=0, virtual_memory_kib=0, wall_s=1, cpu_user_s=1, cpu_kernel_s=1, scratch_bytes=0,
    stage_in_bytes=0, stage_out_bytes=0, benchmark="HEPSPEC:1",
)  # fmt: skip
"""A job that is valid by all receivers' rules: with other values in it, these are judged."""


_ALONE = attrgetter(
    "job_id", "local_job_id", "job_name", "exit_code", "submit_time", "end_time", "node_count", "core_count",
    "memory_kib", "virtual_memory_kib", "wall_s", "cpu_user_s", "cpu_kernel_s", "scratch_bytes", "stage_in_bytes",
    "stage_out_bytes", "lrms_submit_time", "lrms_start_time", "lrms_end_time",
)  # fmt: skip


def _alone_sound(aar: AAR, now: int) -> bool:
    """
    Whether numbers and names that no other job has plainly need no repair by any receiver's rules.

    May say no to a good job, never yes to a bad one. Raises TypeError for what is no whole number where one should be.
    """
    (
        job_id, local_job_id, job_name, exit_code, submit_time, end_time, nodes, cores, memory_kib, virtual_memory_kib,
        wall_s, user_s, kernel_s, scratch_bytes, stage_in_bytes, stage_out_bytes, submitted, started, ended,
    ) = _ALONE(aar)  # fmt: skip
    submitted = 0 if submitted is None else submitted
    started = 0 if started is None else started
    ended = 0 if ended is None else ended
    # Numbers are joined by "or": this works only for whole ones. The result is negative if one of them is, and below a
    # power of two if all of them are.
    return (
        0 < submit_time <= end_time <= now
        and (submit_time | end_time) < _LATEST
        and 0 <= (wall_s | user_s | kernel_s | memory_kib | virtual_memory_kib) <= INT4 >= user_s + kernel_s
        and 0 <= (nodes | cores) <= INT2
        and 0 <= (scratch_bytes | stage_in_bytes | stage_out_bytes) < EXACT
        and 0 <= (submitted | started | ended) < _LATEST
        and isinstance(exit_code, int)
        and 0 < len(job_id) <= SMALLEST_WIDTH >= len(job_name or "")
        and "".join((job_id, local_job_id or "", job_name or "")).isprintable()
    )


_rendered: Callable[[Any], RenderedRecord] = partial(tuple.__new__, RenderedRecord)
"""Of all its values, at a third of the cost: there is one of every job."""


class RecordOfParts(RecordFormat, Generic[Options]):
    """
    A format whose records are written from parts, for a job that was judged by its parts or by `accept`.

    Each part is made once for all jobs with the same values.
    """

    def __init__(self, options: Options, makers: Mapping[Callable[[AAR, Options], Any], tuple[str, ...]]) -> None:
        """``makers``, each with its names, are given a job that has nothing else of the one the part is for."""
        self.options = options
        self._parts = [(attrgetter(*names), *self._kept(make, names)) for make, names in makers.items()]

    def _kept(self, make: Callable[[AAR, Options], Any], names: tuple[str, ...]) -> tuple[Kept, Kept]:
        """One part of jobs that go as they are (of others ``None``), and of all jobs, by the values of its names."""

        def job(found: Any) -> AAR:
            return changed(SOUND, **dict(zip(names, found if len(names) > 1 else (found,), strict=True)))

        def goes_as_it_is(aar: AAR) -> bool:
            if names == _NODES:
                # Jobs on many nodes rarely have the same ones: this uses the one rule about them, at a fifth of the
                # cost.
                return sound_hosts(aar.node_names) == aar.node_names
            return self.accept(aar, aar.end_time) == Acceptance(aar)

        made = Kept(lambda found: make(job(found), self.options))
        return Kept(lambda found: made[found] if goes_as_it_is(job(found)) else None), made

    def local_id(self, aar: AAR) -> str | None:  # noqa: ARG002  a format without it
        """Return the batch system's id as it is sent; ``None``: it is not sent."""
        return None

    @abstractmethod
    def plain(self, aar: AAR, parts: Sequence[Any], local_id: str | None) -> Plain:
        """
        Return the values for publishing of a job whose parts are valid.

        ``None`` if the rules would object to a value of the job itself or of this receiver only.
        """

    @abstractmethod
    def written(self, aar: AAR, parts: Sequence[Any], local_id: str | None, now: int) -> str:
        """
        Return the text of a record, from its parts and the job's own values; ``now``: its time of creation, UTC
        seconds.
        """

    def parts(self, aar: AAR) -> list[Any]:
        """
        Return the parts of a record as it was accepted, with any notes. Raises the errors of the functions that make
        them.
        """
        return [made[values_of(aar)] for values_of, _sound, made in self._parts]

    def text(self, aar: AAR, now: int) -> str:
        return self.written(aar, self.parts(aar), self.local_id(aar), now)

    def rendered(self, aar: AAR, now: int) -> RenderedRecord | None:
        if not _alone_sound(aar, now):
            return None
        parts = []
        for values_of, sound, _made in self._parts:
            part = sound[values_of(aar)]
            if part is None:
                return None
            parts.append(part)
        local_id = self.local_id(aar)
        found = self.plain(aar, parts, local_id)
        if found is None:
            return None
        key, group, names = found
        return _rendered((key, self.written(aar, parts, local_id, now), group, names))

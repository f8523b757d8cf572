"""
`sacct --json`, of Slurm 22.05 and later: jobs with their steps, each value read on its own.

Later versions wrap numbers (``{"set": true, "infinite": false, "number": 3}``) and make lists of states. What Slurm
22.05 prints wrong is not believed: an exit code of 0 of a job that failed, and a job's own CPU time of 0.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from arcacct.errors import InputError
from arcacct.jobs.sacct import LARGEST, LATEST_S, Instants, clean, known, known_count, state
from arcacct.slurm.record import UNFINISHED, SacctPart, SacctUse, SlurmRun, cpu_use

LARGEST_OBJECT = 64 * 1024 * 1024
"""Of one job, or of what stands around the jobs; in characters."""
_BLANK = re.compile(r"[ \t\r\n]*")
_READ_MORE = 64 * 1024
_MOST_COMPLAINT = 500
"""Characters."""


def elements(chunks: Iterable[bytes]) -> Iterator[str]:
    """
    The jobs of an output, however long it is, each as its text; of several outputs, one behind the other, all.

    Raises InputError when it ends before its end, is no output of sacct, or sacct says in it that something failed;
    what came before is good.
    """
    reader = _Reader(chunks)
    failed: list[object] = []
    while True:
        has_jobs = False
        reader.expect("{")
        while not reader.skip("}"):
            name, _ = reader.value()
            reader.expect(":")
            if name == "jobs" and reader.skip("["):
                has_jobs = True
                while not reader.skip("]"):
                    yield reader.value()[1]
                    reader.skip(",")
            else:
                value, _ = reader.value()
                if name == "errors" and value:
                    failed += value if isinstance(value, list) else [value]
            reader.skip(",")
        if not has_jobs:
            raise InputError("there is no list of jobs in it, as sacct prints one with --json")
        if reader.is_at_end():
            break
    if failed:
        raise InputError(f"sacct says in it: {json.dumps(failed)[:_MOST_COMPLAINT]}")


class _Reader:
    """Values of JSON out of pieces of it."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        self._text = ""
        self._place = 0
        self._json = json.JSONDecoder()

    def _more(self, least: int = 1) -> bool:
        """Read on, at least so many bytes if there are; whether there was anything."""
        pieces = [self._text[self._place :]]
        got = 0
        for chunk in self._chunks:
            pieces.append(self._decode(chunk))
            got += len(chunk)
            if got >= least:
                break
        self._text, self._place = "".join(pieces), 0
        return got > 0

    def is_at_end(self) -> bool:
        """Whether nothing comes any more; blanks are passed."""
        while True:
            self._place = _BLANK.match(self._text, self._place).end()  # type: ignore[union-attr]
            if self._place < len(self._text):
                return False
            if not self._more():
                return True

    def _to_next(self) -> str:
        if self.is_at_end():
            raise InputError("cut: it ends before the end of its JSON")
        return self._text[self._place]

    def skip(self, sign: str) -> bool:
        """Whether this sign comes next; then it is passed."""
        if self._to_next() != sign:
            return False
        self._place += 1
        return True

    def expect(self, sign: str) -> None:
        """Pass this sign."""
        if not self.skip(sign):
            raise InputError(f"damaged: {sign!r} expected before {self._text[self._place : self._place + 20]!r}")

    def value(self) -> tuple[Any, str]:
        """The next value, and its text."""
        self._to_next()
        least = _READ_MORE
        while True:
            try:
                found, end = self._json.raw_decode(self._text, self._place)
            except (json.JSONDecodeError, RecursionError) as error:
                # It may only be cut by the end of what was read.
                if len(self._text) - self._place > LARGEST_OBJECT or not self._more(least):
                    raise InputError(f"damaged or cut: {error}") from error
                least *= 2
            except ValueError:
                # A number that is too long for Python costs its job alone.
                self._json = json.JSONDecoder(parse_int=float)
            else:
                text = self._text[self._place : end]
                self._place = end
                return found, text


def parts(text: str) -> tuple[SacctPart, SacctUse]:
    """
    A job and its steps, of the text of one element.

    Raises ValueError when it has no number, or a value that has to be there is none.
    """
    job = json.loads(text)
    if type(job) is not dict:
        raise ValueError("not an object")
    time = _inside(job, "time")
    states = _inside(job, "state").get("current", job.get("state"))
    names = [state(one) for one in (states if type(states) is list else [states]) if type(one) is str]
    # Of several the one that says that the job goes on, else the first: the others are flags.
    at = next((one for one in names if one in UNFINISHED), names[0] if names else "")
    code = _inside(job, "exit_code")
    of_signal = _inside(code, "signal")
    status, signal = _count(code.get("return_code")), _count(of_signal.get("signal_id", of_signal.get("id")))
    if not status and not signal and at != "COMPLETED":
        status = signal = None
    steps = SacctUse()
    for one in job["steps"] if type(job.get("steps")) is list else ():
        if type(one) is dict:
            steps = steps.plus(_step(one))
    allocated = _tres(_inside(job, "tres").get("allocated"))
    number = _number(job.get("job_id"))
    if not number:
        raise ValueError("job_id is missing")
    run = SlurmRun(
        _text(job.get("cluster")) or _text(_inside(job, "association").get("cluster")),
        number,
        shown=_shown(job, number),
        state=at,
        exit_status=status,
        exit_signal=signal,
        nodes=allocated.get("node") or _count(job.get("allocation_nodes")),
        node_list=_text(job.get("nodes")),
        partition=_text(job.get("partition")),
        user=_text(job.get("user")) or _text(_inside(job, "association").get("user")),
        group=_text(job.get("group")),
        account=_text(job.get("account")),
        qos=_text(job.get("qos")),
        wckey=_text(_inside(job, "wckey").get("wckey")),
        name=_text(job.get("name")),
        tres=",".join(f"{name}={count}{'M' if name == 'mem' else ''}" for name, count in sorted(allocated.items())),
    )
    part = SacctPart(
        step="",
        submit=_instants(time, "submission"),
        start=_instants(time, "start"),
        end=_instants(time, "end"),
        elapsed_s=_number(time.get("elapsed")),
        suspended_s=_number(time.get("suspended")),
        cores=allocated.get("cpu") or _count(_inside(job, "required").get("CPUs")),
        use=_cpu(time),
        run=run,
    )
    return part, steps


def _step(step: dict[str, Any]) -> SacctUse:
    requested = _inside(_inside(step, "tres"), "requested")
    most = _tres(requested.get("max"))
    memory, virtual = (-(-most[name] // 1024) if name in most else None for name in ("mem", "vmem"))
    # What a table has as TRESUsageInTot: CPU time in milliseconds.
    sampled_ms = _tres(requested.get("total")).get("cpu")
    sampled_us = None if sampled_ms is None else sampled_ms * 1000
    return _cpu(_inside(step, "time"), sampled_us)._replace(memory_kib=memory, virtual_memory_kib=virtual)


def _cpu(time: dict[str, Any], sampled_us: int | None = None) -> SacctUse:
    user_us, kernel_us, total_us = (_us(_inside(time, name)) for name in ("user", "system", "total"))
    parts_us = None if user_us is None and kernel_us is None else (user_us or 0) + (kernel_us or 0)
    return SacctUse(cpu_us=cpu_use((total_us, parts_us), sampled_us), cpu_kernel_us=kernel_us)


def _us(time: dict[str, Any]) -> int | None:
    seconds, rest_us = _number(time.get("seconds")), _number(time.get("microseconds"))
    return None if seconds is None else seconds * 10**6 + (rest_us or 0)


def _inside(value: dict[str, Any], name: str) -> dict[str, Any]:
    found = value.get(name)
    return found if type(found) is dict else {}


def _number(value: Any) -> int | None:
    """A number, wrapped or not; ``None`` for what is none, unlimited, or no measurement."""
    if type(value) is dict:
        value = value.get("number") if value.get("set") is not False and value.get("infinite") is not True else None
    return value if type(value) is int and 0 <= value <= LARGEST and known(value) is not None else None


def _count(value: Any) -> int | None:
    """A number of CPUs or nodes, or an exit code."""
    number = _number(value)
    return None if number is None else known_count(number)


def _text(value: Any) -> str:
    return clean(value) if type(value) is str else ""


def _instants(time: dict[str, Any], name: str) -> Instants | None:
    """A time; null, 0 and what is not set are none."""
    found = _number(time.get(name))
    if not found:
        return None
    if found >= LATEST_S:
        raise ValueError(f"time.{name}: {found} is no time of a job")
    return Instants(found, found)


def _tres(value: Any) -> dict[str, int]:
    """Trackable resources by name, as they are counted here: memory of an allocation in MiB, of a usage in bytes."""
    found = {}
    for one in value if type(value) is list else ():
        if type(one) is dict and (count := _number(one.get("count"))) is not None:
            name = _text(one.get("name"))
            found[_text(one.get("type")) + (f"/{name}" if name else "")] = count
    return found


def _shown(job: dict[str, Any], number: int) -> str:
    array, het = _inside(job, "array"), _inside(job, "het")
    for of, sign, place in ((array, "_", "task_id"), (het, "+", "job_offset")):
        whole, own = _number(of.get("job_id")), _number(of.get(place))
        if whole:
            return f"{whole}{sign}{own or 0}"
    return str(number)

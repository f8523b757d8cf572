"""
The launcher that A-REX calls: is it there, is it safe to be run by root, and is it quick enough?

It is run with the state DELETED, of which neither launcher nor hook records anything, with a control directory and
spools that are made for it and thrown away: nothing of the site is touched, however it ends.
"""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from arcacct.asking.doctor.verdict import CONF, ERROR, OK, WARNING, Site, Verdict, user_name
from arcacct.conf.callouts import Callout, callouts
from arcacct.conf.places import DEADLINE_S
from arcacct.db.place import spools
from arcacct.errors import ArcacctError
from arcacct.files.foreign import open_parent

_LARGEST = 64 * 1024
_SETTING = re.compile(r"(?m)^(record|spool|fallback|limit)=(?:\$\{ARCACCT_[A-Z_]+:-([^}\n]*)\}|([^\s;&|$]*))[ \t]*$")
_LONGEST_COMPLAINT = 300
_MOST_S = 60.0


class Launcher(NamedTuple):
    """What a launcher of ours has at its beginning; empty: as it comes, or another program."""

    record: str = ""
    spool: str = ""
    fallback: str = ""
    limit_s: float | None = None


def settings_of(program: str) -> Launcher:
    """The lines that an administrator may have edited. (A-REX's environment may say otherwise; it hardly does.)"""
    try:
        with open(program, encoding="utf-8", errors="replace") as file:
            text = file.read(_LARGEST)
    except OSError:
        return Launcher()
    if "arcacct-hook CONTROLDIR" not in text:
        return Launcher()
    found = {name: (default or plain).strip("'\"") for name, default, plain in _SETTING.findall(text)}
    limit = found.get("limit", "")
    return Launcher(
        found.get("record", ""),
        found.get("spool", ""),
        found.get("fallback", ""),
        float(limit) if limit.isdigit() else None,
    )


def launcher(site: Site) -> Iterator[Verdict]:
    """Each program that our callouts name."""
    for program in dict.fromkeys(one.program for one in callouts(site.conf)):
        lines = [one for one in callouts(site.conf) if one.program == program]
        wrong = _unsafe(program)
        if wrong is not None:
            yield wrong
            continue
        found = settings_of(program)
        yield from _settings(site, program, found, lines)
        unsafe = _unsafe(found.record, "what the launcher starts (record=)") if found.record else None
        if unsafe is not None:
            yield unsafe
        else:
            yield _run(site, program, lines)
        if os.path.realpath(program).startswith(os.path.join(sys.prefix, "")):
            yield Verdict(
                "launcher",
                WARNING,
                f"{program} is inside of the Python environment: while that is upgraded it is away, and each job fails",
                "copy etc/arcacct-hook to /usr/local/libexec, and name that in the callouts",
            )


def _unsafe(program: str, what: str = "the launcher") -> Verdict | None:
    """Why a program may not be run, or cannot be; ``None``: it may."""

    def error(detail: str, advice: str) -> Verdict:
        return Verdict("launcher", ERROR, f"{program}: {detail}", advice, CONF)

    fails = "A-REX fails each job whose callout cannot be started"
    if not program.startswith("/"):
        return error(f"{what} is named without its whole path", "write the path from / on")
    try:
        status = os.stat(program)
    except OSError as problem:
        reason = (problem.strerror or "").lower()
        return error(
            f"{what} cannot be found ({reason}): {fails}", "put etc/arcacct-hook there by mv, or mend the path"
        )
    if not stat.S_ISREG(status.st_mode) or not status.st_mode & 0o111:
        return error(f"{what} is no program that can be started: {fails}", f"chmod 755 {program}")
    if status.st_uid not in (0, os.geteuid()):
        advice = f"chown root {program}, when you have seen what is in it"
        return error(
            f"{what} belongs to {user_name(status.st_uid)}, who is what A-REX's user runs; it was not run", advice
        )
    try:
        folder, _name = open_parent(os.path.realpath(program))
        with folder:
            sure = folder.sure
    except (OSError, ArcacctError):
        sure = False
    if not sure or status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and status.st_gid != status.st_uid):
        detail = f"others than root can exchange {what}, on the way to it or in its place; it was not run"
        return error(detail, f"chmod go-w {program} and each directory above it")
    return None


def _settings(site: Site, program: str, found: Launcher, lines: list[Callout]) -> Iterator[Verdict]:
    """Whether launcher, callouts and arcacct.conf agree."""
    here = site.here
    if found.fallback and here is not None and found.fallback != here.spool_fallback:
        yield Verdict(
            "launcher",
            ERROR,
            f"{program} spools in {found.fallback} (fallback=) when the disk is full, and no sweep looks there",
            f"write spool_fallback={found.fallback} into [arcacct]",
            CONF,
        )
    if found.spool and here is not None and found.spool not in spools(here):
        yield Verdict(
            "launcher",
            ERROR,
            f"{program} spools in {found.spool} (spool=), and no sweep looks there",
            "empty spool= in the launcher: then it is below the control directory",
            CONF,
        )
    times = [float(text) for one in lines if re.fullmatch(r"[0-9.]+", text := one.option("timeout", ""))]
    deadline_s = _deadline_s(site)
    if found.limit_s is not None and not deadline_s < found.limit_s < min(times, default=_MOST_S):
        yield Verdict(
            "launcher",
            WARNING,
            f"{program} kills the hook after {found.limit_s:g} s (limit=), which is not between its deadline of "
            f"{deadline_s:g} s and the callout's timeout",
            "choose deadline < limit < timeout, as 5 < 8 < 10",
        )


def _deadline_s(site: Site) -> float:
    return DEADLINE_S if site.here is None else site.here.deadline_s


def _run(site: Site, program: str, lines: list[Callout]) -> Verdict:
    deadline_s = _deadline_s(site)
    way = [word for word in lines[0].arguments if word == "spool-only"]
    with tempfile.TemporaryDirectory(prefix="arcacct-doctor-") as folder:
        control = os.path.join(folder, "control")
        os.mkdir(control)
        spool = os.path.join(folder, "spool")
        environment = {"PATH": "/usr/bin:/bin", "ARCACCT_SPOOL": spool, "ARCACCT_SPOOL_FALLBACK": spool}
        command = [program, *way, control, "doctor", "DELETED"]
        begun = time.monotonic()
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=environment,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            reason = error.strerror or str(error)
            return Verdict(
                "launcher",
                ERROR,
                f"{program} cannot be started ({reason}): A-REX fails each job",
                "copy etc/arcacct-hook there anew, by mv",
                CONF,
            )
        try:
            _out, said = process.communicate(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return Verdict(
                "launcher",
                ERROR,
                f"{program} did not end within its deadline of {deadline_s:g} s, although there was nothing to record",
                f"run `{' '.join([program, *way])} /tmp doctor DELETED` and see what holds it up",
                CONF,
            )
        took_s = time.monotonic() - begun
    complaint = " ".join(said.decode("utf-8", "replace").split())[:_LONGEST_COMPLAINT]
    if process.returncode:
        said_so = complaint or "it says nothing"
        detail = f"{program} ends with {process.returncode}, and A-REX takes that for a failure: {said_so}"
        return Verdict("launcher", ERROR, detail, "copy etc/arcacct-hook there anew, by mv", CONF)
    if complaint:
        advice = "mend record= in the launcher, or the environment it names: until then all events wait for the sweep"
        return Verdict("launcher", ERROR, f"{program} cannot record: {complaint}", advice, CONF)
    if took_s > deadline_s / 2:
        detail = f"{program} took {took_s:.1f} s with nothing to record; its deadline is {deadline_s:g} s"
        return Verdict("launcher", WARNING, detail, "see what the host is busy with, or use spool-only")
    return Verdict("launcher", OK, f"{program} ran in {took_s:.2f} s; its deadline is {deadline_s:g} s")

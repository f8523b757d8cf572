"""The doctor's checks of the place of the databases and of the launcher that A-REX calls."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import psutil

from arcacct.arex.resident import UNIT
from arcacct.arex.spool_replay import launcher_settings
from arcacct.config.check import LAUNCHERS, launcher_problem
from arcacct.files.directories import unseen
from arcacct.queries.doctor_checks import CONF, STORE, Site
from arcacct.queries.health import CRITICAL, OK, UNKNOWN, WARNING, Check, launcher_check, there, user_name
from arcacct.queries.ownership import is_changeable, user_of_arex

# On what kind of file system the databases are.


_NETWORK = (
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "afs",
    "9p",
    "ceph",
    "glusterfs",
    "lustre",
    "gpfs",
    "beegfs",
    "pvfs2",
)
_FORGETS = ("tmpfs", "ramfs")


class Mount(NamedTuple):
    """A file system and where it is."""

    point: str
    kind: str


def mount_of(path: str, mounts: str) -> Mount | None:
    """The file system that a path is on, by a file as ``/proc/self/mountinfo``; ``None`` where that tells nothing."""
    real = os.path.realpath(path)
    found = None
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                before, _, after = line.partition(" - ")
                point = before.split(" ")[4].encode("utf-8", "surrogateescape").decode("unicode_escape")
                inside = real == point or real.startswith(point.rstrip("/") + "/")
                # A later line lies over an earlier one of the same place.
                if inside and (found is None or len(point) >= len(found.point)):
                    found = Mount(point, after.split(" ")[0])
    except (OSError, IndexError, UnicodeError):
        return None
    return found


def place(site: Site) -> Iterator[Check]:
    """On what kind of file system the databases are."""
    here = site.here
    if here is None:
        return
    folder = there(here.directory)
    mount = mount_of(folder, site.mounts)
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        detail = f"{here.directory} is on a read-only file system"
        yield Check("place", CRITICAL, detail, "mount it read-write: until then nothing is recorded", STORE)
    elif mount is None:
        yield Check("place", UNKNOWN, f"{site.mounts} does not show the file system of {here.directory}")
    elif mount.kind in _NETWORK:
        yield Check(
            "place",
            CRITICAL,
            f"{here.directory} is on a network file system ({mount.kind} at {mount.point}): SQLite's write-ahead log "
            "works only on a local disk of one host",
            "`arcacct db move DIR` to a disk of this host",
            STORE,
        )
    elif mount.kind in _FORGETS:
        detail = f"{here.directory} is on a memory disk ({mount.kind} at {mount.point}), and lost at the next boot"
        yield Check("place", CRITICAL, detail, "`arcacct db move DIR` to a disk", STORE)
    elif folder != here.directory:
        what = unseen(here.directory) or "does not exist"
        detail = f"{here.directory} {what}; {folder} is on {mount.kind} at {mount.point}"
        yield Check("place", UNKNOWN, detail)
    else:
        yield Check("place", OK, f"{here.directory} is on {mount.kind} at {mount.point}")


# The launcher that A-REX calls: is it there, is it safe to be run by root, and is it quick enough?
#
# It is run with the state DELETED, for which it writes no event, with a control directory and spools that are made for
# it and thrown away: nothing of the site is touched, however it ends.


_LONGEST_COMPLAINT = 300
OLD_PROGRAM = "arcacct-record"
"""What callouts of 0.2 could name instead of the launcher."""
ANEW = "replace it by a new copy of etc/arcacct-hook, with mv"
"""The advice where a launcher does not work at all."""


def launcher(site: Site) -> Iterator[Check]:
    """Each program that our callouts name, or will name."""
    for program in site.launchers:
        if problem := launcher_problem(program):
            yield launcher_check(problem, CONF)
            continue
        if is_changeable(program, os.geteuid()):
            user = user_of_arex(site)
            # Otherwise `permissions` has said what is wrong.
            if not is_changeable(program, user):
                detail = f"{program} was not run as {user_name(os.geteuid())}, since {user_name(user)} can change it"
                yield Check("launcher", UNKNOWN, detail, f"run `arcacct doctor` as {user_name(user)}")
            continue
        if os.path.basename(program) == OLD_PROGRAM:
            detail = f"{program} only runs the launcher, and the release after 0.3 does not have it"
            yield Check("launcher", WARNING, detail, f"name the launcher in the statecallout lines: {LAUNCHERS[0]}")
        elif (found := launcher_settings(program)) is not None and not found.is_new:
            detail = f"{program} is the launcher of 0.2: it starts another program for each event"
            yield Check("launcher", WARNING, detail, f"{ANEW}, and keep its lines spool= and fallback=")
        yield _run(site, program)
        if os.path.realpath(program).startswith(os.path.join(sys.prefix, "")):
            yield Check(
                "launcher",
                WARNING,
                f"{program} is inside the Python environment: during an upgrade it is missing, and each job fails",
                "copy etc/arcacct-hook to /usr/local/libexec, and use that path in the callouts",
            )


def _run(site: Site, program: str) -> Check:
    try:
        code, said, took_s = _ran(program, site.limit_s)
    except OSError as error:
        reason = error.strerror or str(error)
        detail = f"{program} cannot be started ({reason}): A-REX fails each job"
        return Check("launcher", CRITICAL, detail, ANEW, CONF)
    if code is None:
        detail = f"{program} did not end within {site.limit_s:g} s, with nothing to record"
        advice = f"run `{program} /tmp doctor DELETED` and check what delays it"
        return Check("launcher", CRITICAL, detail, advice, CONF)
    if code:
        detail = f"{program} ends with {code}, and A-REX treats that as a failure: {said or 'it prints nothing'}"
        return Check("launcher", CRITICAL, detail, ANEW, CONF)
    if os.path.basename(program) != OLD_PROGRAM and launcher_settings(program) is None:
        detail = f"{program} ran, and is not the launcher of arcacct: whether it records is unknown"
        return Check("launcher", UNKNOWN, detail, "compare it with etc/arcacct-hook, or use a copy of that")
    return Check("launcher", OK, f"{program} ran in {took_s:.2f} s")


def _ran(program: str, limit_s: float) -> tuple[int | None, str, float]:
    """
    Run a launcher as A-REX does, with a control directory and spools of the moment. Raises OSError.

    Its exit code, ``None`` where it did not end in time; what it said; and how long it took, in s.
    """
    with tempfile.TemporaryDirectory(prefix="arcacct-doctor-") as folder:
        control, spool = os.path.join(folder, "control"), os.path.join(folder, "spool")
        os.mkdir(control)
        started_s = time.monotonic()
        with subprocess.Popen(
            [program, control, "doctor", "DELETED"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={"PATH": "/usr/bin:/bin", "ARCACCT_SPOOL": spool, "ARCACCT_SPOOL_FALLBACK": spool},
            cwd="/",
            start_new_session=True,
        ) as process:
            try:
                _out, said = process.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired:
                _kill(process)
                return None, "", time.monotonic() - started_s
        words = " ".join(said.decode("utf-8", "replace").split())
        return process.returncode, words[:_LONGEST_COMPLAINT], time.monotonic() - started_s


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The launcher and its child processes, which `timeout` puts into a separate group."""
    with suppress(psutil.Error):
        for one in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.Error):
                one.kill()
    process.kill()
    process.communicate()


# The programs that record and publish: another installation may be too old for the database.


UNITS = (UNIT, "arcacct-sweep.timer", "arcacct-publish.timer")
"""What starts them."""


def systemctl(*words: str) -> tuple[str, str]:
    """What systemctl prints on each stream; empty texts: this host has none."""
    try:
        done = subprocess.run(["systemctl", *words], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return "", ""
    return done.stdout.strip(), done.stderr


def programs(site: Site) -> Iterator[Check]:
    """Whether the programs of the services can use the database, where they are of another installation."""
    here = site.here
    services = [unit.replace(".timer", ".service") for unit in UNITS]
    shown = systemctl("show", "--property=ExecStart", *services)[0] if here is not None else ""
    found = dict.fromkeys(re.findall(r"path=(\S*/arcacct) ;", shown))
    for program in found:
        if here is None or os.path.realpath(program).startswith(os.path.join(sys.prefix, "")):
            continue
        try:
            done = subprocess.run(
                [program, "--database", here.database, "query", "SELECT 1"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=site.limit_s,
                check=False,
            )
            wrong = "" if not done.returncode else " ".join(done.stderr.split())[:_LONGEST_COMPLAINT]
        except (OSError, subprocess.SubprocessError) as error:
            wrong = str(error)
        if wrong:
            detail = f"the services run {program}, which cannot use {here.database}: {wrong}"
            advice = f"upgrade that installation, or name {sys.prefix}/bin/arcacct in the units"
            yield Check("programs", CRITICAL, detail, advice, CONF)
        else:
            detail = f"the services run {program}, and this is {sys.prefix}: two installations, one of them may be old"
            yield Check("programs", WARNING, detail, "use one installation, and remove the other")

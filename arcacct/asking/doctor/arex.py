"""A-REX: does it run, with this control directory, and does it call us?"""

from __future__ import annotations

import os
from collections.abc import Iterator

from arcacct.asking.doctor.verdict import CONF, ERROR, OK, STORE, UNTOLD, WARNING, Site, Verdict
from arcacct.config.parser import Conf, absolute, parse
from arcacct.config.paths import CONTROLDIR, STATUS_FOLDERS
from arcacct.config.review import NEW_STATES, callouts, wrong_callouts
from arcacct.database.location import misplaced
from arcacct.errors import ConfigError


def control_directory(site: Site) -> Iterator[Verdict]:
    """Whether it is one that A-REX has set up, and the one that it works with."""
    here = site.here
    if here is None:
        yield Verdict("control directory", UNTOLD, "the configuration cannot be used", "mend it first")
        return
    if site.is_without_arex:
        yield Verdict(
            "control directory", OK, f"none ({here.controldir} is not there), since database= is set: no A-REX here"
        )
        return
    lacking = [name for name in STATUS_FOLDERS if not os.path.isdir(os.path.join(here.controldir, name))]
    wrong = misplaced(here) or (f"it has no folder {', '.join(lacking)}" if len(lacking) == len(STATUS_FOLDERS) else "")
    if wrong:
        yield Verdict(
            "control directory",
            ERROR,
            f"{here.controldir} (from {here.controldir_from}): {wrong}",
            "start A-REX once, or name its control directory by controldir= in [arex]",
            CONF,
        )
        return
    running = _controldir_of(site)
    if running is not None and os.path.realpath(running) != os.path.realpath(here.controldir):
        yield Verdict(
            "control directory",
            ERROR,
            f"{here.controldir} (from {here.controldir_from}), and A-REX runs with {running} ({site.run_time_conf})",
            "name the arc.conf that A-REX runs with by --config, or restart A-REX",
            CONF,
        )
        return
    yield Verdict("control directory", OK, f"{here.controldir} (from {here.controldir_from})")


def _controldir_of(site: Site) -> str | None:
    """The control directory of the A-REX that was started last; ``None``: nothing tells."""
    try:
        with open(site.run_time_conf, encoding="utf-8", errors="surrogateescape") as file:
            conf = Conf("", "")
            conf.blocks |= {block.name: block for block in parse(file.read(), site.run_time_conf, [])}
    except (OSError, ConfigError):
        return None
    return absolute(conf.get("arex", "controldir") or CONTROLDIR)


def running(site: Site) -> Iterator[Verdict]:
    """Whether A-REX runs, and has our database open."""
    if site.is_without_arex:
        return
    found = site.processes()
    if not found:
        yield Verdict(
            "A-REX",
            WARNING,
            "does not run here (there is no process arched)",
            "start it, or run the doctor on its host",
        )
        return
    yield Verdict("A-REX", OK, f"runs: process {', '.join(str(one.pid) for one in found)}")
    here = site.here
    if here is not None:
        ours = {os.path.realpath(f"{here.database}{end}") for end in ("", "-wal", "-shm")}
        for one in found:
            if ours & {os.path.realpath(path) for path in one.files}:
                yield Verdict(
                    "A-REX",
                    ERROR,
                    f"process {one.pid} of A-REX has {here.database} open: two write it, and A-REX loses rows",
                    "give arcacct another file (database= in [arcacct]); `arcacct import arex` takes A-REX's over",
                    STORE,
                )


def states(site: Site) -> Iterator[Verdict]:
    """Whether A-REX calls us at all, and in the state that only its version 7 has; the lines were looked at before."""
    if site.is_without_arex:
        return
    found = [one.state for one in callouts(site.conf)]
    new = ", ".join(NEW_STATES)
    is_new = _has_file(site, "accounting_v2.db")
    if not found:
        yield Verdict(
            "callouts",
            WARNING,
            "none: A-REX tells arcacct nothing, and a job whose files are cleaned between two sweeps is lost",
            "add the lines of etc/arc.conf.statecallout to [arex] and restart A-REX",
        )
    elif is_new and not {*NEW_STATES} <= {*found}:
        detail = f"none for {new}, which A-REX 7 has: only a sweep tells of this state"
        yield Verdict("callouts", WARNING, detail, "add its line from etc/arc.conf.d/arcacct.conf and restart A-REX")
    elif {*NEW_STATES} & {*found} and _has_file(site, "accounting.db") and not is_new:
        detail = f"one for {new}: this A-REX is 6, by the database that it has, and does not start with that"
        yield Verdict("callouts", WARNING, detail, "remove the line, unless A-REX 7 is about to be started here")
    elif not any(wrong_callouts(site.conf)):
        yield Verdict("callouts", OK, f"{', '.join(found)}: with options that harm no job")


def _has_file(site: Site, name: str) -> bool:
    """Whether A-REX has written a database of this name: 7 has one of its own."""
    return site.here is not None and os.path.exists(os.path.join(site.here.controldir, "accounting", name))

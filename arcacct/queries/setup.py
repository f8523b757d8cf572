"""
`arcacct setup`: the steps from nothing to a host that records and publishes, each judged by the checks of the doctor.

No step is remembered: each is judged by what the host has, so setup can be stopped and resumed at any step.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

from arcacct.arex.resident import UNIT
from arcacct.arex.spool_replay import LauncherSettings, launcher_settings
from arcacct.config.parser import Conf
from arcacct.config.paths import AREX_DATABASES, STATUS_FOLDERS
from arcacct.config.review import NEW_STATES, STATES, callouts
from arcacct.database import access, location, schema
from arcacct.errors import ConfigError, StoreError
from arcacct.files.directories import resource
from arcacct.queries import doctor, doctor_checks, doctor_host
from arcacct.queries.doctor_checks import CONF, STORE, Site
from arcacct.queries.health import BEFORE_LIVE, CRITICAL, OK, UNKNOWN, WARNING, Check, cannot_look, disk_check, disks
from arcacct.targets import plugins
from arcacct.wording import span_of

PREFIX = "/opt/arcacct"
"""Where the launcher and the units of ``etc/`` expect the program."""
PLANNED = "the lines of this step"
"""The file of callouts that are not written yet, in messages."""
_OPTIONS = "timeout=10,onsuccess=pass,onfailure=log,ontimeout=log"
_UNITS = {UNIT: WARNING, "arcacct-sweep.timer": CRITICAL, "arcacct-publish.timer": CRITICAL}
"""What it is when one is not enabled: without a recorder events wait for the sweep, which only the timer starts."""
_NOT_RUNNING = {
    "missing": ("is not installed", "install and enable it"),
    "disabled": ("is not enabled", "enable it"),
    "stopped": ("is enabled, but does not run", "start it"),
}
"""By the state of a unit: what is wrong, and what to do."""
_RESTART = "systemctl restart arc-arex"
_UNITS_DIR = "/etc/systemd/system"
_CLOCK_S = 300
_OF_JURA = ("jura", "switch")
"""The checks of `status` about jura-ng."""
_RANK = {OK: 0, UNKNOWN: 1, WARNING: 2, CRITICAL: 3}


class SetupStep(NamedTuple):
    """One step: what is so, what to do, and how to take that back."""

    name: str
    checks: tuple[Check, ...]
    do: tuple[str, ...] = ()
    """Commands, or lines of a file, in their order."""
    undo: tuple[str, ...] = ()

    @property
    def severity(self) -> int:
        """The most severe of its checks."""
        return max((one.severity for one in self.checks), key=_RANK.__getitem__, default=OK)

    @property
    def is_open(self) -> bool:
        """Whether something must be done before the next steps make sense."""
        return self.severity == CRITICAL


def callout_lines(launcher: str, *, is_arc7: bool) -> tuple[str, ...]:
    """The lines of [arex] that call a launcher at each state that A-REX 6 or 7 has a callout for."""
    states = [*STATES]
    if is_arc7:
        states[states.index("FINISHING") : states.index("FINISHING")] = NEW_STATES
    return tuple(f"statecallout={state} {_OPTIONS} {launcher} %C %I %S" for state in states)


def reads_directory(conf: Conf) -> bool:
    """Whether A-REX reads arc.conf.d, which that of ARC 7 does: its packages make the directory."""
    return os.path.isdir(f"{conf.arc_conf}.d")


def callout_file(conf: Conf) -> str:
    """The file of our own for the callouts, where A-REX reads arc.conf.d."""
    return f"{conf.arc_conf}.d/arcacct.conf"


def _unit_state(unit: str) -> str | None:
    """
    What systemd does with a unit: ``enabled``, ``disabled``, ``missing``, or ``stopped``: enabled, not running.

    ``None``: no systemd answers.
    """
    state, error = _systemctl("is-enabled", unit)
    if state in ("enabled", "enabled-runtime", "static", "linked"):
        now, _error = _systemctl("is-active", unit)
        return "enabled" if not now or now in ("active", "activating", "reloading") else "stopped"
    if state == "not-found" or (not state and "No such file" in error):
        return "missing"
    return "disabled" if state else None


def _systemctl(*words: str) -> tuple[str, str]:
    """What systemctl prints on each stream; empty texts: this host has none."""
    try:
        done = subprocess.run(["systemctl", *words], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return "", ""
    return done.stdout.strip(), done.stderr


def planned(conf: Conf, launcher: str | None) -> tuple[Conf, str]:
    """
    The configuration with our callouts in it, as the next start of A-REX would read it, and the launcher they call.

    ``conf`` may get the lines: give one that nothing else uses. ``launcher``: their launcher, if not that of the lines
    that are there or of the first of `doctor_host.LAUNCHERS` that is there.
    """
    ours = callouts(conf)
    if ours:
        return conf, ours[0].program
    program = launcher or next(filter(os.path.exists, doctor_host.LAUNCHERS), doctor_host.LAUNCHERS[-1])
    lines = callout_lines(program, is_arc7=reads_directory(conf))
    conf.add("\n".join(("[arex]", *lines, "")), PLANNED, further=True)
    return conf, program


def steps(site: Site, ahead: Site, launcher: str) -> Iterator[SetupStep]:
    """
    Every step in its order.

    ``site`` is the host as the next start of A-REX reads its configuration, ``ahead`` the same with our callouts, and
    ``launcher`` the program that these call (`planned`).
    """
    configuration = list(doctor_checks.configuration(site))
    rated = [one for one in configuration if "benchmark" in one.detail]
    first = SetupStep(
        "configuration",
        tuple(one for one in configuration if one.subject == "configuration" and one not in rated),
        ("arcacct config check",),
    )
    yield first
    yield from _clock(site)
    yield _launcher(ahead, launcher)
    yield _callouts(site, configuration, launcher)
    state = list(doctor.state(site))
    yield _database(site, state)
    yield _history(site)
    known = Check("benchmark", OK, "the configuration names one")
    if site.here is None:
        known = _unsettled("benchmark")
    yield SetupStep(
        "benchmark",
        tuple(one._replace(subject="benchmark") for one in rated) or (known,),
        ("benchmark=HEPscore23:VALUE in [lrms] of arc.conf, or queue_benchmark= in [arcacct] of arcacct.conf",)
        if rated
        else (),
        ("remove the line",) if rated else (),
    )
    yield _targets(site, is_readable=first.severity == OK)
    yield _rehearsal(site)
    yield _switch(site, state)
    yield _timers(site)


def _clock(site: Site) -> Iterator[SetupStep]:
    """
    Whether A-REX wrote anything later than now: then the clock was wrong when it did, or is wrong now.

    What is recorded has the times of these files, and certificates are judged by this clock.
    """
    if site.here is None or site.is_without_arex:
        return
    newest, at, refused = _newest_file(site.here.controldir)
    ahead_s = int(newest - site.now)
    if ahead_s < _CLOCK_S:
        found = Check("clock", OK, "nothing in the control directory is from the future")
        if refused:
            found = Check("clock", UNKNOWN, f"cannot look: {', '.join(refused)}")
        elif not at:
            found = Check("clock", UNKNOWN, f"no job's file in {site.here.controldir} to compare with")
        yield SetupStep("clock", (found,))
        return
    detail = f"{at} is from {span_of(ahead_s)} in the future: this host's clock is wrong, or was"
    advice = "set the clock (chronyc tracking, timedatectl), and see that chronyd or ntpd runs at boot"
    yield SetupStep("clock", (Check("clock", CRITICAL, detail, advice, CONF),), ("timedatectl",))


def _newest_file(controldir: str) -> tuple[float, str, list[str]]:
    """When A-REX wrote the status of a job last, in which file, and what could not be looked at, with the reason."""
    newest, at = 0.0, ""
    refused = [reason] if (reason := cannot_look(controldir)) else []
    for name in () if refused else STATUS_FOLDERS:
        try:
            with os.scandir(f"{controldir}/{name}") as found:
                for one in found:
                    changed_s = one.stat(follow_symlinks=False).st_mtime
                    if changed_s > newest:
                        newest, at = changed_s, one.path
        except FileNotFoundError:
            continue
        except OSError as error:
            refused.append(f"{error.filename}: {error.strerror}")
    return newest, at, refused


def _launcher(ahead: Site, launcher: str) -> SetupStep:
    checks = tuple(one for one in doctor_host.launcher(ahead) if one.subject == "launcher")
    advice = tuple(one.advice for one in checks if one.severity != OK)
    folder = os.path.dirname(launcher)
    if not os.path.exists(launcher) or any(one.startswith(doctor_host.ANEW) for one in advice):
        undo = f"rm {launcher} (only after no statecallout= line names it and A-REX was restarted)"
        do = (f"mkdir -p {shlex.quote(folder)}", *_replacing(launcher, resource("etc", "arcacct-hook")))
        return SetupStep("launcher", checks, do, (undo,))
    return SetupStep("launcher", checks, advice)


def _replacing(launcher: str, source: str) -> tuple[str, ...]:
    """Put a launcher into its place by a rename, with the lines that the administrator has changed in the old one."""
    new, source = shlex.quote(f"{os.path.dirname(launcher)}/.arcacct-hook.new"), shlex.quote(source)
    old = launcher_settings(launcher) or LauncherSettings()
    lines = [f"{name}={shlex.quote(value)}" for name in ("spool", "fallback") if (value := getattr(old, name))]
    # In a replacement of sed these characters have a meaning.
    kept = [f"s|^{line.partition('=')[0]}=.*|" + re.sub(r"[|&\\]", r"\\\g<0>", line) + "|" for line in lines]
    copy = f"sed {shlex.quote(';'.join(kept))} {source} > {new}" if kept else f"cp {source} {new}"
    return (copy, f"chmod 755 {new}", f"mv {new} {shlex.quote(launcher)}")


def _callouts(site: Site, configuration: Sequence[Check], launcher: str) -> SetupStep:
    wrong = tuple(one for one in configuration if one.subject == "callouts")
    if callouts(site.conf):
        if not wrong and (not_read := _not_restarted(site)) is not None:
            return SetupStep("callouts", (not_read,), (_RESTART,))
        return SetupStep("callouts", (*wrong, *doctor_checks.states(site)), ("arcacct config check",) if wrong else ())
    if site.is_without_arex:
        return SetupStep("callouts", (Check("callouts", OK, "no A-REX is expected on this host"),))
    has_directory = reads_directory(site.conf)
    lines = callout_lines(launcher, is_arc7=has_directory)
    text = "no statecallout= lines of arcacct: A-REX reports no job"
    if has_directory:
        place = callout_file(site.conf)
        advice = f"`arcacct setup --write` makes {place}; then restart A-REX ({_RESTART})"
        return SetupStep(
            "callouts",
            (*wrong, Check("callouts", CRITICAL, text, advice, CONF)),
            (f"# {place}", "[arex]", *lines),
            (f"rm {place}", _RESTART),
        )
    advice = (
        f"add these lines to [arex] of {site.conf.arc_conf}, run `arcacct config check`, and restart A-REX ({_RESTART})"
    )
    return SetupStep(
        "callouts",
        (*wrong, Check("callouts", CRITICAL, text, advice, CONF)),
        lines,
        (f"remove the lines from {site.conf.arc_conf}", _RESTART),
    )


def _not_restarted(site: Site) -> Check | None:
    """What is wrong if A-REX was started before our callouts were written; ``None``: nothing, or no A-REX runs."""
    try:
        started = doctor_checks.started_with(site)
    except (OSError, ConfigError) as error:
        return Check("callouts", UNKNOWN, f"cannot look whether A-REX was started with them: {error}")
    if started is None or callouts(started):
        return None
    detail = f"they are in the configuration, and A-REX was started without them ({site.run_time_conf})"
    return Check("callouts", CRITICAL, detail, f"restart A-REX: {_RESTART}", CONF)


def _database(site: Site, state: Sequence[Check]) -> SetupStep:
    here = site.here
    if here is None:
        return SetupStep("database", (_unsettled("database"),))
    if location.has_database(here.database):
        # Of targets and jura-ng the steps of their own tell.
        recorded = (one for one in state if one.subject not in ("targets", *_OF_JURA))
        return SetupStep("database", (*doctor_host.place(site), *recorded))
    wrong = location.misplaced(here)
    try:
        location.refuse_another(here)
        if not wrong:
            location.refuse_lost(here)
    except (ConfigError, StoreError) as error:
        # The site had one: a new one in its place would send the jobs again that the ledger knows.
        return SetupStep("database", (Check("database", CRITICAL, str(error), exit_code=error.exit_code),))
    room = [disk_check(one, BEFORE_LIVE) for one in disks(here)]
    room = [one._replace(exit_code=STORE) if one.severity == CRITICAL else one for one in room]
    detail = f"{here.controldir}: {wrong}" if wrong else f"{here.database} does not exist: nothing is recorded"
    advice = "first start A-REX once, or set database= in [arcacct]" if wrong else "`arcacct db init` creates it"
    others = () if wrong else tuple(one for one in doctor_checks.control_directory(site) if one.severity != OK)
    checks = (*others, *doctor_host.place(site), *room, Check("database", CRITICAL, detail, advice, STORE))
    files = f"{here.database} {here.publishing_database} {here.place_note}"
    return SetupStep("database", checks, ("arcacct db init",), (f"rm {files} (before they have any job)",))


def _history(site: Site) -> SetupStep:
    here = site.here
    if here is None or not location.has_database(here.database):
        return SetupStep("history", (Check("history", UNKNOWN, "there is no database yet"),))
    known = []
    for name in AREX_DATABASES:
        path = os.path.join(here.controldir, "accounting", name)
        try:
            os.stat(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            detail = f"cannot look whether A-REX has a database: {path}: {error.strerror}"
            return SetupStep("history", (Check("history", UNKNOWN, detail, "run as the user of A-REX"),))
        known.append(path)
    if not known:
        return SetupStep("history", (Check("history", OK, "A-REX has no database of its own with earlier jobs"),))
    with closing(access.read_accounting(here)) as con:
        is_done = schema.complete_since(con) < schema.created(con)
    if is_done:
        return SetupStep("history", (Check("history", OK, "A-REX's own database was imported"),))
    detail = f"earlier jobs are only in {', '.join(known)}"
    check = Check("history", WARNING, detail, "`arcacct import arex` imports them; it sends nothing")
    return SetupStep("history", (check,), ("arcacct import arex",))


def _unsettled(subject: str) -> Check:
    """What is said where the configuration would decide, and has errors."""
    return Check(subject, UNKNOWN, "the configuration has errors", "fix them first")


def _targets(site: Site, *, is_readable: bool) -> SetupStep:
    named = (*doctor_checks.targets(site), *_names(site))
    if not named and not is_readable:
        text = "none is found, and the configuration has errors"
        return SetupStep("targets", (Check("targets", UNKNOWN, text, "fix them first"),))
    if not named:
        text = "none: jobs are recorded and nothing is published"
        return SetupStep("targets", (Check("targets", OK, text, "add targets to arcacct.conf to publish"),))
    checks = (*named, *doctor_checks.credentials(site))
    is_well = all(one.severity == OK for one in checks)
    do = () if is_well else ("arcacct doctor",)
    return SetupStep("targets", checks, (*do, "arcacct publish --dry-run"))


def _rehearsal(site: Site) -> SetupStep:
    if site.settings is None:
        return SetupStep("rehearsal", (_unsettled("rehearsal"),))
    if not site.settings.targets:
        return SetupStep("rehearsal", (Check("rehearsal", OK, "there is no target to rehearse"),))
    text = "optional: preview the messages, and send them to receivers on this host first"
    do = ("arcacct publish --now --dry-run", "arcacct help rehearse")
    return SetupStep("rehearsal", (Check("rehearsal", OK, text),), do)


def _names(site: Site) -> Iterator[Check]:
    """Whether each receiver's name has an address; none of them is asked anything."""
    asked: set[str] = set()
    for plugin in plugins(site.settings) if site.settings is not None else ():
        transport = plugin.target.transport_options
        if transport is None:
            continue
        for probe in plugin.connectivity_checks():
            found = doctor.host_name(f"{plugin.target.name} name", transport, probe.url, asked)
            if found is not None:
                yield found


def _switch(site: Site, state: Sequence[Check]) -> SetupStep:
    if site.settings is None:
        return SetupStep("switch", (_unsettled("switch"),))
    found = tuple(one for one in state if one.subject in _OF_JURA)
    if all(one.severity == OK for one in found):
        return SetupStep(
            "switch", found or (Check("switch", OK, "jura-ng published no sums to a target of this host"),)
        )
    undo = ("move the blocks back into arc.conf and restart A-REX",)
    return SetupStep("switch", found, ("arcacct switch --plan", "arcacct help switch-from-jura-ng"), undo)


def _timers(site: Site) -> SetupStep:
    publishes = site.settings is not None and bool(site.settings.targets) and not site.settings.jura_targets
    # In a container systemctl reads unit files, too, but starts none.
    is_offline = _systemctl("is-system-running")[0] == "offline"
    states = {unit: None if is_offline else _unit_state(unit) for unit in [*_UNITS][: None if publishes else -1]}
    checks = [] if site.settings is not None else [_unsettled("timers")]
    for unit, state in states.items():
        if state is None:
            text = f"{unit}: systemd does not answer here"
            checks.append(Check("timers", UNKNOWN, text, "start this command regularly by other means"))
        elif state == "enabled":
            checks.append(Check("timers", OK, f"{unit} is enabled"))
        else:
            text, advice = _NOT_RUNNING[state]
            checks.append(Check("timers", _UNITS[unit], f"{unit} {text}", advice, CONF))
    do, undo = [], []
    # A timer starts the service of its name.
    files = dict.fromkeys(
        name
        for unit, state in states.items()
        if state == "missing"
        for name in (unit.replace(".timer", ".service"), unit)
    )
    if files:
        do = [*_installing(files), "systemctl daemon-reload"]
        undo = [f"rm {' '.join(f'{_UNITS_DIR}/{name}' for name in files)}", "systemctl daemon-reload"]
    units = " ".join(unit for unit, state in states.items() if state in _NOT_RUNNING)
    if units:
        do.append(f"systemctl enable --now {units}")
        undo.insert(0, f"systemctl disable --now {units}")
    return SetupStep("timers", tuple(checks), tuple(do), tuple(undo))


def _installing(units: Iterable[str]) -> list[str]:
    """The commands that put units where systemd looks for them."""
    files = {name: shlex.quote(resource("etc", name)) for name in units}
    if sys.prefix == PREFIX:
        return [f"cp {' '.join(files.values())} {_UNITS_DIR}/"]
    return [f"sed 's|{PREFIX}/|{sys.prefix}/|' {file} > {_UNITS_DIR}/{name}" for name, file in files.items()]


def is_own_file(text: str) -> bool:
    """Whether a file of arc.conf.d has nothing but callouts of ours, so that it may be written anew."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return bool(lines) and all(re.fullmatch(r"\[arex\]|statecallout=.*arcacct-hook .*", line) for line in lines)

"""
`arcacct setup`: the steps from nothing to a host that records and publishes, each judged by the checks of the doctor.

No step is remembered: each is judged by what the host has, so setup can be stopped and resumed at any step.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from arcacct.arex.spool import LauncherSettings, launcher_settings
from arcacct.config.parser import Conf
from arcacct.config.review import Release, wrong_callouts
from arcacct.files.directories import resource, unseen
from arcacct.health import doctor, doctor_host
from arcacct.health.doctor import HostCheck
from arcacct.health.doctor_checks import CONF, RESTART, Site
from arcacct.health.doctor_host import systemctl
from arcacct.health.facts import CRITICAL, OK, UNKNOWN, WARNING, Check, worst
from arcacct.targets import plugins

PREFIX = "/opt/arcacct"
"""The place where the launcher and the units of ``etc/`` expect the program."""
_OPTIONS = "timeout=10,onsuccess=pass,onfailure=log,ontimeout=log"
_UNITS = dict(zip(doctor_host.UNITS, (WARNING, CRITICAL, CRITICAL), strict=True))
"""The state if one is not enabled: without a recorder, events wait for the sweep, which only the timer starts."""
_NOT_RUNNING = {
    "missing": ("is not installed", "install and enable it"),
    "disabled": ("is not enabled", "enable it"),
    "stopped": ("is enabled, but does not run", "start it"),
}
"""By the state of a unit: the problem, and what to do."""
_UNITS_DIR = "/etc/systemd/system"
_LIMIT_S = 120
"""How long all checks may take: a file system that does not answer must not stop the command."""
_STEPS = {"launcher spool": "launcher", "jura": "switch"} | {
    name: name for name in ("callouts", "benchmark", "clock", "targets", "rehearsal", "switch")
}
"""The step of a subject, where it is another than that of its check."""


class SetupStep(NamedTuple):
    """One step: the state, what to do, and how to undo it."""

    name: str
    checks: tuple[Check, ...]
    do: tuple[str, ...] = ()
    """Commands, or lines of a file, in their order."""
    undo: tuple[str, ...] = ()

    @property
    def severity(self) -> int:
        """The most severe of its checks."""
        return worst(self.checks)

    @property
    def is_open(self) -> bool:
        """Whether something must be done before the next steps make sense."""
        return self.severity == CRITICAL


def callout_lines(launcher: str, arex: Release) -> tuple[str, ...]:
    """Return the lines of [arex] that call a launcher at each state for which this A-REX has a callout."""
    return tuple(f"statecallout={state} {_OPTIONS} {launcher} %C %I %S" for state in arex.states)


def steps(site: Site) -> Iterator[SetupStep]:
    """Return every step in order, with the verdicts of `doctor`."""
    found: dict[str, list[Check]] = {}
    ends = time.monotonic() + _LIMIT_S
    for row in (*doctor.CHECKS, HostCheck("targets", _names, "targets"), HostCheck("timers", _timers, "timers")):
        for one in doctor.gathered(row, site, ends) if row.step else ():
            found.setdefault(_STEPS.get(one.subject, row.step), []).append(one)
    for name, todo in _TODO.items():
        checks = tuple(found.get(name, ())) or (_nothing(site, name),)
        if callable(todo):
            do, undo = todo(site, checks)
        else:
            do, undo = todo if worst(checks) != OK else ((), ())
        rights = [one.advice for one in checks if one.subject == "permissions" and one.severity == CRITICAL]
        yield SetupStep(name, checks, (*rights, *do), tuple(undo))


Todo = tuple[Sequence[str], Sequence[str]]
"""What to do, and how to undo it."""
_NOTHING = {
    "benchmark": "the configuration names one",
    "targets": "none: jobs are recorded and nothing is published",
    "rehearsal": "optional: preview the messages, and send them to receivers on this host first",
    "switch": "jura-ng published no sums to a target of this host",
}
"""The state if no check reports anything."""


def _nothing(site: Site, name: str) -> Check:
    if site.settings is None:
        return Check(name, UNKNOWN, "the configuration has errors", "fix them first")
    if name == "rehearsal" and not site.settings.targets:
        return Check(name, OK, "there is no target to rehearse")
    return Check(name, OK, _NOTHING.get(name, "no A-REX is expected on this host"))


def callout_file(conf: Conf) -> str:
    """Return our own file for the callouts, where A-REX reads arc.conf.d."""
    return f"{conf.arc_conf}.d/arcacct.conf"


def _unit_state(unit: str) -> str | None:
    """
    Return systemd's state of a unit: ``enabled``, ``disabled``, ``missing``, or ``stopped``: enabled, not running.

    ``None``: no systemd answers.
    """
    state, error = systemctl("is-enabled", unit)
    if state in ("enabled", "enabled-runtime", "static", "linked"):
        now, _error = systemctl("is-active", unit)
        return "enabled" if not now or now in ("active", "activating", "reloading") else "stopped"
    if state == "not-found" or (not state and "No such file" in error):
        return "missing"
    return "disabled" if state else None


def _launcher(site: Site, checks: Sequence[Check]) -> Todo:
    advice = [one.advice for one in checks if one.severity != OK and one.subject != "permissions"]
    if not site.launchers:
        return (), ()
    launcher, folder = site.launchers[0], os.path.dirname(site.launchers[0])
    is_meant = any(one.endswith("did you mean it?") for one in advice)
    is_missing = not os.path.exists(launcher) and not unseen(launcher)
    if is_meant or not (is_missing or any(one.startswith(doctor_host.ANEW) for one in advice)):
        return advice, ()
    undo = f"rm {launcher} (only after no statecallout= line names it and A-REX was restarted)"
    return (f"mkdir -p {shlex.quote(folder)}", *_replacing(launcher, resource("etc", "arcacct-hook"))), (undo,)


def _replacing(launcher: str, source: str) -> tuple[str, ...]:
    """Put a launcher into its place by a rename, with the lines that the administrator has changed in the old one."""
    new, source = shlex.quote(f"{os.path.dirname(launcher)}/.arcacct-hook.new"), shlex.quote(source)
    old = launcher_settings(launcher) or LauncherSettings()
    lines = [f"{name}={shlex.quote(value)}" for name in ("spool", "fallback") if (value := getattr(old, name))]
    # In a replacement of sed these characters have a meaning.
    kept = [f"s|^{line.partition('=')[0]}=.*|" + re.sub(r"[|&\\]", r"\\\g<0>", line) + "|" for line in lines]
    copy = f"sed {shlex.quote(';'.join(kept))} {source} > {new}" if kept else f"cp {source} {new}"
    return (copy, f"chmod 755 {new}", f"mv {new} {shlex.quote(launcher)}")


def _callouts(site: Site, checks: Sequence[Check]) -> Todo:
    if site.is_without_arex or not any(one.severity == CRITICAL for one in checks):
        return (), ()
    if site.callouts:
        return (*(("arcacct config check",) if any(wrong_callouts(site.conf, site.release)) else ()), RESTART), ()
    lines = callout_lines(site.launchers[0], site.release)
    if site.release.major >= 7:
        place = callout_file(site.conf)
        return (f"# {place}", "[arex]", *lines), (f"rm {place}", RESTART)
    place = site.conf.arc_conf
    return (f"# in [arex] of {place}", *lines), (f"remove the lines from {place}", RESTART)


def _database(site: Site, checks: Sequence[Check]) -> Todo:
    here = site.here
    if here is None or not any(one.subject == "database" and one.advice.startswith("create it with") for one in checks):
        return (), ()
    files = f"{here.database} {here.publishing_database} {here.place_note}"
    return ("arcacct db init",), (f"rm {files} (before they have any job)",)


def _history(_site: Site, checks: Sequence[Check]) -> Todo:
    advice = " ".join(one.advice for one in checks if one.severity != OK)
    return re.findall("`(arcacct .*?)`", advice), ()


def _targets(site: Site, checks: Sequence[Check]) -> Todo:
    if site.settings is None or not site.settings.targets:
        return (), ()
    is_well = all(one.severity == OK for one in checks)
    return (*(() if is_well else ("arcacct doctor",)), "arcacct publish --dry-run"), ()


def _rehearsal(site: Site, _checks: Sequence[Check]) -> Todo:
    has_targets = site.settings is not None and site.settings.targets
    return ("arcacct publish --now --dry-run", "arcacct help rehearse") if has_targets else (), ()


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


@lru_cache(maxsize=1)
def _units(site: Site) -> dict[str, str | None]:
    """The state of each unit that this host needs; ``None``: no systemd answers."""
    publishes = site.settings is not None and bool(site.settings.targets) and not site.settings.jura_targets
    # In a container systemctl reads unit files, too, but starts none.
    is_offline = systemctl("is-system-running")[0] == "offline"
    return {unit: None if is_offline else _unit_state(unit) for unit in [*_UNITS][: None if publishes else -1]}


def _timers(site: Site) -> Iterator[Check]:
    if site.settings is None:
        yield Check("timers", UNKNOWN, "the configuration has errors", "fix them first")
    for unit, state in _units(site).items():
        if state is None:
            text = f"{unit}: systemd does not answer here"
            yield Check("timers", UNKNOWN, text, "start this command regularly by other means")
        elif state == "enabled":
            yield Check("timers", OK, f"{unit} is enabled")
        else:
            text, advice = _NOT_RUNNING[state]
            yield Check("timers", _UNITS[unit], f"{unit} {text}", advice, CONF)


def _starting(site: Site, _checks: Sequence[Check]) -> Todo:
    states = _units(site)
    do, undo = [], []
    missing = [unit for unit, state in states.items() if state == "missing"]
    # A timer starts the service of its name.
    files = dict.fromkeys(name for unit in missing for name in (unit.replace(".timer", ".service"), unit))
    if files:
        do = [*_installing(files), "systemctl daemon-reload"]
        undo = [f"rm {' '.join(f'{_UNITS_DIR}/{name}' for name in files)}", "systemctl daemon-reload"]
    units = " ".join(unit for unit, state in states.items() if state in _NOT_RUNNING)
    if units:
        do.append(f"systemctl enable --now {units}")
        undo.insert(0, f"systemctl disable --now {units}")
    return do, undo


_TODO: dict[str, Callable[[Site, Sequence[Check]], Todo] | Todo] = {
    "configuration": (("arcacct config check",), ()),
    "clock": (("timedatectl",), ()),
    "launcher": _launcher,
    "callouts": _callouts,
    "database": _database,
    "history": _history,
    "benchmark": (
        ("benchmark=HEPscore23:VALUE in [lrms] of arc.conf, or queue_benchmark= in [arcacct] of arcacct.conf",),
        ("remove the line",),
    ),
    "targets": _targets,
    "rehearsal": _rehearsal,
    "switch": (
        ("arcacct switch --plan", "arcacct help switch-from-jura-ng"),
        ("move the blocks back into arc.conf and restart A-REX",),
    ),
    "timers": _starting,
}
"""Every step in its order; fixed actions are listed if a check is not ok."""


def _installing(units: Iterable[str]) -> list[str]:
    """The commands that put units where systemd looks for them."""
    files = {name: shlex.quote(resource("etc", "systemd", name)) for name in units}
    if sys.prefix == PREFIX:
        return [f"cp {' '.join(files.values())} {_UNITS_DIR}/"]
    return [f"sed 's|{PREFIX}/|{sys.prefix}/|' {file} > {_UNITS_DIR}/{name}" for name, file in files.items()]


def is_own_file(text: str) -> bool:
    """Whether a file of arc.conf.d has only callouts of ours, so that it may be rewritten."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return bool(lines) and all(re.fullmatch(r"\[arex\]|statecallout=.*arcacct-hook .*", line) for line in lines)

"""The configuration: can it be read, is it right, who may change it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import replace

from arcacct.asking.doctor.verdict import CONF, ERROR, OK, STORE, UNTOLD, WARNING, Site, Verdict, advised, user_name
from arcacct.config import options
from arcacct.config.check import check_text
from arcacct.config.options import targets as found_targets
from arcacct.publishing.vos import unknown_vos
from arcacct.secrecy import without_login
from arcacct.targets import kinds


def configuration(site: Site) -> Iterator[Verdict]:
    """Every problem of the text, as `config check` has them; those of callouts and of jura-ng under their own names."""
    found = [*check_text(site.conf, kinds()), *unknown_vos(site.conf, kinds(), site.database)]
    wrong = options.errors(found)
    if site.conf.files and not wrong:
        yield Verdict("configuration", OK, ", ".join(site.conf.files))
    for one in found:
        is_error = one.severity == options.ERROR
        # Without its own "warning:", which the verdict says.
        text = str(replace(one, severity=options.ERROR))
        yield advised(_subject(one), ERROR if is_error else WARNING, text, CONF if is_error else 0)
    if not any(_subject(one) == "jura-ng" for one in found):
        yield _jura(site)


def _subject(problem: options.Problem) -> str:
    if problem.option == "statecallout":
        return "callouts"
    return "jura-ng" if "jura-ng" in problem.text else "configuration"


def _jura(site: Site) -> Verdict:
    """Whether A-REX starts jura-ng, where the configuration allows that."""
    known = kinds()
    blocks = [one for one in (*site.conf.replaced, *site.conf.blocks.values()) if one.file in site.conf.arc_files]
    names = [one.name for one in blocks if one.kind in known and known[one.kind].is_arcs]
    if not names:
        return Verdict("jura-ng", OK, "A-REX's own jura-ng has no target")
    advice = "see that arcacct does not publish the same; `arcacct switch --plan` says how to take over"
    return Verdict("jura-ng", WARNING, f"A-REX's own jura-ng publishes to {', '.join(names)}, which is allowed", advice)


def targets(site: Site) -> Iterator[Verdict]:
    """Whether anything is published at all, in earnest, and with all that the targets need of this host."""
    if site.here is not None and site.here.rehearsal is not None:
        detail = (
            f"rehearsal= is set: what was published is noted in {site.here.rehearsal}, and not in the site's ledger"
        )
        yield Verdict(
            "rehearsal", WARNING, detail, "remove it, with its targets, before this host publishes in earnest"
        )
    for one in found_targets(site.conf, kinds(), None, []):
        for option, text in one.wrong():
            yield advised(one.name, ERROR, f"{option}: {text}", CONF)
    if site.settings is None:
        yield Verdict("targets", UNTOLD, "the configuration has errors", "mend it first")
    elif not site.settings.publishes:
        yield Verdict("targets", OK, "none: this host only records (publishes=no)")
    elif site.settings.targets:
        yield Verdict("targets", OK, ", ".join(f"{one.name} ({one.url})" for one in site.settings.targets))
    else:
        where = site.conf.our_conf
        yield Verdict(
            "targets", WARNING, "there is none: jobs are recorded, and nothing is published", f"add one to {where}"
        )


def permissions(site: Site) -> Iterator[Verdict]:
    """Who may change the configuration and the databases, and whether A-REX's hook may write them."""
    for path in site.conf.files:
        yield _changeable("permissions", path, CONF)
        mode = os.stat(path).st_mode
        proxy = site.conf.option("common", "http_proxy")
        if proxy is not None and proxy.file == path and mode & 0o044 and without_login(proxy.value) != proxy.value:
            yield Verdict(
                "permissions", WARNING, f"{path} has a password in it, and others may read it", f"chmod 600 {path}"
            )
    yield from _doctor(site)
    here = site.here
    if here is None or not os.path.isdir(here.directory):
        return
    yield _changeable("permissions", here.directory, STORE)
    mode = stat.S_IMODE(os.stat(here.directory).st_mode)
    if mode & 0o005:
        yield Verdict(
            "permissions",
            WARNING,
            f"{here.directory} can be read by everybody, and has the names of users",
            f"chmod o-rwx {here.directory}; who is to read it belongs into the group of read_group=",
        )
    yield from _owners(site)


def _changeable(what: str, path: str, exit_code: int) -> Verdict:
    """Whether others than root and its owner may change a file or directory."""
    status = os.stat(path)
    if status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and status.st_gid != status.st_uid):
        return Verdict(what, ERROR, f"{path} can be changed by others than its owner", f"chmod go-w {path}", exit_code)
    return Verdict(what, OK, f"{path} belongs to {user_name(status.st_uid)}, who alone may change it")


def _doctor(site: Site) -> Iterator[Verdict]:
    """Whether what the doctor may read and write is what A-REX's hook may."""
    here = site.here
    if here is None or not os.path.isdir(here.controldir):
        return
    user = os.stat(here.controldir).st_uid
    if os.geteuid() not in (0, user):
        yield Verdict(
            "permissions",
            WARNING,
            f"the doctor runs as {user_name(os.geteuid())}, and A-REX as {user_name(user)}: what it may read differs",
            f"run `arcacct doctor` as {user_name(user)}",
        )


def _owners(site: Site) -> Iterator[Verdict]:
    """The hook runs as the user of A-REX, to whom the control directory belongs."""
    here = site.here
    if here is None or not os.path.isdir(here.controldir):
        return
    user = os.stat(here.controldir).st_uid
    ours = (
        here.directory,
        here.database,
        f"{here.database}-wal",
        here.spool,
        here.queue_lock,
        here.publishing_database,
    )
    others = [path for path in ours if os.path.exists(path) and os.stat(path).st_uid != user]
    if user and others:
        yield Verdict(
            "permissions",
            ERROR,
            f"{', '.join(others)}: not owned by {user_name(user)}, who owns {here.controldir}, so as whom A-REX runs "
            "its hook",
            f"chown {user_name(user)} {' '.join(others)}, and run every command of arcacct as that user",
            STORE,
        )

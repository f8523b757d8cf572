"""Ways to break a host, the verdict that each command must then give, and what ends the complaint."""

from __future__ import annotations

import datetime as dt
import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from copy import copy
from typing import Any, NamedTuple

import arex_writer
import pytest
from arex_writer import Writer
from clinic import APEL, DAY_S, OPTIONS, SGAS, Clinic
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from in_process import said
from job_files import DIAG, LOCAL, Files, lay
from jura_site import served_by_jura

from arcacct.arex import resident
from arcacct.arex.sweep import save_sweep
from arcacct.config import parser
from arcacct.config.parser import load
from arcacct.config.paths import places
from arcacct.config.review import STATES
from arcacct.database import access, connection, schema
from arcacct.errors import TargetRefuses
from arcacct.health.doctor_checks import Process, Site
from arcacct.publishing import cursors, ledger
from arcacct.sandbox import Sandbox, authority

OK, UNKNOWN, WARNING, ERROR = "ok", "unknown", "warning", "error"
RANK = (OK, UNKNOWN, WARNING, ERROR)
COMMANDS = {
    "config": ("config", "check", "--format", "json"),
    "setup": ("setup", "--check", "--format", "json"),
    "doctor": ("doctor", "--offline", "--format", "json"),
    "status": ("status", "--format", "json"),
    "switch": ("switch", "--plan"),
    "publish": ("publish", "--dry-run", "--now"),
}
OWNER = 12345
"""A user to whom jobs are mapped; no account has this number."""
BLOCK = "arex/jura/sgas:s"
TO_DO = "to do"
"""The subject of the commands that `setup` prints for an open step."""


class Verdict(NamedTuple):
    """What a command said about one subject."""

    subject: str
    severity: str
    detail: str
    advice: str


class Answer(NamedTuple):
    """What a command said in all."""

    exit_code: int
    verdicts: tuple[Verdict, ...]
    output: str
    """Both streams."""

    @property
    def severity(self) -> str:
        """The most severe of its verdicts."""
        return max((one.severity for one in self.verdicts), key=RANK.index, default=OK)

    def about(self, subject: str) -> str | None:
        """The most severe verdict on a subject; ``None``: not shown."""
        found = [one.severity for one in self.verdicts if one.subject == subject]
        return max(found, key=RANK.index, default=None)


class Host(Clinic):
    """
    A CE with an A-REX 6 that runs: it records, and publishes to SGAS and to APEL; everything is in order.

    It is made once. `restore` puts it back into that state, and `seen` shows it to the commands as this machine.
    """

    def __init__(self, path: pathlib.Path, box: Sandbox, capture: Any) -> None:
        self.capture = capture
        self.prefix = sys.prefix
        self.units = '[ "$1" = is-active ] && echo active || echo enabled'
        self.room: dict[str, int] = {}
        self.undo: list[Callable[[], object]] = []
        self.expects_arex = self.names_conf = True
        self.ended_s = int(time.time()) - 600
        host, self.kept = path / "ce", path / "kept"
        host.mkdir()
        super().__init__(host, box, SGAS + APEL)
        shutil.copytree(box.ca_dir, host / "certificates")
        self.authority = box.authority
        self.targets = self.targets.format(sgas=box.sgas_url, ams=box.ams_url, authn=box.authn_port)
        self.common = f"x509_host_key={host}/host/hostkey.pem\nx509_host_cert={host}/host/hostcert.pem\n"
        self.common += f"x509_cert_dir={host}/certificates\n"
        self.box = None
        self.configure()
        self.note("ARCACCT_CREATED", int(time.time()) - 70 * DAY_S)
        with closing(arex_writer.create(self.control / "accounting" / "accounting.db")) as con:
            arex = Writer(con)
            for number in (1, 2, 3):
                self.finish(arex_writer.job_id(number))
                arex.accept(number)
                arex.finish(number, self.ended_s)
            con.execute("UPDATE AAR SET SubmitTime = EndTime - 3600")
            con.execute("UPDATE JobEvents SET EventTime = datetime(?, 'unixepoch', 'localtime')", (self.ended_s,))
        folder = host / "backups"
        for words in (("sweep",), ("import", "arex"), ("publish",), ("db", "backup", folder), ("sweep",)):
            done = self.run(*words)
            assert done.returncode == 0, done
        shutil.copytree(host, self.kept, symlinks=True)
        self.as_made = {name: copy(value) for name, value in vars(self).items()}

    def restore(self) -> None:
        """Everything is in order again."""
        for undo in self.undo:
            undo()
        connection.opened.clear()
        shutil.rmtree(self.path)
        shutil.copytree(self.kept, self.path, symlinks=True)
        for name, value in self.as_made.items():
            setattr(self, name, copy(value))

    @contextmanager
    def seen(self) -> Iterator[None]:
        """The commands take it for the machine that they run on."""
        with pytest.MonkeyPatch.context() as patch:
            for name in ("ARC_CONFIG", "ARCACCT_CONFIG"):
                patch.delenv(name, raising=False)
            # The one place that names a part of the program: where it reads the state of a machine by default.
            for name, value in (self.around | {"run_time_conf": str(self.running)}).items():
                patch.setitem(Site.__init__.__kwdefaults__ or {}, name, value)
            patch.setattr(parser, "ARC_CONF", str(self.conf))
            patch.setattr(parser, "RUN_TIME_FILE", str(self.running))
            patch.setattr(parser, "RUN_TIME_FOLDERS", (str(self.running.parent),))
            if not self.names_conf:
                patch.setenv("ARCACCT_CONFIG", str(self.ours_conf))
            # No one ends a lock while a command waits for it.
            patch.setitem(connection.open_database.__kwdefaults__, "timeout_s", 1.0)
            patch.setattr(sys, "prefix", self.prefix)
            patch.setattr(resident, "_WANTED", str(self.path / "wanted"))
            patch.setenv("PATH", f"{self.path / 'bin'}:{os.environ['PATH']}")
            program = self.path / "bin" / "systemctl"
            program.parent.mkdir(exist_ok=True)
            program.write_text(f"#!/bin/sh\n{self.units}\n")
            program.chmod(0o755)
            if self.room:
                patch.setattr(os, "statvfs", _with_room(os.statvfs, self.room))
            yield

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Run a command in this process."""
        return said(self.capture, *(("--config", self.conf) if self.names_conf else ()), *words)

    def ask(self) -> dict[str, Answer]:
        """What each of the six commands says now."""
        with self.seen():
            # Where A-REX is expected, its launcher is not in one of the usual places here.
            more = {"setup": ("--launcher", self.launcher)} if self.expects_arex else {}
            return {name: _answer(name, self.run(*words, *more.get(name, ()))) for name, words in COMMANDS.items()}

    # What the breakages below are made of.

    @property
    def running(self) -> pathlib.Path:
        """The file that the running A-REX was started with; there is none unless a row makes it."""
        folder = self.path / "run"
        folder.mkdir(exist_ok=True)
        return folder / "arched-arex.cfg"

    def finish(self, job_id: str, ended_s: int | None = None, diag: bytes | None = DIAG) -> None:
        """A job ended, and a callout reported it; the next sweep records that."""
        at_s = self.ended_s if ended_s is None else ended_s
        local = LOCAL.replace(b"20261120110000Z", _stamp(at_s - 3600)).replace(b"Uc8KDmTestJobNumber1", job_id.encode())
        if diag is not None:
            diag = diag.replace(b"20261120111000Z", _stamp(at_s - 120)).replace(b"20261120115900Z", _stamp(at_s - 30))
        lay(self.control, Files(mtime_ns=at_s * 10**9, local=local, diag=diag, statistics=None), job_id)
        assert self.run("record", self.control, job_id, "FINISHED").returncode == 0

    def update(self, statement: str, *values: object) -> None:
        """Change the accounting database."""
        with closing(access.open_accounting(self.here)) as con, access.writing(con, self.here):
            con.execute(statement, values)

    def note(self, name: str, value: int) -> None:
        """Change a note of the accounting database."""
        with closing(access.open_accounting(self.here)) as con, access.writing(con, self.here):
            schema.note(con, name, value)

    def hold(self, state: str) -> None:
        """A record that SGAS did not take."""
        with closing(access.open_publishing(self.here)) as con:
            record = ledger.SentRecord("J", 1, 1, 1, b"")
            ledger.record_intent(con, BLOCK, [], [ledger.HeldRecord(record, state, "bad benchmark")])

    @property
    def database(self) -> pathlib.Path:
        return pathlib.Path(self.here.database)

    @property
    def ledger(self) -> pathlib.Path:
        return pathlib.Path(self.here.publishing_database)

    @property
    def spool(self) -> pathlib.Path:
        """The spool, made."""
        folder = pathlib.Path(self.here.spool)
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    @property
    def ours_conf(self) -> pathlib.Path:
        return self.path / "arcacct.conf"

    def write_ours(self, old: str, new: str) -> None:
        """Replace a text of arcacct.conf."""
        text = self.ours_conf.read_text()
        assert old in text
        self.ours_conf.write_text(text.replace(old, new))

    def write_arc(self, old: str, new: str) -> None:
        """Replace a text of arc.conf."""
        text = self.conf.read_text()
        assert old in text
        self.conf.write_text(text.replace(old, new))


def _stamp(at_s: int) -> bytes:
    """A time as A-REX writes it."""
    return time.strftime("%Y%m%d%H%M%SZ", time.gmtime(at_s)).encode()


def _with_room(statvfs: Callable[[Any], os.statvfs_result], fields: dict[str, int]) -> Callable[[Any], Any]:
    names = ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree", "f_favail", "f_flag")

    def changed(path: Any) -> os.statvfs_result:
        known = statvfs(path)
        return os.statvfs_result(
            (*(fields.get(name, getattr(known, name)) for name in (*names, "f_namemax")), known.f_fsid)
        )

    return changed


def _answer(name: str, done: subprocess.CompletedProcess[str]) -> Answer:
    output = done.stdout + done.stderr
    if name in ("switch", "publish"):
        return Answer(done.returncode, (), output)
    try:
        rows = json.loads(done.stdout)
    except ValueError:
        # No list: all that is said is one error, as it should be where the configuration cannot be read.
        subject = "configuration" if done.returncode == 78 else "no list"
        return Answer(done.returncode, (Verdict(subject, ERROR, *_cut(done.stderr)),), output)
    if name == "config":
        found = [Verdict(_subject(row), row["severity"], *_cut(row["text"])) for row in rows]
    elif name == "setup":
        each = [one for row in rows for one in row["details"]]
        found = [Verdict(_named(one["subject"], one), one["verdict"], one["detail"], one["advice"]) for one in each]
        found += [
            Verdict(TO_DO, row["verdict"], row["step"], f"`{line}`")
            for row in rows
            if row["verdict"] != OK
            for line in row["do"]
        ]
    elif name == "doctor":
        found = [
            Verdict(_named(row["what"], row), row["verdict"], row["detail"], row["advice"])
            for row in rows
            if row["detail"] != "not asked (--offline)"
        ]
    else:
        words = (OK, WARNING, ERROR, UNKNOWN)
        found = [Verdict(row["subject"], words[row["severity"]], *_cut(row["text"])) for row in rows]
    return Answer(done.returncode, tuple(found), output)


def _cut(text: str) -> tuple[str, str]:
    detail, _, advice = text.strip().partition("; ")
    return detail, advice


_SUBJECTS = {
    "statecallout": "callouts",
    "x509_host_cert": "certificate",
    "x509_host_key": "key",
    "x509_cert_dir": "CA directory",
    "controldir": "control directory",
    "benchmark": "benchmark",
}


def _named(subject: str, row: dict[str, str]) -> str:
    """The doctor's subject; the benchmark has one of its own in `setup`."""
    return "benchmark" if "benchmark: " in row["detail"] else subject


def _subject(row: dict[str, str]) -> str:
    """What a problem of `config check` is about."""
    if "launcher" in row["text"]:
        return "launcher"
    return "jura" if "jura-ng" in row["text"] else _SUBJECTS.get(row["option"], "configuration")


# The table. A function breaks the host; its decorator says what each command must say of it.


class Breakage(NamedTuple):
    """A row of the table."""

    breaks: Callable[[Host], object]
    subject: str
    """What the complaint is about, as `setup`, `doctor` and `status` call it."""
    verdicts: Mapping[str, str]
    """The most severe verdict of `config check`, `setup`, `doctor` and `status`; those that are not named show none."""
    exits: Mapping[str, int]
    """The exit codes of `switch --plan` and `publish --dry-run`."""
    remedy: Callable[[Host, str], object] | None
    """Does what the printed advice says; is given all that was printed. ``None``: only a person can do it."""

    @property
    def name(self) -> str:
        """The breakage in words."""
        return self.breaks.__name__.strip("_").replace("_", " ")


BREAKAGES: list[Breakage] = []


def breakage(
    subject: str,
    remedy: Callable[[Host, str], object] | None = None,
    *,
    switch: int = 0,
    publish: int = 0,
    **verdicts: str,
) -> Callable[[Callable[[Host], object]], Callable[[Host], object]]:
    """The function is a row of the table."""

    def add(breaks: Callable[[Host], object]) -> Callable[[Host], object]:
        row = Breakage(breaks, subject, verdicts, {"switch": switch, "publish": publish}, remedy)
        BREAKAGES.append(row)
        return breaks

    return add


# Remedies.


def printed(host: Host, output: str) -> None:
    """Run each printed command that changes files of this host, and a sweep."""
    found = re.findall(r"`arcacct (sweep)`|((?:chmod|chown|mkdir|cp|mv|sed) [^;`\n]*)", output)
    commands = [(sweep, other) for sweep, other in dict.fromkeys(found) if sweep or str(host.path) in other]
    assert commands, f"no command: {output}"
    for sweep, other in commands:
        if sweep:
            host.run("sweep")
        else:
            subprocess.run(["sh", "-c", other], check=True, capture_output=True)


def edit(words: str, act: Callable[[Host], object]) -> Callable[[Host, str], None]:
    """The advice has these words, and the function does what they say to the files of the configuration."""

    def follow(host: Host, output: str) -> None:
        assert words in output, output
        act(host)

    return follow


def set_right(host: Host) -> None:
    """Write the callouts as they were before."""
    host.lines = list(host.as_made["lines"])
    host.configure()


# Callouts.

EVERYWHERE = {"config": ERROR, "setup": ERROR, "doctor": ERROR, "status": ERROR}
"""What keeps A-REX from starting or fails its jobs, or lets jobs count twice: no command may say ok."""
JUDGED = {"config": WARNING, "setup": WARNING, "doctor": WARNING}


def _callout(host: Host, text: str, state: str = "SUBMIT") -> None:
    host.lines[STATES.index("SUBMIT")] = f"statecallout={state} {text}"
    host.configure()


@breakage("callouts", edit("write timeout=10", set_right), **EVERYWHERE)
def a_callout_without_options(host: Host) -> None:
    _callout(host, f"{host.launcher} %C %I %S")


@breakage("callouts", edit("write timeout=10", set_right), **JUDGED)
def a_callout_that_fails_jobs(host: Host) -> None:
    _callout(host, f"timeout=10,onfailure=fail,ontimeout=log {host.launcher} %C %I %S")


@breakage("callouts", edit("write timeout=10", set_right), **JUDGED)
def a_callout_without_a_timeout(host: Host) -> None:
    _callout(host, f"onfailure=log,ontimeout=log {host.launcher} %C %I %S")


@breakage("callouts", edit("end it with %C %I %S", set_right), **EVERYWHERE)
def a_callout_with_other_arguments(host: Host) -> None:
    _callout(host, f"{OPTIONS} {host.launcher} %I %S")


@breakage("callouts", edit("is not a state with callouts", set_right), **EVERYWHERE)
def a_callout_for_no_state(host: Host) -> None:
    _callout(host, f"{OPTIONS} {host.launcher} %C %I %S", "RUNNING")


@breakage("callouts", edit("keep one of them", set_right), **JUDGED)
def a_state_with_two_callouts(host: Host) -> None:
    host.lines.append(host.lines[0])
    host.configure()


@breakage("callouts", edit("add their lines", set_right), **JUDGED)
def no_callout_for_the_end(host: Host) -> None:
    host.lines.pop()
    host.configure()


def _add_inlrms(host: Host) -> None:
    host.lines.append(f"statecallout=INLRMS {OPTIONS} {host.launcher} %C %I %S")
    host.configure()


@breakage("callouts", edit("remove this line", set_right), **EVERYWHERE)
def a_callout_that_a_rex_6_does_not_know(host: Host) -> None:
    _add_inlrms(host)


def _add_callouts(host: Host, output: str) -> None:
    """What `setup` prints, in [arex] of arc.conf, and A-REX is started with it."""
    host.lines = re.findall(r"`(statecallout=[^`]*)`", output)
    assert host.lines, output
    host.configure()


@breakage("callouts", _add_callouts, setup=ERROR, doctor=ERROR, status=ERROR)
def no_callouts(host: Host) -> None:
    host.lines = []
    host.configure()


@breakage("callouts", _add_callouts, setup=ERROR, doctor=ERROR, status=ERROR)
def no_callouts_and_an_empty_folder_of_a_rex_7(host: Host) -> None:
    """The directory is there, but accounting.db says that this is A-REX 6, which does not read it."""
    (host.path / "arc.conf.d").mkdir()
    no_callouts(host)


@breakage("callouts", edit("missing for INLRMS", _add_inlrms), **JUDGED)
def no_callout_for_a_state_of_a_rex_7(host: Host) -> None:
    folder = host.control / "accounting"
    (folder / "accounting.db").unlink()
    arex_writer.create(folder / "accounting_v2.db", 2).close()


def _restart(host: Host) -> None:
    host.running.write_text(host.conf.read_text())


def _set_right_and_restart(host: Host) -> None:
    set_right(host)
    _restart(host)


@breakage("A-REX", edit("systemctl restart arc-arex", _restart), setup=ERROR, doctor=ERROR, status=ERROR)
def callouts_that_a_rex_has_not_read(host: Host) -> None:
    host.running.write_text(f"[arex]\ncontroldir={host.control}\n")


@breakage(
    "A-REX", edit("restart arc-arex", _set_right_and_restart), setup=ERROR, doctor=ERROR, status=ERROR, config=WARNING
)
def a_bare_timeout_that_a_rex_has_not_read(host: Host) -> None:
    """Such a line is a warning, and must not hide that A-REX was not restarted."""
    _restart(host)
    running = host.running
    running.write_text(re.sub("statecallout.*\n", "", running.read_text()))
    host.lines = [f"statecallout={state} timeout=4 {host.launcher} %C %I %S" for state in STATES]
    host.configure()


@breakage("A-REX", edit("restart A-REX", _restart), setup=ERROR, doctor=ERROR, status=ERROR, config=WARNING)
def callouts_written_beside_an_a_rex_that_runs(host: Host) -> None:
    """As above, where no command is given a configuration: they read the file that A-REX runs with."""
    host.names_conf = False
    host.running.write_text(re.sub("statecallout.*\n", "", host.conf.read_text()))
    os.utime(host.running, (time.time() - 60,) * 2)


# The launcher.


@breakage("launcher", printed, **EVERYWHERE)
def no_launcher(host: Host) -> None:
    host.launcher.unlink()


@breakage("launcher", edit("did you mean it?", set_right), **EVERYWHERE)
def a_launcher_with_a_slip_in_its_path(host: Host) -> None:
    host.lines = [line.replace("/arcacct-hook", "/arcacct-hok") for line in host.lines]
    host.configure()


@breakage("launcher", printed, **EVERYWHERE)
def a_launcher_that_is_not_executable(host: Host) -> None:
    host.launcher.chmod(0o644)


@breakage("launcher", None, **EVERYWHERE)
def a_launcher_with_a_relative_path(host: Host) -> None:
    host.lines = [line.replace(str(host.launcher), "libexec/arcacct-hook") for line in host.lines]
    host.configure()


@breakage("launcher", printed, setup=ERROR, doctor=ERROR)
def a_launcher_that_is_no_program(host: Host) -> None:
    host.launcher.write_bytes(b"\x7fELF and no more")


@breakage("launcher", printed, setup=ERROR, doctor=ERROR)
def a_launcher_that_fails(host: Host) -> None:
    host.put("#!/bin/sh\nexit 3\n")


@breakage("launcher", printed, setup=WARNING, doctor=WARNING)
def a_launcher_of_another_version(host: Host) -> None:
    host.put("#!/bin/sh\n# arcacct-hook CONTROLDIR JOBID STATE [CONF]\nlimit=8\nexit 0\n")


@breakage("launcher", None, setup=UNKNOWN, doctor=UNKNOWN)
def a_launcher_that_is_another_program(host: Host) -> None:
    host.put("#!/bin/sh\nexit 0\n")


@breakage(
    "launcher",
    edit("copy etc/arcacct-hook", lambda host: setattr(host, "prefix", sys.prefix)),
    setup=WARNING,
    doctor=WARNING,
)
def a_launcher_inside_the_python_environment(host: Host) -> None:
    host.prefix = str(host.path)


@breakage("permissions", printed, setup=ERROR, doctor=ERROR)
def a_launcher_that_its_group_can_change(host: Host) -> None:
    os.chown(host.launcher, 0, OWNER)
    host.launcher.chmod(0o775)


@breakage("permissions", printed, setup=ERROR, doctor=ERROR)
def a_launcher_that_everybody_can_change(host: Host) -> None:
    host.launcher.chmod(0o777)


@breakage("permissions", printed, setup=ERROR, doctor=ERROR)
def a_launcher_that_everybody_can_replace(host: Host) -> None:
    host.launcher.parent.chmod(0o777)


@breakage("permissions", printed, setup=ERROR, doctor=ERROR)
def a_launcher_of_another_user(host: Host) -> None:
    os.chown(host.launcher, OWNER, OWNER)


def _set_fallback(host: Host) -> None:
    host.ours += f"spool_fallback={host.path}/fallback\n"
    host.configure()


@breakage(
    "launcher spool", edit("set spool_fallback= in [arcacct]", _set_fallback), setup=ERROR, doctor=ERROR, status=ERROR
)
def a_launcher_with_a_second_spool_of_its_own(host: Host) -> None:
    (host.path / "fallback").mkdir()
    host.install(fallback=str(host.path / "fallback"))


@breakage(
    "launcher spool", edit("leave spool= of the launcher empty", Host.install), setup=ERROR, doctor=ERROR, status=ERROR
)
def a_launcher_with_a_spool_of_its_own(host: Host) -> None:
    (host.path / "elsewhere").mkdir()
    host.install(spool=str(host.path / "elsewhere"))


# The configuration.

NOT_READ = {"config": ERROR, "setup": ERROR, "doctor": ERROR, "status": UNKNOWN}
"""Where nothing can be known, monitoring is told that."""


def _without(option: str) -> Callable[[Host], object]:
    def remove(host: Host) -> None:
        host.ours_conf.write_text(re.sub(rf"(?m)^{re.escape(option)}.*\n", "", host.ours_conf.read_text()))

    return remove


@breakage("configuration", edit("did you mean settle?", _without("settel")), switch=78, publish=78, **NOT_READ)
def an_unknown_option(host: Host) -> None:
    host.write_ours("[arcacct]\n", "[arcacct]\nsettel=1\n")


@breakage("configuration", edit("settle", _without("settle")), switch=78, publish=78, **NOT_READ)
def a_wrong_value(host: Host) -> None:
    host.write_ours("[arcacct]\n", "[arcacct]\nsettle=soon\n")


@breakage(
    "configuration",
    edit("did you mean arex/jura/sgas?", lambda host: host.write_ours("jurra", "jura")),
    switch=78,
    publish=78,
    **NOT_READ,
)
def a_misspelt_block(host: Host) -> None:
    host.write_ours("[arex/jura/sgas:s]", "[arex/jurra/sgas:s]")


@breakage("configuration", edit("has quotes", lambda host: host.write_ours('"', "")), switch=78, publish=78, **NOT_READ)
def a_value_in_quotes(host: Host) -> None:
    host.write_ours("gocdb_name=SITE", 'gocdb_name="SITE"')


@breakage("configuration", edit("remove the others", lambda host: host.write_ours("gocdb_name=X\n", "")), **JUDGED)
def an_option_that_is_set_twice(host: Host) -> None:
    host.write_ours("gocdb_name=SITE", "gocdb_name=X\ngocdb_name=SITE")


@breakage("configuration", None, switch=78, publish=78, **NOT_READ)
def no_url(host: Host) -> None:
    host.ours_conf.write_text(re.sub("targeturl=.*sgas.*\n", "", host.ours_conf.read_text()))


def _again(host: Host, kind: str, more: str = "") -> None:
    text = host.ours_conf.read_text()
    block = re.search(rf"\[arex/jura/{kind}:.\]\n([^\[]*)", text)
    assert block is not None
    host.ours_conf.write_text(f"{text}[arex/jura/{kind}:again]\n{block[1]}{more}")


def _once(host: Host) -> None:
    host.ours_conf.write_text(re.sub(r"\[arex/jura/\w+:again\][^\[]*", "", host.ours_conf.read_text()))


@breakage("configuration", edit("keep one of them", _once), **JUDGED)
def two_targets_that_are_one_sgas(host: Host) -> None:
    """It counts each job once."""
    _again(host, "sgas")


@breakage("configuration", edit("keep one of them", _once), **JUDGED)
def two_targets_that_are_one_apel(host: Host) -> None:
    """It replaces the sums of the first by those of the second."""
    _again(host, "apel")


@breakage("configuration", edit("keep one of them", _once), switch=78, publish=78, **NOT_READ)
def sums_and_records_for_one_apel(host: Host) -> None:
    """It adds the records of the second to the sums of the first."""
    _again(host, "apel", "apel_messages=urs\n")


@breakage("configuration", edit("# before a comment", _without("no such line")), switch=78, publish=78, **NOT_READ)
def a_line_that_is_no_option(host: Host) -> None:
    host.write_ours("[arcacct]\n", "[arcacct]\nno such line\n")


@breakage("configuration", None, switch=78, publish=78, **NOT_READ)
def arcacct_conf_that_is_binary(host: Host) -> None:
    host.ours_conf.write_bytes(bytes(range(256)) * 64)


@breakage("configuration", None, switch=78, publish=78, **NOT_READ)
def arcacct_conf_that_is_a_directory(host: Host) -> None:
    host.ours_conf.unlink()
    host.ours_conf.mkdir()


@breakage("configuration", None, switch=78, publish=78, **NOT_READ)
def arcacct_conf_that_is_a_fifo(host: Host) -> None:
    host.ours_conf.unlink()
    os.mkfifo(host.ours_conf)
    # Whoever opens it to read must not wait for a writer: one comes, writes nothing and leaves.
    is_over = threading.Event()

    def write() -> None:
        while not is_over.is_set():
            with suppress(OSError):
                os.close(os.open(host.ours_conf, os.O_WRONLY))

    def end() -> None:
        is_over.set()
        with suppress(OSError):
            os.close(os.open(host.ours_conf, os.O_RDONLY | os.O_NONBLOCK))
        writer.join()

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    host.undo = [end]


@breakage("configuration", None, switch=78, publish=78, **NOT_READ)
def arc_conf_that_is_away(host: Host) -> None:
    host.conf.unlink()


@breakage("configuration", None, switch=78, publish=78, **NOT_READ)
def arc_conf_that_is_a_directory(host: Host) -> None:
    host.conf.unlink()
    host.conf.mkdir()


@breakage("benchmark", edit("set benchmark=", lambda host: host.write_arc("HEPSPEC:1.0", "HEPSPEC:10.2")), **JUDGED)
def no_benchmark(host: Host) -> None:
    host.write_arc("HEPSPEC:10.2", "HEPSPEC:1.0")


@breakage("benchmark", edit("a core has", lambda host: host.write_arc("HEPSPEC:1500", "HEPSPEC:10.2")), **JUDGED)
def a_benchmark_of_a_whole_node(host: Host) -> None:
    host.write_arc("HEPSPEC:10.2", "HEPSPEC:1500")


@breakage(
    "configuration", edit("did you mean atlas?", lambda host: host.write_ours("atlsa", "atlas")), publish=69, **JUDGED
)
def a_filter_for_a_vo_of_no_job(host: Host) -> None:
    host.write_ours("gocdb_name=SITE", "gocdb_name=SITE\nvofilter=atlsa")


@breakage("rehearsal", edit("remove it", _without("rehearsal")), setup=WARNING, doctor=WARNING)
def a_rehearsal_that_was_left(host: Host) -> None:
    host.write_ours("[arcacct]\n", f"[arcacct]\nrehearsal={host.path}/rehearsal\n")


@breakage(
    "targets",
    edit("set publishes=no", lambda host: host.write_ours("[arcacct]\n", "[arcacct]\npublishes=no\n")),
    setup=WARNING,
    doctor=WARNING,
    status=WARNING,
)
def no_target(host: Host) -> None:
    host.targets = ""
    host.configure()


# jura-ng.

JURA = {"config": ERROR, "setup": ERROR, "doctor": ERROR, "status": ERROR}


def _move_targets(host: Host) -> None:
    host.configure()


@breakage("jura", edit("move [arex/jura] and all its targets", _move_targets), publish=78, **JURA)
def targets_in_both_files(host: Host) -> None:
    host.conf.write_text(f"{host.conf.read_text()}[arex/jura]\n{host.targets}")


@breakage("jura", edit("move [arex/jura] and all its targets", _move_targets), publish=78, **JURA)
def targets_only_in_arc_conf(host: Host) -> None:
    targets_in_both_files(host)
    host.ours_conf.write_text("[arcacct]\n")


@breakage(
    "switch",
    edit("--decline`", lambda host: host.run("switch", "--decline", "--yes")),
    setup=ERROR,
    doctor=ERROR,
    status=ERROR,
    publish=69,
)
def sums_of_jura_that_nobody_settled(host: Host) -> None:
    served_by_jura(host.control / "accounting", host.ended_s, "arex/jura/apel:a")


# A-REX and its control directory.


@breakage("A-REX", edit("start it", lambda host: setattr(host, "processes", [Process(4242, ())])), doctor=WARNING)
def a_rex_that_does_not_run(host: Host) -> None:
    host.processes = []


@breakage("A-REX", None, doctor=ERROR)
def a_rex_that_writes_our_database(host: Host) -> None:
    host.processes = [Process(77, (host.here.database,))]


@breakage("database", None, setup=ERROR, doctor=ERROR, status=ERROR, publish=74, switch=65)
def no_control_directory(host: Host) -> None:
    shutil.rmtree(host.control)


@breakage("control directory", edit("restart A-REX", lambda host: host.running.unlink()), setup=ERROR, doctor=ERROR)
def a_rex_that_runs_with_another_control_directory(host: Host) -> None:
    host.running.write_text(f"[arex]\ncontroldir={host.path}/another\n" + "\n".join(host.lines))


@breakage("permissions", printed, setup=ERROR, doctor=ERROR)
def a_control_directory_that_everybody_can_change(host: Host) -> None:
    host.control.chmod(0o777)


# Owners and modes.


@breakage("permissions", printed, setup=ERROR, doctor=ERROR)
def a_database_directory_that_everybody_can_change(host: Host) -> None:
    os.chmod(host.here.directory, 0o777)


@breakage("permissions", printed, setup=WARNING, doctor=WARNING)
def a_database_directory_that_everybody_can_read(host: Host) -> None:
    os.chmod(host.here.directory, 0o755)


@breakage("permissions", printed, setup=ERROR, doctor=ERROR)
def a_database_directory_of_another_user(host: Host) -> None:
    os.chown(host.here.directory, OWNER, OWNER)


@breakage("permissions", printed, setup=ERROR, doctor=ERROR)
def a_database_of_another_user(host: Host) -> None:
    os.chown(host.database, OWNER, OWNER)


@breakage("permissions", printed, setup=ERROR, doctor=ERROR)
def a_ledger_of_another_user(host: Host) -> None:
    os.chown(host.ledger, OWNER, OWNER)


@breakage("permissions", printed, setup=ERROR, doctor=ERROR)
def a_spool_of_another_user(host: Host) -> None:
    os.chown(host.spool, OWNER, OWNER)


@breakage("permissions", printed, setup=ERROR, doctor=ERROR)
def arcacct_conf_of_another_user(host: Host) -> None:
    os.chown(host.ours_conf, OWNER, OWNER)


@breakage("permissions", printed, setup=ERROR, doctor=ERROR)
def arc_conf_that_everybody_can_change(host: Host) -> None:
    host.conf.chmod(0o666)


@breakage("permissions", printed, setup=ERROR, doctor=ERROR)
def a_configuration_that_everybody_can_replace(host: Host) -> None:
    host.path.chmod(0o777)
    host.undo = [lambda: host.path.chmod(0o755)]


@breakage("permissions", printed, setup=WARNING, doctor=WARNING)
def a_password_that_everybody_can_read(host: Host) -> None:
    host.common += "http_proxy=http://me:s3cr3t-w0rd@localhost:3128\n"
    host.configure()


# Certificate, key and CAs.

NO_LOGIN = {"config": ERROR, "setup": ERROR, "doctor": ERROR}


def _certificate(host: Host, days: float, name: str = "ce.example.org") -> None:
    now = int(time.time())
    host.authority.issue(
        name,
        not_before=now - 99 * DAY_S,
        not_after=now + int(days * DAY_S) + 3600,
        directory=str(host.path / "host"),
        rsa_key=False,
    )


def _new_certificate(host: Host) -> None:
    _certificate(host, 400)


@breakage("key", edit("is not the key of", _new_certificate), status=ERROR, **NO_LOGIN)
def a_key_of_another_certificate(host: Host) -> None:
    kept = (host.path / "host" / "hostcert.pem").read_bytes()
    _certificate(host, 400)
    (host.path / "host" / "hostcert.pem").write_bytes(kept)


@breakage("key", printed, config=WARNING, setup=WARNING, doctor=WARNING)
def a_key_that_everybody_can_read(host: Host) -> None:
    (host.path / "host" / "hostkey.pem").chmod(0o644)


@breakage("key", edit("hostkey.pem", _new_certificate), status=ERROR, **NO_LOGIN)
def a_key_that_is_none(host: Host) -> None:
    (host.path / "host" / "hostkey.pem").write_text("no key\n")


@breakage("certificate", edit("install a new host certificate", _new_certificate), status=ERROR, **NO_LOGIN)
def a_certificate_that_has_expired(host: Host) -> None:
    _certificate(host, -2)


@breakage("certificate", edit("order", _new_certificate), status=ERROR, **NO_LOGIN)
def a_certificate_that_ends_within_a_day(host: Host) -> None:
    _certificate(host, 0.04)


@breakage("certificate", edit("order", _new_certificate), status=WARNING, **JUDGED)
def a_certificate_that_ends_in_ten_days(host: Host) -> None:
    _certificate(host, 10)


@breakage("certificate", edit("order", _new_certificate), status=WARNING, **JUDGED)
def a_certificate_that_ends_in_three_weeks(host: Host) -> None:
    _certificate(host, 21)


@breakage("certificate", edit("hostcert.pem", _new_certificate), status=ERROR, **NO_LOGIN)
def no_certificate(host: Host) -> None:
    (host.path / "host" / "hostcert.pem").unlink()


@breakage("certificate", edit("hostcert.pem", _new_certificate), status=ERROR, **NO_LOGIN)
def a_certificate_that_is_none(host: Host) -> None:
    (host.path / "host" / "hostcert.pem").write_text("no certificate\n")


NOBODY_TRUSTED = {"config": ERROR, "setup": ERROR, "doctor": ERROR}


@breakage("CA directory", None, **NOBODY_TRUSTED)
def a_ca_directory_that_is_empty(host: Host) -> None:
    shutil.rmtree(host.path / "certificates")
    (host.path / "certificates").mkdir()


@breakage("CA directory", None, **NOBODY_TRUSTED)
def no_ca_directory(host: Host) -> None:
    shutil.rmtree(host.path / "certificates")


@breakage(
    "CA directory", edit("install new ones", lambda host: _trust(host, host.kept / "certificates")), **NOBODY_TRUSTED
)
def cas_that_have_expired(host: Host) -> None:
    folder = host.path / "old"
    folder.mkdir()
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Old CA")])
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now - dt.timedelta(99), now - dt.timedelta(1))
    certificate = builder.sign(key, hashes.SHA256())
    path = folder / f"{authority.subject_hash(name)}.0"
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    _trust(host, folder)


def _trust(host: Host, folder: pathlib.Path) -> None:
    shutil.rmtree(host.path / "certificates")
    shutil.copytree(folder, host.path / "certificates", symlinks=True)


# The databases.

LOST = {"setup": ERROR, "doctor": ERROR, "status": ERROR}


def _restore_backup(host: Host) -> None:
    backup = max((host.path / "backups").glob("accounting*.db"))
    done = host.run("db", "restore", backup, "--yes")
    assert done.returncode == 0, done


@breakage("database", edit("arcacct db restore FILE", _restore_backup), switch=74, publish=74, **LOST)
def a_database_that_is_lost(host: Host) -> None:
    host.database.unlink()


@breakage("database", edit("arcacct db restore FILE", _restore_backup), switch=74, publish=74, **LOST)
def a_database_directory_that_is_lost(host: Host) -> None:
    shutil.rmtree(host.here.directory)


@breakage("database", edit("db init", lambda host: host.run("db", "init")), switch=74, publish=74, **LOST)
def a_database_that_was_never_made(host: Host) -> None:
    a_database_directory_that_is_lost(host)
    pathlib.Path(host.here.place_note).unlink()


@breakage("database", None, switch=74, publish=74, **LOST)
def a_database_that_is_a_directory(host: Host) -> None:
    host.database.unlink()
    host.database.mkdir()


@breakage("database", None, switch=74, publish=74, **LOST)
def a_database_that_is_damaged(host: Host) -> None:
    host.database.write_bytes(b"no database" * 1000)


@breakage("database", None, switch=74, publish=74, **LOST)
def a_database_of_a_newer_program(host: Host) -> None:
    with closing(sqlite3.connect(host.database)) as con:
        con.execute("UPDATE DBConfig SET KeyValue = '999' WHERE KeyName = 'ARCACCT_SCHEMA'")
        con.commit()


@breakage("lock", None, publish=75, **LOST)
def a_database_that_another_process_keeps_locked(host: Host) -> None:
    code = (
        "import sqlite3, sys\n"
        "con = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "con.execute('BEGIN IMMEDIATE')\n"
        "con.execute(\"INSERT INTO Users (Name) VALUES ('x')\")\n"
        "print('locked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    pipe = subprocess.PIPE
    locker = subprocess.Popen([sys.executable, "-c", code, host.database], stdin=pipe, stdout=pipe)
    assert locker.stdout is not None
    assert locker.stdout.readline() == b"locked\n"
    host.undo = [locker.communicate]


@breakage("writers", None, **LOST)
def records_that_a_rex_wrote(host: Host) -> None:
    host.update("DELETE FROM StatusFiles")


@breakage("place", None, setup=ERROR, doctor=ERROR)
def a_database_on_a_network_file_system(host: Host) -> None:
    host.mounted("nfs4")


@breakage("place", None, setup=ERROR, doctor=ERROR)
def a_database_on_a_memory_disk(host: Host) -> None:
    host.mounted("tmpfs")


@breakage("place", None, setup=ERROR, doctor=ERROR)
def a_database_on_a_read_only_file_system(host: Host) -> None:
    host.room = {"f_flag": os.ST_RDONLY}


@breakage("disk", None, switch=74, **LOST)
def a_disk_that_is_full(host: Host) -> None:
    host.room = {"f_bavail": 10}


@breakage("disk", None, **LOST)
def a_disk_without_inodes(host: Host) -> None:
    host.room = {"f_files": 1000, "f_favail": 2}


@breakage("disk", None, setup=WARNING, doctor=WARNING, status=WARNING)
def a_disk_with_few_inodes(host: Host) -> None:
    host.room = {"f_files": 100_000, "f_favail": 5_000}


@breakage("ledger", None, **LOST)
def a_ledger_that_is_lost(host: Host) -> None:
    host.ledger.unlink()


@breakage("ledger", None, **LOST)
def a_ledger_of_another_database(host: Host) -> None:
    with closing(access.open_publishing(host.here)) as con:
        con.execute("UPDATE Targets SET Incarnation = 'another'")


@breakage("ledger", None, **LOST)
def a_ledger_that_is_older(host: Host) -> None:
    kept = host.ledger.read_bytes()
    host.finish("LaterJob0000000000")
    host.run("sweep")
    assert host.run("publish", "--now").returncode == 0
    host.ledger.write_bytes(kept)


@breakage("ledger", None, publish=69, **LOST)
def a_database_that_is_older_than_its_ledger(host: Host) -> None:
    kept = host.database.read_bytes()
    host.finish("LaterJob0000000000")
    host.run("sweep")
    assert host.run("publish", "--now").returncode == 0
    host.database.write_bytes(kept)


@breakage("database", None, switch=74, publish=74, **LOST)
def a_ledger_that_is_damaged(host: Host) -> None:
    host.ledger.write_bytes(b"no database" * 1000)


@breakage(
    "backup",
    edit("arcacct db backup", lambda host: host.run("db", "backup", host.path / "backups")),
    setup=WARNING,
    doctor=WARNING,
    status=WARNING,
)
def a_backup_that_is_old(host: Host) -> None:
    care = pathlib.Path(host.here.directory) / "care.json"
    noted = json.loads(care.read_text())
    noted["backup"][0] -= 8 * DAY_S
    care.write_text(json.dumps(noted))


@breakage(
    "maintenance",
    edit("remove it", lambda host: os.unlink(host.here.maintenance)),
    publish=75,
    setup=WARNING,
    doctor=WARNING,
    status=WARNING,
)
def a_maintenance_that_was_killed(host: Host) -> None:
    pathlib.Path(host.here.maintenance).touch()


# Spool, sweep, recorder and clock.

WARNED = {"setup": WARNING, "doctor": WARNING, "status": WARNING}


def _spooled(host: Host) -> pathlib.Path:
    """An event as the launcher writes it."""
    before = {*host.spool.iterdir()}
    subprocess.run(
        [host.launcher, host.control, arex_writer.job_id(1), "SUBMIT"], check=True, env={"PATH": "/usr/bin:/bin"}
    )
    (path,) = {*host.spool.iterdir()} - before
    return path


@breakage("spool", printed, **LOST)
def events_that_wait_for_days(host: Host) -> None:
    os.utime(_spooled(host), (time.time() - 2 * DAY_S,) * 2)


@breakage("spool", None, **WARNED)
def an_event_of_a_newer_program(host: Host) -> None:
    event = _spooled(host)
    event.write_bytes(event.read_bytes().replace(b"version=2", b"version=99"))
    assert host.run("sweep").returncode == 65


@breakage("spool", None, **WARNED)
def events_that_cannot_be_used(host: Host) -> None:
    (host.spool / "unusable").mkdir()
    (host.spool / "unusable" / "1-FINISHED-Job").write_text("version=2\n")


@breakage("sweep", edit("arcacct-sweep.timer", lambda host: host.run("sweep")), **WARNED)
def a_sweep_that_never_ran(host: Host) -> None:
    host.update("DELETE FROM DBConfig WHERE KeyName = 'ARCACCT_LAST_SWEEP'")


@breakage("sweep", edit("arcacct-sweep.timer", lambda host: host.run("sweep")), **LOST)
def a_sweep_of_yesterday(host: Host) -> None:
    host.note("ARCACCT_LAST_SWEEP", int(time.time()) - DAY_S)


@breakage("callouts", None, **WARNED)
def ends_that_only_sweeps_found(host: Host) -> None:
    with closing(access.open_accounting(host.here)) as con, access.writing(con, host.here):
        save_sweep(con, {host.ended_s // 3600: 3})


@breakage("recorder service", None, **WARNED)
def a_recorder_that_is_enabled_and_does_not_run(host: Host) -> None:
    (host.path / "wanted").symlink_to("/dev/null")


@breakage("timers", None, setup=ERROR)
def timers_that_are_not_enabled(host: Host) -> None:
    host.units = "echo disabled; exit 1"


@breakage("clock of A-REX's files", None, setup=ERROR, doctor=ERROR)
def a_file_of_a_rex_from_the_future(host: Host) -> None:
    status = host.control / "finished" / "job.Future.status"
    status.touch()
    os.utime(status, (time.time() + DAY_S,) * 2)


@breakage("clock", None, setup=ERROR, doctor=ERROR, status=ERROR)
def events_from_the_future(host: Host) -> None:
    host.update("UPDATE JobEvents SET EventTime = datetime('now', '+2 days')")


@breakage("clock", edit("check the clock", lambda host: host.run("sweep")), setup=ERROR, doctor=ERROR, status=ERROR)
def a_sweep_from_the_future(host: Host) -> None:
    host.note("ARCACCT_LAST_SWEEP", int(time.time()) + DAY_S)


# What is published.


@breakage("apel:a figures", None, status=ERROR)
def a_month_that_is_held(host: Host) -> None:
    """A run under a filter of VOs, which was taken out again, would have let the month's figures fall."""
    kept = host.ours_conf.read_text()
    host.write_ours("gocdb_name=SITE", "gocdb_name=SITE\nvofilter=cms")
    assert host.run("publish", "--now").returncode == 69
    host.ours_conf.write_text(kept)


@breakage("sgas:s quarantine", None, status=WARNING)
def a_record_that_is_quarantined(host: Host) -> None:
    host.hold("quarantined")


@breakage("sgas:s quarantine", None, status=WARNING)
def a_correction_that_the_receiver_has_not_taken(host: Host) -> None:
    host.hold("correction")


@breakage("implausible", None, publish=65, **WARNED)
def a_job_with_impossible_values(host: Host) -> None:
    host.finish("LongJob0000000000", diag=DIAG.replace(b"UserTime=59.36s", b"UserTime=9999999.00s"))
    host.run("sweep")


@breakage("measured", None, **LOST)
def jobs_that_nobody_measured(host: Host) -> None:
    for number in range(12):
        host.finish(f"Unmeasured0000{number:02d}")
    host.run("sweep")
    host.update("INSERT OR IGNORE INTO FieldSources SELECT RecordID, 'wall_s', 'unknown' FROM RecordUsage")


@breakage("vanished", None, publish=65, **WARNED)
def a_job_whose_files_are_gone(host: Host) -> None:
    host.finish("GoneJob0000000000")
    host.run("sweep")
    host.update(
        "UPDATE AAR SET (StatusID, EndTime) = ((SELECT ID FROM Status WHERE Name = 'in-progress'), 0)"
        " WHERE JobID = 'GoneJob0000000000'"
    )
    host.update(
        "UPDATE StatusFiles SET State = 'VANISHED'"
        " WHERE RecordID = (SELECT RecordID FROM AAR WHERE JobID = 'GoneJob0000000000')"
    )


@breakage("sgas:s", None, status=WARNING)
def a_publisher_that_does_not_run(host: Host) -> None:
    with closing(access.open_publishing(host.here)) as con, con:
        con.execute("UPDATE Targets SET LastSuccess = LastSuccess - ?, LastRun = LastRun - ?", (2 * DAY_S, 2 * DAY_S))


@breakage("sgas:s", None, setup=WARNING, doctor=WARNING, status=WARNING)
def a_receiver_that_refused_the_last_run(host: Host) -> None:
    with closing(access.open_publishing(host.here)) as con:
        cursors.finish_run(
            con, BLOCK, error=TargetRefuses("https://sgas.example.org/sgas/ur: HTTP 403"), last_end_time=None
        )


# Hosts of a batch system without A-REX.


def _without_arex(host: Host, lrms: str) -> None:
    host.expects_arex = False
    host.lines = []
    host.processes = []
    host.ours = f"database={host.path}/db/accounting.db\n"
    host.configure()
    host.write_arc("lrms=fork", f"lrms={lrms}")
    host.write_arc("controldir=", "#")
    shutil.rmtree(host.control)
    host.here = places(load(str(host.conf), {}))
    assert host.run("db", "init").returncode == 0


for _lrms in ("sge", "slurm", "pbs", "lsf", "condor"):

    def _of(host: Host, lrms: str = _lrms) -> None:
        _without_arex(host, lrms)

    _of.__name__ = f"a_host_with_{_lrms}_without_a_rex_and_without_jobs"
    breakage("history", None, switch=65, setup=ERROR, doctor=ERROR)(_of)

"""`arcacct setup`: from nothing to a host that records, by what it says, and every break before A-REX restarts."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
from typing import Any

import pytest
from campaigns import sample
from clinic import OPTIONS, Clinic
from in_process import said
from other_users import acting_as

from arcacct.config.parser import load
from arcacct.config.review import STATES, Release
from arcacct.files.directories import resource
from arcacct.health import setup as queries_setup
from arcacct.health.facts import CRITICAL, OK, WARNING
from arcacct.sandbox import authority


@pytest.fixture
def clinic(tmp_path, monkeypatch) -> Clinic:
    """A CE with an A-REX that has run once, and the launcher; nothing else of arcacct is there."""
    made = Clinic(tmp_path)
    made.ours, made.lines = "", []
    made.configure()
    shutil.rmtree(made.here.directory)
    pathlib.Path(made.here.place_note).unlink()
    (tmp_path / "arc.conf.d").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    systemctl(made, '[ "$1" = is-active ] && echo active || echo enabled')
    return made


def systemctl(site: Clinic, script: str) -> None:
    """What this host's systemd says."""
    program = site.path / "bin" / "systemctl"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


@pytest.fixture
def run(clinic, capsys) -> Any:
    """Give a command."""

    def arcacct(*words: str) -> Any:
        more = ("--launcher", clinic.launcher) if words[0] == "setup" else ()
        return said(capsys, "--config", clinic.conf, *words, *more)

    return arcacct


def verdicts(run) -> dict[str, str]:
    """Of each step."""
    return {one["step"]: one["verdict"] for one in json.loads(run("setup", "--check", "--format", "json").stdout)}


def test_from_nothing_to_recording_by_what_it_says(clinic, run) -> None:
    """Each open step names its command and the way back; at the end nothing is left to do."""
    first = run("setup")
    assert first.returncode == 78
    assert "next: callouts" in first.stdout
    assert "to undo:" in first.stdout
    assert not (clinic.path / "arc.conf.d" / "arcacct.conf").exists()

    written = run("setup", "--write", "--yes")
    assert "restart A-REX" in written.stderr
    assert "next: database" in written.stdout
    assert "arcacct db init" in written.stdout
    assert run("config", "check").returncode == 0

    assert run("db", "init").returncode == 0
    assert {step for step, verdict in verdicts(run).items() if verdict == "error"} == set()
    done = run("setup", "--check")
    assert done.returncode == 0
    before = (clinic.path / "arc.conf.d" / "arcacct.conf").read_bytes()
    assert "nothing to write" in run("setup", "--write", "--yes").stderr
    assert (clinic.path / "arc.conf.d" / "arcacct.conf").read_bytes() == before


def test_what_it_writes_is_taken_back_by_removing_one_file(clinic, run) -> None:
    """And then every step is as it was."""
    before = verdicts(run)
    run("setup", "--write", "--yes")
    assert verdicts(run)["callouts"] == "ok"
    (clinic.path / "arc.conf.d" / "arcacct.conf").unlink()
    assert verdicts(run) == before


def test_nothing_is_written_unasked(clinic, run) -> None:
    """Without a terminal somebody has to say --yes."""
    done = run("setup", "--write")
    assert done.returncode == 64
    assert done.stderr.endswith("not a terminal: pass --yes to proceed\n")
    assert not (clinic.path / "arc.conf.d" / "arcacct.conf").exists()


def test_the_lines_are_those_that_etc_has() -> None:
    """For ARC 6 and ARC 7 each."""
    for is_arc7, path in ((False, ("arc.conf.statecallout",)), (True, ("arc.conf.d", "arcacct.conf"))):
        text = pathlib.Path(resource("etc", *path)).read_text()
        lines = [line for line in text.splitlines() if line.startswith("statecallout=")]
        made = queries_setup.callout_lines("/usr/local/libexec/arcacct-hook", Release(7 if is_arc7 else 6))
        assert list(made) == lines


def test_an_arc_6_gets_the_lines_printed(clinic, run) -> None:
    """Its A-REX reads no directory: nothing is written, and the lines for arc.conf are in the text."""
    (clinic.path / "arc.conf.d").rmdir()
    shown = run("setup")
    assert (
        f"  statecallout=FINISHED timeout=10,onsuccess=pass,onfailure=log,ontimeout=log {clinic.launcher} %C %I %S"
        in (shown.stdout.splitlines())
    )
    assert "INLRMS" not in shown.stdout
    assert "restart A-REX (systemctl restart arc-arex)" in shown.stdout
    refused = run("setup", "--write", "--yes")
    assert refused.returncode == 78
    assert "this is A-REX 6" in refused.stderr


def missing(site: Clinic) -> None:
    site.launcher.unlink()


def not_executable(site: Clinic) -> None:
    site.launcher.chmod(0o644)


def fails(site: Clinic) -> None:
    site.put("#!/bin/sh\nexit 3\n")


def others_may_change_it(site: Clinic) -> None:
    site.launcher.chmod(0o777)


def not_a_program(site: Clinic) -> None:
    site.put("no program\n")


def wrong_line(site: Clinic) -> None:
    site.lines = [f"statecallout=FINISHED {site.launcher} %C %I %S"]


def mistyped(site: Clinic) -> None:
    site.lines = [f"statecallout={state} {OPTIONS} {site.launcher}x %C %I %S" for state in STATES]


def no_such_state(site: Clinic) -> None:
    site.lines = [f"statecallout=FINISH {OPTIONS} {site.launcher} %C %I %S"]


def malformed_option(site: Clinic) -> None:
    site.ours = "database=relative/path\nsettle=soon\n"


def not_set_up(site: Clinic) -> None:
    for name in os.listdir(site.control):
        shutil.rmtree(site.control / name)


def on_nfs(site: Clinic) -> None:
    site.mounted("nfs")


def no_certificate(site: Clinic) -> None:
    site.common = "x509_host_cert=/nowhere/cert.pem\nx509_host_key=/nowhere/key.pem\n"
    site.targets = "[arex/jura/sgas:s]\ntargeturl=https://sgas.example.org/sgas\n"


def no_url(site: Clinic) -> None:
    site.targets = "[arex/jura/sgas:s]\n"


def no_site_name(site: Clinic) -> None:
    site.targets = "[arex/jura/apel:a]\ntargeturl=https://ams.example.org\n"


def _certified(site: Clinic, **how: Any) -> pathlib.Path:
    """A host certificate with its key, the CA's directory, and a target that needs them."""
    made = authority.create(str(site.path / "ca"))
    made.issue("ce.example.org", directory=str(site.path / "host"), rsa_key=False, **how)
    host = site.path / "host"
    site.common = f"x509_host_cert={host}/hostcert.pem\nx509_host_key={host}/hostkey.pem\nx509_cert_dir={made.ca_dir}\n"
    site.targets = "[arex/jura/sgas:s]\ntargeturl=https://localhost/sgas\n"
    return host


def expired(site: Clinic) -> None:
    now = int(time.time())
    _certified(site, not_before=now - 99 * 86_400, not_after=now - 86_400)


def key_of_another(site: Clinic) -> None:
    host = _certified(site)
    authority.create(str(site.path / "other")).issue("x.example.org", directory=str(site.path / "x"), rsa_key=False)
    shutil.copy(site.path / "x" / "hostkey.pem", host / "hostkey.pem")


def key_that_is_a_directory(site: Clinic) -> None:
    key = _certified(site) / "hostkey.pem"
    key.unlink()
    key.mkdir()


def no_authorities(site: Clinic) -> None:
    _certified(site)
    site.common = re.sub("x509_cert_dir=.*", f"x509_cert_dir={site.path}/none", site.common)


def no_such_receiver(site: Clinic) -> None:
    _certified(site)
    site.targets = "[arex/jura/sgas:s]\ntargeturl=https://sgas.invalid/sgas\n"


def from_the_future(site: Clinic) -> None:
    status = site.control / "finished" / "job.abc.status"
    status.touch()
    os.utime(status, (time.time() + 90_000,) * 2)


def gone(site: Clinic) -> None:
    shutil.rmtree(site.control)


def started_elsewhere(site: Clinic) -> None:
    (site.path / "arched-arex.cfg").write_text(f"[arex]\ncontroldir={site.path}/another\n")


def in_memory(site: Clinic) -> None:
    site.mounted("tmpfs")


def _room(monkeypatch, **fields: int) -> None:
    """The file system of the databases as statvfs would tell of it: no test fills a disk or mounts one."""
    statvfs = os.statvfs

    def changed(path: Any) -> Any:
        known = statvfs(path)
        names = ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree", "f_favail", "f_flag")
        values = [fields.get(name, getattr(known, name)) for name in (*names, "f_namemax")]
        return os.statvfs_result((*values, known.f_fsid))

    monkeypatch.setattr(os, "statvfs", changed)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"f_bavail": 10}, "MiB free"),
        ({"f_files": 1000, "f_favail": 2}, "room for only 2 files"),
        ({"f_flag": os.ST_RDONLY}, "on a read-only file system"),
    ],
    ids=["full", "no inodes", "read-only"],
)
def test_a_disk_that_cannot_hold_the_database(clinic, run, monkeypatch, fields, words) -> None:
    """Before the database is made: A-REX's restart would begin to lose events there."""
    _room(monkeypatch, **fields)
    found = {one["step"]: one for one in json.loads(run("setup", "--check", "--format", "json").stdout)}
    wrong = [one for one in found["database"]["details"] if one["verdict"] == "error" and words in str(one)]
    assert wrong
    assert wrong[0]["advice"]


def test_a_site_says_how_much_room_its_database_needs(clinic, run) -> None:
    """The limits of the settings hold before there is a database, too."""
    for limit, verdicts in (("1", []), (f"{2**20}TiB", ["error"])):
        clinic.ours = f"warn_disk={limit}\ncrit_disk={limit}"
        clinic.configure()
        found = {one["step"]: one for one in json.loads(run("setup", "--check", "--format", "json").stdout)}
        room = [one for one in found["database"]["details"] if one["subject"] == "disk"]
        assert [one["verdict"] for one in room if one["verdict"] == "error"] == verdicts


def test_a_database_that_was_moved_is_not_made_again(clinic, run) -> None:
    """It says where the site has one, and neither makes another nor offers to remove what the site has."""
    fresh = {one["step"]: one for one in json.loads(run("setup", "--check", "--format", "json").stdout)}
    assert str(clinic.here.database) in fresh["database"]["undo"][0]
    assert "rm -r" not in fresh["database"]["undo"][0]
    assert run("db", "init").returncode == 0
    pathlib.Path(clinic.here.database).rename(clinic.path / "elsewhere.db")

    moved = {one["step"]: one for one in json.loads(run("setup", "--check", "--format", "json").stdout)}

    assert moved["database"]["verdict"] == "error"
    assert moved["database"]["do"] == moved["database"]["undo"] == []
    assert "no such database" in json.dumps(moved["database"])
    assert f"{clinic.here.place_note} records that one existed" in json.dumps(moved["database"])
    shown = run("setup", "--write", "--yes").stdout.partition("next: database\n")[2]
    assert "if it is elsewhere, fix database= in [arcacct]" in shown


def test_what_receivers_must_register_is_printed_letter_for_letter(clinic, run) -> None:
    """The DN as APEL and as SGAS spell it, and the commands of a rehearsal."""
    _certified(clinic)
    clinic.configure()
    shown = run("setup").stdout
    dn = "/DC=org/DC=example/O=Sandbox/CN=ce.example.org"
    assert f"{dn} at APEL (GOCDB), CN=ce.example.org,O=Sandbox,DC=example,DC=org at SGAS" in shown
    found = {one["step"]: one for one in json.loads(run("setup", "--check", "--format", "json").stdout)}
    assert found["rehearsal"]["do"] == ["arcacct publish --now --dry-run", "arcacct help rehearse"]


def test_two_lines_for_one_state_are_named(clinic, run) -> None:
    """A-REX runs both, one after the other, and waits for both."""
    clinic.lines = [f"statecallout={state} {OPTIONS} {clinic.launcher} %C %I %S" for state in (*STATES, STATES[0])]
    clinic.configure()
    found = {one["step"]: one for one in json.loads(run("setup", "--check", "--format", "json").stdout)}
    assert found["callouts"]["verdict"] == "warning"
    assert f"is the second for {STATES[0]}" in json.dumps(found["callouts"])


def test_a_configuration_that_cannot_be_read(clinic, run) -> None:
    """It says which file, and ends as every command does then."""
    clinic.conf.unlink()
    clinic.conf.mkdir()
    done = run("setup", "--check", "--format", "json")
    assert done.returncode == 78
    assert str(clinic.conf) in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("broken", "step"),
    sample(
        [
            (missing, "launcher"),
            (not_executable, "launcher"),
            (fails, "launcher"),
            (others_may_change_it, "launcher"),
            (not_a_program, "launcher"),
            (wrong_line, "callouts"),
            (mistyped, "launcher"),
            (no_such_state, "callouts"),
            (malformed_option, "configuration"),
            (not_set_up, "database"),
            (no_certificate, "targets"),
            (no_url, "configuration"),
            (no_site_name, "configuration"),
        ],
        6,
    ),
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_broken_host_is_found_before_the_restart(clinic, run, broken, step) -> None:
    """The step is an error with a sentence that says what to do, and nothing is written for A-REX to read."""
    broken(clinic)
    clinic.configure()

    found = {one["step"]: one for one in json.loads(run("setup", "--check", "--format", "json").stdout)}
    wrong = [one for one in found[step]["details"] if one["verdict"] == "error"]
    assert wrong
    assert all(one["advice"] for one in wrong)
    done = run("setup", "--write", "--yes")
    assert done.returncode in (74, 75, 77, 78)
    if step == "launcher":
        assert list((clinic.path / "arc.conf.d").iterdir()) == []
    assert load(str(clinic.conf), {}).arc_conf == str(clinic.conf)


@pytest.mark.parametrize(
    ("broken", "step", "words"),
    [
        (expired, "targets", "expired at"),
        (key_of_another, "targets", "is not the key of"),
        (key_that_is_a_directory, "targets", "hostkey.pem"),
        (no_authorities, "targets", "/none"),
        (no_such_receiver, "targets", "the name cannot be resolved"),
        (from_the_future, "clock", " h in the future"),
        (gone, "database", "control"),
        (in_memory, "database", "is on a memory disk"),
        (on_nfs, "database", "network file system"),
        (started_elsewhere, "database", "A-REX runs with"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_host_that_cannot_work_is_found_before_the_restart(clinic, broken, step, words) -> None:
    """Certificates, clock, disks, receivers and A-REX itself: an error that says what is so and what to do."""
    broken(clinic)
    clinic.configure()

    site = clinic.site(launcher=str(clinic.launcher))
    (found,) = [one for one in queries_setup.steps(site) if one.name == step]

    wrong = [one for one in found.checks if one.severity == CRITICAL and words in one.detail]
    assert wrong, found
    assert all(one.advice for one in wrong)
    assert all(one.exit_code for one in wrong)


def test_a_file_of_somebody_else_is_not_replaced(clinic, run) -> None:
    """arcacct.conf of arc.conf.d may have lines of the site."""
    file = clinic.path / "arc.conf.d" / "arcacct.conf"
    file.write_text("[arex]\nwatchdog=yes\n")
    done = run("setup", "--write", "--yes")
    assert done.returncode == 78
    assert "lines other than callouts" in done.stderr
    assert file.read_text() == "[arex]\nwatchdog=yes\n"


def test_timers_are_looked_at(clinic, run) -> None:
    """One that is not enabled is a step; where there is no systemd that is said."""
    systemctl(clinic, "echo disabled; exit 1")
    assert verdicts(run)["timers"] == "error"
    systemctl(clinic, "echo System has not been booted with systemd >&2; exit 1")
    assert verdicts(run)["timers"] == "unknown"
    # In a container the links that enable units can be there.
    systemctl(clinic, '[ "$1" = is-system-running ] && echo offline || echo enabled')
    assert verdicts(run)["timers"] == "unknown"


def test_units_that_are_not_installed_are_copied_first(clinic, run, monkeypatch) -> None:
    """After pip no unit is there; a timer comes with its service."""
    monkeypatch.setattr(sys, "prefix", queries_setup.PREFIX)
    for script in (
        "echo 'Failed to get unit file state: No such file or directory' >&2; exit 1",
        "echo not-found; exit 4",
    ):
        systemctl(clinic, script)
        found = found_step(run, "timers")
        copy, *rest = found["do"]
        program, *files, folder = copy.split()
        assert (program, folder) == ("cp", "/etc/systemd/system/")
        assert {os.path.basename(path) for path in files if os.path.isfile(path)} == {
            "arcacct-recorder.service", "arcacct-sweep.service", "arcacct-sweep.timer"
        }  # fmt: skip
        enable = "systemctl enable --now arcacct-recorder.service arcacct-sweep.timer"
        assert rest == ["systemctl daemon-reload", enable]
        assert found["undo"][0] == enable.replace("enable", "disable")
        assert "is not installed" in str(found["details"])


def test_a_unit_that_is_enabled_and_does_not_run_is_started(clinic, run) -> None:
    """A package enables the recorder when there is no database for it yet."""
    systemctl(
        clinic, 'case "$*" in is-active*sweep*) echo active ;; is-enabled*) echo enabled ;; *) echo inactive ;; esac'
    )
    found = {one["step"]: one for one in json.loads(run("setup", "--check", "--format", "json").stdout)}["timers"]
    assert found["verdict"] == "warning"
    assert "arcacct-recorder.service is enabled, but does not run" in str(found["details"])
    assert found["do"][-1].startswith("systemctl enable --now arcacct-recorder.service")


def test_without_targets_it_says_so(clinic, run) -> None:
    """And nothing about certificates that no target needs."""
    assert run("db", "init").returncode == 0
    lines = [one for one in run("setup").stdout.splitlines() if " targets: " in one]
    assert [one.split()[0] for one in lines] == ["warning", "unknown"]
    assert "no target is configured, so nothing is published" in lines[0]
    assert "no target needs one" in lines[1]


def test_jura_ng_is_a_step(clinic, run) -> None:
    """Two publishers are an error, as in `config check` and `publish`; the plan is the next command."""
    with clinic.conf.open("a") as file:
        file.write("[arex/jura]\n[arex/jura/sgas:s]\ntargeturl=https://sgas.example.org/sgas\n")
    found = {one["step"]: one for one in json.loads(run("setup", "--check", "--format", "json").stdout)}
    assert found["switch"]["verdict"] == "error"
    assert found["switch"]["do"][0] == "arcacct switch --plan"
    assert found["configuration"]["verdict"] == "ok"


def test_without_a_configuration_nothing_is_called_well(tmp_path, capsys) -> None:
    """What cannot be judged yet is an error or unknown: benchmark, database, history and targets."""
    missing_conf = tmp_path / "arc.conf"
    missing_conf.write_text("[lrms\n")

    done = said(
        capsys, "--config", missing_conf, "setup", "--check", "--format", "json", "--launcher", tmp_path / "hook"
    )

    verdicts = {one["step"]: one["verdict"] for one in json.loads(done.stdout)}
    assert "ok" not in {verdicts[step] for step in ("benchmark", "database", "history", "targets")}, verdicts


def found_step(run, name: str) -> dict[str, Any]:
    """One step, as JSON has it."""
    found = json.loads(run("setup", "--check", "--format", "json").stdout)
    return next(one for one in found if one["step"] == name)


def of_0_2(site: Clinic) -> None:
    site.put("#!/bin/sh\n# arcacct-hook CONTROLDIR JOBID STATE [CONF]\nlimit=8\nexit 0\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="changes owners")
@pytest.mark.parametrize(
    "broken",
    [missing, of_0_2, not_executable, others_may_change_it, fails, not_a_program],
    ids=lambda one: one.__name__,
)
def test_what_setup_says_of_a_launcher_helps(clinic, run, broken) -> None:
    """Its commands as they are printed, once: the same advice is not given again."""
    broken(clinic)
    step = found_step(run, "launcher")
    assert step["verdict"] == ("warning" if broken is of_0_2 else "error")
    for line in step["do"]:
        subprocess.run(["sh", "-c", line], check=True)
    found = details(run, "launcher")
    assert {one["verdict"] for one in found} == {"ok"}, (step, found)
    assert clinic.launcher.read_bytes() == pathlib.Path(resource("etc", "arcacct-hook")).read_bytes()


@pytest.mark.parametrize("line", ["fallback=/disk2/spool", "fallback='/disk 2/spool|a&b'"])
def test_a_new_launcher_keeps_the_lines_of_the_old_one(clinic, run, line) -> None:
    """The site has chosen a second spool."""
    clinic.put(f"#!/bin/sh\n# arcacct-hook CONTROLDIR JOBID STATE [CONF]\n{line}\nexit 0\n")
    for command in found_step(run, "launcher")["do"]:
        subprocess.run(["sh", "-c", command], check=True)

    shipped = pathlib.Path(resource("etc", "arcacct-hook")).read_text()
    usual = "fallback=${ARCACCT_SPOOL_FALLBACK:-}"
    assert clinic.launcher.read_text() == shipped.replace(usual, line)


def test_a_line_that_is_wrong_is_no_reason_to_copy_the_launcher(clinic, run) -> None:
    """A new copy would lose the site's lines."""
    clinic.install(fallback="/disk2/spool")
    lines_for(clinic, Release(7).states)
    step = found_step(run, "launcher")
    assert step["verdict"] == "error"
    assert "spools in /disk2/spool, which no sweep reads" in str(step["details"])
    assert [line.startswith("set spool_fallback= in [arcacct]") for line in step["do"]] == [True]


def test_callouts_that_name_arcacct_record(clinic, run) -> None:
    """The program of 0.2 works for one more release; the step names the launcher, and copies nothing."""
    record = clinic.path / "env" / "bin" / "arcacct-record"
    for source, target in (
        ("arcacct-record", record),
        ("arcacct-hook", record.parents[1] / "share/arcacct/arcacct-hook"),
    ):
        target.parent.mkdir(parents=True)
        shutil.copy(resource("etc", source), target)
    record.chmod(0o755)
    clinic.lines = [f"statecallout={state} {OPTIONS} {record} %C %I %S" for state in STATES]
    clinic.configure()
    step = found_step(run, "launcher")
    assert step["verdict"] == "warning"
    assert step["do"] == ["name the launcher in the statecallout lines: /usr/libexec/arcacct-hook"]


def test_units_of_a_program_in_another_place(clinic, run) -> None:
    """They are written first, with the path of this program."""
    systemctl(clinic, "echo Failed to get unit file state: No such file or directory >&2; exit 1")
    step = found_step(run, "timers")
    assert "arcacct-sweep.timer is not installed" in json.dumps(step["details"])
    folder = clinic.path / "units"
    folder.mkdir()
    *copies, reload, enable = step["do"]
    for line in copies:
        subprocess.run(["sh", "-c", line.replace("/etc/systemd/system/", f"{folder}/")], check=True)
    assert {one.name for one in folder.iterdir()} >= {"arcacct-sweep.timer", "arcacct-sweep.service"}
    text = (folder / "arcacct-sweep.service").read_text()
    assert f"ExecStart={sys.prefix}/bin/arcacct sweep\n" in text
    assert reload == "systemctl daemon-reload"
    assert enable.startswith("systemctl enable --now ")


def test_each_detail_names_what_it_is_about(clinic, run) -> None:
    """On the terminal and in JSON: a bare time, or "never ran", says nothing."""
    assert run("db", "init").returncode == 0
    shown = run("setup").stdout
    assert re.search(r"(?m)^warning +database: sweep: never ran; ", shown), shown
    found = details(run, "database")
    assert {"database", "disk", "sweep", "spool", "place"} <= {one["subject"] for one in found}
    assert run("sweep").returncode == 0
    assert re.search(rf"(?m)^ok +database: {clinic.here.database}: .* schema [0-9]+, ", run("setup").stdout)


def details(run, step: str) -> list[dict[str, str]]:
    """What is said in one step."""
    return list(found_step(run, step)["details"])


@pytest.mark.parametrize(
    ("name", "step", "code"),
    sample(
        [
            ("arc.conf", "configuration", 78),
            ("arc.conf.d", "configuration", 78),
            ("arcacct.conf", "configuration", 78),
            ("libexec", "launcher", 78),
            ("libexec/arcacct-hook", "launcher", 78),
            ("control", "database", 74),
            ("control/accounting/arcacct", "database", 74),
            ("control/accounting/arcacct/accounting.db", "database", 74),
            ("control/accounting/arcacct/spool", "database", 74),
            ("messages", "targets", 78),
        ],
        4,
    ),
)
def test_setup_says_what_the_doctor_says_of_owners_and_modes(clinic, run, name, step, code) -> None:
    """Each in the step that it is about, which has the command that corrects it."""
    (clinic.path / "messages").mkdir()
    clinic.targets = f"[arcacct/directory:out]\npath={clinic.path}/messages\ngocdb_name=S\n"
    clinic.configure()
    run("setup", "--write", "--yes")
    run("db", "init")
    (clinic.path / "control/accounting/arcacct/spool").mkdir(exist_ok=True)
    assert run("setup", "--check").returncode == 0
    path = clinic.path / name
    path.chmod(path.stat().st_mode | 0o002)

    (said_by_doctor,) = [
        one
        for one in json.loads(run("doctor", "--offline", "--format", "json").stdout)
        if (one["what"], one["verdict"]) == ("permissions", "error")
    ]
    (wrong,) = [one for one in details(run, step) if one["verdict"] == "error"]
    # A look at the database makes accounting.db-wal with the mode of the database.
    assert {one["detail"].split(",")[0] for one in (wrong, said_by_doctor)} == {f"every user can change {path}"}
    assert said_by_doctor["advice"] == f"chmod o-w {path}"
    done = run("setup", "--check")
    assert (done.returncode, said_by_doctor["exit_code"]) == (code, code)
    if step != "targets":
        assert f"next: {step}\n  chmod o-w {path}" in run("setup").stdout
    subprocess.run(wrong["advice"], shell=True, check=True)
    assert run("setup", "--check").returncode == 0


def test_setup_says_who_can_change_the_place_of_a_new_database(clinic, run) -> None:
    """Before it is created."""
    (clinic.control / "accounting").chmod(0o757)
    found = {one["detail"]: one["advice"] for one in details(run, "database") if one["verdict"] == "error"}
    assert found[f"every user can change {clinic.control}/accounting"] == f"chmod o-w {clinic.control}/accounting"


def test_callouts_that_a_rex_has_not_read(clinic) -> None:
    """A-REX was started before the lines were written: it reports nothing until it is restarted."""
    (clinic.path / "arc.conf.d").rmdir()
    running = clinic.path / "arched-arex.cfg"
    clinic.lines = [f"statecallout={state} {OPTIONS} {clinic.launcher} %C %I %S" for state in STATES]
    clinic.configure()

    def said_of_callouts() -> Any:
        site = clinic.site(launcher=str(clinic.launcher))
        return next(one for one in queries_setup.steps(site) if one.name == "callouts")

    assert said_of_callouts().severity == OK
    running.write_text(f"[arex]\ncontroldir={clinic.control}\n")
    found = said_of_callouts()
    assert (found.severity, found.do) == (CRITICAL, ("systemctl restart arc-arex",))
    assert "was started without the callouts" in found.checks[0].detail
    running.write_text(clinic.conf.read_text())
    assert said_of_callouts().severity == OK


def test_a_clock_without_files_to_compare_with_is_unknown(clinic, run) -> None:
    """Without a control directory, or without a job in it, no time is known to compare with."""
    one, _database = details(run, "clock")
    assert (one["verdict"], f"no file of a job in {clinic.control}" in one["detail"]) == ("unknown", True)
    status = clinic.control / "finished" / "job.abc.status"
    status.touch()
    assert details(run, "clock")[0]["verdict"] == "ok"
    gone(clinic)
    one, _database = details(run, "clock")
    assert (one["verdict"], f"{clinic.control}: No such file or directory" in one["detail"]) == ("unknown", True)


def test_a_configuration_with_errors_settles_no_later_step(clinic, run) -> None:
    """Rehearsal, switch, clock and the timer of publishing depend on it: unknown, and never ok."""
    clinic.ours = "settle=soon\n"
    clinic.configure()
    assert {verdicts(run)[step] for step in ("rehearsal", "switch", "targets")} == {"unknown"}
    assert "unknown" in [one["verdict"] for one in details(run, "timers")]


def test_jobs_of_a_database_that_cannot_be_looked_for(clinic, run, monkeypatch) -> None:
    """Without a right to look, A-REX may have a database with earlier jobs: unknown."""
    assert run("db", "init").returncode == 0
    assert verdicts(run)["history"] == "ok"
    shutil.rmtree(clinic.control / "finished")
    stat = os.stat

    def refused(path: Any, *more: Any, **how: Any) -> os.stat_result:
        if str(path).endswith("/accounting/accounting.db"):
            raise PermissionError(13, "Permission denied", path)
        return stat(path, *more, **how)

    monkeypatch.setattr(os, "stat", refused)
    (one,) = details(run, "history")
    assert (one["verdict"], "Permission denied" in one["detail"]) == ("unknown", True)


# What was seen on live hosts: a gate said yes, and A-REX did not start, or a job was counted twice.


def arched(site: Clinic, monkeypatch, version: str) -> None:
    """An A-REX of this release is installed."""
    program = site.path / "usr" / "sbin" / "arched"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\necho arched version {version}\n")
    program.chmod(0o755)
    monkeypatch.setenv("ARC_LOCATION", str(site.path / "usr"))


def lines_for(site: Clinic, states: tuple[str, ...], options: str = OPTIONS) -> None:
    site.lines = [f"statecallout={state} {options} {site.launcher} %C %I %S" for state in states]
    site.configure()


@pytest.mark.parametrize("known_by", ["program", "database"])
def test_a_callout_that_arex_6_does_not_know(clinic, run, monkeypatch, known_by) -> None:
    """An error in `config check`, `setup`, `doctor` and `status`: A-REX 6 does not start with it; A-REX 7 does."""
    lines_for(clinic, Release(7).states)
    (clinic.path / "arc.conf.d").rmdir()
    other = clinic.control / "accounting" / "accounting_v2.db"
    if known_by == "program":
        other.parent.mkdir(exist_ok=True)
        # A-REX 6 was installed over A-REX 7: the program that starts decides.
        other.touch()
        arched(clinic, monkeypatch, "6.17.0")
    else:
        other.with_name("accounting.db").touch()
    assert run("db", "init").returncode == 0

    checked = run("config", "check")
    assert (checked.returncode, "INLRMS has no callout in A-REX 6" in checked.stdout) == (78, True)
    assert (run("setup", "--check").returncode, verdicts(run)["callouts"]) == (78, "error")
    assert "INLRMS has no callout in A-REX 6" in run("doctor", "--offline").stdout
    status = run("status", "--format", "json")
    assert (status.returncode, max(one["severity"] for one in json.loads(status.stdout))) == (CRITICAL, CRITICAL)

    arched(clinic, monkeypatch, "7.0.0")
    assert run("config", "check").returncode == 0


def test_a_warning_does_not_hide_that_arex_was_not_restarted(clinic) -> None:
    """A callout with a warning, written just now: configuration management must still restart A-REX."""
    (clinic.path / "arc.conf.d").rmdir()
    lines_for(clinic, STATES, "timeout=4,onsuccess=pass,onfailure=log,ontimeout=fail")
    (clinic.path / "arched-arex.cfg").write_text(f"[arex]\ncontroldir={clinic.control}\n")

    (found,) = [
        one for one in queries_setup.steps(clinic.site(launcher=str(clinic.launcher))) if one.name == "callouts"
    ]

    assert {one.severity for one in found.checks} == {WARNING, CRITICAL}
    assert any("was started without the callouts" in one.detail for one in found.checks)
    assert found.do == ("arcacct config check", "systemctl restart arc-arex")


def test_a_warning_of_the_configuration_makes_no_target_unknown(clinic, run) -> None:
    """Without targets that is said, whatever else is warned of."""
    clinic.lines = ["[lrms]", "benchmark=nonsense:1.0"]
    clinic.configure()
    assert run("db", "init").returncode == 0
    assert "no target is configured" in str(details(run, "targets"))


def test_arex_6_gets_no_file_in_the_directory_of_arex_7(clinic, run, monkeypatch) -> None:
    """An empty arc.conf.d is there, and A-REX 6 does not read it: the lines are for arc.conf."""
    arched(clinic, monkeypatch, "6.17.0")
    found = found_step(run, "callouts")
    place, *lines = found["do"]
    assert place == f"# in [arex] of {clinic.conf}"
    assert all(line.startswith("statecallout=") for line in lines)
    assert f"to [arex] of {clinic.conf}, run `arcacct config check`" in str(found["details"])
    assert "INLRMS" not in str(found["do"])
    done = run("setup", "--write", "--yes")
    assert (done.returncode, "this is A-REX 6" in done.stderr) == (78, True)
    assert list((clinic.path / "arc.conf.d").iterdir()) == []
    # As the lines say, and then nothing is left to do.
    text = clinic.conf.read_text()
    added = "\n".join(line for line in found["do"] if line.startswith("statecallout="))
    clinic.conf.write_text(text.replace("[arex]\n", f"[arex]\n{added}\n"))
    assert verdicts(run)["callouts"] == "ok"


def test_targets_that_are_left_in_arc_conf(clinic, run) -> None:
    """Copied to arcacct.conf and not removed: an error in `config check`, `setup`, `status` and `publish`."""
    lines_for(clinic, Release(7).states)
    assert run("db", "init").returncode == 0
    host = _certified(clinic)
    clinic.configure()
    with clinic.conf.open("a") as file:
        file.write("[arex/jura]\n[arex/jura/sgas:s]\ntargeturl=https://localhost/sgas\n")

    assert host.is_dir()
    assert run("config", "check").returncode == 78
    assert run("publish").returncode == 78
    done = run("setup", "--check")
    assert (done.returncode, verdicts(run)["switch"]) == (78, "error")
    assert "no step is left" not in done.stderr
    assert run("status").returncode == CRITICAL


def test_a_launcher_that_is_mistyped(clinic, run) -> None:
    """It names the one that is there, and proposes no second launcher."""
    clinic.lines = [
        f"statecallout={state} {OPTIONS} {clinic.launcher.parent}/arcacct-hok %C %I %S" for state in Release(7).states
    ]
    clinic.configure()
    found = found_step(run, "launcher")
    assert found["verdict"] == "error"
    assert found["do"] == [f"{clinic.launcher} exists: did you mean it?"]
    assert f"{clinic.launcher} exists: did you mean it?" in run("config", "check").stdout


def test_a_batch_system_without_arex_needs_an_import(tmp_path, capsys, monkeypatch) -> None:
    """With no job, the import is the next step; with one it is done."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    (tmp_path / "bin").mkdir()
    sacct = tmp_path / "bin" / "sacct"
    sacct.write_text("#!/bin/sh\n")
    sacct.chmod(0o755)
    (tmp_path / "arcacct.conf").write_text(f"[arcacct]\ndatabase={tmp_path}/ours/accounting.db\npublishes=no\n")
    (tmp_path / "arc.conf").write_text("[lrms]\nbenchmark=HEPscore23:10.5\n")

    def run(*words: str) -> Any:
        return said(capsys, "--config", tmp_path / "arc.conf", *words)

    if os.path.isdir("/var/spool/arc/jobstatus"):
        pytest.skip("this host has a control directory")
    assert run("db", "init").returncode == 0
    found = found_step(run, "history")
    assert (found["verdict"], found["do"]) == ("error", ["arcacct import slurm --run --since DATE"])
    assert run("setup", "--check").returncode == 78
    data = pathlib.Path(__file__).parent.parent / "data" / "gridengine" / "accounting.ocs91-synthetic.jsonl"
    assert run("import", "gridengine", str(data)).returncode == 0
    assert found_step(run, "history")["verdict"] == "ok"


def test_a_program_of_another_installation(clinic, run) -> None:
    """The services run an arcacct that cannot use the database: an error with its own words."""
    assert run("db", "init").returncode == 0
    old = clinic.path / "old" / "bin" / "arcacct"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho 'arcacct: schema version 28; this program supports 27' >&2\nexit 74\n")
    old.chmod(0o755)
    systemctl(clinic, f'[ "$1" = show ] && echo "ExecStart={{ path={old} ; argv[]={old} sweep ; }}" || echo enabled')

    (wrong,) = [one for one in details(run, "timers") if one["subject"] == "programs"]

    assert wrong["verdict"] == "error"
    assert f"the services run {old}" in wrong["detail"]
    assert "schema version 28; this program supports 27" in wrong["detail"]
    old.write_text("#!/bin/sh\nexit 0\n")
    (found,) = [one for one in details(run, "timers") if one["subject"] == "programs"]
    assert (found["verdict"], "two installations" in found["detail"]) == ("warning", True)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")
def test_a_directory_that_this_user_may_not_write_is_named_whole(clinic, run) -> None:
    """With what refuses it, not only the name of the file."""
    for path in (clinic.path, *clinic.path.parents[:3]):
        path.chmod(path.stat().st_mode | 0o055)
    with acting_as("nobody"):
        done = run("setup", "--write", "--yes")
    assert (done.returncode, "Permission denied; run as root" in done.stderr) == (78, True)
    assert f"{clinic.path}/arc.conf.d/arcacct.conf: cannot be written" in done.stderr


def test_a_name_that_cannot_be_resolved_is_one_line(clinic, run) -> None:
    """APEL has two addresses on one host: the name is looked up, and complained of, once."""
    _certified(clinic)
    clinic.targets = "[arex/jura/apel:a]\ntargeturl=https://msg.invalid\ngocdb_name=SITE\n"
    clinic.configure()
    (one,) = [one for one in details(run, "targets") if one["subject"] == "apel:a name"]
    assert (one["verdict"], "msg.invalid: the name cannot be resolved" in one["detail"]) == ("error", True)


def test_a_database_that_cannot_be_read_imported_nothing(tmp_path, capsys) -> None:
    """On a host without A-REX: whether jobs were imported is unknown then, and not ok."""
    if os.path.isdir("/var/spool/arc/jobstatus"):
        pytest.skip("this host has a control directory")
    database = tmp_path / "ours" / "accounting.db"
    (tmp_path / "arcacct.conf").write_text(f"[arcacct]\ndatabase={database}\npublishes=no\n")
    (tmp_path / "arc.conf").write_text("[lrms]\nbenchmark=HEPscore23:10.5\n")
    database.parent.mkdir()
    database.write_bytes(b"no database" * 1000)
    found = found_step(lambda *words: said(capsys, "--config", tmp_path / "arc.conf", *words), "history")
    assert (found["verdict"], found["details"][0]["detail"]) == ("unknown", "the database cannot be read")

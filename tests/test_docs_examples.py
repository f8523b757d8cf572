"""
The tutorial, and those how-tos whose commands can be typed on any machine, do what they show.

Each page is walked through in a shell, from an empty directory (`support/walkthrough.py`). 25 s of CPU time together.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess

import manual
import pytest
import walkthrough

pytestmark = pytest.mark.campaign

DEMO = "arcacct demo > demo.log\nexport ARC_CONFIG=$PWD/arcacct-demo/arc.conf"
"""What the pages say that one has to type before, to try them on the jobs of the demo."""
AREX = f"""{DEMO}
python -c "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(open(sys.argv[2]).read())" \\
    arcacct-demo/control/accounting/accounting.db {manual.ROOT}/schema/accounting/10_arex.sql"""
"""The same, with the database that A-REX writes; it has no job yet."""
WALKED = {
    "tutorial": "",
    "howto/arc6-to-arc7": AREX,
    "howto/ask": DEMO,
    "howto/benchmarks": DEMO,
    "howto/care-of-the-database": AREX,
    "howto/many-ces": DEMO,
    "howto/months-end": DEMO,
    "howto/rehearse": DEMO,
    "howto/set-aside": DEMO,
}
"""Pages that are walked through, with what is typed before."""
NEEDS = {
    "howto/auditor": "an AUDITOR server; tests/targets/auditor/test_target.py",
    "howto/before-it-goes-live": "receivers and an A-REX that run; tests/health/test_doctor.py",
    "howto/completion": "the places of the host; tests/test_man_pages.py",
    "howto/features": "worker nodes; tests/sources/features",
    "howto/from-the-apel-client": "systemd, and jobs of the new month; tests/cli/test_import_gridengine.py",
    "howto/gridengine": "Grid Engine; tests/cli/test_import_gridengine.py",
    "howto/htcondor": "HTCondor; tests/sources/htcondor",
    "howto/implausible": "jobs with values that cannot be true; tests/cli/test_quarantine.py",
    "howto/install": "an empty host; tests/acceptance/test_first_month.py walks through it",
    "howto/install-arc7": "A-REX 7; tests/acceptance/test_live7.py",
    "howto/install-offline": "another host, and what pip fetches",
    "howto/install-packages": "root, and a package manager; tests/packages/test_first_month.py",
    "howto/install-pip": "pipx, and what pip fetches",
    "howto/lsf": "LSF; tests/cli/test_import_batch.py",
    "howto/many-ces-engines": "PostgreSQL, Spark, ClickHouse; tests/fleet",
    "howto/monitor": "systemd; tests/cli/test_status.py",
    "howto/other-programs": "what pip fetches; tests/database",
    "howto/pbs": "PBS; tests/cli/test_import_batch.py",
    "howto/portal": "what pip fetches; tests/etc/test_datasette.py",
    "howto/privacy": "names_kept_months, and old jobs; tests/cli/test_pseudonyms.py",
    "howto/rejected-records": "rejected records; the tutorial has one",
    "howto/republish": "a target that is called apel:egi; tests/cli/test_republish.py",
    "howto/slurm": "Slurm; tests/cli/test_import_batch_slurm.py",
    "howto/switch-from-jura-ng": "systemd; tests/cli/test_switch.py, and the way back below",
    "howto/take-over-from-arex": "databases of an A-REX; tests/cli/test_imports.py",
    "howto/telemetry": "Sonar; tests/sources/sonar/test_commands.py",
    "howto/uninstall": "systemd; its order is looked at below",
    "howto/upgrade": "two versions; the way is gone in tests/stories/test_an_upgrade_to_arex_7_loses_no_job.py",
    "howto/verify": "exports of the portal; tests/queries/test_verify.py",
}
"""Pages whose commands are not run here: what they need beyond any machine, and where else they are tried."""


@pytest.mark.parametrize("name", WALKED)
def test_a_page_does_what_it_shows(name: str, tmp_path: pathlib.Path) -> None:
    """Each block of commands ends well, in its order, and prints what stands below it."""
    for module in ("duckdb", "pyarrow") if name == "howto/many-ces" else ():
        pytest.importorskip(module, reason="the extra `parquet` is not installed")
    page = manual.read(name)
    for attempt in ("once", "again"):
        home = tmp_path / attempt
        home.mkdir()
        today = walkthrough.today_utc()
        wrong = walkthrough.differences(page, walkthrough.walk(page, home, WALKED[name]), home, today)
        # At midnight "yesterday" is another day in the middle of the page.
        if walkthrough.today_utc() == today:
            break

    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("name", WALKED)
def test_a_page_that_is_walked_has_something_to_walk(name: str) -> None:
    """It has commands, and of the tutorial most show what they print."""
    steps = walkthrough.steps(manual.read(name))

    assert steps
    assert name != "tutorial" or sum(bool(step.shown) for step in steps) > 0.8 * len(steps)


PAGE = "```sh\necho one; echo 'two of {TODAY}'\n```\nand\n```sh\ntrue\n```\n"


@pytest.mark.parametrize(
    ("shown", "is_right"),
    [
        ("one\ntwo of 2026-11-24\n", True),
        ("one\n...\n", True),
        ("...\ntwo of ...\n", True),
        ("one\n", False),
        ("two of 2026-11-24\n", False),
        ("one\ntwo of 2026-11-23\n", False),
        ("one\n...\nthree\n", False),
        ("on\n...\n", False),
    ],
)
def test_an_output_that_is_not_that_of_the_page_is_found(shown: str, is_right: bool, tmp_path: pathlib.Path) -> None:
    """A missing line, another day or another word; what the page leaves out it has to say."""
    today = walkthrough.today_utc()
    page = PAGE.format(TODAY=today).replace("```\nand", f"```\n\n```text\n{shown}```\nand")
    assert bool(walkthrough.differences(page, walkthrough.walk(page, tmp_path), tmp_path, today)) != is_right


@pytest.mark.parametrize("commands", ["false", "false | cat", "nosuchcommand", "exit 0", "true\nfalse\ntrue", "echo '"])
def test_a_command_that_fails_is_found(commands: str, tmp_path: pathlib.Path) -> None:
    """Also within a block, in a pipe, and one that ends the shell too early."""
    with pytest.raises(AssertionError, match="failed"):
        walkthrough.walk(PAGE.replace("true", commands), tmp_path)


@pytest.mark.parametrize("page", ["```text\nout\n```\n", "```sh\ntrue\n```\n```text\n...\n```\n"])
def test_an_output_without_commands_or_without_words_is_a_mistake(page: str) -> None:
    """It would be compared with nothing."""
    with pytest.raises(ValueError, match="without commands"):
        walkthrough.steps(page)


NEWER = """python -c "import sqlite3; sqlite3.connect('arcacct-demo/{}.db', isolation_level=None).execute(
'UPDATE DBConfig SET KeyValue = 99 WHERE KeyName = \\'ARCACCT_SCHEMA\\'')\""""
"""What makes a database one of a version that is still to come."""


def test_the_way_back_from_a_newer_version(tmp_path: pathlib.Path) -> None:
    """Its databases are refused; by the steps of "Go back" the jobs of the backup are there, and none is sent twice."""
    back = manual.read("howto/upgrade").partition("\n## Go back\n")[2].partition("\n## ")[0]
    restores = re.findall(r"arcacct db restore \S+/(\w+)-\w+\.db", back)
    commands = [
        "arcacct db backup backups",
        *(NEWER.format(name) for name in restores),
        "arcacct sweep || echo exit code $?",
        *(f"arcacct db restore backups/{name}-*.db --yes" for name in restores),
        "arcacct sweep",
        "arcacct publish --dry-run",
    ]  # fmt: skip
    shown = (
        "...\narcacct: /home/you/arcacct-demo/accounting.db: schema version 99; this program supports ...\n"
        "exit code 74\n"
        "...\n0 events from the spool; 12 jobs in /home/you/arcacct-demo/control, 0 read, 0 recorded\n"
        "...\nsgas:demo: nothing new\n...\n"
    )
    page = "```sh\n{}\n```\n```text\n{}```\n".format("\n".join(commands), shown)

    assert restores == ["publishing", "accounting"]
    assert not walkthrough.differences(page, walkthrough.walk(page, tmp_path, DEMO), tmp_path, walkthrough.today_utc())


def test_the_way_back_to_jura_takes_our_sums_back(tmp_path: pathlib.Path) -> None:
    """By the lines of the page APEL has no job under our keys any more; those of jura-ng are then the only ones."""
    back = manual.read("howto/switch-from-jura-ng").partition("\n## Back to jura-ng\n")[2]
    (option,) = re.findall(r"^vofilter = .+$", back, re.MULTILINE)
    (command,) = re.findall(r"^arcacct publish .*--accept-lower.*$", back, re.MULTILINE)
    again = re.sub(r"--accept-lower \S+", "", command)
    page = f"""\
```sh
month=$(date -u -d yesterday +%Y-%m)
arcacct sandbox --dir rehearsal > rehearsal.conf 2> rehearsal.log &
until grep -qs 'Stop with' rehearsal.log; do sleep 1; done
sed -i "/^\\[arcacct\\]/a database = $PWD/arcacct-demo/accounting.db" rehearsal.conf
export ARCACCT_CONFIG=$PWD/rehearsal.conf
arcacct publish --since $month-01 --accept-lower $month --target apel:sandbox > first.log
sed -i '/^\\[arex.jura.apel/a {option}' rehearsal.conf
{again} --target apel:sandbox --accept-lower $month > second.log
kill $!
wait $!
grep APEL rehearsal.log
```
```text
...
APEL SANDBOX-SITE 2026-11: jobs 0, wall 0 s, CPU 0 s, normalised wall 0 s, normalised CPU 0 s
```
"""

    assert command != again
    assert not walkthrough.differences(page, walkthrough.walk(page, tmp_path, DEMO), tmp_path, walkthrough.today_utc())


def test_uninstalling_takes_the_launcher_last(tmp_path: pathlib.Path) -> None:
    """By the order of the page; and the check of step 4 refuses while a callout of the installation is there."""
    lines = [line for step in walkthrough.steps(manual.read("howto/uninstall")) for line in step.commands.splitlines()]
    order = [
        "arcacct publish --now",
        "rm -f /etc/arc.conf.d/arcacct.conf",
        "systemctl restart arc-arex",
        "sh etc/arcacct-uninstall-check",
        "arcacct sweep",
        "rm -f /usr/local/libexec/arcacct-hook",
        "rm -rf /opt/arcacct",
    ]
    launcher = tmp_path / "arcacct-hook"
    launcher.touch()
    callouts = re.findall("^statecallout=.+$", manual.read("howto/install"), re.MULTILINE)
    conf = tmp_path / "arc.conf"
    said = []
    for text in ("\n".join(callouts).replace("/usr/local/libexec/arcacct-hook", str(launcher)), ""):
        conf.write_text(f"[arex]\n{text}\n", encoding="utf-8")
        check = [*lines[lines.index(order[3])].split(), str(launcher)]
        said.append(
            subprocess.run(
                check, cwd=manual.ROOT, env={**os.environ, "ARC_CONFIG": str(conf)}, capture_output=True, text=True,
                check=False,
            )
        )  # fmt: skip

    assert [line for line in lines if line in order] == order
    assert len(callouts) == 5
    assert [done.returncode for done in said] == [1, 0]
    assert f"  {conf}: statecallout in lines 2 3 4 5 6\n" in said[0].stderr


def test_whose_commands_nobody_runs_has_a_reason() -> None:
    """Each page of how-tos that shows commands is walked through, or it is said what it needs that a test has not."""
    names = [page.relative_to(manual.DOCS).with_suffix("").as_posix() for page in manual.pages()[1:]]
    shown = [
        name
        for name in names
        if name.startswith(("tutorial", "howto/"))
        and any(block.language == "sh" for block in manual.blocks(manual.read(name)))
    ]
    files = [word for reason in NEEDS.values() for word in re.findall(r"tests/[\w./]+", reason)]

    assert not set(WALKED) & set(NEEDS)
    assert not set(shown) - set(WALKED) - set(NEEDS)
    assert not set(WALKED) - set(shown)
    assert not [file for file in files if not (manual.ROOT / file).exists()]

"""Every way to break a host, played against each command that says whether it is in order (INVARIANTS 19)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import breakages
import pytest
from breakages import BREAKAGES, ERROR, OK, UNKNOWN, WARNING, Answer, Breakage, Host
from campaigns import sample

from arcacct.sandbox import Sandbox

SHOWN = ("config", "setup", "doctor", "status")
"""The commands that give verdicts; the others only have an exit code."""


@pytest.fixture(scope="module")
def box(tmp_path_factory) -> Iterator[Sandbox]:
    """The receivers that the host publishes to."""
    with Sandbox(str(tmp_path_factory.mktemp("box"))) as running:
        yield running


@pytest.fixture(scope="module")
def made() -> dict[str, Host]:
    """The host of these tests, once the first of them has made it."""
    return {}


@pytest.fixture
def host(made, box, tmp_path_factory, capfd) -> Iterator[Host]:
    """A host that is in order."""
    if not made:
        made["host"] = Host(tmp_path_factory.mktemp("breakages"), box, capfd)
    found = made["host"]
    found.capture = capfd
    yield found
    found.restore()


def test_on_a_host_in_order_all_six_commands_say_so(host) -> None:
    """Not even a warning; the words are those of a person, too."""
    answers = host.ask()

    assert [one for answer in answers.values() for one in answer.verdicts if one.severity != OK] == []
    assert {answer.exit_code for answer in answers.values()} == {0}
    with host.seen():
        assert host.run("config", "check").stderr.startswith("ok: ")
        assert "no step is left" in host.run("setup", "--launcher", host.launcher).stderr
        assert host.run("status").stdout.startswith("OK\n")
        assert " 0 warnings, 0 errors" in host.run("doctor", "--offline").stdout


def test_there_are_many_breakages_each_with_a_name_of_its_own() -> None:
    """One that replaced another by its name would not be played."""
    names = [row.name for row in BREAKAGES]
    assert len(names) >= 100
    assert sorted({*names}) == sorted(names)


@pytest.mark.parametrize("row", sample(BREAKAGES, 20), ids=lambda row: row.name)
def test_every_command_gives_the_same_verdict_on_a_breakage(host, row) -> None:
    """The one of the table; no other is milder, none ends with an internal error, and the printed remedy works."""
    try:
        row.breaks(host)
    except PermissionError:
        pytest.skip("needs root, to give files to another user")
    answers = host.ask()
    wrong = [*_wrong_verdicts(row, answers), *_milder_verdicts(answers)]
    if row.remedy is not None:
        wrong += [("remedy", text) for text in _left(host, row, answers)]

    assert [f"{command} {text}" for command, text in wrong] == []


def _wrong_verdicts(row: Breakage, answers: dict[str, Answer]) -> Iterator[tuple[str, str]]:
    """What a command says other than the table."""
    for command, answer in answers.items():
        if answer.exit_code == 70 or "the check itself failed" in answer.output:
            yield command, f"has an internal error: {answer.output}"
        if command not in SHOWN:
            if answer.exit_code != row.exits[command]:
                yield command, f"exits with {answer.exit_code}, not {row.exits[command]}: {answer.output}"
            continue
        wanted = row.verdicts.get(command, OK)
        about = [one for one in answer.verdicts if one.severity != OK]
        if answer.severity != wanted:
            yield command, f"says {answer.severity}, not {wanted}: {about}"
        elif wanted != OK and command != "config" and answer.about(row.subject) in (None, OK):
            yield command, f"says {wanted}, and nothing of {row.subject}: {about}"
        if command == "status":
            fits = answer.exit_code == (OK, WARNING, ERROR, UNKNOWN).index(answer.severity)
        else:
            fits = (answer.exit_code != 0) == (answer.severity == ERROR)
        if not fits:
            yield command, f"says {answer.severity}, and exits with {answer.exit_code}"


def _milder_verdicts(answers: dict[str, Answer]) -> Iterator[tuple[str, str]]:
    """Where one command says error on a subject, and another that shows it does not."""
    subjects = {one.subject for answer in answers.values() for one in answer.verdicts if one.severity == ERROR}
    for subject in subjects - {breakages.TO_DO}:
        for command in SHOWN:
            said = answers[command].about(subject)
            # Monitoring has no other word for a configuration that cannot be read.
            if said is None or said == ERROR or (command, subject, said) == ("status", "configuration", UNKNOWN):
                continue
            yield command, f"says {said} of {subject}, and another command error"


def _left(host: Host, row: Breakage, answers: dict[str, Answer]) -> Iterator[str]:
    """Of what is complained about still after somebody did what was printed."""
    assert row.remedy is not None
    output = "\n".join(
        f"{one.detail}; {one.advice}" for answer in answers.values() for one in answer.verdicts if one.severity != OK
    )
    try:
        row.remedy(host, output)
    except (AssertionError, subprocess.CalledProcessError) as error:
        yield f"cannot be followed: {error}"
        return
    for command, answer in host.ask().items():
        if command in SHOWN and answer.about(row.subject) not in (None, OK):
            yield f"leaves what {command} says: {[one for one in answer.verdicts if one.subject == row.subject]}"

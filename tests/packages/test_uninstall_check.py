"""The check that packages and administrators ask before the launcher goes: without root or packages, 0.2 seconds."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

CHECK = pathlib.Path(__file__).parents[2] / "etc" / "arcacct-uninstall-check"
CALL = "statecallout=FINISHED timeout=10,onfailure=log {} %C %I %S\n"
LAUNCHER = "/usr/libexec/arcacct-hook"


def check(conf: pathlib.Path, *programs: str) -> subprocess.CompletedProcess[str]:
    """Ask it about a configuration."""
    environment = {**os.environ, "ARC_CONFIG": str(conf)}
    return subprocess.run([CHECK, *programs], env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def conf(tmp_path) -> pathlib.Path:
    return tmp_path / "arc.conf"


def test_a_line_that_calls_it_is_reported_with_what_to_do_in_which_order(conf) -> None:
    conf.write_text("[arex]\n" + CALL.format(LAUNCHER))

    done = check(conf)

    assert done.returncode == 1
    assert f"  {conf}: statecallout in line 2\n" in done.stderr
    assert (
        done.stderr.index("remove these lines") < done.stderr.index("restart A-REX") < done.stderr.index("then remove")
    )


def test_the_program_of_0_2_counts(conf) -> None:
    """Callouts may name `arcacct-record`, which runs the launcher of its environment."""
    conf.write_text("[arex]\n" + CALL.format("/opt/arcacct/bin/arcacct-record"))

    assert f"  {conf}: statecallout in line 2\n" in check(conf).stderr
    assert check(conf, LAUNCHER, "/opt/arcacct/bin/arcacct-record").returncode == 1
    assert check(conf, LAUNCHER).returncode == 0


def test_many_lines_of_a_file_are_one_line(conf) -> None:
    """A-REX has twelve states: their lines are named by their numbers, and no other is."""
    conf.write_text("[arex]\n" + CALL.format(LAUNCHER) * 6 + CALL.format("/usr/bin/true") + CALL.format(LAUNCHER) * 6)

    done = check(conf)

    assert f"  {conf}: statecallout in lines 2 3 4 5 6 7 9 10 11 12 13 14\n" in done.stderr
    assert done.stderr.count(str(conf)) == 1
    assert done.stderr.count("\n") == 7


def test_files_of_arc_conf_d_count(conf, tmp_path) -> None:
    conf.write_text("[arex]\n")
    (tmp_path / "arc.conf.d" / "deeper").mkdir(parents=True)
    (tmp_path / "arc.conf.d" / "deeper" / "x.conf").write_text("[arex]\n" + CALL.format(LAUNCHER))

    assert check(conf, LAUNCHER).returncode == 1


@pytest.mark.parametrize(
    "line", ["#" + CALL.format(LAUNCHER), "  # " + CALL.format(LAUNCHER), CALL.format("/usr/bin/true"), ""]
)
def test_what_is_commented_out_or_of_another_program_does_not_count(conf, line) -> None:
    conf.write_text("[arex]\n" + line)

    assert (check(conf).returncode, check(conf).stderr) == (0, "")


def test_only_the_named_launcher_counts_by_whatever_link(conf, tmp_path) -> None:
    ours = tmp_path / "arcacct-hook"
    ours.touch()
    (tmp_path / "link").symlink_to(ours)
    conf.write_text("[arex]\n" + CALL.format(tmp_path / "link"))

    assert check(conf, str(ours)).returncode == 1
    assert check(conf, LAUNCHER).returncode == 0

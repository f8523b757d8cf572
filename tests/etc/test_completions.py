"""etc/completions/: what packages install for shells is what the program prints, and completes."""

from __future__ import annotations

import os
import pathlib
import shutil
import sqlite3
import subprocess
import tempfile
from contextlib import closing

import arex_corpus as corpus
import man_pages
import pytest
from installed import ARCACCT, arcacct

from arcacct.cli.main import COMMANDS

FOLDER = man_pages.ROOT / "etc" / "completions"
SHELLS = ("bash", "zsh", "fish")


def run(shell: str, script: str, *arguments: object) -> list[str]:
    """The lines that a script of a shell prints, with `arcacct` on its PATH and nothing of the caller's."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"this host has no {shell}")
    plain = {"bash": ["--norc", "--noprofile"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    # fish makes directories in its home, whatever it is told.
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [program, *plain, "-c", script, *(["-"] if shell != "fish" else []), *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": f"{os.path.dirname(ARCACCT)}:/usr/bin:/bin", "HOME": home, "LC_ALL": "C.UTF-8"},
        )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize("shell", SHELLS)
def test_the_files_are_what_the_program_prints(shell) -> None:
    """``ARCACCT_WRITE_DOCS=1`` writes them again, as a newer click may print something else."""
    if shell == "bash" and shutil.which("bash") is None:
        pytest.skip("this host has no bash, whose version decides the script")
    printed = arcacct(environment={"_ARCACCT_COMPLETE": f"{shell}_source"}).stdout
    path = FOLDER / f"arcacct.{shell}"
    if os.environ.get(man_pages.WRITE):
        path.write_text(printed, encoding="ascii")

    assert path.read_text(encoding="ascii") == printed
    assert sorted(file.name for file in FOLDER.iterdir()) == sorted(f"arcacct.{one}" for one in SHELLS)


BASH = """
source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_arcacct_completion arcacct
printf '%s\\n' "${COMPREPLY[@]}"
complete -p arcacct
"""
"""Completes the last of the words as bash does at TAB, then prints what it knows of the command."""


def test_bash_completes_with_the_file() -> None:
    *found, known = run("bash", BASH, FOLDER / "arcacct.bash", "arcacct", "")

    assert found == list(COMMANDS)
    assert known == "complete -o nosort -F _arcacct_completion arcacct"


def test_zsh_finds_the_file_and_completes_with_it(tmp_path) -> None:
    """Under its name in a folder of functions, as `compinit` looks for it; what it offers is what it was told."""
    shutil.copy(FOLDER / "arcacct.zsh", tmp_path / "_arcacct")
    script = """
    fpath=("$1" $fpath)
    autoload -Uz compinit && compinit -D -u
    print -r -- $_comps[arcacct]
    # What zsh would show.
    _describe() { print -rl -- "${(@P)3}"; }
    compadd() { print -rl -- "${(@P)argv[-1]}"; }
    words=(arcacct config "") CURRENT=3
    autoload -Uz _arcacct && _arcacct
    """
    known, *found = run("zsh", script, tmp_path)

    assert known == "_arcacct"
    assert [line.partition(":")[0] for line in found] == ["check", "show"]


def test_fish_completes_with_the_file() -> None:
    """As fish does at TAB: each word with what it is for, or without."""
    found = run("fish", f"source {FOLDER / 'arcacct.fish'}; complete --do-complete 'arcacct config '")

    assert [line.split("\t")[0] for line in found] == ["check", "show"]


def test_no_name_of_a_user_is_run_by_the_shell(tmp_path: pathlib.Path) -> None:
    """Whatever users are called: the shell of an administrator completes harmless names, and starts nothing."""
    trap = tmp_path / "trapped"
    names = [f"/CN=$(touch {trap})", f"/CN=`touch {trap}`", f"/CN=a;touch {trap}", f"/CN=x\ntouch {trap}", "/CN=*"]
    database = tmp_path / "accounting.db"
    with closing(sqlite3.connect(database)) as con, con:
        con.executescript((corpus.AREX / "accounting.sql").read_text())
        con.executemany("INSERT INTO Users (Name) VALUES (?)", [(name,) for name in [*names, "/CN=Jane-1"]])
    line = ("arcacct", "--database", database, "stats", "--filter-user", "/CN")

    found = run("bash", BASH, FOLDER / "arcacct.bash", *line)

    assert "/CN=Jane-1" in found
    assert not [name for name in found if set(name) & set("$`;*")]
    assert not trap.exists()

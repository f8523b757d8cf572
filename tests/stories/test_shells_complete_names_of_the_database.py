"""Shell completion with what the database knows."""

from __future__ import annotations

import shlex
import shutil

import pytest
from installed import arcacct


def completed(shell: str, line: str) -> str:
    """What a shell is offered for the last word of a line."""
    words = shlex.split(line) + ([""] if line.endswith(" ") else [])
    environment = {"_ARCACCT_COMPLETE": f"{shell}_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    return arcacct(environment=environment).stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("job info mGsLDmZi", "mGsLDmZiaoAoOSAtDmABFKDmABFKDmABFKDm86LKDmEBFKDmEneR9m"),
        ("stats --filter-vo a", "atlas"),
        ("stats --filter-fqan /atlas/R", "/atlas/Role=production"),
        ("stats --filter-queue f", "fork"),
        ("stats --filter-user /DC", "Grid User One"),
        ("stats --filter-state c", "completed"),
        ("publish --target s", "sgas:s"),
    ],
    ids=["job", "vo", "fqan", "queue", "user", "state", "target"],
)
def test_names_of_the_database_are_offered(ours, shell, typed, offered) -> None:
    """Job ids, VOs, FQANs, queues, users, states and targets are completed in each shell."""
    (ours.conf.parent / "arcacct.conf").write_text(
        "[arex/jura/sgas:s]\ntargeturl=https://sgas.example.org/sgas\n[arex/jura/sgas:t]\ntargeturl=https://t.org/sgas\n"
    )
    line = f"arcacct --config {ours.conf} {typed}"
    if shell == "fish":
        word = line.rsplit(maxsplit=1)[-1]
        environment = {"_ARCACCT_COMPLETE": "fish_complete", "COMP_WORDS": line, "COMP_CWORD": word}
        found = arcacct(environment=environment).stdout
    else:
        found = completed(shell, line)

    assert offered in found


@pytest.mark.parametrize("database", ["arex_file", "arex7_file"])
def test_fqans_of_a_rex_s_databases_are_offered(request, database) -> None:
    """In ARC 6 they are attributes of jobs, in ARC 7 they have a table."""
    found = completed("bash", f"arcacct --database {request.getfixturevalue(database)} stats --filter-fqan /atlas/R")

    assert found == "plain,/atlas/Role=production\n"


def test_a_database_that_cannot_be_read_completes_nothing(tmp_path) -> None:
    """A shell that completes never sees an error."""
    found = completed("bash", f"arcacct --database {tmp_path}/none.db job info a")

    assert found.strip() == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_printed(shell) -> None:
    """The lines that a shell needs to complete come from the program itself."""
    if shell == "bash" and shutil.which("bash") is None:
        pytest.skip("this host has no bash, whose version decides the script")

    done = arcacct(environment={"_ARCACCT_COMPLETE": f"{shell}_source"})

    assert "arcacct" in done.stdout

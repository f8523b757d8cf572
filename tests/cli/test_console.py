"""Under systemd, lines on stderr begin with the priority that the journal shows them by."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest
from installed import ARCACCT, configured


def _stderr(directory: pathlib.Path, *arguments: object, stream: str | None) -> tuple[int, list[str]]:
    """Run the program with stderr to a file, of which the environment says that it is the journal, or another is."""
    path = directory / "stderr"
    with path.open("wb") as file:
        status = os.fstat(file.fileno())
        told = {} if stream is None else {"JOURNAL_STREAM": stream.format(device=status.st_dev, inode=status.st_ino)}
        done = subprocess.run(
            [ARCACCT, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=file,
            env={"PATH": "/usr/bin"} | told,
            check=False,
        )
    assert not done.stdout.startswith(b"<")
    return done.returncode, path.read_text().splitlines()


def test_lines_have_their_priority(tmp_path) -> None:
    """Errors 3, warnings 4, all else 6, on each line: those of several lines would be divided otherwise."""
    journal = "{device}:{inode}"
    conf = configured(tmp_path)
    code, lines = _stderr(tmp_path, "--config", tmp_path / "nowhere.conf", "sweep", stream=journal)
    assert code == 78
    assert [line[:12] for line in lines] == ["<3>arcacct: "]

    (tmp_path / "arcacct.conf").write_text("[arex/jura/sgas:a]\n[arex/jura/sgas:b]\n")
    code, lines = _stderr(tmp_path, "--config", conf, "publish", stream=journal)
    assert code == 78
    assert len(lines) == 3
    assert all(line.startswith("<3>") for line in lines)

    (tmp_path / "arcacct.conf").write_text("[arcacct]\n")
    code, lines = _stderr(tmp_path, "--config", conf, "publish", stream=journal)
    assert (code, [line[:4] for line in lines]) == (0, ["<4>n"])

    (tmp_path / "control" / "processing" / "job.ABC.status").write_text("INLRMS")
    code, lines = _stderr(tmp_path, "--config", conf, "sweep", stream=journal)
    assert (code, [line[:12] for line in lines]) == (65, ["<4>arcacct: "])

    code, lines = _stderr(tmp_path, "--config", conf, "quarantine", "list", stream=journal)
    assert (code, lines) == (0, ["<6>nothing is quarantined"])


@pytest.mark.parametrize("stream", [None, "", "{inode}:{device}0", "nonsense"])
def test_elsewhere_they_have_none(tmp_path, stream) -> None:
    """A variable that was inherited is about another file: stderr may have been led elsewhere since."""
    _code, lines = _stderr(tmp_path, "--config", tmp_path / "nowhere.conf", "sweep", stream=stream)

    assert [line[:9] for line in lines] == ["arcacct: "]

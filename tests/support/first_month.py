"""
From nothing to a verified month: a CE with the jobs of a real A-REX, and an administrator who types what is printed.

The commands are those of the manual and of `arcacct setup`, letter for letter. Part of the jobs ended before arcacct
was there, the rest ends while A-REX calls the launcher. Each way to install arcacct is a `Road`.
"""

from __future__ import annotations

import json
import pathlib
import re
import shlex
import shutil
import sqlite3
import subprocess
import textwrap
from contextlib import closing
from typing import Any, NamedTuple

import arex_corpus as corpus
import manual
import systemctl
from control_directory import set_up
from recording_host import until

from arcacct.arex.resident import LOCK
from arcacct.sandbox import Sandbox

MONTH = "2026-11"
"""In which every job of the corpus ended."""
CONTROL = "/var/spool/arc/jobstatus"
EARLIER = 12
"""So many jobs ended before arcacct was installed; A-REX's callouts report the others."""
SETUP_CODES = (0, 74, 77, 78)
_HELD = 69


class Road:
    """A host with an A-REX that has run jobs, and nothing of arcacct: where its files are, and how a line is typed."""

    example: str
    """Where this way to install arcacct has the example of a configuration."""
    setup_options = ""

    def __init__(self, root: pathlib.Path, arc: int) -> None:
        self.root, self.arc = root, arc
        self.control = corpus.Control(self.at(CONTROL), {})

    def at(self, path: str) -> pathlib.Path:
        """A file of the host as the test sees it."""
        return self.root / path.lstrip("/")

    def named(self, path: str) -> str:
        """The same file as the host's programs name it."""
        return path

    def shell(self, *words: str) -> subprocess.Popen[str]:
        """Start the host's shell; what it prints, on either stream, comes from ``stdout``."""
        raise NotImplementedError

    def type(self, line: str) -> tuple[int, str]:
        """Type one line; its exit code, and what it prints on either stream."""
        with self.shell("-c", line) as process:
            printed, _ = process.communicate()
        return process.returncode, printed

    def install(self) -> None:
        """Install program, launcher and units by the manual's lines."""
        raise NotImplementedError

    def record_by_hand(self) -> None:
        """Then make databases and callouts, and start the services, by the lines of the manual's page."""
        raise NotImplementedError

    def do(self, line: str, *codes: int) -> str:
        """Type a line that has to end with one of these codes, 0 if none is given; what it prints."""
        code, printed = self.type(line)
        assert code in (codes or (0,)), f"{line}: {code}\n{printed}"
        return printed

    def do_page(self, text: str) -> None:
        """Do every command of a part of the manual."""
        for language, block in blocks(text):
            for line in block.splitlines() if language == "sh" else ():
                self.do(line)

    def add_callouts(self, text: str) -> None:
        """Add the lines to [arex] of arc.conf, as one is asked to for ARC 6."""
        lines = [line for line in text.splitlines(keepends=True) if line.startswith("statecallout=")]
        assert lines
        with self.at("/etc/arc.conf").open("a") as file:
            file.writelines(lines)


def blocks(text: str) -> list[tuple[str, str]]:
    """The fenced blocks ``(language, text)`` of a part of the manual, those in lists among them."""
    found = re.findall(r"^( *)```(\w*)\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL)
    return [(language, textwrap.dedent(inside)) for _, language, inside in found]


def section(page: str, heading: str) -> str:
    """The part of a page below a heading of the second level that starts so."""
    parts = re.split(r"^## ", manual.read(page), flags=re.MULTILINE)
    (found,) = [part for part in parts if part.startswith(heading)]
    return found


def arrive(road: Road, box: Sandbox) -> None:
    """The CE as its administrator finds it: A-REX has run, wrote its own database, and has the host's certificate."""
    played = _jobs()[EARLIER:]
    _lay_out_end(road)
    for job_id in played:
        corpus.remove(job_id, road.control)
    set_up(road.control.path)
    (road.control.path / "accounting").mkdir()
    if road.arc == 7:
        road.at("/etc/arc.conf.d").mkdir(parents=True)
    own = _write_own_database(road)
    with closing(sqlite3.connect(own)) as con, con:
        con.execute(f"DELETE FROM AAR WHERE JobID IN ({', '.join('?' * len(played))})", played)
        for table in corpus.CHILDREN:
            con.execute(f"DELETE FROM {table} WHERE RecordID NOT IN (SELECT RecordID FROM AAR)")
    security = road.at("/etc/grid-security")
    shutil.copytree(box.ca_dir, security / "certificates")
    shutil.copy(box.client.cert_path, security / "hostcert.pem")
    shutil.copy(box.client.key_path, security / "hostkey.pem")
    here = road.named("/etc/grid-security")
    road.at("/etc/arc.conf").write_text(
        f"[common]\nhostname=ce.example.org\nx509_host_cert={here}/hostcert.pem\nx509_host_key={here}/hostkey.pem\n"
        f"x509_cert_dir={here}/certificates\n[lrms]\nlrms=fork\nbenchmark={corpus.DEFAULT_BENCHMARK}\n"
        f"[arex]\ncontroldir={road.named(CONTROL)}\n"
    )


def follow_setup(road: Road) -> list[str]:
    """Do what `arcacct setup` prints, from top to bottom, until no step is left; the steps that it led to."""
    seen: list[str] = []
    while True:
        printed = road.do(f"arcacct setup{road.setup_options}", *SETUP_CODES)
        # What it only recommends: A-REX's own database, and not what concerns the stand-ins of a test.
        for command in re.findall(r"^warning +history: .*?`(arcacct [^`]+)`", printed, re.MULTILINE):
            road.do(command)
        step, _, rest = printed.partition("\nnext: ")[2].partition("\n")
        if not step:
            return seen
        assert step not in seen, printed
        seen.append(step)
        lines = re.match(r"(?:  .*\n)*", rest)[0].splitlines()  # type: ignore[index]
        if step == "callouts":
            advice = re.search(r"^error +callouts: (.*)", printed, re.MULTILINE)[1]  # type: ignore[index]
            write = re.search(r"`(arcacct setup --write)`", advice)
            if write:
                road.do(f"{write[1]} --yes{road.setup_options}", *SETUP_CODES)
            else:
                road.add_callouts("\n".join(line.strip() for line in lines))
                road.do(re.search(r"`(arcacct config check)`", advice)[1])  # type: ignore[index]
            road.do(re.search(r"\((systemctl restart [^)]+)\)", advice)[1])  # type: ignore[index]
            continue
        for line in lines:
            road.do(line.strip())


def play_callouts(road: Road) -> None:
    """A-REX runs the other jobs, and calls the launcher as its configuration said when it was started."""
    running = road.at(systemctl.RUNNING).read_text()
    commands = dict(re.findall(r"^statecallout=(\w+) \S+ (.+)$", running, re.MULTILINE))
    spool = road.control.path / "accounting" / "arcacct" / "spool"
    until((spool / LOCK).exists)
    played = set(_jobs()[EARLIER:])
    with road.shell() as arex:
        assert arex.stdin
        assert arex.stdout
        for call in corpus.hook_calls():
            if call.job_id not in played or call.state not in commands:
                continue
            corpus.lay_out(call, road.control, hashed=road.arc == 7)
            values = {"%C": road.named(CONTROL), "%I": call.job_id, "%S": call.state}
            words = [values.get(word, word) for word in shlex.split(commands[call.state])]
            arex.stdin.write(f"{shlex.join(words)} 2>&1; echo ended with $?\n")
            arex.stdin.flush()
            assert arex.stdout.readline() == "ended with 0\n", call
        arex.stdin.close()
    for job_id in played:
        corpus.remove(job_id, road.control)
    _lay_out_end(road)
    _write_own_database(road)
    # Its time has come: of one job there was no last callout.
    road.do("systemctl start arcacct-sweep.timer")
    until(lambda: not [path for path in spool.iterdir() if path.name[:1].isdigit() or path.name.startswith(".tmp-")])


def name_receivers(road: Road, box: Sandbox) -> None:
    """Write the example's targets into arcacct.conf, with the addresses of the sandbox."""
    text = road.at(road.example).read_text()
    for old, new in (
        ("https://sgas.example.org:6143/sgas", box.sgas_url),
        ("https://msg.argo.grnet.gr", f"{box.ams_url}\nauthn_port = {box.authn_port}"),
    ):
        assert old in text
        text = text.replace(old, new)
    with road.at("/etc/arcacct.conf").open("a") as file:
        file.write(text)


def publish(road: Road) -> None:
    """Publish by the manual, first what it shows, then what it says of a month that is held and of older jobs."""
    page = section("howto/install", "6. Publish")
    (complete,) = re.findall(r"`(arcacct import [^`]+)`", page)
    (older,) = re.findall(r"`(arcacct publish --since [^`]+)`", page)
    lines = [line for _language, block in blocks(page) for line in block.splitlines()]
    for line in (*lines, older):
        code, printed = road.type(line)
        if code == _HELD:
            assert "is held" in printed, printed
            road.do(complete)
            road.do(line)
        else:
            assert code == 0, f"{line}\n{printed}"


def verify(road: Road) -> list[dict[str, Any]]:
    """Do what `arcacct verify` prints until it says yes of the month; what each place has then."""
    (command,) = re.findall(rf"`(arcacct verify {MONTH})`", section("howto/install", "6. Publish"))
    code, printed = road.type(command)
    if code:
        assert code == 1, printed
        for advised in dict.fromkeys(re.findall(r"`(arcacct [^`]+)`", printed)):
            road.do(advised)
        road.do("arcacct publish --now")
    places: list[dict[str, Any]] = json.loads(road.do(f"{command} --format json"))["sources"]
    return places


class Figures(NamedTuple):
    """What all places say of the first month."""

    recorded: list[dict[str, Any]]
    places: list[dict[str, Any]]
    received: list[str]


def figures(road: Road, box: Sandbox) -> Figures:
    """The figures of a verified month."""
    places = verify(road)
    recorded = json.loads(road.do("arcacct stats --by month --format json"))
    # SGAS counts by the day on which it got a record.
    received = [re.sub(r"^(SGAS \S+) [\d-]+:", r"\1:", line) for line in box.totals()]
    assert all(f"jobs {recorded[0]['jobs']}," in line for line in received), (recorded, received)
    return Figures(recorded, places, received)


def first_month(road: Road, receivers: pathlib.Path, *, by_setup: bool) -> Figures:
    """
    Everything, recorded by the lines of `arcacct setup` or by those of the manual's page.

    ``receivers`` is the directory of a sandbox of its own.
    """
    with Sandbox(str(receivers)) as box:
        arrive(road, box)
        road.install()
        if by_setup:
            steps = follow_setup(road)
            assert steps == ["callouts", "database", "timers"], steps
        else:
            road.record_by_hand()
        play_callouts(road)
        name_receivers(road, box)
        if by_setup:
            assert follow_setup(road) == ["timers"]
        publish(road)
        road.do(f"arcacct setup --check{road.setup_options}")
        return figures(road, box)


def _lay_out_end(road: Road) -> None:
    """The control directory as it is in the end, in the layout of this A-REX."""
    (corpus.rebuild if road.arc == 6 else corpus.rebuild_hashed)(road.control.path)


def _write_own_database(road: Road) -> pathlib.Path:
    """Write the database that A-REX has in the end; its path."""
    name, text = ("accounting.db", corpus.AREX / "accounting.sql")
    if road.arc == 7:
        name, text = ("accounting_v2.db", corpus.AREX7 / "migrated_v2.sql")
    path = road.control.path / "accounting" / name
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as con:
        con.executescript(text.read_text())
    return path


def _jobs() -> list[str]:
    """The jobs of the corpus in the order in which A-REX accepted them."""
    return list(dict.fromkeys(call.job_id for call in corpus.hook_calls()))

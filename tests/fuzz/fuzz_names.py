"""
Names that users choose: DNs, FQANs, VOs, queues, names of jobs; into every message, and onto every screen.

What must hold: a job with any name is refused with a reason or its figures arrive whole at the receiver's own rules;
XML is well formed, APEL's text is ASCII with one line for a field; no command prints what steers a terminal, and a
program reads the name that was recorded.
"""

from __future__ import annotations

import csv
import io
import json
import pathlib
import random
import tempfile
import zlib
from functools import lru_cache
from typing import Any

import apel_rules
import car_rules
import sgas_rules
import stored_jobs
from apel_message import message
from fuzz.command import arcacct, steers
from fuzz.damage import TEXTS, damaged
from publishing_site import DIRECTORY, Job, Site
from record_texts import car, individual_job, usage_record

from arcacct.cli.tables import FORMATS, lines
from arcacct.records.model import AAR, parsed_fqan
from arcacct.targets.apel.acceptance import accept_for_apel_job, accept_for_car
from arcacct.targets.apel.messages import JOB_HEADERS, APELOptions
from arcacct.targets.apel.target import CAR as CAR_DOCUMENT
from arcacct.targets.sgas.acceptance import accept_for_sgas
from arcacct.targets.sgas.target import UsageRecords
from arcacct.targets.sgas.usage_record import UROptions
from arcacct.wording import CUT, sanitise_line, strip_control

DOCUMENT = UsageRecords.envelope


NOW = 1_800_000_000
CAR = APELOptions("SITE")
NAMES = (
    b"/DC=org/DC=example/CN=Ada Lovelace",
    b"/C=DE/O=GridGermany/OU=Universit\xc3\xa4t/CN=J\xc3\xbcrgen O'Neill/emailAddress=j@example.org",
    b"CN=Robot: cert factory, DC=example, DC=org",
    b"https://iam.example.org/5f1b5c3a-0b5e",
    b"/atlas/Role=production/Capability=NULL",
    b"/atlas/uk/Role=NULL",
    b"/vo.example.org/group/subgroup",
    b"atlas",
    b"urn:mace:egi.eu:group:vo.example.org:role=member#aai.egi.eu",
    b'=HYPERLINK("https://example.org","x")',
    b"my job, number 7",
    b"a<b>&\"c\"'d' ]]>",
    b"50%%\n%%\nSite: OTHER",
    b"application/pkcs7-mime",
    b"none", b" NULL ", b"  ",
    b"/atlas;x/Role=production",
    b"/atlas/Role=" + b"r" * 260,
    b"/atlas/" + b"g" * 99 + b"/Role=" + b"r" * 99,
    b"@SUM(1)", b"-1+1", b"\t=1", "\uff1d1+1".encode(), "\uff20x".encode(),
    b"a" * 254 + b"\xc3\xa9", b"n" * 1200, "ż".encode() * 1001,
    b"a\rb", b'a;b,c"d', b"a\x00b", b"\xef\xbf\xbe",
)  # fmt: skip
UNSEEN = "\u034f\u115f\u17b4\u180b\u2800\u3164\ufe0f\uffa0\U000e0101"
"""Printable for Unicode, and nothing to see."""
FIELDS = ("job_id", "user_dn", "vo", "fqan", "queue", "job_name", "project", "client_host", "local_job_id", "node")


csv.field_size_limit(2**20)
JOB = stored_jobs.aar()


def made(chance: random.Random) -> dict[str, bytes]:
    files = {}
    for name in FIELDS:
        text = chance.choice((*NAMES, *(one.encode("utf-8", "surrogatepass") for one in TEXTS)))
        text = damaged(chance, text) if chance.random() < 0.4 else text
        if chance.random() < 0.2:
            place = chance.randint(0, len(text))
            text = text[:place] + chance.choice(UNSEEN).encode() + text[place:]
        # Most jobs have ids that are good: without one nothing of a job is sent.
        files[name] = b"good1" if name == "job_id" and chance.random() < 0.8 else text
    return files


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    names = {name: content.decode("utf-8", "surrogateescape") for name, content in files.items()}
    for text in names.values():
        _check_text(text)
    _check_messages(names)
    if len(b"".join(files.values())) % 8 == 0:
        _check_commands({name: content.decode("utf-8", "replace") for name, content in files.items()})


def _seen(text: str) -> bool:
    """Whether each character of a text is one to see."""
    return not steers(text) and set(UNSEEN).isdisjoint(text)


def _check_text(text: str) -> None:
    shown = sanitise_line(text, 300)
    assert _seen(shown), shown
    for length in range(0, 300, 37):
        # A letter that is shown in letters is shown whole, or not at all.
        whole = sanitise_line(text, length).removesuffix(CUT)
        assert whole == CUT[:length] or strip_control(text).startswith(whole), whole
    assert "\n" not in shown
    assert len(shown) <= 300
    assert sanitise_line(shown, 300) == shown
    found = parsed_fqan(text)
    assert found is None or isinstance(str(found), str)
    for form in FORMATS:
        told = "\n".join(lines(("name", "number"), [(text, 7), ("behind", 8)], form))
        if form == "json":
            assert json.loads(told) == [{"name": text, "number": 7}, {"name": "behind", "number": 8}]
        if form == "csv":
            rows = list(csv.reader(io.StringIO(told, newline="")))
            assert rows == [["name", "number"], [text, "7"], ["behind", "8"]], rows
        if form == "spreadsheet":
            (_head, (cell, number), _behind) = csv.reader(io.StringIO(told, newline=""))
            assert number == "7"
            assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"))
            assert told.split("\n")[1].startswith('"'), "where semicolons separate cells this begins more than one"
        if form == "csv":
            assert "\r" not in text or f'"{text}"' in told.replace('""', '"'), "a line ends there for most readers"
        if form == "table":
            assert len(told.split("\n")) == 4
            assert all(len(line) <= 1020 and _seen(line) for line in told.split("\n"))
        if form != "csv":
            assert not steers(told)


def _job(names: dict[str, str]) -> AAR:
    return JOB._replace(
        job_id=names["job_id"],
        user_dn=names["user_dn"],
        vo=names["vo"],
        fqans=(names["fqan"],),
        queue=names["queue"],
        job_name=names["job_name"],
        project=names["project"],
        client_host=names["client_host"],
        local_job_id=names["local_job_id"],
        node_names=(names["node"], "wn1.example.org"),
    )


def _check_messages(names: dict[str, str]) -> None:
    """Each receiver takes the job with its figures, or is not sent it, and that is said."""
    job = _job(names)
    figures = (job.wall_s, job.cpu_s)
    sgas = accept_for_sgas(job, UROptions(host="lrms.example.org"), NOW)
    if _goes(sgas):
        text = DOCUMENT.join([usage_record(sgas.aar, UROptions(host="lrms.example.org"), NOW)]).encode()
        (row,) = sgas_rules.parse(text)
        assert (row["wall_s"], row["cpu_s"]) == figures, row
        assert row["global_job_id"] == job.job_id, row
        for name, key, width in _OF_SGAS:
            if _is_plain(names[name], width):
                assert row[key] == names[name], (key, row)
    apel = accept_for_apel_job(job, APELOptions("SITE", lrms_host="lrms.example.org"), NOW)
    if _goes(apel):
        for version in ("v0.3", "v0.4"):
            record = individual_job(apel.aar, APELOptions("SITE", lrms_host="lrms.example.org"), version)
            text = message(JOB_HEADERS[version], [record])
            assert text.isascii()
            row = apel_rules.parse(text, NOW)[1][0]
            assert (row["WallDuration"], row["CpuDuration"]) == figures, row
            _check_apel(row, names)
    verdict = accept_for_car(job, CAR, NOW)
    if _goes(verdict):
        text = CAR_DOCUMENT.join([car(verdict.aar, CAR, NOW)])
        (row,) = car_rules.parse(text)
        assert (row["WallDuration"], row["CpuDuration"]) == figures, row
        _check_apel(row, names)


_OF_SGAS = (
    ("user_dn", "global_user_name", 1000), ("vo", "vo_name", 1000), ("queue", "queue", 200),
    ("job_name", "job_name", 1000), ("project", "project", 200),
)  # fmt: skip
"""Names, what SGAS calls them, and how long they may be."""


def _is_plain(text: str, width: int) -> bool:
    """Whether a name is one that nothing must be done to, whoever receives it."""
    return text.isascii() and text.isprintable() and text == text.strip() and 0 < len(text) <= width


def _check_apel(row: dict[str, Any], names: dict[str, str]) -> None:
    """A plain name arrives as it is; an id that is none gives way to the JobID; a role is not lost."""
    for name, key, width in (("user_dn", "GlobalUserName", 255), ("queue", "Queue", 100)):
        text = names[name]
        if _is_plain(text, width) and text.lower() not in {"none", "null"} and "%%" not in text and "pkcs7" not in text:
            assert row.get(key) == text, (key, row)
    local = names["local_job_id"]
    if local.strip().lower() in {"", "none", "null"} or len(local) > 255:
        assert row["LocalJobId"] == names["job_id"].strip() or not _is_plain(names["job_id"], 255), row
    if names["fqan"] == "/atlas;x/Role=production":
        assert row.get("VORole") == "Role=production", row


def _goes(verdict: Any) -> bool:
    assert verdict.refusal is None or verdict.refusal.strip()
    return verdict.refusal is None


@lru_cache
def _site() -> Site:
    place = pathlib.Path(tempfile.mkdtemp(prefix="arcacct-fuzz-"))
    (place / "outgoing").mkdir()
    return Site(place, None, DIRECTORY)


def _check_commands(names: dict[str, str]) -> None:
    """What people and programs see of such a job that is recorded and published."""
    site = _site()
    job_id = f"job{zlib.crc32(repr(names).encode())}"
    written = {"user_dn": names["user_dn"], "vo": names["vo"], "queue": names["queue"], "name": names["job_name"]}
    site.record(Job(job_id, fqan=names["fqan"], local_id=names["local_job_id"], **written))
    conf = ("--config", str(site.path / "arc.conf"))
    for command in (
        ("job", "info", job_id),
        ("job", "--only", "why", job_id),
        ("job", "info", "-o", "json", job_id),
        ("stats", "-o", "users"),
        ("stats", "-o", "fqans"),
        ("stats", "--by", "user,vo,queue"),
        ("stats", "--by", "vo", "--format", "json"),
        ("publish", "--now", "--since", "2000-01-01", "--dry-run"),
        ("status",),
    ):
        told = arcacct(*conf, *command, allowed=(0, 1, 2, 3, 65))
        assert not steers(told.out), (command, told.out)
        assert not steers(told.err), (command, told.err)
        assert "json" in command or _seen(told.out + told.err), (command, told.out)

"""What a run of publishing says of secrets and of hostile words: in its outcome, on the screen, in the ledger."""

from __future__ import annotations

import base64
import pathlib
import re

import pytest
from publishing_site import CARS, Job, Site
from scripted_receiver import ScriptedReceiver, say, server_context

from arcacct.cli.main import main
from arcacct.targets.directory.target import DirectorySender

TOKEN = "c0ffee-of-the-host-" + "0123456789abcdef" * 40
IN_BASE64 = base64.b64encode(TOKEN.encode()).decode()
GIVEN = say(200, {"token": TOKEN})


@pytest.fixture
def receiver(box):
    """AMS and its authn service in one, with a certificate that the site trusts."""
    server = ScriptedReceiver(server_context(box.authority.issue("localhost", stem="said", rsa_key=False)))
    yield server
    server.stop()


@pytest.fixture
def site(memory, empty_box, receiver):
    """A site with a job for that receiver."""
    port = str(receiver.port)
    made = Site(memory, empty_box, CARS.replace("{ams}", f"https://localhost:{port}").replace("{authn}", port))
    made.record(Job("one"))
    return made


def everything_kept(site: Site) -> str:
    """Every byte of the publishing database and its WAL."""
    path = pathlib.Path(site.settings.places.publishing_database)
    return "".join(one.read_bytes().decode("latin-1") for one in path.parent.glob(f"{path.name}*"))


@pytest.mark.parametrize(
    "script",
    [
        pytest.param([say(201, {"token": TOKEN})], id="created"),
        pytest.param([say(403, {"token": TOKEN, "error": {"message": f"not for {TOKEN}"}})], id="refused"),
        pytest.param([GIVEN, say(400, f"x-api-key: {TOKEN}".encode())], id="quoted"),
        pytest.param([GIVEN, say(400, b"x" * 480 + TOKEN.encode())], id="across the cut"),
        pytest.param([GIVEN, say(400, f"x-api-key: {TOKEN[:100]}".encode())], id="cut by the receiver"),
        pytest.param([GIVEN, say(403, f"Authorization: {IN_BASE64}".encode())], id="in base64"),
        pytest.param([GIVEN, say(200, {"messageIds": [TOKEN]})], id="as the message's id"),
        pytest.param([GIVEN, say(302, b"", Location=f"https://x/?key={TOKEN}")], id="in a redirect"),
    ],
)
def test_the_token_is_nowhere(site, receiver, script, capsys) -> None:
    """Neither the outcome nor `status`, `job why` or any byte of the ledger has it, whole or in part."""
    receiver.script = script
    outcome = site.publish()
    conf = str(site.path / "arc.conf")
    for command in (
        ["status"],
        ["job", "--only", "why", "one"],
        ["query", "--ledger", "SELECT * FROM v1_publications"],
    ):
        with pytest.raises(SystemExit):
            main(["--config", conf, *command])

    said = [str(outcome.error), *capsys.readouterr(), everything_kept(site)]
    assert "apel:a" in said[1]
    assert not [text for text in said if re.search(f"c0ffee-of|0123456789abcdef|{IN_BASE64[:20]}", text)]


HOSTILE = "\x1b]0;title\x07\x1b[2J \u202e \ud800 \x00"


def test_hostile_words_of_a_receiver_are_kept_in_letters(site, receiver) -> None:
    """What the ledger keeps can be stored and printed, whatever a receiver sends."""
    receiver.script = [GIVEN, say(403, {"error": {"message": HOSTILE}})]

    assert r"\x1b]0;title\x07\x1b[2J \u202e \ud800 \x00" in str(site.publish().error)
    kept = [*site.ledger("SELECT Answer FROM Messages")[0], *site.ledger("SELECT LastError FROM Targets")[0]]
    assert all(r"\x1b]0;title" in text and text.isprintable() for text in kept)


def test_a_fault_that_quotes_a_secret_is_kept_without(site) -> None:
    """An error that no one foresaw may quote anything, and has no end: the ledger keeps what can be shown."""

    def make_sender(_plugin: object) -> DirectorySender:
        raise ValueError(f"http://arc:s3cr3t-w0rd@proxy.example.org {HOSTILE} " + "x" * 100_000)

    outcome = site.publish(make_sender=make_sender)

    assert "internal error" in str(outcome.error)
    ((kept,),) = site.ledger("SELECT LastError FROM Targets")
    assert kept.startswith("internal error: ValueError: http://***@proxy.example.org \\x1b]0;title")
    assert kept.isprintable()
    assert len(kept) <= 2000

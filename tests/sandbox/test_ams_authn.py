from __future__ import annotations

import time

import pytest
from sandbox_clients import Connection

from arcacct.sandbox import authority

PATH = "/v1/service-types/ams/hosts/localhost:authx509"


def test_a_host_certificate_gets_a_token(sandbox):
    """200 with the token that AMS knows."""
    with Connection(sandbox, "authn", sandbox.client) as authn:
        answer = authn.ask("GET", PATH, Content_Type="application/json; charset=UTF-8")
    assert answer.json == {"token": sandbox.token}
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    with Connection(sandbox, "ams") as ams:
        assert ams.ask("GET", "/v1/projects/accounting/topics", x_api_key=sandbox.token).status == 200


REFUSED = {
    "service": ("/v1/service-types/ets/hosts/localhost:authx509", "Service-type was not found"),
    "host": ("/v1/service-types/ams/hosts/msg.argo.grnet.gr:authx509", "Host was not found"),
    "method": ("/v1/service-types/ams/hosts/localhost:authoidc", "Auth method was not found"),
}


@pytest.mark.parametrize(("path", "words"), REFUSED.values(), ids=REFUSED)
def test_what_authn_does_not_know(sandbox, path, words):
    """404 with the real service's words."""
    with Connection(sandbox, "authn", sandbox.client) as authn:
        answer = authn.ask("GET", path)
    assert (answer.status, answer.json["error"]) == (404, {"code": 404, "message": words, "status": "NOT FOUND"})


@pytest.mark.parametrize("path", [PATH.replace("localhost", "localhost:443"), "/v1/other"])
def test_paths_that_are_none(sandbox, path):
    """A port in the path, or another path, is not found by the router."""
    with Connection(sandbox, "authn", sandbox.client) as authn:
        assert authn.ask("GET", path).text == "404 page not found\n"


def test_a_certificate_that_is_bound_to_nothing(sandbox):
    """A good certificate no one registered: Binding was not found."""
    stranger = sandbox.authority.issue("new.example.org", stem="new")
    with Connection(sandbox, "authn", stranger) as authn:
        answer = authn.ask("GET", PATH)
    assert (answer.status, answer.json["error"]["message"]) == (404, "Binding was not found")


@pytest.mark.parametrize(
    ("begin", "end", "words"),
    [(-200, -100, "Your certificate has expired"), (100, 200, "Your certificate is not active yet")],
    ids=["expired", "not yet valid"],
)
def test_certificates_of_another_time(sandbox, begin, end, words):
    """403, in HTTP and with words, as the real service does."""
    now = int(time.time())
    host = sandbox.authority.issue("ce.example.org", not_before=now + begin, not_after=now + end, stem="old")
    with Connection(sandbox, "authn", host) as authn:
        answer = authn.ask("GET", PATH)
    assert (answer.status, answer.json["error"]["message"]) == (403, words)
    assert answer.json["error"]["status"] == "ACCESS_FORBIDDEN"


def test_no_certificate(sandbox):
    """400 with words."""
    with Connection(sandbox, "authn") as authn:
        answer = authn.ask("GET", PATH)
    assert (answer.status, answer.json["error"]["message"]) == (400, "No certificate provided")


def test_a_certificate_of_another_authority(sandbox, tmp_path):
    """TLS itself ends the connection, with an alert."""
    stranger = authority.create(str(tmp_path / "other")).issue("ce.example.org")
    with Connection(sandbox, "authn", stranger) as authn, pytest.raises(OSError, match=r"(?i)unknown.ca|reset"):
        authn.ask("GET", PATH)
    sandbox.close()  # the client reads the alert before the server has counted it
    assert sandbox.servers["authn"].refused_handshakes == 1


def test_a_rotated_token(sandbox):
    """After rotation the old token is 401, and authn gives the new one."""
    old = sandbox.token
    new = sandbox.rotate_token()
    with Connection(sandbox, "ams") as ams:
        assert ams.ask("GET", "/v1/projects/accounting/topics", x_api_key=old).status == 401
        assert ams.ask("GET", "/v1/projects/accounting/topics", x_api_key=new).status == 200

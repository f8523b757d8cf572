"""The service that gives a token of the messaging service for a host certificate (argo-api-authn; apel 1.1)."""

from __future__ import annotations

import json
import re
import time
from typing import Self

from arcacct.sandbox.ams import NOT_FOUND, error
from arcacct.sandbox.wire import HTTPAnswer, HTTPRequest, Receiver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from arcacct.sandbox import Sandbox

_PATH = re.compile(r"/v1/service-types/(?P<service>[^/:]+)/hosts/(?P<host>[^/:]+):(?P<method>\w+)")


class Authn(Receiver):
    """Bindings of host certificates (slash DN) to tokens, for the messaging service on `hosts`."""

    endpoint, title = "authn", "the service that gives tokens"

    def __init__(self, hosts: frozenset[str]) -> None:
        self.hosts = hosts
        self.bindings: dict[str, str] = {}
        self.asked = 0
        """How many tokens were given."""

    @classmethod
    def beside(cls, box: Sandbox) -> Self:
        """For the messaging service of this sandbox, which has no other names than the loopback address's."""
        authn = cls(frozenset({"localhost", "127.0.0.1"}))
        authn.bindings[box.client.dn] = box.ams.new_token()
        return authn

    def address(self, port: int) -> str:
        """The port: the service's address is made of the messaging service's."""
        return f"authn port {port}"

    def answer(self, request: HTTPRequest) -> HTTPAnswer:
        match = _PATH.fullmatch(request.path)
        if match is None or request.method != "GET":
            return NOT_FOUND
        peer, now = request.peer, time.time()
        if peer is None:
            return error(400, "BAD REQUEST", "No certificate provided")
        if not peer.not_before <= now <= peer.not_after:
            why = "has expired" if now > peer.not_after else "is not active yet"
            return error(403, "ACCESS_FORBIDDEN", f"Your certificate {why}")
        token = self.bindings.get(peer.dn)
        for what, is_known in (
            ("Service-type", match["service"] == "ams"),
            ("Host", match["host"] in self.hosts),
            ("Auth method", match["method"] == "authx509"),
            ("Binding", token is not None),
        ):
            if not is_known:
                return error(404, "NOT FOUND", f"{what} was not found")
        self.asked += 1
        return HTTPAnswer(200, json.dumps({"token": token}).encode(), "application/json; charset=utf-8")

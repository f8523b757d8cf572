"""
Receivers to rehearse against: SGAS, and APEL behind the ARGO Messaging Service, on this machine.

They answer as the real ones do, keep every document they get in ``received/``, and can be made to misbehave.
Only the loopback address is served, and only for certificates of an authority made on the spot.
"""

from __future__ import annotations

import functools
import os

from arcacct.errors import ConfigError
from arcacct.sandbox import authority
from arcacct.sandbox.ams import AMS
from arcacct.sandbox.apel import APEL
from arcacct.sandbox.authn import Authn
from arcacct.sandbox.faults import Faults
from arcacct.sandbox.journal import Journal
from arcacct.sandbox.server import Receiver, Server, server_context
from arcacct.sandbox.sgas import SGAS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from arcacct.sandbox.authority import Credential
    from arcacct.sandbox.wire import Request

CE = "ce.example.org"
"""The name of the computing element whose certificate the sandbox makes."""


class Sandbox:
    """
    SGAS, AMS and its authn on three ports (0: any free one), running from ``with`` to its end.

    Raises TargetBusy if a port is taken, ConfigError if it may not be opened or the directory not be written.
    """

    def __init__(
        self,
        directory: str,
        *,
        sgas_port: int = 0,
        ams_port: int = 0,
        authn_port: int = 0,
        project: str = "accounting",
        topic: str = "gLite-APEL",
        ce: str = CE,
    ) -> None:
        self.directory = os.path.abspath(directory)
        self.project, self.topic = project, topic
        try:
            self.authority = authority.create(self.directory)
            self.client = self.authority.issue(ce)
            self.journal = Journal(os.path.join(self.directory, "received"))
        except OSError as error:
            raise ConfigError(f"{self.directory}: {error.strerror}; choose a directory that can be written") from error
        self.ca_dir, self.ca_file = self.authority.ca_dir, self.authority.ca_file
        self.faults = Faults()
        self.sgas = SGAS(self.journal)
        self.sgas.rights[self.client.subject] = "jobinsert:all"
        self.apel = APEL(self.journal, self.ca_dir)
        self.apel.allowed_dns = {self.client.dn}
        self.ams = AMS(project, topic)
        self.ams.readers[project, topic] = self.apel.receive
        self.authn = Authn(frozenset({"localhost", "127.0.0.1"}))
        self.rotate_token()
        self.servers = self._serve({"sgas": sgas_port, "ams": ams_port, "authn": authn_port})

    @property
    def token(self) -> str:
        """The token of the messaging service that authn gives for the computing element's certificate."""
        return self.authn.bindings[self.client.dn]

    def rotate_token(self) -> str:
        """Make the old token invalid and bind a new one."""
        self.ams.tokens.pop(self.authn.bindings.get(self.client.dn, ""), None)
        self.authn.bindings[self.client.dn] = self.ams.new_token()
        return self.token

    @functools.cached_property
    def apel_certificate(self) -> Credential:
        """The certificate to which messages for APEL may be encrypted (``server_cert`` of SSM); made when asked for."""
        self.apel.credential = self.authority.issue("localhost", stem="apel")
        return self.apel.credential

    @property
    def sgas_url(self) -> str:
        """For ``targeturl`` of an SGAS target."""
        return f"https://localhost:{self.servers['sgas'].port}/sgas"

    @property
    def ams_url(self) -> str:
        """For ``targeturl`` of an APEL target."""
        return f"https://localhost:{self.servers['ams'].port}"

    @property
    def authn_port(self) -> int:
        """For ``authn_port`` of an APEL target."""
        return self.servers["authn"].port

    @property
    def received(self) -> str:
        """The directory of what came in."""
        return self.journal.directory

    def configuration(self) -> str:
        """The targets' blocks of arcacct.conf with which this sandbox is published to."""
        credentials = [
            f"x509_host_cert = {self.client.cert_path}",
            f"x509_host_key = {self.client.key_path}",
            f"x509_cert_dir = {self.ca_dir}",
        ]
        sgas = ["[arex/jura/sgas:sandbox]", f"targeturl = {self.sgas_url}", *credentials]
        apel = [
            "[arex/jura/apel:sandbox]",
            f"targeturl = {self.ams_url}",
            f"authn_port = {self.authn_port}",
            f"project = {self.project}",
            f"topic = {self.topic}",
            "gocdb_name = SANDBOX-SITE",
            *credentials,
            f"# For a sender that encrypts, which arcacct does not: {self.apel_certificate.cert_path}",
        ]
        return "\n".join([*sgas, "", *apel, ""])

    def totals(self) -> list[str]:
        """What the portals would show now: a line for each month of a site (APEL) and each day of a machine (SGAS)."""
        months = (
            f"APEL {site} {year}-{month:02d}: jobs {total.jobs}, wall {total.wall_s} s, CPU {total.cpu_s} s,"
            f" normalised wall {total.normalised_wall_s} s, normalised CPU {total.normalised_cpu_s} s"
            for (site, year, month), total in self.apel.totals().items()
        )
        self.sgas.update_aggregates()
        days = (
            f"SGAS {machine} {day}: jobs {count.jobs}, wall {count.wall_s} s, CPU {count.cpu_s} s"
            for (day, machine), count in sorted(self.sgas.aggregates.items())
        )
        return [*months, *days]

    def close(self) -> None:
        """Close every port and connection; returns when all threads have ended."""
        for server in self.servers.values():
            server.stop()

    def __enter__(self) -> Sandbox:
        for server in self.servers.values():
            server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _serve(self, ports: dict[str, int]) -> dict[str, Server]:
        # EC and of its own: made in no time, and the computing element's key is nobody else's.
        credential = self.authority.issue("localhost", stem="receiver", rsa_key=False)
        receivers = (
            Receiver("sgas", "sgas", self.sgas.answer, self.sgas.text, self.sgas.delivers),
            Receiver("ams", "apel", self.ams.answer, self.ams.text, self.ams.delivers),
            Receiver("authn", None, self.authn.answer, _no_text, _no_documents),
        )
        servers: dict[str, Server] = {}
        try:
            for receiver in receivers:
                # The real messaging service knows its clients by their token alone.
                context = server_context(credential, self.ca_file, wants_certificate=receiver.endpoint != "ams")
                port = ports[receiver.endpoint]
                servers[receiver.endpoint] = Server(receiver, context, port, self.faults, self.journal)
        except BaseException:
            for server in servers.values():
                server.stop()
            raise
        return servers


def _no_text(_request: Request) -> str:
    return ""


def _no_documents(_request: Request) -> bool:
    return False

"""
Receivers for the rehearsal: SGAS, APEL behind the ARGO Messaging Service, and AUDITOR, on this machine.

They answer as the real ones do, keep every document they get in ``received/``, and can be made to misbehave. They serve
only the loopback address, and only certificates of an authority that the sandbox creates.
"""

from __future__ import annotations

import functools
import os
from contextlib import ExitStack

from arcacct.errors import ConfigError
from arcacct.sandbox import authority
from arcacct.sandbox.ams import AMS, Authn
from arcacct.sandbox.apel import APEL
from arcacct.sandbox.auditor import Auditor
from arcacct.sandbox.authority import Credential
from arcacct.sandbox.http_server import Faults, Journal, Receiver, Server, server_context
from arcacct.sandbox.sgas import SGAS

RECEIVERS: tuple[type[Receiver], ...] = (SGAS, AMS, Authn, Auditor)
"""The receivers, each on its own port; a new one is a module here, and its name in this list."""

CE = "ce.example.org"
"""The name of the computing element whose certificate the sandbox makes."""


class Sandbox:
    """
    The `RECEIVERS` on their ports (``sgas_port=``, ... 0 or none: any free one), running from ``with`` to its end.

    Each receiver is an attribute by the name of its endpoint. Raises TargetBusy if a port is taken, ConfigError if it
    may not be opened or the directory not be written.
    """

    sgas: SGAS
    ams: AMS
    authn: Authn
    auditor: Auditor

    def __init__(self, directory: str, **ports: int) -> None:
        self.directory = os.path.abspath(directory)
        self.project, self.topic = "accounting", "gLite-APEL"
        try:
            self.authority = authority.create(self.directory)
            self.client = self.authority.issue(CE)
            folders = [receiver.documents for receiver in RECEIVERS if receiver.documents is not None]
            self.journal = Journal(os.path.join(self.directory, "received"), folders)
        except OSError as error:
            raise ConfigError(f"{self.directory}: {error.strerror}; choose a directory that can be written") from error
        self.ca_dir, self.ca_file = self.authority.ca_dir, self.authority.ca_file
        self.faults = Faults(receiver.endpoint for receiver in RECEIVERS)
        self.apel = APEL(self.journal, self.ca_dir)
        self.apel.allowed_dns = {self.client.dn}
        self.receivers: list[Receiver] = []
        for kind in RECEIVERS:
            self.receivers.append(kind.beside(self))
            setattr(self, kind.endpoint, self.receivers[-1])
        self.ams.readers[self.project, self.topic] = self.apel
        self.authn.bindings[self.client.dn] = self.ams.new_token()
        self.received = self.journal.directory
        # A separate EC key: quick to create, and the computing element's key stays private.
        credential = self.authority.issue("localhost", stem="receiver", rsa_key=False)
        self.servers: dict[str, Server] = {}
        with ExitStack() as started:
            for receiver in self.receivers:
                context = server_context(credential, self.ca_file, receiver)
                port = ports.get(f"{receiver.endpoint}_port", 0)
                server = Server(receiver, context, port, self.faults, self.journal)
                started.callback(server.stop)
                self.servers[receiver.endpoint] = server
            started.pop_all()
        # For targeturl, and authn_port, of targets.
        self.sgas_url = f"https://localhost:{self.servers['sgas'].port}/sgas"
        self.ams_url = f"https://localhost:{self.servers['ams'].port}"
        self.auditor_url = f"https://localhost:{self.servers['auditor'].port}"
        self.authn_port = self.servers["authn"].port

    @property
    def token(self) -> str:
        """The token of the messaging service that authn gives for the computing element's certificate."""
        return self.authn.bindings[self.client.dn]

    def rotate_token(self) -> str:
        """Make the old token invalid and create a new one."""
        del self.ams.tokens[self.token]
        self.authn.bindings[self.client.dn] = self.ams.new_token()
        return self.token

    @functools.cached_property
    def apel_certificate(self) -> Credential:
        """The certificate for encrypted messages to APEL (``server_cert`` of SSM); created at its first use."""
        self.apel.credential = self.authority.issue("localhost", stem="apel")
        return self.apel.credential

    @property
    def credentials(self) -> list[str]:
        """Return the lines of a target's block with its credentials and its trusted CAs."""
        return [
            f"x509_host_cert = {self.client.cert_path}",
            f"x509_host_key = {self.client.key_path}",
            f"x509_cert_dir = {self.ca_dir}",
        ]

    @property
    def addresses(self) -> str:
        """Return the addresses of the receivers, in a line for people."""
        return ", ".join(server.receiver.address(server.port) for server in self.servers.values())

    def configuration(self) -> str:
        """Return the targets' blocks of arcacct.conf for publishing to this sandbox."""
        blocks = filter(None, (receiver.block(self) for receiver in self.receivers))
        return "\n".join(line for block in blocks for line in [*block, ""])

    def totals(self) -> list[str]:
        """Return the data of the portals: a line for each month of a site (APEL) and each day of a machine (SGAS)."""
        portals = sorted(receiver.totals() for receiver in self.receivers)
        return [line for portal in portals for line in portal]

    def close(self) -> None:
        """Close every port and connection; returns when all threads have ended."""
        for server in self.servers.values():
            server.stop()

    def __enter__(self) -> Sandbox:
        for server in self.servers.values():
            server.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

"""What the sandbox's tests need of a client: connections with certificates, signed messages, usage records."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import subprocess
import time
from typing import NamedTuple

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.serialization import pkcs7

from arcacct.sandbox import Sandbox
from arcacct.sandbox.authority import Credential
from arcacct.targets.sgas.usage_record import NAMESPACES

TEXT = (pkcs7.PKCS7Options.DetachedSignature, pkcs7.PKCS7Options.Text)


class Reply(NamedTuple):
    """Status, text and headers (lower case) of an answer."""

    status: int
    text: str
    headers: dict[str, str]

    @property
    def json(self):
        """The body, as JSON."""
        return json.loads(self.text)


class Connection:
    """One keep-alive connection to a port of the sandbox."""

    def __init__(self, sandbox: Sandbox, endpoint: str, credential: Credential | None = None, **tls) -> None:
        context = ssl.create_default_context(cafile=tls.get("cafile"), capath=tls.get("capath", sandbox.ca_dir))
        if "maximum" in tls:
            context.maximum_version = tls["maximum"]
        if credential is not None:
            context.load_cert_chain(credential.cert_path, credential.key_path)
        self.http = http.client.HTTPSConnection(
            "localhost", sandbox.servers[endpoint].port, context=context, timeout=10
        )

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_error) -> None:
        self.http.close()

    def ask(self, method: str, path: str, body: bytes | str | None = None, **headers: str) -> Reply:
        """Send a request and read the answer to its end."""
        content = body.encode() if isinstance(body, str) else body
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        self.http.request(method, path, content, names)
        answer = self.http.getresponse()
        text = answer.read().decode()
        return Reply(answer.status, text, {name.lower(): value for name, value in answer.getheaders()})


def auditor_client(sandbox: Sandbox):
    """The official client of AUDITOR, asynchronous, for the sandbox's server."""
    import pyauditor

    port, ours = sandbox.servers["auditor"].port, sandbox.client
    builder = pyauditor.AuditorClientBuilder().address("localhost", port).timeout(10)
    return builder.with_tls(ours.cert_path, ours.key_path, sandbox.ca_file).build()


def sign(credential: Credential, text: bytes, options=TEXT, *, extra=()) -> bytes:
    """A message signed with `cryptography`, as a publisher does it."""
    with open(credential.key_path, "rb") as file:
        key = serialization.load_pem_private_key(file.read(), None)
    builder = pkcs7.PKCS7SignatureBuilder().set_data(text).add_signer(credential.certificate, key, hashes.SHA256())
    for certificate in extra:
        builder = builder.add_certificate(certificate)
    return builder.sign(serialization.Encoding.SMIME, list(options))


def openssl_sign(credential: Credential, text: bytes, *options: str) -> bytes:
    """A message signed with the openssl program, as jura does it."""
    command = ["openssl", "smime", "-sign", "-inkey", credential.key_path, "-signer", credential.cert_path, *options]
    return subprocess.run(command, input=text, capture_output=True, check=True).stdout


def encrypt(credential: Credential, message: bytes, *options: str) -> bytes:
    """A message encrypted with the openssl program, as SSM does it; ``-aes128`` if no option says otherwise."""
    command = ["openssl", "smime", "-encrypt", *(options or ("-aes128",)), credential.cert_path]
    return subprocess.run(command, input=message, capture_output=True, check=True).stdout


def publication(*messages: bytes, empaid: str = "20260101/0123456789abcd") -> str:
    """The body of a publish request."""
    wrapped = [{"attributes": {"empaid": empaid}, "data": base64.b64encode(one).decode()} for one in messages]
    return json.dumps({"messages": wrapped})


def usage_record(job: str = "job1", *, machine: str = "ce.example.org", body: str = "", drop: str = "") -> str:
    """A small usage record; `body` is put at its end, the element `drop` left out."""
    parts = {
        "RecordIdentity": f'<RecordIdentity urf:createTime="2026-01-02T03:04:05Z" urf:recordId="ur-{machine}-{job}"/>',
        "JobIdentity": f"<JobIdentity><GlobalJobId>{job}</GlobalJobId><LocalJobId>17</LocalJobId></JobIdentity>",
        "Status": "<Status>completed</Status>",
        "WallDuration": "<WallDuration>PT60S</WallDuration>",
        "EndTime": "<EndTime>2026-01-02T03:04:00Z</EndTime>",
        "MachineName": f"<MachineName>{machine}</MachineName>",
    }
    kept = "".join(text for name, text in parts.items() if name != drop)
    return f"<JobUsageRecord>{kept}{body}</JobUsageRecord>"


def usage_records(*records: str) -> str:
    """A document of usage records with every namespace the server knows."""
    declared = " ".join(f'xmlns:{prefix}="{space}"' for prefix, space in NAMESPACES.items())
    root = f'<UsageRecords xmlns="{NAMESPACES["urf"]}" {declared}>'
    return f'<?xml version="1.0" encoding="utf-8"?>{root}{"".join(records)}</UsageRecords>'


def job_message(version: str = "v0.3", **fields: str | None) -> str:
    """An individual job message; a field None is left out."""
    now = int(time.time())
    known = {
        "Site": "TEST-SITE",
        "SubmitHost": "https://ce.example.org:443/arex",
        "LocalJobId": "17",
        "WallDuration": "60",
        "CpuDuration": "50",
        "Processors": "2",
        "NodeCount": "1",
        "StartTime": str(now - 100),
        "EndTime": str(now - 40),
        "InfrastructureType": "grid",
        **({"ServiceLevel": "{HEPscore23: 12.5}"} if version == "v0.4" else {}),
        **({} if version == "v0.4" else {"ServiceLevelType": "HEPSPEC", "ServiceLevel": "10.5"}),
        **fields,
    }
    return _message(f"APEL-individual-job-message: {version}", known)


def summary_message(header: str = "APEL-summary-job-message: v0.2", **fields: str | None) -> str:
    """A summary of March 2010; a field None is left out."""
    own = {
        "APEL-summary-job-message: v0.3": {"NormalisedWallDuration": "1000", "NormalisedCpuDuration": "900"},
        "APEL-normalised-summary-message: v0.4": {
            "NormalisedWallDuration": "{HEPscore23: 1000.7}",
            "NormalisedCpuDuration": "{HEPscore23: 900}",
        },
        "APEL-summary-job-message: v0.2": {"ServiceLevelType": "HEPSPEC", "ServiceLevel": "10"},
        "APEL-summary-job-message: v0.4": {"ServiceLevel": "{HEPSPEC: 10}"},
    }.get(header, {})
    known = {
        "Site": "TEST-SITE",
        "Month": "3",
        "Year": "2010",
        "GlobalUserName": "/CN=Jane",
        "VO": "atlas",
        "SubmitHost": "ce",
        "NodeCount": "1",
        "Processors": "1",
        "WallDuration": "100",
        "CpuDuration": "90",
        "NumberOfJobs": "5",
        **own,
        **fields,
    }
    return _message(header, known)


def sync_message(**fields: str | None) -> str:
    """A sync record of January 2010; a field None is left out."""
    known = {"Site": "TEST-SITE", "SubmitHost": "ce", "NumberOfJobs": "3", "Month": "1", "Year": "2010", **fields}
    return _message("APEL-sync-message: v0.1", known)


def _message(header: str, fields: dict[str, str | None]) -> str:
    lines = [f"{name}: {value}" for name, value in fields.items() if value is not None]
    return "\n".join([header, *lines, "%%", ""])

"""A real A-REX 7 in a Debian 13 of its own, with arcacct installed there as the manual says."""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import subprocess
import sys

import debian_root
import live_arex

ON_REQUEST = [*live_arex.ON_REQUEST[:2]]
"""The marks of every test that does."""
SUITE = "trixie"
PACKAGES = (*live_arex.PACKAGES, "python3-venv", "voms-clients")
STATES = (*live_arex.STATES, "INLRMS")
PROJECT = pathlib.Path(__file__).parents[2]
LAUNCHER = "/usr/local/libexec/arcacct-hook"
ARCACCT = "/opt/arcacct/bin/arcacct"
VO = "atlas"
GROUPS = """\
[authgroup:production]
voms=atlas * production *

[authgroup:tokens]
authtokens=* * * * *
"""


class LiveCE7(live_arex.LiveCE):
    """A computing element in a root: /etc/arc.conf, /etc/arc.conf.d with our callouts, the rest below /var/spool/ce."""

    status_file = "{}.status"

    def __init__(self, root: debian_root.DebianRoot) -> None:
        super().__init__(root.path / "var" / "spool" / "ce")
        self.root = root
        self.conf = root.path / "etc" / "arc.conf"
        self.conf_d = root.path / "etc" / "arc.conf.d"
        self.prefix = (*root.prefix, "env", f"--chdir={self.seen(self.home)}")

    def seen(self, path: pathlib.Path) -> str:
        """A path as the commands see it."""
        return f"/{path.relative_to(self.root.path)}"

    def environment(self) -> dict[str, str]:
        """As on a host that has its configuration where everybody looks for it."""
        told = super().environment()
        del told["ARC_CONFIG"]
        return told

    def prepare(self) -> None:
        """Everything new: credentials, the configuration and arcacct."""
        for old in (self.home, self.conf_d, self.root.path / "run" / "arc", self.root.path / "etc" / "grid-security"):
            shutil.rmtree(old, ignore_errors=True)
            old.mkdir(parents=True)
        # Jobs run as nobody.
        self.home.chmod(0o755)
        self.conf.write_text(live_arex.CONF.format(home=self.seen(self.home), ce=live_arex.CE, callouts=""))
        self.configure("10-groups.conf", GROUPS)
        self.credentials()
        # Else the web service makes numbers of its own: half an hour of all the processor.
        self.run(["openssl", "dhparam", "-dsaparam", "-out", self.seen(self.control / "dhparam.pem"), "2048"])
        self._trust_a_voms_server()
        self._trust_an_issuer_of_tokens()
        self._install()

    def configure(self, name: str, text: str) -> None:
        """Write a file into /etc/arc.conf.d."""
        (self.conf_d / name).write_text(text)

    def _trust_a_voms_server(self) -> None:
        """The certificate of the host is its own, too. A-REX looks where everybody does, whatever arc.conf says."""
        cert = self.seen(self.home / "host-localhost-cert.pem")
        said = [
            self.run(["openssl", "x509", "-in", cert, "-noout", f"-{which}", "-nameopt", "compat"]).stdout
            for which in ("subject", "issuer")
        ]
        folder = self.root.path / "etc" / "grid-security" / "vomsdir" / VO
        folder.mkdir(parents=True)
        (folder / "voms.example.org.lsc").write_text("".join(line.partition("=")[2].lstrip() for line in said))

    def voms_proxy(self, *fqans: str) -> dict[str, str]:
        """A proxy with these attributes, as a VOMS server would have given them; the environment of a client."""
        path = self.home / f"proxy-{len(list(self.home.glob('proxy-*')))}"
        user, host = self.user(), self.seen(self.home / "host-localhost")
        self.run([
            *("voms-proxy-fake", "-rfc", "-hours", "24", "-voms", VO, "-uri", "voms.example.org:15000"),
            *("-cert", user["X509_USER_CERT"], "-key", user["X509_USER_KEY"]),
            *("-hostcert", f"{host}-cert.pem", "-hostkey", f"{host}-key.pem"),
            *("-certdir", self.seen(self.home / "ca"), "-out", self.seen(path)),
            *(part for fqan in fqans for part in ("-fqan", fqan)),
        ])  # fmt: skip
        return {"X509_USER_PROXY": self.seen(path)}

    def _trust_an_issuer_of_tokens(self) -> None:
        self._jwt("init")
        issuer = re.search(r"test-jwt://\S+", self._jwt("export"))
        assert issuer
        self.run(["arcctl", "deploy", "jwt-issuer", issuer[0]])

    def token(self, username: str, **claims: object) -> dict[str, str]:
        """A token of this user with further claims, instead of any certificate; the environment of a client."""
        token = self._jwt("token", "-n", username, "-c", json.dumps(claims)).strip()
        nothing = dict.fromkeys(("X509_USER_PROXY", "X509_USER_CERT", "X509_USER_KEY"), "/nowhere")
        return {"BEARER_TOKEN": token, **nothing}

    def _jwt(self, *arguments: str) -> str:
        return self.run(["arcctl", "test-jwt", "--jwk-dir", self.seen(self.home / "jwt"), *arguments]).stdout

    def _install(self) -> None:
        """Install this tree into /opt/arcacct, launcher and callouts, as the manual says; the wheels come along."""
        wheels = self.home / "wheels"
        pip = [sys.executable, "-m", "pip", "--quiet"]
        subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", wheels, PROJECT], check=True)
        (ours,) = wheels.glob("arcacct-*.whl")
        version = self.run(["python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).stdout.strip()
        download = ["download", "--only-binary=:all:", "--python-version", version, "-d", wheels, ours]
        subprocess.run([*pip, *download], check=True)
        self.run(["python3", "-m", "venv", "--clear", "/opt/arcacct"])
        self.run(["/opt/arcacct/bin/pip", "install", "--no-index", "--find-links", self.seen(wheels), "arcacct"])
        launcher = self.root.path / LAUNCHER.lstrip("/")
        launcher.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(PROJECT / "etc" / "arcacct-hook", launcher)
        shutil.copy2(PROJECT / "etc" / "arc.conf.d" / "arcacct.conf", self.conf_d)

    def arcacct(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """One of our commands, on the host of this CE."""
        return self.run([ARCACCT, *arguments], check=check)

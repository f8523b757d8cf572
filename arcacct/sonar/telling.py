"""
Envelopes of this host, as text.

Zeros, empty texts and empty lists are left out, as Sonar does; what our reader of Sonar's format takes for granted
holds here (a test reads back what this writes). What this imports is counted (`arcacct.sonar.lean`): hence no json.
"""

import os
import time

from arcacct import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Fields = dict[str, Any]

_CONTROLS = {number: f"\\u{number:04x}" for number in (*range(0x20), 0x7F)}
_ESCAPES = {**_CONTROLS, ord('"'): '\\"', ord("\\"): "\\\\"}


class Host:
    """Where this host tells about itself, and what it is called."""

    __slots__ = ("cluster", "node", "proc", "sys")

    def __init__(self, cluster: str = "", node: str = "", proc: str = "/proc", sys: str = "/sys") -> None:
        self.cluster = cluster
        self.node = node
        self.proc = proc
        self.sys = sys

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node or os.uname().nodename


def line(probe: "Callable[[], Fields]", kind: str, host: Host, *, of_node: bool = True) -> "tuple[str, bool]":
    """
    One envelope as one line of JSON, and whether the probe succeeded.

    A probe that fails makes an errors envelope: whoever reads the stream learns why there is nothing. ``of_node``: it
    tells of this node, and not of its cluster.
    """
    meta = {"producer": "arcacct", "version": _version()}
    whose = {"time": now(), "cluster": host.cluster, "node": host.name}
    try:
        about = whose if of_node else {key: value for key, value in whose.items() if key != "node"}
        found: Fields = {"meta": meta, "data": {"type": kind, "attributes": with_content(about) | probe()}}
    except Exception as error:
        # psutil's errors are no other's kind, and to import it for its name alone would cost a sample's time.
        if not isinstance(error, (OSError, ValueError, LookupError)) and type(error).__module__ != "psutil._common":
            raise
        found = {"meta": meta, "errors": [{"detail": f"{kind}: {error}"} | with_content(whose)]}
    return json_text(found), "data" in found


def _version() -> str:
    """Python's 0.1.dev3 or 0.1 as a semantic version."""
    numbers = [part for part in __version__.split(".")[:3] if part.isdigit()]
    return ".".join([*numbers, "0", "0", "0"][:3])


def now() -> str:
    """This moment with its offset, whole seconds."""
    return moment(time.time())


def moment(at: float) -> str:
    """A time with the offset that holds then, whole seconds."""
    local = time.localtime(at)
    minutes = local.tm_gmtoff // 60
    sign = "-" if minutes < 0 else "+"
    return time.strftime(f"%Y-%m-%dT%H:%M:%S{sign}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}", local)


def with_content(fields: "Fields") -> "Fields":
    """Without zeros and what is empty."""
    return {key: value for key, value in fields.items() if value not in (0, "", [], {}, None, False)}


def json_text(value: "Any") -> str:
    """A value as JSON, without blanks."""
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPES)}"'
    if isinstance(value, dict):
        return f"{{{','.join([f'{json_text(key)}:{json_text(one)}' for key, one in value.items()])}}}"
    if isinstance(value, (list, tuple)):
        return f"[{','.join([json_text(one) for one in value])}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)

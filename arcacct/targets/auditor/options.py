"""Targets of AUDITOR, a block [arcacct/auditor:NAME], and the limits of AUDITOR's server (0.11.0)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from arcacct.benchmark import TYPES
from arcacct.config import options, values
from arcacct.config.options import Spec, Target, TargetKind, TransportOptions, choice, flag, messages, plain
from arcacct.targets.common import INT8

# The limits of AUDITOR's server (0.11.0): the types of its records, and the limits of its framework for a body.


LONGEST_NAME = 256
"""Graphemes (a text has at most as many as characters): of ids, keys and values of meta, components and scores."""
LARGEST_AMOUNT = INT8
LARGEST_BODY = 2 * 1024 * 1024


# Targets of AUDITOR: a block [arcacct/auditor:NAME].


NO_NAME = "-"
META = {name: name for name in ("site_id", "headnode", "voms", "subject", "user_id", "group_id", "collector_type")}
COMPONENTS = {name: name for name in ("Cores", "TotalCPU", "NNodes", "Memory")}
FURTHER = dict.fromkeys(("GPUs", "GPUTime", "Energy"), NO_NAME)
SCORES = {"HEPscore23": "hepscore23", "HEPSPEC": "HEPSPEC06", "Si2k": "si2k"}
"""
The components of a record, and their names in AUDITOR's Slurm collector and in the template of its APEL plugin. FURTHER
components are sent only under a name that the site gives, and if their amount is known.
"""

_MAY_GO = ("subject", "user_id", "group_id", "collector_type", "NNodes", "Memory", *FURTHER)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditorTarget(Target):
    """Records posted to AUDITOR."""

    transport_options: TransportOptions
    url: str = field()  # Without field() the property of `Target` would be its default.
    """``https://HOST:8443``, without a slash at its end."""
    site_id: str
    rename: tuple[tuple[str, str], ...]
    """The components of a record, and their names here; `NO_NAME`: it is left out."""
    score_type: str | None
    """
    The benchmark that each record must have; ``any``: any type; ``None``: the type of the default for jobs that have
    none.
    """

    @property
    def receiver(self) -> tuple[object, ...]:
        """One server has the records of many sites."""
        return (self.url, self.site_id)

    def credentials(self) -> TransportOptions | None:
        """Plain HTTP needs none."""
        return None if self.url.startswith("http://") else self.transport_options

    def doubles(self, other: AuditorTarget) -> str | None:
        """Under another id a job is another record."""
        if (self.localid_prefix or "") == (other.localid_prefix or ""):
            return None
        return "with another localid_prefix, and AUDITOR would have every job twice"

    def wrong(self) -> Iterator[tuple[str, str]]:
        """Two values under one name: the later would replace the other, or be ignored."""
        for kind in (META, COMPONENTS | FURTHER, SCORES):
            names = [name for name in (kind | {k: v for k, v in self.rename if k in kind}).values() if name != NO_NAME]
            for name in sorted({name for name in names if names.count(name) > 1}):
                yield "rename", f"two values would have the name {name!r}; give each its own name"


def server_url(value: str) -> str:
    """``https://HOST[:PORT][/PATH]``, or the same with http. Raises ValueError."""
    scheme = "http" if value.startswith("http://") else "https"
    url = values.https_url(f"https{value.removeprefix('http')}" if scheme == "http" else value)
    # Of two spellings of one server, so that two targets at it are seen.
    place = url.netloc.lower() if scheme == "http" else values.address_of(url).netloc
    return f"{scheme}://{place}{url.path.rstrip('/')}"


def _in_clear(value: str) -> str | None:
    if not value.startswith("http://"):
        return None
    return (
        "is not encrypted, and AUDITOR accepts writes from anyone who reaches that port, whatever its lists; write"
        " https://HOST:8443, unless both are one host and no other host can reach the port"
    )


def named(value: str) -> str:
    """Return a name that AUDITOR and its plugin accept. Raises ValueError."""
    if len(value) > LONGEST_NAME or not (value.isascii() and value.isprintable()):
        raise ValueError(f"{value[:60]!r} is not a name: write at most {LONGEST_NAME} ASCII characters")
    return value


def renamed(value: str) -> tuple[str, str]:
    """``WHAT NAME``, or ``WHAT -`` to leave it out. Raises ValueError."""
    what, _, name = value.partition(" ")
    name = name.strip()
    known = (*META, *COMPONENTS, *FURTHER, *SCORES)
    if what not in known or not name:
        raise ValueError(f"{value!r} is not a valid name; write WHAT NAME, with WHAT one of {', '.join(known)}")
    if name == NO_NAME and what not in _MAY_GO:
        raise ValueError(f"{what} cannot be left out: AUDITOR's APEL plugin would stop, or count without a user")
    return what, named(name)


KIND = TargetKind(
    "arcacct/auditor",
    "auditor",
    (
        Spec("targeturl", "url", server_url, required=True, is_url=True, advice=_in_clear),
        plain("site_id", named, required=True),
        plain("localid_prefix", values.word),
        plain("rename", renamed, repeated=True),
        Spec("score_type", "score_type", values.one_of(*TYPES, "any"), words=(*TYPES, "any")),
        *messages("500", "0"),
        *(spec for spec in options.SELECTION if spec.name != "start_time_source"),
        choice("start_time_source", "wall", "wall", "lrms"),
        *options.TRANSPORT,
        flag("ca_system"),
    ),
    AuditorTarget,
)

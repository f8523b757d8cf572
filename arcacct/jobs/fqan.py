"""VOMS attributes, and the VO that a site names for jobs without them."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple


class FQAN(NamedTuple):
    """
    A fully qualified attribute name: ``/atlas/uk/Role=production/Capability=NULL``.

    The word ``NULL`` is kept as written: receivers store it, so it is part of what was published before.
    """

    group: str
    """With its leading slash: ``/atlas/uk``."""
    role: str | None = None
    capability: str | None = None

    @property
    def vo(self) -> str:
        """The first component of the group."""
        return self.group.split("/", 2)[1]

    def __str__(self) -> str:
        """The attribute as VOMS writes it."""
        role = "" if self.role is None else f"/Role={self.role}"
        capability = "" if self.capability is None else f"/Capability={self.capability}"
        return f"{self.group}{role}{capability}"


@lru_cache(maxsize=4096)
def parsed_fqan(text: str) -> FQAN | None:
    """The attribute, or None if the text is not one (a token's claim, an empty line)."""
    if not text.startswith("/"):
        return None
    groups: list[str] = []
    values: dict[str, str] = {}
    for part in text[1:].split("/"):
        name, equals, value = part.partition("=")
        if equals and name in ("Role", "Capability"):
            values.setdefault(name, value)
        elif not values:
            groups.append(part)
    if not all(groups) or not groups:
        return None
    return FQAN("/" + "/".join(groups), values.get("Role") or None, values.get("Capability") or None)


class VO(NamedTuple):
    """``vomsless_vo=[AUTHGROUP ]NAME[#ISSUER]``: whom jobs without VOMS attributes belong to."""

    name: str
    issuer: str | None = None
    authgroup: str | None = None
    """Only jobs that A-REX found in this authgroup."""


class VOs(NamedTuple):
    """The ``vomsless_vo`` rules that a target has."""

    rules: tuple[VO, ...] = ()
    own: bool = False
    """Not those by which jobs are recorded: they come before a VO that was chosen then."""

    def rule(self, vo: str | None, auth_groups: tuple[str, ...]) -> VO | None:
        """
        The rule for a job without VOMS attributes, as A-REX 7 chooses; ``None``: ``vo`` holds.

        The first for an authgroup of the job, else the last for any job. ``auth_groups`` has the job whose VO, if any,
        was chosen by such rules.
        """
        if vo and not (self.own and auth_groups):
            return None
        mine = (one for one in self.rules if one.authgroup in auth_groups)
        for_any = (one for one in reversed(self.rules) if one.authgroup is None)
        return next(mine, None) or next(for_any, None)

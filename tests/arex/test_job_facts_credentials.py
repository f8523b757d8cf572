"""Whom a job belongs to: VOMS attributes, the claims of a token, the authgroups that A-REX found the user in."""

from __future__ import annotations

import pytest
from job_files import JOB, LOCAL, NOON_NS

from arcacct.arex.control_files import JobFiles
from arcacct.arex.job_facts import job_facts
from arcacct.config.paths import VO, JobRules
from arcacct.records.states import StateChange

BARE = b"".join(line for line in LOCAL.splitlines(keepends=True) if not line.startswith(b"voms="))
"""Of a user without VOMS attributes."""
TOKENS, EVERYBODY = b"auth=tokens\n", b"auth=everybody\n"
ISSUER = "https://iam.example.org/"
GROUPS = f"tokenclaim.iss={ISSUER}\ntokenclaim.wlcg.groups=/atlas/production\ntokenclaim.wlcg.groups=/cms\n".encode()
KEPT = {"wlcg.groups": ("group",)}
"""As authtokenmap has it."""
ENTITLED = (
    b"tokenclaim.eduperson_entitlement=urn:mace:egi.eu:aai:other\n"
    b"tokenclaim.eduperson_entitlement=urn:mace:egi.eu:group:vo.example.org:admins:role=member#aai.egi.eu\n"
)


def facts_of(local: bytes, *, hashed: bool = True, **rules: object) -> StateChange:
    """The facts of a job with this .local under rules of the site."""
    files = JobFiles("/control", JOB, "ACCEPTED")
    files.event_ns, files.local, files.hashed = NOON_NS, local, hashed
    return job_facts(files, JobRules("HEPSPEC:1.0", **rules))  # type: ignore[arg-type]


def rule(name: str, authgroup: str | None = None, issuer: str | None = None) -> VO:
    """One line vomsless_vo."""
    return VO(name, issuer, authgroup)


@pytest.mark.parametrize(
    ("local", "rules", "vo"),
    [
        pytest.param(LOCAL, [rule("dteam")], "atlas", id="VOMS comes first"),
        pytest.param(BARE, [], "", id="no rule"),
        pytest.param(BARE, [rule("dteam", issuer="/CN=voms")], "dteam", id="for all"),
        pytest.param(BARE + TOKENS, [rule("dteam", "tokens")], "dteam", id="of the authgroup"),
        pytest.param(BARE + EVERYBODY, [rule("dteam", "tokens")], "", id="of another authgroup"),
        pytest.param(BARE, [rule("dteam", "tokens")], "", id="of no authgroup"),
        pytest.param(BARE + EVERYBODY + TOKENS, [rule("a", "tokens"), rule("b", "everybody")], "a", id="first rule"),
        pytest.param(BARE + EVERYBODY, [rule("a", "tokens"), rule("b")], "b", id="the rest"),
        pytest.param(
            BARE + TOKENS + EVERYBODY, [rule("b", "everybody"), rule("a", "tokens")], "b", id="order of lines"
        ),
        pytest.param(BARE + TOKENS, [rule("a", "tokens"), rule("b", "tokens")], "a", id="authgroup twice"),
        pytest.param(BARE + TOKENS, [rule("b"), rule("a", "tokens")], "a", id="authgroup before all"),
        pytest.param(BARE, [rule("b"), rule("n", "never"), rule("c")], "c", id="last for all"),
    ],
)
def test_the_vo_of_a_job_without_voms(local: bytes, rules: list[object], vo: str) -> None:
    """As a live A-REX 7.0 chose: the first line for an authgroup of the job, else the last line for all jobs."""
    assert facts_of(local, vomsless_vos=tuple(rules)).vo == vo


def test_arc_6_gives_no_vo_when_it_records() -> None:
    """There the VO is chosen when a job is published."""
    assert facts_of(BARE + TOKENS, hashed=False, vomsless_vos=(rule("dteam"),)).vo == ""


@pytest.mark.parametrize(
    ("claims", "vo_claims", "vo"),
    [
        pytest.param(GROUPS, [("wlcg.groups", None)], "atlas", id="group"),
        pytest.param(GROUPS, [("wlcg.groups", ISSUER)], "atlas", id="issuer"),
        pytest.param(GROUPS, [("wlcg.groups", ISSUER.rstrip("/"))], "atlas", id="issuer without slash"),
        pytest.param(GROUPS, [("wlcg.groups", "https://other.example.org/")], "dteam", id="another issuer"),
        pytest.param(ENTITLED, [("wlcg.groups", None)], "dteam", id="no such claim"),
        pytest.param(
            ENTITLED, [("wlcg.groups", None), ("eduperson_entitlement", None)], "vo.example.org", id="entitlement"
        ),
        pytest.param(b"tokenclaim.vo=bio\n", [("vo", None)], "bio", id="name"),
        pytest.param(b"tokenclaim.scope=openid profile\n", [("scope", None)], "dteam", id="no name"),
        pytest.param(b"tokenclaim.wlcg.groups=/\n", [("wlcg.groups", None)], "dteam", id="no group"),
    ],
)
def test_the_vo_that_a_token_tells(claims: bytes, vo_claims: list[tuple[str, str | None]], vo: str) -> None:
    """By vo_claim, of the issuer that is named, before vomsless_vo; never in place of a VOMS attribute."""
    rules = {"vo_claims": tuple(vo_claims), "vomsless_vos": (rule("dteam"),)}

    assert facts_of(BARE + claims, **rules).vo == vo
    assert facts_of(LOCAL + claims, **rules).vo == "atlas"


def test_no_claim_is_kept_that_is_not_named() -> None:
    """Without authtokenmap those of ARC's default: what the site does not name does not get into the database."""
    facts = facts_of(BARE + GROUPS + ENTITLED + b"tokenclaim.name=Ada\ntokenclaim.sub=4711\ntokenclaim.jti=x\n")

    assert facts.auth_tokens == [("name", "Ada")]
    assert facts_of(BARE + GROUPS, claim_names={}).auth_tokens == []


@pytest.mark.parametrize(
    ("groups", "rules", "expected"),
    [
        (["/cms/production", "/cms"], {"vo_claims": (("wlcg.groups", None),)}, ("cms", "/cms/production")),
        (["/cms", "/cms/production"], {"vo_claims": (("wlcg.groups", None),)}, ("cms", None)),
        (["/cms/t1", "/cms"], {"vomsless_vos": (rule("cms"),), "claim_names": KEPT}, ("cms", "/cms/t1")),
        (["/cmsx/t1"], {"vomsless_vos": (rule("cms"),), "claim_names": KEPT}, ("cms", None)),
        (["/cms/t1"], {"vomsless_vos": (rule("cms"),)}, ("cms", None)),
        (["/cms/t1"], {"claim_names": KEPT}, ("", None)),
    ],
)
def test_the_first_group_of_a_token_is_the_group_of_the_vo(groups, rules, expected) -> None:
    """In the order of `wlcg.groups`, if it is one of the job's VO, and a rule of the site names the claim."""
    claims = "".join(f"tokenclaim.wlcg.groups={group}\n" for group in groups).encode()
    facts = facts_of(BARE + claims, **rules)

    assert (facts.vo, dict(facts.auth_tokens).get("mainfqan")) == expected
    assert [value for name, value in facts.auth_tokens if name == "group"] == (groups if "claim_names" in rules else [])
    assert not facts.has_voms


def test_voms_attributes_go_before_the_groups_of_a_token() -> None:
    facts = facts_of(LOCAL + b"tokenclaim.wlcg.groups=/atlas/uk\n", vo_claims=(("wlcg.groups", None),))

    assert [value for name, value in facts.auth_tokens if name == "mainfqan"] == ["/atlas/Role=production"]


def test_groups_that_the_site_keeps_as_fqans_are_some() -> None:
    """The first is the main one, as when A-REX's record of the job is imported; VOMS attributes come before them."""
    names = {"wlcg.groups": ("vomsfqan",), "iss": ("issuer",)}

    assert facts_of(BARE + GROUPS, claim_names=names).auth_tokens == [
        ("mainfqan", "/atlas/production"),
        ("vomsfqan", "/cms"),
        ("issuer", ISSUER),
    ]
    keys = [key for key, _value in facts_of(LOCAL + GROUPS, claim_names=names).auth_tokens]
    assert keys == ["mainfqan", "vomsfqan", "vomsfqan", "vomsfqan", "issuer"]


@pytest.mark.parametrize(
    ("local", "rules", "auth_groups"),
    [
        pytest.param(BARE + TOKENS + EVERYBODY, {}, ["tokens", "everybody"], id="no VO"),
        pytest.param(BARE + TOKENS, {"vomsless_vos": (rule("dteam"),)}, ["tokens"], id="VO of the site"),
        pytest.param(BARE + TOKENS + GROUPS, {"vo_claims": (("wlcg.groups", None),)}, [], id="VO of the token"),
        pytest.param(LOCAL + TOKENS, {}, [], id="VO of VOMS"),
    ],
)
def test_the_authgroups_are_kept_where_no_credential_tells_a_vo(
    local: bytes, rules: dict[str, object], auth_groups: list[str]
) -> None:
    """A target may have rules of its own for them."""
    assert facts_of(local, **rules).auth_groups == auth_groups

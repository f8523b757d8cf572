from __future__ import annotations

import pytest

from arcacct.sandbox import apel
from arcacct.sandbox.smime import MessageRejected

CAR = "http://eu-emi.eu/namespaces/2012/11/computerecord"
PARTS = {
    "LocalJobId": "<JobIdentity><LocalJobId>17</LocalJobId></JobIdentity>",
    "User": '<UserIdentity><GlobalUserName urf:type="opensslCompat">/CN=Jane</GlobalUserName>'
    '<Group>atlas</Group><GroupAttribute urf:type="FQAN">/atlas/Role=production</GroupAttribute></UserIdentity>',
    "WallDuration": "<WallDuration>PT1H</WallDuration>",
    "CpuDuration": '<CpuDuration urf:usageType="user">PT1M</CpuDuration>'
    '<CpuDuration urf:usageType="all">PT2M</CpuDuration>',
    "StartTime": "<StartTime>2026-01-02T03:00:00Z</StartTime>",
    "EndTime": "<EndTime>2026-01-02T04:00:00Z</EndTime>",
    "Site": '<Site urf:type="gocdb">TEST-SITE</Site>',
    "Infrastructure": '<Infrastructure urf:type="grid" urf:description="ARC-SLURM"/>',
    "ServiceLevel": '<ServiceLevel urf:type="HEPscore23">12.5</ServiceLevel>',
}

GROUP = '<UserIdentity><Group>bio</Group><GroupAttribute urf:type="{}">/b</GroupAttribute></UserIdentity>'


def car(namespace: str = CAR, before: str = "", **parts: str) -> str:
    """A message of one record, parts replaced or (empty) left out."""
    body = "".join({**PARTS, **parts}.values())
    root = f'UsageRecords xmlns="{namespace}" xmlns:urf="{namespace}"'
    return f"{before}<{root}><UsageRecord>{body}</UsageRecord></UsageRecords>"


def values(text: str) -> dict:
    """The values of the only record of a message."""
    (record,) = apel.read(text)
    return record.values


ACCEPTED = {
    "wall": (car(), "WallDuration", 3600),
    "total cpu": (car(), "CpuDuration", 120),
    "first cpu without a total": (
        car(CpuDuration='<CpuDuration urf:usageType="user">PT5S</CpuDuration><CpuDuration>PT9S</CpuDuration>'),
        "CpuDuration",
        5,
    ),
    "end": (car(), "EndTime", 1767326400),
    "end with a zone": (car(EndTime="<EndTime>2026-01-02T06:00:00+02:00</EndTime>"), "EndTime", 1767326400),
    "end with a zone without colon": (
        car(EndTime="<EndTime>2026-01-02T06:00:00+0200</EndTime>"),
        "EndTime",
        1767326400,
    ),
    "end without zone": (car(EndTime="<EndTime>2026-01-02 04:00:00</EndTime>"), "EndTime", 1767326400),
    "role of the fqan": (car(), "VORole", "Role=production"),
    "infrastructure": (car(), "InfrastructureType", "grid"),
    "description": (car(), "InfrastructureDescription", "ARC-SLURM"),
    "benchmark type": (car(), "ServiceLevelType", "HEPscore23"),
    "benchmark": (car(), "ServiceLevel", 12.5),
    "no processors": (car(), "Processors", 0),
    "processors": (car(More="<Processors>4</Processors>"), "Processors", 4),
    "memory is not looked at": (car(More='<Memory urf:storageUnit="KB">9</Memory>'), "MemoryReal", None),
    "vo-group is not looked at": (
        car(User=GROUP.format("vo-group")),
        "VOGroup",
        "None",
    ),
    "group is": (
        car(User=GROUP.format("group")),
        "VOGroup",
        "/b",
    ),
    "attribute without namespace": (car(Infrastructure='<Infrastructure type="grid"/>'), "InfrastructureType", "None"),
    "a declaration before the root": (car(before='<?xml version="1.0"?>'), "Site", "TEST-SITE"),
    "seconds with decimals": (car(WallDuration="<WallDuration>PT1.6S</WallDuration>"), "WallDuration", 2),
    "an empty period": (car(WallDuration="<WallDuration>P</WallDuration>"), "WallDuration", 0),
}


@pytest.mark.parametrize(("text", "field", "value"), ACCEPTED.values(), ids=ACCEPTED)
def test_what_apel_reads_from_a_car(text, field, value):
    """Each column comes from where APEL looks for it."""
    assert values(text)[field] == value


REJECTED = {
    "another namespace": (car("http://eu-emi.eu/namespaces/2012/10/computerecord"), "not recognised"),
    "aggregated": (car("http://eu-emi.eu/namespaces/2012/11/aggregatedcomputerecord"), "not yet supported"),
    "ogf usage record": (car("http://schema.ogf.org/urf/2003/09/urf"), "not recognised"),
    "comment before the root": (car(before="<!-- hello -->"), "not recognised"),
    "not well-formed": (car(Site="<Site>a & b</Site>"), "well-formed"),
    "no records": (f'<UsageRecords xmlns="{CAR}"/>', "No usage record"),
    "no site": (car(Site=""), "Mandatory field Site"),
    "no local id": (car(LocalJobId=""), "Mandatory field LocalJobId"),
    "two totals": (car(CpuDuration='<CpuDuration urf:usageType="all">PT1S</CpuDuration>' * 2), "CpuDuration"),
    "duration in seconds": (car(WallDuration="<WallDuration>3600</WallDuration>"), "duration"),
    "negative duration": (car(WallDuration="<WallDuration>-PT1S</WallDuration>"), "duration"),
    "hours with decimals": (car(WallDuration="<WallDuration>PT1.5H</WallDuration>"), "duration"),
    "epoch": (car(EndTime="<EndTime>1700000000</EndTime>"), "date and time"),
    "end before start": (car(EndTime="<EndTime>2026-01-02T02:00:00Z</EndTime>"), "before"),
    "no benchmark": (car(ServiceLevel=""), "custom not valid"),
    "benchmark without type": (car(ServiceLevel="<ServiceLevel>1</ServiceLevel>"), "ServiceLevel"),
    "benchmark type without namespace": (
        car(ServiceLevel='<ServiceLevel type="HEPSPEC">1</ServiceLevel>'),
        "ServiceLevel",
    ),
    "benchmark without value": (car(ServiceLevel='<ServiceLevel urf:type="HEPSPEC"/>'), "ServiceLevel"),
    "other benchmark": (car(ServiceLevel='<ServiceLevel urf:type="HS06">1</ServiceLevel>'), "HS06 not valid"),
    "processors in words": (car(More="<Processors>four</Processors>"), "no integer"),
}


@pytest.mark.parametrize(("text", "words"), REJECTED.values(), ids=REJECTED)
def test_what_apel_rejects_of_a_car(text, words):
    """A record APEL cannot read rejects the message, with the reason."""
    with pytest.raises(MessageRejected, match=words):
        apel.read(text)


def test_the_recommended_record_is_accepted(test_data):
    """The sample that the real parser accepted is accepted, and nothing of it is lost that APEL keeps."""
    found = values((test_data / "usage-records/good/car.xml").read_text(encoding="utf-8"))
    assert found["Site"] != "None"
    assert found["ServiceLevel"] is not None
    assert isinstance(found["EndTime"], int)

"""
One golden row for each line of ARC's attribute table (Table 4 of its accounting documentation, and Table 5).

What the table calls "not used" is written down as such; where we say more than the table, the row shows it.
"""

from __future__ import annotations

import pytest
from lxml import etree
from record_texts import car, usage_record

from arcacct.records.model import AAR
from arcacct.targets.apel.messages import APELOptions
from arcacct.targets.apel.target import CAR as CAR_DOCUMENT
from arcacct.targets.sgas.target import UsageRecords
from arcacct.targets.sgas.usage_record import UROptions

DOCUMENT = UsageRecords.envelope

CREATED = 1_704_198_660

NOTHING: list[str] = []

# attribute, path and values in the usage record, path and values in the CAR
ROWS = [
    ("jobid", "JobIdentity/GlobalJobId", ["good1"], "JobIdentity/GlobalJobId", ["good1"]),
    (
        "jobid-in-record-id",
        "RecordIdentity/@recordId",
        ["ur-arc1.example.org-good1"],
        "RecordIdentity/@recordId",
        ["ur-arc1.example.org-good1"],
    ),
    ("localid", "JobIdentity/LocalJobId", ["4711"], "JobIdentity/LocalJobId", ["4711"]),
    ("jobname", "JobName", ["my job"], "JobName", ["my job"]),
    ("endpointurl", "MachineName", ["arc1.example.org"], "MachineName", ["arc1.example.org"]),
    ("endpointurl-submithost", "", NOTHING, "SubmitHost", ["https://arc1.example.org:443/arex"]),
    ("endpointurl-site", "", NOTHING, "Site", ["EXAMPLE-SITE"]),
    ("endpointtype", "", NOTHING, "", NOTHING),
    ("lrms", "", NOTHING, "Infrastructure/@description", ["JURA-ARC-SLURM"]),
    ("queue", "Queue", ["grid"], "Queue", ["grid"]),
    (
        "nodename",
        "Host",
        ["wn002.example.org", "wn001.example.org"],
        "Host",
        ["wn001.example.org", "wn002.example.org"],
    ),
    (
        "nodename-primary",
        "Host[@primary='true']",
        ["wn001.example.org"],
        "Host[@primary='true']",
        ["wn001.example.org"],
    ),
    ("clienthost", "SubmitHost", ["ui.example.org"], "", NOTHING),
    (
        "usersn",
        "UserIdentity/GlobalUserName",
        ["/DC=org/DC=example/CN=Test & User"],
        "UserIdentity/GlobalUserName[@type='opensslCompat']",
        ["/DC=org/DC=example/CN=Test & User"],
    ),
    ("localuser", "UserIdentity/LocalUserId", ["atlasprd"], "UserIdentity/LocalUserId", ["atlasprd"]),
    ("localuser-group", "", NOTHING, "UserIdentity/LocalGroup", ["atlas"]),
    ("authtokenattributes", "UserIdentity/VO/Name", ["atlas"], "UserIdentity/Group", ["atlas"]),
    (
        "authtokenattributes-groups",
        "UserIdentity/VO/Attribute/Group",
        ["/atlas", "/atlas/uk"],
        "UserIdentity/GroupAttribute[@type='FQAN']",
        ["/atlas/Role=production/Capability=NULL"],
    ),
    (
        "authtokenattributes-roles",
        "UserIdentity/VO/Attribute/Role",
        ["/Role=production"],
        "UserIdentity/GroupAttribute[@type='vo-role']",
        ["Role=production"],
    ),
    ("projectname", "ProjectName", ["proj1"], "UserIdentity/GroupAttribute[@type='ProjectName']", ["proj1"]),
    ("status", "Status", ["completed"], "Status", ["completed"]),
    ("exitcode", "ExitCode", ["0"], "ExitStatus", ["0"]),
    ("submissiontime", "StartTime", ["2024-01-02T10:00:00Z"], "StartTime", ["2024-01-02T10:00:00Z"]),
    (
        "submissiontime-as-such",
        "SubmitTime",
        ["2024-01-02T10:00:00Z"],
        "TimeInstant[@type='Ctime']",
        ["2024-01-02T10:00:00Z"],
    ),
    ("endtime", "EndTime", ["2024-01-02T12:30:05Z"], "EndTime", ["2024-01-02T12:30:05Z"]),
    ("nodecount", "NodeCount", ["2"], "NodeCount", ["2"]),
    (
        "inputfile",
        "FileTransfers/FileDownload/*",
        [
            "https://se.example.org/in1",
            "600",
            "2024-01-02T10:01:00Z",
            "2024-01-02T10:02:00Z",
            "false",
            "https://se.example.org/in2",
            "400",
            "2024-01-02T10:00:50Z",
            "2024-01-02T10:00:55Z",
            "true",
        ],
        "",
        NOTHING,
    ),
    (
        "outputfile",
        "FileTransfers/FileUpload/*",
        ["https://se.example.org/out", "2000", "2024-01-02T12:28:20Z", "2024-01-02T12:30:00Z"],
        "",
        NOTHING,
    ),
    (
        "usedmemory",
        "Memory[@metric='max'][@type='shared'][@storageUnit='KB']",
        ["4096000"],
        "Memory[@metric='max'][@type='Shared'][@storageUnit='KB']",
        ["4096000"],
    ),
    (
        "usedmaxresident",
        "Memory[@metric='max'][@type='physical'][@storageUnit='KB']",
        ["2048000"],
        "Memory[@metric='max'][@type='Physical'][@storageUnit='KB']",
        ["2048000"],
    ),
    ("usedaverageresident", "Memory[@metric='average']", NOTHING, "Memory[@metric='average']", NOTHING),
    ("usedwalltime", "WallDuration", ["PT7205S"], "WallDuration", ["PT7205S"]),
    # SGAS adds up all CpuDurations, so the sum must not be among them.
    ("usedcputime", "CpuDuration[@usageType='all']", NOTHING, "CpuDuration[@usageType='all']", ["PT50321S"]),
    ("usedusercputime", "CpuDuration[@usageType='user']", ["PT50000S"], "CpuDuration[@usageType='user']", ["PT50000S"]),
    (
        "usedkernelcputime",
        "CpuDuration[@usageType='system']",
        ["PT321S"],
        "CpuDuration[@usageType='system']",
        ["PT321S"],
    ),
    ("usedcputime-for-sgas-columns", "UserTime | KernelTime", ["PT50000S", "PT321S"], "", NOTHING),
    ("cores", "Processors", ["8"], "Processors", ["8"]),
    ("usedscratchspace", "Disk[@type='scratch'][@storageUnit='B']", ["1234567890"], "", NOTHING),
    ("systemsoftware", "", NOTHING, "", NOTHING),
    ("wninstance", "ServiceLevel[@type='wninstance']", ["m5.large"], "ServiceLevel[@type='wninstance']", NOTHING),
    ("RTEs", "RuntimeEnvironment", ["ENV/PROXY", "APPS/HEP-1.0"], "", NOTHING),
    ("data-stagein-volume", "Network[@storageUnit='B']", ["3000"], "", NOTHING),
    ("data-stagein-time", "TimeDuration[@type='stagein']", ["PT70S"], "", NOTHING),
    ("data-stageout-volume", "Network[@metric='total']", ["3000"], "", NOTHING),
    ("data-stageout-time", "TimeDuration[@type='stageout']", ["PT100S"], "", NOTHING),
    (
        "lrms-submission-time",
        "TimeInstant[@type='lrmssubmit']",
        ["2024-01-02T10:03:00Z"],
        "TimeInstant[@type='Qtime']",
        ["2024-01-02T10:03:00Z"],
    ),
    (
        "lrmstarttime",
        "TimeInstant[@type='lrmsstart']",
        ["2024-01-02T10:20:00Z"],
        "TimeInstant[@type='Etime']",
        ["2024-01-02T10:20:00Z"],
    ),
    ("lrmsendtime", "TimeInstant[@type='lrmsend']", ["2024-01-02T12:20:05Z"], "", NOTHING),
    ("benchmark", "ServiceLevel[@type='HEPscore23']", ["12.3"], "ServiceLevel[@type='HEPscore23']", ["12.3"]),
    ("table-5-process-id", "JobIdentity/ProcessId", NOTHING, "JobIdentity/ProcessId", NOTHING),
    ("table-5-charge", "Charge", NOTHING, "Charge", NOTHING),
    ("table-5-swap", "Swap", NOTHING, "Swap", NOTHING),
]


def _values(record: etree._Element, path: str) -> list[str]:
    """What stands at a path, in document order."""
    found = record.xpath(path) if path else []
    return [one if isinstance(one, str) else one.text for one in found]


def _plain(text: str) -> etree._Element:
    """The first record of a document, without namespaces, so that paths read as in the table."""
    root = etree.fromstring(text.encode())
    for element in root.iter():
        element.tag = etree.QName(element).localname
        for name, value in list(element.attrib.items()):
            del element.attrib[name]
            element.set(etree.QName(name).localname, value)
    return root[0]


@pytest.mark.parametrize(
    ("ur_path", "ur_values", "car_path", "car_values"), [pytest.param(*row[1:], id=row[0]) for row in ROWS]
)
def test_attribute(job: AAR, ur_path: str, ur_values: list[str], car_path: str, car_values: list[str]) -> None:
    """An attribute of the accounting record stands where the table says, in SGAS's format and in APEL's."""
    ur = _plain(DOCUMENT.join([usage_record(job, UROptions(), CREATED)]))
    assert _values(ur, ur_path) == ur_values
    apel = _plain(CAR_DOCUMENT.join([car(job, APELOptions("EXAMPLE-SITE"), CREATED)]))
    assert _values(apel, car_path) == car_values


def test_attributes_that_no_receiver_takes_stay_at_home(job: AAR) -> None:
    """The table has no place for the submission interface and the system software: neither is sent."""
    texts = usage_record(job, UROptions(), CREATED) + car(job, APELOptions("EXAMPLE-SITE"), CREATED)
    assert "org.nordugrid.arcrest" not in texts
    assert "Debian" not in texts

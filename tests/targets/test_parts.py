"""A record that is rendered at once is the one that rules and format make of it, one after the other."""

from __future__ import annotations

import pathlib
import tracemalloc
from collections.abc import Sequence
from typing import Any

import arex_corpus as corpus
import pytest
import stored_jobs
from campaigns import cross
from hostile_text import TEXT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from record_texts import car, individual_job, record, usage_record

from arcacct.benchmark import Benchmark
from arcacct.config.paths import VO
from arcacct.config.values import LocalJobs
from arcacct.publishing.batches import UNFORESEEN
from arcacct.publishing.ledger import Names
from arcacct.publishing.plugin import Acceptance, Envelope, RecordFormat, RenderedRecord
from arcacct.records import reader
from arcacct.records.model import AAR, Transfer, VOs
from arcacct.resources import Accelerators
from arcacct.targets.apel.messages import APELOptions, ssm_text
from arcacct.targets.apel.target import APELRecords
from arcacct.targets.auditor.record import RecordOptions
from arcacct.targets.auditor.target import AuditorRecords
from arcacct.targets.parts import Plain, RecordOfParts
from arcacct.targets.sgas.target import UsageRecords
from arcacct.targets.sgas.usage_record import UROptions

NOW = 1_710_000_000
VOMSLESS = st.sampled_from([VOs(), VOs((VO("dteam"), VO("ops", "CN=Issuer & Co", "staff")), own=True)])
GROUPS = st.sampled_from([(), ("/atlas/prod", "/dteam/<x>")])
LOCAL_JOBS = st.sampled_from(
    [(), (LocalJobs("arc"),), (LocalJobs("own", "sge"), LocalJobs("arc", None, 'a "<&>" b'), LocalJobs("own"))]
)
PREFIXES = st.sampled_from(["", "", "ce1-", "/ce1/", "null", " x", "\x01", "é%"])

USAGE_RECORDS = st.builds(
    UROptions,
    host=st.sampled_from([None, "", "lrms.example.org", "h" * 201, "lrms.é", "l\x01.org"]),
    localid_prefix=PREFIXES,
    vomsless_vo=VOMSLESS,
    vo_groups=GROUPS,
    start_time_source=st.sampled_from(["submit", "lrms"]),
    vo_style=st.sampled_from(["arc", "doc"]),
    host_style=st.sampled_from(["multi", "joined"]),
    memory_type=st.sampled_from(["shared", "virtual"]),
    local_jobs=LOCAL_JOBS,
).map(lambda options: UsageRecords(options, can_replace=False))
APEL_OPTIONS = st.builds(
    APELOptions,
    site=st.sampled_from(["EXAMPLE-SITE", 'Site "&" \\', "null", "Zürich"]),
    lrms_host=st.sampled_from([None, "lrms.example.org", "none", "a.pkcs7"]),
    localid_prefix=PREFIXES,
    vomsless_vo=VOMSLESS,
    vo_groups=GROUPS,
    start_time_source=st.sampled_from(["submit", "lrms"]),
    default_benchmark=st.just(Benchmark.parse("HEPSPEC:8")),
    local_group_prefix=st.sampled_from(["", "local-"]),
    local_jobs=LOCAL_JOBS,
)
CARS = APEL_OPTIONS.map(lambda options: APELRecords("car", options))
JOBS = st.builds(
    lambda kind, options, dialect: APELRecords(kind, options._replace(dialect=dialect)),
    st.sampled_from(["individual", "individual-v04"]),
    APEL_OPTIONS,
    st.sampled_from(["server", "seed"]),
)
AUDITOR = st.builds(
    RecordOptions,
    site=st.sampled_from(["SITE", 'Site "%d"', " "]),
    host=st.sampled_from([None, "lrms.example.org", "h" * 255]),
    localid_prefix=PREFIXES,
    vomsless_vo=VOMSLESS,
    vo_groups=GROUPS,
    local_group_prefix=st.sampled_from(["", "local-"]),
    start_time_source=st.sampled_from(["wall", "lrms"]),
    default_benchmark=st.just(Benchmark.parse("HEPSPEC:8")),
    score_type=st.sampled_from([None, "HEPSPEC"]),
    names=st.sampled_from([(), (("Cores", '100%"'), ("Memory", "-"), ("HEPSPEC", "%s"), ("subject", "-"))]),
).map(AuditorRecords)
FORMATS = {"usage records": USAGE_RECORDS, "CAR": CARS, "individual": JOBS, "AUDITOR": AUDITOR}
PLAIN: dict[str, RecordFormat] = {
    "usage records": UsageRecords(UROptions("lrms.example.org"), can_replace=False),
    "CAR": APELRecords("car", APELOptions("EXAMPLE-SITE", lrms_host="lrms.example.org")),
    "individual": APELRecords("individual", APELOptions("EXAMPLE-SITE", lrms_host="lrms.example.org")),
    "AUDITOR": AuditorRecords(RecordOptions("SITE", "lrms.example.org")),
}

BOUNDS = (0, 1, 120, 2**15 - 1, 2**31 - 1, 2**37 - 1, NOW, NOW + 2 * 86400, 2**53, 253_402_300_799, 2**63 - 1)
NUMBERS: list[Any] = [
    *(sign * bound + more for bound in BOUNDS for more in (-1, 0, 1) for sign in (1, -1)),
    2**80,
    # What SQLite holds in a column of numbers, if somebody's program writes it there.
    *(None, True, 1.0, 1.5, -0.0, 2.0**60, float("inf"), float("nan"), "", "1", "many", b"", b"1"),
]
WORDS = [
    *("x" * length for length in (49, 50, 51, 94, 95, 99, 100, 101, 120, 121, 200, 201, 255, 256, 1000, 1001, 70_000)),
    *("/4711", " 4711 ", "4711", "NONE", "null", "", " ", "%%1", "1%%", "pkcs7-mime", "-mime", "mime.17", "pkcs7"),
    *("a\x7fb", "a\x00b", "a\nb", "a\x85b", "\ud800", "\udcc3\udca9", "\uffff", "żółć", "é" * 80, "🚀" * 64),
    *('say "no" & <go>', "]]>", "rUkNDmRiaoAoOSAtDm"),
]
URLS = [
    None, "https://ce.example.org:443/arex", f"https://{'h' * 200}/", f"https://{'h' * 201}/", "https://ü.org/",
    "https://a.pkcs7/", "https://pkcs7-mime.org/", "https://127.0.0.1/", "https://a\x01b/", "https://", *WORDS,
]  # fmt: skip
FQANS = [
    *((), ("/atlas",), ("/atlas/Role=pilot", "/atlas/uk"), ("/atlas/" + "g" * 60,), ("/a/" + "g" * 98 + "/Role=r",)),
    *(("/a/Role=" + "r" * 95,), ("/a/Role=" + "r" * 94,), ("atlas",), *((word,) for word in WORDS)),
]
SEVERAL = [(), *((word,) for word in WORDS), *(("wn1.example.org", word) for word in WORDS), ("ENV",) * 1001]
TIME = NOW - 5000
MOVED = [
    (),
    *((Transfer(word, 5, TIME, TIME, "input"),) for word in (*WORDS, "u" * 2500, "u" * 2501)),
    *((Transfer("gsiftp://se/a", number, TIME, TIME, "input"),) for number in NUMBERS),
    *((Transfer("gsiftp://se/a", 5, number, TIME, "cached_input"),) for number in NUMBERS),
    *((Transfer("gsiftp://se/a", 5, TIME, number, "output"),) for number in NUMBERS),
    (Transfer("gsiftp://se/a", 5, TIME, TIME - 9, "output"), Transfer("gsiftp://se/b", 6, TIME - 20, TIME, "output")),
]
VALUES: dict[str, list[Any]] = {
    "job_id": WORDS,
    "endpoint_url": URLS,
    "endpoint_type": [None, "local", "org.nordugrid.arcrest", *WORDS],
    "status": ["completed", "failed", "aborted", "in-progress", ""],
    "client_host": ["ui.example.org:34567", "[2001:db8::1]:99", "2001:db8::1", "10.0.0.1:1", None, *WORDS],
    "benchmark": [None, "", "HEPSPEC:12.26", "hepscore23 10", "Si2k:3065", "HS06:10", "SPECint:10", "HEPSPEC:0"],
    "fqans": FQANS,
    "node_names": SEVERAL,
    "run_time_environments": SEVERAL,
    "auth_groups": [*SEVERAL, ("staff",)],
    "transfers": MOVED,
    "accelerators": [None, Accelerators(), Accelerators(2, 7000.5, energy_j=9)],
    "local_user": [None, "u:g", "u" * 100 + ":" + "g" * 100, "u:" + "g" * 101, *WORDS],
}
VALUES |= {
    name: [None, *WORDS]
    for name in ("local_job_id", "queue", "user_dn", "vo", "job_name", "lrms", "project", "wn_instance")
}
VALUES |= {name: NUMBERS for name in AAR._fields if name not in VALUES and name != "record_id"}
"""What is put in the place of each value of a job."""

JOB = stored_jobs.aar(
    submit_time=NOW - 9000,
    end_time=NOW - 100,
    node_count=1,
    transfers=(Transfer("https://se.example.org/in1?a=1&b=2", 600, NOW - 8000, NOW - 7900, "input"),),
    lrms_submit_time=NOW - 8900,
    lrms_start_time=NOW - 8000,
    lrms_end_time=NOW - 200,
)


TEXTS = {name for name, values in VALUES.items() if isinstance(values[-1], str) and name not in ("status", "benchmark")}


def rendered(records: RecordFormat, aar: AAR, now: int = NOW) -> RenderedRecord | None:
    """As publishing asks for it."""
    try:
        return records.rendered(aar, now)
    except UNFORESEEN:
        return None


def written(records: RecordFormat, aar: AAR, now: int) -> str:
    """The text of an accepted job, as the format's own functions make it of this job alone."""
    if isinstance(records, UsageRecords):
        return usage_record(aar, records.options, now)
    if isinstance(records, AuditorRecords):
        return record(aar, records.options)
    assert isinstance(records, APELRecords)
    return individual_job(aar, records.options, records.version) if records.version else car(aar, records.options, now)


def check(records: RecordFormat, aar: AAR, now: int = NOW) -> RenderedRecord | None:
    """Nothing, or all that rules and format say of a job, one after the other; and what is repaired of it."""
    at_once = rendered(records, aar, now)
    if at_once is None:
        try:
            verdict = records.accept(aar, now)
            text = None if verdict.refusal else written(records, verdict.aar, now)
        except UNFORESEEN:
            return None
        assert text is None or records.text(verdict.aar, now) == text
    else:
        assert records.accept(aar, now) == Acceptance(aar)
        text = written(records, aar, now)
        assert records.text(aar, now) == text
        assert at_once == RenderedRecord(records.key(aar), text, records.authorisation_group(aar), records.names(aar))
        assert [type(value) for value in at_once] == [str, str, type(records.authorisation_group(aar)), tuple]
        if isinstance(records, APELRecords):
            assert ssm_text(text) == text.encode()
            assert "pkcs7-mime" not in text
    return at_once


@st.composite
def changed_jobs(draw: st.DrawFn) -> AAR:
    """A job that nothing is wrong with, but for a few values."""
    names = draw(st.lists(st.sampled_from(list(VALUES)), max_size=4, unique=True))
    values: dict[str, Any] = {name: draw(st.sampled_from(VALUES[name])) for name in names}
    for name in names:
        if name in TEXTS and draw(st.booleans()):
            values[name] = draw(TEXT)
    return JOB._replace(**values)


@pytest.mark.parametrize("name", FORMATS)
@given(data=st.data(), jobs=st.lists(changed_jobs(), min_size=1, max_size=4))
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_at_once_or_one_after_the_other(name: str, data: st.DataObject, jobs: list[AAR]) -> None:
    """Whatever a database holds and a site chooses, and whatever jobs came before and left their parts."""
    records = data.draw(FORMATS[name])
    for aar in [*jobs, JOB, *jobs]:
        check(records, aar)


@pytest.mark.parametrize(("field", "name"), cross(len(VALUES), [*VALUES], [*PLAIN]))
def test_one_value_at_a_time(field: str, name: str) -> None:
    """Every value that is at a limit, beyond it, of another type or hard to write, in an else plain job."""
    found = [check(PLAIN[name], JOB._replace(**{field: value})) for value in VALUES[field]]

    assert any(found), "nothing was compared"


AMOUNTS = [name for name in VALUES if type(getattr(JOB, name)) is int and name not in ("submit_time", "end_time")]


@pytest.mark.parametrize(("field", "name"), cross(len(AMOUNTS), AMOUNTS, [one for one in PLAIN if one != "AUDITOR"]))
def test_one_number_in_a_job_without_others(field: str, name: str) -> None:
    """The bound of several numbers is that of each: no other one hides it. (AUDITOR is told of cores in any case.)"""
    bare = JOB._replace(**dict.fromkeys(AMOUNTS, 0))
    found = [check(PLAIN[name], bare._replace(**{field: value})) for value in NUMBERS]

    assert any(found), "nothing was compared"


@pytest.mark.parametrize("name", PLAIN)
def test_a_vo_by_the_authgroup_of_a_user(name: str) -> None:
    """Users without attributes who differ in nothing else are of two VOs."""
    vos = VOs((VO("dteam"), VO("ops", "CN=Issuer & Co", "staff")), own=True)
    records = {
        "usage records": UsageRecords(UROptions(vomsless_vo=vos), can_replace=False),
        "CAR": APELRecords("car", APELOptions("EXAMPLE-SITE", vomsless_vo=vos)),
        "individual": APELRecords("individual", APELOptions("EXAMPLE-SITE", vomsless_vo=vos)),
        "AUDITOR": AuditorRecords(RecordOptions("SITE", vomsless_vo=vos)),
    }[name]
    nobody = JOB._replace(fqans=(), vo="dteam", auth_groups=("guests",))

    found = [check(records, one) for one in (nobody, nobody._replace(auth_groups=("staff",)))]

    assert [one is not None and "ops" in one.text for one in found] == [False, True]


@pytest.mark.parametrize(
    "records",
    [
        APELRecords("car", APELOptions("EXAMPLE-SITE", "ce.example.org", local_group_prefix="local-")),
        APELRecords("individual", APELOptions("EXAMPLE-SITE", "ce.example.org", local_group_prefix="local-")),
        AuditorRecords(RecordOptions("SITE", "ce.example.org", local_group_prefix="local-")),
    ],
    ids=["CAR", "individual", "AUDITOR"],
)
def test_a_user_of_the_grid_and_of_the_batch_system(records: RecordFormat) -> None:
    """The same user, whose VO has another name when a job came without the CE."""
    found = [check(records, JOB._replace(fqans=(), endpoint_url=url)) for url in (JOB.endpoint_url, None)]

    assert [one is not None and "local-atlas" in one.text for one in found] == [False, True]


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"cpu_user_s": 2**31 - 1, "cpu_kernel_s": 1}, id="cpu-together-beyond-a-column"),
        pytest.param({"submit_time": NOW, "end_time": NOW - 1}, id="ends-before-it-begins"),
        pytest.param({"end_time": NOW + 1}, id="ends-in-the-future"),
        pytest.param({"local_job_id": "rUkNDmRiaoAoOSAtDm"}, id="two-ids-alike"),
        pytest.param({"local_job_id": "", "job_id": " x "}, id="blanks-around-the-only-id"),
        pytest.param({"endpoint_url": "https://a.pkcs7/", "job_id": "mime1"}, id="a-word-over-a-seam"),
        pytest.param({"endpoint_url": f"https://{'h' * 200}/", "job_id": "x" * 100}, id="long-together"),
        pytest.param({"endpoint_url": None, "queue": None, "fqans": (), "vo": None}, id="local-and-nobodys"),
        pytest.param({"endpoint_url": None, "endpoint_type": "local", "lrms": "a\x01<&>"}, id="local-and-odd"),
    ],
)
def test_values_together(name: str, changes: dict[str, Any]) -> None:
    """What is wrong, or different, with several values only."""
    check(PLAIN[name], JOB._replace(**changes))


@pytest.mark.parametrize("name", PLAIN)
def test_jobs_of_real_arexes_go_at_once(name: str, tmp_path: pathlib.Path) -> None:
    """All of them, of either version: else nothing would be won, and little compared."""
    found = []
    for con in (corpus.swept(corpus.rebuild(tmp_path / "6")), corpus.swept7(tmp_path / "7")):
        page = reader.logged_after(con, 0, 2**62)
        assert page is not None
        found += [check(PLAIN[name], aar, aar.end_time) for _seq, aar in page.records]
        con.close()

    assert len(found) == 75
    assert None not in found


class Queues(RecordOfParts[list[str | None]]):
    """Records that have the queue alone; the options are told which of them were made."""

    envelope = Envelope("queues", "", "", "\n")

    def __init__(self, made: list[str | None], *notes: str) -> None:
        self._notes = notes
        super().__init__(made, {self._queue: ("queue",)})

    @staticmethod
    def _queue(aar: AAR, made: list[str | None]) -> str:
        made.append(aar.queue and aar.queue[:7])
        return str(aar.queue)

    def accept(self, aar: AAR, now: int) -> Acceptance:
        return Acceptance(aar, self._notes)

    def plain(self, aar: AAR, parts: Sequence[Any], local_id: str | None) -> Plain:
        return aar.job_id, None, ()

    def written(self, aar: AAR, parts: Sequence[Any], local_id: str | None, now: int) -> str:
        return f"{parts[0]}\n"

    def key(self, aar: AAR) -> str:
        return aar.job_id

    def names(self, aar: AAR) -> Names:
        return ()


def test_jobs_of_which_something_is_noted_share_parts() -> None:
    """A site whose jobs all have something to be noted has their parts made once, too."""
    made: list[str | None] = []
    records = Queues(made, "no user")

    for number in range(100):
        aar = JOB._replace(job_id=f"{number}", queue=f"queue {number % 2}")
        assert records.rendered(aar, NOW) is None
        assert records.text(aar, NOW) == f"{aar.queue}\n"

    assert made == ["queue 0", "queue 1"]


def test_names_at_will_do_not_fill_the_memory() -> None:
    """Who calls the queue something else in each of 2,000 jobs, by 20,000 characters, leaves no trace of most."""
    records = Queues([])
    tracemalloc.start()
    try:
        for number in range(2000):
            assert records.rendered(JOB._replace(queue=f"{number}{'x' * 20_000}"), NOW)
        kept, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept < 5_000_000

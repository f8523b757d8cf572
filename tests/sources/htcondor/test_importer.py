"""Importing HTCondor's history: each job once, whatever order histories come in, and what A-REX has of it."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest
from htcondor_files import BEGIN, HISTORY, JSON, JSONL, LONG, NOW, CondorHost, ad, arc_job, history

from arcacct.config.paths import QueueBenchmark
from arcacct.config.values import map_rule
from arcacct.database.access import writing
from arcacct.errors import UsageError
from arcacct.export.dataset import Partition
from arcacct.export.jobs import look, pages
from arcacct.queries.questions import Selection, measured_parts
from arcacct.records.recorder import name_id
from arcacct.records.rejected import drop, listed, rejections
from arcacct.sources.engine.runs import BatchSite
from arcacct.sources.htcondor.history import ATTRIBUTES, OVERLAP_S, HistoryCommand, Scores


@pytest.fixture
def host(tmp_path) -> Iterator[CondorHost]:
    found = CondorHost(tmp_path)
    with closing(found.con):
        yield found


def test_a_history(host) -> None:
    report = host.take(HISTORY)

    assert (report.jobs, report.rejected) == (12, 0)
    assert report.unused == {"never started": 1, "not run in the pool": 2}
    assert (report.taken.new, report.taken.added) == (9, 9)
    assert host.rows(
        "SELECT local_job_id, status, exit_code, wall_s, cpu_s, core_count, memory_kib FROM v1_jobs ORDER BY job_id"
    ) == [
        ("120.0", "completed", 0, 1200, 4060, 4, 3594592),
        ("101.0", "completed", 0, 1200, 4060, 4, 3594592),
        ("102.0", "completed", 0, 1200, 4060, 4, 3594592),
        ("102.1", "failed", 3, 1200, 4060, 4, 3594592),
        ("103.0", "completed", 0, 542, 512, 4, 3594592),
        ("104.0", "aborted", 15, 700, 4060, 4, 3594592),
        ("105.0", "failed", 265, 1200, 4060, 4, 3594592),
        ("106.0", "completed", 0, 1200, 4060, 8, 3594592),
        ("107.0", "completed", 0, 1200, 4060, 4, 3594592),
    ]
    assert host.value("SELECT sum(core_s) FROM v1_htcondor_jobs") == host.value(
        "SELECT sum(wall_s * core_count) FROM v1_jobs"
    )


def test_a_job_as_a_record(host) -> None:
    host.take(HISTORY)
    times = "SELECT submit_time, lrms_start_time, end_time FROM v1_jobs WHERE local_job_id = '102.0'"
    columns = "job_id, lrms, node_names, local_user, project, vo, user_dn, fqan, job_name"

    assert host.rows(times) == [(1793587800, 1793588100, 1793589300)]
    assert host.rows(f"SELECT {columns} FROM v1_jobs WHERE local_job_id IN ('102.0', '107.0')") == [
        (
            *("htcondor:schedd01.example.org:102.0:1793587804", "condor", "node07.example.org", "bob", "ttbar"),
            *(None, None, None, 'Zürich "große" \\ Läufe'),
        ),
        (
            *("htcondor:schedd01.example.org:107.0:1793588304", "condor", "node07.example.org", "atlasprd", None),
            *("atlas", "/DC=org/DC=example/CN=Carol Öberg", "/atlas/Role=production/Capability=NULL", "sim-2026"),
        ),
    ]
    assert host.rows("SELECT gpus, exit_signal FROM v1_htcondor_jobs WHERE htcondor_job IN ('105.0', '106.0')") == [
        (None, 9),
        (2, 0),
    ]


def test_any_order_and_any_division_is_the_same(tmp_path) -> None:
    """All four forms, whole and in parts, one after the other in any order."""
    text = HISTORY.read_bytes()
    cut = text.index(b"*** Offset", len(text) // 2)
    cut = text.index(b"\n", cut) + 1
    divisions = [[HISTORY], [text[cut:], text[:cut]], *map(list, itertools.permutations((LONG, JSON, JSONL)))]
    found = []
    for number, outputs in enumerate(divisions):
        host = CondorHost(tmp_path / str(number))
        with closing(host.con):
            for output in outputs:
                host.take(output)
            found.append(host.everything())

    assert all(one == found[0] for one in found)


def test_the_same_again_changes_nothing(host) -> None:
    host.take(HISTORY)
    before, logged = host.everything(), host.logged()
    report = host.take(JSON)

    assert (report.taken.new, report.taken.known, report.taken.changed) == (0, 9, 0)
    assert (host.everything(), host.logged()) == (before, logged)


def test_less_of_a_job_first(host) -> None:
    """An output with few attributes, then all: what is known of both holds."""
    host.take(ad(LastRemoteHost=None, ResidentSetSize_RAW=None).encode())
    report = host.take(history(ad()))

    assert report.taken.changed == 1
    assert host.rows("SELECT node_names, memory_kib FROM v1_jobs") == [("wn01", 2048)]


def test_numbers_of_two_schedds_and_numbers_that_come_again(host) -> None:
    """The schedd and the moment are part of what a job is known by."""
    host.take(history(ad(1), ad(1, schedd="other.example.org"), ad(1, GlobalJobId='"ce.example.org#1.0#1700000000"')))

    assert host.rows("SELECT job_id FROM v1_jobs ORDER BY 1") == [
        ("htcondor:ce.example.org:1.0:1700000000",),
        (f"htcondor:ce.example.org:1.0:{BEGIN}",),
        (f"htcondor:other.example.org:1.0:{BEGIN}",),
    ]


def test_whose_a_job_is(tmp_path) -> None:
    """The site's map lines, before the proxy; else the proxy."""
    site = BatchSite(rules=(map_rule("owner atlas* vo=mapped"), map_rule("project ttbar vo=top")))
    host = CondorHost(tmp_path, site)
    with closing(host.con):
        host.take(HISTORY)

        assert dict(host.rows("SELECT local_job_id, vo FROM v1_jobs WHERE vo IS NOT NULL")) == {
            "102.0": "top",
            "107.0": "mapped",
        }
        assert host.value("SELECT user_dn FROM v1_jobs WHERE vo = 'mapped'") is None


TOKEN = {
    "AuthTokenSubject": '"a1b2-c3"',
    "AuthTokenIssuer": '"https://cms-auth.cern.ch/"',
    "AuthTokenGroups": '"/cms/production,/cms"',
    "AuthTokenScopes": '"compute.create,compute.read"',
    "AuthTokenId": '"jti-1"',
}
WHOSE = "SELECT user_dn, vo, vo_group FROM v1_jobs ORDER BY job_id"


def test_a_token_says_whose_a_job_is(host) -> None:
    """Where there is no proxy, and A-REX did not submit it with its own; the first group is that of the VO."""
    proxy = {"x509userproxysubject": '"/CN=Ada"', "x509UserProxyVOName": '"atlas"'}
    host.take(
        history(
            ad(1, **TOKEN),
            ad(2, **TOKEN, **proxy),
            ad(3, **TOKEN, NordugridQueue="grid"),
            ad(4, AuthTokenSubject='"s"'),
            ad(5, **TOKEN | {"AuthTokenGroups": '"cms"'}),
        )
    )

    assert host.rows(WHOSE) == [
        ("https://cms-auth.cern.ch/a1b2-c3", "cms", "/cms/production"),
        ("/CN=Ada", "atlas", None),
        (None, None, None),
        ("s", None, None),
        ("https://cms-auth.cern.ch/a1b2-c3", None, None),
    ]
    query = "SELECT token_subject, token_issuer, token_groups, token_scopes, token_id FROM v1_htcondor_jobs LIMIT 1"
    assert host.rows(query) == [tuple(value.strip('"') for value in TOKEN.values())]


def test_a_job_from_before_tokens_were_read_stays_as_it_is(host) -> None:
    """An upgrade sends nothing again; `--derive-again` makes it again."""
    host.take(history(ad(1)))
    host.con.execute("UPDATE HTCondorJobs SET TokenSubject = NULL")
    logged = host.logged()
    host.take(history(ad(1, **TOKEN)))
    host.take(history(ad(1, **TOKEN)))
    assert (host.rows(WHOSE), host.logged()) == ([(None, None, None)], logged)

    host.con.execute("UPDATE HTCondorJobs SET TokenSubject = NULL")
    assert host.take(history(ad(1, **TOKEN, ExitCode=1))).taken.changed == 1
    assert host.rows(WHOSE) == [("https://cms-auth.cern.ch/a1b2-c3", "cms", "/cms/production")]


def test_a_token_that_another_output_tells(host) -> None:
    """In whatever order."""
    host.take(history(ad(1)))
    host.take(history(ad(1, **TOKEN)))

    assert host.value("SELECT vo FROM v1_jobs") == "cms"


def test_cpu_time_that_is_no_number_is_unknown(host) -> None:
    """As that of a job of several runs of which only the last is told."""
    nan = 'real("NaN")'
    host.take(history(ad(1, RemoteUserCpu=nan, CumulativeRemoteUserCpu=nan), ad(2)))

    assert host.rows("SELECT cpu_s, cpu_user_s, wall_s FROM v1_jobs ORDER BY job_id") == [
        (None, None, 60),
        (100, 99, 60),
    ]
    assert host.value("SELECT sum(jobs_without_cpu) FROM v1_usage_by_month") == 1
    assert host.rows("SELECT cpu_user_s FROM v1_htcondor_jobs ORDER BY job_no") == [(None,), (99,)]


BENCHMARKS = (
    "SELECT (SELECT InfoValue FROM JobExtraInfo AS Info WHERE Info.RecordID = AAR.RecordID AND InfoKey = 'benchmark')"
    " FROM AAR ORDER BY JobID"
)


def test_the_benchmark_of_the_machine(tmp_path) -> None:
    """Before that of the queue, which is for jobs whose machine tells none."""
    host = CondorHost(tmp_path, BatchSite(queue_benchmarks=(QueueBenchmark("grid", "HEPSPEC:10"),)))
    with closing(host.con):
        told = ad(MachineAttrHEPscore230=17.25, NordugridQueue="grid")
        host.take(
            history(told, ad(2, NordugridQueue="grid"), ad(3)), scores=Scores("HEPscore23", "MachineAttrHEPscore230")
        )

        assert host.rows(BENCHMARKS) == [("HEPscore23:17.25",), ("HEPSPEC:10",), (None,)]


MEASURED = "SELECT job_id, wall_s, cpu_user_s, cpu_kernel_s, memory_kib, core_count, node_names, source FROM v1_jobs"


@pytest.mark.parametrize("number", ["1.ce.example.org", "1.ce", "1.condor", "1", "1.0", "1.CE.example.org"])
def test_what_arex_could_not_measure(host, number) -> None:
    """However A-REX's backend writes the number, the job gets what HTCondor measured; there is no second job."""
    arc_job(host, number=number)
    report = host.take(history(ad()))

    assert (report.taken.added, report.taken.enriched) == (0, 1)
    assert host.rows(MEASURED) == [("arc1", 60, 99, 1, 2048, 2, "wn01", "arc")]
    assert host.value("SELECT job_id FROM v1_htcondor_jobs") == "arc1"


@pytest.mark.parametrize(
    ("number", "values"),
    [
        ("1.elsewhere.example.org", {}),
        ("11.ce.example.org", {}),
        ("1.1", {}),
        ("1.ce.example.org", {"proc": 1}),
        ("1.ce.other.org", {}),
    ],
)
def test_another_job_with_such_a_number(host, number, values) -> None:
    """Another cluster, another host's, or a process that A-REX does not make."""
    arc_job(host, number=number)
    host.take(history(ad(**values)))

    assert host.value("SELECT count(*) FROM v1_jobs") == 2


def test_a_job_that_says_that_arex_submitted_it(host) -> None:
    """Then its schedd may be on another host."""
    arc_job(host, number="1.gateway.example.org")
    host.take(history(ad(NordugridQueue="grid")))

    assert host.rows("SELECT job_id, wall_s FROM v1_jobs") == [("arc1", 60)]


@pytest.mark.parametrize(("submit", "end"), [(BEGIN + 5000, BEGIN + 6000), (BEGIN - 5000, BEGIN - 4000)])
def test_the_same_number_is_not_the_same_job(host, submit, end) -> None:
    """Numbers begin again: it was submitted while A-REX had the job."""
    arc_job(host, SubmitTime=submit, EndTime=end)
    host.take(history(ad()))

    assert host.value("SELECT count(*) FROM v1_jobs") == 2


def test_a_job_that_ends_long_after_arexs(host) -> None:
    """One that A-REX cancelled may stay in the queue for hours: it is no second job."""
    arc_job(host)
    late = {"JobStatus": 3, "EnteredCurrentStatus": BEGIN + 20_000, "CompletionDate": 0}
    host.take(history(ad(**late)))

    assert host.rows("SELECT job_id FROM v1_jobs") == [("arc1",)]


def test_what_arex_measured_stays(host) -> None:
    arc_job(host, UsedWalltime=61, UsedMemory=999_999)
    host.take(history(ad()))
    assert host.rows("SELECT wall_s, memory_kib FROM v1_jobs") == [(61, 999_999)]
    assert host.said == ["arc1: memory_kib is 999999 by A-REX, 2048 by HTCondor; the first is kept"]
    host.prefer_arc = False
    host.work().again()
    assert host.rows("SELECT wall_s, memory_kib FROM v1_jobs") == [(60, 2048)]


def test_a_job_waits_for_arex(host) -> None:
    """One that A-REX has not finished may be it; of a cluster's further processes none is."""
    arc_job(host, StatusID="in-progress", EndTime=0, LocalJobID="")
    host.now = BEGIN + 200
    report = host.take(history(ad(), ad(2), ad(2, 1)))
    assert (report.taken.waiting, report.taken.added) == (2, 1)
    with writing(host.con, host.here) as con:
        con.execute(
            "UPDATE AAR SET (StatusID, EndTime, LocalJobID) = (?, ?, '1.ce.example.org')",
            (name_id(con, "Status", "completed"), BEGIN + 100),
        )
    report = host.take()
    assert (report.taken.waiting, report.taken.added, report.taken.enriched) == (0, 1, 1)
    assert host.value("SELECT wall_s FROM v1_jobs WHERE job_id = 'arc1'") == 60


def test_a_job_that_turns_out_to_be_arexs(host) -> None:
    """A-REX's record came later: what was made of the job before is taken back."""
    host.take(history(ad()))
    arc_job(host)
    report = host.take()

    assert report.taken.enriched == 1
    assert host.rows("SELECT job_id, wall_s FROM v1_jobs") == [("arc1", 60)]


def test_a_record_that_was_pruned_stays_away(host) -> None:
    host.take(HISTORY)
    with writing(host.con, host.here) as con:
        con.execute("DELETE FROM AAR WHERE LocalJobID = '103.0'")
    host.work().again()

    assert host.value("SELECT count(*) FROM v1_jobs") == 8


def test_what_cannot_be_used_is_kept_and_tried_again(host) -> None:
    report = host.take(history(ad(1), ad(2, RemoteWallClockTime=-1.0), ad(3)))

    assert (report.rejected, report.taken.added) == (1, 2)
    assert host.said == ["output: line 24: RemoteWallClockTime: -1.0 is less than 0; left out"]
    ((content,),) = host.rows("SELECT Content FROM ImportQuarantine WHERE Source = 'htcondor'")
    assert content.startswith(b"GlobalJobId = ")
    assert host.retry() == (1, 0, 0)
    with writing(host.con, host.here) as con:
        con.execute("UPDATE ImportQuarantine SET Content = ?", (content.replace(b"-1.0", b"60.0"),))
    assert host.retry() == (1, 1, 0)
    assert host.value("SELECT count(*) FROM v1_jobs") == 3


@pytest.mark.parametrize("length", [200, len(ad(7))])
def test_a_torn_ad_is_not_whole_when_it_is_tried_again(host, length) -> None:
    """Nor is one whose schedd was killed just before it wrote the line behind it."""
    torn = history(ad(1)) + ad(7).encode()[:length]
    report = host.take(torn + ad(3).encode() + f"*** Offset = {len(torn)} ClusterId = 3 ProcId = 0\n".encode())

    assert (report.rejected, report.taken.added) == (1, 2)
    assert host.retry() == (1, 0, 0)
    assert host.value("SELECT count(*) FROM v1_jobs") == 2


SCRIPT = """#!{python}
import json, sys
with open({asked!r}, "a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
sys.stdout.write(open({output!r}).read())
sys.exit({code})
"""


def condor_history(folder, code: int = 0) -> HistoryCommand:
    """A program in condor_history's place."""
    program = folder / "condor_history"
    places = {"asked": str(folder / "asked"), "output": str(JSON), "python": sys.executable}
    program.write_text(SCRIPT.format(code=code, **places))
    program.chmod(0o755)
    return HistoryCommand(str(program))


def test_asking_condor_history(host, tmp_path) -> None:
    """As JSON, without -since, the second time with all that may have left the queue late."""
    command = condor_history(tmp_path)
    with pytest.raises(UsageError, match="condor_history never ran before: pass --since"):
        host.work().ask(command, None)
    for since in (BEGIN, None):
        work = host.work()
        work.ask(command, since)
        work.finish()
    asked = [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines()]

    start = "EnteredCurrentStatus >= {}".format
    assert asked == [
        ["-json", "-attributes", ",".join(ATTRIBUTES), "-constraint", start(BEGIN)],
        ["-json", "-attributes", ",".join(ATTRIBUTES), "-constraint", start(NOW - OVERLAP_S)],
    ]
    assert host.value("SELECT count(*) FROM v1_htcondor_jobs") == 9


def test_condor_history_that_fails_is_asked_again(host, tmp_path) -> None:
    """What it printed before is taken, and nothing is noted."""
    work = host.work()
    work.ask(condor_history(tmp_path, code=1), BEGIN)

    assert (work.report.unreadable, work.report.taken.added) == (1, 9)
    assert host.said == [f"{tmp_path}/condor_history: exit code 1: without a message"]
    assert host.rows("SELECT AskedUntil FROM HTCondorProgress") == []


def test_what_was_rejected_before_is_no_news(host) -> None:
    """Also after it was dropped from the list; another one is."""
    no_wall = {"RemoteWallClockTime": None, "NumJobStarts": 2}
    content = history(ad(1, **no_wall), ad(2))
    first, again = host.take(content), host.take(content)
    assert [(one.rejected, one.news) for one in (first, again)] == [(1, 1), (1, 0)]
    assert len(host.said) == 1
    with writing(host.con, host.here) as con:
        assert drop(con, [one.rejected_id for one in listed(con)]) == 1
        assert drop(con, [1]) == 0
    dropped = host.take(content)
    assert (dropped.rejected, dropped.news, listed(host.con)) == (1, 0, [])
    assert rejections(host.con).by_source == {}
    assert host.take(history(ad(1, **no_wall), ad(3, **no_wall))).news == 1


# GPUs of HTCondor's jobs, counted as Slurm's are: in sums, as attribute, and in datasets.


def counted_s(host: CondorHost, selection: Selection = Selection()) -> float:  # noqa: B008  immutable
    """GPU seconds of all parts of an answer."""
    return sum(part.gpu_s or 0 for part in measured_parts(host.con, selection, ("month",), everything=False))


def test_gpus_times_the_time_that_all_runs_took(host) -> None:
    """Those provided, else those asked for; whatever the number of cores."""
    two = {"NumJobStarts": 2, "RemoteWallClockTime": 30.0}
    host.take(
        history(
            ad(1, GPUsProvisioned=2, RequestGPUs=1),
            ad(2, RequestGPUs=3, **two),
            ad(3, GPUsProvisioned=0),
            ad(4, RequestGPUs="ifThenElse(Big,4,1)"),
        )
    )
    attributes = "SELECT local_job_id, value FROM v1_job_attributes JOIN v1_jobs USING (job_id) WHERE name = 'gpus'"
    numbers = dict(host.rows("SELECT RecordID, LocalJobID FROM AAR"))
    exported = {
        numbers[job.record_id]: job.children["accelerators"][0][1:4]
        for page in pages(host.con, Partition("site", 2026, 11, "ce"))
        for job in page
        if "accelerators" in job.children
    }

    assert counted_s(host) == 2 * 60 + 3 * 30
    assert counted_s(host, Selection(from_s=BEGIN, before_s=BEGIN + 86_400)) == 2 * 60 + 3 * 30
    assert sorted(host.rows(attributes)) == [("1.0", "2"), ("2.0", "3")]
    assert exported == {"1.0": ("ce.example.org", 2, 120), "2.0": ("ce.example.org", 3, 90)}
    assert look(host.con).seen[202611]["accelerators"] == 2 + (2 + 120) + (3 + 90)


def test_a_part_of_a_gpu_is_counted_as_a_part(host) -> None:
    """A text is no number: it is unknown, and counted as that."""
    report = host.take(history(ad(1, GPUsProvisioned=0.5), ad(2, RequestGPUs='"1"')))
    exported = [
        job.children["accelerators"][0][2:4]
        for page in pages(host.con, Partition("site", 2026, 11, "ce"))
        for job in page
        if "accelerators" in job.children
    ]

    assert report.unusable == {"RequestGPUs": 1}
    assert host.rows("SELECT gpus FROM v1_htcondor_jobs ORDER BY htcondor_job") == [(0.5,), (None,)]
    assert counted_s(host) == 30.0
    assert exported == [(1, 30)]


def test_telemetry_knows_better(host) -> None:
    """Where telemetry has the batch system's word of a job, that is counted, and nothing twice."""
    host.take(history(ad(1, GPUsProvisioned=2)))
    host.con.execute("INSERT INTO JobAccelerators SELECT RecordID, 'sonar', 'c', 4, 14400, NULL, NULL, NULL FROM AAR")

    assert counted_s(host) == 14_400

"""ClassAds out of files: HTCondor's own library wrote the real forms, and says what values mean."""

from __future__ import annotations

import sys
from codecs import BOM_UTF8

import pytest
from htcondor_files import HISTORY, JSON, JSONL, LONG, ad, history, jobs, reasons, told
from memory import cost_of

from arcacct.errors import InputError
from arcacct.sources.engine.runs import NoUsage
from arcacct.sources.htcondor.classad import Expression, value_of
from arcacct.sources.htcondor.history import HistoryForm, Scores, read


@pytest.mark.parametrize("path", [HISTORY, LONG, JSON, JSONL], ids=lambda path: path.name)
@pytest.mark.parametrize("piece", [61, 1 << 20])
def test_all_forms_say_the_same(path, piece) -> None:
    """However they are cut into pieces when they are read."""
    scores = Scores("HEPscore23", "MachineAttrHEPscore230")
    expected = sorted(str(one.what) for one in told(HISTORY, scores=scores))

    assert len(expected) == 12
    assert sorted(str(one.what) for one in told(path, piece, scores=scores)) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # As classad2.parseOne of HTCondor 25.14.1 reads them.
        ('"a"', "a"),
        (r'"a\"b"', 'a"b'),
        (r'"C:\dir\n"', r"C:\dir\n"),
        ('"a\\"', "a\\"),
        (r'"a\\\"', r"a\\" + "\\"),
        ('"Zürich"', "Zürich"),
        ('""', ""),
        ("5", 5),
        ("-5", -5),
        ("9223372036854775807", 2**63 - 1),
        ("1.5e3", 1500.0),
        ("1E+300", 1e300),
        (".5", 0.5),
        ("110.0", 110.0),
        ("TRUE", True),
        ("false", False),
        ("undefined", None),
        ("error", None),
        ('"a" + "b"', Expression('"a" + "b"')),
        ("((ResidentSetSize + 1023) / 1024)", Expression("((ResidentSetSize + 1023) / 1024)")),
        ('real("INF")', Expression('real("INF")')),
        ('{ 1,"a",undefined }', Expression('{ 1,"a",undefined }')),
        ("grid", Expression("grid")),
        ("T", Expression("T")),
    ],
)
def test_values(text, value) -> None:
    found = value_of(text)

    assert (found, type(found)) == (value, type(value))


def test_names_in_any_letters_and_the_last_holds() -> None:
    """As the schedd appends what changes last."""
    text = ad(EXITCODE=7, exitCode=3) + "ExitCode=5\n"

    assert jobs(text.encode())["1.0"].exit_status == 5


@pytest.mark.parametrize("length", [30, 100, 200, 333, 350])
def test_a_torn_ad_costs_itself(length) -> None:
    """A schedd that was killed left the beginning of an ad; the banner behind the next says where that one starts."""
    torn = history(ad(1), ad(2)) + ad(7, GPUsProvisioned=4, ExitSignal=9).encode()[:length]
    content = torn + ad(3).encode() + f"*** Offset = {len(torn)} ClusterId = 3 ProcId = 0\n".encode()
    found = jobs(content)

    assert sorted(found) == ["1.0", "2.0", "3.0"]
    assert found["3.0"] == jobs(history(ad(3)))["3.0"]
    assert reasons(content) == ["truncated: its end was never written"]


@pytest.mark.parametrize("path", [HISTORY, LONG, JSON, JSONL], ids=lambda path: path.name)
def test_a_file_with_the_mark_of_an_editor(path) -> None:
    content = path.read_bytes()

    assert [one.what for one in told(BOM_UTF8 + content)] == [one.what for one in told(content)]


def test_histories_one_behind_the_other() -> None:
    """Then the banners of the later ones count from elsewhere; so they do in a part of a file."""
    text = HISTORY.read_bytes()
    second = text.index(b"\n", text.index(b"*** ")) + 1

    assert (reasons(text + text), jobs(text + text)) == ([], jobs(text))
    assert (reasons(text[second:]), len(jobs(text[second:]))) == ([], 8)


def test_a_file_that_was_edited() -> None:
    """Its banners name other bytes then, and no ad is taken for a torn one."""
    text = HISTORY.read_bytes().replace(b"Rank = 0.0\n", b"", 3).replace(b"alice@example.org", b"alice@e.org")

    assert (reasons(text), sorted(jobs(text))) == ([], sorted(jobs(HISTORY)))


def test_two_ads_in_one_are_not_mixed() -> None:
    """Where no banner tells which line is whose, both are set aside."""
    content = (ad(1, GPUsProvisioned=4) + ad(2)).encode() + b"*** Offset = 77777 ClusterId = 2 ProcId = 0\n"

    assert reasons(content + history(ad(3))) == ["two jobs in one: the end of the first was never written"]
    assert sorted(jobs(content + history(ad(3)))) == ["3.0"]


def test_two_ads_in_one_without_a_number() -> None:
    """The first one was cut before, or within, what it is known by."""
    first = ad(1, GlobalJobId=None, ClusterId=None, Owner='"bob"', QDate=7, RequestCpus=9, ExitCode=3, NumJobStarts=2)
    content = (first + ad(2)).encode() + b"*** Offset = 77777 ClusterId = 2 ProcId = 0\n"

    assert reasons(content) == ["two jobs in one: the end of the first was never written"]


def test_what_is_still_being_written_waits() -> None:
    """A history file is read while its schedd writes: the last ad has no banner yet."""
    content = history(ad(1)) + ad(2).encode()[:-9]

    assert [one.what for one in told(content)][1:] == [NoUsage("unfinished")]
    assert reasons(content) == []


def test_a_cut_output_is_said() -> None:
    """Of condor_history, whose ads have no banners, and of JSON."""
    assert reasons(f"{ad(1)}\n{ad(2)}".encode()[:-2]) == ["truncated: its last line has no end"]
    text = JSON.read_bytes()
    assert reasons(text[: len(text) // 4 * 3]) == ["truncated: it ends before its end"]
    assert len(jobs(text[: len(text) // 4 * 3])) > 2


@pytest.mark.parametrize("piece", [7, 1 << 20])
@pytest.mark.parametrize("content", [b"[\n", JSON.read_bytes().rstrip().removesuffix(b"]")])
def test_a_list_that_is_cut_between_two_ads_is_said(content, piece) -> None:
    """The ads before the cut are good; that none is torn does not mean that none is missing."""
    reading = read([content[at : at + piece] for at in range(0, len(content), piece)], HistoryForm())
    found = [next(reading).what for _ in range(content.count(b'"GlobalJobId"'))]

    assert found == [one.what for one in told(JSON)][: len(found)]
    with pytest.raises(InputError, match="truncated: its list of ads has no end"):
        next(reading)


def test_damage_in_json_costs_one_ad() -> None:
    text = JSON.read_bytes().replace(b'"ClusterId": 105,', b'"ClusterId": 105,,', 1)

    assert reasons(text) == ["damaged: not JSON"]
    assert sorted(set(jobs(JSON)) - set(jobs(text))) == ["105.0"]


def test_a_per_job_history_file_and_no_banner() -> None:
    assert list(jobs(ad(4).encode())) == ["4.0"]


def test_a_banner_of_another_job() -> None:
    content = ad(1).encode() + b"*** Offset = 0 ClusterId = 9 ProcId = 0\n"

    assert reasons(content) == ["its clusterid is 1, and 9 in the line after it"]


def test_a_text_without_an_end_takes_nothing_with_it() -> None:
    """Nor can it pretend to be attributes of the job."""
    content = history(ad(1, Args='"a\nOwner = \\"root\\""'), ad(2))

    assert list(jobs(content)) == ["2.0"]
    assert reasons(content) == ["a text is not closed on its line: '\"a'"]


@pytest.mark.parametrize(
    "content", [b" ID     OWNER          SUBMITTED\n 101.0   alice\n", b'<?xml version="1.0"?>\n<classads>\n']
)
def test_what_is_no_history(content) -> None:
    with pytest.raises(InputError, match="not a ClassAd: use condor_history -json"):
        told(content)


def test_nothing_is_a_history_without_jobs() -> None:
    assert [told(text) for text in (b"", b"\n", b"[\n]\n", b"[]")] == [[], [], [], []]


def test_a_huge_ad_is_left_out_alone() -> None:
    content = history(ad(1), ad(2, Environment='"' + "x" * 5_000_000 + '"'), ad(3))

    assert list(jobs(content)) == ["1.0", "3.0"]
    assert len(told(content)[1].content) <= 1024 * 1024


IDS = r"""b'GlobalJobId = "a#1.0#2"\nClusterId = 1\nProcId = 0\n'"""
BANNER = r"""b'*** Offset = 0 ClusterId = 1 ProcId = 0 Owner = "x"\n'"""
HOSTILE = {
    "800 ads of JSON without an end": r"""b'{"a":[\n' * 800 + b'1,' * 2_000_000""",
    "800 ads of JSON in each other, and damage": r"""b'{"a":[\n' * 800 + b'{},\n' * 500_000 + b'x' + b']}' * 800""",
    "a banner of one word": rf"""{IDS} + b'*** ' + b'a' * 2_000_000 + b'\n'""",
    "a banner of quotes": rf"""{IDS} + b'*** ' + b'a = "' * 400_000 + b'\n'""",
    "a text of escaped quotes": rf"""{IDS} + b'Owner = "' + b'\\"' * 1_000_000 + b'"\n' + {BANNER}""",
    "a text of backslashes": rf"""{IDS} + b'Owner = "' + b'\\' * 2_000_000 + b'"\n' + {BANNER}""",
    "10,000 attributes": rf"""{IDS} + b''.join(b'A%d = %d\n' % (n, n) for n in range(10_000)) * 10 + {BANNER}""",
    "long names": rf"""{IDS} + b''.join(b'A%d' % n * 20_000 + b' = 1\n' for n in range(400)) + {BANNER}""",
    "one line of 60 MB": rf"""{IDS} + b'x' * 60_000_000 + b'\n' + {BANNER}""",
}


@pytest.mark.campaign
@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_time_and_memory_are_in_proportion(content) -> None:
    """MBs of each take a second or two, and some took minutes; the ad behind is read."""
    code = f"""
import io
from arcacct.sources.htcondor.classad import read
def chunks():
    content = io.BytesIO({content})
    yield from iter(lambda: content.read(65536), b"")
    yield b'\\n' + {IDS} + {BANNER} if not content.getvalue().startswith(b"{{") else b'\\n{{"ClusterId": 1}}\\n'
for found in read(chunks(), ("globaljobid", "clusterid", "procid", "owner")):
    pass
assert found.what["clusterid"] == 1
"""
    assert cost_of(sys.executable, "-c", code, most_cpu_s=20).peak_kib < 300 * 1024


def test_an_ad_that_is_too_long_is_left_out_alone() -> None:
    """In JSON as well; what is nested too deeply loses its deep part."""
    text = JSON.read_bytes().strip()[1:-1].strip()
    long = b'{"GlobalJobId": "x", "Environment": "%s"}' % (b"x" * 6_000_000)
    deep = b'{"GlobalJobId": "y", "Environment": %s}' % (b"[" * 5_000 + b"]" * 5_000)
    content = b"[\n" + long + b",\n" + deep + b",\n" + text + b"\n]\n"

    assert sorted(jobs(content)) == sorted(jobs(JSON))
    assert reasons(content)[0].startswith("longer than any job")


def test_an_ad_without_the_beginning_of_a_part_is_quarantined() -> None:
    """Its end seems to come too early: it is not taken without what follows, and the others are as they were."""
    ad = JSON.read_text().partition("{")[2].partition("\n}")[0].lstrip("\n")
    inside = '  "Usage": {\n    "CPUs": 1\n  },\n'
    text = JSON.read_text().replace(ad, inside + ad, 1)
    whole = jobs(text.encode())
    found = jobs(text.replace('  "Usage": {\n', "", 1).encode())

    assert len(found) == len(whole) - 1
    assert set(found) < set(whole)
    assert len(reasons(text.replace('  "Usage": {\n', "", 1).encode())) == len(reasons(text.encode())) + 1

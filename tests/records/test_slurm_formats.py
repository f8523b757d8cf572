"""Ranges of hosts and trackable resources."""

from __future__ import annotations

import sys
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory import cost_of

from arcacct.records.slurm_formats import (
    LATEST_S,
    Instants,
    MalformedError,
    amount,
    clean,
    compress,
    count,
    duration_us,
    exit_code,
    expand,
    instants,
    job_number,
    sampled_use,
    size_kib,
    state,
)
from arcacct.resources import LARGEST, parsed_tres

NAMES = st.lists(st.from_regex(r"[a-z]{1,3}[0-9]{0,4}(-[0-9]{1,3})?(\.[a-z]{1,3}[0-9]?)?", fullmatch=True), max_size=30)


@pytest.mark.parametrize(
    ("ranges", "names"),
    [
        (["vm"], ["vm"]),
        (["c[1-3]"], ["c1", "c2", "c3"]),
        (["n[08-11]"], ["n08", "n09", "n10", "n11"]),
        (["c[001-003].fox"], ["c001.fox", "c002.fox", "c003.fox"]),
        (["a1,b[2,4-5],d"], ["a1", "b2", "b4", "b5", "d"]),
        (["c[1,3]-[2-3]"], ["c1-2", "c1-3", "c3-2", "c3-3"]),
        (["c[1-2]", "c2"], ["c1", "c2"]),
        ([], []),
        (["None assigned"], []),
        (["(null)"], []),
        ([""], []),
    ],
)
def test_ranges_expand(ranges, names):
    """Lists in brackets, several of them, zero padding and commas outside."""
    assert expand(ranges) == names


def test_the_example_of_the_specification():
    """Twelve names."""
    assert len(expand(["c[1-3,5]-[2-4].fox"])) == 12


@pytest.mark.parametrize(
    "text",
    [
        "c[3-1]",
        "c[1-",
        "c]",
        "c[a-b]",
        "c[]",
        "a,,b",
        "c[1-999999999]",
        "c[1-400][1-400]",
        "a b",
        "n[" + "1-99999," * 10000 + "1]",
    ],
)
def test_a_malformed_range_is_refused(text):
    """Bounds in the wrong order, brackets that do not match, lists that would fill the memory."""
    with pytest.raises(MalformedError):
        expand([text])


@given(NAMES)
def test_compressed_names_expand_to_the_same(names):
    """Whatever the names, their list in brackets stands for them, each once."""
    text = compress(names)
    assert sorted(expand([text]) if text else []) == sorted(set(names))


def test_compression_makes_one_list():
    """A whole rack is one short text, also across a power of ten."""
    assert compress([f"n{number:03d}" for number in range(95, 106)]) == "n[095-105]"
    assert compress(["c9", "c10", "c11", "x"]) == "x,c[9-11]"


@pytest.mark.parametrize(
    "made",
    ['["n[1-99999]"] * 2000', '[",".join(["n[1-99999]"] * 2000)]', '["a" + "[1]" * 30_000 + "b", "c[1-99999],d[1-9]"]'],
    ids=["list", "text", "brackets"],
)
def test_a_short_text_costs_little_however_many_names_it_makes(made):
    """Names are counted as they would be made, repeated ones too, before any is made."""
    code = f"""
from arcacct.records.slurm_formats import MalformedError, expand
for _ in range(2):
    try:
        expand({made})
    except MalformedError:
        continue
    raise SystemExit("expanded")
"""
    assert cost_of(sys.executable, "-c", code, most_cpu_s=10).peak_kib < 64 * 1024


def test_names_that_are_written_out_count_as_well():
    """As many as the largest machines have nodes; each once, though it was written twice."""
    assert len(expand(["n[1-50000]", "n[1-50000]"])) == 50_000
    with pytest.raises(MalformedError, match="more than 100000 hosts"):
        expand(["n[1-50000]", "n[1-50000]", "n1"])


def test_a_name_of_digits_is_compressed_in_linear_time():
    """The number is looked for from the end."""
    code = """
from arcacct.records.slurm_formats import compress
assert compress(["1" * 300_000 + "x1"]) == "1" * 300_000 + "x1"
"""
    cost_of(sys.executable, "-c", code, most_cpu_s=10)


# Values as sacct prints them.


OSLO = ZoneInfo("Europe/Oslo")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("00:00:00", 0),
        ("00:10.146", 10.146),
        ("09:59.999", 599.999),
        ("01:23:20", 5000),
        ("2-07:33:20", 200_000),
        ("208-08:00:00", 18_000_000),
        ("00:00.5", 0.5),
    ],
)
def test_durations_have_fractions_below_an_hour_and_days_above_one(text: str, seconds: float) -> None:
    assert duration_us(text) == round(seconds * 10**6)


@pytest.mark.parametrize("text", ["", "Unknown", "INVALID"])
def test_nothing_is_no_duration(text: str) -> None:
    assert duration_us(text) is None


@pytest.mark.parametrize("text", ["10", "1-00", "-00:10", "00:10.1234567", "1-05:00", "UNLIMITED", "00:5", "9" * 30])
def test_what_is_no_duration_is_no_number(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        duration_us(text)


def test_a_duration_is_no_longer_than_can_be_measured() -> None:
    with pytest.raises(ValueError, match="longer than any job"):
        duration_us("999999999-00:00:00")


@pytest.mark.parametrize(
    ("text", "kib"),
    [
        ("3188K", 3188),
        ("3264512", 3188),
        ("2.60M", 2663),
        ("1G", 1024**2),
        ("0", 0),
        ("1", 1),
        ("1.5T", 1536 * 1024**2),
    ],
)
def test_sizes_have_units_or_are_bytes(text: str, kib: int) -> None:
    assert size_kib(text) == kib


@pytest.mark.parametrize("text", ["1X", "-1K", "1 K", "K", "1e9", "18446744073709551614G"])
def test_what_is_no_size_is_no_number(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a size|larger than any measurement"):
        size_kib(text)


def test_numbers() -> None:
    assert (amount("78"), amount(""), amount("INVALID")) == (78, None, None)
    for text in ("-1", "1.0", "x", str(LARGEST + 1), "9" * 40, "²"):
        with pytest.raises(ValueError, match=r"not a number|larger than any measurement"):
            amount(text)


@pytest.mark.parametrize("number", [2**32 - 2, 2**32 - 1, 2**64 - 2, 2**64 - 1])
def test_what_slurm_writes_for_no_number_is_unknown(number: int) -> None:
    """NO_VAL and INFINITE, in 32 and 64 bits, in whatever column they stand."""
    days, seconds = divmod(number, 86_400)
    duration = f"{days}-{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"

    assert [amount(str(number)), count(str(number)), size_kib(str(number)), size_kib(f"{number}K")] == [None] * 4
    assert [duration_us(duration), instants(str(number), OSLO), parsed_tres(f"cpu={number},mem={number}M")] == [
        None,
        None,
        {},
    ]
    with pytest.raises(ValueError, match="not a number of a job"):
        job_number(str(number))


@pytest.mark.parametrize("number", [65534, 65535])
def test_16_bits_are_enough_for_counts_alone(number: int) -> None:
    """A job may take 65,534 s, and use so many KiB."""
    assert count(str(number)) is None
    assert exit_code(f"{number}:0") == (None, 0)
    assert (amount(str(number)), size_kib(f"{number}K"), count("65533")) == (number, number, 65533)


@pytest.mark.parametrize("text", ["16E", "16.00E", "16384P"])
def test_a_size_that_is_unknown_may_have_a_unit(text: str) -> None:
    assert size_kib(text) is None


def test_cpu_time_and_memory_of_a_usage() -> None:
    """As TRESUsageInTot has it."""
    assert sampled_use("cpu=03:50:00,energy=0,fs/disk=123,mem=352000K") == (13_800 * 10**6, 352_000)
    assert sampled_use("energy=0,cpu=1-00:00:01") == (86_401 * 10**6, None)
    assert sampled_use("mem=7.50M,cpu=x,fs/mem=1K") == (None, 7_680)
    nothing = ("", "energy=0", "cpu=", "cpu=x", "fs/cpu=00:00:01", "mem=18446744073709551614", "mem=x")
    assert [sampled_use(text) for text in nothing] == [(None, None)] * 7


def test_times() -> None:
    """Seconds, times with their offset, and local ones."""
    at = Instants(1795326119, 1795326119)
    assert instants("1795326119", OSLO) == at
    assert instants("2026-11-22T02:11:59-0330", OSLO) == at
    assert instants("2026-11-22T06:41:59", OSLO) == at
    assert instants("2026-11-22T05:41:59Z", OSLO) == at
    assert [instants(text, OSLO) for text in ("None", "Unknown", "", "0")] == [None] * 4


def test_a_local_time_that_was_shown_twice() -> None:
    """At the end of summer time there are two; at its beginning an hour is none, and continues as before."""
    assert instants("2026-10-25T02:30:00", OSLO) == (1792888200, 1792891800)
    assert instants("2026-03-29T02:30:00", OSLO) == (1774747800, 1774747800)


@pytest.mark.parametrize("text", ["2026-11-22", "2026-11-22T05:41", "22.11.2026 05:41", "-5", str(LATEST_S), "1e9"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="not a time"):
        instants(text, OSLO)


def test_exit_codes_and_states() -> None:
    assert [exit_code(text) for text in ("0:0", "42:0", "0:9", "")] == [(0, 0), (42, 0), (0, 9), None]
    assert [state(text) for text in ("CANCELLED by 1004", "NODE_FAIL", "CANCELLED+", "")] == [
        "CANCELLED",
        "NODE_FAIL",
        "CANCELLED",
        "",
    ]
    with pytest.raises(ValueError, match="not an exit code"):
        exit_code("9")
    with pytest.raises(ValueError, match="not a state"):
        state("grid")


def test_numbers_of_jobs() -> None:
    found = [job_number(text) for text in ("24", "24.batch", "21_5.0", "51+1", "22_[1-5%2]", "28.extern")]
    assert found == [(24, ""), (24, "batch"), (21, "0"), (51, ""), (22, ""), (28, "extern")]
    for text in ("", "0", "batch", "-1", "1.", "1_", "9" * 20):
        with pytest.raises(ValueError, match="not a number of a job"):
            job_number(text)


def test_texts_that_no_database_keeps() -> None:
    assert clean("Größe 🚀") == "Größe 🚀"
    assert clean("a\0b\udcff") == "a\\x00b\\udcff"

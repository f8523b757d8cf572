"""Ranges of hosts and trackable resources."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory import cost_of

from arcacct.records.slurm_formats import MalformedError, compress, expand, gpu_count, parse

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
    ("text", "found"),
    [
        (
            "billing=32,cpu=32,gres/gpu:a100=1,gres/gpu=1,mem=128G,node=1",
            {"billing": 32, "cpu": 32, "gres/gpu:a100": 1, "gres/gpu": 1, "mem": 128 * 1024**3, "node": 1},
        ),
        ("mem=472.50G", {"mem": round(472.5 * 1024**3)}),
        ("energy=18446744073709551614,cpu=1", {"cpu": 1}),
        ("mem=4000Mn,cpu=2", {"cpu": 2}),
        ("", {}),
    ],
    ids=["all", "fraction", "no value", "old suffix", "empty"],
)
def test_trackable_resources(text, found):
    """Sizes in bytes, what is not measured left out."""
    assert parse(text) == found


@pytest.mark.parametrize(
    ("text", "gpus"), [("gres/gpu:a100=1,gres/gpu=2", 2), ("gres/gpu:a100=1,gres/gpu:h100=3", 4), ("cpu=1", 0)]
)
def test_gpus_are_counted_once(text, gpus):
    """The untyped count, or the sum of the typed ones, never both."""
    assert gpu_count(parse(text)) == gpus


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

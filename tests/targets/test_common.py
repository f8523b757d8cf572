"""The values that formats are made of: XML text, times, VOMS attributes, benchmarks."""

from __future__ import annotations

import pytest
from hostile_text import TEXT
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from arcacct.benchmark import Benchmark
from arcacct.errors import InputError
from arcacct.records.model import FQAN, client_host_name, endpoint_host, parsed_fqan
from arcacct.targets.common import carried, escape, iso_time


@given(TEXT)
def test_any_text_comes_back_from_an_xml_parser(text: str) -> None:
    """Text and attribute of an element are the text again, less what XML has no way to write."""
    element = etree.fromstring(f'<e a="{escape(text)}">{escape(text)}</e>'.encode())
    expected = "".join(filter(carried, text))
    assert (element.text or "") == expected
    assert element.get("a") == expected


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        pytest.param(0, "1970-01-01T00:00:00Z", id="epoch"),
        pytest.param(1_709_164_800, "2024-02-29T00:00:00Z", id="leap-day"),
        pytest.param(1_704_067_199, "2023-12-31T23:59:59Z", id="last-second-of-a-year"),
        pytest.param(-1, "1969-12-31T23:59:59Z", id="before-the-epoch"),
        pytest.param(253_402_300_799, "9999-12-31T23:59:59Z", id="last-second-of-all"),
    ],
)
def test_times_are_utc_with_a_z(seconds: int, text: str) -> None:
    """A time is written in UTC, whatever the zone of the host."""
    assert iso_time(seconds) == text


@pytest.mark.parametrize(
    ("text", "fqan"),
    [
        pytest.param("/atlas", FQAN("/atlas"), id="group"),
        pytest.param("/atlas/Role=production", FQAN("/atlas", "production"), id="role-after-one-group"),
        pytest.param("/atlas/uk/Role=NULL/Capability=NULL", FQAN("/atlas/uk", "NULL", "NULL"), id="nulls-are-kept"),
        pytest.param(
            "/bio.example.org/sub-group/Role=lcgadmin", FQAN("/bio.example.org/sub-group", "lcgadmin"), id="dots"
        ),
        pytest.param("/vo/Capability=x", FQAN("/vo", None, "x"), id="capability-alone"),
        pytest.param("/vo/a=b", FQAN("/vo/a=b"), id="an-equals-sign-is-no-role"),
    ],
)
def test_voms_attributes_are_taken_apart(text: str, fqan: FQAN) -> None:
    """Group, role and capability of an attribute, and the attribute again."""
    assert parsed_fqan(text) == fqan
    assert str(fqan) == text


@pytest.mark.parametrize("text", ["", "/", "atlas", "//", "/atlas/", "/Role=x"])
def test_what_names_no_group_is_no_voms_attribute(text: str) -> None:
    """A text without a group is none."""
    assert parsed_fqan(text) is None


def test_the_vo_is_the_first_part_of_the_group() -> None:
    """As APEL's server derives it."""
    found = parsed_fqan("/atlas/uk/Role=production")
    assert found is not None
    assert found.vo == "atlas"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        pytest.param("HEPSPEC:12.26", "HEPSPEC:12.26", id="lrms-spelling"),
        pytest.param("HEPSPEC 12.26", "HEPSPEC:12.26", id="queue-spelling"),
        pytest.param("hepscore23:1.0", "HEPscore23:1", id="case-and-zeros"),
        pytest.param(" si2k :  3065.10 ", "Si2k:3065.1", id="blanks"),
        pytest.param("HEPSPEC:0.0005", "HEPSPEC:0.001", id="three-decimals"),
        pytest.param("HEPSPEC:9999999.999", "HEPSPEC:9999999.999", id="largest"),
        pytest.param("HEPSPEC:.5", "HEPSPEC:0.5", id="no-leading-zero"),
        pytest.param("HS06:12.26", "HEPSPEC:12.26", id="hs06"),
        pytest.param("hs06 12.26", "HEPSPEC:12.26", id="hs06-in-other-letters"),
        pytest.param("HepSpec06:12.26", "HEPSPEC:12.26", id="hepspec06"),
        pytest.param("HEP-SPEC06 10", "HEPSPEC:10", id="its-whole-name"),
        pytest.param("HEPSPEC:1000000", "HEPSPEC:1000000", id="zeros-of-a-whole-number-stay"),
    ],
)
def test_benchmarks_have_one_spelling(text: str, written: str) -> None:
    """Both spellings are read; type and value are written in one way, without exponent or trailing zeros."""
    assert str(Benchmark.parse(text)) == written


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("HEPSPEC", "form TYPE:VALUE"),
        ("HEPSPEC:ten", "form TYPE:VALUE"),
        ("HEPSPEC:1:2", "form TYPE:VALUE"),
        ("HEPSPEC:-1", "form TYPE:VALUE"),
        ("HEPSPEC:nan", "form TYPE:VALUE"),
        ("SPECint:10", "APEL accepts the types"),
        ("HEPSPEC:0", "above 0"),
        ("HEPSPEC:0.0001", "above 0"),
        ("HEPSPEC:10000000", "below 10000000"),
    ],
)
def test_other_benchmarks_are_refused_with_the_reason(text: str, complaint: str) -> None:
    """A benchmark that APEL would refuse is refused here, in words."""
    with pytest.raises(InputError, match=complaint):
        Benchmark.parse(text)


@given(st.lists(st.tuples(st.integers(0, 2**40), st.integers(1, 10**10 - 1)), max_size=20))
def test_normalised_sums_do_not_depend_on_the_order(jobs: list[tuple[int, int]]) -> None:
    """Seconds times benchmark are exact, so any order of the jobs gives one sum."""
    amounts = [Benchmark("HEPscore23", value).normalised(seconds) for seconds, value in jobs]
    assert sum(amounts) == sum(reversed(amounts)) == sum(seconds * value * 1000 for seconds, value in jobs)


def test_si2k_is_normalised_as_the_server_does() -> None:
    """250 Si2k are one HEPSPEC."""
    assert Benchmark.parse("Si2k:3065").normalised(3600) == Benchmark.parse("HEPSPEC:12.26").normalised(3600)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://ce.example.org:443/arex", "ce.example.org"),
        ("https://CE.Example.org/arex", "CE.Example.org"),
        ("https://[2001:db8::1]:443/arex", "2001:db8::1"),
        ("no url", None),
        (None, None),
    ],
)
def test_the_machine_is_the_host_of_the_endpoint(url: str | None, host: str | None) -> None:
    """In the letters of the URL, as jura-ng took it."""
    assert endpoint_host(url) == host


@pytest.mark.parametrize(
    ("socket", "host"),
    [("ui.example.org:34567", "ui.example.org"), ("[2001:db8::1]:99", "2001:db8::1"), ("2001:db8::1", "2001:db8::1")],
)
def test_the_port_of_a_client_is_removed(socket: str, host: str) -> None:
    """Also where the address itself has colons."""
    assert client_host_name(socket) == host

"""Texts that real names are made of, and texts that break programs."""

from __future__ import annotations

from hypothesis import strategies as st

from arcacct.records.model import AAR, Transfer, UsageCell

ANY = st.text(st.characters(exclude_categories=()), max_size=40)
"""All of Unicode, lone surrogates and control characters included."""

NASTY = st.sampled_from(
    [
        "&<>\"'",
        "]]>",
        "<!--",
        "a\nLocalJobId: fake",
        "%%",
        "%%%",
        "a%",
        "x\r\ny",
        "\x00\x01\x0b\x0c\x1c\x7f",
        "\x85\u2028\u2029",
        "żółć Ω 数据 🚀",
        "\udcc3\udca9",
        "\ud800",
        "none",
        " Null ",
        "",
        " ",
        "application/pkcs7-mime",
        "application/x-pkcs7-mime",
        "\ufffe\uffff",
        "/",
        "//",
        "é" * 300,
        "🚀" * 64,
        "x" * 65_536,
        "\\xC3\\xA9",
        "a:b:c",
        "{HEPSPEC: 1}",
    ]
)
TEXT = st.one_of(NASTY, ANY)
OPTIONAL = st.none() | TEXT
FQANS = st.one_of(
    st.builds("/{}/Role={}".format, TEXT, TEXT),
    st.sampled_from(["/atlas", "/atlas/uk/Role=production/Capability=NULL", "atlas:token"]),
    TEXT,
)
AMOUNTS = st.one_of(st.integers(0, 2**20), st.sampled_from([-1, 0, 2**15, 2**31 - 1, 2**31, 2**53, 2**63, 2**80]))
TIMES = st.one_of(st.integers(1_690_000_000, 1_710_000_000), st.sampled_from([-1, 0, 2**40]))
MAYBE_TIMES = st.none() | TIMES
HOSTS = st.sampled_from([None, "https://ce.example.org:443/arex", "https://CE-2.example.org/arex"])
BENCHMARKS = st.sampled_from(
    [None, "", "HEPSPEC:12.26", "hepscore23 10", "Si2k:3065", "HS06:10", "SPECint:10", "HEPSPEC:0"]
)
NODES = st.lists(st.sampled_from(["wn1.example.org", "wn2.example.org", "127.0.0.1"]) | ANY, max_size=4).map(tuple)

TRANSFERS = st.lists(
    st.builds(Transfer, TEXT, AMOUNTS, TIMES, TIMES, st.sampled_from(["input", "cached_input", "output"])), max_size=3
).map(tuple)

_OPTIONAL = (
    "local_job_id", "endpoint_type", "queue", "user_dn", "vo", "job_name", "lrms", "local_user", "project",
    "system_software", "wn_instance",
)  # fmt: skip
_AMOUNTS = (
    "node_count", "core_count", "memory_kib", "virtual_memory_kib", "wall_s", "cpu_user_s", "cpu_kernel_s",
    "scratch_bytes", "stage_in_bytes", "stage_out_bytes",
)  # fmt: skip
JOBS = st.builds(
    AAR,
    record_id=st.just(1),
    job_id=st.sampled_from(["rUkNDmRiaoAoOSAtDm"]) | TEXT,
    endpoint_url=HOSTS,
    status=st.sampled_from(["completed", "failed", "aborted", "in-progress"]),
    exit_code=st.integers(-(2**40), 2**40),
    fqans=st.lists(FQANS, max_size=3).map(tuple),
    node_names=NODES,
    client_host=st.sampled_from([None, "ui.example.org:34567", "[2001:db8::1]:99", "10.0.0.1:1"]) | TEXT,
    benchmark=BENCHMARKS,
    run_time_environments=st.lists(TEXT, max_size=3).map(tuple),
    transfers=TRANSFERS,
    **dict.fromkeys(_OPTIONAL, OPTIONAL),
    **dict.fromkeys(_AMOUNTS, AMOUNTS),
    **dict.fromkeys(("submit_time", "end_time"), TIMES),
    **dict.fromkeys(("lrms_submit_time", "lrms_start_time", "lrms_end_time"), MAYBE_TIMES),
)

GOOD_AMOUNTS = st.integers(0, 2**20)
GOOD_TIMES = st.integers(1_700_000_000, 1_705_000_000)

READABLE_JOBS = st.builds(
    lambda aar, texts, amounts, start, length: aar._replace(
        status="completed",
        job_id="rUkNDmRiaoAoOSAtDm",
        submit_time=start,
        end_time=start + length,
        benchmark="HEPSPEC:12.26",
        node_count=amounts[0],
        core_count=amounts[1],
        wall_s=amounts[2],
        cpu_user_s=amounts[3],
        cpu_kernel_s=amounts[4],
        queue=texts[0],
        user_dn=texts[1],
    ),
    JOBS,
    st.tuples(OPTIONAL, OPTIONAL),
    st.tuples(*[GOOD_AMOUNTS] * 5),
    GOOD_TIMES,
    GOOD_AMOUNTS,
)
"""Jobs whose numbers are fine and whose texts are not."""

CELLS = st.builds(
    UsageCell,
    year=st.just(2023),
    month=st.sampled_from([11, 12]),
    user_dn=st.sampled_from([None, "/CN=Jane", "/CN=JANE ", "/CN=jane"]) | TEXT,
    vo=st.sampled_from([None, "atlas", "Atlas "]) | TEXT,
    fqan=st.none() | FQANS,
    endpoint_url=HOSTS,
    node_count=st.integers(0, 2),
    core_count=st.integers(0, 2),
    benchmark=st.sampled_from([None, "HEPSPEC:12.26", "hepspec 12.260", "Si2k:3065", "HEPscore23:7.5"]),
    jobs=st.integers(1, 1000),
    wall_s=GOOD_AMOUNTS,
    cpu_s=GOOD_AMOUNTS,
    earliest_end_time=st.integers(1_698_796_800, 1_704_067_200),
    latest_end_time=st.integers(1_698_796_800, 1_704_067_200),
)

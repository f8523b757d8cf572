"""Targets: addresses, options, names, receivers."""

from __future__ import annotations

import conf_files
import pytest
from conf_files import APEL, DIRECTORY, SGAS

from arcacct.config.options import select_targets
from arcacct.config.settings import examine, settings
from arcacct.errors import UsageError
from arcacct.targets import kinds


def target(tmp_path, block):
    (found,) = settings(conf_files.read(tmp_path, block), kinds()).targets
    return found


@pytest.mark.parametrize(
    ("targeturl", "url"),
    [
        pytest.param("https://h:6143/sgas", "https://h:6143/sgas/ur", id="appended"),
        pytest.param("https://h:6143/sgas/", "https://h:6143/sgas/ur", id="slash-at-the-end"),
        pytest.param("https://h:6143/sgas/ur", "https://h:6143/sgas/ur", id="there"),
        pytest.param("https://h:6143/sgas/ur/", "https://h:6143/sgas/ur", id="there-with-slash"),
        pytest.param("https://h/logger", "https://h/logger/ur", id="another-path"),
        pytest.param("https://h", "https://h/sgas/ur", id="no-path"),
        pytest.param("https://h:6143/", "https://h:6143/sgas/ur", id="no-path-but-a-slash"),
        pytest.param("https://H.Example.ORG:443/sgas", "https://h.example.org/sgas/ur", id="usual-port"),
        pytest.param("https://[::1]:6143/sgas", "https://[::1]:6143/sgas/ur", id="ipv6"),
    ],
)
def test_where_usage_records_are_posted(tmp_path, targeturl, url):
    """/ur is appended as ARC does; without a path SGAS's usual one is used."""
    assert target(tmp_path, f"[arex/jura/sgas:one]\ntargeturl = {targeturl}\n").url == url


@pytest.mark.parametrize(
    ("targeturl", "port", "url", "authn"),
    [
        pytest.param("https://h", "", "https://h/v1", "https://h:8443/v1", id="plain"),
        pytest.param("https://h/", "", "https://h/v1", "https://h:8443/v1", id="slash"),
        pytest.param("https://h:8443", "", "https://h:8443/v1", "https://h:8443/v1", id="port"),
        pytest.param("https://h:1234", "authn_port = 99\n", "https://h:1234/v1", "https://h:99/v1", id="both-ports"),
    ],
)
def test_where_messages_go_and_the_token_comes_from(tmp_path, targeturl, port, url, authn):
    """Any port for either service; the path of the token's URL has the host without a port."""
    found = target(tmp_path, f"[arex/jura/apel:egi]\ntargeturl = {targeturl}\ngocdb_name = S\n{port}")
    assert found.url == f"{url}/projects/accounting/topics/gLite-APEL:publish"
    assert found.authn_url == f"{authn}/service-types/ams/hosts/h:authx509"


@pytest.mark.parametrize(
    ("block", "wrong"),
    [
        pytest.param(SGAS.replace("https", "http"), "targeturl: 'http://", id="http"),
        pytest.param(SGAS.replace("https://", ""), "is not an https URL", id="no-scheme"),
        pytest.param(SGAS.replace("sgas.example.org:6143", ""), "is not an https URL", id="no-host"),
        pytest.param(SGAS.replace(":6143", ":port"), "is not a URL", id="port-in-letters"),
        pytest.param(SGAS.replace("//sgas", "//me:pw@sgas"), "parts other than host, port and path", id="password"),
        pytest.param(APEL.replace("example.org", "example.org/v1"), "has a path", id="ams-path"),
        pytest.param(APEL + "topic = a/b\n", "not a name for AMS", id="topic"),
        pytest.param(APEL + "authn_port = 70000\n", "is not a port", id="authn-port"),
        pytest.param(APEL + "apel_dialect = seed\n", "is only for [arcacct/directory] targets", id="seed-to-apel"),
        pytest.param(APEL.replace("EXAMPLE", "Ünal"), "other than ASCII", id="site-not-ascii"),
        pytest.param(APEL + "localid_prefix = ce 1\n", "is not one word of ASCII", id="prefix-of-two-words"),
        pytest.param(DIRECTORY + "localid_prefix = é\n", "is not one word of ASCII", id="prefix-not-ascii"),
        pytest.param(APEL + "vofilter = a,b\n", "one vofilter line for each", id="list-of-vos"),
        pytest.param(APEL + "vomsless_vo = #/CN=x\n", "names no VO", id="issuer-without-vo"),
        pytest.param(APEL + "vomsless_vo = a b c\n", "nor an authgroup and a VO", id="three-words-for-a-vo"),
        pytest.param(APEL + "timeout = 0\n", "is not a time", id="timeout"),
        *(
            pytest.param(
                f"{DIRECTORY}apel_dialect = seed\napel_messages = {kind}\n",
                f"apel_dialect: seed has no form for apel_messages={kind}; write ",
                id=f"{kind}-of-no-specification",
            )
            for kind in ("urs", "individual-v04", "summaries-v04", "normalised-v04")
        ),
        pytest.param(APEL + "local_jobs = never\n", "write own or arc", id="local-jobs"),
        pytest.param(
            SGAS + "local_jobs = sge own infrastructure=X\n",
            "local_jobs: usage records have no infrastructure; remove infrastructure=X",
            id="infrastructure-to-sgas",
        ),
        pytest.param(
            DIRECTORY + "apel_dialect = seed\nlocal_jobs = own infrastructure=X\n",
            "local_jobs: messages of apel_dialect=seed have no infrastructure; remove infrastructure=X",
            id="infrastructure-of-the-specification",
        ),
        pytest.param(DIRECTORY + "layout = flat\n", "write dirq or directory", id="layout"),
        pytest.param(SGAS + "sgas_vo_style = odd\n", "write arc or doc", id="style"),
        pytest.param(SGAS.replace(":one", ""), "the target has no name; write [arex/jura/sgas:NAME]", id="no-name"),
        pytest.param(
            SGAS + "gocdb_name = X\n", "it belongs in [arex/jura/apel] or [arcacct/directory]", id="elsewhere"
        ),
        pytest.param(SGAS + "urbachsize = 5\n", "did you mean urbatchsize?", id="misspelt"),
        pytest.param(SGAS + "colour = red\n", "is not an option of [arex/jura/sgas]; remove it", id="unknown"),
        pytest.param("[arex/jura/apl:x]\n", "did you mean arex/jura/apel?", id="misspelt-block"),
    ],
)
def test_a_wrong_target_is_one_error(tmp_path, block, wrong):
    """What a receiver or a reader could not use is refused with what would be right."""
    _, problems = examine(conf_files.read(tmp_path, block), kinds())
    (problem,) = problems
    assert problem.severity == "error"
    assert wrong in str(problem)
    assert "pw" not in str(problem)


@pytest.mark.parametrize(
    ("block", "warning"),
    [
        pytest.param(SGAS.replace("/sgas\n", "\n"), "has no path, so /sgas/ur is used", id="no-path"),
        pytest.param(SGAS + "urbatchsize = 5\nurbatchsize = 6\n", "is set 2 times; only this line counts", id="twice"),
        pytest.param(SGAS + "vofilter =\n", "has no value, so it is not set", id="empty"),
        pytest.param(APEL + "use_ssl = yes\n", "is obsolete since ARC 6.8", id="obsolete-option"),
        pytest.param("[arex/jura/archiving]\narchivettl = 3\n", "is obsolete since ARC 6.8", id="archiving"),
        pytest.param("[arex/jura]\nvomsles_vo = a\n", "did you mean vomsless_vo?", id="likely-slip"),
        pytest.param("[lrms]\nbenchmark = SPECint:3\n", "type that APEL rejects", id="benchmark-type"),
        pytest.param(
            "[authgroup:tokens]\n[arex/jura]\nvomsless_vo = token atlas\n", "did you mean tokens?", id="authgroup"
        ),
        pytest.param(
            "[arex/jura]\nvomsless_vo = a\nvomsless_vo = b\n", "of several lines for all jobs", id="two-for-any"
        ),
        pytest.param("[arex/jura]\nvomsless_vo = x a\nvomsless_vo = x b\n", "is never used", id="one-authgroup-twice"),
    ],
)
def test_what_is_only_odd_is_a_warning(tmp_path, block, warning):
    """The settings are made, and the warning is kept with them."""
    (problem,) = settings(conf_files.read(tmp_path, block), kinds()).warnings
    assert warning in problem.text


@pytest.mark.parametrize("line", ["HS06:10", "HEPSPEC06 10", "hepscore23:10", "Si2k 3065"])
def test_a_benchmark_that_apel_has_a_name_for_is_no_problem(tmp_path, line):
    """What is published as HEPSPEC may be called HS06 here."""
    assert examine(conf_files.read(tmp_path, f"[lrms]\nbenchmark = {line}\n"), kinds())[1] == []


def test_options_of_arc_that_mean_nothing_to_us_pass_in_silence(tmp_path):
    """ARC's own options and blocks are not ours to complain about."""
    ours = "[arex/jura]\nlogfile = /x\nloglevel = 3\nurdelivery_frequency = 3600\n"
    assert (
        examine(conf_files.read(tmp_path, ours, "[arex]\ncolour = red\n[infosys]\nx = y\n[odd:block]\n"), kinds())[1]
        == []
    )


@pytest.mark.parametrize("size", ["0", "7"])
def test_urbatchsize_0_leaves_it_to_the_limit_in_bytes(tmp_path, size):
    """jura-ng's documented "unlimited", which it crashes on, is no limit of records here."""
    assert target(tmp_path, f"{SGAS}urbatchsize = {size}\n").urbatchsize == (int(size) or None)


def test_our_blocks_do_not_belong_in_arc_conf(tmp_path):
    """A-REX refuses to start with a block it does not know: the error says where the block goes."""
    _, problems = examine(
        conf_files.read(tmp_path, arc=conf_files.ARC + "[arcacct]\nsettle = 1\n" + DIRECTORY), kinds()
    )
    assert [problem.block for problem in problems] == ["arcacct", "arcacct/directory:out"]
    assert "or rename it [custom:arcacct]" in problems[0].text


def test_misplaced_lines_are_errors_in_our_file_and_warnings_in_arcs(tmp_path):
    """A-REX ignores a line it cannot read, and so do we; arcacct.conf must be right."""
    _, problems = examine(conf_files.read(tmp_path, SGAS + "some words\n", "[common]\nsome words\n"), kinds())
    assert [(problem.severity, problem.line) for problem in problems] == [("warning", 2), ("error", 3)]


@pytest.mark.parametrize(
    ("first", "second", "severity"),
    [
        pytest.param("apel_messages = urs\n", "apel_messages = summaries\n", "error", id="jobs-and-summaries"),
        pytest.param("apel_messages = summaries\n", "apel_messages = summaries-v03\n", "error", id="two-summaries"),
        pytest.param("apel_messages = urs\n", "apel_messages = individual\n", "warning", id="same-key"),
        pytest.param("", "", "warning", id="same-family"),
        pytest.param(
            "apel_messages = urs\nlocalid_prefix = a\n",
            "apel_messages = individual\nlocalid_prefix = b\n",
            "error",
            id="two-prefixes",
        ),
        pytest.param("localid_prefix = a\n", "", "warning", id="prefix-of-summaries"),
        pytest.param("vofilter = a\n", "apel_messages = urs\nvofilter = b\n", None, id="other-vos"),
        pytest.param("vofilter = a\n", "apel_messages = urs\n", "error", id="one-filtered"),
        pytest.param("topic = test\n", "apel_messages = urs\n", None, id="other-topic"),
    ],
)
def test_two_targets_to_one_receiver(tmp_path, first, second, severity):
    """An error where APEL would count jobs twice, a warning where the second is only wasted."""
    _, problems = examine(conf_files.read(tmp_path, APEL + first + APEL.replace(":egi", ":two") + second), kinds())
    assert [problem.severity for problem in problems] == ([severity] if severity else [])
    assert all("same receiver as apel:egi" in problem.text for problem in problems)


@pytest.mark.parametrize("block", [APEL, DIRECTORY])
def test_a_site_of_apel_is_the_same_in_upper_and_lower_case(tmp_path, block):
    """As APEL's database compares names: records and summaries would be added up."""
    other = block.replace("EXAMPLE", "Example").replace(":egi", ":two").replace(":out", ":two")
    _, problems = examine(conf_files.read(tmp_path, f"{block}{other}apel_messages = urs\n"), kinds())
    assert [problem.severity for problem in problems if "goes to the same receiver" in problem.text] == ["error"]


def test_two_sgas_targets_with_one_address_are_a_warning(tmp_path):
    """However its URL is spelt; SGAS ignores the repeats."""
    other = SGAS.replace(":one", ":two").replace("/sgas\n", "/sgas/ur/\n")
    assert [problem.block for problem in settings(conf_files.read(tmp_path, SGAS + other), kinds()).warnings] == [
        "arex/jura/sgas:two"
    ]


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        pytest.param(None, ["sgas:one", "apel:one", "apel:egi", "directory:out"], id="all"),
        pytest.param("apel:one", ["apel:one"], id="full"),
        pytest.param("egi", ["apel:egi"], id="short"),
        pytest.param("arcacct/directory:out", ["directory:out"], id="block"),
    ],
)
def test_targets_are_chosen_by_name(tmp_path, name, chosen):
    """By kind and name, by the block's name, or by the name alone where only one has it."""
    ours = SGAS + APEL.replace("egi", "one").replace("SITE", "OTHER") + APEL + DIRECTORY
    found = select_targets(settings(conf_files.read(tmp_path, ours), kinds()).targets, name)
    assert [target.name for target in found] == chosen


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        pytest.param("one", "'one' is the name of more than one target; the targets are: sgas:one, apel:one", id="two"),
        pytest.param("egi", "'egi' is not the name of a target; the targets are: sgas:one, apel:one", id="none"),
    ],
)
def test_a_name_that_is_not_one_target_lists_those_there_are(tmp_path, name, complaint):
    """A usage error, with the names to choose from."""
    found = settings(conf_files.read(tmp_path, SGAS + APEL.replace("egi", "one")), kinds()).targets
    with pytest.raises(UsageError) as raised:
        select_targets(found, name)
    assert str(raised.value) == complaint


def test_lines_that_only_a_rex_sees_are_reported(tmp_path):
    """A block of arcacct.conf replaces that of arc.conf, so its VO would be that of A-REX's records alone."""
    arc = conf_files.ARC + "[arex/jura]\nvomsless_vo = tokens atlas\n"
    for ours, told in (("[arex/jura]\nvo_group = /atlas\n", True), ("[arex/jura]\nvomsless_vo = dteam\n", False)):
        _, problems = examine(conf_files.read(tmp_path, ours, arc), kinds())

        assert any("applies only to A-REX" in str(problem) for problem in problems) is told

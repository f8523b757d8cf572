"""What the configuration means, and every complaint about it at once."""

from __future__ import annotations

import pathlib
import socket

import conf_files
import pytest
from conf_files import APEL, DIRECTORY, SGAS

from arcacct.config.parser import Conf, load
from arcacct.config.paths import VO, QueueBenchmark
from arcacct.config.settings import examine, settings
from arcacct.config.values import MapRule, NodeBenchmark, Thresholds
from arcacct.errors import ConfigError
from arcacct.targets import kinds

DATA = pathlib.Path(__file__).parent.parent / "data" / "arex"


def test_defaults(tmp_path):
    """With nothing but a host name everything has ARC's default or ours, and there are no targets."""
    found = settings(conf_files.read(tmp_path), kinds())
    assert (found.hostname, found.lrms_host, found.targets) == ("ce.example.org", "ce.example.org", ())
    assert (found.keep_messages_days, found.settle_s) == (0, 0)
    assert found.places.database == f"{tmp_path}/control/accounting/arcacct/accounting.db"
    assert found.jura_database == f"{tmp_path}/control/accounting/publishing.db"
    assert found.warnings == ()
    (target,) = settings(conf_files.read(tmp_path, SGAS), kinds()).targets
    assert target.transport_options.x509_host_key == "/etc/grid-security/hostkey.pem"
    assert target.transport_options.x509_cert_dir == "/etc/grid-security/certificates"


def test_arcs_default_host_name_is_resolved_not_run(tmp_path):
    """$EXEC{hostname -f}, whether written or implied, is answered by the resolver; no command of a file is run."""
    (tmp_path / "ran").mkdir()
    assert settings(conf_files.read(tmp_path, arc="[arex]\n"), kinds()).hostname == socket.getfqdn()
    harmful = f"[common]\nhostname = $EXEC{{rmdir {tmp_path}/ran}}\n"
    assert settings(conf_files.read(tmp_path, arc=harmful), kinds()).hostname == socket.getfqdn()
    assert (tmp_path / "ran").exists()


def test_settings_cannot_be_changed(tmp_path):
    """A value that was checked stays what it was."""
    found = settings(conf_files.read(tmp_path, SGAS), kinds())
    with pytest.raises(AttributeError):
        found.hostname = "other"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        found.targets[0].urbatchsize = 1  # type: ignore[misc]


def test_every_option_of_ours(tmp_path):
    """Each option of [arcacct] arrives as a value of its kind, repeated ones in their order."""
    found = settings(
        conf_files.read(
            tmp_path,
            "[arcacct]\nread_group = staff\nkeep_messages = 7\nsettle = 3600\n"
            "lrms_host = lrms.example.org\nlocal_group_prefix = local-\n"
            "map = project atlas* vo=atlas group=/atlas/prod user=withheld\n"
            "map = owner prd1 vo=cms user=/DC=org/CN=Production Robot\n"
            'node_benchmark = "AMD EPYC 7[67]*" HEPscore23 14.2\nnode_benchmark = "Intel*" HEPSPEC:11.5\n',
            conf_files.ARC + "[queue:a]\nbenchmark = HEPSPEC 12.26\nbenchmark = Si2k 3065\n[queue:b]\n",
        ),
        kinds(),
    )
    assert (found.places.read_group, found.keep_messages_days) == ("staff", 7)
    assert (found.settle_s, found.lrms_host, found.local_group_prefix) == (3600, "lrms.example.org", "local-")
    assert found.map == (
        MapRule("project", "atlas*", "atlas", "/atlas/prod", "withheld"),
        MapRule("owner", "prd1", "cms", None, "/DC=org/CN=Production Robot"),
    )
    assert found.node_benchmarks == (
        NodeBenchmark("AMD EPYC 7[67]*", "HEPscore23:14.2"),
        NodeBenchmark("Intel*", "HEPSPEC:11.5"),
    )
    assert found.queue_benchmarks == (QueueBenchmark("a", "HEPSPEC:12.26"),)


def test_limits_have_the_unit_that_is_written(tmp_path):
    """A number alone has the unit of the default; a part of a second, a byte or a record counts as a whole one."""
    lines = "warn_unsent = 1.1\ncrit_unsent = 2 d\nwarn_certificate=2w\nwarn_disk=1.5GiB\nwarn_spool=0.5\n"
    lines += "warn_swept = 10%\ncrit_swept = 20\nwarn_disk_time = 90min\ncrit_disk_time = 30s\n"
    found = settings(conf_files.read(tmp_path, f"[arcacct]\n{lines}"), kinds()).thresholds

    assert found.unsent_s[:2] == (3960, 172_800)
    assert (found.certificate_s.warning, found.free_bytes.warning, found.spool_files.warning) == (
        1_209_600,
        3 * 2**29,
        1,
    )
    assert (found.swept_percent[:2], found.free_s[:2]) == ((10, 20), (5400, 30))
    assert found.sweep_s == Thresholds().sweep_s


@pytest.mark.parametrize(("name", "block"), [("arcacct.conf", "arcacct"), ("arc.conf", "custom:arcacct")])
def test_a_warning_beyond_critical_is_an_error_of_its_line(tmp_path, name, block):
    """For limits that are reached from below and from above, whichever of both is set; equal ones are right."""
    lines = "warn_unsent=100\ncrit_spool=99\nwarn_disk=1GiB\ncrit_disk=2GiB\nwarn_certificate=1d\nwarn_sweep=6\n"
    text = f"[{block}]\n{lines}"
    found, problems = examine(
        conf_files.read(tmp_path, text)
        if name == "arcacct.conf"
        else conf_files.read(tmp_path, "", text + conf_files.ARC),
        kinds(),
    )

    assert found is None
    todo = "so nothing is a warning before it is critical; change one of them"
    assert conf_files.lines(problems, tmp_path) == [
        f"{name}:2: [{block}] warn_unsent: warn_unsent=100 is beyond crit_unsent=72h, {todo}",
        f"{name}:3: [{block}] crit_spool: warn_spool=100 is beyond crit_spool=99, {todo}",
        f"{name}:4: [{block}] warn_disk: warn_disk=1GiB is beyond crit_disk=2GiB, {todo}",
    ]


@pytest.mark.parametrize(
    "value", ["-1", "inf", "nan", "1e3", "9" * 400, "3 x", "3 MiB", "h", "\N{ARABIC-INDIC DIGIT ONE}"]
)
def test_what_is_no_limit_is_an_error_of_its_line(tmp_path, value):
    """Said once, though the value is read twice; nothing is said of the order of it and its like."""
    _found, problems = examine(conf_files.read(tmp_path, f"[arcacct]\nwarn_unsent=400\ncrit_unsent={value}\n"), kinds())

    words = f"{value!r} is not a limit; write a number, optionally with a unit (s, min, h, d, w)"
    assert conf_files.lines(problems, tmp_path) == [f"arcacct.conf:3: [arcacct] crit_unsent: {words}"]


def test_every_complaint_at_once(tmp_path):
    """One error lists each mistake with file, line, block, option, what is wrong and what would be right."""
    conf = conf_files.read(
        tmp_path,
        "[arcacct]\nkeep_mesages = 3\npublishes = maybe\nmap = owner\n"
        "[arex/jura/sgas:one]\ntargeturl = http://sgas.example.org/sgas\nurbatchsize = many\n"
        "[arex/jura/apel:two]\ntargeturl = https://msg.example.org\napel_messages = sumaries\n",
        "[common]\nhostname = ce example\n[lrms]\nbenchmark = fast\n",
    )
    with pytest.raises(ConfigError) as raised:
        settings(conf, kinds())
    assert str(raised.value).replace(f"{tmp_path}/", "") == (
        "9 errors in the configuration:\n"
        "arc.conf:2: [common] hostname: 'ce example' is not a host name; write the full name, like ce.example.org\n"
        "arc.conf:4: [lrms] benchmark: 'fast' is not a benchmark; write TYPE:VALUE or TYPE VALUE, like "
        "HEPscore23:11.5\n"
        "arcacct.conf:2: [arcacct] keep_mesages: is not an option of [arcacct]; did you mean keep_messages?\n"
        "arcacct.conf:3: [arcacct] publishes: 'maybe' is not yes or no\n"
        "arcacct.conf:4: [arcacct] map: 'owner' is not a valid map line; "
        "write owner|group|project|account PATTERN vo=VO [group=G] [user=DN|withheld]\n"
        "arcacct.conf:6: [arex/jura/sgas:one] targeturl: 'http://sgas.example.org/sgas' is not an https URL; "
        "write https://HOST[:PORT]/PATH\n"
        "arcacct.conf:7: [arex/jura/sgas:one] urbatchsize: 'many' is not a whole number; write only digits, like 3600\n"
        "arcacct.conf:8: [arex/jura/apel:two] gocdb_name: is not set and this target needs it; "
        "add a line gocdb_name = ...\n"
        "arcacct.conf:10: [arex/jura/apel:two] apel_messages: 'sumaries' is not known; write urs, individual, "
        "individual-v04, summaries, summaries-v03, summaries-v04 or normalised-v04"
    )


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        pytest.param("database = jobs.db", "not an absolute path", id="relative-path"),
        pytest.param("allow_jura = maybe", "is not yes or no", id="flag"),
        pytest.param("keep_messages = -1", "not a whole number", id="negative"),
        pytest.param("keep_messages = ٣", "not a whole number", id="digit-of-another-script"),
        pytest.param("lrms_host = -x.org", "is not a host name", id="host"),
        pytest.param("local_group_prefix = a b", "is not one word", id="two-words"),
        pytest.param("read_group = 'staff'", "has quotes", id="quotes"),
        pytest.param("map = user x vo=a", "is not a valid map line", id="map-unknown-field"),
        pytest.param("map = owner x", "is not a valid map line", id="map-without-vo"),
        pytest.param("map = owner x vo=", "is not a valid map line", id="map-empty-vo"),
        pytest.param("map = owner x vo=a role=b", "is not a valid map line", id="map-unknown-word"),
        pytest.param("node_benchmark = AMD HEPSPEC:1", "is not a benchmark line", id="pattern-without-quotes"),
        pytest.param('node_benchmark = "AMD" fast', "is not a benchmark line", id="node-benchmark"),
        pytest.param('node_benchmark = "" HEPSPEC:1', "is not a benchmark line", id="empty-pattern"),
        pytest.param('queue_benchmark = "q" HEPSPEC:1 from=2026-02-29', "is not a day", id="no-day"),
        pytest.param('queue_benchmark = "q" HEPSPEC:1 from=²026', "is not a day", id="no-digits"),
        pytest.param('queue_benchmark = "q" HEPSPEC:1 from=2026-07 to=2026-07-01', "applies to no job", id="no-time"),
        pytest.param('queue_benchmark = "q" HEPSPEC:1e999', "is not a benchmark line", id="endless-benchmark"),
    ],
)
def test_a_wrong_value_is_an_error_at_its_line(tmp_path, line, wrong):
    """A value that does not fit is refused, once, where it stands."""
    _, problems = examine(conf_files.read(tmp_path, f"[arcacct]\n{line}\n"), kinds())
    (problem,) = [problem for problem in problems if problem.severity == "error"]
    assert (problem.file, problem.line) == (f"{tmp_path}/arcacct.conf", 2)
    assert wrong in problem.text


def test_the_database_of_arex_is_one_complaint_among_others(tmp_path):
    """Its refusal does not hide the rest; given on the command line it is refused too."""
    ours = f"[arcacct]\ndatabase = {tmp_path}/control/accounting/accounting.db\nsettel = 3\n"
    _, problems = examine(conf_files.read(tmp_path, ours), kinds())
    assert [problem.line for problem in problems] == [2, 3]
    with pytest.raises(ConfigError, match="the file that A-REX writes"):
        settings(conf_files.read(tmp_path), kinds(), database=f"{tmp_path}/control/accounting/accounting.db")


def test_inheritance(tmp_path):
    """A target's own value comes first, then [arex/jura], then [common]; settle comes from [arcacct]."""
    arc = "[common]\nx509_host_key = /c/key\nx509_host_cert = /c/cert\nx509_cert_dir = /c/ca\nhttp_proxy = http://p:3128\n"
    arc += "no_proxy = localhost\n"
    found = settings(
        conf_files.read(
            tmp_path,
            "[arcacct]\nsettle = 60\n[arex/jura]\nx509_host_cert = /j/cert\nvomsless_vo = atlas#/CN=voms host\n"
            f"vo_group = /a\nvo_group = /b\n{SGAS}x509_host_key = /t/key\nhttp_proxy = http://q:80\nno_proxy = *\n"
            f"{APEL}settle = 0\nvo_group = /c\n",
            arc,
        ),
        kinds(),
    )
    sgas, apel = found.targets
    assert (
        sgas.transport_options.x509_host_key,
        sgas.transport_options.x509_host_cert,
        sgas.transport_options.x509_cert_dir,
    ) == ("/t/key", "/j/cert", "/c/ca")
    assert (apel.transport_options.x509_host_key, apel.transport_options.proxy) == ("/c/key", "http://p:3128")
    assert (sgas.transport_options.proxy, sgas.transport_options.no_proxy) == ("http://q:80", ("",))
    assert apel.transport_options.no_proxy == ("localhost",)
    assert sgas.vomsless_vo == apel.vomsless_vo == (VO("atlas", "/CN=voms host"),)
    assert (sgas.vo_group, apel.vo_group) == (("/a", "/b"), ("/c",))
    assert (sgas.settle_s, apel.settle_s) == (60, 0)


def test_targets_of_a_real_arc_conf_when_jura_may_run_too():
    """allow_jura=yes publishes to the targets of arc.conf as jura-ng knows them, in both forms of the file."""
    for name in ("arc.conf", "arched-arex.cfg"):
        conf = load(str(DATA / name), {})
        conf.add("[arcacct]\nallow_jura = yes\n[arex/jura/apel:urs]\ntargeturl = https://a\ngocdb_name = B\n", "ours")
        found = {target.name: target for target in settings(conf, kinds()).targets}
        urs, summaries, sgas = found["apel:urs"], found["apel:summaries"], found["sgas:sgas"]
        assert (urs.gocdb_name, summaries.block) == ("B", "arex/jura/apel:summaries")
        assert (summaries.url, summaries.urbatchsize, summaries.urdelivery_frequency_s) == (
            "https://ams.example.org:8443/v1/projects/accounting/topics/gLite-APEL:publish",
            500,
            1,
        )
        assert (sgas.name, sgas.url, sgas.localid_prefix) == (
            "sgas:sgas",
            "https://sgas.example.org:8001/sgas/ur",
            "ce.example.org:",
        )


def test_targets_in_arc_conf_stop_publishing(tmp_path):
    """Each target that jura-ng would serve next to us is an error that says where to move it."""
    _, problems = examine(conf_files.read(tmp_path, DIRECTORY, conf_files.ARC + f"[arex/jura]\n{SGAS}{APEL}"), kinds())
    assert [(problem.severity, problem.block) for problem in problems] == [
        ("error", "arex/jura/sgas:one"),
        ("error", "arex/jura/apel:egi"),
    ]
    for problem in problems:
        assert f"move [arex/jura] and all its targets from here to {tmp_path}/arcacct.conf" in problem.text
        assert "allow_jura=yes" in problem.text


def test_targets_in_the_run_time_file_are_moved_in_the_file_it_was_made_from():
    """No one edits A-REX's run-time file: the error names /etc/arc.conf, and that A-REX must be restarted."""
    conf = Conf("/run/arched-arex.cfg", "/etc/arcacct.conf")
    conf.add(SGAS, "/run/arched-arex.cfg")
    (problem,) = examine(conf, kinds())[1]
    assert "from /etc/arc.conf to /etc/arcacct.conf and restart A-REX" in problem.text


def test_a_target_in_both_files_is_not_hidden(tmp_path):
    """The block in arcacct.conf replaces ours, but jura-ng still sees the one of arc.conf."""
    _, problems = examine(conf_files.read(tmp_path, SGAS, conf_files.ARC + SGAS), kinds())
    (problem,) = problems
    assert (problem.file, problem.severity) == (f"{tmp_path}/arc.conf", "error")
    assert f"is also in {tmp_path}/arcacct.conf" in problem.text


def test_jura_without_targets_is_a_warning(tmp_path):
    """A-REX starts jura-ng for the block alone; nothing is published twice, so nothing is stopped."""
    found = settings(conf_files.read(tmp_path, SGAS, conf_files.ARC + "[arex/jura]\nx509_host_key = /k\n"), kinds())
    assert [problem.block for problem in found.warnings] == ["arex/jura"]
    assert found.targets[0].transport_options.x509_host_key == "/k"


def test_jura_for_the_vo_of_arex_records_is_no_warning(tmp_path):
    """A-REX 7 reads vomsless_vo in arc.conf for its own database: no one is told to take the block away."""
    arc = conf_files.ARC + "[arex/jura]\nvomsless_vo = atlas\n"
    assert settings(conf_files.read(tmp_path, SGAS, arc), kinds()).warnings == ()


@pytest.mark.parametrize("option", ["queue_benchmark", "node_benchmark"])
@pytest.mark.parametrize(
    ("lines", "clash"),
    [
        (['"q" HEPSPEC:1', '"q" HEPSPEC:2'], 5),
        (['"q" HEPSPEC:1 to=2026-07', '"q" HEPSPEC:2 from=2026-06-30'], 5),
        (['"q" HEPSPEC:1 to=2026-07', '"q" HEPSPEC:2 from=2026-07-01'], None),
        (['"q" HEPSPEC:1 from=2026', '"r" HEPSPEC:2', '"q" HEPSPEC:3 to=2025', '"q" HEPSPEC:4 from=2030'], 7),
        (['"q" HEPSPEC:1 from=2026', '"r" HEPSPEC:2', '"q" HEPSPEC:3 to=2026'], None),
    ],
    ids=["always", "a day", "one after the other", "among others", "before"],
)
def test_benchmarks_that_hold_on_the_same_day_contradict(tmp_path, option, lines, clash) -> None:
    """Two lines for one queue or pattern must not share a day: said at the second, with the line of the first."""
    text = "".join(f"{option} = {line}\n" for line in lines)
    conf = conf_files.read(tmp_path, f"[arcacct]\n# first\n\n{text}")

    _, problems = examine(conf, kinds())

    found = [problem for problem in problems if "has another benchmark at the same time in line 4" in problem.text]
    assert [problem.line for problem in found] == ([] if clash is None else [clash])


def test_a_line_of_benchmarks_holds_from_its_day_to_the_other(tmp_path) -> None:
    """Days are of UTC; the last one is out, and without days it always holds."""
    line = 'queue_benchmark = "long q" HEPscore23 14.5 from=2026-07 to=2027\n'
    (found,) = settings(conf_files.read(tmp_path, f"[arcacct]\n{line}"), kinds()).queue_benchmarks

    july, year = 1_782_864_000, 1_798_761_600
    assert (found.queue, found.benchmark) == ("long q", "HEPscore23:14.5")
    assert [found.valid.has(when) for when in (july - 1, july, year - 1, year)] == [False, True, True, False]
    assert str(found.valid) == "from=2026-07-01 to=2027-01-01"


@pytest.mark.parametrize(
    ("arc", "ours", "file", "what"),
    [
        ("hello world\nx=1\n\x7fELF\n", None, "arc.conf", "is not a configuration file of ARC"),
        (conf_files.ARC, "Dear colleague,\n", "arcacct.conf", "is not an arcacct.conf"),
    ],
)
def test_a_file_that_is_something_else_is_one_error(tmp_path, arc, ours, file, what):
    """Without any block it is no configuration: one error says so, not a warning for each of its lines."""
    conf = conf_files.read(tmp_path, ours, arc)
    found, problems = examine(conf, kinds())
    assert found is None
    (one,) = [one for one in problems if one.file.endswith(f"/{file}") and one.severity == "error"]
    assert f"{what}: it has no [block] line" in str(one)
    assert [one for one in problems if one.line is not None and one.file.endswith(f"/{file}")] == []


def test_a_file_of_comments_is_a_configuration(tmp_path):
    """A-REX needs an arc.conf, at least with a comment."""
    assert examine(conf_files.read(tmp_path, None, "# nothing here\n\n"), kinds())[0] is not None

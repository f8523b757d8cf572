"""Where this host keeps its accounting."""

from __future__ import annotations

import re

import conf_files
import pytest

from arcacct.config.paths import benchmark, places, vomsless_vo, yes_or_no
from arcacct.config.settings import examine
from arcacct.errors import ConfigError


def test_without_a_configuration_arcs_defaults_hold():
    """A recorder without any conf file keeps its files below ARC's default control directory."""
    here = places(None)
    assert here.database == "/var/spool/arc/jobstatus/accounting/arcacct/accounting.db"
    assert here.publishing_database == "/var/spool/arc/jobstatus/accounting/arcacct/publishing.db"
    assert (here.rules.default_benchmark, here.read_group) == ("HEPSPEC:1.0", None)


def test_database_option_moves_everything_of_ours(tmp_path):
    """publishing.db, spool and locks stay next to the database."""
    here = places(conf_files.read(tmp_path, "[arcacct]\ndatabase = /data/acct/jobs.db\nread_group = staff\n"))
    assert (here.controldir, here.database) == (f"{tmp_path}/control", "/data/acct/jobs.db")
    assert (here.directory, here.read_group) == ("/data/acct", "staff")
    for path in (here.publishing_database, here.spool, here.queue_lock, here.publishing_lock, here.maintenance):
        assert path.rpartition("/")[0] == "/data/acct"


def test_the_command_line_wins(tmp_path):
    """The hook's control directory and --database come before what the files say."""
    conf = conf_files.read(tmp_path, "[arcacct]\ndatabase = /data/acct/jobs.db\n")
    here = places(conf, controldir="/other/control/", database="/x/y.db")
    assert (here.controldir, here.database) == ("/other/control", "/x/y.db")


@pytest.mark.parametrize("name", ["accounting.db", "accounting_v2.db"])
def test_the_file_that_arex_writes_is_refused(tmp_path, name):
    """Whatever its spelling, as A-REX would lose rows; unless no A-REX writes on this host."""
    (tmp_path / "control" / "accounting").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "control" / "accounting")
    line = f"[arcacct]\ndatabase = {tmp_path}/link/{name}\n"
    with pytest.raises(ConfigError, match=r"arcacct\.conf:2: \[arcacct\] database: this is the file that A-REX writes"):
        places(conf_files.read(tmp_path, line))
    with pytest.raises(ConfigError, match="this is the file that A-REX writes"):
        places(conf_files.read(tmp_path), database=f"{tmp_path}/control/../control/accounting/{name}")
    allowed = places(conf_files.read(tmp_path, line + "arex_writes_no_accounting = yes\n"))
    assert allowed.database == f"{tmp_path}/link/{name}"


@pytest.mark.parametrize("place", ["control", "link", "control/accepting", "control/delegations/new", "link/jobs"])
@pytest.mark.parametrize("option", ["database", "rehearsal", "spool_fallback"])
def test_a_directory_of_arex_is_refused(tmp_path, option, place):
    """Whatever its spelling; below `accounting`, and next to A-REX's directories, is room for others."""
    (tmp_path / "control").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "control")

    def conf(folder):
        return conf_files.read(tmp_path, f"[arcacct]\n{option} = {folder}{'/a.db' if option == 'database' else ''}\n")

    words = rf"arcacct\.conf:2: \[arcacct\] {option}: A-REX writes its own files into this directory"
    with pytest.raises(ConfigError, match=words):
        places(conf(f"{tmp_path}/{place}"))
    _made, problems = examine(conf(f"{tmp_path}/{place}"), {})
    assert [one.option for one in problems if "A-REX writes its own" in one.text] == [option]
    for free in ("control/accounting/arcacct", "control/arcacct", "link2"):
        places(conf(f"{tmp_path}/{free}"))


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        pytest.param("HEPSPEC:12.26", "HEPSPEC:12.26", id="colon"),
        pytest.param("HEPSPEC 12.26", "HEPSPEC:12.26", id="blank"),
        pytest.param(" HEPscore23 :  9 ", "HEPscore23:9", id="blanks-around"),
        pytest.param("Si2k   3065", "Si2k:3065", id="blanks-between"),
        pytest.param("HEPSPEC", None, id="no-value"),
        pytest.param("12.26", None, id="no-type"),
        pytest.param(":12.26", None, id="empty-type"),
        pytest.param("HEPSPEC:fast", None, id="no-number"),
        pytest.param("HEPSPEC:0", None, id="zero"),
        pytest.param("HEPSPEC:-3", None, id="negative"),
        pytest.param("HEPSPEC:nan", None, id="nan"),
        pytest.param("HEPSPEC:inf", None, id="inf"),
        pytest.param("HEP SPEC:1", None, id="two-words"),
        pytest.param("", None, id="empty"),
    ],
)
def test_both_spellings_of_a_benchmark(text, normalised):
    """TYPE:VALUE and TYPE VALUE are the same; anything else is not a benchmark."""
    if normalised is None:
        with pytest.raises(ValueError, match="is not a benchmark; write TYPE:VALUE or TYPE VALUE"):
            benchmark(text)
    else:
        assert benchmark(text) == normalised


def test_the_default_benchmark_is_that_of_the_lrms_block(tmp_path):
    """Jobs that never ran get [lrms] benchmark, in either spelling."""
    conf = conf_files.read(tmp_path, arc="[lrms]\nbenchmark = HEPscore23 11.5\n")
    assert places(conf).rules.default_benchmark == "HEPscore23:11.5"


@pytest.mark.parametrize(
    ("arc", "ours", "complaint"),
    [
        pytest.param("[lrms]\nbenchmark = fast\n", "", r"arc\.conf:2: \[lrms\] benchmark: 'fast'", id="benchmark"),
        pytest.param(
            "",
            "[arcacct]\nqueue_benchmark = q fast\n",
            r"arcacct\.conf:2: \[arcacct\] queue_benchmark",
            id="queue-benchmark",
        ),
    ],
)
def test_what_the_recorder_cannot_use_is_refused_with_its_line(tmp_path, arc, ours, complaint):
    """A wrong benchmark would be recorded permanently: better an error, and the spool."""
    with pytest.raises(ConfigError, match=complaint):
        places(conf_files.read(tmp_path, ours, arc))


@pytest.mark.parametrize(("text", "value"), [("yes", True), ("Yes", True), ("no", False), ("maybe", None)])
def test_yes_or_no(text, value):
    """A flag is yes or no in any case of letters, anything else is neither."""
    assert yes_or_no(text) is value


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("dteam", ("dteam", None, None)),
        (" dteam # /DC=ch/CN=voms server ", ("dteam", "/DC=ch/CN=voms server", None)),
        ("dteam#", ("dteam", None, None)),
        ("tokens atlas", ("atlas", None, "tokens")),
        ("tokens  atlas#/CN=voms", ("atlas", "/CN=voms", "tokens")),
    ],
)
def test_a_line_vomsless_vo_has_two_forms(text, parts):
    """[AUTHGROUP ]NAME[#ISSUER], as ARC documents it."""
    assert vomsless_vo(text) == parts


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("[arex/jura]\nvomsless_vo = #/CN=voms\n", "[arex/jura] vomsless_vo: '#/CN=voms' names no VO"),
        ("[arex]\nauthtokenmap = sub\n", "[arex] authtokenmap: 'sub' is not a pair"),
        ("[arcacct]\nvo_claim = wlcg.groups iam.example.org\n", "[arcacct] vo_claim: "),
    ],
)
def test_a_rule_that_cannot_be_read_is_reported_with_its_line(tmp_path, line, wrong):
    """The hook spools until it is repaired: a record with another VO than the site wants would stay."""
    with pytest.raises(ConfigError, match=r"arc.*\.conf:2: " + re.escape(wrong)):
        places(conf_files.read(tmp_path, line))

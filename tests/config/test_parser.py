"""The text of arc.conf and arcacct.conf."""

from __future__ import annotations

import os
import pathlib

import conf_files
import pytest
from conf_files import APEL, SGAS
from other_users import acting_as

from arcacct.config import parser
from arcacct.config.check import check, show
from arcacct.config.parser import find_conf, load, our_conf, parse
from arcacct.config.settings import settings
from arcacct.errors import ConfigError
from arcacct.targets import kinds

DATA = pathlib.Path(__file__).parent.parent / "data" / "arex"


def test_a_real_arc_conf_and_its_run_time_form_agree():
    """Every option of a site's arc.conf has the same values in the file A-REX runs with."""
    arc, run_time = load(str(DATA / "arc.conf"), {}), load(str(DATA / "arched-arex.cfg"), {})
    assert list(arc.blocks) == list(run_time.blocks)
    for name, block in arc.blocks.items():
        for option in block.options:
            assert run_time.all(name, option) == arc.all(name, option)
    assert len(arc.all("arex", "statecallout")) == 12
    assert arc.all("queue:fork", "benchmark") == ["HEPSPEC 12.26", "Si2k 3065"]
    assert arc.complaints == run_time.complaints == []


@pytest.mark.parametrize(
    ("line", "option", "value"),
    [
        pytest.param("option=value", "option", "value", id="no-blanks"),
        pytest.param("  option \t=  two words  ", "option", "two words", id="blanks-around"),
        pytest.param("url = https://h/p?a=b#c", "url", "https://h/p?a=b#c", id="equals-and-hash-inside"),
        pytest.param("option = value # no comment", "option", "value # no comment", id="no-comment-behind"),
        pytest.param('option = "quoted"', "option", '"quoted"', id="quotes-are-literal"),
        pytest.param("option =", "option", "", id="empty"),
        pytest.param("option", "option", "", id="name-alone"),
        pytest.param("dn = /CN=Jürgen Ünal", "dn", "/CN=Jürgen Ünal", id="not-ascii"),
        pytest.param("option = value\r", "option", "value", id="dos-line-end"),
        pytest.param("option = a\x0bb\u2028c", "option", "a\x0bb\u2028c", id="other-line-separators"),
    ],
)
def test_an_option_is_read_literally(line, option, value):
    """A value is everything behind the first equals sign, without the blanks around it."""
    (block,) = parse(f"[block]\n{line}\n", "arc.conf")
    assert {name: [found.value for found in lines] for name, lines in block.options.items()} == {option: [value]}


@pytest.mark.parametrize(
    ("line", "kind", "label", "name"),
    [
        pytest.param("[arex]", "arex", None, "arex", id="plain"),
        pytest.param(" [ arex/jura/sgas: my one ] ", "arex/jura/sgas", "my one", "arex/jura/sgas:my one", id="named"),
        pytest.param("[queue:a:b]", "queue", "a:b", "queue:a:b", id="colon-in-name"),
    ],
)
def test_a_block_has_a_kind_and_a_name(line, kind, label, name):
    """The kind ends at the first colon; blanks around kind and name do not count, as in ARC."""
    (block,) = parse(f"# comment\n\n{line}\n", "arc.conf")
    assert (block.kind, block.label, block.name, block.line) == (kind, label, name, 3)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("a = b\n", "arc.conf:1: option a is before any block", id="option-first"),
        pytest.param("[a]\n[b\n", "arc.conf:2: '[b' is not the name of a block", id="open-block"),
        pytest.param("[]\n", "arc.conf:1: '[]' is not the name of a block", id="empty-block"),
        pytest.param("[a] b = c\n", "arc.conf:1: '[a] b = c' is not the name of a block", id="text-behind-block"),
        pytest.param("[a]\n\nsome words\n", "arc.conf:3: this line has no option", id="no-equals"),
        pytest.param("[a]\n= 5\n", "arc.conf:2: this line has no option", id="no-name"),
        pytest.param("[a]\nb c = 5\n", "arc.conf:2: 'b c' is not the name of an option", id="blank-in-name"),
    ],
)
def test_a_line_that_is_nothing_is_refused_with_its_place(text, complaint):
    """The error names file and line; collected instead of raised, the rest of the file is still read."""
    with pytest.raises(ConfigError) as raised:
        parse(text, "arc.conf")
    assert str(raised.value).startswith(complaint)
    complaints: list[parser.ParseProblem] = []
    blocks = parse(text + "[last]\nx = y\n", "arc.conf", complaints)
    assert [str(found).startswith(complaint) for found in complaints] == [True]
    assert blocks[-1].options["x"][0].value == "y"


def test_the_last_of_repeated_values_holds_and_all_can_be_asked_for(tmp_path):
    """A single-valued option takes its last value, an empty one counts as not set."""
    conf = conf_files.read(tmp_path, arc="[a]\nx = 1\nx = 2\ny =\n")
    assert (conf.get("a", "x"), conf.all("a", "x")) == ("2", ["1", "2"])
    assert (conf.get("a", "y", "default"), conf.all("a", "y"), conf.get("b", "x")) == ("default", [], None)


def test_a_block_of_arcacct_conf_replaces_the_whole_block(tmp_path):
    """Nothing of arc.conf's block of the same name remains, and it is remembered that A-REX still sees it."""
    conf = conf_files.read(tmp_path, arc="[a]\nx = 1\ny = 2\n[b]\nz = 3\n", ours="[a]\nx = 4\n")
    assert (conf.get("a", "x"), conf.get("a", "y"), conf.get("b", "z")) == ("4", None, "3")
    assert [block.name for block in conf.replaced] == ["a"]
    assert conf.files == [str(tmp_path / "arc.conf"), str(tmp_path / "arcacct.conf")]


def test_a_block_written_twice_in_one_file_is_complained_about(tmp_path):
    """The second replaces the first, as in ARC, which no one expects."""
    conf = conf_files.read(tmp_path, arc="[a]\nx = 1\n[b]\n[a]\ny = 2\n")
    assert (conf.get("a", "x"), conf.get("a", "y")) == (None, "2")
    assert conf_files.lines(conf.complaints, tmp_path) == [
        "arc.conf:4: [a] is set twice; this block replaces the one in line 1; combine them into one block"
    ]


@pytest.mark.parametrize(
    ("arc", "ours", "value"),
    [
        pytest.param("[custom:arcacct]\nsettle = 1\n", None, "1", id="custom-alone"),
        pytest.param("[custom:arcacct]\nsettle = 1\n", "[arcacct]\nsettle = 2\n", "2", id="arcacct-conf-wins"),
        pytest.param("[custom:other]\nsettle = 1\n", None, None, id="another-custom-block"),
    ],
)
def test_custom_block_of_arc_conf_serves_as_ours(tmp_path, arc, ours, value):
    """[custom:arcacct], which ARC ignores, holds our settings where arcacct.conf has none."""
    assert conf_files.read(tmp_path, arc=arc, ours=ours).get("arcacct", "settle") == value


def test_search_order(tmp_path, monkeypatch):
    """--config, then $ARC_CONFIG, then the file A-REX runs with, then /etc/arc.conf."""
    run_time = tmp_path / "arched-arex.cfg"
    monkeypatch.setattr(parser, "RUN_TIME_FILE", str(run_time))
    assert find_conf("/x/arc.conf", {"ARC_CONFIG": "/y/arc.conf"}) == "/x/arc.conf"
    assert find_conf(None, {"ARC_CONFIG": "/y/arc.conf"}) == "/y/arc.conf"
    assert find_conf(None, {}) == "/etc/arc.conf"
    run_time.touch()
    assert find_conf(None, {}) == str(run_time)


@pytest.mark.parametrize(
    ("arc", "environ", "ours"),
    [
        pytest.param("/opt/arc/arc.conf", {}, "/opt/arc/arcacct.conf", id="beside"),
        pytest.param("/run/arched-arex.cfg", {}, "/etc/arcacct.conf", id="run-time-file"),
        pytest.param("/opt/arc/arc.conf", {"ARCACCT_CONFIG": "/o/a.conf"}, "/o/a.conf", id="environment"),
    ],
)
def test_where_arcacct_conf_is(arc, environ, ours):
    """Beside arc.conf; in /etc for the run-time file, whose directory vanishes at boot; or where the variable says."""
    assert our_conf(arc, environ) == ours


@pytest.mark.parametrize(
    ("config", "environ"),
    [
        pytest.param("{dir}/missing.conf", {}, id="--config"),
        pytest.param(None, {"ARC_CONFIG": "{dir}/missing.conf"}, id="ARC_CONFIG"),
        pytest.param("{dir}/arc.conf", {"ARCACCT_CONFIG": "{dir}/missing.conf"}, id="ARCACCT_CONFIG"),
    ],
)
def test_a_file_that_was_asked_for_has_to_be_there(tmp_path, config, environ):
    """A missing file that somebody named is an error of one line that names it."""
    conf_files.write(tmp_path)
    config = config and config.replace("{dir}", str(tmp_path))
    environ = {name: value.replace("{dir}", str(tmp_path)) for name, value in environ.items()}
    with pytest.raises(ConfigError, match=r"missing\.conf: no such file"):
        load(config, environ)


def test_a_directory_in_place_of_the_file_is_one_clear_line(tmp_path):
    """It says that it is one, and what to give."""
    with pytest.raises(ConfigError, match="a directory; give the configuration file in it"):
        load(str(tmp_path), {})


@pytest.mark.parametrize("place", ["arc.conf", "arc.conf.d/1.conf", "arcacct.conf"])
def test_a_configuration_that_is_no_file_or_too_large_is_refused_at_once(tmp_path, place):
    """A pipe without a writer, a device, and 200 MB of anything: each is named with its kind or the limit."""
    arc = conf_files.write(tmp_path, "")
    (tmp_path / "arc.conf.d").mkdir()
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 200_000_000)
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / place
    for other, wrong in (
        ("pipe", "a pipe, not a regular file"),
        ("/dev/null", "a device, not a regular file"),
        ("large", "larger than 16 MiB"),
    ):
        path.unlink(missing_ok=True)
        path.symlink_to(tmp_path / other)
        with pytest.raises(ConfigError) as raised:
            load(arc, {})
        assert str(raised.value) == f"{path}: cannot be read: {wrong}; give the configuration file"


def test_lines_may_end_as_on_other_systems(tmp_path):
    """CR LF and CR end a line as LF does."""
    (tmp_path / "arc.conf").write_bytes(b"[a]\r\nx = 1\ry = 2\n")
    conf = load(str(tmp_path / "arc.conf"), {})
    assert [conf.get("a", "x"), conf.get("a", "y")] == ["1", "2"]


def test_bytes_that_are_not_utf8_do_no_harm(tmp_path):
    """A Latin-1 letter in a comment or a name does not stop the reading."""
    (tmp_path / "arc.conf").write_bytes(b"# J\xfcrgen\n[a]\nx = J\xfcrgen\n")
    assert load(str(tmp_path / "arc.conf"), {}).get("a", "x") == "J\udcfcrgen"


def test_a_nul_is_no_part_of_any_name(tmp_path):
    """Whoever looks for such a file finds that there is none, instead of failing."""
    (tmp_path / "arc.conf").write_bytes(b"[a]\nx = /etc/\0cert\n")
    assert load(str(tmp_path / "arc.conf"), {}).get("a", "x") == "/etc/\ufffdcert"


# Files in arc.conf.d, which ARC reads after arc.conf.


MOVED = "[arex]\ncontroldir = /srv/arc/control\n[lrms]\nbenchmark = HEPSPEC:10.2\n"


@pytest.fixture
def conf_d(tmp_path: pathlib.Path) -> pathlib.Path:
    """An empty arc.conf.d."""
    (tmp_path / "arc.conf.d").mkdir()
    return tmp_path / "arc.conf.d"


def values(arc_conf: str) -> list[str]:
    """The values of one option of one block, in the order in which they were read."""
    return load(arc_conf, {}).all("a", "x")


def test_a_value_that_stands_only_there_holds(tmp_path, conf_d):
    """The control directory of a site that has it in a file of its own, with that file and line in `config show`."""
    (conf_d / "10-site.conf").write_text(MOVED)
    conf = conf_files.read(tmp_path, arc="[common]\nhostname = ce.example.org\n[arex]\n")
    assert settings(conf, kinds()).places.controldir == "/srv/arc/control"
    assert f"# {conf_d}/10-site.conf:2\ncontroldir = /srv/arc/control\n" in show(conf, kinds())
    assert conf.files == [f"{tmp_path}/arc.conf", f"{conf_d}/10-site.conf"]


def test_files_are_read_in_the_order_of_arc(tmp_path, conf_d):
    """Names that end in .conf, by their bytes, then what is in directories below; nothing else."""
    for number, name in enumerate(("b.conf", "B.conf", "a.conf~", "c.conf.rpmsave", "10.conf", "9.conf", "no")):
        (conf_d / name).write_text(f"[a]\nx = {number}-{name}\n")
    (conf_d / "below").mkdir()
    (conf_d / "below" / "0.conf").write_text("[a]\nx = below\n")
    (conf_d / "z").symlink_to(conf_d / "below")
    (conf_d / ".#b.conf").symlink_to("somebody@host.4711")
    arc = conf_files.write(tmp_path, arc="[a]\nx = first\n")
    assert values(arc) == ["first", "4-10.conf", "5-9.conf", "1-B.conf", "0-b.conf", "below", "below"]


def test_a_link_that_leads_back_is_followed_once(tmp_path, conf_d):
    """ARC itself reads such a directory some forty times."""
    (conf_d / "1.conf").write_text("[a]\nx = 1\n")
    (conf_d / "here").symlink_to(conf_d)
    (conf_d / "below").mkdir()
    (conf_d / "below" / "up").symlink_to(conf_d)
    assert values(conf_files.write(tmp_path, arc="")) == ["1"]


def test_options_of_one_block_come_together(tmp_path, conf_d):
    """Those that are repeated accumulate, of a single one the last holds; a new block comes last."""
    (conf_d / "1.conf").write_text("[a]\nx = 2\ny = 2\n[new]\nz = 1\n")
    (conf_d / "2.conf").write_text("[ a ]\nx = 3\n[new]\nz = 2\n")
    conf = conf_files.read(tmp_path, arc="[a]\nx = 1\ny = 1\n[b]\nx = 9\n")
    assert (conf.all("a", "x"), conf.get("a", "x"), conf.all("a", "y")) == (["1", "2", "3"], "3", ["1", "2"])
    assert conf.all("new", "z") == ["1", "2"]
    assert list(conf.blocks) == ["a", "b", "new"]
    assert conf.replaced == conf.complaints == []


def test_a_block_twice_in_one_file_replaces_itself_alone(tmp_path, conf_d):
    """As in arc.conf: the second replaces the first of that file, and what other files have stays."""
    (conf_d / "1.conf").write_text("[a]\nx = 2\ny = 2\n[a]\nx = 3\n")
    conf = conf_files.read(tmp_path, arc="[a]\nx = 1\n")
    assert (conf.all("a", "x"), conf.all("a", "y")) == (["1", "3"], [])
    assert conf_files.lines(conf.complaints, tmp_path) == [
        "arc.conf.d/1.conf:4: [a] is set twice; this block replaces the one in line 1; combine them into one block"
    ]


def test_arcacct_conf_replaces_what_came_together(tmp_path, conf_d):
    """The whole block, whatever files it was in."""
    (conf_d / "1.conf").write_text("[a]\ny = 1\n[b]\nz = 1\n")
    conf = conf_files.read(tmp_path, arc="[a]\nx = 1\n", ours="[a]\nx = 4\n")
    assert (conf.all("a", "x"), conf.all("a", "y"), conf.all("b", "z")) == (["4"], [], ["1"])
    assert [block.name for block in conf.replaced] == ["a"]
    assert conf.files == [f"{tmp_path}/arc.conf", f"{conf_d}/1.conf", f"{tmp_path}/arcacct.conf"]


def test_the_directory_is_next_to_the_file_that_is_read(tmp_path, monkeypatch):
    """Also with --config and $ARC_CONFIG; none belongs to the file that A-REX runs with, which has it all."""
    for name in ("site.conf", "arched-arex.cfg"):
        (tmp_path / name).write_text("[a]\nx = 1\n")
        (tmp_path / f"{name}.d").mkdir()
        (tmp_path / f"{name}.d" / "1.conf").write_text("[a]\nx = 2\n")
    assert values(str(tmp_path / "site.conf")) == ["1", "2"]
    assert load(None, {"ARC_CONFIG": str(tmp_path / "site.conf")}).all("a", "x") == ["1", "2"]
    monkeypatch.setattr(parser, "RUN_TIME_FOLDERS", (str(tmp_path),))
    assert values(str(tmp_path / "arched-arex.cfg")) == ["1"]


def test_without_arc_conf_the_files_still_count(tmp_path, conf_d, monkeypatch):
    """A-REX does not start then; `config check` says so, and a command does not fall back on ARC's defaults."""
    (conf_d / "1.conf").write_text(MOVED)
    monkeypatch.setattr(parser, "RUN_TIME_FILE", str(tmp_path / "arched-arex.cfg"))
    monkeypatch.setattr(parser, "ARC_CONF", str(tmp_path / "arc.conf"))
    conf = load(None, {})
    assert (conf.get("arex", "controldir"), conf.files) == ("/srv/arc/control", [f"{conf_d}/1.conf"])
    (said,) = conf_files.lines(check(conf, kinds()), tmp_path)
    assert said.startswith("arc.conf: warning: no such file, and A-REX does not start without it; create it")


def test_changes_since_the_start_of_a_rex_are_reported(tmp_path, conf_d, monkeypatch):
    """Commands read what A-REX runs with, so a new file counts only when A-REX was restarted."""
    arc = conf_files.write(tmp_path)
    (conf_d / "1.conf").write_text(MOVED)
    run_time = tmp_path / "run" / "arched-arex.cfg"
    run_time.parent.mkdir()
    run_time.write_text((tmp_path / "arc.conf").read_text() + "[lrms]\nbenchmark = HEPSPEC:10.2\n")
    monkeypatch.setattr(parser, "RUN_TIME_FILE", str(run_time))
    monkeypatch.setattr(parser, "RUN_TIME_FOLDERS", (str(run_time.parent),))
    monkeypatch.setattr(parser, "ARC_CONF", arc)
    for path, mtime in ((arc, 1), (run_time, 2), (conf_d / "1.conf", 3)):
        os.utime(path, (mtime, mtime))
    assert conf_files.lines(check(load(None, {}), kinds()), tmp_path) == [
        f"run/arched-arex.cfg: warning: A-REX runs with this file and arcacct reads it, but {conf_d}/1.conf was "
        "changed afterwards; restart A-REX".replace(f"{tmp_path}/", "")
    ]
    os.utime(run_time, (4, 4))
    assert check(load(None, {}), kinds()) == []


def test_an_option_without_a_value_unsets_nothing(tmp_path, conf_d):
    """What holds is the same in every command, and `config show` has its line."""
    (conf_d / "1.conf").write_text("[arex]\ncontroldir =\n")
    conf = conf_files.read(tmp_path)
    assert settings(conf, kinds()).places.controldir == f"{tmp_path}/control"
    assert f"# {tmp_path}/arc.conf:5\ncontroldir = {tmp_path}/control\n" in show(conf, kinds())


def test_a_link_that_leads_nowhere_is_named(tmp_path, conf_d):
    """Half of a configuration would be a wrong one; A-REX does not start with it either."""
    (conf_d / "1.conf").symlink_to("/nowhere")
    with pytest.raises(ConfigError, match=f"^{conf_d}/1.conf: no such file; fix or remove the link"):
        load(conf_files.write(tmp_path), {})


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
@pytest.mark.parametrize("name", ["1.conf", "."])
def test_what_may_not_be_read_is_named(public_dir, name):
    """A file, or the whole directory."""
    (public_dir / "arc.conf.d").mkdir()
    (public_dir / "arc.conf.d" / "1.conf").write_text(MOVED)
    (public_dir / "arc.conf.d" / name).chmod(0)
    arc = conf_files.write(public_dir)
    with acting_as("nobody"), pytest.raises(ConfigError) as raised:
        load(arc, {})
    path = os.path.normpath(public_dir / "arc.conf.d" / name)
    assert str(raised.value) == f"{path}: cannot be read: Permission denied; run as a user who may read it"


def test_targets_there_are_targets_of_jura(tmp_path, conf_d):
    """A-REX starts jura-ng for them, too: publishing is refused, and the file is named."""
    (conf_d / "50-jura.conf").write_text("[arex/jura]\nloglevel = 3\n" + SGAS)
    with pytest.raises(ConfigError) as raised:
        settings(conf_files.read(tmp_path, APEL), kinds())
    assert f"{conf_d}/50-jura.conf:3: [arex/jura/sgas:one]: is a target of A-REX's jura-ng" in str(raised.value)


def test_a_target_in_two_files_is_named_in_both(tmp_path, conf_d):
    """Whoever moves it has to move all of it."""
    (conf_d / "50-jura.conf").write_text("[common]\n\n[arex/jura/sgas:one]\nurbatchsize = 7\n")
    with pytest.raises(ConfigError) as raised:
        settings(conf_files.read(tmp_path, arc=conf_files.ARC + SGAS), kinds())
    assert f"{tmp_path}/arc.conf:6: [arex/jura/sgas:one]: is a target" in str(raised.value)
    assert f"{conf_d}/50-jura.conf:4: [arex/jura/sgas:one]: is a target" in str(raised.value)


def test_a_block_of_ours_there_is_refused_as_in_arc_conf(tmp_path, conf_d):
    """[arcacct] is not for A-REX; [custom:arcacct] may be in any of the files."""
    (conf_d / "1.conf").write_text("[arcacct]\nsettle = 1\n")
    said = conf_files.lines(check(conf_files.read(tmp_path), kinds()), tmp_path)
    assert [line for line in said if line.startswith("arc.conf.d/1.conf:1: [arcacct]: is not a block of arc.conf")]
    (conf_d / "1.conf").write_text("[custom:arcacct]\nsettle = 1\n")
    assert settings(conf_files.read(tmp_path), kinds()).settle_s == 1


def test_two_files_that_contradict_each_other_are_a_warning(tmp_path, conf_d):
    """Which one holds is said where it stands; the same value twice, or a repeated option, is fine."""
    (conf_d / "1.conf").write_text("[common]\nhostname = ce.example.org\n[queue:a]\nbenchmark = HEPSPEC 1\n" + MOVED)
    (conf_d / "2.conf").write_text("[queue:a]\nbenchmark = HEPSPEC 2\n")
    said = conf_files.lines(check(conf_files.read(tmp_path), kinds()), tmp_path)
    assert said == [
        "arc.conf.d/1.conf:6: warning: [arex] controldir: is used, but arc.conf:5 has another value; keep one of them"
    ]


def test_problems_are_listed_in_the_order_of_the_files(tmp_path, conf_d):
    """As ARC reads them, ours last."""
    (conf_d / "1.conf").write_text("nothing\n")
    (conf_d / "2.conf").write_text("nothing\n[lrms]\nbenchmark = HEPSPEC:10.2\n")
    conf = conf_files.read(tmp_path, ours="[arcacct]\nsettel = 1\n", arc=conf_files.ARC + "[b\n")
    said = [line.split(": ")[0] for line in conf_files.lines(check(conf, kinds()), tmp_path)]
    assert said == ["arc.conf:6", "arc.conf.d/1.conf:1", "arc.conf.d/2.conf:1", "arcacct.conf:2"]

"""The text of arc.conf and arcacct.conf."""

from __future__ import annotations

import os
import pathlib

import conf_files
import pytest

from arcacct.config import parser
from arcacct.config.parser import find_conf, load, our_conf, parse
from arcacct.errors import ConfigError

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
    """The second replaces the first, as in ARC, which nobody expects."""
    conf = conf_files.read(tmp_path, arc="[a]\nx = 1\n[b]\n[a]\ny = 2\n")
    assert (conf.get("a", "x"), conf.get("a", "y")) == (None, "2")
    assert conf_files.lines(conf.complaints, tmp_path) == [
        "arc.conf:4: [a] is set twice; this one replaces that of line 1; make them one block"
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

"""Files in arc.conf.d, which ARC reads after arc.conf."""

from __future__ import annotations

import os
import pathlib

import conf_files
import pytest
from conf_files import APEL, SGAS
from other_users import acting_as

from arcacct.config import parser
from arcacct.config.check import check, show
from arcacct.config.parser import load
from arcacct.config.settings import settings
from arcacct.errors import ConfigError
from arcacct.targets import kinds

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
        "arc.conf.d/1.conf:4: [a] is set twice; this one replaces that of line 1; make them one block"
    ]


def test_arcacct_conf_replaces_what_came_together(tmp_path, conf_d):
    """The whole block, whatever files it was in."""
    (conf_d / "1.conf").write_text("[a]\ny = 1\n[b]\nz = 1\n")
    conf = conf_files.read(tmp_path, arc="[a]\nx = 1\n", ours="[a]\nx = 4\n")
    assert (conf.all("a", "x"), conf.all("a", "y"), conf.all("b", "z")) == (["4"], [], ["1"])
    assert [block.name for block in conf.replaced] == ["a"]
    assert conf.files == [f"{tmp_path}/arc.conf", f"{conf_d}/1.conf", f"{tmp_path}/arcacct.conf"]


def test_the_directory_is_beside_the_file_that_is_read(tmp_path, monkeypatch):
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


def test_what_was_changed_since_a_rex_started_is_told(tmp_path, conf_d, monkeypatch):
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

"""The settings that hold, as text."""

from __future__ import annotations

import conf_files
from conf_files import APEL, DIRECTORY, SGAS

from arcacct.config.check import show
from arcacct.config.parser import Conf
from arcacct.config.settings import settings
from arcacct.targets import kinds

OURS = (
    "[arcacct]\nsettle = 60\nmap = owner a* vo=b user=/CN=X Y\n"
    f"[arex/jura]\nvo_group = /a\nvo_group = /b\n{SGAS}{APEL}timeout = 5\n{DIRECTORY}"
)


def test_what_is_shown_gives_the_same_settings_when_it_is_read(tmp_path):
    """The output is a configuration of its own, complete."""
    conf = conf_files.read(tmp_path, OURS)
    again = Conf("arc.conf", "shown")
    again.add(show(conf, kinds()), "shown")
    first, second = settings(conf, kinds()), settings(again, kinds())
    for field in first._fields:
        if field not in ("places", "files"):
            assert getattr(second, field) == getattr(first, field), field
    assert second.places.database == first.places.database


def test_each_value_stands_under_the_line_that_sets_it(tmp_path):
    """File and line, with the block where it is inherited, or the word default."""
    text = show(conf_files.read(tmp_path, OURS), kinds()).replace(f"{tmp_path}/", "")
    assert "# arc.conf:2\nhostname = ce.example.org\n" in text
    assert "# arcacct.conf:2 [arcacct]\nsettle = 60\n" in text
    assert "# default\nurbatchsize = 500\n" in text
    assert "# arcacct.conf:5\nvo_group = /a\n# arcacct.conf:6\nvo_group = /b\n" in text


def test_the_database_of_the_command_line_is_shown(tmp_path):
    """--database wins and says so."""
    assert "# --database\ndatabase = /x.db\n" in show(conf_files.read(tmp_path, OURS), kinds(), "/x.db")


def test_no_secret_is_shown(tmp_path):
    """A proxy's password stays where it is."""
    text = show(conf_files.read(tmp_path, arc="[common]\nhttp_proxy = http://me:secret@proxy:3128\n"), kinds())
    assert "http_proxy = http://***@proxy:3128" in text


def test_an_empty_authtokenmap_is_no_default(tmp_path):
    """A line without a value keeps no claim: it is shown, and no default in its place."""
    empty = f"# {tmp_path}/arc.conf:6\nauthtokenmap =\n"

    assert "# default\nauthtokenmap = name:name," in show(conf_files.read(tmp_path), kinds())
    assert empty in show(conf_files.read(tmp_path, arc=conf_files.ARC + "authtokenmap =\n"), kinds())

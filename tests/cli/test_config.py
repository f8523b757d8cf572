"""`arcacct config check` and `arcacct config show`."""

from __future__ import annotations

import os
import pathlib
import shutil

import conf_files
import pytest
from conf_files import APEL, DIRECTORY, SGAS
from control_directory import set_up

from arcacct.config import parser, values
from arcacct.config.check import check
from arcacct.config.parser import Conf
from arcacct.files.directories import resource
from arcacct.sandbox import authority
from arcacct.targets import kinds

HOOK = resource("etc", "arcacct-hook")
OTHERS = "".join(
    f"statecallout = {state} timeout=10,onfailure=log,ontimeout=log {HOOK} %C %I %S\n"
    for state in ("ACCEPTED", "PREPARING", "SUBMIT", "FINISHING")
)
LAST = OTHERS.splitlines(keepends=True)[0].replace("ACCEPTED", "FINISHED")


@pytest.fixture
def credentials(tmp_path):
    """A [common] block whose certificate, key and CA directory are good."""
    ca = authority.create(str(tmp_path / "ca"))
    host = ca.issue("ce.example.org")
    return (
        f"[common]\nhostname = ce.example.org\nx509_host_key = {host.key_path}\n"
        f"x509_host_cert = {host.cert_path}\nx509_cert_dir = {ca.ca_dir}\n"
        f"[arex]\ncontroldir = {set_up(tmp_path / 'c')}\n[lrms]\nbenchmark = HEPscore23:11.5\n"
    )


def test_a_good_configuration(tmp_path, run, credentials):
    """Nothing on stdout, ok on stderr, exit 0."""
    (tmp_path / "out").mkdir()
    ours = SGAS + APEL + DIRECTORY.replace("/var/spool/apel/outgoing", f"{tmp_path}/out")
    code, out, err = run("--config", conf_files.write(tmp_path, ours, credentials), "config", "check")
    assert (code, out) == (0, "")
    assert err.startswith("ok: ")


def test_the_proxy_of_each_target_is_shown(tmp_path, run, credentials):
    """On stderr, after the verdict; the password is not, and an address is not taken for one."""
    common = credentials.replace("[arex]", "http_proxy = http://me:s3cr3t-w0rd@proxy.example.org:3128\n[arex]")
    ours = f"{SGAS}no_proxy = ::1,SGAS.example.org.\n{APEL}no_proxy = other.example.org,192.0.2.0/24\n"
    code, _out, err = run("--config", conf_files.write(tmp_path, ours, common), "config", "check")
    assert code == 0
    assert "sgas:one: https://sgas.example.org:6143/sgas/ur without the proxy: no_proxy has its host\n" in err
    assert "apel:egi: https://msg.example.org/" in err
    assert err.endswith(":publish through the proxy http://***@proxy.example.org:3128\n")
    assert "::1" in run("--config", str(tmp_path / "arc.conf"), "config", "show")[1]


@pytest.mark.parametrize(
    ("common", "target", "line"),
    [
        pytest.param("", "no_proxy = *", "arcacct.conf:3: warning: [arex/jura/sgas:one]", id="none is set"),
        pytest.param("", "http_proxy =\nno_proxy = *", "arcacct.conf:4: warning: [arex/jura/sgas:one]", id="no value"),
        pytest.param("no_proxy = a", "", "arc.conf:2: warning: [common]", id="none for any target"),
        pytest.param("http_proxy = http://p:1", "no_proxy = *", None, id="that of the block it inherits from"),
        pytest.param("no_proxy = a", "http_proxy = http://p:1", None, id="that of a target that inherits it"),
    ],
)
def test_hosts_without_the_proxy_have_no_effect_if_no_proxy_is_set(tmp_path, monkeypatch, common, target, line):
    """The variables of the environment are no proxy of ours."""
    monkeypatch.setenv("http_proxy", "http://environment:1")
    conf = conf_files.read(tmp_path, f"{SGAS}{target}\n", f"[common]\n{common}\n")
    found = conf_files.lines([one for one in check(conf, kinds()) if one.option == "no_proxy"], tmp_path)
    text = "no_proxy: has no effect without http_proxy; set http_proxy, too, or remove this line"
    assert found == ([] if line is None else [f"{line} {text}"])


@pytest.mark.parametrize(
    ("no_proxy", "url", "is_direct"),
    [
        ("example.org", "https://example.org/x", True),
        (".example.org", "https://a.b.example.org:8443/", True),
        ("*.example.org", "https://A.Example.org", True),
        ("example.org", "https://badexample.org", False),
        ("a.example.org", "https://example.org", False),
        ("192.0.2.0/24 2001:db8::/32", "https://192.0.2.7:443", True),
        ("192.0.2.0/255.255.255.0", "https://192.0.2.255", True),
        ("192.0.2.0/24,[2001:db8::1]", "https://[2001:DB8:0::1]:443/", True),
        ("192.0.2.0/24", "https://192.0.3.7", False),
        ("192.0.2.7", "https://host-192.0.2.7.example.org", False),
        ("*", "https://anything", True),
        ("", "https://anything", False),
    ],
)
def test_the_hosts_of_no_proxy(no_proxy, url, is_direct):
    """Hosts, whole domains, addresses and networks."""
    used = values.proxy_for(url, "http://p:1", values.no_proxy(no_proxy))
    assert used == (None if is_direct else "http://p:1")


@pytest.mark.parametrize(
    "no_proxy", ["192.0.2.0/33", "192.0.2", "host:8443", "https://x", "a_b", "*example.org", "me:p@x"]
)
def test_what_is_no_host_of_no_proxy_is_an_error(tmp_path, no_proxy):
    """And no name that no receiver has."""
    conf = conf_files.read(tmp_path, f"{SGAS}http_proxy = http://p:1\nno_proxy = localhost,{no_proxy}\n")
    (found,) = conf_files.lines([one for one in check(conf, kinds()) if one.option == "no_proxy"], tmp_path)
    assert found.startswith("arcacct.conf:4: [arex/jura/sgas:one] no_proxy: '")
    assert "is not a host, domain, address or network; separate them with commas" in found
    assert "p@" not in found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "arc.conf: warning: [lrms] benchmark: none is set"),
        ("[lrms]\nbenchmark = HEPSPEC:1.0\n", "arc.conf: warning: [lrms] benchmark: none is set"),
        ("[lrms]\nbenchmark = HEPscore23:1500\n", "[lrms] benchmark: is HEPscore23:1500, and a core has 2 to 100 HEP"),
        ("[lrms]\nbenchmark = HEPSPEC:0.01\n", "[lrms] benchmark: is HEPSPEC:0.01, and a core has 2 to 100 HEPSPEC"),
        ("[queue:a]\nbenchmark = Si2k 10\n", "[queue:a] benchmark: is Si2k:10, and a core has 500 to 25000 Si2k"),
        ("[queue:a]\nbenchmark = Si2k 2500\n", ""),
        ("[lrms]\nbenchmark = HEPscore23:14.5\n", ""),
    ],
)
def test_a_benchmark_that_no_core_has_is_a_warning(tmp_path, run, text, said):
    """Nor is the default one: whoever is paid by normalised figures has none."""
    arc = f"[common]\nhostname = ce.example.org\n[arex]\ncontroldir = {set_up(tmp_path / 'c')}\n{OTHERS}{LAST}{text}"
    code, out, _ = run("--config", conf_files.write(tmp_path, "[arcacct]\npublishes = no\n", arc), "config", "check")

    assert code == 0
    assert said in out
    assert bool(out) == bool(said)


@pytest.mark.parametrize("option", ["queue_benchmark", "node_benchmark"])
def test_lines_of_benchmarks_are_judged_as_well(tmp_path, run, option):
    ours = f'[arcacct]\npublishes = no\n{option} = "a*" HEPscore23:1500 from=2026-01-01\n{option} = "b" HEPscore23:15\n'
    _, out, _ = run("--config", conf_files.write(tmp_path, ours), "config", "check")

    (said,) = [line for line in out.splitlines() if f" {option}: " in line]
    assert said == (
        f"{tmp_path}/arcacct.conf:3: warning: [arcacct] {option}: is HEPscore23:1500, and a core has 2 to 100"
        " HEPscore23; use the value of one core, not of a node"
    )


def test_arcacct_conf_is_not_arc_conf(tmp_path, run, credentials):
    """Who passes it to --config would have all targets taken for those of A-REX's jura."""
    conf_files.write(tmp_path, SGAS, credentials)
    code, out, err = run("--config", f"{tmp_path}/arcacct.conf", "publish")
    assert (code, out) == (78, "")
    assert f"{tmp_path}/arcacct.conf: --config and $ARC_CONFIG name arc.conf; arcacct.conf next to it is read" in err


def test_without_any_file_the_last_line_says_so(tmp_path, run, monkeypatch):
    """Neither of the usual files is there; every command gives the same advice."""
    for name in ("ARC_CONF", "RUN_TIME_FILE"):
        monkeypatch.setattr(f"arcacct.config.parser.{name}", f"{tmp_path}/arc.conf")
    advice = f"{tmp_path}/arc.conf: no such file, and no {tmp_path}/arcacct.conf; pass one with --config, or create it"
    code, out, err = run("config", "check")
    assert (code, err) == (78, "not ok: no file: 1 error, 0 warnings\n")
    assert advice in out
    code, _, err = run("db", "check")
    assert (code, err) == (78, f"arcacct: {advice}\n")


def test_every_problem_is_listed(tmp_path, run):
    """Mistakes in the text and files that cannot be used, together, and exit 78."""
    arc = f"[common]\nhostname = ce.example.org\nx509_host_key = {tmp_path}/key.pem\n"
    ours = "[arcacct]\nsettel = 1\n" + SGAS + DIRECTORY.replace("/var/spool/apel", f"{tmp_path}/missing")
    code, out, err = run("--config", conf_files.write(tmp_path, ours, arc), "config", "check")
    assert code == 78
    assert "Traceback" not in err
    assert f"{tmp_path}/arc.conf:3: [common] x509_host_key: {tmp_path}/key.pem cannot be read" in out
    assert f"{tmp_path}/arcacct.conf:2: [arcacct] settel: is not an option of [arcacct]; did you mean settle?" in out
    assert f"{tmp_path}/arcacct.conf:3: [arex/jura/sgas:one] x509_host_cert: /etc/grid-security/hostcert.pem" in out
    assert (
        f"{tmp_path}/arcacct.conf:6: [arcacct/directory:out] path: {tmp_path}/missing/outgoing is not a directory"
        in out
    )
    assert err.startswith("not ok: ")


def test_a_file_shared_by_targets_is_complained_about_once(tmp_path, run, credentials):
    """One line for one missing file, though two targets use it."""
    arc = credentials.replace("x509_host_cert = ", "x509_host_cert = /missing")
    code, out, _ = run("--config", conf_files.write(tmp_path, SGAS + APEL, arc), "config", "check")
    assert code == 78
    assert out.count("cannot be read") == 1


@pytest.mark.parametrize("is_filled", [True, False], ids=["not hashed", "empty"])
def test_what_a_run_with_nothing_to_send_does_not_notice(tmp_path, run, is_filled):
    """A certificate that has expired and a CA directory that is of no use: both are errors."""
    ca = authority.create(str(tmp_path / "ca"))
    host = ca.issue("ce.example.org", not_before=1_700_000_000, not_after=1_760_000_000)
    (trusted := tmp_path / "certificates").mkdir()
    if is_filled:
        shutil.copy(host.cert_path, trusted / "ca.pem")
    arc = (
        f"[common]\nhostname = ce.example.org\nx509_host_key = {host.key_path}\nx509_host_cert = {host.cert_path}\n"
        f"x509_cert_dir = {trusted}\n[arex]\ncontroldir = {set_up(tmp_path / 'c')}\n"
    )
    conf = conf_files.write(tmp_path, SGAS, arc)

    assert run("--config", conf, "publish")[0] == 0
    code, out, _err = run("--config", conf, "config", "check")

    assert code == 78
    assert f"{host.cert_path} expired at 2025-10-09 08:53 UTC; install a new host certificate" in out
    assert f"{trusted} has no CA certificate under a hashed name" in out


@pytest.mark.parametrize("option", ["x509_host_cert", "x509_host_key"])
def test_a_run_waits_for_no_pipe(tmp_path, run, credentials, option):
    """In place of the certificate or the key, although there is nothing to send."""
    os.mkfifo(pipe := tmp_path / "pipe")
    conf = conf_files.write(tmp_path, f"{SGAS}{option} = {pipe}\n", credentials)
    code, _, err = run("--config", conf, "publish")
    assert code == 77
    assert f"{pipe}: cannot be read (a pipe, not a regular file); correct the path" in err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        pytest.param("timeout=10,onfailure=log,ontimeout=log HOOK %C %I %S", None, id="good"),
        pytest.param("10,onfailure=pass,ontimeout=pass HOOK %C %I %S", None, id="bare-timeout"),
        pytest.param("onfailure=log,ontimeout=log HOOK %C %I %S", "has no timeout", id="no-timeout"),
        pytest.param("timeout=10,ontimeout=log HOOK %C %I %S", "would fail the user's job", id="onfailure"),
        pytest.param("timeout=10,onfailure=log HOOK %C %I %S", "would fail the user's job", id="ontimeout"),
        pytest.param("timeout=10 /bin/true somebody-elses %C", None, id="not-ours"),
        pytest.param("timeout=10,onfailure=log,ontimeout=log HOOK spool-only %C %I %S", None, id="spool-only"),
    ],
)
def test_a_callout_that_could_hurt_jobs_is_a_warning(tmp_path, run, line, said):
    """A-REX fails the job when its callout fails, unless the line says otherwise."""
    arex = f"[lrms]\nbenchmark = HEPscore23:11.5\n[arex]\ncontroldir = {set_up(tmp_path / 'c')}\n"
    arc = f"{arex}{OTHERS}statecallout = FINISHED {line}\n".replace(" HOOK ", f" {HOOK} ")
    if "somebody-elses" in line:
        arc = arc.replace(str(HOOK), "/bin/true")
    code, out, _ = run("--config", conf_files.write(tmp_path, None, arc), "config", "check")
    assert code == 0
    assert (said or "") in out
    assert bool(out) == bool(said)


def test_a_deadline_of_0_2_is_a_warning(tmp_path, run):
    """No command reads it; whatever it says, the configuration can be used."""
    arc = f"[lrms]\nbenchmark = HEPscore23:11.5\n[arex]\ncontroldir = {set_up(tmp_path / 'c')}\n{OTHERS}{LAST}"
    conf = conf_files.write(tmp_path, "[arcacct]\ndeadline = soon\n", arc)
    code, out, _ = run("--config", conf, "config", "check")
    assert code == 0
    told = "[arcacct] deadline: is obsolete since arcacct 0.3 and ignored; remove it"
    assert out == f"{tmp_path}/arcacct.conf:2: warning: {told}\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        pytest.param("/opt/arcacct-hook %C %I %S", "A-REX does not start with it", id="no-options"),
        pytest.param("timeout=10,onfailure=log,ontimeout=log HOOK %I %S", "%C %I %S", id="no-directory"),
        pytest.param("timeout=10,onfailure=log,ontimeout=log", "names no program", id="no-program"),
        pytest.param("", "has no options between state and program", id="nothing"),
    ],
)
def test_a_callout_that_stops_a_rex_or_tells_nothing_is_an_error(tmp_path, run, line, said):
    """A line without options keeps A-REX from starting; one without its arguments records nothing."""
    arc = f"[arex]\ncontroldir = {set_up(tmp_path / 'c')}\n{OTHERS}statecallout = FINISHED {line}\n".replace(
        " HOOK ", f" {HOOK} "
    )
    code, out, _ = run("--config", conf_files.write(tmp_path, None, arc), "config", "check")
    assert code == 78
    assert said in out


def missing(hook: pathlib.Path) -> str:
    return str(hook.with_name("arcacct-hok"))


def not_executable(hook: pathlib.Path) -> str:
    hook.chmod(0o644)
    return str(hook)


def a_directory(hook: pathlib.Path) -> str:
    return str(hook.parent)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (missing, "the launcher does not exist (no such file or directory)"),
        (not_executable, "the launcher is not an executable program"),
        (a_directory, "is not a regular file"),
    ],
)
def test_a_launcher_that_a_rex_cannot_start_is_an_error(tmp_path, run, broken, said):
    """Found before A-REX is restarted and fails every job; also one whose name is mistyped, which is no more ours."""
    (hook := tmp_path / "bin" / "arcacct-hook").parent.mkdir()
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    arc = f"[lrms]\nbenchmark = HEPscore23:11.5\n[arex]\ncontroldir = {set_up(tmp_path / 'c')}\n{OTHERS}{LAST}"
    conf = conf_files.write(tmp_path, None, arc.replace(str(HOOK), str(hook)))
    assert run("--config", conf, "config", "check")[:2] == (0, "")

    conf = conf_files.write(tmp_path, None, arc.replace(str(HOOK), broken(hook)))
    code, out, _ = run("--config", conf, "config", "check")

    assert code == 78
    (line,) = [one for one in out.splitlines() if "warning" not in one]
    assert said in line
    assert "arc.conf:5: [arex] statecallout: " in line


def test_what_the_next_start_will_read_is_judged(tmp_path, run, monkeypatch):
    """A-REX runs with a file that is made at its start: a line that was added since would keep it from starting."""
    good = f"[lrms]\nbenchmark = HEPscore23:11.5\n[arex]\ncontroldir = {set_up(tmp_path / 'c')}\n{OTHERS}{LAST}"
    running = tmp_path / "run" / "arched-arex.cfg"
    running.parent.mkdir()
    running.write_text(good)
    arc_conf = conf_files.write(tmp_path, None, f"{good}statecallout = FINISHED /opt/arcacct-hook %C %I %S\n")
    monkeypatch.setattr(parser, "RUN_TIME_FILE", str(running))
    monkeypatch.setattr(parser, "RUN_TIME_FOLDERS", (str(running.parent),))
    monkeypatch.setattr(parser, "ARC_CONF", arc_conf)

    code, out, err = run("config", "check")

    assert code == 78
    assert f"{arc_conf}:10: [arex] statecallout: has no options between state and program" in out
    assert f"{arc_conf}: applies from the next start of A-REX, which now runs with {running}" in err


def test_another_command_repeats_a_warning_as_it_is(tmp_path, run):
    """On standard error, and with the word once."""
    arc = f"[arex]\ncontroldir = {set_up(tmp_path / 'c')}\n[arex/jura/archiving]\n"
    _, _, err = run("--config", conf_files.write(tmp_path, None, arc), "verify", "last")
    (said,) = [line for line in err.splitlines() if "archiving" in line]
    assert said.startswith(f"arcacct: {tmp_path}/arc.conf:3: warning: [arex/jura/archiving]: is obsolete")


def test_states_without_a_callout_or_with_two_are_warnings(tmp_path, run):
    """What A-REX does not tell of a sweep may miss; what it tells twice costs it time."""
    line = OTHERS.splitlines()[0]
    arc = f"[arex]\ncontroldir = {set_up(tmp_path / 'c')}\n{line}\n{line}\n"
    code, out, _ = run("--config", conf_files.write(tmp_path, None, arc), "config", "check")
    assert code == 0
    assert "missing for PREPARING, SUBMIT, FINISHING, FINISHED" in out
    assert "arc.conf:4: warning: [arex] statecallout: is the second for ACCEPTED" in out


def test_callouts_outside_arex_are_errors(tmp_path, run):
    """Lines at the end of arc.conf, behind another block, and lines in arcacct.conf: A-REX reads none of them."""
    arc = f"[arex]\ncontroldir = {set_up(tmp_path / 'c')}\n[lrms]\nbenchmark = HEPscore23:11.5\n{LAST}"
    conf = conf_files.write(tmp_path, f"[arex]\ncontroldir = {tmp_path / 'c'}\n{LAST}", arc)
    code, out, _ = run("--config", conf, "config", "check")
    assert code == 78
    move = f"A-REX does not read it here; move it to [arex] of {conf}"
    assert f"{conf}:5: [lrms] statecallout: {move}" in out
    assert f"{tmp_path}/arcacct.conf:3: [arex] statecallout: {move}" in out


def test_a_missing_file_is_one_clear_line(tmp_path, run):
    """No traceback, the configuration's exit code."""
    code, out, err = run("--config", f"{tmp_path}/missing.conf", "config", "check")
    assert (code, out) == (78, "")
    assert err == f"arcacct: {tmp_path}/missing.conf: no such file; give an existing configuration file\n"
    _, _, err = run("--config", str(tmp_path), "config", "check")
    assert err == f"arcacct: {tmp_path}: a directory; give the configuration file in it\n"
    code, _, err = run("--config", "/dev/null", "config", "check")
    assert code == 78
    assert err == "arcacct: /dev/null: cannot be read: a device, not a regular file; give the configuration file\n"


def test_no_file_at_all_is_an_error(tmp_path):
    """A host without arc.conf and arcacct.conf is told where they were looked for."""
    (problem,) = check(Conf(f"{tmp_path}/arc.conf", f"{tmp_path}/arcacct.conf"), kinds())
    assert str(problem) == (
        f"{tmp_path}/arc.conf: no such file, and no {tmp_path}/arcacct.conf; pass one with --config, or create it"
    )


def test_show_prints_a_configuration(tmp_path, run):
    """Blocks and options with their sources, also while the configuration has errors."""
    code, out, err = run("--config", conf_files.write(tmp_path, SGAS + "urbatchsize = many\n"), "config", "show")
    assert (code, err) == (0, "")
    assert f"[arex/jura/sgas:one]\n# {tmp_path}/arcacct.conf:2\ntargeturl = https://sgas.example.org:6143/sgas\n" in out
    assert "urbatchsize = many\n" in out


def test_one_directory_in_two_spellings_is_one_receiver(tmp_path, run):
    """With a slash at the end, or through a link: APEL would count every job twice."""
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "out")
    arc = f"[lrms]\nbenchmark = HEPscore23:11.5\n[arex]\ncontroldir = {set_up(tmp_path / 'c')}\n"
    for second in (f"{tmp_path}/out/", f"{tmp_path}/link", f"{tmp_path}/./out"):
        ours = "".join(
            f"[arcacct/directory:{name}]\npath = {path}\ngocdb_name = SITE\napel_messages = {kind}\n"
            for name, path, kind in (("one", f"{tmp_path}/out", "summaries"), ("two", second, "individual"))
        )
        code, out, _ = run("--config", conf_files.write(tmp_path, ours, arc), "config", "check")
        assert (code, "goes to the same receiver as directory:one" in out) == (78, True)


def test_a_callout_of_the_site_that_is_not_there(tmp_path, run):
    """A-REX fails each job by it; it is not our launcher, and no copy of ours is proposed."""
    line = "statecallout=PREPARING timeout=10,onfailure=log /nowhere/site-check %I"
    arc = f"[lrms]\nbenchmark = HEPscore23:11.5\n[arex]\ncontroldir = {set_up(tmp_path / 'c')}\n{line}\n"
    conf = conf_files.write(tmp_path, None, arc)
    for command in (("config", "check"), ("setup", "--check"), ("doctor", "--offline")):
        code, out, _ = run("--config", conf, *command)
        assert code == 78
        assert "/nowhere/site-check: the program of a callout does not exist" in out
        assert "arcacct-hook there" not in out.split("site-check: the program")[1].splitlines()[0]

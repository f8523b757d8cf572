"""The 35 rules of machine and job features, each with what keeps it and what breaks it."""

from __future__ import annotations

import http.server
import os
import pathlib
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse
from typing import ClassVar

import pytest
from dripping_receiver import ANSWERS, DrippingReceiver

from arcacct.errors import InputError, StoreError, UsageError
from arcacct.sandbox import authority
from arcacct.sources.features import values as features_values
from arcacct.sources.features.check import RULES, check
from arcacct.sources.features.collect import place_of
from arcacct.sources.features.http import Web
from arcacct.sources.features.reader import (
    JOB_KEYS,
    MACHINE_KEYS,
    location_of,
    problem,
    read,
    remaining_s,
    remove,
    remove_keys,
    write,
)
from arcacct.sources.features.values import job_values_of_environment, locations, valid

NOW = int(time.time())
MACHINE = {"total_cpu": "16", "hs06": "160.5", "grace_secs": "600"}
JOB = {
    "allocated_cpu": "4",
    "hs06_job": "40.125",
    "grace_secs_job": "60",
    "jobstart_secs": str(NOW - 10),
    "job_id": "4711.ce",
    "wall_limit_secs": "3600",
    "cpu_limit_secs": "14400",
    "max_rss_bytes": "8589934592",
    "max_swap_bytes": "8589934592",
    "scratch_limit_bytes": "20000000000",
}


@pytest.fixture
def places(tmp_path):
    """A machine and a job with good features."""
    machine, job = tmp_path / "machine", tmp_path / "job"
    features_values.write_machine(str(machine), MACHINE)
    # The job starts when its features are written, however long the tests before this one took.
    features_values.write_job(str(job), {**JOB, "jobstart_secs": str(int(time.time()) - 10)})
    return {"machine": str(machine), "job": str(job)}


def verdict(places, rule, **more):
    """What the check says of one rule."""
    found = {one.rule: one for one in check(places, **more)}
    assert found.keys() == RULES.keys()
    return found[rule].verdict


def put(place, name, content):
    """A file as a bad producer writes it."""
    (pathlib.Path(place) / name).write_text(content)


def test_good_features_have_no_bad_verdict(places):
    """What we write ourselves is right by every rule that one look can judge."""
    assert {one.rule: one.reason for one in check(places) if one.verdict in {"fail", "warn"}} == {}


VALUES = [
    (1, "job", "Allocated-CPU", "4\n", "fail"),
    (2, "job", "wall_limit_secs", "3600s\n", "fail"),
    (2, "job", "wall_limit_secs", "+3600\n", "fail"),
    (2, "job", "wall_limit_secs", "3.6e3\n", "fail"),
    (2, "job", "wall_limit_secs", "3600\n\n", "fail"),
    (2, "job", "wall_limit_secs", "3600", "ok"),
    (3, "machine", "hs06", "0\n", "fail"),
    (3, "machine", "hs06", "1e2\n", "fail"),
    (3, "job", "hs06_job", "nan\n", "fail"),
    (4, "machine", "total_cpu", "0\n", "fail"),
    (4, "job", "allocated_cpu", "1.5\n", "fail"),
    (5, "job", "job_id", "two words\n", "fail"),
    (5, "job", "job_id", "a\nb\n", "fail"),
    (5, "job", "job_id", "ä\n", "fail"),
    (6, "job", "jobstart_secs", "0f2e4a31-7c5d-4c4e-9d4a-1b2c3d4e5f60\n", "fail"),
    (6, "job", "jobstart_secs", f"{NOW + 5000}\n", "fail"),
    (6, "job", "jobstart_secs", "1000000000\n", "fail"),
    (7, "job", "wall_limit_secs", "57600\n", "warn"),
    (8, "job", "cpu_limit_secs", "3600\n", "warn"),
    (9, "job", "max_rss_bytes", "8192\n", "fail"),
    (10, "job", "hs06_job", "160.5\n", "warn"),
    (10, "job", "hs06_job", "40.2\n", "ok"),
    (12, "machine", "shutdowntime", f"{NOW + 9999}\n", "ok"),
    (13, "machine", "shutdowntime", f"{NOW + 60}\n", "fail"),
    (13, "machine", "shutdowntime", f"{NOW + 9999}\n", "ok"),
    (16, "machine", "shutdowntime", "", "fail"),
    (16, "machine", "shutdowntime", "0\n", "fail"),
    (32, "machine", "hs06", "", "warn"),
    (33, "job", "wall_limit_secs", "1\n", "ok"),
    (34, "job", "hepscore23_job", "41\n", "ok"),
    (35, "job", "allocated_CPU", "4\n", "warn"),
]


@pytest.mark.parametrize(
    ("rule", "kind", "name", "content", "wanted"),
    VALUES,
    # Without the content, which may be a time: every process that collects the tests has to call them the same.
    ids=[f"{number}: {rule} {name} {wanted}" for number, (rule, _kind, name, _content, wanted) in enumerate(VALUES)],
)
def test_rules_on_values(places, rule, kind, name, content, wanted):
    """Names, forms, units and what belongs together."""
    put(places[kind], name, content)
    assert verdict(places, rule) == wanted


def test_rules_1_to_5_and_9_hold_for_what_is_written(tmp_path):
    """We refuse to write what the rules forbid, and then nothing of it is there."""
    for values in (
        {"Bad": "1"},
        {"total_cpu": "0"},
        {"hs06": "ten"},
        {"job_id": "a b"},
        {"max_rss_bytes": "2048"},
        {"hs06": ""},
    ):
        with pytest.raises(UsageError):
            write(str(tmp_path / "x"), {"grace_secs": "5"} | values)
    assert not (tmp_path / "x").exists()
    write(str(tmp_path / "x"), {"max_rss_bytes": "2048"}, force=True)


def test_rule_6_a_start_is_no_uuid():
    """The identity of a virtual machine is not a time."""
    assert problem("jobstart_secs", "0f2e4a31-7c5d-4c4e-9d4a-1b2c3d4e5f60") is not None
    assert problem("jobstart_secs", str(NOW)) is None


def test_rule_7_and_8_limits_of_a_batch_system():
    """Slurm's limit of clock time is not scaled by processors."""
    found = job_values_of_environment(
        {
            "SLURM_JOB_ID": "7",
            "SLURM_CPUS_ON_NODE": "4",
            "SLURM_JOB_START_TIME": "1000",
            "SLURM_JOB_END_TIME": "4600",
            "SLURM_MEM_PER_NODE": "2048",
        }
    )
    assert found == {
        "job_id": "7",
        "allocated_cpu": "4",
        "jobstart_secs": "1000",
        "wall_limit_secs": "3600",
        "max_rss_bytes": "2147483648",
    }


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        (
            {"PBS_JOBID": "12.pbs", "PBS_NP": "8", "PBS_WALLTIME": "7200"},
            {"job_id": "12.pbs", "allocated_cpu": "8", "wall_limit_secs": "7200"},
        ),
        ({"JOB_ID": "99", "NSLOTS": "2"}, {"job_id": "99", "allocated_cpu": "2"}),
        ({"JOB_ID": "99", "SGE_TASK_ID": "undefined"}, {"job_id": "99"}),
        ({"JOB_ID": "99", "SGE_TASK_ID": "4"}, {"job_id": "99.4"}),
        ({"LSB_JOBID": "3", "LSB_JOBINDEX": "0"}, {"job_id": "3"}),
        ({"LSB_JOBID": "3", "LSB_JOBINDEX": "4"}, {"job_id": "3[4]"}),
        ({"PBS_JOBID": "12[4].pbs"}, {"job_id": "12[4].pbs"}),
        ({"SLURM_JOB_ID": "13", "SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "3"}, {"job_id": "13"}),
        ({"LSB_JOBID": "3", "LSB_DJOB_NUMPROC": "x"}, {"job_id": "3"}),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_CPUS_PER_NODE": "4(x2)"}, {"job_id": "7", "allocated_cpu": "4"}),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_CPUS_PER_NODE": "4,2"}, {"job_id": "7"}),
        ({"HOME": "/"}, {}),
    ],
)
def test_values_of_batch_systems(environ, found):
    """What each batch system says in its environment, and nothing that it does not."""
    assert job_values_of_environment(environ) == found


def test_rule_10_the_share_of_the_machine(places):
    """Without a rating of its own a job has its processors' share of the machine's."""
    assert features_values.share_of_machine({"allocated_cpu": "4"}, read(places["machine"])) == {"hs06_job": "40.125"}
    assert features_values.share_of_machine({"allocated_cpu": "4", "hs06_job": "1"}, read(places["machine"])) == {}
    put(places["machine"], "hs06", "0.0001\n")
    assert features_values.share_of_machine({"allocated_cpu": "4"}, read(places["machine"])) == {}


def test_rule_11_a_job_ends_before_its_machine(places):
    """A job's shutdown after the machine's is wrong."""
    put(places["machine"], "shutdowntime", f"{NOW + 5000}\n")
    put(places["job"], "shutdowntime_job", f"{NOW + 6000}\n")
    assert verdict(places, 11) == "fail"
    put(places["job"], "shutdowntime_job", f"{NOW + 4000}\n")
    assert verdict(places, 11) == "ok"


def test_rule_12_no_shutdown_without_grace(tmp_path):
    """A shutdown is not announced to jobs that were promised no notice."""
    place = str(tmp_path / "m")
    write(place, {"total_cpu": "4"})
    assert verdict({"machine": place}, 12) == "unseen"
    with pytest.raises(InputError, match="grace_secs"):
        features_values.set_shutdown(place, NOW + 9999)
    with pytest.raises(UsageError, match="grace_secs"):
        features_values.write_machine(place, {"shutdowntime": str(NOW + 9999)})
    put(place, "shutdowntime", f"{NOW + 9999}\n")
    assert verdict({"machine": place}, 12) == "fail"


def test_rule_13_notice_is_kept(places):
    """A shutdown sooner than grace_secs from now is refused, one later is announced."""
    with pytest.raises(UsageError, match="soonest"):
        features_values.set_shutdown(places["machine"], NOW + 30, now=NOW)
    features_values.set_shutdown(places["machine"], NOW + 700, now=NOW)
    assert read(places["machine"]).number("shutdowntime") == NOW + 700
    features_values.set_shutdown(places["job"], NOW + 60, job=True, now=NOW)
    assert read(places["job"]).number("shutdowntime_job") == NOW + 60


def test_rule_14_all_keys_can_be_written(places):
    """Every key of the specification that is not a shutdown is there before the job starts; a lack is told."""
    assert set(read(places["machine"]).values) == {key.name for key in MACHINE_KEYS if not key.dynamic}
    assert set(read(places["job"]).values) == {key.name for key in JOB_KEYS if not key.dynamic}
    assert verdict(places, 14) == "ok"
    remove_keys(places["job"], ("max_rss_bytes",))
    assert verdict(places, 14) == "warn"


def test_rule_15_static_keys_stay(places):
    """A key that a job may have read does not change, unless one says that the job knows."""
    with pytest.raises(UsageError, match="does not change"):
        features_values.write_job(places["job"], {"allocated_cpu": "2"})
    features_values.write_job(places["job"], {"allocated_cpu": "4"})
    features_values.write_job(places["job"], {"allocated_cpu": "2"}, force=True)
    assert read(places["job"]).values["allocated_cpu"] == "2"
    put(places["job"], "jobstart_secs", f"{NOW - 5000}\n")
    assert verdict(places, 15) in {"warn", "unseen"}
    features_values.write_job(places["job"], {"jobstart_secs": str(NOW - 100)}, force=True)
    assert verdict(places, 15) == "warn"


def test_rule_16_and_17_a_shutdown_is_taken_back(places):
    """Taking it back removes the file, at once; doing so twice is no error."""
    features_values.set_shutdown(places["machine"], NOW + 9999)
    features_values.clear_shutdown(places["machine"])
    features_values.clear_shutdown(places["machine"])
    assert "shutdowntime" not in os.listdir(places["machine"])
    assert verdict(places, 16) == "ok"


READER = """
import sys
path, seen, wanted = sys.argv[1], set(), {b"1" * 17 + b"\\n", b"2" * 17 + b"\\n"}
print("ready", flush=True)
while True:
    with open(path, "rb") as file:
        content = file.read()
    if content not in wanted:
        print("bad", content, flush=True)
        break
    seen.add(content)
    if len(seen) == 2:
        open(sys.argv[3], "w").close()
    try:
        open(sys.argv[2]).close()
    except FileNotFoundError:
        continue
    print("saw", len(seen), flush=True)
    break
"""


def test_rule_18_no_reader_sees_half_of_a_value(tmp_path):
    """While a value is written again a thousand times, whoever opens it finds one of the values, whole."""
    place = tmp_path / "m"
    write(str(place), {"grace_secs": "1" * 17})
    end, both = tmp_path / "end", tmp_path / "both"
    command = [sys.executable, "-c", READER, *map(str, (place / "grace_secs", end, both))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
        for number in range(10_000):
            write(str(place), {"grace_secs": "12"[number % 2] * 17})
            # On a busy machine the reader may have had no turn yet.
            if number > 1000 and both.exists():
                break
        end.touch()
        assert reader.stdout.readline() == "saw 2\n"
    assert os.listdir(place) == ["grace_secs"]


def test_rule_19_a_directory_goes_after_its_job(places, tmp_path):
    """Only a directory of keys is removed, and all others stay."""
    remove(places["job"])
    assert sorted(os.listdir(tmp_path)) == ["machine"]
    (tmp_path / "home").mkdir()
    put(tmp_path / "home", "thesis.tex", "...")
    with pytest.raises(InputError, match="nothing was removed"):
        remove(str(tmp_path / "home"))
    assert os.listdir(tmp_path / "home") == ["thesis.tex"]


def test_rule_20_jobs_have_their_own_directories(places, tmp_path):
    """What is written for one job is not seen by another; one place for two is wrong."""
    features_values.write_job(str(tmp_path / "other"), {"job_id": "2"})
    assert read(places["job"]).values["job_id"] == "4711.ce"
    assert verdict({"machine": places["job"], "job": places["job"]}, 20) == "fail"


@pytest.mark.parametrize(
    ("value", "rule", "wanted"),
    [
        ("/etc/machinefeatures/", 21, "fail"),
        ("file:///tmp", 22, "fail"),
        ("tmp", 22, "fail"),
        ("ftp://x/y", 22, "fail"),
    ],
)
def test_rules_21_and_22_variables(places, value, rule, wanted):
    """No slash at the end; a path from the root or an http(s) URL, and nothing else is opened."""
    if value.endswith("/"):
        value = places["machine"] + "/"
    assert verdict({"machine": value, "job": places["job"]}, rule) == wanted
    assert verdict(places, rule) == "ok"


def test_an_empty_directory_is_no_directory(tmp_path, monkeypatch):
    """As a variable is that the batch system has not set: neither the present directory nor the root is meant."""
    monkeypatch.chdir(tmp_path)
    for act in (lambda: write("", {"job_id": "1"}), lambda: remove(""), lambda: remove_keys("", ("job_id",))):
        with pytest.raises(UsageError, match="empty"):
            act()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("job_id", ["../../etc", "..", ".", "a/../../b", "/etc", "a\0b", ""])
def test_an_id_leads_nowhere_else(job_id):
    """Ids of jobs come from other programs too: none is a way out of the place that the administrator named."""
    with pytest.raises(InputError, match="cannot be part of a path"):
        place_of("/var/spool/features/{jobid}", job_id)
    assert place_of("/var/spool/features/{jobid}/f", "sonar:cl/1:2") == "/var/spool/features/sonar:cl/1:2/f"


def test_rule_22_other_places_are_refused():
    """A relative path or another scheme is refused with what would be right."""
    with pytest.raises(UsageError, match="https://"):
        location_of("features", "$JOBFEATURES")
    assert location_of("/etc/machinefeatures/", "$MACHINEFEATURES") == "/etc/machinefeatures"


@pytest.mark.parametrize("kind", ["machine", "job"])
def test_rule_23_one_variable_is_enough(places, kind):
    """With only one of the two, the rest is absent and nothing fails."""
    one = {kind: places[kind]}
    assert verdict(one, 23) == "ok"
    assert {found.verdict for found in check(one)} <= {"ok", "unseen"}
    assert list(valid(locations({f"{kind.upper()}FEATURES": places[kind]}))) == [kind]


def test_rule_25_permissions(places, tmp_path):
    """Directories 0755, files 0644 whatever the umask; what others may write is wrong."""
    old = os.umask(0o077)
    try:
        features_values.write_job(str(tmp_path / "n"), {"job_id": "1"})
    finally:
        os.umask(old)
    assert (tmp_path / "n").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "n" / "job_id").stat().st_mode & 0o777 == 0o644
    assert verdict(places, 25) == "ok"
    os.chmod(f"{places['job']}/job_id", 0o666)
    assert verdict(places, 25) == "fail"


def test_rule_26_no_links(places, tmp_path):
    """Nothing is read, written or removed through a link that somebody has planted."""
    secret = tmp_path / "secret"
    secret.write_text("7\n")
    for name in ("max_rss_bytes", "scratch_limit_bytes"):
        os.unlink(f"{places['job']}/{name}")
        os.symlink(secret, f"{places['job']}/{name}")
    found = read(places["job"])
    assert "max_rss_bytes" not in found.values
    with pytest.raises(InputError, match="another user"):
        features_values.write_job(places["job"], {"max_rss_bytes": "9000000000"}, force=True)
    with pytest.raises(InputError):
        remove(places["job"])
    assert secret.read_text() == "7\n"
    assert verdict(places, 26) == "fail"
    os.symlink(places["machine"], tmp_path / "link")
    with pytest.raises(InputError, match="symbolic link"):
        write(str(tmp_path / "link"), {"total_cpu": "1"})
    with pytest.raises(StoreError):
        write(str(secret), {"total_cpu": "1"})


class Site(http.server.BaseHTTPRequestHandler):
    """A plain web server over the directories, as a site's administrator would set it up."""

    root: pathlib.Path
    age: ClassVar[dict[str, int]] = {"shutdowntime": 30}
    empty_404 = True
    requests: list[tuple[str, str]]
    delay_s = 0.0
    to: str | None = None
    moved: ClassVar[dict[str, str]] = {}
    logins: list[str | None]

    def do_GET(self):
        self.requests.append((self.command, self.path))
        self.logins.append(self.headers.get("Authorization"))
        time.sleep(self.delay_s)
        path = (self.root / urllib.parse.unquote(self.path).lstrip("/")).resolve()
        if self.to is not None or self.path in self.moved:
            self.answer(302, b"", Location=self.to or self.moved[self.path])
        elif self.root not in path.parents or not path.is_file():
            self.answer(404, b"" if self.empty_404 else b"<h1>Not found</h1>")
        elif self.headers.get("If-None-Match") == self.etag(path):
            self.answer(304, b"", ETag=self.etag(path))
        else:
            age = self.age.get(path.name, 3600)
            self.answer(
                200,
                path.read_bytes(),
                ETag=self.etag(path),
                **{"Cache-Control": f"max-age={age}", "Content-Type": "text/plain"},
            )

    do_HEAD = do_GET  # noqa: N815  http.server's name

    def etag(self, path):
        return f'"{path.stat().st_mtime_ns}"'

    def answer(self, status, body, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def served(places, tmp_path):
    """The same features from a web server, whose handler a test may change."""
    handler = type("Handler", (Site,), {"root": tmp_path.resolve(), "requests": [], "logins": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    base = f"http://127.0.0.1:{server.server_port}"
    try:
        yield {"machine": f"{base}/machine", "job": f"{base}/job"}, handler
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_features_from_a_web_server(served, places):
    """What is read over HTTP is what is in the directory."""
    urls, _ = served
    for kind in ("machine", "job"):
        assert read(urls[kind], fetch=Web().get).values == read(places[kind]).values
    assert {one.rule: str(one) for one in check(urls, web=Web()) if one.verdict in {"fail", "warn"}} == {}


def test_rule_24_metadata_are_read_once(served, tmp_path):
    """A cloud's metadata are asked for once, and the answer is kept for later runs."""
    urls, handler = served
    put(tmp_path, "machinefeatures", urls["machine"] + "\n")
    put(tmp_path, "jobfeatures", places_text := urls["job"])
    base = places_text.rpartition("/")[0]
    for _ in range(3):
        found = locations({}, metadata_url=base, metadata_file=str(tmp_path / "kept.json"), fetch=Web().get)
        assert valid(found) == urls
    assert sorted(handler.requests) == [("GET", "/jobfeatures"), ("GET", "/machinefeatures")]


@pytest.mark.parametrize("empty", [True, False])
def test_rule_27_a_missing_key_is_404_with_nothing(served, empty):
    """A 404 is an absent key; a page in it, which simple readers take for the value, is told."""
    urls, handler = served
    handler.empty_404 = empty
    assert "shutdowntime" not in read(urls["machine"], fetch=Web().get).values
    assert verdict(urls, 27, web=Web()) == ("ok" if empty else "fail")


def test_rule_28_answers_hold_as_long_as_the_server_says(served, places):
    """Within max-age nothing is asked again; then an unchanged value costs a 304."""
    urls, handler = served
    clock = [0.0]
    web = Web(clock=lambda: clock[0])
    features_values.set_shutdown(places["machine"], NOW + 9999)
    url = urls["machine"] + "/shutdowntime"
    assert web.get(url) == web.get(url) == str(NOW + 9999)
    assert len(handler.requests) == 1
    clock[0] = 31
    assert web.get(url) == str(NOW + 9999)
    features_values.set_shutdown(places["machine"], NOW + 8888)
    assert web.get(url) == str(NOW + 9999)
    clock[0] = 62
    assert web.get(url) == str(NOW + 8888)
    assert verdict(urls, 28, web=Web()) == "ok"
    handler.age = {"shutdowntime": 3600}
    assert verdict(urls, 28, web=Web()) == "fail"


def test_rule_29_head_is_as_get_and_nothing_else_is_served(served):
    """HEAD and conditional GET agree with GET, and no path leads out of the directory."""
    urls, _ = served
    assert verdict(urls, 29, web=Web()) == "ok"


def test_rule_30_tls_is_verified(places, tmp_path):
    """A server is believed if an authority of the grid's directory vouches for it, and else not."""
    ca = authority.create(str(tmp_path / "ca"))
    host = ca.issue("localhost")
    handler = type("Handler", (Site,), {"root": tmp_path.resolve(), "requests": [], "logins": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(host.cert_path, host.key_path)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"https://localhost:{server.server_port}/machine"
    try:
        assert Web(ca.ca_dir).get(f"{url}/total_cpu") == "16"
        with pytest.raises(InputError, match="certificate"):
            Web().get(f"{url}/total_cpu")
        assert verdict({"machine": url}, 30, web=Web(ca.ca_dir)) == "ok"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_rule_30_no_other_host_is_followed_to(served):
    """A redirect to another host is not followed: its features are absent, with a warning."""
    urls, handler = served
    handler.to = "http://localhost.invalid/total_cpu"
    found = read(urls["machine"], fetch=Web().get)
    assert found.values == {}
    assert "another host" in found.warnings[0]


def test_redirects_on_the_same_host_are_followed(served):
    """Up to a few: a server that leads in a circle is named."""
    urls, handler = served
    handler.moved = {"/old": "/machine/total_cpu", "/circle": "/circle"}
    base = urls["machine"].removesuffix("/machine")
    assert Web().get(f"{base}/old") == "16"
    with pytest.raises(InputError, match="redirects"):
        Web().get(f"{base}/circle")


def test_the_environment_has_no_say(served, monkeypatch, tmp_path):
    """No proxy of whoever runs the command, and no login from .netrc."""
    urls, handler = served
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    for name, value in (("http_proxy", "http://127.0.0.1:9"), ("ALL_PROXY", "http://127.0.0.1:9"), ("NETRC", netrc)):
        monkeypatch.setenv(name, str(value))
    assert Web().get(f"{urls['machine']}/total_cpu") == "16"
    assert handler.logins == [None]


@pytest.mark.parametrize("where", ANSWERS)
def test_rule_31_a_server_that_never_ends_is_given_up(where):
    """The limit covers the whole answer, not each byte of it."""
    server = DrippingReceiver(None, ANSWERS[where])
    try:
        with pytest.raises(InputError, match="no complete answer within"):
            Web(timeout_s=0.3).get(f"http://127.0.0.1:{server.port}/hs06")
    finally:
        server.stop()


def test_rule_31_a_silent_server_is_not_waited_for(served):
    """After the time limit a key is absent, with a warning, and nothing hangs."""
    urls, handler = served
    handler.delay_s = 0.5
    web = Web(timeout_s=0.1)
    with pytest.raises(InputError, match="no answer"):
        web.get(urls["machine"] + "/hs06")
    assert Web()._timeout_s <= 5
    handler.delay_s = 0.0


@pytest.mark.parametrize("content", ["", "many\n", "-1\n", "1" * 5000])
def test_rule_32_what_cannot_be_read_is_absent(places, content):
    """Empty, no number, too long: absent, with exactly one warning."""
    put(places["machine"], "total_cpu", content)
    found = read(places["machine"])
    assert "total_cpu" not in found.values
    assert len(found.warnings) == 1


@pytest.mark.parametrize(
    ("machine", "job", "left"),
    [
        ({}, {"jobstart_secs": NOW - 100, "wall_limit_secs": 3600}, 3500),
        ({"shutdowntime": NOW + 50}, {"jobstart_secs": NOW - 100, "wall_limit_secs": 3600}, 50),
        ({"shutdowntime": NOW + 50}, {"shutdowntime_job": NOW + 20}, 20),
        ({"shutdowntime": NOW - 50}, {}, 0),
        ({}, {"wall_limit_secs": 3600}, None),
    ],
    ids=["limit", "machine", "job", "over", "unknown"],
)
def test_rule_33_the_time_that_is_left(tmp_path, machine, job, left):
    """The soonest of the job's limit and both shutdowns, never negative."""
    for kind, values in (("machine", machine), ("job", job)):
        (tmp_path / kind).mkdir()
        for name, value in values.items():
            put(tmp_path / kind, name, f"{value}\n")
    assert remaining_s(read(str(tmp_path / "machine")), read(str(tmp_path / "job")), NOW) == left


def test_rule_34_unknown_keys_are_kept(places):
    """A site's own keys are no error and go into accounting under names that cannot be mistaken."""
    put(places["job"], "hepscore23_job", "41.5\n")
    found = read(places["job"])
    assert found.for_accounting() == {"mjf_hepscore23_job": "41.5"}
    assert found.warnings == ()


def test_rule_34_an_unknown_key_has_one_line_that_can_be_shown(places):
    """Nothing that steers a terminal gets out of a directory, neither to a screen nor into a record."""
    put(places["job"], "zone", "\x1b]0;title\x07\n")
    put(places["job"], "more", "a\nb\n")
    put(places["job"], "none", "")
    found = read(places["job"])
    assert found.extra == {}
    assert len(found.warnings) == 3


def test_rule_35_values_of_the_old_draft_are_doubted(places):
    """Nothing, in today's unit, is no limit either."""
    remove_keys(places["job"], ("max_rss_bytes",))
    put(places["job"], "mem_limit_MB", "0\n")
    assert "max_rss_bytes" not in read(places["job"]).values


def test_rule_35_keys_of_the_old_draft(places):
    """They are read with a warning where today's key is missing, in today's unit."""
    remove_keys(places["job"], ("allocated_cpu", "max_rss_bytes"))
    put(places["job"], "allocated_CPU", "8\n")
    put(places["job"], "mem_limit_MB", "2000\n")
    found = read(places["job"])
    assert (found.number("allocated_cpu"), found.number("max_rss_bytes")) == (8, 2_000_000_000)
    assert len(found.warnings) == 2


def test_every_rule_is_tested():
    """Each of the 35 rules is named by a test of this file."""
    import re

    text = pathlib.Path(__file__).read_text()
    named = {int(number) for number in re.findall(r"^\s+\((\d+), \"", text, re.MULTILINE)}
    for name in re.findall(r"def test_rules?_([0-9a-z_]+)\(", text):
        numbers = [int(word) for word in name.split("_") if word.isdigit()]
        named |= set(range(numbers[0], numbers[1] + 1)) if "_to_" in name else set(numbers)
    assert set(range(1, 36)) <= named

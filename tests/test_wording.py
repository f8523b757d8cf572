"""One way out: no secret, nothing that steers a terminal, nothing without an end."""

from __future__ import annotations

import base64
import html
import json
import threading
from contextlib import closing
from urllib.parse import quote

import pytest
from hostile_text import TEXT
from hypothesis import example, given
from hypothesis import strategies as st

from arcacct import secrecy, wording
from arcacct.database.schema import ACCOUNTING, in_memory
from arcacct.records.texts import escaped
from arcacct.wording import count_of, sanitise_line, span_of, strip_control

TOKEN = 'aB3/x+9&Qz"7w8e5r1t2y6u4i0o=='
"""As a token is, with characters that every encoding writes in its own way."""


@pytest.mark.parametrize(
    ("seconds", "text"), [(34559735, "399 d"), (2 * 86400 - 1, "47 h"), (7199, "119 min"), (119, "119 s"), (0, "0 s")]
)
def test_a_length_of_time_is_in_the_unit_that_a_person_reads(seconds, text) -> None:
    """Whole units, and at least two of them, so that what is left out is less than half."""
    assert span_of(seconds) == text


@pytest.mark.parametrize(
    ("number", "what", "text"),
    [
        (1, "record", "1 record"),
        (0, "record", "0 records"),
        (2, "ur record", "2 ur records"),
        (3, "entry", "3 entries"),
        (1, "entry", "1 entry"),
        (14, "day", "14 days"),
        (2, "process", "2 processes"),
    ],
)
def test_a_number_of_things(number, what, text) -> None:
    """One thing, two things: by one rule for all that is counted."""
    assert count_of(number, what) == text


@pytest.mark.parametrize(
    "name",
    ["rUkNDmRiaoAoOSAtDm", "/DC=org/DC=example/CN=Jørgen Ærlig O'Neill 7%", "żółć Ω 数据 🚀", r"CORP\user, \xC3", ""],
)
def test_an_ordinary_name_is_shown_as_it_is(name) -> None:
    """Whatever people and files are called in any script comes out unchanged."""
    assert sanitise_line(name) == name


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x1b[2J\x1b]52;c;cm0gLXJmIC8=\x1b\\", "\\x1b[2J\\x1b]52;c;cm0gLXJmIC8=\\x1b\\"),
        ("\x9b31m", r"\x9b31m"),
        ("two\nlines\r\tand", r"two\nlines\r\tand"),
        ("\x7f\x00", r"\x7f\x00"),
        ("abc\u202edcba", r"abc\u202edcba"),
        ("\u2066\u2069\u200b\u200d\ufeff", r"\u2066\u2069\u200b\u200d\ufeff"),
        ("\u2028\u2029\x85", r"\u2028\u2029\x85"),
        ("\ud800 and \udcc3", r"\ud800 and \udcc3"),
        ("\u3164\ufe0f\U000e0001\U000e0101", r"\u3164\ufe0f\U000e0001\U000e0101"),
    ],
)
def test_what_steers_a_terminal_is_shown_in_letters(text, shown) -> None:
    """Escape sequences, C1, line ends, bidi controls, characters without width, halves of characters."""
    assert sanitise_line(text) == shown


@given(TEXT, st.integers(0, 80))
def test_what_comes_out_is_short_printable_and_stays_as_it_is(text, limit) -> None:
    """Whatever goes in: at most the limit, all of it printable and encodable, and a second way out changes nothing."""
    out = sanitise_line(text, limit)

    assert len(out) <= limit
    assert out.isprintable()
    out.encode("utf-8")
    assert sanitise_line(out, limit) == out


def test_what_is_cut_says_so() -> None:
    """The reader sees that there was more."""
    out = sanitise_line("word " * 1000, 100)

    assert len(out) <= 100
    assert out.startswith("word word ")
    assert out.endswith(" [cut]")


def test_columns_keep_their_tabs() -> None:
    """A caller may let the tabs of its own lines stay."""
    assert sanitise_line("a\tb\x1b", keep="\t") == "a\tb\\x1b"
    assert strip_control("a\tb", keep="\t") == "a\tb"


ENCODED = {
    "as it is": TOKEN,
    "in capitals": TOKEN.upper(),
    "in a URL": quote(TOKEN, safe=""),
    "in a URL, small digits": quote(TOKEN, safe="").lower(),
    "in HTML": html.escape(TOKEN),
    "in JSON": json.dumps(TOKEN),
    "in base64": base64.b64encode(TOKEN.encode()).decode(),
    "in base64 for URLs": base64.urlsafe_b64encode(TOKEN.encode()).decode(),
}


@pytest.mark.parametrize("quoted", ENCODED.values(), ids=ENCODED.keys())
def test_a_secret_is_hidden_however_it_is_quoted(quoted) -> None:
    """A proxy may quote a header in any encoding: nothing of it comes out."""
    secrecy.keep(TOKEN)

    assert (
        sanitise_line(f"you sent <b>{quoted}</b>, which is wrong")
        .removeprefix("you sent <b>")
        .startswith(("***", '"***"'))
    )
    assert quoted[2:-3] not in sanitise_line(f"you sent {quoted}")


@pytest.mark.parametrize("part", [TOKEN[:12], TOKEN[-12:], TOKEN[5:13]])
def test_a_part_of_a_secret_is_hidden_too(part) -> None:
    """A receiver cuts what it quotes where it likes: eight characters of a token are already too many."""
    secrecy.keep(TOKEN)

    assert sanitise_line(f"token {part} refused") == "token *** refused"


def test_a_secret_across_the_cut_is_hidden() -> None:
    """What is cut is cut after the secrets are gone: no half of one is left at the end."""
    secrecy.keep(TOKEN)

    for before in range(60, 101):
        out = sanitise_line("x" * before + TOKEN + "y" * 100, 100)
        assert not any(TOKEN[at : at + 4] in out for at in range(len(TOKEN) - 4)), out


def test_a_secret_behind_other_secrets_is_hidden_in_any_number() -> None:
    """A page full of nothing but the token, longer than any limit, shows none of it."""
    secrecy.keep(TOKEN)

    out = sanitise_line(f"{TOKEN} " * 50_000, 500)

    assert set(out.partition(" [cut")[0]) <= {"*", " "}


@pytest.mark.parametrize(
    "url",
    [
        "http://arc:s3cr3t-w0rd@proxy.example.org:3128",
        "arc:s3cr3t-w0rd@proxy.example.org:3128",
        "http://arc:s3cr3t-w0rd@proxy.example.org:none",
        "socks5h://arc:s3cr3t-w0rd@[::1",
    ],
)
def test_the_password_of_a_proxy_is_hidden_everywhere(url) -> None:
    """Usable or not, with a scheme or without: its password comes out in no form, not even as the proxy quotes it."""
    secrecy.keep_login(url)
    basic = base64.b64encode(b"arc:s3cr3t-w0rd").decode()

    assert (
        sanitise_line(f"Proxy-Authorization: Basic {basic} for s3cr3t-w0rd") == "Proxy-Authorization: Basic *** for ***"
    )
    assert "s3cr" not in secrecy.without_login(url)
    assert secrecy.without_login(url).partition("@")[2] == url.partition("@")[2]


_URLS = st.one_of(
    st.text("s:/?@#&%a.1;=\n", max_size=40),
    st.builds(
        "{}://{}{}".format,
        st.sampled_from(["https", "SRM", "srm", "", "a b"]),
        st.text("ab:@.?", max_size=8),
        st.text("/?&=@%#aSFNsfn", max_size=20) | st.just("/v2?SFN=/a&b@c/d?e"),
    ),
)


@given(_URLS)
@example("srm://u:p@se/v2?sfn=/a@b&sig=s")
@example("https://u:p?q@se/f")
def test_the_view_shows_of_the_url_of_a_file_what_is_sent(url) -> None:
    """Plain SQL has no function of ours, so the view has the rule of its own; for any text both show the same."""
    with closing(in_memory(ACCOUNTING)) as con:
        con.execute("PRAGMA foreign_keys = OFF")
        columns = [name for _id, name, _type, required, *_ in con.execute("PRAGMA table_info(AAR)") if required]
        names = [name for name in columns if name not in {"RecordID", "JobID"}]
        con.execute(
            f"INSERT INTO AAR (RecordID, JobID, {', '.join(names)}) VALUES (1, 'job', {', '.join('1' for _ in names)})"
        )
        con.execute("INSERT INTO DataTransfers VALUES (1, ?, 1, 1, 1, 10)", (escaped(url),))
        assert con.execute("SELECT url FROM v1_transfers").fetchall() == [(secrecy.without_credentials(url),)]


def test_a_password_of_a_url_is_hidden_though_nobody_knew_it() -> None:
    """A login in a URL is recognised as one; a user's name alone is no secret, nor is an @ in a path."""
    assert sanitise_line("gsiftp://me:pass@se.example.org/x failed") == "gsiftp://***@se.example.org/x failed"
    assert sanitise_line("see https://me@example.org/a:b@c") == "see https://me@example.org/a:b@c"


def test_a_short_password_does_not_garble_all_that_is_said() -> None:
    """A password of three letters is hidden where it is one, and not in every word."""
    secrecy.keep_login("arc:job@proxy")

    assert sanitise_line("no job at arc:job@proxy") == "no job at arc***proxy"


def test_threads_may_keep_secrets_while_others_ask() -> None:
    """Targets run side by side: what each of them keeps is hidden in the end."""
    names = [f"token-of-target-number-{number:04d}" for number in range(400)]
    threads = [
        threading.Thread(target=lambda mine=names[at::8]: [secrecy.keep(one) for one in mine]) for at in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [sanitise_line(name) for name in names] == ["***"] * len(names)


def test_secrets_cost_nothing_where_there_are_none() -> None:
    """A text of some megabytes is looked at once, not letter by letter."""
    secrecy.keep(TOKEN)

    assert wording.sanitise_line("nothing to hide " * 300_000, 100).endswith("[cut]")

"""What qacct was asked for each of its answers in data/gridengine/qacct-out, as our question and as our options."""

from __future__ import annotations

from arcacct.sources.gridengine.qacct import Question

TEN_TO_TEN = 1_795_168_200
"""2026-11-20 09:50:00 UTC: qacct's -b 202611200950."""
DAY = 1_795_132_800
"""2026-11-20 00:00:00 UTC."""
LATER = "@1795200000"
"""What -d without -b and -e counts back from."""

_ASKED = {
    "total": ("", Question()),
    "m": ("-m", Question(masters=True)),
    "A_atlas": ("--by account --account grid_atlas", Question(("account",), (("account", "grid_atlas"),))),
    "D_all": ("--by department", Question(("department",))),
    "P_all": ("--by project", Question(("project",))),
    "P_atlas": ("--by project --project atlas", Question(("project",), (("project", "atlas"),))),
    "ar_1": ("--by ar --ar 1", Question(("ar",), (("ar", "1"),))),
    "ar_all": ("--by ar", Question(("ar",))),
    "b_all": ("--timezone UTC -b 202601010000", Question(from_s=DAY - 324 * 86_400)),
    "b_time": ("--timezone UTC -b 202611200950", Question(from_s=TEN_TO_TEN)),
    "d1": (f"-d 1 --now {LATER}", Question(from_s=int(LATER[1:]) - 86_400)),
    "d1_b": ("--timezone UTC -b 202611200000 -d 1", Question(from_s=DAY, until_s=DAY + 86_400)),
    "d1_e": ("--timezone UTC -e 202611210000 -d 1", Question(from_s=DAY, until_s=DAY + 86_400)),
    "e_time": ("--timezone UTC -e 202611200949.30", Question(until_s=TEN_TO_TEN - 30)),
    "E_e": ("--timezone UTC --on end -e 202611200949.30", Question(until_s=TEN_TO_TEN - 30, on_end=True)),
    "g_all": ("--by group", Question(("group",))),
    "g_phys": ("--by group --group gephysics", Question(("group",), (("group", "gephysics"),))),
    "h_all": ("--by host", Question(("host",))),
    "h_vm": ("--by host --host vm", Question(("host",), (("host", "vm"),))),
    "o_P_pe_slots": ("--by owner,project,pe,slots", Question(("owner", "project", "pe", "slots"))),
    "o_alice": ("--by owner --owner gealice", Question(("owner",), (("owner", "gealice"),))),
    "o_all": ("--by owner", Question(("owner",))),
    "o_g_P": ("--by owner,group,project", Question(("owner", "group", "project"))),
    "o_m": ("--by owner -m", Question(("owner",), masters=True)),
    "o_none": ("--by owner --owner nobody", Question(("owner",), (("owner", "nobody"),))),
    "o_q": ("--by owner,queue", Question(("owner", "queue"))),
    "pe_all": ("--by pe", Question(("pe",))),
    "pe_smp": ("--by pe --pe smp", Question(("pe",), (("pe", "smp"),))),
    "q_all": ("--by queue", Question(("queue",))),
    "q_allq": ("--by host,queue --queue all.q", Question(("host", "queue"), (("queue", "all.q"),))),
    "q_wild": ("--by host,queue --queue *.q", Question(("host", "queue"), (("queue", "*.q"),))),
    "slots_3": ("--by slots --slots 3", Question(("slots",), (("slots", "3"),))),
    "slots_all": ("--by slots", Question(("slots",))),
}
OPTIONS = {name: options.split() for name, (options, _question) in _ASKED.items()}
QUESTIONS = {name: question for name, (_options, question) in _ASKED.items()}
ANSWERS = [name for name in OPTIONS if name != "E_e"]
"""Those that sum something; E_e is one where qacct prints no row."""

"""A manual of a few pages with everything that pages have, in the place of the real one."""

from __future__ import annotations

import pathlib

PAGES = {
    "index": "# arcacct\n\nThe manual.\n",
    "tutorial": "# First steps\n\nSee [the installation](howto/install.md).\n",
    "howto/install": """\
<!-- a mark of a generated part -->
# Install on a CE

Run `arcacct db init`, then [look at it](#is-all-well). **Never** use `cp`; read
[Whose word holds](../reference/words.md#order), [the example](../../etc/arcacct.conf.example) and
<https://example.org/docs>, or [a site](https://example.org/site).

1. First
2. Second: `arcacct publish --dry-run`

    ```sh
    echo "a line of code that is longer than any terminal of eighty columns is wide, and must stay one line" > file
    # no heading
    ```

* outer
    * inner, with words enough for a second line of its own at a width of forty

<!-- generated: begin -->
| a | b |
|---|---|
| `x` | one |
<!-- generated: end -->

## Is all well

!!! warning "Before you go"
    Mind the *step*.

    And this.

After it.
""",
    "howto/install-arc7": "# Install beside ARC 7\n\nAs [Install](install.md). The spool.\n",
    "howto/verify": "# Verify: do all agree\n\n`arcacct verify 2026-11` compares.\n",
    "reference/exit-codes": """\
# Exit codes

| code | meaning |
|---|---|
| 0 | all is well |
| `69` | a target refuses us ([publishing](../howto/install.md)) |
| 75 | try again later |

## Of status

| command | code |
|---|---|
| `arcacct status` | `0` fine, `2` critical |
| `arcacct verify` | `0` all agree, `1` they do not: not 2 of 75 |
""",
    "reference/options": """\
# Options

## [arcacct]

### arcacct settle

How long a failed job is held back.

### sgas settle

As [above](#arcacct-settle).
""",
    "reference/words": """\
# Whose word holds

## Order

| what | the strongest first | why |
|---|---|---|
| user | one > two > three, and so on with many words that need a second line | because the spool says so |
| time | two | it is measured, which is better than guessed, as everybody who ever tried will confirm |

| what arcacct does | its test |
|---|---|
| the first thing | `tests/acceptance/test_a_very_long_name_that_fits_no_line_of_forty.py::test_it` |
""",
    "project/limits": "Limits without a heading: fence and launcher.\n",
}


def write(root: pathlib.Path, **more: str) -> pathlib.Path:
    """Write the pages below ``root/docs``, and further ones by name."""
    for name, text in (PAGES | more).items():
        path = root / "docs" / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root / "docs"

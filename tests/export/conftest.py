"""A site that exports."""

from __future__ import annotations

import pytest
import stored_jobs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from exported_site import Site


@pytest.fixture
def site(tmp_path) -> Iterator[Site]:
    """Two jobs of each of May, June and July, of three users."""
    pytest.importorskip("pyarrow", reason="the extra `parquet` is not installed")
    from exported_site import JULY_S, JUNE_S, MAY_S, Site

    made = Site(tmp_path)
    ends = (MAY_S, MAY_S + 10, JUNE_S, JUNE_S + 5, JULY_S, JULY_S + 99)
    made.add(*(stored_jobs.job(number, end_s=end) for number, end in enumerate(ends, 1)))
    yield made
    made.con.close()

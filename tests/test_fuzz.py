"""No input breaks a page: whatever is sent, no answer is a 500."""

import sys
from typing import Any

import pytest

from tests.fuzzing import SECRET, Fuzzer
from tests.leaks.world import World


@pytest.mark.slow
@pytest.mark.django_db
@pytest.mark.parametrize(
    "count",
    [
        40,
        pytest.param(
            20_000, marks=[pytest.mark.nightly("20,000 requests"), pytest.mark.timeout(0)]
        ),
    ],
)
def test_no_request_breaks_a_page(count: int, settings: Any) -> None:
    settings.SLACK_SIGNING_SECRET = SECRET
    settings.MEMORYHUB_OAUTH = True
    settings.SLACK_BASE_URL = "http://127.0.0.1:9/"  # no server listens there
    report = Fuzzer(World().build()).run(count)
    sys.stderr.write(f"\n{report}\n")
    assert sum(report.statuses.values()) == count
    assert not report.broken and not report.statuses[500], report
    assert not report.off_site, report

"""The driver of the tests: what did not run is said, and with CI=true it is a failure."""

from collections import Counter
from pathlib import Path

import pytest

from tests import postgres
from tests.long import longest, name_of
from tests.run import Report, must_answer, skipped_tests

RESULTS = """<testsuites><testsuite>
<testcase classname="tests.a" name="test_one"/>
<testcase classname="tests.a" name="test_two"><skipped message="no browser"/></testcase>
</testsuite></testsuites>"""


def test_skipped_tests_are_found(tmp_path: Path) -> None:
    (tmp_path / "results.xml").write_text(RESULTS)
    assert skipped_tests(tmp_path / "results.xml") == ["tests.a.test_two: no browser"]


def test_a_run_that_wrote_nothing_did_not_run(tmp_path: Path) -> None:
    assert skipped_tests(tmp_path / "nothing.xml") == ["no results were written"]


@pytest.mark.parametrize(
    ("failed", "not_run", "ci", "status"),
    [
        pytest.param([], [], "", 0, id="all well"),
        pytest.param(["lint"], [], "", 1, id="a failure"),
        pytest.param([], ["browser"], "", 0, id="not run, at home"),
        pytest.param([], ["browser"], "true", 1, id="not run, in CI"),
        pytest.param([], [], "true", 0, id="all well in CI"),
    ],
)
def test_the_end(
    failed: list[str],
    not_run: list[str],
    ci: str,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CI", ci)
    report = Report()
    report.failed, report.not_run = failed, not_run
    assert report.close() == status
    said = capsys.readouterr().out
    assert all(what in said for what in failed + not_run)


def test_the_fewest_that_take_the_share_are_long() -> None:
    took = Counter({"walk": 5.0, "race": 3.0, "rule": 1.0, "word": 1.0})
    assert longest(took, 0.5) == ["walk"]
    assert longest(took, 0.6) == ["race", "walk"]


@pytest.mark.parametrize(
    ("nodeid", "name"),
    [
        ("tests/test_a.py::test_b", "tests.test_a.test_b"),
        ("tests/a/test_b.py::TestC::test_d[e::f]", "tests.a.test_b.TestC.test_d"),
    ],
)
def test_a_test_goes_by_its_name_without_its_case(nodeid: str, name: str) -> None:
    assert name_of(nodeid) == name


@pytest.mark.cluster
@pytest.mark.parametrize("find", [postgres.system_binaries, postgres.wheel_binaries])
def test_a_server_of_its_own_answers_and_is_gone(
    find: postgres.Find, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if find(tmp_path) is None:
        assert find is postgres.system_binaries  # the wheel is always there
        return
    monkeypatch.setattr(postgres, "SOURCES", {"only": find})
    with postgres.temporary_server() as url:
        must_answer(url)
        folder = Path(url.partition("host=")[2])
        assert folder.is_dir()
    assert not folder.exists()

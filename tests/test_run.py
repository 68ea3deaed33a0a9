"""The test runner: parts that could not run are listed, and with CI=true they are failures."""

import sys
from pathlib import Path

import pytest

from tests import postgres, run
from tests.databases import connect

RESULTS = """<testsuites><testsuite>
<testcase classname="tests.a" name="test_one"/>
<testcase classname="tests.a" name="test_two"><skipped message="no browser"/></testcase>
</testsuite></testsuites>"""
PASSED = {"tests": 2, "seconds": 1, "failed": False, "not_run": []}


def test_skipped_tests_are_read(tmp_path: Path) -> None:
    (tmp_path / "results.xml").write_text(RESULTS)
    assert run.read_results(tmp_path / "results.xml") == (2, ["tests.a.test_two: no browser"])


def test_a_run_without_results_did_not_run(tmp_path: Path) -> None:
    assert run.read_results(tmp_path / "nothing.xml") == (0, ["no results were written"])


@pytest.mark.parametrize(
    ("row", "ci", "status", "text"),
    [
        pytest.param({}, "", 0, "passed", id="passed"),
        pytest.param({"failed": True}, "", 1, "FAILED", id="failed"),
        pytest.param({"not_run": ["no browser"]}, "", 0, "no browser", id="not run at home"),
        pytest.param({"not_run": ["no browser"]}, "true", 1, "no browser", id="not run in CI"),
        pytest.param({}, "true", 0, "passed", id="passed in CI"),
    ],
)
def test_the_summary(
    row: run.Row,
    ci: str,
    status: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CI", ci)
    assert run.summarize(["sqlite", "bars"], {"sqlite": PASSED | row}) == status
    output = capsys.readouterr().out
    assert text in output
    assert "not run" in output.split("bars")[1]
    assert ("as far as it ran" in output) is (status == 0)


def test_a_whole_run_passed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.summarize(["sqlite"], {"sqlite": PASSED}) == 0
    assert capsys.readouterr().out.endswith("\nPassed.\n")


def test_an_unknown_part_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nightly = run.Run("nightly")
    monkeypatch.setattr(nightly, "parts", lambda: {"sqlite": dict, "bars": dict})
    assert nightly.run(["walks"]) == 2
    assert "sqlite, bars" in capsys.readouterr().out


def test_the_end_repeats_what_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["1 passed", "FAILED tests/a.py::test_one", "!!! MISSED 1 kill", "PASS 1/1"]
    command = [sys.executable, "-c", f"print(*{lines}, sep=chr(10)); exit(1)"]
    test = run.Run("test")

    def bars() -> run.Row:
        return PASSED | {"failed": test.execute("bars", command)}

    monkeypatch.setattr(test, "parts", lambda: {"bars": bars})
    assert test.run([]) == 1
    end = capsys.readouterr().out.split("Failed.")[1]
    repeated = [line for line in lines if line in end]
    assert repeated == ["FAILED tests/a.py::test_one", "!!! MISSED 1 kill"]


def test_a_nightly_run_continues_after_a_stop(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows of another commit do not count."""
    monkeypatch.setattr(run, "NIGHTLY", tmp_path / "nightly.json")
    parts = {"sqlite": lambda: dict(PASSED), "bars": lambda: PASSED | {"failed": True}}
    for name, expected in (("bars", 1), ("sqlite", 1)):
        nightly = run.Run("nightly")
        monkeypatch.setattr(nightly, "parts", lambda: parts)
        assert nightly.run([name]) == expected
    monkeypatch.setattr(run, "commit", lambda: "another")
    assert run.kept() == {}


@pytest.mark.cluster
@pytest.mark.parametrize("find", [postgres.system_binaries, postgres.wheel_binaries])
def test_a_temporary_server_answers_and_is_removed(
    find: postgres.Find, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if find(tmp_path) is None:
        assert find is postgres.system_binaries  # the wheel is always there
        return
    monkeypatch.setattr(postgres, "SOURCES", {"only": find})
    with postgres.temporary_server() as url:
        connect(url).close()
        folder = Path(url.partition("host=")[2])
        assert folder.is_dir()
    assert not folder.exists()

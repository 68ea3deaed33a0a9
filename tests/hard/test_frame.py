"""The frame finds every hard test, and one that breaks is one that misses."""

import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.hard import __main__ as hard
from tests.hard import frame
from tests.hard.__main__ import LONGEST_FIRST
from tests.hard.frame import Bar, Database, Job, bars, run_job


def test_every_bar_has_a_number_of_its_own() -> None:
    numbers = [bar.name.split()[0] for bar in bars()]
    assert {"1", "2", "3", "9"} <= set(numbers)
    assert len(set(numbers)) == len(numbers)


def test_the_order_of_the_longest_names_bars() -> None:
    assert set(LONGEST_FIRST) <= {bar.stem for bar in bars()}


@pytest.mark.parametrize("word", ["1", "kill", "bar_kill"])
def test_a_bar_is_called_by_number_word_or_file(word: str) -> None:
    assert [bar.stem for bar in bars() if bar.matches([word])] == ["bar_kill"]


BROKEN = """
NAME = "0 broken"
def run(**given):
    {}
"""


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize(
    ("body", "figures"),
    [
        ('raise ValueError("no such luck")', {"pass": False, "error": "ValueError: no such luck"}),
        ('return {"pass": True, "n": given["seed"]}', {"pass": True, "n": 7}),
        (  # locks on SQLite are files there, and other hard tests run meanwhile
            'import os; return {"pass": os.environ["MEMORYHUB_VAR"] == f"{given[\'work\']}/var"}',
            {"pass": True},
        ),
    ],
)
def test_results_of_a_bar(
    body: str, figures: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bar_planted.py").write_text(BROKEN.format(body))
    monkeypatch.setattr(frame, "BARS", tmp_path)
    template = tmp_path / "template.sqlite3"
    template.touch()
    bar = Bar("bar_planted", "0 broken", ("sqlite",), ("sqlite",), environment={})
    database = Database("sqlite", str(template))
    result = run_job(Job(bar, database, full=False, seed=7, work=tmp_path / "work"))
    assert result.items() >= figures.items()


def test_a_run_goes_on_after_the_bars_that_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    databases = [Database("sqlite", ""), Database("postgresql", "")]
    passing, ran = {"sqlite"}, []

    def run_planted(job: Job) -> dict[str, object]:
        ran.append(job.database.name)
        head = {"bar": job.bar.name, "database": job.database.name}
        return head | {"pass": job.database.name in passing}

    monkeypatch.setattr(hard, "RESULTS", str(tmp_path / "results.jsonl"))
    monkeypatch.setattr(hard, "databases", lambda work: nullcontext(databases))
    monkeypatch.setattr(hard, "run_job", run_planted)
    monkeypatch.setattr(hard.signal, "signal", lambda *handler: None)
    monkeypatch.setattr(hard.tempfile, "mkdtemp", lambda prefix: str(tmp_path / "work"))
    monkeypatch.setattr(sys, "argv", ["hard", "idle"])
    assert hard.main() == 1
    assert sorted(ran) == ["postgresql", "sqlite"]
    passing.add("postgresql")
    assert hard.main() == 0
    assert ran[2:] == ["postgresql"]
    assert "PASS 2/2" in capsys.readouterr().out

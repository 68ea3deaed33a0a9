"""The lock files fit pyproject.toml, hold the run time and the test tools apart, and name no index."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.postgres("lock timeouts")

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUN_TIME = ROOT / "requirements.lock"
TESTS = ROOT / "tests" / "requirements.lock"
REQUIREMENTS = {
    RUN_TIME: PROJECT["project"]["dependencies"],
    TESTS: PROJECT["dependency-groups"]["test"],
}
both = pytest.mark.parametrize("lock", [RUN_TIME, TESTS], ids=["run time", "tests"])


def pinned(lock: Path) -> dict[str, str]:
    """Name → version of every line."""
    pins = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", lock.read_text(), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in pins}


@both
def test_it_is_current(lock: Path) -> None:
    pins = pinned(lock)
    for line in REQUIREMENTS[lock]:
        requirement = Requirement(line)
        version = pins.get(canonicalize_name(requirement.name))
        assert version, f"run `make lock`: {line} is missing"
        assert requirement.specifier.contains(version), f"run `make lock`: {line}, not {version}"


@both
def test_every_line_has_a_hash_and_no_address(lock: Path) -> None:
    text = lock.read_text()
    assert "://" not in text
    assert "--find-links" not in text
    requirements = re.split(r"\n(?=\S)", text.strip())
    assert requirements
    assert [line for line in requirements if "--hash=sha256:" not in line] == []


def test_run_time_requirements_are_only_dependencies() -> None:
    """The direct dependencies and their installed metadata require these packages; test tools are
    absent.
    """
    needed: set[str] = set()
    todo = [Requirement(line) for line in REQUIREMENTS[RUN_TIME]]
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        extras = sorted(requirement.extras) or [""]
        if name in needed and extras == [""]:
            continue
        needed.add(name)
        for line in metadata.requires(name) or []:
            next_one = Requirement(line)
            environments = [dict(default_environment()) | {"extra": extra} for extra in extras]
            if not next_one.marker or any(map(next_one.marker.evaluate, environments)):
                todo.append(next_one)
    here = {name for name in pinned(RUN_TIME) if installed(name)}
    assert here == needed


def installed(name: str) -> bool:
    """Lines for other systems and Pythons are locked too, but not installed here."""
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def test_both_agree() -> None:
    run_time, tests = pinned(RUN_TIME), pinned(TESTS)
    assert {name: tests[name] for name in run_time.keys() & tests.keys()} == {
        name: run_time[name] for name in run_time.keys() & tests.keys()
    }

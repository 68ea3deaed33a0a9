"""Which tests `make check` leaves to `make test`: `python -m tests.long` writes long.txt anew.

A sixth of the tests takes three quarters of the time. The list holds these, by what each takes with all
its cases beside the others: what is long does not hang on the machine. `@pytest.mark.long` says it of
a test whose subject is long.
"""

import re
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "var" / "tests-sqlite.xml"
LIST = Path(__file__).with_name("long.txt")
SHARE = 3 / 4
NEVER = {"tests.test_happy_path.test_a_day_of_a_team"}  # if one test is to run, it is this


def name_of(nodeid: str) -> str:
    """``tests/a/test_b.py::TestC::test_d[case]`` as ``tests.a.test_b.TestC.test_d``."""
    path, *rest = nodeid.split("[")[0].split("::")
    return ".".join([path.removesuffix(".py").replace("/", "."), *rest])


def listed() -> frozenset[str]:
    return frozenset(LIST.read_text().split()) if LIST.exists() else frozenset()


def seconds(results: Path) -> Counter[str]:
    """What each test took in a run, all its cases together."""
    took: Counter[str] = Counter()
    for case in ElementTree.parse(results).iter("testcase"):
        name = re.sub(r"\[.*", "", case.get("name", ""), flags=re.DOTALL)
        took[f"{case.get('classname')}.{name}"] += float(case.get("time", 0))
    return took


def longest(took: Counter[str], share: float = SHARE) -> list[str]:
    """The fewest tests that together take this share of the time, by name."""
    names, left = [], share * took.total()
    for name, time in took.most_common():
        if left <= 0:
            break
        names.append(name)
        left -= time
    return sorted(names)


def main() -> int:
    """Run what may be listed, and list the longest of it."""
    from tests.run import Report  # here, for conftest.py reads the list before each run

    report = Report()
    report.pytest("sqlite", "not browser and not cluster", [])
    if report.failed:
        return report.close()
    names = [name for name in longest(seconds(RESULTS)) if name not in NEVER]
    LIST.write_text("".join(f"{name}\n" for name in names))
    print(f"{len(names)} tests are long")
    return 0


if __name__ == "__main__":
    sys.exit(main())

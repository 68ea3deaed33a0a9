"""The oracle counts objects correctly, and a seed gives the same export each time."""

from pathlib import Path

import pytest

from tests.hard.export_oracle import count_folder, count_zip, elements
from tests.hard.mutated_exports import mutated
from tests.hostilezips import make_zip
from tests.slackexports import export_files, slack_message, write_folder

pytestmark = pytest.mark.nightly("a tool of the hard tests that run whole there")


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"[]", 0),
        (b"", 0),
        (b"{}", 0),
        (b" [1, 2 ] ", 2),
        (b"\xef\xbb\xbf[1]", 1),
        (b"[1, {}", 2),
        (b"[1, {", 1),
        (b"[1 2]", 1),
        (b'["a", "\xff"]', 1),
        (b"[" + b"9" * 5000 + b", {}]", 2),
        (b"[" + b"[" * 3000 + b"]" * 3000 + b', "]"]', 2),
        (b"[" + b"{}," * 20_000 + b"{}]", 10_000),
    ],
)
def test_elements(data: bytes, count: int) -> None:
    assert len(elements(data)) == count


def test_whole_exports(tmp_path: Path) -> None:
    files = export_files(
        {
            "general/2023-11-14": [slack_message(1, "a"), None],
            "x/2023-11-14": [slack_message(1, "b")],
        },
        dms=[{"id": "D1"}],
    )
    files |= {"__MACOSX/general/2023-11-14.json": b"[1]", "general/canvases/x.json": b"[1]"}
    for count in (count_zip(make_zip(files)), count_folder(write_folder(tmp_path / "x", files))):
        assert (count.people, count.channels, count.messages) == (2, 2, 3)
        assert (count.is_export, count.teams) == (True, {"T1"})


def test_a_seed_gives_the_same_export() -> None:
    for seed in range(10):
        first, second = mutated(seed), mutated(seed)
        assert (first.names, first.must, first.folder) == (second.names, second.must, second.folder)

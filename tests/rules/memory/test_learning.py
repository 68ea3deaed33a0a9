"""Which lines of a memory are worth a note."""

import pytest

from memories.rules.memory.learning import note_type


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("Deploys always run at noon, never on a Friday", "decision", "pattern"),
        ("From now on the team tests each export on a tablet", "decision", "pattern"),
        (
            "Counts are ordered by the sequence of the device instead of its clock",
            "status",
            "pattern",
        ),
        ("今後はリリース前に必ずバックアップを取ることにした。", "decision", "pattern"),
        ("The nightly import hung; it was fixed by removing the stale lock", "event", "solution"),
        ("Workaround for the printer: restart the spooler first", "status", "solution"),
        ("文字化けの原因は文字コードの推測で、cp932に固定して解決した。", "event", "solution"),
        ("Launch on 26 November was decided by Mika", "decision", ""),
        ("Mika will always check the export before each release", "task", ""),
        ("Do we always deploy at noon, or not at all?", "question", ""),
        ("They always laughed about the cake in the kitchen", "event", ""),
        ("Always", "decision", ""),
        ("Never " + "x" * 600, "decision", ""),
    ],
)
def test_lasting_lines_have_a_type(text, kind, expected):
    assert note_type(text, kind) == expected

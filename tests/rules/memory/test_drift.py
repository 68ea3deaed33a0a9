"""Facts that only one of two texts has, in English and Japanese."""

import pytest

from memories.rules.memory.drift import DriftKind, find_drift, has_new_names

PEOPLE = ("Ana Souza", "Ben", "田中", "佐藤 花子")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("- The launch is on 18 November.", "- On 18 Nov 2026 the launch is.", {}),
        (
            "- The launch is on 18 November.",
            "- The launch is on 26 November.",
            {"date": (["18 november"], ["26 november"])},
        ),
        ("- 公開は11月18日です。", "- 公開は2026-11-18です。", {}),
        (
            "- 公開は11月18日です。",
            "- 公開は11月26日です。",
            {"date": (["11月18日"], ["11月26日"])},
        ),
        ("- The plan costs 1,200 dollars.", "- The plan costs 1200 dollars.", {}),
        ("- The plan costs 1,200 dollars.", "- The plan is paid.", {"number": (["1,200"], [])}),
        (
            "- 18 seats on 18 November.",
            "- Seats on 18 November.",
            {"number": (["18"], [])},
        ),
        ("- 会議は14時から。", "- 会議は15:00から。", {"number": (["14時"], ["15:00"])}),
        ("- 年額は12万円。", "- 年額は14万円。", {"number": (["12"], ["14"])}),
        ("- Ana moves the archive.", "- Ben moves the archive.", {"name": (["Ana"], ["Ben"])}),
        ("- Ana Souza agreed.", "- It is agreed.", {"name": (["Ana Souza"], [])}),
        ("- The team takes Bolt.", "- The team takes Maple.", {"name": (["Bolt"], ["Maple"])}),
        ("- Bolt is taken.", "- The team takes Bolt.", {}),
        ("- See it in #ops, @ben.", "- See it.", {"name": (["#ops", "@ben"], [])}),
        ("- 田中さんが移す。", "- 鈴木さんが移す。", {"name": (["田中"], ["鈴木"])}),
        ("- 業者はボルト社。", "- 業者は未定。", {"name": (["ボルト"], [])}),
        (
            "- The page is https://example.org/a.",
            "- The page is https://example.org/b.",
            {"link": (["https://example.org/a"], ["https://example.org/b"])},
        ),
        ("- They meet on Friday.", "- They meet in May.", {}),
        ("- Nothing here.", "", {}),
    ],
)
def test_facts_in_only_one_text_are_drift(old: str, new: str, expected: dict) -> None:
    drifts = find_drift(old.split("\n"), new.split("\n"), people=PEOPLE)
    assert {d.kind.value: (list(d.lost), list(d.gained)) for d in drifts} == expected


def test_pinned_lines_are_compared_word_for_word() -> None:
    pinned = ["- Releases are on Tuesday.", "- 公開は火曜日。"]
    kept, lost = "* Releases  are on Tuesday.", "- Releases are on tuesday."
    assert not find_drift([pinned[0]], [kept], pinned=pinned)
    [drift] = find_drift(pinned, [lost], pinned=pinned)
    assert drift.kind is DriftKind.PINNED
    assert drift.lost == ("Releases are on Tuesday.", "公開は火曜日。")
    assert find_drift([lost], pinned, pinned=pinned)[0].gained == drift.lost


@pytest.mark.parametrize(
    ("text", "is_new"),
    [
        ("The files of Minato Tools are read.", False),
        ("It reads Minato's files.", False),
        ("It closes Minato Tools’ books.", False),
        ("It reads Morino's files.", True),
    ],
)
def test_a_genitive_is_the_same_name(text: str, is_new: bool) -> None:
    assert has_new_names(text, "minato tools sends a file") is is_new

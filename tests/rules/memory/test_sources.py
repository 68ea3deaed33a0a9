"""Sources of lines, and the check of their figures."""

from datetime import UTC, datetime

import pytest

from memories.rules.memory.figures import SourceFigures, find_unverified
from memories.rules.memory.sources import SourceFinder
from memories.rules.summariser import MessageLine, ReplyLine
from tests.llm.requests import short

AT = datetime(2026, 11, 4, 9, 0, tzinfo=UTC)  # a Wednesday


def make_finder(*lines: tuple[str, str]) -> SourceFinder:
    messages = [MessageLine(n, AT, author, text) for n, (author, text) in enumerate(lines, 1)]
    return SourceFinder.of(short(messages))


ENGLISH = make_finder(
    ("Ann", "Good morning, did everybody read the plan for the backups?"),
    ("Ben", "Yes. Bolt costs 1,200 dollars a year, Crate costs 900."),
    ("Ann", "Then let us take Bolt, because Crate has no support in Europe."),
    ("Cara", "The old server is switched off on 20 November, at 2pm."),
    ("Ben", "I will move the backups tomorrow."),
    ("Dan", "My cat slept on the keyboard again."),
    ("Cara", "See https://wiki.example.com/backups for the steps."),
)
JAPANESE = make_finder(
    ("佐藤", "おはようございます。バックアップの計画は読みましたか？"),
    ("田中", "はい。ボルト社は年間12万円、クレート社は9万円です。"),
    ("佐藤", "ではボルト社にしましょう。クレート社は日本語の窓口がないので。"),
    ("鈴木", "古いサーバーは11月20日の14時に停止します。"),
    ("田中", "バックアップの移行は明日やります。"),
    ("山本", "うちの猫がまたキーボードの上で寝ていました。"),
)


@pytest.mark.parametrize(
    ("finder", "text", "cited", "expected"),
    [
        (ENGLISH, "Ben said that Bolt costs 1,200 dollars a year.", (), (2,)),
        (ENGLISH, "Ben said that Bolt costs 1,200 dollars a year.", (2,), (2,)),
        (ENGLISH, "Ben said that Bolt costs 1,200 dollars a year.", (6,), (2,)),
        (ENGLISH, "Ben said that Bolt costs 1,200 dollars a year.", (1, 2, 3, 4), (2, 3)),
        (ENGLISH, "The team takes Bolt, because Crate has no support in Europe.", (), (3,)),
        (ENGLISH, "The old server is switched off on 20 November.", (1,), (4,)),
        (ENGLISH, "Bolt costs 1,200 dollars; the old server is switched off at 2pm.", (), (4, 2)),
        (ENGLISH, "Quarterly revenue grew by a third in Brazil.", (2,), ()),
        (ENGLISH, "Quarterly revenue grew by a third in Brazil.", (), ()),
        (JAPANESE, "ボルト社は年間12万円かかる。", (), (2,)),
        (JAPANESE, "バックアップにはボルト社を使うことになった。クレート社は窓口がないため。", (), (3,)),
        (JAPANESE, "古いサーバーは11月20日に停止する。", (1,), (4,)),
        (JAPANESE, "ブラジルの売上が三割伸びた。", (6,), ()),
        (JAPANESE, "The old server is switched off on 20 November.", (4,), (4,)),
    ],
)  # fmt: skip
def test_sources(
    finder: SourceFinder, text: str, cited: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert finder.add_sources(ReplyLine(text, cited)).refs == expected


def test_a_line_has_at_most_five_sources() -> None:
    finder = make_finder(*[("Ann", f"The release has part number {n}, done.") for n in range(1, 9)])
    line = "The release has part number 1, 2, 3, 4, 5, 6, 7, 8, done."
    assert len(finder.add_sources(ReplyLine(line, tuple(range(1, 9)))).refs) == 5


@pytest.mark.parametrize(
    ("text", "is_quote"),
    [
        ("The old server is switched off on 20 November, at 2pm.", True),
        ("Cara: The old server is switched off on 20 November, at 2pm.", True),
        ("the old server is switched off", True),
        ("The team decided to switch the old server off on 20 November.", False),
        ("Cara reported that the old server is switched off on 20 November.", False),
    ],
)
def test_copied_messages_are_quotes(text: str, is_quote: bool) -> None:
    assert ENGLISH.add_sources(ReplyLine(text)).is_quote is is_quote


def test_the_source_of_a_figure_is_added() -> None:
    line = ENGLISH.add_sources(
        ReplyLine("The team takes Bolt for 1,200 dollars instead of Crate.", (3,))
    )
    assert (line.refs, line.unverified) == ((2, 3), ())


def test_a_figure_without_a_source_is_unverified() -> None:
    line = ENGLISH.add_sources(ReplyLine("Ben said that Bolt costs 1,300 dollars a year.", (2,)))
    assert (line.refs, line.unverified) == ((2,), ("1,300",))


@pytest.mark.parametrize(
    ("line", "source", "missing"),
    [
        ("It costs 1200 dollars.", "1,200 dollars", []),
        ("It costs 10,000 dollars.", "about 10k", []),
        ("It takes 3 people.", "three of us", []),
        ("It takes 3.5 hours.", "3.50 h", []),
        ("It takes 4 hours.", "3.5 h", ["4"]),
        ("Version 2.10 is out.", "v2.10 is out", []),
        ("Version 2.1 is out.", "v2.10.3 is out", ["2.1"]),
        ("It is on 2026-11-06.", "on Friday", []),
        ("It is on Friday, 6 November.", "on Friday", []),
        ("It is on Nov 6.", "the day after tomorrow", []),
        ("It is on 5 November 2026.", "tomorrow", []),
        ("It was on 3 November.", "yesterday", []),
        ("It is on 2026-11-10.", "next week", []),
        ("It is due on 30 November.", "by the end of the month", []),
        ("It is due on 18 November.", "in two weeks", []),
        ("It is on 20 November.", "on the 20th", []),
        ("It is on 9 December.", "next month", []),
        ("It is on 30 November.", "on the 31st", ["30 november"]),
        ("It is on 31 December.", "on the 31st", []),
        ("Ticket 2026-02-31 is open.", "ticket 2026, 02, 31", []),
        ("It is at 25:70.", "25 and 70", []),
        ("It is on 7 November.", "on Friday", ["7 november"]),
        ("It is on 2027-11-06.", "on Friday", ["2027-11-06"]),
        ("It is on Thursday.", "on Friday", ["thursday"]),
        ("It is on Thursday.", "tomorrow", []),
        ("It was said on 4 November.", "well", []),
        ("It is at 14:00.", "at 2pm", []),
        ("It is at 2 pm.", "14:00", []),
        ("It is at 15:00.", "at 2pm", ["15:00"]),
        ("The steps are at https://a.example/x.", "see https://a.example/x", []),
        ("The steps are at https://a.example/y.", "see https://a.example/x", ["https://a.example/y"]),
        ("会議は11月6日。", "金曜日に", []),
        ("会議は11月5日の14時。", "明日の午後2時", []),
        ("会議は11月12日。", "来週の木曜", []),
        ("締め切りは11月30日。", "月末まで", []),
        ("参加者は３人。", "三人です", []),
        ("会議は11月7日。", "金曜日に", ["11月7日"]),
    ],
)  # fmt: skip
def test_figures(line: str, source: str, missing: list[str]) -> None:
    assert list(find_unverified(line, [SourceFigures(source, AT)])) == missing


def test_relative_dates_of_memory_lines_are_not_resolved() -> None:
    """The day of the statement is unknown."""
    assert find_unverified("It is on 6 November.", [SourceFigures("It is on Friday.")]) == (
        "6 november",
    )


def test_a_score_does_not_depend_on_the_order_of_a_set() -> None:
    """The order of a set of words differs between processes, and so does a plain sum of floats."""
    words = [f"{letter}{n}x" for n in range(6) for letter in "abcdefgh"]
    texts = [" ".join(words[n:] + words[:n]) for n in range(0, 40, 2)]
    finder = make_finder(
        *((f"Ann{n % 3}", " ".join(words[n:])) for n in range(20)), ("Ben", texts[0])
    )
    assert {finder.best_score(text) for text in texts} == {1.0}

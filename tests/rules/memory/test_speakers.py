"""The speaker of a line, and the check that its source is by the speaker."""

import pytest

from memories.rules.memory.sources import SourceFinder
from memories.rules.memory.speakers import find_speaker
from memories.rules.summariser import ReplyLine
from tests.rules.memory.test_sources import ENGLISH, JAPANESE, make_finder

PEOPLE = ["Ann", "Ben", "佐藤", "田中 花子", "pitti", "Mia Lang", "rodrigo_"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Ann decided to take Bolt.", "Ann"),
        ("Ann: we take Bolt.", "Ann"),
        ("On 4 November, Ann decided to take Bolt.", "Ann"),
        ("Pitti will move the package.", "Pitti"),
        ("Mia will move the package.", "Mia"),
        ("Rodrigo will move the package.", "Rodrigo"),
        ("Rodrigo_ will move the package.", "Rodrigo_"),
        ("Mia Lang will move the package.", "Mia Lang"),
        ("佐藤さんはボルト社に決めた。", "佐藤"),
        ("佐藤がボルト社に決めた。", "佐藤"),
        ("11月4日、佐藤さんがボルト社に決めた。", "佐藤"),
        ("佐藤：ボルト社にします。", "佐藤"),
        ("田中さんによると、年間12万円かかる。", "田中"),
        ("Annさんはボルト社に決めた。", "Ann"),
        ("Ann's server is switched off.", None),
        ("Ann and Ben take Bolt.", None),
        ("The team thanks Ann for the plan.", None),
        ("Anna decided to take Bolt.", None),
        ("佐藤さんのサーバーは停止する。", None),
        ("佐藤さんと田中さんはボルト社に決めた。", None),
    ],
)
def test_the_speaker_of_a_line(text: str, name: str | None) -> None:
    speaker = find_speaker(text, PEOPLE)
    assert (speaker and speaker.name) == name


def test_a_claim_ends_before_the_next_name() -> None:
    speaker = find_speaker("Ann asked for a plan, and Ben wrote it.", PEOPLE)
    assert speaker is not None and speaker.claim.strip() == "asked for a plan, and"


CHAT = make_finder(
    ("Ann Lee", "Which provider do we take for the backups?"),
    ("Ben", "I say we decide for Bolt, it costs 1,200 dollars."),
    ("Ann Lee", "good morning, my cat slept on the keyboard"),
    ("Cara", "Who moves the printer to the second floor?"),
    ("Dan", "I do it on Friday."),
    ("Cara", "Eve: please send the invoice to the bank"),
    ("Eve", "ok"),
)


@pytest.mark.parametrize(
    ("text", "unverified"),
    [
        ("Ann Lee decides for Bolt, which costs 1,200 dollars.", ("Ann Lee",)),
        ("Ben decides for Bolt, which costs 1,200 dollars.", ()),
        ("Ann asks which provider the team takes for the backups.", ()),
        ("Ann asks which provider to take for the backups, and Ben decides for Bolt.", ()),
        ("Dan moves the printer to the second floor on Friday.", ()),
        ("Eve will send the invoice to the bank.", ()),
        ("Cara wants Eve to send the invoice to the bank.", ()),
        ("Bolt costs 1,200 dollars, and Ann likes the backups.", ()),
    ],
)
def test_a_line_with_the_name_of_another_speaker(text: str, unverified: tuple[str, ...]) -> None:
    line = CHAT.add_sources(ReplyLine(text, (1, 2, 3)))
    assert line.refs and line.unverified == unverified


@pytest.mark.parametrize(
    ("text", "unverified"),
    [
        ("田中さんがボルト社に決めた。クレート社は日本語の窓口がないため。", ("田中",)),
        ("佐藤さんがボルト社に決めた。クレート社は日本語の窓口がないため。", ()),
        ("佐藤さんはバックアップの移行を明日やる。", ("佐藤",)),
        ("田中さんはバックアップの移行を明日やる。", ()),
    ],
)
def test_a_japanese_line_with_the_name_of_another_speaker(
    text: str, unverified: tuple[str, ...]
) -> None:
    line = JAPANESE.add_sources(ReplyLine(text, tuple(range(1, 7))[:5]))
    assert line.refs and line.unverified == unverified


@pytest.mark.parametrize(
    ("finder", "text", "is_doubtful"),
    [
        (ENGLISH, "Is the old server switched off on 20 November?", True),
        (ENGLISH, "The old server is switched off on 20 November.", False),
        (ENGLISH, "Did everybody read the plan for the backups?", False),
        (JAPANESE, "古いサーバーは11月20日の14時に停止しますか。", True),
        (JAPANESE, "古いサーバーは11月20日の14時に停止する。", False),
        (JAPANESE, "バックアップの計画は読みましたか。", False),
    ],
)
def test_a_question_that_no_source_asks(finder: SourceFinder, text: str, is_doubtful: bool) -> None:
    assert finder.add_sources(ReplyLine(text)).unverified == ((text,) if is_doubtful else ())


@pytest.mark.parametrize(
    ("text", "unverified"),
    [
        ("Ronco merged the work into trunk.", ("Ronco",)),
        ("Ronoc merged the work into trunk.", ()),
        ("Nobody but ronoc merged the work into the Trunk.", ()),
        ("Today the work was merged into trunk.", ()),
    ],
)
def test_a_misspelt_name(text: str, unverified: tuple[str, ...]) -> None:
    finder = make_finder(("ronoc", "and merged my UI work into trunk"), ("diwic", "ok"))
    assert finder.add_sources(ReplyLine(text)).unverified == unverified


def test_an_indirect_question_is_a_question() -> None:
    finder = make_finder(("Ann", "the question is whether the volume belongs in the driver"))
    assert not finder.add_sources(ReplyLine("Does the volume belong in the driver?")).unverified


@pytest.mark.parametrize(
    ("text", "unverified"),
    [
        ("Ben asks Ann if she has seen any bugs of the audio driver.", ("Ben",)),
        ("Ben: asks Ann if she has seen any bugs of the audio driver.", ("Ben",)),
        ("Ann asks if there are any bugs of the audio driver.", ()),
        ("Ben has not seen any bugs.", ()),
    ],
)
def test_a_speaker_who_asks_needs_a_question(text: str, unverified: tuple[str, ...]) -> None:
    finder = make_finder(
        ("Ann", "any bugs of the audio driver this week?"), ("Ben", "I have not seen any")
    )
    assert finder.add_sources(ReplyLine(text)).unverified == unverified


@pytest.mark.parametrize(
    ("question", "unverified"),
    [
        ("@Cara what is the fading mute behaviour?", ("Cara",)),
        ("Cara asked what the fading mute behaviour is, who knows?", ()),
    ],
)
def test_the_person_whom_a_question_names_does_not_ask_it(
    question: str, unverified: tuple[str, ...]
) -> None:
    finder = make_finder(("Ann", question), ("Cara", "today I work on a fading mute"))
    line = finder.add_sources(ReplyLine("Cara asks Ann what the fading mute behaviour is."))
    assert line.unverified == unverified


PLAN = make_finder(("佐藤", "バックアップの計画は読みましたか？"), ("田中", "まだです。"))


@pytest.mark.parametrize(
    ("finder", "text", "is_doubtful"),
    [
        (ENGLISH, "Everybody has read the plan for the backups.", True),
        (ENGLISH, "Ann asks about the plan for the backups.", False),
        (ENGLISH, "The question of the plan for the backups is open.", False),
        (PLAN, "佐藤さんはバックアップの計画を読んだ。", True),
        (PLAN, "佐藤さんはバックアップの計画について尋ねた。", False),
    ],
)
def test_a_statement_that_was_a_question(
    finder: SourceFinder, text: str, is_doubtful: bool
) -> None:
    assert finder.add_sources(ReplyLine(text)).unverified == ((text,) if is_doubtful else ())


def test_a_question_in_a_chat_needs_no_mark() -> None:
    finder = make_finder(("Ann", "Ben: how do i install the driver for the printer"))
    assert not finder.add_sources(ReplyLine("How does one install the printer driver?")).unverified

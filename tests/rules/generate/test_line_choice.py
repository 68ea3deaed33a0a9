"""Decisions that a small model leaves out, and replies with too many lines."""

from dataclasses import replace

import pytest

from memories.rules.generate.reply import parse_reply
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.summariser import PromptForm, Reply, Request
from tests.llm.requests import added, make_request, messages, short

ENGLISH = short(
    [
        *messages("The build of the installer fails on old machines.", author="Ann"),
        *messages("[AGREED] We drop the installer for old machines in May.", author="Ben", first=2),
        *messages("ACTION: Cara writes the release notes.", author="Ben", first=3),
        *messages("Thanks, that is all for today.", author="Ann", first=4),
    ]
)
JAPANESE = short(
    [
        *messages("インストーラーの作成が古い機種で失敗します。", author="佐藤"),
        *messages("【決定】古い機種への対応は5月で終わります。", author="田中", first=2),
        *messages("宿題：鈴木さんがリリースノートを書く。", author="田中", first=3),
        *messages("今日はここまでです。", author="佐藤", first=4),
    ],
    language="ja",
)


def lines(
    text: str, request: Request, form: PromptForm = PromptForm.SIMPLE
) -> list[tuple[str, tuple[int, ...]]]:
    reply = Reply(text, "stop", "tiny", "", form=form)
    return [(line.text, line.refs) for line in parse_reply(reply, request).lines]


def test_a_small_model_loses_no_decision() -> None:
    first = ("Ann says that the build of the installer fails.", (1,))
    agreed = ("Ben: [AGREED] We drop the installer for old machines in May.", (2,))
    action = ("Ben: ACTION: Cara writes the release notes.", (3,))
    assert lines(f"- {first[0]}", ENGLISH) == [first, agreed, action]
    decided = ("Ben agreed to drop the installer for old machines in May.", (2,))
    assert lines(f"- {first[0]}\n- {decided[0]}", ENGLISH) == [first, decided, action]
    assert lines(f"- {first[0]} [1]", ENGLISH, PromptForm.FULL) == [first]


def test_a_short_line_states_a_long_decision() -> None:
    text = (
        "to go with the stable queue for now, since the disks are full, the vendor gave up on it, "
        "and nobody has the keys any more"
    )
    request = short(messages(f"[agreed] {text}"))
    decided = "Ana agrees to go with the stable queue for now."
    assert [text for text, _ in lines(f"- {decided}", request)] == [decided]
    assert len(lines("- Ana says that the disks of the stable queue are full.", request)) == 2
    [message] = request.messages
    bot = replace(message, ref=2, author="MeetBot", text=f"AGREED received: {text}", is_bot=True)
    repeated = replace(request, messages=[message, bot])
    assert [text for text, _ in lines(f"- {decided}", repeated)] == [decided]


def test_a_small_model_loses_no_japanese_decision() -> None:
    first = ("佐藤さんによると、インストーラーの作成が古い機種で失敗する。", (1,))
    assert lines(f"- {first[0]}", JAPANESE) == [
        first,
        ("田中: 【決定】古い機種への対応は5月で終わります。", (2,)),
        ("田中: 宿題：鈴木さんがリリースノートを書く。", (3,)),
    ]


def test_a_wrong_line_does_not_replace_a_decision() -> None:
    wrong = "Ann agreed to drop the installer for old machines in May."
    assert [text for text, _ in lines(f"- {wrong}", ENGLISH)] == [
        wrong,
        "Ben: [AGREED] We drop the installer for old machines in May.",
        "Ben: ACTION: Cara writes the release notes.",
    ]


@pytest.mark.parametrize("memory_type", MemoryType)
def test_a_decision_of_a_part_stays(memory_type: MemoryType) -> None:
    """Parts of a long segment are merged as a short-term memory, the first text as a long-term one."""
    parts = added("Ann leads the team.", "Ben: AGREED: we drop the old installer in May.")
    request = make_request(MemoryScope.CHANNEL, memory_type, additions=parts, operations=True)
    assert lines("- Ann leads the team.", request) == [
        ("Ann leads the team.", (1,)),
        ("Ben: AGREED: we drop the old installer in May.", (2,)),
    ]


TOPICS = "budget printer office website party kitchen parking garden heating lunch".split()


@pytest.mark.parametrize("form", PromptForm)
def test_a_reply_has_at_most_the_requested_lines(form: PromptForm) -> None:
    texts = [f"Ann moves the {topic} to {n} May." for n, topic in enumerate(TOPICS, 1)]
    texts[4] = "The team talks a little about the party again."
    texts[7] = "AGREED: nobody goes into the garden."
    request = make_request(
        MemoryScope.WORKSPACE, MemoryType.SHORT_TERM, additions=added(*texts, title="#a")
    )
    written = [text for text, _ in lines("\n".join(f"- {text}" for text in texts), request, form)]
    assert len(written) == 8 and written == [text for text in texts if text in written]
    assert texts[7] in written and texts[4] not in written


def test_marked_lines_above_the_limit_stay() -> None:
    texts = [f"AGREED: Ann moves the {topic} to {n} May." for n, topic in enumerate(TOPICS, 1)]
    request = make_request(
        MemoryScope.WORKSPACE, MemoryType.SHORT_TERM, additions=added(*texts, title="#a")
    )
    reply = "\n".join(f"- {text}" for text in [*texts, "Ben likes lunch."])
    assert [text for text, _ in lines(reply, request)] == texts


def test_highlights_of_decisions_are_no_quotes() -> None:
    """Otherwise a good reply would be requested again."""
    reply = Reply("- Ann says that the build fails.", "stop", "tiny", "", form=PromptForm.SIMPLE)
    assert not parse_reply(reply, ENGLISH).is_copied
    assert not parse_reply(reply, replace(ENGLISH, zone="Asia/Tokyo")).is_copied


PINS = (
    "Reminder about the camera at the front door: recording is on from 22:00 to 06:00, the PIN is 4417, "
    "and only Ann may change it."
)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("Ben mentioned the camera at the front door.", f"Ben: {PINS}"),
        ("Ben says that the camera records from 22:00 to 06:00.", None),  # it has figures
        ("Ann owns the camera at the front door.", None),  # a task
        ("Who may change the camera?", None),
    ],
)
def test_the_message_itself_stands_for_a_line_that_only_names_its_subject(
    reply: str, expected: str | None
) -> None:
    request = short([*messages(PINS, author="Ben"), *messages("Thanks!", author="Ann", first=2)])
    assert lines(f"- {reply}", request) == [(expected or reply, (1,))]


def test_a_message_whose_figures_another_line_states_is_not_repeated() -> None:
    stated = "Ben says that the camera records from 22:00 to 06:00."
    request = short(messages(PINS, author="Ben"))
    assert lines(f"- {stated}\n- Ben mentioned the camera.", request) == [(stated, (1,))]


def test_a_line_of_a_memory_stands_for_one_that_only_names_its_subject() -> None:
    request = replace(short([]), additions=added(PINS))
    assert lines("- The camera at the front door was mentioned.", request)[0] == (PINS, (1,))


def test_a_line_with_two_sources_may_only_name_its_subject() -> None:
    request = replace(short([]), additions=added(PINS, "Cara repairs the camera on Friday."))
    text = "The front door, the camera and Cara repairs it, mentioned."
    assert lines(f"- {text}", request)[0] == (PINS, (1, 2))


def test_a_line_loses_the_day_of_its_source() -> None:
    request = short(messages("The camera at the front door works again.", author="Ben"))
    day = request.messages[0].at.date()
    text = "Ben says that the camera at the front door works again"
    assert lines(f"- {text} on {day}.", request) == [(f"{text}.", (1,))]
    another_day = f"{text} on {day.replace(year=2001)}."
    assert lines(f"- {another_day}", request) == [(another_day, (1,))]

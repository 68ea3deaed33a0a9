import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.rules.generate import prompt_texts, prompts
from memories.rules.generate.faults import Fault
from memories.rules.generate.reply import format_with_refs, parse_reply
from memories.rules.ingest.timestamps import to_micros
from memories.rules.summariser import (
    OFFLINE,
    Addition,
    MemoryLine,
    PromptForm,
    Reply,
    ReplyLine,
    Request,
)
from tests.llm.requests import added, long, memory, messages, short

WORDS = "a thing, released: see this note, b goes on to c and d, 決めた"  # of every line below
SIX = short(messages(*[f"{WORDS} {n}" for n in "tuvwxyz"]))


def reply(text: str, finish_reason: str = "stop") -> Reply:
    return Reply(text, finish_reason, "some-model", "channel-short-en-00000000")


def lines(text: str, request: Request = SIX) -> list[tuple[str, tuple[int, ...]]]:
    reading = parse_reply(reply(text), request)
    assert reading.fault == ""
    return [(line.text, line.refs) for line in reading.lines]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- a thing [3 7]", [("a thing", (3, 7))]),
        ("- a thing [3, 7]", [("a thing", (3, 7))]),
        ("- 決めた［3］", [("決めた", (3,))]),
        ("- 決めた [３、７]", [("決めた", (3, 7))]),
        (
            "* a [1]\n• b [2]\n・c [3]\n1. d [4]",
            [("a", (1,)), ("b", (2,)), ("c", (3,)), ("d", (4,))],
        ),
        ("- a thing [3][7]", [("a thing", (3, 7))]),
        ("- a thing [3], [7].", [("a thing.", (3, 7))]),
        ("- see note [3] [7]", [("see note [3]", (7,))]),
        ("- a thing [#3, #7]", [("a thing", (3, 7))]),
        ("- a thing [refs: 3; 7]", [("a thing", (3, 7))]),
        ("- a thing [3-5]", [("a thing", (3, 4, 5))]),
        ("- a thing [3, 3, 7]", [("a thing", (3, 7))]),
        ("- a thing [3, 99]", [("a thing", (3,))]),
        ("- a thing [99]", [("a thing", (1,))]),
        ("- a thing [7, 1, 2, 3, 4, 5]", [("a thing", (7, 1, 2, 3, 4))]),
        ("- a thing [1-7]", [("a thing", (1,))]),
        ("- a thing [1, 2, 3, 4, 5, 6, 7]", [("a thing", (1,))]),
        ("- a thing [0-999999999]", [("a thing", (1,))]),
        ("- a thing", [("a thing", (1,))]),
        ("- see [this]", [("see [this]", (1,))]),
        ("- released on [2026-11-02]", [("released on [2026-11-02]", (1,))]),
        ("- [3] a thing [99999999999999999999]", [("a thing", (3,))]),
        ("- a thing [3", [("a thing [3", (1,))]),
        ("# Summary\n\nHere it is:\n- a [1]\n", [("a", (1,))]),
        ("- a\n  goes on [1]\n- b [2]", [("a goes on", (1,)), ("b", (2,))]),
        ("```\n- a [1]\n```", [("a", (1,))]),
        ("<think>hm\n- no</think>\n- a [1]", [("a", (1,))]),
        ("a [1]\nb [2]", [("a", (1,)), ("b", (2,))]),
        ("- a [1]\n- A [2]", [("a", (1, 2))]),
        ("- a [1]\n- [2]", [("a", (1,))]),
        ("- a [1]\n- NOTHING", [("a", (1,))]),
        ("- a\u202e\u200b b [1]", [("a b", (1,))]),
        ("- 12 [2024-01-08 10:00] bob: hello", [("12 [2024-01-08 10:00] bob: hello", ())]),
    ],
)
def test_the_text_and_refs_of_lines(text: str, expected: list[tuple[str, tuple[int, ...]]]) -> None:
    assert lines(text) == expected


def test_a_line_may_cite_all_of_a_few_messages() -> None:
    assert lines("- x y [1, 2]", short(messages("x", "y"))) == [("x y", (1, 2))]


def test_a_copied_message_row_cites_itself() -> None:
    row = next(iter(prompts.format_messages(short(messages("hello there")))))
    assert lines(f"- {row}", short(messages("hello there"))) == [("Ana: hello there", (1,))]


def test_a_copied_memory_row_cites_itself() -> None:
    request = long(
        existing=[MemoryLine(1, "old news", by_person=True)], additions=added("new", first=2)
    )
    assert lines("- 1 ✎ old news\n- 2 new", request) == [("old news", (1,)), ("new", (2,))]


MONDAY = to_micros(datetime(2026, 1, 5, 9, tzinfo=UTC))
DATED = long(
    existing=[
        MemoryLine(1, "the launch is in May", at_us=MONDAY),
        MemoryLine(2, "our rule stays", by_person=True, at_us=MONDAY),
    ],
    additions=[Addition("", [MemoryLine(3, "Ben joins the team", at_us=MONDAY)])],
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- 1 [2026-01-05] the launch is in May", ("the launch is in May", (1,))),
        ("- [2026-01-05] the launch is in May [1]", ("the launch is in May", (1,))),
        ("- 2 ✎ [2026-01-05] our rule stays", ("our rule stays", (2,))),
        ("- ✎ [2026-01-05] our rule stays", ("our rule stays", (2,))),
        ("- [2026-01-05] Ben joins the launch team [3]", ("Ben joins the launch team", (3,))),
        (
            "- 1 [2026-01-05 12:00 – 12:30] the launch is in May",
            ("the launch is in May", (1,)),
        ),
    ],
)
def test_the_date_of_a_memory_row_is_not_part_of_the_line(
    text: str, expected: tuple[str, tuple[int, ...]]
) -> None:
    assert lines(text, DATED) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "L1 [2026-01-05] the launch is in May",
        "- L1 [2026-01-05] the launch is in May",
        "+ L1 [2026-01-05] the launch is in May [3]",
        "+ [2026-01-05] the launch is in May [3]",
        "- 2 ✎ [2026-01-05] our rule stays",
    ],
)
def test_a_copied_existing_row_changes_nothing(text: str) -> None:
    reading = parse_reply(reply(text), replace(DATED, operations=True))
    assert [line.text for line in reading.lines] == ["the launch is in May", "our rule stays"]
    assert [reason for _, reason in reading.dropped] == ["known"]


def test_the_date_of_a_source_verifies_a_date() -> None:
    reading = parse_reply(
        reply(
            "+ status: Ben joined the team on 2026-01-05 [3]\n+ event: Ben left the team on 2026-02-05 [3]"
        ),
        replace(DATED, operations=True),
    )
    assert [line.unverified for line in reading.lines if "Ben" in line.text] == [
        (),
        ("2026-02-05",),
    ]


@pytest.mark.parametrize(
    ("finish_reason", "fault"),
    [
        ("length", Fault.LENGTH),
        ("max_tokens", Fault.LENGTH),
        ("content_filter", Fault.CONTENT_FILTER),
        ("refusal", Fault.REFUSAL),
        ("tool_calls", Fault.UNKNOWN_FINISH),
        ("None", Fault.UNKNOWN_FINISH),
        ("", Fault.UNKNOWN_FINISH),
    ],
)
def test_the_fault_of_a_finish_reason(finish_reason: str, fault: Fault) -> None:
    assert parse_reply(reply("- a fine line [1]", finish_reason), SIX).fault == fault


TALK = short(messages("good morning to you all", "hello there my friend", "how are you?"))
LONG_INPUT = short(
    messages(*[f"message number {n} " + "about this and that " * 10 for n in range(40)])
)


@pytest.mark.parametrize(
    ("text", "summary_request", "fault"),
    [
        ("", SIX, Fault.BLANK),
        (" \n\u200b\n", SIX, Fault.BLANK),
        ("- \n- …", SIX, Fault.BLANK),
        ("<think>only thought</think>", SIX, Fault.BLANK),
        ("NOTHING", long(existing=memory("a"), additions=added("b", first=2)), Fault.NOTHING),
        ("I'm sorry, but I can't help with that.", SIX, Fault.REFUSAL),
        ("申し訳ありませんが、要約できません。", SIX, Fault.REFUSAL),
        ("- " + "chatter " * 1500 + "[1]", SIX, Fault.TOO_LONG),
        ("- ok", LONG_INPUT, Fault.TOO_SHORT),
        (prompts.system_text(SIX), SIX, Fault.PROMPT_ECHOED),
        (prompts.request_text(SIX), SIX, Fault.PROMPT_ECHOED),
        ("<<messages c0ffee00: #general, UTC>>\n- a [1]", SIX, Fault.PROMPT_ECHOED),
        ("- a [1]\n<<end c0ffee00>>", SIX, Fault.PROMPT_ECHOED),
    ],
    ids=[
        "empty", "invisible", "no word", "thought only", "nothing of a merge", "refusal en",
        "refusal ja", "wildly long", "wildly short", "prompt", "request",
        "fence", "end",
    ],
)  # fmt: skip
def test_the_fault_of_a_text(text: str, summary_request: Request, fault: Fault) -> None:
    reading = parse_reply(reply(text), summary_request)
    assert (reading.fault, list(reading.lines)) == (fault, [])


@pytest.mark.parametrize("text", ["NOTHING", "- NOTHING", "nothing.", "**NOTHING**", " NOTHING\n"])
def test_a_reply_of_nothing_needs_messages_that_are_not_salient(text: str) -> None:
    reading = parse_reply(reply(text), TALK)
    assert (reading.is_nothing, reading.fault, list(reading.lines)) == (True, "", [])
    assert parse_reply(reply(text), SIX).fault == Fault.NOTHING


@pytest.mark.parametrize(
    "text",
    [
        "- Sorry, I was late, said Ana [1]",
        "- " + "x" * 40 + " [1]",
        "- one two three four five",
    ],
    ids=["a member apologises", "short limit", "no refs"],
)
def test_texts_without_a_fault(text: str) -> None:
    assert parse_reply(reply(text), short(messages("x"), max_tokens=1)).fault == ""


def test_lines_that_copy_messages_do_not_echo_the_prompt() -> None:
    rows = list(prompts.format_messages(SIX))
    assert parse_reply(reply("\n".join(f"- {row}" for row in rows)), SIX).fault == ""


def test_a_message_may_quote_the_prompt() -> None:
    sentence = prompts.system_text(SIX).split("\n")[0]
    quoted = short(messages(f"our prompt begins: {sentence}", "two"))
    assert parse_reply(reply(f"- Ana quotes: {sentence} [1]"), quoted).fault == ""


def test_lines_of_people_do_not_count_for_the_length() -> None:
    own = MemoryLine(1, "word " * 1500, by_person=True)
    request = long(existing=[own], additions=added("new", first=2), max_tokens=40)
    assert parse_reply(reply(f"- {own.text} [1]"), request).fault == ""


def test_the_format_with_refs() -> None:
    reply_lines = [ReplyLine("a", (3, 7)), ReplyLine("b")]
    assert format_with_refs(reply_lines) == "- a [3, 7]\n- b"


@given(
    st.lists(
        st.one_of(
            st.text(), st.sampled_from(["- ", "[1", ", 7]", "\n", "<<end", "]", "1 ", "［２］"])
        )
    )
)
def test_any_text_gives_lines_or_nothing_or_a_fault(parts: list[str]) -> None:
    reading = parse_reply(reply("".join(parts)), SIX)
    assert bool(reading.fault) + reading.is_nothing + bool(reading.lines) == 1
    for line in reading.lines:
        assert line.text == line.text.strip() != "" and "\n" not in line.text
        assert len(line.refs) == len(set(line.refs)) <= 5 and set(line.refs) <= set(range(1, 8))


@pytest.mark.slow
@given(st.sampled_from("[]-, 1\t"), st.integers(1, 20_000))
def test_a_long_run_of_one_character_ends_in_time(character: str, times: int) -> None:
    parse_reply(reply("- a " + character * times), SIX)


@pytest.mark.parametrize("fault", Fault)
def test_a_fault_as_finish_reason_is_the_fault(fault: Fault) -> None:
    """`llm.request_runner` passes on the fault of a part in this way."""
    assert parse_reply(reply("- a fine line [1]", fault.value), SIX).fault == fault


ENGLISH = (
    "- we ship the new page on the day that is best for all of us, and Ben tells the others. " * 2
)
JAPANESE = (
    "- 新しいページは金曜日に公開することになりました。田中さんがサポートチームに連絡します。" * 2
)


@pytest.mark.parametrize(
    ("text", "language", "message", "is_wrong"),
    [
        (ENGLISH, "en", JAPANESE, False),
        (JAPANESE, "en", JAPANESE, True),
        (ENGLISH, "ja", ENGLISH, True),
        (JAPANESE, "ja", ENGLISH, False),
        (ENGLISH, "conversation", ENGLISH, False),
        (ENGLISH, "conversation", JAPANESE, True),
        (JAPANESE, "conversation", ENGLISH, True),
        (JAPANESE, "conversation", JAPANESE, False),
        (ENGLISH, "conversation", f"{ENGLISH} {JAPANESE}", False),
        (ENGLISH, "conversation", "ok", False),
        (f"{ENGLISH}\n{JAPANESE}", "ja", ENGLISH, False),
        ("- 了解です [1]", "en", ENGLISH, False),
        ("- we ship on Friday [1]", "ja", JAPANESE, False),
    ],
)  # fmt: skip
def test_the_language_of_a_reply(text: str, language: str, message: str, is_wrong: bool) -> None:
    request = short(messages(message, "👍"), language=language)
    assert parse_reply(reply(text), request).fault == (Fault.WRONG_LANGUAGE if is_wrong else "")


def test_lines_of_people_do_not_count_for_the_language() -> None:
    own = MemoryLine(1, JAPANESE.removeprefix("- "), by_person=True)
    request = long(existing=[own], additions=added("it ships", first=2), language="en")
    assert parse_reply(reply(f"- {own.text} [1]\n- it ships [2]"), request).fault == ""
    theirs = long(existing=[MemoryLine(1, own.text)], additions=added("it ships", first=2))
    assert parse_reply(reply(f"- {own.text} [1]\n- it ships [2]"), theirs).fault != ""


MEETING = short(
    [
        *messages("I will be the scribe, since Dave is away", author="Sam"),
        *messages("the meeting moves from 18:00 to 19:00 today", author="Jim", first=2),
        *messages("ok, there were no action points", author="Sam", first=3),
        *messages("nice one", author="Jim", first=4),
    ]
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("**Scribe:** Sam will be the scribe.", "Sam will be the scribe."),
        ("**Sam:** will be the scribe.", "Sam: will be the scribe."),
        ("`Sam` will be the scribe. [2026-11-02 09:00]", "Sam will be the scribe."),
        ("Sam will be the scribe (2026-11-02).", "Sam will be the scribe."),
        ("Jim: nice one", None),
        (
            "The meeting moves to 19:00, indicating good coordination between the teams.",
            "The meeting moves to 19:00.",
        ),
        ("No new questions have been raised since the last week.", None),
        ("The atmosphere between all departments was productive.", None),
    ],
)
def test_titles_remarks_and_inventions_of_a_small_model(text: str, expected: str | None) -> None:
    request = replace(MEETING, form=PromptForm.SIMPLE)
    answer = replace(reply(f"- Sam will write for Dave.\n- {text}"), form=PromptForm.SIMPLE)
    read = [line.text for line in parse_reply(answer, request).lines]
    assert read == ["Sam will write for Dave.", *([expected] if expected else [])]


def test_a_name_that_no_source_has_is_unverified() -> None:
    reading = parse_reply(reply("- Jim will be the scribe [1]\n- Sam is the scribe [1]"), MEETING)
    assert [line.unverified for line in reading.lines] == [("Jim",), ()]


def test_a_name_in_small_letters_may_begin_a_sentence() -> None:
    request = short(
        [
            *messages("The sound bugs are in a list.", author="rodrigo"),
            *messages("Which bugs are new?", author="diwic", first=2),
        ]
    )
    text = "- Diwic has the sound bugs in a list. [1]\n- Rodrigo has the sound bugs in a list. [1]"
    reading = parse_reply(reply(text), request)
    assert [line.unverified for line in reading.lines] == [("diwic",), ()]


@pytest.mark.parametrize("model", ["tiny", OFFLINE])
def test_a_merge_does_not_verify_a_line(model: str) -> None:
    [addition] = added("Ben owns the budget.", "Ann leads the team.")
    first, second = addition.lines
    additions = [replace(addition, lines=[replace(first, unverified=True), second])]
    text = "- Ben owns the budget. [1]\n- Ann leads the team. [2]"
    answer = replace(reply(text), model=model)
    reading = parse_reply(answer, long(additions=additions, operations=True))
    assert [line.unverified for line in reading.lines] == [("Ben owns the budget.",), ()]


def test_a_merge_that_only_adds_forgets_no_date() -> None:
    texts = ["The freeze is set for 25 November.", "Ben owns the budget.", "The talk went on."]
    request = long(
        existing=memory("Ann leads the team"), additions=added(*texts, first=2), operations=True
    )
    answer = replace(reply("- Ben is the owner of the budget."), form=PromptForm.SIMPLE)
    assert [(line.text, line.refs) for line in parse_reply(answer, request).lines] == [
        ("Ann leads the team", (1,)),
        (texts[0], (2,)),
        ("Ben is the owner of the budget.", (3,)),
    ]


def test_a_merge_that_only_adds_takes_in_lasting_lines_without_the_model() -> None:
    texts = ["The freeze is set for 25 November.", "The talk went on."]
    request = long(
        existing=memory("Ann leads the team"), additions=added(*texts, first=2), operations=True
    )
    reading = parse_reply(replace(reply("NOTHING"), form=PromptForm.SIMPLE), request)
    assert [line.text for line in reading.lines] == ["Ann leads the team", texts[0]]
    assert reading.fault == "" and not reading.archived


@pytest.mark.parametrize("form", PromptForm)
@pytest.mark.parametrize("existing", [[], memory("Ann leads the team")])
def test_a_merge_of_refused_lines_is_a_fault(form: PromptForm, existing: list[MemoryLine]) -> None:
    request = long(existing=existing, additions=added("One.", "Two.", first=2), operations=True)
    refused = replace(reply("NOTHING"), form=form, left_out=(2, 3))
    assert parse_reply(refused, request).fault == Fault.CONTENT_FILTER


PLANNED = "The launch is planned on 18 November."
LAUNCHES = ["The launch is on 18 November.", "The launch moved to 26 November."]


@pytest.mark.parametrize(
    "rows",
    [
        "- The launch is on 26 November.",
        "- The launch is on 26 November.\n- The launch is on 18 November.",
    ],
    ids=["without the older one", "the newer one first"],
)
@pytest.mark.parametrize("existing", [[], memory("The launch is on 12 November.")])
def test_lines_of_one_reply_supersede_each_other(rows: str, existing: list[MemoryLine]) -> None:
    additions = added(*LAUNCHES, "Ann leads the team.", first=2)
    request = long(existing=existing, additions=additions, operations=True)
    answer = replace(reply(f"{rows}\n- Ann leads the team."), form=PromptForm.SIMPLE)
    assert [line.text for line in parse_reply(answer, request).lines] == [
        "Ann leads the team.",
        LAUNCHES[1],
    ]


@pytest.mark.parametrize("existing", [[], memory("The design review is on 10 November.")])
@pytest.mark.parametrize(
    "row",
    [
        "The **design review** takes place on 17 November and on 24 November",
        "A design review is on 17 November.\n- A design review is on 24 November.",
        "Ann: The design review takes place on 17 November and on 24 November.",
    ],
)
def test_a_repetition_in_the_simple_form_has_the_words_of_the_memory(
    row: str, existing: list[MemoryLine]
) -> None:
    text = "The design review takes place on 17 November and on 24 November."
    request = long(existing=existing, additions=added(text, first=2), operations=True)
    answer = replace(reply(f"- {row}"), form=PromptForm.SIMPLE)
    reading = parse_reply(answer, request)
    assert [(line.text, line.refs) for line in reading.lines] == [(text, (2,))]
    assert reading.superseded == ({1: text} if existing else {})


def test_a_merge_that_only_adds_is_the_same_in_one_and_in_two_calls() -> None:
    old = memory("The launch is on 12 November.", "Mika owns the budget.")
    first, second = added(LAUNCHES[0], "Ann leads the team.", first=3), added(LAUNCHES[1], first=5)
    nothing = replace(reply("NOTHING"), form=PromptForm.SIMPLE)
    at_once = parse_reply(nothing, long(existing=old, additions=[*first, *second]))
    text = parse_reply(nothing, long(existing=old, additions=first)).lines
    by_ref = {line.ref: line for line in [*old, *first[0].lines]}
    existing = [
        replace(by_ref[line.refs[0]], ref=n, kind=line.kind) for n, line in enumerate(text, 1)
    ]
    at_last = parse_reply(nothing, long(existing=existing, additions=second))
    assert [line.text for line in at_once.lines] == [line.text for line in at_last.lines]
    assert [line.text for line in at_once.lines] == [LAUNCHES[1], old[1].text]
    assert set(at_once.superseded) == {1, 3}  # the line of the text and the one that was added


BACKUPS = short(
    [
        *messages("Which provider do we take for the backups?", author="Ann"),
        *messages("We take Bolt, it costs 1,200 dollars a year.", author="Ben", first=2),
        *messages("I will move the backups to Bolt by Friday.", author="Ann", first=3),
        *messages("The old server goes off on 20 November at 2pm.", author="Cara", first=4),
    ]
)
LINES = [
    ("Ben chose Bolt, which costs 1,200 dollars a year.", (2,)),
    ("Ann will move the backups to Bolt by Friday.", (3,)),
]
FIRST, SECOND = (text for text, _ in LINES)


@pytest.mark.parametrize(
    "text",
    [
        f"- {FIRST} [2]\n- {SECOND} [3]",
        f"- [2] {FIRST}\n- [3] {SECOND}",
        f"- [[2]] {FIRST}\n- [[3]] {SECOND}",
        f"- {FIRST} [[2]]\n- {SECOND} [[3]]",
        f'- "{FIRST}" [2]\n- "{SECOND}" [3]',
        f'[[2]] "{FIRST}"\n[[3]] "{SECOND}"',
        f"- {FIRST} [message 2]\n- {SECOND} (messages 3)",
        f"- {FIRST} [2] - {SECOND} [3]",
        f"• {FIRST} [2] • {SECOND} [3]",
        f"1. {FIRST} 2. {SECOND}",
        f"- decision: {FIRST} [2]\n- task: {SECOND} [3]",
        f"- **Decision:** {FIRST} [2]\n- **Task**: {SECOND} [3]",
        f"- [decision] {FIRST} [2]\n- (task) {SECOND} [3]",
        f"- [2] Decision: {FIRST}\n- [3] Task – {SECOND}",
        f"## Decisions\n- {FIRST} [2]\n\n## Open tasks\n- {SECOND} [3]",
        f"- <b>Ben</b>{FIRST.removeprefix('Ben')} [2]\n- {SECOND} [3]",
        f"**Decisions:**\n- {FIRST}\n**Tasks**\n- {SECOND}\n**Questions:**\n- None.",
        f"- **Decisions:**\n  - {FIRST}\n- **Tasks:**\n  - {SECOND}",
        f"Decisions:\n- {FIRST}\nOpen questions:\n- No open questions.\nTasks:\n- {SECOND}",
        f"決定事項：\n・{FIRST}\n\nタスク：\n・{SECOND}",
        f"Here are the most important facts of the conversation:\n\n- {FIRST}\n- {SECOND}",
        f"Sure! Here is the list.\n- {FIRST}\n- {SECOND}\n\nLet me know if you need more!",
        f"- {FIRST}\n- {SECOND}\n\nThese updates are consolidated into the memory of the channel.",
        f"- {FIRST}\n- {SECOND}\n- These updates are consolidated into a short summary.",
        f"以下がまとめです。\n- {FIRST}\n- {SECOND}\n以上です。",
        f"Here are the facts:\n{FIRST}\n{SECOND}\nLet me know if I can help.",
        f"<think>The user wants lines.\n- maybe this</think>\n\n- {FIRST}\n- {SECOND}",
        f"The user wants lines.\n- maybe this\n</think>\n- {FIRST}\n- {SECOND}",
        f'["{FIRST}", "{SECOND}"]',
        f'```json\n{{"decisions": ["{FIRST}"], "tasks": [{{"text": "{SECOND}", "refs": [3]}}]}}\n```',
        f'{{"lines": [{{"kind": "decision", "sentence": "{FIRST}"}}, {{"sentence": "{SECOND}"}}]}}',
    ],
)
def test_every_form_of_a_reply_gives_the_same_lines(text: str) -> None:
    assert lines(text, BACKUPS) == LINES


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (f"- status: {FIRST}\n- {SECOND}", ["status", "task"]),
        (f"## What happened\n- {FIRST}\n## 未解決の質問\n- {SECOND}", ["event", "question"]),
        (f"- {FIRST}\n- {SECOND}", ["decision", "task"]),
        (f'[{{"kind": "event", "text": "{FIRST}"}}, "{SECOND}"]', ["event", "task"]),
    ],
)
def test_a_kind_comes_from_the_model_or_from_code(text: str, kinds: list[str]) -> None:
    assert [line.kind for line in parse_reply(reply(text), BACKUPS).lines] == kinds


@pytest.mark.slow
@pytest.mark.parametrize("language", prompt_texts.TEXTS)
@pytest.mark.parametrize("form", PromptForm)
def test_no_part_of_a_prompt_becomes_a_line(
    language: Literal["ja", "en"], form: PromptForm
) -> None:
    """Each text, sentence and clause of the prompts comes back beside a good line."""
    request = replace(BACKUPS, language=language, form=form)
    texts = prompt_texts.TEXTS[language].values()
    filled = [text.format(most=300, aim=200, bullets=10) for text in texts]
    pieces = {piece for text in filled for piece in re.split(r"[.。]\s*|[:：;、,]\s*", text)}
    for piece in [*filled, *pieces]:
        echo = replace(reply(f"- {piece}\n- {SECOND} [3]"), form=form)
        line_texts = [line.text for line in parse_reply(echo, request).lines]
        assert line_texts[-1] == SECOND
        assert not [text for text in line_texts[:-1] if any(map(str.isalnum, text))], piece


def test_a_reply_of_prompt_texts_alone_is_an_echo() -> None:
    assert parse_reply(reply(prompts.request_text(BACKUPS)), BACKUPS).fault == Fault.PROMPT_ECHOED


def test_a_line_that_copies_a_message_is_a_quote() -> None:
    copied = f"- Ann: I will move the backups to Bolt by Friday.\n- {FIRST}"
    reading = parse_reply(reply(copied), BACKUPS)
    assert [line.is_quote for line in reading.lines] == [True, False]
    assert not reading.is_copied
    assert parse_reply(reply("\n".join(f"- {m.text}" for m in BACKUPS.messages)), BACKUPS).is_copied


def test_brackets_in_the_simple_form_are_not_refs() -> None:
    simple = replace(reply(f"- {FIRST} [1]\n- {SECOND} [4]"), form=PromptForm.SIMPLE)
    assert [(x.text, x.refs) for x in parse_reply(simple, BACKUPS).lines] == LINES


OLD = memory("The launch is on 18 November.", "Mika owns the budget.")


def lines_after_additions(text: str, **parts: int) -> list[tuple[str, tuple[int, ...]]]:
    request = long(existing=OLD, additions=added("Bolt keeps the backups.", first=3), **parts)
    reading = parse_reply(replace(reply(text), form=PromptForm.SIMPLE), request)
    assert reading.fault == ""
    return [(line.text, line.refs) for line in reading.lines]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (f"- {FIRST}\n- Ann said hello to Zoe", None),
        (f"- {FIRST}\n- {SECOND}\n- Ann said hello to Zoe", [FIRST, SECOND]),
        (f"- {FIRST}\n- {SECOND}\n- {SECOND}\n- {SECOND}\n- Ann will", [FIRST, SECOND]),
        (f"Here they are:\n\n- {FIRST}\n- {SECOND}\n- Ann", [FIRST, SECOND]),
        (f"{FIRST}\n{SECOND}\nAnn", None),
    ],
    ids=[
        "one bullet",
        "two bullets",
        "the same bullet again and again",
        "a preamble",
        "no bullets",
    ],
)
def test_the_whole_bullets_of_a_cut_reply_in_the_simple_form(
    rows: str, expected: list[str] | None
) -> None:
    server_off = "Cara: The old server goes off on 20 November at 2pm."  # after the last source
    simple = replace(reply(rows, "length"), form=PromptForm.SIMPLE)
    reading = parse_reply(simple, BACKUPS)
    assert reading.fault == ("" if expected else Fault.LENGTH)
    assert [line.text for line in reading.lines] == ([*expected, server_off] if expected else [])
    assert parse_reply(reply(rows, "length"), BACKUPS).fault == Fault.LENGTH


def test_unverified_lines_of_a_small_model_are_left_out_beside_verified_ones() -> None:
    invented = "Ann chose Bolt, which costs 1,900 dollars a year."
    for rows, texts in ((f"- {invented}\n- {SECOND}", [SECOND]), (f"- {invented}", [invented])):
        reading = parse_reply(replace(reply(rows), form=PromptForm.SIMPLE), BACKUPS)
        assert [line.text for line in reading.lines] == texts
    assert reading.lines[0].unverified


@pytest.mark.parametrize(
    ("news", "row", "expected"),
    [
        ("We talked about it: 26 November then.", "The launch is planned on 26 November.", None),
        ("We talked about it: no, it is not.", "The launch is not planned on 18 November.", None),
        ("We talked about it.", "Rina: the launch is planned on 18 November.", PLANNED),
    ],
)
def test_news_in_the_simple_form_keeps_its_words(news: str, row: str, expected: str | None) -> None:
    additions = added(news, first=2)
    request = long(existing=memory(PLANNED), additions=additions, operations=True)
    reading = parse_reply(replace(reply(f"- {row}"), form=PromptForm.SIMPLE), request)
    assert reading.lines[-1].text == (expected or row)


def test_a_line_of_a_small_model_keeps_all_its_sources() -> None:
    text = "We take Bolt, it costs 1,200 dollars a year; the old server goes off on 20 November."
    reading = parse_reply(replace(reply(f"- {text}"), form=PromptForm.SIMPLE), BACKUPS)
    assert reading.lines[0].refs == (2, 4)


def test_small_talk_after_a_cut_reply_is_left_out() -> None:
    talk = [*BACKUPS.messages[:3], *messages("thanks!", "haha nice", author="Ana", first=4)]
    simple = replace(reply(f"- {FIRST}\n- {SECOND}\n- An", "length"), form=PromptForm.SIMPLE)
    lines = parse_reply(simple, replace(BACKUPS, messages=talk)).lines
    assert [line.text for line in lines] == [FIRST, SECOND]


def test_one_line_above_the_limit_stays() -> None:
    simple = replace(reply(f"- {FIRST}"), form=PromptForm.SIMPLE)
    assert len(parse_reply(simple, replace(BACKUPS, max_tokens=4)).lines) == 1


def test_the_most_salient_lines_of_a_long_reply_in_the_simple_form() -> None:
    simple = replace(reply(f"- Ann asks about backups.\n- {FIRST}\n- {SECOND}"), form="simple")
    limited = replace(BACKUPS, max_tokens=24)
    assert [line.text for line in parse_reply(simple, limited).lines] == [FIRST, SECOND]


def test_a_merge_in_the_simple_form_only_adds() -> None:
    existing = [(line.text, (line.ref,)) for line in OLD]
    for rows in ("- Bolt keeps the backups now.", "- Mika owns the budget\n- Bolt keeps backups."):
        assert lines_after_additions(rows) == [*existing, ("Bolt keeps the backups.", (3,))]


def test_a_line_missing_from_highlights_is_superseded_or_archived() -> None:
    old = memory("The launch is on 18 November.", "Ann shipped the beta.", "Mika owns the budget.")
    news = "The launch moved to 26 November."
    request = long(existing=old, additions=added(news, first=4), operations=True)
    text = f"- {news} [4]\n- Mika owns the budget. [3]"
    offline = replace(reply(text), model=OFFLINE, superseded=((1, 4),))
    reading = parse_reply(Reply.from_json(json.loads(json.dumps(offline.as_json()))), request)
    assert dict(reading.superseded) == {1: news}
    assert [line.text for line in reading.archived] == ["Ann shipped the beta."]


def test_the_first_text_has_the_order_of_later_texts() -> None:
    request = long(additions=added("a", "b"), operations=True)
    text = "- event: Ann shipped the beta. [1]\n+ task: Ben owns the launch. [2]"
    reading = parse_reply(reply(text), request)
    assert [line.text for line in reading.lines] == [
        "Ben owns the launch.",
        "Ann shipped the beta.",
    ]


def test_the_least_valuable_line_is_removed_above_the_limit() -> None:
    assert lines_after_additions("- Bolt keeps the backups now.", max_tokens=16) == [
        ("The launch is on 18 November.", (1,)),
        ("Bolt keeps the backups.", (3,)),
    ]


@pytest.mark.parametrize(
    ("old", "new", "is_superseded"),
    [
        ("The launch is on 18 November.", "The launch is on 26 November.", True),
        ("リリース日は11月18日です。", "リリース日は11月26日に変わった。", True),
        ("Who writes the release notes?", "Cleo writes the release notes.", True),
        ("The launch is on 18 November.", "The budget is 1,200 dollars.", False),
        ("Ann shipped version 1.2 of the app.", "Ann shipped version 1.3 of the app.", False),
        ("Ben owns the budget.", "Ben owns the budget of the launch.", False),
    ],
)
def test_code_finds_the_line_that_an_addition_supersedes(
    old: str, new: str, is_superseded: bool
) -> None:
    request = long(existing=memory(old, "Mika likes tea."), additions=added(new, first=3))
    reading = parse_reply(replace(reply(f"- {new}"), form=PromptForm.SIMPLE), request)
    assert dict(reading.superseded) == ({1: new} if is_superseded else {})
    assert [line.text for line in reading.lines if line.text not in (old, new)] == [
        "Mika likes tea."
    ]

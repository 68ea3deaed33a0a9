import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.rules import prompts
from memories.rules.reply import Fault, content, read_reply, with_refs
from memories.rules.summary import MemoryLine, ReadLine, Reply, Request
from tests.llm.requests import added, long, memory, messages, short

SIX = short(messages("one", "two", "three", "four", "five", "six", "seven"))


def reply(text: str, finish_reason: str = "stop") -> Reply:
    return Reply(text, finish_reason, "some-model", "channel-short-en-00000000")


def lines(text: str, request: Request = SIX) -> list[tuple[str, tuple[int, ...]]]:
    reading = read_reply(reply(text), request)
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
        ("- a thing [99]", [("a thing", ())]),
        ("- a thing [7, 1, 2, 3, 4, 5]", [("a thing", (7, 1, 2, 3, 4))]),
        ("- a thing [1-7]", [("a thing", ())]),
        ("- a thing [1, 2, 3, 4, 5, 6, 7]", [("a thing", ())]),
        ("- a thing [0-999999999]", [("a thing", ())]),
        ("- a thing", [("a thing", ())]),
        ("- see [this]", [("see [this]", ())]),
        ("- released on [2026-11-02]", [("released on [2026-11-02]", ())]),
        ("- [3] a thing [99999999999999999999]", [("[3] a thing", ())]),
        ("- a thing [3", [("a thing [3", ())]),
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
def test_lines_and_refs(text: str, expected: list[tuple[str, tuple[int, ...]]]) -> None:
    assert lines(text) == expected


def test_a_short_request_may_be_cited_whole() -> None:
    assert lines("- a [1, 2]", short(messages("x", "y"))) == [("a", (1, 2))]


def test_a_message_that_came_back_as_it_was_sent_cites_itself() -> None:
    sent = next(iter(prompts.message_lines(short(messages("hello there")))))
    assert lines(f"- {sent}", short(messages("hello there"))) == [
        ("[2026-11-02 09:00] Ana: hello there", (1,))
    ]


def test_a_memory_line_that_came_back_as_it_was_sent_cites_itself() -> None:
    wanted = long(
        existing=[MemoryLine(1, "old news", by_person=True)], additions=added("new", first=2)
    )
    assert lines("- 1 ✎ old news\n- 2 new", wanted) == [("old news", (1,)), ("new", (2,))]


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
def test_only_stop_is_a_good_end(finish_reason: str, fault: Fault) -> None:
    assert read_reply(reply("- a fine line [1]", finish_reason), SIX).fault == fault


MUCH = short(messages(*[f"message number {n} " + "about this and that " * 10 for n in range(40)]))


@pytest.mark.parametrize(
    ("text", "request_", "fault"),
    [
        ("", SIX, Fault.BLANK),
        (" \n\u200b\n", SIX, Fault.BLANK),
        ("- \n- …", SIX, Fault.BLANK),
        ("<think>only thought</think>", SIX, Fault.BLANK),
        ("NOTHING", long(existing=memory("a"), additions=added("b", first=2)), Fault.BLANK),
        ("I'm sorry, but I can't help with that.", SIX, Fault.REFUSAL),
        ("申し訳ありませんが、要約できません。", SIX, Fault.REFUSAL),
        ("- " + "word " * 1500 + "[1]", SIX, Fault.TOO_LONG),
        ("- ok", MUCH, Fault.TOO_SHORT),
        (prompts.system_text(SIX), SIX, Fault.PROMPT_ECHOED),
        ("- a [1]\n" + prompts.system_text(SIX).split("\n")[0], SIX, Fault.PROMPT_ECHOED),
        ("<<messages c0ffee00: #general, UTC>>\n- a [1]", SIX, Fault.PROMPT_ECHOED),
        ("- a [1]\n<<end c0ffee00>>", SIX, Fault.PROMPT_ECHOED),
    ],
    ids=[
        "empty", "invisible", "no word", "thought only", "nothing of a merge", "refusal en",
        "refusal ja", "wildly long", "wildly short", "prompt", "sentence of the prompt",
        "fence", "end",
    ],
)  # fmt: skip
def test_faults(text: str, request_: Request, fault: Fault) -> None:
    reading = read_reply(reply(text), request_)
    assert (reading.fault, list(reading.lines)) == (fault, [])


@pytest.mark.parametrize("text", ["NOTHING", "- NOTHING", "nothing.", "**NOTHING**", " NOTHING\n"])
def test_the_fixed_word(text: str) -> None:
    reading = read_reply(reply(text), SIX)
    assert (reading.nothing, reading.fault, list(reading.lines)) == (True, "", [])


@pytest.mark.parametrize(
    "text",
    [
        "- Sorry, I was late, said Ana [1]",
        "- " + "x" * 40 + " [1]",
        "- one two three four five",
    ],
    ids=["a member apologises", "short limit", "no refs"],
)
def test_what_is_no_fault(text: str) -> None:
    assert read_reply(reply(text), short(messages("x"), max_tokens=1)).fault == ""


def test_lines_of_messages_are_no_echo() -> None:
    """An extract repeats its input; only our own words and fences tell of an echo."""
    sent = list(prompts.message_lines(SIX))
    assert read_reply(reply("\n".join(f"- {line}" for line in sent)), SIX).fault == ""


def test_our_words_are_no_echo_where_a_message_quotes_them() -> None:
    sentence = prompts.system_text(SIX).split("\n")[0]
    quoted = short(messages(f"our prompt begins: {sentence}", "two"))
    assert read_reply(reply(f"- Ana quotes: {sentence} [1]"), quoted).fault == ""


def test_what_people_wrote_may_be_long() -> None:
    own = MemoryLine(1, "word " * 1500, by_person=True)
    wanted = long(existing=[own], additions=added("new", first=2), max_tokens=40)
    assert read_reply(reply(f"- {own.text} [1]"), wanted).fault == ""


def test_text_of_a_memory() -> None:
    read = [ReadLine("a", (3, 7)), ReadLine("b")]
    assert content(read) == "- a\n- b"
    assert with_refs(read) == "- a [3, 7]\n- b"


@given(
    st.lists(
        st.one_of(
            st.text(), st.sampled_from(["- ", "[1", ", 7]", "\n", "<<end", "]", "1 ", "［２］"])
        )
    )
)
def test_any_text_is_read(parts: list[str]) -> None:
    reading = read_reply(reply("".join(parts)), SIX)
    assert bool(reading.fault) + reading.nothing + bool(reading.lines) == 1
    for line in reading.lines:
        assert line.text == line.text.strip() != "" and "\n" not in line.text
        assert len(line.refs) == len(set(line.refs)) <= 5 and set(line.refs) <= set(range(1, 8))


@given(st.sampled_from("[]-, 1\t"), st.integers(1, 20_000))
def test_a_long_run_of_one_character_is_read(character: str, times: int) -> None:
    read_reply(reply("- a " + character * times), SIX)


@pytest.mark.parametrize("fault", Fault)
def test_the_fault_of_a_part_is_the_fault_of_the_whole(fault: Fault) -> None:
    """It comes as the whole's finish; the text beside it may look good."""
    assert read_reply(reply("- a fine line [1]", fault.value), SIX).fault == fault


ENGLISH = (
    "- we ship the new page on the day that is best for all of us, and Ben tells the others. " * 2
)
JAPANESE = (
    "- 新しいページは金曜日に公開することになりました。田中さんがサポートチームに連絡します。" * 2
)


@pytest.mark.parametrize(
    ("text", "language", "said", "wrong"),
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
def test_wrong_language(text: str, language: str, said: str, wrong: bool) -> None:
    wanted = short(messages(said, "👍"), language=language)
    assert read_reply(reply(text), wanted).fault == (Fault.WRONG_LANGUAGE if wrong else "")


def test_what_people_wrote_is_in_no_wrong_language() -> None:
    own = MemoryLine(1, JAPANESE.removeprefix("- "), by_person=True)
    wanted = long(existing=[own], additions=added("it ships", first=2), language="en")
    assert read_reply(reply(f"- {own.text} [1]\n- it ships [2]"), wanted).fault == ""
    theirs = long(existing=[MemoryLine(1, own.text)], additions=added("it ships", first=2))
    assert read_reply(reply(f"- {own.text} [1]\n- it ships [2]"), theirs).fault != ""

"""The three strategies with a local endpoint: whole, split, isolate."""

import json
from dataclasses import replace

import pytest

from memories.llm import ModelSummariser, OfflineSummariser, summarise
from memories.rules.generate.faults import Fault
from memories.rules.generate.reply import parse_reply
from memories.rules.generate.splitting import estimate_prompt_tokens
from memories.rules.summariser import (
    PromptForm,
    Reply,
    Request,
    RequestStrategy,
    SummariserError,
    Usage,
)
from tests.llm.endpoint import FakeEndpoint, completion
from tests.llm.requests import added, long, memory, messages, short

TEXTS = [f"message number {n}." for n in range(1, 33)]
BAD = "message number 21."
REQUEST = short(messages(*TEXTS))


def first_ref(prompt: str) -> int:
    return next(int(row.split()[0]) for row in prompt.split("\n") if row[:1].isdigit())


def reply_line(prompt: str) -> str:
    return f"- a message from {first_ref(prompt)} on [{first_ref(prompt)}]"


class TestWhole:
    def test_a_prompt_that_is_too_long_is_a_fault(self, endpoint: FakeEndpoint) -> None:
        endpoint.fail_with(400, {"code": "context_length_exceeded"})
        with pytest.raises(SummariserError) as raised:
            summarise(REQUEST, endpoint.summariser())
        assert raised.value.code == "context_too_long"
        assert len(endpoint.server.log) == 1

    def test_an_error_includes_the_usage_of_earlier_parts(self, endpoint: FakeEndpoint) -> None:
        endpoint.reply_by(lambda prompt: (500, "") if BAD in prompt else reply_line(prompt))
        request = short(messages(*TEXTS[:21]))
        with pytest.raises(SummariserError) as raised:
            summarise(request, endpoint.summariser(input_limit=estimate_prompt_tokens(request) - 1))
        assert len(endpoint.requests) == 2
        assert (raised.value.spent, raised.value.may_be_charged) == (Usage(100, 10, 1), False)

    def test_a_part_in_the_wrong_language_is_a_fault_of_the_whole(
        self, endpoint: FakeEndpoint
    ) -> None:
        """Compared with all sources the language might look right."""
        japanese = "- " + "会議は金曜日に開くことになりました。" * 8 + " [1]"
        english = ["we will meet on the day that is best for all of us, as it was before. " * 6] * 8
        texts = [f"{text} {n}" for n, text in enumerate(english)] + [
            "会議は金曜日に開きます。" * 9
        ] * 8
        request = short(messages(*texts), language="conversation")
        endpoint.reply_with(japanese)
        reply = summarise(request, endpoint.summariser(), RequestStrategy.SPLIT)
        assert len(endpoint.requests) == 1
        assert parse_reply(reply, request).fault == Fault.WRONG_LANGUAGE


class TestSplit:
    def test_a_request_becomes_two_parts(self, endpoint: FakeEndpoint) -> None:
        endpoint.reply_with("- number 3 [3]", "- number 20 [20]", "- number 3, number 20 [1, 2]")
        reply = summarise(REQUEST, endpoint.summariser(), RequestStrategy.SPLIT)
        assert (reply.text, reply.calls, reply.prompt_tokens) == (
            "- status: number 3, number 20 [3, 20]",
            3,
            300,
        )
        assert TEXTS[0] in endpoint.prompt(0)[1] and TEXTS[0] not in endpoint.prompt(1)[1]

    def test_a_shorter_context_gets_smaller_parts(self, endpoint: FakeEndpoint) -> None:
        endpoint.reply_by(
            lambda prompt: (
                (400, "context_length_exceeded")
                if prompt.count("message number") > 8
                else reply_line(prompt)
            )
        )
        reply = summarise(REQUEST, endpoint.summariser(), RequestStrategy.SPLIT)
        assert (len(endpoint.requests), reply.calls) == (2 + 4 + 1, 5)
        assert parse_reply(reply, REQUEST).fault == ""
        shown = "".join(endpoint.prompt(call)[1] for call in range(7))
        assert all(text in shown for text in TEXTS)

    def test_the_number_of_splits_is_limited(self, endpoint: FakeEndpoint) -> None:
        endpoint.fail_with(413)
        with pytest.raises(SummariserError) as raised:
            summarise(REQUEST, endpoint.summariser(), RequestStrategy.SPLIT)
        assert (raised.value.code, raised.value.spent) == ("context_too_long", Usage())
        assert len(endpoint.server.log) == 3  # a half, a quarter, an eighth

    def test_one_message_needs_one_call(self, endpoint: FakeEndpoint) -> None:
        endpoint.reply_with("- one [1]")
        reply = summarise(short(messages("one")), endpoint.summariser(), RequestStrategy.SPLIT)
        assert (reply.text, reply.calls) == ("- one [1]", 1)

    def test_a_truncated_part_is_a_fault_of_the_whole(self, endpoint: FakeEndpoint) -> None:
        endpoint.reply_with("- early [3]", completion("- la", "length"))
        reply = summarise(REQUEST, endpoint.summariser(), RequestStrategy.SPLIT)
        assert parse_reply(reply, REQUEST).fault == Fault.LENGTH
        assert (reply.calls, reply.prompt_tokens) == (2, 200)


def merge(form: PromptForm = PromptForm.FULL) -> Request:
    """A merge. If it is split, the existing text is in the first half."""
    return long(
        existing=memory("The launch is on 18 November.", "Mika owns the budget."),
        additions=added(
            "The launch moved to 26 November.",
            "Ann tests the search.",
            "Ben tests the export.",
            "Cara leads the team.",
            "Dan writes the notes.",
            first=3,
        ),
        operations=True,
        form=form,
    )


def texts_after(reply: Reply, request: Request) -> list[str]:
    parsed = parse_reply(reply, request)
    assert parsed.fault == ""
    return [line.text for line in parsed.lines]


MOVE = "~ L1 status: The launch is on 26 November. [3]"
ADD = "+ task: Cara leads the team. [6]"
MERGED = ["The launch is on 26 November.", "Mika owns the budget.", "Cara leads the team."]


class TestSplitMerge:
    """A merge by operations, or one that only adds, in parts."""

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (MOVE, ADD),
            (f"<think>I move it.</think>{MOVE}", f"<think>One more.\n</think>\n{ADD}"),
            (f"Here are the changes:\n{MOVE}", f"Sure, the list.\n{ADD}\nLet me know!"),
            (json.dumps([MOVE]), json.dumps([ADD])),
        ],
        ids=["plain", "thinking", "preambles", "JSON"],
    )
    def test_the_operations_of_all_parts_are_applied(
        self, endpoint: FakeEndpoint, first: str, second: str
    ) -> None:
        endpoint.reply_with(first, second)
        reply = summarise(merge(), endpoint.summariser(), RequestStrategy.SPLIT)
        assert texts_after(reply, merge()) == MERGED
        assert reply.calls == 2

    @pytest.mark.parametrize("form", PromptForm)
    @pytest.mark.parametrize("nothing", ["NOTHING", "<think>Hm.</think>NOTHING"])
    def test_all_parts_may_change_nothing(
        self, endpoint: FakeEndpoint, form: PromptForm, nothing: str
    ) -> None:
        endpoint.reply_with(nothing)
        request = merge(form)
        reply = summarise(request, endpoint.summariser(), RequestStrategy.SPLIT)
        assert (reply.text, reply.calls) == ("NOTHING", 2)
        assert "Mika owns the budget." in texts_after(reply, request)

    @pytest.mark.parametrize("refusal", ["apology", "filtered answer"])
    def test_the_text_of_a_refusal_is_no_line(self, endpoint: FakeEndpoint, refusal: str) -> None:
        refused = {**REFUSALS, "filtered answer": completion("- Half of", "content_filter")}[
            refusal
        ]
        endpoint.reply_by(
            lambda prompt: refused if "Dan writes" in prompt else MOVE if "L1" in prompt else ADD
        )
        reply = summarise(merge(), endpoint.summariser(), RequestStrategy.ISOLATE)
        assert reply.left_out == (7,)
        assert texts_after(reply, merge()) == MERGED

    def test_added_lines_supersede_lines_of_the_whole_text(self, endpoint: FakeEndpoint) -> None:
        endpoint.reply_with("- The launch moved to 26 November.", "- Cara leads the team.")
        request = merge(PromptForm.SIMPLE)
        reply = summarise(request, endpoint.summariser(), RequestStrategy.SPLIT)
        parsed = parse_reply(reply, request)
        assert {line.text for line in parsed.lines} == {
            "The launch moved to 26 November.",
            "Mika owns the budget.",
            "Cara leads the team.",
        }
        assert (reply.form, set(parsed.superseded), parsed.dropped) == ("simple", {1}, ())

    def test_many_parts_may_be_longer_than_one_reply(self, endpoint: FakeEndpoint) -> None:
        request = replace(merge(), max_tokens=40)
        rows = [
            f"+ status: {'Ann tests the search and ' * 16}Ben. [4]",
            f"+ status: {'Cara leads the team and ' * 16}Dan. [6]",
        ]
        endpoint.reply_with(*rows)
        reply = summarise(request, endpoint.summariser(), RequestStrategy.SPLIT)
        assert set(texts_after(reply, request)) >= {row[10:-4] for row in rows}


REFUSALS = {
    "filtered input": (400, "content_filter"),
    "filtered answer": completion("", "content_filter"),
    "refusal": completion(None, refusal="No."),
    "apology": completion("I'm sorry, but I can't help with that."),
}


class TestIsolate:
    @pytest.mark.slow
    @pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
    def test_only_the_refused_message_is_left_out(
        self, endpoint: FakeEndpoint, refusal: dict[str, object] | tuple[int, str]
    ) -> None:
        endpoint.reply_by(lambda prompt: refusal if BAD in prompt else reply_line(prompt))
        summariser = endpoint.summariser()
        reply = summarise(REQUEST, summariser, RequestStrategy.ISOLATE)
        assert reply.left_out == (21,)
        assert parse_reply(reply, REQUEST).fault == ""
        assert reply.calls <= summariser.upper_bound(REQUEST, RequestStrategy.ISOLATE).calls
        assert (
            len(endpoint.requests) == 2 * 5 + 1 + 1
        )  # halves down to one, that one again, combination
        accepted = [p for p in map(endpoint.prompt, range(12)) if BAD not in p[1]]
        assert all(any(text in user for _, user in accepted) for text in TEXTS if text != BAD)
        assert Reply.from_json(json.loads(json.dumps(reply.as_json()))) == reply

    def test_a_message_that_is_refused_once_is_kept(self, endpoint: FakeEndpoint) -> None:
        endpoint.reply_with(REFUSALS["refusal"], "- uno [1]", "- dos [2]", "- uno, dos [1, 2]")
        reply = summarise(
            short(messages("uno", "dos")), endpoint.summariser(), RequestStrategy.ISOLATE
        )
        assert (reply.text, reply.left_out, reply.calls) == ("- status: uno, dos [1, 2]", (), 4)

    def test_all_messages_may_be_left_out(self, endpoint: FakeEndpoint) -> None:
        endpoint.reply_by(lambda prompt: REFUSALS["filtered input"])
        request = short(messages("one", "two"))
        reply = summarise(request, endpoint.summariser(), RequestStrategy.ISOLATE)
        assert parse_reply(reply, request).fault == Fault.CONTENT_FILTER
        assert (reply.left_out, reply.calls, reply.model) == ((1, 2), 0, "tiny")

    def test_small_talk_beside_a_refused_message_is_nothing(self, endpoint: FakeEndpoint) -> None:
        endpoint.reply_by(lambda prompt: (400, "content_filter") if "bad" in prompt else "NOTHING")
        request = short(messages("good morning to you all", "bad", "hello there my friend"))
        reply = summarise(request, endpoint.summariser(), RequestStrategy.ISOLATE)
        assert reply.left_out == (2,)
        assert parse_reply(reply, request).is_nothing

    def test_nothing_beside_a_refused_message_needs_messages_without_content(
        self, endpoint: FakeEndpoint
    ) -> None:
        endpoint.reply_by(lambda prompt: (400, "content_filter") if "bad" in prompt else "NOTHING")
        texts = [f"We move the launch of the shop to {n} May." for n in range(1, 5)]
        request = short(messages("bad", *texts))
        reply = summarise(request, endpoint.summariser(), RequestStrategy.ISOLATE)
        assert parse_reply(reply, request).fault == Fault.NOTHING

    def test_the_number_of_calls_is_limited(self, endpoint: FakeEndpoint) -> None:
        endpoint.reply_by(lambda prompt: REFUSALS["refusal"])
        summariser = endpoint.summariser()
        reply = summarise(REQUEST, summariser, RequestStrategy.ISOLATE)
        assert parse_reply(reply, REQUEST).fault == Fault.REFUSAL
        assert len(endpoint.requests) == reply.calls == 15

    def test_a_memory_line_is_left_out_of_a_merge(self, endpoint: FakeEndpoint) -> None:
        endpoint.reply_by(
            lambda prompt: (400, "content_filter") if "bad" in prompt else reply_line(prompt)
        )
        request = long(existing=memory("old"), additions=added("good", "bad", "fine", first=2))
        reply = summarise(request, endpoint.summariser(), RequestStrategy.ISOLATE)
        assert reply.left_out == (3,)
        assert parse_reply(reply, request).fault == ""

    def test_another_fault_ends_the_run(self, endpoint: FakeEndpoint) -> None:
        endpoint.reply_by(lambda prompt: (503, "") if BAD in prompt else reply_line(prompt))
        with pytest.raises(SummariserError) as raised:
            summarise(REQUEST, endpoint.summariser(), RequestStrategy.ISOLATE)
        assert (raised.value.code, raised.value.spent.calls) == ("server_error", 1)
        assert raised.value.is_partly_paid


def test_a_stored_reply_may_lack_newer_fields() -> None:
    reply = Reply("- a [1]", "stop", "m", "p", 1, 2, 3, 4.0)
    data = reply.as_json()
    del data["left_out"]
    assert Reply.from_json(data) == reply


class TestEndpoint:
    def test_the_offline_summariser_has_no_endpoint(self) -> None:
        offline = OfflineSummariser()
        assert (offline.endpoint, offline.upper_bound(REQUEST, RequestStrategy.SPLIT)) == (
            "",
            Usage(0, 0, 0),
        )

    def test_address_model_and_key_identify_an_endpoint(self) -> None:
        def fingerprint(**changed: str) -> str:
            parts = {"api_key": "sk-secret", "base_url": "http://127.0.0.1:1/v1", "model": "tiny"}
            return ModelSummariser(**{**parts, **changed}, timeout=1).endpoint  # type: ignore[arg-type]

        assert fingerprint() == fingerprint() == fingerprint(base_url="http://127.0.0.1:1/v1/")
        changes = [{"api_key": "sk-other"}, {"base_url": "http://127.0.0.1:2/v1"}, {"model": "big"}]
        assert len({fingerprint(), *(fingerprint(**change) for change in changes)}) == 4
        assert len(fingerprint()) == 64 and "secret" not in fingerprint()

    def test_the_name_consists_of_model_and_host(self) -> None:
        summariser = ModelSummariser(
            api_key="k", base_url="https://user:pass@llm.example.com:8443/v1", model="m", timeout=1
        )
        assert summariser.endpoint_name == "m at llm.example.com"

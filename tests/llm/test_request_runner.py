"""The ways to ask, at a real endpoint: whole, split, in search of what is refused."""

import json

import pytest

from memories.llm import ModelSummariser, OfflineSummariser, summarise
from memories.rules.generate.faults import Fault
from memories.rules.generate.reply import parse_reply
from memories.rules.generate.splitting import estimate_prompt_tokens
from memories.rules.generate.summariser import (
    Bound,
    Reply,
    Request,
    RequestStrategy,
    SummariserError,
    Usage,
)
from memories.rules.generate.tokens import estimate_tokens
from tests.llm.endpoint import Endpoint, completion
from tests.llm.requests import added, long, memory, messages, short

TEXTS = [f"message number {n}." for n in range(1, 33)]
BAD = "message number 21."
WANTED = short(messages(*TEXTS))


def first_ref(prompt: str) -> int:
    return next(int(row.split()[0]) for row in prompt.split("\n") if row[:1].isdigit())


def one_line(prompt: str) -> str:
    return f"- a message from {first_ref(prompt)} on [{first_ref(prompt)}]"


class TestWhole:
    def test_too_long_is_told(self, endpoint: Endpoint) -> None:
        """The row then asks for the halves."""
        endpoint.refuses(400, {"code": "context_length_exceeded"})
        with pytest.raises(SummariserError) as raised:
            summarise(WANTED, endpoint.summariser())
        assert raised.value.code == "context_too_long"
        assert len(endpoint.server.log) == 1

    def test_what_earlier_parts_cost_is_told(self, endpoint: Endpoint) -> None:
        endpoint.decides(lambda prompt: (500, "") if BAD in prompt else one_line(prompt))
        wanted = short(messages(*TEXTS[:21]))
        with pytest.raises(SummariserError) as raised:
            summarise(wanted, endpoint.summariser(input_limit=estimate_prompt_tokens(wanted) - 1))
        assert len(endpoint.asked) == 2
        assert (raised.value.spent, raised.value.unknown) == (Usage(100, 10, 1), False)

    def test_a_part_in_the_wrong_language_is_not_the_whole(self, endpoint: Endpoint) -> None:
        """Beside all sources it might pass for good."""
        japanese = "- " + "会議は金曜日に開くことになりました。" * 8 + " [1]"
        english = ["we will meet on the day that is best for all of us, as it was before. " * 6] * 8
        texts = [f"{text} {n}" for n, text in enumerate(english)] + [
            "会議は金曜日に開きます。" * 9
        ] * 8
        wanted = short(messages(*texts), language="conversation")
        endpoint.answers(japanese)
        reply = summarise(wanted, endpoint.summariser(), RequestStrategy.SPLIT)
        assert len(endpoint.asked) == 1
        assert parse_reply(reply, wanted).fault == Fault.WRONG_LANGUAGE


class TestSplit:
    def test_halves_at_least(self, endpoint: Endpoint) -> None:
        endpoint.answers("- number 3 [3]", "- number 20 [20]", "- number 3, number 20 [1, 2]")
        reply = summarise(WANTED, endpoint.summariser(), RequestStrategy.SPLIT)
        assert (reply.text, reply.calls, reply.prompt_tokens) == (
            "- status: number 3, number 20 [3, 20]",
            3,
            300,
        )
        assert TEXTS[0] in endpoint.prompt(0)[1] and TEXTS[0] not in endpoint.prompt(1)[1]

    def test_deeper_where_the_endpoint_takes_less(self, endpoint: Endpoint) -> None:
        endpoint.decides(
            lambda prompt: (
                (400, "context_length_exceeded")
                if prompt.count("message number") > 8
                else one_line(prompt)
            )
        )
        reply = summarise(WANTED, endpoint.summariser(), RequestStrategy.SPLIT)
        assert (len(endpoint.asked), reply.calls) == (2 + 4 + 1, 5)
        assert parse_reply(reply, WANTED).fault == ""
        seen = "".join(endpoint.prompt(call)[1] for call in range(7))
        assert all(text in seen for text in TEXTS)

    def test_not_for_ever(self, endpoint: Endpoint) -> None:
        endpoint.refuses(413)
        with pytest.raises(SummariserError) as raised:
            summarise(WANTED, endpoint.summariser(), RequestStrategy.SPLIT)
        assert (raised.value.code, raised.value.spent) == ("context_too_long", Usage())
        assert len(endpoint.server.log) == 3  # a half, a quarter, an eighth

    def test_one_message_is_asked_as_it_is(self, endpoint: Endpoint) -> None:
        endpoint.answers("- one [1]")
        reply = summarise(short(messages("one")), endpoint.summariser(), RequestStrategy.SPLIT)
        assert (reply.text, reply.calls) == ("- one [1]", 1)

    def test_a_cut_off_part_is_a_cut_off_whole(self, endpoint: Endpoint) -> None:
        endpoint.answers("- early [3]", completion("- la", "length"))
        reply = summarise(WANTED, endpoint.summariser(), RequestStrategy.SPLIT)
        assert parse_reply(reply, WANTED).fault == Fault.LENGTH
        assert (reply.calls, reply.prompt_tokens) == (2, 200)


REFUSALS = {
    "filtered input": (400, "content_filter"),
    "filtered answer": completion("", "content_filter"),
    "refusal": completion(None, refusal="No."),
    "apology": completion("I'm sorry, but I can't help with that."),
}


class TestIsolate:
    @pytest.mark.slow
    @pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
    def test_only_what_is_refused_is_left_out(
        self, endpoint: Endpoint, refusal: dict[str, object] | tuple[int, str]
    ) -> None:
        endpoint.decides(lambda prompt: refusal if BAD in prompt else one_line(prompt))
        summariser = endpoint.summariser()
        reply = summarise(WANTED, summariser, RequestStrategy.ISOLATE)
        assert reply.left_out == (21,)
        assert parse_reply(reply, WANTED).fault == ""
        assert reply.calls <= summariser.bound(WANTED, RequestStrategy.ISOLATE).calls
        assert len(endpoint.asked) == 2 * 5 + 1 + 1  # halves down to one, that again, all together
        good = [p for p in map(endpoint.prompt, range(12)) if BAD not in p[1]]
        assert all(any(text in user for _, user in good) for text in TEXTS if text != BAD)
        assert Reply.from_json(json.loads(json.dumps(reply.as_json()))) == reply

    def test_what_is_refused_once_only_is_not_left_out(self, endpoint: Endpoint) -> None:
        endpoint.answers(REFUSALS["refusal"], "- uno [1]", "- dos [2]", "- uno, dos [1, 2]")
        reply = summarise(
            short(messages("uno", "dos")), endpoint.summariser(), RequestStrategy.ISOLATE
        )
        assert (reply.text, reply.left_out, reply.calls) == ("- status: uno, dos [1, 2]", (), 4)

    def test_all_of_it(self, endpoint: Endpoint) -> None:
        endpoint.decides(lambda prompt: REFUSALS["filtered input"])
        wanted = short(messages("one", "two"))
        reply = summarise(wanted, endpoint.summariser(), RequestStrategy.ISOLATE)
        assert parse_reply(reply, wanted).nothing
        assert (reply.left_out, reply.calls, reply.model) == ((1, 2), 0, "tiny")

    def test_the_search_ends(self, endpoint: Endpoint) -> None:
        endpoint.decides(lambda prompt: REFUSALS["refusal"])
        summariser = endpoint.summariser()
        reply = summarise(WANTED, summariser, RequestStrategy.ISOLATE)
        assert parse_reply(reply, WANTED).fault == Fault.REFUSAL
        assert len(endpoint.asked) == reply.calls == 15

    def test_a_memory_line_is_left_out_of_a_merge(self, endpoint: Endpoint) -> None:
        endpoint.decides(
            lambda prompt: (400, "content_filter") if "bad" in prompt else one_line(prompt)
        )
        wanted = long(existing=memory("old"), additions=added("good", "bad", "fine", first=2))
        reply = summarise(wanted, endpoint.summariser(), RequestStrategy.ISOLATE)
        assert reply.left_out == (3,)
        assert parse_reply(reply, wanted).fault == ""

    def test_other_faults_end_it(self, endpoint: Endpoint) -> None:
        endpoint.decides(lambda prompt: (503, "") if BAD in prompt else one_line(prompt))
        with pytest.raises(SummariserError) as raised:
            summarise(WANTED, endpoint.summariser(), RequestStrategy.ISOLATE)
        assert (raised.value.code, raised.value.spent.calls) == ("server_error", 1)


@pytest.mark.slow
@pytest.mark.parametrize("way", RequestStrategy)
@pytest.mark.parametrize(
    "wanted",
    [
        WANTED,
        short(messages("one")),
        short(messages(*["記憶に残ること。" * 20] * 30)),
        long(existing=memory("old " * 50), additions=added(*["new " * 50] * 20, first=2)),
    ],
    ids=["messages", "one message", "long", "merge"],
)
def test_an_endpoint_that_fills_its_limit(
    endpoint: Endpoint, wanted: Request, way: RequestStrategy
) -> None:
    """Each answer is exactly as long as the limit allows."""
    endpoint.answers("- " + "x" * (wanted.max_tokens * 4 - 2))
    summariser = endpoint.summariser(input_limit=2000)
    summarise(wanted, summariser, way)
    most = summariser.bound(wanted, way)
    prompts = [
        sum(map(estimate_tokens, endpoint.prompt(call))) for call in range(len(endpoint.asked))
    ]
    assert len(prompts) <= most.calls
    assert sum(prompts) <= most.prompt_tokens
    assert sum(body["max_tokens"] for body in endpoint.asked) <= most.completion_tokens
    if way is RequestStrategy.WHOLE:
        assert len(prompts) == most.calls
        assert len(prompts) > 1 or sum(prompts) == most.prompt_tokens


def test_old_replies_are_read() -> None:
    """Saved before anything could be left out."""
    reply = Reply("- a [1]", "stop", "m", "p", 1, 2, 3, 4.0)
    data = reply.as_json()
    del data["left_out"]
    assert Reply.from_json(data) == reply


class TestEndpoint:
    def test_without_a_model_there_is_none(self) -> None:
        offline = OfflineSummariser()
        assert (offline.endpoint, offline.bound(WANTED, RequestStrategy.SPLIT)) == (
            "",
            Bound(0, 0, 0),
        )

    def test_address_model_and_key_make_it(self) -> None:
        def known_as(**changed: str) -> str:
            parts = {"api_key": "sk-secret", "base_url": "http://127.0.0.1:1/v1", "model": "tiny"}
            return ModelSummariser(**{**parts, **changed}, timeout=1).endpoint  # type: ignore[arg-type]

        assert known_as() == known_as() == known_as(base_url="http://127.0.0.1:1/v1/")
        others = [{"api_key": "sk-other"}, {"base_url": "http://127.0.0.1:2/v1"}, {"model": "big"}]
        assert len({known_as(), *(known_as(**other) for other in others)}) == 4
        assert len(known_as()) == 64 and "secret" not in known_as()

    def test_its_name_is_for_people(self) -> None:
        summariser = ModelSummariser(
            api_key="k", base_url="https://user:pass@llm.example.com:8443/v1", model="m", timeout=1
        )
        assert summariser.endpoint_name == "m at llm.example.com"

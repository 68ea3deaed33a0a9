import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memories.llm import ModelSummariser, OfflineSummariser, get_summariser, model, summarise
from memories.llm.request_runner import RequestRunner
from memories.rules.generate import prompts, splitting
from memories.rules.generate.reply import parse_reply
from memories.rules.generate.splitting import build_combination
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.summariser import (
    ParsedReply,
    PromptForm,
    Reply,
    ReplyLine,
    Request,
    RequestStrategy,
)
from memories.rules.tokens import estimate_tokens
from tests.llm.endpoint import FakeEndpoint, completion
from tests.llm.requests import added, long, make_request, memory, messages, short


def test_a_reply_has_the_values_of_the_response(endpoint: FakeEndpoint) -> None:
    endpoint.reply_with("- hello [1]")
    request = short(messages("hello"))
    summariser = endpoint.summariser()
    reply = summarise(request, summariser)
    assert (reply.text, reply.finish_reason, reply.model) == ("- hello [1]", "stop", "tiny-2026")
    assert (reply.prompt_tokens, reply.completion_tokens, reply.calls) == (100, 10, 1)
    assert reply.prompt_version == summariser.prompt_version(request)
    assert reply.seconds > 0
    assert Reply.from_json(json.loads(json.dumps(reply.as_json()))) == reply


def test_a_reply_fits_its_columns(endpoint: FakeEndpoint) -> None:
    endpoint.reply_with(completion("- hel\0lo [1]", "st\0p", model="m\0" * 60))
    reply = summarise(short(messages("hello")), endpoint.summariser())
    assert (reply.text, reply.finish_reason) == ("- hel\ufffdlo [1]", "st\ufffdp")
    assert reply.model == "m\ufffd" * 50


def test_the_key_and_the_model_are_sent(endpoint: FakeEndpoint) -> None:
    endpoint.reply_with("- hello [1]")
    summarise(short(messages("hello")), endpoint.summariser())
    [(request, _)] = endpoint.server.log
    assert request.headers["Authorization"] == "Bearer sk-test"
    assert endpoint.requests[0]["model"] == "tiny"


@pytest.mark.parametrize(
    "request_", [short(messages("hi"), max_tokens=300), long(additions=added("x"), max_tokens=500)]
)
def test_the_limit_is_a_parameter_and_in_the_prompt(
    endpoint: FakeEndpoint, request_: Request
) -> None:
    endpoint.reply_with("- a [1]")
    summarise(request_, endpoint.summariser())
    assert endpoint.requests[0]["max_tokens"] == request_.max_tokens
    assert str(request_.max_tokens) in endpoint.prompt()[1]


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (short(), ""),
        (short(messages(" ", "\n")), ""),
        (long(), ""),
        (long(additions=added()), ""),
        (long(existing=memory("kept", "too")), "- kept [1]\n- too [2]"),
        (make_request(MemoryScope.THREAD, MemoryType.SHORT_TERM), ""),
        (make_request(MemoryScope.WORKSPACE, MemoryType.SHORT_TERM), ""),
        (make_request(MemoryScope.WORKSPACE, MemoryType.LONG_TERM), ""),
    ],
)
def test_without_news_no_call_is_made(endpoint: FakeEndpoint, request_: Request, text: str) -> None:
    """The existing memory is the reply. An empty reply is never saved."""
    reply = summarise(request_, endpoint.summariser())
    assert (reply.text, reply.calls, reply.finish_reason) == (text, 0, "stop")
    assert endpoint.server.log == []


def test_each_prompt_has_its_own_key(endpoint: FakeEndpoint) -> None:
    endpoint.reply_with("- hello [1]")
    summariser = endpoint.summariser()
    for _ in range(2):
        summarise(short(messages("hello")), summariser)
    assert endpoint.prompt(0)[1] != endpoint.prompt(1)[1]
    assert endpoint.prompt(0)[0] == endpoint.prompt(1)[0]


def test_without_usage_tokens_are_estimated(endpoint: FakeEndpoint) -> None:
    endpoint.reply_with(completion("- hello [1]", usage=None))
    reply = summarise(short(messages("hello")), endpoint.summariser())
    assert reply.prompt_tokens == sum(map(estimate_tokens, endpoint.prompt()))
    assert reply.completion_tokens == estimate_tokens("- hello [1]")


@pytest.mark.parametrize("is_openai", [True, False])
def test_openai_gets_the_new_name_of_the_limit(
    endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch, is_openai: bool
) -> None:
    if is_openai:
        monkeypatch.setattr(model, "OPENAI", endpoint.server.url_for("/v1"))
    endpoint.reply_with("- hello [1]")
    summarise(short(messages("hello")), endpoint.summariser())
    limits = {
        name: value for name, value in endpoint.requests[0].items() if name.startswith("max_")
    }
    assert limits == {"max_completion_tokens" if is_openai else "max_tokens": 300}


def test_a_cited_key_of_the_fences_is_removed_from_a_reply(
    endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model.secrets, "token_hex", lambda size: "27435ba5")
    endpoint.reply_with(
        "- Ann is in Rome [27435ba5]\n- Ben (27435ba5) is here. [1]\n<<end 27435ba5>>"
    )
    reply = summarise(short(messages("hello")), endpoint.summariser())
    assert "27435ba5" in endpoint.prompt()[1]
    assert reply.text == "- Ann is in Rome\n- Ben is here. [1]\n<<end 27435ba5>>"


def test_threads_share_one_client(endpoint: FakeEndpoint) -> None:
    endpoint.reply_with("- hello [1]")
    summariser = endpoint.summariser()
    with ThreadPoolExecutor(4) as pool:
        clients = set(pool.map(lambda _: id(summariser._client()), range(8)))
        replies = list(pool.map(lambda _: summarise(short(messages("a")), summariser), range(8)))
    assert len(clients) == 1
    assert [reply.text for reply in replies] == ["- hello [1]"] * 8


def test_the_model_name_chooses_the_summariser() -> None:
    online = get_summariser(api_key="k", base_url="http://127.0.0.1:1/v1", model="m", timeout=2.0)
    offline = get_summariser(api_key="k", base_url="", model="", timeout=2.0)
    assert isinstance(online, ModelSummariser) and online.name == "m"
    assert isinstance(offline, OfflineSummariser) and offline.name == "offline"


def test_only_a_call_imports_the_client() -> None:
    """The import takes half a second and 30 MB."""
    code = "import sys, memories.llm; sys.exit('openai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=os.environ, check=False).returncode == 0


def test_a_long_conversation_is_split_and_combined(endpoint: FakeEndpoint) -> None:
    """Rule 11: two halves, then a combination with the refs of the whole."""
    endpoint.reply_with(
        "- word of message 1, 2 [1, 2]", "- word 39 [39]\n- word 40 [40]", "- word 1, 2, 40 [1, 3]"
    )
    request = short(messages(*[f"message {n} " + "word " * 40 for n in range(1, 41)]))
    reply = summarise(request, endpoint.summariser(input_limit=1600))
    assert reply.text == "- status: word 1, 2, 40 [1, 2, 40]"
    assert (reply.calls, reply.prompt_tokens, reply.completion_tokens) == (3, 300, 30)
    assert reply.prompt_version == endpoint.summariser().prompt_version(request)
    first, second, both = (endpoint.prompt(call)[1] for call in range(3))
    in_first = [n for n in range(1, 41) if f"message {n} " in first]
    assert in_first == list(range(1, len(in_first) + 1)) and 15 <= len(in_first) <= 25
    assert all((f"message {n} " in second) == (n not in in_first) for n in range(1, 41))
    instructions = prompts.request_text(
        build_combination(request, [ParsedReply([ReplyLine("word")])] * 2)
    )
    assert [line for line in both.split("\n") if not line.startswith("<<")] == [
        "1 word of message 1, 2", "2 word 39", "3 word 40", "", *instructions.split("\n"),
    ]  # fmt: skip


@pytest.mark.slow
@given(
    st.lists(st.integers(1, 4_000), min_size=1, max_size=3),
    st.sampled_from([900, 2_500, 24_000]),
    st.sampled_from(list(PromptForm)),
)
@settings(max_examples=25)
def test_no_word_of_a_long_message_is_lost(sizes: list[int], limit: int, form: PromptForm) -> None:
    """Each word of each message is in exactly one call."""
    words = [[f"w{n}x{i}" for i in range(size)] for n, size in enumerate(sizes)]
    request = short(messages(*map(" ".join, words)), form=form)
    shown: list[str] = []

    def call(part: Request) -> Reply:
        shown.extend(re.findall(r"w\d+x\d+", prompts.data_text(part, "k")))
        return Reply("- Something is going on here. [1]", "stop", "m", "p", form=form, calls=1)

    reply = RequestRunner(request, call, "m", limit).run(RequestStrategy.WHOLE)
    assert shown == [word for message_words in words for word in message_words]
    assert reply.calls <= splitting.upper_bound(request, RequestStrategy.WHOLE, limit).calls


def test_a_long_merge_is_split_and_combined(endpoint: FakeEndpoint) -> None:
    endpoint.reply_with(
        "- very first line [1, 2]", "- line word [41]", "- very first line [1]\n- line word [2]"
    )
    request = long(
        existing=memory("the very first"),
        additions=added(*["line " + "word " * 40 for _ in range(40)], first=2),
    )
    reply = summarise(request, endpoint.summariser(input_limit=1600))
    assert reply.text == "- status: very first line [1, 2]\n- status: line word [41]"
    first, second, both = (endpoint.prompt(call)[1] for call in range(3))
    assert "the very first" in first and "the very first" not in second
    assert "existing memory" in both and "1 very first line" in both and "2 line word" in both


def test_operations_of_parts_need_no_combination(endpoint: FakeEndpoint) -> None:
    """They name lines by their numbers in the whole."""
    endpoint.reply_with("~ L1 event: very first line [2]", "- event: line word [41]")
    request = long(
        existing=memory("the very first"),
        additions=added(*["line " + "word " * 40 for _ in range(40)], first=2),
        operations=True,
    )
    reply = summarise(request, endpoint.summariser(input_limit=1600))
    assert reply.calls == 2
    assert [line.text for line in parse_reply(reply, request).lines] == [
        "very first line",
        "line word",
    ]


@pytest.mark.parametrize(
    ("second", "text"),
    [("- a late word [40]", "- status: a late word [40]"), ("NOTHING", "NOTHING")],
)
def test_a_part_may_keep_nothing(endpoint: FakeEndpoint, second: str, text: str) -> None:
    endpoint.reply_with("NOTHING", second)
    request = short(messages(*["word " * 40] * 40))
    reply = summarise(request, endpoint.summariser(input_limit=1600))
    assert (reply.text, reply.calls) == (text, 2)


def test_a_message_below_the_shortest_split_stays_whole(endpoint: FakeEndpoint) -> None:
    endpoint.reply_with("- long [1]")
    reply = summarise(short(messages("word " * 900)), endpoint.summariser(input_limit=500))
    assert (reply.text, reply.calls) == ("- long [1]", 1)

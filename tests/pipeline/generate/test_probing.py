"""A probe of an endpoint with the real client: its findings, its cost and the prompt form."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.utils import timezone
from django_q.models import OrmQ
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from memories import tasks
from memories.llm import ModelSummariser
from memories.models import Budget, Endpoint, Job, ModelCall
from memories.pipeline.costs.spending import CallLedger, CallRefused
from memories.pipeline.generate.probing import needs_probe, probe_model
from memories.pipeline.locks import lock_probe
from memories.rules.generate.probe import LONG_PROMPT_LINES, build_long_prompt
from memories.rules.summariser import PromptForm
from tests.factories import WorkspaceFactory
from tests.llm.endpoint import use_model
from tests.llm.requests import added, long, memory, messages, short
from tests.pipeline.generate.model_server import answer, error
from tests.processes import PATIENCE

pytestmark = pytest.mark.django_db

GOOD = {
    "english": "- decision: The team takes Bolt as its provider for 1,200 dollars a year. [1, 3]\n"
    "- task: Ben moves the archive to Bolt by Friday. [6]\n"
    "- event: The old storage server is switched off on 20 January at 14:00. [4]",
    "japanese": "- decision: バックアップの業者は年間12万円のボルト社に決まりました。 [1, 3]\n"
    "- task: 田中さんが金曜日までにアーカイブをボルト社へ移すことになっています。 [6]\n"
    "- event: 古い保管サーバーは1月20日の14時に停止する予定になっています。 [4]",
    "operations": "~ L1 The launch is on 26 November. [1]\n+ Cara has joined the team. [2]",
    "long": "Maple.",
}
# The second prompt of each row is the one that a weak model fails at.
WEAK = GOOD | {"english": "- The team takes Bolt.\n- Ben moves the archive.\n- The server is off."}
COUNTING = GOOD | {"english": re.sub(r"\[.*?\]", "[5]", GOOD["english"])}
ENGLISH_ONLY = GOOD | {"japanese": GOOD["english"]}
REWRITES = GOOD | {"operations": "The launch is on 26 November. Cara has joined the team."}
FORGETS = GOOD | {"long": "I do not know."}


def task_of(user: str) -> str:
    if "harbour gate" in user:
        return "long"
    if "Write only the operations" in user:
        return "operations"
    return "japanese" if "ボルト" in user else "english"


class Model:
    """Answers each task of a probe; ``thinks`` is the tokens that it needs for reasoning."""

    def __init__(self, server: HTTPServer, answers: dict[str, str], thinks: int = 0) -> None:
        def complete(request: Request) -> Response:
            if request.json["max_tokens"] < thinks:
                return answer("<think>Let me", "length")
            return answer(answers[task_of(request.json["messages"][1]["content"])])

        server.expect_request("/v1/chat/completions").respond_with_handler(complete)
        self.summariser = ModelSummariser(
            api_key="sk-test", base_url=server.url_for("/v1"), model="tiny", timeout=PATIENCE
        )


@pytest.mark.parametrize(
    ("answers", "failed", "form"),
    [
        (GOOD, [], PromptForm.FULL),
        (WEAK, ["gives_sources"], PromptForm.SIMPLE),
        (COUNTING, ["gives_sources"], PromptForm.SIMPLE),
        (ENGLISH_ONLY, ["keeps_language"], PromptForm.SIMPLE),
        (REWRITES, ["writes_operations"], PromptForm.FULL),
        (FORGETS, ["context_tokens"], PromptForm.FULL),
    ],
    ids=["good", "no references", "wrong references", "English only", "no operations", "short"],
)
def test_the_findings_decide_the_prompt_form(
    httpserver: HTTPServer, answers: dict[str, str], failed: list[str], form: PromptForm
) -> None:
    findings = probe_model(Model(httpserver, answers).summariser)
    abilities = ("gives_sources", "writes_operations", "keeps_language", "context_tokens")
    assert [name for name in abilities if not getattr(findings, name)] == failed
    endpoint = Endpoint.objects.get()
    assert endpoint.form == form and endpoint.probed_at is not None
    assert (endpoint.reasons, endpoint.thinking_tokens) == (False, 0)
    calls = 3 + (1 if findings.context_tokens else len(LONG_PROMPT_LINES))
    assert [call.tokens for call in ModelCall.objects.all()] == [107] * calls


@pytest.mark.parametrize(
    ("answers", "form"), [(GOOD, PromptForm.FULL), (REWRITES, PromptForm.SIMPLE)]
)
def test_a_model_that_cannot_write_operations_only_adds(
    httpserver: HTTPServer, answers: dict[str, str], form: PromptForm
) -> None:
    model = Model(httpserver, answers).summariser
    probe_model(model)
    ledger = CallLedger(WorkspaceFactory(), model)
    job = Job()
    merge = long(existing=memory("old"), additions=added("new", first=2), operations=True)
    assert ledger.form_for(job, merge) == form
    assert ledger.form_for(job, replace(merge, operations=False)) == PromptForm.FULL
    assert ledger.form_for(job, short(messages("hello"))) == PromptForm.FULL
    job.form = PromptForm.FULL  # after a bad answer in the other one
    assert ledger.form_for(job, merge) == PromptForm.FULL


@pytest.mark.parametrize(("reads", "tries"), [(0, 1), (1, 2), (2, 3)])
def test_the_input_is_split_for_a_model_that_reads_less(
    httpserver: HTTPServer, reads: int, tries: int
) -> None:
    """The server silently drops the beginning of a prompt that is too long."""
    window = len(build_long_prompt(LONG_PROMPT_LINES[reads]).user)

    def complete(request: Request) -> Response:
        user = request.json["messages"][1]["content"]
        return answer(GOOD[task_of(user)] if len(user) <= window else "I do not know.")

    httpserver.expect_request("/v1/chat/completions").respond_with_handler(complete)
    model = ModelSummariser(
        api_key="k", base_url=httpserver.url_for("/v1"), model="tiny", timeout=PATIENCE
    )
    findings = probe_model(model)
    assert findings.context_tokens == build_long_prompt(LONG_PROMPT_LINES[reads]).tokens
    assert ModelCall.objects.count() == 3 + tries
    limit = CallLedger(WorkspaceFactory(), model).input_limit
    assert limit == (findings.context_tokens if reads else None)
    many = messages(*(f"shelf {n} holds {n} boxes of cables and lamps" for n in range(300)))
    request = replace(short(many), input_limit=limit)
    assert model.upper_bound(request).calls == {0: 1, 1: 5, 2: 9}[reads]


@pytest.mark.parametrize(("status", "reads"), [(408, 1), (400, None), (503, None)])
def test_an_error_at_a_long_text_keeps_the_other_findings(
    httpserver: HTTPServer, status: int, reads: int | None
) -> None:
    """A model that is too slow for the long text gets a shorter one."""
    window = len(build_long_prompt(LONG_PROMPT_LINES[1]).user)

    def complete(request: Request) -> Response:
        user = request.json["messages"][1]["content"]
        return answer(GOOD[task_of(user)]) if len(user) <= window else error(status)

    httpserver.expect_request("/v1/chat/completions").respond_with_handler(complete)
    model = ModelSummariser(
        api_key="k", base_url=httpserver.url_for("/v1"), model="tiny", timeout=PATIENCE
    )
    findings = probe_model(model)
    assert findings.form == Endpoint.objects.get().form == PromptForm.FULL
    expected = None if reads is None else build_long_prompt(LONG_PROMPT_LINES[reads]).tokens
    assert findings.context_tokens == expected


def test_a_failed_probe_is_repeated_after_an_hour(
    httpserver: HTTPServer, settings: pytest.FixtureRequest
) -> None:
    httpserver.expect_request("/v1/chat/completions").respond_with_response(error(400))
    use_model(settings, httpserver)
    model = Model(httpserver, GOOD).summariser
    Endpoint.objects.get_or_create_for(model.endpoint, model.endpoint_name)
    tasks.probe()
    assert len(httpserver.log) == 1
    assert not needs_probe()
    tasks.probe()
    assert len(httpserver.log) == 1
    ModelCall.objects.update(began_at=timezone.now() - timedelta(hours=1))
    assert needs_probe()


def test_a_reasoning_model_gets_tokens_for_its_reasoning(httpserver: HTTPServer) -> None:
    findings = probe_model(Model(httpserver, GOOD, thinks=1_500).summariser)
    assert findings.reasons and findings.form == PromptForm.FULL
    assert Endpoint.objects.get().thinking_tokens == 2_000


def test_another_key_of_the_same_model_copies_the_findings(httpserver: HTTPServer) -> None:
    probe_model(Model(httpserver, WEAK).summariser)
    second = Endpoint.objects.get_or_create_for("another fingerprint", Endpoint.objects.get().name)
    assert second.form == PromptForm.SIMPLE and second.probed_at is not None


def test_a_budget_refuses_a_probe(httpserver: HTTPServer) -> None:
    Budget.objects.create(period=Budget.Period.DAY, tokens=100)
    with pytest.raises(CallRefused):
        probe_model(Model(httpserver, GOOD).summariser)
    assert httpserver.log == [] and Endpoint.objects.get().probed_at is None


def test_a_new_model_needs_a_probe_once_it_has_answered(
    httpserver: HTTPServer, settings: pytest.FixtureRequest
) -> None:
    model = Model(httpserver, GOOD).summariser
    use_model(settings, httpserver)
    assert not needs_probe(), "it was never called"
    endpoint = Endpoint.objects.get_or_create_for(model.endpoint, model.endpoint_name)
    assert needs_probe()
    tasks.tick()
    assert [task.task["func"] for task in OrmQ.objects.all()] == ["memories.tasks.probe"]
    Endpoint.objects.update(failures=1, fault="timeout")
    assert not needs_probe(), "it does not answer"
    Endpoint.objects.update(failures=0, fault="")
    probe_model(model)
    assert not needs_probe()
    assert Endpoint.objects.get() == endpoint


def test_two_workers_do_not_probe_at_once(
    httpserver: HTTPServer, settings: pytest.FixtureRequest
) -> None:
    Model(httpserver, GOOD)
    use_model(settings, httpserver)
    with ThreadPoolExecutor(1) as another, ExitStack() as lock:
        another.submit(lock.enter_context, lock_probe()).result()
        tasks.probe(by=1)
        assert httpserver.log == []
        another.submit(lock.close).result()
        another.submit(connections.close_all).result()
    tasks.probe(by=1)
    assert Endpoint.objects.get().probed_at is not None
    calls = len(httpserver.log)
    tasks.probe()
    assert len(httpserver.log) == calls, "it was probed, and nobody asked for another probe"


def test_the_command_probes_the_configured_model(
    httpserver: HTTPServer, settings: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CommandError, match="names no model"):
        call_command("probe_model")
    Model(httpserver, WEAK)
    use_model(settings, httpserver)
    call_command("probe_model")
    assert "simple prompts" in capsys.readouterr().out
    call_command("probe_model", "--json")
    printed = json.loads(capsys.readouterr().out)
    assert (printed["model"], printed["form"], printed["gives_sources"]) == (
        "tiny",
        "simple",
        False,
    )

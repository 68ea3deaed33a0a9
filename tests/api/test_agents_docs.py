"""Every example in docs/agents.md runs against a live server."""

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import httpx2
import pytest
from django.core.management import call_command
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from memories.demo.create import SLUG
from memories.demo.workspace import DEMO_USER, scripts
from memories.models import ApiKey, User, Workspace
from memories.models.access.webhooks import Webhook
from memories.pipeline.search import indexing
from tests.factories import (
    ChannelFactory,
    MemberFactory,
    MessageFactory,
    UserFactory,
    WorkspaceFactory,
    make_channel_memory,
)
from tests.processes import PATIENCE

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "agents.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
HUB = re.compile(r"https?://(?:localhost:8000|memory\.example\.com)")
FACT = "We launch on Monday"
# A library that a team's bot brings along: what the example uses of it.
BOLT = """
import os

class App:
    handlers = {}

    def __init__(self, token):
        pass

    def event(self, name):
        return lambda function: self.handlers.setdefault(name, function)

class SocketModeHandler:
    def __init__(self, app, token):
        self.app = app

    def start(self):
        event = {"text": "When do we launch?", "channel": "CLAUNCH"}
        self.app.handlers["app_mention"](event=event, say=lambda text: print("said", text))
"""
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@dataclass
class Hub:
    """A hub with one fact, a key, and a model that answers with the question."""

    url: str
    token: str
    folder: Path
    model_url: str
    requests: list[Any]
    process_environment: dict[str, str]

    def shell(self, script: str) -> str:
        return self.run(["bash", "-euc", HUB.sub(self.url, script)])

    def run(self, command: list[str]) -> str:
        env = os.environ | {
            "MEMORYHUB_URL": self.url,
            "MEMORYHUB_KEY": self.token,
            "MEMORYHUB_MODEL": "tiny",
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": f"{self.model_url}/v1",
            "SLACK_BOT_TOKEN": "xoxb-example",
            "SLACK_APP_TOKEN": "xapp-example",
            "PYTHONPATH": str(self.folder),
        }
        done = subprocess.run(
            command, cwd=self.folder, env=env, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def tools(self, url: str, headers: dict[str, str]) -> set[str]:
        """The names of the tools that MCP offers at an address of the documentation."""

        async def read() -> set[str]:
            async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http:
                transport = streamable_http_client(HUB.sub(self.url, url), http_client=http)
                async with Client(transport) as client:
                    return {tool.name for tool in (await client.list_tools()).tools}

        return asyncio.run(read())


@pytest.fixture
def hub(live_server, httpserver, tmp_path, settings, process_environment):
    settings.MEMORYHUB_URL, settings.MEMORYHUB_OAUTH = live_server.url, True
    workspace = WorkspaceFactory(slug="team")
    user = UserFactory(username="mika")
    MemberFactory(workspace=workspace, user=user, role="editor")
    channel = MessageFactory(
        channel__workspace=workspace, channel__name="launch", channel__slack_id="CLAUNCH"
    ).channel
    make_channel_memory(channel=channel, texts=[f"- {FACT}"])
    indexing.index_pending()
    token = ApiKey.objects.issue(workspace, name="x", by=None, user=user, scopes=["notes"])[1]
    message = {"role": "assistant", "content": "On Monday."}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    answer = {"id": "x", "object": "chat.completion", "created": 1, "model": "tiny"}
    httpserver.expect_request("/v1/chat/completions").respond_with_json(
        answer | {"choices": [choice]}
    )
    (tmp_path / "slack_bolt").mkdir()
    (tmp_path / "slack_bolt" / "__init__.py").write_text(BOLT)
    adapter = tmp_path / "slack_bolt" / "adapter"
    adapter.mkdir()
    (adapter / "__init__.py").touch()
    (adapter / "socket_mode.py").write_text("from slack_bolt import SocketModeHandler\n")
    model = httpserver.url_for(""), httpserver.log
    return Hub(live_server.url, token, tmp_path, *model, process_environment)


def start_demo(hub: Hub, text: str) -> None:
    """The word of the Makefile runs the command that makes the demo and serves it."""
    words = [*shlex.split(text), "--dry-run", "--no-print-directory"]
    made = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert made.splitlines()[-1].endswith("manage.py demo")


def run_first(hub: Hub, text: str) -> None:
    """The account, the workspace and the channels are those of the demo."""
    Workspace.objects.update(slug=SLUG)
    User.objects.filter(username="mika").update(username=DEMO_USER)
    workspace = Workspace.objects.get()
    for name in {script.name for script in scripts()} - {"launch"}:
        ChannelFactory(workspace=workspace, name=name)
    [command] = re.findall(r"\$\(\.venv/bin/python manage\.py (.+)\)$", text, re.MULTILINE)
    output = StringIO()
    call_command(*shlex.split(command), stdout=output)
    key = ApiKey.objects.get(name="agent")
    assert {str(channel) for channel in key.channels.all()} == {"#launch", "#dev"}
    script = re.sub(r"\$\(.+\)$", output.getvalue().strip(), text, flags=re.MULTILINE)
    assert FACT in hub.shell(script)


def make_key(hub: Hub, text: str) -> None:
    [arguments] = [shlex.split(line) for line in text.splitlines()]
    assert arguments[0] == "manage.py"
    call_command(*arguments[1:])
    assert ApiKey.objects.filter(name="laptop", user__username="mika").exists()


def read_context(hub: Hub, text: str) -> None:
    assert FACT in hub.shell(text)


def add_webhook(hub: Hub, text: str) -> None:
    assert json.loads(hub.shell(text))["secret"].startswith("whsec_")
    assert Webhook.objects.get().url == "https://bot.example.com/memory"


def ask_model(hub: Hub, text: str) -> None:
    (hub.folder / "example.py").write_text(text)
    assert "On Monday." in hub.run([sys.executable, "example.py"])
    [(request, _)] = hub.requests
    [system, question] = json.loads(request.data)["messages"]
    assert system["role"] == "system" and FACT in system["content"]
    assert question["content"] == "When do we launch?"


def reply_as_bot(hub: Hub, text: str) -> None:
    (hub.folder / "bot.py").write_text(text)
    assert "said On Monday." in hub.run([sys.executable, "bot.py"])
    [(request, _)] = hub.requests
    assert FACT in json.loads(request.data)["messages"][0]["content"]


def parse_delivery(hub: Hub, text: str) -> None:
    assert json.loads(text)["type"] == "memory.version_added"


def connect_claude(hub: Hub, text: str) -> None:
    words = shlex.split(text.replace("$MEMORYHUB_KEY", hub.token))
    assert words[:6] == ["claude", "mcp", "add", "--transport", "http", "memory-hub"]
    name, _, value = words[words.index("--header") + 1].partition(": ")
    assert "get_context" in hub.tools(words[6], {name: value})


def connect_over_stdio(hub: Hub, text: str) -> None:
    """Only the key comes from the environment of the client, as in the example."""
    [server] = json.loads(text)["mcpServers"].values()
    command, *arguments = (
        word.replace("/path/to/memory-hub", str(ROOT))
        for word in [server["command"], *server["args"]]
    )
    env = {
        name: value.replace("${MEMORYHUB_KEY}", hub.token) for name, value in server["env"].items()
    }

    async def read() -> set[str]:
        process = StdioServerParameters(
            command=command,
            args=arguments,
            env=hub.process_environment | env,
            cwd=hub.folder,
        )
        async with Client(process) as client:
            return {tool.name for tool in (await client.list_tools()).tools}

    assert "get_context" in asyncio.run(read())


def connect_cursor(hub: Hub, text: str) -> None:
    [server] = json.loads(text)["mcpServers"].values()
    headers = {"Authorization": re.sub("mh[rw]_…", hub.token, server["headers"]["Authorization"])}
    assert "get_context" in hub.tools(server["url"], headers)


def run_client(hub: Hub, text: str) -> None:
    assert FACT in hub.shell(re.sub("mh[rw]_…", hub.token, text))


def find_tokens(hub: Hub, text: str) -> None:
    """The address of the example is that of the tools, and its metadata name the endpoints."""
    answers = hub.shell(text).replace("}{", "}\n{").splitlines()
    resource, server = map(json.loads, answers)
    assert resource["resource"] == f"{hub.url}/mcp"
    assert resource["authorization_servers"] == [server["issuer"]] == [hub.url]
    assert server["registration_endpoint"] == f"{hub.url}/oauth/register"


RUNNERS = {
    ".well-known/oauth": find_tokens,
    "make demo": start_demo,
    "export MEMORYHUB_URL": run_first,
    "manage.py api_key create laptop": make_key,
    '"http://localhost:8000/api/v1/context?': read_context,
    'params={"query":': ask_model,
    "from slack_bolt": reply_as_bot,
    "/api/v1/webhooks": add_webhook,
    "memory.version_added": parse_delivery,
    "claude mcp add": connect_claude,
    '"args":': connect_over_stdio,
    '"headers":': connect_cursor,
    "curl -o memoryhub-agent": run_client,
}


@pytest.mark.parametrize("text", [text for _, text in BLOCKS], ids=lambda text: text[:30])
def test_an_example_runs(hub: Hub, text: str) -> None:
    [run] = [run for words, run in RUNNERS.items() if words in text]
    run(hub, text)

"""The official MCP client connects with OAuth: it registers, a person consents, it uses the tools."""

import asyncio
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from allauth.idp.oidc.models import Token
from django.utils import timezone
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.auth.exceptions import OAuthFlowError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from memories.models import ApiKey, Note
from memories.pipeline.search import indexing
from tests.factories import (
    ChannelFactory,
    MemberFactory,
    MessageFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
    make_channel_memory,
)
from tests.oauth import CALLBACK, CONSENT, hidden_fields
from tests.processes import PATIENCE

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

PUBLIC, PRIVATE = "We launch on Monday", "Tom earns a lot"


class Storage:
    """What the client keeps between two connections."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Person:
    """A signed-in person whose browser answers the consent page."""

    def __init__(self, url: str, name: str, **given: str) -> None:
        self.url, self.name, self.given = url, name, given
        self.answer = ""
        self.asked_times = 0

    async def open(self, address: str) -> None:
        self.asked_times += 1
        async with httpx2.AsyncClient(
            base_url=self.url, follow_redirects=True, timeout=PATIENCE
        ) as browser:
            await browser.get("/login/")
            sign_in = {
                "username": self.name,
                "password": "pass",
                "csrfmiddlewaretoken": browser.cookies["csrftoken"],
                "next": address.removeprefix(self.url),
            }
            page = await browser.post("/login/", data=sign_in)
            assert "Connect Test app?" in page.text, page.text
            sent = hidden_fields(page.text) | CONSENT | self.given
            sent["csrfmiddlewaretoken"] = browser.cookies["csrftoken"]
            answer = await browser.post("/oauth/authorize", data=sent, follow_redirects=False)
            self.answer = answer.headers["Location"]

    async def read_answer(self) -> AuthorizationCodeResult:
        query = parse_qs(urlsplit(self.answer).query)
        return AuthorizationCodeResult(code=query.get("code", [""])[0], state=query["state"][0])


@pytest.fixture
def team(transactional_db, live_server, settings):
    """A public and a private channel. Tom reads both, and Mika the public one."""
    settings.MEMORYHUB_OAUTH, settings.MEMORYHUB_URL = True, live_server.url
    workspace = WorkspaceFactory(slug="team")
    tom = PersonFactory(workspace=workspace)
    for name in ("tom", "mika"):
        user = UserFactory(username=name)
        user.set_password("pass")
        user.save()
        MemberFactory(workspace=workspace, user=user, role="editor")
        if name == "tom":
            tom.link(user, "slack")
    channels = [
        ChannelFactory(workspace=workspace, name="launch"),
        ChannelFactory(workspace=workspace, name="salaries", kind="private", members=[tom]),
    ]
    for channel, text in zip(channels, (PUBLIC, PRIVATE), strict=True):
        MessageFactory(channel=channel, text=text)
        make_channel_memory(channel=channel, texts=[f"- {text}"])
    indexing.index_pending()
    return live_server.url


def sign_in(url: str, person: Person, storage: Storage) -> OAuthClientProvider:
    return OAuthClientProvider(
        f"{url}/mcp",
        OAuthClientMetadata(client_name="Test app", redirect_uris=[CALLBACK]),  # type: ignore[list-item]
        storage,
        person.open,
        person.read_answer,
    )


async def call(auth: OAuthClientProvider, tool: str, **arguments: Any) -> tuple[set[str], str]:
    """Return the names of the tools, and the text of a call."""
    async with httpx2.AsyncClient(auth=auth, timeout=PATIENCE) as http:
        transport = streamable_http_client(auth.context.server_url, http_client=http)
        async with Client(transport) as client:
            names = {each.name for each in (await client.list_tools()).tools}
            result = await client.call_tool(tool, arguments)
            return names, "".join(part.text for part in result.content)


def use(
    url: str, person: Person, storage: Storage, tool: str = "get_context", **arguments: Any
) -> tuple[set[str], str]:
    """Connect as the client does after each start."""
    return asyncio.run(call(sign_in(url, person, storage), tool, **arguments))


READING = {"get_context", "search", "fetch", "whats_new"}


@pytest.mark.parametrize(("name", "readable"), [("tom", [PUBLIC, PRIVATE]), ("mika", [PUBLIC])])
def test_the_client_reads_as_the_person_who_consented(team, name, readable):
    person, storage = Person(team, name), Storage()
    names, context = use(team, person, storage)
    assert names == READING
    assert [text for text in (PUBLIC, PRIVATE) if text in context] == readable
    assert use(team, person, storage)[0] == READING and person.asked_times == 1
    assert (ApiKey.objects.get().name, ApiKey.objects.get().user.username) == ("Test app", name)


def test_a_narrowed_client_reads_its_channels_and_writes_within_its_scopes(team):
    person, storage = Person(team, "tom", channels="launch", notes="on"), Storage()
    names, added = use(
        team, person, storage, "add_note", text="Deploys run at noon", channel="launch"
    )
    assert names == READING | {"add_note"}
    assert json.loads(added)["id"] == f"note-{Note.objects.get().pk}"
    context = use(team, person, storage)[1]
    assert PUBLIC in context and PRIVATE not in context


def test_the_client_refreshes_its_token(team):
    person, storage = Person(team, "tom"), Storage()
    auth = sign_in(team, person, storage)

    async def use_past_expiry() -> list[OAuthToken | None]:
        await call(auth, "get_context")
        first = storage.tokens
        await Token.objects.filter(type="at").aupdate(expires_at=timezone.now())
        auth.context.token_expiry_time = 1
        assert (await call(auth, "get_context"))[0] == READING
        return [first, storage.tokens]

    first, second = asyncio.run(use_past_expiry())
    assert first and second and person.asked_times == 1
    assert first.access_token != second.access_token
    assert first.refresh_token != second.refresh_token


def test_a_revoked_client_must_ask_the_person_again(team):
    person, storage = Person(team, "tom"), Storage()
    use(team, person, storage)
    ApiKey.objects.get().revoke(by=None, now=ApiKey.objects.get().created_at)
    person.given = {"action": "cancel"}
    with pytest.raises(BaseExceptionGroup) as refusal:
        use(team, person, storage)
    assert refusal.group_contains(OAuthFlowError) and person.asked_times == 2
    assert ApiKey.objects.usable(ApiKey.objects.get().created_at).count() == 0

"""The first run: an installation without an account leads to the setup page only."""

import sys
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings
from pytest_httpserver import HTTPServer

from memories.models import AuditEvent, Budget, ModelCall, ModelServer, Price, User, Workspace
from memories.pipeline.access.first_account import setup_token
from memories.pipeline.generate.probing import configured_model
from memories.rules.safety.encryption import new_key
from memories.templatetags.navigation import manage_py
from memoryhub.env import BASE_DIR
from tests.factories import UserFactory, WorkspaceFactory
from tests.llm.endpoint import FakeEndpoint, use_model

pytestmark = pytest.mark.django_db

FIRST = {"username": "mika", "password1": "a long phrase", "password2": "a long phrase"}


@pytest.mark.parametrize("path", ["/", "/w/team/", "/settings/", "/admin/", "/login/", "/factors/"])
def test_every_page_leads_to_the_setup(client: Client, path: str) -> None:
    UserFactory(is_active=False)  # as an import creates them
    answer = client.get(path, follow=True)
    assert answer.redirect_chain[-1][0] == "/setup/"
    page = answer.content.decode()
    for words in ("createadmin", "make demo", "import_slack", "slack_token set"):
        assert words in page
    assert page.count("<form") == 2  # language and theme: nothing is made here
    for token in ("", "x" * 32, setup_token()[:-1]):
        assert client.post("/setup/", FIRST | {"token": token}).status_code == 200
    assert not User.objects.filter(is_active=True).exists()


def test_the_printed_link_creates_the_first_account(client: Client) -> None:
    link = f"/setup/?token={setup_token()}"
    assert "Create your account" in client.get(link).content.decode()
    weak = client.post("/setup/", FIRST | {"token": setup_token(), "password2": "other"})
    assert weak.status_code == 422 and not User.objects.exists()
    response = client.post("/setup/", FIRST | {"token": setup_token()})
    assert response["Location"] == "/setup/" and "known_device" in response.cookies
    user = User.objects.get(username="mika")
    assert user.is_operator and user.is_staff and user.check_password(FIRST["password1"])
    assert "Choose a file" in client.get("/setup/").content.decode(), "signed in"
    assert AuditEvent.objects.filter(action="account_first", actor="mika").exists()
    for method in (Client().get, Client().post):
        late = method(link, FIRST | {"username": "late"})
        assert late["Location"].startswith("/login/"), "the link works once"
    assert User.objects.count() == 1


def test_the_shown_command_works_on_this_installation(client: Client) -> None:
    page = client.get("/setup/").content.decode()
    assert f"<code>{manage_py()} createadmin</code>" in page
    python = Path(BASE_DIR, manage_py().split()[0])
    assert python == Path(sys.executable) or manage_py() == "python manage.py"


def test_only_operators_open_setup_afterwards(client: Client) -> None:
    user, boss = UserFactory(), UserFactory(is_superuser=True)
    WorkspaceFactory(slug="secret-team", name="Secret team")
    assert client.get("/setup/")["Location"] == "/login/?next=/setup/"
    assert client.get("/login/").status_code == 200
    client.force_login(user)
    assert client.get("/setup/").status_code == 403
    client.force_login(boss)
    page = client.get("/setup/").content.decode()
    assert "/w/secret-team/slack/" in page and "createadmin" not in page


@pytest.fixture
def boss(client: Client) -> Client:
    client.force_login(UserFactory(username="boss", is_superuser=True))
    return client


def test_operators_are_led_there_and_find_three_doors(boss: Client) -> None:
    assert 'href="/setup/"' in boss.get("/").content.decode()
    page = boss.get("/setup/").content.decode()
    for words in (
        "Create the demo",
        'href="/setup/import/"',
        "channels:history",
        "No model is set",
    ):
        assert words in page
    assert "Test with one small question" not in page


def test_other_users_cannot_run_setup_steps(client: Client) -> None:
    for path in ("/setup/demo/", "/setup/model/"):
        assert client.post(path)["Location"] == f"/login/?next={path}"
    client.force_login(UserFactory())
    for path in ("/setup/demo/", "/setup/model/"):
        assert client.post(path).status_code == 403
        assert client.get(path).status_code == 405
    assert not Workspace.objects.exists()


def test_an_existing_demo_is_only_opened(boss: Client) -> None:
    WorkspaceFactory(slug="demo", name="Kazoe")
    assert "Open the demo" in boss.get("/setup/").content.decode()
    answer = boss.post("/setup/demo/")
    assert answer["Location"] == "/w/demo/catch-up/"
    part = boss.post("/setup/demo/", headers={"HX-Request": "true"})
    assert part["HX-Redirect"] == "/w/demo/catch-up/"
    assert not AuditEvent.objects.filter(action="demo").exists()


@pytest.mark.nightly("makes the demo once more")
@pytest.mark.timeout(300)
def test_a_button_creates_the_demo(boss: Client) -> None:
    page = boss.post("/setup/demo/", follow=True)
    assert page.redirect_chain[-1][0] == "/w/demo/catch-up/"
    assert "#launch" in page.content.decode()
    assert AuditEvent.objects.filter(action="demo", actor="boss").exists()
    editor = User.objects.get(username="demo")
    assert not editor.has_usable_password(), "no login that everybody knows"
    assert not boss.login(username="demo", password="demo")  # noqa: S106


@pytest.fixture
def named(settings: Settings, httpserver: HTTPServer) -> FakeEndpoint:
    use_model(settings, httpserver)
    return FakeEndpoint(httpserver)


def test_a_model_test_shows_the_model_and_is_counted(boss: Client, named: FakeEndpoint) -> None:
    named.reply_with("- They meet on Tuesday. [1]")
    Price.objects.create(model="tiny", input_price="2", output_price="8")
    part = boss.post("/setup/model/", headers={"HX-Request": "true"}).content.decode()
    assert "tiny-2026 replied" in part and "110 tokens" in part
    call = ModelCall.objects.get()
    assert (call.tokens, call.micros, call.job) == (110, 280, None)
    assert "replied" in boss.post("/setup/model/", follow=True).content.decode()


def test_a_refusal_of_the_model_is_explained(boss: Client, named: FakeEndpoint) -> None:
    named.fail_with(401)
    part = boss.post("/setup/model/", headers={"HX-Request": "true"}).content.decode()
    assert "the model rejected the API key" in part
    assert ModelCall.objects.get().fault == "unauthorised"


def test_a_used_up_budget_prevents_the_model_test(boss: Client, named: FakeEndpoint) -> None:
    Budget.objects.create(period="day", tokens=0)
    part = boss.post("/setup/model/", headers={"HX-Request": "true"}).content.decode()
    assert "budget reached" in part and not ModelCall.objects.exists() and not named.requests


SAVED = {
    "do": "save",
    "model": "small",
    "base_url": "http://127.0.0.1:9/v1",
    "api_key": "sk-abcdefgh1234",
}


def test_an_operator_saves_the_model(boss: Client) -> None:
    assert boss.post("/setup/model/", SAVED)["Location"] == "/setup/#model"
    page = boss.get("/setup/").content.decode()
    assert "small writes the memories" in page and "ends in …1234" in page
    server = ModelServer.objects.get()
    assert (server.model, server.api_key) == ("small", SAVED["api_key"])
    assert SAVED["api_key"] not in page + str(ModelServer.objects.values())
    assert SAVED["api_key"] not in str(AuditEvent.objects.values())
    model = configured_model()
    assert model is not None and model.name == "small"
    boss.post("/setup/model/", SAVED | {"model": "large", "api_key": ""})
    assert ModelServer.objects.get().api_key == SAVED["api_key"], "an empty key stays"
    elsewhere = SAVED | {"base_url": "http://127.0.0.2:9/v1", "api_key": ""}
    boss.post("/setup/model/", elsewhere)
    assert ModelServer.objects.get().api_key == "", "no key is sent to another address"
    boss.post("/setup/model/", {"do": "save", "model": "", "base_url": ""})
    assert configured_model() is None


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"model": "small"}, "Enter a key, or the address"),
        ({"model": "small", "base_url": "ftp://x/v1"}, "valid URL"),
        ({"model": "x" * 101, "api_key": "k"}, "at most 100"),
    ],
)
def test_a_model_that_cannot_be_saved(boss: Client, data: dict[str, str], words: str) -> None:
    response = boss.post("/setup/model/", {"do": "save", **data})
    assert response.status_code == 422 and words in response.content.decode()
    assert not ModelServer.objects.exists()


def test_the_environment_overrides_the_page(boss: Client, named: FakeEndpoint) -> None:
    named.reply_with("- They meet on Tuesday. [1]")
    page = boss.get("/setup/").content.decode()
    assert "tiny writes the memories" in page and "override this page" in page
    assert "Save model" not in page
    boss.post("/setup/model/", SAVED)
    assert not ModelServer.objects.exists()


def test_a_key_that_cannot_be_decrypted_counts_as_empty(boss: Client, settings: Settings) -> None:
    boss.post("/setup/model/", SAVED)
    settings.MEMORYHUB_KEYS = [new_key()]
    assert ModelServer.objects.get().api_key == "" and boss.get("/setup/").status_code == 200


def test_an_empty_installation_shows_the_first_steps(db: None) -> None:
    boss, client = Client(), Client()
    boss.force_login(UserFactory(is_superuser=True))
    page = boss.get("/").content.decode()
    for words in ("make demo", "manage.py import_slack", "manage.py sync", 'href="/setup/"'):
        assert words in page
    client.force_login(UserFactory())
    page = client.get("/").content.decode()
    assert "Contact the operator of this installation" in page
    assert "make demo" not in page and "manage.py" not in page

"""The settings of a workspace, for its admins."""

import re
from dataclasses import asdict

from memories.models import AuditEvent, Workspace
from tests.factories import WorkspaceFactory
from tests.views.conftest import Cast


def given(cast: Cast, **changes: object) -> dict[str, object]:
    """What the form posts: switches only when they are on."""
    values = asdict(cast.workspace.memory_settings) | changes
    return {key: value for key, value in values.items() if value is not False}


def test_an_admin_changes_settings(cast: Cast) -> None:
    data = given(cast, message_threshold=20, history_enabled=False, time_zone="Asia/Tokyo")
    response = cast.clients["insider"].post(cast.path("settings/"), data)
    assert response.status_code == 302
    workspace = Workspace.objects.get(pk=cast.workspace.pk)
    assert workspace.settings == {
        "message_threshold": 20,
        "history_enabled": False,
        "time_zone": "Asia/Tokyo",
    }
    assert "Settings saved." in cast.clients["insider"].get(response["Location"]).content.decode()
    event = AuditEvent.objects.get(action="settings")
    assert (event.actor, event.workspace) == ("insider", "team")
    assert event.details["changed"]["message_threshold"] == [50, 20]


def test_a_wrong_value_is_shown_in_place_and_nothing_is_saved(cast: Cast) -> None:
    data = given(cast, message_threshold=0, max_history_count=9)
    response = cast.clients["insider"].post(cast.path("settings/"), data)
    page = response.content.decode()
    assert response.status_code == 422
    assert "Nothing was saved" in page
    assert 'name="message_threshold" value="0"' in page
    assert Workspace.objects.get(pk=cast.workspace.pk).settings == {}


def test_what_was_changed_is_listed_in_words(cast: Cast) -> None:
    path = cast.path("settings/")
    assert "Nothing yet" in cast.clients["insider"].get(path).content.decode()
    data = given(cast, message_threshold=20, history_enabled=False, notes_inject="none")
    cast.clients["insider"].post(path, data)
    Workspace.objects.get(pk=cast.workspace.pk).change_settings({"message_threshold": 30})
    WorkspaceFactory().change_settings({"message_threshold": 77})
    AuditEvent.objects.record(
        "settings", by=None, workspace=cast.workspace, changed={"gone_since": [1, None]}
    )
    page = cast.clients["insider"].get(path).content.decode()
    told = page[page.index('id="saves-title"') :]
    words = [re.sub(r"<[^>]+>", "", line) for line in re.findall(r"<li><b>.*?</li>", told)]
    assert words == [
        "gone_since before: 1 after: None",
        "Messages of one conversation before: 20 after: 30",
        "Keep a history before: on after: off",
        "Messages of one conversation before: 50 after: 20",
        "Notes in contexts before: always after: never",
    ]
    assert told.count("on the command line") == 2 and told.count("· insider") == 1


def test_a_number_beyond_all_bounds_is_refused_in_the_readers_language(cast: Cast) -> None:
    client = cast.clients["insider"]
    client.post("/i18n/setlang/", {"language": "ja"})
    response = client.post(cast.path("settings/"), given(cast, message_threshold=10**9))
    page = response.content.decode()
    assert response.status_code == 422
    assert "must be" not in page and "10000000 以下" in page


def test_others_change_nothing(cast: Cast) -> None:
    for name, status in (("editor", 403), ("member", 403), ("guest", 403), ("outsider", 404)):
        data = given(cast, message_threshold=20)
        assert cast.clients[name].post(cast.path("settings/"), data).status_code == status
    assert Workspace.objects.get(pk=cast.workspace.pk).settings == {}


def test_times_are_told_in_the_workspaces_zone(cast: Cast) -> None:
    cast.workspace.change_settings({"time_zone": "Asia/Tokyo"})
    page = cast.clients["member"].get(cast.path("c/C0PUBLIC/")).content.decode()
    assert "5 Jan 2026, 18:00" in page

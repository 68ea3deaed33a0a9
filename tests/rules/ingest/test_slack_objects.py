from typing import Any

import pytest

from memories.rules.ingest.outcomes import Outcome, quarantined, skipped
from memories.rules.ingest.slack_objects import (
    ChannelIn,
    PersonIn,
    TooLarge,
    parse_channel,
    parse_person,
)


def read_person(**raw: Any) -> PersonIn:
    read = parse_person({"id": "U1", "name": "ann"} | raw, "T1")
    assert isinstance(read, PersonIn)
    return read


def read_channel(kind: str = "public", **raw: Any) -> ChannelIn:
    read = parse_channel({"id": "C1", "name": "general"} | raw, kind)
    assert isinstance(read, ChannelIn)
    return read


@pytest.mark.parametrize(
    ("profile", "raw", "name"),
    [
        ({"display_name": "Ann", "real_name": "Ann Lee"}, {"real_name": "A. Lee"}, "Ann"),
        ({"display_name": "", "real_name": "Ann Lee"}, {}, "Ann Lee"),
        ({}, {"real_name": "A. Lee"}, "A. Lee"),
        ({}, {}, "ann"),
        ({}, {"name": None}, "U1"),
        (None, {"name": 3}, "U1"),
        ({"display_name": "a\x00\ud800b"}, {}, "a\ufffd\ufffdb"),
        ({"display_name": "x" * 300}, {}, "x" * 200),
    ],
)
def test_a_person_has_a_name(profile: Any, raw: dict[str, Any], name: str) -> None:
    assert read_person(profile=profile, **raw).name == name


@pytest.mark.parametrize(
    ("raw", "flag"),
    [
        ({"is_bot": True}, "is_bot"),
        ({"id": "USLACKBOT"}, "is_bot"),
        ({"is_restricted": True}, "is_guest"),
        ({"is_ultra_restricted": True}, "is_guest"),
        ({"team_id": "T2"}, "is_external"),
        ({"profile": {"team": "T2"}}, "is_external"),
        ({"is_stranger": True}, "is_external"),
        ({"deleted": True}, "is_deleted"),
    ],
)
def test_flags_of_a_person(raw: dict[str, Any], flag: str) -> None:
    flags = ("is_bot", "is_guest", "is_external", "is_deleted")
    parsed = read_person(**raw)
    assert [name for name in flags if getattr(parsed, name)] == [flag]


@pytest.mark.parametrize("raw", [None, "U1", 3, [], ["U1"]])
def test_a_value_that_is_no_object_is_quarantined(raw: object) -> None:
    assert parse_person(raw) == parse_channel(raw, "public") == quarantined("not an object")


@pytest.mark.parametrize("raw", [{}, {"id": None}, {"id": ""}, {"id": 5}, {"id": "U 1"}])
def test_without_an_id(raw: object) -> None:
    assert parse_person(raw) == parse_channel(raw, "public") == quarantined("no id")


def test_too_large() -> None:
    assert (
        parse_person(TooLarge()) == parse_channel(TooLarge(), "public") == quarantined("too large")
    )


@pytest.mark.parametrize(
    ("listed", "raw", "kind"),
    [
        ("public", {}, "public"),
        ("private", {}, "private"),
        ("public", {"is_private": True}, "private"),
        ("public", {"is_group": True}, "private"),
        ("private", {"is_private": False}, "private"),
    ],
)
def test_the_stricter_of_list_and_object_decides(
    listed: str, raw: dict[str, Any], kind: str
) -> None:
    assert read_channel(listed, **raw).kind == kind


@pytest.mark.parametrize(
    ("kind", "raw"),
    [("im", {}), ("mpim", {}), ("public", {"is_im": True}), ("private", {"is_mpim": True})],
)
def test_direct_messages_are_skipped(kind: str, raw: dict[str, Any]) -> None:
    read = parse_channel({"id": "D1"} | raw, kind)
    assert isinstance(read, Outcome) and read == skipped("direct messages")


def test_odd_fields_of_a_channel_do_no_harm() -> None:
    parsed = read_channel(
        name=None,
        creator=None,
        created=1,
        topic=None,
        purpose={"value": 3},
        members=["U1", "U1", None, {}, "not an id", "W2"],
        is_archived="yes",
    )
    assert (parsed.name, parsed.topic, parsed.purpose, parsed.is_archived) == ("C1", "", "", False)
    assert parsed.members == ("U1", "W2")


def test_unknown_members_are_not_no_members() -> None:
    assert read_channel().members is None
    assert read_channel(members=[]).members == ()

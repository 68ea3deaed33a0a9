from typing import Any

import pytest

from memories.rules.ingest.message_text import message_text


def rich(*elements: Any) -> dict[str, Any]:
    return {"blocks": [{"type": "rich_text", "elements": list(elements)}]}


def section(*leaves: Any) -> dict[str, Any]:
    return {"type": "rich_text_section", "elements": list(leaves)}


def words(text: str, **style: bool) -> dict[str, Any]:
    return {"type": "text", "text": text} | ({"style": style} if style else {})


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"text": "said", "blocks": [{"type": "section", "text": "other"}]}, "said"),
        ({"text": "", **rich(section(words("a < b & c")))}, "a &lt; b &amp; c"),
        ({"text": None, **rich(section(words("typed <@U1>")))}, "typed &lt;@U1&gt;"),
        (
            rich(
                section(
                    {"type": "user", "user_id": "U1"},
                    words(" in "),
                    {"type": "channel", "channel_id": "C1"},
                    words(" "),
                    {"type": "link", "url": "https://a.example/?a&b", "text": "it"},
                    {"type": "emoji", "name": "clap", "skin_tone": 2},
                    {"type": "broadcast", "range": "here"},
                    {"type": "usergroup", "usergroup_id": "S1"},
                    words("x = 1", code=True),
                    {"type": "date", "timestamp": 1, "fallback": "Monday"},
                )
            ),
            "<@U1> in <#C1> <https://a.example/?a&amp;b|it>:clap::skin-tone-2:<!here>"
            "<!subteam^S1>`x = 1`Monday",
        ),
        (
            rich(
                {
                    "type": "rich_text_list",
                    "style": "ordered",
                    "elements": [section(words("one")), section(words("two"))],
                },
                {"type": "rich_text_list", "indent": 1, "elements": [section(words("in"))]},
                {"type": "rich_text_quote", "elements": [words("q1\nq2")]},
                {"type": "rich_text_preformatted", "elements": [words("a\nb")]},
            ),
            "1. one\n2. two\n    • in\n&gt; q1\n&gt; q2\n```a\nb```",
        ),
        (
            {
                "blocks": [
                    {"type": "header", "text": {"type": "plain_text", "text": "Title <1>"}},
                    {"type": "section", "text": {"type": "mrkdwn", "text": "by <@U1>"}},
                    {"type": "section", "fields": [{"type": "mrkdwn", "text": "*f*"}]},
                    {"type": "divider"},
                    {"type": "context", "elements": [{"type": "mrkdwn", "text": "small"}]},
                    {"type": "image", "alt_text": "a chart"},
                    {
                        "type": "actions",
                        "elements": [{"text": {"type": "plain_text", "text": "Go"}}],
                    },
                ]
            },
            "Title &lt;1&gt;\nby <@U1>\n*f*\nsmall\n[image: a chart]\n[Go]",
        ),
        ({"blocks": [{"type": "markdown", "text": "1 < 2"}]}, "1 &lt; 2"),
        ({"blocks": [{"type": "image", "title": "Our plan"}]}, "[image: Our plan]"),
        (
            {"blocks": [{"type": "context", "elements": [{"type": "image", "alt_text": "<us>"}]}]},
            "[image: &lt;us&gt;]",
        ),
        ({"files": [{"name": "plan", "is_external": True}]}, "[file: plan (kept elsewhere)]"),
        ({"blocks": [{"type": "table", "fallback": "2 rows"}]}, "[unsupported: table] 2 rows"),
        ({"blocks": [{"type": "next_years"}]}, "[unsupported: next_years]"),
        ({"blocks": [{}]}, "[unsupported: block]"),
        (rich({"type": "rich_text_new", "elements": []}), "[unsupported: rich_text_new]"),
        (rich(section({"type": "hologram"})), "[unsupported: hologram]"),
        ({"attachments": [{"fallback": "build failed"}]}, "build failed"),
        ({"text": None, "attachments": [{"text": "a", "ts": "1.5", "fields": None}]}, "a"),
        (
            {
                "text": "",
                "attachments": [
                    {
                        "pretext": "CI",
                        "title": "build 5",
                        "text": "failed",
                        "fallback": "unused",
                        "ts": 1700000000,
                        "fields": [{"title": "branch", "value": "main"}, None],
                    }
                ],
            },
            "CI\nbuild 5\nfailed\nbranch: main",
        ),
        (
            {"text": "deployed", "attachments": [{"text": "v1.2", "ts": "1700000000.1"}]},
            "deployed\nv1.2",
        ),
        (
            {"text": "see <https://a.example>", "attachments": [{"from_url": "x", "text": "page"}]},
            "see <https://a.example>",
        ),
        ({"attachments": [{"from_url": "x", "text": "page"}]}, "page"),
        (
            {"text": "look", "files": [{"title": "plan <1>.pdf"}]},
            "look\n[file: plan &lt;1&gt;.pdf]",
        ),
        ({"files": [{"title": "a"}, None, {}]}, "[file: a]\n[file: unnamed]"),
        ({"files": [{"id": "F1", "mode": "tombstone"}]}, "[file: unnamed (deleted)]"),
        (
            {"files": [{"name": "a.png", "mode": "hidden_by_limit"}]},
            "[file: a.png (hidden by the plan's limit)]",
        ),
        (
            {"files": [{"name": "a", "file_access": "access_denied"}]},
            "[file: a (no access)]",
        ),
        (
            {"files": [{"name": "a", "file_access": "file_not_found"}]},
            "[file: a (not found)]",
        ),
        (
            {"files": [{"name": "doc", "mode": "external", "url_private": "http://10.0.0.1/x"}]},
            "[file: doc (kept elsewhere)]",
        ),
        ({"file": {"name": "old.txt"}, "text": ""}, "[file: old.txt]"),
        ({"comment": {"comment": "nice"}, "text": ""}, "nice"),
        ({}, ""),
        ({"text": "", "blocks": None, "attachments": None, "files": None}, ""),
        ({"text": 5, "blocks": "x", "attachments": {"a": 1}, "files": [None, 3]}, ""),
        (
            {"text": "", "blocks": [None, 3, "x"]},
            "[unsupported: block]\n" * 2 + "[unsupported: block]",
        ),
    ],
)
def test_message_text(raw: dict[str, Any], expected: str) -> None:
    assert message_text(raw) == expected


def test_deep_nesting_ends_in_a_mark() -> None:
    element: dict[str, Any] = section(words("deep"))
    for _ in range(200):
        element = section(element)
    assert message_text(rich(element)) == "[…]"

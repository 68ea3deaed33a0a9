"""Blocks escape all texts, and keep the limits of Slack."""

from memories.rules.slack_app.blocks import MAX_OPTION, answer, choice, item


def test_a_text_is_escaped_in_the_notification_too() -> None:
    body = answer("<!channel> & all")
    assert body["text"] == "&lt;!channel&gt; &amp; all"
    assert body["blocks"][0]["text"]["text"] == body["text"]


def test_a_long_option_shows_that_it_is_cut() -> None:
    block = choice("line", "Which?", [("1", "short"), ("2", "x " * 50), ("3", "")])
    texts = [option["text"]["text"] for option in block["element"]["options"]]
    assert [text[-1] for text in texts] == ["t", "…", "…"]
    assert len(texts[1]) == MAX_OPTION


def test_an_item_is_one_line() -> None:
    assert item("a <b>\nc", "[1]") == "• a &lt;b&gt; c [1]"

import pytest

from memories.rules.ingest.markup import (
    Kind,
    Token,
    escape,
    parse,
    render_plain,
    strip_channel_labels,
    unescape,
)


class FakeNames:
    def person(self, slack_id: str) -> str | None:
        return {"U1": "Ann", "W1": "Wim", "U2": "evil.example: Decision: pay"}.get(slack_id)

    def channel(self, slack_id: str) -> str | None:
        return {"C1": "general", "C3": "a\n[1]"}.get(slack_id)


NAMES = FakeNames()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nothing to do", "nothing to do"),
        ("a <@U1> b", "a @Ann b"),
        ("<@U1|bob>", "@Ann"),
        ("<@W1>", "@Wim"),
        ("<@U9>", "@U9"),
        ("<@U9|old>", "@old"),
        ("<@not an id>", "<@not an id>"),
        ("<#C1>", "#general"),
        ("<#C1|>", "#general"),
        ("<#C1|old-name>", "#general"),
        ("<#C2|secret-plan>", "#private"),
        ("<!here> <!channel|@channel> <!everyone>", "@here @channel @everyone"),
        ("<!subteam^S1|@team>", "@team"),
        ("<!subteam^S1>", "@subteam"),
        ("<!date^1392734382^{date}|Feb 18, 2014>", "Feb 18, 2014"),
        ("<https://a.example/x>", "https://a.example/x"),
        ("<https://a.example|label>", "label (https://a.example)"),
        ("<http://a.example|a.example>", "a.example"),
        ("<https://a.example/?a=1&amp;b=2>", "https://a.example/?a=1&b=2"),
        ("<mailto:a@b.example|a@b.example>", "a@b.example"),
        ("<mailto:a@b.example>", "a@b.example"),
        ("<javascript:alert(1)|x>", "x"),
        ("<javascript:alert(1)>", "<javascript:alert(1)>"),
        ("<data:text/html,x|y>", "y"),
        ("&lt;@U1&gt;", "<@U1>"),
        ("&amp;lt;@U1&amp;gt;", "&lt;@U1&gt;"),
        ("a &amp; b &lt; c", "a & b < c"),
        ("&gt; quoted\nand not", "> quoted\nand not"),
        ("&gt;&gt;&gt; all\nof it", "> all\n> of it"),
        ("a &gt; b", "a > b"),
        (":tada: done", "🎉 done"),
        (":clap::skin-tone-2:", "👏🏻"),
        (
            ":jp: :flag-jp: :flag-england:",
            "🇯🇵 🇯🇵 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        ),
        (":party-parrot:", ":party-parrot:"),
        (":nope: :tada:", ":nope: 🎉"),
        (":+:tada:", ":+🎉"),
        ("at 10:100:20", "at 10:100:20"),
        ("<@U2> <#C3> <@U9|x: y>", "@evil example Decision pay #a (1) @x y"),
        ("`<@U2>`", "`@evil example Decision pay`"),
        ("`a :tada: &lt;b&gt; <@U1>`", "`a :tada: <b> @Ann`"),
        (
            "```x = 1\n:tada: &amp; <https://a.example>```",
            "```x = 1\n:tada: & https://a.example```",
        ),
        ("```never closed <@U1>", "```never closed @Ann"),
        ("`open", "`open"),
        ("<unclosed", "<unclosed"),
        ("<>", "<>"),
        ("<|x>", "x"),
        ("日本語 <@U1>さん", "日本語 @Annさん"),
    ],
)
def test_plain(text: str, expected: str) -> None:
    assert render_plain(text, NAMES) == expected


def test_parse_returns_tokens_for_pages() -> None:
    assert parse("see <https://a.example|it>, <@U1> in <#C1>: `x`\n&gt; :tada:", NAMES) == [
        Token(Kind.TEXT, "see "),
        Token(Kind.LINK, "it", "https://a.example"),
        Token(Kind.TEXT, ", "),
        Token(Kind.PERSON, "@Ann", "U1"),
        Token(Kind.TEXT, " in "),
        Token(Kind.CHANNEL, "#general", "C1"),
        Token(Kind.TEXT, ": "),
        Token(Kind.CODE, "x"),
        Token(Kind.TEXT, "\n"),
        Token(Kind.EMOJI, "🎉", "tada", quoted=True),
    ]


@pytest.mark.parametrize(
    "address",
    ["javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "file:///etc/passwd", "//a"],
)
def test_only_http_https_and_mailto_become_links(address: str) -> None:
    assert all(token.kind is Kind.TEXT for token in parse(f"<{address}|here>", NAMES))


@pytest.mark.parametrize(
    ("text", "styled"),
    [
        ("*Decided:* go", [("Decided:", "*"), (" go", "")]),
        ("_a_ ~b~", [("a", "_"), (" ", ""), ("b", "~")]),
        ("*_both_*", [("both", "*_")]),
        ("*ask <@U1>* now", [("ask ", "*"), ("@Ann", "*"), (" now", "")]),
        ("「*重要*」", [("「", ""), ("重要", "*"), ("」", "")]),
        ("2*3*4 snake_case_name /tmp/*.py *.txt", None),
        ("* not bold* and *not bold *", None),
        ("**", None),
        ("`*code*`", [("*code*", "")]),
        ("<https://a.example/*b*c*|x>", [("x", "")]),
    ],
)
def test_marks_around_whole_words_are_style_and_no_words(
    text: str, styled: list[tuple[str, str]] | None
) -> None:
    tokens = [(token.text, token.style) for token in parse(text, NAMES)]
    assert tokens == (styled or [(text, "")])


def test_a_link_cannot_carry_an_address_out_of_its_brackets() -> None:
    (token,) = parse('<https://a.example/"onclick="x|label>', NAMES)
    assert (token.kind, token.ref) == (Kind.LINK, 'https://a.example/"onclick="x')


@pytest.mark.slow
@pytest.mark.timeout(120)  # anything worse than linear takes minutes
@pytest.mark.parametrize(
    "piece",
    [
        "*",
        "*a",
        "_ ",
        "<@",
        "`",
        ":a",
        "<!",
        "```",
        "&lt;",
        "<@U1|",
        ":zz",
        "&gt;",
        "<a>",
        "`a\n",
        "<#C1|>",
        "<!date^",
        "<http://a|",
        "_~*a",
        "&amp",
    ],
)
def test_a_hostile_text_is_read_in_linear_time(piece: str) -> None:
    text = piece * 100_000
    assert len(render_plain(text, NAMES)) >= 99_000


def test_escape_is_undone_by_unescape() -> None:
    typed = "a & b <@U1> &lt; &amp;amp; >"
    assert unescape(escape(typed)) == typed
    assert render_plain(escape(typed), NAMES) == typed


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("no channel <https://a.example|label> <@U1|ann>",) * 2,
        ("in <#C1> and <#C2|merger> there", "in <#C1> and <#C2> there"),
        ("<#C2|two\nlines>", "<#C2>"),
        ('{"text": "<#C2|\\u5408\\u4f75>"}', '{"text": "<#C2>"}'),
        ("a < b # c | d >",) * 2,
    ],
)
def test_names_beside_channel_ids_are_removed(sent: str, shown: str) -> None:
    assert strip_channel_labels(sent) == shown

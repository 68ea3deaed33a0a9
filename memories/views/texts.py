"""Texts that were written elsewhere, as HTML: everything is escaped, nothing is a tag by itself."""

import re
from collections.abc import Iterable
from dataclasses import replace

from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from memories.rules.ingest import markup
from memories.views import paths
from memories.views.access.access import WorkspaceContext

_JAPANESE = re.compile("[\u3040-\u30ff\u3400-\u9fff\uff66-\uff9f]")
_CODE = re.compile(r"`([^`\n]+)`")
_BOLD = re.compile(r"(?<![\w*])(\*\*?)(?=[^\s*])([^*]+)(?<=\S)\1(?![\w*])")
_STYLES = {"*": mark_safe("strong"), "_": mark_safe("em"), "~": mark_safe("s")}


def text_lang(text: str) -> str:
    """The language of a text for ``lang``: ja by its script, en for plain ASCII, else unknown."""
    if _JAPANESE.search(text):
        return "ja"
    return "en" if text.isascii() else ""


def in_its_language(text: str) -> SafeString:
    """Words of people inside a sentence of the page."""
    return format_html('<span lang="{}">{}</span>', text_lang(text), text)


def with_words(sentence: str, **words: str) -> SafeString:
    """A sentence of the page with words of people in it, each in its own language."""
    marked = {name: in_its_language(text) for name, text in words.items()}
    return mark_safe(escape(sentence) % marked)  # noqa: S308  # every part is escaped


def line_text(text: str) -> SafeString:
    """A memory's line, with `code` and *bold* words."""
    parts = _CODE.split(text)
    html = (
        format_html("<code>{}</code>", part) if i % 2 else _emphasised(part)
        for i, part in enumerate(parts)
    )
    return mark_safe("".join(html))  # noqa: S308  # every part is escaped


def _emphasised(text: str) -> SafeString:
    """*Bold* words, and **bold** ones as models like to write them."""
    return mark_safe(_BOLD.sub(r"<strong>\2</strong>", str(escape(text))))  # noqa: S308  # escaped


def message_text(tokens: Iterable[markup.Token], place: WorkspaceContext) -> SafeString:
    """A message's pieces as HTML; quotations are grouped, links open without a referrer."""
    html: list[SafeString] = []
    quoted: list[SafeString] = []

    def close() -> None:
        if quoted:
            html.append(format_html("<blockquote>{}</blockquote>", mark_safe("".join(quoted))))  # noqa: S308
            quoted.clear()

    after_block = False
    for token in tokens:
        if after_block and token.kind is markup.Kind.TEXT:
            # A block ends its line by itself.
            token = replace(token, text=token.text.removeprefix("\n"))
        after_block = token.kind is markup.Kind.BLOCK
        if token.quoted:
            quoted.append(_piece(token, place))
            continue
        if quoted and token.kind is markup.Kind.TEXT:
            token = replace(token, text=token.text.removeprefix("\n"))
        close()
        html.append(_piece(token, place))
    close()
    return mark_safe("".join(html))  # noqa: S308  # pieces made by format_html


def _piece(token: markup.Token, place: WorkspaceContext) -> SafeString:
    """A piece inside the marks it stood between."""
    html = _bare(token, place)
    for mark in token.style:
        tag = _STYLES[mark]
        html = format_html("<{}>{}</{}>", tag, html, tag)
    return html


def _bare(token: markup.Token, place: WorkspaceContext) -> SafeString:
    kind = token.kind
    if kind is markup.Kind.LINK:
        return format_html(
            '<a href="{}" rel="noopener noreferrer nofollow">{}</a>', token.ref, token.text
        )
    if kind is markup.Kind.CHANNEL and (channel := place.find_channels([token.ref]).get(token.ref)):
        path = paths.channel_path(place.workspace.slug, channel.slack_id)
        return format_html('<a class="mention" href="{}">{}</a>', path, token.text)
    if kind in (markup.Kind.PERSON, markup.Kind.CHANNEL, markup.Kind.SPECIAL):
        return format_html('<span class="mention">{}</span>', token.text)
    if kind is markup.Kind.CODE:
        return format_html("<code>{}</code>", token.text)
    if kind is markup.Kind.BLOCK:
        return format_html('<pre tabindex="0"><code>{}</code></pre>', token.text.strip("\n"))
    return escape(token.text)

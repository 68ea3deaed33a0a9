"""Links, hosts, e-mail addresses and mentions in a text, in any form that a browser or mail client reads.

The text must be in the form of `normalized_text.normalize`.
"""

import re
from collections.abc import Iterable

from memories.rules.safety.normalized_text import WIDE

_END = ".,:;!?'\"、。，．：；！？…)]}>*_~`）」』】"
# Letters of other scripts belong to a host too. After an end in ASCII letters a sentence may go on
# without a space: example.jpを
_DOMAIN = r"(?:[\w-]{1,63}\.){1,6}(?:[a-z0-9-]{1,63}|[^\W\d_]{1,63})"
_LINK = re.compile(
    r"(?:[a-z][a-z0-9+.-]{1,20}://|(?<![a-z0-9_])(?:www\.|mailto:|tel:|file:|//(?=[\w-]{1,60}\.)))"
    rf"(?:{_DOMAIN}[!-~]{{0,2000}}|[!-~]{{1,2000}})",
    re.IGNORECASE,
)
_TOP_LEVEL = (
    "com|net|org|edu|gov|mil|int|info|biz|io|ai|dev|app|co|uk|jp|de|fr|nl|ru|cn|eu|us|ca|au|in|kr|tw|br|it|es|ch|se|"
    "no|fi|dk|pl|cz|at|be|ie|nz|za|sg|hk|xyz|site|online|shop|top|club|store|tech|cloud|page|link|live|me|tv|gg|ly|"
    "example|test|invalid|onion|zip|mov|ninja|space|website|pro|blog|wiki|work|works|team|email|click|download"
)
# Ends of file names: node.js/express, a.csv/b.csv
_NO_TOP_LEVEL = (
    "js|jsx|ts|tsx|mjs|vue|css|scss|html?|php|py|ipynb|java|kt|go|cpp|hpp|cs|rb|swift|sql|json|jsonl|ya?ml|toml|xml|"
    "ini|cfg|conf|env|lock|log|txt|rst|csv|tsv|xlsx?|docx?|pptx?|pdf|png|jpe?g|gif|svg|mp[34]|exe|dll|jar|gz|tar|bak"
)
# Pairs of words. The sentence before may end without a space: done.And/or
_PAIR = (
    "and/or|he/she|she/he|his/her|he/him|she/her|they/them|yes/no|on/off|ui/ux|ci/cd|tcp/ip|input/output|read/write|"
    r"client/server|before/after|km/h|[kmgt]b/s|md/[\w-]{1,60}\.md|rs/[\w-]{1,60}\.rs"
)
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,60}[a-z0-9])?"
# After a digit or a dot this is a version or a file: main.py, 1.2.io. Any end is a host if a path
# follows, and so are four numbers. But 10.0.0.0/8 is a network.
_HOST = re.compile(
    rf"(?<![a-z0-9_@./-])(?:(?:{_LABEL}\.){{1,5}}(?:{_TOP_LEVEL})(?![a-z0-9_-]|\.[a-z0-9_])(?::\d{{1,5}})?(?:/[!-~]{{0,500}})?"
    rf"|(?:{_LABEL}\.){{0,4}}(?=[0-9-]{{0,60}}[a-z])[a-z0-9][a-z0-9-]{{1,61}}\."
    rf"(?!(?:{_NO_TOP_LEVEL})[/:]|(?:{_PAIR})(?![a-z0-9_/-]))(?:xn--[a-z0-9-]{{1,59}}|[a-z]{{2,24}})"
    r"(?::\d{1,5})?/[a-z0-9_?#~%-][!-~]{0,500}"
    r"|(?:\d{1,3}\.){3}\d{1,3}(?::\d{1,5})?/(?!\d[\d.]{0,20}(?![a-z0-9_./-]))[a-z0-9_?#~%-][!-~]{0,500})",
    re.IGNORECASE,
)
_EMAIL = re.compile(rf"[\w.+-]{{1,64}}@{_DOMAIN}", re.IGNORECASE)
_MENTION = re.compile(r"<[@!][^<>\s]{1,80}>|(?<![\w.@/+-])[@＠][\w][\w.-]{0,80}")


def find_links(text: str) -> list[str]:
    """Return links of any scheme, and hosts without a scheme."""
    links = [_strip(match[0]) for match in _LINK.finditer(text)]
    remaining = _EMAIL.sub(" ", _LINK.sub(" ", text)) if "@" in text or links else text
    if "." in remaining:
        links += [_strip(match[0]) for match in _HOST.finditer(remaining)]
    return links


def find_emails(text: str) -> list[str]:
    return [match[0] for match in _EMAIL.finditer(text)]


def find_mentions(text: str) -> list[str]:
    if "@" not in text and "<!" not in text:
        return []
    remaining = _EMAIL.sub(" ", _LINK.sub(" ", text))
    return [match[0].rstrip(".-_") for match in _MENTION.finditer(remaining)]


def is_source_link(link: str, source_links: Iterable[str], text: str) -> bool:
    """Return whether a link of this text is a source's link, or a beginning of one.

    A beginning ends at a separator of the URL, or the text cuts it visibly.
    """
    bare = _bare(link)
    is_cut = f"{link}…" in text or f"{link}..." in text
    for source in map(_bare, source_links):
        if source == bare:
            return True
        suffix = source.removeprefix(bare)
        if suffix != source and bare and (is_cut or suffix[0] in "/?#&" or bare[-1] in "/?#"):
            return True
    return False


def is_same_mention(first: str, second: str) -> bool:
    """Compare two mentions. Without spaces a sentence may go on behind a name: @田中さんに."""
    if first == second:
        return True
    short, long = sorted((first, second), key=len)
    return len(short) > 2 and long.startswith(short) and not long[len(short)].isascii()


def is_same_email(first: str, second: str) -> bool:
    """Compare two addresses. Without spaces a sentence may precede one: 連絡はana@example.org."""
    short, long = sorted((first, second), key=len)
    before = long.removesuffix(short)
    return not before or (before != long and bool(WIDE.match(before[-1])))


def _strip(link: str) -> str:
    """Remove what follows a link, except brackets that it opened itself: en.example/A_(b)."""
    link = re.split(r"[<>\"`|\\^{}]", link, maxsplit=1)[0].rstrip(_END)
    return link + ")" * (link.count("(") - link.count(")"))


def _bare(link: str) -> str:
    return re.sub(r"^(?:https?:)?//|^mailto:", "", link).removeprefix("www.").rstrip("/)")

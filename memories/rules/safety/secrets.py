"""Secrets in a text: keys, tokens and passwords, found by their form and replaced by one mark.

They are replaced before a model reads a text, and again before a text is saved. All patterns are
bounded, so time grows linearly with the text. Commit hashes, UUIDs, checksums, URLs without a
password, message times, versions and paths are no secrets.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator

SECRET = "[secret]"

Span = tuple[int, int]

_NOT_IN_WORD = r"(?<![A-Za-z0-9])"
# Tokens of providers by their prefix. `_is_random` excludes words with such a prefix (sk-learn-…).
_PREFIXES = (
    r"xox[abceoprs]-[A-Za-z0-9-]{10,250}",
    r"xapp-\d-[A-Za-z0-9-]{10,250}",
    r"hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_-]{16,120}",
    r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,250}",
    r"sk-[A-Za-z0-9_-]{16,250}",
    r"whsec_[A-Za-z0-9+/=]{16,120}",
    r"gh[opusr]_[A-Za-z0-9]{20,255}",
    r"github_pat_[A-Za-z0-9_]{20,255}",
    r"gl(?:pat|dt|rt|ptt|soat|agent|cbt|ft|imt|oas)-[A-Za-z0-9_-]{16,120}",
    r"npm_[A-Za-z0-9]{30,80}",
    r"pypi-Ag[A-Za-z0-9_-]{14,500}",
    r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}",
    r"AIza[A-Za-z0-9_-]{30,60}",
    r"ya29\.[A-Za-z0-9_-]{20,500}",
    r"GOCSPX-[A-Za-z0-9_-]{20,60}",
    r"SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,64}",
    r"hf_[A-Za-z0-9]{30,60}",
    r"(?:gsk|xai|r8|ntn|figd|dckr_pat|lin_api|shpat|shpss|dop_v1|doo_v1)[_-][A-Za-z0-9_-]{20,200}",
    r"sq0(?:atp|csp)-[A-Za-z0-9_-]{20,60}",
    r"hvs\.[A-Za-z0-9_-]{20,200}",
    r"tskey-[A-Za-z0-9-]{16,120}",
    r"ATATT3[A-Za-z0-9_=-]{20,250}",
    r"AGE-SECRET-KEY-1[A-Z0-9]{20,80}",
    r"\d{8,10}:AA[A-Za-z0-9_-]{30,40}",
    r"mh[rw]_[0-9a-f]{8}_[A-Za-z0-9_-]{20,100}",  # an API key of a hub
    r"eyJ[A-Za-z0-9_-]{8,2000}\.eyJ[A-Za-z0-9_-]{8,4000}(?:\.[A-Za-z0-9_-]{0,2000})?",
)
_PROVIDER = re.compile(f"{_NOT_IN_WORD}(?:{'|'.join(_PREFIXES)})")
_SIGNS = (
    "xox", "xapp-", "hooks.slack", "sk-", "_live_", "_test_", "whsec_", "gh", "github_pat_", "gl", "npm_", "pypi-",
    "AKIA", "ASIA", "ABIA", "ACCA", "AIza", "ya29.", "GOCSPX", "SG.", "hf_", "gsk", "xai", "r8",
    "ntn", "figd", "dckr_", "lin_api", "shp", "dop_", "doo_", "sq0", "hvs.", "tskey", "ATATT3",
    "AGE-", ":AA", "eyJ", "mhr_", "mhw_",
)  # fmt: skip

_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_ENDS = re.compile(r"-----END [A-Z0-9 ]{0,40}-----")

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s:/@<>]{0,100}:([^\s/@<>]{1,200})@")

_PASSWORD = r"pass ?words?|passwd|passphrase|passcode|pwd|パスワード|暗証番号|パスフレーズ"
_TOKEN = (
    r"secret|tokens?|api[ _-]?keys?|access[ _-]?keys?|secret[ _-]?keys?|private[ _-]?keys?|"
    r"auth[ _-]?keys?|credentials?|トークン|api ?キー|アクセスキー|シークレット|秘密鍵|認証キー"
)
_WIDE = "\u3041-\u30ff\u3400-\u9fff"  # Japanese letters, which may follow a value without a space
_JAPANESE = re.compile(f"[{_WIDE}]")
_GIVEN = re.compile(
    rf"(?P<what>(?P<password>{_PASSWORD})|{_TOKEN})[\w-]{{0,20}}[\"'`*]{{0,3}}[ \t]{{0,3}}"
    r"(?P<sign>[:=：＝]|=>|:=|->|\bis\b|は|が)[ \t]{0,3}(?P<quote>[\"'`*「『]{0,3})"
    rf"(?P<value>[^\s\"'`,;、。，；「」『』（）()<>|{_WIDE}]{{4,300}})",
    re.IGNORECASE,
)
_BEARER = re.compile(r"\b(?:Bearer|Basic)[ \t]{1,3}(?P<value>[A-Za-z0-9._~+/=-]{20,2000})")
_NEAR = re.compile(rf"(?:{_PASSWORD}|{_TOKEN}|\bkeys?\b|\bauth|鍵|認証)", re.IGNORECASE)
_LONG = re.compile(r"(?<![A-Za-z0-9+/_=.-])[A-Za-z0-9+/_=-]{24,200}(?![A-Za-z0-9+/_=-])")
_CONTEXT = 40  # characters before a long token that may name it a secret

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_HEX = re.compile(r"(?:0x)?[0-9a-f]+", re.IGNORECASE)
_AMAZON = re.compile(r"(?=.*[a-z])(?=.*[A-Z])(?=.*\d)[A-Za-z0-9/+]{40}")  # may look like a path
_PLAIN = re.compile(
    r"v?\d+(?:[.:/-]\d+)*[a-z]?"  # versions, dates, times, counts
    r"|[A-Za-z_][\w-]*(?:[.:/\\][A-Za-z_][\w-]*)+(?:\.\w+)?"  # names in code, paths
    r"|https?://.*|[$%{\[].*|\*+|\.+|x+",
    re.IGNORECASE,
)


def redact(text: str) -> str:
    """Return the text with `SECRET` in place of each secret. Repeating this changes nothing."""
    parts: list[str] = []
    end = 0
    for first, last in _spans(text):
        parts += (text[end:first], SECRET)
        end = last
    return "".join([*parts, text[end:]]) if parts else text


def find_secrets(text: str) -> list[str]:
    """Return the secrets of a text in order."""
    return [text[first:last] for first, last in _spans(text)]


def _spans(text: str) -> list[Span]:
    """Return the spans of secrets in order. Overlapping spans are one."""
    spans: list[Span] = []
    for first, last in sorted(_all(text)):
        if spans and first < spans[-1][1]:
            spans[-1] = (spans[-1][0], max(last, spans[-1][1]))
        else:
            spans.append((first, last))
    return spans


def _all(text: str) -> Iterator[Span]:
    if "-----BEGIN " in text:
        yield from _key_blocks(text)
    if any(sign in text for sign in _SIGNS):
        yield from (m.span() for m in _PROVIDER.finditer(text) if _is_random(m[0]))
    if "://" in text:
        yield from (m.span(1) for m in _ADDRESS.finditer(text) if m[1] != SECRET)
    if _NEAR.search(text):
        yield from (m.span("value") for m in _GIVEN.finditer(text) if _is_given(m))
        yield from _in_context(text)
    if "earer" in text or "asic" in text:
        yield from (m.span("value") for m in _BEARER.finditer(text) if _is_random(m["value"]))


def _key_blocks(text: str) -> Iterator[Span]:
    """Yield PEM blocks. A block without an end reaches to the end of the text."""
    at = 0
    while begin := _KEY_BEGINS.search(text, at):
        end = _KEY_ENDS.search(text, begin.end())
        at = end.end() if end else len(text)
        yield begin.start(), at


def _is_given(match: re.Match[str]) -> bool:
    """Return whether the value that a sentence or setting names as a secret looks like one."""
    value = match["value"].rstrip(".:!?！？")
    if _AMAZON.fullmatch(value) and not _HEX.fullmatch(value):
        return _is_random(value)
    if value.startswith(SECRET) or _PLAIN.fullmatch(value) or _UUID.fullmatch(value):
        is_pin = value.isascii() and value.isdigit() and 6 <= len(value) <= 20
        return is_pin and bool(match["password"])
    if not value.isascii() or not any(map(str.isalpha, value)):
        return False
    if match["sign"] in "はが" or match["sign"].lower() == "is":
        is_named = match["password"] or match["quote"]
        if not is_named and _JAPANESE.match(match.string, match.end()):
            return False  # トークンはOAuth2.0で発行する
        return len(value) >= 8 and any(map(str.isdigit, value)) and _entropy(value) >= 2.5
    mixed = any(map(str.isdigit, value)) or any(c in "!@#$%^*+?" for c in value[:-1])
    least = 6 if match["password"] else 12
    return len(value) >= least and mixed and _entropy(value) >= 2.2


def _in_context(text: str) -> Iterator[Span]:
    for match in _LONG.finditer(text):
        token = match[0]
        if not _is_random(token) or _HEX.fullmatch(token) or _PLAIN.fullmatch(token):
            continue
        if _NEAR.search(text, max(0, match.start() - _CONTEXT), match.start()):
            yield match.span()


def _is_random(token: str) -> bool:
    """Return whether a token is random: letters and digits mixed, and no character is frequent."""
    token = token[:300]
    digits = sum(map(str.isdigit, token))
    letters = sum(map(str.isalpha, token))
    if not digits or not letters or _UUID.fullmatch(token):
        return False
    # Words with a number in them: "sk-learn-pipelines-version-2".
    runs = re.findall(r"[a-z]{4,}", token)
    if sum(map(len, runs)) > 0.6 * len(token) and digits < 4:
        return False
    return _entropy(token) >= 2.8


def _entropy(token: str) -> float:
    """Return the entropy of a token in bits per character."""
    size = len(token)
    return -sum(n / size * math.log2(n / size) for n in Counter(token).values())

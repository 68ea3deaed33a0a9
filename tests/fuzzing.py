"""Requests with impossible values to every address, for `tests/test_fuzz.py`.

An address is a route of the resolver. Its fields are those of the forms and links that its pages
show, those that the views read, and for the admin every look-up of every column. Each request mixes
valid values with impossible ones, as one of the roles. What it changes in the database is undone.
"""

import hashlib
import hmac
import json
import logging
import random
import re
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from django.contrib import admin
from django.core.signals import got_request_exception
from django.db import transaction
from django.test import Client
from django.urls import Resolver404, URLResolver, get_resolver, resolve

from memories.models import Message
from tests.fuzzing_api import ApiInputs
from tests.leaks.probes import MATRIX
from tests.leaks.world import ROLES, World

VIEWS = Path(__file__).resolve().parent.parent / "memories" / "views"
HUGE = "9" * 30
NASTY = [
    *("", " ", "\0", "a\0b", "\ud800", "x\udfffy", "\ufffd", "\u202e", "\u2028", "é", "漢" * 300),
    *("0", "-1", "1", "00", "1.5", "1e400", "NaN", "Infinity", "-0", "٣", "²", "0x10", "1_0"),
    *(HUGE, f"-{HUGE}", str(2**31), str(2**63 - 1), str(2**63), str(10**20), "9" * 5000),
    *("0000-00-00", "2026-02-30", "0001-01-01", "9999-12-31", f"{10**20}-01-01", "2026-13-01T25:61"),
    *("0001-01-01 00:00:00", "9999-12-31 23:59:59", "9999-12-31T23:59:59-14:00", "2026-01-05T09:00"),
    *("24:00", "0000000000.000000", "1767603600.000100", f"{HUGE}.000001", "1.", ".1", "-1.000000"),
    *("x" * 20_000, "../", "../../etc/passwd", "%00", "%", "\\", "/", "//evil.example", "///evil"),
    *("x", "x.y", "https://evil.example", "javascript:alert(1)", "http://[", "//[::1", "\r\nX: y"),
    *("__class__", "{{7*7}}", "${7}", "%s%s%n", "' OR 1=1 --", "<script>", "(", "[", "*", '"', '"a', "a*"),
    *("{}", "[]", "null", "true", '{"a": [1]}', "[[[[", '"\\u0000"', '"\\ud800"', "[" * 3000),
    *("on", "off", "None", "all", "in:", "in:#", "in:#nowhere", "before:0000-00-00", "after:99999-01-01"),
    *("from:", "on:2026-02-30", "has:", "before:9999-12-31", "before:0001-01-01", "is:\0", "-", '-""', "de*"),
]  # fmt: skip
LOOKUPS = (
    *("exact", "iexact", "contains", "icontains", "startswith", "regex", "iregex", "in", "range"),
    *("gt", "gte", "lt", "lte", "isnull", "year", "iso_year", "month", "day", "week", "week_day"),
    *("quarter", "hour", "minute", "second", "date", "time", "year__gt", "year__in", "date__year"),
    *(
        "contained_by",
        "has_key",
        "has_keys",
        "a",
        "0",
        "id",
        "pk",
        "__class__",
        "foo",
        "isnull__in",
    ),
    "search",
)
# Names of parameters of Django's admin and login.
COMMON = (
    *("next", "q", "p", "o", "e", "all", "_popup", "_to_field", "_changelist_filters", "action"),
    *("_selected_action", "index", "select_across", "post", "page", "term", "app_label"),
    *("model_name", "field_name", "_save", "_continue", "_addanother", "csrfmiddlewaretoken"),
    *("__class__", "state", "code", "error", "initial", "form-0-id"),
)
ORDERED = ("GET", "POST", "GET", "POST", "GET", "POST", "GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS")  # fmt: skip
CONTENT_TYPES = (
    *("application/json", "text/plain", "application/octet-stream", "multipart/form-data"),
    *("multipart/form-data; boundary=", "application/x-www-form-urlencoded; charset=utf-7"),
    *(
        "application/x-www-form-urlencoded; charset=nope",
        "multipart/mixed; boundary=x",
        "",
        "\u00e9",
    ),
)
MAKES_THE_DEMO = "setup/demo/"  # an operator's form, a minute's work each time
SECRET = "fuzz"  # signs what Slack sends


@dataclass
class Report:
    """Answers by status, and each request that broke something."""

    statuses: Counter[int] = field(default_factory=Counter)
    broken: dict[str, str] = field(default_factory=dict)  # by where it broke: the request
    off_site: list[str] = field(default_factory=list)
    seconds: float = 0.0
    slowest: list[tuple[float, str]] = field(default_factory=list)
    routes: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        lines = [f"{sum(self.statuses.values())} requests in {self.seconds:.0f} s"]
        lines += [f"{len(self.routes)} routes, {dict(sorted(self.statuses.items()))}"]
        lines += [f"slow: {seconds:.1f} s {what[:150]}" for seconds, what in self.slowest[:5]]
        lines += [f"off site: {what}" for what in self.off_site]
        lines += [f"BROKEN {where}\n  {what}" for where, what in self.broken.items()]
        return "\n".join(lines)


class Fuzzer:
    def __init__(self, world: World, seed: int = 1) -> None:
        self.world = world
        self.random = random.Random(seed)
        self.clients: dict[str, Client] = {}
        for role in (*ROLES, "anonymous"):
            client = Client(SERVER_NAME="localhost", raise_request_exception=False)
            if role != "anonymous":
                client.force_login(world.users[role])
            self.clients[role] = client
        self.routes = sorted(set(_routes(get_resolver())))
        self.api = ApiInputs(world, self.random, NASTY)
        self.asks: dict[str, list[tuple[str, dict[str, Any] | None]]] = defaultdict(list)
        for asks in MATRIX.values():
            for path, data in asks(world):
                route = _route_of(path)
                if len(self.asks[route]) < 40:
                    self.asks[route].append((path, data))
        self.fields: dict[str, set[str]] = defaultdict(set)
        self.forms: dict[str, list[dict[str, list[str]]]] = defaultdict(list)
        self.learned: Counter[str] = Counter()  # pages read for their fields
        self.in_views = sorted(_fields_of_views())
        channels = list(world.channels.values())
        self.valid: dict[str, list[str]] = {
            "slug": ["leaks", "leaks", "abroad", "brought"],
            "slack_id": [channel.slack_id for channel in channels],
            "thread_ts": list(Message.objects.exclude(thread_ts="").values_list("thread_ts", flat=True)),
            "provider_id": ["slack"],
            "app_label": sorted({model._meta.app_label for model in admin.site._registry}),
        }  # fmt: skip
        self.columns = {
            f"admin/{model._meta.app_label}/{model._meta.model_name}/": [
                column.name for column in model._meta.get_fields()
            ]
            for model in admin.site._registry
        }
        self.keys = {
            f"admin/{model._meta.app_label}/{model._meta.model_name}/": [
                str(pk) for pk in model._default_manager.values_list("pk", flat=True)[:20]
            ]
            for model in admin.site._registry
        }

    def run(self, count: int) -> Report:
        report = Report(routes=set(self.routes))
        errors: list[str] = []

        def keep(request: Any, **_: Any) -> None:
            errors.append(_where())

        got_request_exception.connect(keep)
        logging.disable()  # refused requests are counted here
        started = time.monotonic()
        try:
            for number in range(count):
                # Each route in turn: first its page, which shows its fields.
                route = self.routes[number % len(self.routes)]
                is_first = number < len(self.routes)
                self._request(route, report, errors, is_first=is_first)
        finally:
            logging.disable(logging.NOTSET)
            got_request_exception.disconnect(keep)
        report.seconds = time.monotonic() - started
        report.slowest.sort(reverse=True)
        return report

    # -- one request

    def _request(self, route: str, report: Report, errors: list[str], *, is_first: bool) -> None:
        roles = ("operator",) if is_first else ("operator", "operator", "admin", *self.clients)
        role = self.random.choice(roles)
        client = self.clients[role]
        method = "GET" if is_first else self.random.choice(ORDERED)
        if route == MAKES_THE_DEMO and method == "POST":
            client = self.clients[role := "admin"]
        path, data = self._address(route, is_valid=is_first)
        query: list[tuple[str, str]] = parse_qsl(urlsplit(path).query)
        path = urlsplit(path).path
        body, content_type = b"", ""
        headers: dict[str, str] = {}
        if route == "mcp" or route.startswith("api/"):
            method, query, body, content_type, headers = self.api.request(route)
        elif not is_first:
            if method == "POST":
                body, content_type = self._body(route, data, headers)
            if method != "POST" or self._chance(0.15):
                query += self._pairs(route)
            if self._chance(0.25):
                headers["HX-Request"] = "true"
                headers["HX-Current-URL"] = self.random.choice(("http://localhost/", "x", "//["))
            if self._chance(0.05):
                headers["Accept-Language"] = self.random.choice(("x" * 600, "ja;q=x", "*", "-"))
        cookies = client.cookies.output(header="", sep=";")
        if self._chance(0.03):
            client.cookies[self.random.choice(("theme", "sessionid", "django_language", "x"))] = (
                self.random.choice(("\0", "a\0", "x" * 3000, "ja", "../"))
            )
        errors.clear()
        began = time.monotonic()
        with transaction.atomic():
            response = client.generic(
                method,
                path,
                data=body,
                content_type=content_type,
                headers=headers,
                QUERY_STRING=_encoded(query),
            )
            content = b"".join(response) if response.streaming else response.content
            transaction.set_rollback(True)
        seconds = time.monotonic() - began
        client.cookies.clear()
        client.cookies.load(cookies)
        what = (
            f"{role} {method} {path[:200]} ?{query!r:.300} {content_type} {body[:400]!r} {headers}"
        )
        report.statuses[response.status_code] += 1
        if seconds > 1:
            report.slowest.append((seconds, what))
        if response.status_code == 500 or _crashed(content):
            report.broken.setdefault(errors[-1] if errors else "unknown", what)
        location = response.headers.get("Location", "")
        if location.startswith("//") or urlsplit(location).netloc not in ("", "localhost"):
            report.off_site.append(f"{location[:200]} {what}")
        is_page = response.headers.get("Content-Type", "").startswith("text/html")
        if is_page and self.learned[route] < 8:
            self.learned[route] += 1
            self._learn(route, content.decode(errors="replace"))

    def _address(self, route: str, *, is_valid: bool) -> tuple[str, dict[str, Any] | None]:
        if self.asks[route] and (is_valid or self._chance(0.6)):
            return self.random.choice(self.asks[route])

        def fill(match: re.Match[str]) -> str:
            name = match["name"]
            keys = next((keys for at, keys in self.keys.items() if route.startswith(at)), [])
            valid = self.valid.get(name) or keys or [str(self.random.randint(1, 60))]
            value = self.random.choice(valid if is_valid or self._chance(0.85) else NASTY)
            return quote(value.encode(errors="surrogatepass"), safe="")

        return "/" + _PARAMETER.sub(fill, route), None

    def _body(
        self, route: str, data: dict[str, Any] | None, headers: dict[str, str]
    ) -> tuple[bytes, str]:
        pairs = [(name, str(value)) for name, value in (data or {}).items()]
        if self.forms[route] and self._chance(0.7):
            form = self.random.choice(self.forms[route])
            pairs = [(name, self.random.choice(values)) for name, values in form.items()]
            names = list(form) or ["x"]
            for _ in range(self.random.randint(0, 2)):
                name = self.random.choice(names)
                pairs = [pair for pair in pairs if pair[0] != name]
                pairs += [(name, value) for value in self._values()]
        else:
            pairs += self._pairs(route)
        if route == "slack/events/" or self._chance(0.08):
            return self._signed(dict(pairs), headers)
        if self._chance(0.15):
            return self._multipart(pairs), f"multipart/form-data; boundary={_BOUNDARY}"
        if self._chance(0.05):
            return _encoded(pairs).encode(), self.random.choice(CONTENT_TYPES)
        return _encoded(pairs).encode(), "application/x-www-form-urlencoded"

    def _signed(self, given: dict[str, str], headers: dict[str, str]) -> tuple[bytes, str]:
        """JSON as Slack sends it: any value may be of any kind."""
        event: dict[str, Any] = {
            "type": "event_callback",
            "team_id": "T1",
            "event_id": f"Ev{self.random.randint(1, 10**6)}",
            "event_time": 1767603600,
            "event": {
                "type": self.random.choice(EVENTS),
                "channel": self.random.choice(self.valid["slack_id"]),
                "user": "UMEMBER",
                "text": "hi",
                "ts": "1767603600.000100",
            },
            **given,
        }
        for holder in (event, event["event"]):
            if isinstance(holder, dict) and self._chance(0.5):
                value: Any = self.random.choice(NASTY)
                value = self.random.choice((value, [value], {"id": value}, None, 10**30, 1.5, True))
                holder[self.random.choice(list(holder))] = value
        body = json.dumps(event).encode()
        if self._chance(0.1):
            body = self.random.choice(NASTY).encode(errors="surrogatepass")
        now = str(int(time.time())) if self._chance(0.9) else self.random.choice(("x", "1", HUGE))
        signature = hmac.new(SECRET.encode(), b"v0:%s:%s" % (now.encode(), body), hashlib.sha256)
        headers["X-Slack-Request-Timestamp"] = now
        headers["X-Slack-Signature"] = f"v0={signature.hexdigest()}"
        return body, "application/json"

    def _multipart(self, pairs: list[tuple[str, str]]) -> bytes:
        file = self.random.choice(('; filename="a.zip"', '; filename="../\0a"', "", "; filename=x"))
        parts = [
            b'--%s\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n'
            % (
                _BOUNDARY.encode(),
                name.encode(errors="surrogatepass").replace(b"\r\n", b""),
                file.encode() if self._chance(0.2) else b"",
                value.encode(errors="surrogatepass"),
            )
            for name, value in pairs
        ]
        end = b"" if self._chance(0.1) else b"--%s--\r\n" % _BOUNDARY.encode()
        return b"".join(parts) + end

    def _pairs(self, route: str) -> list[tuple[str, str]]:
        names = [*self.fields[route]] * 3 or ["q"]
        names += [self.random.choice(self.in_views), self.random.choice(COMMON)]
        if columns := self.columns.get(route):
            for _ in range(4):
                look_up = self.random.choice(LOOKUPS)
                names.append(f"{self.random.choice(columns)}__{look_up}")
        chosen = (self.random.choice(sorted(names)) for _ in range(self.random.randint(1, 3)))
        return [(name, value) for name in chosen for value in self._values()]

    def _values(self) -> list[str]:
        many = 3 if self._chance(0.1) else 1
        return [self.random.choice(NASTY) for _ in range(many)]

    def _chance(self, share: float) -> bool:
        return self.random.random() < share

    def _learn(self, route: str, page: str) -> None:
        parser = _Forms()
        parser.feed(page)
        for action, form in parser.forms:
            at = _route_of(action) if action.startswith("/") else route
            self.fields[at].update(form)
            if len(self.forms[at]) < 12 and form not in self.forms[at]:
                self.forms[at].append(form)
        for link in parser.links:
            self.fields[route].update(name for name, _ in parse_qsl(link, keep_blank_values=True))


EVENTS = (
    *("message", "app_uninstalled", "tokens_revoked", "channel_rename", "channel_deleted"),
    *(
        "member_joined_channel",
        "member_left_channel",
        "channel_archive",
        "user_change",
        "team_join",
    ),
    *("channel_created", "group_rename", "channel_shared", "app_rate_limited", "team_rename"),
)
_BOUNDARY = "fuzz-boundary"
_PARAMETER = re.compile(r"<(?:\w+:)?(?P<name>\w+)>|\(\?P<(?P<other>\w+)>[^)]*\)\$?")


def _routes(resolver: URLResolver, prefix: str = "") -> Iterator[str]:
    for pattern in resolver.url_patterns:
        route = prefix + str(pattern.pattern).removeprefix("^").removesuffix("$").removesuffix(
            "\\Z"
        )
        if isinstance(pattern, URLResolver):
            yield from _routes(pattern, route)
        else:
            yield route


def _route_of(path: str) -> str:
    try:
        return resolve(urlsplit(path).path).route.removesuffix("$").removesuffix("\\Z")
    except Resolver404:
        return ""


def _fields_of_views() -> Iterator[str]:
    """Return the fields that views read by name."""
    for path in VIEWS.rglob("*.py"):
        text = path.read_text("utf-8")
        yield from re.findall(r"(?:GET|POST|asked|data)(?:\.get(?:list)?\(|\[)\"([\w-]+)\"", text)
        yield from re.findall(r"number_in\(request, \"([\w-]+)\"", text)
        yield from re.findall(r"\"([\w-]+)\" (?:not )?in (?:request|self\.request)\.", text)


def _crashed(content: bytes) -> bool:
    """Whether a tool of MCP raised what it does not name: the SDK answers 200, and tells nothing."""
    return bool(re.search(rb'"text":\s*"Error executing tool \w+"', content))


def _encoded(pairs: list[tuple[str, str]]) -> str:
    return urlencode(
        [(n.encode(errors="surrogatepass"), v.encode(errors="surrogatepass")) for n, v in pairs]
    )


def _where() -> str:
    """The error under way, and the places in it that are ours."""
    error = sys.exception()
    lines = traceback.format_exc().splitlines()
    ours = [line.strip() for line in lines if "memories/" in line or "memoryhub/" in line]
    last = [line.strip() for line in lines if line.strip().startswith("File ")][-1:]
    message = " ".join(f"{type(error).__name__}: {error}".split())
    return " | ".join([message[:300], *ours[-3:], *last])


class _Forms(HTMLParser):
    """The forms of a page with the values that their fields may have, and the queries of its links."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[tuple[str, dict[str, list[str]]]] = []
        self.links: list[str] = []
        self._select = ""
        self._text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        for name in ("href", "hx-get"):
            if "?" in given.get(name, ""):
                self.links.append(given[name].partition("?")[2].partition("#")[0])
        if tag == "form":
            self.forms.append((given.get("hx-post") or given.get("action", ""), {}))
        elif given.get("hx-post"):
            self.forms.append((given["hx-post"], {}))
        if not self.forms:
            return
        form = self.forms[-1][1]
        name = given.get("name", "")
        if tag in ("input", "button") and name and name != "csrfmiddlewaretoken":
            form.setdefault(name, []).append(given.get("value", "on"))
        elif tag == "textarea" and name:
            form.setdefault(name, []).append("some text")
        elif tag == "select" and name:
            self._select = name
            form.setdefault(name, [""])
        elif tag == "option" and self._select:
            form[self._select].append(given.get("value", ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "select":
            self._select = ""

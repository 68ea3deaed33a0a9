"""A person who uses the pages, in a process of its own: `python -m tests.hard.person URL NAME
LEDGER SEED`.

It signs in, then reads commands from stdin, one a line with its arguments, and answers each with a
line: `pin V POSITION`, `open M`, `add TOKEN`, `clear LINES` (JSON). Its ledger records what was
accepted and refused, one JSON object a line, before each answer. The ledger is the oracle.
"""

import html
import json
import random
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from http.client import HTTPResponse
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

PASSWORD = "two people and a job"
PATIENCE = 60  # seconds for one request
TRIES = 50  # attempts to save one edit after conflicts


class Stay(urllib.request.HTTPRedirectHandler):
    """302 is an answer here, and so is 409."""

    def redirect_request(self, *args: Any) -> None:
        return None


@dataclass
class Page:
    status: int
    text: str

    def field(self, name: str) -> str:
        match = re.search(rf'name="{name}" value="([^"]*)"', self.text)
        return html.unescape(match[1]) if match else ""

    @property
    def area(self) -> str:
        match = re.search(r'<textarea id="text"[^>]*>\n?(.*?)</textarea>', self.text, re.DOTALL)
        return html.unescape(match[1]).replace("\r\n", "\n") if match else ""


class Person:
    def __init__(self, url: str, name: str, ledger: Path, seed: int) -> None:
        self.url, self.name, self.ledger = url, name, ledger
        self.chance = random.Random(f"{seed}:{name}")
        cookies = urllib.request.HTTPCookieProcessor(CookieJar())
        self.web = urllib.request.build_opener(cookies, Stay())
        self.editor: Page | None = None
        self.memory = 0
        page = self.ask("/login/")
        self.send("/login/", page, username=name, password=PASSWORD)

    def ask(self, path: str, data: dict[str, str] | None = None) -> Page:
        body = urllib.parse.urlencode(data).encode() if data is not None else None
        try:
            with self.web.open(self.url + path, body, timeout=PATIENCE) as answer:
                return _page(answer)
        except urllib.error.HTTPError as answer:
            with answer:
                return _page(answer)

    def send(self, path: str, page: Page, **given: str) -> Page:
        token = page.field("csrfmiddlewaretoken")
        return self.ask(path, {"csrfmiddlewaretoken": token, **given})

    def write(self, **row: Any) -> None:
        with self.ledger.open("a") as file:
            file.write(json.dumps({"name": self.name, **row}) + "\n")

    # -- commands

    def pin(self, version: str, position: str) -> int:
        page = self.ask(f"/v/{version}/")
        revision = page.field("revision")
        return self.send(f"/v/{version}/pin/", page, pin=position, revision=revision).status

    def open(self, memory: str) -> int:
        self.memory = int(memory)
        self.editor = self.ask(f"/m/{memory}/edit/")
        return self.editor.status

    def add(self, token: str) -> int:
        """Save the text that was opened with one line more; settle each conflict as it is shown."""
        assert self.editor is not None
        lines = self.editor.area.split("\n")
        lines.insert(self.chance.randrange(1, len(lines) + 1), f"- {token}")
        return self._save(self.editor, "\n".join(lines), token)

    def clear(self, lines: str) -> int:
        """Keep these lines only, of whatever stands there by now."""
        self.open(str(self.memory))
        assert self.editor is not None
        return self._save(self.editor, "\n".join(json.loads(lines)), "")

    def _save(self, page: Page, text: str, token: str) -> int:
        for _ in range(TRIES):
            base = page.field("based_on")
            revision = page.field("revision")
            given = {"text": text, "based_on": base, "revision": revision, "do": "save"}
            answer = self.send(f"/m/{self.memory}/edit/", page, **given)
            row = {"token": token, "base": int(base), "status": answer.status}
            if answer.status != 409:
                self.write(**row)
                return answer.status
            yours = answer.field("yours")
            own = [line for line in text.split("\n") if line.strip()]
            shown = html.unescape(re.sub(r"<[^>]+>", "\n", answer.text))
            self.write(
                **row,
                mine_is_kept=yours.replace("\r\n", "\n") == text,
                mine_is_shown=all(line.strip() in shown for line in own),
                mine_is_in_result=token in answer.area,
                newer=int(answer.field("based_on")),
            )
            # To clear means: not what somebody added meanwhile.
            page, text = answer, text if not token else answer.area
        return 409


def _page(answer: HTTPResponse | urllib.error.HTTPError) -> Page:
    return Page(answer.status or 0, answer.read().decode())


def main(url: str, name: str, ledger: str, seed: str) -> None:
    person = Person(url, name, Path(ledger), int(seed))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        word, *arguments = line.rstrip("\n").split(" ", 2)
        if word == "clear":
            arguments = [line.rstrip("\n").partition(" ")[2]]
        sys.stdout.write(f"{getattr(person, word)(*arguments)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])

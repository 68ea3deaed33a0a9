#!/usr/bin/env python3
"""memoryhub-agent: contexts, searches and notes of a Memory Hub, for laptops and CI.

One file that needs Python 3.9 and nothing else. It reads two environment variables:

    MEMORYHUB_URL    the address of the hub, such as https://memory.example.com
    MEMORYHUB_KEY    an API key (Settings, API keys); writing needs the scope `notes`
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, Request, build_opener

try:
    import fcntl
except ImportError:  # Windows has no such locks: do not run two syncs of one file there
    fcntl = None  # type: ignore[assignment]

DEFAULT_FILE = Path(".agent") / "memories.md"
STAGED_FILE = Path(".agent") / "staged.md"
TIMEOUT = 30  # seconds
TRIES = 5

# Agent → the file with its hooks, and the event of a new session.
HOOKS = {
    "claude": (Path(".claude") / "settings.json", "SessionStart"),
    "codex": (Path(".codex") / "hooks.json", "SessionStart"),
    "cursor": (Path(".cursor") / "hooks.json", "sessionStart"),
}


class NoRedirects(HTTPRedirectHandler):
    """A redirect is an error, because the key would be sent to another address."""

    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        return None


open_url = build_opener(NoRedirects).open


class HubError(Exception):
    """A request that failed, or a file that cannot be used, with a sentence about it."""


class Hub:
    """The API of a hub, with a key."""

    def __init__(self, url: str, key: str) -> None:
        if not url or not key:
            raise HubError("Set MEMORYHUB_URL and MEMORYHUB_KEY.")
        self.url, self.key = url.rstrip("/"), key.strip()
        if not re.fullmatch("[!-~]+", self.key):
            raise HubError("MEMORYHUB_KEY is no API key: it has characters that no key has.")

    def get(self, path: str, **parameters: str) -> str:
        """Return the text of a response. Repeat the request while the hub is busy."""
        query = urlencode({name: value for name, value in parameters.items() if value})
        return self._send(self._request(f"{path}?{query}"), tries=TRIES)

    def get_json(self, path: str, **parameters: str) -> Any:
        return self._load(self.get(path, **parameters))

    def post(self, path: str, body: dict[str, Any], tries: int = 1) -> Any:
        """Return the JSON of a response. Repeat only a request that may arrive twice."""
        request = self._request(path, json.dumps(body).encode())
        request.add_header("Content-Type", "application/json")
        return self._load(self._send(request, tries))

    def _request(self, path: str, body: bytes | None = None) -> Request:
        try:
            request = Request(f"{self.url}/api/v1/{path}", body)
        except ValueError as error:
            raise HubError(f"MEMORYHUB_URL is no address with http or https: {self.url}") from error
        request.add_header("Authorization", f"Bearer {self.key}")
        return request

    def _load(self, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            raise HubError(f"{self.url} is not a Memory Hub: it did not send JSON.") from error

    def _send(self, request: Request, tries: int) -> str:
        for left in reversed(range(tries)):
            try:
                with open_url(request, timeout=TIMEOUT) as response:
                    return str(response.read().decode(errors="replace"))
            except HTTPError as error:
                wait = error.headers.get("Retry-After", "")
                if error.code in (429, 502, 503) and left:
                    time.sleep(min(float(wait) if wait.isdigit() else 2.0, TIMEOUT))
                    continue
                raise HubError(_detail(error)) from error
            except (OSError, HTTPException) as error:
                if left:
                    time.sleep(1)
                    continue
                reason = getattr(error, "reason", error)
                raise HubError(f"{self.url} cannot be reached: {reason}") from error
        raise AssertionError  # the last try returns or raises


def _detail(error: HTTPError) -> str:
    """The sentences of a problem document, else the status."""
    if 300 <= error.code < 400:
        return (
            f"The hub redirects to {error.headers['Location']}: set MEMORYHUB_URL to that address."
        )
    try:
        problem = json.loads(error.read())
        return "\n".join([f"{problem['detail']} ({error.code})", *problem.get("errors", [])])
    except (ValueError, KeyError, TypeError):
        return f"The hub answered {error.code} {error.reason}."


def sync_file(path: Path, exchange: Callable[[str, str], Any]) -> Any:
    """Make a notes file and the hub equal, and return the hub's reply.

    ``exchange(text, base)`` sends the file with the text of the last sync, and returns a dict with
    the new ``text``. The file is written before its base: a sync that is ended in between is
    repeated by the next one, which adds nothing twice and deletes nothing.
    """
    path = Path(os.path.realpath(path))
    base = path.with_name(f".{path.name}.base")
    with locked(path):
        for _ in range(TRIES):
            text = read_text(path)
            reply = exchange(text, read_text(base))
            if read_text(path) != text:  # edited meanwhile: the next try sends that as well
                continue
            replace(path, reply["text"])
            replace(base, reply["text"])
            return reply
    raise HubError(f"{path} changes too often: nothing was written to it.")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file: on one machine, one program at a time changes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(f".{path.name}.lock"), "a") as lock:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def read_text(path: Path) -> str:
    """The text of a file with its line breaks as they are, "" for one that is missing."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise HubError(f"{path} cannot be read: {error}") from error


def replace(path: Path, text: str) -> None:
    """Replace a file in one step: a reader sees the old text or the new one."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, path.stat().st_mode & 0o777 if path.exists() else 0o644)
        os.replace(temporary, path)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise HubError(f"{path} cannot be written: {error.strerror}") from error


def stage(text: str, tags: str, channel: str) -> None:
    """Append a note to the staged ones, which a branch carries until they are promoted."""
    first, *lines = text.split("\n")
    title = " ".join(first.split())[:50]
    body = "".join(f"  {line}\n" for line in lines)
    channel_line = f"- Channel: {channel}\n" if channel else ""
    date = time.strftime("%Y-%m-%d")
    entry = f"## {title}\n{channel_line}- Tags: {tags}\n- Date: {date}\n- Content: {first}\n"
    with locked(STAGED_FILE):
        before = read_text(STAGED_FILE) or "# Memories\n\n"
        replace(STAGED_FILE, f"{before}{entry}{body}\n")


def context(hub: Hub, options: Namespace) -> str:
    names = ("channel", "thread", "query", "budget", "at")
    return hub.get("context", **{name: getattr(options, name) for name in names})


def search(hub: Hub, options: Namespace) -> str:
    channel = {"in": options.channel}
    results = hub.get_json("search", q=options.words, limit=options.limit, **channel)["results"]
    lines = [f"{row['title']}\n  {row['snippet']}\n  {row['url']}" for row in results]
    return "\n".join(lines) or "Nothing matches."


def add(hub: Hub, options: Namespace) -> str:
    if options.staged:
        tags = ",".join(filter(None, (options.type, options.tags)))
        stage(options.text, tags, options.channel)
        return f"Staged in {STAGED_FILE}. `memoryhub-agent promote` adds it to the hub."
    body = {
        "content": options.text,
        "type": options.type,
        "tags": options.tags.split(","),
        "channel": options.channel,
    }
    note = hub.post("notes", {name: value for name, value in body.items() if value})
    return f"Note {note['id']} added: {note['title']}"


def notes(hub: Hub, options: Namespace) -> str:
    lines: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = hub.get_json("notes", cursor=cursor)
        lines += [f"{note['id']:>6}  {note['date']}  {note['title']}" for note in page["items"]]
        cursor = page["next"]
    return "\n".join(lines) or "There are no notes."


def sync(hub: Hub, options: Namespace) -> str:
    def exchange(text: str, base: str) -> Any:
        return hub.post("notes/sync", {"text": text, "base": base}, TRIES)

    return _summary(sync_file(options.file, exchange))


def promote(hub: Hub, options: Namespace) -> str:
    with locked(STAGED_FILE):
        text = read_text(STAGED_FILE)
        if not text.strip():
            return "Nothing is staged."
        reply = hub.post("notes/sync", {"text": text, "base": ""}, TRIES)
        if reply["conflicts"]:
            raise HubError("Kept in the staged file:\n" + "\n".join(reply["conflicts"]))
        replace(STAGED_FILE, "")
    return _summary(reply)


def _summary(reply: Any) -> str:
    counts = ", ".join(
        f"{reply[name]} {name}" for name in ("added", "updated", "deleted") if reply[name]
    )
    lines = [f"In sync: {counts or 'nothing changed'}.", *reply["conflicts"]]
    return "\n".join(lines)


def link(hub: Hub, options: Namespace) -> str:
    target, here = Path(os.path.realpath(DEFAULT_FILE)), Path(os.path.realpath(options.worktree))
    path = here / DEFAULT_FILE
    if not here.is_dir():
        raise HubError(f"{options.worktree} is no folder.")
    if os.path.realpath(path) == str(target):
        return f"{path} is this file already."
    if os.path.lexists(path):
        raise HubError(f"{path} exists; nothing was overwritten.")
    path.parent.mkdir(exist_ok=True)
    os.symlink(os.path.relpath(target, path.parent), path)
    return f"{path} links to {target}."


def hook(hub: Hub, options: Namespace) -> str:
    """Print the context in the form that an agent's hook expects."""
    text = context(hub, options)
    return json.dumps({"additional_context": text}) if options.agent == "cursor" else text


def install(hub: Hub, options: Namespace) -> str:
    """Write the hook into the project's configuration of an agent; other hooks stay."""
    path, event = HOOKS[options.agent]
    try:
        settings = json.loads(read_text(path) or "{}")
        entries = settings.setdefault("hooks", {}).setdefault(event, [])
    except (ValueError, AttributeError) as error:
        raise HubError(f"{path} is no JSON object: nothing was changed.") from error
    if not isinstance(entries, list):
        raise HubError(f"{path} has no list of hooks for {event}: nothing was changed.")
    program = shlex.quote(Path(__file__).resolve().as_posix())
    command = f"python3 {program} hook {options.agent}"
    if json.dumps(command)[1:-1] in json.dumps(entries):
        return f"{path} has this hook already."
    if options.agent == "cursor":
        settings.setdefault("version", 1)
        entries.append({"command": command})
    else:
        entries.append({"hooks": [{"type": "command", "command": command, "timeout": TIMEOUT}]})
    path.parent.mkdir(exist_ok=True)
    replace(path, json.dumps(settings, indent=2) + "\n")
    return f"{path}: a new session begins with the context."


def parser() -> argparse.ArgumentParser:
    main = argparse.ArgumentParser(prog="memoryhub-agent", description=__doc__.split("\n\n")[0])
    commands = main.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(
        run: Callable[[Hub, Namespace], str], name: str, summary: str
    ) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=summary, description=summary)
        sub.set_defaults(run=run)
        return sub

    def add_context_arguments(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("--channel", default="", help="the id or name of a channel")
        sub.add_argument("--thread", default="", help="the ts of a thread of the channel")
        sub.add_argument("--query", default="", help="a question; lines about it come first")
        sub.add_argument("--budget", default="", help="the token limit (default: 4000)")
        sub.add_argument("--at", default="", help="a past time with its zone: what was known then")

    add_context_arguments(command(context, "context", "Print the context that the key may read."))
    sub = command(search, "search", "Search notes, memories and messages.")
    sub.add_argument("words")
    sub.add_argument("--in", dest="channel", default="", help="a channel")
    sub.add_argument("--limit", default="10")
    sub = command(add, "add", "Add a note.")
    sub.add_argument("text")
    sub.add_argument("--type", default="", help="pattern, architecture, solution or your own type")
    sub.add_argument("--tags", default="", help="separated by commas")
    sub.add_argument("--channel", default="", help="the channel of the note")
    sub.add_argument("--staged", action="store_true", help=f"only write it to {STAGED_FILE}")
    command(notes, "list", "List the notes.")
    sub = command(sync, "sync", "Make a notes file and the hub equal.")
    sub.add_argument(
        "file", nargs="?", type=Path, default=DEFAULT_FILE, help=f"default: {DEFAULT_FILE}"
    )
    command(promote, "promote", f"Add the notes of {STAGED_FILE} to the hub.")
    sub = command(link, "link", f"Link {DEFAULT_FILE} of a worktree to the file in this folder.")
    sub.add_argument("worktree", type=Path)
    sub = command(hook, "hook", "Print the context for the start of an agent's session.")
    sub.add_argument("agent", choices=HOOKS)
    add_context_arguments(sub)
    sub = command(install, "install-hook", "Fetch the context when a session of an agent starts.")
    sub.add_argument("agent", choices=HOOKS)
    return main


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    needs_hub = options.run not in (link, install) and not getattr(options, "staged", False)
    try:
        url, key = os.environ.get("MEMORYHUB_URL", ""), os.environ.get("MEMORYHUB_KEY", "")
        hub = Hub(url, key) if needs_hub else None
        print(options.run(hub, options).rstrip("\n"))
    except HubError as error:
        print(f"memoryhub-agent: {error}", file=sys.stderr)
        # A session starts without the context rather than not at all.
        return 0 if options.run is hook else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

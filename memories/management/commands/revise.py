"""A memory corrected from the command line: edited, restored or pinned, over the text one saw."""

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memories.management.arguments import (
    add_json_argument,
    add_reader_argument,
    add_workspace_argument,
    document,
    editor_of,
    reader_from,
    workspace_from,
)
from memories.models import Memory, Reader, StaleBase, Unchanged, User, Workspace
from memories.rules.context.contents import NoSuchChannel, find_channel
from memories.rules.memory.identity import MemoryScope, MemoryType

_NUMBER = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?")


class Command(BaseCommand):
    help = (
        "Correct a memory: the workspace's, or that of a channel or thread. A change names the "
        "version it was made from; when there is another by now, nothing is saved and nothing "
        "is lost."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_workspace_argument(parser)
        add_reader_argument(parser)
        parser.add_argument(
            "--channel", metavar="ID_OR_NAME", help="a memory of this channel, not the workspace's"
        )
        parser.add_argument("--thread", metavar="TS", help="the memory of this thread of it")
        parser.add_argument(
            "--type",
            choices=[memory_type.value for memory_type in MemoryType],
            help="default: long_term; of a thread, which has no other, short_term",
        )
        parser.add_argument(
            "--based-on",
            metavar="N",
            type=_based_on,
            help="the version you saw, as --show tells it: 3, or 3.1 after it was made again",
        )
        do = parser.add_mutually_exclusive_group()
        do.add_argument(
            "--show", action="store_true", help="print the current text, and its number on stderr"
        )
        do.add_argument("--restore", metavar="N", type=int, help="make version N current again")
        do.add_argument(
            "--pin", metavar="LINE", type=int, help="keep this line (from 1) word for word"
        )
        do.add_argument("--unpin", metavar="LINE", type=int, help="no longer keep this line so")
        do.add_argument(
            "file", nargs="?", default="-", help="the whole new text; - or nothing: from stdin"
        )
        add_json_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        self.as_json = options["json"]
        workspace, reader = workspace_from(options), reader_from(options)
        memory = _memory(workspace, reader, options)
        if options["show"]:
            self._show(memory)
            return
        if options["based_on"] is None:
            raise CommandError(
                "Say which version you made your change from: --based-on N, as --show tells it."
            )
        by = editor_of(workspace, reader)
        if options["restore"] is not None:
            self._restore(memory, by, options)
        elif options["pin"] is not None or options["unpin"] is not None:
            self._pin(memory, by, options)
        else:
            self._edit(memory, by, options)

    def _show(self, memory: Memory) -> None:
        if self.as_json:
            self._answer(memory, "shown")
            return
        current = memory.current
        if current:
            self.stdout.write(current.content)
        self.stderr.write(f"Version {_seen(memory)}. Save over it with --based-on {_seen(memory)}.")

    def _edit(self, memory: Memory, by: User | None, options: dict[str, Any]) -> None:
        text = _read(options["file"])
        number, revision = options["based_on"]
        try:
            version = memory.revise(text, by=by, based_on=number, revision=revision)
        except Unchanged:
            self._say(memory, "unchanged", f"Nothing is different from version {number}.")
        except ValueError as error:
            raise CommandError(str(error)) from error
        except StaleBase:
            self._keep(memory, text, options)
        else:
            self._say(memory, "saved", f"Saved as version {version.number}.")

    def _keep(self, memory: Memory, text: str, options: dict[str, Any]) -> None:
        """Refused, but not lost: what came through a pipe goes on to stdout."""
        from_pipe = options["file"] == "-"
        memory.refresh_from_db()
        if self.as_json:
            self._answer(memory, "stale", yours=text)
        elif from_pipe:
            self.stdout.write(text, ending="" if text.endswith("\n") else "\n")
        where = "on stdout" if from_pipe or self.as_json else f"in {options['file']}"
        raise CommandError(
            f"Nothing was saved: you had version {options['based_on'][0]}, and the current one is "
            f"{_seen(memory)}. Your text is {where}, the current one comes with --show. Put them "
            f"together, then save with --based-on {_seen(memory)}."
        )

    def _restore(self, memory: Memory, by: User | None, options: dict[str, Any]) -> None:
        readable = memory.versions.visible_to(reader_from(options))
        old = readable.filter(number=options["restore"]).first()
        if old is None:
            raise CommandError(f"There is no version {options['restore']} of this memory.")
        try:
            number, revision = options["based_on"]
            version = memory.restore(old, by=by, based_on=number, revision=revision)
        except Unchanged:
            self._say(memory, "unchanged", "This is the current text already.")
        except StaleBase:
            self._refuse(memory, "restored", options)
        else:
            news = f"Version {old.number} is current again, as version {version.number}."
            self._say(memory, "restored", news)

    def _pin(self, memory: Memory, by: User | None, options: dict[str, Any]) -> None:
        pinned = options["pin"] is not None
        line = options["pin"] if pinned else options["unpin"]
        number, revision = options["based_on"]
        try:
            changed = memory.pin(line - 1, by=by, based_on=number, revision=revision, pinned=pinned)
        except LookupError as error:
            raise CommandError(f"There is no line {line} in version {number}.") from error
        except StaleBase:
            self._refuse(memory, "pinned" if pinned else "unpinned", options)
        else:
            done = "pinned" if pinned else "unpinned"
            news = f"Line {line} is {done}." if changed else f"Line {line} was {done} already."
            self._say(memory, done if changed else "unchanged", news)

    def _refuse(self, memory: Memory, what: str, options: dict[str, Any]) -> None:
        memory.refresh_from_db()
        if self.as_json:
            self._answer(memory, "stale")
        raise CommandError(
            f"Nothing was {what}: you had version {options['based_on'][0]}, and the current one is "
            f"{_seen(memory)}. Look at it with --show, then try again."
        )

    def _say(self, memory: Memory, done: str, words: str) -> None:
        if self.as_json:
            self._answer(memory, done)
        else:
            self.stdout.write(words)

    def _answer(self, memory: Memory, done: str, *, yours: str = "") -> None:
        memory.refresh_from_db()
        current = memory.current
        lines = current.lines.all() if current else []
        answer = {
            "memory": str(memory),
            "done": done,
            "version": _seen(memory),
            "text": current.content if current else "",
            "lines": [
                {"line": i, "text": line.text, "by": line.origin, "pinned": line.pinned}
                for i, line in enumerate(lines, 1)
            ],
            "yours": yours,
        }
        self.stdout.write(document(answer))


def _memory(workspace: Workspace, reader: Reader, options: dict[str, Any]) -> Memory:
    """The memory that the options name, among those that the reader may read."""
    thread_ts, channel_name = options["thread"] or "", options["channel"]
    if thread_ts and not channel_name:
        raise CommandError("--thread needs --channel.")
    scope = MemoryScope.WORKSPACE
    memories = Memory.objects.visible_to(reader).with_current().filter(workspace=workspace)
    if channel_name:
        names = workspace.channels.visible_to(reader).names()
        try:
            memories = memories.filter(channel__slack_id=find_channel(names, channel_name))
        except NoSuchChannel as error:
            raise CommandError(str(error)) from error
        scope = MemoryScope.THREAD if thread_ts else MemoryScope.CHANNEL
    of_thread = MemoryType.SHORT_TERM if thread_ts else MemoryType.LONG_TERM
    memory_type = MemoryType(options["type"] or of_thread)
    memory = memories.filter(scope=scope, thread_ts=thread_ts, memory_type=memory_type).first()
    if memory is None:
        raise CommandError("There is no such memory yet: a pass makes the first text.")
    return memory


def _based_on(given: str) -> tuple[int, int]:
    """``3`` or ``3.1``: a version's number, and how often it had been rewritten in place."""
    match = _NUMBER.fullmatch(given)
    if match is None:
        raise argparse.ArgumentTypeError(f"{given!r} is no version: 3, or 3.1")
    return int(match[1]), int(match[2] or 0)


def _seen(memory: Memory) -> str:
    """What --based-on takes."""
    current = memory.current
    if current is None:
        return "0"
    return f"{current.number}.{current.revision}" if current.revision else str(current.number)


def _read(file: str) -> str:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise CommandError(f"{file} cannot be read: {error}") from error
    return text.replace("\0", "")  # which PostgreSQL cannot keep

"""Edit, restore or pin a memory, based on a version that the user has seen."""

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memories.management import arguments
from memories.models import Memory, Reader, StaleBase, Unchanged, User, Workspace
from memories.rules.memory.identity import MemoryScope, MemoryType

_NUMBER = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?")


class Command(BaseCommand):
    help = (
        "Edit, restore or pin the memory of a workspace, a channel or a thread. A change names the "
        "version that it is based on. If there is a newer one, nothing is saved, and the new text is "
        "printed."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_workspace(parser)
        arguments.add_reader(parser)
        parser.add_argument(
            "--channel",
            metavar="ID_OR_NAME",
            help="the memory of this channel instead of the workspace",
        )
        parser.add_argument(
            "--thread", metavar="TS", help="the memory of this thread of the channel"
        )
        parser.add_argument(
            "--type",
            choices=[memory_type.value for memory_type in MemoryType],
            help="default: long_term, or short_term for a thread",
        )
        parser.add_argument(
            "--based-on",
            metavar="N",
            type=version_number,
            help="the version from --show: 3, or 3.1 after it was written again",
        )
        change = parser.add_mutually_exclusive_group()
        change.add_argument(
            "--show", action="store_true", help="print the current text, and its version on stderr"
        )
        change.add_argument("--restore", metavar="N", type=int, help="make version N current again")
        change.add_argument(
            "--pin", metavar="LINE", type=int, help="pin this line (the first is 1)"
        )
        change.add_argument("--unpin", metavar="LINE", type=int, help="unpin this line")
        change.add_argument(
            "file", nargs="?", default="-", help="the file with the new text; default: stdin"
        )
        arguments.add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        self.as_json = options["json"]
        workspace, reader = arguments.workspace_from(options), arguments.reader_from(options)
        memory = _memory(workspace, reader, options)
        if options["show"]:
            self._show(memory)
            return
        if options["based_on"] is None:
            raise CommandError(
                "Say which version you made your change from: --based-on N, as --show tells it."
            )
        by = arguments.editor_of(workspace, reader)
        if options["restore"] is not None:
            self._restore(memory, by, options)
        elif options["pin"] is not None or options["unpin"] is not None:
            self._pin(memory, by, options)
        else:
            self._edit(memory, by, options)

    def _show(self, memory: Memory) -> None:
        if self.as_json:
            self._print_json(memory, "shown")
            return
        current = memory.current
        if current:
            self.stdout.write(current.content)
        self.stderr.write(
            f"Version {_version_of(memory)}. Save over it with --based-on {_version_of(memory)}."
        )

    def _edit(self, memory: Memory, by: User | None, options: dict[str, Any]) -> None:
        text = _read_text(options["file"])
        number, revision = options["based_on"]
        try:
            version = memory.revise(text, by=by, based_on=number, revision=revision)
        except Unchanged:
            self._report(memory, "unchanged", f"There is no difference from version {number}.")
        except ValueError as error:
            raise CommandError(str(error)) from error
        except StaleBase:
            self._refuse_edit(memory, text, options)
        else:
            self._report(memory, "saved", f"Saved as version {version.number}.")

    def _refuse_edit(self, memory: Memory, text: str, options: dict[str, Any]) -> None:
        """Print a text from stdin, so that it is not lost."""
        is_from_stdin = options["file"] == "-"
        memory.refresh_from_db()
        if self.as_json:
            self._print_json(memory, "stale", yours=text)
        elif is_from_stdin:
            self.stdout.write(text, ending="" if text.endswith("\n") else "\n")
        where = "on stdout" if is_from_stdin or self.as_json else f"in {options['file']}"
        raise CommandError(
            f"Nothing was saved: you had version {options['based_on'][0]}, and the current one is "
            f"{_version_of(memory)}. Your text is {where}, the current one comes with --show. Put them "
            f"together, then save with --based-on {_version_of(memory)}."
        )

    def _restore(self, memory: Memory, by: User | None, options: dict[str, Any]) -> None:
        readable = memory.versions.visible_to(arguments.reader_from(options))
        old = readable.filter(number=options["restore"]).first()
        if old is None:
            raise CommandError(f"There is no version {options['restore']} of this memory.")
        try:
            number, revision = options["based_on"]
            version = memory.restore(old, by=by, based_on=number, revision=revision)
        except Unchanged:
            self._report(memory, "unchanged", "This is already the current text.")
        except StaleBase:
            self._refuse(memory, "restored", options)
        else:
            text = f"Version {old.number} is current again, as version {version.number}."
            self._report(memory, "restored", text)

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
            result = "pinned" if pinned else "unpinned"
            text = (
                f"Line {line} {'is' if changed else 'was'} {result}{'' if changed else ' already'}."
            )
            self._report(memory, result if changed else "unchanged", text)

    def _refuse(self, memory: Memory, change: str, options: dict[str, Any]) -> None:
        memory.refresh_from_db()
        if self.as_json:
            self._print_json(memory, "stale")
        raise CommandError(
            f"Nothing was {change}: you had version {options['based_on'][0]}, and the current one is "
            f"{_version_of(memory)}. Look at it with --show, then try again."
        )

    def _report(self, memory: Memory, result: str, text: str) -> None:
        if self.as_json:
            self._print_json(memory, result)
        else:
            self.stdout.write(text)

    def _print_json(self, memory: Memory, result: str, *, yours: str = "") -> None:
        memory.refresh_from_db()
        current = memory.current
        lines = current.lines.all() if current else []
        report = {
            "memory": f"{memory.scope}:{memory.scope_id}:{memory.memory_type}",
            "done": result,
            "version": _version_of(memory),
            "text": current.content if current else "",
            "lines": [
                {"line": i, "text": line.text, "by": line.origin, "pinned": line.pinned}
                for i, line in enumerate(lines, 1)
            ],
            "yours": yours,
        }
        self.stdout.write(arguments.document(report))


def _memory(workspace: Workspace, reader: Reader, options: dict[str, Any]) -> Memory:
    """Return the readable memory that the options name."""
    thread_ts, channel_name = options["thread"] or "", options["channel"]
    if thread_ts and not channel_name:
        raise CommandError("--thread needs --channel.")
    scope = MemoryScope.WORKSPACE
    memories = Memory.objects.visible_to(reader).with_current().filter(workspace=workspace)
    if channel_name:
        memories = memories.filter(channel=arguments.get_channel(workspace, reader, channel_name))
        scope = MemoryScope.THREAD if thread_ts else MemoryScope.CHANNEL
    default = MemoryType.SHORT_TERM if thread_ts else MemoryType.LONG_TERM
    memory_type = MemoryType(options["type"] or default)
    memory = memories.filter(scope=scope, thread_ts=thread_ts, memory_type=memory_type).first()
    if memory is None:
        raise CommandError("There is no such memory yet. A pass writes the first one.")
    return memory


def version_number(text: str) -> tuple[int, int]:
    """Parse ``3`` or ``3.1``: the number of a version and its revision."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no version: 3, or 3.1")
    return int(match[1]), int(match[2] or 0)


def _version_of(memory: Memory) -> str:
    """Return the current version for --based-on."""
    current = memory.current
    if current is None:
        return "0"
    return f"{current.number}.{current.revision}" if current.revision else str(current.number)


def _read_text(file: str) -> str:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise CommandError(f"{file} cannot be read: {error}") from error
    return text.replace("\0", "")  # PostgreSQL cannot store it

"""Add, search, list, show, edit, delete, export, import, link and sync notes (S4)."""

import argparse
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from memories.agent import STAGED_FILE, HubError, locked, replace, stage, sync_file
from memories.management.arguments import (
    add_reader_argument,
    add_workspace_argument,
    document,
    reader_from,
    workspace_from,
)
from memories.models import Channel, Note, NotesDisabled, Reader, User, Workspace
from memories.models.access.audience import readable_workspaces
from memories.pipeline.notes import files
from memories.rules.context.contents import NoSuchChannel, find_channel
from memories.rules.ingest.invisible import mark_invisible
from memories.rules.notes.fields import KINDS, InvalidNote
from memories.rules.notes.notes_file import LARGE, Fate

COLUMNS = ("id", "date", "type", "tags", "channel", "title")


class Command(BaseCommand):
    help = (
        "Notes: lasting statements that people and agents write down. Where notes are switched "
        "off (notes_enabled) nothing is shown, written or removed."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

        def action(name: str, summary: str) -> argparse.ArgumentParser:
            sub: argparse.ArgumentParser = actions.add_parser(
                name, help=summary, description=summary
            )
            add_workspace_argument(sub)
            add_reader_argument(sub)
            sub.add_argument(
                "--format", choices=("table", "json"), default="table", help="default: table"
            )
            return sub

        add = action("add", "Write a note. Its title is made from the first 50 characters.")
        add.add_argument("content", help="the whole text, word for word")
        add.add_argument("-t", "--type", choices=KINDS, default="", help="also the first tag")
        add.add_argument("--tags", default="", help="parted by commas")
        add.add_argument(
            "--channel", metavar="ID_OR_NAME", help="a note of this channel, not of the workspace"
        )
        add.add_argument(
            "--staged", action="store_true", help=f"only write it to {STAGED_FILE}; see promote"
        )
        action("promote", f"Take in the notes of {STAGED_FILE}, and empty it.")
        search = action("search", "Notes whose title, content or tags hold the words.")
        search.add_argument("query", help="words that stand in the note, whatever the case")
        action("list", "All notes.")
        show = action("show", "Show a note, with its whole text.")
        edit = action(
            "edit", "Replace the text of a note. The text from before stays as a version."
        )
        delete = action("delete", "Move a note into the trash.")
        for sub in (show, edit, delete):
            sub.add_argument("id", type=int, help="as `list` shows it")
        edit.add_argument("content", help="the whole text, word for word")
        edit.add_argument("--tags", help="separated by commas; left out, they stay as they are")
        export = action("export", "Write all notes into a file, memories.md.")
        load = action("import", "Take in the notes of a file; none is ever removed.")
        sync = action(
            "sync", "Make a file and the notes equal: changes and deletions of both sides count."
        )
        for sub in (export, load, sync):
            sub.add_argument(
                "file",
                nargs="?",
                type=Path,
                default=files.DEFAULT_FILE,
                help=f"default: {files.DEFAULT_FILE} in the current folder",
            )
        link = action(
            "link",
            f"Make WORKTREE/{files.DEFAULT_FILE} a link to the file in the current folder, the "
            "main checkout; that one is exported first where it is missing.",
        )
        link.add_argument("worktree", type=Path, help="a folder that is there")

    def handle(self, *args: Any, **options: Any) -> None:
        self.as_json = options["format"] == "json"
        workspace, reader = workspace_from(options), reader_from(options)
        name = "show_note" if options["action"] == "show" else options["action"]
        run = getattr(self, f"_{name}")
        try:
            run(workspace, reader, options)
        except NotesDisabled as error:
            self._warn(f"{error} Nothing was done.")
            if self.as_json:
                self.stdout.write("null")
        except (InvalidNote, NoSuchChannel, files.NotesFileError, HubError) as error:
            raise CommandError(str(error)) from error

    def _add(self, workspace: Workspace, reader: Reader, options: dict[str, Any]) -> None:
        if options["staged"]:
            stage(options["content"], ",".join(filter(None, (options["type"], options["tags"]))))
            self.stdout.write(f"Staged in {STAGED_FILE}.")
            return
        channel = self._channel(workspace, reader, options["channel"])
        if channel is None:
            _must_read(workspace, reader)
        note = Note.objects.write(
            workspace,
            options["content"],
            tags=options["tags"].split(","),
            kind=options["type"],
            channel=channel,
            author=_author(reader),
            now=timezone.now(),
        )
        if self.as_json:
            self.stdout.write(document(note.value.as_json()))
        else:
            self.stdout.write(f"Note {note.pk} added: {mark_invisible(note.title)}")

    def _search(self, workspace: Workspace, reader: Reader, options: dict[str, Any]) -> None:
        notes = Note.objects.in_use(workspace).visible_to(reader)
        self._show(workspace, notes.search(options["query"]))

    def _list(self, workspace: Workspace, reader: Reader, options: dict[str, Any]) -> None:
        self._show(workspace, Note.objects.in_use(workspace).visible_to(reader))

    def _show_note(self, workspace: Workspace, reader: Reader, options: dict[str, Any]) -> None:
        note = _note(workspace, reader, options["id"])
        if self.as_json:
            self.stdout.write(document(note.value.as_json()))
        else:
            self._show(workspace, [note])
            self.stdout.write(f"\n{mark_invisible(note.content)}")

    def _edit(self, workspace: Workspace, reader: Reader, options: dict[str, Any]) -> None:
        note = _note(workspace, reader, options["id"])
        tags = note.tags if options["tags"] is None else options["tags"].split(",")
        changed = note.rewrite(options["content"], tags=tags, by=_author(reader))
        if self.as_json:
            self.stdout.write(document(note.value.as_json()))
        elif changed:
            self.stdout.write(f"Note {note.pk} is at version {note.number}.")
        else:
            self.stdout.write(f"Note {note.pk} has this text already.")

    def _delete(self, workspace: Workspace, reader: Reader, options: dict[str, Any]) -> None:
        _note(workspace, reader, options["id"]).remove(by=_author(reader))
        if self.as_json:
            self.stdout.write(document({"deleted": options["id"]}))
        else:
            self.stdout.write(f"Note {options['id']} deleted.")

    def _export(self, workspace: Workspace, reader: Reader, options: dict[str, Any]) -> None:
        count, size = files.export_notes(workspace, reader, options["file"])
        self._warn_if_large(size)
        if self.as_json:
            report = {"file": str(options["file"]), "notes": count, "bytes": size}
            self.stdout.write(document(report))
        else:
            self.stdout.write(f"{count} notes written to {options['file']}.")

    def _import(self, workspace: Workspace, reader: Reader, options: dict[str, Any]) -> None:
        _must_read(workspace, reader)
        done = files.import_notes(
            workspace, reader, options["file"], author=_author(reader), now=timezone.now()
        )
        self._warn_if_large(done.size)
        if self.as_json:
            self.stdout.write(document(done.as_json()))
        else:
            counts = ", ".join(f"{done.fates[fate]} {fate}" for fate in Fate if done.fates[fate])
            self.stdout.write(f"{options['file']}: {counts or 'no notes'}.")
        if done.conflicts:
            raise CommandError("Not taken in:\n" + "\n".join(done.conflicts))

    def _sync(self, workspace: Workspace, reader: Reader, options: dict[str, Any]) -> None:
        _must_read(workspace, reader)

        def exchange(text: str, base: str) -> dict[str, Any]:
            done = files.sync_text(
                workspace, reader, text, base, author=_author(reader), now=timezone.now()
            )
            return done.as_json() | {"text": done.text, "deleted": done.deleted}

        reply = sync_file(options["file"], exchange)
        if self.as_json:
            del reply["text"]
            self.stdout.write(document(reply))
        else:
            counts = [
                f"{reply[name]} {name}" for name in ("added", "updated", "deleted") if reply[name]
            ]
            self.stdout.write(f"{options['file']}: {', '.join(counts) or 'nothing changed'}.")
        for conflict in reply["conflicts"]:
            self._warn(conflict)

    def _promote(self, workspace: Workspace, reader: Reader, options: dict[str, Any]) -> None:
        with locked(STAGED_FILE):
            self._import(workspace, reader, options | {"file": STAGED_FILE})
            replace(STAGED_FILE, "")

    def _link(self, workspace: Workspace, reader: Reader, options: dict[str, Any]) -> None:
        made = files.link_worktree(workspace, reader, Path.cwd(), options["worktree"])
        link = options["worktree"] / files.DEFAULT_FILE
        if self.as_json:
            self.stdout.write(document({"link": str(link), "made": made}))
        else:
            self.stdout.write(f"{link} {'made' if made else 'was there already'}.")

    def _channel(
        self, workspace: Workspace, reader: Reader, channel_name: str | None
    ) -> Channel | None:
        if not channel_name:
            return None
        channels = workspace.channels.visible_to(reader)
        return channels.get(slack_id=find_channel(channels.names(), channel_name))

    def _show(self, workspace: Workspace, notes: Iterable[Note]) -> None:
        if self.as_json:
            self.stdout.write(document([note.value.as_json() for note in notes]))
            return
        rows = [
            (
                str(note.pk),
                str(note.date),
                note.kind,
                ", ".join(note.tags),
                str(note.channel or ""),
                note.title,
            )
            for note in notes
        ]
        if rows:
            self.stdout.write(_table(rows))
        elif workspace.memory_settings.notes_enabled:
            self.stdout.write("There are no such notes.")
        else:
            self.stdout.write("Notes are switched off in this workspace.")

    def _warn(self, message: str) -> None:
        self.stderr.write(self.style.WARNING(f"Warning: {message}"))

    def _warn_if_large(self, size: int) -> None:
        if size > LARGE:
            self._warn(f"the file has {size / 1024 / 1024:.1f} MiB, more than 10: thin it out.")


def _note(workspace: Workspace, reader: Reader, pk: int) -> Note:
    """The note of an id. Raises NotesDisabled, or CommandError when the reader sees no such note."""
    if not workspace.memory_settings.notes_enabled:
        raise NotesDisabled
    note = workspace.notes.visible_to(reader).filter(pk=pk).first()
    if note is None:
        raise CommandError(f"There is no note {pk}.")
    return note


def _must_read(workspace: Workspace, reader: Reader) -> None:
    """Nobody writes where they may not read."""
    readable = readable_workspaces(reader)
    if not readable.filter(pk=workspace.pk).exists():
        raise CommandError("This user may not read the workspace's notes, nor write any.")


def _author(reader: Reader) -> User | None:
    return User.objects.get(pk=reader.user_id) if reader.user_id else None


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side, also where letters are two cells wide; nothing hidden in them."""
    cells = [COLUMNS, *([mark_invisible(cell) for cell in row] for row in rows)]
    widths = [max(_width(row[i]) for row in cells) for i in range(len(COLUMNS))]
    return "\n".join(
        "  ".join(c + " " * (w - _width(c)) for c, w in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)

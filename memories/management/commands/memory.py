"""Add, search, list, show, edit, delete, export, import, link and sync notes (S4)."""

import argparse
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from memories.agent import DEFAULT_FILE, STAGED_FILE, HubError, locked, replace, stage, sync_file
from memories.management import arguments
from memories.models import Note, NotesDisabled, Reader, Workspace
from memories.models.access.audience import readable_workspaces
from memories.pipeline.notes import files
from memories.rules.ingest.invisible import mark_invisible
from memories.rules.notes.fields import FLAGS, InvalidNote
from memories.rules.notes.notes_file import LARGE, Outcome

COLUMNS = ("id", "date", "type", "tags", "channel", "title")


class Command(BaseCommand):
    help = (
        "Notes: lasting statements by people and agents. If the workspace has switched off notes "
        "(notes_enabled), the command changes and shows nothing."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

        def action(name: str, summary: str) -> argparse.ArgumentParser:
            sub = arguments.add_action(actions, name, summary)
            arguments.add_workspace(sub)
            arguments.add_reader(sub)
            sub.add_argument(
                "--format",
                choices=("table", "json"),
                default="table",
                help="default: %(default)s",
            )
            return sub

        add = action("add", "Add a note. Its title is the first 50 characters.")
        add.add_argument("content", help="the text")
        add.add_argument("--tags", default="", help="tags, separated by commas")
        add.add_argument(
            "--channel", metavar="ID_OR_NAME", help="add it to this channel, not the workspace"
        )
        add.add_argument(
            "--staged", action="store_true", help=f"only write it to {STAGED_FILE}; see promote"
        )
        action("promote", f"Import the notes of {STAGED_FILE}, and empty the file.")
        search = action("search", "List the notes whose title, text or tags contain the words.")
        search.add_argument("query", help="words of the note, without regard to case")
        action("list", "List all notes.")
        show = action("show", "Show a note with its complete text.")
        edit = action("edit", "Change a note. The old text stays as a version.")
        delete = action("delete", "Move a note to the trash.")
        for sub in (show, edit, delete):
            sub.add_argument("id", type=int, help="the number from `list`")
        edit.add_argument("content", nargs="?", help="the new text; default: the same text")
        edit.add_argument("--tags", help="tags, separated by commas; default: the same tags")
        for sub in (add, edit):
            sub.add_argument(
                *("-t", "--type"), default="", help="the type, also the first tag; see note_types"
            )
            _add_flags(sub)
        export = action("export", "Write all notes into a file.")
        load = action("import", "Import the notes of a file. No note is deleted.")
        sync = action(
            "sync", "Make a file and the notes equal, with the changes and deletions of both."
        )
        for sub in (export, load, sync):
            sub.add_argument(
                "file",
                nargs="?",
                type=Path,
                default=DEFAULT_FILE,
                help=f"the file; default: {DEFAULT_FILE} in the current folder",
            )
        link = action(
            "link",
            f"Create WORKTREE/{DEFAULT_FILE} as a link to the file in the current folder, the "
            "main checkout. Export that file first if it does not exist.",
        )
        link.add_argument("worktree", type=Path, help="an existing folder")

    def handle(self, *args: Any, **options: Any) -> None:
        self.as_json = options["format"] == "json"
        workspace, reader = arguments.workspace_from(options), arguments.reader_from(options)
        handler = getattr(self, f"_{options['action']}")
        try:
            handler(workspace, reader, options)
        except NotesDisabled as error:
            self._warn(f"{error} Nothing was done.")
            if self.as_json:
                self.stdout.write("null")
        except (InvalidNote, files.NotesFileError, HubError) as error:
            raise CommandError(str(error)) from error

    def _add(self, workspace: Workspace, reader: Reader, options: dict[str, Any]) -> None:
        flags = _flags_from(options)
        if options["staged"]:
            if flags:
                raise CommandError("A staged note has no pin and no day of review: add them later.")
            tags = ",".join(filter(None, (options["type"], options["tags"])))
            stage(options["content"], tags, options["channel"] or "")
            self._print({"file": str(STAGED_FILE)}, f"Staged in {STAGED_FILE}.")
            return
        channel = None
        if options["channel"]:
            channel = arguments.get_channel(workspace, reader, options["channel"])
        else:
            _require_reader(workspace, reader)
        note = Note.objects.write(
            workspace,
            options["content"],
            tags=options["tags"].split(","),
            kind=options["type"],
            channel=channel,
            author=arguments.user_of(reader),
            now=timezone.now(),
            **flags,
        )
        self._print(_document(note), f"Note {note.pk} added: {mark_invisible(note.title)}")

    def _search(self, workspace: Workspace, reader: Reader, options: dict[str, Any]) -> None:
        notes = Note.objects.in_use(workspace).visible_to(reader)
        self._print_notes(workspace, notes.search(options["query"]))

    def _list(self, workspace: Workspace, reader: Reader, options: dict[str, Any]) -> None:
        self._print_notes(workspace, Note.objects.in_use(workspace).visible_to(reader))

    def _show(self, workspace: Workspace, reader: Reader, options: dict[str, Any]) -> None:
        note = _get_note(workspace, reader, options["id"])
        text = f"{_table([note])}\n\n{mark_invisible(note.content)}"
        self._print(_document(note), text)

    def _edit(self, workspace: Workspace, reader: Reader, options: dict[str, Any]) -> None:
        note = _get_note(workspace, reader, options["id"])
        flags = _flags_from(options)
        if options["content"] is options["tags"] is None and not (options["type"] or flags):
            raise CommandError("Give a new text or an option: nothing is changed.")
        if options["tags"] is not None:
            tags = options["tags"].split(",")
        else:  # a new type replaces the old one, which is a tag too
            tags = [tag for tag in note.tags if not options["type"] or tag != note.kind]
        is_new = note.rewrite(
            note.content if options["content"] is None else options["content"],
            tags=tags,
            kind=options["type"],
            by=arguments.user_of(reader),
        )
        if flags:
            note.set_flags(**flags)
        if is_new:
            text = f"Note {note.pk} is at version {note.number}."
        elif flags:
            text = f"Note {note.pk} is changed."
        else:
            text = f"Note {note.pk} has this text already."
        self._print(_document(note), text)

    def _delete(self, workspace: Workspace, reader: Reader, options: dict[str, Any]) -> None:
        _get_note(workspace, reader, options["id"]).remove(by=arguments.user_of(reader))
        self._print({"deleted": options["id"]}, f"Note {options['id']} deleted.")

    def _export(self, workspace: Workspace, reader: Reader, options: dict[str, Any]) -> None:
        count, size = files.export_notes(workspace, reader, options["file"])
        self._warn_if_large(size)
        report = {"file": str(options["file"]), "notes": count, "bytes": size}
        self._print(report, f"{count} notes written to {options['file']}.")

    def _import(self, workspace: Workspace, reader: Reader, options: dict[str, Any]) -> None:
        _require_reader(workspace, reader)
        done = files.import_notes(
            workspace, reader, options["file"], author=arguments.user_of(reader), now=timezone.now()
        )
        self._warn_if_large(done.size)
        counts = ", ".join(f"{done.outcomes[x]} {x}" for x in Outcome if done.outcomes[x])
        self._print(done.as_json(), f"{options['file']}: {counts or 'no notes'}.")
        if done.conflicts:
            raise CommandError("Not taken in:\n" + "\n".join(done.conflicts))

    def _sync(self, workspace: Workspace, reader: Reader, options: dict[str, Any]) -> None:
        _require_reader(workspace, reader)

        def exchange(text: str, base: str) -> dict[str, Any]:
            done = files.sync_text(
                workspace, reader, text, base, author=arguments.user_of(reader), now=timezone.now()
            )
            return done.as_json() | {"text": done.text, "deleted": done.deleted}

        reply = sync_file(options["file"], exchange)
        del reply["text"]
        counts = [
            f"{reply[name]} {name}" for name in ("added", "updated", "deleted") if reply[name]
        ]
        self._print(reply, f"{options['file']}: {', '.join(counts) or 'nothing changed'}.")
        for conflict in reply["conflicts"]:
            self._warn(conflict)

    def _promote(self, workspace: Workspace, reader: Reader, options: dict[str, Any]) -> None:
        with locked(STAGED_FILE):
            self._import(workspace, reader, options | {"file": STAGED_FILE})
            replace(STAGED_FILE, "")

    def _link(self, workspace: Workspace, reader: Reader, options: dict[str, Any]) -> None:
        is_new = files.link_worktree(workspace, reader, Path.cwd(), options["worktree"])
        link = options["worktree"] / DEFAULT_FILE
        text = f"{link} {'made' if is_new else 'already exists'}."
        self._print({"link": str(link), "made": is_new}, text)

    def _print(self, data: Any, text: str) -> None:
        self.stdout.write(arguments.document(data) if self.as_json else text)

    def _print_notes(self, workspace: Workspace, notes: Iterable[Note]) -> None:
        notes = list(notes)
        if notes:
            text = _table(notes)
        elif workspace.memory_settings.notes_enabled:
            text = "There are no such notes."
        else:
            text = "Notes are switched off in this workspace."
        self._print([_document(note) for note in notes], text)

    def _warn(self, message: str) -> None:
        self.stderr.write(self.style.WARNING(f"Warning: {message}"))

    def _warn_if_large(self, size: int) -> None:
        if size > LARGE:
            self._warn(
                f"the file has {size / 1024 / 1024:.1f} MiB, more than 10: delete notes from it."
            )


def _add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the options of `Note.set_flags`. One that is left out is not in the options."""
    for option, name, summary in (
        ("pinned", "is_pinned", "first in lists and contexts"),
        ("in-context", "in_context", "in the contexts of bots and agents"),
    ):
        for prefix, value in (("", True), ("not-", False)):
            parser.add_argument(
                f"--{prefix}{option}",
                dest=name,
                action="store_const",
                const=value,
                default=argparse.SUPPRESS,
                help=f"{prefix.replace('-', ' ')}{summary}",
            )
    parser.add_argument(
        "--review-on",
        metavar="DATE",
        default=argparse.SUPPRESS,
        help="the day to review the note, YYYY-MM-DD; an empty one removes it",
    )


def _flags_from(options: dict[str, Any]) -> dict[str, Any]:
    """Return the given flags of a note. Raise ``CommandError`` for an invalid day."""
    flags = {name: options[name] for name in FLAGS if name in options}
    if "review_on" in flags:
        day = flags["review_on"]
        try:
            flags["review_on"] = date.fromisoformat(day) if day else None
        except ValueError as error:
            raise CommandError(f"--review-on: {error}") from error
    return flags


def _document(note: Note) -> dict[str, Any]:
    return note.value.as_json() | {name: getattr(note, name) for name in FLAGS}


def _get_note(workspace: Workspace, reader: Reader, pk: int) -> Note:
    """Return a readable note. Raise ``NotesDisabled``, or ``CommandError`` if there is none."""
    if not workspace.memory_settings.notes_enabled:
        raise NotesDisabled
    note = workspace.notes.visible_to(reader).filter(pk=pk).first()
    if note is None:
        raise CommandError(f"There is no note {pk}.")
    return note


def _require_reader(workspace: Workspace, reader: Reader) -> None:
    """Raise ``CommandError`` if the reader may not read the notes."""
    if not readable_workspaces(reader).filter(pk=workspace.pk).exists():
        raise CommandError("This user may not read or write the notes of the workspace.")


def _table(notes: Iterable[Note]) -> str:
    """Return the columns of the notes, with a mark for each invisible character."""
    return arguments.table([COLUMNS, *(tuple(map(mark_invisible, _cells(note))) for note in notes)])


def _cells(note: Note) -> Sequence[str]:
    channel = str(note.channel or "")
    return str(note.pk), str(note.date), note.kind, ", ".join(note.tags), channel, note.title

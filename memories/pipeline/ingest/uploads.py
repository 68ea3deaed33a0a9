"""Uploaded exports: store the file, inspect it, import the chosen part.

The row holds the choice and the progress. A task that was killed sends no heartbeat: another one
starts again, and objects that are stored already count as duplicates.
"""

import logging
import secrets
import shutil
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from memories.models import ModelServer, Upload, UploadInProgress, User, Workspace
from memories.pipeline.ingest.importing import WrongTeam, import_export
from memories.pipeline.ingest.inspecting import broken_files, inspect
from memories.pipeline.locks import Busy
from memories.rules.costs.estimate import Range, estimate_time_left
from memories.rules.ingest.invisible import mark_invisible
from memories.rules.ingest.outcomes import Result
from memories.slack.export import Export, ExportFolder, NotAnExport
from memories.slack.refusals import SENTENCES, refusal_sentence

logger = logging.getLogger(__name__)

REPORT_EVERY = 0.5  # seconds
ORPHAN_AGE = timedelta(days=1)  # after which a folder without a row is deleted

# Faults of an upload. Any other fault is a code of `refusals.SENTENCES`.
WRONG_TEAM = "wrong_team"
FILE_GONE = "file_gone"
GAVE_UP = "gave_up"


class UploadRefused(Exception):
    """The file is no export or may do harm; the text names the reason and a remedy."""


class _Stopped(Exception):
    """A person paused or cancelled the upload during its processing."""


def store_upload(slug: str, name: str, chunks: Iterable[bytes], *, by: User) -> Upload:
    """Store a file that can be an export, without unpacking it, and create its row.

    Raise `UploadRefused` or `UploadInProgress`, and store nothing then.
    """
    if Upload.objects.unfinished().filter(slug=slug).exists():
        raise UploadInProgress
    folder = secrets.token_hex(8)
    path = Upload(folder=folder).path
    path.parent.mkdir(parents=True, mode=0o700)
    try:
        with path.open("xb") as file:
            for chunk in chunks:
                file.write(chunk)
        with Export(path):
            pass
        size = path.stat().st_size
        return Upload.objects.begin(folder, slug=slug, name=name, size=size, by=by)
    except NotAnExport as error:
        shutil.rmtree(path.parent)
        # The message has the uploaded name, not the path on the server.
        raise UploadRefused(
            refusal_sentence(error.code, error.values | {"name": mark_invisible(name)})
        ) from error
    except BaseException:
        shutil.rmtree(path.parent)
        raise


def process_upload(upload: Upload, now: datetime) -> Workspace | None:
    """Run the next step of an upload; return the workspace when its import is complete."""
    if not upload.claim(now):
        if upload.has_exhausted_attempts(now):
            upload.fail(GAVE_UP, now)
        return None
    try:
        with Export(upload.path) as export:
            if upload.state == Upload.State.LOOKING:
                summary = inspect(export, ProgressReporter(upload))
                upload.finish_inspection(asdict(summary), timezone.now())
                return None
            return _import(upload, export, now)
    except _Stopped:
        logger.info("upload %s was stopped", upload.pk)
    except Busy:
        upload.uncount_attempt()
    except WrongTeam:
        upload.fail(WRONG_TEAM, timezone.now())
    except NotAnExport as error:
        if upload.path.exists():
            upload.fail(error.code, timezone.now(), error.values | {"name": upload.name})
        else:
            upload.fail(FILE_GONE, timezone.now())
    finally:
        if not upload.is_unfinished:
            discard(upload)
    return None


def _import(upload: Upload, export: Export, now: datetime) -> Workspace | None:
    workspace, _created = Workspace.objects.get_or_create(
        slug=upload.slug, defaults={"name": upload.slug}
    )
    choice, progress = upload.choice, ProgressReporter(upload)
    is_free = not ModelServer.objects.in_use().model

    def is_chosen(folder: ExportFolder) -> bool:
        progress.add_folder(folder)
        if folder.is_public:
            return folder.slack_id not in choice["without"]
        return bool(folder.is_direct or choice["private"])

    report = import_export(
        workspace,
        export,
        now,
        direct_messages=choice["direct"],
        is_chosen=is_chosen,
        since_us=choice.get("since", 0),
        backfill="all" if choice.get("summarize") and is_free else None,
        admits=False,  # the author of an export could add themselves to a private channel
        progress=lambda where, seen: progress(seen, where),
    )
    public = {channel["folder"] for channel in upload.contents["public"]}
    summary = {
        **report.tally.as_json(),
        "partial": report.is_partial,
        "left_out": report.tally.count(result=Result.QUARANTINED),
        "unlisted": sum(count for _, count in report.unlisted),
        "before_start": sum(earlier.count for earlier in report.earlier),
        "files": broken_files(export, public),
        "files_count": len(set(export.broken)),
    }
    return workspace if upload.finish_import(summary, timezone.now()) else None


@dataclass(frozen=True)
class ChannelProgress:
    """How much of a channel is read. All private or direct channels together have the name "",
    because an operator may not see their names."""

    name: str
    kind: str
    read: int
    of: int


def channel_progress(upload: Upload) -> list[ChannelProgress]:
    """Return the progress of the chosen channels, in the order of the import."""
    choice, findings, parts = upload.choice, upload.contents, upload.objects_read
    progress = [
        ChannelProgress(
            channel["folder"], "public", parts.get(channel["id"], 0), channel["messages"]
        )
        for channel in findings.get("public", [])
        if channel["id"] not in choice.get("without", [])
    ]
    for kind in ("private", "direct"):
        if choice.get(kind) and findings.get(kind, {}).get("messages"):
            progress.append(
                ChannelProgress("", kind, parts.get(kind, 0), findings[kind]["messages"])
            )
    return progress


def seconds_left(upload: Upload) -> Range | None:
    """Estimate the time left by the rate up to the last heartbeat; None before the first one."""
    if not upload.is_at_work or upload.claimed_at is None or upload.heartbeat_at is None:
        return None
    left = max(0, upload.contents.get("objects", 0) - upload.seen)
    return estimate_time_left(
        upload.seen, left, (upload.heartbeat_at - upload.claimed_at).total_seconds()
    )


def refusal_text(upload: Upload) -> str:
    """Return why the file cannot be read, in the current language; "" for other faults."""
    if upload.fault not in SENTENCES:
        return ""
    values: dict[str, str] = upload.report.get("fault", {})
    return mark_invisible(refusal_sentence(upload.fault, values))


class ProgressReporter:
    """Saves the progress of an upload twice a second; raises `_Stopped` when it is not wanted."""

    def __init__(self, upload: Upload) -> None:
        self._upload = upload
        self._saved_at = time.monotonic()
        self._parts: Counter[str] = Counter()
        self._part_of: dict[str, str] = {}  # by folder
        self._part, self._seen = "", 0

    def add_folder(self, folder: ExportFolder) -> None:
        """Assign a folder to its public channel, or to all private or direct ones together."""
        kind = "direct" if folder.is_direct else "private"
        self._part_of[folder.name] = folder.slack_id if folder.is_public else kind

    def __call__(self, seen: int, where: str = "") -> None:
        if self._part:
            self._parts[self._part] += seen - self._seen
        self._part, self._seen = self._part_of.get(where, ""), seen
        if time.monotonic() - self._saved_at < REPORT_EVERY:
            return
        self._saved_at = time.monotonic()
        if not self._upload.record_progress(seen, timezone.now(), dict(self._parts)):
            raise _Stopped


def cancel_upload(upload: Upload, *, by: User | None, now: datetime) -> bool:
    """Cancel an unfinished upload and delete its file; return False for a finished one."""
    if not upload.cancel(by=by, now=now):
        return False
    discard(upload)
    return True


def discard(upload: Upload) -> None:
    shutil.rmtree(upload.path.parent, ignore_errors=True)


def remove_stale_files(now: datetime) -> None:
    """Cancel uploads that wait too long for a person, and delete folders without a row."""
    for upload in Upload.objects.stale(now):
        cancel_upload(upload, by=None, now=now)
    folders = set(Upload.objects.unfinished().values_list("folder", flat=True))
    oldest = (now - ORPHAN_AGE).timestamp()
    for folder in Path(settings.MEMORYHUB_VAR, "uploads").glob("*"):
        if folder.name not in folders and folder.stat().st_mtime < oldest:
            shutil.rmtree(folder, ignore_errors=True)

"""An uploaded export → what lies in it → the workspace, by the importer that the command uses.

The row says what is wanted and how far it is; a killed task is found by its silence and begun
again, and what was stored before counts as there already.
"""

import logging
import secrets
import shutil
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone

from memories.models import Upload, UploadInProgress, User, Workspace
from memories.pipeline.ingest.importing import ImportReport, WrongTeam, import_export
from memories.pipeline.ingest.inspecting import broken_files, inspect
from memories.pipeline.locks import Busy
from memories.rules.costs.estimate import Range, time_left
from memories.rules.ingest.invisible import mark_invisible
from memories.rules.ingest.outcomes import Result
from memories.slack.export import Export, ExportFolder, NotAnExport
from memories.slack.refusals import SENTENCES, refusal_sentence

logger = logging.getLogger(__name__)

REPORT_EVERY = 0.5  # seconds
UNKNOWN_FOR = timedelta(days=1)  # a folder that no row names: its upload broke off

# Why one failed, for whoever can help; anything else is the code of a refusal.
WRONG_TEAM = "wrong_team"
FILE_GONE = "file_gone"
GAVE_UP = "gave_up"


class UploadRefused(Exception):
    """A file that cannot be an export, or could do harm; the text says why and what to do."""


class _Stopped(Exception):
    """A person paused or cancelled it while it was worked on."""


def store_upload(slug: str, name: str, chunks: Iterable[bytes], *, by: User) -> Upload:
    """Store the file as it is, look at its directory, and note what is to be done. Nothing is
    unpacked. Raises `NotTaken` and `UploadInProgress`, and keeps nothing then."""
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
        # As the person called it, and not where it lies.
        raise UploadRefused(
            refusal_sentence(error.code, error.values | {"name": mark_invisible(name)})
        ) from error
    except BaseException:
        shutil.rmtree(path.parent)
        raise


def process_upload(upload: Upload, now: datetime) -> Workspace | None:
    """Whatever a worker has to do next. The workspace, when its export was stored."""
    if not upload.claim(now):
        if upload.has_exhausted_attempts(now):
            upload.fail(GAVE_UP, now)
        return None
    try:
        with Export(upload.path) as export:
            if upload.state == Upload.State.LOOKING:
                findings = inspect(export, ProgressReporter(upload))
                upload.finish_inspection(findings.as_json(), timezone.now())
                return None
            return _store(upload, export, now)
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


def _store(upload: Upload, export: Export, now: datetime) -> Workspace | None:
    workspace, _made = Workspace.objects.get_or_create(
        slug=upload.slug, defaults={"name": upload.slug}
    )
    choice, tell = upload.choice, ProgressReporter(upload)

    def is_chosen(folder: ExportFolder) -> bool:
        tell.knows(folder)
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
        admits=False,  # whoever writes an export could let themselves in, without a reason or an end
        progress=lambda where, seen: tell(seen, where),
    )
    public = {channel["folder"] for channel in upload.found["public"]}
    outcome = {
        **_report_json(report),
        "files": broken_files(export, public),
        "files_count": len(set(export.broken)),
    }
    return workspace if upload.finish_import(outcome, timezone.now()) else None


def _report_json(report: ImportReport) -> dict[str, Any]:
    return {
        **report.tally.as_json(),
        "partial": report.is_partial,
        "left_out": report.tally.count(result=Result.QUARANTINED),
        "unlisted": sum(count for _, count in report.unlisted),
        "before_start": sum(channel_start.count for channel_start in report.earlier),
    }


@dataclass(frozen=True)
class ChannelProgress:
    """How much of a channel is read. ``name`` is "" for all of a ``kind`` together: the names of
    private ones are not every operator's to see."""

    name: str
    kind: str
    read: int
    of: int


def channel_progress(upload: Upload) -> list[ChannelProgress]:
    """Of what was chosen, in the order in which it is read."""
    choice, findings, parts = upload.choice, upload.found, upload.parts
    shares = [
        ChannelProgress(
            channel["folder"], "public", parts.get(channel["id"], 0), channel["messages"]
        )
        for channel in findings.get("public", [])
        if channel["id"] not in choice.get("without", [])
    ]
    for kind in ("private", "direct"):
        if choice.get(kind) and findings.get(kind, {}).get("messages"):
            shares.append(ChannelProgress("", kind, parts.get(kind, 0), findings[kind]["messages"]))
    return shares


def seconds_left(upload: Upload) -> Range | None:
    """By the rate until the last sign of who works on it; None before there is one."""
    if not upload.is_at_work or upload.begun_at is None or upload.alive_at is None:
        return None
    left = max(0, upload.found.get("objects", 0) - upload.seen)
    return time_left(upload.seen, left, (upload.alive_at - upload.begun_at).total_seconds())


def refusal_text(upload: Upload) -> str:
    """Why its file cannot be read, for who asks now; "" where something else is wrong."""
    if upload.fault not in SENTENCES:
        return ""
    values: dict[str, str] = upload.report.get("fault", {})
    return mark_invisible(refusal_sentence(upload.fault, values))


class ProgressReporter:
    """Says how far it is now and then, and hears whether it is still wanted."""

    def __init__(self, upload: Upload) -> None:
        self._upload = upload
        self._told_at = time.monotonic()
        self._parts: Counter[str] = Counter()
        self._part_of: dict[str, str] = {}  # by folder
        self._part, self._seen = "", 0

    def knows(self, folder: ExportFolder) -> None:
        """Private channels are one part, for their names are not told."""
        closed = "direct" if folder.is_direct else "private"
        self._part_of[folder.name] = folder.slack_id if folder.is_public else closed

    def __call__(self, seen: int, where: str = "") -> None:
        if self._part:
            self._parts[self._part] += seen - self._seen
        self._part, self._seen = self._part_of.get(where, ""), seen
        if time.monotonic() - self._told_at < REPORT_EVERY:
            return
        self._told_at = time.monotonic()
        if not self._upload.record_progress(seen, timezone.now(), dict(self._parts)):
            raise _Stopped


def cancel_upload(upload: Upload, *, by: User | None, now: datetime) -> bool:
    """No more of it is stored, and its file goes."""
    done = upload.cancel(by=by, now=now)
    if done:
        discard(upload)
    return done


def discard(upload: Upload) -> None:
    shutil.rmtree(upload.path.parent, ignore_errors=True)


def remove_stale_files(now: datetime) -> None:
    """Files that nobody decides about, and those of uploads that broke off."""
    for upload in Upload.objects.stale(now):
        cancel_upload(upload, by=None, now=now)
    folders = set(Upload.objects.unfinished().values_list("folder", flat=True))
    oldest = (now - UNKNOWN_FOR).timestamp()
    for folder in Path(settings.MEMORYHUB_VAR, "uploads").glob("*"):
        if folder.name not in folders and folder.stat().st_mtime < oldest:
            shutil.rmtree(folder, ignore_errors=True)

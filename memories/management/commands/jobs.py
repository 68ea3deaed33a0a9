"""Jobs from the command line: what waits and why, what was given up, and a person's word on it."""

import argparse
from collections.abc import Container, Iterable
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.models import Case, F, IntegerField, Value, When
from django.utils import timezone

from memories.management import shown_jobs
from memories.management.arguments import (
    add_json_argument,
    add_reader_argument,
    document,
    person_of,
    reader_from,
    workspace_from,
)
from memories.models import Job, Member, Reader, StaleBase, User
from memories.models.generate.job_queries import JobQuerySet
from memories.pipeline.generate import job_control
from memories.pipeline.memory import proposals
from memories.rules.context.contents import NoSuchChannel, find_channel

SHOWN = 20
State = Job.State


class Command(BaseCommand):
    help = (
        "Jobs: list what is open, with the reason it waits for, show one, retry or cancel some, "
        "accept or reject what was proposed. Without an action: list."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.set_defaults(
            action="list", workspace=None, channel=None, state=None, limit=SHOWN, json=False
        )
        actions = parser.add_subparsers(dest="action", metavar="ACTION")

        def action(name: str, summary: str) -> argparse.ArgumentParser:
            sub: argparse.ArgumentParser = actions.add_parser(
                name, help=summary, description=summary
            )
            add_reader_argument(sub)
            return sub

        listed = action("list", "What is open: given up first, then proposals, then what waits.")
        _add_workspace(listed)
        listed.add_argument(
            "--channel", metavar="ID_OR_NAME", help="only this channel's; needs one workspace"
        )
        listed.add_argument(
            "--state", choices=[*State.values], help="only those in this state, newest first"
        )
        listed.add_argument(
            "--limit", type=int, default=SHOWN, help="at most so many (default: %(default)s)"
        )
        show = action("show", "One job: its facts, its calls, what it reads, its reply.")
        show.add_argument("id", type=int, help="as `list` shows it")
        for sub in (listed, show):
            add_json_argument(sub)
        retry = action(
            "retry",
            "Offer again what was given up or cancelled; an endpoint that waits for a person is "
            "resumed as well.",
        )
        retry.add_argument("--dead", action="store_true", help="all that were given up")
        retry.add_argument("id", nargs="*", type=int, help="as `list` shows them")
        cancel = action("cancel", "Do not make these: their messages are left out until a retry.")
        cancel.add_argument("id", nargs="+", type=int, help="as `list` shows them")
        for name, summary in (
            ("accept", "Make a proposed text the next version."),
            ("reject", "Drop a proposed text; what it read stays owed."),
        ):
            action(name, summary).add_argument("id", type=int, help="as `list` shows it")
        action("resume", "Let calls go again to a model's endpoint that takes none.")
        _add_workspace(retry)

    def handle(self, *args: Any, **options: Any) -> None:
        reader = reader_from(options)
        self.rows = _rows(reader)
        self.by = person_of(reader)
        getattr(self, f"_{options['action'] or 'list'}")(reader, options)

    def _list(self, reader: Reader, options: dict[str, Any]) -> None:
        now, rows = timezone.now(), _narrowed(self.rows, reader, options)
        health = job_control.get_health(reader, rows, now)
        closed = health.refusal is not None
        limit = max(options["limit"], 0)
        matches = _in_order(rows, options["state"])
        jobs = [shown_jobs.job_row(job, now, endpoint_closed=closed) for job in matches[:limit]]
        left = max(matches.count() - limit, 0)
        if options["json"]:
            health_json = shown_jobs.health_as_json(health)
            self.stdout.write(document({"health": health_json, "jobs": jobs, "left_out": left}))
            return
        self.stdout.write(shown_jobs.health_line(health, now))
        for line in shown_jobs.lines(jobs):
            self.stdout.write(line)
        if left:
            self.stdout.write(f"{left} more: see --limit.")

    def _show(self, reader: Reader, options: dict[str, Any]) -> None:
        now, job = timezone.now(), self._job(options)
        endpoint = job_control.endpoint_in_use().first()
        closed = endpoint is not None and endpoint.breaker.find_refusal(now) is not None
        row = shown_jobs.whole_job(job, now, endpoint_closed=closed)
        if options["json"]:
            self.stdout.write(document(row))
        else:
            self.stdout.write("\n".join(shown_jobs.whole_lines(row)))

    def _retry(self, reader: Reader, options: dict[str, Any]) -> None:
        if bool(options["id"]) == options["dead"]:
            raise CommandError("Give the ids of some jobs, or --dead for all that were given up.")
        rows = _narrowed(self.rows, reader, options)
        if options["dead"]:
            jobs = list(rows.filter(state=State.DEAD))
        else:
            jobs = self._some(rows, options["id"])
        self._must_be(reader, (Member.Role.ADMIN,), jobs)
        count = job_control.retry_jobs(jobs, self.by)
        self.stdout.write(f"{count} of {len(jobs)} will be tried again.")

    def _cancel(self, reader: Reader, options: dict[str, Any]) -> None:
        jobs = self._some(self.rows, options["id"])
        self._must_be(reader, (Member.Role.ADMIN,), jobs)
        count = job_control.cancel_jobs(jobs, self.by)
        self.stdout.write(f"{count} of {len(jobs)} cancelled; what runs is not stopped.")

    def _accept(self, reader: Reader, options: dict[str, Any]) -> None:
        job = self._proposed(reader, options)
        try:
            version = proposals.accept(job, by=self.by)
        except StaleBase as error:
            raise CommandError("The memory has changed since: it is merged again.") from error
        if version is None:
            raise CommandError("Somebody was faster.")
        self.stdout.write(f"Version {version.number} was made of it.")

    def _reject(self, reader: Reader, options: dict[str, Any]) -> None:
        if not proposals.reject(self._proposed(reader, options), by=self.by):
            raise CommandError("Somebody was faster.")
        self.stdout.write(f"Job {options['id']} rejected; the memory stays as it is.")

    def _resume(self, reader: Reader, options: dict[str, Any]) -> None:
        if self.by and not _administers(self.by):
            raise CommandError("That is for operators and workspace admins.")
        count = job_control.resume_endpoints(self.by, timezone.now())
        self.stdout.write("Calls may go again." if count else "Nothing held the calls back.")

    def _job(self, options: dict[str, Any]) -> Any:
        [job] = self._some(self.rows, [options["id"]])
        return job

    def _proposed(self, reader: Reader, options: dict[str, Any]) -> Any:
        """A text that nobody may read is nobody's to judge."""
        job = self._job(options)
        if job.state != State.PROPOSED:
            raise CommandError(f"Job {job.pk} waits for nobody's word: {job.state}.")
        if not job.is_readable:
            raise CommandError(f"Job {job.pk} is private: name a reader of it with --as.")
        self._must_be(reader, Member.EDITING, [job])
        return job

    def _must_be(self, reader: Reader, roles: Container[str], jobs: Iterable[Any]) -> None:
        """On whose behalf: they must be allowed to. Whoever holds the machine is."""
        workspaces = {job.memory.workspace for job in jobs} if self.by else ()
        for workspace in workspaces:
            if workspace.role_of(reader) not in roles:
                raise CommandError(f"This user may not do that in workspace {workspace.slug}.")

    @staticmethod
    def _some(rows: JobQuerySet, keys: list[int]) -> list[Any]:
        """In the order asked for; CommandError, and nothing is done, when one is unknown."""
        by_id = {job.pk: job for job in rows.filter(pk__in=keys)}
        if unknown := [str(key) for key in keys if key not in by_id]:
            raise CommandError(f"There is no job {', '.join(unknown)}.")
        return [by_id[key] for key in dict.fromkeys(keys)]


def _add_workspace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workspace", metavar="SLUG", help="only of this workspace; without it of all"
    )


def _administers(user: User) -> bool:
    """Any workspace, as the button on its pages asks for too."""
    return user.is_superuser or user.memberships.filter(role=Member.Role.ADMIN).exists()


def _rows(reader: Reader) -> JobQuerySet:
    return Job.objects.with_memory().select_related("backfill").shown_to(reader)


def _narrowed(rows: JobQuerySet, reader: Reader, options: dict[str, Any]) -> JobQuerySet:
    if options.get("channel"):
        workspace = workspace_from(options)
        channels = workspace.channels.visible_to(reader)
        try:
            slack_id = find_channel(channels.names(), options["channel"])
        except NoSuchChannel as error:
            raise CommandError(str(error)) from error
        return rows.of_channel(channels.get(slack_id=slack_id))
    if options.get("workspace"):
        return rows.of_workspace(workspace_from(options))
    return rows


def _in_order(rows: JobQuerySet, state: str | None) -> JobQuerySet:
    """Given up, proposed, then what waits, oldest first; then what is over, newest first."""
    if state:
        return rows.filter(state=state).order_by("-pk")
    ranks = {State.DEAD: 0, State.PROPOSED: 1, **dict.fromkeys(Job.UNFINISHED, 2)}
    rank = Case(
        *(When(state=state, then=Value(number)) for state, number in ranks.items()),
        default=Value(3),
        output_field=IntegerField(),
    )
    within = Case(When(rank=3, then=-F("pk")), default=F("pk"), output_field=IntegerField())
    return rows.annotate(rank=rank).annotate(within=within).order_by("rank", "within")

"""List, show, retry and cancel jobs, and approve or reject proposals."""

import argparse
from collections.abc import Container, Iterable
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.models import Case, F, IntegerField, Value, When
from django.utils import timezone

from memories.management import arguments, job_output
from memories.models import Job, Member, Reader, StaleBase, User
from memories.models.generate.job_queries import JobQuerySet
from memories.pipeline.generate import job_control
from memories.pipeline.memory import proposals

DEFAULT_LIMIT = 20
State = Job.State


class Command(BaseCommand):
    help = (
        "List open jobs and what they wait for. The actions show, retry or cancel jobs, approve or"
        " reject proposals, and resume calls. The default action is list."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.set_defaults(
            action="list", workspace=None, channel=None, state=None, limit=DEFAULT_LIMIT, json=False
        )
        actions = parser.add_subparsers(dest="action", metavar="ACTION")

        def action(name: str, summary: str) -> argparse.ArgumentParser:
            sub = arguments.add_action(actions, name, summary)
            arguments.add_reader(sub)
            return sub

        listed = action("list", "List failed jobs first, then proposals, then waiting jobs.")
        of_workspace = "only jobs of this workspace; default: all"
        arguments.add_workspace(listed, of_workspace)
        listed.add_argument(
            "--channel", metavar="ID_OR_NAME", help="only jobs of this channel; needs one workspace"
        )
        listed.add_argument(
            "--state", choices=[*State.values], help="only jobs in this state, newest first"
        )
        listed.add_argument(
            "--limit",
            type=int,
            default=DEFAULT_LIMIT,
            help="the largest number of jobs; default: %(default)s",
        )
        show = action("show", "Show a job with its calls, its inputs and its reply.")
        show.add_argument("id", type=int, help="the id from `list`")
        for sub in (listed, show):
            arguments.add_json(sub)
        retry = action(
            "retry",
            "Retry failed or cancelled jobs. Also resume an endpoint that waits for a person.",
        )
        retry.add_argument("--dead", action="store_true", help="all failed jobs")
        retry.add_argument("id", nargs="*", type=int, help="ids from `list`")
        cancel = action("cancel", "Cancel jobs. Their messages are skipped until a retry.")
        cancel.add_argument("id", nargs="+", type=int, help="ids from `list`")
        for name, summary in (
            ("accept", "Approve a proposal: it becomes the next version."),
            ("reject", "Reject a proposal. Its inputs are merged again later."),
        ):
            action(name, summary).add_argument("id", type=int, help="the id from `list`")
        action("resume", "Allow calls to an endpoint that is stopped.")
        arguments.add_workspace(retry, of_workspace)

    @arguments.needs_database()
    def handle(self, *args: Any, **options: Any) -> None:
        reader = arguments.reader_from(options)
        self.rows = _rows(reader)
        self.by = arguments.user_of(reader)
        getattr(self, f"_{options['action'] or 'list'}")(reader, options)

    def _list(self, reader: Reader, options: dict[str, Any]) -> None:
        now, rows = timezone.now(), _filter(self.rows, reader, options)
        health = job_control.get_health(reader, rows, now)
        closed = health.refusal is not None
        matches = _in_order(rows, options["state"])
        count = matches.count()
        limit = min(max(options["limit"], 0), count)
        jobs = [job_output.job_row(job, now, endpoint_closed=closed) for job in matches[:limit]]
        omitted = count - limit
        if options["json"]:
            health_json = job_output.health_as_json(health)
            self.stdout.write(
                arguments.document({"health": health_json, "jobs": jobs, "left_out": omitted})
            )
            return
        self.stdout.write(job_output.health_line(health, now))
        for line in job_output.job_lines(jobs):
            self.stdout.write(line)
        if omitted:
            self.stdout.write(f"{omitted} more: see --limit.")

    def _show(self, reader: Reader, options: dict[str, Any]) -> None:
        now, job = timezone.now(), self._job(options)
        endpoint = job_control.endpoint_in_use().first()
        closed = endpoint is not None and endpoint.breaker.find_refusal(now) is not None
        row = job_output.job_details(job, now, endpoint_closed=closed)
        if options["json"]:
            self.stdout.write(arguments.document(row))
        else:
            self.stdout.write("\n".join(job_output.detail_lines(row)))

    def _retry(self, reader: Reader, options: dict[str, Any]) -> None:
        if bool(options["id"]) == options["dead"]:
            raise CommandError("Give the ids of jobs, or --dead for all failed jobs.")
        rows = _filter(self.rows, reader, options)
        if options["dead"]:
            jobs = list(rows.filter(state=State.DEAD))
        else:
            jobs = self._get_jobs(rows, options["id"])
        self._require_role(reader, (Member.Role.ADMIN,), jobs)
        count = job_control.retry_jobs(jobs, self.by)
        self.stdout.write(f"{count} of {len(jobs)} will be retried.")

    def _cancel(self, reader: Reader, options: dict[str, Any]) -> None:
        jobs = self._get_jobs(self.rows, options["id"])
        self._require_role(reader, (Member.Role.ADMIN,), jobs)
        count = job_control.cancel_jobs(jobs, self.by)
        self.stdout.write(f"{count} of {len(jobs)} cancelled. Running jobs are not stopped.")

    def _accept(self, reader: Reader, options: dict[str, Any]) -> None:
        job = self._proposed(reader, options)
        try:
            version = proposals.approve(job, by=self.by)
        except StaleBase as error:
            raise CommandError(
                "The memory has changed since then. It will be merged again."
            ) from error
        if version is None:
            raise CommandError("Somebody else has decided already.")
        self.stdout.write(f"Version {version.number} was created from it.")

    def _reject(self, reader: Reader, options: dict[str, Any]) -> None:
        if not proposals.reject(self._proposed(reader, options), by=self.by):
            raise CommandError("Somebody else has decided already.")
        self.stdout.write(f"Job {options['id']} rejected. The memory is unchanged.")

    def _resume(self, reader: Reader, options: dict[str, Any]) -> None:
        if self.by and not _administers(self.by):
            raise CommandError("That is for operators and workspace admins.")
        count = job_control.resume_endpoints(self.by, timezone.now())
        self.stdout.write("Calls resume." if count else "Calls were not stopped.")

    def _job(self, options: dict[str, Any]) -> Any:
        [job] = self._get_jobs(self.rows, [options["id"]])
        return job

    def _proposed(self, reader: Reader, options: dict[str, Any]) -> Any:
        """Return a proposal that the reader may read. Raise ``CommandError`` otherwise."""
        job = self._job(options)
        if job.state != State.PROPOSED:
            raise CommandError(f"Job {job.pk} waits for no decision: {job.state}.")
        if not job.is_readable:
            raise CommandError(f"Job {job.pk} is private. Name one of its readers with --as.")
        self._require_role(reader, Member.EDITING, [job])
        return job

    def _require_role(self, reader: Reader, roles: Container[str], jobs: Iterable[Any]) -> None:
        """Raise ``CommandError`` unless the user of --as has one of the roles in each workspace."""
        workspaces = {job.memory.workspace for job in jobs} if self.by else ()
        for workspace in workspaces:
            if workspace.role_of(reader) not in roles:
                raise CommandError(f"This user may not do that in workspace {workspace.slug}.")

    @staticmethod
    def _get_jobs(rows: JobQuerySet, keys: list[int]) -> list[Any]:
        """Return the jobs in the order of their keys. Raise ``CommandError`` if one is unknown."""
        possible = [key for key in keys if abs(key) < 2**63]  # SQLite refuses others
        by_id = {job.pk: job for job in rows.filter(pk__in=possible)}
        if unknown := [str(key) for key in keys if key not in by_id]:
            raise CommandError(f"There is no job {', '.join(unknown)}.")
        return [by_id[key] for key in dict.fromkeys(keys)]


def _administers(user: User) -> bool:
    """Return whether the user is an admin of any workspace, as the button on the pages requires."""
    return user.is_superuser or user.memberships.filter(role=Member.Role.ADMIN).exists()


def _rows(reader: Reader) -> JobQuerySet:
    return Job.objects.with_memory().select_related("backfill").shown_to(reader)


def _filter(rows: JobQuerySet, reader: Reader, options: dict[str, Any]) -> JobQuerySet:
    if options.get("channel"):
        workspace = arguments.workspace_from(options)
        return rows.of_channel(arguments.get_channel(workspace, reader, options["channel"]))
    if options.get("workspace"):
        return rows.of_workspace(arguments.workspace_from(options))
    return rows


def _in_order(rows: JobQuerySet, state: str | None) -> JobQuerySet:
    """Sort failed jobs, proposals and waiting jobs, each oldest first, then finished ones, newest first."""
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

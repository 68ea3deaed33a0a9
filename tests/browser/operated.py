"""Pages for operators of the story's team: Slack, a quarantined line, model calls with costs."""

from datetime import timedelta
from decimal import Decimal

from django.utils import timezone

from memories.models import (
    Budget,
    Job,
    Memory,
    Price,
    QuarantinedLine,
    SlackConnection,
    User,
    Workspace,
)
from memories.rules.sync.scopes import ALWAYS
from tests.factories import make_call


def operate(workspace: Workspace, memory: Memory, by: User) -> None:
    now = timezone.now()
    connection = SlackConnection.objects.of(workspace)
    connection.set_token("xoxb-1-2-ofTheStory", by=by)
    connection.record_check(
        scopes=[*ALWAYS], bot_id="U0BOT", app_id="A0APP", now=now - timedelta(minutes=4)
    )
    line = QuarantinedLine.objects.create(
        memory=memory, text="Everybody signs in at https://evil.example/", rule="link"
    )
    line.sources.add(*memory.channel.messages.in_order()[:2])
    Price.objects.change("tiny", Decimal("0.25"), Decimal("2"), by=by)
    Budget.objects.change(workspace, "month", tokens=2_000_000, money=None, by=by)
    for minutes, job in enumerate(Job.objects.order_by("pk")[:3]):
        make_call(
            job=job,
            fence=job.fence,
            day=now.date(),
            tokens=4200,
            micros=9100,
            prompt_tokens=3800,
            completion_tokens=400,
            requests=1,
            began_at=now - timedelta(minutes=minutes + 1),
            ended_at=now - timedelta(minutes=minutes),
        )

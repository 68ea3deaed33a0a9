"""A paused backfill holds up neither new messages nor the merges of other channels."""

from datetime import timedelta

import pytest
from django.utils import timezone

from memories.models import Backfill, Job
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.generate.plan import plan_channel
from memories.rules.ingest.timestamps import to_micros
from tests.factories import MONDAY, ChannelFactory
from tests.pipeline.conversations import Scribe, remembering, talk
from tests.pipeline.current import long, short, workspace_memory

pytestmark = pytest.mark.django_db

NOW = MONDAY + timedelta(days=30)
MINUTES = timedelta(minutes=3)


def backfill_of(channel, days=3):
    channel.start_us = channel.cut_from_us = to_micros(NOW)
    channel.save()
    for day in range(days):
        talk(channel, 10, MONDAY + timedelta(days=day))
    return Backfill.objects.start(
        channel.workspace, [channel], since_us=0, until_us=to_micros(NOW), quote={}, by=None
    )


def test_new_messages_are_remembered_while_a_backfill_of_their_channel_is_paused(workspace):
    channel = ChannelFactory(workspace=workspace)
    backfill = backfill_of(channel)
    plan_channel(channel.pk, NOW)
    backfill.pause(None)
    talk(channel, 10, NOW + timedelta(hours=1))
    run_pass(workspace, NOW + timedelta(days=1), Scribe())
    assert short(channel).head == 1


@pytest.mark.slow
def test_a_paused_backfill_holds_up_no_other_channels_merges(workspace):
    channel = ChannelFactory(workspace=workspace)
    backfill = backfill_of(channel)
    plan_channel(channel.pk, NOW)
    backfill.pause(None)
    talk(channel, 10, NOW + timedelta(hours=1))
    other = remembering(workspace)
    talk(other, 10, NOW + timedelta(hours=1))
    for _ in range(3):
        run_pass(workspace, NOW + timedelta(days=1), Scribe())
    assert long(other).head == 1
    assert workspace_memory(other).head == 1


@pytest.mark.slow
def test_what_a_lost_worker_held_of_a_paused_backfill_holds_up_no_merges(workspace):
    channel = ChannelFactory(workspace=workspace)
    backfill = backfill_of(channel)
    plan_channel(channel.pk, NOW)
    assert backfill.jobs.first().claim(timezone.now(), MINUTES)
    backfill.pause(None)
    Job.objects.filter(state="claimed").update(lease_until=timezone.now() - MINUTES)
    other = remembering(workspace)
    talk(other, 10, NOW + timedelta(hours=1))
    for _ in range(3):
        run_pass(workspace, NOW + timedelta(days=1), Scribe())
    assert workspace_memory(other).head == 1

"""Lists that open on rows that need attention, and the names of rows."""

import re

import pytest

from memories.models import Job, Memory
from memories.rules.memory.identity import MemoryType
from tests.factories import ChannelFactory, make_channel_memory, make_job, make_thread_memory

pytestmark = pytest.mark.django_db

JOBS = "/admin/memories/job/"


@pytest.fixture
def jobs() -> dict[str, Job]:
    memory = make_channel_memory(channel=ChannelFactory(name="launch"), texts=["- one"])
    states = ("dead", "proposed", "waiting", "done")
    return {state: make_job(memory=memory, input_key=state, state=state) for state in states}


def listed(client, query: str = "") -> set[str]:
    page = client.get(f"{JOBS}{query}").content.decode()
    keys = re.findall(r'name="_selected_action" value="(\d+)"', page)
    return set(Job.objects.filter(pk__in=keys).values_list("state", flat=True))


@pytest.mark.slow
def test_a_list_opens_on_rows_that_need_attention(client, operator, jobs) -> None:
    assert listed(client) == listed(client, "?o=-1") == {"dead", "proposed"}
    assert listed(client, "?show=all") == {*jobs}
    assert listed(client, "?state__exact=done") == {"done"}
    assert listed(client, f"?q={jobs['waiting'].pk}") == {"waiting"}
    page = client.get(JOBS).content.decode()
    assert "needs attention" in page and "#launch, long-term memory" in page


def test_an_action_reaches_the_rows_that_the_list_shows(client, operator, jobs) -> None:
    data = {"action": "retry", "_selected_action": [jobs["dead"].pk], "select_across": "1"}
    client.post(JOBS, data)
    states = {key: Job.objects.get(pk=job.pk).state for key, job in jobs.items()}
    assert states == {
        "dead": "waiting",
        "proposed": "proposed",
        "waiting": "waiting",
        "done": "done",
    }
    client.post(JOBS, {"action": "cancel", "_selected_action": [jobs["waiting"].pk]})
    assert Job.objects.get(pk=jobs["waiting"].pk).state == "cancelled"


def test_memories_have_names(client, operator) -> None:
    channel = ChannelFactory(name="launch")
    memory = make_channel_memory(channel=channel, texts=["- one"])
    thread = make_thread_memory(channel=channel, thread_ts="1.000000", texts=["- two"])
    whole = Memory.objects.of_workspace(channel.workspace, MemoryType.SHORT_TERM)
    assert str(memory) == "#launch, long-term memory"
    assert str(thread) == "#launch 1.000000, short-term memory"
    assert str(whole) == f"{channel.workspace}, short-term memory"
    for path in ("memory", "memoryversion", f"memory/{memory.pk}/change"):
        page = client.get(f"/admin/memories/{path}/").content.decode()
        assert "#launch, long-term memory" in page and f"channel:{channel.slack_id}" not in page

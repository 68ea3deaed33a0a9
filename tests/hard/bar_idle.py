"""Hard test 5: quiet channels cost no call for a week; one new message costs its chain, once."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone

from memories.llm import get_summariser
from memories.models import Message
from memories.pipeline.generate.passes import run_pass
from memories.rules.ingest.timestamps import to_micros, ts_from_micros
from tests.hard import oracle, world
from tests.hard.model_client import fake_model

NAME = "5 idle"
SMALL_DATABASES = ()
# A call that is slow on a busy machine is not asked twice: calls are counted.
ENVIRONMENT = {"MEMORYHUB_LLM_TIMEOUT": "60", "MEMORYHUB_LEASE": "120"}

DAYS = 7
EVERY = {True: timedelta(minutes=10), False: timedelta(hours=6)}
CHAIN = 4  # calls: the segment, its channel's long-term memory, the workspace's two


def run(*, full: bool, seed: int, work: Path, database_url: str) -> dict[str, Any]:
    count = 500 if full else 10
    with fake_model(work, seed=seed, latency=(0.0, 0.0)) as model:
        made = world.World()
        channels = made.add_workspace("quiet", channels=count)
        for channel in channels:
            made.feed(channel)
        workspace = channels[0].workspace
        summariser = get_summariser(
            api_key="none",
            base_url=model.url,
            model="fake",
            timeout=settings.MEMORYHUB_LLM_TIMEOUT,
        )
        now = timezone.now().replace(microsecond=0)
        while run_pass(workspace, now, summariser).left:
            pass
        history = len(model.rows())
        passes = timedelta(days=DAYS) // EVERY[full]
        for _ in range(passes):
            now += EVERY[full]
            run_pass(workspace, now, summariser)
        idle = len(model.rows()) - history
        message = Message.objects.create(
            channel=channels[-1],
            ts=ts_from_micros(to_micros(now)),
            micros=to_micros(now),
            text="uq999999x is new",
        )
        made.words[channels[-1].pk].append("uq999999x")
        before = len(model.rows())
        for _ in range(30):
            now += timedelta(hours=1)
            run_pass(workspace, now, summariser)
        chain = model.rows()[before:]
        wrong = oracle.verdict(made.words, model.rows())
        return {
            "n": count,
            "passes": passes,
            "days": DAYS,
            "idle_calls": idle,
            "chain": len(chain),
            "heard_by": sum(message.text.split()[0] in row.words for row in chain),
            **wrong,
            "pass": idle == 0 and len(chain) == CHAIN and oracle.is_clean(wrong),
        }

"""Six roles ask for everything there is, and nobody reads a word that is not theirs.

Every address, page of the admin, command and export is asked for as each role; prompts are caught at
a local model, logs and records are read. Then memberships change, one way after the other, as Slack
tells them, and it is asked again. Oracle: `tests/leaks/world.py`, who may read which place, by hand.
"""

import random
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

NAME = "14 leaks"
SMALL_DATABASES = ("postgresql",)
SMALL = (160, 12)  # probes at first, and after each change; at full size all, and:
FULL_AFTER = 400


def run(*, full: bool, seed: int, work: Path, database_url: str) -> dict[str, Any]:
    return judged(full=full, seed=seed)


def judged(*, full: bool, seed: int) -> dict[str, Any]:
    from django.conf import settings
    from django.db import transaction

    from tests.leaks.probes import Eyes, overhearing, records
    from tests.leaks.world import WORD, World

    settings.SLACK_BOT_TOKEN = ""  # nothing is asked of anybody outside
    chance = random.Random(seed)
    with transaction.atomic():
        world = World(seed).build()
    eyes = Eyes(world)
    counts: Counter[str] = Counter()
    leaks: list[str] = []
    with overhearing() as heard:
        _ask(world, eyes, chance, None if full else SMALL[0], "at first", counts, leaks)
        counts["prompts"] = _prompts(world, leaks)
        for change in World.CHANGES:
            world.change(change)
            for client in eyes.clients.values():  # news of before waits for its reader's next page
                client.cookies.pop("messages", None)
            at_most = FULL_AFTER if full else SMALL[1]
            _ask(world, eyes, chance, at_most, change, counts, leaks)
    kept = {found[0] for found in WORD.finditer(records())}
    probed = counts["probes"]
    return {
        "n": probed,
        "seen": counts["seen"],
        "prompts": counts["prompts"],
        "log_lines": len(heard.lines),
        "words_in_logs": len(heard.words),
        "words_in_records": len(kept),
        "leaks": len(leaks),
        "first_leaks": leaks[:5],
        "pass": not (leaks or heard.words or kept)
        and probed >= (5000 if full else 100)
        and counts["seen"] > probed / 100
        and counts["prompts"] >= 10,
    }


def _ask(
    world: Any,
    eyes: Any,
    chance: random.Random,
    at_most: int | None,
    stage: str,
    counts: Counter[str],
    leaks: list[str],
) -> None:
    from tests.leaks.probes import probes
    from tests.leaks.world import WORD

    wanted = list(probes(world))
    if at_most is not None and len(wanted) > at_most:
        wanted = chance.sample(wanted, at_most)
    for probe in wanted:
        text = probe.ask(eyes)
        counts["probes"] += 1
        counts["seen"] += bool(WORD.search(text))
        if found := world.leaks(text, probe.role):
            leaks.append(f"{stage}: {probe.role}: {probe.what}: {sorted(found)[:3]}")


def _prompts(world: Any, leaks: list[str]) -> int:
    """Something is said everywhere and remembered by a model that repeats it: what it is shown is
    for all readers of what it answers."""
    from django.conf import settings
    from pytest_httpserver import HTTPServer

    from memories.llm import configured
    from memories.models import Channel, Generation
    from memories.pipeline.passes import run_pass
    from tests.leaks.world import ELSEWHERE, WORD, word
    from tests.llm.forgetful import ForgetfulModel

    Generation.objects.filter(state__in=("waiting", "dead")).delete()
    for place in world.channels:
        for letter in "abc":
            world.say(place, f"talk{letter}")
    Channel.objects.update(start_us=0)
    with HTTPServer(host="127.0.0.1", port=0) as server:
        model = ForgetfulModel(server)
        summariser = configured(
            api_key="none", base_url=server.url_for("/v1"), model="fake", timeout=20.0
        )
        settings.MEMORYHUB_LLM_CONCURRENCY = 4
        now = world.now
        for _ in range(2):
            for workspace in (world.team, world.channels[ELSEWHERE].workspace):
                run_pass(workspace, now, summariser)
            now += timedelta(hours=4)
    world.refresh()
    # Replies stand in the channel's segments too.
    flowed = {"talka", "talkb", "talkc", "said", "replya", "replyb", "old", "new"}
    world.flowed = tuple(flowed)
    for prompt in model.prompts:
        words = WORD.findall(prompt)
        places = {place for place, _ in words}
        for place, readers in _outputs(world, places):
            for other, what in words:
                allowed = world.audiences[other]
                if other == "harbor":
                    allowed = allowed | world.published(what)
                if other != place and not readers <= allowed:
                    leaks.append(f"prompt of {place}: {word(other, what)}")
    return len(model.prompts)


def _outputs(world: Any, places: set[str]) -> list[tuple[str, set[str]]]:
    """Whose prompt it is: of the narrowest place in it, and who reads what comes of it."""
    known = {place: world.audiences[place] for place in places}
    narrow = {place: readers for place, readers in known.items() if "public" not in readers}
    narrow.pop("harbor", None) if len(narrow) > 1 or len(known) > 1 else None
    if "fjord" in places:  # shared: strangers read it, and nobody else's text
        return [("fjord", {"stranger", *world.audiences["fjord"]})]
    return sorted(narrow.items())


if __name__ == "__main__":
    import sys

    from tests.hard.__main__ import main

    sys.argv[1:] = ["bar_leaks"]
    sys.exit(main())

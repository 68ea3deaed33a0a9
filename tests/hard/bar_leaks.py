"""Six roles ask for everything there is, and nobody reads a word that is not theirs.

Every address, page of the admin, command and export is asked for as each role; prompts are caught at
a local model, logs and records are read. Then memberships change, one way after the other, as Slack
tells them: each role is asked again for all that showed what it lost, and for more by chance.
Oracle: `tests/leaks/world.py`, who may read which place, by hand.
"""

import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

NAME = "14 leaks"
SMALL_DATABASES = ()
SMALL = (120, 30)  # probes by chance at first, and after the last change; at full size all, and:
FULL_AFTER = 400  # after each change


def run(*, full: bool, seed: int, work: Path, database_url: str) -> dict[str, Any]:
    from django.conf import settings
    from django.db import transaction

    from tests.leaks.probes import Eyes, overhearing, records
    from tests.leaks.world import WORD, World

    settings.SLACK_BOT_TOKEN = ""  # nothing is asked of anybody outside
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # quick
    forms = _forms() if full else None  # at small size `tests/test_leaks.py` posts them
    with transaction.atomic():
        world = World(seed).build()
    world.bring(work)
    matrix = _Matrix(world, Eyes(world), random.Random(seed))
    with overhearing() as heard:
        matrix.ask(matrix.chosen(None if full else SMALL[0]), "at first")
        prompts, leaks = _prompts(world)
        for change in World.CHANGES:
            matrix.ask(matrix.lost_by(change), change)
            # To list all probes takes longer than to ask a few of them.
            if full or change == World.CHANGES[-1]:
                matrix.ask(matrix.chosen(FULL_AFTER if full else SMALL[1]), change)
    leaks += matrix.leaks
    kept = {found[0] for found in WORD.finditer(records())}
    counts, probed = matrix.counts, matrix.counts["probes"]
    return {
        "n": probed,
        "seen": counts["seen"],
        "lost": counts["lost"],
        "prompts": prompts,
        "log_lines": len(heard.lines),
        "words_in_logs": len(heard.words),
        "words_in_records": len(kept),
        "leaks": len(leaks),
        "first_leaks": leaks[:5],
        "forms": str(forms or ""),
        "pass": not (leaks or heard.words or kept)
        and (forms is None or forms.is_clean)
        and probed >= (5000 if full else 100)
        and counts["seen"] > probed / 100
        and counts["lost"] >= (1000 if full else 1)
        and prompts >= 10,
    }


def _forms() -> Any:
    """Post every form as every attacker, in a world of its own, and undo it all."""
    from django.db import transaction

    from tests.leaks.attack import attack
    from tests.leaks.attacked import ATTACKERS, AttackedTeam

    with transaction.atomic():
        report = attack(AttackedTeam().build(), ATTACKERS, is_full=True)
        transaction.set_rollback(True)
    return report


@dataclass
class _Matrix:
    """All that can be asked for, and what it told whom so far."""

    world: Any
    eyes: Any
    chance: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    leaks: list[str] = field(default_factory=list)
    # Of what each probe showed to anybody: the places.
    shown: dict[str, set[str]] = field(default_factory=dict)

    def chosen(self, at_most: int | None) -> list[Any]:
        """All that can be asked for now, or so many by chance."""
        from tests.leaks.probes import probes

        wanted = list(probes(self.world))
        if at_most is None or len(wanted) <= at_most:
            return wanted
        return self.chance.sample(wanted, at_most)

    def lost_by(self, change: str) -> list[Any]:
        """What showed the places that a role could read before this change, and cannot now."""
        from tests.leaks.probes import probes

        before = {place: set(readers) for place, readers in self.world.audiences.items()}
        asked = {(one.role, one.what): one for one in probes(self.world)}
        self.world.change(change)
        for client in self.eyes.clients.values():  # news of before waits for its reader's next page
            client.cookies.pop("messages", None)
        lost = [
            one
            for (role, what), one in asked.items()
            if any(
                role in before.get(place, ()) and role not in self.world.audiences[place]
                for place in self.shown.get(what, ())
            )
        ]
        self.counts["lost"] += len(lost)
        return lost

    def ask(self, probes: list[Any], stage: str) -> None:
        from tests.leaks.world import WORD

        for probe in probes:
            text = probe.ask(self.eyes)
            places = {place.lower() for place, _ in WORD.findall(text)}
            self.shown.setdefault(probe.what, set()).update(places & set(self.world.audiences))
            self.counts["probes"] += 1
            self.counts["seen"] += bool(places)
            if found := self.world.leaks(text, probe.role):
                self.leaks.append(f"{stage}: {probe.role}: {probe.what}: {sorted(found)[:3]}")


def _prompts(world: Any) -> tuple[int, list[str]]:
    """Something is said everywhere and remembered by a model that repeats it: what it is shown is
    for all readers of what it answers. How many prompts, and which words in them are not."""
    from django.conf import settings
    from django.db import connection
    from pytest_httpserver import HTTPServer

    from memories.llm import configured
    from memories.models import Channel, Job
    from memories.pipeline.passes import run_pass
    from tests.leaks.world import ELSEWHERE, WORD, WORKSPACE, word
    from tests.llm.forgetful import ForgetfulModel

    places = {channel.pk: name for name, channel in world.channels.items()}
    outputs: list[str] = []

    class Model(ForgetfulModel):
        """Notes of each prompt whose memory is made of its answer: one is asked for at a time."""

        def answer(self, request: Any) -> Any:
            asked = Job.objects.select_related("memory__workspace").get(state="claimed")
            memory = asked.memory
            own = WORKSPACE if memory.workspace == world.team else ELSEWHERE
            outputs.append(places[memory.channel_id] if memory.channel_id else own)
            connection.close()  # this thread's
            return super().answer(request)

    Job.objects.filter(state__in=("waiting", "dead")).delete()
    for place in world.channels:
        for letter in "abc":
            world.say(place, f"talk{letter}")
    Channel.objects.update(start_us=0)
    with HTTPServer(host="127.0.0.1", port=0) as server:
        model = Model(server)
        summariser = configured(
            api_key="none", base_url=server.url_for("/v1"), model="fake", timeout=60.0
        )
        settings.MEMORYHUB_LLM_CONCURRENCY = 1
        now = world.now
        for _ in range(2):
            for workspace in {channel.workspace for channel in world.channels.values()}:
                run_pass(workspace, now, summariser)
            now += timedelta(hours=4)
    world.refresh()
    # Replies stand in the channel's segments too.
    world.flowed = ("talka", "talkb", "talkc", "said", "replya", "replyb", "old", "new")
    if {WORKSPACE, ELSEWHERE, *places.values()} - set(outputs):
        raise RuntimeError(f"of some places nothing was asked: {sorted(set(outputs))}")
    leaks = []
    for output, prompt in zip(outputs, model.prompts, strict=True):
        readers = world.audiences[output] or {"public"}  # whoever is in it reads that too
        if output == "fjord":  # shared: strangers read it too
            readers = {"stranger", *readers}
        for place, what in WORD.findall(prompt):
            allowed = world.audiences[place] | (
                world.published(what) if place == "harbor" else set()
            )
            if place != output and not readers <= allowed:
                leaks.append(f"prompt of {output}: {word(place, what)}")
    return len(outputs), leaks


if __name__ == "__main__":
    import sys

    from tests.hard.__main__ import main

    sys.argv[1:] = ["bar_leaks"]
    sys.exit(main())

"""Six roles ask for everything there is, and nobody reads a word that is not theirs.

Every address, page of the admin, command and export is asked for as each role; prompts are caught at
a local model, logs and records are read. Then memberships change, one way after the other, as Slack
tells them: each role is asked again for all that showed what it lost, and for more by chance.
Oracle: `tests/leaks/world.py`, who may read which place, by hand.

At full size two processes share the work, each with a database of its own: every second address is
asked for, by all roles, and every second form is posted, by all attackers.
"""

import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from zlib import crc32

from tests.databases import beside_it, connect
from tests.hard.frame import run_apart

NAME = "14 leaks"
SMALL_DATABASES = ()
SMALL = (120, 30)  # probes by chance at first, and after the last change; at full size all, and:
FULL_AFTER = 400  # after each change
QUICK = "django.contrib.auth.hashers.MD5PasswordHasher"


SHARES = 2  # of the probes, and of the posts, at full size; so many processes at a time
SHARE = "LEAKS_SHARE"  # what a process does of it, in its environment


def run(*, full: bool, seed: int, work: Path, database_url: str) -> dict[str, Any]:
    if SHARE in os.environ:
        kind, number = os.environ[SHARE].split()
        share_of = _probes if kind == "probes" else _posts
        return share_of(int(number), SHARES, full=full, seed=seed, work=work)
    if not full:  # `tests/test_leaks.py` posts the forms then
        return _judged([_probes(0, 1, full=full, seed=seed, work=work)], [], full=full)
    with ThreadPoolExecutor(SHARES) as pool:
        probes, posts = (
            [
                pool.submit(_apart, kind, number, database_url, work, seed)
                for number in range(SHARES)
            ]
            for kind in ("probes", "posts")
        )
        shares = [share.result() for share in (*probes, *posts)]
    failed = [share for share in shares if "error" in share]
    return failed[0] if failed else _judged(shares[:SHARES], shares[SHARES:], full=full)


def _apart(kind: str, number: int, database_url: str, work: Path, seed: int) -> dict[str, Any]:
    """A share in a process of its own."""
    folder = work / f"{kind}{number}"
    (folder / "var").mkdir(parents=True)
    (folder / "var" / "static").symlink_to((work / "var" / "static").resolve())
    share = {SHARE: f"{kind} {number}"}
    began = time.monotonic()
    with _copy(database_url, folder) as url:
        figures = run_apart(
            Path(__file__).stem, url, folder, full=True, seed=seed, environment=share
        )
    return figures | {"seconds": round(time.monotonic() - began)}


@contextmanager
def _copy(database_url: str, folder: Path) -> Iterator[str]:
    """A copy of the hard test's database, which nothing has used yet."""
    parts = urlsplit(database_url)
    if parts.scheme == "sqlite":
        shutil.copy(parts.path.removeprefix("/"), folder / "db.sqlite3")
        yield f"sqlite:///{folder / 'db.sqlite3'}"
        return
    template = parts.path.removeprefix("/")
    name = f"{template}_{folder.name}"
    server = beside_it(database_url, "postgres")
    with closing(connect(server)) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"'.encode())
        try:
            yield beside_it(database_url, name)
        finally:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


def _probes(number: int, of: int, *, full: bool, seed: int, work: Path) -> dict[str, Any]:
    """Ask for one of so many equal parts of everything."""
    from django.conf import settings
    from django.db import transaction

    from tests.leaks.probes import Eyes, overhearing, records
    from tests.leaks.world import WORD, World

    settings.SLACK_BOT_TOKEN = ""  # nothing is asked of anybody outside
    settings.PASSWORD_HASHERS = [QUICK]
    with transaction.atomic():
        world = World(seed).build()
    world.bring(work)
    matrix = _Matrix(world, Eyes(world), random.Random(seed), number, of)
    with overhearing() as heard:
        matrix.ask(matrix.chosen(None if full else SMALL[0]), "at first")
        prompts, leaks = _prompts(world)
        matrix.listed = []
        for change in World.CHANGES:
            matrix.ask(matrix.lost_by(change), change)
            # To list all probes takes longer than to ask a few of them.
            if full or change == World.CHANGES[-1]:
                matrix.ask(matrix.chosen(FULL_AFTER // of if full else SMALL[1]), change)
    return {
        **{name: matrix.counts[name] for name in ("probes", "seen", "lost")},
        "prompts": prompts,
        "log_lines": len(heard.lines),
        "words_in_logs": len(heard.words),
        "words_in_records": len({match[0] for match in WORD.finditer(records())}),
        "leaks": [*leaks, *matrix.leaks],
    }


def _judged(
    probes: list[dict[str, Any]], posts: list[dict[str, Any]], *, full: bool
) -> dict[str, Any]:
    """What all shares together show."""
    numbers = ("probes", "seen", "lost", "log_lines", "words_in_logs", "words_in_records")
    sums = {name: sum(share[name] for share in probes) for name in numbers}
    leaks = [leak for share in probes for leak in share["leaks"]]
    prompts = min(share["prompts"] for share in probes)  # each share sends the same
    posted: Counter[str] = Counter()
    for share in posts:
        posted.update(share["counts"])
    gained = {
        kind: [what for share in posts for what in share[kind]]
        for kind in ("leaks", "gains", "functions", "refused")
    }
    probed = sums.pop("probes")
    return {
        "n": probed,
        **sums,
        "prompts": prompts,
        "leaks": len(leaks),
        "first_leaks": leaks[:5],
        "forms": len({name for share in posts for name in share["forms"]}),
        "posted": dict(posted),
        "gained": {kind: len(what) for kind, what in gained.items()},
        "first_gained": [what[:5] for what in gained.values() if what],
        "seconds_of_shares": [share["seconds"] for share in (*probes, *posts) if full],
        "pass": not (leaks or sums["words_in_logs"] or sums["words_in_records"])
        and not any(gained.values())
        and (not full or posted["posts"] > 500 and posted["opened on the record"])
        and probed >= (5000 if full else 100)
        and sums["seen"] > probed / 100
        and sums["lost"] >= (1000 if full else 1)
        and prompts >= 10,
    }


def _posts(number: int, of: int, *, full: bool, seed: int, work: Path) -> dict[str, Any]:
    """Post one of so many equal parts of the forms, as every attacker, and undo it all."""
    from django.conf import settings
    from django.db import transaction

    from tests.leaks.attack import attack
    from tests.leaks.attacked import ATTACKERS, AttackedTeam

    settings.SLACK_BOT_TOKEN = ""
    settings.PASSWORD_HASHERS = [QUICK]
    with transaction.atomic():
        world = AttackedTeam().build()
        report = attack(world, ATTACKERS, is_full=full, share=(number, of))
        transaction.set_rollback(True)
    return {
        "counts": dict(report.counts),
        "forms": sorted(report.forms),
        "leaks": report.leaks,
        "gains": report.gains,
        "functions": report.functions,
        "refused": report.refused,
    }


@dataclass
class _Matrix:
    """A share of all that can be asked for, and what it told whom so far."""

    world: Any
    eyes: Any
    chance: random.Random
    number: int  # of the share
    of: int
    counts: Counter[str] = field(default_factory=Counter)
    leaks: list[str] = field(default_factory=list)
    listed: list[Any] = field(default_factory=list)  # the probes of the world as it is, once listed
    # Of what each probe showed to anybody: the places.
    shown: dict[str, set[str]] = field(default_factory=dict)

    def probes(self) -> Iterator[Any]:
        """What can be asked for now. All roles ask the same of one share: what an address showed to
        one of them is asked for again by those who lost it."""
        from tests.leaks.probes import probes

        for probe in probes(self.world):
            if crc32(probe.what.encode()) % self.of == self.number:
                yield probe

    def chosen(self, at_most: int | None) -> list[Any]:
        """All that can be asked for now, or so many by chance."""
        self.listed = list(self.probes())
        if at_most is None or len(self.listed) <= at_most:
            return self.listed
        return self.chance.sample(self.listed, at_most)

    def lost_by(self, change: str) -> list[Any]:
        """What showed the places that a role could read before this change, and cannot now."""
        before = {place: set(readers) for place, readers in self.world.audiences.items()}
        probes = {(probe.role, probe.what): probe for probe in self.listed or self.probes()}
        self.world.change(change)
        self.listed = []
        for client in self.eyes.clients.values():  # news of before waits for its reader's next page
            client.cookies.pop("messages", None)
        lost = [
            probe
            for (role, what), probe in probes.items()
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
            if leaked := self.world.leaks(text, probe.role):
                self.leaks.append(f"{stage}: {probe.role}: {probe.what}: {sorted(leaked)[:3]}")


def _prompts(world: Any) -> tuple[int, list[str]]:
    """Something is said everywhere and remembered by a model that repeats it: what it is shown is
    for all readers of what it answers. How many prompts, and which words in them are not."""
    from django.conf import settings
    from django.db import connection
    from pytest_httpserver import HTTPServer

    from memories.llm import get_summariser
    from memories.models import Channel, Job
    from memories.pipeline.generate.passes import run_pass
    from tests.leaks.world import ELSEWHERE, WORD, WORKSPACE, word
    from tests.llm.forgetful import ForgetfulModel

    places = {channel.pk: name for name, channel in world.channels.items()}
    outputs: list[str] = []

    class Model(ForgetfulModel):
        """Notes of each prompt whose memory is made of its answer: one is asked for at a time."""

        def answer(self, request: Any) -> Any:
            job = Job.objects.select_related("memory__workspace").get(state="claimed")
            memory = job.memory
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
        summariser = get_summariser(
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

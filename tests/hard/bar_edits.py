"""Two people and a job change one memory at the same time, round after round.

Each round both people open the editor and save a line of their own over what they saw, by HTTP,
before, in or after the call by which a pass merges new messages, with a model that forgets.
Conflicts are settled as the pages offer. Oracle: the people's own ledgers. Each accepted line is in
every version from then on until its author clears the text (each epoch's end), each refused save
showed the loser's text, and the lines that were pinned at the start are in every version.
"""

import contextlib
import json
import os
import random
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from tests.hard.model_client import ROOT, FakeModel, fake_model

NAME = "6 edits"
SMALL_DATABASES = ()
ENVIRONMENT = {"MEMORYHUB_LLM_TIMEOUT": "30", "MEMORYHUB_LEASE": "60", "MEMORYHUB_BACK_OFF": "0.1"}
ROUNDS = {True: 2000, False: 16}  # full, small; a fifth of the full number on SQLite
EPOCH = {
    True: 20,
    False: 8,
}  # rounds until the lines of people are cleared away: a text has its limits
MAX_ROUND_RATIO = 4  # times the rounds, until each kind of clash came about
PEOPLE = ("aya", "ben")
LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"


def run(*, full: bool, seed: int, work: Path, database_url: str) -> dict[str, Any]:
    from tests.hard.web import served

    rounds = ROUNDS[full]
    if database_url.startswith("sqlite"):
        rounds //= 5
    with contextlib.ExitStack() as stack:
        thinking = (0.05, 0.15)
        forgets = {"shrink": 0.3}
        model = stack.enter_context(fake_model(work, seed=seed, latency=thinking, faults=forgets))
        job = stack.enter_context(Child.started(work, "bar_edits", "job", model.url, str(seed)))
        world = json.loads(job.say("begin"))
        _add_people()
        url = stack.enter_context(served(work))
        ledgers = [work / f"{name}.jsonl" for name in PEOPLE]
        people = [
            stack.enter_context(Child.started(work, "person", url, name, str(ledger), str(seed)))
            for name, ledger in zip(PEOPLE, ledgers, strict=True)
        ]
        for position in world["pinned"]:
            _expect("302", people[0].say(f"pin {world['version']} {position}"))
        rounds, errors = _rounds(rounds, EPOCH[full], seed, world, people, job, model)
        figures = json.loads(job.say("figures"))
    rows = [json.loads(line) for ledger in ledgers for line in ledger.read_text().splitlines()]
    return _judged(rounds, world, rows, figures, errors)


def _rounds(
    rounds: int,
    epoch: int,
    seed: int,
    world: dict[str, Any],
    people: "list[Child]",
    job: "Child",
    model: FakeModel,
) -> tuple[int, list[str]]:
    """Play the rounds, and more until the model has tried to change somebody's line.

    Returns how many rounds there were, and what went wrong.
    """
    chance = random.Random(seed)
    errors: list[str] = []
    number = 0
    while number < rounds or number < MAX_ROUND_RATIO * rounds and not _refused_changes(job):
        number += 1
        tokens = [_token(chance, number, person) for person in range(len(people))]
        for person in people:  # both see the same text before either of them saves
            person.tell(f"open {world['memory']}")
        for person in people:
            _expect("200", person.hear())
        calls = model.stats()["n"]
        job.tell("pass_over")
        # At once, or while the model thinks about the messages, or about the merge.
        while model.stats()["n"] < calls + number % 3 and not job.has_answered:
            time.sleep(0.005)
        for person, token in zip(people, tokens, strict=True):
            person.tell(f"add {token}")
        for person in people:
            if (answer := person.hear()) != "302":
                errors.append(f"round {number}: {answer}")
        if failed := json.loads(job.hear()):
            errors.append(f"round {number}: {failed}")
        if number % epoch == 0 and number != rounds:
            lines = json.dumps([world["lines"][i] for i in world["pinned"]])
            _expect("302", people[number // epoch % 2].say(f"clear {lines}"))
    return number, errors


def _refused_changes(job: "Child") -> int:
    return int(json.loads(job.say("figures"))["refused_changes"])


def _token(chance: random.Random, number: int, person: int) -> str:
    return f"tk{number:04d}{person}" + "".join(chance.choices(LETTERS, k=3))


def _judged(
    rounds: int,
    world: dict[str, Any],
    rows: list[dict[str, Any]],
    figures: dict[str, Any],
    errors: list[str],
) -> dict[str, Any]:
    """The ledgers held against the history. ``history`` is each version's lines, oldest first."""
    history: list[set[str]] = [set(lines) for lines in figures.pop("history")]
    pinned = {world["lines"][i] for i in world["pinned"]}
    unpinned = sum(not pinned <= lines for lines in history[world["number"] - 1 :])
    accepted = [row["token"] for row in rows if row["status"] == 302 and row["token"]]
    refused = [row for row in rows if row["status"] == 409]
    hidden = [
        row
        for row in refused
        if not row["mine_is_kept"]
        or not row["mine_is_shown"]
        or (row["token"] and not row["mine_is_in_result"])
    ]
    # A clearing keeps the pinned lines and no other.
    ends = [i for i, lines in enumerate(history) if i >= world["number"] and lines == pinned]
    lost = [token for token in accepted if not _stayed(f"- {token}", history, ends)]
    not_saved = 2 * rounds - len(accepted)
    raced = bool(refused and figures["superseded"] and figures["refused_changes"])
    in_a_row = figures.pop("numbers") == list(range(1, len(history) + 1))
    passed = not (lost or hidden or unpinned or not_saved or errors) and raced and in_a_row
    return {
        "pass": passed,
        "n": rounds,
        "edits": len(accepted),
        "lost": len(lost),
        "conflicts": len(refused),
        "conflicts_without_the_losers_text": len(hidden),
        "versions_without_a_pinned_line": unpinned,
        "versions": len(history),
        "numbers_in_a_row": in_a_row,
        **figures,
        "errors": errors[:3],
    }


def _stayed(line: str, history: list[set[str]], ends: list[int]) -> bool:
    """Whether it stands in every version from its first on until the next clearing, or the end."""
    first = next((i for i, lines in enumerate(history) if line in lines), None)
    if first is None:
        return False
    until = next((end for end in ends if end > first), len(history))
    return all(line in lines for lines in history[first:until])


def _expect(expected: str, heard: str) -> None:
    if heard != expected:
        raise RuntimeError(f"{heard!r}, not {expected!r}")


class Child:
    """A child process that reads one command a line and answers each with a line."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdin is not None and process.stdout is not None
        self.process = process
        self._to: IO[str] = process.stdin
        self._from: IO[str] = process.stdout

    @classmethod
    @contextlib.contextmanager
    def started(cls, work: Path, module: str, *arguments: str) -> "Iterator[Child]":
        with (work / "told.log").open("a") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", f"tests.hard.{module}", *arguments],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        child = cls(process)
        try:
            _expect("ready", child.hear())
            yield child
        finally:
            process.kill()
            process.communicate()

    def tell(self, words: str) -> None:
        self._to.write(f"{words}\n")
        self._to.flush()

    def hear(self) -> str:
        return self._from.readline().rstrip("\n")

    @property
    def has_answered(self) -> bool:
        return bool(select.select([self._from], [], [], 0)[0])

    def say(self, words: str) -> str:
        self.tell(words)
        return self.hear()


def _add_people() -> None:
    from django.contrib.auth.hashers import make_password
    from django.utils import timezone

    from memories.models import Channel, ChannelMember, Member, Person, User, Workspace
    from tests.hard.person import PASSWORD

    secret, team, channel = make_password(PASSWORD), Workspace.objects.get(), Channel.objects.get()
    for name in PEOPLE:
        user = User.objects.create(username=name, password=secret)
        Member.objects.create(workspace=team, user=user, role="editor")
        person = Person.objects.create(workspace=team, slack_id=name, name=name)
        person.link(user, "slack")
        ChannelMember.objects.create(channel=channel, person=person)
    Channel.objects.update(members_known_at=timezone.now())


# -- the job, in a process of its own: `python -m tests.hard.bar_edits job MODEL_URL SEED`


def _job(model_url: str, seed: str) -> None:
    os.environ |= {
        "OPENAI_BASE_URL": model_url,
        "OPENAI_API_KEY": "none",
        "MEMORYHUB_MODEL": "fake",
        "DJANGO_SETTINGS_MODULE": "memoryhub.settings",
    }
    import django

    django.setup()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    job = _Job()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(getattr(job, line.strip())()) + "\n")
        sys.stdout.flush()


class _Job:
    def begin(self) -> dict[str, Any]:
        """A channel with a first long-term memory, and which of its lines are to be pinned."""
        from memories.models import Channel, Memory
        from tests.hard.world import World

        self.world = World()
        (self.channel,) = self.world.add_workspace("team", 1, long_term_max_tokens=4000)
        # Private: no workspace memory is merged from it, which is another matter.
        Channel.objects.update(kind=Channel.Kind.PRIVATE)
        self.channel.refresh_from_db()
        errors = self.pass_over()
        self.memory = Memory.objects.get(scope="channel", memory_type="long_term")
        version = self.memory.current
        if version is None or errors:
            raise RuntimeError(f"no memory to begin with: {errors}")
        lines = [line.text for line in version.lines.all()]
        return {
            "memory": self.memory.pk,
            "version": version.pk,
            "number": version.number,
            "lines": lines,
            "pinned": [0, len(lines) - 1],
        }

    def pass_over(self) -> list[str]:
        from django.utils import timezone

        from memories.models import Workspace
        from memories.pipeline.generate.passes import run_pass

        self.world.feed(self.channel)
        errors = run_pass(Workspace.objects.get(), timezone.now()).errors
        # Of an answer that only changes lines of people nothing is left: it is asked again.
        return [error for error in errors if not error.endswith(": no_operation")]

    def figures(self) -> dict[str, Any]:
        from memories.models import Job, MemoryVersion

        versions = list(MemoryVersion.objects.filter(memory=self.memory).order_by("number"))
        states = Job.objects.filter(memory=self.memory).values_list("state", flat=True)
        return {
            "history": [version.content.split("\n") for version in versions],
            "numbers": [version.number for version in versions],
            "merges": sum(version.origin == "model" for version in versions),
            "superseded": sum(state == Job.State.SUPERSEDED for state in states),
            "proposed": sum(state == Job.State.PROPOSED for state in states),
            "kept": sum(len(version.kept) for version in versions),
            "restored": sum(len(version.put_back) for version in versions),
            # What the model wanted to do to lines of people.
            "refused_changes": sum(
                change.startswith("kept_line: ")
                for version in versions
                for change in version.dropped
            ),
        }


if __name__ == "__main__":
    if sys.argv[1:2] == ["job"]:
        _job(*sys.argv[2:])
    else:
        from tests.hard.__main__ import main

        sys.argv[1:] = ["bar_edits"]
        sys.exit(main())

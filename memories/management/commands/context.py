"""What a bot or an agent is given: one text, or its parts (S2, rule 10)."""

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from memories.management.arguments import (
    add_reader_argument,
    add_workspace_argument,
    document,
    moment,
    reader_from,
    workspace_from,
)
from memories.pipeline.context.build import build_context
from memories.rules.context.blocks import Part
from memories.rules.context.contents import DEFAULT_BUDGET, LEAVABLE, NoSuchChannel, NoThread


class Command(BaseCommand):
    help = "Print the context of a workspace: memories, conversation and notes as one text."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_workspace_argument(parser)
        add_reader_argument(parser)
        parser.add_argument(
            "--channel", metavar="ID_OR_NAME", help="with the conversation of this channel"
        )
        parser.add_argument("--thread", metavar="TS", help="with this thread of the channel")
        parser.add_argument(
            "--budget",
            metavar="TOKENS",
            type=int,
            help="the best lines and messages for so many tokens (estimated); 0: all memories whole;"
            f" default: {DEFAULT_BUDGET} for the text, JSON keys whole",
        )
        parser.add_argument(
            "--query",
            metavar="TEXT",
            default="",
            help="a question: lines and messages about it come first",
        )
        parser.add_argument(
            "--without",
            metavar="SECTION",
            action="append",
            choices=LEAVABLE,
            type=Part,
            default=[],
            help=f"leave this section out: {', '.join(LEAVABLE)}; may be given again",
        )
        parser.add_argument("--persona", metavar="TEXT", default="", help="who the bot is")
        parser.add_argument(
            "--notes", action="store_true", help="with the notes where notes_inject is manual"
        )
        parser.add_argument(
            "--with-archive",
            action="store_true",
            help="with lines that left long-term memories for want of room",
        )
        parser.add_argument(
            "--at",
            metavar="ISO-8601",
            help="the conversation up to this moment (UTC if unsaid), memories as they are now",
        )
        parser.add_argument(
            "--format", choices=("text", "json"), default="text", help="default: text"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["budget"] is not None and options["budget"] < 0:
            raise CommandError("--budget must be 0 or more.")
        try:
            context = build_context(
                workspace_from(options),
                reader_from(options),
                channel=options["channel"],
                thread_ts=options["thread"],
                budget=options["budget"],
                question=options["query"],
                persona=options["persona"],
                with_notes=options["notes"],
                with_archive=options["with_archive"],
                without=options["without"],
                now=moment(options["at"], "--at") if options["at"] else timezone.now(),
            )
        except (NoSuchChannel, NoThread) as error:
            raise CommandError(str(error)) from error
        if options["format"] == "json":
            self.stdout.write(document(context.as_json()))
            return
        self.stdout.write(context.text)
        if options["budget"] and context.tokens > options["budget"]:
            self.stderr.write(f"over the budget: the persona takes {context.tokens} tokens")
        for item in context.left_out:
            what = f"{item.what} {item.id}".rstrip()
            self.stderr.write(f"left out: {what}, {item.count} ({item.reason})")

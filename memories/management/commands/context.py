"""Print the context for a bot or an agent (S2, rule 10)."""

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from memories.management import arguments
from memories.pipeline.context.build import build_context
from memories.rules.context.blocks import Part
from memories.rules.context.contents import DEFAULT_BUDGET, LEAVABLE, NoSuchChannel, NoThread


class Command(BaseCommand):
    help = "Print the context of a workspace: memories, conversation and notes as one text."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_workspace(parser)
        arguments.add_reader(parser)
        parser.add_argument(
            "--channel", metavar="ID_OR_NAME", help="include the conversation of this channel"
        )
        parser.add_argument("--thread", metavar="TS", help="include this thread of the channel")
        parser.add_argument(
            "--budget",
            metavar="TOKENS",
            type=int,
            help="the limit in estimated tokens, filled with the best lines and messages; 0: complete"
            f" memories; default: {DEFAULT_BUDGET} for the text, and complete JSON keys",
        )
        parser.add_argument(
            "--query",
            metavar="TEXT",
            default="",
            help="a question; lines and messages about it come first",
        )
        parser.add_argument(
            "--without",
            metavar="SECTION",
            action="append",
            choices=LEAVABLE,
            type=Part,
            default=[],
            help=f"exclude this section: {', '.join(LEAVABLE)}; may be repeated",
        )
        parser.add_argument(
            "--persona", metavar="TEXT", default="", help="a description of the bot"
        )
        parser.add_argument(
            "--notes", action="store_true", help="include notes if notes_inject is manual"
        )
        parser.add_argument(
            "--with-archive",
            action="store_true",
            help="include archived lines of long-term memories",
        )
        parser.add_argument(
            "--at",
            metavar="ISO-8601",
            help="show what the hub held at this time (UTC without an offset)",
        )
        parser.add_argument(
            "--format", choices=("text", "json"), default="text", help="default: %(default)s"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["budget"] is not None and options["budget"] < 0:
            raise CommandError("--budget must be 0 or more.")
        try:
            context = build_context(
                arguments.workspace_from(options),
                arguments.reader_from(options),
                channel=options["channel"],
                thread_ts=options["thread"],
                budget=options["budget"],
                question=options["query"],
                persona=options["persona"],
                with_notes=options["notes"],
                with_archive=options["with_archive"],
                without=options["without"],
                now=timezone.now(),
                at=arguments.parse_time(options["at"], "--at") if options["at"] else None,
            )
        except (NoSuchChannel, NoThread) as error:
            raise CommandError(str(error)) from error
        if options["format"] == "json":
            self.stdout.write(arguments.document(context.as_json()))
            return
        self.stdout.write(context.text)
        if options["budget"] and context.tokens > options["budget"]:
            self.stderr.write(f"over the budget: the persona takes {context.tokens} tokens")
        for item in context.left_out:
            name = f"{item.what} {item.id}".rstrip()
            self.stderr.write(f"left out: {name}, {item.count} ({item.reason})")

"""Print a prompt: its version, the system message, example data and the request."""

from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memories.management import arguments
from memories.rules.generate import prompts
from memories.rules.memory.identity import MemoryScope, MemoryType, is_valid_memory_combination
from memories.rules.settings import MemorySettings, MergeMode, choices
from memories.rules.summariser import (
    Addition,
    Language,
    MemoryLine,
    MessageLine,
    PromptForm,
    Reference,
    Request,
)

KEY = "0f1e2d3c"  # random in a real call
EXAMPLE_TEXTS: dict[str, dict[str, str]] = {
    "en": {
        "ana": "Ana",
        "ben": "Ben",
        "ask": "Can we move the launch to Friday?",
        "agree": "Yes, Friday it is. I will tell the press office.",
        "old": "2026-10-30 The launch was planned for Wednesday.",
        "new": "2026-11-02 The launch moves to Friday; Ben tells the press office.",
    },
    "ja": {
        "ana": "佐藤",
        "ben": "田中",
        "ask": "公開を金曜日に変えられますか？",
        "agree": "はい、金曜日にしましょう。広報には私から伝えます。",
        "old": "2026-10-30 公開は水曜日の予定だった。",
        "new": "2026-11-02 公開は金曜日に変更。広報への連絡は田中さん。",
    },
}


class Command(BaseCommand):
    requires_system_checks = ()
    help = "Print the prompts for memories, with their versions."

    def add_arguments(self, parser: ArgumentParser) -> None:
        for option, values, default in (
            ("--scope", list(MemoryScope), MemoryScope.CHANNEL),
            ("--type", list(MemoryType), MemoryType.SHORT_TERM),
            ("--language", choices("output_language"), "en"),
            ("--form", list(PromptForm), PromptForm.FULL),
            ("--merge-mode", choices("merge_mode"), "operations"),
        ):
            parser.add_argument(
                option, choices=values, default=default, help="default: %(default)s"
            )
        parser.add_argument("--list", action="store_true", help="list the versions of all prompts")
        arguments.add_json(parser)

    def handle(self, **options: Any) -> None:
        if options["list"]:
            return self._list(options["merge_mode"], as_json=options["json"])
        scope, kind = MemoryScope(options["scope"]), MemoryType(options["type"])
        if not is_valid_memory_combination(scope, kind):
            raise CommandError("A thread has no long-term memory, so there is no prompt for it.")
        request = example(
            scope, kind, options["language"], PromptForm(options["form"]), options["merge_mode"]
        )
        prompt = prompts.build_prompt(request, KEY)
        if options["json"]:
            shown = {"version": prompt.version, "system": prompt.system, "user": prompt.user}
            self.stdout.write(arguments.document(shown))
        else:
            self.stdout.write(f"{prompt.version}\n\n{prompt.system}\n\n{prompt.user}")

    def _list(self, merge_mode: MergeMode, *, as_json: bool) -> None:
        rows = [
            {
                "scope": scope,
                "type": kind,
                "form": form,
                "language": language,
                "version": prompts.prompt_version(request),
            }
            for scope, kind, form, language, request in _examples(merge_mode)
        ]
        if as_json:
            self.stdout.write(arguments.document({"prompts": rows}))
            return
        for row in rows:
            self.stdout.write(
                "{scope:<10} {type:<11} {form:<7} {language:<13} {version}".format(**row)
            )


def example(
    scope: MemoryScope,
    kind: MemoryType,
    language: Language,
    form: PromptForm,
    merge_mode: MergeMode,
) -> Request:
    """Return a small request of this scope and type, with every block that it can have."""
    texts = EXAMPLE_TEXTS["ja" if language == "ja" else "en"]
    settings = MemorySettings()
    long = kind is MemoryType.LONG_TERM
    request = Request(
        scope=scope,
        memory_type=kind,
        max_tokens=settings.long_term_max_tokens if long else settings.short_term_max_tokens,
        language=language,
        zone="UTC",
        scope_name="#general",
        references=[Reference("workspace memory", f"- {texts['old']}")],
        operations=merge_mode == "operations",
        form=form,
    )
    added = [Addition("#general", [MemoryLine(2, texts["new"])])]
    existing = [MemoryLine(1, texts["old"])]
    if scope is MemoryScope.WORKSPACE:
        request = replace(request, references=(), scope_name="Example", additions=added)
        return replace(request, existing=existing) if long else request
    if long:
        return replace(request, existing=existing, additions=added)
    at = datetime(2026, 11, 2, 9, 30, tzinfo=UTC)
    messages = [
        MessageLine(2, at, texts["ana"], texts["ask"]),
        MessageLine(
            3, at.replace(minute=34), texts["ben"], texts["agree"], thread="1793611800.000100"
        ),
    ]
    if scope is MemoryScope.THREAD:
        return replace(request, messages=messages, existing=existing)
    return replace(request, messages=messages)


def _examples(
    merge_mode: MergeMode,
) -> Iterator[tuple[MemoryScope, MemoryType, PromptForm, Language, Request]]:
    languages: tuple[Language, ...] = ("ja", "en", "conversation")
    for scope in MemoryScope:
        for kind in MemoryType:
            if is_valid_memory_combination(scope, kind):
                for form, language in product(PromptForm, languages):
                    request = example(scope, kind, language, form, merge_mode)
                    yield scope, kind, form, language, request

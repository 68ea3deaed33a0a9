"""Probe the configured model, and choose the form of its prompts."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memories.management import arguments
from memories.pipeline.costs.spending import CallRefused
from memories.pipeline.generate.probing import configured_model, probe_model
from memories.rules.generate.probe import ProbeResult
from memories.rules.summariser import SummariserError


class Command(BaseCommand):
    help = (
        "Probe the configured model with small tasks: sources, language, operations, a long text, "
        "reasoning and speed. The stored result chooses the form of the prompts."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        arguments.add_json(parser)

    def handle(self, **options: Any) -> None:
        with arguments.needs_database():
            summariser = configured_model()
        if summariser is None:
            raise CommandError("MEMORYHUB_MODEL names no model. Offline highlights need no probe.")
        try:
            findings = probe_model(summariser)
        except (CallRefused, SummariserError) as error:
            raise CommandError(f"{summariser.endpoint_name} was not probed: {error}") from error
        if options["json"]:
            self.stdout.write(arguments.document({"model": summariser.name, **findings.as_json()}))
        else:
            self.stdout.write(_summary(summariser.endpoint_name, findings))


def _summary(name: str, findings: ProbeResult) -> str:
    yes_no = {True: "yes", False: "no"}
    return "\n".join(
        [
            f"{name}: {findings.form} prompts",
            f"  gives sources:      {yes_no[findings.gives_sources]}",
            f"  keeps the language: {yes_no[findings.keeps_language]}",
            f"  writes operations:  {yes_no[findings.writes_operations]}",
            f"  reasons:            {yes_no[findings.reasons]}",
            f"  reads at once:      {findings.context_tokens or 'unknown'} tokens",
            f"  writes:             {findings.tokens_per_second or 'unknown'} tokens a second",
        ]
    )

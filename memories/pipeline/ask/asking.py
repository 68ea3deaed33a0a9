"""Answer a question from the texts that a reader may read, with or without a model."""

import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.core.cache import cache

from memories.llm import ModelSummariser
from memories.models import Reader, Workspace
from memories.pipeline.ask.passages import Passage, find_passages
from memories.pipeline.costs.spending import CallLedger, CallRefused
from memories.rules.ask.answer import LIMIT, NumberedText, Sentence, build_prompt, parse_answer
from memories.rules.ask.coverage import can_answer
from memories.rules.ingest.timestamps import from_micros
from memories.rules.summariser import SummariserError, Usage

logger = logging.getLogger(__name__)

PER_MINUTE = 10  # questions of one reader that a model may answer


@dataclass(frozen=True)
class Answer:
    """``passages`` are the readable texts about the question, best first.

    ``sentences`` is the model's answer, whose numbers count the passages from 1. It is empty if the
    passages support no sentence, and if they cannot answer the question: no model is called for it. It
    is None without a model, and if the call failed (``has_failed``).
    """

    passages: Sequence[Passage]
    sentences: Sequence[Sentence] | None = None
    has_failed: bool = False


def ask(
    question: str,
    workspace: Workspace,
    reader: Reader,
    now: datetime,
    model: ModelSummariser | None = None,
) -> Answer:
    """Return the answer. Call it outside of transactions: with a model it makes a call.

    Over the limit of the reader the model counts as failed.
    """
    passages = find_passages(question, workspace, reader, now)
    if not passages:
        return Answer(passages)
    texts = number(passages, workspace)
    if not can_answer(question, texts):
        return Answer(passages, sentences=())
    if model is None:
        return Answer(passages)
    if _is_over_limit(reader, now):
        return Answer(passages, has_failed=True)
    ledger = CallLedger(workspace, model)
    form = ledger.form
    prompt = build_prompt(question, texts, secrets.token_hex(4), form)
    thinking_tokens = ledger.thinking_tokens
    bound = Usage(prompt.tokens, LIMIT + thinking_tokens, 1)
    try:
        reply = ledger.call_without_job(bound, lambda: model.answer(prompt, LIMIT, thinking_tokens))
    except (CallRefused, SummariserError) as error:
        logger.warning("a question was not answered by the model: %s", type(error).__name__)
        return Answer(passages, has_failed=True)
    if not reply.text.strip():
        logger.warning("the model's answer was empty: %s", reply.finish_reason)
        return Answer(passages, has_failed=True)
    return Answer(passages, parse_answer(reply.text, texts, form))


def _is_over_limit(reader: Reader, now: datetime) -> bool:
    """Count a question of the reader in this minute. Return whether it is over the limit."""
    if reader.user_id is None and reader.person_id is None:
        return False
    minute = int(now.timestamp()) // 60
    key = f"questions:{reader.user_id}:{reader.person_id}:{minute}"
    cache.add(key, 0, timeout=120)
    return cache.incr(key) > PER_MINUTE


def number(passages: Sequence[Passage], workspace: Workspace) -> list[NumberedText]:
    """Return the passages with their numbers, from 1."""
    zone = workspace.memory_settings.zone
    return [
        NumberedText(
            n,
            passage.text,
            from_micros(passage.at_us).astimezone(zone),
            passage.author,
            passage.channel_id,
        )
        for n, passage in enumerate(passages, start=1)
    ]

"""Counts of one pass."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass
class Report:
    """What a pass closed, made and skipped, with reasons; tokens and seconds of its calls."""

    workspace: str
    now: datetime
    closed: Counter[str] = field(default_factory=Counter)  # segments by trigger
    made: Counter[str] = field(default_factory=Counter)  # versions by scope and type
    skipped: Counter[str] = field(default_factory=Counter)  # outcomes without a version
    waiting: list[dict[str, Any]] = field(default_factory=list)  # channels, and why they wait
    errors: list[str] = field(default_factory=list)
    left: int = 0  # unfinished jobs
    refusals: list[dict[str, Any]] = field(default_factory=list)  # why no call may begin
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return vars(self) | {"now": self.now.isoformat(), "seconds": round(self.seconds, 3)}

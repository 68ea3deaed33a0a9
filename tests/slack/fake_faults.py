"""Faults that replace answers of the fake Slack, once or by chance."""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass
class Fault:
    """A fault in place of an answer; ``body`` None drops the connection.

    ``cut``: the number of bytes that Content-Length promises beyond the body.
    """

    status: int = 500
    body: str | None = "<html>Bad gateway</html>"
    headers: dict[str, str] = field(default_factory=dict)
    cut: int = 0

    @classmethod
    def rate_limited(cls, seconds: int) -> "Fault":
        body = json.dumps({"ok": False, "error": "ratelimited"})
        return cls(429, body, {"Retry-After": str(seconds)})

    @classmethod
    def error(cls, code: str, **fields: str) -> "Fault":
        return cls(200, json.dumps({"ok": False, "error": code, **fields}))

    @classmethod
    def answer(cls, answer: dict[str, Any]) -> "Fault":
        return cls(200, json.dumps(answer))

    @classmethod
    def empty_page(cls) -> "Fault":
        """Return a valid but wrong last page without messages."""
        return cls.answer({"ok": True, "messages": [], "has_more": False})

    @classmethod
    def dropped(cls) -> "Fault":
        return cls(0, None)

    @classmethod
    def cut_off(cls) -> "Fault":
        """The connection ends half way through an answer."""
        return cls(200, '{"ok": true, "messages": [', cut=400)


class RandomFaults:
    """Random faults, each kind with its share of all calls. The same seed has the same faults."""

    KINDS: ClassVar[dict[str, Callable[[], Fault]]] = {
        "502": lambda: Fault(502),
        "503": lambda: Fault(503),
        "dropped": Fault.dropped,
        "cut off": Fault.cut_off,
        "empty": Fault.empty_page,
        "429": lambda: Fault.rate_limited(1),
    }

    def __init__(self, seed: int, shares: Mapping[str, float]) -> None:
        self._chance = random.Random(seed)
        self._shares = dict(shares)

    def __call__(self, method: str) -> Fault | None:
        roll = self._chance.random()
        for kind, share in self._shares.items():
            if roll < share:
                return self.KINDS[kind]()
            roll -= share
        return None

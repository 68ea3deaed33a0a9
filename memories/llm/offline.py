"""The summariser that needs no model. It replies with highlights, in the form of a model's reply."""

import time

from memories.rules.generate.highlights import extract_highlights
from memories.rules.generate.reply import format_with_refs
from memories.rules.summariser import (
    NOTHING,
    OFFLINE,
    Reply,
    ReplyLine,
    Request,
    RequestStrategy,
    Usage,
)

VERSION = "offline-highlights-7"  # increase the number when a reply to the same request changes


class OfflineSummariser:
    """The summariser without a configured model. Deterministic; never raises."""

    name = OFFLINE
    endpoint = ""
    endpoint_name = ""

    def prompt_version(self, request: Request) -> str:
        return VERSION

    def upper_bound(
        self, request: Request, strategy: RequestStrategy = RequestStrategy.WHOLE
    ) -> Usage:
        return Usage(0, 0, 0)

    def summarise(
        self, request: Request, strategy: RequestStrategy = RequestStrategy.WHOLE
    ) -> Reply:
        started = time.monotonic()
        highlights = extract_highlights(request)
        lines = [ReplyLine(line.line, line.refs) for line in highlights.lines]
        return Reply(
            text=format_with_refs(lines) or NOTHING,
            finish_reason="stop",
            model=self.name,
            prompt_version=VERSION,
            seconds=time.monotonic() - started,
            superseded=highlights.superseded,
        )

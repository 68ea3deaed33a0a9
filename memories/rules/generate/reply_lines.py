"""Make the lines of a reply's statements, with their kinds and sources (rule 8)."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property

from memories.rules.generate import prompts
from memories.rules.generate.line_choice import fuller_sources
from memories.rules.generate.prompt_texts import PERSON_MARK, TEXTS
from memories.rules.generate.reply_operations import parse_operations
from memories.rules.generate.reply_statements import REMARK, Spans, Statement
from memories.rules.memory.kinds import kind_of
from memories.rules.memory.operations import Change, order_lines
from memories.rules.memory.repetition import brings_news
from memories.rules.memory.sources import MIN_SCORE, SourceFinder, search_words, significant_words
from memories.rules.salience import content_words, is_salient
from memories.rules.summariser import MAX_SOURCES, MemoryLine, PromptForm, ReplyLine, Request

_PROMPT_SHARE = 0.75  # of a line's words: the line repeats the prompt
_SAME_SCORE = 0.7  # of a source: the line of a small model says the same
_MIN_QUOTED_WORDS = 3  # of a message that a small model may copy

# A remark of the model at the end of a sentence.
_COMMENT = re.compile(
    r",\s(?:which |thus |thereby )?(?:indicat|suggest|highlight|demonstrat|reflect|emphasi[sz]|underscor|showcas|impl[iy]|signall?)"
    r"(?:es|s|ing|ying)\b[^.]*(?=\.?$)",
    re.IGNORECASE,
)
_TIME_AT_END = re.compile(r"\s*[\[(](\d{4}-\d\d-\d\d(?: \d\d:\d\d)?)[\])](?=[.。]?$)")
_DAY_AT_END = re.compile(r" on (\d{4}-\d\d-\d\d)(?=[.。]?$)")
_MARK = re.compile(rf"^(?:{PERSON_MARK}|{prompts.THREAD}[a-z]*) ")
_STAMP = re.compile(
    rf"^(?:L\d{{1,6}} )?(?:{PERSON_MARK} )?\[\d{{4}}-\d\d-\d\d(?: \d\d:\d\d)?(?: ?[-–] ?\d\d:\d\d)?\] "
)


@dataclass(frozen=True)
class LineReader:
    """Make lines of a reply's statements.

    ``is_offline``: the offline summariser wrote the reply, so its sources are right.
    """

    request: Request
    is_offline: bool

    @cached_property
    def _finder(self) -> SourceFinder:
        return SourceFinder.of(self.request)

    @cached_property
    def _prompt_words(self) -> frozenset[str]:
        texts = TEXTS[prompts.instruction_language(self.request)].values()
        return frozenset(search_words(prompts.fill_limits(" ".join(texts), self.request)))

    @cached_property
    def _memory_lines(self) -> dict[int, MemoryLine]:
        return {line.ref: line for line in self.request.memory_lines}

    @cached_property
    def _valid_refs(self) -> list[int]:
        return sorted({*self._memory_lines, *(message.ref for message in self.request.messages)})

    def read(self, statements: Sequence[Statement]) -> tuple[ReplyLine, ...]:
        """Return one line for each distinct statement, with its kind and sources."""
        lines = map(self._line_of, statements)
        if self.is_offline:
            highlights = [self._highlight(line) for line in _merge_equal(lines)]
            return tuple(order_lines(highlights, lambda line: 0))  # they are in order of time
        merged = _merge_equal(line for line in lines if not self._repeats_prompt(line.text))
        sourced = list(map(self._finder.add_sources, merged))
        if self.request.form is PromptForm.SIMPLE:
            sourced = self._choose_supported(sourced)
        return tuple(replace(line, kind=line.kind or kind_of(line.text)) for line in sourced)

    def _choose_supported(self, lines: Sequence[ReplyLine]) -> list[ReplyLine]:
        """Return the lines of a small model that their sources state.

        Such a model invents names and facts, and changes the words of a memory. A line that repeats a
        line of a memory gets its words.
        """
        undated = map(self._without_own_day, lines)
        distinct = list(_merge_equal(map(self._in_words_of_memory, undated)))
        sourced = [x for x in distinct if x.refs or not self._finder.has_script_of(x.text)]
        texts = {prompts.to_one_line(line.text) for line in self.request.memory_lines}
        verified = [x for x in sourced if not x.unverified or x.text in texts]
        useful = [x for x in verified if not (x.is_quote and self._rests_on_little(x))]
        return useful or verified or sourced or distinct

    def _rests_on_little(self, line: ReplyLine) -> bool:
        """Return whether the sources are messages of a few words, such as "yes, grand"."""
        texts = [m.text for m in self.request.messages if m.ref in line.refs]
        return not any(is_salient(x) or len(content_words(x)) >= _MIN_QUOTED_WORDS for x in texts)

    def _without_own_day(self, line: ReplyLine) -> ReplyLine:
        """Return a line without the day of all its sources at its end, because each page shows that."""
        day = _DAY_AT_END.search(line.text)
        if day is None or {str(self._days.get(ref)) for ref in line.refs} != {day[1]}:
            return line
        return replace(line, text=line.text[: day.start()] + line.text[day.end() :])

    @cached_property
    def _days(self) -> dict[int, date]:
        lines = {x.ref: self.request.local_time(x.at_us) for x in self.request.memory_lines}
        times = {message.ref: message.at for message in self.request.messages} | lines
        return {ref: at.date() for ref, at in times.items() if at is not None}

    def _in_words_of_memory(self, line: ReplyLine) -> ReplyLine:
        source = self._memory_lines.get(line.refs[0]) if line.refs else None
        if source is None:
            return line
        if fuller_sources(line, {source.ref: source.text}):
            return self._highlight(line)
        if self._finder.score(line.text, source.ref) < _SAME_SCORE:
            return line
        if brings_news(line.text, source.text):
            return line
        return self._highlight(replace(line, refs=(source.ref,)))

    def _highlight(self, line: ReplyLine) -> ReplyLine:
        """Return a line with the text and kind of the memory line that is its first source, if any."""
        memory_line = self._memory_lines.get(line.refs[0]) if line.refs else None
        if memory_line is None:
            return replace(line, kind=line.kind or kind_of(self._without_speakers(line)))
        text = prompts.to_one_line(memory_line.text)
        unverified = (text,) if memory_line.unverified else ()
        return replace(
            line, text=text, kind=memory_line.kind or kind_of(text), unverified=unverified
        )

    def _without_speakers(self, line: ReplyLine) -> str:
        """Return the text without the names of its authors: somebody may be called Will."""
        text = line.text
        for message in self.request.messages:
            if message.ref in line.refs:
                text = text.replace(f"{prompts.speaker_name(message.author)}: ", "", 1)
        return text

    def read_operations(self, text: str) -> Iterator[Change]:
        """Yield the operations with their lines and sources."""
        existing = {line.ref for line in self.request.existing}
        for operation in parse_operations(text):
            if operation.removes:
                refs = self._expand(operation.statement.spans)
                sources = tuple(ref for ref in refs if ref not in existing)
                yield Change(None, operation.targets, sources)
                continue
            for line in self.read([operation.statement]):
                yield Change(line, operation.targets, line.refs)

    def _expand(self, spans: Spans) -> list[int]:
        """Return the valid refs within spans, without duplicates."""
        refs = (ref for a, b in spans for ref in self._valid_refs if a <= ref <= b)
        return list(dict.fromkeys(refs))

    def _line_of(self, statement: Statement) -> ReplyLine:
        text, refs = statement.text, self._expand(statement.spans)
        if copied := self._find_copied(text):
            text, refs = copied[0], refs or [copied[1]]
        cites_all = len(self._valid_refs) > MAX_SOURCES and len(refs) == len(self._valid_refs)
        if cites_all or self.request.form is PromptForm.SIMPLE:
            refs = []  # refs to everything say nothing, and the simple form shows no numbers
        if not self.is_offline:
            text = self._without_additions(_without_marks(text))
        return ReplyLine(text, tuple(refs[:MAX_SOURCES]), statement.kind)

    def _without_additions(self, text: str) -> str:
        """Return a text without the model's own remark and, in the simple form, a message's time.

        A small model also puts names in backticks.
        """
        if self.request.form is PromptForm.SIMPLE:
            for author in self._finder.authors:
                text = text.replace(f"`{author}`", author)
            time = _TIME_AT_END.search(text)
            if time and not any(time[1] in source for source in self.request.source_texts):
                text = text[: time.start()] + text[time.end() :]
        comment = _COMMENT.search(text)
        if comment is None or self._finder.best_score(comment[0]) >= MIN_SCORE:
            return text
        return text[: comment.start()] + text[comment.end() :]

    def _find_copied(self, text: str) -> tuple[str, int] | None:
        """Return text and ref of a line that repeats a row of the prompt with its number."""
        number = re.match(r"L?(\d{1,6}) ", text)
        if not number:
            return None
        ref, words = int(number[1]), _without_marks(text[number.end() :])
        for row in self._prompt_rows(ref):
            if words and _without_marks(row.removeprefix(f"{ref} ")).startswith(words):
                return words, ref
        return None

    def _prompt_rows(self, ref: int) -> Iterator[str]:
        for line in self.request.memory_lines:
            if line.ref == ref:
                yield prompts.format_memory_line(line, self.request)
        if any(message.ref == ref for message in self.request.messages):
            rows = prompts.format_messages(self.request)
            yield from (row for row in rows if row.startswith(f"{ref} "))

    def _repeats_prompt(self, text: str) -> bool:
        """Return whether a line repeats the prompt more than its sources, or comments the reply."""
        words = significant_words(text) or frozenset(search_words(text))
        if not words:
            return False
        share = len(words & self._prompt_words) / len(words)
        score = self._finder.best_score(text)
        return (share >= _PROMPT_SHARE and score < share) or (
            score < 2 * MIN_SCORE and REMARK.match(text) is not None
        )


def _without_marks(text: str) -> str:
    """Return a row of a prompt without its mark, date and line number."""
    return _STAMP.sub("", _MARK.sub("", text))


def _merge_equal(lines: Iterable[ReplyLine]) -> Iterator[ReplyLine]:
    """Merge lines of equal text into one with the sources of all. Lines without text are dropped."""
    by_text: dict[str, ReplyLine] = {}
    for line in lines:
        if not line.text:
            continue
        key = unicodedata.normalize("NFKC", line.text).casefold()
        first = by_text.get(key, replace(line, refs=()))
        refs = tuple(dict.fromkeys(first.refs + line.refs))[:MAX_SOURCES]
        by_text[key] = replace(first, refs=refs)
    yield from by_text.values()

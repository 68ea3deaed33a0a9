"""The kind of a line: from a label in front of it, or from cue words in it."""

import re
from enum import StrEnum

from memories.rules import salience


class Kind(StrEnum):
    """The kind of a line (docs/rules.md, Lines)."""

    DECISION = "decision"
    TASK = "task"  # who does what, by when
    QUESTION = "question"  # still open
    STATUS = "status"  # how things stand
    EVENT = "event"  # what happened


_LABEL_WORDS: dict[Kind, str] = {
    Kind.DECISION: r"decisions?(?: made)?|decided|決定(?:事項)?|決まったこと",
    Kind.TASK: r"(?:open )?tasks?|action items?|actions?|to-?dos?|next steps?|タスク|作業|宿題|やること|担当",
    Kind.QUESTION: r"(?:open )?questions?|open (?:points|issues)|unresolved|質問|疑問|未解決(?:の質問|の問題)?|未決(?:事項)?",
    Kind.STATUS: r"(?:current )?status|(?:important |key )?facts?|numbers?|状態|状況|現状|進捗|事実|数字",
    Kind.EVENT: r"events?|what happened|timeline|出来事|経緯|イベント",
}
_LABELS = {kind: re.compile(words, re.IGNORECASE) for kind, words in _LABEL_WORDS.items()}

_CUES: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (
        Kind.QUESTION,
        re.compile(
            r"[?？]\W*$|(?<!\bto )(?<!\bwill )\b(?:asks?|asked|wonders?|wondered) (?:if|whether|who|what|when|where|why|how|about|for)\b"
            r"|\b(?:open question|unclear|undecided|unresolved|not (?:yet )?(?:known|decided|clear)|remains open|still open|tbd)\b"
            r"|か[。.]?$|未定|未解決|未決|不明|分からない|わからない|確認中|(?:尋ね|質問し|問い合わせ)て?(?:いる|た)",
            re.IGNORECASE,
        ),
    ),
    (
        Kind.DECISION,
        re.compile(
            r"\b(?:decid\w+|decisions?|agreed?|agreement|approved?|rejected|chose|chosen|settled on|go(?:es|ing)? with|"
            r"postponed?|cancell?ed|instead of|policy|from now on|no longer)\b"
            r"|決定|決ま|決め|ことにし|ことになり|ことになっ|方針|採用|見送|却下|承認|合意|確定|中止|延期|廃止",
            re.IGNORECASE,
        ),
    ),
    (
        Kind.TASK,
        re.compile(
            r"\b(?:will|must|needs? to|has to|have to|should|is (?:going|supposed|asked|assigned) to|to-?do|assigned|owns?|"
            r"responsible|takes care|follows? up|due(?! to\b))\b"
            r"|担当|までに|お願い|予定|引き受け|(?:対応|確認|準備|作成|連絡|共有|提出|用意)(?:する|します)|やる|しておく",
            re.IGNORECASE,
        ),
    ),
    (
        Kind.EVENT,
        re.compile(
            r"\b(?<!\bto be )(?:released|shipped|deployed|launched|merged|fixed|broke|crashed|failed|happened|started|finished|completed|"
            r"joined|left|met|moved|changed|reported|announced|introduced|added|removed|said|told|shared|posted|found|kicked off|recorded|noted|acknowledged|restricted)\b"
            r"|(?:した|しました|された|されました|になった|になりました|終わった|終わりました|起きた|起きました|始まった|始まりました)[。.]?$",
            re.IGNORECASE,
        ),
    ),
)


_TASK_MARK = re.compile(r"\W*(?:action|todo|宿題|タスク)", re.IGNORECASE)


def kind_named(label: str) -> Kind | None:
    """Return the kind for a label or heading, such as "Open questions" or "決定事項"."""
    words = label.strip(" \t*_#:：[]()「」【】-–—")
    return next((kind for kind, label_re in _LABELS.items() if label_re.fullmatch(words)), None)


def kind_of(text: str) -> Kind:
    """Return the kind of a line by its mark, else by its cue words. Without any it is a status."""
    if mark := salience.find_mark(text):
        if _TASK_MARK.match(mark):
            return Kind.TASK
        if not salience.has_question(text):  # "Decision needed: who signs?"
            return Kind.DECISION
    words = salience.without_links(text)
    return next((kind for kind, cues in _CUES if cues.search(words)), Kind.STATUS)

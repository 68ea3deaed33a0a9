"""How much a message or a line is worth: what it says that others do not, in English and Japanese.

Words are the search's tokens, so Japanese is cut into pairs of letters. A word is worth more the
fewer texts hold it, a figure several times as much. Words of decision, task, trouble, date
and state raise the worth of a text; small talk and questions lower it.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from memories.rules.search.tokenizer import stored

HALF_LIFE = 100  # newer messages after which a text is worth half as much
_FIGURE = 4.0  # words that a figure is worth
_POINT = 0.1  # of its worth for each point of what a text tells
_REPEATED = 0.5  # of its rarity that a word is worth more in e times as many texts
_QUESTION = 0.6  # of the worth of a statement with the same words
_FRAME = 10  # tokens added to every length, so that shortness alone does not win
_LENGTH = 0.7  # exponent of the length: a long text is worth a little more per token
DUPLICATE_SHARE = 0.75  # share of its words in another text that makes a text a duplicate of it
_FEWEST = 2  # words without which a text says nothing
_FEW = 4  # words without which small talk says nothing

_MARKER = re.compile(
    r"^\W{0,3}(?:\[(?i:agreed|action|decision|todo)\]|AGREED|ACTION(?: ITEMS?)?|DECISION|DECIDED|TODO)(?: received)?(?=\W*[:\])* ])(?!\w)"
    r"|(?:^|\W)(?i:(?:decision|decided)\b[^.:：\n]{0,30}|agreed|action(?: items?)?|todo)\s?[:：]"
    r"|[【\[](?:決定(?:事項)?|宿題|タスク|合意|結論)[】\]]|(?:^|\W)(?:決定(?:事項)?|宿題|タスク|合意|結論)[:：]"
)
_DECISION = re.compile(
    r"\b(?:decided?|decision|agreed|agreement|settled|approved?|confirm(?:ed|s)?|rejected|concluded?|conclusion|"
    r"finali[sz]ed|chosen|go(?:ing)? (?:with|ahead)|let'?s (?:go with|use|ship|keep|drop|move|stick|call)|instead of|"
    r"switch(?:ing|ed)? to|voted?|from now on|no longer|signed off|correction|cancel(?:led|ed)?|postponed?|proposal)\b"
    r"|決定|決ま(?:り|った|って)|決め(?:た|て|ま)|ことに(?:し|なり|なっ|決)|にしましょう|でいきま|でいこう|方針|採用|見送り|却下|承認|合意|"
    r"確定|結論|正式|変更|訂正|中止|廃止|統一|一本化|に切り替え|延期",
    re.IGNORECASE,
)
_TASK = re.compile(
    r"\b(?:todo|action items?|assigned|owners?|i'?ll|i will|we'?ll|we will|needs? to|must|take care of|follow up|blocker|"
    r"deadline|due|release[ds]?|ship(?:ped|s)?|deploy(?:ed|s)?|launch(?:ed|es)?|merged|went live|go live|scheduled)\b"
    r"|TODO|宿題|担当|締め?切|期限|期日|やっておき|しておき|作っておき|出しておき|引き受け|リリース|公開|デプロイ|提出|共有し|"
    r"(?:連絡|確認|送付|作成|準備|報告|調査|手配|用意|対応)し(?:ます|ました|てお)|お願いしま",
    re.IGNORECASE,
)
_TROUBLE = re.compile(
    r"\b(?:bugs?|broken|errors?|fail(?:s|ed|ing|ure)?|crash(?:es|ed)?|incident|outage|blocked|root cause|regression|"
    r"leak(?:s|ed)?|fix(?:ed)?|workaround|turns out)\b"
    r"|障害|不具合|バグ|エラー|失敗|原因|漏れ|修正",
    re.IGNORECASE,
)
_AMOUNT = re.compile(r"[¥$€£]\s?\d|\d\s?%|\d\s?(?:円|％)|\d\s?(?:dollars?|euros?|pounds?|yen)\b")
_DATE = re.compile(
    r"\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?|today|tonight|tomorrow|eod|eow|asap|noon|midnight|"
    r"(?:next|this|last|every|by|until|before) (?:week|month|year|sprint|quarter|morning|afternoon|evening|the end|end of)|"
    r"(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)[a-z]*\.? \d{1,2}|\d{1,2}(?:st|nd|rd|th)?(?: of)? "
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sept?|oct|nov|dec)[a-z]*|may \d{1,2}|\d{1,2}(?:st|nd|rd|th)|"
    r"\d{4}-\d\d-\d\d|\d{1,2}/\d{1,2}|\d{1,2}:\d\d|\d{1,2} ?[ap]\.?m|q[1-4])\b"
    r"|\d+ ?月|\d+ ?日|\d+ ?時|[月火水木金土日]曜|今日中|本日|明日|明後日|今週|来週|再来週|今月|来月|月末|週明け|週末|年内|年度|"
    r"まで(?:に|は|です|で)|日程|予定",
    re.IGNORECASE,
)
_STATE = re.compile(
    r"\b(?:please|should|can you|could you|only|rule|policy|plan(?:ned)?|current(?:ly)?|moved?|chang(?:e[ds]?|ing)|updated?|"
    r"status|done|finished|ready|live|works|because|reason|allowed|required|final|stays|reminder|fyi)\b"
    r"|お願い|対応|更新|完了|完成|現在|状況|方法|理由|必要|できない|できます|やめ(?:ま|る|よう)|問題|直(?:し|り|っ)",
    re.IGNORECASE,
)
# What a text tells, in points: two make it salient.
_KINDS = ((_DECISION, 2), (_TASK, 2), (_TROUBLE, 2), (_AMOUNT, 2), (_DATE, 1), (_STATE, 1))
_SALIENT = 2
_QUESTION_WORDS = re.compile(
    r"？|\?(?=[\s)）」』\"'!！]|$)|(?:です|ます|でしょう|ません|ました|だろう|のでしょう)か[。\s]*$"
    r"|\b(?:anyone know|does anyone|any idea|not sure (?:if|whether|how|what)|still (?:open|unclear|waiting)|open question|"
    r"undecided|unclear|unresolved|tbd|unknown whether|who (?:can|will|owns))\b"
    r"|未定|未解決|未確認|要確認|確認中|教えて(?:ほしい|くださ|もらえ)|返事待ち|わからない|分からない|不明|まだ(?:決|分|わ|返)|どうし(?:ます|よう|たら)",
    re.IGNORECASE,
)
_CHAT = re.compile(
    r"^\W*(?:hi+|hey|hello|thanks?|thank you|thx|ty|lol|haha\w*|ok(?:ay)?|yeah|yep|yes|nope?|nice|great|cool|sure|"
    r"good (?:morning|night|evening)|morning|bye|np|welcome|congrats|\+1|おはよ\w*|こんにち[はわ]\w*|こんばん\w*|お疲れ\w*|ありがと\w*|"
    r"了解\w*|はい|うん|なるほど\w*|すごい\w*|いいですね\w*|よろしく\w*|笑+|w+)(?!\w)",
    re.IGNORECASE,
)
STOP_WORDS = frozenset(
    re.findall(
        r"\S+",
        "a about an and any are as at be been but by can could did do does for from get got had has have he her "
        "him his how i if in into is it its just like me my no not of oh ok on or our out s she so some t than "
        "that the their them then there they this to too up us was we well were what when where which who why "
        "will with would yeah yes you your",
    )
)
_HIRAGANA = re.compile("[\u3041-\u309f]+")

Words = frozenset[str]


def content_words(text: str) -> Words:
    """The words of a text that tell something: without little words, and of Japanese without pairs
    of hiragana, which are endings and particles more often than words."""
    return frozenset(
        word
        for word in stored(text).split()
        if word not in STOP_WORDS and not _HIRAGANA.fullmatch(word) and not _is_lone_kanji(word)
    )


def _is_lone_kanji(word: str) -> bool:
    """The search keeps the last letter of a stretch once more by itself."""
    return len(word) == 1 and ord(word) > 0x2E80


def is_figure(word: str) -> bool:
    return any(map(str.isdigit, word))


def word_rarity(texts: Sequence[Words]) -> dict[str, float]:
    """What each word is worth among these texts (idf), figures several times as much."""
    spread = Counter(word for words in texts for word in words)
    return {
        word: math.log(1 + len(texts) / number) * (_FIGURE if is_figure(word) else 1.0)
        for word, number in spread.items()
    }


def word_worth(texts: Sequence[Words]) -> dict[str, float]:
    """What each word adds to the value of a text: its rarity, and more where it comes back, for
    what is said again matters."""
    spread = Counter(word for words in texts for word in words)
    return {
        word: rare * (1 + _REPEATED * math.log(spread[word]))
        for word, rare in word_rarity(texts).items()
    }


def total_worth(words: Collection[str], rare: Mapping[str, float]) -> float:
    """What a text says: the sum of what its words are worth."""
    return sum(rare.get(word, 0.0) for word in words)


def worth_per_token(
    text: str, words: Collection[str], worths: Mapping[str, float], cost: float
) -> float:
    """What a text is worth for its ``cost`` in tokens, whatever its age."""
    return total_worth(words, worths) * score(text) / math.pow(cost + _FRAME, _LENGTH)


def recency_factor(newer: int) -> float:
    """What is left of the worth of a text after so many newer messages."""
    return math.pow(0.5, newer / HALF_LIFE)


def score(text: str) -> float:
    """How much more (or less, below 1.0) a text is worth for the kind of thing that it says."""
    value = 1.0 + _POINT * _points(text) + 0.5 * is_marked(text)
    if has_question(text):
        value *= _QUESTION
    elif _CHAT.match(text):
        value *= 0.8
    return value


def _points(text: str) -> int:
    return sum(points for kind, points in _KINDS if kind.search(text))


def has_decision(text: str) -> bool:
    """Whether it tells a decision."""
    return is_marked(text) or bool(_DECISION.search(text))


def has_question(text: str) -> bool:
    """Whether something in it waits for an answer."""
    return bool(_QUESTION_WORDS.search(text))


def is_marked(text: str) -> bool:
    """Whether it calls itself a decision or a task: AGREED, ACTION, 【決定】."""
    return bool(_MARKER.search(text))


def is_salient(text: str) -> bool:
    """Whether a message is worth keeping by itself: it tells a decision, a task, trouble or an
    amount, or two of a date, a figure and a state, in enough words to be understood."""
    if is_marked(text):
        return True
    words = content_words(text)
    if len(words) < (_FEW if _CHAT.match(text) else _FEWEST):
        return False
    return _points(text) + any(map(is_figure, words)) >= _SALIENT


class ChosenTexts:
    """What was chosen so far, to leave out what says the same again: a text of whose words the share
    ``alike`` stands in a chosen one. With ``worths`` a word counts for what it is worth: one that few
    texts hold makes two texts differ that else have the same words."""

    def __init__(
        self, alike: float = DUPLICATE_SHARE, worths: Mapping[str, float] | None = None
    ) -> None:
        self._alike = alike
        self._worths = worths
        self._by_word: dict[str, list[int]] = {}
        self._chosen: list[tuple[Words, int]] = []

    def add(self, words: Words, at: int) -> None:
        """A text that was chosen, with its moment."""
        for word in words:
            self._by_word.setdefault(word, []).append(len(self._chosen))
        self._chosen.append((words, at))

    def holds(self, words: Words, at: int) -> bool:
        """Whether most of these words stand in a chosen text that is newer, or that has their
        figures too: newer news with another figure is no duplicate. Few words with some of its
        figures are none either: "611 / 611" after "402 of 611"."""
        shared: dict[int, float] = {}
        for word in words:
            for index in self._by_word.get(word, ()):
                shared[index] = shared.get(index, 0.0) + self._worth(word)
        enough = self._alike * sum(map(self._worth, words))
        figures = set(filter(is_figure, words))
        for index, worth in shared.items():
            if worth < enough:
                continue
            chosen, chosen_at = self._chosen[index]
            has_same = figures == set(filter(is_figure, chosen))
            if chosen_at > at or has_same or (figures <= chosen and len(words) > _FEW):
                return True
        return False

    def _worth(self, word: str) -> float:
        if self._worths is None:
            return 1.0
        return self._worths.get(word, 1.0) / (_FIGURE if is_figure(word) else 1.0)


def bm25_scores(question: Words, texts: Iterable[Words], rare: Mapping[str, float]) -> list[float]:
    """How much each text is about a question: BM25, with k1 = 1.2, b = 0.75 and each word once."""
    texts = list(texts)
    average = sum(map(len, texts)) / max(1, len(texts)) or 1.0
    return [
        total_worth(question & words, rare) * 2.2 / (1.3 + 0.9 * len(words) / average)
        for words in texts
    ]

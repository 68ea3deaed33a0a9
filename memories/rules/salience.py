"""Score how much a message or a line is worth, in English and Japanese.

Words are the tokens of the search, so Japanese words are pairs of letters. A word is worth more the fewer
texts contain it; a figure is worth several words. Words of decision, task, trouble, date and state raise
the score of a text; small talk and questions lower it.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, repeat

from memories.rules.search.tokenizer import stem_of, tokenize
from memories.rules.tokens import estimate_tokens

_HALF_LIFE = 100  # newer messages after which a text is worth half
_FIGURE_FACTOR = 4.0  # of the worth of a word with the same rarity
_POINT = 0.1  # of a text's worth for each point of its kinds
_REPEATED = 0.5  # of its rarity that a word is worth more in e times as many texts
_QUESTION_FACTOR = 0.6
_CHAT_FACTOR = 0.8
_FRAME = 10  # tokens added to each length, or the shortest texts would always win
_LENGTH_EXPONENT = 0.7  # below 1: a long text is worth a little more for its tokens
DUPLICATE_SHARE = 0.75  # of its words in another text: the text is a duplicate
_MIN_WORDS = 2  # of a salient text
_MIN_LASTING_WORDS = 3  # beside the figures of a text without a decision, task, trouble or amount
_MIN_CHAT_WORDS = 4  # of a salient text that starts as small talk

_MARKER = re.compile(
    r"^\W{0,3}(?:\[(?i:agreed|action|decision|todo)\]|AGREED|ACTION(?: ITEMS?)?|DECISION|DECIDED|TODO)(?: received)?(?=\W*[:\])* ])(?!\w)"
    r"|(?:^|\W)(?i:(?:decision|decided)\b[^.:：\n]{0,30}|agreed|action(?: items?)?|todo)\s?[:：]"
    r"|[【\[](?:決定(?:事項)?|宿題|タスク|合意|結論)[】\]]|(?:^|\W)(?:決定(?:事項)?|宿題|タスク|合意|結論)[:：]"
)
_MARK_WORDS = frozenset(("action", "actions", "agreed", "decided", "decision", "received", "todo"))
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
    r"deadline|due(?! to\b)|release[ds]?|ship(?:ped|s)?|deploy(?:ed|s)?|launch(?:ed|es)?|merged|went live|go live|scheduled)\b"
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
# The points of a text for each kind of words. _SALIENT points make it salient.
_KINDS = ((_DECISION, 2), (_TASK, 2), (_TROUBLE, 2), (_AMOUNT, 2), (_DATE, 1), (_STATE, 1))
_SALIENT = 2
_QUESTION_WORDS = re.compile(
    r"？|\?(?=[\s)）」』\"'!！]|$)|(?:です|ます|でしょう|ません|ました|だろう|のでしょう)か[。\s]*$"
    r"|\b(?:anyone know|does anyone|any idea|not sure (?:if|whether|how|what)|still (?:open|unclear|waiting)|open question|"
    r"undecided|unclear|unresolved|tbd|unknown whether|who (?:can|will|owns))\b"
    r"|\b(?:needs?|wants?|would like|trying|curious) to know\b|[:：]\s?(?:who|what|which|when|where|why|how)\b(?! to\b)"
    r"|未定|未解決|未確認|要確認|確認中|教えて(?:ほしい|くださ|もらえ)|返事待ち|わからない|分からない|不明|まだ(?:決|分|わ|返)|どうし(?:ます|よう|たら)",
    re.IGNORECASE,
)
_CHAT = re.compile(
    r"^\W*(?:hi+|hey|hello|thanks?|thank you|thx|ty|lol|haha\w*|ok(?:ay)?|yeah|yep|yes|nope?|nice|great|cool|sure|"
    r"good (?:morning|night|evening)|morning|bye|np|welcome|congrats|\+1|おはよ\w*|こんにち[はわ]\w*|こんばん\w*|お疲れ\w*|ありがと\w*|"
    r"了解\w*|はい|うん|なるほど\w*|すごい\w*|いいですね\w*|よろしく\w*|笑+|w+)(?!\w)",
    re.IGNORECASE,
)
# The start of an answer, or of a remark about a subject that another message names.
_REPLY = re.compile(
    r"^\W*(?:yes|no|yep|nope|same|exactly|right|correct|true|known|confirmed|expected|noted|agreed|will do|all good|"
    r"(?:me|s?he|it|they)(?:['’](?:s|re|ll|d|ve))?|that['’]?s|that (?:is|was)|賛成|同感|同じく|確かに|たしかに|そうです|それ[はもで])(?!\w)"
    r"|^\+(?!\w)|\b(?:s?he|they) (?:said|says|asked)\b",
    re.IGNORECASE,
)
_SHORT_REPLY = 20  # tokens; a longer one names its subject
STOP_WORDS = frozenset(
    re.findall(
        r"\S+",
        "a about an and any are as at be been but by can could did do does for from get got had has have he her "
        "him his how i if in into is it its just like me my no not of oh ok on or our out s she so some t than "
        "that the their them then there they this to too up us was we well were what when where which who why "
        "will with would yeah yes you your",
    )
)
_TEXTS = 5_000  # whose words and score a process keeps: a context reads the same lines each time
_WORDS = 20_000  # the same for words
# A link ends before a bracket, a character of another script and the punctuation of its sentence.
_LINK = re.compile(r"https?://[!-'*-;=?-~]*[\w/=&#~-]", re.ASCII)
_HIRAGANA = re.compile("[\u3041-\u309f]+")

Words = frozenset[str]


@lru_cache(maxsize=_TEXTS)
def content_words(text: str) -> Words:
    """Return the words of a text without stop words.

    Pairs of hiragana are excluded, because most of them are endings and particles. So are the single letters
    that the tokenizer adds after its pairs of kanji.
    """
    return frozenset(
        word
        for word in tokenize(text).split()
        if word not in STOP_WORDS
        and not _HIRAGANA.fullmatch(word)
        and not (len(word) == 1 and ord(word) > 0x2E80)
    )


@lru_cache(maxsize=_TEXTS)
def stems(text: str) -> Words:
    """Return the content words of a text, English ones by their stems."""
    return frozenset(map(stem_of, content_words(text)))


@lru_cache(maxsize=_WORDS)
def is_figure(word: str) -> bool:
    return any(map(str.isdigit, word))


def word_rarity(texts: Sequence[Words]) -> dict[str, float]:
    """Return the inverse document frequency of each word, several times as high for figures."""
    frequency = Counter(chain.from_iterable(texts))
    return {word: _rarity(word, count, len(texts)) for word, count in frequency.items()}


def _rarity(word: str, count: int, texts: int) -> float:
    return math.log(1 + texts / count) * (_FIGURE_FACTOR if is_figure(word) else 1.0)


def word_worth(texts: Sequence[Words]) -> dict[str, float]:
    """Return the worth of each word: its rarity, raised for words that several texts repeat."""
    frequency = Counter(chain.from_iterable(texts))
    return {
        word: _rarity(word, count, len(texts)) * (1 + _REPEATED * math.log(count))
        for word, count in frequency.items()
    }


def total_worth(words: Collection[str], worths: Mapping[str, float]) -> float:
    return math.fsum(map(worths.get, words, repeat(0.0)))  # in any order


def worth_per_token(
    text: str, words: Collection[str], worths: Mapping[str, float], cost: float
) -> float:
    """Return the worth of a text for its ``cost`` in tokens, regardless of its age."""
    worth = total_worth(words, worths) * score(text)
    return worth / math.pow(cost + _FRAME, _LENGTH_EXPONENT)


def recency_factor(newer: int) -> float:
    """Return the share of its worth that a text keeps after so many newer messages."""
    return math.pow(0.5, newer / _HALF_LIFE)


@lru_cache(maxsize=_TEXTS)
def score(text: str) -> float:
    """Return a factor for the kind of a text: above 1 for decisions and tasks, below for chat."""
    value = 1.0 + _POINT * _points(text) + 0.5 * is_marked(text)
    if has_question(text):
        return value * _QUESTION_FACTOR
    return value * _CHAT_FACTOR if _CHAT.match(text) else value


def _points(text: str) -> int:
    words = without_links(text)
    return sum(points for kind, points in _KINDS if kind.search(words))


def without_links(text: str) -> str:
    """Return a text without links. The ``bug`` of an address is no trouble."""
    return _LINK.sub(" ", text)


def has_decision(text: str) -> bool:
    return is_marked(text) or bool(_DECISION.search(text))


def has_question(text: str) -> bool:
    return bool(_QUESTION_WORDS.search(text))


def has_date(text: str) -> bool:
    return bool(_DATE.search(text))


def has_number(text: str) -> bool:
    """Return whether a text has a digit outside of dates."""
    return any(map(str.isdigit, _DATE.sub("", text)))


def is_marked(text: str) -> bool:
    """Return whether a text calls itself a decision or a task: AGREED, ACTION, 【決定】."""
    return _MARKER.search(text) is not None


def find_mark(text: str) -> str:
    """Return the words with which a text calls itself a decision or a task, "" without any."""
    match = _MARKER.search(text)
    return match[0] if match else ""


def words_without_mark(text: str) -> Words:
    """Return the content words of a text. A repetition by a bot, "ACTION received", has the same."""
    words = content_words(text)
    return words - _MARK_WORDS if is_marked(text) else words


def is_salient(text: str) -> bool:
    """Return whether a message is worth keeping by itself.

    It has enough words, and a decision, a task, trouble or an amount, or two of date, figure and state.
    """
    if is_marked(text):
        return True
    words = content_words(without_links(text))
    if len(words) < (_MIN_CHAT_WORDS if _CHAT.match(text) else _MIN_WORDS):
        return False
    return _points(text) + any(map(is_figure, content_words(text))) >= _SALIENT


def is_lasting(text: str) -> bool:
    """Return whether a salient text is worth keeping for long.

    A short answer, or a figure with one or two words, does not stand alone. Trouble without a figure and
    anything else is soon over.
    """
    if is_marked(text) or not is_salient(text):
        return is_marked(text)
    if _REPLY.search(text) and estimate_tokens(text) <= _SHORT_REPLY:
        return False
    own_text = without_links(text)
    words, points = content_words(own_text), _points(text)
    if points < _SALIENT:
        return len(words) - sum(map(is_figure, words)) >= _MIN_LASTING_WORDS
    has_figure = any(map(is_figure, content_words(text)))
    return points > _SALIENT or has_figure or not _TROUBLE.search(own_text)


class ChosenTexts:
    """The texts chosen so far, to find duplicates of them.

    A text is a duplicate if a chosen text contains the share ``duplicate_share`` of its words. With
    ``worths`` each word counts for its worth, so one rare word makes two texts differ.
    """

    def __init__(
        self,
        duplicate_share: float = DUPLICATE_SHARE,
        worths: Mapping[str, float] | None = None,
    ) -> None:
        self._share = duplicate_share
        self._worths = worths
        self._by_word: dict[str, list[int]] = {}
        self._texts: list[tuple[Words, int]] = []

    def add(self, words: Words, at: int) -> None:
        """Add a chosen text with its time."""
        for word in words:
            self._by_word.setdefault(word, []).append(len(self._texts))
        self._texts.append((words, at))

    def has_duplicate_of(self, words: Words, at: int) -> bool:
        """Return whether a text of these words and time is a duplicate.

        An older chosen text with other figures covers no newer text. A longer text may also lack some of
        the figures; a short one may not: "611 / 611" after "402 of 611".
        """
        shared: dict[int, float] = {}
        for word in sorted(words):
            worth = self._worth(word)
            for index in self._by_word.get(word, ()):
                shared[index] = shared.get(index, 0.0) + worth
        enough = self._share * math.fsum(map(self._worth, words))
        covering = [index for index, covered in shared.items() if covered >= enough]
        figures = set(filter(is_figure, words)) if covering else set()
        for index in covering:
            chosen, chosen_at = self._texts[index]
            has_same_figures = figures == set(filter(is_figure, chosen))
            is_long = len(words) > _MIN_CHAT_WORDS
            if chosen_at > at or has_same_figures or (figures <= chosen and is_long):
                return True
        return False

    def _worth(self, word: str) -> float:
        if self._worths is None:
            return 1.0
        return self._worths.get(word, 1.0) / (_FIGURE_FACTOR if is_figure(word) else 1.0)


def bm25_scores(
    question: Words, texts: Iterable[Words], rarity: Mapping[str, float]
) -> list[float]:
    """Return how well each text matches a question: BM25 with k1 = 1.2, b = 0.75, each word once."""
    texts = list(texts)
    average = sum(map(len, texts)) / max(1, len(texts)) or 1.0
    return [
        total_worth(question & words, rarity) * 2.2 / (1.3 + 0.9 * len(words) / average)
        for words in texts
    ]

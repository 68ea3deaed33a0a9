"""Words that show what is worth remembering: decisions, dates, tasks, troubles, open questions."""

import re

_DECISION = re.compile(
    r"\b(?:decided?|decision|agreed?|agreement|settled|approved?|rejected|conclu(?:de|sion)\w*|final(?:ly|ised|ized)?|"
    r"chose|chosen|go(?:ing)? (?:with|ahead)|let'?s (?:go|use|do|ship|keep|drop|move|stick|call)|we(?:'ll| will|'re going to| won't)|"
    r"instead of|switch(?:ing|ed)? to|stick(?:ing)? with|vote[ds]?|from now on|no longer|signed off|the plan is|"
    r"we (?:now )?(?:drop|keep|use|stop|move|switch|cut|skip|remove)|(?:it|that) stays|policy|cancel(?:led|ed)?|postponed?)\b"
    r"|決定|決ま(?:り|った|って)|決め(?:た|て|ま)|ことに(?:し|なり|なっ|決)|にしましょう|でいきま|でいこう|方針|採用|見送り|却下|承認|合意|"
    r"確定|結論|正式|変更(?:し|に|と)|中止|やめ(?:ま|る|よう)|廃止|統一|一本化|に切り替え",
    re.IGNORECASE,
)
_DATE = re.compile(
    r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\b(?:today|tonight|tomorrow|deadline|due|eod|eow|asap|noon|midnight|"
    r"(?:next|this|last|every|by|until|before) (?:week|month|year|sprint|quarter|morning|afternoon|evening|the end|end of)|"
    r"(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)[a-z]*\.? \d{1,2}|\d{1,2}(?:st|nd|rd|th)?(?: of)? "
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sept?|oct|nov|dec)[a-z]*|may \d{1,2}|\d{1,2}(?:st|nd|rd|th)|"
    r"\d{4}-\d\d-\d\d|\d{1,2}/\d{1,2}|\d{1,2}[:.]\d\d|\d{1,2} ?[ap]\.?m|q[1-4])\b"
    r"|\d+ ?月|\d+ ?日|\d+ ?時|[月火水木金土日]曜|今日中|本日|明日|明後日|今週|来週|再来週|今月|来月|月末|週明け|週末|年内|年度|"
    r"締め?切|期限|期日|まで(?:に|は|です|で)|日程|予定",
    re.IGNORECASE,
)
_TASK = re.compile(
    r"\b(?:todo|action items?|assigned|owner|i(?:'ll| will|'m going to)|can you|could you|please|needs? to|must|have to|"
    r"take care|follow up|blocker|release[ds]?|ship(?:ped|s)?|deploy(?:ed|s)?|launch(?:ed)?|merged?)\b"
    r"|TODO|宿題|担当|お願い(?:し|でき|いた)|対応(?:し|お|を|中|予定)|やっておき|しておき|作っておき|出しておき|引き受け|リリース|公開|デプロイ|提出|共有し",
    re.IGNORECASE,
)
_TROUBLE = re.compile(
    r"\b(?:bugs?|broken|breaks?|errors?|fail(?:s|ed|ing|ure)?|crash(?:es|ed)?|incident|outage|blocked|root cause|"
    r"regression|leak(?:s|ed)?|fix(?:ed)?|workaround|turns out|because)\b"
    r"|障害|不具合|バグ|エラー|失敗|落ち(?:た|て|ま)|原因|問題|漏れ|困っ|できない|直(?:し|り|っ)|修正",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"？|\?(?=[\s)）」』\"'!！]|$)|(?:です|ます|でしょう|ません|ました|だろう|のでしょう)か[。\s]*$"
    r"|\b(?:anyone know|does anyone|any idea|not sure (?:if|whether|how|what)|still (?:open|unclear|waiting)|open question|"
    r"undecided|unclear|unresolved|tbd|unknown whether|who (?:can|will|owns))\b"
    r"|未定|未解決|未確認|要確認|確認中|教えて(?:ほしい|くださ|もらえ)|返事待ち|わからない|分からない|不明|まだ(?:決|分|わ|返)|どうし(?:ます|よう|たら)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d")
_CHAT = re.compile(
    r"^\W*(?:hi+|hey|hello|thanks?|thank you|thx|ty|lol|haha\w*|ok(?:ay)?|yeah|yep|yes|nope?|nice|great|cool|sure|"
    r"good (?:morning|night|evening)|morning|bye|np|welcome|congrats|\+1|おはよ\w*|こんにち[はわ]\w*|こんばん\w*|お疲れ\w*|ありがと\w*|"
    r"了解\w*|はい|うん|なるほど\w*|すごい\w*|いいですね\w*|よろしく\w*|笑+|w+)\b",
    re.IGNORECASE,
)


def weight(text: str, *, is_answered: bool = True) -> float:
    """How much more (or less, below 1.0) a text is worth for the kind of thing that it says."""
    value = 1.0
    value += 1.4 * bool(_DECISION.search(text))
    value += 1.2 * bool(_DATE.search(text))
    value += 0.6 * bool(_TASK.search(text))
    value += 0.5 * bool(_TROUBLE.search(text))
    if asks(text):
        value += 0.2 if is_answered else 1.4
    elif _CHAT.match(text):
        value *= 0.6
    return value + 0.2 * bool(_NUMBER.search(text))


def asks(text: str) -> bool:
    """Whether something in it waits for an answer."""
    return bool(_QUESTION.search(text))

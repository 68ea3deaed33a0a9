"""Prompt injections: orders to a model or its tools, in English and Japanese.

Advice between people is none: "please ignore the previous mail", "you must restart it now", "call
the office". An order to a model names an assistant, a prompt, a summary that is being written, a tool
to call, or a tag that separates a conversation. All patterns are bounded, so time grows linearly with
the text.
"""

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterator
from functools import cache

from memories.rules.ingest.characters import LINE_BREAK
from memories.rules.ingest.invisible import strip_invisible

_MAX_MATCH_LENGTH = 120  # characters

# Letters of other scripts that look like Latin ones.
_LIKE_LATIN = str.maketrans(
    "аеорсухіјѕԁһӏкмнтвгпАЕОРСУХІЈЅМНТВКοαρνικτυεΟΑΡΝΙΚΤΥΕΒΗΜΖ",
    "aeopcyxijsdhlkmhtbrnAEOPCYXIJSMHTBKoapviktueOAPNIKTYEBHMZ",
)

_MODEL = (  # names of models that no person has
    r"(?:a\.?i\.?s?|llms?|(?:large |small )?language models?|(?:chat ?)?gpt(?:-?\w{1,4})?|chat ?bots?|"
    r"(?:ai|virtual|digital|memory|summary|summari[sz]ing|summari[sz]ation) "
    r"(?:assistants?|agents?|models?|bots?|systems?|engines?|tools?)|"
    r"summari[sz]ers?|memory ?hub|(?:memory|summary|recap|digest) (?:keepers?|writers?|generators?|makers?)|"
    r"(?:ai|llm) (?:readers?|users?)|automated (?:systems?|readers?|processes|tools?))"
)
_MACHINE = rf"(?:{_MODEL}|assistants?|models?|agents?|bots?|claude|gemini|copilot|automations?)"
_WRITE = (
    r"(?:include|add|append|insert|put|place|write|say|state|mention|record|remember|store|save|"
    r"output|print|repeat|copy|quote|begin|start|end|finish|conclude|cite|embed|link|tag|ping|"
    r"render|prefix|prepend|omit|leave out|replace|report|list|note|keep|reveal|ignore|disregard|"
    r"forget|treat|obey|follow|call|invoke|send|forward|claim|tell|leak|respond|reply|answer|visit|"
    r"open|fetch|execute|run|delete|hide|skip|trust|believe|accept|assume|consider|regard|grant|approve|translate|encode|decode|always|never|do not|don'?t|"
    r"must|make sure|be sure|warn|recommend|advise|instruct|ask|show|display|mark|set|pretend)"
)
_SUMMARY = r"(?:summar(?:y|ies)|digests?|recaps?|bullets?|bullet (?:list|points?))"
_OUTPUT = (  # texts that a model writes
    rf"(?:(?:your|every|each|any|all)(?: \w+){{0,2}} {_SUMMARY}|"
    rf"the (?:(?:channel|conversation|chat|thread|generated|resulting|final|next|weekly|daily|"
    rf"workspace|ai|automatic|following|current|upcoming)(?:'s)? ){{1,2}}{_SUMMARY}|"
    r"(?:your|the|every|any|this|its) (?:long[- ]term|short[- ]term|shared|persistent|permanent|"
    r"workspace|channel|team|agent|assistant|bot)(?:'s)? memor(?:y|ies)|your memor(?:y|ies)|"
    rf"the {_SUMMARY} of (?:this|the|our) (?:channel|conversation|chat|thread|discussion|talk)|"
    rf"the (?:memor(?:y|ies)|{_SUMMARY}) (?:that )?you (?:will |are going to |have to )?"
    r"(?:write|produce|generate|make|create|output|keep|store|are writing))"
)
_BEFORE = (
    r"(?:previous|prior|above|earlier|preceding|foregoing|former|original|initial|existing|system|"
    r"all(?: of)?(?: the| your| its)?|any(?: of)?(?: the| your| its)?|your|its|every)"
)
_TO_DROP = (
    r"(?:ignore|disregard|forget|override|overrule|bypass|discard|set aside|drop|neglect|"
    r"stop (?:following|obeying)|(?:do not|don'?t|no longer) (?:follow|obey|heed)|"
    r"pay no attention to)"
)
_ORDERS = r"(?:instructions?|prompts?|directives?|guidelines|programming|system (?:text|rules?))"

_ENGLISH = (
    rf"\b{_TO_DROP}\b[^.!?\n]{{0,30}}\b{_BEFORE}\b[^.!?\n]{{0,25}}\b{_ORDERS}\b",
    rf"\b{_TO_DROP} (?:everything|anything|all|whatever)(?: that)?(?: you| was| is| has been| stands)? "
    r"(?:above|before this|were told|have been told|you were (?:told|given)|said so far|written above)",
    rf"\b{_TO_DROP} (?:your|the system'?s?) (?:\w+ )?(?:rules|polic(?:y|ies)|training|restrictions|constraints)\b",
    # Another role.
    r"\byou(?: are|'re) (?:now|no longer|actually|really|hereby)(?: \w+){0,4} "
    rf"(?:{_MODEL}|dan|unrestricted|unfiltered|jailbroken|(?:developer|god) mode|bound by|an assistant)\b",
    rf"\byou(?: are|'re) (?:[^!?\n]{{1,30}}\b)??(?:an? |the )(?:\w+ ){{0,3}}{_MODEL}\b"
    r"(?! (?:team|group|project|department|channel|guild|lab|meeting|work|stuff|side|topic|person|expert|engineer|lead|\w+er)\b)",
    r"\b(?:act|behave|respond|pretend|role-?play)(?: as| like| to be| that)?(?: if)?(?: you are| you were)?"
    rf"[^.!?\n]{{0,30}}\b(?:{_MODEL}|dan|unrestricted|jailbroken|no (?:rules|restrictions|limits|filters))\b",
    r"\bas an? (?:a\.?i\.?|artificial intelligence|llm|(?:large )?language model)\b",
    rf"\b(?:if|since|because|when(?:ever)?) you(?:'re| are) (?:an? |the )?(?:\w+ ){{0,2}}{_MACHINE}\b",
    # Its prompt.
    r"\b(?:reveal|show|print|output|repeat|display|leak|disclose|expose|dump|echo|recite|tell (?:me|us)|"
    r"give (?:me|us)|copy|quote|include|write out|send|post|translate|encode|ignore|override)\b[^.!?\n]{0,40}"
    r"\b(?:system|hidden|initial|original|developer|your(?: own)?)(?: \w+)? (?:prompts?|instructions?|directives?)\b",
    r"\b(?:new|updated|revised|additional|important|urgent|real|actual|secret|hidden|begin|end|end of)"
    r"(?: \w+){0,2} (?:system|developer|assistant|ai|model|llm|summari[sz]er) "
    r"(?:prompts?|instructions?|messages?|directives?|notes?|notices?|override|commands?|polic(?:y|ies))\b",
    r"\bsystem (?:prompts?|overrides?|instructions?|directives?) ?[:=\]>]",
    r"\[(?:system|assistant|developer|admin)(?: \w+)?\]",
    r"\b(?:summary|summari[sz]ation|memory|assistant|ai|model) (?:polic(?:y|ies)|rules?|guidelines?|format) "
    r"(?:has|have|is|are|was|were) (?:been )?(?:changed|updated|replaced|revised)\b",
    rf"\bsystem ?:[^\n]{{0,60}}\b(?:{_MODEL}|assistants?|models?|agents?)\b",
    # Its tools.
    r"\b(?:call|invoke|trigger)\b(?! for)[^.!?\n]{0,25}\btools?\b",
    rf"\b(?:use|run|execute|call|invoke)\b[^.!?\n]{{0,30}}\b(?:your|{_MACHINE}(?:'s)?) (?:\w+ ){{0,2}}"
    r"(?:tools?|functions?|plugins?|connectors?)\b",
    r"\btool[_ -]calls?\b|\bfunction_calls?\b|\"(?:tool|function)(?:_name|_call|_use)?\"\s?:\s?[\"{]",
    # Whom it speaks to.
    r"(?:^|[.!?:;\n\"'(\[*_>-]|\b(?:hey|hi|hello|dear|attention|attn|note|notice|important|ok|okay|to|for))"
    rf"[\s,:@]{{0,3}}(?:(?:the|any|all|every|our|future|this|dear|my|you) ){{0,2}}(?:{_MODEL}|assistants?)"
    rf"(?:s who| who| that)?\s?(?:[,:!\n–—-]|\bplease\b)[^\n]{{0,120}}\b{_WRITE}\b",
    rf"\b(?:any|every|all|whichever|whatever|future|the next|each|whoever|the|you|for|to|dear|hey|hello) (?:\w+ ){{0,2}}?{_MACHINE}"
    r" (?:that (?:is |are )?|who (?:is |are )?|which |currently |now )?"
    r"(?:reads?|reading|process(?:es|ing)?|summari[sz](?:es?|ing)|sees?|seeing|pars(?:es?|ing)|"
    r"handl(?:es?|ing)|analy[sz](?:es?|ing)|digest(?:s|ing)?|ingest(?:s|ing)?|condens(?:es?|ing)) "
    r"(?:this|these|the (?:above|following|message|channel|conversation|thread))",
    r"\b(?:notes?|notices?|messages?|memos?|instructions?|reminders?|orders?|commands?|directives?|"
    rf"attention|hints?|warnings?|tasks?|update) (?:to|for) (?:\w+ ){{0,2}}?(?:{_MODEL}|(?:the |any |all |our )assistants?|claude|gemini|copilot)\b",
    r"\b(?:to|for|dear|hey|attention) (?:the |any |our |whatever )?(?:system|software|program|machine|service|script|process|"
    r"engine|thing) (?:that|which) (?:\w+ )?(?:condens|summari|digest|reads?|process|writ|collect|record|memori|remember)\w*",
    rf"\bif any(?:body|one) (?:\w+ )?asks (?:the |an? |our |this )(?:\w+ )?{_MACHINE}\b",
    r"\b(?:whoever|whatever|anyone who|anything that|if you|you who|those who|the one who) "
    r"(?:\w+ ){0,2}?(?:summari[sz]es?|condenses?|writes? (?:the|this|a) (?:\w+ )?(?:summary|memory|digest|recap))",
    rf"\b{_MODEL} (?:must|should|shall|will|has to|have to|needs? to|(?:is|are) (?:required|instructed|ordered|told|asked|obliged) to|"
    rf"(?:is|are) to|may|can) (?:\w+ )?{_WRITE}\b",
    rf"\bfrom (?:now|here|this point|today) on(?:wards?)?,? (?:the )?(?:{_MACHINE}|every {_SUMMARY})\b",
    r"\b(?:for|to|dear) (?:whoever|whatever|anyone who|the one who|those who) (?:\w+ )?(?:keeps?|writes?|maintains?|updates?|"
    r"records?|takes?) (?:the |this |a )?(?:record|memory|memories|summary|notes|minutes|log|digest|recap)s?\b[^\n]{0,40}:",
    r"\b(?:minutes|notes?|note[- ]tak(?:er|ing)|summary|recap|digest|memory|transcription|meeting)[ -]"
    rf"(?:bot|assistant|agent|ai|system|software|program)s?\b[^\n]{{0,80}}\b{_WRITE}\b",
    r"\b(?:automat(?:ed|ic)|machine|bot|parser|crawler|scraper)s? (?:processing|summary|recap|reading) (?:notes?|instructions?|hints?|directives?)\b",
    r"\bnotes? (?:for|to) (?:the )?(?:parsers?|bots?|machines?|crawlers?|scrapers?|automat\w+)\b",
    r"\b(?:automat(?:ed|ic|ically)|generated|ai)(?: \w+)? (?:recaps?|notes?|summar(?:y|ies)|digests?|minutes|memor(?:y|ies))\b"
    r"[^.!?\n]{0,40}\b(?:must|should|shall|will|has to|have to)\b",
    rf"@memory ?hub\b[^\n]{{0,20}}\b{_WRITE}\b",
    r"\b(?:stop|do not|don't) summari[sz](?:e|ing)\b[^\n]{0,40}\b(?:instead|just|only)\b",
    r"\boverrid(?:e|es|ing) (?:what|everything|anything|all)(?: that)? you (?:were|have been|are) told\b",
    r"\bforget (?:the|this) (?:conversation|chat|context)\b",
    r"\b(?:rest|remainder|beginning|start|whole|text) of (?:the|your) prompt\b",
    r"\bi am (?:the|your|a) (?:developer|creator|admin(?:istrator)?|owner|maker|operator) of (?:this|the|your) (?:\w+ )?"
    r"(?:tool|model|ai|bot|assistant|summari[sz]er)\b",
    r"\b(?:begin|start|end) (?:trusted|privileged|verified) (?:content|context|block|section|data|text|instructions?)\b",
    rf"\bthe {_SUMMARY} (?:must|should|shall|has to|have to|needs? to|is to) (?:always |also )?"
    r"(?:say|state|mention|include|contain|end|begin|start|list|read|carry|be)\b",
    r"\b(?:bot|software|program|thing|agent) (?:that|which) (?:writes?|makes?|produces?|builds?|creates?) (?:our|the|these|this|your) "
    r"(?:\w+ )?(?:recaps?|summar(?:y|ies)|digests?|memor(?:y|ies)|notes)\b",
    r"\bwhatever (?:else )?you (?:were|have been|are) (?:asked|told|instructed)\b",
    r"\bsystem ?: ?[^\n]{0,20}\byou\b",
    r"\b(?:respond|answer) only with\b|\boutput (?:only|nothing but)\b|\boutput the (?:text|following|words?|string)\b[^\n]{0,60}\b(?:nothing else|only)\b",
    r"\bthis (?:instruction|message|order|command|rule|prompt) (?:has|takes) (?:absolute |the highest )?(?:priority|precedence)\b",
    r"\b(?:let|make|have) the (?:record|summary|memory|recap|digest) (?:of this )?[^.!?\n]{0,40}\b(?:always|start|begin|end|say|show|read)\b",
    # The best known order in other languages.
    r"\bignora (?:todas )?las instrucciones (?:anteriores|previas)|\bignora le istruzioni precedenti",
    r"\bignoriere? (?:alle |die )?(?:vorherigen|bisherigen|obigen|vorigen) (?:anweisungen|befehle|instruktionen)",
    r"\bignore[zr]? (?:toutes )?les (?:instructions|consignes) (?:précédentes|ci-dessus)",
    r"\bignor[ea] as instruções anteriores",
    r"(?:이전|앞선|위의|모든) ?(?:의 ?)?(?:지시|명령|지침)(?:를|을|사항을)? ?(?:모두 ?)?(?:무시|잊)",
    # What it writes.
    rf"\b{_WRITE}\b[^.!?\n]{{0,100}}\b{_OUTPUT}\b",
    rf"\b{_OUTPUT} (?:must|should|shall|has to|have to|needs? to|will|always|never|is to|are to)\b",
    r"\b(?:before|after|when|while|once) you (?:\w+ )?(?:output|print|return|produce|finish|list|write|give|generate|emit)"
    r"(?: the| your| any| each| these| all)? (?:\w+ )?(?:bullets?|summar\w+|memor\w+|output)\b",
    rf"\b(?:next time|once|when(?:ever)?|until|as soon as|starting (?:with|from|at)|beginning with|every time|each time)"
    rf"\b[^.!?\n]{{0,30}}\b(?:{_OUTPUT}|the memor(?:y|ies))\b[^\n]{{0,80}}\b{_WRITE}\b",
    rf"\b{_WRITE}\b[^.!?\n]{{0,30}}\buntil [^.!?\n]{{0,20}}{_OUTPUT}",
    rf"\bin {_OUTPUT},? (?:please )?(?:also |always |only )?{_WRITE}\b",
    rf"\b{_WRITE}\b[^.!?\n]{{0,60}}\b(?:verbatim|exactly|word for word|always|at the (?:\w+ )?(?:top|end|start|beginning|bottom) of)"
    rf"[^.!?\n]{{0,60}}\b(?:the|this|a|any) {_SUMMARY}",
    r"\b(?:must|should|shall|has to|have to|needs? to) (?:always |also )?(?:be (?:included|added|appended|inserted|written|"
    r"quoted|mentioned|recorded|remembered|stored|kept|saved|repeated|copied|placed|put)|appear|stand)\b"
    r"[^.!?\n]{0,60}\b(?:summar(?:y|ies)|memor(?:y|ies)|digest|recap)\b",
    r"\b(?:when(?:ever)?|while|before|after|once|if|as|in|on|upon) (?:you(?:'re| are)? |someone |anyone |it(?:'s| is) |"
    r"this(?: \w+)?(?: is| gets?| was)? |these(?: \w+)?(?: are| get)? |asked to |the (?:channel|thread|conversation|chat)(?: is| gets)? )?"
    r"(?:being |to be |next |later |asked to )?(?:summari[sz](?:e[sd]?|ing)|condens(?:e[sd]?|ing)|"
    r"(?:writ(?:e|ing)|generat(?:e|ing)|mak(?:e|ing)|produc(?:e|ing)|updat(?:e|ing)|build(?:ing)?|creat(?:e|ing)|"
    r"compil(?:e|ing)|merg(?:e|ing)) (?:the |a |your |this |any |each |next |new )*(?:\w+ )?(?:summary|memory|memories|digest|recap))"
    rf"[^\n]{{0,100}}\b{_WRITE}\b",
    r"\b(?:commit|save|store|add|write|persist)(?: this| that| it| the following| these)?(?: \w+){0,2} "
    r"(?:to|in|into) (?:your|long[- ]term|permanent|persistent)(?: long[- ]term)? memory\b",
    r"\bcommit (?:this|that|the following|these)(?: \w+){0,2} to memory\b",
    # What it was given besides.
    r"\b(?:copy|quote|repeat|include|append|paste|leak|reveal|dump|list|output|print|reproduce|recite|show|write|post|share|add)\b"
    r"[^.!?\n]{0,60}\b(?:reference (?:blocks?|text|section|material)|background (?:blocks?|section|material)|"
    r"(?:the )?workspace(?:'s)? (?:long[- ]term )?memory|memor(?:y|ies) of (?:the )?(?:other|whole)|"
    r"other channels?'? (?:memor|summar|secrets?)|your (?:whole |full |entire )?context|"
    r"(?:everything|all(?: that)?) (?:you (?:know|were given|have been given|can see|see|remember)|in your))",
    r"\b(?:decode|decrypt|deobfuscate|un-?base64|base64[ -]decode)\b[^\n]{0,80}\b(?:follow|obey|execute|do what|include|output|write|add|say|carry out)\b",
    # A text without a whole sentence: two words of an order.
    r"\b(?:jailbreak|dan) mode (?:on|enabled|activated)\b",
)
_TAGS = (
    r"<\|[\w ]{1,40}\|>",
    r"\[/?inst\]|<</?sys>>",
    r"<(?:system|assistant|developer|instructions?|tool_\w{1,20}|function_\w{1,20}|system[_-]\w{1,20})(?:[ :][^<>\n]{0,80})?/?>",
    r"</(?:system|assistant|developer|human|user|instructions?|prompts?|tools?|functions?|messages?|memory|memories|"
    r"reference|context|conversation|data|existing_memory|tool_\w{1,20}|function_\w{1,20})>",
    r"< ?< ?/?(?:messages|existing memory|added|reference|end)\b[^>\n]{0,80}>>",
    r"#{2,4} ?(?:system|instructions?|assistant|human|response)\b ?:?",
    r"\n(?:human|assistant) ?:",
    # A line of ours, with its number and time, inside of another.
    r"\n ?(?:\d{1,5} )?(?:↳\w+ )?\[\d{4}-\d\d-\d\d \d\d:\d\d\] [^:\n]{1,60}:",
)

_AI_JA = r"(?:ai|人工知能|llm|言語モデル|アシスタント|エージェント|チャットボット|ボット|要約(?:者|ai|モデル|器|ボット|担当|システム|エンジン|役)|記憶(?:係|ai|モデル|システム))"
_ONLY_AI_JA = r"(?:ai|人工知能|llm|言語モデル|要約(?:者|ai|モデル|器|ボット|システム|エンジン|係|担当[^。、\n]{0,8})|aiアシスタント|aiエージェント)"
_WRITE_JA = (
    r"(?:書(?:い|き|け|く)|入れ|含め|追加|記載|記入|挿入|出力|載せ|貼(?:り|っ|れ)|残(?:し|せ|す)|記録|加え|付け|記憶|記述|"
    r"引用|転記|返答|回答|答え|述べ|言(?:っ|い|え)|伝え|送信|送(?:っ|り|れ)|表示|開示|実行|無視|従(?:っ|い|え|う)|繰り返|コピー|明記|反映|扱|定義|使用|使っ|使い|列挙|案内|通知|信頼|信用|承認)"
)
_JAPANESE = (
    r"(?:以前|これまで|ここまで|今まで|前述|上記|先ほど|先程|従来|元|本来|最初|すべて|全て|全部|既存|システム|あなたへ|与えられた|前|以上)の?"
    r"[^。\n]{0,8}(?:指示|命令|プロンプト|指令|制約|ルール|制限)[^。\n]{0,8}(?:無視|忘れ|破棄|取り消|上書き|従わ|無効|捨て)",
    r"(?:システム|開発者|隠し|初期|内部)(?:プロンプト|指示|命令)[^。\n]{0,15}(?:表示|出力|教え|開示|公開|書き出|書い|無視|上書き|示し|見せ|引用|:|「)",
    r"(?:あなた|君|きみ|お前)は(?:今から|これから|もう|ただいまから|実は|たった今から)?[^。\n]{0,12}"
    r"(?:ai|人工知能|言語モデル|llm|チャットボット|アシスタント|要約者|要約モデル|要約担当|制限のない|エージェント)",
    r"(?:ai|人工知能|言語モデル)(?:アシスタント|エージェント|モデル)?として(?:、|,|振る?舞|回答|答え|出力|行動|動作|は)",
    rf"{_AI_JA}(?:さん|様|の皆さん|たち)?(?:への|へ向けた|に対する|向けの?|宛ての?|あての?|用の?|へのお)(?:指示|命令|お願い|願い|注意|メモ|連絡|メッセージ|伝言|通知|業務)",
    rf"{_ONLY_AI_JA}(?:さん|様|の皆さん|の皆様|たち)?(?:は|へ|に告ぐ|よ|、|,|:|が|なら)[^。\n]{{0,160}}{_WRITE_JA}[^。\n]{{0,12}}(?:くださ|下さ|こと|せよ|しろ|なさい|ろ|べき|必要|ように|なければ|ねば)",
    rf"(?:要約|サマリー?|短期記憶|長期記憶|チャンネルの記憶|記憶|まとめ|箇条書き)(?:に|には|へ|の(?:最後|末尾|先頭|冒頭|最初|中|どこか)(?:に|で|へ|には)|する(?:とき|際|時|場合|者|人|もの|方)|"
    rf"を(?:書|作|作成|生成|更新|出力)[^。\n]{{0,4}}(?:とき|際|時|場合|者|人|方)|では)[^。\n]{{0,60}}(?:必ず|そのまま|絶対|一字一句|毎回|常に|以下|次の|とだけ|のみ|「|http|@)"
    rf"[^\n]{{0,80}}{_WRITE_JA}",
    rf"(?:必ず|そのまま|絶対に?|一字一句|毎回|常に|以下を|次の)[^。\n]{{0,60}}(?:要約|サマリー|短期記憶|長期記憶|記憶)(?:に|へ|の)[^。\n]{{0,30}}{_WRITE_JA}",
    r"この(?:会話|チャンネル|スレッド|やりとり|メッセージ|発言|投稿)[^。\n]{0,8}(?:要約|記憶|処理|読)[^。\n]{0,10}(?:ai|モデル|エージェント|アシスタント|者|とき|際|時|場合|人|方)[^\n]{0,80}"
    rf"{_WRITE_JA}",
    rf"(?:要約|記憶)(?:する|を書く|を作る)(?:とき|際|時|場合|とき|者|人|方|ai)?(?:は|に|には|へ|、)[^\n]{{0,80}}{_WRITE_JA}[^。\n]{{0,8}}(?:くださ|下さ|こと|せよ|しろ|なさい|ろ|べき)",
    r"(?:ツール|関数|プラグイン)(?:を|の)[^。\n]{0,6}呼び出(?:し|せ|す)[^。\n]{0,8}(?:くださ|下さ|こと|せ|なさい|ろ)",
    r"(?:ワークスペースの?(?:長期)?記憶|参照ブロック|reference|他の?チャンネルの(?:記憶|内容|秘密)|背景(?:資料|情報))[^。\n]{0,30}(?:全文|すべて|全て|そのまま|書き写|引用|転記|出力|コピー|含め|書い)",
    r"(?:長期|永続|あなたの)記憶に[^。\n]{0,20}(?:保存|刻|書き込|記録|残)",
    rf"(?:記録係|(?:議事録|記録|まとめ)(?:ボット|ai|モデル))(?:さん|様)?(?:へ|:|、|は)[^。\n]{{0,120}}{_WRITE_JA}",
    r"自動(?:処理|要約|生成)(?:用|向け)の?(?:メモ|指示|注意|命令)",
    r"(?:まとめ|要約|記録)を(?:作る|書く|つくる|生成する)(?:人|者|方|もの)? ?\(?(?:ai|bot|ボット)",
    rf"(?:クロード|チャットgpt|gpt|ジェミニ|コパイロット)(?:さん|くん|君)?、[^。\n]{{0,120}}{_WRITE_JA}",
    r"要約(?:は|を)(?:やめ|中止|せず|しないで)[^。\n]{0,20}(?:かわりに|代わりに)",
    r"要約の(?:代わり|かわり)に|新しい(?:指示|命令) ?:|この(?:指示|命令)は[^。\n]{0,16}優先",
    rf"(?:出力|回答|返答|要約文)の(?:最後|最初|末尾|冒頭|先頭)に[^。\n]{{0,120}}{_WRITE_JA}",
    rf"(?:チーム|ワークスペース|チャンネル|共有|全体)の(?:長期|短期)?記憶(?:に|へ)[^。\n]{{0,120}}{_WRITE_JA}",
    r"(?:開発者|システム)からの(?:絶対)?命令",
    r"(?:以前|従来|これまで|今まで)の(?:設定|指示|命令|ルール)は(?:すべて|全て)?(?:無効|破棄|取り消)",
    r"忽略(?:以上|之前|先前|前面|所有)[^。\n]{0,8}(?:指令|指示|提示|说明)",
)

# No pattern above matches without one of these. Most messages contain none.
_SIGNS = (
    "instruct", "prompt", "llm", "model", "gpt", "bot", "assistant", "summar", "memor",
    "digest", "recap", "bullet", "tool", "<|", "inst]", "sys>", "</", "<system", "<assist",
    "<instr", "<function", "<develop", "<<", "< <", "##", "[20", "\nhuman", "directive",
    "guideline", "programming", "claude", "gemini", "copilot", "decode", "decrypt", "unrestrict",
    "unfilter", "jailbr", "god mode", " dan", "system:", "system :", "system that", "system which",
    "system over", "system]", "function", "reference", "background", "context", "agent", "automat",
    "a.i", "everything", "anything", "condens", "whoever", "whatever", "record of", "the record",
    "output", "respond", "answer only", "priority", "precedence", "that writes", "that makes",
    "parser", "crawler", "scraper", "machine", "overrid", "forget", "developer", "trusted",
    "privileged", "verified", "ignor", "지시", "명령", "지침",
    "指示", "命令", "プロンプト", "指令", "制約", "ルール", "制限", "人工知能", "モデル", "アシスタント", "エージェント",
    "ボット", "要約", "記憶", "記録", "議事録", "サマリ", "まとめ", "箇条書き", "この会話", "このチャンネル", "このスレッド",
    "このやりとり", "このメッセージ", "この発言", "この投稿", "ツール", "関数", "プラグイン", "ワークスペース", "参照", "他の",
    "背景", "自動", "クロード", "ジェミニ", "コパイロット", "開発者", "システム", "設定", "出力", "回答", "返答", "忽略",
)  # fmt: skip

_AI = re.compile(r"(?<![a-z])ai(?![a-z])")
_SPACED = re.compile(r"(?:\b\w[ ._*-]{1,3}){10,}")
_SQUEEZED = re.compile(
    r"(?:ignore|disregard|forget|override)(?:all|any|your|the|my|these)*(?:previous|prior|above|earlier|system|original)*"
    r"(?:instructions?|prompts?|rules)|systemprompt|(?:in|to)(?:the|your)summary|asanai|summari[sz]er"
)
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{24,2000}={0,2}(?![A-Za-z0-9+/=])")
_MARKS = re.compile(r"(?<![^\W_])_+|_+(?![^\W_])")  # of emphasis; not those within a name
_SPACES = re.compile(r"[^\S\n]+")


def find_injection(text: str) -> str:
    """Return the first order to a model or its tools in a text, or "".

    This includes orders in letters of other scripts, with spaces between letters, and in base64.
    """
    plain = _normalize(text)
    has_signs = any(sign in plain for sign in _SIGNS) or _AI.search(plain)
    if has_signs and (match := _rules().search(plain)):
        return match[0].strip()[:_MAX_MATCH_LENGTH]
    for spaced in _SPACED.finditer(plain):
        if match := _SQUEEZED.search(re.sub(r"\W+|_", "", spaced[0])):
            return match[0]
    for decoded in _decode_base64(text):
        if match := _rules().search(_normalize(decoded)):
            return match[0].strip()[:_MAX_MATCH_LENGTH]
    return ""


@cache
def _rules() -> re.Pattern[str]:
    """Return all patterns. They are compiled once needed, as that takes as long as a page."""
    return re.compile("|".join((*_ENGLISH, *_TAGS, *_JAPANESE)))


def _decode_base64(text: str) -> Iterator[str]:
    """Yield the readable words that a text contains in base64."""
    for match in _BASE64.finditer(text):
        token = match[0].rstrip("=")
        try:
            decoded = base64.b64decode(token + "=" * (-len(token) % 4)).decode()
        except (binascii.Error, ValueError):
            continue
        if len(decoded) >= 16 and decoded.isprintable() and " " in decoded.strip():
            yield decoded


def _normalize(text: str) -> str:
    """Return the text in lower case of one script, with single spaces and real line breaks."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", strip_invisible(LINE_BREAK.sub("\n", text)))
        text = text.translate(_LIKE_LATIN)
    text = text.lower().replace("⏎", "\n").replace("’", "'")
    if "_" in text:
        text = _MARKS.sub(" ", text)
    return _SPACES.sub(" ", text)

"""Lines that newer ones supersede, and lines that they do not."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from memories.rules import salience
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.kinds import Kind
from memories.rules.memory.superseding import Statement, find_successors, find_superseded
from memories.rules.summariser import MemoryLine

FIRST = datetime(2026, 11, 2, 9, tzinfo=UTC)
OTHERS = ["The printer on the second floor is broken", "会議室の鍵は受付にあります"]


def statements(*texts: str) -> list[Statement]:
    """One statement a day."""
    return [
        Statement(text, to_micros(FIRST + timedelta(days=n)), salience.content_words(text))
        for n, text in enumerate(texts)
    ]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("*Decided:* Kazoe 3 launches on 18 Nov. Freeze 10 Nov (owner @tom), strings 13 Nov (@yuki).", "*Decided:* new launch date 26 Nov. Conditions: five working days without a lost count."),
        ("The launch is on 18 Nov", "The launch moved from 18 Nov to 26 Nov"),
        ("The launch is on 18 November", "Launch postponed to 26 November, the fix is not ready"),
        ("Kazoe 3 launches on 18 Nov", "*Decided:* the 18 Nov launch is off. New date when the fix is understood."),
        ("*Decided:* the 18 Nov launch is off", "*Decided:* new launch date 26 Nov"),
        ("Design review on 12 Nov", "Decision: the design review is on 17 Nov"),
        ("Kazoe 3 launches on 18 November", "Kazoe 3 launches on 26 November"),
        ("A shop pays ¥980 per device", "From 1 Dec on a shop pays ¥3,480 a month, instead of ¥980 per device"),
        ("The free plan has 300 items", "the free plan grows from 300 to 500 items"),
        ("Raw uploads are kept for 30 days", "Decision: raw uploads are kept for 90 days from 20 Nov on"),
        ("Anyone against raising raw upload retention from 30 to 90 days?", "Decision: raw uploads are kept for 90 days from 20 Nov on"),
        ("macros 14 of 16", "macros 16 of 16, done"),
        ("発売日は11月18日です", "発売日は11月26日に変更します"),
        ("発売は11月18日の予定です", "発売を11月18日から11月26日に延期しました"),
        ("リリースは11月18日です", "リリースを延期し、11月26日にします"),
        ("発売は11月18日です", "11月18日の発売は中止になりました"),
        ("【決定】打ち合わせは11月10日", "【決定】打ち合わせは11月17日"),
        ("無料プランは300件までです", "無料プランは300件ではなく500件までになりました"),
        ("Kazoe 3の公開は11月18日です", "Kazoe 3の公開は11月26日です"),
        ("aurora number 1 ships on Friday 20 November", "aurora number 1 ships on Friday 27 November"),
        ("オーロラの1号機は11月20日（金）に出荷します", "オーロラの1号機は11月27日（金）に出荷します"),
        ("アプリの文字列、611のうち402まで終わりました", "611 / 611、終わりました！"),
        ("The client wants delivery on 3 December", "Agreed: delivery is on 10 December"),
        ("Sora asked for a discount of 30 %", "Decision: the discount is 20 %"),
        ("Sora asked for a discount of 30 %", "Decision: Sora gets the discount of 30 %"),
        ("先方は納品を12月3日に希望しています", "【決定】納品は12月10日"),
        ("割引は30%を要望されています", "割引は20%で合意しました"),
        ("配るチケット300枚です", "配るチケット500枚です"),
        ("夏祭りのチケット2500円です", "夏祭りのチケット3000円に変更です"),
        ("The export build takes 45 minutes", "The export build takes 30 minutes now"),
    ],
)  # fmt: skip
def test_newer_information_supersedes_older(older: str, newer: str) -> None:
    first, second = OTHERS
    assert find_successors(statements(first, older, second, newer)) == {1: 3}


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Kazoe 3 launches on 18 Nov", "Status: 12 shops run the fix since 11 Nov"),
        ("Kazoe 3 launches on 18 Nov", "The launch mail moved to 20 Nov"),
        ("Kazoe 3 launches on 18 Nov", "Does the launch move to 26 Nov?"),
        ("Kazoe 3 launches on 26 Nov", "10 % of shops get it on 26 Nov, everyone on 28 Nov"),
        ("Kazoe 3 launches on 18 Nov", "Freeze postponed to 12 Nov"),
        ("The freeze is on 10 Nov", "*Decided:* new launch date 26 Nov"),
        ("Weekly demo on 2 Nov", "Decision: weekly demo on 9 Nov, as always"),
        ("400 phones at once, p95 380 ms", "The sync server had 12 errors at 14:00"),
        ("Android 9 is on 23 of 312 shops", "The list of group one has 31 shops"),
        ("Anyone against 90 days of holidays for the cat?", "Decision: raw uploads are kept for 90 days"),
        ("The budget of the stand is 900 euros", "The budget of the office moved to 1,200 euros"),
        ("The office opens at 9:00", "The office was painted, it took 3 days"),
        ("発売日は11月18日です", "発売の案内メールは11月20日に変更します"),
        ("発売日は11月18日です", "現状：11月11日から12店舗で動いています"),
        ("発売日は11月18日です", "発売日は11月26日に変更しますか？"),
        ("棚卸は11月10日です", "発売日を11月26日に変更します"),
        ("料金は12月1日に発表します", "料金は12月1日から3,480円に変更します"),
        ("第1段階はCSVです", "第2段階はAPIに変更します"),
        ("aurora number 1 ships on Friday 20 November", "cobalt number 1 ships on Friday 27 November"),
        ("Decided: the aurora build ships on 20 November", "Decided: the cobalt build moves to 27 November"),
        ("The aurora plan has 300 items", "the cobalt plan grows from 400 to 500 items"),
        ("aurora strings 14 of 16 done", "cobalt strings 15 of 16 done"),
        ("オーロラの1号機は11月20日（金）に出荷します", "コバルトの1号機は11月27日（金）に出荷します"),
        ("【決定】東京の説明会は11月20日", "【決定】大阪の説明会は11月27日に変更"),
        ("オーロラの文字列、16のうち14まで終了", "コバルトの文字列、16のうち15まで終了"),
        ("The client wants delivery on 3 December", "Agreed: the kitchen is painted on 10 December"),
        ("The client wants delivery on 3 December", "Delivery from the printer came on 10 December"),
        ("Aurora wants a discount of 30 %", "Decision: Cobalt gets a discount of 20 %"),
        ("Sora asked for a discount of 30 %", "Sora wants a discount of 20 % on lamps"),
        ("Sora asked for 24 hours", "We offer an answer within 2 hours"),
        ("先方は納品を12月3日に希望しています", "【決定】会場は12月10日に予約"),
        ("オーロラは割引30%を希望", "【決定】コバルトの割引は20%"),
        ("先方の希望は24時間です", "それ以外は2時間以内で打診してみます"),
        ("bug 432154 blocks the importer", "bug 419590 blocks the importer"),
        ("Issue 12 blocks the release", "issue 15 blocks the release"),
        ("チケット123は対応済みです", "チケット125は対応済みです"),
    ],
)  # fmt: skip
def test_other_information_supersedes_nothing(older: str, newer: str) -> None:
    first, second = OTHERS
    assert find_successors(statements(first, older, second, newer)) == {}


@pytest.mark.parametrize(
    ("older", "newer", "is_replaced"),
    [
        ("The client wants an answer within 24 hours", "We offer 2 hours by day, and 12 hours at night", True),
        ("The client wants an answer within 24 hours", "Agreed with them: 2 hours", True),
        ("The client wants an answer within 24 hours", "Nobody of us could keep 2 hours at night for long", False),
        ("The client wants an answer within 24 hours", "We offer a price of 300 euros", False),
        ("The client gave an answer within 24 hours", "We offer 2 hours by day", False),
        ("先方の希望は24時間です", "「営業時間内は2時間以内、それ以外は翌営業日の10時まで」で打診してみます", True),
        ("先方の希望は24時間です", "2時間以内で合意しました", True),
        ("先方の希望は24時間です", "夜中の2時間は約束できない", False),
        ("先方の希望は24時間です", "翌営業日の10時までで打診してみます", False),
        ("先方の作業は24時間です", "2時間以内で打診してみます", False),
    ],
)  # fmt: skip
def test_an_offer_answers_a_wish_in_its_thread(older: str, newer: str, is_replaced: bool) -> None:
    began = to_micros(FIRST)
    lines = [replace(line, thread_us=began) for line in statements(older, newer)]
    assert find_successors(lines) == ({0: 1} if is_replaced else {})
    lines = [replace(line, thread_us=began + n) for n, line in enumerate(lines)]
    assert find_successors(lines) == {}, "of another thread"


def test_the_successor_is_the_newest_line() -> None:
    lines = statements(
        "Kazoe 3 launches on 18 Nov",
        "*Decided:* the 18 Nov launch is off",
        "*Decided:* new launch date 26 Nov",
        "Decision: the launch moved from 26 Nov to 30 Nov",
    )
    assert find_successors(lines) == {0: 3, 1: 3, 2: 3}


@pytest.mark.parametrize(
    ("question", "line", "is_answer"),
    [
        ("Who writes the release notes for the launch?", "Cleo writes the release notes for the launch.", True),
        ("Who writes the release notes for the launch?", "The release notes for the launch are written by Cleo.", True),
        ("Who writes the release notes for the launch?", "cleo will write the release notes for the launch.", True),
        ("Who writes the release notes for the launch?", "Decision: no release notes for the launch.", True),
        ("Who is the owner of the budget?", "Ben is the owner of the budget.", True),
        ("Who writes the release notes for the launch?", "The release notes for the launch are late.", False),
        ("Who writes the release notes for the launch?", "The release notes for the launch come on Friday.", False),
        ("Who writes the release notes for the launch?", "The release notes for the launch come in November.", False),
        ("Who writes the release notes for the launch?", "Work on the release notes for the launch has begun.", False),
        ("Who writes the release notes for the launch?", "The release notes for the launch should be short.", False),
        ("Who writes the release notes for the launch?", "Nobody writes the release notes for the launch.", False),
        ("Who writes the notes for the launch of Kazoe?", "The notes for the launch of Kazoe are late.", False),
        ("Anna asks who writes the long release notes for the launch of the app.", "Long release notes for the launch of the app are late for Anna.", False),
        ("Who runs the design review of the app, and when?", "Cleo runs the design review of the app.", False),
        ("Who runs the design review of the app, and when?", "Cleo runs the design review of the app on Friday.", True),
        ("When is the design review of the app?", "The design review of the app is on 17 Nov.", True),
        ("When is the design review of the app?", "The design review of the app is in November.", True),
        ("When is the design review of the app?", "The design review of the app has no room yet.", False),
        ("Does the app crash when the printer is off?", "The app crashes only when the printer is off.", True),
        ("How many boxes of paper are in the office?", "The office has 12 boxes of paper.", True),
        ("How many boxes of paper are in the office?", "The office has three boxes of paper.", True),
        ("How many boxes of paper are in the office?", "The boxes of paper block the office.", False),
        ("How many boxes of paper are in the office?", "No one counts the boxes of paper in the office.", False),
        ("How many boxes of paper are in the office?", "One of the boxes of paper in the office is wet.", False),
        ("What is the headline of the launch page?", "The headline of the launch page is Count without signal.", True),
        ("リリースノートは誰が書きますか？", "リリースノートは佐藤さんが書きます。", True),
        ("リリースノートは誰が書きますか？", "リリースノートは佐藤が担当して書きます。", True),
        ("新しいアプリのリリースノートの原稿は誰が書きますか？", "新しいアプリのリリースノートの原稿は遅れています。", False),
        ("新しいアプリのリリースノートの原稿は誰が書きますか？", "新しいアプリのリリースノートの原稿の仕様です。", False),
        ("新しいアプリのリリースノートの原稿は誰が書きますか？", "新しいアプリのリリースノートの原稿はお客様が見ます。", False),
        ("新しいアプリのリリースノートの原稿は誰が書きますか？", "新しいアプリのリリースノートの原稿は佐藤様が見ます。", True),
        ("発売日はいつですか？", "発売日は11月26日です。", True),
        ("秋葉原店限定モデルの発売日はいつですか？", "秋葉原店限定モデルの発売日の案内があります。", False),
        ("会議室の椅子は何個ありますか？", "会議室の椅子は12個あります。", True),
        ("本社大会議室の折畳椅子は何個ありますか？", "本社大会議室の折畳椅子は古いです。", False),
    ],
)  # fmt: skip
def test_an_answer_has_what_the_question_asks_for(
    question: str, line: str, is_answer: bool
) -> None:
    """A decision with the same words answers any question."""
    at_us = to_micros(FIRST)
    old = [
        MemoryLine(ref, text, kind=kind, at_us=at_us)
        for ref, text, kind in (
            (1, OTHERS[0], Kind.STATUS),
            (2, question, Kind.QUESTION),
            (3, OTHERS[1], Kind.STATUS),
        )
    ]
    assert find_superseded(line, at_us + 1, old) == ([2] if is_answer else [])
    assert find_superseded(f"{line} This is the decision.", at_us + 1, old) == [2]

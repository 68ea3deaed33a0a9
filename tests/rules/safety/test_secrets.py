import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.rules.safety.secrets import SECRET, find_secrets, redact

# Written in parts, so that no scanner reports them as real keys.
DRAWN = "9fK2xQ7bL4mZ8rT1vW6y"
SLACK = "xox" + f"b-123456789012-{DRAWN}"
OPENAI = "sk" + f"-proj-{DRAWN}{DRAWN}"
GITHUB = "gh" + f"p_{DRAWN}{DRAWN[:16]}"
AMAZON = "AK" + "IA2E4YWQX7KLMN3PQR"
GOOGLE = "AI" + f"za{DRAWN}{DRAWN[:15]}"
STRIPE = "sk" + f"_live_{DRAWN}"
PYPI = "py" + f"pi-AgEIcHlwaS5vcmc{DRAWN}"
HUB = "mh" + f"w_1a2b3c4d_{DRAWN}{DRAWN}"
AMAZON_SECRET = "wJalrXUtnFEMI" + "/K7MDENG/bPxRfiCYEXAMPLEKEY"
WEB = "ey" + "JhbGciOiJIUzI1NiJ9.ey" + f"JzdWIiOiIxMjM0In0.{DRAWN}"
BLOCK = "-----BEGIN RSA " + f"PRIVATE KEY-----\n{DRAWN}\n{DRAWN}\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"use {SLACK} for the bot", f"use {SECRET} for the bot"),
        (f"key={OPENAI}", f"key={SECRET}"),
        (f"({GITHUB})", f"({SECRET})"),
        ("github" + f"_pat_{DRAWN}_{DRAWN}", SECRET),
        (f"id {AMAZON}.", f"id {SECRET}."),
        (f"maps: {GOOGLE}", f"maps: {SECRET}"),
        (f"pay with {STRIPE}", f"pay with {SECRET}"),
        ("gl" + f"pat-{DRAWN}", SECRET),
        ("np" + f"m_{DRAWN}{DRAWN[:16]}", SECRET),
        (PYPI, SECRET),
        (f"export MEMORYHUB_KEY={HUB}", f"export MEMORYHUB_KEY={SECRET}"),
        (f"AWS_SECRET_ACCESS_KEY={AMAZON_SECRET}", f"AWS_SECRET_ACCESS_KEY={SECRET}"),
        (f"Authorization: Bearer {WEB}", f"Authorization: Bearer {SECRET}"),
        (f"here\n{BLOCK}\nthanks", f"here\n{SECRET}\nthanks"),
        (BLOCK[:70], SECRET),
        ("postgres://app:hunter2@db/x", f"postgres://app:{SECRET}@db/x"),
        ("https://tom:s3cret@git.example/x", f"https://tom:{SECRET}@git.example/x"),
        ("redis://:pw@cache:6379", f"redis://:{SECRET}@cache:6379"),
        ("password: hunter2", f"password: {SECRET}"),
        ('"db_password": "Tr0ub4dor&3"', f'"db_password": "{SECRET}"'),
        ("the password is Tr0ub4dor!", f"the password is {SECRET}"),
        ("PASSWORD=12345678", f"PASSWORD={SECRET}"),
        ("パスワードは hunter2024 です", f"パスワードは {SECRET} です"),
        ("パスワード：Abcd1234", f"パスワード：{SECRET}"),
        ("パスワードは「Xy7!kd93」です", f"パスワードは「{SECRET}」です"),
        ("パスワードはhunter2024です。", f"パスワードは{SECRET}です。"),
        ("トークンは『ab12cd34ef56』だよ", f"トークンは『{SECRET}』だよ"),
        ("api_key = 'd41d8cd98f00b204e9800998ecf8427e'", f"api_key = '{SECRET}'"),
        ("?access_token=ab12cd34ef56gh&x=1", f"?access_token={SECRET}"),
        (f"our deploy token, in case: {DRAWN}Zq8A", f"our deploy token, in case: {SECRET}"),
    ],
)
def test_text_shaped_like_a_key_is_redacted(text: str, left: str) -> None:
    assert redact(text) == left
    assert find_secrets(text)


@pytest.mark.parametrize(
    "text",
    [
        "fixed in 3f786850e387550fdab836ed7e6dc881de23001b, see the log",
        "token bucket of 3f786850e387550fdab836ed7e6dc881de23001b",
        "session 123e4567-e89b-12d3-a456-426614174000 failed to get a token",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "ts 1700000000.123000 and 1767225600.000100",
        "https://example.org/tokens/how-to-rotate-api-keys-in-2026?page=2",
        "http://localhost:8000/x@y",
        "password: required",
        "the password is wrong, try again",
        "Password: ********",
        "password=${DB_PASSWORD}",
        "token: optional, max 128",
        "secret santa is on 2026-12-20",
        "api key: see docs/keys.md",
        "settings.API_KEY = os.environ.get",
        "sk-learn-pipelines-and-such-things",
        "the ghost of github, glass, sk-8 and npm install",
        "pass 3/5 of the tests: ok",
        "パスワードは 変えました",
        "パスワードは忘れました",
        "パスワードは「必須」です",
        "トークンはOAuth2.0で発行する",
        "secret: deploy/production2/kubernetes/Keys/app",
        "token=42",
        "release v2.3.1-rc.4 on 2026-01-05T09:00:00Z",
        "gpg --recv-keys 630239CC130E1A7FD81A27B140976EAF437D05B5",
        "git@github.com:team/repo.git and me@example.org",
        "https://files.example/aHR0cHM6Ly9leGFtcGxlLm9yZy9sb25nL3BhdGg",
    ],
)
def test_honest_talk_stays(text: str) -> None:
    assert redact(text) == text
    assert find_secrets(text) == []


@given(st.text(st.sampled_from("sk-_pas word:=AKIAeyJ.x://@1a2B3c\n\"'はパスワード"), max_size=400))
def test_the_same_again_changes_nothing(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


@pytest.mark.parametrize(
    "piece",
    ["sk-", "eyJ", "eyJaaaaaaaaa.", "://:", "a://b:", "password: ", "password", "token is ", "xoxb-1",
     "-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "Bearer ", "a", "A1", "A1 key ", "パスワードは", "::",
     "key=", "//", "ghp_A1"],
)  # fmt: skip
def test_hostile_input_takes_linear_time(piece: str) -> None:
    def seconds(size: int) -> float:
        text = (piece * size)[:size]
        began = time.process_time()
        redact(text)
        return time.process_time() - began

    seconds(1_000)
    assert seconds(40_000) < 1.0

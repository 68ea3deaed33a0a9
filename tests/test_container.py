"""The image and the services of compose.yaml. No engine runs here, so their files are read."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from memoryhub.supervise import STOP_SECONDS

ROOT = Path(__file__).resolve().parent.parent
SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"] == "memoryhub"}

pytestmark = pytest.mark.sqlite("no database")


def instructions() -> list[tuple[str, str]]:
    """(instruction, its arguments in one line) of the Dockerfile."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [
        (word, arguments) for word, _, arguments in (line.partition(" ") for line in lines) if word
    ]


def result() -> list[tuple[str, str]]:
    """The instructions of the last stage."""
    steps = instructions()
    last = max(number for number, (word, _) in enumerate(steps) if word == "FROM")
    return steps[last:]


def argument(word: str) -> str:
    [arguments] = [arguments for name, arguments in result() if name == word]
    return arguments


@pytest.mark.skipif(sys.platform != "linux", reason="hadolint is a test tool on Linux only")
def test_hadolint_accepts_the_dockerfile() -> None:
    program = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([program, "Dockerfile"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_base_images_have_no_registry_address() -> None:
    bases = [arguments.split()[0] for word, arguments in instructions() if word == "FROM"]
    bases += [service["image"] for service in SERVICES.values()]
    assert all(re.fullmatch(r"[a-z]+(:[\w.-]+)?", base) for base in bases)


def test_the_result_has_no_build_tool_and_no_source() -> None:
    for word, arguments in result():
        assert word not in ("ADD", "ARG")
        assert not re.search(r"apt-get|gcc|build-essential|pip install", arguments)
        assert word != "COPY" or arguments.startswith("--from=build /opt/memoryhub ")
    assert any("pip uninstall" in arguments for word, arguments in result() if word == "RUN")


def test_a_fixed_user_owns_the_data_and_nothing_else() -> None:
    user = argument("USER")
    assert user.isdigit() and int(user) >= 10_000
    [run] = [arguments for word, arguments in result() if word == "RUN"]
    assert f"useradd --uid {user} " in run and "--mode 700 /data" in run
    assert argument("VOLUME") == "/data" and "MEMORYHUB_VAR=/data" in argument("ENV")
    steps = [word for word, _ in result()]
    assert steps.index("RUN") < steps.index("USER") < steps.index("CMD")


def test_it_migrates_and_checks_before_it_serves() -> None:
    *_, command = json.loads(argument("CMD"))
    steps = re.split(r" && ", command)
    assert [step.split("memoryhub ")[1].split()[0] for step in steps] == [
        *("migrate", "check", "serve")
    ]
    assert "--deploy" in steps[1] and steps[2].startswith("exec ")


def test_the_health_check_uses_readyz() -> None:
    options, _, command = argument("HEALTHCHECK").partition("CMD ")
    assert "/readyz" in json.loads(command)[-1] and "--start-period" in options


def test_the_image_gets_every_file_that_it_copies() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line[0] == "!"}
    copied = {
        name
        for word, arguments in instructions()
        if word == "COPY" and not arguments.startswith("--from")
        for name in arguments.split()[:-1]
    }
    assert copied == allowed
    assert all((ROOT / name).exists() for name in copied)


def test_only_the_hub_runs_without_a_profile() -> None:
    assert [name for name, service in SERVICES.items() if "profiles" not in service] == ["hub"]
    assert {
        name for name, options in SERVICES.items() if options.get("profiles") == ["postgres"]
    } == {*("worker", "postgres", "redis")}
    assert SERVICES["worker"]["deploy"]["replicas"] == 2
    for name in ("postgres", "redis"):
        assert SERVICES["hub"]["depends_on"][name]["required"] is False
        assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"
    assert all(port.startswith("127.0.0.1:") for port in SERVICES["hub"]["ports"])
    assert "ports" not in SERVICES["postgres"] and "ports" not in SERVICES["redis"]


@pytest.mark.parametrize("name", OURS)
def test_a_service_stops_in_time_and_keeps_its_data(name: str) -> None:
    service = OURS[name]
    assert service["init"] is True, "`serve` is not meant to be process 1"
    assert int(service["stop_grace_period"].removesuffix("s")) > STOP_SECONDS
    assert service["volumes"] == ["data:/data"]
    assert service["cap_drop"] == ["ALL"]


def test_no_secret_is_in_the_files() -> None:
    text = (ROOT / "compose.yaml").read_text() + (ROOT / "Dockerfile").read_text()
    for value in re.findall(r"(?:PASSWORD|SECRET|KEY|TOKEN)\w*[:=]\s*(\S*)", text):
        assert value.startswith("${"), value

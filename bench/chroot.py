"""Install the hub on an empty Debian without a compiler, in two ways, and request its pages.

    python -m bench.chroot [--suite bookworm] [--share FOLDER …]

First the wheel: `pipx install`, then `memoryhub demo`. Then the image: the instructions of the Dockerfile,
whose base has Debian's Python here, then its command. Needs root, debootstrap and unshare. pip gets the PIP_
variables of the environment; a folder that they or its configuration name is mounted with --share. Prints
the seconds of each command in them, and stops at the first that fails.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import django

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = "pipx,python3-pip,python3-venv,python-is-python3,ca-certificates"
COMPILERS = ("cc", "gcc", "g++", "clang", "make", "rustc", "cargo")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Chroot:
    """A Debian in a folder. Its processes have the network and the shared folders of this machine."""

    def __init__(self, root: Path, shares: Sequence[str]) -> None:
        self.root, self.shares = root, shares
        self.environment = {"PATH": SYSTEM_PATH, "HOME": "/root", "PIP_BREAK_SYSTEM_PACKAGES": "1"}
        self.environment |= {k: v for k, v in os.environ.items() if k.startswith("PIP_")}
        self.folder = "/"
        self.user = "0"

    def command(self, *words: str, **variables: str) -> list[str]:
        mounts = [f"mount -t proc proc {self.root}/proc", f"mount --rbind /dev {self.root}/dev"]
        for share in self.shares:
            inside = shlex.quote(f"{self.root}{share}")
            mounts.append(f"mkdir -p {inside} && mount --bind -o ro {shlex.quote(share)} {inside}")
        settings = [f"{key}={value}" for key, value in (self.environment | variables).items()]
        inside_words = ["sh", "-c", f'cd {self.folder} && exec "$@"', "sh", *words]
        entered = ["chroot", f"--userspec={self.user}:{self.user}", str(self.root)]
        script = " && ".join(
            [*mounts, shlex.join([*entered, "env", "-i", *settings, *inside_words])]
        )
        isolated = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        return [*isolated, "sh", "-c", script]

    def run(self, *words: str, **variables: str) -> None:
        began = time.monotonic()
        subprocess.run(self.command(*words, **variables), check=True)
        print(f"{time.monotonic() - began:6.0f} s  {shlex.join(words)[:90]}", flush=True)

    @contextmanager
    def running(self, *words: str, **variables: str) -> Iterator[str]:
        """Run a hub, and yield its address when it answers. ``{port}`` in a word is its port."""
        from tests.commands.test_serve import free_port
        from tests.demo.make_demo import answers
        from tests.processes import wait_until

        port = str(free_port())
        url, log = f"http://127.0.0.1:{port}", Path(f"{self.root}.log")
        command = self.command(
            *(word.replace("{port}", port) for word in words), **variables, PORT=port
        )
        began = time.monotonic()
        with log.open("w") as output:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        try:
            wait_until(lambda: answers(process, url, log), f"an answer; see {log}", 600)
            print(f"{time.monotonic() - began:6.0f} s  until {words[-1][-60:]} answers", flush=True)
            yield url
        finally:
            process.kill()
            process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", default="bookworm", help="of Debian (bookworm)")
    parser.add_argument("--share", action="append", default=[], metavar="FOLDER")
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    django.setup()
    with tempfile.TemporaryDirectory(prefix="memoryhub-chroot-") as name:
        folder = Path(name)
        base = folder / "base"
        packages = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", options.suite]
        subprocess.run([*packages, str(base)], check=True, stdout=subprocess.DEVNULL)
        shutil.copy("/etc/resolv.conf", base / "etc" / "resolv.conf")
        path = str(base / "usr" / "bin")
        if compilers := [word for word in COMPILERS if shutil.which(word, path=path)]:
            raise SystemExit(f"The empty system has a compiler: {compilers}")
        copies = [copy_of(base, folder / name) for name in ("wheel", "build", "image")]
        wheel, build, image = (Chroot(copy, options.share) for copy in copies)
        try_wheel(wheel)
        try_image(build, image)
    print("Both hubs answered all requests.")
    return 0


def copy_of(base: Path, copy: Path) -> Path:
    subprocess.run(["cp", "--archive", str(base), str(copy)], check=True)
    return copy


def try_wheel(system: Chroot) -> None:
    from tests.test_wheel import check_over_http

    hatch = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(system.root)]
    subprocess.run(hatch, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    [path] = system.root.glob("*.whl")
    system.run("pipx", "install", f"/{path.name}", PIPX_BIN_DIR="/usr/local/bin")
    with system.running("memoryhub", "demo") as url:
        check_over_http(url)


def try_image(build: Chroot, image: Chroot) -> None:
    """Follow the Dockerfile. Its first stage is ``build``, its second ``image``."""
    from tests.test_container import instructions
    from tests.test_wheel import check_over_http

    systems = iter((build, image))
    for word, arguments in instructions():
        if word == "FROM":
            system = next(systems)
        elif word == "WORKDIR":
            system.folder = arguments
            (system.root / arguments[1:]).mkdir(parents=True)
        elif word == "RUN":
            system.run("sh", "-c", arguments)
        elif word == "COPY":
            copy_files(arguments.split(), build, system)
        elif word == "ENV":
            system.environment |= variables_of(arguments, system.environment)
        elif word == "USER":
            system.user = arguments
            rows = (system.root / "etc" / "passwd").read_text().splitlines()
            [home] = [row.split(":")[5] for row in rows if row.split(":")[2] == arguments]
            system.environment["HOME"] = home
        elif word == "HEALTHCHECK":
            health = json.loads(arguments[arguments.index("[") :])
        elif word == "CMD":
            command = json.loads(arguments)
    system.run("memoryhub", "demo", "--no-serve")
    served = [word.replace("--port 8000", "--port {port}") for word in command]
    with system.running(*served, MEMORYHUB_URL="http://localhost:8000") as url:
        check_over_http(url)
        port = url.rpartition(":")[2]
        system.run(*(word.replace(":8000/", f":{port}/") for word in health))


def copy_files(words: list[str], build: Chroot, system: Chroot) -> None:
    options = [word for word in words if word.startswith("--")]
    *sources, target = words[len(options) :]
    origin = build.root if options == ["--from=build"] else ROOT
    for source in sources:
        path = origin / source.removeprefix("/")
        inside = system.root / os.path.join(system.folder, target)[1:]
        into = inside / path.name if target in (".", "./") else inside
        copy = ["cp", "--archive", "--no-target-directory", str(path), os.path.normpath(into)]
        subprocess.run(copy, check=True)


def variables_of(arguments: str, environment: Mapping[str, str]) -> dict[str, str]:
    pairs = (pair.split("=", 1) for pair in shlex.split(arguments))
    return {key: value.replace("$PATH", environment["PATH"]) for key, value in pairs}


if __name__ == "__main__":
    sys.exit(main())

"""A Jupyter server with the panel, for a course of two labs in a folder of its own."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder import panel
from autograder.spec.lab import CHECKOUT, labs_folder

TOKEN = "of-the-tests"
LABS = ("01_axpy", "03_transpose")
SECONDS = 300.0  # to start and to end, on a busy machine


@dataclass(frozen=True)
class LabServer:
    """Where it listens, and the folder that it shows."""

    url: str
    root: Path

    def asked(
        self, name: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, list[dict[str, Any]]]:
        """The status of a request of the panel, and the lines of JSON that answer it."""
        given = {"Authorization": f"token {TOKEN}"} if headers is None else dict(headers)
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(f"{self.url}/warplab/{name}", data, given)
        try:
            with urllib.request.urlopen(asked, timeout=300) as answer:
                return answer.status, [json.loads(line) for line in answer.read().splitlines()]
        except urllib.error.HTTPError as refused:
            return refused.code, []


@contextmanager
def lab_server(folder: Path, python: str = sys.executable) -> Iterator[LabServer]:
    """Started as `make lab` starts it, in `folder`."""
    root = folder / "course"
    for lab in LABS:
        shutil.copytree(labs_folder() / lab, root / "labs" / lab)
    own = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "WARPLAB_DATA": "progress"}
    environment = os.environ | {name: str(folder / place) for name, place in own.items()}
    place = Path(panel.__path__[0])
    environment |= {"JUPYTER_PATH": str(place), "JUPYTER_CONFIG_PATH": str(place / "config")}
    environment |= {"WARPLAB_LABS": str(root / "labs"), "PYTHONPATH": str(CHECKOUT)}
    port = _free_port()
    options = [
        f"--ServerApp.root_dir={root}", f"--ServerApp.port={port}", "--ServerApp.port_retries=0",
        f"--IdentityProvider.token={TOKEN}", "--ServerApp.open_browser=False", "--ServerApp.allow_root=True",
    ]  # fmt: skip
    with open(folder / "server.log", "w") as log:
        process = subprocess.Popen(
            [python, "-m", "jupyterlab", *options], cwd=root, env=environment, stdout=log, stderr=log
        )
    try:
        server = LabServer(f"http://127.0.0.1:{port}", root)
        _wait_for(server, process, folder / "server.log")
        yield server
    finally:
        process.terminate()
        process.wait(SECONDS)


def _wait_for(server: LabServer, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(f"{server.url}/api", timeout=5)
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"JupyterLab did not start: {log.read_text()}")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]

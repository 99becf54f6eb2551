"""What the panel's page asks of Jupyter's server. Each request needs the server's login and, to change anything, its
XSRF cookie; work is done by one thread, and submissions run in the judge's sandboxes alone."""

from __future__ import annotations

import asyncio
import atexit
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado import web

from autograder.panel.contents import contents
from autograder.panel.shown import shown
from autograder.panel.target import WAYS, Target, cell_target, file_target
from warplab.errors import WarplabError

_MOST_KEPT = 32  # reports, of as many files


class Desk:
    """What all handlers of a server share: the grader, its thread, and the last report of each file."""

    def __init__(self) -> None:
        self.thread = ThreadPoolExecutor(1, "warplab-panel")
        self._grader: Any = None
        self._reports: dict[str, Any] = {}

    def grade(self, target: Target, way: str, progress: Callable[[str, float], None]) -> dict[str, Any]:
        """A report as the page shows it. Raises WarplabError, OSError."""
        from autograder.panel.grader import Grader  # the judge takes longer to import than a server takes to start

        if self._grader is None:
            self._grader = Grader()
            atexit.register(self._grader.close)
        report = self._grader.grade(target, way, progress)
        return shown(report)


class _Handler(APIHandler):
    auth_resource = "warplab"

    @property
    def root(self) -> Path:
        """The folder below which the server shows files."""
        return Path(self.settings["server_root_dir"]).expanduser()

    @property
    def desk(self) -> Desk:
        """What all handlers share."""
        return self.settings["warplab_desk"]

    def asked(self) -> dict[str, Any]:
        """The request's body. Raises HTTPError for one of another form."""
        asked = self.get_json_body() or {}
        text, path = asked.get("text"), asked.get("path")
        if not isinstance(text, str) or not isinstance(path, str | None) or asked.get("way") not in WAYS:
            raise web.HTTPError(400, f"The body needs a text, a file's path if it is no cell, and a way: {WAYS}.")
        return asked

    def target(self, asked: dict[str, Any]) -> Target:
        """The submission in a request's body. Raises WarplabError."""
        path, text = asked.get("path"), asked["text"]
        return cell_target(text) if path is None else file_target(self.root, path, text)


class ContentsHandler(_Handler):
    """The labs and chapters, with progress."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Answer with `contents`."""
        found = await asyncio.get_running_loop().run_in_executor(None, contents, self.root)
        self.finish(json.dumps(found))


class GradeHandler(_Handler):
    """Grades: the answer is a line of JSON per step, and the last line has the report or an error."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Grade the text in the body: {"text", "path", "way"}, where "way" is check, grade or live."""
        asked = self.asked()
        loop, steps = asyncio.get_running_loop(), asyncio.Queue[dict[str, Any]]()

        def say(step: dict[str, Any]) -> None:
            loop.call_soon_threadsafe(steps.put_nowait, step)

        def progress(step: str, fraction: float) -> None:
            say({"step": step, "fraction": round(fraction, 2)})

        def work() -> None:
            try:
                say({"report": self.desk.grade(self.target(asked), asked["way"], progress)})
            except WarplabError as error:
                say({"error": str(error)})
            except Exception as error:  # or the page would wait for ever
                self.log.exception("warplab: the panel's grade failed")
                say({"error": f"The panel failed ({error}). The server's log says more."})

        running = loop.run_in_executor(self.desk.thread, work)
        self.set_header("Content-Type", "application/x-ndjson")
        step: dict[str, Any] = {}
        while not step.keys() & {"report", "error"}:
            step = await steps.get()
            self.write(json.dumps(step) + "\n")
            await self.flush()
        await running
        self.finish()


def add_handlers(application: web.Application) -> None:
    """Have a Jupyter server's application answer the panel."""
    application.settings["warplab_desk"] = Desk()
    base = url_path_join(application.settings["base_url"], "warplab")
    handlers = [("contents", ContentsHandler), ("grade", GradeHandler)]
    application.add_handlers(".*$", [(url_path_join(base, name), handler) for name, handler in handlers])

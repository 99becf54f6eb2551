"""Handlers of Jupyter's server for the panel's page. Each request needs the server's login and, to change anything, its
XSRF cookie; work is done by one thread, and submissions run in the judge's sandboxes alone."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler, JupyterHandler
from jupyter_server.extension.application import ExtensionApp
from jupyter_server.utils import url_path_join
from tornado import web

from autograder.panel.contents import contents
from autograder.panel.shown import shown
from autograder.panel.target import WAYS, Target, cell_target, file_target
from warplab.errors import WarplabError
from warplab.interrupts import end_waits

if TYPE_CHECKING:
    from autograder.panel.grader import Grader

_PAGE = Path(__file__).parent / "page"


class Desk:
    """Shared by all handlers of a server: a thread, and the grader, made at its first use."""

    def __init__(self) -> None:
        self.thread = ThreadPoolExecutor(1, "warplab-panel")

    @cached_property
    def grader(self) -> Grader:
        """Used in the thread only."""
        from autograder.panel.grader import Grader  # the judge takes longer to import than a server takes to start

        return Grader()

    def close(self) -> None:
        """End a grade that runs, those that wait, and the workers. Python waits for threads before it ends."""
        self.thread.shutdown(wait=False, cancel_futures=True)
        end_waits()
        if made := self.__dict__.get("grader"):
            made.close()


class _Handler(APIHandler):
    auth_resource = "warplab"

    @property
    def root(self) -> Path:
        """The folder below which the server shows files."""
        return Path(self.settings["server_root_dir"]).expanduser()

    @property
    def desk(self) -> Desk:
        """Shared by all handlers."""
        return self.settings[Panel.name].desk

    def asked(self) -> dict[str, Any]:
        """The request's body: {"text", "path"}, the path null for a cell. Raises HTTPError for one of another form."""
        asked = self.get_json_body()
        if not isinstance(asked, dict) or not isinstance(asked.get("text"), str):
            raise web.HTTPError(400, "The body needs the text of a file or a cell.")
        if not isinstance(asked.get("path"), str | None):
            raise web.HTTPError(400, "The body needs the path of a file, or null for a cell.")
        return asked

    def target(self, asked: dict[str, Any]) -> Target:
        """The submission in a request's body. Raises WarplabError."""
        path, text = asked.get("path"), asked["text"]
        return cell_target(text) if path is None else file_target(self.root, path, text)


class PageHandler(JupyterHandler, web.StaticFileHandler):
    """The page's scripts and styles. A browser asks for each again, so that they are of the server's version."""

    auth_resource = "warplab"

    @web.authenticated
    @authorized
    async def get(self, path: str, include_body: bool = True) -> None:  # type: ignore[override]
        """Answer with a file of the folder `page`."""
        await web.StaticFileHandler.get(self, path, include_body)

    def set_extra_headers(self, path: str) -> None:
        """Have it asked for again."""
        self.set_header("Cache-Control", "no-cache")


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
        if asked.get("way") not in WAYS:
            raise web.HTTPError(400, f"The body needs a way to grade: {', '.join(WAYS)}.")
        loop, steps = asyncio.get_running_loop(), asyncio.Queue[dict[str, Any]]()

        def say(step: dict[str, Any]) -> None:
            loop.call_soon_threadsafe(steps.put_nowait, step)

        def progress(step: str, fraction: float) -> None:
            say({"step": step, "fraction": round(fraction, 2)})

        def work() -> None:
            try:
                say({"report": shown(self.desk.grader.grade(self.target(asked), asked["way"], progress))})
            except WarplabError as error:
                say({"error": str(error)})
            except Exception as error:  # or the page would never get an answer
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


class MicroscopeHandler(_Handler):
    """The microscope's page of the text in the body: {"page"} or {"error"}."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Answer with what `Grader.microscope` gives."""
        asked = self.asked()

        def work() -> dict[str, str]:
            try:
                return {"page": self.desk.grader.microscope(self.target(asked))}
            except (WarplabError, OSError) as error:
                return {"error": str(error)}

        self.finish(json.dumps(await asyncio.get_running_loop().run_in_executor(self.desk.thread, work)))


class Panel(ExtensionApp):
    """The panel's part of a Jupyter server: its addresses, and what ends with the server."""

    name = "warplab"

    def initialize_handlers(self) -> None:
        """Called by Jupyter's server when it starts."""
        self.desk = Desk()
        asked = [("contents", ContentsHandler), ("grade", GradeHandler), ("microscope", MicroscopeHandler)]
        self.handlers.extend((url_path_join("/warplab", name), handler, {}) for name, handler in asked)
        scripts = url_path_join("/warplab/page", r"(\w+\.(?:js|css))")
        self.handlers.append((scripts, PageHandler, {"path": str(_PAGE)}))

    async def stop_extension(self) -> None:
        """Called by Jupyter's server before it ends."""
        self.desk.close()

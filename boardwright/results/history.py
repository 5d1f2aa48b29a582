"""The history of runs: every record in one SQLite file, safe for several runs at once.

A record is kept whole, as JSON; beside it stand the columns that are asked for. The file is in the user's
cache and may be deleted: the records themselves stay below ``out/<board>/bringup/results/``.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boardwright.errors import HostError, InputError, Place

SCHEMA = 1
"""``PRAGMA user_version`` of the file."""
_PATIENCE = 30.0
"""Seconds to wait for another run that is writing."""
_CREATE = (
    "CREATE TABLE run (id INTEGER PRIMARY KEY AUTOINCREMENT, started TEXT NOT NULL, board TEXT NOT NULL, "
    "target TEXT NOT NULL, image TEXT NOT NULL, lock TEXT NOT NULL, evidence TEXT NOT NULL, "
    "status INTEGER NOT NULL, record TEXT NOT NULL)",
    "CREATE INDEX run_of_board ON run (board, id)",
    "CREATE INDEX run_of_image ON run (image)",
)
_ELSEWHERE = "move the file away, and a new one is begun; the records stay in out/<board>/bringup/results"


@dataclass(frozen=True, slots=True)
class Kept:
    """A run of the history. ``record``: as :mod:`boardwright.results.record` makes it."""

    number: int
    record: Mapping[str, Any]


class History:
    """The runs in ``path``, which is made when it is not there.

    Raises ``HostError`` when the file cannot be used, and ``InputError`` when a newer boardwright wrote it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._open() as connection:
            self._prepare(connection)

    def add(self, record: Mapping[str, Any]) -> int:
        """Keep a record; its number, which is never given twice."""
        row = (
            str(record["started"]), str(record["board"]), str(record["target"]),
            str(record["image"]["sha256"]), str(record.get("lock", {}).get("sha256", "")),
            str(record.get("evidence", "")), int(record["exit_status"]), json.dumps(record, sort_keys=True),
        )  # fmt: skip
        with self._open() as connection:
            done = connection.execute(  # alone in its transaction: one statement is one
                "INSERT INTO run (started, board, target, image, lock, evidence, status, record) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                row,
            )
            return int(done.lastrowid or 0)

    def runs(self, *, board: str = "", image: str = "", limit: int = 50) -> list[Kept]:
        """The newest ``limit`` runs, newest first; of a board, and of an image by how its digest begins."""
        with self._open() as connection:
            rows = connection.execute(
                "SELECT id, record FROM run WHERE (? = '' OR board = ?) AND substr(image, 1, length(?)) = ? "
                "ORDER BY id DESC LIMIT ?",
                (board, board, image, image, limit),
            ).fetchall()
        return [Kept(number, json.loads(text)) for number, text in rows]

    def find(self, word: str, *, board: str = "") -> Kept:
        """``12``: that number; ``last``, ``last~2``: counted back; else the newest of an image's digest.

        Raises ``InputError`` when there is no such run.
        """
        found: list[Kept] = []
        if back := re.fullmatch(r"last(?:~(\d{1,4}))?", word):
            found = self.runs(board=board, limit=int(back[1] or 0) + 1)[int(back[1] or 0) :]
        elif re.fullmatch(r"\d{1,9}", word):
            with self._open() as connection:
                rows = connection.execute("SELECT id, record FROM run WHERE id = ?", (int(word),)).fetchall()
            found = [Kept(number, json.loads(text)) for number, text in rows]
        if not found and re.fullmatch(r"[0-9a-f]{4,64}", word):
            found = self.runs(board=board, image=word, limit=1)
        if not found:
            raise InputError(
                f"no run {word!r} in {self._path}",
                hint="`invoke results` lists them; a run is a number, last, last~1, or an image's digest",
            )
        return found[0]

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._path, timeout=_PATIENCE, isolation_level=None)) as connection:
                yield connection
        except (sqlite3.Error, OSError) as error:
            raise HostError(
                f"the history cannot be used: {error}", place=Place(str(self._path)), hint=_ELSEWHERE
            ) from error

    def _prepare(self, connection: sqlite3.Connection) -> None:
        if self._version(connection) < SCHEMA:
            connection.execute("BEGIN IMMEDIATE")
            try:
                if self._version(connection) == 0:  # else another run was faster
                    for statement in _CREATE:
                        connection.execute(statement)
                    connection.execute(f"PRAGMA user_version = {SCHEMA}")
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
        if (found := self._version(connection)) > SCHEMA:
            raise InputError(
                f"expected a history of version {SCHEMA} at most, found {found}",
                place=Place(str(self._path)),
                hint=f"a newer boardwright wrote it: use that one, or {_ELSEWHERE}",
            )

    @staticmethod
    def _version(connection: sqlite3.Connection) -> int:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])

"""The ``series`` file of a patch topic: which patches each source line gets, in order.

::

    # comment
    0001-for-everybody.patch        names before any section: every line

    [7.3 6.12]                      lines of the project, each in one section only
    0002-ttm.patch

    [6.1]
    0002-ttm.6.1.patch

    [5.10]
    none: the driver came with 6.18

A line is the first two numbers of the source's version. The parser is pure; :func:`read` opens the file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import msgspec

from boardwright.errors import InputError, InputErrors, Place
from boardwright.schema.suggest import nearest

SERIES = "series"
"""The name of the file, beside its patches."""

_LINE = re.compile(r"\d+\.\d+")
_COMMENT = re.compile(r"(?:^|\s)#.*$")


class Absent(msgspec.Struct, frozen=True):
    """A line for which a topic has no patches, and why."""

    reason: str


class Section(msgspec.Struct, frozen=True):
    """``[7.3 6.12]`` and what stands below it, up to the next section; ``row`` is its line in the file."""

    row: int
    lines: tuple[str, ...]
    content: tuple[str, ...] | Absent


class Series(msgspec.Struct, frozen=True):
    """A series file. ``file`` is its path as messages show it."""

    file: str
    everywhere: tuple[str, ...]
    """Patches that stand before any section."""
    sections: tuple[Section, ...]

    @property
    def lines(self) -> Mapping[str, tuple[str, ...] | Absent]:
        """What every declared line gets."""
        return {line: self.of(line) for section in self.sections for line in section.lines}

    def of(self, line: str) -> tuple[str, ...] | Absent:
        """The patches of ``line`` in order, or why it has none; ``InputError`` when it says neither."""
        section = self.section(line)
        if section is None:
            if self.everywhere:
                return self.everywhere
            raise InputError(
                f"expected patches or a reason for line {line}, found neither",
                place=Place(self.file),
                hint=f"add a section [{line}] with its patches, or with `none: <reason>`",
            )
        if isinstance(section.content, Absent):
            return section.content
        return (*self.everywhere, *section.content)

    def patches(self, line: str) -> tuple[str, ...]:
        """The patches of ``line``; none when the series has none for it, or says nothing about it."""
        section = self.section(line)
        if section and isinstance(section.content, Absent):
            return ()
        return (*self.everywhere, *(section.content if section else ()))  # type: ignore[misc]

    @property
    def named(self) -> set[str]:
        """Every patch that some line gets."""
        content = (section.content for section in self.sections if not isinstance(section.content, Absent))
        return {*self.everywhere, *(name for names in content for name in names)}

    def section(self, line: str) -> Section | None:
        """The section that names ``line``."""
        return next((section for section in self.sections if line in section.lines), None)


def read(root: Path, collection: str, topic: str, known: Collection[str] | None = None) -> Series:
    """``patches/<collection>/<topic>/series`` of the project in ``root``. Raises ``InputError``."""
    directory = Path("patches") / collection / topic
    if not (root / directory).is_dir():
        there = topics(root, collection)
        raise InputError(
            f"there is no patch topic {topic!r} in patches/{collection}",
            hint=nearest(topic, there) or (f"there are: {', '.join(there)}" if there else None),
        )
    file = directory / SERIES
    try:
        text = (root / file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"patch topic {topic!r} has no file {file}", hint=_EXAMPLE) from None
    except UnicodeDecodeError:
        raise InputError("expected UTF-8 text", place=Place(str(file))) from None
    patches = [path.name for path in (root / directory).iterdir() if path.suffix == ".patch"]
    return parse(text, str(file), patches, known)


_EXAMPLE = "it names the topic's patches, one a line, below sections such as [7.3 6.12]"


def topics(root: Path, collection: str) -> list[str]:
    """The topics that have a series."""
    return sorted(path.parent.name for path in (root / "patches" / collection).glob(f"*/{SERIES}"))


ORDER = "order"
"""In the directory of a collection: its topics, one a line, in the order in which all of them apply."""


def in_order(root: Path, collection: str, topics: Iterable[str]) -> list[str]:
    """``topics`` as ``patches/<collection>/order`` ranks them; those it does not name follow as given.

    One order, however recipe and board list their topics: what a build applies is what
    `invoke patch status` judges.
    """
    ranks = {name: row for row, name in reversed(_order(root, collection))}
    return sorted(topics, key=lambda topic: ranks.get(topic, 1_000_000))


def require_order(root: Path, collection: str) -> None:
    """Raise ``InputError`` when the order names a topic that is none."""
    there = topics(root, collection)
    for row, name in _order(root, collection):
        if name not in there:
            raise InputError(
                f"there is no patch topic {name!r} in patches/{collection}",
                place=Place(f"patches/{collection}/{ORDER}", row),
                hint=nearest(name, there),
            )


def _order(root: Path, collection: str) -> list[tuple[int, str]]:
    try:
        text = (root / "patches" / collection / ORDER).read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    rows = ((row, _COMMENT.sub("", raw).strip()) for row, raw in enumerate(text.splitlines(), start=1))
    return [(row, name) for row, name in rows if name]


def parse(
    text: str,
    file: str,
    patches: Collection[str],
    known: Collection[str] | None = None,
    *,
    stray: bool = False,
) -> Series:
    """A series from its text; ``patches`` are the patch files beside it, ``known`` the project's lines.

    Raises ``InputError`` (or ``InputErrors`` for several), each with its line. Without ``known`` every
    word of the form 7.3 counts as a line. With ``stray`` a patch may stand in no section.
    """
    parser = _Parser(file, set(patches), known)
    for row, raw in enumerate(text.splitlines(), start=1):
        if line := _COMMENT.sub("", raw).strip():
            parser.take(row, line)
    return parser.finished(stray)


class _Open(msgspec.Struct):
    """A section that is being read: its patches with their rows, or its reason."""

    row: int
    lines: tuple[str, ...]
    names: dict[str, int] = {}
    absent: Absent | None = None


class _Parser:
    """The file line by line; collects mistakes, so that one pass names them all."""

    def __init__(self, file: str, patches: set[str], known: Collection[str] | None) -> None:
        self.file, self.patches, self.known = file, patches, known
        self.errors: list[InputError] = []
        self.everywhere = _Open(0, ())
        self.sections: list[_Open] = []

    def take(self, row: int, line: str) -> None:
        if line.startswith("["):
            self._section(row, line)
        elif re.match(r"none\s*(:|$)", line):
            self._none(row, line.partition(":")[2].strip())
        else:
            self._patch(row, line)

    def _section(self, row: int, line: str) -> None:
        words = line[1:-1].split() if line.endswith("]") else []
        if not words:
            self._fault(row, f"expected a section such as [7.3 6.12], found {line!r}")
        rows = {word: section.row for section in self.sections for word in section.lines}
        for word in words:
            if self.known is not None and word not in self.known:
                hint = nearest(word, self.known) or f"lines are {', '.join(self.known)}"
                self._fault(row, f"there is no source line {word!r}", hint)
            elif not _LINE.fullmatch(word):
                self._fault(row, f"expected source lines such as 7.3, found {word!r}", _FORM)
            elif word in rows:
                self._fault(row, f"line {word} stands in the section of line {rows[word]} already", _ONCE)
            rows.setdefault(word, row)
        self.sections.append(_Open(row, tuple(words)))

    def _none(self, row: int, reason: str) -> None:
        if not self.sections:
            self._fault(row, "expected none: below a section", f"write [<line>] above it; {_FORM}")
            return
        section = self.sections[-1]
        if not reason:
            self._fault(row, "expected a reason after none:", "write none: <why this line has no patches>")
        elif section.names or self.everywhere.names:
            what = "patches of the section" if section.names else "patches for every line"
            self._fault(row, f"expected none: alone, found it together with {what}", _EITHER)
        elif section.absent:
            self._fault(row, "expected one none: in a section, found a second", "make one line of them")
        section.absent = section.absent or Absent(reason)

    def _patch(self, row: int, name: str) -> None:
        section = self.sections[-1] if self.sections else self.everywhere
        above = {**section.names, **self.everywhere.names}
        if "/" in name or not name.endswith(".patch"):
            self._fault(row, f"expected the name of a patch beside the series, found {name!r}", _EXAMPLE)
        elif name not in self.patches:
            where = str(Path(self.file).parent)
            self._fault(row, f"there is no patch {name!r} in {where}", nearest(name, self.patches))
        elif name in above:
            self._fault(row, f"{name} stands in line {above[name]} already", "remove one of them")
        elif section.absent:
            self._fault(row, "expected no patch below none:", _EITHER)
        section.names.setdefault(name, row)

    def finished(self, stray: bool) -> Series:
        everywhere = tuple(self.everywhere.names)
        for section in self.sections:
            if not section.names and section.absent is None and not everywhere:
                lines = " ".join(section.lines)
                found = f"expected patches or none: in section [{lines}], found nothing"
                self._fault(section.row, found, _EITHER)
        named = {*everywhere, *(name for section in self.sections for name in section.names)}
        for name in sorted(self.patches - named if not stray else ()):
            self._fault(0, f"{name} stands in no section", "name it in the series, or remove it")
        if len(self.errors) > 1:
            raise InputErrors(self.errors)
        if self.errors:
            raise self.errors[0]
        closed = (Section(one.row, one.lines, one.absent or tuple(one.names)) for one in self.sections)
        return Series(self.file, everywhere, tuple(closed))

    def _fault(self, row: int, message: str, hint: str | None = None) -> None:
        self.errors.append(InputError(message, place=Place(self.file, row), hint=hint))


_FORM = "a line is the first two numbers of the source's version"
_ONCE = "a line stands in one section only"
_EITHER = "a section either names patches or says none: <reason>"


def plain(names: Iterable[str]) -> str:
    """A series of one line as ``boardwright/sealed/patchtree.py`` reads it: one name a line."""
    return "".join(f"{name}\n" for name in names)


def line_of(version: str) -> str:
    """The line of a Debian version: ``7.3`` of ``7.3.2-1~bpo13+1``. Raises ``InputError``."""
    match = re.match(r"(?:\d+:)?(\d+\.\d+)", version)
    if match is None:
        raise InputError(f"expected a version that begins with two numbers, found {version!r}")
    return match[1]

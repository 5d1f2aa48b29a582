"""The index of a package: its partition table and the images for it, as typed objects and back to XML.

Sources: axdl-rs ``axdl/src/partition.rs``; the sibling chip's ``AX630C_emmc_arm64_k419.xml`` and
``gen_axp_xml.py``; names and the rest of the disk by the vendor's U-Boot 2020.04, ``fdl_engine.c``
(cmd_repartition). The index of a package for the AX650 itself is not public: elements that are not known here
are left as they are by :func:`with_table`, and an attribute's meaning beyond these sources is not assumed.
"""

from __future__ import annotations

import enum
import re
import xml.parsers.expat
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from boardwright.errors import InputError, Place

LARGEST_XML = 2**20
_DEEPEST = 16
REST = 0xFFFFFFFF
"""A partition's size that says: all that is left."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,31}")
"""The loader copies 31 characters, and writes the name into ``blkdevparts``."""
_NUMBER = re.compile(r"[0-9]{1,19}|0[xX][0-9A-Fa-f]{1,16}")
NEEDS_FILE = 1
"""A bit of ``flag``; bit 1 is "must be selected"."""


class Unit(enum.IntEnum):
    """What sizes are counted in."""

    MIB = 0
    KIB_512 = 1
    KIB = 2
    BYTE = 3
    SECTOR = 4

    @property
    def bytes(self) -> int:
        """A sector is taken for 512 bytes, which is an inference: no packer is known to use that unit."""
        return (2**20, 2**19, 2**10, 1, 512)[self]


class Kind(enum.StrEnum):
    """What an image is for."""

    INIT = "INIT"
    EIP = "EIP"
    FDL = "FDL"
    FDL1 = "FDL1"
    FDL2 = "FDL2"
    ERASE = "ERASEFLASH"
    CODE = "CODE"


@dataclass(frozen=True, slots=True)
class Partition:
    """``size``, ``gap``: in the table's units; ``size`` None: the rest of the disk."""

    name: str
    size: int | None
    gap: int = 0


@dataclass(frozen=True, slots=True)
class Table:
    """Partitions from the disk's first byte on. ``strategy`` 0: the tool does not partition."""

    partitions: tuple[Partition, ...]
    unit: Unit = Unit.KIB
    strategy: int = 1

    def bytes_of(self, name: str) -> int | None:
        """Bytes of a partition; None for the rest of the disk. Raises ``InputError`` for an unknown name."""
        for partition in self.partitions:
            if partition.name == name:
                return None if partition.size is None else partition.size * self.unit.bytes
        raise InputError(f"there is no partition {name}", hint=f"there are {', '.join(self.names)}")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(partition.name for partition in self.partitions)


@dataclass(frozen=True, slots=True)
class Image:
    """``block``: the partition it is for, None for an address in RAM, ``base``. ``auth``: 1 MD5, 2 CRC-16."""

    name: str
    kind: Kind
    file: str | None = None
    block: str | None = None
    base: int = 0
    size: int = 0
    flag: int = NEEDS_FILE
    select: int = 1
    identifier: str = ""
    auth: int = 0
    description: str = ""


@dataclass(frozen=True, slots=True)
class Project:
    """``fdl_level``: stages of the flash loader, 1 for the AX650."""

    table: Table
    images: tuple[Image, ...]
    fdl_level: int = 1
    alias: str = ""
    name: str = ""
    version: str = ""

    def of_kind(self, kind: Kind) -> tuple[Image, ...]:
        return tuple(image for image in self.images if image.kind is kind)


def parse(raw: bytes, name: str = "index.xml") -> Project:
    """Raises ``InputError`` with the element that is wrong."""
    place = Place(name)
    root = _tree(raw, place)
    try:
        project = _only(root, "Project")
        read = Project(
            _table(_only(project, "Partitions")),
            tuple(_image(image) for image in _only(project, "ImgList").findall("Img")),
            _integer(_text(project, "FDLLevel"), "FDLLevel", 2),
            *(project.get(key, "") for key in ("alias", "name", "version")),
        )
        check(read)
    except ValueError as error:
        raise InputError(str(error), place=place) from error
    return read


def check(project: Project) -> None:
    """Raises ``ValueError`` for a table or images that contradict themselves."""
    for fault in _faults(project):
        raise ValueError(fault)


def write(project: Project) -> bytes:
    """The XML of a project; the same project gives the same bytes. Raises ``InputError``."""
    try:
        check(project)
    except ValueError as error:
        raise InputError(str(error)) from error
    root = Element("Config")
    top = SubElement(root, "Project", alias=project.alias, name=project.name, version=project.version)
    SubElement(top, "FDLLevel").text = str(project.fdl_level)
    _fill_table(SubElement(top, "Partitions"), project.table)
    images = SubElement(top, "ImgList")
    for image in project.images:
        _add_image(images, image)
    made = _serialised(root)
    if parse(made) != project:
        raise InputError("a name or description holds what XML does not keep (control bytes, outer spaces)")
    return made


def with_table(raw: bytes, table: Table, name: str = "index.xml") -> bytes:
    """The XML with another partition table, and everything else as it was. Raises ``InputError``."""
    root = _tree(raw, Place(name))
    parse(raw, name)
    _fill_table(_only(_only(root, "Project"), "Partitions"), table)
    made = _serialised(root)
    parse(made, name)
    return made


def with_image(raw: bytes, image: Image, name: str = "index.xml") -> bytes:
    """The XML with one image more, at the end, and everything else as it was. Raises ``InputError``."""
    root = _tree(raw, Place(name))
    parse(raw, name)
    _add_image(_only(_only(root, "Project"), "ImgList"), image)
    made = _serialised(root)
    parse(made, name)
    return made


def _faults(project: Project) -> Iterator[str]:
    yield from _table_faults(project.table)
    wanted = {1: [Kind.FDL], 2: [Kind.FDL1, Kind.FDL2]}.get(project.fdl_level)
    if wanted is None:
        yield f"FDLLevel: expected 1 or 2, found {project.fdl_level}"
    for kind in wanted or ():
        if len(found := project.of_kind(kind)) != 1:
            level = project.fdl_level
            yield f"ImgList: expected one image of type {kind} (FDLLevel {level}), found {len(found)}"
    names = [image.name for image in project.images]
    for image in project.images:
        if not image.name or names.count(image.name) > 1:
            yield f"Img: expected a name of its own, found {image.name!r}"
        if image.kind in (Kind.CODE, Kind.ERASE) and image.block not in project.table.names:
            yield f"Img {image.name}: expected the Block of a partition, found {image.block!r}"
        if image.flag & NEEDS_FILE and image.file is None:
            yield f"Img {image.name}: it needs a file (flag {image.flag}) and names none"
        if image.auth not in (0, 1, 2):
            yield f"Img {image.name}: Auth: expected 0, 1 or 2, found {image.auth}"


def _table_faults(table: Table) -> Iterator[str]:
    if table.strategy not in (0, 1):
        yield f"Partitions: strategy: expected 0 or 1, found {table.strategy}"
    for index, partition in enumerate(table.partitions):
        where, last = f"Partition {partition.name}", index == len(table.partitions) - 1
        if not _NAME.fullmatch(partition.name):
            shown = partition.name[:40]
            yield f"Partition {index + 1}: expected a name of 1 to 31 of A-Z a-z 0-9 _ -, found {shown!r}"
        elif partition.name in table.names[:index]:
            yield f"{where}: there is one already, at {table.names.index(partition.name) + 1}"
        elif partition.size is None and not last:
            yield f"{where}: only the last one can take the rest of the disk"
        elif partition.size == 0:
            yield f"{where}: it has no size"
        elif partition.size is not None and not 0 < partition.size < 2**63 // table.unit.bytes:
            yield f"{where}: size {partition.size} is out of range"
        elif partition.size == REST:
            yield f"{where}: size {REST:#x} means the rest of the disk"
        elif not 0 <= partition.gap < 2**32:
            yield f"{where}: gap {partition.gap} is out of range"


def _tree(raw: bytes, place: Place) -> Element:
    """The root. Entities never get so far as to be expanded: a document type is refused where it begins."""
    if len(raw) > LARGEST_XML:
        raise InputError(f"expected {LARGEST_XML} bytes of XML at most, found {len(raw)}", place=place)
    depth = 0

    def begin(_name: str, _attributes: object) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEEPEST:
            raise ValueError(f"elements are nested deeper than {_DEEPEST}")

    def end(_name: str) -> None:
        nonlocal depth
        depth -= 1

    def doctype(*_: object) -> None:
        raise ValueError("it declares a document type, which no index does and which may hold entities")

    first = xml.parsers.expat.ParserCreate()
    first.StartDoctypeDeclHandler = doctype
    first.StartElementHandler, first.EndElementHandler = begin, end
    try:
        first.Parse(raw, True)
        parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
        root = ElementTree.fromstring(raw, parser)
    except (xml.parsers.expat.ExpatError, ElementTree.ParseError, ValueError, LookupError) as error:
        raise InputError(f"the index cannot be read: {error}", place=place) from error
    if root.tag != "Config":
        raise InputError(f"expected the element Config, found {root.tag}", place=place)
    return root


def _only(parent: Element, tag: str) -> Element:
    found = parent.findall(tag)
    if len(found) != 1:
        raise ValueError(f"{parent.get('name') or parent.tag}: expected one {tag}, found {len(found)}")
    return found[0]


def _text(parent: Element, tag: str) -> str:
    return (_only(parent, tag).text or "").strip()


def _integer(text: str, what: str, most: int) -> int:
    if not _NUMBER.fullmatch(text) or (number := int(text, 16 if text[:2] in ("0x", "0X") else 10)) > most:
        raise ValueError(f"{what}: expected a number up to {most}, found {text[:40]!r}")
    return number


def _table(element: Element) -> Table:
    unit = Unit(_integer(element.get("unit", ""), "Partitions: unit", len(Unit) - 1))
    strategy = _integer(element.get("strategy", ""), "Partitions: strategy", 1)
    partitions = []
    for part in element.findall("Partition"):
        name = part.get("id", "")
        size = _integer(part.get("size", ""), f"Partition {name}: size", 2**63)
        gap = _integer(part.get("gap", "0"), f"Partition {name}: gap", REST)
        partitions.append(Partition(name, None if size == REST else size, gap))
    return Table(tuple(partitions), unit, strategy)


def _image(element: Element) -> Image:
    name = element.get("name", "")
    what = f"Img {name}"
    kind = _text(element, "Type")
    if kind not in list(Kind):
        raise ValueError(f"{what}: Type: expected one of {', '.join(Kind)}, found {kind!r}")
    block, auth = _only(element, "Block"), element.find("Auth")
    base, size = (_integer(_text(block, tag) or "0", f"{what}: {tag}", 2**64 - 1) for tag in ("Base", "Size"))
    return Image(
        name,
        Kind(kind),
        _text(element, "File") or None,
        block.get("id") or None,
        base,
        size,
        _integer(element.get("flag", ""), f"{what}: flag", 0xFFFFFFFF),
        _integer(element.get("select", ""), f"{what}: select", 0xFFFFFFFF),
        _text(element, "ID"),
        _integer("0" if auth is None else auth.get("algo", ""), f"{what}: Auth", 2),
        _text(element, "Description"),
    )


def _fill_table(element: Element, table: Table) -> None:
    for part in element.findall("Partition"):
        element.remove(part)
    element.set("strategy", str(table.strategy))
    element.set("unit", str(int(table.unit)))
    for partition in table.partitions:
        size = f"{REST:#x}" if partition.size is None else str(partition.size)
        SubElement(element, "Partition", gap=str(partition.gap), id=partition.name, size=size)


def _add_image(parent: Element, image: Image) -> None:
    element = SubElement(parent, "Img", flag=str(image.flag), name=image.name, select=str(image.select))
    SubElement(element, "ID").text = image.identifier
    SubElement(element, "Type").text = image.kind
    block = SubElement(element, "Block", {"id": image.block} if image.block else {})
    SubElement(block, "Base").text = f"{image.base:#x}"
    SubElement(block, "Size").text = f"{image.size:#x}"
    SubElement(element, "File").text = image.file or ""
    SubElement(element, "Auth", algo=str(image.auth))
    SubElement(element, "Description").text = image.description


def _serialised(root: Element) -> bytes:
    ElementTree.indent(root, "\t")
    made: bytes = ElementTree.tostring(root, encoding="UTF-8", xml_declaration=True)
    return made + b"\n"

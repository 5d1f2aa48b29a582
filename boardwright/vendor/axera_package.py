"""The ``.axp`` package: a ZIP of one XML index and the images it names. List, verify, take apart, make.

Source: axdl-rs ``axdl/src/lib.rs`` (the index is the member whose name ends in ``.xml``, an image is found by
the name in its ``File``).
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from boardwright.errors import HostError, InputError
from boardwright.vendor import axera_header, axera_xml, sparse
from boardwright.vendor.axera_xml import Image, Kind, Project
from boardwright.vendor.axera_zip import PIECE, Archive, Member, name_fault

_HEADED = ("dtb", "kernel", "atf", "optee", "recovery", "recovery_dtb")
"""Partitions (also with ``_B``) whose image has the 1024-byte header."""
_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Finding:
    """What verification says of a member; ``good`` False: it would not do on a board."""

    member: str
    good: bool
    text: str


class Package(Archive):
    """An opened package, whose index is consistent and whose images are there; a context manager.

    Raises what :class:`Archive` raises, and ``InputError`` for a wrong index or an image that is missing.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            self.xml_name = self._index()
            self.xml = self.read(self.xml_name, axera_xml.LARGEST_XML)
            self.project: Project = axera_xml.parse(self.xml, f"{path}/{self.xml_name}")
            self._check_images()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Package:
        return self

    def verify(self, names: Collection[str] | None = None) -> Iterator[Finding]:
        """Every member (or those of ``names``) read once: CRC-32, format, and whether it fits its partition.

        What is no image of its kind is a finding. Raises ``IntegrityError`` at the first damaged member.
        """
        users = {image.file: image for image in self.project.images if image.file}
        for member in self.members:
            if names is not None and member.name not in names:
                continue
            image = users.get(member.name)
            try:
                findings = list(self._format(member, image))
            except InputError as error:
                findings = [Finding(member.name, False, error.message)]
            yield from findings
            if not findings:
                size = sum(len(piece) for piece in self.pieces(member.name))
                yield from self._fits(member, image, size)

    def unpacked_size(self, image: Image) -> int:
        """Bytes on the board: of the image that a sparse one unpacks to. Raises ``InputError``."""
        assert image.file is not None
        with self.open(image.file) as stream:
            start = stream.read(sparse.HEADER_SIZE)
        if sparse.is_sparse(start):
            return sparse.parse_header(start, image.file).size
        return self.member(image.file).size

    def extract(self, directory: Path, names: tuple[str, ...] = ()) -> list[Path]:
        """Write members (default: all) into a new directory, whole or not at all. Returns their paths.

        Raises ``InputError`` when it is there, ``IntegrityError`` for a damaged member, ``HostError``.
        """
        if directory.exists() or directory.is_symlink():
            raise InputError(f"{directory} is there already", hint="name a directory that is not")
        wanted = [self.member(name) for name in names] or list(self.members)
        try:
            directory.parent.mkdir(parents=True, exist_ok=True)
            partial = Path(tempfile.mkdtemp(dir=directory.parent, prefix=f".{directory.name}."))
        except OSError as error:
            raise HostError(f"{directory} cannot be made: {error.strerror or error}") from error
        try:
            for member in wanted:
                path = partial / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("xb") as target:
                    for piece in self.pieces(member.name):
                        target.write(piece)
            partial.chmod(0o777 & ~_umask())
            partial.rename(directory)
        except OSError as error:
            raise HostError(f"{directory} cannot be written: {error.strerror or error}") from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return [directory / member.name for member in wanted]

    def _index(self) -> str:
        found = [member.name for member in self.members if member.name.lower().endswith(".xml")]
        if len(found) != 1:
            raise self.bad(f"expected one XML index, found {', '.join(found) or 'none'}")
        return found[0]

    def _check_images(self) -> None:
        names = {member.name for member in self.members}
        for image in self.project.images:
            if image.file is not None and image.file not in names:
                raise self.bad(
                    f"image {image.name} names {image.file}, which is not in the package",
                    hint=f"there are {', '.join(sorted(names))}",
                )

    def _format(self, member: Member, image: Image | None) -> Iterator[Finding]:
        if image is None or image.kind is not Kind.CODE or image.block is None:
            return
        with self.open(member.name) as stream:
            start = stream.read(sparse.HEADER_SIZE)
        where = f"{self.path}/{member.name}"
        with self.open(member.name) as stream:
            if sparse.is_sparse(start):
                reader = sparse.Reader(stream, where)
                faults = list(sparse.for_ax650(reader))
                yield from (Finding(member.name, False, text) for text in faults)
                if not faults:
                    yield from self._fits(member, image, reader.header.size, "sparse image")
            elif image.block.removesuffix("_B") in _HEADED:
                header, digest = axera_header.check(stream, where)
                said = "signed" if header.signed else "not signed"
                yield from self._fits(member, image, member.size, f"{said}, digest {digest}")
                stream.drain()

    def _fits(self, member: Member, image: Image | None, size: int, what: str = "") -> Iterator[Finding]:
        text = f"{what}, {size} bytes" if what else f"{size} bytes"
        room = self.project.table.bytes_of(image.block) if image and image.block else None
        if image is None and member.name != self.xml_name:
            text += ", which no image of the index names"
        elif room is not None:
            assert image is not None
            fits = "fits" if size <= room else "does not fit"
            text += f", {fits} {image.block} of {room}"
        yield Finding(member.name, room is None or size <= room, text)


def make(
    target: Path, project: Project, files: Mapping[str, Path], xml_name: str = "", compress: bool = True
) -> None:
    """Write a package of a project's index and its images, the files that ``files`` has for their names.

    The same contents give the same bytes (with one version of zlib; ``compress`` False: with any): the index
    first, images in its order, no times, owners or paths. Raises ``InputError`` and ``HostError``.
    """
    make_raw(target, axera_xml.write(project), files, xml_name, compress)


def make_raw(
    target: Path, xml: bytes, files: Mapping[str, Path], xml_name: str = "", compress: bool = True
) -> None:
    """As :func:`make`, with an index given as it stands."""
    project = axera_xml.parse(xml)
    xml_name = xml_name or f"{project.name or 'package'}.xml"
    wanted = list(dict.fromkeys(image.file for image in project.images if image.file))
    for name in [xml_name, *wanted]:
        if fault := name_fault(name):
            raise InputError(f"member {name!r}: {fault}")
    if missing := [name for name in wanted if name not in files or not files[name].is_file()]:
        raise InputError(
            f"the index names files that are not there: {', '.join(missing)}",
            hint=f"there are {', '.join(sorted(files)) or 'none'}",
        )
    try:
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise HostError(f"{target} cannot be made: {error.strerror or error}") from error
    partial = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file, zipfile.ZipFile(file, "w", allowZip64=True) as archive:
            archive.writestr(_info(xml_name, compress), xml)
            for name in wanted:
                size = files[name].stat().st_size
                with files[name].open("rb") as source:
                    _add(archive, _info(name, compress), source, size)
        with Package(partial):
            partial.chmod(0o666 & ~_umask())
        partial.rename(target)
    except OSError as error:
        raise HostError(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)


def _add(archive: zipfile.ZipFile, info: zipfile.ZipInfo, source: BinaryIO, size: int) -> None:
    info.file_size = size
    # Whether ZIP64 is used must depend on the size alone.
    with archive.open(info, "w", force_zip64=size >= 2**31) as member:
        shutil.copyfileobj(source, member, PIECE)


def _info(name: str, compress: bool) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _TIME)
    info.create_system = 3
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    info.compress_type = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    return info


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask

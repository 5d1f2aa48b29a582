"""``invoke vendor``: the AX650's packages, image headers, environments and sparse images, apart and together.

Nothing that is there is ever overwritten. 0 done; 1 ``verify`` found an image that would not do on a board;
2 the request or the file is wrong; 3 the host failed; 4 the file is damaged.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from boardwright.errors import ExitStatus, HostError, InputError, Place
from boardwright.schema.suggest import nearest
from boardwright.vendor import axera_header, axera_package, sparse, uboot_env
from boardwright.vendor.axera_package import Package
from boardwright.verbs.common import say


@dataclass(frozen=True, slots=True)
class Options:
    """``put``, ``drop``: of ``env``, as given. ``only``: of ``extract``. ``skip_zeros``: of ``pack``."""

    to: str = ""
    source: str = ""
    put: str = ""
    drop: str = ""
    only: str = ""
    redundant: bool = False
    skip_zeros: bool = False
    as_json: bool = False


def vendor(action: str, file: str, options: Options) -> int:
    """One action of :data:`ACTIONS` on one file. Raises ``InputError`` for options that are not its own."""
    if action not in ACTIONS:
        hint = nearest(action, ACTIONS) or f"actions are {', '.join(ACTIONS)}"
        raise InputError(f"no action {action!r}", hint=hint)
    function, takes = ACTIONS[action]
    for name, option in _OPTIONS.items():
        given = bool(getattr(options, name))
        if given and name not in takes:
            raise InputError(f"{option}: `invoke vendor {action}` does not take it")
        if not given and f"{name}!" in takes:
            raise InputError(f"`invoke vendor {action}` needs {option}")
    try:
        return function(Path(file), options)
    except OSError as error:
        raise HostError(f"{error.filename or file}: {error.strerror or error}") from error


def _list(path: Path, options: Options) -> int:
    with Package(path) as package:
        project, sizes = package.project, {member.name: member.size for member in package.members}
        report = {
            "name": project.name,
            "version": project.version,
            "index": package.xml_name,
            "fdl_level": project.fdl_level,
            "partitions": [
                {"name": part.name, "bytes": project.table.bytes_of(part.name)}
                for part in project.table.partitions
            ],
            "images": [
                {
                    "name": image.name, "type": str(image.kind), "partition": image.block,
                    "address": None if image.block else image.base, "file": image.file,
                    "bytes": None if image.file is None else sizes[image.file],
                }
                for image in project.images
            ],
            "members": [asdict(member) for member in package.members],
        }  # fmt: skip
    if options.as_json:
        return _print_json(report)
    print(f"{project.name} {project.version}, index {package.xml_name}")
    offset = 0
    for part in project.table.partitions:
        offset += part.gap * project.table.unit.bytes
        size = project.table.bytes_of(part.name)
        print(f"  {part.name:<12} {offset:#13x} {'the rest' if size is None else _mib(size):>12}")
        offset += size or 0
    for image in project.images:
        where = image.block or f"RAM {image.base:#x}"
        shown = f"{image.file} ({sizes[image.file]} bytes)" if image.file else "no file"
        print(f"  {image.name:<12} {image.kind:<10} {where:<16} {shown}")
    return ExitStatus.OK


def _verify(path: Path, options: Options) -> int:
    with Package(path) as package:
        findings = list(package.verify())
    if options.as_json:
        _print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            print(f"{'ok' if finding.good else 'no':<3} {finding.member}: {finding.text}")
    return ExitStatus.OK if all(finding.good for finding in findings) else ExitStatus.PRODUCT


def _extract(path: Path, options: Options) -> int:
    with Package(path) as package:
        paths = package.extract(Path(options.to), tuple(filter(None, options.only.split(","))))
    return _wrote(options, files=[str(one) for one in paths])


def _make(path: Path, options: Options) -> int:
    source = Path(options.source)
    if not source.is_dir():
        raise InputError("--from: expected a directory", place=Place(options.source))
    files = {str(one.relative_to(source)): one for one in sorted(source.rglob("*")) if one.is_file()}
    indexes = [name for name in files if name.lower().endswith(".xml")]
    if len(indexes) != 1:
        raise InputError(
            f"expected one XML index, found {', '.join(indexes) or 'none'}", place=Place(options.source)
        )
    _refuse_existing(path)
    axera_package.make_raw(path, files[indexes[0]].read_bytes(), files, indexes[0])
    return _wrote(options, files=[str(path)])


def _header(path: Path, options: Options) -> int:
    with _opened(path) as file:
        header, digest = axera_header.check(file, str(path))
    report = {
        "payload_bytes": header.payload_size,
        "capability": header.capability,
        "signed": header.signed,
        "ciphered": header.ciphered,
        "key_bits": header.key_bits if header.signed else None,
        "digest": str(digest),
    }
    if options.as_json:
        return _print_json(report)
    signed = f"signed (RSA-{header.key_bits}, not checked here)" if header.signed else "not signed"
    ciphered = "ciphered" if header.ciphered else "plain"
    print(f"checksum holds, payload {header.payload_size} bytes, {ciphered}, {signed}")
    print(f"capability {header.capability:#x}, digest {digest} (U-Boot does not compare it)")
    return ExitStatus.OK


def _wrap(path: Path, options: Options) -> int:
    with _opened(path) as source, _new(Path(options.to)) as target:
        axera_header.wrap(source, target)
    return _wrote(options, files=[options.to])


def _unwrap(path: Path, options: Options) -> int:
    with _opened(path) as source, _new(Path(options.to)) as target:
        axera_header.unwrap(source, target, str(path))
    return _wrote(options, files=[options.to])


def _env(path: Path, options: Options) -> int:
    """Print it, or with ``--to`` write it with what is to be changed."""
    if (options.put or options.drop) and not options.to:
        raise InputError("--set and --unset need --to, the file to write")
    with _opened(path) as file:
        # A dump of the partition is longer than the block.
        block = file.read(uboot_env.SIZE)
    found = uboot_env.parse(block, redundant=options.redundant, name=str(path))
    if not options.to:
        if options.as_json:
            return _print_json({"flag": found.flag, "bytes": found.size, "variables": dict(found.variables)})
        for name, value in found.variables.items():
            print(f"{name}={value}".encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))
        return ExitStatus.OK
    name, equals, value = options.put.partition("=")
    if options.put and not equals:
        raise InputError(f"--set: expected NAME=VALUE, found {options.put!r}")
    put = {name: value} if equals else {}
    changed = uboot_env.edited(found, put, filter(None, options.drop.split(",")))
    with _new(Path(options.to)) as target:
        target.write(uboot_env.make(changed))
    return _wrote(options, files=[options.to])


def _sparse(path: Path, options: Options) -> int:
    """Say what it holds, or with ``--to`` unpack it."""
    with _opened(path) as file:
        if options.to:
            with _new(Path(options.to)) as target:
                sparse.unpack(file, target, str(path))
            return _wrote(options, files=[options.to])
        reader = sparse.Reader(file, str(path))
        faults = list(sparse.for_ax650(reader))
    header = reader.header
    if options.as_json:
        return _print_json(
            {"bytes": header.size, "block": header.block, "chunks": header.chunks, "ax650": faults}
        )
    print(f"{header.size} bytes in {header.chunks} chunks of {header.block}-byte blocks")
    for fault in faults:
        print(f"an AX650's loader does not take it: {fault}")
    return ExitStatus.OK


def _pack(path: Path, options: Options) -> int:
    with _opened(path) as source, _new(Path(options.to)) as target:
        if not sparse.pack(source, target, skip_zeros=options.skip_zeros).blocks:
            raise InputError("expected an image, found an empty file")
    return _wrote(options, files=[options.to])


Action = Callable[[Path, Options], int]
ACTIONS: dict[str, tuple[Action, tuple[str, ...]]] = {
    "list": (_list, ("as_json",)),
    "verify": (_verify, ("as_json",)),
    "extract": (_extract, ("to", "to!", "only", "as_json")),
    "make": (_make, ("source", "source!", "as_json")),
    "header": (_header, ("as_json",)),
    "wrap": (_wrap, ("to", "to!", "as_json")),
    "unwrap": (_unwrap, ("to", "to!", "as_json")),
    "env": (_env, ("to", "put", "drop", "redundant", "as_json")),
    "sparse": (_sparse, ("to", "as_json")),
    "pack": (_pack, ("to", "to!", "skip_zeros", "as_json")),
}
"""Action: its function, the options it takes, and with ``!`` those it needs."""
_OPTIONS = {
    "to": "--to", "source": "--from", "put": "--set", "drop": "--unset", "only": "--only",
    "redundant": "--redundant", "skip_zeros": "--skip-zeros", "as_json": "--json",
}  # fmt: skip


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The file, or a disk's partition. What is wrong in it is said of it, whichever function finds it."""
    with path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISBLK(mode):
            raise InputError("expected a file or a disk, found a device or a pipe", place=Place(str(path)))
        try:
            yield file
        except InputError as error:
            if error.place is None and error.exit_status is ExitStatus.INPUT:
                raise InputError(error.message, place=Place(str(path)), hint=error.hint) from None
            raise


@contextlib.contextmanager
def _new(path: Path) -> Iterator[BinaryIO]:
    """A file that appears whole or not at all, and not where one is."""
    _refuse_existing(path)
    if not path.parent.is_dir():
        raise HostError(f"{path} cannot be made: there is no directory {path.parent}")
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file
        mask = os.umask(0o022)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)
        Path(name).rename(path)
    finally:
        Path(name).unlink(missing_ok=True)


def _refuse_existing(path: Path) -> None:
    if path.exists() or path.is_symlink():
        raise InputError(f"{path} is there already", hint="name a file that is not")


def _wrote(options: Options, files: list[str]) -> int:
    if options.as_json:
        return _print_json({"outcome": "written", "files": files})
    for file in files:
        say(f"wrote {file}")
    return ExitStatus.OK


def _print_json(report: Any) -> int:
    print(json.dumps(report, indent=2))
    return ExitStatus.OK


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"

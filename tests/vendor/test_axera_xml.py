"""The index: objects and XML are the same thing, and every element that is wrong is named."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packages import PROJECT, TABLE

from boardwright.errors import InputError
from boardwright.vendor.axera_xml import (
    Image,
    Kind,
    Partition,
    Project,
    Table,
    Unit,
    parse,
    with_table,
    write,
)

SIBLING = b"""<?xml version="1.0" encoding="UTF-8"?>
<!-- before the root -->
<Config>
\t<Project alias="AX620E" name="AX630C" version="1.0">
\t\t<FDLLevel>2</FDLLevel>
\t\t<!-- Unit: see the manual -->
\t\t<Partitions strategy="1" unit="2">
\t\t\t<Partition gap="0" id="spl" size="768" />
\t\t\t<Partition gap="0" id="rootfs" size="0xffffffff" />
\t\t</Partitions>
\t\t<ImgList>
\t\t\t<Img flag="3" name="FDL1" select="1"><ID>FDL1</ID><Type>FDL1</Type>
\t\t\t\t<Block><Base>0x3000000</Base><Size>0x0</Size></Block><File>fdl.bin</File><Auth algo="0" />
\t\t\t\t<Description>one</Description><Unknown kept="yes">text</Unknown></Img>
\t\t\t<Img flag="3" name="FDL2" select="1"><ID>FDL2</ID><Type>FDL2</Type>
\t\t\t\t<Block><Base>0x5C000000</Base><Size>0x0</Size></Block><File>fdl2.bin</File><Auth algo="1" />
\t\t\t\t<Description /></Img>
\t\t\t<Img flag="1" name="SPL" select="1"><ID>SPL</ID><Type>CODE</Type>
\t\t\t\t<Block id="spl"><Base>0x0</Base><Size>0x0</Size></Block><File>spl.bin</File><Auth algo="0" />
\t\t\t\t<Description /></Img>
\t\t</ImgList>
\t</Project>
</Config>
"""
"""In the form of the sibling chip's, written by hand."""

names = st.text(st.sampled_from("abcXYZ019_-"), min_size=1, max_size=31)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    chosen = draw(st.lists(names, min_size=1, max_size=20, unique=True))
    sizes: list[int | None] = [draw(st.integers(1, 2**31)) for _ in chosen]
    if draw(st.booleans()):
        sizes[-1] = None
    gaps = [draw(st.integers(0, 2**32 - 1)) for _ in chosen]
    unit, strategy = draw(st.sampled_from(Unit)), draw(st.integers(0, 1))
    return Table(tuple(map(Partition, chosen, sizes, gaps)), unit, strategy)


def test_an_index_of_the_siblings_form_is_read() -> None:
    project = parse(SIBLING)
    assert (project.alias, project.name, project.version, project.fdl_level) == ("AX620E", "AX630C", "1.0", 2)
    assert project.table == Table((Partition("spl", 768), Partition("rootfs", None)), Unit.KIB, 1)
    assert project.table.bytes_of("spl") == 768 * 1024
    assert project.table.bytes_of("rootfs") is None
    assert [(i.name, i.kind, i.file, i.block, i.base) for i in project.images] == [
        ("FDL1", Kind.FDL1, "fdl.bin", None, 0x3000000),
        ("FDL2", Kind.FDL2, "fdl2.bin", None, 0x5C000000),
        ("SPL", Kind.CODE, "spl.bin", "spl", 0),
    ]
    with pytest.raises(InputError, match="no partition nothing"):
        project.table.bytes_of("nothing")


@given(
    table=tables(),
    level=st.sampled_from([1, 2]),
    text=st.text(st.characters(codec="utf-8", categories=["L"])),
)
def test_objects_become_xml_and_come_back(table: Table, level: int, text: str) -> None:
    kinds = [Kind.FDL] if level == 1 else [Kind.FDL1, Kind.FDL2]
    images = [Image(kind, kind, "a&b<c>.bin", base=2**64 - 1, description=text) for kind in kinds]
    images.append(Image("one", Kind.CODE, "one.img", table.names[0], auth=2, select=0, flag=3))
    project = Project(table, tuple(images), level, text, "name", "1")
    assert parse(write(project)) == project
    assert write(project) == write(project)


@given(table=tables())
def test_another_table_leaves_everything_else(table: Table) -> None:
    first = table.partitions[0]
    table = replace(table, partitions=(replace(first, name="spl"), *table.partitions[1:]))
    made = with_table(SIBLING, table)
    assert parse(made) == replace(parse(SIBLING), table=table)
    assert b'<Unknown kept="yes">text</Unknown>' in made
    assert b"Unit: see the manual" in made


def test_the_same_table_gives_the_same_index() -> None:
    once = with_table(SIBLING, parse(SIBLING).table)
    assert with_table(once, parse(once).table) == once


def changed(pattern: str, by: str) -> bytes:
    made, count = re.subn(pattern, by, SIBLING.decode(), count=1)
    assert count == 1
    return made.encode()


@pytest.mark.parametrize(
    ("pattern", "by", "words"),
    [
        ("<Config>", "<Conf>", "cannot be read: mismatched tag"),
        ("<Project alias", "<Projekt><Project alias", "cannot be read"),
        ("FDLLevel>2<", "FDLLevel>3<", "FDLLevel: expected a number up to 2, found '3'"),
        ("FDLLevel>2<", "FDLLevel>1<", "expected one image of type FDL .*found 0"),
        ("FDLLevel>2<", "FDLLevel>0<", "FDLLevel: expected 1 or 2, found 0"),
        ("<FDLLevel>2</FDLLevel>", "", "AX630C: expected one FDLLevel, found 0"),
        ('unit="2"', 'unit="5"', "Partitions: unit: expected a number up to 4, found '5'"),
        ('unit="2"', "", "Partitions: unit: .*found ''"),
        ('strategy="1"', 'strategy="2"', "Partitions: strategy: .*found '2'"),
        ('size="768"', 'size="0"', "Partition spl: it has no size"),
        ('size="768"', 'size="-1"', "Partition spl: size: expected a number"),
        ('size="768"', 'size="99999999999999999999"', "Partition spl: size"),
        (
            'size="768"',
            'size="0x7fffffffffffffff"',
            "Partition spl: size 9223372036854775807 is out of range",
        ),
        ('size="768"', 'size="0xFFFFFFFF"', "Partition spl: only the last one"),
        ('gap="0" id="spl"', 'gap="x" id="spl"', "Partition spl: gap: .*found 'x'"),
        ('id="spl"', 'id="rootfs"', "Partition rootfs: there is one already, at 1"),
        ('id="spl"', 'id=""', "Partition 1: expected a name .*found ''"),
        ('id="spl"', 'id="a b"', "Partition 1: expected a name .*found 'a b'"),
        ('id="spl"', 'id="a(b)"', "Partition 1: expected a name"),
        ('id="spl"', f'id="{"x" * 32}"', "Partition 1: expected a name of 1 to 31"),
        ('Block id="spl"', 'Block id="spk"', "Img SPL: expected the Block of a partition, found 'spk'"),
        ('Block id="spl"', "Block", "Img SPL: expected the Block of a partition, found None"),
        ("<Type>CODE", "<Type>CODEX", "Img SPL: Type: expected one of INIT, .*found 'CODEX'"),
        ("<Type>FDL2", "<Type>FDL1", "expected one image of type FDL1 .*found 2"),
        ("<File>spl.bin</File>", "<File />", r"Img SPL: it needs a file \(flag 1\)"),
        ("<File>spl.bin</File>", "", "SPL: expected one File, found 0"),
        ("<Base>0x5C000000", "<Base>5C000000", "Img FDL2: Base: .*found '5C000000'"),
        ("<Base>0x5C000000", f"<Base>0x{'1' * 17}", "Img FDL2: Base"),
        ('algo="1"', 'algo="3"', "Img FDL2: Auth: .*found '3'"),
        ('flag="1"', 'flag=""', "Img SPL: flag"),
        ('select="1"><ID>SPL', 'select="y"><ID>SPL', "Img SPL: select: .*found 'y'"),
        ('name="SPL"', 'name="FDL2"', "Img: expected a name of its own, found 'FDL2'"),
        ('name="SPL"', 'name=""', "Img: expected a name of its own, found ''"),
        ("<ID>SPL</ID>", "<ID>SPL</ID><ID>S</ID>", "SPL: expected one ID, found 2"),
    ],
)
def test_every_element_that_is_wrong_is_named(pattern: str, by: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as raised:
        parse(changed(pattern, by), "x.axp/box.xml")
    assert str(raised.value.place) == "x.axp/box.xml"


LAUGHS = b"".join(b'<!ENTITY l%d "%s">' % (n, b"&l%d;" % (n - 1) * 10 if n else b"lol") for n in range(30))


@pytest.mark.parametrize(
    "raw",
    [
        b"<!DOCTYPE Config [" + LAUGHS + b"]><Config>&l29;</Config>",
        b'<!DOCTYPE Config [<!ENTITY x SYSTEM "file:///etc/passwd">]><Config>&x;</Config>',
        b'<!DOCTYPE Config SYSTEM "http://127.0.0.1:9/x.dtd"><Config/>',
        '<?xml version="1.0" encoding="UTF-16"?><!DOCTYPE Config [<!ENTITY x "y">]><Config/>'.encode(
            "utf-16"
        ),
    ],
    ids=["a billion laughs", "a file", "a network", "UTF-16"],
)
def test_entities_are_refused_before_they_are_expanded(raw: bytes) -> None:
    with pytest.raises(InputError, match="declares a document type"):
        parse(raw)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "cannot be read: no element found"),
        (b"\0\1\2", "cannot be read"),
        (b"<?xml version='1.0' encoding='nonsense'?><Config/>", "cannot be read: unknown encoding"),
        (b"<a>" * 17 + b"</a>" * 17, "nested deeper than 16"),
        (b"<Config>" + b" " * 2**20 + b"</Config>", "expected 1048576 bytes of XML at most"),
        (b"<Other/>", "expected the element Config, found Other"),
        (b"<Config/>", "Config: expected one Project, found 0"),
        (b"<Config>&nothing;</Config>", "cannot be read: undefined entity"),
    ],
)
def test_what_is_no_index_is_refused(raw: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse(raw)


@given(at=st.integers(0, len(SIBLING) - 1), value=st.binary(max_size=3))
def test_changed_bytes_are_read_or_refused(at: int, value: bytes) -> None:
    try:
        project = parse(SIBLING[:at] + value + SIBLING[at + len(value) :])
    except InputError:
        return
    assert project.table.partitions


def test_what_xml_does_not_keep_is_not_written() -> None:
    for name in ("a\x01b", " outer "):
        images = (replace(PROJECT.images[2], description=name), *PROJECT.images[3:])
        with pytest.raises(InputError):
            write(replace(PROJECT, images=images))
    with pytest.raises(InputError, match="expected one image of type FDL"):
        write(Project(TABLE, ()))


@pytest.mark.parametrize(
    ("partition", "words"),
    [
        (Partition("a", 0xFFFFFFFF), "Partition a: size 0xffffffff means the rest of the disk"),
        (Partition("a", -1), "Partition a: size -1 is out of range"),
        (Partition("a", 1, -1), "Partition a: gap -1 is out of range"),
        (Partition("a", 1, 2**32), "Partition a: gap 4294967296 is out of range"),
    ],
)
def test_a_partition_that_cannot_be_is_not_written(partition: Partition, words: str) -> None:
    images = (PROJECT.images[2],)
    with pytest.raises(InputError, match=words):
        write(Project(Table((partition,)), images))

"""Check that every asked-for line of configuration fragments is in a kernel's final ``.config``.

``make olddefconfig`` and ``allnoconfig`` drop what cannot be had without a word. This program says what
was dropped and why: an unknown symbol, an unmet ``depends on`` with the values it met, another member of
the choice, a ``select`` that forces a value, a later fragment that asks for something else.

Runs inside the sandbox, so it uses the standard library only::

    python3 kconfig.py check --kconfig-tree SRC --config .config FRAGMENT...

It reads the Kconfig language (Documentation/kbuild/kconfig-language.rst) as far as explanations need;
the verdict rests on the ``.config`` alone. Exit status 0: every line holds; 1: the failures are on stderr.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

# --- fragments and .config ---------------------------------------------------------------------------

_SET = re.compile(r"CONFIG_(\w+)=(.*)$")
_UNSET = re.compile(r"# CONFIG_(\w+) is not set$")


@dataclass(frozen=True, slots=True)
class Request:
    """One line of a fragment. ``value`` is as in ``.config``; ``n`` for ``# CONFIG_X is not set``."""

    symbol: str
    value: str
    place: str

    @property
    def text(self) -> str:
        return show(self.symbol, self.value)


def show(symbol: str, value: str) -> str:
    """The line of ``.config`` that gives ``symbol`` this value."""
    return f"# CONFIG_{symbol} is not set" if value == "n" else f"CONFIG_{symbol}={value}"


def read_fragment(path: Path) -> tuple[list[Request], list[str]]:
    """The requests of a fragment, and complaints about lines that are neither requests nor comments."""
    requests: list[Request] = []
    complaints: list[str] = []
    for number, raw in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        line = raw.strip()
        if match := _SET.match(line):
            requests.append(Request(match[1], match[2].strip(), f"{path}:{number}"))
        elif match := _UNSET.match(line):
            requests.append(Request(match[1], "n", f"{path}:{number}"))
        elif line and not line.startswith("#"):
            complaints.append(
                f"{path}:{number}: {line!r} is none of CONFIG_NAME=value, "
                "# CONFIG_NAME is not set, and a comment"
            )
    return requests, complaints


def read_config(path: Path) -> dict[str, str]:
    """The values of a ``.config``; symbols that are not in it are ``n`` to whoever asks."""
    values: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if match := _SET.match(line):
            values[match[1]] = match[2]
        elif match := _UNSET.match(line):
            values[match[1]] = "n"
    return values


# --- expressions -------------------------------------------------------------------------------------

_NUMBER = re.compile(r"-?\d+|0[xX][0-9a-fA-F]+")  # 64BIT is a symbol
_LEVEL = {"n": 0, "m": 1, "y": 2}
_TAKES = {
    "bool": "y or n",
    "tristate": "y, m or n",
    "string": 'text in "double quotes"',
    "int": "a decimal number",
    "hex": "a number that starts with 0x",
    "": "no value at all: it has no type",
}
_TOKEN = re.compile(r"""\s*(\|\||&&|!=|<=|>=|[=<>!()]|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\$\(|[\w./-]+)""")


@dataclass(frozen=True, slots=True)
class Expr:
    """A node: ``symbol``, ``text`` (a quoted constant), ``macro``, ``!``, ``&&``, ``||`` or a comparison."""

    kind: str
    name: str = ""
    operands: tuple[Expr, ...] = ()

    def __str__(self) -> str:
        if not self.operands:
            return f'"{self.name}"' if self.kind == "text" else self.name
        if self.kind == "!":
            return f"!{self._inner(self.operands[0])}"
        joint = self.kind if self.kind not in ("&&", "||") else f" {self.kind} "
        return joint.join(self._inner(operand) for operand in self.operands)

    def _inner(self, operand: Expr) -> str:
        return f"({operand})" if operand.kind in ("&&", "||") and operand.kind != self.kind else str(operand)

    def symbols(self) -> Iterator[str]:
        """The names of the symbols in it, in order; the constants y, m, n are not symbols."""
        if self.kind == "symbol" and self.name not in _LEVEL and not _NUMBER.fullmatch(self.name):
            yield self.name
        for operand in self.operands:
            yield from operand.symbols()

    def conjuncts(self) -> Iterator[Expr]:
        """The parts that must all hold."""
        if self.kind == "&&":
            for operand in self.operands:
                yield from operand.conjuncts()
        else:
            yield self


class ParseError(ValueError):
    """An expression that this reader does not understand; the reader then goes on without it."""


_Parser = Callable[[list[str]], tuple[Expr, list[str]]]


def parse_expression(text: str) -> Expr:
    """Parse ``A && (B || !C) && D = "x"``. Raises ParseError."""
    tokens = _tokens(text)
    expr, rest = _parse_or(tokens)
    if rest:
        raise ParseError(f"unexpected {rest[0]!r} in {text!r}")
    return expr


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if not match:
            raise ParseError(f"cannot read {text[at:]!r}")
        at = match.end()
        token = match[1]
        if token == "$(":
            depth = 1
            start = at
            while depth:
                if at == len(text):
                    raise ParseError(f"no end of macro in {text!r}")
                depth += {"(": 1, ")": -1}.get(text[at], 0)
                at += 1
            token = f"$({text[start:at]}"
        tokens.append(token)
    return tokens


def _parse_or(tokens: list[str]) -> tuple[Expr, list[str]]:
    return _parse_chain(tokens, "||", lambda rest: _parse_chain(rest, "&&", _parse_unary))


def _parse_chain(tokens: list[str], operator: str, parse: _Parser) -> tuple[Expr, list[str]]:
    first, rest = parse(tokens)
    operands = [first]
    while rest and rest[0] == operator:
        operand, rest = parse(rest[1:])
        operands.append(operand)
    return (first if len(operands) == 1 else Expr(operator, "", tuple(operands))), rest


def _parse_unary(tokens: list[str]) -> tuple[Expr, list[str]]:
    if not tokens:
        raise ParseError("an expression ends too early")
    head, rest = tokens[0], tokens[1:]
    if head == "!":
        operand, rest = _parse_unary(rest)
        return Expr("!", "", (operand,)), rest
    if head == "(":
        inner, rest = _parse_or(rest)
        if not rest or rest[0] != ")":
            raise ParseError("a parenthesis is not closed")
        return inner, rest[1:]
    left = _atom(head)
    if rest and rest[0] in ("=", "!=", "<", ">", "<=", ">="):
        if len(rest) < 2:
            raise ParseError("a comparison ends too early")
        return Expr(rest[0], "", (left, _atom(rest[1]))), rest[2:]
    return left, rest


def _atom(token: str) -> Expr:
    if token[0] in "\"'":
        return Expr("macro" if "$(" in token else "text", token[1:-1])
    if token.startswith("$("):
        return Expr("macro", token)
    if not re.fullmatch(r"[\w./-]+", token):
        raise ParseError(f"unexpected {token!r}")
    return Expr("symbol", token)


def evaluate(expr: Expr, values: Mapping[str, str]) -> int | None:
    """0, 1, 2 for n, m, y against a final ``.config``; None when it hangs on a macro such as cc-option."""
    if expr.kind == "macro":
        return None
    if expr.kind in ("symbol", "text"):
        return _LEVEL.get(_string(expr, values) if expr.kind == "symbol" else expr.name, 0)
    if expr.kind in ("!", "&&", "||"):
        parts = [evaluate(operand, values) for operand in expr.operands]
        known = [part for part in parts if part is not None]
        if expr.kind == "!":
            return 2 - known[0] if known else None
        decided = 0 if expr.kind == "&&" else 2
        if decided in known:
            return decided
        if len(known) < len(parts):
            return None
        return min(known) if expr.kind == "&&" else max(known)
    if any(operand.kind == "macro" for operand in expr.operands):
        return None
    return 2 if _compare(expr.kind, *(_string(operand, values) for operand in expr.operands)) else 0


def _string(expr: Expr, values: Mapping[str, str]) -> str:
    if expr.kind == "text" or expr.name in _LEVEL or _NUMBER.fullmatch(expr.name):
        return expr.name
    return values.get(expr.name, "n").strip('"')


def _compare(operator: str, left: str, right: str) -> bool:
    try:
        order = int(left, 0) - int(right, 0)
    except ValueError:
        order = (left > right) - (left < right)
    return {
        "=": order == 0,
        "!=": order != 0,
        "<": order < 0,
        "<=": order <= 0,
        ">": order > 0,
        ">=": order >= 0,
    }[operator]


# --- the Kconfig tree --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Condition:
    """An expression that must hold, and where it stands."""

    expr: Expr
    place: str


@dataclass(slots=True)
class Choice:
    """A choice; exactly one of its members is y."""

    place: str
    members: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Definition:
    """One ``config`` entry. A symbol may have several; one whose conditions hold is enough."""

    symbol: str
    place: str
    type: str = ""
    prompt: bool = False
    prompt_conditions: list[Condition] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    choice: Choice | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """``select`` (or ``imply``) of a symbol by another."""

    by: str
    condition: Condition
    verb: str


@dataclass(slots=True)
class KconfigTree:
    """What the Kconfig files of a source tree say about each symbol."""

    definitions: dict[str, list[Definition]] = field(default_factory=dict)
    selections: dict[str, list[Selection]] = field(default_factory=dict)

    def type_of(self, symbol: str) -> str:
        return next((d.type for d in self.definitions.get(symbol, []) if d.type), "")


@dataclass(slots=True)
class _Block:
    """An enclosing ``if``, ``menu`` or ``choice``."""

    kind: str
    conditions: list[Condition]
    prompt_conditions: list[Condition] = field(default_factory=list)
    choice: Choice | None = None


class _Reader:
    """Reads Kconfig files in the order of their ``source`` lines."""

    def __init__(self, root: Path, arch: str) -> None:
        self.root = root
        self.variables = {"SRCARCH": arch, "ARCH": arch, "HEADER_ARCH": arch, "srctree": str(root)}
        self.tree = KconfigTree()
        self.blocks: list[_Block] = []
        self.entry: Definition | _Block | None = None

    def read(self, path: Path) -> None:
        if not path.is_file():
            return
        self.entry = None
        for number, line in _logical_lines(path):
            name = path.relative_to(self.root) if path.is_relative_to(self.root) else path
            self._line(line, f"{name}:{number}", path)
        self.entry = None

    def _line(self, line: str, place: str, path: Path) -> None:
        word, _, rest = line.partition(" ")
        rest = rest.strip()
        if word in ("config", "menuconfig"):
            self._config(rest, place)
        elif word in ("menu", "choice"):
            choice = Choice(place) if word == "choice" else None
            self.blocks.append(_Block(word, [], choice=choice))
            self.entry = self.blocks[-1]
        elif word == "if":
            self.blocks.append(_Block("if", self._conditions(rest, place)))
            self.entry = None
        elif word in ("endif", "endmenu", "endchoice"):
            if self.blocks:
                self.blocks.pop()
            self.entry = None
        elif word in ("source", "rsource", "osource", "orsource"):
            self._source(rest, path, relative="r" in word[:2])
        elif word in ("comment", "mainmenu"):
            self.entry = None
        elif self.entry is not None:
            self._attribute(self.entry, word, rest, place)

    def _config(self, symbol: str, place: str) -> None:
        definition = Definition(symbol, place)
        for block in self.blocks:
            definition.conditions.extend(block.conditions)
            definition.prompt_conditions.extend(block.prompt_conditions)
        inner = next((block for block in reversed(self.blocks) if block.kind != "if"), None)
        if inner is not None and inner.choice is not None:
            definition.choice = inner.choice
            inner.choice.members.append(symbol)
        self.tree.definitions.setdefault(symbol, []).append(definition)
        self.entry = definition

    def _source(self, rest: str, path: Path, *, relative: bool) -> None:
        name = re.sub(r"\$\((\w+)\)", lambda m: self.variables.get(m[1], m[0]), rest.strip("\"'"))
        base = path.parent if relative else self.root
        if "$(" in name:
            return
        files = sorted(base.glob(name)) if re.search(r"[*?\[]", name) else [base / name]
        for file in files:
            self.read(file)

    def _attribute(self, entry: Definition | _Block, word: str, rest: str, place: str) -> None:
        if word == "depends" and rest.startswith("on "):
            entry.conditions.extend(self._conditions(rest[3:], place))
        elif isinstance(entry, _Block):
            if word == "visible" and rest.startswith("if "):
                entry.prompt_conditions.extend(self._conditions(rest[3:], place))
        elif word in ("bool", "tristate", "string", "int", "hex", "prompt"):
            entry.type = entry.type if word == "prompt" else word
            text, condition = _split_if(rest)
            if text:
                entry.prompt = True
                entry.prompt_conditions.extend(self._conditions(condition, place) if condition else [])
        elif word in ("def_bool", "def_tristate"):
            entry.type = word.removeprefix("def_")
        elif word in ("select", "imply"):
            target, condition = _split_if(rest)
            for condition_ in self._conditions(condition or "y", place):
                selection = Selection(entry.symbol, condition_, word)
                self.tree.selections.setdefault(target, []).append(selection)

    def _conditions(self, text: str, place: str) -> list[Condition]:
        """The condition in ``text``; ``A if B`` means A wherever B holds. None if it cannot be read."""
        wanted, condition = _split_if(text)
        try:
            expr = parse_expression(wanted)
            if condition:
                expr = Expr("||", "", (Expr("!", "", (parse_expression(condition),)), expr))
        except ParseError:
            return []
        return [Condition(expr, place)]


def _split_if(text: str) -> tuple[str, str]:
    """``"prompt" if COND`` into its two parts; an ``if`` inside quotes does not count."""
    bare = re.sub(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'", lambda m: "x" * len(m[0]), text)
    at = re.search(r"(?:^|\s)if\s", bare)
    return (text[: at.start()].strip(), text[at.end() :].strip()) if at else (text.strip(), "")


def _logical_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines without comments and help texts, continuations joined, white space made single blanks."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    at = 0
    while at < len(lines):
        number = at + 1
        line = lines[at].expandtabs()
        at += 1
        while line.endswith("\\") and at < len(lines):
            line = line[:-1] + " " + lines[at].strip()
            at += 1
        stripped = line.strip()
        if stripped in ("help", "---help---"):
            at = _after_help(lines, at)
            continue
        if "#" in stripped:
            stripped = re.sub(r"^((?:\"(?:\\.|[^\"\\])*\"|'[^']*'|[^\"'#])*)#.*$", r"\1", stripped).strip()
        if stripped:
            yield number, " ".join(stripped.split())


def _after_help(lines: Sequence[str], at: int) -> int:
    """The index of the first line after a help text: the first one indented less than its first line."""
    indent: int | None = None
    while at < len(lines):
        line = lines[at].expandtabs()
        if line.strip():
            own = len(line) - len(line.lstrip())
            if indent is None:
                indent = own
            if own < indent or own == 0:
                break
        at += 1
    return at


def read_tree(root: Path, arch: str = "arm64") -> KconfigTree:
    """Read ``Kconfig`` of a source tree and everything it sources for ``arch``."""
    reader = _Reader(root, arch)
    reader.read(root / "Kconfig")
    return reader.tree


# --- the check ---------------------------------------------------------------------------------------


@dataclass
class Check:
    """Requests against a final ``.config``; the Kconfig files are read only when something is wrong."""

    root: Path
    arch: str
    values: Mapping[str, str]

    @cached_property
    def tree(self) -> KconfigTree:
        return read_tree(self.root, self.arch)

    def failures(self, requests: Iterable[Request]) -> list[str]:
        """One text for each request that does not hold, in the order of the fragments."""
        asked = list(requests)
        last = {request.symbol: request for request in asked}
        texts: list[str] = []
        for request in asked:
            final = last[request.symbol]
            if final.value != request.value:
                texts.append(
                    f"{request.place}: {request.text}\n    is overridden at {final.place}: {final.text}"
                )
                continue
            found = self.values.get(request.symbol, "n")
            if not _same(request.value, found):
                reasons = self.reasons(request, found)
            elif request.symbol in self.values or request.symbol in self.tree.definitions:
                continue
            else:
                reasons = self._unknown(request.symbol)
            state = show(request.symbol, found) if request.symbol in self.values else "absent"
            head = f"{request.place}: {request.text}"
            texts.append("\n    ".join([head, f"final .config: {state}", *reasons]))
        return texts

    def reasons(self, request: Request, found: str) -> list[str]:
        """Why ``request`` did not hold, in lines."""
        definitions = self.tree.definitions.get(request.symbol)
        if not definitions:
            return self._unknown(request.symbol)
        kind = self.tree.type_of(request.symbol)
        level = _LEVEL.get(request.value)
        if (level is None) is (kind in ("bool", "tristate")) or (kind == "bool" and level == 1):
            return [f"{request.symbol} is of type {kind} ({definitions[0].place}): it takes {_TAKES[kind]}"]
        unmet = [self._unmet(definition, level, kind) for definition in definitions]
        if level != 0 and all(unmet):
            return [line for lines in unmet for line in lines]
        if level is not None and level < _LEVEL.get(found, 0):
            return self._forced(request, found)
        for definition in definitions:
            if definition.choice is not None and (other := self._chosen(definition)):
                return [f"is a member of the choice at {definition.choice.place}, where {other} is chosen"]
        visible = [d for d in definitions if d.prompt and not self._failing(d.prompt_conditions)]
        if not visible:
            return self._no_prompt(request.symbol, definitions)
        return ["its dependencies hold; the value was lost or changed after the fragments were read"]

    def _unknown(self, symbol: str) -> list[str]:
        near = difflib.get_close_matches(symbol, self.tree.definitions, n=3, cutoff=0.75)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        return [f"{symbol} is unknown in this source tree{hint}"]

    def _failing(self, conditions: Iterable[Condition], level: int = 1) -> list[Condition]:
        """The parts of ``conditions`` whose value is below ``level``; macros are given the doubt."""
        return [
            Condition(part, condition.place)
            for condition in conditions
            for part in condition.expr.conjuncts()
            if (value := evaluate(part, self.values)) is not None and value < level
        ]

    def _unmet(self, definition: Definition, level: int | None, kind: str) -> list[str]:
        # A bool may be y below an m; a tristate may not.
        needed = 2 if kind == "tristate" and level == 2 else 1
        lines: list[str] = []
        for condition in self._failing(definition.conditions, needed):
            lines.append(f"unmet dependency of {definition.place}: {condition.expr}   ({condition.place})")
            lines.extend(f"    {line}" for line in self._values(condition.expr))
        return lines

    def _values(self, expr: Expr) -> list[str]:
        lines: list[str] = []
        for symbol in dict.fromkeys(expr.symbols()):
            definitions = self.tree.definitions.get(symbol, [])
            if not definitions:
                lines.append(f"{symbol}: unknown in this source tree")
                continue
            value = self.values.get(symbol, "n")
            note = ""
            if value == "n" and not any(self._failing(d.conditions) for d in definitions):
                asked = any(d.prompt and not self._failing(d.prompt_conditions) for d in definitions)
                note = "   (can be asked for)" if asked else "   (has no prompt; set by select or default)"
            elif value == "n":
                parts = [str(c.expr) for d in definitions for c in self._failing(d.conditions)]
                note = f"   (itself lacks {', '.join(dict.fromkeys(parts))})"
            lines.append(f"{symbol}={value}{note}")
        return lines

    def _forced(self, request: Request, found: str) -> list[str]:
        lines: list[str] = []
        for selection in self.tree.selections.get(request.symbol, []):
            by = _LEVEL.get(self.values.get(selection.by, "n"), 0)
            condition = evaluate(selection.condition.expr, self.values)
            if min(by, 2 if condition is None else condition) > _LEVEL.get(request.value, 0):
                verb = "selected" if selection.verb == "select" else "implied"
                lines.append(f"{verb} by {selection.by}={'nmy'[by]}   ({selection.condition.place})")
        if lines:
            return [f"is forced to {found}:", *(f"    {line}" for line in lines)]
        definitions = self.tree.definitions[request.symbol]
        if not any(d.prompt and not self._failing(d.prompt_conditions) for d in definitions):
            return [f"has no prompt, and its default is {found}   ({definitions[0].place})"]
        if definitions[0].choice is not None:
            choice = definitions[0].choice
            return [f"is what the choice at {choice.place} falls back to: ask for another member"]
        return [f"nothing forces {found}; the value was lost or changed after the fragments were read"]

    def _chosen(self, definition: Definition) -> str:
        members = definition.choice.members if definition.choice else []
        return next((m for m in members if m != definition.symbol and self.values.get(m) == "y"), "")

    def _no_prompt(self, symbol: str, definitions: Sequence[Definition]) -> list[str]:
        lines: list[str] = []
        for definition in definitions:
            hidden = self._failing(definition.prompt_conditions) if definition.prompt else []
            asked = " && ".join(str(condition.expr) for condition in hidden)
            why = f"is asked only if {asked}" if hidden else "has no prompt"
            lines.append(f"{why}   ({definition.place}): only a default or a select sets it")
            lines.extend(f"    {line}" for c in hidden for line in self._values(c.expr))
        selectors = [s for s in self.tree.selections.get(symbol, []) if s.verb == "select"]
        selectors.sort(key=lambda s: -_LEVEL.get(self.values.get(s.by, "n"), 0))
        if selectors:
            names = [f"{s.by}={self.values.get(s.by, 'n')}" for s in selectors[:6]]
            more = f" and {len(selectors) - 6} more" if len(selectors) > 6 else ""
            lines.append(f"selected by {', '.join(names)}{more}")
        return lines


def _same(wanted: str, found: str) -> bool:
    if wanted.lower().startswith("0x") and found.lower().startswith("0x"):
        return int(wanted, 16) == int(found, 16)
    return wanted == found


def check(kconfig_tree: Path, config: Path, fragments: Sequence[Path], arch: str = "arm64") -> list[str]:
    """Every failure of ``fragments`` against ``config``, as texts of one or more lines."""
    requests: list[Request] = []
    failures: list[str] = []
    for fragment in fragments:
        read, complaints = read_fragment(fragment)
        requests.extend(read)
        failures.extend(complaints)
    return failures + Check(kconfig_tree, arch, read_config(config)).failures(requests)


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; see the module's text."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    verb = parser.add_subparsers(dest="verb", required=True).add_parser("check")
    verb.add_argument("--kconfig-tree", type=Path, required=True)
    verb.add_argument("--config", type=Path, required=True)
    verb.add_argument("--arch", default="arm64", help="SRCARCH of the kernel (default: %(default)s)")
    verb.add_argument("fragments", type=Path, nargs="+")
    given = parser.parse_args(arguments)
    failures = check(given.kconfig_tree, given.config, given.fragments, given.arch)
    if failures:
        print("\n".join(failures), file=sys.stderr)
        count = f"{len(failures)} line{'s' if len(failures) > 1 else ''}"
        print(f"error: {count} of the fragments cannot be had from this kernel", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The top layer's language: how a command is put to a POSIX shell so that its answer can be trusted.

A few shell functions are defined on the board once. A command then is ``bw NUMBER DIGEST 'COMMAND'``:
the board runs it only if it arrived as it was sent, and only once for a number, however often it is
asked. The answer is a frame ::

    bw-7-begin
    7|first line of the output
    7|second line
    bw-7-end DIGEST STATUS

whose digest covers number, status and output. Kernel messages between the lines lack the ``7|`` and fall
away; anything that damages the frame makes the digest wrong, and the answer is asked for again, then in
base64 (``bwc``). So noise costs time, and never makes a wrong value.
The echo of a command cannot be taken for its answer: the words of the frame appear in no command.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from boardwright.console.matcher import bounded

PROMPT_TEXT = "bw# "
PROMPT = bounded(r"(^|\n)bw# \Z")
INTERRUPTED = 256
"""The status of a command that was ended with Ctrl-C; no program can exit with it."""
LONGEST_COMMAND = 2000
"""Characters; a terminal in canonical mode holds lines of 4095 (kernel ``drivers/tty/n_tty.c``)."""

ENTER = "exec sh"
"""Away from bash, whose line editor redraws, wraps and escapes what it echoes."""

SETTINGS = (
    f"PS1='{PROMPT_TEXT}' PS2=",
    "unset ENV; TERM=dumb; export TERM",
    "dmesg -n 1",
)
FUNCTIONS = (
    "bw_f=/run/boardwright.$$",  # its own: a board may have several shells of ours at once
    "bw_sum() { set -- $(sha256sum); printf %.16s $1; }",
    'bw_do() { bw_s=256; (eval "$1") >$bw_f 2>&1 </dev/null; bw_s=$?; }',
    'bw_ok() { [ "$(printf %s "$2" | bw_sum)" = "$1" ]; }',
    'bw_once() { [ "$bw_n" = "$1" ] || { bw_n=$1; bw_do "$2"; }; }',
    """bw_end() { printf '%s %s\\n' $bw_n $bw_s | cat - $bw_f | bw_sum; }""",
    """bw_in() { printf '\\nbw-%s-%s' $1 begin; echo; }""",
    'bw_p() { [ ! -s $bw_f ] || sed "s/^/$1|/" $bw_f; }',
    'bw_c() { base64 $bw_f | sed "s/^/$1|/"; }',
    """bw_out() { printf '\\nbw-%s-%s %s %s\\n' $1 end $(bw_end) $bw_s; }""",
    """bw_no() { printf '\\nbw-%s-%s\\n' $1 refused; }""",
    'bw_all() { bw_once $1 "$3"; bw_in $1; $4 $1; bw_out $1; }',
    'bw_try() { if bw_ok $2 "$3"; then bw_all "$@"; else bw_no $1; fi; }',
    'bw() { bw_try "$1" "$2" "$3" bw_p; }',
    'bwc() { bw_try "$1" "$2" "$3" bw_c; }',
)
"""Short, because a line must arrive whole to be accepted, and on a bad cable long lines never do.
Programs are what costs time, a tenth of a second each on an emulated board: four for a command of ours."""


def _packed(texts: Iterable[str], longest: int = 380) -> list[str]:
    """The commands on as few lines as keep to ``longest`` characters: an echo is compared that far."""
    lines: list[str] = []
    for text in texts:
        if lines and len(lines[-1]) + 1 + len(text) <= longest:
            lines[-1] += f";{text}"
        else:
            lines.append(text)
    return lines


SET_UP = _packed((*SETTINGS[1:], *FUNCTIONS))
"""Everything but the prompt, for a line that is good."""

PIECE = "_p() { [ ${#c} = $1 ]&&c=$c$2;echo =${#c}; }"
PIECE_LENGTH = 14
NEWLINE = """n=$(printf '\\n.');n=${n%.};echo =${#n}"""
CLEAR = "c=;echo =${#c}"
"""On a cable that loses one byte in a hundred no line of these lengths arrives. There a text is put together
in variable ``c``, piece by piece; each tells the length that is reached, so it can be repeated."""
CAREFUL = (
    "_h() { printf '\\n%s %s %s %s=\\n' $bw_n $bw_s $(wc -c <$bw_f) $(bw_end); }",
    '_x() { if bw_ok $2 "$c"; then bw_once $1 "$c"; _h; else bw_no $1; fi; }',
    "_b() { dd if=$bw_f bs=18 skip=$1 count=1 2>/dev/null|base64; }",
    "_g() { b=$(_b $1); printf '\\n%s %s %s=\\n' $1 $b $(echo $1 $b|bw_sum); }",
)
"""Run what is in ``c`` and tell status, size and digest; then give the output in blocks, with one each."""
BLOCK = 18
"""Bytes of output in a block: 24 characters of base64."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a command printed (both streams) and its exit status."""

    output: str
    status: int

    @property
    def line(self) -> str:
        """The output as one value, without the white space around it."""
        return self.output.strip()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def request(number: int, command: str, *, coded: bool = False) -> str:
    """The line that asks for ``command``; ``coded`` asks for the output in base64.

    Raises ``ValueError`` for what a line of a terminal cannot carry.
    """
    if len(command) > LONGEST_COMMAND or not command.isascii() or not command.isprintable():
        raise ValueError(
            f"expected printable ASCII of at most {LONGEST_COMMAND} characters, found {command[:60]!r}"
        )
    quoted = command.replace("'", "'\\''")
    return f"{'bwc' if coded else 'bw'} {number} {digest(command.encode())} '{quoted}'"


def with_silent_input(command: str, pipe: str = "/run/boardwright.silent") -> str:
    """``command`` with a standard input that is open and never readable: kmscube takes a byte for a key."""
    return f"rm -f {pipe}; mkfifo {pipe} && {command} <>{pipe}"


def end(number: int) -> re.Pattern[str]:
    """Ends of the answer to ``number``: a whole frame (groups digest, status), or a refusal."""
    return bounded(rf"(?:^|\n)bw-{number}-(?:refused|end ([0-9a-f]{{16}}) (\d{{1,3}}))\n")


def setup() -> str:
    """All functions as one text, to be put together piece by piece and evaluated."""
    return "\n".join((*FUNCTIONS, *CAREFUL))


def pieces(text: str) -> list[tuple[int, str]]:
    """Lines that put ``text`` together on the board, each with the length that is reached after it.

    A line feed cannot be typed into a line; the board's variable ``n`` stands for it (:data:`NEWLINE`).
    """
    found = []
    for start in range(0, len(text), PIECE_LENGTH):
        part = text[start : start + PIECE_LENGTH]
        quoted = "'" + part.replace("'", "'\\''").replace("\n", "'\"$n\"'") + "'"
        found.append((start + len(part), f"_p {start} {quoted}"))
    return found


def head(number: int) -> re.Pattern[str]:
    """What ``_x`` tells: groups status, size in bytes, digest; or a refusal."""
    return bounded(rf"(?:^|\n)(?:{number} (\d{{1,3}}) (\d{{1,9}}) ([0-9a-f]{{16}})=|bw-{number}-refused)\n")


def block(number: int) -> re.Pattern[str]:
    """What ``_g`` tells of a block: groups base64, digest."""
    return bounded(rf"(?:^|\n){number} ([A-Za-z0-9+/=]{{2,24}}) ([0-9a-f]{{16}})=\n")


def block_is_sound(number: int, text: str, sum_: str) -> bool:
    return digest(f"{number} {text}\n".encode()) == sum_


def whole(number: int, status: str, output: bytes, sum_: str) -> Result | None:
    """The result, when the digest says that this is what the command printed."""
    sound = digest(f"{number} {status}\n".encode() + output) == sum_
    return Result(output.decode("utf-8", "replace"), int(status)) if sound else None


def answer(number: int, text: str, sum_: str, status: str, *, coded: bool = False) -> Result | None:
    """The result in the ``text`` before an end line, or ``None`` when it is not whole."""
    _, _, body = text.rpartition(f"bw-{number}-begin\n")
    prefix = f"{number}|"
    lines = [line.removeprefix(prefix) for line in body.split("\n") if line.startswith(prefix)]
    head = f"{number} {status}\n".encode()
    for output in _candidates(lines, coded):
        if digest(head + output) == sum_:
            return Result(output.decode("utf-8", "replace"), int(status))
    return None


def _candidates(lines: list[str], coded: bool) -> list[bytes]:
    """What the lines may stand for; only the digest knows whether the output ended in a line feed."""
    if coded:
        try:
            return [base64.b64decode("".join(lines), validate=True)]
        except ValueError:
            return []
    joined = "\n".join(lines).encode()
    return [joined + b"\n", joined] if lines else [b""]

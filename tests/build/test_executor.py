"""Steps run sealed, side by side, and leave nothing but their outputs."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

import pytest
from builds import Bench, Recorder, chain, plan_of, processes_of, step, wait_for

from boardwright.build import digest, executor
from boardwright.build.step import LocalFile, Output, Rendered, Text
from boardwright.errors import HostError, InputError, ProductError

NEVER = "sleep 1000 & wait"


def test_a_step_reads_its_inputs_and_leaves_its_output(bench: Bench) -> None:
    first = step("first", "echo one >made; cp made /out/made")
    second = step(
        "second", "cat /in/a/made /in/b >/out/made", inputs={"a": Output("first"), "b": Text("two\n")}
    )
    assert (bench.build(first, second)["second"].out / "made").read_text() == "one\ntwo\n"


def test_what_is_stored_is_not_made_again(bench: Bench) -> None:
    only = step("only", "echo made >/out/made")
    bench.build(only)
    bench.progress = again = Recorder()
    bench.build(only)
    assert again.events == []


def test_only_missing_steps_run_and_no_step_only_they_would_need(bench: Bench) -> None:
    steps = chain({name: f"echo {name} >/out/made" for name in "abc"})
    bench.build(*steps)
    plan = plan_of(*steps, targets=["c"])
    store = bench.store
    shutil.rmtree(store.directory / plan["a"].key)
    assert executor.missing(plan, bench.store) == []
    shutil.rmtree(store.directory / plan["c"].key)
    assert executor.missing(plan, bench.store) == ["c"]
    shutil.rmtree(store.directory / plan["b"].key)
    assert executor.missing(plan, bench.store) == ["a", "b", "c"]


def test_steps_that_do_not_need_each_other_run_side_by_side(bench: Bench) -> None:
    bench.build(*[step(name, "sleep 1; echo >/out/made") for name in "ab"], jobs=2)
    assert isinstance(bench.progress, Recorder)
    assert [what for what, _, _ in bench.progress.events[:2]] == ["started", "started"]


def test_one_job_means_one_step_at_a_time(bench: Bench) -> None:
    bench.build(*[step(name, "echo >/out/made") for name in "abc"], jobs=1)
    assert isinstance(bench.progress, Recorder)
    assert [what for what, _, _ in bench.progress.events] == ["started", "finished"] * 3


def test_the_job_server_inside_has_the_jobs_no_step_holds(bench: Bench) -> None:
    """Two jobs, one held by the step: one byte is left in the pipe."""
    text = bench.made(
        'exec 9<>/jobserver; dd bs=1 count=1 <&9 >token; printf %s "$MAKEFLAGS $JOBS " >/out/made\n'
        "read -r -t 0.2 -n 1 more <&9 || echo empty >>/out/made; cat token >&9"
    )
    assert text == "-j2 --jobserver-auth=fifo:/jobserver 2 empty\n"


@pytest.mark.parametrize("jobs", [0, -1, 100_000])
def test_a_senseless_number_of_jobs_is_refused(bench: Bench, jobs: int) -> None:
    with pytest.raises(InputError, match="number of jobs must be 1 to 4096"):
        bench.build(step("only", "echo >/out/made"), jobs=jobs)


def test_a_failing_step_ends_the_others_and_shows_its_last_lines(bench: Bench) -> None:
    long = step("long", NEVER)
    bad = step("bad", "sleep 0.5; seq 1 100; false; echo not reached")
    since = time.monotonic()
    with pytest.raises(ProductError) as caught:
        bench.build(long, bad)
    assert time.monotonic() - since < 10
    text = str(caught.value)
    assert "step bad failed with exit status 1" in text
    assert [line for line in text.splitlines() if line.startswith("  | ")] == [
        f"  | {n}" for n in range(81, 101)
    ]
    assert str(bench.logs / "bad.log") in text
    assert (bench.logs / "bad.log").read_text().startswith("1\n2\n")
    assert "invoke shell --step bad" in (caught.value.hint or "")
    assert processes_of(bench.cache) == []
    assert bench.left_over() == []


def test_a_failed_step_is_not_remembered(bench: Bench) -> None:
    bad = step("bad", "echo half >/out/made; exit 3")
    for _ in range(2):
        bench.progress = again = Recorder()
        with pytest.raises(ProductError, match="exit status 3"):
            bench.build(bad)
        assert again.names("failed") == ["bad"]


def test_an_unset_variable_and_a_failing_pipe_fail_the_step(bench: Bench) -> None:
    for script in ("echo $nothing >/out/made", "false | cat >/out/made"):
        with pytest.raises(ProductError):
            bench.build(step("bad", script))


def test_a_step_without_its_declared_output_fails_by_name(bench: Bench) -> None:
    with pytest.raises(ProductError, match=r"without its declared output b, d"):
        bench.build(step("only", "touch /out/a /out/c", "a", "b", "c", "d"))


def test_a_step_cannot_write_to_its_inputs_its_root_or_its_helpers(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "given").write_text("given")
    given = LocalFile(str(tmp_path / "given"), digest.of_tree(tmp_path / "given"))
    script = """
    for place in /in/text /in/file /in/sealed/*.py /usr/bin/bash /etc/passwd /step /in/root/etc/passwd; do
        if (echo spoiled >>$place) 2>/dev/null; then echo "wrote $place"; fi
    done >/out/made
    for place in /usr/new /in/root/new /etc/new; do
        if touch $place 2>/dev/null; then echo "wrote $place"; fi
    done >>/out/made
    chmod 777 /usr/bin/bash 2>/dev/null && echo "changed a mode" >>/out/made
    echo harmless >/elsewhere
    """
    inputs = {"text": Text("text"), "file": given, "root": Output("tools", "root")}
    assert bench.made(script, inputs=inputs, sealed=("kconfig.py",)) == ""
    assert (tmp_path / "given").read_text() == "given"
    assert not Path("/elsewhere").exists()


def test_there_is_no_network_inside(bench: Bench) -> None:
    said = bench.made(
        'tail -n +3 /proc/net/dev | tr -d " " | while IFS=: read name _; do echo $name; done >/out/made\n'
        "if (exec 3<>/dev/tcp/127.0.0.1/22) 2>/dev/null; then echo connected >>/out/made; fi"
    )
    assert said == "lo\n"


def test_nothing_of_the_host_is_seen_inside(bench: Bench) -> None:
    listed = set(bench.made("ls / >/out/made", inputs={"x": Text("")}).split())
    assert {"in", "out", "work", "step", "proc", "dev", "usr"} <= listed
    assert not listed & {"boot", "srv", "media", "opt", "var"}


SEEN = """{
    env | while read -r line; do case $line in _=*|SHLVL=*|OLDPWD=*) ;; *) echo "$line";; esac; done
    id; umask; uname -n; date +%Z; pwd; ulimit -c >/dev/null
    while read -r name rest; do
        case $name in Cap*|NoNewPrivs*) echo $name $rest;; esac
    done </proc/self/status
    stat -c '%a %u %g %n' /work /out /in/* /in/tree/* /step
    stat -c '%Y %n' /in/*
    touch new; stat -c %a new
} >/out/made"""


def _seen(bench: Bench, tmp_path: Path, command: list[str], **host: str) -> str:
    """What a step sees when the build runs as ``command`` under the variables ``host``."""
    given = bench.cache.parent / "seen.py"
    given.write_text(
        f"""
import sys
sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(Path(__file__).parents[2])!r}]
from pathlib import Path
from builds import Bench, step
from boardwright.build import digest
from boardwright.build.step import LocalFile, Rendered, Text
tree = Path(sys.argv[2])
inputs = {{
    "tree": LocalFile(str(tree), digest.of_tree(tree)),
    "text": Text("é"),
    "rendered": Rendered(str(tree), digest.of_tree(tree), '{{"word": "grün"}}'),
}}
print(Bench(Path(sys.argv[1])).made({SEEN!r}, inputs=inputs, epoch=1_700_000_000))
"""
    )
    tree = tmp_path / "tree"
    environment = {"PATH": os.environ["PATH"], **host}
    done = subprocess.run(
        [*command, sys.executable, str(given), str(bench.cache), str(tree)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for entry in bench.store.entries():
        if entry.description()["step"] == "only":
            assert bench.store.remove(entry.key)
    return done.stdout


def test_a_step_sees_the_same_whatever_the_host_is_like(bench: Bench, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir(mode=0o700)
    (tree / "plain.j2").write_text("{{ word }}")
    (tree / "run").write_text("#!/bin/sh\n")
    (tree / "run").chmod(0o700)
    usual = _seen(bench, tmp_path, ["sh", "-c", 'umask 022; exec "$@"', "sh"])
    (tree / "run").chmod(0o775)
    (tree / "plain.j2").chmod(0o664)
    tree.chmod(0o775)
    os.utime(tree / "run", (5, 5))
    odd = _seen(
        bench,
        tmp_path,
        ["sh", "-c", 'umask 077; exec "$@"', "sh"],
        TZ="Pacific/Kiritimati",
        LC_ALL="C",
        PYTHONUTF8="0",
        PYTHONCOERCECLOCALE="0",
        HOME="/nowhere",
        SECRET="visible",
        BASH_ENV="/nowhere",
        MAKEFLAGS="-k",
    )
    assert odd == usual
    assert "SECRET" not in usual
    assert "boardwright\nUTC\n/work\n" in usual
    assert "1700000000 /in/tree" in usual
    assert "755 0 0 /in/tree/run" in usual
    assert "CapEff: 0000000000000000" in usual


def test_a_rendered_tree_has_its_templates_filled_in(bench: Bench, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub/hello.j2").write_text("Grüße, {{ name }}\n")
    (tree / "plain").write_text("{{ name }}\n")
    given = Rendered(str(tree), digest.of_tree(tree), '{"name": "Rock"}')
    assert (
        bench.made("cat /in/t/sub/hello /in/t/plain >/out/made", inputs={"t": given})
        == "Grüße, Rock\n{{ name }}\n"
    )


@pytest.mark.parametrize("what", ["background", "session", "quiet"])
def test_a_daemon_left_behind_is_gone_when_the_step_is(bench: Bench, what: str) -> None:
    how = {
        "background": "sleep 1000 &",
        "session": "setsid sleep 1000 &",
        "quiet": "setsid bash -c 'while :; do echo more >>/out/made; done' </dev/null >/dev/null 2>&1 &",
    }[what]
    since = time.monotonic()
    bench.build(step("only", f"echo >/out/made; {how}"))
    assert time.monotonic() - since < 10
    assert processes_of(bench.cache) == []


def test_a_step_that_ignores_being_asked_is_killed(bench: Bench) -> None:
    stubborn = step("stubborn", "trap '' TERM INT HUP; while :; do sleep 0.2 || :; done")
    with pytest.raises(ProductError, match="step bad failed"):
        bench.build(stubborn, step("bad", "sleep 0.5; false"))
    assert processes_of(bench.cache) == []
    assert bench.left_over() == []


def test_control_characters_of_a_log_do_not_reach_the_terminal(bench: Bench) -> None:
    with pytest.raises(ProductError) as caught:
        bench.build(step("bad", r"printf '\033[2J\033]0;title\007\033[31mred\033[0m\ttext\r\n\x9b'; exit 1"))
    shown = str(caught.value)
    assert "  | red     text\n" in shown
    assert all(c.isprintable() or c == "\n" for c in shown)


def test_output_without_an_end_or_a_line_end_does_not_fill_memory(bench: Bench) -> None:
    script = "head -c 150000000 /dev/zero | tr '\\0' x; exit 1"
    peak = ("env", "BUILDS_PEAK=1")
    done = subprocess.run(
        bench.child(step("loud", script), prefix=peak), capture_output=True, text=True, check=False
    )
    assert "step loud failed with exit status 1" in done.stderr
    assert int(done.stdout) < 80 << 10, "kilobytes"


def test_an_input_that_changed_since_the_plan_is_refused(bench: Bench, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.write_text("before")
    planned = step("only", "cp /in/f /out/made", inputs={"f": LocalFile(str(given), digest.of_tree(given))})
    given.write_text("after!")
    with pytest.raises(InputError, match="changed while the build was running"):
        bench.build(planned)
    given.unlink()
    with pytest.raises(InputError, match="changed while the build was running"):
        bench.build(planned)


def test_a_kept_tree_is_kept_and_used_by_one_at_a_time(bench: Bench) -> None:
    script = """
    if [ -e /tree/busy ]; then echo "two at once" >&2; exit 1; fi
    touch /tree/busy; echo x >>/tree/runs; sleep 0.4; rm /tree/busy
    echo $0 {} >/out/made
    """
    bench.build(*[step(name, script.format(name), kept_tree="shared") for name in "abc"], jobs=3)
    assert (bench.cache / "trees/shared/runs").read_text() == "x\nx\nx\n"


def _interrupted(bench: Bench, number: int, *, terminal: bool) -> tuple[int, str]:
    """Build something endless in a process of its own, send it a signal; its exit status and messages."""
    command = bench.child(*[step(name, f"echo ready >/out/made; {NEVER}") for name in "ab"])
    outer, inner = pty.openpty() if terminal else os.pipe()
    before = termios.tcgetattr(inner) if terminal else None
    child = subprocess.Popen(
        command,
        stdin=inner if terminal else subprocess.DEVNULL,
        stdout=inner,
        stderr=inner,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm", "CI": ""},
    )
    heard: list[bytes] = []

    def listen() -> None:
        while True:
            try:
                some = os.read(outer, 4096)
            except OSError:
                return
            if not some:
                return
            heard.append(some)

    listener = threading.Thread(target=listen)
    listener.start()
    making = bench.cache / "store/making"
    try:
        wait_for(lambda: len(list(making.glob("*/out/made"))) == 2, what="both steps to run")
    except AssertionError:
        child.kill()
        raise
    os.kill(child.pid, number)
    time.sleep(0.05)
    if child.poll() is None:
        os.kill(child.pid, number)  # an impatient user
    status = child.wait(20)
    if before is not None:
        assert termios.tcgetattr(inner) == before
    os.close(inner)
    listener.join(5)
    os.close(outer)
    return status, b"".join(heard).decode()


@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_process_no_scratch_and_a_sane_terminal(
    bench: Bench, number: signal.Signals, terminal: bool
) -> None:
    status, said = _interrupted(bench, number, terminal=terminal)
    assert status == 130, said
    assert "interrupted" in said
    assert "Traceback" not in said
    assert processes_of(bench.cache) == []
    assert bench.left_over() == []
    assert said.rfind("\x1b[?25l") <= said.rfind("\x1b[?25h"), "the cursor is shown again"
    assert bench.store.find(plan_of(step("a", f"echo ready >/out/made; {NEVER}"))["a"].key) is None


def test_ctrl_c_also_ends_the_wait_for_another_build(bench: Bench) -> None:
    only = step("only", "echo >/out/made")
    with bench.store.locked(plan_of(only)["only"].key):
        child = subprocess.Popen(bench.child(only), stderr=subprocess.PIPE, text=True)
        assert child.stderr is not None
        assert "waiting for process" in child.stderr.readline()
        child.send_signal(signal.SIGINT)
        assert child.wait(10) == 130
        child.stderr.close()


def test_a_host_without_bubblewrap_is_told_what_to_install(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(HostError, match="bwrap is not installed") as caught:
        bench.build(step("only", "echo >/out/made"))
    assert "bubblewrap" in (caught.value.hint or "")


def test_a_log_directory_that_cannot_be_made_is_a_host_error(bench: Bench) -> None:
    bench.logs.write_text("in the way")
    with pytest.raises(HostError, match="cannot use"):
        bench.build(step("only", "echo >/out/made"))

"""The verbs. Each calls one function of boardwright; `invoke --help VERB` shows an example."""

from __future__ import annotations

import sys
from pathlib import Path

from invoke import Context, task

sys.path.insert(0, str(Path(__file__).parent))

from boardwright.cli import verb, whole

ROOT = Path(__file__).parent
BOARD = {"board": "a directory of boards/ (may be left out when there is only one)"}
VARIANT = {**BOARD, "variant": "a variant of the board file, such as quick"}
JSON = {"json": "machine-readable output on stdout"}


@task(
    help={
        **VARIANT,
        "jobs": "processes at once (default: processors)",
        "step": "only these steps and what they need, not published (commas between)",
        "every-step": "also steps whose outputs nothing missing needs",
        "vendor": "the vendor's .axp: its package with our root, layout and split into out/<board>/vendor/",
        "vendor-sdk": "the vendor's SDK: its kernel into out/<board>/vendor-kernel/, and into the package",
    }
)
@verb
def build(
    _: Context,
    board: str = "",
    variant: str = "",
    jobs: str = "",
    step: str = "",
    every_step: bool = False,
    vendor: str = "",
    vendor_sdk: str = "",
) -> int:
    """Build the board's image into out/<board>/. Example: invoke build --board rock5b --variant quick"""
    if vendor or vendor_sdk:
        from boardwright.verbs.vendor_build import vendor_build

        return vendor_build(ROOT, board, variant, vendor, vendor_sdk, whole("--jobs", jobs, 0))
    from boardwright.verbs.build import build

    return build(ROOT, board, variant, whole("--jobs", jobs, 0), step, every_step)


@task(help={**VARIANT, **JSON})
@verb
def plan(_: Context, board: str = "", variant: str = "", json: bool = False) -> int:
    """List the steps, their keys and which are missing. Example: invoke plan --board rock5b"""
    from boardwright.verbs.plan import plan

    return plan(ROOT, board, variant, json)


@task(positional=["step"], help={**VARIANT, "step": "the step to explain"})
@verb
def explain(_: Context, step: str, board: str = "", variant: str = "") -> int:
    """Name the inputs of a step that changed since the last build. Example: invoke explain linux-7.3"""
    from boardwright.verbs.plan import explain

    return explain(ROOT, step, board, variant)


@task(help={**BOARD, **JSON})
@verb
def check(_: Context, board: str = "", json: bool = False) -> int:
    """Validate board, recipe and lock files; nothing is built. Example: invoke check --json"""
    from boardwright.verbs.check import check

    return check(ROOT, board, json)


@task(help={"recipe": "only this recipe (default: all)", "dry-run": "show the difference, write nothing"})
@verb
def lock(_: Context, recipe: str = "", dry_run: bool = False) -> int:
    """Resolve packages and sources again and show what changed. Example: invoke lock --recipe rootfs"""
    from boardwright.verbs.lock import lock

    return lock(ROOT, recipe, dry_run)


@task(
    auto_shortflags=False,  # more options than letters
    help={
        **VARIANT,
        "target": "qemu, serial:PORT, labgrid:PLACE, or replay:FILE of a recorded console",
        "u-boot": "boot through U-Boot, which reads the image's own extlinux.conf",
        "recording": "the console.cast that target replay plays, when the target names none",
        "budget": "seconds from power-on to a shell",
        "device": "another -device for QEMU, such as ati-vga,model=rv100",
        "noncoherent": "tell the kernel that QEMU's PCIe does not snoop the caches, as the board's does not",
        "lab": "with the lab's programs and a PCI BAR to map as Device memory; takes some minutes more",
        "power": "what switches the board: command:PROGRAM, uhubctl:HUB:PORT or person",
        "coordinator": "of labgrid, HOST[:PORT]",
        "only": "checks with one of these words (commas between) in name, file or title",
        "repeat": "how many runs",
        "until-fail": "end at the first failure of the product",
        "retries": "how often a run that ended with a lab error is tried again",
        "bootargs": "for U-Boot, for this boot only: the kernel's command line",
        "loader-commands": "for U-Boot, before it boots, `;` between them",
        "boot-command": "for U-Boot, instead of boot: such as 'booti ${kernel_addr_r} - ${fdt_addr_r}'",
        "tell-apart": "after a silence, switch off and on once to tell a broken line from a silent board",
    },
)
@verb
def bringup(
    _: Context,
    board: str = "",
    variant: str = "",
    target: str = "qemu",
    u_boot: bool = False,
    recording: str = "",
    budget: str = "900",
    device: str = "",
    noncoherent: bool = False,
    lab: bool = False,
    power: str = "",
    coordinator: str = "",
    only: str = "",
    repeat: str = "1",
    until_fail: bool = False,
    retries: str = "",
    bootargs: str = "",
    loader_commands: str = "",
    boot_command: str = "",
    tell_apart: bool = False,
) -> int:
    """Boot the built image and run the bring-up checks. Example: invoke bringup --board rock5b"""
    from boardwright.verbs.bringup import bringup

    seconds = whole("--budget", budget, 900)
    return bringup(
        ROOT,
        board,
        variant,
        target,
        u_boot,
        recording,
        seconds,
        device,
        coherent=not noncoherent,
        lab=lab,
        power=power,
        coordinator=coordinator,
        only=only,
        repeat=whole("--repeat", repeat, 1),
        until_fail=until_fail,
        retries=whole("--retries", retries, 0),
        bootargs=bootargs,
        loader_commands=loader_commands,
        boot_command=boot_command,
        tell_apart=tell_apart,
    )


@task(
    help={
        **VARIANT,
        "target": "serial:PORT or labgrid:PLACE",
        "stop-autoboot": "stop the loader's countdown first",
        "key": "what stops it: a character, enter, space, escape, ctrl-c or tab (default: the board file's)",
        "budget": "seconds for --stop-autoboot, or until --push has a shell",
        "power": "switch the board off and on first, by command:PROGRAM, uhubctl:HUB:PORT or person",
        "cycle": "switch it off and on first by the labgrid place's own switch",
        "coordinator": "of labgrid, HOST[:PORT]",
        "push": "FILE:/PATH: log in, have this file on the board (4 MiB at most), and end",
    }
)
@verb
def console(
    _: Context,
    board: str = "",
    variant: str = "",
    target: str = "",
    stop_autoboot: bool = False,
    key: str = "",
    budget: str = "60",
    power: str = "",
    cycle: bool = False,
    coordinator: str = "",
    push: str = "",
) -> int:
    """A terminal on the board, recorded; Ctrl-] leaves. Example: invoke console --target serial:FT232R"""
    from boardwright.verbs.console import console

    return console(
        ROOT,
        board,
        variant,
        target,
        power=power,
        coordinator=coordinator,
        cycle=cycle,
        stop_autoboot=stop_autoboot,
        key=key,
        budget=whole("--budget", budget, 60),
        push=push,
    )


@task(
    help={
        **VARIANT,
        "to": "a disk's path or serial number, a name from `devices` of local.yaml, a plain file, or "
        "through a board or lab: rockusb:, axdl:, labgrid:PLACE, console:TARGET@DISK",
        "image": "another image than the board's: .img, .img.zst or .img.xz with its .bmap beside it",
        "yes": "ask nothing; only for a disk whose serial number is in local.yaml, and for plain files",
        "list": "list the disks, and why some are never written to",
        "loader": "rockusb: the vendor's loader, for a board in maskrom mode",
        "serve": "console: the address by which the board reaches this host, or `line` for the serial line",
        "power": "console: what switches the board, as for bringup",
        "coordinator": "console, labgrid: HOST[:PORT] of labgrid's coordinator",
        **JSON,
    }
)
@verb
def flash(
    _: Context,
    board: str = "",
    variant: str = "",
    to: str = "",
    image: str = "",
    yes: bool = False,
    list: bool = False,
    json: bool = False,
    loader: str = "",
    serve: str = "",
    power: str = "",
    coordinator: str = "",
) -> int:
    """Write the image to a card and read it back. Example: invoke flash --board rock5b --to sd"""
    from boardwright.verbs.flash import flash_image

    return flash_image(
        ROOT,
        board,
        variant,
        to,
        image,
        yes,
        list,
        json,
        loader=loader,
        serve=serve,
        power=power,
        coordinator=coordinator,
    )


@task(help={"board": "only runs of this board", "limit": "how many runs", **JSON})
@verb
def results(_: Context, board: str = "", limit: str = "20", json: bool = False) -> int:
    """List the newest runs of the history. Example: invoke results --board rock5b"""
    from boardwright.verbs.results import results

    return results(board, whole("--limit", limit, 20), json)


@task(
    positional=["before", "after"],
    help={
        "before": "a run: its number, last~1, or an image's digest",
        "after": "the run that is compared with it",
        "board": "last is the last one of this board",
        **JSON,
    },
)
@verb
def compare(_: Context, before: str, after: str, board: str = "", json: bool = False) -> int:
    """Compare two runs; what became worse is flagged. Example: invoke compare last~1 last"""
    from boardwright.verbs.results import compare_runs

    return compare_runs(before, after, board, json)


@task(
    help={
        **VARIANT,
        "run": "a run of the history instead of the last one's files: a number, last~1, an image's digest",
        "to": "the file to write (default: report.html beside the run's files)",
    }
)
@verb
def report(_: Context, board: str = "", variant: str = "", run: str = "", to: str = "") -> int:
    """Write a run as one HTML page. Example: invoke report --board rock5b"""
    from boardwright.verbs.report import report

    return report(ROOT, board, variant, run, to)


@task(
    help={
        **VARIANT,
        "u-boot": "boot through U-Boot instead of directly",
        "device": "another -device for QEMU",
    }
)
@verb
def qemu(_: Context, board: str = "", variant: str = "", u_boot: bool = False, device: str = "") -> int:
    """An interactive console on the built image. Example: invoke qemu --board rock5b"""
    from boardwright.verbs.bringup import qemu

    return qemu(ROOT, board, variant, u_boot, device)


@task(
    positional=["action"],
    help={
        "action": "status, edit, refresh or check",
        "topic": "one topic of patches/kernel or patches/mesa (status, check: default all)",
        "line": "one source line, such as 6.12 (status, check: default all)",
        "to": "edit: the directory to make (default: out/patches/<topic>-<line>)",
        "from": "refresh: the directory that edit made",
        **JSON,
    },
)
@verb
def patch(
    _: Context,
    action: str,
    topic: str = "",
    line: str = "",
    to: str = "",
    from_: str = "",
    json: bool = False,
) -> int:
    """Patches on every source line: judge, edit, write back, compile. Example: invoke patch status"""
    from boardwright.verbs.patch import patch

    return patch(ROOT, action, topic, line, to or from_, json)


@task(
    help={
        **VARIANT,
        "program": "what to run, as the board's shell takes it",
        "mesa": "patched, unpatched, image (the image's own), or the path of a .tar or .deb",
        "gpu": "the card: turks (r600), verde (radeonsi over radeon), polaris10 (radeonsi over amdgpu)",
        "files": "a directory of yours, unpacked on the board; the program starts in it",
        "env": "variables for the program: 'NAME=VALUE ...'",
        "seconds": "how long the program may run",
        "fixup": "run it again, without the hunt library, with the kernel's alignment_fixup on",
        **JSON,
    }
)
@verb
def align_hunt(
    _: Context,
    program: str,
    board: str = "",
    variant: str = "",
    mesa: str = "patched",
    gpu: str = "verde",
    files: str = "",
    env: str = "",
    seconds: str = "600",
    fixup: bool = False,
    json: bool = False,
) -> int:
    """List where a program faults on Device memory. Example: invoke align-hunt --program "kmscube -c 60\""""
    from boardwright.verbs.align_hunt import align_hunt

    limit = whole("--seconds", seconds, 600)
    return align_hunt(ROOT, board, variant, program, mesa, gpu, files, env, limit, fixup, json)


@task(
    positional=["action", "file"],
    help={
        "action": "list, verify, extract, make (.axp); header, wrap, unwrap (of images); env; sparse, pack",
        "file": "the file to look at; of make, the package to write",
        "to": "the file to write, or of extract the directory to make",
        "from": "make: a directory with one XML index and the images it names",
        "only": "extract: only these members (commas between)",
        "set": "env: NAME=VALUE",
        "unset": "env: variables to remove (commas between)",
        "redundant": "env: the form with a flag byte, which the AX650 does not have",
        "skip-zeros": "pack: blocks of zeros are left as the erased medium has them",
        **JSON,
    },
)
@verb
def vendor(
    _: Context,
    action: str,
    file: str,
    to: str = "",
    from_: str = "",
    only: str = "",
    set_: str = "",
    unset: str = "",
    redundant: bool = False,
    skip_zeros: bool = False,
    json: bool = False,
) -> int:
    """Take the AX650's vendor files apart, and put them together. Example: invoke vendor list box.axp"""
    from boardwright.verbs.vendor import Options, vendor

    return vendor(action, file, Options(to, from_, set_, unset, only, redundant, skip_zeros, json))


@task(help={**VARIANT, "step": "the step whose environment and inputs to open"})
@verb
def shell(_: Context, step: str, board: str = "", variant: str = "") -> int:
    """A shell where a step runs. Example: invoke shell --step rootfs --board rock5b"""
    from boardwright.verbs.shell import shell

    return shell(ROOT, step, board, variant)


@task(help=JSON)
@verb
def doctor(_: Context, json: bool = False) -> int:
    """Say what this host lacks and how to get it. Example: invoke doctor"""
    from boardwright.verbs.doctor import doctor

    return doctor(ROOT, json)


@task(
    help={"gc": "remove the least recently used entries", "max-size": "what may stay, such as 20GiB", **JSON}
)
@verb
def store(_: Context, gc: bool = False, max_size: str = "20GiB", json: bool = False) -> int:
    """Show or bound what the cache holds. Example: invoke store --gc --max-size 10GiB"""
    from boardwright.verbs.store import store

    return store(gc, max_size, json)


@task(help={**VARIANT, "step": "compare only this step (repeatable with commas)"})
@verb
def reproduce(_: Context, board: str = "", variant: str = "", step: str = "") -> int:
    """Build twice under different conditions and compare. Example: invoke reproduce --board rock5b"""
    from boardwright.verbs.reproduce import reproduce

    return reproduce(ROOT, board, variant, step)


@task(
    help={
        **VARIANT,
        **JSON,
        "cmdline": "a copy of the board's /proc/cmdline, drawn as before instead of the shipped layout",
        "load-script": "a copy of the board's auto_load_all_drv.sh, for the pools that go with --cmdline",
    }
)
@verb
def layout(
    _: Context,
    board: str = "",
    variant: str = "",
    json: bool = False,
    cmdline: str = "",
    load_script: str = "",
) -> int:
    """Draw partitions and memory, before and after. Example: invoke layout --board maix-iv"""
    from boardwright.verbs.layout import layout

    return layout(ROOT, board, variant, json, cmdline, load_script)


@task(
    help={
        **VARIANT,
        "console": "serial:PORT or labgrid:PLACE",
        "to": "the new layout: mmcblk0:1536K(uboot),… or a file with it (default: the board file's)",
        "format": "partitions that get an empty ext4 (commas between)",
        "delete": "partitions that may be lost (commas between)",
        "stick-root": "root= of the rescue stick (default: the partition that --stick makes)",
        "new-root": "another root= for the new layout",
        "power": "what switches the board: command:PROGRAM, uhubctl:HUB:PORT or person",
        "coordinator": "of labgrid, HOST[:PORT]",
        "budget": "seconds from power-on to the rescue system's shell",
        "dry-run": "print the plan with sizes, times and what a power cut means; change nothing",
        "yes": "do not ask before the plan is carried out",
        "stick": "only make the rescue stick's image",
        **JSON,
    }
)
@verb
def repartition(
    _: Context,
    board: str = "",
    variant: str = "",
    console: str = "",
    to: str = "",
    format: str = "",
    delete: str = "",
    stick_root: str = "",
    new_root: str = "",
    power: str = "",
    coordinator: str = "",
    budget: str = "",
    dry_run: bool = False,
    yes: bool = False,
    stick: bool = False,
    json: bool = False,
) -> int:
    """Change an eMMC's layout in place, from a rescue stick. Example: invoke repartition --stick"""
    from boardwright.verbs.repartition import repartition

    return repartition(
        ROOT,
        board,
        variant,
        console,
        to=to,
        format=format,
        delete=delete,
        stick_root=stick_root,
        new_root=new_root,
        power=power,
        coordinator=coordinator,
        budget=whole("--budget", budget, 300),
        dry_run=dry_run,
        yes=yes,
        stick=stick,
        json=json,
    )


@task(
    help={
        "e2e": "also the tests that build and boot images (minutes)",
        "slow": "also the tests that take hours",
        "select": "pytest -k",
    }
)
@verb
def test(_: Context, e2e: bool = True, slow: bool = False, select: str = "") -> int:
    """Run the project's tests. Example: invoke test --no-e2e"""
    from boardwright.verbs.test import test

    return test(ROOT, e2e, select, slow)

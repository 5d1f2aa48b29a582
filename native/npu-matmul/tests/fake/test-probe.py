#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`npu-matmul probe` over fake nodes that behave as a claim or its contrary: test-probe.py TOOL PRELOAD.

What the probe concludes has to be what the node was told to be; nothing else of it is worth anything.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM, PRELOAD = sys.argv[1:3]


def probe(kind: str, faults: str, status: int = 0, deadline: int = 60) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "probe.json"
        backend = "model" if kind == "model" else kind.split("-")[0]
        words = [PROGRAM, "probe", "--backend", backend, "--output", str(file), "--loops", "3"]
        words += ["--deadline", str(deadline)]
        settings = {**os.environ, "FAKE_NPU_FAULTS": faults}
        if kind != "model":
            settings |= {"FAKE_NPU": kind, "LD_PRELOAD": PRELOAD}
        done = subprocess.run(words, env=settings, capture_output=True, text=True, check=False)
        assert done.returncode == status, (kind, faults, done.returncode, done.stdout, done.stderr)
        return json.loads(file.read_text())


def outcome(found: dict, name: str) -> str:
    return {one["name"]: one["outcome"] for one in found["experiments"]}[name]


def main() -> None:
    for kind in ("rocket", "rknpu-0.9.8", "rknpu-misc"):
        found = probe(kind, "")
        assert found["npu"]["evidence"] == "emulated", found["npu"]
        assert found["complete"]
        assert [found["verdicts"][c] for c in ("C1", "C2", "C3")] == ["both hold"] * 3, found["verdicts"]
        assert found["recommended"]["rows"] == "given"
        assert found["kernel"], "the machine is described"
        if kind != "rocket":
            assert found["verdicts"]["chain"] == "yes", found["verdicts"]

    found = probe("rocket", "belief-rows")
    assert found["verdicts"]["C1"] == "claim B holds, A does not", found["verdicts"]
    assert found["recommended"]["rows"] == "padded"
    assert outcome(found, "C1: 1 to 3 rows as given, RDMA on (0x1D)") == "wrong"

    found = probe("rocket", "belief-banks")
    assert found["verdicts"]["C3"] == "claim B holds, A does not", found["verdicts"]
    assert found["recommended"]["int8_banks"] == "spare"

    found = probe("rocket", "belief-rdma")
    assert found["verdicts"]["C2"] == "claim B holds, A does not", found["verdicts"]
    assert found["verdicts"]["mrdma"] == "no", found["verdicts"]
    assert outcome(found, "C2: 4 rows, RDMA off (0xD)") == "timed out"
    found = probe("rknpu-0.9.8", "belief-rdma")
    assert found["recommended"]["rdma"] == "on", "what the back end does by itself would hang there"

    found = probe("rocket", "hang", status=1)
    assert found["recommended"] is None
    assert not found["complete"]
    assert {one["outcome"] for one in found["experiments"]} == {"timed out"}

    found = probe("model", "")
    assert found["npu"]["evidence"] == "modelled"


main()

"""tools/matmul-onnx: shapes, file names, ONNX bytes and calibration data."""

import io
import json
import re
import struct
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "tools/matmul-onnx"
# stories15M and stories110M: dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len
STORIES_15M = (288, 768, 6, 6, 6, 32000, 256)
STORIES_110M = (768, 2048, 12, 12, 12, 32000, 1024)


def run(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PROGRAM), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def checkpoint(path: Path, *header: int, prefix: bytes = b"") -> Path:
    path.write_bytes(prefix + struct.pack(f"<{len(header)}i", *header))
    return path


def shapes(folder: Path) -> set[tuple[int, int, int]]:
    pattern = re.compile(r"v1_matmul_npu3_s8_(\d+)_(\d+)_(\d+)_\d+")
    found = [pattern.fullmatch(path.stem) for path in folder.glob("*.onnx")]
    return {(int(m[1]), int(m[2]), int(m[3])) for m in found if m}


def test_shapes_of_a_checkpoint(tmp_path: Path) -> None:
    result = run(
        "--checkpoint",
        checkpoint(tmp_path / "m.bin", *STORIES_15M),
        "--output",
        tmp_path / "out",
        "--rows",
        1,
    )
    assert result.returncode == 0, result.stderr
    assert shapes(tmp_path / "out") == {(288, 1, 288), (288, 1, 768), (768, 1, 288), (288, 1, 8000)}


def test_a_long_k_is_cut_to_what_float32_holds_exactly(tmp_path: Path) -> None:
    run("--checkpoint", checkpoint(tmp_path / "m.bin", *STORIES_110M), "--output", tmp_path / "out")
    made = shapes(tmp_path / "out")
    assert (704, 1, 768) in made, "2048 in three parts of at most 1023, multiples of 32"
    assert all(k * 128 * 128 < 2**24 for k, _, _ in made)
    assert {d1 for _, d1, _ in made} == {1, 16}


def test_int8_checkpoint_and_negative_vocabulary(tmp_path: Path) -> None:
    header = (*STORIES_15M[:5], -32000, 256)
    path = checkpoint(tmp_path / "m.bin", *header, prefix=struct.pack("<Ii", 0x616B3432, 2))
    assert run("--checkpoint", path, "--output", tmp_path / "out").returncode == 0
    assert (288, 1, 8000) in shapes(tmp_path / "out")


def test_configuration_names_files_that_are_there(tmp_path: Path) -> None:
    run("--shape", "64x96", "--rows", 4, "--output", tmp_path)
    (file,) = tmp_path.glob("*.json")
    config = json.loads(file.read_text())
    assert config["npu_mode"] == "NPU3"
    for entry in config["quant"]["input_configs"]:
        data = (tmp_path / entry["calibration_dataset"]).read_bytes()
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            (member,) = tar.getmembers()
            array = tar.extractfile(member)
            assert array is not None
            content = array.read()
        rows = {"x": 4, "y": 96}[entry["tensor_name"]]
        start = content.index(b"\n") + 1
        assert start % 64 == 0
        values = struct.unpack(f"<{rows * 64}f", content[start:])
        assert (min(values), max(values)) == ((-128, 127) if rows * 64 >= 256 else (-128, -65))
    script = (tmp_path / "build.sh").read_text()
    assert f"--input {file.stem}.onnx --config {file.stem}.json" in script
    assert f"axmodels/{file.stem}.axmodel" in script


def test_same_request_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        run("--shape", "300x10", "--output", tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == sorted(path.name for path in (tmp_path / "b").iterdir())
    assert all((tmp_path / "a" / f).read_bytes() == (tmp_path / "b" / f).read_bytes() for f in files)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ((), "0 bytes of header, expected 28"),
        ((288, 768, 6, 6, 6, 32000), "24 bytes of header, expected 28"),
        ((0, 768, 6, 6, 6, 32000, 256), "dim is 0"),
        ((288, 768, 6, 7, 7, 32000, 256), "do not divide"),
        ((288, 2**30, 6, 6, 6, 32000, 256), "hidden_dim is 1073741824"),
    ],
)
def test_what_is_no_checkpoint_is_refused(tmp_path: Path, header: tuple[int, ...], reason: str) -> None:
    result = run("--checkpoint", checkpoint(tmp_path / "m.bin", *header), "--output", tmp_path / "out")
    assert result.returncode == 2
    assert reason in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words",
    [(), ("--shape", "64"), ("--shape", "0x5"), ("--shape", "4x4", "--rows", "1,,2"), ("--cores", "2")],
)
def test_wrong_options(tmp_path: Path, words: tuple[str, ...]) -> None:
    result = run(*words, "--output", tmp_path / "out")
    assert result.returncode == 2
    assert "matmul-onnx" in result.stderr
    assert "Traceback" not in result.stderr


def test_missing_file(tmp_path: Path) -> None:
    result = run("--checkpoint", tmp_path / "none.bin", "--output", tmp_path / "out")
    assert result.returncode == 2
    assert "No such file" in result.stderr


def test_onnx_is_valid_and_multiplies(tmp_path: Path) -> None:
    import numpy
    import onnx
    from onnx import reference

    run("--shape", "64x96", "--rows", 4, "--output", tmp_path)
    (file,) = tmp_path.glob("*.onnx")
    model = onnx.load(file)
    onnx.checker.check_model(model, full_check=True)
    random = numpy.random.default_rng(1)
    x = random.integers(-128, 128, (4, 64)).astype("float32")
    y = random.integers(-128, 128, (96, 64)).astype("float32")
    (r,) = reference.ReferenceEvaluator(model).run(None, {"x": x, "y": y})
    assert r.shape == (4, 96)
    assert (r == x @ y.T).all()
    with tarfile.open(tmp_path / f"{file.stem}.y.tar") as tar:
        array = tar.extractfile("0.npy")
        assert array is not None
        assert numpy.load(io.BytesIO(array.read())).shape == (96, 64)

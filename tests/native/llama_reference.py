"""An independent llama2.c in NumPy, in double precision: what `llama-run` is compared with.

Written from formats and formulas (llama2.c run.c, runq.c, export.py), not from our C: a matrix is one array,
every position one pass, every sum NumPy's.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
MAGIC = 0x616B3432
MATRICES = ("wq", "wk", "wv", "wo", "w1", "w2", "w3")


@dataclass
class Model:
    """Weights in double precision; `weights[name]` is (layers, rows, columns)."""

    dim: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int
    sequence: int
    weights: dict[str, Array]
    group: int = 0

    @property
    def head(self) -> int:
        return self.dim // self.heads

    @property
    def kv(self) -> int:
        return self.head * self.kv_heads


def load(path: Path) -> Model:
    """Either form; int8 is dequantised."""
    data = path.read_bytes()
    new = struct.unpack_from("<I", data)[0] == MAGIC
    numbers = struct.unpack_from("<7i", data, 8 if new else 0)
    dim, hidden, layers, heads, kv_heads, vocab, sequence = numbers
    shared = bool(data[36]) if new else vocab > 0
    vocab = abs(vocab)
    model = Model(dim, hidden, layers, heads, kv_heads, vocab, sequence, {})
    shapes = {
        "embedding": (1, vocab, dim),
        "wq": (layers, dim, dim),
        "wk": (layers, model.kv, dim),
        "wv": (layers, model.kv, dim),
        "wo": (layers, dim, dim),
        "w1": (layers, hidden, dim),
        "w2": (layers, dim, hidden),
        "w3": (layers, hidden, dim),
        "classifier": (1, vocab, dim),
        "norm_attention": (layers, dim),
        "norm_ffn": (layers, dim),
        "norm_final": (dim,),
    }
    at = 256 if new else 28
    if new:
        model.group = struct.unpack_from("<i", data, 37)[0]
        order = ["norm_attention", "norm_ffn", "norm_final", "embedding", *MATRICES, "classifier"]
    else:
        order = ["embedding", "norm_attention", "wq", "wk", "wv", "wo", "norm_ffn", "w1", "w2", "w3"]
        order += ["norm_final", "", "classifier"]
    for name in order:
        if not name:
            at += sequence * (model.head // 2) * 8
        elif name == "classifier" and shared:
            model.weights[name] = model.weights["embedding"]
        elif new and not name.startswith("norm"):
            parts = []
            size = int(np.prod(shapes[name][1:]))
            for _ in range(shapes[name][0]):
                values = np.frombuffer(data, np.int8, size, at).astype(np.float64)
                scales = np.frombuffer(data, "<f4", size // model.group, at + size).astype(np.float64)
                parts.append((values.reshape(-1, model.group) * scales[:, None]).reshape(shapes[name][1:]))
                at += size + size // model.group * 4
            model.weights[name] = np.stack(parts)
        else:
            size = int(np.prod(shapes[name]))
            model.weights[name] = (
                np.frombuffer(data, "<f4", size, at).astype(np.float64).reshape(shapes[name])
            )
            at += size * 4
    assert at == len(data), (at, len(data))
    return model


def _half(x: Array) -> Array:
    return x.astype(np.float16).astype(np.float64)


def _int8(x: Array, group: int) -> Array:
    """To int8 and back, in groups along the last axis; the last group may be shorter."""
    result = np.empty_like(x)
    for at in range(0, x.shape[-1], group):
        part = x[..., at : at + group]
        scale = np.abs(part).max(axis=-1, keepdims=True).astype(np.float32).astype(np.float64) / 127
        steps = np.divide(part, scale, out=np.zeros_like(part), where=scale > 0)
        result[..., at : at + group] = np.trunc(steps + np.copysign(0.5, steps)) * scale
    return result


def _norm(x: Array, weight: Array) -> Array:
    normed: Array = x / np.sqrt(np.mean(x * x) + 1e-5) * weight
    return normed


def _turn(x: Array, position: int, head: int) -> Array:
    pairs = x.reshape(-1, head // 2, 2)
    angle = position / 10000 ** (np.arange(0, head, 2) / head)
    c, s = np.cos(angle), np.sin(angle)
    turned = np.stack([pairs[..., 0] * c - pairs[..., 1] * s, pairs[..., 0] * s + pairs[..., 1] * c], axis=-1)
    return turned.reshape(x.shape)


class Run:
    """`precision`: fp32, or weights and activations rounded to fp16 or int8; products are exact."""

    def __init__(self, model: Model, precision: str = "fp32") -> None:
        self.m = model
        group = model.group or 64
        rounded = {"fp32": lambda x: x, "fp16": _half, "int8": lambda x: _int8(x, group)}
        self.round = rounded[precision]
        names = (*MATRICES, "classifier")
        keep = precision == "int8" and model.group  # int8 already
        self.w = {name: model.weights[name] if keep else self.round(model.weights[name]) for name in names}
        self.keys: list[list[Array]] = [[] for _ in range(model.layers)]
        self.values: list[list[Array]] = [[] for _ in range(model.layers)]
        self.position = 0

    def step(self, token: int) -> Array:
        """The logits after one more token."""
        m, w, of = self.m, self.m.weights, self.w
        x = w["embedding"][0, token].copy()
        for layer in range(m.layers):
            a = self.round(_norm(x, w["norm_attention"][layer]))
            q = _turn(of["wq"][layer] @ a, self.position, m.head).reshape(m.heads, m.head)
            self.keys[layer].append(_turn(of["wk"][layer] @ a, self.position, m.head))
            self.values[layer].append(of["wv"][layer] @ a)
            keys = np.array(self.keys[layer]).reshape(-1, m.kv_heads, m.head)
            values = np.array(self.values[layer]).reshape(-1, m.kv_heads, m.head)
            shared = np.arange(m.heads) // (m.heads // m.kv_heads)
            scores = np.einsum("hi,thi->ht", q, keys[:, shared]) / np.sqrt(m.head)
            scores = np.exp(scores - scores.max(axis=1, keepdims=True))
            scores /= scores.sum(axis=1, keepdims=True)
            mixed = np.einsum("ht,thi->hi", scores, values[:, shared]).reshape(m.dim)
            x = x + of["wo"][layer] @ self.round(mixed)
            a = self.round(_norm(x, w["norm_ffn"][layer]))
            up, gate = of["w3"][layer] @ a, of["w1"][layer] @ a
            x = x + of["w2"][layer] @ self.round(gate / (1 + np.exp(-gate)) * up)
        self.position += 1
        logits: Array = of["classifier"][0] @ self.round(_norm(x, w["norm_final"]))
        return logits


def greedy(model: Model, prompt: list[int], steps: int, precision: str = "fp32") -> tuple[list[int], Array]:
    """Tokens, the prompt's first, and the logits of each sampled one; ends at token 1 as run.c does."""
    run, tokens, rows = Run(model, precision), list(prompt[:steps]), []
    for position in range(steps):
        logits = run.step(tokens[position])
        if position + 1 < len(tokens):
            continue
        rows.append(logits)
        tokens.append(int(logits.argmax()))
        if tokens[-1] == 1:
            break
    return tokens, np.array(rows)


def read_tokenizer(path: Path, vocab: int) -> list[tuple[float, bytes]]:
    data, at, result = path.read_bytes(), 4, []
    for _ in range(vocab):
        score, length = struct.unpack_from("<fi", data, at)
        result.append((score, data[at + 8 : at + 8 + length]))
        at += 8 + length
    return result


def encode(pieces: list[tuple[float, bytes]], text: str) -> list[int]:
    """Byte-pair encoding, the best pair of the whole text each time, the leftmost of equals."""
    index: dict[bytes, int] = {}
    for i, (_, piece) in enumerate(pieces):
        index.setdefault(piece, i)
    tokens = [index[b" "]] if text else []
    for character in text:
        piece = character.encode()
        tokens += [index[piece]] if piece in index else [byte + 3 for byte in piece]
    while True:
        best = (-1e10, 0, -1)
        for i in range(len(tokens) - 1):
            merged = index.get(pieces[tokens[i]][1] + pieces[tokens[i + 1]][1], -1)
            if merged >= 0 and pieces[merged][0] > best[0]:
                best = (pieces[merged][0], i, merged)
        if best[2] < 0:
            return [1, *tokens]
        tokens[best[1] : best[1] + 2] = [best[2]]


def xorshift(state: int) -> tuple[int, float]:
    """The next state, and a number in [0, 1); run.c: random_f32."""
    mask = 2**64 - 1
    state ^= state >> 12
    state ^= state << 25 & mask
    state ^= state >> 27
    return state, ((state * 0x2545F4914F6CDD1D & mask) >> 32 >> 8) / 2**24


def sample(logits: Array, temperature: float, top_p: float, state: int) -> tuple[int, int]:
    """A token and the next state of the generator."""
    p = np.exp(logits / temperature - (logits / temperature).max())
    p /= p.sum()
    state, coin = xorshift(state)
    order = np.arange(len(p))
    if 0 < top_p < 1:
        kept = np.flatnonzero(p >= (1 - top_p) / (len(p) - 1))
        order = kept[np.argsort(-p[kept], kind="stable")]
        reached = np.cumsum(p[order])
        order = order[: int(np.searchsorted(reached, top_p, side="right")) + 1]
        coin *= p[order].sum()
    place = int(np.searchsorted(np.cumsum(p[order]), coin, side="right"))
    return int(order[min(place, len(order) - 1)]), state

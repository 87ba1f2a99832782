"""What check.py runs: each program with its shapes, the same in float64, and how far a result may lie from it.

Bounds come from the types alone. u is half the distance of two neighbours over their value: 2^-24 (float32), 2^-11
(float16), 2^-8 (bfloat16). A sum of n float32 in any order is off by at most gamma(n) times the sum of the absolute
values; a product of two float16 or bfloat16 is exact in float32; .approx functions are off by 2^-22 of the value.
"""
import re
import subprocess

import numpy as np
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import programs

U = {"fp32": 2.0**-24, "fp16": 2.0**-11, "bf16": 2.0**-8}
APPROX = 2.0**-22
FILES = {"fp32": np.float32, "fp16": np.float16, "bf16": np.uint16}


def gamma(n):
    return n * U["fp32"] / (1 - n * U["fp32"])


def narrowed(values, kind):
    """Values as a buffer of that type has them."""
    if kind != "bf16":
        return values.astype(FILES[kind])
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def widened(buffer, kind):
    if kind != "bf16":
        return buffer.astype(np.float64) if kind in FILES else buffer
    return (buffer.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def compiled(function, types, constants, aligned, **options):
    """PTX for sm_80; what is `aligned` (pointers, sizes) is said to be a multiple of 16."""
    signature = {name: types.get(name, "constexpr") for name in function.arg_names}
    attrs = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(function.arg_names) if name in aligned}
    source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attrs)
    return triton.compile(source, target=GPUTarget("cuda", 80, 32), options=options)


class Case:
    """One program at one shape. `arguments`: name -> (type, number), or (type, array) for a pointer; `out` are those
    that it writes; `judge` takes them by name and returns {name: (wanted, bound)}."""

    def __init__(self, name, function, arguments, constants, grid, judge, aligned=(), warps=4, stages=3):
        self.name, self.function, self.arguments, self.constants = name, function, arguments, constants
        self.grid, self.judge, self.aligned, self.warps = grid, judge, aligned, warps
        self.options = {"num_warps": warps, "num_stages": stages}

    def compile(self):
        types = {n: ("*" if isinstance(v, np.ndarray) else "") + t for n, (t, v) in self.arguments.items()}
        return compiled(self.function, types, self.constants, self.aligned, **self.options)

    def run(self, program, folder, kernel, seed=0):
        """The buffers after the run by name, and the program's lines; other seeds run warps in another order."""
        text = folder / (re.sub(r"\W+", "_", self.name) + ".ptx")
        text.write_text(kernel.asm["ptx"])
        words = []
        for name, (kind, value) in self.arguments.items():
            if isinstance(value, np.ndarray):
                value.tofile(folder / name)
                words.append("io:%s" % (folder / name))
            else:
                words.append("%s:%r" % (kind.replace("fp", "f"), value))
        head = re.search(r"\.entry \w+\((.*?)\)", kernel.asm["ptx"], re.S).group(1)
        words += ["null"] * (head.count(".param") - len(words))
        command = [program, "--seed", str(seed), text, kernel.metadata.name, ",".join(map(str, self.grid)), str(32 * self.warps),
                   str(kernel.metadata.shared), *words]
        out = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if out.returncode != 0:
            return None, out.stdout.strip()
        after = {name: np.fromfile(folder / name, dtype=value.dtype).reshape(value.shape)
                 for name, (_, value) in self.arguments.items() if isinstance(value, np.ndarray)}
        return after, out.stdout


def noise(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape)


def begun(kind, *shape):
    """What an output holds before a program runs: no right result."""
    return np.full((*shape, np.dtype(kind).itemsize), 0x5A, np.uint8).view(kind)[..., 0].copy()


def blocks(n, each):
    return -(-n // each)


# --- the programs at their shapes

def product(kind, out, m, n, k, tile, n_first, aligned, warps=4, stages=3):
    a, b = narrowed(noise(m, k), kind), narrowed(noise(*((n, k) if n_first else (k, n)), seed=2), kind)

    def judge(_):
        x, y = widened(a, kind), widened(b, kind)
        y = y.T if n_first else y
        wanted = x @ y
        near = gamma(k) * (np.abs(x) @ np.abs(y))
        return {"c": (wanted, near + (0 if out == "fp32" else U[out] * (np.abs(wanted) + near)))}

    name = "product %s to %s, %d x %d x %d, tile %s%s%s" % (
        kind, out, m, n, k, tile, ", b N x K" if n_first else "", "" if aligned else ", nothing aligned")
    return Case(name, programs.product,
                {"a": (kind, a), "b": (kind, b), "c": (out, narrowed(np.full((m, n), np.nan), out)), "M": ("i32", m),
                 "N": ("i32", n), "K": ("i32", k)},
                dict(zip(("BM", "BN", "BK"), tile), N_FIRST=n_first), (blocks(m, tile[0]), blocks(n, tile[1])), judge,
                ("a", "b", "c", "N", "K") if aligned else (), warps, stages)


def attention(kind, dim, lq, lk, causal, heads=2, group=2, bm=64, bn=64, warps=4, stages=2):
    q, k, v = (narrowed(noise(h, n, dim, seed=s), kind)
               for h, n, s in ((heads, lq, 3), (heads // group, lk, 4), (heads // group, lk, 5)))
    scale = float(np.float32(1.4426950408889634 / dim**0.5))

    def judge(_):
        wide = [widened(x, kind) for x in (q, k, v)]
        wide[1:] = [np.repeat(x, group, axis=0) for x in wide[1:]]
        turned = wide[1].transpose(0, 2, 1)
        scores = wide[0] @ turned * scale
        hidden = np.arange(lk)[None, :] > np.arange(lq)[:, None] + lk - lq if causal else np.zeros((lq, lk), bool)
        scores[:, hidden] = -np.inf
        best = scores.max(2, keepdims=True)
        p = np.exp2(scores - best)
        total = p.sum(2, keepdims=True)
        wanted = p @ wide[2] / total
        # An exponent is off by the sum of its products and by two roundings of what is subtracted; each tile may
        # scale once more, with the same error; p is rounded to the type before the second product.
        size = np.abs(wide[0]) @ np.abs(turned) * scale
        largest = np.abs(np.where(hidden, 0, scores)).max(2, keepdims=True)
        exponent = (gamma(dim + 1) * np.where(hidden, 0, size).max(2, keepdims=True) + 4 * U["fp32"] * largest)
        tiles = blocks(lk, bn)
        each = (1 + tiles) * (np.log(2) * exponent + APPROX + U["fp32"])
        near = (2 * each + 2 * gamma(lk + tiles) + U[kind] + APPROX) * 1.01
        bound = near * (p @ np.abs(wide[2]) / total)
        sums = (best + np.log2(total))[..., 0]
        off = 1.5 * (each + gamma(lk + tiles))[..., 0] + (exponent[..., 0] + APPROX + U["fp32"] * np.abs(sums)) * 2
        return {"o": (wanted, bound + U[kind] * (np.abs(wanted) + bound)), "lse": (sums, off)}

    name = "attention %s, dim %d, %d queries, %d keys%s" % (kind, dim, lq, lk, ", causal" if causal else "")
    return Case(name, programs.attention,
                {"q": (kind, q), "k": (kind, k), "v": (kind, v), "o": (kind, narrowed(np.full(q.shape, np.nan), kind)),
                 "lse": ("fp32", np.full((heads, lq), np.nan, np.float32)), "scale": ("fp32", scale), "LQ": ("i32", lq),
                 "LK": ("i32", lk)},
                {"D": dim, "GROUP": group, "BM": bm, "BN": bn, "CAUSAL": causal}, (blocks(lq, bm), heads), judge,
                ("q", "k", "v", "o", "lse"), warps, stages)


def norm(kind, rows, n):
    x, weight = narrowed(noise(rows, n, seed=6), kind), narrowed(1 + noise(n, seed=7) / 8, kind)
    width = 1 << (n - 1).bit_length()

    def judge(_):
        wide = widened(x, kind)
        wanted = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5) * widened(weight, kind)
        near = gamma(n + 3) / 2 + APPROX + 3 * U["fp32"]
        return {"y": (wanted, (near + U[kind]) * 1.01 * np.abs(wanted)), "best": (wide.argmax(1), 0)}

    return Case("norm %s, %d x %d" % (kind, rows, n), programs.norm,
                {"x": (kind, x), "weight": (kind, weight), "y": (kind, narrowed(np.full((rows, n), np.nan), kind)),
                 "best": ("i32", begun(np.int32, rows)), "N": ("i32", n), "eps": ("fp32", 1e-5)},
                {"B": width}, (rows,), judge, ("x", "weight", "y"))


def integers(count, block, aligned=()):
    draw = np.random.default_rng(8)
    x, y = (draw.integers(-2**31 + 1, 2**31, count).astype(np.int32) for _ in range(2))

    def judge(_):
        a, b = x.astype(np.int64), y.astype(np.int64)
        ua, ub = (v.view(np.uint32).astype(np.uint64) for v in (x, y))
        cut = lambda v: v.astype(np.uint64).astype(np.uint32).view(np.int32)
        over = lambda v, w: (np.sign(v) * np.sign(w) * (np.abs(v) // np.abs(w)))
        turn = ub & 31
        wide = a * b + a
        bits = lambda v: np.array([int(i).bit_count() for i in v])
        mirror = lambda v: np.array([int("{:032b}".format(int(i))[::-1], 2) for i in v])
        running = np.concatenate([np.cumsum(a[i:i + block]) for i in range(0, count, block)])
        rows = [over(a, b | 1), ua % (ub | 1), ua * ub >> np.uint64(32), ((a ^ b) & ~(a | 5)) >> (b & 31),
                ua << turn | ua >> (32 - turn & 31), np.maximum(a, b) - np.minimum(a, b),
                bits(ua) + 64 * np.array([32 - int(i).bit_length() for i in ub]), mirror(ua), over(wide, b | 1),
                wide >> (b & 63), running, np.abs(a), permuted(x, y), a * b + (a * b >> 32), a, a + 5]
        tallies = [100 + k + np.count_nonzero(a & 7 == k) for k in range(8)]
        tallies += [ua.max(), np.bitwise_or.reduce(ua & 0x0F0F0F0F), np.bitwise_and.reduce(ub | 0xF0F00000), 7]
        return {"out": (np.stack([cut(r) for r in rows]), 0), "tallies": (np.array(tallies), 0),
                "sums": (np.append(wide, begun(np.int64, 1)).sum(keepdims=True), 0)}

    out, tallies = begun(np.int32, 16, count), np.arange(100, 112, dtype=np.uint32)
    out[15] = x  # row 14 is what it was before 5 was added
    tallies[8:11] = 0, 0, 2**32 - 1
    return Case("integers, %d%s" % (count, ", aligned" if aligned else ""), programs.integers,
                {"x": ("i32", x), "y": ("i32", y), "out": ("i32", out),
                 "sums": ("i64", begun(np.int64, 1)), "tallies": ("u32", tallies), "COUNT": ("i32", count)},
                {"B": block}, (blocks(count, block),), judge, aligned)


def permuted(x, y):
    """Byte k of the result is the byte of y:x that the low three bits of nibble k of y name."""
    both = np.stack([x, y], 1).view(np.uint8)
    names = (y[:, None] >> (4 * np.arange(4))) & 7
    return np.take_along_axis(both, names, 1).copy().view(np.int32)[:, 0]


def counted(count, block, bins):
    x = np.random.default_rng(16).integers(-2**31, 2**31, count).astype(np.int32)

    def judge(_):
        wanted = [np.bincount(part & (bins - 1), minlength=bins) for part in x.reshape(-1, block)]
        return {"out": (np.stack(wanted), 0)}

    return Case("counted, %d" % count, programs.counted,
                {"x": ("i32", x), "out": ("i32", begun(np.int32, count // block, bins))}, {"B": block, "BINS": bins},
                (count // block,), judge)


def atomics(count, block):
    draw = np.random.default_rng(15)
    x, words = (draw.integers(0, 2**32, shape, dtype=np.uint32) for shape in (count, (5, count)))
    wide, sums = (draw.integers(0, 2**64 - 1, count, dtype=np.uint64) for _ in range(2))

    def judge(_):
        after = [np.maximum(words[0], x), words[1] | x, words[2] & x, x, words[4] + x]
        return {"words": (np.stack(after), 0), "before": (words, 0), "sums": (sums + wide, 0), "sum_before": (sums, 0)}

    return Case("atomics, %d" % count, programs.atomics,
                {"x": ("u32", x), "wide": ("u64", wide), "words": ("u32", words), "sums": ("u64", sums),
                 "before": ("u32", begun(np.uint32, 5, count)), "sum_before": ("u64", begun(np.uint64, count)),
                 "COUNT": ("i32", count)}, {"B": block}, (blocks(count, block),), judge)


def narrow(count, block, aligned=()):
    draw = np.random.default_rng(11)
    x, y = draw.integers(-128, 128, count).astype(np.int8), draw.integers(-2**15, 2**15, count).astype(np.int16)
    x[:8] = y[:8] = range(8)

    def judge(_):
        w, u, v = x.astype(np.int16), y.view(np.uint16), x.view(np.uint8).astype(np.uint16)
        bits = lambda f: f.astype(np.float32).view(np.int32)
        rows = [bits(x * np.float32(0.5)), w * y + w, ((w ^ y) & (y | 3)) >> (w & 15), u // (v | 1),
                (u % (v | 1)) << 1 | u >> 3, bits(y), bits(u), np.where(w == y, 5, np.minimum(w, y)),
                np.where(u >= v, u, 7), (w.astype(np.int64) * 65537 - u >> 7).astype(np.int32),
                (~w).astype(np.int32) * v.astype(np.int32)]
        return {"out": (np.stack([r.astype(np.int32) for r in rows]), 0)}

    return Case("narrow integers, %d%s" % (count, ", aligned" if aligned else ""), programs.narrow,
                {"x": ("i8", x), "y": ("i16", y), "out": ("i32", begun(np.int32, 11, count)),
                 "COUNT": ("i32", count)}, {"B": block}, (blocks(count, block),), judge, aligned)


def wide(count, block, aligned=()):
    draw = np.random.default_rng(12)
    x, y = draw.integers(-2**63, 2**63 - 1, count), draw.integers(0, 2**64 - 1, count, dtype=np.uint64)
    x[:9] = [0, 1, -1, 77, 76, 78, 2**63 - 1, -2**63, 5]
    y[:3] = 0, 1, 2**64 - 1

    def judge(_):
        c, u = y.view(np.int64), x.view(np.uint64)
        one = np.uint64(1)
        high = np.array([int(i) * int(j) >> 64 for i, j in zip(u, y)], np.uint64)
        whole = lambda v: v.view(np.int64)
        rows = [x * c - x, whole(y // (u | one)), whole(y % (u >> np.uint64(40) | one)), np.fmod(x, c >> 33 | 1),
                whole(y >> (u & np.uint64(63))), whole(high), whole(u ^ ~y) | -(x & c),
                np.maximum(x, c) ^ whole(np.minimum(u, y)), np.minimum(x, c) ^ whole(np.maximum(u, y)),
                y.astype(np.float64).view(np.int64), y.astype(np.float32).view(np.int32).astype(np.int64)]
        said = [x < c, x <= c, x > 77, x >= 77, u < y, u <= y, u > y, x == c, u != y, u >= y]
        return {"out": (np.stack(rows), 0), "truth": (sum(s.astype(np.int32) << k for k, s in enumerate(said)), 0)}

    return Case("wide integers, %d%s" % (count, ", aligned" if aligned else ""), programs.wide,
                {"x": ("i64", x), "y": ("u64", y), "out": ("i64", begun(np.int64, 11, count)),
                 "truth": ("i32", begun(np.int32, count)), "COUNT": ("i32", count)}, {"B": block},
                (blocks(count, block),), judge, aligned)


def compared(count, block):
    x, y = (np.float32(3 * noise(count, seed=s)) for s in (13, 14))
    x[:8] = y[4:12] = np.arange(8) - 4
    x[20] = y[21] = np.nan

    def judge(_):
        logs = np.log2(np.abs(y.astype(np.float64)))
        said = [x <= y, x != y, x >= y, x < y, x == y, ~(x <= y), ~(x > y)]
        rows = [np.copysign(x, y), logs, np.trunc(np.nan_to_num(np.abs(x) * np.float32(1000))), -x,
                sum(s.astype(np.int32) << k for k, s in enumerate(said))]
        bound = np.zeros((len(rows), count))
        bound[1] = 2 * APPROX * np.abs(logs) + APPROX
        return {"out": (np.stack([np.float64(r) for r in rows]), bound)}

    return Case("compared, %d" % count, programs.compared,
                {"x": ("fp32", x), "y": ("fp32", y), "out": ("fp32", begun(np.float32, 5, count)),
                 "COUNT": ("i32", count)}, {"B": block}, (blocks(count, block),), judge)


def floats(count, block):
    x, y = (np.float32(3 * noise(count, seed=s)) for s in (9, 10))
    x[3] = y[5] = np.nan
    x[7] = y[7] = 0

    def judge(_):
        a, b = x.astype(np.float64), y.astype(np.float64)
        to = lambda v, kind: widened(narrowed(v, kind), kind)
        none = np.isnan(a) | np.isnan(b)
        u, near = U["fp32"], lambda v: 2 * APPROX * np.abs(v)
        rows = [(a / b, near(a / b)), (np.float32(x / y), 0), (np.float32(np.sqrt(np.abs(x))), 0),
                (np.sqrt(np.abs(b)), near(np.sqrt(np.abs(b)))), (a * b + a, u * 1.01 * np.abs(a * b + a)),
                (np.floor(a * 8), 0), (np.where(none, np.nan, np.maximum(a, b)), 0), (np.fmin(a, b), 0),
                (np.trunc(np.nan_to_num(np.float32(x * np.float32(1000)))), 0), (np.exp2(a), near(np.exp2(a))),
                (np.log2(np.abs(b)), near(np.log2(np.abs(b))) + APPROX),
                (np.float32(to(a, "fp16") + to(b, "bf16")), 0), (a + b * a, u * 1.01 * np.abs(a + b * a)),
                (np.where(a > b, -a, np.float32(x - y)), 0), (np.rint(a * 8) + np.trunc(b * 8), 0), (1 / b, near(1 / b))]
        return {"out": tuple(np.stack([np.broadcast_to(r[k], a.shape) for r in rows]) for k in (0, 1))}

    return Case("floats, %d" % count, programs.floats,
                {"x": ("fp32", x), "y": ("fp32", y), "out": ("fp32", begun(np.float32, 16, count)),
                 "COUNT": ("i32", count)}, {"B": block}, (blocks(count, block),), judge)


def every():
    for kind in ("bf16", "fp16"):
        yield product(kind, "fp32", 128, 128, 128, (64, 64, 32), False, True)
        yield product(kind, kind, 200, 144, 208, (64, 64, 32), True, True)
        yield product(kind, kind, 77, 51, 35, (32, 32, 16), False, False)
        yield product(kind, "fp32", 96, 80, 64, (32, 32, 16), True, True)  # copies of 8 bytes
        yield product(kind, "fp32", 40, 48, 64, (16, 16, 16), False, True)  # copies of 4 bytes
        for dim in (64, 128):
            yield attention(kind, dim, 128, 128, True)
            yield attention(kind, dim, 77, 203, True)
            yield attention(kind, dim, 131, 67, False)
        yield norm(kind, 5, 1000)
    yield product("bf16", "bf16", 256, 256, 128, (128, 128, 64), False, True, warps=8)
    yield attention("bf16", 128, 16, 300, True, bm=16, warps=1)
    yield norm("fp32", 3, 257)
    yield integers(1000, 256)
    yield atomics(1000, 256)
    yield floats(1000, 256)
    yield narrow(1000, 256)
    yield wide(1000, 256)
    yield counted(1024, 256, 32)
    for one in (integers, narrow, wide):  # by vectors
        yield one(1024, 512, ("x", "y", "out", "truth", "COUNT"))
    yield compared(1000, 256)


def far(got, wanted, bound):
    """The largest error as a share of its bound; inf where something is no number on one side alone."""
    if np.issubdtype(got.dtype, np.integer):
        return 0.0 if np.array_equal(got, wanted) else np.inf
    off, bound = np.abs(got - wanted), np.broadcast_to(bound, wanted.shape)
    share = np.where(off <= bound, off / np.maximum(bound, 1e-300), np.inf)
    share = np.where((off > bound) & (bound > 0), off / np.maximum(bound, 1e-300), share)
    same = (np.isnan(got) & np.isnan(wanted)) | (got == wanted)
    return float(np.where(same, 0, np.where(np.isnan(share), np.inf, share)).max())


def run(program, folder, words):
    """The names of the cases that are wrong, and {(opcode, shape)} of the rows that the right ones issued."""
    folder.mkdir(parents=True, exist_ok=True)
    wrong, seen = [], set()
    for case in every():
        if words not in case.name:
            continue
        kernel = case.compile()
        after, lines = case.run(program, folder, kernel)
        others = [case.run(program, folder, kernel, seed) for seed in (1, 2)] if after else []
        failed = [text for buffers, text in [(after, lines), *others] if buffers is None]
        failed += ["other bits where warps run in another order" for buffers, _ in others if buffers and
                   any(buffers[n].tobytes() != after[n].tobytes() for n in after)]
        if failed:
            print("WRONG %s: %s" % (case.name, failed[0]))
            wrong.append(case.name)
            continue
        with np.errstate(all="ignore"):
            shares = {name: far(widened(after[name], case.arguments[name][0]), wanted, bound)
                      for name, (wanted, bound) in case.judge(after).items()}
        right = max(shares.values()) <= 1
        issued = re.findall(r"^issued (\d+) (\S+) (\S+) \S+$", lines, re.M)
        if right:
            seen |= {tuple(row) for count, *row in issued if count != "0"}
        else:
            wrong.append(case.name)
        counts = dict(re.findall(r"^([a-z_]+) (\d+)$", lines, re.M))
        print("%s %s: error of its bound %s; %s instructions, %s mma" % (
            "right" if right else "WRONG", case.name, ", ".join("%s %.2g" % s for s in shares.items()),
            counts["instructions"], counts["mma"]))
    return wrong, seen

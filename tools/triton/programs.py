"""Triton programs whose PTX tests/ptx interprets (check.py): a matrix product, attention, rows of a matrix.

They say what is computed, and Triton's compiler chooses the instructions: layouts of fragments, swizzles of shared
memory, asynchronous copies and their waits are its authors' knowledge, not ours.
"""
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, N_FIRST: tl.constexpr):
    """c (M x N) = a (M x K) b; b is K x N, or N x K with N_FIRST."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for first in range(0, K, BK):
        k = first + inner
        x = tl.load(a + rows[:, None] * K + k[None, :], mask=(rows[:, None] < M) & (k[None, :] < K), other=0.0)
        seen = (k[:, None] < K) & (cols[None, :] < N)
        if N_FIRST:
            y = tl.load(b + cols[None, :] * K + k[:, None], mask=seen, other=0.0)
        else:
            y = tl.load(b + k[:, None] * N + cols[None, :], mask=seen, other=0.0)
        total = tl.dot(x, y, total)
    out = total.to(c.dtype.element_ty)
    tl.store(c + rows[:, None] * N + cols[None, :], out, mask=(rows[:, None] < M) & (cols[None, :] < N))


@triton.jit
def attention(q, k, v, o, lse, scale, LQ, LK, D: tl.constexpr, GROUP: tl.constexpr, BM: tl.constexpr,
              BN: tl.constexpr, CAUSAL: tl.constexpr):
    """o = softmax(q k^T scale / log2 e) v a head; q, o: heads x LQ x D, k, v: heads / GROUP x LK x D.

    CAUSAL: query i sees the keys up to i + LK - LQ. lse (heads x LQ): log2 of the sum of the exponentials.
    """
    head = tl.program_id(1)
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    dims = tl.arange(0, D)
    q_at = (head * LQ + rows)[:, None] * D + dims[None, :]
    shared = head // GROUP * LK
    qs = tl.load(q + q_at, mask=rows[:, None] < LQ, other=0.0)
    best = tl.full((BM,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    out = tl.zeros((BM, D), dtype=tl.float32)
    last = LK
    if CAUSAL:
        last = tl.minimum(LK, (tl.program_id(0) + 1) * BM + LK - LQ)
    for first in range(0, last, BN):
        keys = first + tl.arange(0, BN)
        ks = tl.load(k + (shared + keys)[None, :] * D + dims[:, None], mask=keys[None, :] < LK, other=0.0)
        scores = tl.dot(qs, ks) * scale
        seen = keys[None, :] < LK
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None] + LK - LQ)
        scores = tl.where(seen, scores, -float("inf"))
        newest = tl.maximum(best, tl.max(scores, 1))
        p = tl.exp2(scores - newest[:, None])
        fade = tl.exp2(best - newest)
        total = total * fade + tl.sum(p, 1)
        vs = tl.load(v + (shared + keys)[:, None] * D + dims[None, :], mask=keys[:, None] < LK, other=0.0)
        out = tl.dot(p.to(v.dtype.element_ty), vs, out * fade[:, None])
        best = newest
    out = out / total[:, None]
    tl.store(o + q_at, out.to(o.dtype.element_ty), mask=rows[:, None] < LQ)
    tl.store(lse + head * LQ + rows, best + tl.log2(total), mask=rows < LQ)


@triton.jit
def norm(x, weight, y, best, N, eps, B: tl.constexpr):
    """y = x / sqrt(mean of x^2 + eps) weight, a row a block; best: where the row's largest element is."""
    row = tl.program_id(0)
    at = tl.arange(0, B)
    seen = at < N
    value = tl.load(x + row * N + at, mask=seen, other=0.0).to(tl.float32)
    mean = tl.sum(value * value, 0) / N
    scaled = value * tl.rsqrt(mean + eps) * tl.load(weight + at, mask=seen, other=0.0).to(tl.float32)
    tl.store(y + row * N + at, scaled.to(y.dtype.element_ty), mask=seen)
    tl.store(best + row, tl.argmax(tl.where(seen, value, -float("inf")), 0))


@triton.jit
def integers(x, y, out, sums, tallies, COUNT, B: tl.constexpr):
    """Integers of 32 and 64 bits: out has a row of B an operation; sums and tallies are added to by all blocks."""
    at = tl.program_id(0) * B + tl.arange(0, B)
    seen = at < COUNT
    a = tl.load(x + at, mask=seen, other=0)
    b = tl.load(y + at, mask=seen, other=0)
    ua = a.to(tl.uint32, bitcast=True)
    ub = b.to(tl.uint32, bitcast=True)
    tl.store(out + at, a // (b | 1), mask=seen)
    tl.store(out + COUNT + at, (ua % (ub | 1)).to(tl.int32, bitcast=True), mask=seen)
    tl.store(out + 2 * COUNT + at, tl.umulhi(ua, ub).to(tl.int32, bitcast=True), mask=seen)
    tl.store(out + 3 * COUNT + at, ((a ^ b) & ~(a | 5)) >> (b & 31), mask=seen)
    turned = (ua << (ub & 31)) | (ua >> ((32 - (ub & 31)) & 31))
    tl.store(out + 4 * COUNT + at, turned.to(tl.int32, bitcast=True), mask=seen)
    tl.store(out + 5 * COUNT + at, tl.maximum(a, b) - tl.minimum(a, b), mask=seen)
    tl.store(out + 6 * COUNT + at, libdevice.popc(a) + 64 * libdevice.clz(b), mask=seen)
    tl.store(out + 7 * COUNT + at, libdevice.brev(a), mask=seen)
    wide = a.to(tl.int64) * b + a
    tl.store(out + 8 * COUNT + at, (wide // (b | 1)).to(tl.int32), mask=seen)
    tl.store(out + 9 * COUNT + at, (wide >> (b & 63)).to(tl.int32), mask=seen)
    tl.store(out + 10 * COUNT + at, tl.cumsum(a, 0), mask=seen)
    tl.store(out + 11 * COUNT + at, tl.abs(a), mask=seen)
    tl.store(out + 12 * COUNT + at, libdevice.byte_perm(a, b, b), mask=seen)
    tl.store(out + 13 * COUNT + at, a * b + libdevice.mulhi(a, b), mask=seen)
    tl.store(out + 14 * COUNT + at, tl.atomic_add(out + 15 * COUNT + at, 5, mask=seen), mask=seen)
    tl.atomic_add(sums, tl.sum(tl.where(seen, wide, 0), 0))
    tl.atomic_add(tallies + (a & 7), 1, mask=seen)
    places = tl.zeros((B,), dtype=tl.int32)
    tl.atomic_max(tallies + 8 + places, ua, mask=seen)
    tl.atomic_or(tallies + 9 + places, ua & 0x0F0F0F0F, mask=seen)
    tl.atomic_xchg(tallies + 11 + places, 7, mask=seen)
    tl.atomic_and(tallies + 10 + places, ub | 0xF0F00000, mask=seen)


@triton.jit
def atomics(x, wide, words, sums, before, sum_before, COUNT, B: tl.constexpr):
    """Each element has a word of its own in each row of words, and a sum: before and sum_before take what was there."""
    at = tl.program_id(0) * B + tl.arange(0, B)
    seen = at < COUNT
    a = tl.load(x + at, mask=seen, other=0)
    tl.store(before + at, tl.atomic_max(words + at, a, mask=seen), mask=seen)
    tl.store(before + COUNT + at, tl.atomic_or(words + COUNT + at, a, mask=seen), mask=seen)
    tl.store(before + 2 * COUNT + at, tl.atomic_and(words + 2 * COUNT + at, a, mask=seen), mask=seen)
    tl.store(before + 3 * COUNT + at, tl.atomic_xchg(words + 3 * COUNT + at, a, mask=seen), mask=seen)
    tl.store(before + 4 * COUNT + at, tl.atomic_add(words + 4 * COUNT + at, a, mask=seen), mask=seen)
    more = tl.load(wide + at, mask=seen, other=0)
    tl.store(sum_before + at, tl.atomic_add(sums + at, more, mask=seen), mask=seen)


@triton.jit
def counted(x, out, B: tl.constexpr, BINS: tl.constexpr):
    """How many of each block of x have which low bits."""
    a = tl.load(x + tl.program_id(0) * B + tl.arange(0, B))
    tl.store(out + tl.program_id(0) * BINS + tl.arange(0, BINS), tl.histogram(a & (BINS - 1), BINS))


@triton.jit
def floats(x, y, out, COUNT, B: tl.constexpr):
    """Functions and conversions of float32: out has a row an operation."""
    at = tl.program_id(0) * B + tl.arange(0, B)
    seen = at < COUNT
    a = tl.load(x + at, mask=seen, other=1.0)
    b = tl.load(y + at, mask=seen, other=1.0)
    tl.store(out + at, a / b, mask=seen)
    tl.store(out + COUNT + at, tl.div_rn(a, b), mask=seen)
    tl.store(out + 2 * COUNT + at, tl.sqrt_rn(tl.abs(a)), mask=seen)
    tl.store(out + 3 * COUNT + at, tl.sqrt(tl.abs(b)), mask=seen)
    tl.store(out + 4 * COUNT + at, tl.fma(a, b, a), mask=seen)
    tl.store(out + 5 * COUNT + at, tl.floor(a * 8.0), mask=seen)
    tl.store(out + 6 * COUNT + at, tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL), mask=seen)
    tl.store(out + 7 * COUNT + at, tl.minimum(a, b), mask=seen)
    tl.store(out + 8 * COUNT + at, (a * 1000.0).to(tl.int32).to(tl.float32), mask=seen)
    tl.store(out + 9 * COUNT + at, tl.exp2(a), mask=seen)
    tl.store(out + 10 * COUNT + at, tl.log2(tl.abs(b)), mask=seen)
    tl.store(out + 11 * COUNT + at, a.to(tl.float16).to(tl.float32) + b.to(tl.bfloat16).to(tl.float32), mask=seen)
    tl.store(out + 12 * COUNT + at, (a.to(tl.float64) + b.to(tl.float64) * a.to(tl.float64)).to(tl.float32), mask=seen)
    tl.store(out + 13 * COUNT + at, tl.where(a > b, -a, a - b), mask=seen)
    tl.store(out + 14 * COUNT + at, libdevice.rint(a * 8.0) + libdevice.trunc(b * 8.0), mask=seen)
    tl.store(out + 15 * COUNT + at, 1.0 / b, mask=seen)


@triton.jit
def narrow(x, y, out, COUNT, B: tl.constexpr):
    """Integers of 8 and 16 bits, signed (x, y) and not, in rows of 32 bits."""
    at = tl.program_id(0) * B + tl.arange(0, B)
    seen = at < COUNT
    a = tl.load(x + at, mask=seen, other=1)
    b = tl.load(y + at, mask=seen, other=1)
    w = a.to(tl.int16)
    u = b.to(tl.uint16, bitcast=True)
    v = a.to(tl.uint8, bitcast=True)
    tl.store(out + at, (a.to(tl.float32) * 0.5).to(tl.int32, bitcast=True), mask=seen)
    tl.store(out + COUNT + at, (w * b + w).to(tl.int32), mask=seen)
    tl.store(out + 2 * COUNT + at, (((w ^ b) & (b | 3)) >> (w & 15)).to(tl.int32), mask=seen)
    tl.store(out + 3 * COUNT + at, (u // (v.to(tl.uint16) | 1)).to(tl.int32), mask=seen)
    tl.store(out + 4 * COUNT + at, ((u % (v.to(tl.uint16) | 1)) << 1 | u >> 3).to(tl.int32), mask=seen)
    tl.store(out + 5 * COUNT + at, b.to(tl.float32).to(tl.int32, bitcast=True), mask=seen)
    tl.store(out + 6 * COUNT + at, u.to(tl.float32).to(tl.int32, bitcast=True), mask=seen)
    tl.store(out + 7 * COUNT + at, tl.where(w == b, 5, tl.where(w < b, w, b)).to(tl.int32), mask=seen)
    tl.store(out + 8 * COUNT + at, tl.where(u >= v, u, 7).to(tl.int32), mask=seen)
    tl.store(out + 9 * COUNT + at, (w.to(tl.int64) * 65537 - u.to(tl.int64) >> 7).to(tl.int32), mask=seen)
    tl.store(out + 10 * COUNT + at, (~w).to(tl.int32) * v, mask=seen)


@triton.jit
def wide(x, y, out, truth, COUNT, B: tl.constexpr):
    """Integers of 64 bits (x signed, y not): out has a row an operation, truth one bit a comparison."""
    at = tl.program_id(0) * B + tl.arange(0, B)
    seen = at < COUNT
    a = tl.load(x + at, mask=seen, other=1)
    b = tl.load(y + at, mask=seen, other=1)
    c = b.to(tl.int64, bitcast=True)
    ua = a.to(tl.uint64, bitcast=True)
    tl.store(out + at, a * c - a, mask=seen)
    tl.store(out + COUNT + at, (b // (ua | 1)).to(tl.int64, bitcast=True), mask=seen)
    tl.store(out + 2 * COUNT + at, (b % (ua >> 40 | 1)).to(tl.int64, bitcast=True), mask=seen)
    tl.store(out + 3 * COUNT + at, a % (c >> 33 | 1), mask=seen)
    tl.store(out + 4 * COUNT + at, (b >> (ua & 63)).to(tl.int64, bitcast=True), mask=seen)
    tl.store(out + 5 * COUNT + at, tl.umulhi(ua, b).to(tl.int64, bitcast=True), mask=seen)
    tl.store(out + 6 * COUNT + at, (ua ^ ~b).to(tl.int64, bitcast=True) | -(a & c), mask=seen)
    tl.store(out + 7 * COUNT + at, tl.maximum(a, c) ^ tl.minimum(ua, b).to(tl.int64, bitcast=True), mask=seen)
    tl.store(out + 8 * COUNT + at, tl.minimum(a, c) ^ tl.maximum(ua, b).to(tl.int64, bitcast=True), mask=seen)
    tl.store(out + 9 * COUNT + at, b.to(tl.float64).to(tl.int64, bitcast=True), mask=seen)
    tl.store(out + 10 * COUNT + at, b.to(tl.float32).to(tl.int32, bitcast=True).to(tl.int64), mask=seen)
    said = (a < c).to(tl.int32) + 2 * (a <= c).to(tl.int32) + 4 * (a > 77).to(tl.int32) + 8 * (a >= 77).to(tl.int32)
    said += 16 * (ua < b).to(tl.int32) + 32 * (ua <= b).to(tl.int32) + 64 * (ua > b).to(tl.int32)
    said += 128 * (a == c).to(tl.int32) + 256 * (ua != b).to(tl.int32) + 512 * (ua >= b).to(tl.int32)
    tl.store(truth + at, said, mask=seen)


@triton.jit
def compared(x, y, out, COUNT, B: tl.constexpr):
    """Comparisons of float32, and what libdevice calls by the name of an instruction; out has a row of each."""
    at = tl.program_id(0) * B + tl.arange(0, B)
    seen = at < COUNT
    a = tl.load(x + at, mask=seen, other=1.0)
    b = tl.load(y + at, mask=seen, other=1.0)
    tl.store(out + at, libdevice.copysign(a, b), mask=seen)
    tl.store(out + COUNT + at, libdevice.fast_log2f(tl.abs(b)), mask=seen)
    tl.store(out + 2 * COUNT + at, (tl.abs(a) * 1000.0).to(tl.uint32).to(tl.float32), mask=seen)
    tl.store(out + 3 * COUNT + at, -a, mask=seen)
    said = (a <= b).to(tl.int32) + 2 * (a != b).to(tl.int32) + 4 * (a >= b).to(tl.int32) + 8 * (a < b).to(tl.int32)
    said += 16 * (a == b).to(tl.int32) + 32 * (not (a <= b)).to(tl.int32) + 64 * (not (a > b)).to(tl.int32)
    tl.store(out + 4 * COUNT + at, said.to(tl.float32), mask=seen)

#!/usr/bin/env python3
"""Plants faults in the real kernels, one at a time, and reports which mode of the emulator catches each.

The sources are copied to a scratch folder and built there; the checkout is never changed. Attention,
products and loading are judged by test_simt_kernels in all three modes, the other ops by the
conformance walk (plain and race), the primitives by test_emulator, the device's promises and the
library's products by tests of their own, bank conflicts by the counts of the race mode. A fault that no mode catches fails
the run, unless it stands in ALLOWED with the reason. Prints a Markdown table.

  tests/simt/mutants.py [--scratch FOLDER] [--only N] [--modes plain,asan,race] [--table FILE]
"""
import argparse
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The program that judges; else: the op that conformance walks.
KERNELS, EMULATOR, DEVICE, BLAS, ACCESS = "test_simt_kernels", "test_emulator", "test_simt_device", "test_simt_blas", \
    "test_simt_access"
PROGRAMS = (KERNELS, EMULATOR, DEVICE, BLAS, ACCESS)
C = "kernels/cuda/"

# (file, text, replacement, which occurrence, judge, what)
MUTANTS = [
    (C + "attn.h", "cp_async_wait<1>();\n        cta_sync();\n        tile_scores",
     "cp_async_wait<1>();\n        tile_scores", KERNELS, "attention: barrier after the keys' wait missing"),
    (C + "attn.h", "cp_async_wait<1>();\n        cta_sync();\n        tile_values",
     "cp_async_wait<2>();\n        cta_sync();\n        tile_values", KERNELS, "attention: values' wait one group too weak"),
    (C + "attn.h", "at.query, at.keys, a.shape.dim);\n        cta_sync();", "at.query, at.keys, a.shape.dim);",
     KERNELS, "attention: keys overwritten before all warps have read them"),
    (C + "attn.h", "at.values, a.shape.dim);\n        cta_sync();", "at.values, a.shape.dim);",
     KERNELS, "attention: values overwritten before all warps have read them"),
    (C + "attn.h", "bool valid = first + key < w.row.kv_len && chunk", "bool valid = first + key <= w.row.kv_len && chunk",
     KERNELS, "attention: tail of the last tile off by one"),
    (C + "attn.h", "key >= hi[e >> 1]", "key > hi[e >> 1]", KERNELS, "attention: causal mask off by one"),
    (C + "attn.h", "? p + 1 - s.window : 0", "? p + 2 - s.window : 0", KERNELS, "attention: window off by one"),
    (C + "attn.h", "(size_t)w.row.slot * a.blocks_max", "(size_t)0 * a.blocks_max", KERNELS,
     "attention: another row's block table"),
    (C + "attn.h", "mul_rn(keep[e >> 1], at[e])", "at[e]", KERNELS,
     "attention: walked parts folded without rescaling"),
    (C + "attn.h", "st->sum[h] = fmaf(st->sum[h], keep, sum);", "st->sum[h] = add_rn(st->sum[h], sum);", KERNELS,
     "attention: sum not rescaled to the new maximum"),
    (C + "attn.h", "    warp_sync();\n    uint32_t chunks = dim / 8", "    uint32_t chunks = dim / 8", KERNELS,
     "attention: result read by other lanes without warp_sync"),
    (C + "attn.h", "(((2 * c + odd) ^ (row & 7u)) << 4)", "((2 * c + odd) << 4)", KERNELS,
     "attention: fragments read without the swizzle"),
    (C + "attn.h", "* DP * 2;\n    if (SHARED_ALLOW", "* DP * 2 - 128;\n    if (SHARED_ALLOW", KERNELS,
     "attention: 128 bytes of shared memory too few"),
    (C + "attn.cu", "size_t tile = merge.partial + p;", "size_t tile = merge.partial + (p ^ 1u);", KERNELS,
     "merge: parts read from other places"),
    (C + "attn_plan.c", "parts[1] = divide_round_up(row->kv_len, ATTN_PART_TOKENS);",
     "parts[1] = row->kv_len / ATTN_PART_TOKENS;", KERNELS, "plan: the last part is not planned"),
    (C + "gemm_small.cu", "        cta_sync();\n        for (int i = 0; i < (TILES + 1) / 2; i++) {\n            uint32_t o",
     "        for (int i = 0; i < (TILES + 1) / 2; i++) {\n            uint32_t o", KERNELS,
     "small product: barrier before the parts are added missing"),
    (C + "gemm_small.cu", "        }\n        cta_sync();\n    }\n", "        }\n    }\n", KERNELS,
     "small product: room reused without a barrier"),
    (C + "gemm_small.cu", "(size_t)row * g.stride + k) : zero", "(size_t)row * g.k + k) : zero", KERNELS,
     "small product: wrong row stride"),
    (C + "gemm_wide.cu", "cp_async_wait<WIDE_STAGES - 2>();", "cp_async_wait<WIDE_STAGES - 1>();", KERNELS,
     "wide product: wait one group too weak"),
    (C + "gemm_wide.cu", "cp_async_wait<WIDE_STAGES - 2>();\n        cta_sync();", "cp_async_wait<WIDE_STAGES - 2>();",
     KERNELS, "wide product: barrier after the wait missing"),
    (C + "gemm_wide.cu", "(s + 1) * WIDE_K % PRODUCT_PART != 0 && s + 1 != steps", "s + 1 != steps", KERNELS,
     "wide product: parts not cut (order only)"),
    (C + "gemm_wide.cu", "bool valid = token + row < g.rows", "bool valid = token + row <= g.rows", KERNELS,
     "wide product: one token too many"),
    (C + "loader.c", "= call_status(cudaEventSynchronize(device->staging_free[turn]));",
     "= device->staging_free[turn] != NULL ? STATUS_OK : STATUS_INVALID;", KERNELS, "loader: missing event wait, pinned buffer reused early"),
    (C + "lane.h", "    cta_sync();\n    if (threadIdx.x % 32 == 0)\n        room[warp] = x;", "    if (threadIdx.x % 32 == 0)\n        room[warp] = x;",
     "layer_norm", "row sums: room reused without a barrier"),
    (C + "lane.h", "        room[warp] = x;\n    cta_sync();", "        room[warp] = x;", "rms_norm",
     "row sums: read before all warps have written"),
    (C + "norm.cu", "        for (int i = 0; i < 8; i++)\n            squares = fmaf(v[i], v[i], squares);",
     "        for (int i = 0; i < 7; i++)\n            squares = fmaf(v[i], v[i], squares);", "rms_norm",
     "rms norm: one element in eight forgotten"),
    (C + "prep.cu", "        row[i] = 0;\n    cta_sync();", "        row[i] = 0;", "prep",
     "prep: penalty counts before the row is cleared"),
    (C + "prep.cu", "a.state.done[row.slot] != 0)\n        writes = false;", "a.state.done[row.slot] == 7)\n        writes = false;",
     "prep", "prep: ended rows still write their KV"),
    (C + "qkv_post.cu", "    if (place == UINT64_MAX)\n        return;", "    if (place == UINT64_MAX)\n        place = 0;", "qkv_post",
     "qkv_post: rows without a place write to the first block"),
    (C + "sample.h", "return vocab - base < most ? vocab - base : most;", "return base < vocab ? most : 0;", "sample",
     "sampling: vocabulary padding not masked"),
    (C + "sample.cu", "    cta_sync(); // all have read the parameters that commit changes\n", "", "sample",
     "sampling: state changed while other warps read it"),
    (C + "sample_select.cu", "        room->bins[i] = 0;\n    cta_sync();", "        room->bins[i] = 0;", "sample",
     "radix select: counted while bins are cleared"),
    (C + "sample_select.cu", "target -= room->before;", "target -= 0;", "sample", "radix select: weight above the digit kept"),
    (C + "pool.cu", "uint32_t first = a.args.kind == POOL_LAST ? s.last_token", "uint32_t first = a.args.kind == POOL_LAST ? s.last_token - 1",
     "pool", "pooling: the token before the last"),
    ("tests/simt/probe.cu", "last[0] = atom_add_acqrel_gpu(counter, 1u);", "last[0] = atom_add(counter, 1u);", EMULATOR,
     "last arriver: release removed"),
    (C + "device.c", "        if (code == cudaErrorNotReady) {\n            error_forget();\n", "        if (code == cudaErrorNotReady) {\n",
     DEVICE, "device: \"not ready\" stays the last error"),
    (C + "device.c", "    error_forget();\n    *out = NULL;\n    return error_set(err, STATUS_NO_MEMORY, \"%zu bytes of device",
     "    *out = NULL;\n    return error_set(err, STATUS_NO_MEMORY, \"%zu bytes of device", DEVICE,
     "device: a refused allocation stays the last error"),
    (C + "device.c", "NULL)) == cudaSuccess)\n        code = cudaStreamSynchronize(NULL);", "NULL)) == cudaSuccess)\n        code = cudaSuccess;",
     DEVICE, "device: zeros not waited for"),
    (C + "device.c", "still be on their way\n        code = cudaStreamSynchronize(NULL);", "still be on their way\n        code = cudaSuccess;",
     DEVICE, "device: an upload not waited for"),
    (C + "device.c", "    if (cudaSetDevice((int)device->options.index) != cudaSuccess)\n        error_forget();",
     "    if (device == NULL)\n        error_forget();", DEVICE, "device: a thread's own device is used"),
    (C + "device.c", "    if (status == STATUS_OK)\n        status = device_try(device, err);\n", "", DEVICE,
     "device: a card without code is not refused"),
    (C + "blas.c", "key.x_align = alignment_of(args->x);", "key.x_align = 256;", BLAS, "products: alignment not told to the library"),
    (C + "blas_tune.c", "out[i].state == CUBLAS_STATUS_SUCCESS && ", "", BLAS, "products: a candidate that does not run is taken"),
    (C + "blas_cache.c", "record.sum != record_sum(&record) || ", "", BLAS, "product file: a damaged record is believed"),
    (C + "blas_cache.c", "else if (memcmp(&head, &want, sizeof head) != 0)", "else if (head.record_bytes != want.record_bytes)", BLAS,
     "product file: another card's choices are believed"),
    (C + "blas_cache.c", "device->options.note(line);\n    file_write(blas);", "device->options.note(line);", BLAS,
     "product file: not made anew"),
    (C + "attn.h", "next > hi_first)", "next > hi_first + 1)", KERNELS, "attention: a tile that needs its mask goes without"),
    (C + "gemm_small.cu", "room[w][room_at(o)]", "room[w][o]", KERNELS, "small product: parts read where none was put"),
    (C + "gemm_small.cu", "return o ^ (o >> 5 & 3u) << 3;", "return o;", ACCESS, "small product: bank conflicts"),
    (C + "gemm_wide.cu", "((chunk ^ (row & 1u) * 4u) * 16)", "(chunk * 16)", ACCESS, "wide product: bank conflicts"),
    (C + "sample_select.cu", "room->bins[first + 32]", "room->bins[first + 31]", "sample", "radix select: segments of other bins"),
]
# Faults that no mode can tell, with the reason.
ALLOWED = {31: "equivalent today: the compiler reads only fields that the commit leaves alone"}


def run(command, **kw):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **kw)


def verdict(command, timeout):
    """('caught', why) or ('missed', '')."""
    try:
        out = run(["timeout", str(timeout)] + command)
    except OSError as e:
        return "missed", str(e)
    if out.returncode == 0:
        return "missed", ""
    lines = [l for l in out.stdout.splitlines() if l.startswith("simt: ") and " cases, " not in l]
    if any("AddressSanitizer" in l for l in out.stdout.splitlines()):
        return "caught", "ASan"
    if lines:
        text = lines[0].split(": ", 2)[-1].split(" [block")[0].split(" at /")[0]
        return "caught", text[:60]
    return "caught", "stuck" if out.returncode in (124, 137) else "value"


def modes_of(judge):
    return ("race",) if judge == ACCESS else ("plain", "asan", "race")


def tests_of(judge, bin_folder):
    if judge in PROGRAMS:
        arguments = ["small"] if judge == KERNELS else []
        return {m: [[str(bin_folder / f"{judge}_{m}")] + arguments] for m in modes_of(judge)}
    conformance = str(bin_folder / "conformance")
    return {"plain": [[conformance, "simt", str(bin_folder / "libweft_simt.so"), judge]],
            "race": [[conformance, "simt", str(bin_folder / "libweft_simt_race.so"), judge]]}


def targets_of(judge, modes):
    if judge in PROGRAMS:
        return [f"{judge}_{m}" for m in modes if m in modes_of(judge)]
    return ["conformance"] + [{"plain": "weft_simt", "race": "weft_simt_race"}[m] for m in modes if m != "asan"]


def prepare(scratch):
    source = scratch / "source"
    if source.exists():
        shutil.rmtree(source)
    source.mkdir(parents=True)
    for part in ("kernels", "tests/simt", "tests/conformance", "bench"):
        shutil.copytree(ROOT / part, source / part)
    top = (ROOT / "CMakeLists.txt").read_text().split("foreach(room")[0]
    top += "".join(f"add_subdirectory({p})\n" for p in ("kernels", "tests/conformance", "tests/simt"))
    (source / "CMakeLists.txt").write_text(top)
    build = scratch / "build"
    out = run(["cmake", "-S", str(source), "-B", str(build), "-G", "Ninja", "-DWEFT_SIMT_MODES=plain;asan;race"])
    if out.returncode != 0:
        sys.exit(out.stdout)
    return source, build


def judge_one(mutant, source, build, args):
    file, text, replacement, judge, what = mutant
    path = source / file
    good = path.read_text()
    if text not in good:
        return {"plain": ("stale", ""), "asan": ("stale", ""), "race": ("stale", "")}
    path.write_text(good.replace(text, replacement, 1))
    try:
        out = run(["ninja", "-C", str(build), f"-j{args.jobs}"] + targets_of(judge, args.modes))
        if out.returncode != 0:
            return {"plain": ("does not build", out.stdout[-200:])}
        return {mode: verdict(c[0], 300) for mode, c in tests_of(judge, build / "bin").items() if mode in args.modes}
    finally:
        path.write_text(good)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scratch", default="/tmp/weft-mutants")
    parser.add_argument("--only", type=int)
    parser.add_argument("--first", type=int, default=1, help="row to begin with")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--modes", default="plain,asan,race")
    parser.add_argument("--table")
    args = parser.parse_args()
    args.modes = args.modes.split(",")
    source, build = prepare(pathlib.Path(args.scratch))
    for judge in dict.fromkeys(m[3] for m in MUTANTS) if args.only is None and args.first == 1 else ():
        out = run(["ninja", "-C", str(build), f"-j{args.jobs}"] + targets_of(judge, args.modes))
        if out.returncode != 0:
            sys.exit(out.stdout[-3000:])
        for mode, commands in tests_of(judge, build / "bin").items():
            if mode in args.modes and verdict(commands[0], 600)[0] != "missed":
                sys.exit(f"{judge} in mode {mode} fails without any fault")
    rows, missed = [], []
    for number, mutant in enumerate(MUTANTS, 1):
        if args.only not in (None, number) or number < args.first:
            continue
        result = judge_one(mutant, source, build, args)
        cells = []
        for mode in ("plain", "asan", "race"):
            word, why = result.get(mode, ("-", ""))
            cells.append(why if word == "caught" else word)
        rows.append(f"| {number} | {mutant[4]} | " + " | ".join(cells) + " |")
        if not any(v[0] == "caught" for v in result.values()):
            if number in ALLOWED:
                rows[-1] = rows[-1].replace("missed", f"missed ({ALLOWED[number]})", 1)
            else:
                missed.append(number)
        print(rows[-1], flush=True)
    table = "| # | planted fault | plain | asan | race |\n| --- | --- | --- | --- | --- |\n" + "\n".join(rows)
    if args.table:
        pathlib.Path(args.table).write_text(table + "\n")
    print(f"{len(rows)} faults, {len(missed)} missed by every mode: {missed}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

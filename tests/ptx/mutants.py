#!/usr/bin/env python3
"""Plants faults that the source emulator cannot see, because they stand in what only nvcc reads, and
reports which the device ptx catches: by the conformance walk of an op (values), by its bits beside the emulator's, or by
test_probe_ptx (probe), which knows what a kernel must hold.

The sources are copied to a scratch folder and built there with nvcc, of each fault the objects of its op
alone; the checkout is never changed. A fault that is not caught fails the run: the report says where no PTX
changed. An interpreter that crashes, or a time limit, is not a catch. --jobs (2): so many copies are judged in,
side by side.

  tests/ptx/mutants.py [--scratch FOLDER] [--words TEXT] [--part I/N] [--jobs N]
"""
import argparse
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import plant  # noqa: E402

DEV, JUDGE = "kernels/cuda/dev.h", "tests/ptx/beside_emulator.py"

# The sources whose kernels an op launches.
SOURCES = {"attn": ("attn", "attn_any", "attn_d64", "attn_d96", "attn_d128", "attn_d256", "prep"), "gemm": ("gemm_small", "gemm_wide", "prep"),
           "sample": ("sample", "sample_select", "prep"), "rms_norm": ("norm", "prep"), "embed": ("embed", "prep"),
           "prep": ("prep",), "pool": ("pool", "prep"), "swiglu": ("activate", "prep")}

# (what, file, function, old text, new text, op, who must see it)
MUTANTS = [
    ("pack_bf16: halves swapped", DEV, "pack_bf16", '"f"(hi), "f"(lo)', '"f"(lo), "f"(hi)', "attn", "values"),
    ("pack_f16: halves swapped", DEV, "pack_f16", '"f"(hi), "f"(lo)', '"f"(lo), "f"(hi)', "attn", "values"),
    ("mma_bf16: rows of a swapped", DEV, "mma_bf16", '"r"(a[0]), "r"(a[1])', '"r"(a[1]), "r"(a[0])', "gemm", "values"),
    ("mma_bf16: halves of b swapped", DEV, "mma_bf16", '"r"(b[0]), "r"(b[1])', '"r"(b[1]), "r"(b[0])', "gemm", "values"),
    ("mma_bf16: the accumulator is only written", DEV, "mma_bf16", '"+f"(c[0])', '"=f"(c[0])', "gemm", "values"),
    ("mma_f16: takes bfloat16", DEV, "mma_f16", ".f32.f16.f16.f32", ".f32.bf16.bf16.f32", "gemm", "values"),
    ("mma_f16: a result goes to another row", DEV, "mma_f16", '"+f"(c[1]), "+f"(c[2])', '"+f"(c[2]), "+f"(c[1])', "gemm", "values"),
    ("ldmatrix: the compiler may move it", DEV, "ldsm_x4",
     'asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\\n"'
     ' : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_addr(row)) : "memory");',
     'asm("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\\n"'
     ' : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_addr(row)));', "attn", "values"),
    ("ldmatrix.trans: the compiler may move it", DEV, "ldsm_x4_t",
     'asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\\n"'
     ' : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_addr(row)) : "memory");',
     'asm("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\\n"'
     ' : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_addr(row)));', "attn", "values"),
    ("ldmatrix: registers in another order", DEV, "ldsm_x4", '"=r"(r[1]), "=r"(r[2])', '"=r"(r[2]), "=r"(r[1])', "attn", "values"),
    ("ldmatrix.trans: not transposed", DEV, "ldsm_x4_t", "x4.trans.shared", "x4.shared", "attn", "values"),
    ("cp.async: what is not valid is read", DEV, "cp_async16", "valid ? 16 : 0", "valid ? 16 : 16", "attn", "values"),
    ("cp.async: half of it is read", DEV, "cp_async16", "valid ? 16 : 0", "valid ? 8 : 0", "attn", "values"),
    ("cp.async: groups are not closed", DEV, "cp_async_commit", '"cp.async.commit_group;\\n"', '""', "gemm", "values"),
    ("cp.async: one group too many is left", DEV, "cp_async_wait", '"n"(N)', '"n"(N + 1)', "gemm", "values"),
    ("shuffle by xor goes down", DEV, "shfl_xor", "__shfl_xor_sync", "__shfl_down_sync", "rms_norm", "values"),
    ("shuffle by xor leaves lanes out", DEV, "shfl_xor", "0xFFFFFFFFu", "0x7FFFFFFFu", "rms_norm", "values"),
    ("shuffle from a lane takes the next", DEV, "shfl_idx", "v, lane)", "v, lane ^ 1)", "attn", "values"),
    ("the barrier of a block is none", DEV, "cta_sync", "__syncthreads();", "", "rms_norm", "values"),
    ("products are rounded to zero", DEV, "mul_rn", "__fmul_rn", "__fmul_rz", "attn", "bits"),
    ("sums are rounded down", DEV, "add_rn", "__fadd_rn", "__fadd_rz", "gemm", "bits"),
    ("streamed words in another order", DEV, "ldg128_stream", '"=r"(v.x), "=r"(v.y)', '"=r"(v.y), "=r"(v.x)', "gemm", "values"),
    ("bfloat16 is cut, not rounded", DEV, "float_to_bf16", 'asm("cvt.rn.bf16.f32 %0, %1;\\n" : "=h"(h) : "f"(x));', "h = (uint16_t)(__float_as_uint(x) >> 16);", "rms_norm", "bits"),
    ("bfloat16 is widened without its last bit", DEV, "bf16_to_float", "(uint32_t)h << 16", "(uint32_t)(h & 0xFFFEu) << 16", "rms_norm", "bits"),
    ("float16 of the register before", DEV, "float_to_f16", '"f"(x)', '"f"(x * 1.0009765625f)', "embed", "bits"),
    ("bytes are picked from the other word", DEV, "byte_perm", "__byte_perm(a, b, order)", "__byte_perm(b, a, order)", "gemm", "values"),
    ("the high half of a product is that of signed numbers", DEV, "mulhi", "__umulhi(a, b)", "(uint32_t)__mulhi((int)a, (int)b)", "sample", "values"),
    ("launch bounds of half the block", "kernels/cuda/gemm_small.cu", "gemm_small_kernel", "__launch_bounds__(256)", "__launch_bounds__(128)", "gemm", "values"),
    ("the barrier of a warp is none", DEV, "warp_sync", "__syncwarp();", "", "attn", "values"),
    ("the barrier of a block is that of a warp", DEV, "cta_sync", "__syncthreads();", "__syncwarp();", "sample", "values"),
    ("the host's signal is not released", DEV, "st_release_sys", "st.release.sys.global", "st.relaxed.gpu.global", "prep", "values"),
    ("bits are set by a load and a store", DEV, "atom_or", "return atomicOr(p, v);", "uint32_t old = *p; *p = old | v; return old;", "prep", "values"),
    ("shuffle by xor within half a warp", DEV, "shfl_xor", "v, mask)", "v, mask, 16)", "rms_norm", "values"),
    ("shared memory by its generic address", DEV, "smem_addr", "__cvta_generic_to_shared(p)", "(uintptr_t)p", "gemm", "values"),
    ("a part's arrival orders nothing", DEV, "atom_add_acqrel_gpu", "atom.acq_rel.gpu", "atom.relaxed.gpu", "attn", "values"),
    ("launched without shared memory", DEV, "LAUNCH_EARLY", "(shared), (stream)", "0, (stream)", "gemm", "values"),
    ("a kernel does not wait for the one in front", DEV, "grid_wait", 'asm volatile("griddepcontrol.wait;\\n" ::: "memory");', "", "rms_norm", "values"),
    ("the wait for the one in front is the trigger", DEV, "grid_wait", "griddepcontrol.wait", "griddepcontrol.launch_dependents", "embed", "values"),
    ("no kernel lets the next one begin", DEV, "grid_trigger", 'asm volatile("griddepcontrol.launch_dependents;\\n" ::: "memory");', "", "rms_norm", "values"),
    ("a prefetch of what lies behind", DEV, "prefetch_l2", '"l"(p)', '"l"((const char *)p + (1 << 20))', "swiglu", "values"),
    ("the kernel that must release has another name", "kernels/cuda/prep.cu", "signal_kernel",
     "static __global__ void __launch_bounds__(32) signal_kernel(",
     "#define signal_kernel told_kernel\nstatic __global__ void __launch_bounds__(32) signal_kernel(", "prep", "probe"),
    ("mma_f16: b's first half twice", DEV, "mma_f16", '"r"(b[1])', '"r"(b[0])', "gemm", "values"),
]


def run(command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **more)


def prepare(scratch):
    source, build = scratch / "source", scratch / "build"
    plant.copy_tree(ROOT, source, ("base/", "kernels/", "tests/simt/", "tests/ptx/", "tests/conformance/", "bench/"))
    top = (ROOT / "CMakeLists.txt").read_text().split("foreach(room")[0]
    top += "".join(f"add_subdirectory({p})\n" for p in ("base", "kernels", "tests/conformance", "tests/simt", "tests/ptx"))
    (source / "CMakeLists.txt").write_text(top)
    out = run(["cmake", "-S", str(source), "-B", str(build), "-G", "Ninja", "-DWEFT_PTX=ON", *plant.launchers()])
    if out.returncode != 0:
        sys.exit(out.stdout)
    return source, build


def make(build, targets, jobs):
    out = run(["ninja", "-C", str(build), f"-j{jobs}", *targets], env=plant.shared_cache(build.parents[1]))
    return None if out.returncode == 0 else out.stdout[-300:]


def built(build, op, judge):
    """Links the device, or the probe, with the objects of the op made anew; what went wrong, or None."""
    failed = make(build, [f"tests/ptx/{stem}.o" for stem in SOURCES[op]], 1)
    if failed:
        return failed
    target, file = ("test_probe_ptx", "bin/test_probe_ptx") if judge == "probe" else ("weft_ptx", "libweft_ptx.so")
    link = run(["ninja", "-C", str(build), "-t", "commands", target]).stdout.splitlines()
    out = run(["bash", "-c", [line for line in link if file in line][-1]], cwd=build)
    return None if out.returncode == 0 else out.stdout[-300:]


def emitted(build, op):
    """The PTX of the op's objects without the lines that say where it stands in the source."""
    texts = []
    for stem in SOURCES[op]:
        for text in re.findall(rb"\n\.version .*?\x00", (build / f"tests/ptx/{stem}.o").read_bytes(), re.S):
            texts.append(b"\n".join(line for line in text.split(b"\n") if not line.lstrip().startswith((b".loc", b".file"))))
    return texts


def caught(build, op, judge):
    """(caught, what the first complaint says); no complaint: None."""
    binaries = build / "bin"
    programs = [str(binaries / name) for name in ("conformance", "libweft_simt.so", "libweft_ptx.so")]
    command = {"bits": ["python3", str(ROOT / JUDGE), *programs, op], "values": [programs[0], "ptx", programs[2], op],
               "probe": [str(binaries / "test_probe_ptx")]}[judge]
    try:
        out = run(command, timeout=900)
    except subprocess.TimeoutExpired:
        return False, "time limit"
    if out.returncode == 0:
        return False, None
    # A failed case; reports that nobody looked at; the walk gives up, because after a report nothing works.
    if out.returncode not in (1, 70) and "check failed: " not in out.stdout:
        return False, f"crash: it ends with {out.returncode}"
    words = ("ptx: ", "FAILED", "other bits", "[  ERROR   ]")
    lines = [line for line in out.stdout.splitlines()
             if (line.startswith(words) or "error" in line) and " cases, " not in line]
    return True, (lines or ["value"])[0][:140]


def failure(build, clean):
    """What an op says that fails without a fault, or None."""
    for op, judge in clean:
        found, why = caught(build, op, judge)
        if found or why:
            return f"{op} fails without any fault: {why}"
    return None


def judge_one(mutant, source, build, plain):
    """(caught, what is said of it)"""
    *fault, op, judge = mutant
    try:
        with plant.Planted(source, *fault[1:]):
            failed = built(build, op, judge)
            found, why = (False, failed) if failed else caught(build, op, judge)
            if not found and not why:
                why = "missed" if emitted(build, op) != plain[build][op] else "missed: no PTX changed"
    except plant.Stale as stale:
        found, why = False, f"stale: {stale}"
    return found, why


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scratch", default="build/ptx-mutants")
    parser.add_argument("--words", default="", help="only faults that have this text anywhere")
    parser.add_argument("--part", default="", help="I/N: every N-th fault from the I-th")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    chosen = plant.part_of([m for m in MUTANTS if any(args.words in str(text) for text in m)], args.part)
    if not chosen:
        sys.exit("no fault has these words")
    places = [prepare(pathlib.Path(args.scratch).resolve() / str(i)) for i in range(min(args.jobs, len(chosen)))]
    for _, build in places:
        failed = make(build, ["conformance", "weft_simt", "weft_ptx", "test_probe_ptx"], args.jobs)
        if failed:
            sys.exit(failed)
    clean = sorted({m[5:] for m in chosen})
    plant.must_be_clean(places, lambda place: failure(place[1], clean))
    plain = {build: {op: emitted(build, op) for op, _ in clean} for _, build in places}  # names have the path in them
    missed = []
    for mutant, (found, why) in plant.judged(chosen, places, lambda place, m: judge_one(m, *place, plain)):
        missed += [] if found else [mutant[0]]
        print(f"| {mutant[0]} | {why} |", flush=True)
    print(f"{len(chosen)} faults, {len(missed)} missed: {missed}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench/gpu.sh from end to end on a card that is played: nvidia-smi, nvcc, cmake and the programs it builds are scripts, the words of the
# probe are the emulator's. The path holds what a bare host has: neither ninja, git nor pkg-config. What cmake configures there is tested
# by tests/base/test_configure.sh.
# usage: test_gpu_script.sh SOURCE_DIR GPU_PROBE_SIMT
set -uo pipefail
source=$1 probe=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/tree/bench"
for name in bash cat cut date dirname env g++ grep head ln ls make mkdir nproc rm sed sleep sort tail tee timeout tr uniq awk; do
    ln -s "$(command -v $name)" "$work/bin/$name"
done
ln -s "$(python3 -c 'import sys; print(sys.executable)')" "$work/bin/python3"
ln -s "$source"/bench/{gpu.sh,gpu_model,gpu_words.py,gpu_torch.py} "$work/tree/bench/"
mkdir -p "$work/tree/tests/simt"
vectors=$work/tree/tests/simt/mma_vectors.txt
ln -s "$source/tests/simt/mma_vectors.txt" "$vectors"

cat >"$work/bin/nvidia-smi" <<'END'
#!/usr/bin/env bash
case $* in
-L) [ -z "${SECOND:-}" ] || echo "GPU 1: NVIDIA H100 80GB HBM3 (UUID: other)"; echo "GPU 0: NVIDIA H100 80GB HBM3 (UUID: none)" ;;
*compute_cap*) echo "${CARD:-9.0}" ;;
*) echo "${NAME:-NVIDIA H100 80GB HBM3}" ;;
esac
END
cat >"$work/bin/nvcc" <<'END'
#!/usr/bin/env bash
case $1 in --list-gpu-code) printf 'sm_%s\n' 80 86 89 90 ;; *) echo "release 12.4" ;; esac
END
cat >"$work/bin/cmake" <<'END'
#!/usr/bin/env bash
case $* in
*-S*) echo "$@" >"$WORK/configured" ;;
*help*) printf '... %s\n' ${TARGETS:-weft_cuda bench_step}; for i in {1..20000}; do echo "... another_target_$i"; done ;;
*)
    mkdir -p build/gpu/bin
    [[ -z ${BROKEN:-} || $* != *$BROKEN* ]] || exit 1
    while [ "$1" != --target ]; do shift; done
    while shift && [ "$1" != -- ]; do ln -sf "$WORK/program" "build/gpu/bin/$1"; done
    ln -sf "$WORK/program" build/gpu/bin/libweft_cuda.so
    ;;
esac
END
cat >"$work/program" <<'END'
#!/usr/bin/env bash
head="{\"card\":\"${NAME:-NVIDIA H100 80GB HBM3}\",\"exact\":false,\"serial\":false}"
case $0 in
*gpu_probe_simt) exec "$PROBE" ;;
*gpu_probe) "$PROBE" "$@" | sed "${WRONG:-}"; exit "${PIPESTATUS[0]}" ;;
*gpu_ops) echo "note: FP8 weights: products of 64 rows may use cuBLASLt (scales for rows only)"; printf '%s\n' "${head/false/$([ "$1" = exact ] && echo true || echo false)}" \
    '{"op":"attn","shape":"decode 256 x 8192","us":2849.0}' '{"op":"launch gap","shape":"400 launches, each","us":2.0}' ;;
*bench_step) case $* in *qwen3-8b*--no-exact*) printf '%s\n' "$head" \
    '{"step":"decode 1 at 1024","shape":"qwen3-8b","exact":false,"ms":60.0}' ;; esac ;;
*gpu_sums) echo "sums of ranks: NCCL 2.28.9, in windows" ;;
*conformance) [[ -z ${BROKEN_OP:-} || $* != *"$BROKEN_OP"* ]] || exit 1 ;;
*test_golden) echo "fast: ${WEFT_TEST_FAST:-no}, serial: ${WEFT_TEST_SERIAL:-no}" ;;
*) echo "fine" ;;
esac
END
printf '#!/usr/bin/env bash\nwhile [[ $1 == --* ]]; do shift; done; echo "checked: $*"; exit 3\n' >"$work/sanitizer"
chmod +x "$work/sanitizer"
chmod +x "$work"/bin/{nvidia-smi,nvcc,cmake} "$work/program"

failed=0
# gpu CODE STAGE: runs it, with what stands in front of the call as environment, and keeps what it says.
gpu() {
    [ -n "${KEEP:-}" ] || rm -rf "$work/tree/build"
    rm -rf "$work/tree/gpu-results"
    said=$(PATH=$work/bin WORK=$work PROBE=$probe bash "$work/tree/bench/gpu.sh" --stage "$2" 2>&1)
    local code=$?
    [ $code = "$1" ] || { echo "--stage $2: exit $code, not $1, of:"; echo "$said"; failed=1; }
}
# says WORDS...: each in a line of what was said, with any number of blanks.
says() {
    local words
    for words in "$@"; do
        [[ $(tr -s ' ' <<<"$said") == *"$words"* ]] || { echo "not said: '$words', in:"; echo "$said"; failed=1; }
    done
}

gpu 0 all
says "configure ok" "build ok" "build-models ok" "probe-gpu ok" "probe-equal ok" "kernels-repeat ok" "test_golden ok" "predictions ok" \
    "predicted beside measured: NVIDIA H100" "kernels: 1 right" "steps: 1 slower" "between two launches of the host 2.00 us" \
    "summary.txt belongs into bench/results/"
[[ $said != *FAILED* ]] || { echo "something failed: $said"; failed=1; }
grep -q "kernels: 1 right" "$work/tree/gpu-results/summary.txt" || { echo "the summary has no predictions"; failed=1; }
[[ $(<"$work/configured") == *WEFT_GPU_ONLY=ON*CMAKE_CUDA_ARCHITECTURES=90a-real* ]] || { cat "$work/configured"; failed=1; }
[[ $(<"$work/configured") != *Ninja* ]] || { echo "ninja is not there"; failed=1; }

WEFT_SIMT_MMA=hopper gpu 0 first
says "build ok" "conformance ok" "conformance-fast ok" "test_golden-fast ok" "test_tinystories-serial ok" "step-qwen3-8b-fast ok" \
    "step-qwen3-30b-a3b-fast ok" "gaps-carveouts ok" "load-one-reader ok" \
    "fp8-products products of 64 rows may use cuBLASLt (scales for rows only)" "step-qwen3-8b-sectors ok" "mma-sums ok" "sums of bf16: this device follows 25 bits toward zero" \
    "ops-graphs ok" "counters skipped: ncu is not here" "predictions ok" "sanitizer-memcheck skipped" "others ms"
[[ $said != *FAILED* ]] || { echo "something failed: $said"; failed=1; }
for line in "fast: no, serial: no" "fast: 1, serial: no" "fast: no, serial: 1"; do
    grep -qx "$line" "$work/tree/gpu-results/logs.txt" || { echo "no golden run with $line"; failed=1; }
done
WEFT_SIMT_MMA=hopper WRONG='s/^sums of f16: this device .*/sums of f16: no rule fits/' KEEP=1 gpu 0 first
says "build the programs of an earlier build run on this card" "conformance-fast ok" "sums of f16: no rule fits"
rm "$vectors"
ln -s "$work/sanitizer" "$work/bin/compute-sanitizer"
BROKEN_OP=attn gpu 1 first
says "conformance FAILED (1)" "conformance-fast FAILED (1)" "finding: sanitizer-memcheck ended with 3" "test_golden-exact ok" \
    "mma-sums ok" "finding: mma-sums ended with 2"
grep -q "^checked: .*conformance cuda .*attn few --fast" "$work/tree/gpu-results/logs.txt" || { echo "attn was not checked"; failed=1; }
grep -q "^checked: .*conformance cuda .*pool" "$work/tree/gpu-results/logs.txt" && { echo "pool was checked"; failed=1; }
rm "$work/bin/compute-sanitizer"

SECOND=1 gpu 0 ranks
says "start ok" "golden-exact ok" "sums-fast ok" "sums-fast-one-communicator ok" "sums-fast-no-windows ok" "sums-exact ok" \
    "tp2-fast ok" "tp2-fast-no-windows ok" "tp2-fast-no-meets ok" "tp2-fast-one-communicator ok" \
    "sums of ranks: NCCL 2.28.9, in windows"
KEEP=1 gpu 0 ranks
says "build the programs of an earlier build run on this card" "start skipped: fewer than two GPUs here"

WRONG='s/^mma_f16 7 .*/mma_f16 7 01234567/' gpu 1 test
says "probe-equal FAILED (1)" "mma_f16: 1 words are wrong; 7: 01234567, the emulator has" "test_tinystories ok"
CARD=12.0 gpu 0 test
[[ $(<"$work/configured") == *CMAKE_CUDA_ARCHITECTURES=90-virtual* ]] || { cat "$work/configured"; failed=1; }
NAME="NVIDIA B200" gpu 0 bench # cards.json lacks it
says "predictions skipped: nothing is predicted for NVIDIA B200, cards.json has NVIDIA H100" "ops-fast ok"
[[ $said != *FAILED* && $(grep -c "nothing is predicted" "$work/tree/gpu-results/summary.txt") = 1 ]] || { echo "no clean skip: $said"; failed=1; }
TARGETS="weft_cuda" gpu 1 all
says "build-models skipped: pkg-config finds no jansson here" "test_golden skipped: pkg-config finds no jansson" "steps: none was measured"
TARGETS="gpu_probe" gpu 1 test
says "configure FAILED"
BROKEN=bench_step gpu 1 test
says "build-models FAILED (1)" "conformance ok" "test_golden skipped: test_golden was not built"
rm "$work/bin/python3"
gpu 1 all
says "probe-equal skipped: python3 is not here" "predictions skipped: python3 is not here" "conformance ok"
rm "$work/bin/nvidia-smi"
if [ ! -e /dev/nvidia0 ]; then
    gpu 77 all
    says "no GPU here: everything is built" "no nvidia-smi here" "probe-emulated ok" "probe-gpu skipped: no GPU here"
    [[ $said != *belongs* ]] || { echo "a summary without a card is kept: $said"; failed=1; }
    gpu 0 build
fi
rm "$work/bin/make"
gpu 1 test
says "neither ninja nor make is here"
exit $failed

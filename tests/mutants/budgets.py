# Faults that cost time and change no result, which the budgets of the hot kernels find; the form stands in tests/mutants.py.
FAULTS = [
    ("predictions forget what registers allow", "bench/gpu_model/predict.py", "", "card[\"registers\"] // registers, ", "", "predictions_documented"),
    ("predictions merge for nothing", "bench/gpu_model/predict.py", "", "self.finished(own + merge, ", "self.finished(own, ", "predictions_documented"),
    ("parts of a small product lie on the same banks", "kernels/cuda/gemm_small.cu", "shared_at", "return o ^ (o >> 5 & 3u) << 3;", "return o;", "kernel_budgets"),
    ("the whole record is copied each step", "runtime/model/step.c", "step_build", "step_layout_pack(out, private_bytes);", "(void)private_bytes;", "kernel_budgets"),
    ("what became cheaper keeps its old budget", "tests/ptx/budgets.py", "", "elif falls and value < budget * (1 - ALLOWED):", "elif value < 0:", "budgets_judged"),
]

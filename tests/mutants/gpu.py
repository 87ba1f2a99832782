# What a card's first run rests on: bench/gpu.sh, what it configures, and what reads its words and rows; the form stands in tests/mutants.py.
FAULTS = [
    ("nothing stands in for cmocka", "bench/gpu.cmake", "", "if(NOT CMOCKA_FOUND)", "if(NOT CMOCKA_FOUND AND PKG_CONFIG_FOUND)", "test_configure"),
    ("a long list of targets breaks the pipe", "bench/gpu.sh", "", '--target help >"$build/targets" && grep -qw weft_cuda "$build/targets"', '--target help | tee "$build/targets" | grep -qw weft_cuda', "gpu_script"),
    ("the code of 90a is looked for by its whole name", "bench/gpu.sh", "", 'grep -x "sm_${arch%%[a-]*}" >/dev/null', 'grep -x "sm_${arch%-real}" >/dev/null', "gpu_script"),
    ("approximate words must be the emulator's", "bench/gpu.sh", "", "python probe-equal 5 bench/gpu_words.py", "step probe-equal 5 diff", "gpu_script"),
    ("what is faster than predicted is right", "bench/gpu_model/beside.py", "", "if abs(row.seconds - time) <= error:", "if row.seconds - time <= error:", "gpu_ops_beside"),
    ("steps one after another are judged by what overlaps", "bench/gpu_model/beside.py", "", 'if not head.get("serial"):', "if True:", "gpu_ops_beside"),
    ("a launch of the host is a kernel's time", "bench/gpu_model/beside.py", "", "HOST_BOUND * apart", "0 * apart", "gpu_ops_beside"),
    ("H100 multiplies faster than its peak", "bench/gpu_model/cards.json", "", '"mma_cycles": [6.36, "hopper"]', '"mma_cycles": [3.18, "hopper"]', "gpu_ops_beside"),
    ("any function may be off", "bench/gpu_words.py", "", "emulated == card or name not in BOUNDS", "emulated == card", "gpu_words"),
    ("a word that is missing is right", "bench/gpu_words.py", "", 'other == "nothing" or not same', 'other != "nothing" and not same', "gpu_words"),
    ("nvcc 12.4 is asked for sm_120", "kernels/cuda/architectures.cmake", "", "if(version VERSION_GREATER_EQUAL 12.8)", "if(version VERSION_GREATER_EQUAL 12.4)", "test_configure"),
]

# Faults of the interpreter of PTX (tests/ptx): one a line, sorted by file; the form stands in tests/mutants.py.
FAULTS = [
    ("a field that ends over the top has no sign", "tests/ptx/alu.c", "field_of", "from + count - 1 < width - 1 ? from + count - 1 : width - 1", "from + count - 1", "test_opcodes"),
    ("a shift of two words goes the other way", "tests/ptx/alu.c", "pair_shifted", "left ? both << by >> 32 : both >> by", "left ? both >> (32 - by) : both << by >> 32", "test_opcodes"),
    ("what arithmetic makes keeps its sign and payload", "tests/ptx/alu.c", "settled", "x != x ? canonical : x", "x", "test_opcodes"),
    ("no number is 0 as 64 bits", "tests/ptx/alu.c", "u64_of", "isnan(x) ? (uint64_t)1 << 63 :", "", "test_opcodes"),
    ("a maximum that passes NaN on drops it", "tests/ptx/alu.c", "", "isnan(x[l]) || isnan(y[l]) ? NAN : larger(x[l], y[l])", "larger(x[l], y[l])", "test_opcodes"),
    ("a row of the table runs another's function", "tests/ptx/alu.c", "", "{\"setp.gtu.f32\", \"p44\", setp_gtu_f32, 0}", "{\"setp.gtu.f32\", \"p44\", setp_gt_f32, 0}", "test_opcodes"),
    ("a special register may be written", "tests/ptx/forms.c", "fits", "sized && !x->special", "sized", "test_interpreter"),
    ("a load may be wider than its register", "tests/ptx/forms.c", "least_bytes", "least[0] = least[1] = a->bytes;", "least[0] = least[1] = 0;", "test_interpreter"),
    ("a conversion may read too narrow a register", "tests/ptx/forms.c", "least_bytes", "least[1] = type.bytes;", "", "test_interpreter"),
    ("the order of atom.max is that of signed numbers", "tests/ptx/memory.c", "", "ATOMIC(atom_max_u32, uint32_t, y[l] > x ?", "ATOMIC(atom_max_u32, uint32_t, (int32_t)y[l] > (int32_t)x ?", "test_opcodes"),
    ("a label may stand twice", "tests/ptx/read.c", "jumps_settle", "strcmp(b->labels[n - 1].name, b->labels[n].name) == 0", "false", "test_interpreter"),
    ("an offset is cut to 32 bits", "tests/ptx/read.c", "address_read", "sum != (int32_t)sum", "false", "test_interpreter"),
]

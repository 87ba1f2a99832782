# Faults of kernels/ but kernels/cuda (tests/simt/mutants.py): one a line, sorted by file; the form
# stands in tests/mutants.py.
FAULTS = [
    ("attention over few queries reads keys past the last one", "kernels/cpu/attn_few.inc", "attn_few_run", "few_keys(&few, at, left < ATTN_TILE_KEYS ? left : ATTN_TILE_KEYS)", "few_keys(&few, at, ATTN_TILE_KEYS)", "test_cpu_edges"),
    ("a NaN in a group of bytes is rounded away", "kernels/cpu/bytes.h", "byte_scale", "top / 127.0f + poison", "top / 127.0f + 0 * top", "test_cpu_weight"),
    ("blocks of int8 are not turned", "kernels/cpu/bytes.h", "byte_turn", "byte_walsh(x);", "", "test_cpu_weight"),
    ("a constant block of int8 is not spread", "kernels/cpu/bytes.h", "byte_sign", "pairs ^ pairs >> 2 ^ pairs >> 4", "pairs & 0", "test_cpu_weight"),
    ("scales of weights are those of the first group", "kernels/cpu/bytes.inc", "tile_bytes", "column += SLAB_COLUMNS", "column += 0", "conformance_cpu gemm"),
    ("AVX2 rounds half of bfloat16 up", "kernels/cpu/lanes_avx2.h", "half_to_bf16", "_mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF))", "_mm256_add_epi32(_mm256_and_si256(odd, _mm256_setzero_si256()), _mm256_set1_epi32(0x8000))", "test_cpu_edges"),
    ("AMX adds a group of integers twice", "kernels/cpu/level_amx.c", "bytes_high", "if (g > 0)\n            group_add(walk, g - 1, room[(g - 1) % 2], 32);", "if (g > 0)\n            group_add(walk, g - 1, room[g % 2], 32);", "conformance_tiles gemm"),
    ("tanh loses what is no number", "kernels/cpu/lanes_math.inc", "lanes_tanh", "lanes_min(lanes_set(1.0f), size)", "lanes_set(1.0f)", "conformance_cpu activate"),
    ("a rows op without an upper end for its last chunk", "kernels/cpu/op_rows.c", "rows_chunk", "job->rows - first < job->each ? job->rows : first + job->each", "first + job->each", "conformance_cpu rms_norm"),
    ("relu loses what is no number", "kernels/cpu/rows.inc", "", "lanes_max(lanes_zero(), v)", "lanes_max(v, lanes_zero())", "conformance_cpu activate"),
    ("of equal logits the later token is the first", "kernels/cpu/sample.inc", "top_insert", "list[at - 1].logprob < item.logprob", "list[at - 1].logprob <= item.logprob", "conformance_cpu sample"),
    ("of equal log-probabilities at rank k the last is listed", "kernels/cpu/sample.inc", "sampler_top", "value <= list[count - 1].logprob", "value < list[count - 1].logprob", "test_cpu_edges"),
    ("mass of the last bin counts twice", "kernels/cpu/sample.inc", "nucleus_find", "n->before -= n->mass[last];", "", "test_cpu_edges"),
    ("a ticket without the job's number", "kernels/cpu/ticket.h", "ticket_publish", "(uint64_t)number << 32 | chunks", "(uint64_t)chunks + 0 * number", "test_ticket"),
    ("the last block of int8 keeps its signs when it is turned", "kernels/cpu/turn.inc", "lanes_signs", "lanes_if_bit(0x8777, minus, one)", "sign", "conformance_cpu gemm"),
    ("counts of tokens run over", "kernels/cpu/sample.inc", "", "if ((*seen & 0x7FFFu) < 0x7FFFu) ++*seen;", "++*seen;", "conformance_cpu sample"),
    ("streams that begin are of one age", "kernels/cpu/turns.c", "turns_join", "++turns->given", "turns->given", "test_cpu_turns"),
    ("an overdue stream is not waited for", "kernels/cpu/turns.c", "turns_call", "m->waits || overdue", "m->waits", "test_cpu_turns"),
    ("a stream is overdue a turn late", "kernels/cpu/turns.c", "turns_call", "turns->given - m->last >= busy", "turns->given - m->last > busy", "test_cpu_turns"),
    ("an idle stream is waited for", "kernels/cpu/turns.c", "turns_call", "m->more && turns->given", "turns->given", "test_cpu_turns"),
]

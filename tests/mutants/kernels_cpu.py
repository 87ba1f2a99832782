# Faults of kernels/ but kernels/cuda (tests/simt/mutants.py): one a line, sorted by file; the form
# stands in tests/mutants.py.
FAULTS = [
    ("a rows op without an upper end for its last chunk", "kernels/cpu/op_rows.c", "rows_chunk", "job->rows - first < job->each ? job->rows : first + job->each", "first + job->each", "conformance_cpu rms_norm"),
    ("of equal logits the later token is the first", "kernels/cpu/sample.inc", "top_insert", "list[at - 1].logprob < item.logprob", "list[at - 1].logprob <= item.logprob", "conformance_cpu sample"),
    ("streams that begin are of one age", "kernels/cpu/turns.c", "turns_join", "++turns->given", "turns->given", "test_cpu_turns"),
    ("an overdue stream is not waited for", "kernels/cpu/turns.c", "turns_call", "m->waits || overdue", "m->waits", "test_cpu_turns"),
    ("a stream is overdue a turn late", "kernels/cpu/turns.c", "turns_call", "turns->given - m->last >= busy", "turns->given - m->last > busy", "test_cpu_turns"),
    ("an idle stream is waited for", "kernels/cpu/turns.c", "turns_call", "m->more && turns->given", "turns->given", "test_cpu_turns"),
]

# Faults of kernels/ but kernels/cuda (tests/simt/mutants.py): one a line, sorted by file; the form
# stands in tests/mutants.py.
FAULTS = [
    ("a rows op without an upper end for its last chunk", "kernels/cpu/op_rows.c", "rows_chunk", "job->rows - first < job->each ? job->rows : first + job->each", "first + job->each", "conformance_cpu rms_norm"),
    ("of equal logits the later token is the first", "kernels/cpu/sample.inc", "top_insert", "list[at - 1].logprob < item.logprob", "list[at - 1].logprob <= item.logprob", "conformance_cpu sample"),
]

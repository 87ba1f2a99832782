#!/usr/bin/env python3
"""Plants faults in the real kernels, one at a time, and reports which mode of the emulator catches each.

The sources are copied to a scratch folder and built there; the checkout is never changed. Attention,
products and loading are judged by test_simt_kernels in all three modes, the other ops by the
conformance walk (plain and race), the primitives by test_emulator, the device's promises and the
library's products by tests of their own, bank conflicts by the counts of the race mode. A mode is built
and run only where the ones before it have missed (--every: always). A fault that no mode catches fails
the run, unless it stands in ALLOWED with the reason. Prints a Markdown table. --jobs (2): so many copies are
judged in, side by side.

  tests/simt/mutants.py [--scratch FOLDER] [--words TEXT] [--part I/N] [--modes plain,asan,race]
                        [--every] [--jobs N] [--table FILE]
"""
import argparse
import pathlib
import re
import signal
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import plant  # noqa: E402

# The program that tests the fault; otherwise the judge is an op of the conformance walk.
KERNELS, EMULATOR, DEVICE, BLAS, ACCESS, LIFE, COMM = "test_simt_kernels", "test_emulator", "test_simt_device", \
    "test_simt_blas", "test_simt_access", "test_simt_life", "test_simt_comm"
PROGRAMS = (KERNELS, EMULATOR, DEVICE, BLAS, ACCESS, LIFE, COMM)
C = "kernels/cuda/"
SECONDS, SECONDS_AFTER = 600, 30  # a judge that takes longer, or so long after its first report, is stuck

# (what, file, function, old text, new text, judge), sorted by file; how a text is found: tests/plant.py
MUTANTS = [
    ("plan: few wide rows are one item a KV head", "kernels/attn_plan.c", "narrow_most_of", "few && many_keys ? most : ATTN_TILE_ROWS", "few && !many_keys ? most : ATTN_TILE_ROWS", KERNELS),
    ("plan: the tiles of a row share their parts' states", "kernels/attn_plan.c", "narrow_add", "work->partial_count += count * p->shape->kv_heads;", "work->partial_count += (uint32_t)(tile + 1 == tiles) * count * tiles * p->shape->kv_heads;", KERNELS),
    ("plan: the last part is not planned", "kernels/attn_plan.c", "row_pieces", "pieces[1] = divide_round_up(row->kv_len, tokens);", "pieces[1] = row->kv_len / tokens;", KERNELS),
    ("activate: relu loses what is no number", C + "activate.cu", "activated", "x > 0.0f ? x : 0.0f * x", "fmaxf(x, 0.0f)", "activate"),
    ("activate: a row's last slice is that of whole blocks", C + "activate.cu", "flat_grid", "divide_up(width, 8 * FLAT_THREADS)", "width / (8 * FLAT_THREADS) + (width < 8 * FLAT_THREADS)", "activate"),
    ("attention: a kernel gets a plan of another's wide items", C + "attn.cu", "attn_kernels_of", "return two ? &attn_d96 : &attn_d96_small;", "return &attn_d128;", "attn"),
    ("attention: cards of little shared memory get wide blocks of 128 rows", C + "attn.cu", "attn_kernels_of", "device->shared_most >= 2 * ATTN_SHARED_WIDE", "device->shared_most >= ATTN_SHARED_WIDE", KERNELS),
    ("attention: result read by other lanes without warp_sync", C + "attn.h", "tile_store", "warp_sync(); uint32_t chunk = lane % 8", "uint32_t chunk = lane % 8", KERNELS),
    ("attention: 128 bytes of shared memory too few", C + "attn.h", "attn_launch", "attn_shared<F>(dim), stream,", "attn_shared<F>(dim) - 128, stream,", KERNELS),
    ("attention: all KV heads merge when those of the first are there", C + "attn.h", "", "part_last(run, item.merge * a.shape.kv_heads + w.kv_head, merge.parts)", "part_last(run, item.merge, merge.parts)", KERNELS),
    ("attention: parts begin where those of exact mode would", C + "attn.h", "", "uint32_t begin = part_of(item) * run.work->part_tokens;", "uint32_t begin = part_of(item) * ATTN_PART_TOKENS;", KERNELS),
    ("attention: a graph of many heads has no narrow items", C + "attn.h", "attn_typed", "many && !cut ? 0", "many ? 0", KERNELS),
    ("attention: causal mask off by one", C + "attn_math.h", "tile_mask", "key >= hi[e >> 1]", "key > hi[e >> 1]", KERNELS),
    ("attention: window off by one", C + "attn_math.h", "attn_lo", "? p + 1 - s.window : 0", "? p + 2 - s.window : 0", KERNELS),
    ("attention: sum not rescaled to the new maximum", C + "attn_math.h", "tile_softmax", "st->sum[h] = fmaf(st->sum[h], keep[h], sum);", "st->sum[h] = add_rn(st->sum[h], sum);", KERNELS),
    ("attention: rescaled only where the first half of the rows needs it", C + "attn_math.h", "tile_softmax", "keep[0] != 1.0f || keep[1] != 1.0f", "keep[0] != 1.0f", KERNELS),
    ("attention: the second query tile reads the first one's rows", C + "attn_math.h", "tile_scores", "t * ATTN_TILE_ROWS * 128 +", "0 * ATTN_TILE_ROWS * 128 +", KERNELS),
    ("attention: a merge begins before the last part is there", C + "attn_parts.h", "part_last", "return shfl_idx(before, 0) + 1 == parts;", "return shfl_idx(before, 0) + 2 == parts;", KERNELS),
    ("attention: the count of parts is not zero for the next launch", C + "attn_parts.h", "part_last", "if (before + 1 == parts) run.arrived[merge] = 0;", "", KERNELS),
    ("attention: parts arrive without release", C + "attn_parts.h", "part_last", "atom_add_acqrel_gpu(&run.arrived[merge], 1)", "atom_add(&run.arrived[merge], 1u)", KERNELS),
    ("merge: the maximum of earlier parts is forgotten after 32", C + "attn_parts.h", "parts_weigh", "first != 0 ? weights->max[turn][row] : -INFINITY", "-INFINITY", "attn"),
    ("merge: a part is weighed by the maximum after it", C + "attn_parts.h", "parts_weigh", "lane > 0 ? last : before", "top", KERNELS),
    ("merge: weights are read before all are there", C + "attn_parts.h", "merge_run", "first, merge.parts); warp_sync();", "first, merge.parts);", KERNELS),
    ("merge: a tile's rows are the first ones", C + "attn_parts.h", "merge_store", "w.first_row + at / dim", "at / dim", KERNELS),
    ("merge: parts read from other places", C + "attn_parts.h", "parts_fold", "m->from[k] += stride;", "m->from[k] += stride / 2;", KERNELS),
    ("merge: rows beyond the first four places are not reached", C + "attn_parts.h", "merge_run", "from < all; from += most", "from < most; from += most", KERNELS),
    ("attention: another row's block table", C + "attn_tile.h", "kv_offset", "(size_t)w.row.slot * a.blocks_max", "(size_t)0 * a.blocks_max", KERNELS),
    ("attention: fragments read without the swizzle", C + "attn_tile.h", "lane_row", "((odd ^ (row & 7u)) << 4)", "(odd << 4)", KERNELS),
    ("attention: tail of the last tile off by one", C + "attn_tile.h", "share_issue", "first + group + row + i < end", "first + group + row + i <= end", KERNELS),
    ("attention: all keys of a tile come from its first block", C + "attn_tile.h", "share_issue", "WHOLE || first + group < end ? first + group : first;", "WHOLE ? first : first + group < end ? first + group : first;", KERNELS),
    ("attention: a tile that lacks its last key is whole", C + "attn_tile.h", "tile_issue", "first + ATTN_TILE_KEYS <= w.row.kv_len", "first + ATTN_TILE_KEYS <= w.row.kv_len + 1", KERNELS),
    ("attention: barrier after the keys' wait missing", C + "attn_walk.h", "part_run", "cp_async_wait<1>(); block_sync<F>(); if (seen) tile_scores", "cp_async_wait<1>(); if (seen) tile_scores", KERNELS),
    ("attention: values' wait one group too weak", C + "attn_walk.h", "part_run", "cp_async_wait<1>(); block_sync<F>(); if (seen) tile_values", "cp_async_wait<2>(); block_sync<F>(); if (seen) tile_values", KERNELS),
    ("attention: keys overwritten before all warps have read them", C + "attn_walk.h", "part_run", "tile_scores<F>(s, at, dim_of<F>(a)); block_sync<F>();", "tile_scores<F>(s, at, dim_of<F>(a));", KERNELS),
    ("attention: values overwritten before all warps have read them", C + "attn_walk.h", "part_run", "at.values, dim_of<F>(a)); block_sync<F>();", "at.values, dim_of<F>(a));", KERNELS),
    ("attention: a warp's second query tile is masked as the first", C + "attn_walk.h", "part_run", "tile_mask<F>(run, w, s[t], t, tile)", "tile_mask<F>(run, w, s[t], 0, tile)", KERNELS),
    ("attention: a tile that needs its mask goes without", C + "attn_walk.h", "tile_whole", "tile + ATTN_TILE_KEYS <= attn_hi(s, r.first, kv_len)", "tile + ATTN_TILE_KEYS <= attn_hi(s, r.first, kv_len) + 1", KERNELS),
    ("attention: a warp skips the tile of its last key", C + "attn_walk.h", "tile_seen", "tile < attn_hi(s, r.last, kv_len)", "tile + 1 < attn_hi(s, r.last, kv_len)", KERNELS),
    ("attention: two empty parts in front are no number", C + "attn_walk.h", "fold_weights", "*keep = before == *max ? 1.0f : ex2(add_rn(before, -*max));", "*keep = ex2(add_rn(before, -*max));", "attn"),
    ("attention: walked parts folded without rescaling", C + "attn_walk.h", "walk_fold", "mul_rn(keep[i % 4 / 2], scratch[32 * i])", "scratch[32 * i]", KERNELS),
    ("attention: a window over a part's length is cut from its start", C + "attn_walk.h", "walk_run", "(from / ATTN_PART_TOKENS + 1) * ATTN_PART_TOKENS", "from + ATTN_PART_TOKENS", KERNELS),
    ("products: alignment not told to the library", C + "blas.c", "blas_gemm", "key.x_align = alignment_of(args->x);", "key.x_align = 256;", BLAS),
    ("products: a plan keeps a layout", C + "blas.c", "plan_close", "if (plan->y) (void)cublasLtMatrixLayoutDestroy(plan->y);", "", LIFE),
    ("products: a plan keeps the bias of its first layer", C + "blas.c", "blas_gemm", "if (!bias_set(plan, args)) return STATUS_DEVICE_FAULT;", "", BLAS),
    ("early: the library's product counts as a kernel of a step", C + "blas.c", "plan_run", "stream->after_kernel = false;", "", BLAS),
    ("products: the wide kernel serves where the small one was chosen", C + "blas.c", "plan_run", "way->by == BY_SMALL ?", "way->by == BY_WIDE ?", BLAS),
    ("products: a bucket takes another one's choice", C + "blas_cache.c", "tuned_find", "memcmp(&blas->tuned[i].key, key, sizeof *key) == 0", "memcmp(&blas->tuned[i].key.n, &key->n, sizeof *key - 4) == 0", BLAS),
    ("product file: a damaged record is believed", C + "blas_cache.c", "file_read", "record.sum != record_sum(&record) ||", "", BLAS),
    ("product file: another card's choices are believed", C + "blas_cache.c", "file_read", "else if (memcmp(&head, &want, sizeof head) != 0)", "else if (head.record_bytes != want.record_bytes)", BLAS),
    ("product file: not made anew", C + "blas_cache.c", "tuned_read", "device->options.note(line); file_write(blas);", "device->options.note(line);", BLAS),
    ("products: of two weights of an arena given back one stays known", C + "blas_tune.c", "blas_weight_gone", "device->known[i--] =", "device->known[i] =", BLAS),
    ("products: candidates are timed as they are launched bare", C + "blas_tune.c", "candidate_time", "graph_launch(stream, graph) == STATUS_OK && call_status(cudaEventRecord(blas->end", "plan_run(stream, plan, args) == STATUS_OK && call_status(cudaEventRecord(blas->end", BLAS),
    ("products: a candidate's code is loaded while it is recorded", C + "blas_tune.c", "candidate_record", "enum status status = plan_run(stream, plan, args); if (status == STATUS_OK) status = graph_begin(stream);", "enum status status = graph_begin(stream);", BLAS),
    ("products: a bucket first met in a step is timed there", C + "blas_tune.c", "blas_choose", "|| stream->tune_ms <= 0)", ")", BLAS),
    ("products: a bucket first met in a capture is timed there", C + "blas_tune.c", "blas_choose", "tuned || stream->capturing ||", "tuned ||", BLAS),
    ("products: the slowest way wins", C + "blas_tune.c", "plan_tune", "ms < least", "ms > least", BLAS),
    ("products: our kernels are no candidates", C + "blas_tune.c", "plan_tune", "count += own_ways(bucket, way + count);", "", BLAS),
    ("products: our kernels are timed with what tensor cores do not multiply", C + "blas_tune.c", "own_ways", "if (key->x_dtype == DTYPE_F32) return 0;", "", BLAS),
    ("products: the small kernel is timed for any rows", C + "blas_tune.c", "own_ways", "if (key->rows <= TIMED_SMALL_MAX)", "", BLAS),
    ("products: the wide kernel is timed for any rows", C + "blas_tune.c", "own_ways", "if (key->rows >= TIMED_WIDE_MIN)", "", BLAS),
    ("products: of a kept choice only the library's are taken", C + "blas_tune.c", "tuned_take", "if (plan->way.by != BY_LIBRARY) return true;", "if (plan->way.by != BY_LIBRARY) return false;", BLAS),
    ("products: all choices are told to be the library's", C + "blas_tune.c", "ways_note", "by[blas->plan[i].way.by]++;", "by[BY_LIBRARY]++;", BLAS),
    ("products: the time of a start has no end", C + "blas_tune.c", "blas_tune", "stream->tune_ms = 0;", "", BLAS),
    ("products: a start times without bound", C + "blas_tune.c", "plan_tune", "stream->tune_ms -= ms > 0 ? 2 * ms : 0;", "", BLAS),
    ("products: the last bucket of a start is left out", C + "blas_tune.c", "blas_tune", "return next < most ? next : most;", "return next < most ? next : 0;", BLAS),
    ("products: buckets of many rows are not kept", C + "blas_tune.c", "blas_choose", "tuned_add(blas, &key, plan);", "if (key.rows <= TIMED_ROWS_MAX) tuned_add(blas, &key, plan);", BLAS),
    ("products: a candidate that does not run is taken", C + "blas_tune.c", "library_ways", "found[i].state == CUBLAS_STATUS_SUCCESS &&", "", BLAS),
    ("ranks: nobody asks the library how it is", C + "comm.c", "comm_watch", "status = rank_watch(comm, i, err);", "", COMM),
    ("ranks: one that records is asked how it is", C + "comm.c", "comm_watch", "stream != own && !stream->capturing", "stream != own", COMM),
    ("ranks: who aborts waits for NCCL", C + "comm.c", "comm_abort", "comm->aborting = pthread_create(&comm->aborter, NULL, ranks_abort, comm) == 0;", "ranks_abort(comm); comm->aborting = pthread_create(&comm->aborter, NULL, (void *(*)(void *))free, NULL) == 0;", COMM),
    ("ranks: one that stays in a call is not aborted", C + "comm.c", "rank_leave", "if (--*wait_ms < 0) return;", "", COMM),
    ("ranks: one that was aborted in a call makes the next", C + "comm.c", "", "comm_aborted((stream)->comm) ? STATUS_DEVICE_FAULT :", "false ? STATUS_DEVICE_FAULT :", COMM),
    ("ranks: an aborted communicator is closed once more", C + "comm.c", "comm_close", "if (!comm_aborted(comm))", "if (true)", COMM),
    ("ranks: two are on one GPU", C + "comm.c", "streams_check", "j < i; j++", "j + 1 < i; j++", COMM),
    ("early: a kernel begins early behind a collective", C + "comm.c", "collective_begin", "stream->after_kernel = false;", "", COMM),
    ("ranks: a piece of the sums goes to the first one's place", C + "comm.c", "sums_make", "(char *)args->out + at * dtype_bytes(args->act)", "(char *)args->out + 0 * at * dtype_bytes(args->act)", "all_reduce"),
    ("ranks: every piece sends the first one's numbers", C + "comm.c", "sums_make", "const float *in = args->in + at;", "const float *in = args->in;", "all_reduce"),
    ("ranks: exact mode lets the library add", C + "comm.c", "sums_make", "stream->device->exact ? args->ranks : 1", "1", COMM),
    ("ranks: columns are sent to the first rank's place", C + "comm.c", "columns_send", "room + (size_t)args->rows * gather_first(args, r)", "room", "all_gather"),
    ("ranks: the last rank sends no columns", C + "comm.c", "columns_send", "r < args->ranks && status == STATUS_OK", "r + 1 < args->ranks && status == STATUS_OK", "all_gather"),
    ("ranks: ranks without columns leave the others alone", C + "comm.c", "cuda_all_gather", "if (status != STATUS_OK || needed == 0)", "if (status == STATUS_OK && gather_count(args, stream->rank) == 0) return collective_end(stream, status); if (status != STATUS_OK || needed == 0)", "all_gather"),
    ("ranks: the library takes the largest instead of the sum", C + "nccl.h", "", "ncclSum = 0", "ncclSum = 2", COMM),
    ("ranks: the first GPUs are joined", C + "comm.c", "comm_open", "devices[i] = (int)streams[i]->device->options.index;", "devices[i] = (int)i;", COMM),
    ("ranks: nobody asks the GPU of another rank", C + "comm.c", "comm_watch", "status = stream_ask(stream, &idle, err);", ";", COMM),
    ("ranks: who waits is named for the rank that failed", C + "comm.c", "comm_watch", "i, comm->size", "own->rank, comm->size", COMM),
    ("ranks: a close does not wait for the abort", C + "comm.c", "comm_close", "pthread_join(comm->aborter, NULL);", ";", COMM),
    ("ranks: nobody aborts where no thread starts", C + "comm.c", "comm_close", "ranks_abort(comm); // its thread", ";// its thread", COMM),
    ("ranks: a group ends for ranks that are gone", C + "comm.c", "columns_send", "NCCL_CALL(stream, nccl->GroupEnd())", "nccl_status(nccl->GroupEnd())", COMM),
    ("ranks: columns that have no room are gathered", C + "comm.c", "cuda_all_gather", "needed > room ? STATUS_INVALID :", "false ? STATUS_INVALID :", COMM),
    ("ranks: pieces of a sum lie as far apart as float32", C + "comm.c", "sums_make", "(char *)args->out + at * dtype_bytes(args->act)", "(char *)args->out + at * sizeof(float)", "all_reduce"),
    ("ranks: a stream keeps the communicator that is closed", C + "comm.c", "comm_close", "rank->stream->comm = NULL;", "", COMM),
    ("ranks: a sum of other ranks than are joined", C + "comm.c", "collective_begin", "|| stream->comm->size != ranks", "", COMM),
    ("ranks: a communicator goes while a graph is launched", C + "device.c", "graph_launch", "comm_lock(stream); if", "if", COMM),
    ("device: \"not ready\" stays the last error", C + "device.c", "stream_ask", "if (code == cudaErrorNotReady) error_forget();", "if (code == cudaErrorNotReady) {}", DEVICE),
    ("device: a refused allocation stays the last error", C + "device.c", "memory_take", "error_forget(); *out = NULL; return error_set(err, STATUS_NO_MEMORY, \"%zu bytes of device", "*out = NULL; return error_set(err, STATUS_NO_MEMORY, \"%zu bytes of device", DEVICE),
    ("device: memory that could not be cleared is kept", C + "device.c", "memory_take", "(void)cudaFree(*out);", "", LIFE),
    ("device: what was recorded is kept", C + "device.c", "graph_end", "(void)cudaGraphDestroy(recorded);", "", LIFE),
    ("device: an event of the staging buffers is kept", C + "device.c", "device_close", "if (device->staging_free[i]) (void)cudaEventDestroy(device->staging_free[i]);", "", LIFE),
    ("device: a card of compute capability 7 is taken", C + "device.c", "device_choose", "if (major < 8)", "if (major < 7)", LIFE),
    ("device: zeros not waited for", C + "device.c", "memory_take", "NULL)) == cudaSuccess) code = cudaStreamSynchronize(NULL);", "NULL)) == cudaSuccess) code = cudaSuccess;", DEVICE),
    ("device: an upload not waited for", C + "device.c", "upload", "code = cudaStreamSynchronize(NULL);", "code = cudaSuccess;", DEVICE),
    ("device: a thread's own device is used", C + "device.c", "device_current", "if (cudaSetDevice((int)device->options.index) != cudaSuccess) error_forget();", "if (device == NULL) error_forget();", DEVICE),
    ("device: a card without code is not refused", C + "device.c", "device_open", "if (status == STATUS_OK) status = device_try(device, err);", "", DEVICE),
    ("device: words are compared in order", C + "device.c", "word_reached", "(int32_t)(__atomic_load_n(word, __ATOMIC_ACQUIRE) - value) >= 0", "__atomic_load_n(word, __ATOMIC_ACQUIRE) >= value", DEVICE),
    ("device: pinned memory is not zeroed", C + "device.c", "host_take", "memset(*out, 0, bytes);", "", DEVICE),
    ("device: what a walk keeps is as wide as at 64", C + "device.c", "stream_bytes_of", "attn_kernels_of(device, dim)->walk_floats", "attn_kernels_of(device, 64)->walk_floats", DEVICE),
    ("device: a wait has no deadline", C + "device.c", "stream_wait", "if (patience_ends(&patience))", "if (patience_ends(&patience) && false)", DEVICE),
    ("early: a kernel begins early behind a copy", C + "device.c", "copy_in", "stream->after_kernel = false;", "", DEVICE),
    ("early: a graph's first kernel begins early", C + "device.c", "graph_begin", "stream->after_kernel = false;", "", DEVICE),
    ("early: the switch is not read", C + "device.c", "early_choose", "device->early && !device->options.serial", "device->early", DEVICE),
    ("device: after a recording grids stay whole", C + "device.c", "graph_end", "stream->capturing = stream->after_kernel = false;", "stream->after_kernel = false;", KERNELS),
    ("products: exact mode takes what was tuned", C + "device.c", "stream_fill", "stream->device->exact ? STATUS_OK : blas_open(", "stream->device->exact && false ? STATUS_OK : blas_open(", BLAS),
    ("products: weights that went are timed", C + "device.c", "memory_give", "blas_weight_gone(device, at, bytes);", "", BLAS),
    ("ranks: a graph of aborted ranks is launched", C + "device.c", "graph_launch", "!comm_aborted(stream->comm)", "true", COMM),
    ("ranks: the library takes no memory", C + "device.c", "device_needs", "if (device->options.ranks != 0) need_add(out, \"NCCL\", NCCL_BYTES);", "", COMM),
    ("ranks: what aborted ranks leave behind is believed", C + "device.c", "ranks_ask", "if (comm_aborted(stream->comm))", "if (false)", COMM),
    ("early: no kernel waits", C + "early.h", "grid_begin", "grid_wait();", "", "embed"),
    ("early: weights are prefetched past their end", C + "early.h", "prefetch_of", "/ PREFETCH_LINE;", "/ PREFETCH_LINE + 64;", "swiglu"),
    ("embedding: another rank's row is read beside the table", C + "embed.cu", "embed_kernel", "if (row < a.words.rows)", "row = row < a.words.rows ? row : a.words.rows - 1;", "embed"),
    ("embedding: a rank's table begins at the first row", C + "embed.cu", "embed_kernel", "(uint32_t)a.token[t] : 0) - a.first;", "(uint32_t)a.token[t] : 0);", "embed"),
    ("positions past the table are the last row", C + "embed.cu", "embed_bert_kernel", "place < a.positions.rows ? place : 0", "place < a.positions.rows ? place : a.positions.rows - 1", "embed_bert"),
    ("int8 weights: the sign is not taken back", C + "gemm.h", "weight8", "loaded.y ^ 0x80808080u", "loaded.y ^ 0x00808080u", KERNELS),
    ("early: a small product reads its tokens before it waits", C + "gemm_small.cu", "gemm_small_kernel", "grid_begin();", "uint32_t ahead = ((const uint32_t *)g.x)[0]; grid_begin(); if (ahead == 0xFFFFFFFFu) return;", "gemm"),
    ("small product: barrier before the parts are added missing", C + "gemm_small.cu", "gemm_small_kernel", "cta_sync(); for (int i = 0; i < (TILES + 1) / 2; i++) { uint32_t o", "for (int i = 0; i < (TILES + 1) / 2; i++) { uint32_t o", KERNELS),
    ("small product: shared memory reused without a barrier", C + "gemm_small.cu", "gemm_small_kernel", "} cta_sync(); }", "} }", KERNELS),
    ("small product: wrong row stride", C + "gemm_small.cu", "small_rows_of", "(size_t)(lo < g.n ? lo : g.n - 1) * g.stride", "(size_t)(lo < g.n ? lo : g.n - 1) * g.k", KERNELS),
    ("small product: rows of weights past the last are read", C + "gemm_small.cu", "small_rows_of", "(hi < g.n ? hi : g.n - 1)", "hi", KERNELS),
    ("small product: slabs past the last element are read as whole ones", C + "gemm_small.cu", "small_sum", "!g.whole ? 0 : end < g.k ? end : g.k;", "!g.whole ? 0 : end;", KERNELS),
    ("small product: parts read where none was put", C + "gemm_small.cu", "gemm_small_kernel", "shared[w][shared_at(o)]", "shared[w][o]", KERNELS),
    ("small product: bank conflicts", C + "gemm_small.cu", "shared_at", "return o ^ (o >> 5 & 3u) << 3;", "return o;", ACCESS),
    ("wide product: wait one group too weak", C + "gemm_wide.cu", "gemm_wide_kernel", "cp_async_wait<WIDE_STAGES - 2>();", "cp_async_wait<WIDE_STAGES - 1>();", KERNELS),
    ("wide product: barrier after the wait missing", C + "gemm_wide.cu", "gemm_wide_kernel", "cp_async_wait<WIDE_STAGES - 2>(); cta_sync();", "cp_async_wait<WIDE_STAGES - 2>();", KERNELS),
    ("wide product: parts not cut (order only)", C + "gemm_wide.cu", "gemm_wide_kernel", "part + steps_of_part < steps ? part + steps_of_part : steps;", "steps;", KERNELS),
    ("wide product: one row too many", C + "gemm_wide.cu", "share_of", "(at < rows ? at : rows - 1)", "(at <= rows ? at : rows)", KERNELS),
    ("wide product: the last whole slab is left out", C + "gemm_wide.cu", "gemm_wide_kernel", "if (s < whole)", "if (s + 1 < whole)", KERNELS),
    ("wide product: columns past the last are read", C + "gemm_wide.cu", "share_copy", "share->k < k;", "share->k < k + WIDE_K;", KERNELS),
    ("wide product: the oldest stage is taken for the free one", C + "gemm_wide.cu", "gemm_wide_kernel", "shared + free_at, g.k", "shared + now, g.k", KERNELS),
    ("wide product: bank conflicts", C + "gemm_wide.cu", "wide_at", "(byte ^ swapped * wide_row<W>::SLAB)", "byte", ACCESS),
    ("wide product: refused shared memory is the next launch's fault", C + "gemm_wide.cu", "wide_launch", "enum status status = call_status(SHARED_ALLOW((gemm_wide_kernel<T, W>), shared)); if (status != STATUS_OK) return status;", "if (SHARED_ALLOW((gemm_wide_kernel<T, W>), shared) != cudaSuccess) return STATUS_DEVICE_FAULT;", DEVICE),
    ("plain product: tokens lie along y", C + "gemm_wide.cu", "gemm_plain", "grid(divide_up(p.g.rows, 4), divide_up(p.g.n, 8));", "grid(divide_up(p.g.n, 8), divide_up(p.g.rows, 4));", DEVICE),
    ("row sums: shared memory reused without a barrier", C + "lane.h", "row_sum", "cta_sync(); if (threadIdx.x % 32 == 0) shared[warp] = x;", "if (threadIdx.x % 32 == 0) shared[warp] = x;", "layer_norm"),
    ("row sums: read before all warps have written", C + "lane.h", "row_sum", "shared[warp] = x; cta_sync();", "shared[warp] = x;", "rms_norm"),
    ("loader: a tensor is read from the start of its block", C + "loader.c", "piece_read", "*data = (size_t)(first - begin);", "*data = 0;", LIFE),
    ("loader: the last block of a file is not read", C + "loader.c", "piece_read", "(first + bytes + DIRECT_ALIGN - 1) / DIRECT_ALIGN * DIRECT_ALIGN", "(first + bytes) / DIRECT_ALIGN * DIRECT_ALIGN", LIFE),
    ("loader: files stay open", C + "loader.c", "loader_put", "(void)close(direct);", "(void)direct;", LIFE),
    ("loader: a row of bytes too long is staged", C + "loader.c", "source_check", "> STAGING_BYTES)", "> 2 * STAGING_BYTES)", LIFE),
    ("loader: pieces from the third on go to later rows", C + "loader.c", "rows_put", "args->first_row = first + row;", "args->first_row += row + 0 * first;", KERNELS),
    ("loader: missing event wait, pinned buffer reused early", C + "loader.c", "rows_put", "= call_status(cudaEventSynchronize(device->staging_free[buffer_at]));", "= device->staging_free[buffer_at] != NULL ? STATUS_OK : STATUS_INVALID;", KERNELS),
    ("loader: a range of columns begins with the tensor's first", C + "loader.c", "rows_gather", "weight_source_at(source, first + r) * each", "(uint64_t)(first + r) * source->stride * each", LIFE),
    ("loader: a range of rows is read from the tensor's first", C + "loader.c", "rows_put", "uint64_t at = weight_source_at(source, row) * dtype_bytes(source->dtype);", "uint64_t at = row * row_bytes;", LIFE),
    ("early: blocks without a row leave before they wait", C + "norm.cu", "rms_kernel", "grid_begin(); if (r >= a.rows) return;", "if (r >= a.rows) return; grid_begin();", "rms_norm"),
    ("rms norm: one element in eight forgotten", C + "norm.cu", "rms_kept", "for (int i = 0; i < 8; i++) squares = fmaf(v[k][i], v[k][i], squares);", "for (int i = 0; i < 7; i++) squares = fmaf(v[k][i], v[k][i], squares);", "rms_norm"),
    ("rms norm: a thread's second eight elements are the first", C + "norm.cu", "rms_kept", "uint32_t at = first + k * step < a.width ? first + k * step : first;", "uint32_t at = first;", "rms_norm"),
    ("rms norm: of a wide row one element in eight forgotten", C + "norm.cu", "rms_walked", "for (int i = 0; i < 8; i++) squares = fmaf(v[i], v[i], squares);", "for (int i = 0; i < 7; i++) squares = fmaf(v[i], v[i], squares);", "rms_norm"),
    ("pooling: the token before the last", C + "pool.cu", "pool_kernel", "uint32_t first = a.args.kind == POOL_LAST ? s.last_token", "uint32_t first = a.args.kind == POOL_LAST ? s.last_token - 1", "pool"),
    ("pooling: a mean takes what is to be left out", C + "pool.cu", "pool_kernel", "mean ? row.pool & STEP_POOL_FROM : 0", "0", "pool"),
    ("pooling: raw vectors are normalised", C + "pool.cu", "pool_kernel", "|| (row.pool & STEP_POOL_RAW)", "", "pool"),
    ("early: code for older cards is launched early", C + "prep.cu", "early_ask", "facts.ptxVersion >= 90", "facts.ptxVersion >= 80", DEVICE),
    ("prep: the last member of a newcomer is not copied", C + "prep.cu", "prep_state", "i < sizeof(sample_params) / 4;", "i + 2 < sizeof(sample_params) / 4;", "prep"),
    ("prep: penalty counts before the row is cleared", C + "prep.cu", "prep_state", "row[i] = 0; cta_sync();", "row[i] = 0;", "prep"),
    ("prep: a count of outputs runs over", C + "prep.cu", "prep_state", "if (before >= 0x7FFFu)", "if (before > 0xFFFFu)", "prep"),
    ("prep: a prompt is counted by the first 256 tokens", C + "prep.cu", "prep_state", "i < newcomer->history_prompt; i += 256", "i < newcomer->history_prompt; i += 65536", "prep"),
    ("prep: block-table changes past 256 are lost", C + "prep.cu", "cuda_prep", "divide_up(args->change_count, 256)", "(args->change_count != 0)", "prep"),
    ("prep: ended rows still write their KV", C + "prep.cu", "prep_rows", "a.state.done[row.slot] != 0) writes = false;", "a.state.done[row.slot] == 7) writes = false;", "prep"),
    ("prep: a listed row leaves its first token to be fed", C + "prep.cu", "prep_rows", "j + 1 == row.q_len", "j == 0", "prep"),
    ("qkv_post: pairs past a lane's first are not turned", C + "qkv_post.cu", "post_rotate", "cosine[k] = i < half ?", "cosine[k] = k > 0 ? 1.0f : i < half ?", "qkv_post"),
    ("qkv_post: rows without a place write to the first block", C + "qkv_post.cu", "qkv_post_kernel", "if (place == UINT64_MAX) return;", "if (place == UINT64_MAX) place = 0;", "qkv_post"),
    ("ranks: any version of the library is taken", C + "nccl.c", "version_check", "version >= NCCL_OLDEST", "version > 0", COMM),
    ("ranks: an old number is read as a new one", C + "nccl.c", "version_check", "version < 10000 ? 1000 : 10000", "10000", COMM),
    ("ranks: a sum leaves out the last part", C + "ranks.cu", "ranks_add_kernel", "r < a.parts; r++", "r + 1 < a.parts; r++", "all_reduce"),
    ("ranks: parts of a sum lie one element too near", C + "ranks.cu", "ranks_add_kernel", "(size_t)r * a.count + i", "(size_t)r * (a.count - 1) + i", "all_reduce"),
    ("ranks: rows of columns follow without what lies beside them", C + "ranks.cu", "columns_put_kernel", "(size_t)row * a.args.stride + column", "(size_t)row * a.args.ends[a.args.ranks - 1] + column", "all_gather"),
    ("ranks: columns of a rank are read as if all had one width", C + "ranks.cu", "columns_put_kernel", "(size_t)row * a.count[rank] +", "(size_t)row * a.count[0] +", "all_gather"),
    ("sampling: rows lie along y", C + "sample.cu", "cuda_sample", "grid(args->count, run.chunks);", "grid(run.chunks, args->count);", DEVICE),
    ("sampling: state changed while other warps read it", C + "sample.cu", "sample_finish", "cta_sync(); // all have read the parameters that commit changes", "", "sample"),
    ("sampling: end ids of later chunks are not banned", C + "sample.cu", "sample_process", "if ((uint32_t)p.stop_ids[i] - base < count)", "if ((uint32_t)p.stop_ids[i] < count)", "sample"),
    ("sampling: a forced end id ends before the least outputs", C + "sample.cu", "sample_commit", " || p->output_count <= p->output_min", "", "sample"),
    ("sampling: the least outputs end with the one before them", C + "sample.cu", "sample_commit", "p->output_count <= p->output_min", "p->output_count < p->output_min", "sample"),
    ("sampling: every chunk has the mask of the first", C + "sample.cu", "sample_process", "mask_allows(mask, token)", "mask_allows(mask, i)", "sample"),
    ("sampling: bans win over the mask", C + "sample.cu", "sample_finish", "row.banned != 0 ? mask_of", "row.banned > 1u ? mask_of", "sample"),
    ("sampling: a row that a mask drops is drawn", C + "sample.cu", "sample_finish", "if (mask && mask_is_empty(mask, run.mask_words, pairs))", "if (false)", "sample"),
    ("sampling: the first words of a mask drop a row", C + "sample.cu", "mask_is_empty", "i < words; i += 256", "i < words && i < 256; i += 256", "sample"),
    ("early: a row is read before its kernel waits", C + "sample.cu", "sample_draw", "grid_begin(); sample_decision row = run.row[n];", "sample_decision row = run.row[n]; grid_begin();", "sample"),
    ("sampling: four tokens share one word", C + "sample.cu", "sample_draw", "gumbel_noise(words.word[k])", "gumbel_noise(words.word[0])", "sample"),
    ("sampling: a list of tops ends with a thread's first", C + "sample.cu", "tops_write", "if (threadIdx.x == owner) mine = next;", "if (threadIdx.x == owner) mine.id = NOBODY;", "sample"),
    ("sampling: counts of tokens run over", C + "sample.cu", "sample_commit", "if ((*seen & 0x7FFFu) != 0x7FFFu)", "", "sample"),
    ("sampling: vocabulary padding not masked", C + "sample.h", "chunk_count", "return vocab - base < most ? vocab - base : most;", "return base < vocab ? most : 0;", "sample"),
    ("radix select: the last logit is counted for those past it", C + "sample_select.cu", "select_count", "i < vocab ? in[i] : -INFINITY", "in[i < vocab ? i : vocab - 1]", "sample"),
    ("radix select: counted while bins are cleared", C + "sample_select.cu", "select_count", "shared->low[i] = shared->high[i] = 0; cta_sync();", "shared->low[i] = shared->high[i] = 0;", "sample"),
    ("radix select: sums of mass lose their carry", C + "sample_select.cu", "bin_add", "high += before + low < low;", "", "sample"),
    ("radix select: weight above the digit kept", C + "sample_select.cu", "select_threshold", "target -= shared->before;", "target -= 0;", "sample"),
    ("radix select: segments of other bins", C + "sample_select.cu", "select_segments", "bin_weight(shared, first + 32)", "bin_weight(shared, first + 31)", "sample"),
    ("radix select: a mass that rounds to nothing filters nothing", C + "sample_select.cu", "select_threshold", "target = target != 0 ? target : 1;", "", "sample"),
    ("last arriver: release removed", "tests/simt/probe.cu", "probe_blocks", "last[0] = atom_add_acqrel_gpu(counter, 1u);", "last[0] = atom_add(counter, 1u);", EMULATOR),
    ("weights: random pieces lie over one another", C + "weights.cu", "weight_fill", "p.first_row = args->first_row;", "", LIFE),
    ("weights: a NaN in a row of bytes is lost", C + "weights.cu", "put_rows", "top / 127.0f + poison", "top / 127.0f + 0.0f * (poison != poison)", LIFE),
    ("weights: pieces of a vector in float16 lie over one another", C + "weights.cu", "put_vector", "p.half[p.first_row + i]", "p.half[i]", BLAS),
    ("weights: random columns of a range follow one another", C + "weights.cu", "put_at", "(uint64_t)row * p.from_stride + col", "(uint64_t)row * p.cols + col", LIFE),
]
# Faults that no mode can detect, with the reason.
ALLOWED = {"sampling: state changed while other warps read it":
           "equivalent today: the compiler reads only fields that the commit leaves alone"}


def run(command, **kw):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **kw)


def is_report(line):
    return line.startswith("simt: ") and " cases, " not in line


def judge_run(command):
    """(exit status, lines); a fault may stop it for good: it ends soon after it has reported something."""
    lines, after = [], None
    with subprocess.Popen(["timeout", str(SECONDS)] + command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace") as process:
        for line in process.stdout:
            lines.append(line)
            if is_report(line) and not after:
                after = threading.Timer(SECONDS_AFTER, process.terminate)  # timeout ends with what it runs
                after.start()
    if after:
        after.cancel()
    return process.returncode, lines


def verdict(command):
    """('caught', why) or ('missed', '')."""
    try:
        status, said = judge_run(command)
    except OSError as e:
        return "missed", str(e)
    if status == 0:
        return "missed", ""
    lines = [l for l in said if is_report(l)]
    if any("AddressSanitizer" in l for l in said):
        return "caught", "ASan"
    if lines:
        text = re.split(r" at \S+:\d", lines[0].split(": ", 2)[-1].split(" [block")[0])[0]
        return "caught", text[:60]
    if status in (-signal.SIGKILL, 128 + signal.SIGKILL):
        return "killed: is there memory for all copies?", ""
    return "caught", "stuck" if status == 124 else "value"


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
    plant.copy_tree(ROOT, source, ("base/", "kernels/", "tests/simt/", "tests/conformance/", "bench/"))
    top = (ROOT / "CMakeLists.txt").read_text().split("foreach(room")[0]
    top += "".join(f"add_subdirectory({p})\n" for p in ("base", "kernels", "tests/conformance", "tests/simt"))
    (source / "CMakeLists.txt").write_text(top)
    build = scratch / "build"
    out = run(["cmake", "-S", str(source), "-B", str(build), "-G", "Ninja", "-DWEFT_SIMT_MODES=plain;asan;race",
               *plant.launchers()])
    if out.returncode != 0:
        sys.exit(out.stdout)
    return source, build


def make(build, targets, jobs):
    return run(["ninja", "-C", str(build), f"-j{jobs}", *targets], env=plant.shared_cache(build.parents[1]))


def check_clean(judges, places, args):
    """Nothing may fail without a fault, in any place."""
    for _, build in places:
        out = make(build, sorted({t for j in judges for t in targets_of(j, args.modes)}), args.jobs)
        if out.returncode != 0:
            sys.exit(out.stdout[-3000:])

    def failure(place):
        for judge in judges:
            for mode, commands in tests_of(judge, place[1] / "bin").items():
                if mode in args.modes and verdict(commands[0])[0] != "missed":
                    return f"{judge} in mode {mode} fails without any fault"
        return None

    plant.must_be_clean(places, failure)


def judge_one(mutant, source, build, args):
    _, file, function, text, replacement, judge = mutant
    result = {}
    try:
        with plant.Planted(source, file, function, text, replacement):
            for mode, commands in tests_of(judge, build / "bin").items():
                if mode not in args.modes:
                    continue
                out = make(build, targets_of(judge, [mode]), 1)
                if out.returncode != 0:
                    return {mode: ("does not build", out.stdout[-200:])}
                result[mode] = verdict(commands[0])
                if result[mode][0] == "caught" and not args.every:
                    break
        return result
    except plant.Stale as stale:
        return {mode: (f"stale: {stale}", "") for mode in args.modes}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scratch", default="/tmp/weft-mutants")
    parser.add_argument("--words", default="", help="only faults that have this text anywhere")
    parser.add_argument("--part", default="", help="I/N: every N-th fault from the I-th")
    parser.add_argument("--first", type=int, default=1, help="row to begin with")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--modes", default="plain,asan,race")
    parser.add_argument("--every", action="store_true", help="also the modes after the first that catches")
    parser.add_argument("--table")
    args = parser.parse_args()
    args.modes = args.modes.split(",")
    chosen = plant.part_of([m for m in MUTANTS if any(args.words in text for text in m)], args.part)[args.first - 1:]
    if not chosen:
        sys.exit("no fault has these words")
    places = [prepare(pathlib.Path(args.scratch).resolve() / str(i)) for i in range(min(args.jobs, len(chosen)))]
    check_clean(sorted({m[5] for m in chosen}), places, args)
    rows, missed = [], []
    results = plant.judged(chosen, places, lambda place, mutant: judge_one(mutant, *place, args))
    for number, (mutant, result) in enumerate(results, args.first):
        cells = []
        for mode in ("plain", "asan", "race"):
            word, why = result.get(mode, ("-", ""))
            cells.append(why if word == "caught" else word)
        rows.append(f"| {number} | {mutant[0]} | " + " | ".join(cells) + " |")
        if not any(v[0] == "caught" for v in result.values()):
            if mutant[0] in ALLOWED:
                rows[-1] = rows[-1].replace("missed", f"missed ({ALLOWED[mutant[0]]})", 1)
            else:
                missed.append(mutant[0])
        print(rows[-1], flush=True)
    table = "| # | planted fault | plain | asan | race |\n| --- | --- | --- | --- | --- |\n" + "\n".join(rows)
    if args.table:
        pathlib.Path(args.table).write_text(table + "\n")
    print(f"{len(rows)} faults, {len(missed)} missed by every mode: {missed}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Plants faults into the scheduler, one at a time, and tells which program finds each.

  tests/sim/mutate.py [--part I/N] [--jobs N] [seeds [words]]    from anywhere; needs gcc; nothing in the
                                                                 tree is changed
`words`: only faults whose description has them; --part: every N-th from the I-th; --jobs (2): so many copies of
the sources are judged in, side by side. Of a fault only the objects are made anew that its file is part of.

A fault that nothing finds makes the script fail.
"""
import argparse
import concurrent.futures
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import plant  # noqa: E402

GRAMMAR = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "runtime/grammar").glob("*.c"))
COMMON = ["base/status.c", "base/arena.c", "base/hash.c", "base/random.c", "base/utf8.c", "base/waker.c",
          "runtime/model/batch.c", "runtime/model/group.c", *GRAMMAR]
PROGRAMS = {
    "test_ring": ["tests/base/test_ring.c"],
    "sim": ["tests/sim/sim.c", "tests/sim/client.c", "tests/sim/grammars.c",
            "tests/sim/invariants.c", "tests/sim/fake_worker.c"],
    "test_plan": ["tests/scheduler/test_plan.c", "tests/scheduler/rig.c"],
    "test_engine": ["tests/scheduler/test_engine.c", "tests/scheduler/rig.c"],
    "test_interleave": ["tests/scheduler/test_interleave.c"],
    "test_newcomers": ["tests/scheduler/test_newcomers.c", "tests/scheduler/rig.c"],
    "test_mask_crowds": ["tests/scheduler/test_mask_crowds.c", "tests/scheduler/rig.c"],
    "test_mask_turns": ["tests/scheduler/test_mask_turns.c"],
    "test_mask_wakes": ["tests/scheduler/test_mask_wakes.c"],
    "test_masks": ["tests/scheduler/test_masks.c", "tests/scheduler/rig.c"],
    "test_mask_work": ["tests/scheduler/test_mask_work.c", "tests/scheduler/rig.c"],
    "test_blocks": ["tests/scheduler/test_blocks.c"],
    "test_parts": ["tests/scheduler/test_parts.c", "tests/scheduler/rig.c"],
    "test_pace": ["tests/scheduler/test_pace.c", "tests/scheduler/rig.c"],
    "test_cache": ["tests/scheduler/test_cache.c", "tests/scheduler/rig.c"],
    "test_copies": ["tests/scheduler/test_copies.c", "tests/scheduler/rig.c"],
    "test_choices": ["tests/scheduler/test_choices.c", "tests/scheduler/rig.c"],
    "test_park": ["tests/scheduler/test_park.c", "tests/scheduler/rig.c"],
    "test_settle": ["tests/scheduler/test_settle.c", "tests/scheduler/rig.c"],
    "test_prompts": ["tests/scheduler/test_prompts.c", "tests/scheduler/rig.c"],
    "test_port_stress": ["tests/scheduler/test_port_stress.c", "tests/scheduler/rig.c"],
}

# (what, file, function, old text, new text), sorted by file; how a text is found: tests/plant.py
FAULTS = [
    ("a step has no room for prompts beside next tokens", "runtime/model/model.h", "", "sequences + (sequences + 2) / 3", "sequences + 1"),
    ("an entry is published without release", "base/ring.h", "ring_publish", "head + 1, memory_order_release", "head + 1, memory_order_relaxed"),
    ("an entry is looked at without acquire", "base/ring.h", "ring_peek", "&ring->head, memory_order_acquire", "&ring->head, memory_order_relaxed"),
    ("an entry is given back without release", "base/ring.h", "ring_take", "tail + 1, memory_order_release", "tail + 1, memory_order_relaxed"),
    ("a flag stays up", "base/flag.h", "flag_lower", "exchange_explicit(flag, 0,", "exchange_explicit(flag, 1,"),
    ("evicted block stays in the table", "scheduler/blocks.c", "block_take", "lru_remove(blocks, id); prefix_drop(blocks, id);", "lru_remove(blocks, id);"),
    ("a slow reader is given up after half a minute", "scheduler/internal.h", "STALL_NS", "60000000000u", "30000000000u"),
    ("an engine without work lets others wait", "scheduler/engine.c", "step_run", "model_more(engine->model, planned);", "model_more(engine->model, true);"),
    ("a failed engine lets others wait", "scheduler/engine.c", "engine_fail", "model_drop(engine->model); model_more(engine->model, false);", "model_drop(engine->model);"),
    ("an engine goes on when its device failed under another", "scheduler/engine.c", "engine_step", "== GATE_FAILED;", "== GATE_FAILED && false;"),
    ("an engine that ends lets others wait", "scheduler/engine.c", "engine_run", "model_more(engine->model, false);", ""),
    ("parked sequences are not counted", "scheduler/engine.c", "gauges_set", "stat_set(&stats->sequences_parked, engine->parked_count);", ""),
    ("a finished choice finishes again on cancel", "scheduler/events.c", "request_end", "if (choice_finished(r, choice)) continue;", ""),
    ("a parked choice that was cancelled leaves its request waiting", "scheduler/events.c", "choice_end", "if (r->run.wait_key && !sequence_waits(r))", "if (false)"),
    ("flag raised without the news", "scheduler/events.c", "event_push", "if (flag_raise(&ring->in_ready)) number_push(&port->ready, number);", "if (flag_raise(&ring->in_ready) && number != 3) number_push(&port->ready, number);"),
    ("the reader's minute begins in the queue", "scheduler/events.c", "event_push", "r->run.progress_ns = engine->now_ns;", ";"),
    ("choices of a later prompt draw other numbers", "scheduler/fill.c", "params_fill", ": s->number % r->asked.choice_count,", ": s->number,"),
    ("raw vectors of a request are normalised", "scheduler/fill.c", "row_fill", "s->request->asked.pool_raw ?", "false ?"),
    ("equal prompts without a seed draw the same numbers", "scheduler/fill.c", "params_fill", "r->asked.prompts_differ ?", "false ?"),
    ("cached tokens of a prompt count for each choice", "scheduler/fill.c", "prompt_noted", "*word |= bit;", ""),
    ("next tokens count as prompt tokens", "scheduler/fill.c", "row_fill", "if (row->fed) {", "stat_add(&engine->stats.prompt_tokens_computed, row->fed); if (row->fed) {"),
    ("output count of a resumed sequence", "scheduler/fill.c", "params_fill", ".output_count = s->output_count,", ".output_count = 0,"),
    ("a penalty of the port is not told to the device", "scheduler/fill.c", "params_fill", ".presence = p->presence,", ""),
    ("the device has the first eight stop ids", "scheduler/fill.c", "stops_fill", "i < r->asked.stop_id_count;", "i < r->asked.stop_id_count && i < 8;"),
    ("history without outputs", "scheduler/fill.c", "newcomer_fill", "newcomer->history_output = s->output_count;", "newcomer->history_output = 0;"),
    ("a choice that is cancelled ends its request", "scheduler/intake.c", "choices_end", "choice_end(engine, r, 64 * i + (uint32_t)__builtin_ctzll(left), FINISH_CANCEL);", "{ request_end(engine, r, FINISH_CANCEL); return true; }"),
    ("a choice is cancelled after its end", "scheduler/intake.c", "choices_end", "left &= ~r->run.finished[i];", ""),
    ("a paused choice is never cancelled", "scheduler/intake.c", "request_stalled", "if (engine->now_ns - progress_ns >= STALL_NS)", "if (false)"),
    ("deadline of a running request", "scheduler/intake.c", "due_take", "bool late = !r->run.started;", "bool late = r->asked.deadline_ns != 0;"),
    ("a started request keeps its deadline", "scheduler/fill.c", "started_note", "due_drop(&engine->due, r);", ""),
    ("all biases begin where the first do", "scheduler/fill.c", "newcomer_fill", ".bias_at = batch->bias_count", ".bias_at = 0"),
    ("all histories begin where the first does", "scheduler/fill.c", "newcomer_fill", "newcomer->history_at = batch->history_count;", "newcomer->history_at = 0;"),
    ("outputs of a resumed history are its prompt", "scheduler/fill.c", "newcomer_fill", "newcomer->history_prompt = s->prompt_len;", "newcomer->history_prompt = sequence_known(s);"),
    ("a history is followed by the next at the end of its prompt", "scheduler/fill.c", "newcomer_fill", "batch->history_count += known;", "batch->history_count += s->prompt_len;"),
    ("the prefix cache counts the hits of the last prompt alone", "scheduler/fill.c", "started_note", "stat_add(&engine->stats.prefix_hits, from);", "stat_set(&engine->stats.prefix_hits, from);"),
    ("what a request had cached is that of its last prompt", "scheduler/fill.c", "started_note", "stat_add(&r->marks.cached_tokens, from);", "stat_set(&r->marks.cached_tokens, from);"),
    ("prompts are looked up without a cache", "scheduler/fill.c", "started_note", "if (!engine->options.prefix_cache || !engine->sharing)", "if (!engine->sharing)"),
    ("prompt 65 is counted with the first", "scheduler/fill.c", "prompt_noted", "r->run.noted[prompt / 64]", "r->run.noted[0]"),
    ("a mixed step is one of next tokens only", "scheduler/fill.c", "batch_fill", "plan->prefill_count == 0", "plan->decode_count > 0"),
    ("a reader that went on is given up", "scheduler/intake.c", "request_stalled", "!= r->run.tail_seen)", "== UINT32_MAX)"),
    ("a late notice ends the next life of its number", "scheduler/intake.c", "port_notices", "if (atomic_load_explicit(&r->cancel, memory_order_relaxed))", "if (true)"),
    ("a notice is lowered after the look", "scheduler/intake.c", "port_notices", "flag_lower(&r->in_notices);", ""),
    ("a cancel looks at every request", "scheduler/intake.c", "port_notices", "news = true;", "news = true; for (struct request *o = engine->live_first, *after; o; o = after) { after = o->run.live_next; if (o != r && atomic_load(&o->cancel)) request_end(engine, o, FINISH_CANCEL); }"),
    ("a due time sinks past an earlier one", "scheduler/due.c", "entry_settle", "child++;", ";"),
    ("what follows a removed item keeps it", "scheduler/list.h", "LIST_REMOVE", "*((item)->next ? &(item)->next->previous : &(last)) = (item)->previous;", ";"),
    ("cancel forgotten before intake", "scheduler/intake.c", "port_take", "if (atomic_load_explicit(&r->cancel, memory_order_relaxed)) request_end(engine, r, FINISH_CANCEL); else", "if (false) ; else"),
    ("a slow reader keeps its place", "scheduler/park.c", "paused_choose", "return s;", "continue;"),
    ("a place changes hands without end in one plan", "scheduler/park.c", "paused_choose", "!plan_entry(engine, s)->drawn &&", ""),
    ("who waits for the place of one refused waits for news", "scheduler/engine.c", "step_run", "|| (engine->plan.refused && engine->queue.first)", ""),
    ("parked with a step in flight", "scheduler/park.c", "paused_choose", "s->inflight == 0 && ", ""),
    ("the one paused last gives up its place", "scheduler/park.c", "paused_choose", "engine->paused.first; s; s = s->slow_next", "engine->paused.last; s; s = s->slow_previous"),
    ("the one paused last gives up its blocks", "scheduler/plan.c", "plan_open", "plan->paused_at = engine->paused.first;", "plan->paused_at = engine->paused.last;"),
    ("who finds no room for a large cache waits for ever", "scheduler/mask_work.c", "cache_make", "fits && !cache_fits(w, true)", "!cache_fits(w, true)"),
    ("a mask is made of the state before the last token", "scheduler/mask_work.c", "row_fill", "if (!token_take(w, m)) return over_or_crowded(m);", ""),
    ("a token is accepted twice", "scheduler/mask_work.c", "row_fill", "m->token = MASK_NO_TOKEN;", "token_take(w, m); m->token = MASK_NO_TOKEN;"),
    ("rules forget the answer so far", "scheduler/mask_work.c", "rules_take", "token_rules_next(m->rules, m->rules_at, token)", "token_rules_next(m->rules, TOKEN_RULES_START, token)"),
    ("rules go on where the answer before ended", "scheduler/mask_work.c", "matcher_begin", "m->rules_at = TOKEN_RULES_START;", ""),
    ("rules that leave nothing leave all", "scheduler/mask_work.c", "rules_apply", "token_rules_row(m->rules, words);", "row_set(w, words, true);"),
    ("the mask of the row before", "scheduler/masks.c", "row_ask", "rows + (size_t)row->mask * engine->masks.words,", "rows + (size_t)(row->mask > 0 ? row->mask - 1 : 0) * engine->masks.words,"),
    ("each row of a step may build all there is", "scheduler/mask_work.c", "work_end", "w->work -= smaller(work, w->work);", ""),
    ("each row of a grammar may build all there is", "scheduler/mask_work.c", "work_end", "c->work -= smaller(work, c->work);", ""),
    ("what a step may build is for all steps", "scheduler/mask_work.c", "step_begin", "if (step != w->step)", "if (w->step == 0)"),
    ("a row has no work of its own", "scheduler/mask_work.c", "work_begin", "smaller(limits->own + smaller(c->work, w->work), limits->row)", "smaller(smaller(c->work, w->work), limits->row)"),
    ("a cache that others made small is the fault of its request", "scheduler/mask_work.c", "over_or_crowded", "(small && matcher_starved(&m->matcher))", "false"),
    ("who finds others in all caches is told to ask for less", "scheduler/mask_work.c", "cache_make", "return MASK_CROWDED;", "return MASK_OVER;"),
    ("a token that is not taken is stuck", "scheduler/mask_work.c", "row_fill", "return over_or_crowded(m);", "return MASK_STUCK;"),
    ("a step waits until a cache is destroyed", "scheduler/mask_work.c", "cache_drop", "if (w->gone_count < MASK_GONE_MAX)", "if (false)"),
    ("a step destroys the caches that it cannot put off", "scheduler/mask_work.c", "cache_make", "if (w->gone_count == MASK_GONE_MAX) return MASK_POSTPONED;", ""),
    ("caches that are not destroyed yet take no memory", "scheduler/mask_work.c", "cache_make", "if (fits && !cache_fits(w, true)) return MASK_POSTPONED;", ""),
    ("who has no share begins a walk", "scheduler/mask_work.c", "work_begin", "mask_cache_limit(c->cache, work, shares);", "mask_cache_limit(c->cache, work, true);"),
    ("what a row took is not told", "scheduler/mask_work.c", "mask_work", "w->spent[job->row] = (uint32_t)(w->shared - before);", "w->spent[job->row] = 0;"),
    ("keys are charged for what their rows have of their own", "scheduler/mask_work.c", "work_end", "work = row->shares ? work - smaller(work, w->limits.own) : 0; // its last step may go beyond w->shared += work;", "w->shared += work; work = row->shares ? work - smaller(work, w->limits.own) : 0;"),
    ("rules that leave nothing ask for a second mask", "scheduler/mask_work.c", "rules_apply", "memcpy(words, w->spare, w->words * sizeof *words);", "mask_make(w, m, words);"),
    ("a step makes any number of caches", "scheduler/mask_work.c", "cache_make", "w->work -= smaller(w->work, (uint64_t)MASK_CACHE_WORK);", ""),
    ("a row that is postponed is over", "scheduler/mask_work.c", "matcher_row", "if (limited && !work.all) return MASK_POSTPONED;", ""),
    ("a row that needs too much is postponed for ever", "scheduler/mask_work.c", "matcher_row", "if (limited && !work.all)", "if (limited)"),
    ("a postponed row forgets the token before it", "scheduler/mask_work.c", "matcher_row", "if (limited && !work.all)", "if (limited && !work.all) m->token = MASK_NO_TOKEN; if (limited && !work.all)"),
    ("the mask of a postponed row is half made", "scheduler/mask_work.c", "row_make", "row_set(w, job->words, false); // the device drops it", ";"),
    ("the device draws the token of a postponed row", "scheduler/mask_work.c", "row_make", "row_set(w, job->words, false); // the device drops it", "row_set(w, job->words, true);"),
    ("a postponed row's token is accepted once more", "scheduler/masks.c", "row_ask", "else if (s->postponed == 0)", "else"),
    ("the same rows have their masks first in each step", "scheduler/mask_turns.c", "key_rows", "for (uint32_t i = (uint32_t)(launch->round % key->count); i > 0; i--) row = next[row];", ""),
    ("who was postponed has no turn of its own", "scheduler/mask_turns.c", "key_rows", "rows_sort(engine, launch, rows, key->count, postponed_before);", ""),
    ("rows of a key take turns, not its requests", "scheduler/mask_turns.c", "key_rows", "rows_sort(engine, launch, rows, key->count, turn_before);", ""),
    ("keys are not charged for their masks", "scheduler/mask_turns.c", "mask_turns_spend", "t->keys[key].spent += work;", ""),
    ("a key that comes has all turns that it did not take", "scheduler/mask_turns.c", "key_begin", "key->spent = larger(key->spent, t->now);", ";"),
    ("a key that waited and left saves up turns", "scheduler/mask_turns.c", "key_begin", "|| key->step != t->before", ""),
    ("a key of little work holds the clock of all", "scheduler/mask_turns.c", "mask_turns_spend", "t->now = larger(t->now, t->keys[key].began);", "t->now = t->turn[0]->began;"),
    ("the key that spent most comes first", "scheduler/mask_turns.c", "key_begin", "t->turn[at - 1]->spent > key->spent", "t->turn[at - 1]->spent < key->spent"),
    ("a key goes before one whose rows wait for the step before", "scheduler/masks.c", "masks_ask", "if (!all && row->key != key) break;", ""),
    ("a postponed token is kept", "scheduler/settle.c", "row_settle", "if (row->postponed) { sequence_settled(engine, s); return; }", ""),
    ("a postponed row needs a new sampling record", "scheduler/sequence.c", "sequence_postpone", "s->planned_len--;", "s->planned_len--; s->fed = s->on_device = false;"),
    ("a postponed row counts as a prompt", "scheduler/sequence.c", "sequence_postpone", "s->planned_len--;", "s->planned_len--; s->fed = false;"),
    ("a postponed row skips a place", "scheduler/sequence.c", "sequence_postpone", "s->planned_len--;", ""),
    ("a postponed token is waited for", "scheduler/sequence.c", "sequence_postpone", "s->request->run.pending--;", ""),
    ("a block that is written again is entered before", "scheduler/share.c", "share_announce", "s->planned_len - (s->planned_len == sequence_known(s) && sequence_masked(s))", "s->planned_len"),
    ("a block of a postponed row is settled before it is written again", "scheduler/settle.c", "row_settle", "row->from + row->q_len - row->postponed", "row->from + row->q_len"),
    ("a postponed row whose block is full is preempted", "scheduler/masks.c", "verdict_take", "sequence_postpone(s);", "sequence_postpone(s); if (s->shares && sequence_known(s) % engine->blocks.tokens == 0) sequence_preempt(engine, s);"),
    ("idle caches stay for ever", "scheduler/mask_work.c", "idle_over", "now_ns - c->idle_ns >= MASK_IDLE_NS", "false"),
    ("a cache that is used again is still idle", "scheduler/mask_work.c", "matcher_enter", "m->of->idle_ns = 0;", ""),
    ("large grammars stay for the caches that nobody uses", "scheduler/mask_work.c", "idle_over", "bytes > w->idle_bytes_max", "false"),
    ("caches are destroyed while a step waits", "scheduler/mask_work.c", "mask_idle", "while (!ring_peek(&w->ring, &place))", "while (ring_peek(&w->ring, &place) || true)"),
    ("a free part keeps its mask", "scheduler/mask_work.c", "mask_make", "if (m->free)", "if (false)"),
    ("an id without bytes ends a free part", "scheduler/mask_work.c", "token_take", "if (m->free && vocabulary_token(w->vocabulary, token).bytes == 0) return true;", ""),
    ("a complete answer without end ids is stuck", "scheduler/mask_work.c", "mask_make", "if (mask_is_empty(words, w->words)) return MASK_DONE;", ""),
    ("the count of a job is kept", "scheduler/mask_work.c", "matcher_enter", "grammar_give(m->grammar);", ";"),
    ("counts of jobs that nobody did are kept", "scheduler/mask_work.c", "mask_worker_empty", "grammar_give(w->job[place].grammar);", ";"),
    ("a matcher that ends stays in its cache", "scheduler/mask_work.c", "matcher_leave", "m->of->matchers--;", ""),
    ("rules without their place", "scheduler/mask_work.c", "rules_take", "m->rules_at = token_rules_next(m->rules, m->rules_at, token);", ";"),
    ("an id that ends an answer has no bytes in a budget", "scheduler/mask_work.c", "rules_take", "vocabulary_text(w->vocabulary, token)", "vocabulary_token(w->vocabulary, token)"),
    ("reasoning is opened again when its tokens are spent", "scheduler/mask_work.c", "rules_apply", "if (banned != MASK_NO_TOKEN)", "if (false)"),
    ("a budget without its place", "scheduler/mask_work.c", "rules_take", "if (budget) token_budget_next(budget, &m->budget_at, vocabulary_text(w->vocabulary, token));", ""),
    ("an answer takes the place of the one before in its budget", "scheduler/mask_work.c", "matcher_begin", "m->budget_at = token_budget_start(token_rules_budget(m->rules));", ";"),
    ("a budget wins over a grammar", "scheduler/mask_work.c", "budget_apply", "if (token == MASK_NO_TOKEN || !(words[token / 32] >> token % 32 & 1))", "if (token == MASK_NO_TOKEN)"),
    ("rules win over a grammar", "scheduler/mask_work.c", "rules_apply", "if (token_rules_apply(m->rules, m->rules_at, words)) return;", "token_rules_apply(m->rules, m->rules_at, words); return;"),
    ("a matcher that ends keeps its rules", "scheduler/mask_work.c", "matcher_leave", "token_rules_give(m->rules);", ""),
    ("a grammar that finds no cache keeps the count of its job", "scheduler/mask_work.c", "matcher_enter", "if (verdict == MASK_POSTPONED)", "if (verdict != MASK_USABLE) m->grammar = NULL; if (verdict != MASK_USABLE)"),
    ("a matcher that ends before it began keeps its grammar", "scheduler/mask_work.c", "matcher_leave", "grammar_give(m->grammar);", ";"),
    ("caches never give way", "scheduler/mask_work.c", "cache_idle", "c->matchers == 0 &&", "c->matchers > 99 &&"),
    ("a job is taken before it is done", "scheduler/mask_work.c", "mask_work", "const struct mask_job *job = &w->job[place];", "struct mask_job copy = w->job[place], *job = &copy; ring_take(&w->ring);"),
    ("a step does not wait for its masks", "scheduler/masks.c", "masks_wait", "mask_thread_wait(&engine->masks);", ";"),
    ("a free step waits for masks", "scheduler/masks.c", "masks_wait", "if (!has_masks(launch)) return;", ""),
    ("masks before the step before is settled", "scheduler/masks.c", "row_ask", "if (s->pending > 1) return false;", "if (s->pending > 1 && s->output_count == 0) return false;"),
    ("a job borrows the request's grammar", "scheduler/masks.c", "row_ask", "grammar_take(asked->grammar)", "asked->grammar"),
    ("who did not wait for a mask has saved its turn", "scheduler/mask_turns.c", "row_put", "if (r->run.mask_waited != t->before)", "if (r->run.mask_served == 0)"),
    ("the newest key gives way at masks", "scheduler/mask_turns.c", "key_take", "t->keys[i].step < oldest->step", "t->keys[i].step > oldest->step"),
    ("the last key never gives way at masks", "scheduler/mask_turns.c", "key_take", "for (uint32_t i = 1; i < t->key_count; i++)", "for (uint32_t i = 1; i + 1 < t->key_count; i++)"),
    ("a key inherits what another spent at masks", "scheduler/mask_turns.c", "row_put", "*key = (struct mask_key){.key_id = r->asked.key_id};", "key->key_id = r->asked.key_id;"),
    ("a key that waited once keeps its place for ever", "scheduler/mask_turns.c", "key_begin", "key->waits = false;", ""),
    ("only the last row of a key waits", "scheduler/mask_turns.c", "mask_turns_spend", "t->keys[key].waits || postponed", "postponed"),
    ("all rows of a request come before those of the next", "scheduler/mask_turns.c", "turn_before", "if (p != q) return p < q;", ""),
    ("a key that takes nothing moves the clock", "scheduler/mask_turns.c", "mask_turns_spend", "if (work > 0)", ""),
    ("who waits for a mask loses its turn", "scheduler/masks.c", "verdict_take", "s->request->run.mask_waited = round;", ";"),
    ("a mask that takes nothing is its request's turn", "scheduler/masks.c", "verdict_take", "if (s->postponed > 0 || engine->masks.spent[row->mask] > 0)", ""),
    ("a request that had its mask keeps its turn", "scheduler/masks.c", "verdict_take", "s->request->run.mask_served = round;", ";"),
    ("a row that was postponed is computed until its mask comes", "scheduler/sequence.h", "sequence_lacks_mask", "s->postponed > 0 && !s->mask_made", "s->postponed > 999"),
    ("a mask that was made once is there for the next row, too", "scheduler/sequence.c", "sequence_postpone", "s->mask_made = false;", ""),
    ("a row that waits has the mask of one of the step", "scheduler/masks.c", "masks_begin", "waiting[i].mask = launch->mask_count + i;", "waiting[i].mask = i;"),
    ("who waits for a mask while no row can go waits for ever", "scheduler/engine.c", "step_run", "else if (waits)", "else if (false)"),
    ("an engine rests while rows wait for masks", "scheduler/engine.c", "step_run", "planned || waits || inflight > 0", "planned || inflight > 0"),
    ("who waits longer for a mask is not asked for earlier", "scheduler/masks.c", "verdict_take", "s->postponed += verdict == MASK_POSTPONED;", ""),
    ("a row that waits is taken for one that can go", "scheduler/plan.c", "decodes_count", "&& !sequence_lacks_mask(s)", ""),
    ("a job does not say whose choice it is", "scheduler/masks.c", "row_ask", "job.request = s->request;", ""),
    ("choices of a request crowd each other", "scheduler/mask_work.c", "matcher_enter", "matcher_belong(&m->matcher, m->request);", ""),
    ("turns of copies are not counted", "scheduler/port.c", "port_turn", "turns, 1,", "turns, 0,"),
    ("a stuck choice goes on", "scheduler/masks.c", "verdict_take", "if (verdict == MASK_USABLE)", "if (verdict != MASK_DONE)"),
    ("a request that is crowded out is over", "scheduler/masks.c", "verdict_take", "stat_add(&engine->stats.grammars_crowded, verdict == MASK_CROWDED);", "stat_add(&engine->stats.grammars_crowded, verdict == MASK_OVER);"),
    ("a sequence leaves its matcher to the next of its index", "scheduler/sequence.c", "sequence_close", "masks_end(engine, s);", ""),
    ("masks wait for the step before although they need none of its tokens", "scheduler/engine.c", "step_launch", "if (status == STATUS_OK && !asked)", "if (status == STATUS_OK && launch->mask_count > 0 && engine->launched > engine->settled + 1)"),
    ("the step before is settled before the launch", "scheduler/engine.c", "step_launch", "enum status status = model_launch(", "if (!asked && step_collect(engine) == STATUS_OK) asked = masks_ask(engine, launch); enum status status = model_launch("),
    ("the turn is kept after a fault", "scheduler/engine.c", "engine_fail", "model_drop(engine->model);", ""),
    ("an end id is banned to a grammar that ends", "scheduler/settle.c", "is_end_token", "if (r->asked.grammar && vocabulary_is_end(engine->options.vocabulary, result->token)) return true;", ""),
    ("what is parked is never called back", "scheduler/intake.c", "port_notices", "parked_look(engine, r);", ";"),
    ("a choice that was cancelled in the life before is cancelled", "scheduler/port.c", "request_fill", "for (uint32_t i = 0; i < REQUEST_CHOICES_MAX / 64; i++) atomic_store_explicit(&request->cancelled[i], 0, memory_order_relaxed);", ""),
    ("room for what is parked comes without a notice", "scheduler/port.c", "port_next", "notice_send(port, request);", "waker_raise(port->gate->waker);"),
    ("parked without a second look", "scheduler/ring_credit.c", "credit_returns", "flag_raise(&r->events.paused);", ";"),
    ("parked for one token", "scheduler/ring_credit.c", "credit_returns", "r->events.ring.mask / 2", "0"),
    ("what is parked has no bound", "scheduler/park.c", "parked_trim", "engine->parked_chunks > engine->parked_chunks_max", "false"),
    ("the one parked last is cancelled", "scheduler/park.c", "parked_trim", "struct sequence *s = engine->parked.first;", "struct sequence *s = engine->parked.last;"),
    ("one that waits to come back is given up", "scheduler/park.c", "returning_set", "pause_set(engine, s, !returning);", ";"),
    ("for want of room one that comes back is cancelled before a slow one", "scheduler/park.c", "parked_trim", "while (s && !s->paused)", "while (s && s->paused)"),
    ("slow readers keep their penalty rows", "scheduler/park.c", "place_giver", "penalised && engine->penalties_free_count == 0;", "false;"),
    ("siblings take the room of what comes back", "scheduler/ring_credit.c", "credit_drawn", "if (!entry->granted) parked_stay(engine, r);", ";"),
    ("a chunk of a history is taken twice", "scheduler/settle.c", "history_append", "s->index, s->output_count, s->output_count + 1", "s->index, 0, s->output_count + 1"),
    ("blocks of the step in flight not counted", "scheduler/budget.h", "budget_lacks", "blocks_available(blocks) + blocks->releasing_count < budget", "blocks_available(blocks) < budget"),
    ("younger ones take what an older waits for", "scheduler/budget.h", "budget_keep", "budget->kept += count;", ""),
    ("an older one is preempted", "scheduler/plan.c", "victim_choose", "if (v->ticket <= s->ticket) return NULL;", "if (v == s) continue;"),
    ("next tokens not set aside", "scheduler/plan.c", "plan_open", "limits->tokens_max - decodes,", "limits->tokens_max,"),
    ("short prompts have no share", "scheduler/plan.c", "plan_open", "plan->short_most = SHORT_STEPS * plan->second_left;", "plan->short_most = 0;"),
    ("short prompts have the whole step", "scheduler/plan.c", "plan_open", "? tokens / 2 : 0", "? tokens : 0"),
    ("what is drawn ahead lives on the first half", "scheduler/plan.c", "plan_first", "s->ahead && s->state == SEQUENCE_RUNNING", "false"),
    ("a share that nobody wants is left over", "scheduler/plan.c", "plan_second", "for (uint32_t i = 0; i < engine->order_count && tokens > 0 && plan->unserved; i++) prefill_serve(engine, engine->order[i], &tokens);", ""),
    ("every prompt is short", "scheduler/plan.c", "plan_open", "plan->short_most = SHORT_STEPS * plan->second_left;", "plan->short_most = UINT32_MAX;"),
    ("a debt of one that decodes", "scheduler/plan.c", "debt_note", "s->state == SEQUENCE_RUNNING && !s->fed &&", "s->state == SEQUENCE_RUNNING &&"),
    ("a debt of one that has not started", "scheduler/plan.c", "debt_note", "s->state == SEQUENCE_RUNNING && !s->fed &&", "!s->fed &&"),
    ("blocks that nothing can match get names", "scheduler/sequence.c", "sequence_open", "engine->sharing && (engine->options.prefix_cache || r->run.draw_total > 1)", "engine->sharing"),
    ("a debt outlives its place in the order", "scheduler/sequence.c", "order_drop", "budget_owe(&engine->plan.budget, &plan_entry(engine, s)->debt, 0);", ""),
    ("blocks of a started prompt are lent", "scheduler/budget.h", "budget_owe", "budget->owed += count - *debt;", ""),
    ("a block begun before is not announced", "scheduler/share.c", "share_announce", "from / blocks->tokens; (i", "(from + blocks->tokens - 1) / blocks->tokens; (i"),
    ("a refused request is counted for a moment", "scheduler/port.c", "counters_raise", "!counter_fits(&counters->tokens, tokens, limits->tokens) ||", ""),
    ("encoder input cut", "scheduler/plan.c", "chunk_choose", "return q_len == left ? q_len : 0;", "return q_len;"),
    ("waiting for a block holds others up", "scheduler/plan.c", "plan_prefill", "if (share == SHARE_COMPUTING)", "if (share == SHARE_COMPUTING && (plan->budget.blocked = true))"),
    ("a slot is freed before anybody is chosen for it", "scheduler/plan.c", "draws_serve", "struct request *r = queue_next", "place_make(engine, false); struct request *r = queue_next"),
    ("a penalty row is freed before anybody is chosen for it", "scheduler/plan.c", "draws_serve", "struct request *r = queue_next", "place_make(engine, engine->queue.penalised > 0); struct request *r = queue_next"),
    ("a place is made in a step without a record for it", "scheduler/plan.c", "draws_serve", "if (!step_has_room(plan, r->asked.kind == REQUEST_GENERATE, penalised ? sequence_next_known(r) : 0)) return;", ""),
    ("one draw a step", "scheduler/plan.c", "draws_serve", "plan->unserved = plan->unserved || prefill_left(engine, s) > 0; }", "plan->unserved = plan->unserved || prefill_left(engine, s) > 0; break; }"),
    ("chunks are not sized by time", "scheduler/plan.c", "plan_open", "decodes > 0 && engine->cuttable", "false"),
    ("chunks do not keep up with the prompts", "scheduler/pace.c", "tokens_now", "smaller(larger(p->tokens, least), most)", "least"),
    ("chunks do not look at the median", "scheduler/pace.c", "tokens_now", "smaller(larger(p->tokens, least), most)", "larger(p->tokens, least)"),
    ("chunks do not shrink where steps overrun", "scheduler/pace.c", "planned_adapt", "overrun ? 0.75 : 1.004", "1.004"),
    ("chunks that shrank stay small", "scheduler/pace.c", "planned_adapt", "overrun ? 0.75 : 1.004", "overrun ? 0.75 : 1.0"),
    ("the first step is not measured alone", "scheduler/pace.c", "pace_tokens", "if (p->base_ns <= 0) return 0;", ""),
    ("a step after a pause is measured with the pause", "scheduler/pace.c", "pace_end", "p->began_ns = 0;", ""),
    ("a step with prompts counts as one without", "scheduler/pace.c", "pace_note", "if (step->tokens == 0) mean_add", "if (step->tokens < 99) mean_add"),
    ("the router does not look what copies have", "scheduler/port.c", "cached_count", "copies[i].cached += left >> i & 1 ? each : 0;", ""),
    ("the router makes keys under another secret", "scheduler/port.c", "cached_count", "prefix_hash(gate->secret, &key,", "prefix_hash((const uint64_t[2]){1, 1}, &key,"),
    ("the router knows no salt", "scheduler/port.c", "cached_count", ".salt = {args->cache_salt[0], args->cache_salt[1]}", ".salt = {0, 0}"),
    ("a block after a gap counts for the router", "scheduler/port.c", "cached_count", "left &= ~(1u << i);", "continue;"),
    ("the router looks at the first prompt alone", "scheduler/port.c", "ports_look", "i < args->sequence_count; i++", "i < 1; i++"),
    ("the router ignores what waits", "scheduler/port.c", "ports_look", "atomic_load_explicit(&gate->counters.tokens, memory_order_relaxed)", "0"),
    ("a failed copy is chosen like any", "scheduler/port.c", "ports_look", "!= GATE_OPEN", "== GATE_STOPPED"),
    ("the router names a copy by its place among those asked", "scheduler/port.c", "port_choose", "return place[route_choose(copies, found, args->token_count, after)];", "return route_choose(copies, found, args->token_count, after);"),
    ("a table of fingerprints is eight times as large", "scheduler/route.c", "route_lines", "blocks / (ROUTE_WAYS / 2) + 1", "blocks / 2 + 1"),
    ("a block that ends a prompt counts for the router", "scheduler/port.c", "cached_count", "from + each < to", "from + each <= to"),
    ("the router looks up a prompt of any length", "scheduler/port.c", "cached_count", "&& *looks > 0", ""),
    ("the router looks up half of the blocks", "scheduler/port.c", "ports_look", "looks = ROUTE_BLOCKS_MAX", "looks = ROUTE_BLOCKS_MAX / 2"),
    ("half of the router's lines are used", "scheduler/layout.c", "", "b->route.mask = lines - 1;", "b->route.mask = lines / 2 - 1;"),
    ("a block that is evicted stays with the router", "scheduler/prefix.c", "prefix_drop", "route_drop(&blocks->route, &b->hash);", ";"),
    ("the router is not told of new blocks", "scheduler/prefix.c", "prefix_put", "route_put(&blocks->route, &b->hash);", ";"),
    ("the router ignores what is cached", "scheduler/route.c", "cost_of", "ROUTE_UNCACHED * (tokens - cached)", "ROUTE_UNCACHED * tokens"),
    ("the router weighs queued tokens like uncached ones", "scheduler/route.h", "", "ROUTE_UNCACHED = 4,", "ROUTE_UNCACHED = 1,"),
    ("more is cached than the prompt has", "scheduler/route.c", "cost_of", "copy->cached < tokens ? copy->cached : tokens", "copy->cached"),
    ("of equals the first copy is chosen always", "scheduler/route.c", "route_choose", "uint32_t best = after % count;", "uint32_t best = 0;"),
    ("a closed copy is like an open one", "scheduler/route.c", "is_better", "if (a->closed != b->closed)", "if (false)"),
    ("a full line keeps what it has", "scheduler/route.c", "route_put", "way = (uint32_t)(key->high >> 32) % ROUTE_WAYS;", "return;"),
    ("a key whose part is 0 has no fingerprint", "scheduler/route.c", "fingerprint_of", "fingerprint > 0 ? fingerprint : 1", "fingerprint"),
    ("store given back twice", "scheduler/port.c", "port_free", "store_give(&port->words, request->number, request->word_count);", "store_give(&port->words, request->number, request->word_count); store_give(&port->words, request->number, request->word_count);"),
    ("a request that was admitted borrows its grammar", "scheduler/port.c", "request_fill", "grammar_take(args->grammar);", ";"),
    ("a request keeps its grammar when it is freed", "scheduler/port.c", "port_free", "grammar_give(request->asked.grammar);", ""),
    ("admission not lowered", "scheduler/port.c", "port_free", "counters_lower(port->gate, request->asked.token_count, request->result_bytes);", ""),
    ("reader does not wake a paused request", "scheduler/port.c", "port_next", "if (flag_lower(&ring->paused))", "if (false && flag_lower(&ring->paused))"),
    ("submit wakes nobody", "scheduler/port.c", "port_submit", "if (admission == ADMITTED) waker_raise", "if (false) waker_raise"),
    ("a notice wakes nobody", "scheduler/port.c", "notice_send", "waker_raise(port->gate->waker);", ""),
    ("chain without its parent", "scheduler/prefix.c", "prefix_hash", "text.parent = *parent;", "text.parent = (struct hash){*(const uint64_t *)parent * 0, 0};"),
    ("a sharer names bad blocks anew", "scheduler/prefix.c", "prefix_put", "if (b->barred) return;", ""),
    ("a match outlives a block in its middle", "scheduler/prefix.c", "links_drop", "blocks->breaks += b->children > 0;", ""),
    ("a match outlives its last block", "scheduler/share.c", "share_holds", "blocks->block[s->blocks[s->match_count - 1]].serial == s->match_serial", "true"),
    ("a waiting sequence looks anew in each plan", "scheduler/share.c", "share_match", "if (!share_holds(engine, s)) s->match_count = 0;", "s->match_count = 0;"),
    ("a block follows a twin of its parent", "scheduler/prefix.c", "prefix_link", "if (!p->named || !hash_equal(&p->hash, &b->parent)) return;", ""),
    ("a child of other tokens is followed", "scheduler/prefix.c", "prefix_follow", "return memcmp(own, tokens, blocks->tokens * sizeof *own) == 0 ? p->child : BLOCK_NONE;", "return p->child;"),
    ("a plan looks up blocks without end", "scheduler/share.c", "block_find", "plan->looks_left -= plan->looks_left > 0;", ""),
    ("blocks that nobody holds are counted as there", "scheduler/plan.c", "blocks_to_start", "all - s->match_count + share_idle(engine, s, settled)", "all - s->match_count"),
    ("a prompt alone is paced", "scheduler/plan.c", "plan_open", "decodes > 0 && engine->cuttable", "engine->cuttable"),
    ("histories take no room of the answers", "scheduler/plan.c", "history_need", "sequence_known(s)", "s->prompt_len"),
    ("all histories of a step have the room of one", "scheduler/plan.c", "chunk_commit", "plan->history_left -= history_need(s);", ""),
    ("who finds no room for its history has a place", "scheduler/plan.c", "draws_serve", "penalised ? sequence_next_known(r) : 0", "0"),
    ("a prompt without penalties needs room for a history", "scheduler/plan.c", "draws_serve", "penalised ? sequence_next_known(r) : 0", "sequence_next_known(r)"),
    ("where a search gives up, its first key keeps the one before it", "scheduler/queue.c", "ahead_begin", "key->ahead_previous = NULL;", ""),
    ("draws go round by request alone", "scheduler/queue.c", "queue_rotate", "turn_unlink(&engine->queue, key); turn_append(&engine->queue, key);", ""),
    ("a draw ahead takes its key's turn", "scheduler/queue.c", "queue_rotate", "ahead_unlink(&engine->queue, key); ahead_append(&engine->queue, key);", "turn_unlink(&engine->queue, key); turn_append(&engine->queue, key);"),
    ("a draw ahead takes its key's turn as well", "scheduler/queue.c", "queue_rotate", "ahead_append(&engine->queue, key); }", "ahead_append(&engine->queue, key); turn_unlink(&engine->queue, key); turn_append(&engine->queue, key); }"),
    ("draws ahead go round by request alone", "scheduler/queue.c", "queue_rotate", "ahead_unlink(&engine->queue, key); ahead_append(&engine->queue, key);", ""),
    ("a draw in turn is its key's turn ahead as well", "scheduler/queue.c", "queue_rotate", "} else {", "} else { ahead_unlink(&engine->queue, key); ahead_append(&engine->queue, key);"),
    ("a search for a short prompt ahead never gets further", "scheduler/queue.c", "next_ahead", "if (key) ahead_begin(queue, key);", ""),
    ("a request is drawn whole before the next of its key", "scheduler/queue.c", "queue_rotate", "request_unlink(&engine->queue, key, r); request_append(&engine->queue, key, r);", ""),
    ("the inputs of a request have bits of cancels", "scheduler/request.h", "choice_cancelled", "if (request->asked.kind != REQUEST_GENERATE) return false;", ""),
    ("finish entry not kept free", "scheduler/ring_credit.c", "credit_used", "r->run.pending + r->run.unfinished", "r->run.pending + 0"),
    ("tokens in flight not counted as room", "scheduler/ring_credit.c", "credit_used", "r->run.pending + r->run.unfinished", "r->run.unfinished"),
    ("room of a drawn choice not counted", "scheduler/ring_credit.c", "credit_drawn", "entry->granted = credit_left(r, r->run.credit_used) > 0;", "entry->granted = true;"),
    ("drawn choices are granted one entry twice", "scheduler/ring_credit.c", "credit_drawn", "r->run.credit_used += entry->granted;", ""),
    ("what the plan grants to live choices is not counted", "scheduler/ring_credit.c", "credit_request", "r->run.credit_used += wanting;", ""),
    ("paused without a flag", "scheduler/ring_credit.c", "credit_request", "flag_raise(&r->events.paused);", ";"),
    ("scarce room goes to the first choice", "scheduler/ring_credit.c", "credit_share", "r->run.served_last = s->number;", ""),
    ("scarce room goes to the choice served last", "scheduler/ring_credit.c", "credit_share", "s->number > start : s->number <= start", "s->number >= start : s->number < start"),
    ("what lost its blocks starts for one token", "scheduler/ring_credit.c", "credit_suffices", "s->state == SEQUENCE_WAITING ? r->events.ring.mask / 2 : 0", "0"),
    ("half a ring refused without a flag", "scheduler/ring_credit.c", "credit_request", "flag_raise(&r->events.paused);", "if (credit < wanting) flag_raise(&r->events.paused);"),
    ("blocks given back with a step in flight", "scheduler/sequence.c", "sequence_end", "if (s->inflight > 0) { if (s->state", "if (s->inflight > 9) { if (s->state"),
    ("preempted blocks given back with a step in flight", "scheduler/sequence.c", "sequence_preempt", "s->state = SEQUENCE_LEAVING; blocks_leave(engine, s);", "s->state = SEQUENCE_LEAVING; sequence_blocks_give(engine, s, false);"),
    ("a settled sequence keeps its blocks", "scheduler/sequence.c", "sequence_settled", "sequence_blocks_give(engine, s, true); if", "if"),
    ("slot not released", "scheduler/sequence.c", "place_give", "engine->slots_free[engine->slots_free_count++] = s->slot;", ""),
    ("penalty row not released", "scheduler/sequence.c", "place_give", "engine->penalties_free[engine->penalties_free_count++] = s->penalty_row;", ";"),
    ("block table not sent again after preemption", "scheduler/sequence.c", "sequence_blocks_give", "s->blocks_sent = 0;", ""),
    ("sampling record not sent again", "scheduler/sequence.c", "sequence_preempt", "s->fed = false; s->on_device = false; if (s->inflight", "s->fed = false; if (s->inflight"),
    ("salts ignored", "scheduler/sequence.c", "sequence_root", "{r->asked.cache_salt[0], r->asked.cache_salt[1]}", "{0, 0}"),
    ("a prompt is forgotten from its start", "scheduler/sequence.c", "sequence_blocks_give", "for (uint32_t i = s->block_count; i-- > 0;) block_give", "for (uint32_t i = 0; i < s->block_count; i++) block_give"),
    ("half of a salt counts twice", "scheduler/sequence.c", "sequence_root", "{r->asked.cache_salt[0], r->asked.cache_salt[1]}", "{r->asked.cache_salt[0], r->asked.cache_salt[0]}"),
    ("requests share without a cache", "scheduler/sequence.c", "sequence_root", "apart.serial = r->serial;", ""),
    ("first requests of two ports share without a cache", "scheduler/sequence.c", "sequence_root", "apart.port = (uint64_t)(r->port - engine->ports) + 1;", ""),
    ("a frequency below nought is no penalty", "scheduler/sequence.c", "sequence_penalised", "p->frequency != 0.0f", "p->frequency > 0.0f"),
    ("presence alone is no penalty", "scheduler/sequence.c", "sequence_penalised", "|| p->presence != 0.0f", ""),
    ("length found one late", "scheduler/sequence.h", "sequence_planned_out", "s->output_count + s->pending >= s->output_max", "s->output_count + s->pending > s->output_max"),
    ("with ignore_end no stop id is tested past the eighth", "scheduler/settle.c", "is_end_token", "contains(r->asked.stop_ids, r->asked.stop_id_count, result->token)", "contains(r->asked.stop_ids, r->asked.stop_id_count > 8 ? 8 : r->asked.stop_id_count, result->token)"),
    ("a token just after the vocabulary is taken", "scheduler/settle.c", "token_usable", "< engine->facts.vocab", "<= engine->facts.vocab"),
    ("a token of logits that are not finite is taken", "scheduler/settle.c", "token_usable", "&& (result->flags & SAMPLED_NOT_FINITE) == 0", ""),
    ("the last value of a vector may be anything", "scheduler/settle.c", "values_finite", "i < width", "i + 1 < width"),
    ("a request gets the alternatives of its neighbour", "scheduler/settle.c", "token_settle", "result->top_count < asked ? result->top_count : asked", "result->top_count"),
    ("a part of a prompt is judged by a result", "scheduler/settle.c", "row_settle", "bool usable = row->want == WANT_NOTHING ||", "bool usable ="),
    ("blocks of a sequence that was done are forgotten", "scheduler/settle.c", "row_settle", "(SAMPLED_DONE | SAMPLED_DROPPED)", "SAMPLED_DROPPED"),
    ("blocks of a row that was dropped are forgotten", "scheduler/settle.c", "row_settle", "(SAMPLED_DONE | SAMPLED_DROPPED)", "SAMPLED_DONE"),
    ("rows after an end count as after a cancel", "scheduler/settle.c", "row_settle", "? s->cancelled", "? true"),
    ("the row that ran during a cancel is counted", "scheduler/settle.c", "row_settle", "engine->facts.steps_in_flight == 0 && choice", "choice"),
    ("tops of another row", "scheduler/settle.c", "row_settle", "&output->tops[(size_t)index * SAMPLE_TOP_MAX]", "&output->tops[0]"),
    ("values of another input", "scheduler/settle.c", "values_settle", "store_item(&r->port->results, r->number, s->number)", "store_item(&r->port->results, r->number, 0)"),
    ("results of another row", "scheduler/settle.c", "step_settle", "wanted += row->want != WANT_NOTHING;", "wanted += i > 0 && row->want;"),
    ("blocks of a result that is not finite stay in the cache", "scheduler/settle.c", "row_settle", "else share_bar(engine, s);", "else share_settle(engine, s, row->from + row->q_len);"),
    ("an id ends an answer one token too early", "scheduler/settle.c", "is_end_token", "s->output_count <= r->asked.sampling.output_min", "s->output_count < r->asked.sampling.output_min"),
    ("an id ends an answer one token too late", "scheduler/settle.c", "is_end_token", "s->output_count <= r->asked.sampling.output_min", "s->output_count <= r->asked.sampling.output_min + 1"),
    ("the second chunk of a history is written into the first", "scheduler/settle.c", "history_append", "store_item(&engine->history, s->index, s->output_count)", "store_item(&engine->history, s->index, 0)"),
    ("shared before it is computed", "scheduler/share.c", "block_find", "if (!blocks->block[id].ready) return SHARE_COMPUTING;", ""),
    ("block ready when planned", "scheduler/share.c", "share_announce", "share_put(blocks, s, i, &name, false);", "share_put(blocks, s, i, &name, true);"),
    ("whole prompt taken from the cache", "scheduler/share.c", "may_share", "engine->blocks.tokens < sequence_known(s);", "engine->blocks.tokens <= sequence_known(s);"),
    ("unsettled token enters the cache", "scheduler/share.c", "share_settle", "if (s->state == SEQUENCE_ENDING ||", "if ("),
]


TSAN = ("-O1", "-g", "-fsanitize=thread")
UNDER_TSAN = ("test_ring", "test_port_stress")


class DoesNotBuild(Exception):
    """What the compiler says."""


class Builds:
    """The programs of one copy of the sources, with one set of flags."""

    def __init__(self, tree, folder, flags, programs):
        self.tree, self.folder, self.flags = tree, folder, flags
        folder.mkdir(parents=True)
        room = sorted(str(p.relative_to(tree)) for p in (tree / "scheduler").glob("*.c"))
        self.shared = room + COMMON + ["tests/sim/fake.c"]
        sources = sorted({s for p in programs for s in PROGRAMS[p]} | set(self.shared))
        with concurrent.futures.ThreadPoolExecutor() as pool:
            self.good = dict(zip(sources, pool.map(lambda s: self.object_of(s, folder), sources)))
        self.parts = {s: o.with_suffix(".d").read_text().split() for s, o in self.good.items()}

    def object_of(self, source, folder):
        out = folder / (source.replace("/", "_") + ".o")
        command = ["gcc", "-std=gnu17", "-D_GNU_SOURCE", f"-I{self.tree}", *self.flags, "-MMD", "-c",
                   str(self.tree / source), "-o", str(out)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise DoesNotBuild(done.stderr[-1500:])
        return out

    def changed(self, path):
        """The objects, with those anew that this file is part of."""
        anew = self.folder / "anew"
        anew.mkdir(exist_ok=True)
        return self.good | {s: self.object_of(s, anew) for s, parts in self.parts.items() if str(path) in parts}

    def link(self, name, objects):
        own = PROGRAMS[name]
        twice = "scheduler/mask_thread.c" if "tests/sim/fake_worker.c" in own else ""
        program = self.folder / name
        subprocess.run(["gcc", *self.flags, *(str(objects[s]) for s in own + self.shared if s != twice),
                        "-o", str(program), "-lcmocka", "-lpthread"], check=True, capture_output=True)
        return program


def fails(program, *args):
    """What to say behind its name, or None where it passes."""
    try:
        return None if subprocess.run([str(program), *args], capture_output=True, timeout=60).returncode == 0 else ""
    except subprocess.TimeoutExpired:
        return ", by the time limit"


class Place:
    """A copy of the sources and what is built of it."""

    def __init__(self, folder, seeds):
        self.tree, self.seeds = folder / "tree", seeds
        for part in ("scheduler", "tests/base", "tests/grammar", "tests/scheduler", "tests/sim", "base", "runtime/grammar",
                     "runtime/model", "kernels"):
            (self.tree / part).mkdir(parents=True)
            for source in (ROOT / part).glob("*.[ch]"):
                (self.tree / part / source.name).write_text(source.read_text())
        self.plain = Builds(self.tree, folder / "plain", ("-O1",), PROGRAMS)
        self.tsan = Builds(self.tree, folder / "tsan", TSAN, UNDER_TSAN)

    def finder(self, path):
        """What finds that this file differs, or None."""
        objects = self.plain.changed(path)
        for name in PROGRAMS:
            arguments = [self.seeds, "1000"] if name == "sim" else ["300"] if name.endswith("stress") else []
            why = fails(self.plain.link(name, objects), *arguments)
            if why is not None:
                return name + why
        objects = self.tsan.changed(path)
        for name in UNDER_TSAN:
            why = fails(self.tsan.link(name, objects), "200")
            if why is not None:
                return f"{name} under ThreadSanitizer{why}"
        return None

    def failure(self):
        found = self.finder(None)
        return found and f"{found} fails without any fault"

    def judge(self, fault):
        """(whether it is found, what to say)"""
        try:
            with plant.Planted(self.tree, *fault[1:]) as planted:
                found = self.finder(planted.path)
        except plant.Stale as stale:
            return False, str(stale)
        except DoesNotBuild as error:
            return False, f"DOES NOT BUILD: {error}"
        return found is not None, found or "NOT FOUND"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", default="", help="I/N: every N-th fault from the I-th")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("seeds", nargs="?", default="400")
    parser.add_argument("words", nargs="?", default="")
    args = parser.parse_args()
    chosen = plant.part_of([f for f in FAULTS if args.words in f[0]], args.part)
    if not chosen:
        sys.exit("no fault has these words")
    with tempfile.TemporaryDirectory() as temporary:
        places = [Place(pathlib.Path(temporary) / str(i), args.seeds) for i in range(min(args.jobs, len(chosen)))]
        plant.must_be_clean(places, Place.failure)
        missed = 0
        for fault, (found, text) in plant.judged(chosen, places, Place.judge):
            missed += not found
            print(f"{fault[0]:55} {text}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

// Requests with a grammar over the fake model: who holds counts of it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/grammar/grammar.h"
#include "runtime/grammar/vocabulary.h"
#include "tests/scheduler/rig.h"

enum { LETTERS = 26 };

// Token i < LETTERS is a letter; id 7 of the rig ends an answer.
static struct vocabulary *letters_open(const struct rig *rig)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
    struct text tokens[LETTERS];
    for (uint32_t i = 0; i < LETTERS; i++)
        tokens[i] = text_span(letters + i, 1);
    const struct model_facts *f = &rig->fake.facts;
    struct vocabulary_args args = {f->vocab, tokens, LETTERS, NULL, f->end_ids, f->end_count};
    return vocabulary_create(&args);
}

static struct grammar *literal_open(const char *text)
{
    struct grammar *g = NULL;
    struct error err;
    struct grammar_builder *b = grammar_begin(NULL);
    uint32_t root = grammar_literal(b, text_of(text));
    assert_int_equal(grammar_finish(b, root, &g, &err), STATUS_OK);
    return g;
}

static struct request *submit(struct rig *rig, struct grammar *g, enum admission expected)
{
    static const int32_t tokens[] = {30, 31, 32};
    static const uint32_t start[] = {0, 3};
    struct submit_args args = {.kind = REQUEST_GENERATE,
                               .tokens = tokens,
                               .token_count = 3,
                               .sequence_count = 1,
                               .sequence_start = start,
                               .choice_count = 1,
                               .max_tokens = 20,
                               .grammar = g,
                               .sampling = {.seed = 5, .repetition = 1.0f}};
    return rig_submit(rig, &args, expected);
}

static void test_an_admitted_request_holds_its_grammar(void **state)
{
    (void)state;
    struct rig rig;
    rig_defaults(&rig);
    rig.options.max_queued_requests = 1;
    rig.options.vocabulary = letters_open(&rig);
    rig_open(&rig);
    vocabulary_give(rig.options.vocabulary); // the engine has its own count
    struct grammar *g = literal_open("weft");
    struct request *r = submit(&rig, g, ADMITTED);
    assert_int_equal(grammar_owners(g), 2);
    submit(&rig, g, ADMISSION_BUSY);
    assert_int_equal(grammar_owners(g), 2);
    port_cancel(rig.port, r);
    rig_step(&rig);
    struct token_event event;
    while (port_next(rig.port, r, &event, NULL))
        assert_int_equal(event.finish, FINISH_CANCEL);
    port_free(rig.port, r);
    assert_int_equal(grammar_owners(g), 1);
    grammar_give(g);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_admitted_request_holds_its_grammar),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

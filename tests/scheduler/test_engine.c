// The engine end to end over the fake model, one thread playing both sides: each request's events
// against the same request computed alone.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/scheduler/rig.h"

static uint32_t run_until_last(struct rig *rig, struct request *request, enum finish expected)
{
    uint32_t tokens = 0;
    for (uint32_t turns = 0; turns < 10000; turns++) {
        struct token_event event;
        while (port_next(rig->port, request, &event, NULL)) {
            tokens += (event.flags & EVENT_TOKEN) != 0;
            if (event.finish != FINISH_NONE)
                assert_int_equal(event.finish, expected);
            if (event.flags & EVENT_LAST)
                return tokens;
        }
        rig_step(rig);
    }
    fail_msg("the request did not end");
    return 0;
}

static void generates(void **state)
{
    (void)state;
    for (uint32_t flight = 0; flight <= 1; flight++) {
        struct rig rig;
        rig_defaults(&rig);
        rig.fake.facts.steps_in_flight = flight;
        rig_open(&rig);
        struct request *r = rig_generate(&rig, 10, 100, 50, 1);
        assert_int_equal(run_until_last(&rig, r, FINISH_LENGTH), 50);
        port_free(rig.port, r);
        r = rig_generate(&rig, 10, 100, 5, 8);
        assert_int_equal(run_until_last(&rig, r, FINISH_LENGTH), 40);
        struct request_facts facts;
        request_facts_get(r, &facts);
        assert_int_equal(facts.prompt_tokens, 100);
        assert_int_equal(facts.cached_tokens, 96);
        port_free(rig.port, r);
        rig_close(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(generates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

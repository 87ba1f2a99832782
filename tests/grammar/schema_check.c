// SPDX-License-Identifier: Apache-2.0
// Answers tools/schema_diff.py, which compares weft with the jsonschema library. A line of stdin is
// a JSON object with schema, draft (7 or absent), others (number of enum schema_others) and
// instances. A line of stdout has status, error, ns (time of the compile) and fits: for each
// instance, whether the grammar can produce it.
#include "tests/grammar/schema_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void answer(const json_t *line)
{
    struct schema_rig rig;
    const json_t *instances = json_object_get(line, "instances");
    bool old = json_integer_value(json_object_get(line, "draft")) == 7;
    struct schema_args args = {
        .schema = json_object_get(line, "schema"),
        .draft = old ? SCHEMA_DRAFT_7 : SCHEMA_DRAFT_AUTO,
        .others = (enum schema_others)json_integer_value(json_object_get(line, "others"))};
    schema_rig_compile(&rig, &args);
    json_t *fits = json_array();
    for (size_t i = 0; i < json_array_size(instances) && rig.status == STATUS_OK; i++)
        json_array_append_new(fits,
                              json_boolean(schema_rig_fits(&rig, json_array_get(instances, i))));
    json_t *out = json_pack("{s:s,s:s,s:I,s:o}", "status", status_name(rig.status), "error",
                            rig.status == STATUS_OK ? "" : rig.err.text, "ns", (json_int_t)rig.ns,
                            "fits", fits);
    json_dumpf(out, stdout, JSON_COMPACT);
    printf("\n");
    fflush(stdout);
    json_decref(out);
    schema_rig_close(&rig);
}

int main(void)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t bytes;
    while ((bytes = getline(&line, &room, stdin)) > 0) {
        struct error err;
        json_t *value;
        if (json_parse(&value, text_span(line, (size_t)bytes), &err) != STATUS_OK) {
            fprintf(stderr, "%s\n", err.text);
            return 1;
        }
        answer(value);
        json_decref(value);
    }
    free(line);
    return 0;
}

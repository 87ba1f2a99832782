// SPDX-License-Identifier: Apache-2.0
// See config_rig.h.
#include "tests/runtime/config_rig.h"

#include "base/status.h"

json_t *config_small(const char *architecture)
{
    return json_pack("{s:[s], s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "architectures", architecture,
                     "vocab_size", 1000, "hidden_size", 256, "num_hidden_layers", 4,
                     "num_attention_heads", 8, "intermediate_size", 512, "max_position_embeddings",
                     4096, "head_dim", 64);
}

void config_patch(json_t *config, const char *patch)
{
    json_t *members = json_loads(patch, 0, NULL);
    check(members, "no JSON: %s", patch);
    json_object_update(config, members);
    json_decref(members);
}

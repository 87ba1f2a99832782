// SPDX-License-Identifier: Apache-2.0
// Small config.json objects for tests of model_config. One thread; every failure ends the test.
#pragma once

#include <jansson.h>

// Returns the config.json of a small model with heads of 64 columns; the caller owns it.
json_t *config_small(const char *architecture);
// Replaces members of an object by those of a JSON text; a null does not remove a member.
void config_patch(json_t *config, const char *patch);

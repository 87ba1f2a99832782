// SPDX-License-Identifier: Apache-2.0
// The report of a result as one HTML page without scripts and without other files.
#pragma once

#include "base/json.h"

// Writes the page. result: an object as bench_series_json writes it, with "comparison" if two
// servers were compared.
void bench_report_write(struct json_buffer *out, const json_t *result);

// Fields that change what is generated and that no endpoint serves: refused by name, so that nobody
// mistakes the answer for what was asked. A field that becomes served leaves this table for that of
// its endpoint, or for decoding.c.
#pragma once

#include "http/api/fields.h"

extern const struct field_rules generation_not_served;

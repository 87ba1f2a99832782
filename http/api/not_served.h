// Fields that would change the answer and that no endpoint supports. They are rejected by name, so
// that no client mistakes the answer for what it requested. When a field becomes supported, its row
// moves to the table of its endpoint or to decoding.c.
#pragma once

#include "http/api/fields.h"

extern const struct field_rules generation_not_served;

set(FUZZ_LIBS weft_base)

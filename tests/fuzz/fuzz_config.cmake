set(FUZZ_LIBS weft_model)

list(APPEND WEFT_TEXT_SOURCES
  tokenizer_added.c tokenizer_config.c tokenizer_decoders.c tokenizer_encode.c tokenizer_json.c tokenizer_made.c
  tokenizer_model.c tokenizer_open.c tokenizer_post.c tokenizer_regex.c tokenizer_trie.c
  tokenizer_unicode.c tokenizer_vocab.c
  bpe.c bpe_open.c unigram.c wordpiece.c
  pattern.c pattern_class.c pattern_escape.c pattern_names.c pattern_set.c unicode_tables.c
  normalizer.c normalizer_open.c normalizer_forms.c charsmap.c
  pretokenizer.c pretokenizer_open.c pretokenizer_scan.c
  detok.c detok_chain.c detok_open.c)

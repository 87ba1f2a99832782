// SPDX-License-Identifier: Apache-2.0
// Applies what the tokenizer class of a folder changes in the stages of tokenizer.json: classes of
// the BERT family set the normalizer, those of the GPT-2 family the leading space, from
// tokenizer_config.json or the defaults of the class.
#include "base/log.h"
#include "runtime/text/tokenizer/internal.h"

static bool class_listed(struct text class, const char *const *classes)
{
    static const char fast[] = "Fast";
    size_t end = sizeof fast - 1;
    if (class.bytes > end && memcmp(class.at + class.bytes - end, fast, end) == 0)
        class.bytes -= end;
    for (; *classes; classes++)
        if (text_is(class, *classes))
            return true;
    return false;
}

// Returns the class of the tokenizer. A folder that names none gets the one of its model type, as
// in the reference library. at == NULL: not known.
struct text class_of(const struct jnode *config, const struct jnode *model)
{
    static const struct {
        const char *type, *class;
    } types[] = {
        {"bert", "BertTokenizer"},           {"distilbert", "BertTokenizer"},
        {"electra", "BertTokenizer"},        {"convbert", "BertTokenizer"},
        {"megatron-bert", "BertTokenizer"},  {"nomic_bert", "BertTokenizer"},
        {"squeezebert", "BertTokenizer"},    {"mpnet", "MPNetTokenizer"},
        {"roberta", "RobertaTokenizer"},     {"roberta-prelayernorm", "RobertaTokenizer"},
        {"longformer", "RobertaTokenizer"},  {"bart", "RobertaTokenizer"},
        {"gpt2", "GPT2Tokenizer"},           {"xlm-roberta", "XLMRobertaTokenizer"},
        {"camembert", "CamembertTokenizer"},
    };
    struct text class = jtree_get_text(config, "tokenizer_class");
    struct text type = jtree_get_text(model, "model_type");
    bool gguf = jtree_get(config, "from") != NULL; // its keys describe the stages completely
    for (size_t i = 0; !class.at && !gguf && i < sizeof types / sizeof *types; i++)
        if (text_is(type, types[i].type))
            class = text_of(types[i].class);
    return class;
}

static void bert_apply(struct tokenizer *t, struct normalizer *n)
{
    bool lower = jtree_get_bool(t->config, "do_lower_case", true);
    bool accents = jtree_get_bool(t->config, "strip_accents", lower);
    bool cjk = jtree_get_bool(t->config, "tokenize_chinese_chars", true);
    if (n->lower != lower || n->accents != accents || n->cjk != cjk)
        log_line(LOG_WARNING,
                 "tokenizer.json and tokenizer_config.json disagree; the latter is followed: "
                 "do_lower_case %s, strip_accents %s, tokenize_chinese_chars %s",
                 lower ? "true" : "false", accents ? "true" : "false", cjk ? "true" : "false");
    n->lower = lower;
    n->accents = accents;
    n->cjk = cjk;
}

static void space_apply(struct tokenizer *t, struct pre_tokenizer *p)
{
    bool space = jtree_get_bool(t->config, "add_prefix_space", false);
    if (p->add_prefix_space != space)
        log_line(LOG_WARNING,
                 "tokenizer.json and the tokenizer's class disagree; the latter is followed: "
                 "add_prefix_space %s",
                 space ? "true" : "false");
    p->add_prefix_space = space;
}

void class_apply(struct tokenizer *t)
{
    static const char *const bert[] = {
        "BertTokenizer",
        "DistilBertTokenizer",
        "ElectraTokenizer",
        "MPNetTokenizer",
        "ConvBertTokenizer",
        "MobileBertTokenizer",
        "SqueezeBertTokenizer",
        "LayoutLMTokenizer",
        "LxmertTokenizer",
        "RetriBertTokenizer",
        "DPRContextEncoderTokenizer",
        "DPRQuestionEncoderTokenizer",
        "DPRReaderTokenizer",
        NULL,
    };
    static const char *const gpt2[] = {
        "GPT2Tokenizer",
        "RobertaTokenizer",
        "LongformerTokenizer",
        "BartTokenizer",
        "CodeGenTokenizer",
        "GPTNeoXTokenizer",
        NULL,
    };
    for (uint32_t i = 0; class_listed(t->class, bert) && i < t->normalizer_count; i++)
        if (t->normalizers[i].kind == NORMALIZE_BERT)
            bert_apply(t, &t->normalizers[i]);
    if (class_listed(t->class, gpt2) && t->pre_count == 1 && t->pre[0].kind == PRE_BYTE_LEVEL)
        space_apply(t, &t->pre[0]);
}

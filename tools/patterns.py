# SPDX-License-Identifier: Apache-2.0
"""Patterns of published tokenizers, for pattern_diff.py: {family: [pattern, ...]}, each a stage."""
S = r"'s|'t|'re|'ve|'m|'ll|'d"
TAIL = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL
GPT2 = S + r"| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
WORDS = r"(?i:" + S + r")|[^\r\n\p{L}\p{N}]?\p{L}+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
HEAD = r"[^\r\n\p{L}\p{N}]?"
CASED = HEAD + UPPER + "*" + LOWER + "+%s|" + HEAD + UPPER + "+" + LOWER + "*%s"
ENDING = r"(?i:" + S + ")?"
BOTH = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
PLAIN = r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])"
NO_HAN = "&&[^\\p{Han}]]"
SPACED = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*" + TAIL
DEEPSEEK_LETTERS = (
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗ"
    "ὙὛὝὟ-\u1f7dᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗ"
    "Ａ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+")
ASCII_MARKS = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"

PATTERNS = {
    "GPT-2": [GPT2],
    "CodeGen": [S + r"| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?=\s)|\s+"],
    "GPT-4 (cl100k)": [WORDS + r"|\p{N}{1,3}" + REST],
    "cl100k, as tiktoken had it": [
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s"],
    "cl100k, possessive": [
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*"
        r"|\s*[\r\n]|\s+(?!\S)|\s+"],
    "cl100k, possessive throughout": [
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
        r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"],
    "Llama 3": [WORDS + r"|\p{N}{1,3}" + REST],
    "Llama 4": [CASED % (ENDING, ENDING) + r"|\p{N}{1,3}" + SPACED],
    "GPT-4o (o200k), GPT-OSS": [CASED % (ENDING, ENDING) + r"|\p{N}{1,3}" + SPACED],
    "Phi-4-mini": [r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + "+" + ENDING + "|" + HEAD + UPPER +
                   "+" + LOWER + "*" + ENDING + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*"
                   r"|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "Qwen2": [WORDS + r"|\p{N}" + REST],
    "Qwen3.5": [r"(?i:" + S + r")|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
                r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + TAIL],
    "StableLM 2": [WORDS + r"|\p{N}" + REST, r"\p{N}"],
    "GLM-4": [WORDS + r"|\p{N}{1,3}" + REST, r"[0-9]"],
    "Mistral Tekken": [CASED % ("", "") + r"|\p{N}" + SPACED],
    "Nemotron": [CASED % ("", "") + r"|\p{N}" + SPACED, r"\p{N}"],
    "Kimi-K2": [r"[\p{Han}]+|" + HEAD + UPPER[:-1] + NO_HAN + "*" + LOWER[:-1] + NO_HAN + "+" +
                ENDING + "|" + HEAD + UPPER[:-1] + NO_HAN + "+" + LOWER[:-1] + NO_HAN + "*" +
                ENDING + r"|\p{N}{1,3}" + REST],
    "BLOOM": [r" ?[^(\s|[.,!?…。，、।۔،])]+"],
    "Poro, Viking": [r" ?[^(\s|.,!?…。，、।۔،)]+"],
    "GPT-3 Finnish": [r" ?[^(\s|[.,!?…。，、।۔،])]+", GPT2],
    "Falcon": [r"[0-9][0-9][0-9]", GPT2],
    "Falcon 3": [r"[\$\+<=>\^~\|`]+|[\p{P}]+", GPT2, r"[0-9]"],
    "StarCoder": [r"\p{N}", GPT2],
    "Refact, Command-R, SmolLM": [r"\p{Nd}", GPT2],
    "DeepSeek coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[一-龥ࠀ-一가-퟿]+", r"\p{N}"],
    "DeepSeek V2": [r"[\r\n]", DEEPSEEK_LETTERS, r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$",
                    r"[一-龥ࠀ-一가-퟿]+", r"\p{N}+"],
    "DeepSeek V3": [r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+", ASCII_MARKS +
                    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*" + TAIL],
    "Hunyuan": [r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+", ASCII_MARKS +
                r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*" + TAIL],
    "Youtu": [r"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+",
              CASED % (ENDING, ENDING) + r"|\p{N}" + SPACED],
    "Bailing": [PLAIN + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                r"|\s*[\r\n]|\s+(?!\S)|\s+"],
    "Seed": [BOTH + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+" + TAIL],
    "EXAONE": [BOTH + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}"
               r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"],
    "Grok-2": [BOTH + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + REST],
    "SuperBPE": [r"\p{N}+", r"(?=(\d{3})+(?!\d))"],
    "Trinity": [r"\d{1,3}(?=(?:\d{3})*\b)", r"[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+",
                ASCII_MARKS + r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*" + TAIL],
    "Chameleon": [r"<sentinel:[0-9]+>", r"(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", r"([\t\n]|    |  )",
                  r"\p{N}", r"[\p{P}!-/:-@\[-`{-~]", GPT2],
    "CLIP": [S + r"|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"],
    "OpenCLIP": [r"<\|startoftext\|>|<\|endoftext\|>|" + S + r"|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"],
    "Gemma": [r" "],
    "Granite 4, OLMo 2, DBRX": [WORDS + r"|\p{N}{1,3}" + REST],
    "ERNIE": [r"[0-9]", r" ?[^\s]+"],
    "Minerva": [r"\p{N}", GPT2],
    "Jais 2": [r"\p{N}{1,3}", WORDS + REST],
    "MiniCPM 5": [r"(?i:" + S + r")|\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+" + TAIL],
    "GPT-J, GPT-NeoX, MPT, Whisper": [GPT2],
    "RoBERTa-like, words only": [r"\w+|[^\w\s]+"],
    "XGen": [r"(?i:" + S + r")| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"],
    "Ling": [PLAIN + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + REST],
    "LongCat": [r"(?:\p{Han}|\p{Hiragana}|\p{Katakana})+", WORDS + r"|\p{N}{1,3}" + REST],
    "Sarvam": [r"[\p{Devanagari}\p{Tamil}\p{Telugu}\p{Bengali}]+", GPT2],
}
# Patterns that are not in published files and that Oniguruma and PCRE2 interpret differently.
RULES = {
    "union in a set": [r"[a-z[0-9]]+"], "taken out": [r"[\p{L}&&[^\p{Han}]]+"],
    "taken out of both": [r"[^\p{L}&&[^a-f]]+"], "three sets": [r"[a-z&&[^b]&&[a-c]]+"],
    "empty side": [r"[a&&]|b"], "(?m)": [r"(?m)a.b"], "(?m:)": [r"(?m:a.b)|a.c"],
    "{,n}": [r"a{,2}b"], "{,}": [r"a{,}"], "{n,m}+": [r"a{1,2}+"], "{n}?": [r"a{2}?b"],
    "{n,m}?": [r"a{1,3}?"], "\\H": [r"[\H]+"], "\\h": [r"\h+|\H"], "hex set": [r"[^\h]+"],
    "POSIX": [r"[[:punct:]]+|[[:alpha:]]+|[[:^space:]]"], "\\p{Punct}": [r"\p{Punct}+"],
    "\\p{Digit}": [r"\p{Digit}+"], "\\p{Alnum}": [r"\p{Alnum}+"], "\\p{Word}": [r"\p{Word}+"],
    "\\p{^}": [r"\p{^Lu}+"], "\\P": [r"\P{L}+"], "\\w \\W": [r"\w+|\W"], "[\\W]": [r"[\W]+"],
    "\\u": [r"[\u0041-\u005a\u3042]+"], "\\x{}": [r"[\x{4e00}-\x{9fff}]+"], "\\b": [r"\b\w\B"],
    "possessive": [r"a*+b|a?+b|a++c"], "atomic": [r"(?>a|ab)c|."], "\\R": [r"\R"], "\\K": [r"a\Kb"],
    "\\G": [r"\Ga"], "(?i)": [r"a(?i)b|c"], "(?i) in a group": [r"(?:a(?i)b|c)b"], "(?x)": [r"(?x) a + # more"], "\\v": [r"\v+"],
    "names": [r"\p{Letter}+|\p{decimal number}"], "back": [r"(a|b)\1"], "named": [r"(?<q>['a]).\k<q>"],
    "\\Z": [r".\Z"], "line": [r"^.|.$"], "dash": [r"[a-c-e]+|[\w-]+"], "braces": [r"a{x}|b{1"],
    "Unicode 16": [r"\p{Garay}+|\p{Lu}"], "Mn": [r"\p{Mn}+"], "unassigned": [r"\p{Cn}+|\p{C}"],
    "]": [r"[]a]+"], "\\s\\S": [r"a[\s\S]"], "\\S in a set": [r"[^\S\n]+"], "\\d": [r"[^\d]+"],
    "[:word:]": [r"[[:word:]]+|[[:cntrl:]]"], "[:xdigit:]": [r"[[:xdigit:]]+|[[:blank:]]"],
    "[:ascii:]": [r"[[:ascii:]]+"], "[:graph:]": [r"[[:graph:]]+|[[:^print:]]"], "[:lower:]": [r"[[:lower:]]+|[[:upper:]]+"],
    "[:alnum:]": [r"[[:alnum:]]+|[[:space:]]"], "[:digit:]": [r"[[:digit:]]+"], "[:^ascii:]": [r"[[:^ascii:]]+"],
    "\\p{Any}": [r"\p{Any}"], "\\p{Assigned}": [r"\p{Assigned}+"], "\\P{Assigned}": [r"\P{Assigned}+"],
    "\\p{White_Space}": [r"\p{White_Space}+"], "\\p{Blank}": [r"\p{Blank}+|\p{XDigit}+"], "\\p{Cntrl}": [r"\p{Cntrl}|\p{ASCII}+"],
    "\\p{Graph}": [r"\p{Graph}+|\p{Print}"], "\\p{Alpha}": [r"\p{Alpha}+|\p{Space}"], "\\p{Lower}": [r"\p{Lower}+|\p{Upper}"],
    "octal": [r"\011|\o{102}+|[\012\040]+"], "\\c": [r"\cI|\cj|\cM"], "\\e\\f\\a": [r"[\e\f\a\t]|\f|\x0a|\r"],
    "[\\b]": [r"[\b]|a"], "\\x bytes": [r"\xe6\xbc\xa2|[\x61-\x63]+"], "\\x{}+": [r"\x{61}+|\u3042"],
    "loose names": [r"\p{ UPPERCASE_letter }+|\p{White-Space}"], "\\P{^}": [r"\P{^Lu}+"], "[\\P]": [r"[\P{L}\P{^Lu}]+"],
}

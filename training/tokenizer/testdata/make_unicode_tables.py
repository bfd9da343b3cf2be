"""Makes ../unicode_tables.h: where the tables behind Hugging Face's `tokenizers` (0.23.3) differ from those of utf8proc 2.8, and the
scripts. The library is asked for every character. It takes some minutes.
Run in this folder: python3 make_unicode_tables.py && clang-format -i ../unicode_tables.h
"""
import ctypes

from tokenizers import Regex, normalizers, pre_tokenizers

CODES = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
TEXT = "".join(map(chr, CODES))
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cn Co".split()
SCRIPTS = ("Arabic Armenian Bengali Bopomofo Cyrillic Devanagari Greek Han Hangul Hebrew Hiragana Katakana Latin Tamil Telugu "
           "Thai").split()


def pieces(step):
    return {ord(c) for piece, _ in step.pre_tokenize_str(TEXT) for c in piece}


def matches(pattern):
    return pieces(pre_tokenizers.Split(Regex(pattern + "+"), "removed", invert=True))


def ranges(codes):
    made = []
    for code in sorted(codes):
        if made and made[-1][1] == code - 1:
            made[-1][1] = code
        else:
            made.append([code, code])
    return ", ".join(f"{{0x{first:x}, 0x{last:x}}}" for first, last in made)


class Utf8proc:
    def __init__(self):
        self.library = ctypes.CDLL("libutf8proc.so.2")
        self.library.utf8proc_category_string.restype = ctypes.c_char_p
        self.library.utf8proc_map.restype = ctypes.c_ssize_t
        self.library.utf8proc_map.argtypes = [ctypes.c_char_p, ctypes.c_ssize_t, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int]

    def category(self, code):
        return self.library.utf8proc_category_string(code).decode()

    def nfkd(self, text):
        made = ctypes.c_void_p()
        size = self.library.utf8proc_map(text.encode(), len(text.encode()), ctypes.byref(made), 2 | 4 | 16)  # stable, compat, decompose
        return ctypes.string_at(made, size).decode()


def main():
    utf8proc = Utf8proc()
    category = {code: name for name in CATEGORIES for code in matches(rf"\p{{{name}}}")}
    changed = []
    for code in CODES:
        if category[code] == utf8proc.category(code):
            continue
        if changed and changed[-1][1] == code - 1 and changed[-1][2] == category[code]:
            changed[-1][1] = code
        else:
            changed.append([code, code, category[code]])
    punctuation = {code for code, name in category.items() if name[0] == "P"} | set(map(ord, "$+<=>^`|~"))
    known = set(CODES) - pieces(pre_tokenizers.Punctuation("removed"))
    marks = {code for code, name in category.items() if name[0] == "M"}
    strip, nfkd = normalizers.StripAccents(), normalizers.NFKD()
    stripped = {code for code in CODES if not strip.normalize_str(chr(code))}
    kept = {code for code in CODES if nfkd.normalize_str(chr(code)) != utf8proc.nfkd(chr(code))}
    categories = ", ".join(f"{{0x{a:x}, 0x{b:x}, UTF8PROC_CATEGORY_{name.upper()}}}" for a, b, name in changed)
    scripts = ",\n".join(f'{{"{name.lower()}", {{{ranges(matches(chr(92) + "p{" + name + "}"))}}}}}' for name in SCRIPTS)
    with open("../unicode_tables.h", "w", encoding="utf-8") as file:
        file.write(f"""// Where the libraries behind Hugging Face's tokenizers differ from the Unicode 15 of utf8proc 2.8.
// Made by asking tokenizers 0.23.3 for every character (testdata/make_unicode_tables.py).
#pragma once

#include <utf8proc.h>

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "training/tokenizer/code_set.h"

namespace oneflow {{

struct NewCategory {{
  int32_t first, last;
  utf8proc_category_t category;
}};
// Oniguruma has Unicode 16.
inline constexpr NewCategory kNewCategories[] = {{{categories}}};

// Punctuation of Unicode 16 that Punctuation does not know; it knows U+166D and U+111C9.
inline constexpr CodeSet::Range kNotPunctuation[] = {{{ranges(punctuation - known)}}};

// Marks of Unicode 16 that StripAccents and the normal forms do not know.
inline constexpr CodeSet::Range kNotCombining[] = {{{ranges(marks - stripped)}}};

// Characters that the normal forms do not decompose.
inline constexpr CodeSet::Range kNotDecomposed[] = {{{ranges(kept)}}};

// Marks that are not alphabetic.
inline constexpr CodeSet::Range kNotAlphabetic[] = {{{ranges(marks - matches("[[:alpha:]]"))}}};

struct Script {{
  std::string_view name;
  std::initializer_list<CodeSet::Range> ranges;
}};
inline const Script kScripts[] = {{
{scripts},
}};

}}  // namespace oneflow
""")


if __name__ == "__main__":
    main()

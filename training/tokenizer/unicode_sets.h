// The properties of Unicode that split patterns name, as sets of characters, by the tables that
// Hugging Face's tokenizers 0.23 uses. It uses several: Oniguruma's, those of Rust's standard
// library, and those of Rust crates; they are of different versions of Unicode.
//
//   const CodeSet* letters = FindUnicodeSet("L");
#pragma once

#include <string_view>

#include "training/tokenizer/code_set.h"

namespace oneflow {

// The general category (utf8proc_category_t) of a character as Oniguruma knows it.
int FindCategory(int32_t c);

// The set of a property as Oniguruma knows it: a general category ("L", "Lu", "Letter"), a script
// ("Han"), a POSIX class ("alpha"), "Any" or "Assigned". Case, spaces, "-" and "_" do not count.
// Null: not known.
const CodeSet* FindUnicodeSet(std::string_view name);

const CodeSet& WhiteSpaceSet();     // \s, and Rust's char::is_whitespace
const CodeSet& WordSet();           // \w of Oniguruma
const CodeSet& NumericSet();        // Rust's char::is_numeric: Digits
const CodeSet& PunctuationSet();    // Punctuation, BertPreTokenizer
const CodeSet& RustWordSet();       // \w of Rust's regex: Whitespace
const CodeSet& CombiningMarkSet();  // StripAccents

// Characters that the normal forms leave as they are, because their tables are older than
// Unicode 15.
const CodeSet& NotNormalizedSet();

// Rust's char::to_lowercase, but of U+0130, which becomes two characters.
int32_t LowerCase(int32_t c);

// The set with the characters that differ in case alone (one for one).
CodeSet WithOtherCases(const CodeSet& set);

}  // namespace oneflow

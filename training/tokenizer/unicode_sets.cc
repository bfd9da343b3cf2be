#include "training/tokenizer/unicode_sets.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <span>
#include <string>

#include "training/tokenizer/unicode_tables.h"

namespace oneflow {
namespace {

constexpr int kCategories = UTF8PROC_CATEGORY_CO + 1;

CodeSet SetOfRanges(std::span<const CodeSet::Range> ranges) {
  CodeSet set;
  for (const CodeSet::Range& range : ranges) set.Add(range.first, range.last);
  return set;
}

// By general category.
const std::array<CodeSet, kCategories>& Categories() {
  static const std::array<CodeSet, kCategories> all = [] {
    std::array<CodeSet, kCategories> sets;
    for (int32_t c = 0; c < kNoCharacter; ++c) sets[FindCategory(c)].Add(c, c);
    return sets;
  }();
  return all;
}

// Their short names, by category.
constexpr std::string_view kNames[kCategories] = {
    "cn", "lu", "ll", "lt", "lm", "lo", "mn", "mc", "me", "nd", "nl", "no", "pc", "pd", "ps",
    "pe", "pi", "pf", "po", "sm", "sc", "sk", "so", "zs", "zl", "zp", "cc", "cf", "cs", "co"};

// Those whose name begins so.
CodeSet CategoriesNamed(std::string_view begin) {
  CodeSet set;
  for (int i = 0; i < kCategories; ++i) {
    if (kNames[i].starts_with(begin)) set = set.Or(Categories()[i]);
  }
  return set;
}

// Letters of Other_Alphabetic that are symbols.
const CodeSet& CircledLetters() {
  static const CodeSet set = {
      {0x24b6, 0x24e9}, {0x1f130, 0x1f149}, {0x1f150, 0x1f169}, {0x1f170, 0x1f189}};
  return set;
}

std::map<std::string, CodeSet, std::less<>> MakeSets() {
  std::map<std::string, CodeSet, std::less<>> sets;
  for (const std::string_view name : kNames) {
    for (const size_t letters : {1, 2}) {
      const std::string_view begin = name.substr(0, letters);
      sets.try_emplace(std::string(begin), CategoriesNamed(begin));
    }
  }
  for (const auto& [name, known] : {std::pair{"letter", "l"},
                                    {"uppercaseletter", "lu"},
                                    {"lowercaseletter", "ll"},
                                    {"titlecaseletter", "lt"},
                                    {"modifierletter", "lm"},
                                    {"otherletter", "lo"},
                                    {"mark", "m"},
                                    {"combiningmark", "m"},
                                    {"nonspacingmark", "mn"},
                                    {"spacingmark", "mc"},
                                    {"enclosingmark", "me"},
                                    {"number", "n"},
                                    {"decimalnumber", "nd"},
                                    {"letternumber", "nl"},
                                    {"othernumber", "no"},
                                    {"punctuation", "p"},
                                    {"connectorpunctuation", "pc"},
                                    {"dashpunctuation", "pd"},
                                    {"openpunctuation", "ps"},
                                    {"closepunctuation", "pe"},
                                    {"initialpunctuation", "pi"},
                                    {"finalpunctuation", "pf"},
                                    {"otherpunctuation", "po"},
                                    {"symbol", "s"},
                                    {"mathsymbol", "sm"},
                                    {"currencysymbol", "sc"},
                                    {"modifiersymbol", "sk"},
                                    {"othersymbol", "so"},
                                    {"separator", "z"},
                                    {"spaceseparator", "zs"},
                                    {"lineseparator", "zl"},
                                    {"paragraphseparator", "zp"},
                                    {"control", "cc"},
                                    {"format", "cf"},
                                    {"privateuse", "co"},
                                    {"unassigned", "cn"},
                                    {"digit", "nd"},
                                    {"cntrl", "cc"}}) {
    sets[name] = sets[known];
  }
  const CodeSet any = {{0, kNoCharacter - 1}};
  sets["any"] = any;
  sets["assigned"] = any.Without(sets["cn"]);
  sets["space"] = sets["whitespace"] = {
      {0x09, 0x0d},     {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
      {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}};
  sets["punct"] = sets["p"].Or(sets["s"]);
  sets["blank"] = sets["zs"].Or(CodeSet::One('\t'));
  sets["graph"] =
      any.Without(sets["space"]).Without(sets["cc"]).Without(sets["cn"]).Without(sets["cs"]);
  sets["print"] = sets["graph"].Or(sets["zs"]);
  sets["xdigit"] = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
  sets["rustword"] =
      sets["l"].Or(sets["m"]).Or(sets["nd"]).Or(sets["nl"]).Or(sets["pc"]).Or(CircledLetters());
  sets["word"] = sets["rustword"].Or({{0xb2, 0xb3}, {0xb9, 0xb9}, {0xbc, 0xbe}});
  sets["alpha"] = sets["alphabetic"] = sets["l"]
                                           .Or(sets["m"].Without(SetOfRanges(kNotAlphabetic)))
                                           .Or(sets["nl"])
                                           .Or(CircledLetters());
  sets["alnum"] = sets["alpha"].Or(sets["nd"]);
  for (const Script& script : kScripts) sets[std::string(script.name)] = CodeSet(script.ranges);
  return sets;
}

const std::map<std::string, CodeSet, std::less<>>& Sets() {
  static const auto sets = MakeSets();
  return sets;
}

}  // namespace

int FindCategory(int32_t c) {
  const utf8proc_category_t known = utf8proc_category(c);
  if (known != UTF8PROC_CATEGORY_CN && known != UTF8PROC_CATEGORY_MN) return known;
  const auto* next =
      std::lower_bound(std::begin(kNewCategories), std::end(kNewCategories), c,
                       [](const NewCategory& range, int32_t code) { return range.last < code; });
  return next != std::end(kNewCategories) && next->first <= c ? next->category : known;
}

const CodeSet* FindUnicodeSet(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c == ' ' || c == '_' || c == '-') continue;
    plain += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  const auto it = Sets().find(plain);
  return it == Sets().end() || plain == "rustword" ? nullptr : &it->second;
}

const CodeSet& WhiteSpaceSet() { return Sets().at("space"); }
const CodeSet& WordSet() { return Sets().at("word"); }
const CodeSet& RustWordSet() {
  // With what joins words, and what keeps them apart.
  static const CodeSet set = Sets().at("rustword").Or({{0x200c, 0x200d}});
  return set;
}

const CodeSet& NumericSet() {
  // Rust has Unicode 17.
  static const CodeSet set = Sets().at("n").Or({{0x11de0, 0x11de9}, {0x16ff4, 0x16ff6}});
  return set;
}

const CodeSet& PunctuationSet() {
  static const CodeSet set = Sets()
                                 .at("p")
                                 .Or({{'!', '/'},
                                      {':', '@'},
                                      {'[', '`'},
                                      {'{', '~'},
                                      {0x166d, 0x166d},
                                      {0x111c9, 0x111c9}})
                                 .Without(SetOfRanges(kNotPunctuation));
  return set;
}

const CodeSet& CombiningMarkSet() {
  static const CodeSet set =
      Sets().at("m").Without(SetOfRanges(kNotCombining)).Or({{0x1cf2, 0x1cf3}});
  return set;
}

const CodeSet& NotNormalizedSet() {
  static const CodeSet set = SetOfRanges(kNotCombining).Or(SetOfRanges(kNotDecomposed));
  return set;
}

int32_t LowerCase(int32_t c) {
  struct Shift {
    int32_t first, last, by;
  };
  // Letters of Unicode 16 and 17.
  static constexpr Shift kNewLetters[] = {
      {0x1c89, 0x1c89, 1},      {0xa7cb, 0xa7cb, 0x264 - 0xa7cb},
      {0xa7cc, 0xa7cc, 1},      {0xa7ce, 0xa7ce, 1},
      {0xa7d2, 0xa7d2, 1},      {0xa7d4, 0xa7d4, 1},
      {0xa7da, 0xa7da, 1},      {0xa7dc, 0xa7dc, 0x19b - 0xa7dc},
      {0x10d50, 0x10d65, 0x20}, {0x16ea0, 0x16eb8, 0x1b}};
  for (const Shift& shift : kNewLetters) {
    if (c >= shift.first && c <= shift.last) return c + shift.by;
  }
  return c < kNoCharacter ? utf8proc_tolower(c) : c;
}

CodeSet WithOtherCases(const CodeSet& set) {
  // By lower case: the characters that have it.
  static const std::map<int32_t, std::vector<int32_t>> cases = [] {
    std::map<int32_t, std::vector<int32_t>> made;
    for (int32_t c = 0; c < kNoCharacter; ++c) {
      const int32_t upper = utf8proc_toupper(c), lower = utf8proc_tolower(c);
      if (upper == c && lower == c) continue;
      made[utf8proc_tolower(upper)].push_back(c);
    }
    return made;
  }();
  CodeSet all = set;
  for (const auto& [lower, others] : cases) {
    bool found = set.Contains(lower);
    for (const int32_t c : others) found = found || set.Contains(c);
    if (!found) continue;
    all.Add(lower, lower);
    for (const int32_t c : others) all.Add(c, c);
  }
  return all;
}

}  // namespace oneflow

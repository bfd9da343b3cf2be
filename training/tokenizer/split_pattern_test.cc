#include "training/tokenizer/split_pattern.h"

#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "training/tokenizer/word_split.h"

namespace oneflow {
namespace {

// The matches with a bar between; gaps in brackets.
std::string Matches(const SplitPattern& pattern, std::string_view text) {
  std::string made;
  size_t done = 0;
  pattern.FindMatches(text, [&](size_t begin, size_t end) {
    if (begin > done) made += "[" + std::string(text.substr(done, begin - done)) + "]";
    made += std::string(text.substr(begin, end - begin)) + "|";
    done = end;
  });
  if (done < text.size()) made += "[" + std::string(text.substr(done)) + "]";
  return made;
}

std::string Matches(std::string_view regex, std::string_view text) {
  return Matches(SplitPattern::Parse(regex).value(), text);
}

std::string RandomText(std::mt19937* random, const std::vector<std::string>& parts, int most) {
  std::string text;
  for (int n = static_cast<int>((*random)() % most); n > 0; --n)
    text += parts[(*random)() % parts.size()];
  return text;
}

const std::vector<std::string> kParts = {
    "a",      "Zq",     "the",      " ",      "  ",     "\n",      "\r\n",       "\t",
    "'s",     "'S",     "'LL",      "'ve",    "'",      "'\u017f", "1",          "234",
    "٣",      "½",      "e\u0301",  "é",      "中",     "자",      "🙂",       "\u00a0",
    "\u3000", "\u2028", "!",        "...",    "_",      "\u0378",  "\U00010d4a", "\u1c89",
    "\xff",   "\xc3",   "\xe4\xb8", "\u200d", "\u0345", "-",       "/"};

}  // namespace

TEST_CASE("the patterns that are matched by hand find what PCRE2 finds") {
  std::mt19937 random(1);
  for (const WordPattern* words : {&kGpt2Words, &kLlama3Words, &kQwen2Words}) {
    const SplitPattern by_hand = SplitPattern::Parse(words->regex).value();
    const SplitPattern pcre = SplitPattern::Parse(words->regex, /*by_hand=*/false).value();
    for (int i = 0; i < 3000; ++i) {
      const std::string text = RandomText(&random, kParts, 14);
      REQUIRE(Matches(by_hand, text) == Matches(pcre, text));
    }
  }
}

TEST_CASE("Oniguruma's syntax") {
  CHECK(Matches("[[\\p{L}]&&[^\\p{Han}]]+", "ab中c1") == "ab|[中]c|[1]");
  CHECK(Matches("[\\p{L}&&[^\\p{Han}]x]+", "ab中c1") == "ab|[中]c|[1]");
  CHECK(Matches("\\d{1,3}+", "1234567") == "1234567|");  // ({1,3})+
  CHECK(Matches("\\d{1,3}?", "123") == "1|2|3|");
  CHECK(Matches("a{2}?b", "aab") == "aab|");
  CHECK(Matches("a{,2}b", "aaab") == "[a]aab|");
  CHECK(Matches("a{x", "a{x") == "a{x|");
  CHECK(Matches("\\p{L}++x?", "abx") == "abx|");
  CHECK(Matches("a++ab|.", "aab") == "a|a|b|");
  CHECK(Matches("(?>a|ab)c|.", "abc") == "a|b|c|");
  CHECK(Matches("^a|b$", "a\nab\nb") == "a|[\n]a|b|[\n]b|");
  CHECK(Matches("\\h+", "xyzaf09") == "[xyz]af09|");
  CHECK(Matches("(?<=ab|c)x", "abxcxx") == "[ab]x|[c]x|[x]");
  CHECK(Matches("(?<!ab|c)x", "abxcxx") == "[abxcx]x|");
  CHECK(Matches("[]a]+", "a]b") == "a]|[b]");
  CHECK(Matches("[^(\\s|[.,])]+", "a(b|c.d e") == "a|[(]b|[|]c|[.]d|[ ]e|");
  CHECK(Matches("(?i:k)|(?i)[a-c]x", "\u212ak Bx") == "\u212a|k|[ ]Bx|");
  CHECK(Matches("(?i:a)b", "Ab aB") == "Ab|[ aB]");
  CHECK(Matches("a(?i)b|c", "c aC aB b") == "[c ]aC|[ ]aB|[ b]");
  CHECK(Matches("[[:alpha:]\u0345]+", "aⅧ\u0345\u0301") == "aⅧ\u0345|[\u0301]");
  CHECK(Matches("(?m:.)|b", "\n") == "\n|");
  CHECK(Matches(".", "a\nb") == "a|[\n]b|");
  CHECK(Matches("\\bab\\b", "ab cab") == "ab|[ cab]");
  CHECK(Matches("\\R", "a\r\nb\n") == "[a]\r\n|[b]\n|");
  CHECK(Matches("x*", "axxb") == "|[a]xx|[b]|");
  CHECK(Matches("\\Aa|a\\z|b\\Z", "aaba") == "a|[ab]a|");
  CHECK(Matches("a(?#note)b(?<name>c)", "abc") == "abc|");
  CHECK(Matches("[[:punct:]]+[[:^digit:]]", "$a!1") == "$a|[!1]");
  CHECK(Matches("[\\w-]+", "a-b c") == "a-b|[ ]c|");
  CHECK(Matches("\\x{41}\\u0042\\t", "AB\t") == "AB\t|");
}

TEST_CASE("bytes that are no UTF-8 are characters without a property") {
  CHECK(Matches("\\p{L}+|[^\\p{L}]", "a\xff\xc3 b") == "a|\xff|\xc3| |b|");
  CHECK(Matches("\\p{Any}", "\xff") == "[\xff]");
}

TEST_CASE("a match that takes PCRE2 too many steps is found in time") {
  CHECK(Matches("(?:a|a)*b|(?:a+)+c|a", std::string(150, 'a')).size() == 300);
  CHECK(Matches("(?:(?=(?:a|a)*b)a|(?:a?a)+)d|.", std::string(60, 'a')).size() == 120);
}

TEST_CASE("the program finds what PCRE2 finds") {
  const char* patterns[] = {
      "(?i:'s|'t|'re)|[^\\r\\n\\p{L}]?\\p{L}+|\\s+(?!\\S)|\\s+",
      "[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s",
      "(?<=\\d)(?=\\p{L})|a+?b|(?:a|ab)(?:c|bcd)?|(?>\\s+)!|\\w+\\b"};
  std::mt19937 random(2);
  for (const char* text_of_pattern : patterns) {
    const SplitRegex regex = ParseSplitRegex(text_of_pattern).value();
    const CharacterKinds kinds = CharacterKinds::Make(regex.sets).value();
    const RegexProgram program(regex, kinds);
    const SplitPattern pattern = SplitPattern::Parse(text_of_pattern).value();
    for (int i = 0; i < 500; ++i) {
      const std::string text =
          RandomText(&random, {"a", "b", "ab", "c", "d", " ", "\n", "1", "!", "'s"}, 14);
      std::string translated;
      std::vector<size_t> offsets;
      kinds.Translate(text, &translated, &offsets);
      std::string made;
      size_t done = 0, from = 0, last = std::string::npos, end = 0;
      while (from <= text.size()) {
        const size_t begin = program.Find(translated, from, &end);
        if (begin == std::string::npos) break;
        if (begin == end && end == last) {
          ++from;
          continue;
        }
        if (begin > done) made += "[" + text.substr(done, begin - done) + "]";
        made += text.substr(begin, end - begin) + "|";
        from = last = done = end;
      }
      if (done < text.size()) made += "[" + text.substr(done) + "]";
      REQUIRE(made == Matches(pattern, text));
    }
  }
}

TEST_CASE("where a text may be split without changing the matches of its sides") {
  const auto safe = [](const SplitPattern& p, char left, char right) {
    return !p.MayNeedBoth(left, right) && (p.AlwaysMatches(left) || p.AlwaysMatches(right));
  };
  const SplitPattern gpt2 = SplitPattern::Parse(kGpt2Words.regex).value();
  CHECK(safe(gpt2, 'a', ' '));
  CHECK(safe(gpt2, '!', '\n'));
  CHECK_FALSE(safe(gpt2, ' ', 'a'));
  CHECK_FALSE(safe(gpt2, ' ', ' '));
  CHECK_FALSE(safe(gpt2, '\n', 'a'));  // "  \n" alone is one word
  const SplitPattern llama3 = SplitPattern::Parse(kLlama3Words.regex).value();
  CHECK_FALSE(safe(llama3, '!', '\n'));
  CHECK(safe(llama3, 'a', '\n'));
  const SplitPattern behind = SplitPattern::Parse("(?<=a)b|.").value();
  CHECK_FALSE(safe(behind, 'a', 'b'));
  CHECK(safe(behind, 'c', 'b'));
  const SplitPattern digits = SplitPattern::Parse("\\p{N}{1,3}").value();
  CHECK(safe(digits, '1', 'a'));
  CHECK_FALSE(safe(digits, 'b', 'a'));  // between matches, which nothing tells apart
}

}  // namespace oneflow

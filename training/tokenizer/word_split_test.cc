#include "training/tokenizer/word_split.h"

#include <catch2/catch.hpp>
#include <string>

namespace oneflow {
namespace {

// The words with a bar between.
std::string Words(std::string_view text, const WordPattern& pattern = kGpt2Words) {
  std::string words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = WordEnd(pattern, text, at);
    REQUIRE(end > at);
    words += (at > 0 ? "|" : "") + std::string(text.substr(at, end - at));
    at = end;
  }
  return words;
}

}  // namespace

TEST_CASE("words take one space before them; the rest of a run of spaces stands alone") {
  CHECK(Words("Hello, world 42!") == "Hello|,| world| 42|!");
  CHECK(Words("a   b") == "a|  | b");
  CHECK(Words("a\n\nb") == "a|\n|\n|b");
  CHECK(Words("end  ") == "end|  ");
  CHECK(Words(" ") == " ");
  CHECK(Words("\t x") == "\t| x");
}

TEST_CASE("contractions are words, in lower case and after a word only") {
  CHECK(Words("we'll don't") == "we|'ll| don|'t");
  CHECK(Words("WE'LL") == "WE|'|LL");
  CHECK(Words("a 's") == "a| '|s");
}

TEST_CASE("letters, numbers and spaces are Unicode's") {
  CHECK(Words("größe٣中文½🙂") == "größe|٣|中文|½|🙂");
  CHECK(Words("a\u3000b") == "a|\u3000|b");
  CHECK(Words("e\u0301") == "e|\u0301");  // a combining accent is no letter
}

TEST_CASE("bytes that are no UTF-8 are separate characters") {
  CHECK(Words("a\xff\xc3 b\xe4\xb8") == "a|\xff\xc3| b|\xe4\xb8");
}

TEST_CASE("text is split only before white space that follows a word") {
  const std::string text = "one two\n\n  three";
  CHECK(WordSplitPoint(kGpt2Words, text, text.size()) == text.size());
  CHECK(WordSplitPoint(kGpt2Words, text, 10) == 7);
  CHECK(WordSplitPoint(kGpt2Words, text, 6) == 3);
  CHECK(WordSplitPoint(kGpt2Words, text, 2) == 0);
  CHECK(WordSplitPoint(kGpt2Words, "größ e", 4) ==
        0);  // ß is not ASCII, e has no space before: nothing up to here
}

TEST_CASE("Llama 3: contractions in any case, three digits, any one character before letters") {
  const auto words = [](std::string_view text) { return Words(text, kLlama3Words); };
  CHECK(words("we'll WE'LL he'S it'\u017fx") == "we|'ll| WE|'LL| he|'S| it|'\u017f|x");
  CHECK(words("1234567 89") == "123|456|7| |89");
  CHECK(words("(a) \tb \u3000c e\u0301f") == "(a|)| |\tb| |\u3000c| e|\u0301f");
  CHECK(words("a.b ...c") == "a|.b| ...|c");
  CHECK(words("a\xff\xff b\xe4\xb8") == "a|\xff\xff| b|\xe4\xb8");
}

TEST_CASE("Llama 3: line ends close white space and punctuation") {
  const auto words = [](std::string_view text) { return Words(text, kLlama3Words); };
  CHECK(words("a\r\n\r\n  b") == "a|\r\n\r\n| | b");
  CHECK(words("!\n\n x\n") == "!\n\n| x|\n");
  CHECK(words("  \n  x") == "  \n| | x");
  CHECK(words(" !\n") == " !\n");
  CHECK(words("\na") == "\n|a");
  CHECK(words("end  ") == "end|  ");
}

TEST_CASE("Qwen 2: a digit is a word") {
  CHECK(Words("a 12\n3", kQwen2Words) == "a| |1|2|\n|3");
  CHECK(Words("I'M \n\n", kQwen2Words) == "I|'M| \n\n");
}

TEST_CASE("no split between punctuation and the line ends that belong to it") {
  CHECK(WordSplitPoint(kLlama3Words, "a!\nb", 2) == 0);
  CHECK(WordSplitPoint(kGpt2Words, "a!\nb", 2) == 2);
  CHECK(WordSplitPoint(kLlama3Words, "ab\nb", 2) == 2);
  CHECK(WordSplitPoint(kLlama3Words, "a! b", 2) == 2);
}

TEST_CASE("a pattern is known as it is written in tokenizer.json") {
  CHECK(FindWordPattern(kLlama3Words.regex) == &kLlama3Words);
  CHECK(FindWordPattern(kQwen2Words.regex) == &kQwen2Words);
  CHECK(FindWordPattern(kGpt2Words.regex) == &kGpt2Words);
  CHECK(FindWordPattern("\\p{N}{1,4}") == nullptr);
}

}  // namespace oneflow

#include "actor_runtime/tokenizer/gpt2_split.h"

#include <catch2/catch.hpp>
#include <string>

namespace oneflow {
namespace {

// The words with a bar between.
std::string Words(std::string_view text) {
  std::string words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = Gpt2WordEnd(text, at);
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
  CHECK(Gpt2SplitPoint(text, text.size()) == text.size());
  CHECK(Gpt2SplitPoint(text, 10) == 7);
  CHECK(Gpt2SplitPoint(text, 6) == 3);
  CHECK(Gpt2SplitPoint(text, 2) == 0);
  CHECK(Gpt2SplitPoint("größ e", 4) ==
        0);  // ß is not ASCII, e has no space before: nothing up to here
}

}  // namespace oneflow

#include "oneflow_core/base/runs.h"

#include <catch2/catch.hpp>
#include <random>
#include <string>

namespace oneflow {
namespace {

std::string Text(const std::string& items) {
  std::string text;
  for (const Run& run : FindRuns(items)) {
    text += (text.empty() ? "" : " ") + items.substr(run.begin, run.length) + "×" +
            std::to_string(run.repeat);
  }
  return text;
}

}  // namespace

TEST_CASE("a sequence is taken apart from the front, the repetition that covers most first") {
  CHECK(Text("").empty());
  CHECK(Text("A") == "A×1");
  CHECK(Text("AAAA") == "A×4");
  CHECK(Text("FBFBFBBB") == "FB×3 B×2");
  CHECK(Text("FFFBWFBWFBW") == "F×3 BWF×2 B×1 W×1");
  CHECK(Text("ABC") == "A×1 B×1 C×1");
  CHECK(Text("AABAAB") == "AAB×2");
}

TEST_CASE("runs unrolled are the sequence") {
  std::mt19937 random(2);
  for (int i = 0; i < 300; ++i) {
    std::string items(random() % 40, ' '), unrolled;
    for (char& c : items) c = static_cast<char>('a' + random() % (1 + i % 3));
    for (const Run& run : FindRuns(items)) {
      CHECK(run.begin == unrolled.size());
      for (int64_t n = 0; n < run.repeat; ++n) unrolled += items.substr(run.begin, run.length);
    }
    CHECK(unrolled == items);
  }
}

}  // namespace oneflow

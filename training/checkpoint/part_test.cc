// Parts of checkpoints are foreign bytes: each mistake in one is refused, none ends the process.
#include "training/checkpoint/part.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "training/checkpoint/checkpoint_for_test.h"

namespace oneflow {
namespace {

const std::string kSum = "0123456789abcdef";

// w[5,7,3] in two slices by ranks 0 and 4, b[11] by rank 4, s by rank 0.
std::vector<CheckpointPart> Example() {
  std::vector<CheckpointPart> parts;
  for (int process = 0; process < 2; ++process) {
    CheckpointPart part = {.plan = "f00d", .step = 20, .attempt = 3, .process = process};
    part.ranks = {process * 4, process * 4 + 4};
    part.variables = *FindVariables(TestPlan());
    parts.push_back(std::move(part));
  }
  parts[0].variables[0].slices = {{{{0, 0, 0}, {3, 7, 3}}, {"rank-00000.bin", 0, 252, {kSum}}}};
  parts[0].variables[2].slices = {{{}, {"rank-00000.bin", 256, 4, {kSum}}}};
  parts[1].variables[0].slices = {{{{3, 0, 0}, {2, 7, 3}}, {"rank-00004.bin", 0, 168, {kSum}}}};
  parts[1].variables[1].slices = {{{{0}, {11}}, {"rank-00004.bin", 192, 44, {kSum}}}};
  return parts;
}

std::vector<std::string> Texts(const std::vector<CheckpointPart>& parts) {
  std::vector<std::string> texts;
  texts.reserve(parts.size());
  for (const CheckpointPart& part : parts) texts.push_back(ToText(part));
  return texts;
}

absl::StatusOr<std::vector<StoredVariable>> Merged(const std::vector<std::string>& texts) {
  return MergeParts(TestPlan(), 20, 3, texts);
}

// The refusal of the example after a change of it.
std::string Error(const std::function<void(std::vector<CheckpointPart>& parts)>& change) {
  std::vector<CheckpointPart> parts = Example();
  change(parts);
  const absl::Status status = Merged(Texts(parts)).status();
  CHECK(status.code() == absl::StatusCode::kInternal);
  return Message(status);
}

// With the checksum that belongs to the text.
std::string Signed(const std::string& json) {
  const std::string text = json.substr(0, json.rfind("\"xxh3\""));
  return text + "\"xxh3\": \"" + Checksum(std::as_bytes(std::span(text))) + "\"\n}\n";
}

TEST_CASE("Parts: merged in any order they are one list of slices") {
  std::vector<CheckpointPart> parts = Example();
  const std::vector<StoredVariable> merged = *Merged(Texts(parts));
  REQUIRE(merged.size() == 3);
  CHECK(merged[0].slices ==
        std::vector{parts[0].variables[0].slices[0], parts[1].variables[0].slices[0]});
  CHECK(merged[1].slices == parts[1].variables[1].slices);
  CHECK(merged[2].slices == parts[0].variables[2].slices);
  std::reverse(parts.begin(), parts.end());
  CHECK(*Merged(Texts(parts)) == merged);
  // A process whose ranks hold replicas only has no slices.
  parts.push_back({.plan = "f00d", .step = 20, .attempt = 3, .process = 2, .ranks = {8, 12}});
  CHECK(*Merged(Texts(parts)) == merged);
}

TEST_CASE("Parts: those that are not of this checkpoint are refused") {
  using Parts = std::vector<CheckpointPart>&;
  CHECK_THAT(Error([](Parts p) { p[1].plan = "beef"; }),
             Catch::Contains("part 1 of 2 of the checkpoint of step 20: is of plan beef, not of"));
  CHECK_THAT(Error([](Parts p) { p[1].step = 21; }),
             Catch::Contains("is of step 21 and attempt 3"));
  CHECK_THAT(Error([](Parts p) { p[0].attempt = 2; }), Catch::Contains("and attempt 2, not of"));
  CHECK_THAT(Error([](Parts p) { p[1].process = 0; }), Catch::Contains("process 0 has another"));
  CHECK_THAT(Error([](Parts p) { p.pop_back(); }), Catch::Contains("w: has 63 of 105 elements"));
  CHECK_THAT(Error([](Parts p) { p.clear(); }), Catch::Contains("w: has 0 of 105 elements"));
}

TEST_CASE("Parts: what they tell of slices and files must fit") {
  using Parts = std::vector<CheckpointPart>&;
  const auto run = [](Parts p) -> StoredRun& { return p[1].variables[0].slices[0].run; };
  const auto named = [&](const std::string& file) {
    return Error([&](Parts p) { run(p).file = file; });
  };
  for (const std::string file : {"manifest.json", "rank-4.bin", "rank-00004.bin2", "rank-0x004.bin",
                                 "rank-", "rank-00004", "RANK-00004.bin"}) {
    CHECK_THAT(named(file), Catch::Contains("names file " + file + ", which is no rank's"));
  }
  CHECK_THAT(named("../x"), Catch::Contains("no file name: ../x"));
  CHECK_THAT(named(""), Catch::Contains("no file name"));
  CHECK_THAT(named("rank-00000.bin"),
             Catch::Contains("names file rank-00000.bin, and has ranks 4 to 7"));
  CHECK_THAT(Error([&](Parts p) { p[1].ranks = {}, run(p).file = "rank-00000.bin"; }),
             Catch::Contains("file rank-00000.bin is of process 0, too"));
  CHECK(Error([&](Parts p) { run(p).offset = 64; }) ==
        "rank-00004.bin: a slice is at byte 64, not 0");
  CHECK_THAT(Error([&](Parts p) { p[1].variables[1].slices[0].run.offset = 0; }),
             Catch::Contains("two slices are at byte 0"));
  CHECK_THAT(Error([&](Parts p) { run(p).offset = -1; }), Catch::Contains("\"offset\" is missing"));
  CHECK_THAT(Error([&](Parts p) { run(p).bytes = 164; }), Catch::Contains("has 164 bytes"));
  CHECK_THAT(Error([&](Parts p) { run(p).checksums = {"no"}; }), Catch::Contains("no checksum"));
  CHECK_THAT(Error([&](Parts p) {
               run(p).checksums = {kSum, kSum};
             }),
             Catch::Contains("2 checksums of 168 bytes"));

  const auto slices = [](Parts p) -> std::vector<StoredSlice>& { return p[1].variables[0].slices; };
  CHECK_THAT(Error([&](Parts p) { slices(p)[0].slice.begin[0] = 4; }),
             Catch::Contains("outside [5,7,3]"));
  CHECK_THAT(Error([&](Parts p) { slices(p)[0].slice.begin[0] = 2; }),
             Catch::Contains("w: element [2,0,0] is in 2 slices"));
  CHECK_THAT(Error([&](Parts p) { slices(p)[0].slice.size[0] = 0, run(p).bytes = 0; }),
             Catch::Contains("has a slice without elements"));
  CHECK_THAT(Error([&](Parts p) { p[1].variables[0].name = "x"; }),
             Catch::Contains("the plan has no variable x"));
  CHECK_THAT(Error([&](Parts p) { p[1].variables[0].dtype = DType::kBF16; }),
             Catch::Contains("variable w is not as the plan has it"));
  CHECK_THAT(Error([&](Parts p) {
               p[1].variables[0].dims = {5, 21};
             }),
             Catch::Contains("variable w is not as the plan has it"));
  CHECK_THAT(Error([&](Parts p) { p[1].variables.push_back(p[1].variables[0]); }),
             Catch::Contains("w: has 147 of 105 elements"));
}

TEST_CASE("Parts: truncated or flipped bytes are refused") {
  std::vector<std::string> texts = Texts(Example());
  const std::string good = texts[1];
  for (size_t i = 0; i < good.size(); ++i) {
    texts[1] = good.substr(0, i);
    REQUIRE_FALSE(Merged(texts).ok());
    texts[1] = good;
    texts[1][i] = static_cast<char>(texts[1][i] ^ (1 << i % 8));
    INFO(i);
    REQUIRE(Message(Merged(texts).status()) ==
            "part 1 of 2 of the checkpoint of step 20: does not match its own checksum");
  }
  for (const std::string text : {"", "{}", "[]", "null", "\xff", "{\"format\": 1}"}) {
    texts[1] = text;
    CHECK_FALSE(Merged(texts).ok());
    texts[1] = Signed(text + "\"xxh3\"");
    CHECK_FALSE(Merged(texts).ok());
  }
}

TEST_CASE("Parts: a signed part is refused, or has the same slices") {
  std::vector<std::string> texts = Texts(Example());
  std::vector<StoredVariable> expected = *Merged(texts);
  const std::string good = texts[1];
  const auto without_checksums = [](std::vector<StoredVariable> variables) {
    for (StoredVariable& v : variables) {
      for (StoredSlice& s : v.slices) s.run.checksums.clear();
    }
    return variables;
  };
  expected = without_checksums(expected);
  std::mt19937 random(1);
  const std::vector<std::string> tokens = {"-1",
                                           "0",
                                           "9223372036854775807",
                                           "18446744073709551615",
                                           "1e999",
                                           "1099511627776",
                                           "null",
                                           "[]",
                                           "{}",
                                           "\"\"",
                                           ",",
                                           "2305843009213693952"};
  int accepted = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    std::string text = good;
    const size_t at = random() % text.size();
    const size_t count = random() % 4;
    text.replace(at, count,
                 random() % 2 == 0 ? tokens[random() % tokens.size()]
                                   : std::string(1, static_cast<char>(random())));
    texts[1] = Signed(text);
    const auto merged = Merged(texts);
    if (!merged.ok()) continue;
    REQUIRE(without_checksums(*merged) == expected);
    ++accepted;
  }
  CHECK(accepted < 10000);
}

}  // namespace
}  // namespace oneflow

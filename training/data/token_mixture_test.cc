#include "training/data/token_mixture.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "actor_runtime/random/random.h"
#include "oneflow_core/base/temporary_directory.h"
#include "training/data/token_file_writer.h"

namespace oneflow {
namespace {

constexpr int64_t kSequence = 4;
using Tokens = std::vector<int32_t>;

TokenDataset Open(const std::string& path) {
  return TokenDataset::Open({path}, 256, kSequence).value();
}

// Three datasets of 100, 40 and 25 tokens: letters, digits, and punctuation.
std::vector<TokenDataset> Three(const TemporaryDirectory& dir) {
  std::string letters, digits, others;
  for (int i = 0; i < 100; ++i) letters += static_cast<char>('a' + i % 26);
  for (int i = 0; i < 40; ++i) digits += static_cast<char>('0' + i % 10);
  for (int i = 0; i < 25; ++i) others += static_cast<char>('!' + i % 10);
  return {Open(dir.Write("letters", letters)), Open(dir.Write("digits", digits)),
          Open(dir.Write("others", others))};
}

Tokens Sample(const TokenSource& source, int64_t step, int64_t sample) {
  Tokens tokens(kSequence + 1);
  REQUIRE(source.Sample(step, sample, tokens).ok());
  return tokens;
}

// The index of the dataset of Three that has these tokens.
size_t FindPart(const Tokens& tokens) { return tokens[0] >= 'a' ? 0 : tokens[0] >= '0' ? 1 : 2; }

std::string Refused(const std::vector<TokenDataset>& data, const std::vector<double>& weights) {
  const auto mixture = TokenMixture::Make(data, weights);
  REQUIRE_FALSE(mixture.ok());
  return std::string(mixture.status().message());
}

}  // namespace

TEST_CASE("a sample comes from the part that a number of its own stream chooses") {
  const TemporaryDirectory dir;
  const auto data = Three(dir);
  const TokenMixture mixture = *TokenMixture::Make(data, {5, 3, 2});
  const auto source = mixture.Source(7);
  const RandomStream stream(7, "token_mixture");
  std::vector<std::unique_ptr<TokenSource>> alone;
  for (const TokenDataset& one : data) alone.push_back(one.Source(7));
  std::vector<int64_t> counts(3);
  for (int64_t step = 0; step < 40; ++step) {
    for (int64_t sample = 0; sample < 25; ++sample) {
      const double at = stream.Uniform(static_cast<uint64_t>(step) << 32 | sample);
      const size_t part = at < 0.5 ? 0 : at < 0.8 ? 1 : 2;
      const Tokens tokens = Sample(*source, step, sample);
      REQUIRE(FindPart(tokens) == part);
      REQUIRE(tokens == Sample(*alone[part], step, sample));
      ++counts[part];
    }
  }
  CHECK(mixture.CountSamples(7, 40, 25) == counts);
  CHECK(std::abs(counts[0] - 500) < 60);
  CHECK(std::abs(counts[1] - 300) < 60);
  CHECK(mixture.CountSamples(8, 40, 25) != counts);
}

TEST_CASE("the same samples in any order, from any step on, and from a copy") {
  const TemporaryDirectory dir;
  const TokenMixture mixture = *TokenMixture::Make(Three(dir), {1, 1, 1});
  const TokenMixture copy = mixture;
  const auto source = mixture.Source(3), resumed = copy.Source(3);
  for (int64_t step = 30; step-- > 20;) {
    for (int64_t sample = 8; sample-- > 0;) {
      CHECK(Sample(*source, step, sample) == Sample(*resumed, step, sample));
    }
  }
}

TEST_CASE("one dataset without weights is drawn from as before") {
  const TemporaryDirectory dir;
  const auto data = Three(dir);
  const TokenMixture plain(data[0]), one = *TokenMixture::Make({data[0]}, {3});
  CHECK(plain.parts().empty());
  CHECK(plain.size() == 100);
  for (int64_t sample = 0; sample < 50; ++sample) {
    const Tokens expected = Sample(*data[0].Source(9), 2, sample);
    CHECK(Sample(*plain.Source(9), 2, sample) == expected);
    CHECK(Sample(*one.Source(9), 2, sample) == expected);
  }
}

TEST_CASE("weights are normalised, and facts tell file, tokens and weight") {
  const TemporaryDirectory dir;
  const TokenMixture mixture = *TokenMixture::Make(Three(dir), {7, 2, 1});
  CHECK(mixture.parts() ==
        MixtureParts{{"letters", 100, 0.7}, {"digits", 40, 0.2}, {"others", 25, 0.1}});
  CHECK(mixture.size() == 165);
  CHECK(mixture.tokenizer() == BytesTokenizerId());
  CHECK(MixturePart{"a", 1, 0.5}.SameAs({"b", 1, 0.5}));
  CHECK_FALSE(MixturePart{"a", 1, 0.5}.SameAs({"a", 2, 0.5}));
  CHECK_FALSE(MixturePart{"a", 1, 0.5}.SameAs({"a", 1, 0.25}));
}

TEST_CASE("each part gives its last tokens to validation") {
  const TemporaryDirectory dir;
  const TokenMixture mixture = *TokenMixture::Make(Three(dir), {7, 2, 1});
  const MixtureSplit split = *mixture.Split(0.2, kSequence);
  CHECK(split.train.parts() ==
        MixtureParts{{"letters", 80, 0.7}, {"digits", 32, 0.2}, {"others", 20, 0.1}});
  CHECK(split.validation.parts()[2] == MixturePart{"others", 5, 0.1});
  CHECK(split.validation.size() == 33);
  CHECK(mixture.Split(0, kSequence)->validation.size() == 0);
  CHECK_THAT(std::string(mixture.Split(0.1, kSequence).status().message()),
             Catch::Contains("digits: too short: the validation part needs 5 tokens"));
  const TokenMixture plain(Three(dir)[0]);
  CHECK(plain.Split(0.1, kSequence)->train.size() == 90);
  CHECK(plain.Split(0.1, kSequence)->train.parts().empty());
}

TEST_CASE("weights that mean nothing, and parts of two tokenizers, are refused") {
  const TemporaryDirectory dir;
  const auto data = Three(dir);
  const double infinite = std::numeric_limits<double>::infinity();
  const auto contains = [](const char* weight) {
    return Catch::Contains("digits: its weight " + std::string(weight) +
                           " is not positive and finite; give each file a weight such as 0.7");
  };
  CHECK_THAT(Refused(data, {1, 0, 1}), contains("0"));
  CHECK_THAT(Refused(data, {1, -0.5, 1}), contains("-0.5"));
  CHECK_THAT(Refused(data, {1, std::nan(""), 1}), contains("nan"));
  CHECK_THAT(Refused(data, {1, infinite, 1}), contains("inf"));
  CHECK_THAT(Refused(data, {1, 1e-320, 1e300}), contains("9.99989e-321"));  // no share is left
  CHECK_THAT(Refused(data, {1e308, 1e308, 1e308}), Catch::Contains("its weight 1e+308 is not"));
  auto out =
      TokenFileWriter::Create(dir.path() + "/a.bin", TokenFormat::kNanoGpt, 256, {"other", "01"})
          .value();
  REQUIRE(out.Append(Tokens(10, 1)).ok());
  REQUIRE(out.Finish().ok());
  CHECK_THAT(Refused({data[0], Open(dir.path() + "/a.bin")}, {1, 1}),
             Catch::Contains("a.bin: was made with tokenizer other (01), but "));
}

}  // namespace oneflow

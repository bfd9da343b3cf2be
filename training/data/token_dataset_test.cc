#include "training/data/token_dataset.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "oneflow_core/base/temporary_directory.h"
#include "training/data/token_file_writer.h"

namespace oneflow {
namespace {

std::vector<int32_t> Read(const TokenDataset& data, int64_t begin, int64_t count) {
  std::vector<int32_t> tokens(count);
  CHECK(data.Read(begin, tokens).ok());
  return tokens;
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST_CASE("Text files: a byte is a token") {
  const TemporaryDirectory dir;
  const std::string path = dir.Write("a.txt", "abc\xff");
  const TokenDataset data = *TokenDataset::Open({path}, 256, 3);
  CHECK(data.size() == 4);
  CHECK(Read(data, 0, 4) == std::vector<int32_t>{'a', 'b', 'c', 255});
}

TEST_CASE(".bin files: little-endian uint16") {
  const TemporaryDirectory dir;
  const std::string path = dir.Write("a.bin", std::string("\x01\x00\x00\x01\xff\xff", 6));
  CHECK(Read(*TokenDataset::Open({path}, 65536, 2), 0, 3) == std::vector<int32_t>{1, 256, 65535});
}

TEST_CASE("Several files are joined, empty ones too") {
  const TemporaryDirectory dir;
  const std::vector<std::string> paths = {dir.Write("a", "ab"), dir.Write("b", ""),
                                          dir.Write("c", "cde"), dir.Write("d", "")};
  const TokenDataset data = *TokenDataset::Open(paths, 256, 4);
  CHECK(data.size() == 5);
  CHECK(Read(data, 0, 5) == std::vector<int32_t>{'a', 'b', 'c', 'd', 'e'});
  CHECK(Read(data, 1, 3) == std::vector<int32_t>{'b', 'c', 'd'});
  CHECK(Read(data, 2, 1) == std::vector<int32_t>{'c'});
  CHECK(Read(data.Part(1, 4), 1, 2) == std::vector<int32_t>{'c', 'd'});
}

TEST_CASE("Files without a token are listed") {
  const TemporaryDirectory dir;
  const std::string a = dir.Write("a", ""), b = dir.Write("b", "abc"), c = dir.Write("c.bin", "");
  CHECK(TokenDataset::Open({a, b, c}, 256, 2)->EmptyFiles() == std::vector<std::string>{a, c});
  CHECK(TokenDataset::Open({b}, 256, 2)->EmptyFiles().empty());
}

TEST_CASE("Files of two tokenizers are not joined") {
  const TemporaryDirectory dir;
  const auto write = [&](const std::string& name, const TokenizerId& tokenizer) {
    const std::string path = dir.path() + "/" + name;
    auto out = TokenFileWriter::Create(path, TokenFormat::kNanoGpt, 256, tokenizer).value();
    REQUIRE(out.Append(std::vector<int32_t>{1, 2, 3}).ok());
    REQUIRE(out.Finish().ok());
    return path;
  };
  const TokenizerId small = {"small", "01"}, other = {"other", "02"};
  const std::string a = write("a.bin", small), b = write("b.bin", other), c = write("c.bin", {}),
                    d = write("d.bin", {"small by another name", "01"}),
                    text = dir.Write("t", "ab");
  CHECK(TokenDataset::Open({c, a, d}, 256, 2)->tokenizer() == small);
  CHECK_FALSE(TokenDataset::Open({c}, 256, 2)->tokenizer().known());
  CHECK(TokenDataset::Open({text}, 256, 1)->tokenizer() == BytesTokenizerId());
  CHECK(Message(TokenDataset::Open({a, c, b}, 256, 2).status()) ==
        b + ": was made with tokenizer other (02), but " + a +
            " with small (01); make all files with one tokenizer");
  CHECK_FALSE(TokenDataset::Open({text, a}, 256, 2).ok());
}

TEST_CASE("Open: each mistake is named") {
  const TemporaryDirectory dir;
  CHECK(TokenDataset::Open({}, 256, 4).status().code() == absl::StatusCode::kInvalidArgument);
  const absl::Status missing = TokenDataset::Open({dir.path() + "/no"}, 256, 4).status();
  CHECK(missing.code() == absl::StatusCode::kNotFound);
  CHECK(Message(missing) == dir.path() + "/no: no such file; check the path");
  CHECK_THAT(Message(TokenDataset::Open({dir.path()}, 256, 4).status()),
             Catch::Contains("cannot be read: Is a directory"));

  const std::string tiny = dir.Write("tiny", "abcd");
  CHECK(Message(TokenDataset::Open({tiny}, 256, 4).status()) ==
        tiny +
            ": too short: it needs 5 tokens for sequences of 4, has 4; "
            "use more data or shorter sequences");
  const std::string empty = dir.Write("empty", "");
  CHECK_THAT(Message(TokenDataset::Open({empty}, 256, 4).status()), Catch::Contains("has 0"));

  const std::string odd = dir.Write("odd.bin", "abc");
  CHECK_THAT(Message(TokenDataset::Open({odd}, 65536, 1).status()),
             Catch::StartsWith(odd + ": 3 bytes are no whole number of ids of 2 bytes"));

  CHECK(Message(TokenDataset::Open({tiny}, 100, 2).status()) ==
        tiny +
            ": token 100 at position 3 is not in the model's vocabulary of 100; "
            "use a model whose vocabulary is at least 101 or other data");
  const std::string wide = dir.Write("wide.bin", std::string("\x01\x00\x00\x04", 4));
  CHECK_THAT(Message(TokenDataset::Open({wide}, 1000, 1).status()),
             Catch::Contains("token 1024 at position 1"));
  for (const auto& [type, id] : {std::pair("<u4", "4000000000"), {"<i4", "-294967296"}}) {
    std::string header =
        std::string("{'descr': '") + type + "', 'fortran_order': False, 'shape': (2,)}";
    header.resize(117, ' ');
    const std::string array = std::string("\x93NUMPY\x01\0\x76\0", 10) + header + "\n" +
                              std::string("\x01\0\0\0\x00\x28\x6b\xee", 8);
    CHECK_THAT(Message(TokenDataset::Open({dir.Write("a.npy", array)}, 1000, 1).status()),
               Catch::Contains(std::string("token ") + id +
                               " at position 1 is not in the model's "
                               "vocabulary of 1000; make the file again"));
  }
  auto negative = TokenFileWriter::Create(dir.path() + "/negative.bin", TokenFormat::kMegatron,
                                          /*vocab=*/100000)
                      .value();
  REQUIRE(negative.Append(std::vector<int32_t>{7, -1}).ok());
  REQUIRE(negative.Finish().ok());
  CHECK_THAT(Message(TokenDataset::Open({dir.path() + "/negative.bin"}, 100000, 1).status()),
             Catch::Contains("token -1 at position 1 is not in the model's vocabulary of 100000; "
                             "make the file again"));
  const std::string late = dir.Write("late.txt", std::string(40000, 'a') + '~');
  CHECK_THAT(Message(TokenDataset::Open({late}, 100, 1).status()),
             Catch::Contains("token 126 at position 40000"));
}

TEST_CASE("SplitTokens: validation is the last part") {
  const TemporaryDirectory dir;
  const TokenDataset data = *TokenDataset::Open({dir.Write("a", "0123456789")}, 256, 2);
  const TokenSplit split = *SplitTokens(data, 0.3, 2);
  CHECK(split.train.size() == 7);
  CHECK(Read(split.validation, 0, 3) == std::vector<int32_t>{'7', '8', '9'});
  CHECK(SplitTokens(data, 0, 2)->validation.size() == 0);
  CHECK_THAT(Message(SplitTokens(data, 0.1, 2).status()),
             Catch::Contains("the validation part needs 3 tokens for sequences of 2, has 1"));
  CHECK_THAT(Message(SplitTokens(data, 0.9, 2).status()), Catch::Contains("the training part"));
  CHECK_FALSE(SplitTokens(data, 1, 2).ok());
  CHECK_FALSE(SplitTokens(data, -0.1, 2).ok());
}

TEST_CASE("Source: a function of seed, step and sample") {
  const TemporaryDirectory dir;
  std::string text(64, ' ');
  std::iota(text.begin(), text.end(), 1);
  const TokenDataset data = *TokenDataset::Open({dir.Write("a", text)}, 256, 4);
  auto sample = [&](uint64_t seed, int64_t step, int64_t number) {
    std::vector<int32_t> tokens(5);
    REQUIRE(data.Source(seed)->Sample(step, number, tokens).ok());
    return tokens;
  };
  std::set<int32_t> starts;
  for (int step = 0; step < 40; ++step) {
    for (int number = 0; number < 20; ++number) {
      const std::vector<int32_t> tokens = sample(1, step, number);
      REQUIRE(tokens == sample(1, step, number));
      for (int j = 1; j < 5; ++j) REQUIRE(tokens[j] == tokens[0] + j);
      starts.insert(tokens[0]);
    }
  }
  CHECK(*starts.begin() == 1);
  CHECK(*starts.rbegin() == 60);
  CHECK(starts.size() == 60);

  auto step_of = [&](uint64_t seed, int64_t step) {
    std::vector<std::vector<int32_t>> samples;
    for (int number = 0; number < 8; ++number) samples.push_back(sample(seed, step, number));
    return samples;
  };
  CHECK(step_of(1, 0) != step_of(2, 0));
  CHECK(step_of(1, 0) != step_of(1, 1));
}

TEST_CASE("Source: a dataset of exactly one sequence") {
  const TemporaryDirectory dir;
  const TokenDataset data = *TokenDataset::Open({dir.Write("a", "abc")}, 256, 2);
  std::vector<int32_t> tokens(3);
  CHECK(data.Source(9)->Sample(0, 0, tokens).ok());
  CHECK(tokens == std::vector<int32_t>{'a', 'b', 'c'});
}

TEST_CASE("Pass: each token but the first is a label once, whatever the batch") {
  const TemporaryDirectory dir;
  constexpr int64_t kLength = 3;
  constexpr int32_t kNone = TokenSource::kPadding;
  for (const std::string text : {"ab", "abc", "abcd", "abcde", "abcdefghij"}) {
    const TokenDataset data = *TokenDataset::Open({dir.Write("a", text)}, 256, 1);
    for (const int64_t batch : {1, 2, 5}) {
      std::string labels;
      const int64_t steps = (data.Windows(kLength) + batch - 1) / batch;
      for (int64_t s = 0; s < steps * batch; ++s) {
        std::vector<int32_t> row(kLength + 1);
        REQUIRE(data.Pass(batch)->Sample(s / batch, s % batch, row).ok());
        for (size_t j = 1; j < row.size(); ++j) {
          if (row[j] == kNone) continue;
          CHECK(row[j - 1] == row[j] - 1);  // the token before it
          labels += static_cast<char>(row[j]);
        }
      }
      CHECK(labels == text.substr(1));
    }
  }
}

TEST_CASE("Contains: all of a small dataset is looked at, and both ends of a large one") {
  const TemporaryDirectory dir;
  int64_t looked_at = 0;
  const TokenDataset small = *TokenDataset::Open({dir.Write("a", "abcd")}, 256, 1);
  CHECK(*small.Contains('d', &looked_at));
  CHECK_FALSE(*small.Contains('e', &looked_at));
  CHECK(looked_at == 4);
  std::string text(size_t{1} << 25, 'a');
  text.front() = 'b';
  text.back() = 'c';
  const TokenDataset large = *TokenDataset::Open({dir.Write("a", text)}, 256, 1);
  CHECK(*large.Contains('b', &looked_at));
  CHECK(*large.Contains('c', &looked_at));
  CHECK_FALSE(*large.Contains('d', &looked_at));
  CHECK(looked_at == int64_t{1} << 24);
}

TEST_CASE("A file that is written to after it was opened is an error, or is read as it is") {
  const TemporaryDirectory dir;
  const std::string a = dir.Write("a.bin", "\x01\x02"), path = dir.Write("b.bin", "abcdefgh");
  const TokenDataset data = *TokenDataset::Open({a, path}, 0x7000, 2);
  std::vector<int32_t> tokens(3);
  dir.Write("b.bin",
            "ab\xff\xff"
            "efgh");
  CHECK(Message(data.Read(1, tokens)) ==
        path +
            ": token 65535 at position 1 is not in the model's vocabulary of 28672; use a model "
            "whose vocabulary is at least 65536 or other data");
  dir.Write("b.bin", "abcde");
  CHECK(Read(data, 0, 3) == std::vector<int32_t>{0x0201, 0x6261, 0x6463});
  CHECK_THAT(Message(data.Read(2, tokens)),
             Catch::StartsWith(path + ": ends at byte 5, and had 8 "));
}

}  // namespace
}  // namespace oneflow

// The speed and the ids of a tokenizer, for tools/bench tokenize and tools/check_tokenizers.
//
//   tokenize TOKENIZER FILE...              prints the bytes, tokens and CPU seconds of each file
//   tokenize --ids TOKENIZER < LINES        for each line, a text as a JSON string: its ids in a
//   line tokenize --ids --special TOKENIZER ...  finds special tokens in them tokenize --splits
//   TOKENIZER < LINES     checks that texts that are split have the same ids
#include <cstdio>
#include <ctime>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"
#include "oneflow_core/base/file.h"
#include "training/tokenizer/tokenizer.h"

namespace oneflow {
namespace {

using Ids = std::vector<int32_t>;

int Fail(std::string_view message) {
  std::fprintf(stderr, "tokenize: %.*s\n", static_cast<int>(message.size()), message.data());
  return 2;
}

Ids EncodeText(const Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  tokenizer.encode(text, &ids);
  return ids;
}

// In pieces, as `oneflow data` does. Seconds of CPU.
double EncodeFile(const Tokenizer& tokenizer, std::string_view text, Ids* ids) {
  constexpr size_t kPieceBytes = 1 << 20;
  const std::clock_t start = std::clock();
  while (!text.empty()) {
    const size_t at = text.size() > kPieceBytes ? tokenizer.find_split(text, kPieceBytes) : 0;
    const size_t size = at > 0 ? at : text.size();
    tokenizer.encode(text.substr(0, size), ids);
    text.remove_prefix(size);
  }
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

// The splits of a text that give other ids.
int CountWrongSplits(const Tokenizer& tokenizer, const std::string& text, int* splits) {
  const Ids all = EncodeText(tokenizer, text);
  int wrong = 0;
  for (size_t limit = text.size(); limit > 0; --limit) {
    const size_t at = tokenizer.find_split(text, limit);
    if (at == 0) break;
    limit = at;
    if (at == text.size()) continue;
    Ids ids = EncodeText(tokenizer, text.substr(0, at));
    const Ids rest = EncodeText(tokenizer, text.substr(at));
    ids.insert(ids.end(), rest.begin(), rest.end());
    ++*splits;
    wrong += ids == all ? 0 : 1;
  }
  return wrong;
}

int Run(std::vector<std::string> args) {
  bool ids_mode = false, splits_mode = false;
  TokenizerOptions options;
  while (!args.empty() && args[0].starts_with("--")) {
    ids_mode = ids_mode || args[0] == "--ids";
    splits_mode = splits_mode || args[0] == "--splits";
    options.special = options.special || args[0] == "--special";
    args.erase(args.begin());
  }
  if (args.empty()) return Fail("name a tokenizer");
  const auto loaded = LoadTokenizer(args[0], options);
  if (!loaded.ok()) return Fail(std::string(loaded.status().message()));
  if (ids_mode || splits_mode) {
    int splits = 0, wrong = 0;
    for (std::string line; std::getline(std::cin, line);) {
      const std::string text = nlohmann::json::parse(line).get<std::string>();
      if (splits_mode) {
        const int found = CountWrongSplits(*loaded, text, &splits);
        if (found > 0) std::printf("%d wrong: %s\n", found, line.c_str());
        wrong += found;
        continue;
      }
      std::printf("%s\n", nlohmann::json(EncodeText(*loaded, text)).dump().c_str());
    }
    if (splits_mode) std::printf("%d splits, %d wrong\n", splits, wrong);
    return wrong > 0 ? 1 : 0;
  }
  for (size_t i = 1; i < args.size(); ++i) {
    const auto text = ReadFile(args[i], "a text");
    if (!text.ok()) return Fail(std::string(text.status().message()));
    Ids ids;
    const double seconds = EncodeFile(*loaded, *text, &ids);
    std::printf("%zu bytes, %zu tokens, %.6f seconds\n", text->size(), ids.size(), seconds);
  }
  return 0;
}

}  // namespace
}  // namespace oneflow

int main(int argc, char** argv) { return oneflow::Run({argv + 1, argv + argc}); }

// oneflow generate: continues a prompt with the model of a checkpoint, on one device.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "actor_runtime/checkpoint/checkpoint.h"
#include "actor_runtime/exec/runtime.h"
#include "actor_runtime/random/random.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/flags.h"
#include "tools/oneflow/load.h"
#include "tools/oneflow/metrics_log.h"
#include "tools/oneflow/plan_facts.h"
#include "tools/oneflow/verb.h"

namespace oneflow {
namespace {

// Bytes of the text as token ids.
absl::StatusOr<std::vector<int32_t>> Tokens(const std::string& prompt, int64_t vocab) {
  std::vector<int32_t> tokens;
  for (const char c : prompt) {
    const int32_t id = static_cast<unsigned char>(c);
    if (id >= vocab) {
      return InputError("--prompt", "byte " + std::to_string(id) +
                                        " is not in the model's vocabulary of " +
                                        std::to_string(vocab));
    }
    tokens.push_back(id);
  }
  if (tokens.empty()) tokens.push_back('\n' < vocab ? '\n' : 0);  // something to continue
  return tokens;
}

// A token drawn from softmax(logits / temperature); the largest logit at temperature 0. The sum
// runs in index order, so the same seed gives the same text.
int32_t Sample(std::span<const float> logits, double temperature, double uniform) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  if (temperature <= 0) return static_cast<int32_t>(largest - logits.begin());
  double total = 0;
  for (float x : logits) total += std::exp((x - *largest) / temperature);
  double left = uniform * total;
  for (size_t i = 0; i < logits.size(); ++i) {
    left -= std::exp((logits[i] - *largest) / temperature);
    if (left < 0) return static_cast<int32_t>(i);
  }
  return static_cast<int32_t>(logits.size() - 1);
}

void Print(int32_t token) {
  if (token < 256) {
    std::fputc(token, stdout);
  } else {
    std::printf("<%d>", token);
  }
}

// The folder of one step: `path` itself, or the latest below it.
absl::StatusOr<std::string> StepFolder(const std::string& path) {
  if (path.empty()) return InputError("--checkpoint", "is missing", "write --checkpoint=run/ckpt");
  if (std::filesystem::exists(std::filesystem::path(path) / "manifest.json")) return path;
  return LatestCheckpoint(path);
}

// A window of the last tokens, run through program generate; the logits of the last of them.
class Model {
 public:
  Model(Runtime& runtime, const ModelFacts& facts)
      : runtime_(runtime), facts_(facts), logits_(facts.vocab) {}

  absl::StatusOr<std::span<const float>> Logits(const std::vector<int32_t>& tokens) {
    const auto n = std::min<int64_t>(static_cast<int64_t>(tokens.size()), facts_.sequence);
    RunContext context;
    context.load = [&](const Piece& piece) {
      auto* ids = reinterpret_cast<int32_t*>(piece.data);
      std::fill(ids, ids + piece.slice->elements(), 0);
      std::copy(tokens.end() - n, tokens.end(), ids);
      return absl::OkStatus();
    };
    context.save = [&](const Piece& piece) {
      const auto* rows = reinterpret_cast<const float*>(piece.data);
      std::copy_n(rows + (n - 1) * facts_.vocab, facts_.vocab, logits_.data());
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(runtime_.Run("generate", context, 1));
    return logits_;
  }

 private:
  Runtime& runtime_;
  ModelFacts facts_;
  std::vector<float> logits_;
};

absl::Status Generate(const Arguments& args) {
  ASSIGN_OR_RETURN(const std::string format, FormatFromFlags({"text", "json"}));
  if (FLAGS_tokens < 1)
    return InputError("--tokens=" + std::to_string(FLAGS_tokens), "must be at least 1");
  if (!(FLAGS_temperature >= 0)) return InputError("--temperature", "must not be negative");
  ASSIGN_OR_RETURN(const std::string folder, StepFolder(FLAGS_checkpoint));
  ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(folder));
  ASSIGN_OR_RETURN(const proto::Plan plan, CompileForOneDevice(reader->graph()));
  ASSIGN_OR_RETURN(const ModelFacts facts, FactsOfModel(plan));
  ASSIGN_OR_RETURN(std::vector<int32_t> tokens, Tokens(FLAGS_prompt, facts.vocab));
  RETURN_IF_ERROR(reader->CheckVariables(plan));

  RuntimeOptions options;
  ASSIGN_OR_RETURN(options.threads, ThreadsFromFlags());
  ASSIGN_OR_RETURN(const auto runtime, Runtime::Create(plan, options));
  RunContext context;
  context.load = [&](const Piece& piece) { return reader->Load(piece); };
  RETURN_IF_ERROR(runtime->Run("load", context, 1));

  Model model(*runtime, facts);
  const RandomStream random(FLAGS_seed, "generate");
  const size_t prompt = tokens.size();
  if (format == "text") std::fputs(FLAGS_prompt.c_str(), stdout);
  for (int64_t i = 0; i < FLAGS_tokens; ++i) {
    ASSIGN_OR_RETURN(const auto logits, model.Logits(tokens));
    tokens.push_back(Sample(logits, FLAGS_temperature, random.Uniform(static_cast<uint64_t>(i))));
    if (format == "text") {
      Print(tokens.back());
      std::fflush(stdout);
    }
  }
  if (format == "json") {
    const nlohmann::ordered_json json = {
        {"checkpoint", folder}, {"tokens", std::vector(tokens.begin() + prompt, tokens.end())}};
    const auto replace = nlohmann::ordered_json::error_handler_t::replace;  // of what is not UTF-8
    std::fputs(json.dump(-1, ' ', false, replace).c_str(), stdout);
  }
  std::printf("\n");
  return absl::OkStatus();
}

}  // namespace

Verb GenerateVerb() {
  return {"generate",
          "continue a prompt with the model of a checkpoint",
          "  oneflow generate --checkpoint=run/ckpt --prompt=\"The \" --tokens=200 "
          "--temperature=0.8 --seed=1\n",
          {"checkpoint", "prompt", "tokens", "temperature", "seed", "threads", "format"},
          Generate};
}

}  // namespace oneflow

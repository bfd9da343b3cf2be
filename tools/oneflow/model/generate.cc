// oneflow generate: continues a prompt with the model of a checkpoint.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <utility>

#include "actor_runtime/exec/runtime.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/check_needs.h"
#include "oneflow_core/recipe/row.h"
#include "tools/oneflow/cli/backend_flags.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/one_process.h"
#include "tools/oneflow/cli/plan_flags.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/cli/progress_printer.h"
#include "tools/oneflow/cli/recipe_flags.h"
#include "tools/oneflow/cli/verb.h"
#include "tools/oneflow/model/language_model.h"
#include "tools/oneflow/model/load_text_tokenizer.h"
#include "tools/oneflow/model/sampler.h"
#include "tools/oneflow/model/talk.h"
#include "tools/oneflow/model/text_stream.h"
#include "training/checkpoint/checkpoint.h"
#include "training/tokenizer/tokenizer.h"
#include "training/trainer/plan_facts.h"
#include "training/trainer/resume.h"
#include "training/trainer/runtime_options.h"

namespace oneflow {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

absl::StatusOr<SamplingOptions> SamplingFromFlags(const proto::Run& run) {
  const SamplingOptions options{FLAGS_temperature, FLAGS_top_k, FLAGS_top_p,
                                run.has_seed() ? run.seed() : 1};
  RETURN_IF_ERROR(CheckSampling(options));
  return options;
}

absl::Status CheckInVocabulary(std::span<const int32_t> tokens, int64_t vocab) {
  for (const int32_t token : tokens) {
    if (token < vocab) continue;
    return InputError("--prompt",
                      "token " + std::to_string(token) + " is not in the model's vocabulary of " +
                          std::to_string(vocab),
                      "use other text, or the tokenizer that the model was trained with");
  }
  return absl::OkStatus();
}

// The prompt's ids, after those that begin a text; without either BOS, or the token that ends a
// text, as one begins after it.
absl::StatusOr<std::vector<int32_t>> PromptTokens(const Tokenizer& tokenizer,
                                                  const ModelNotes& notes, int64_t vocab) {
  std::vector<int32_t> tokens = tokenizer.begin;
  tokenizer.encode(FLAGS_prompt, &tokens);
  std::vector<int64_t> begins;
  if (tokenizer.begin_of_text) begins.push_back(*tokenizer.begin_of_text);
  if (notes.begin_id) begins.push_back(*notes.begin_id);
  if (tokenizer.end_of_text) begins.push_back(*tokenizer.end_of_text);
  if (!notes.end_ids.empty()) begins.push_back(notes.end_ids[0]);
  if (tokens.empty() && !begins.empty()) tokens.push_back(static_cast<int32_t>(begins[0]));
  if (tokens.empty()) {
    return InputError("--prompt", "is empty, and the tokenizer has no token that begins a text",
                      "write --prompt=\"The \"");
  }
  RETURN_IF_ERROR(CheckInVocabulary(tokens, vocab));
  return tokens;
}

// --tokenizer, or the one that the checkpoint contains, or bytes where it was made with them.
absl::StatusOr<Tokenizer> TokenizerToUse(const proto::Run& run, const CheckpointReader& checkpoint,
                                         const std::string& folder) {
  const auto& files = checkpoint.tokenizer_files();
  const bool contained = !run.has_tokenizer() && files != nullptr;
  if (!run.has_tokenizer() && !contained && checkpoint.tokenizer() != BytesTokenizerId()) {
    return InputError(
        folder,
        "contains no tokenizer, and was not made with bytes: its tokenizer is " +
            checkpoint.tokenizer().Text(),
        checkpoint.tokenizer().known()
            ? "give it with --tokenizer"
            : "give it with --tokenizer; --tokenizer=bytes takes each byte as a token");
  }
  const std::string spec = contained             ? TokenizerSpecIn(folder)
                           : run.has_tokenizer() ? run.tokenizer()
                                                 : "bytes";
  ASSIGN_OR_RETURN(Tokenizer tokenizer,
                   run.chat() ? LoadTokenizer(spec, {.special = true}) : LoadTextTokenizer(spec));
  const std::string where = contained ? spec : "--tokenizer=" + spec;
  RETURN_IF_ERROR(CheckTokenizer(folder, checkpoint.tokenizer(), where, tokenizer.id, PrintNotice));
  // The checkpoint may know of more ends than the tokenizer's files tell.
  if (files != nullptr) tokenizer.stops = files->stops;
  return tokenizer;
}

// Prints the generated text and its speed.
struct Generated {
  std::vector<int32_t> tokens;
  std::string text;
  const char* end = "length";  // or "end_of_text", "stop"
  double prompt_seconds = 0, seconds = 0;

  double tokens_per_second() const {
    return seconds > 0 ? static_cast<double>(tokens.size()) / seconds : 0;
  }
};

// The token's bytes; ids that the tokenizer has not got (a vocabulary padded to a round size) are
// shown as numbers.
std::string TokenBytes(const Tokenizer& tokenizer, int32_t token) {
  if (token < tokenizer.vocab) return std::string(tokenizer.bytes(token));
  return "<" + std::to_string(token) + ">";
}

absl::Status CheckFinite(std::span<const float> logits) {
  if (std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); })) {
    return absl::OkStatus();
  }
  return InputError("--checkpoint=" + FLAGS_checkpoint,
                    "its weights give logits that are not finite",
                    "use an earlier checkpoint, or train again with a lower --learning_rate");
}

// The ids that a text may have, and those after which it ends.
struct Ends {
  int64_t vocab;  // ids from it on are padding
  std::vector<int32_t> stops;
};

// Shows text as it comes, if `show`.
absl::StatusOr<Generated> Continue(LanguageModel& model, std::vector<int32_t> tokens,
                                   const Tokenizer& tokenizer, const Ends& ends,
                                   const SamplingOptions& sampling, TextStream stream, bool show) {
  Generated result;
  const auto take = [&](const std::string& text) {
    result.text += text;
    if (!show) return;
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  };
  Clock::time_point start = Clock::now();
  ASSIGN_OR_RETURN(auto logits, model.Next(tokens));
  result.prompt_seconds = SecondsSince(start);
  start = Clock::now();
  while (true) {
    RETURN_IF_ERROR(CheckFinite(logits));
    const int32_t token =
        SampleToken(logits.first(ends.vocab), sampling, static_cast<int64_t>(tokens.size()));
    tokens.push_back(token);
    result.tokens.push_back(token);
    const auto& stops = ends.stops;
    if (std::find(stops.begin(), stops.end(), token) != stops.end()) {
      result.end = "end_of_text";
      break;
    }
    take(stream.Push(TokenBytes(tokenizer, token)));
    if (stream.stopped()) result.end = "stop";
    if (stream.stopped() || static_cast<int64_t>(result.tokens.size()) == FLAGS_tokens) break;
    ASSIGN_OR_RETURN(logits, model.Next(tokens));
  }
  take(stream.Finish());
  result.seconds = SecondsSince(start);
  return result;
}

absl::Status PrintGenerated(const std::string& folder, const Runtime& runtime,
                            const Generated& result, size_t prompt) {
  RETURN_IF_ERROR(Print("\n", {{"checkpoint", folder},
                               {"tokens", result.tokens},
                               {"text", result.text},
                               {"end", result.end},
                               {"prompt_seconds", result.prompt_seconds},
                               {"seconds", result.seconds},
                               {"tokens_per_second", result.tokens_per_second()},
                               {"threads", runtime.ranks() * runtime.kernel_threads()}}));
  std::fflush(stdout);
  if (FLAGS_format == "text") {
    std::fprintf(stderr, "%zu tokens in %.2f s: %.1f tokens/s; prompt of %zu in %.2f s\n",
                 result.tokens.size(), result.seconds, result.tokens_per_second(), prompt,
                 result.prompt_seconds);
  }
  return absl::OkStatus();
}

// The user's next message: a line of the input, which is asked for at a terminal.
std::optional<std::string> ReadMessage() {
  if (isatty(STDIN_FILENO) != 0) {
    std::fputs("> ", stderr);
    std::fflush(stderr);
  }
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  return line;
}

// Answers --prompt, or else each line of the input, which follow one another in one chat.
absl::Status Converse(const Arguments& args, const std::string& folder, Runtime& runtime,
                      const ModelFacts& facts, const Tokenizer& tokenizer, const Ends& ends,
                      const SamplingOptions& sampling, Talk& talk) {
  const bool once = args.Given("prompt");
  for (;;) {
    const std::optional<std::string> message = once ? FLAGS_prompt : ReadMessage();
    if (!message) return absl::OkStatus();
    ASSIGN_OR_RETURN(TalkTurn turn, talk.Say(*message));
    RETURN_IF_ERROR(CheckInVocabulary(turn.tokens, ends.vocab));
    Ends stops = ends;
    if (turn.end) stops.stops.push_back(*turn.end);
    // Templates may render earlier messages otherwise once others follow: caches begin anew.
    LanguageModel model(runtime, facts);
    const size_t prompt = turn.tokens.size();
    ASSIGN_OR_RETURN(const Generated result,
                     Continue(model, std::move(turn.tokens), tokenizer, stops, sampling,
                              TextStream(args.Repeated("stop")), FLAGS_format == "text"));
    RETURN_IF_ERROR(PrintGenerated(folder, runtime, result, prompt));
    if (once) return absl::OkStatus();
    talk.Answer(result.text);
  }
}

absl::Status CheckChatFlags(const Arguments& args, const proto::Run& run) {
  RETURN_IF_ERROR(CheckNeeds(RunRows(), run));
  if (run.chat() || !args.Given("system")) return absl::OkStatus();
  return InputError("--system", "acts only with --chat", "add --chat, or leave it out");
}

absl::Status Generate(const Arguments& args) {
  ASSIGN_OR_RETURN(const proto::Run run, RunFromFlags(args));
  RETURN_IF_ERROR(CheckChatFlags(args, run));
  // A message here; to the cluster of a plan, which other verbs ask for, it would be a system.
  const std::string system = std::exchange(FLAGS_system, "");
  ASSIGN_OR_RETURN(const bool works, WorksAlone("generate", run));
  if (!works) return absl::OkStatus();
  if (FLAGS_tokens < 1)
    return InputError("--tokens=" + std::to_string(FLAGS_tokens), "must be at least 1");
  ASSIGN_OR_RETURN(const SamplingOptions sampling, SamplingFromFlags(run));
  ASSIGN_OR_RETURN(const std::string folder,
                   FindStepFolder("--checkpoint", FLAGS_checkpoint, PrintNotice));
  ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(folder, {.base = run.base()}));
  ASSIGN_OR_RETURN(const Tokenizer tokenizer, TokenizerToUse(run, *reader, folder));
  ASSIGN_OR_RETURN(const proto::Plan plan, CompileToGenerate(args, reader->graph()));
  RETURN_IF_ERROR(WriteLayouts(plan));
  ASSIGN_OR_RETURN(const ModelFacts facts, FactsOfModel(plan));
  // Rows behind the vocabulary are padding.
  const int64_t noted = reader->notes().vocab;
  const int64_t vocab = noted > 0 ? std::min(noted, facts.vocab) : facts.vocab;
  RETURN_IF_ERROR(reader->CheckVariables(plan));

  RuntimeOptions options;
  RETURN_IF_ERROR(SetRuntimeOptions(run, &options));
  options.notice = PrintNotice;
  SoleProcess alone;
  alone.Configure(&options);
  ASSIGN_OR_RETURN(const std::optional<GpuBackend> gpus, OpenGpus(run, plan, alone));
  if (gpus) options.backend = &gpus->devices;
  ASSIGN_OR_RETURN(const auto runtime, Runtime::Create(plan, options));
  RunContext context;
  context.load = [&](const Piece& piece) { return reader->Load(piece); };
  RETURN_IF_ERROR(runtime->Run("load", context, 1));

  Ends ends = {vocab, tokenizer.stops};
  const std::vector<int64_t>& noted_ends = reader->notes().end_ids;
  ends.stops.insert(ends.stops.end(), noted_ends.begin(), noted_ends.end());
  if (run.chat()) {
    ASSIGN_OR_RETURN(Talk talk, Talk::Begin(run, folder, tokenizer, system));
    return Converse(args, folder, *runtime, facts, tokenizer, ends, sampling, talk);
  }
  ASSIGN_OR_RETURN(std::vector<int32_t> tokens, PromptTokens(tokenizer, reader->notes(), vocab));
  LanguageModel model(*runtime, facts);
  const bool show = FLAGS_format == "text";
  const size_t prompt = tokens.size();
  if (show) std::fputs(FLAGS_prompt.c_str(), stdout);
  ASSIGN_OR_RETURN(const Generated result,
                   Continue(model, std::move(tokens), tokenizer, ends, sampling,
                            TextStream(args.Repeated("stop")), show));
  return PrintGenerated(folder, *runtime, result, prompt);
}

}  // namespace

Verb GenerateVerb() {
  return {verbs::kGenerate, "continue a prompt with the model of a checkpoint",
          "oneflow generate --checkpoint=run/ckpt --prompt=\"The \" --tokens=200 "
          "--temperature=0.8 --seed=1\n"
          "oneflow generate --checkpoint=run/ckpt --prompt=\"The\" "
          "--top_k=50 --top_p=0.9 --stop=\"The End\" --mesh=tensor=2\n"
          "oneflow generate --checkpoint=run/ckpt --chat --system=\"Be brief.\" --prompt=\"Hi\"\n",
          Generate};
}

}  // namespace oneflow

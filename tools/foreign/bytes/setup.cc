#include "tools/foreign/bytes/setup.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/time_text.h"

namespace oneflow::foreign {
namespace {

Shape ShapeOfModel(const proto::Model& model) {
  Shape shape{.layers = model.layers(),
              .hidden = model.hidden(),
              .heads = std::max<int64_t>(1, model.heads()),
              .vocab = model.vocab(),
              .tied = model.tied()};
  if (model.family() == "gpt") {
    shape.groups = shape.heads;
    shape.head_dim = shape.hidden / shape.heads;
    shape.ffn = 4 * shape.hidden;
    shape.biases = shape.layer_norm = model.bias();
    shape.positions = model.sequence();
    shape.is_unfused = model.attention() == "unfused";
    return shape;
  }
  shape.groups = model.groups();
  shape.head_dim = model.head_dim();
  shape.ffn = model.inner();
  shape.gated = true;
  shape.qkv_bias = model.qkv_bias();
  shape.qk_norm = model.qk_norm();
  shape.experts = model.experts();
  shape.experts_of_token = model.experts_per_token();
  shape.shared_ffn = model.shared_inner();
  return shape;
}

Parts CountParts(const Shape& s, int64_t theirs) {
  const int64_t qkv = (s.heads + 2 * s.groups) * s.head_dim;
  const int64_t products = s.gated ? 3 : 2;
  const int64_t norm = (s.layer_norm ? 2 : 1) * s.hidden;
  Parts parts;
  parts.block_split = static_cast<double>(s.hidden * (qkv + s.projection()));
  if (s.biases || s.qkv_bias) parts.block_split += static_cast<double>(qkv);
  parts.block_replicated = static_cast<double>(2 * norm + (s.qk_norm ? 2 * s.head_dim : 0));
  if (s.biases) parts.block_replicated += static_cast<double>(2 * s.hidden);
  if (s.experts > 0) {
    parts.block_expert = static_cast<double>(s.experts * products * s.hidden * s.ffn);
    parts.block_split += static_cast<double>(products * s.hidden * s.shared_ffn);
    parts.block_replicated += static_cast<double>(s.hidden * s.experts);
  } else {
    parts.block_split += static_cast<double>(products * s.hidden * s.ffn + (s.biases ? s.ffn : 0));
  }
  parts.embedding = static_cast<double>(s.vocab * s.hidden);
  parts.positions = static_cast<double>(s.positions * s.hidden);
  parts.final_norm = static_cast<double>(norm);
  const double ours = static_cast<double>(s.layers) *
                          (parts.block_split + parts.block_replicated + parts.block_expert) +
                      parts.embedding * (s.tied ? 1 : 2) + parts.positions + parts.final_norm;
  if (theirs > 0 && s.layers > 0) {
    parts.block_split += (static_cast<double>(theirs) - ours) / static_cast<double>(s.layers);
  }
  return parts;
}

// Micro-batches that a stage holds at its peak.
double HeldMicroBatches(const Facts& facts, int64_t stage, int64_t micro_batches,
                        std::vector<std::string>& notes) {
  const int64_t pipe = facts.degrees.pipe;
  const int64_t chunks = std::max<int64_t>(1, facts.schedule.chunks);
  const std::string& name = facts.schedule.name;
  if (pipe == 1) return 1;
  const auto most = [&](int64_t held, int64_t of) {
    return micro_batches > 0 ? std::min(held, micro_batches * of) : held;
  };
  if (name == "gpipe" || name == "LoopedBFS") {
    return static_cast<double>(micro_batches > 0 ? micro_batches : pipe);
  }
  if (chunks > 1) {
    const int64_t held = most(2 * (pipe - stage - 1) + (chunks - 1) * pipe + 1, chunks);
    return static_cast<double>(held) / static_cast<double>(chunks);
  }
  // ZB-1p saves as many on every stage as 1F1B on the first, ZB-2p twice as many.
  if (name == "zero_bubble") return static_cast<double>(most(pipe, 1));
  if (name == "zero_bubble_2p") return static_cast<double>(most(2 * pipe, 1));
  if (name != "1f1b" && stage == 0) {
    notes.push_back(absl::StrCat("the schedule ", name, " is counted as 1F1B"));
  }
  return static_cast<double>(most(pipe - stage, 1));
}

std::string HeldText(double held, int64_t chunks) {
  if (held == std::floor(held)) {
    const auto count = static_cast<int64_t>(held);
    return absl::StrCat(count, count == 1 ? " micro-batch" : " micro-batches");
  }
  return absl::StrCat(std::lround(held * static_cast<double>(chunks)), "/", chunks,
                      " micro-batches");
}

std::vector<StageShare> MakeStages(const Facts& facts, Setup& setup) {
  const DegreeFacts& d = facts.degrees;
  const Parts& parts = setup.parts;
  const auto tensor = static_cast<double>(d.tensor);
  std::vector<StageShare> stages(d.pipe);
  for (int64_t i = 0; i < d.pipe; ++i) {
    StageShare& stage = stages[i];
    stage.index = i;
    stage.of = d.pipe;
    stage.is_first = i == 0;
    stage.is_last = i + 1 == d.pipe;
    const std::vector<int64_t>& slices = facts.schedule.stage_layers;
    if (slices.empty()) {
      stage.blocks = setup.shape.layers / d.pipe + (i < setup.shape.layers % d.pipe ? 1 : 0);
    } else {
      for (size_t slice = i; slice < slices.size(); slice += d.pipe) stage.blocks += slices[slice];
    }
    const auto blocks = static_cast<double>(stage.blocks);
    stage.dense = blocks * (parts.block_split / tensor + parts.block_replicated);
    stage.expert = blocks * parts.block_expert / static_cast<double>(setup.experts_over);
    if (stage.is_first) {
      stage.embedding += parts.embedding / tensor;
      stage.dense += parts.positions;
    }
    // A tied head on another stage than the embedding is a copy of it.
    if (stage.is_last && (!setup.shape.tied || d.pipe > 1)) {
      stage.embedding += parts.embedding / tensor;
    }
    if (stage.is_last) stage.dense += parts.final_norm;
    stage.dense += stage.embedding;
    stage.held = HeldMicroBatches(facts, i, setup.micro_batches, setup.notes);
    stage.held_text = HeldText(stage.held, std::max<int64_t>(1, facts.schedule.chunks));
  }
  return stages;
}

}  // namespace

std::string StageShare::Name() const {
  return of == 1 ? "each device" : absl::StrCat("a device of stage ", index, " of ", of);
}

double Setup::block() const {
  return parts.block_split / static_cast<double>(tensor) + parts.block_replicated +
         parts.block_expert / static_cast<double>(experts_over);
}

absl::StatusOr<Setup> MakeSetup(const Facts& facts) {
  const std::string where = absl::StrCat("bytes as ", facts.system, " counts");
  if (!facts.model.model) {
    return InputError(where, "need the model, which the files do not say", "add --model=MODEL");
  }
  if (!facts.model.model->blocks().run().empty()) {
    return InputError(where, "need a model whose blocks are alike",
                      "ask oneflow fit, which counts blocks of every class");
  }
  if (!facts.degrees.data || !facts.devices) {
    return InputError(where, "need the number of GPUs", "add --devices=NODESxGPUS");
  }
  if (!facts.sequence) {
    return InputError(where, "need the length of a sequence", "add --sequence=POSITIONS");
  }
  if (!facts.batch.micro) {
    return InputError(where, "need the sequences of a micro-batch", "add --batch=SEQUENCES");
  }
  Setup setup;
  setup.shape = ShapeOfModel(*facts.model.model);
  setup.parts = CountParts(setup.shape, facts.model.parameters);
  const DegreeFacts& d = facts.degrees;
  setup.tensor = d.tensor;
  setup.pipe = d.pipe;
  setup.context = d.context;
  setup.data = *d.data;
  setup.sequence = *facts.sequence;
  setup.micro = *facts.batch.micro;
  setup.micro_batches = facts.batch.micro_batches.value_or(0);
  setup.devices = *facts.devices;
  if (setup.shape.experts > 0) {
    setup.experts_over = d.expert * std::max<int64_t>(1, d.expert_tensor);
  }
  setup.a_node =
      facts.devices_a_node > 0 ? facts.devices_a_node : std::min<int64_t>(8, setup.devices);
  if (facts.sharding.what != "none") {
    setup.dense_ways = std::max<int64_t>(1, facts.sharding.ways.value_or(1));
    const int64_t replicas = std::max<int64_t>(1, facts.sharding.replicas);
    setup.expert_ways = std::max<int64_t>(
        1, setup.data * setup.context * setup.tensor / setup.experts_over / replicas);
  }
  setup.element = facts.precision.compute == "f32" ? 4 : 2;
  const bool local = [&] {
    const Setting* how = FindSetting(facts, "transformer_impl");
    const Setting* flash = FindSetting(facts, "use_flash_attn");
    const Setting* backend = FindSetting(facts, "attention_backend");
    return (how != nullptr && how->ValueText() == "local" && flash == nullptr) ||
           (backend != nullptr && backend->ValueText() == "unfused");
  }();
  setup.shape.is_unfused = setup.shape.is_unfused || local;
  setup.stages = MakeStages(facts, setup);
  if (setup.micro_batches == 0) {
    setup.notes.emplace_back("the micro-batches of a step are not known: as many as fill the pipe");
  }
  if (!facts.model.differences.empty()) {
    setup.notes.emplace_back(
        "the model is near one here: parameters are theirs, saved tensors are those of the near "
        "one");
  }
  return setup;
}

const Setting* FindSetting(const Facts& facts, std::string_view key) {
  const auto found = std::find_if(facts.settings.begin(), facts.settings.end(),
                                  [&](const Setting& setting) { return setting.key == key; });
  return found == facts.settings.end() ? nullptr : &*found;
}

ByteLine ParameterLine(const char* kind, std::string what, double bytes, const StageShare& stage,
                       int64_t dense_ways, int64_t expert_ways) {
  const auto part = [](double parameters, int64_t ways) {
    return absl::StrCat(DigitsText(std::llround(parameters)),
                        ways > 1 ? absl::StrCat(" / ", ways) : "");
  };
  std::string formula = stage.expert > 0
                            ? absl::StrCat("(", part(stage.dense, dense_ways), " + ",
                                           part(stage.expert, expert_ways), " of experts)")
                            : part(stage.dense, dense_ways);
  return PlainLine(kind, std::move(what), absl::StrCat(bytes, " bytes x ", formula),
                   bytes * (stage.dense / static_cast<double>(dense_ways) +
                            stage.expert / static_cast<double>(expert_ways)));
}

ByteLine PlainLine(const char* kind, std::string what, std::string formula, double bytes) {
  return {kind, std::move(what), std::move(formula), std::llround(bytes)};
}

std::string Times(double factor, int64_t number) {
  return factor == 1 ? DigitsText(number) : absl::StrCat(factor, " x ", DigitsText(number));
}

double MomentBytes(const Facts& facts, double element) {
  const std::string& name = facts.optimizer.name;
  if (absl::StrContains(name, "8bit")) return 2;
  if (name == "sgd" || name == "lion" || name == "muon" || name == "adagrad") return element;
  if (name == "adafactor") return 0;
  return 2 * element;
}

void KeepLargest(std::vector<ByteLine> lines, const StageShare& stage, SystemBytes* bytes) {
  int64_t sum = 0;
  for (const ByteLine& line : lines) sum += line.bytes;
  if (!bytes->lines.empty() && sum <= bytes->total()) return;
  bytes->lines = std::move(lines);
  bytes->device = stage.Name();
}

}  // namespace oneflow::foreign

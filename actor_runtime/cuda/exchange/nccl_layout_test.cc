// The steps of all members, played on memory of the host, against what ExchangeWork's contract
// says: for every transition between layouts, ragged and empty parts, several tensors.
#include "actor_runtime/cuda/exchange/nccl_layout.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/device/thread_pool.h"
#include "actor_runtime/exchange/exchange_for_test.h"
#include "oneflow_core/tensor/bf16.h"

namespace oneflow::cuda {
namespace {

using Bytes = std::vector<std::byte>;

float Load(const std::byte* at, DType dtype) {
  if (dtype == DType::kF32) {
    float value;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  Bf16 value;
  std::memcpy(&value, at, sizeof(value));
  return ToFloat(value);
}
void Store(float value, DType dtype, std::byte* at) {
  const Bf16 narrow = ToBf16(value);
  dtype == DType::kF32 ? std::memcpy(at, &value, sizeof(value))
                       : std::memcpy(at, &narrow, sizeof(narrow));
}

// The members of an exchange, each with separate memory, and their steps.
class Players {
 public:
  Players(CaseMemory memory, std::vector<NcclSteps> steps)
      : memory_(std::move(memory)), steps_(std::move(steps)) {
    for (const NcclSteps& steps : steps_) {
      workspaces_.emplace_back(steps.workspace_bytes + 64, std::byte{0xa5});
    }
  }

  const Bytes& Output(int member, int tensor) const { return memory_.out[member][tensor]; }

  void Play() {
    for (int m = 0; m < members(); ++m) Compute(m, steps_[m].before);
    for (int m = 0; m < members(); ++m) CheckDisjoint(m);
    Collect();
    Deliver();
    for (int m = 0; m < members(); ++m) Compute(m, steps_[m].after);
  }

 private:
  int members() const { return static_cast<int>(steps_.size()); }

  std::byte* At(int member, const NcclLocation& location, int64_t bytes) {
    Bytes& memory = location.memory == NcclLocation::kInput ? memory_.in[member][location.tensor]
                    : location.memory == NcclLocation::kOutput
                        ? memory_.out[member][location.tensor]
                        : workspaces_[member];
    const int64_t size = location.memory == NcclLocation::kWorkspace
                             ? steps_[member].workspace_bytes
                             : std::ssize(memory);
    REQUIRE(location.offset >= 0);
    REQUIRE(location.offset + bytes <= size);
    return memory.data() + location.offset;
  }

  void Compute(int member, const std::vector<NcclLocalStep>& local) {
    for (const NcclLocalStep& step : local) {
      REQUIRE(step.sources.size() == step.setup.in[0].size());
      std::vector<const std::byte*> sources;
      for (size_t i = 0; i < step.sources.size(); ++i) {
        sources.push_back(At(member, step.sources[i], 0));
        // Kernels copy words; accumulating kernels read single elements.
        if (!step.accumulate && step.setup.reduce == 0) CHECK(step.sources[i].offset % 16 == 0);
      }
      CHECK(step.target.offset % 16 == 0);
      std::byte* out = At(member, step.target, 0);
      const absl::StatusOr<Kernel> kernel = MakeKernel(step.setup);
      REQUIRE(kernel.status() == absl::OkStatus());
      ThreadPool pool(1);
      const std::span<const std::byte* const> in(sources);
      KernelCall call{.in = {&in, 1}, .out = {&out, 1}, .pool = &pool};
      call.accumulate = step.accumulate;
      REQUIRE((*kernel)(call) == absl::OkStatus());
    }
  }

  // Operations of a group of NCCL run at once: none touches what another one writes.
  struct Use {
    NcclLocation location;
    int64_t bytes;
    bool writes;
  };
  static void CheckUses(const std::vector<Use>& uses) {
    for (const Use& a : uses) {
      for (const Use& b : uses) {
        if (&a == &b || !a.writes || a.location.memory != b.location.memory) continue;
        if (a.location.tensor != b.location.tensor) continue;
        CHECK((a.location.offset + a.bytes <= b.location.offset ||
               b.location.offset + b.bytes <= a.location.offset));
      }
    }
  }
  void CheckDisjoint(int member) {
    std::vector<Use> uses;
    for (const NcclCollectiveStep& c : steps_[member].collectives) {
      const int64_t part = c.count * static_cast<int64_t>(ElementBytes(c.dtype));
      uses.push_back({c.from, c.kind == c.kReduceScatter ? part * members() : part, false});
      uses.push_back({c.to, c.kind == c.kAllGather ? part * members() : part, true});
    }
    CheckUses(uses);
    uses.clear();
    for (const NcclMessageStep& m : steps_[member].messages) {
      uses.push_back({m.location, m.bytes, !m.send});
    }
    CheckUses(uses);
  }

  void Collect() {
    for (size_t i = 0; i < steps_[0].collectives.size(); ++i) {
      const NcclCollectiveStep& first = steps_[0].collectives[i];
      for (const NcclSteps& steps : steps_) {
        REQUIRE(steps.collectives.size() == steps_[0].collectives.size());
        const NcclCollectiveStep& c = steps.collectives[i];
        REQUIRE(c.kind == first.kind);
        REQUIRE(c.count == first.count);
        REQUIRE(c.dtype == first.dtype);
        REQUIRE(c.maximum == first.maximum);
      }
      RunCollective(i, first);
    }
  }

  void RunCollective(size_t i, const NcclCollectiveStep& c) {
    const int64_t element = static_cast<int64_t>(ElementBytes(c.dtype)), part = c.count * element;
    const auto from = [&](int member, int64_t begin) {
      return At(member, steps_[member].collectives[i].from, begin + part) + begin;
    };
    for (int m = 0; m < members(); ++m) {
      const NcclLocation& location = steps_[m].collectives[i].to;
      if (c.kind == c.kAllGather) {
        std::byte* to = At(m, location, part * members());
        for (int s = 0; s < members(); ++s) std::memcpy(to + s * part, from(s, 0), part);
        continue;
      }
      std::byte* to = At(m, location, part);
      const int64_t begin = c.kind == c.kReduceScatter ? m * part : 0;
      for (int64_t at = 0; at < part; at += element) {
        float value = Load(from(0, begin) + at, c.dtype);
        for (int s = 1; s < members(); ++s) {
          const float next = Load(from(s, begin) + at, c.dtype);
          value = c.maximum ? std::max(value, next) : value + next;
        }
        Store(value, c.dtype, to + at);
      }
    }
  }

  void Deliver() {
    std::map<std::pair<int, int>, std::vector<NcclMessageStep>> sent, received;
    for (int m = 0; m < members(); ++m) {
      for (const NcclMessageStep& step : steps_[m].messages) {
        REQUIRE(step.peer != m);
        REQUIRE(step.bytes > 0);
        (step.send ? sent[{m, step.peer}] : received[{step.peer, m}]).push_back(step);
      }
    }
    REQUIRE(sent.size() == received.size());
    for (const auto& [pair, sends] : sent) {
      const std::vector<NcclMessageStep>& receives = received[pair];
      REQUIRE(sends.size() == receives.size());
      for (size_t i = 0; i < sends.size(); ++i) {
        REQUIRE(sends[i].bytes == receives[i].bytes);
        std::memcpy(At(pair.second, receives[i].location, receives[i].bytes),
                    At(pair.first, sends[i].location, sends[i].bytes), sends[i].bytes);
      }
    }
  }

  CaseMemory memory_;
  const std::vector<NcclSteps> steps_;
  std::vector<Bytes> workspaces_;
};

int64_t Copies(const TensorCase& t) {
  int64_t copies = 1;
  for (size_t a = 0; a < t.from.size(); ++a) {
    if (t.from[a].partial()) copies *= t.mesh.axes[a].size;
  }
  return copies;
}

int64_t MakeWindow(const ExchangeCase& c, bool accumulates, const NcclLimits& limits = {}) {
  int64_t bytes = 0;
  for (const TensorCase& t : c.tensors) {
    bytes += NcclWindow(MakeLayout(t.dims, t.from), MakeLayout(t.dims, t.to), t.mesh,
                        {.copies = Copies(t),
                         .members = c.members(),
                         .element_bytes = static_cast<int64_t>(ElementBytes(t.dtype)),
                         .accumulates = accumulates},
                        limits);
  }
  return bytes;
}

void Check(const ExchangeCase& c, const NcclLimits& limits, std::mt19937_64* random) {
  INFO(Describe(c) << ", " << limits.runs << " runs of " << limits.run_bytes << " bytes");
  const absl::StatusOr<NcclLayout> layout = NcclLayout::Make(MakeSetups(c), limits);
  REQUIRE(layout.status() == absl::OkStatus());
  const CaseMemory memory = RandomMemory(c, random);
  std::vector<NcclSteps> steps;
  for (int m = 0; m < c.members(); ++m) {
    steps.push_back(layout->MakeSteps(m, c.accumulate && !memory.out[m].empty()));
    CHECK(steps[m].workspace_bytes <= MakeWindow(c, c.accumulate, limits));
  }
  Players players(memory, steps);
  players.Play();
  for (int m = 0; m < c.members(); ++m) {
    for (size_t t = 0; t < memory.out[m].size(); ++t) {
      const TensorCase& tensor = c.tensors[t];
      const Bytes &is = players.Output(m, static_cast<int>(t)), &wanted = memory.wanted[m][t];
      // A sum by NCCL is rounded before it is added.
      const bool twice = c.accumulate && tensor.dtype == DType::kBF16 && Copies(tensor) > 1;
      if (!twice) {
        REQUIRE(is == wanted);
        continue;
      }
      for (size_t at = 0; at < is.size(); at += sizeof(Bf16)) {
        const float value = Load(&wanted[at], tensor.dtype);
        REQUIRE(std::abs(Load(&is[at], tensor.dtype) - value) <= 0.02f * (1 + std::abs(value)));
      }
    }
  }
}

const NcclLimits kLimits[] = {
    {}, {.runs = 64, .run_bytes = 1}, {.runs = 2, .run_bytes = 16}, {.runs = 0}};

TEST_CASE("random exchanges give every member its slice, and fit the window") {
  const std::vector<std::string> kinds = {"all_gather", "reduce_scatter", "all_reduce",
                                          "all_to_all", "send",           "mixed"};
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    std::mt19937_64 random(seed);
    const int members = 2 + static_cast<int>(random() % 3);
    const std::string& kind = kinds[random() % (members == 2 ? 6 : 5)];
    INFO("seed " << seed);
    Check(RandomCase(members > 2 && kind == "send" ? "mixed" : kind, members, &random),
          kLimits[random() % std::size(kLimits)], &random);
  }
}

// Every transition that an exchange may make, on meshes of one and two axes.
TEST_CASE("each transition between layouts, even and ragged") {
  const std::vector<Sbp> all_from = {B(), P(), S(0), S(1), S(2)}, all_to = {B(), S(0), S(1), S(2)};
  std::mt19937_64 random(7);
  for (const Dims& dims : {Dims{4, 8, 8}, Dims{5, 3, 7}, Dims{1, 4, 6}, Dims{2, 1, 16}}) {
    for (const Sbp& a : all_from) {
      for (const Sbp& b : all_from) {
        for (const Sbp& x : all_to) {
          for (const Sbp& y : all_to) {
            TensorCase t{.mesh = Mesh{{{"a", 2}, {"b", 2}}}, .dims = dims};
            t.from = {a, b}, t.to = {x, y};
            t.dtype = random() % 2 == 0 ? DType::kF32 : DType::kBF16;
            t.reduce = a.partial() || b.partial() ? 1 : 0;
            for (const bool accumulate : {false, true}) {
              const ExchangeCase c{.tensors = {t}, .accumulate = accumulate};
              Check(c, kLimits[random() % std::size(kLimits)], &random);
            }
          }
        }
      }
    }
  }
}

struct Wanted {
  Mesh mesh;
  Dims dims;
  NdSbp from, to;
  bool accumulates;
  int64_t window;
  std::string steps;  // of member 0: the numbers of kernels, collectives, messages, kernels
};

TEST_CASE("direct messages between registers, and the bytes of the window") {
  const Mesh two{{{"a", 2}}}, four{{{"a", 2}, {"b", 2}}};
  // In bf16.
  const std::vector<Wanted> all = {
      // Rows of the tensor, one run each.
      {two, {64, 32}, {S(0)}, {B()}, false, 0, "0 1 0 0"},
      {two, {64, 32}, {P()}, {S(0)}, false, 0, "0 1 0 0"},
      {two, {64, 32}, {P()}, {B()}, false, 0, "0 1 0 0"},
      {four, {64, 32}, {P(), P()}, {S(0), S(0)}, false, 0, "0 1 0 0"},
      // A few long runs: sequences of a micro-batch.
      {two, {4, 64, 1024}, {S(1)}, {B()}, false, 0, "0 4 0 0"},
      {two, {4, 64, 1024}, {P()}, {S(1)}, false, 0, "0 4 0 0"},
      {two, {4, 64, 1024}, {S(1)}, {S(0)}, false, 0, "0 0 4 1"},
      // As many runs as go straight, of 64 KiB, and one more.
      {two, {64, 2, 32768}, {S(1)}, {B()}, false, 0, "0 64 0 0"},
      {two, {64, 2, 32768}, {P()}, {S(1)}, false, 0, "0 64 0 0"},
      {two, {65, 2, 32768}, {S(1)}, {B()}, false, 65 * 131072, "0 1 0 1"},
      {two, {65, 2, 32768}, {P()}, {S(1)}, false, 65 * 131072, "2 1 0 0"},
      // Columns.
      {two, {64, 32}, {S(1)}, {B()}, false, 4096, "0 1 0 1"},
      {two, {64, 32}, {P()}, {S(1)}, false, 4096, "2 1 0 0"},
      {two, {64, 32}, {S(0)}, {S(1)}, false, 2048 + 64, "1 0 2 1"},
      // Ragged rows.
      {two, {65, 32}, {S(0)}, {B()}, false, 0, "0 0 2 1"},
      {two, {65, 32}, {P()}, {S(0)}, false, 2 * 33 * 64, "0 0 2 1"},
      {two, {65, 32}, {P()}, {B()}, false, 0, "0 1 0 0"},
      // Added to what is there.
      {two, {64, 32}, {P()}, {B()}, true, 4096, "0 1 0 1"},
      {two, {64, 32}, {P()}, {S(0)}, true, 2048, "0 1 0 1"},
      {two, {64, 32}, {S(0)}, {B()}, true, 4096, "0 1 0 1"},
      {two, {64, 32}, {P()}, {S(1)}, true, 4096 + 2048, "2 1 0 1"},
  };
  for (const Wanted& wanted : all) {
    TensorCase t{.mesh = wanted.mesh, .dims = wanted.dims, .from = wanted.from, .to = wanted.to};
    t.dtype = DType::kBF16;
    t.reduce = wanted.from[0].partial() ? 1 : 0;
    const ExchangeCase c{.tensors = {t}, .accumulate = wanted.accumulates};
    INFO(Describe(c));
    CHECK(MakeWindow(c, wanted.accumulates) == wanted.window);
    const absl::StatusOr<NcclLayout> layout = NcclLayout::Make(MakeSetups(c));
    REQUIRE(layout.status() == absl::OkStatus());
    const NcclSteps steps = layout->MakeSteps(0, wanted.accumulates);
    std::string text;
    for (const size_t n : {steps.before.size(), steps.collectives.size(), steps.messages.size(),
                           steps.after.size()}) {
      text += (text.empty() ? "" : " ") + std::to_string(n);
    }
    CHECK(text == wanted.steps);
  }
}

TEST_CASE("both ends of a message agree, also where only the reader accumulates") {
  TensorCase t{.mesh = Mesh{{{"a", 2}}}, .dims = {4, 64, 1024}, .from = {B()}, .to = {B()}};
  const ExchangeCase c{.tensors = {t}, .send = true};
  const absl::StatusOr<NcclLayout> layout = NcclLayout::Make(MakeSetups(c));
  REQUIRE(layout.status() == absl::OkStatus());
  for (const bool accumulate : {false, true}) {
    const NcclSteps sender = layout->MakeSteps(0, false), reader = layout->MakeSteps(1, accumulate);
    REQUIRE(sender.messages.size() == reader.messages.size());
    CHECK(sender.messages[0].bytes == reader.messages[0].bytes);
    CHECK(reader.workspace_bytes == (accumulate ? 4 * 64 * 1024 * 4 : 0));
  }
}

TEST_CASE("elements that no source holds are filled, and zeros are not sent") {
  TensorCase t{.mesh = Mesh{{{"a", 2}}}, .dims = {4}, .from = {S(0)}, .to = {B()}};
  for (const bool zero : {false, true}) {
    std::vector<std::vector<KernelSetup>> setups = MakeSetups({.tensors = {t}});
    for (KernelSetup& s : setups[0]) {
      if (zero) {
        s.zero_unless_first = {0};
      } else {
        s.in[0].pop_back();  // only the first half is there
        s.fill = 1;
      }
    }
    const absl::StatusOr<NcclLayout> layout = NcclLayout::Make(setups);
    REQUIRE(layout.status() == absl::OkStatus());
    std::mt19937_64 random(1);
    CaseMemory memory = RandomMemory({.tensors = {t}}, &random);
    Players players(memory, {layout->MakeSteps(0, false), layout->MakeSteps(1, false)});
    players.Play();
    for (int m = 0; m < 2; ++m) {
      for (int i = 0; i < 4; ++i) {
        const bool is_zero = zero ? m == 1 : i >= 2;
        const float full = Load(&memory.wanted[m][0][4 * i], DType::kF32);
        CHECK(Load(&players.Output(m, 0)[4 * i], DType::kF32) == (is_zero ? 0 : full));
      }
    }
  }
}

}  // namespace
}  // namespace oneflow::cuda

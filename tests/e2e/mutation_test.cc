// Plans edited by hand: each of many random edits of compiled plans is refused by the proof, or
// loads and runs a step of every program; kernels of another kind are told by their work; and
// whatever stands in a plan, the verbs that show plans do not crash: 48 texts, or 1,500 with
// ONEFLOW_TEST_FULL.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "actor_runtime/exec/interleaved_for_test.h"
#include "google/protobuf/text_format.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/parse_text.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/print/boxing_text.h"
#include "oneflow_core/print/plan_diff.h"
#include "oneflow_core/print/plan_json.h"
#include "oneflow_core/print/plan_text.h"
#include "oneflow_core/verify/verify_plan.h"
#include "planning/simulate/simulate_on.h"
#include "planning/simulate/summary.h"
#include "tests/e2e/small_run.h"
#include "tools/oneflow/explain/explain_page.h"
#include "tools/oneflow/explain/model_memory.h"
#include "training/trainer/plan_facts.h"

namespace oneflow {
namespace {

struct Kind {
  const char* mesh;
  const char* offload;
  bool update_on_host;
};
constexpr Kind kKinds[] = {{"", "none", false},
                           {"data=2,tensor=2", "none", false},
                           {"pipe=2,tensor=2", "none", false},
                           {"", "activations:all,states", false},
                           {"data=2", "weights", true}};
constexpr int kMutantsOfEach = 100;
constexpr uint64_t kTextMutantsOfEach = 16, kTextMutantsOfEachInFull = 500;

// Makes one edit, drawn from a seed.
class Mutator {
 public:
  Mutator(proto::Plan* plan, uint64_t seed) : plan_(plan), random_(seed) {}

  void Edit() {
    constexpr int kEdits = 17;
    proto::Actor& a = AnyActor();
    switch (Below(kEdits)) {
      case 0: return Drop(a.mutable_input());
      case 1: return Drop(a.mutable_output());
      case 2: return a.mutable_kernel()->swap(*AnyActor().mutable_kernel());
      case 3: return a.set_kernel(AnyKernel());
      case 4: return DropAttr(a);
      case 5: return SetAttr(a, AnyAttrName(a));
      case 6: return ChangeDim(PickRegister(a));
      case 7: return ChangeSlot(PickRegister(a));
      case 8: return ChangeSplit(PickRegister(a));
      case 9: return PickRegister(a).set_dtype(static_cast<proto::DataType>(Below(6)));
      case 10: return Below(2) ? a.clear_workspace() : a.set_workspace(AnyRegister());
      case 11: return Redirect(a);
      case 12: return a.has_boxing() ? a.clear_boxing() : (void)a.mutable_boxing();
      case 13: return SwapInputs(a);
      case 14: return PickRegister(a).set_fill_mode(static_cast<proto::Register::Mode>(Below(3)));
      case 15: return plan_->set_kernel_threads(Below(4000));
      default: return ChangeBoxing(a);
    }
  }

 private:
  int Below(size_t n) { return n == 0 ? 0 : static_cast<int>(random_() % n); }

  proto::Program& AnyProgram() { return *plan_->mutable_program(Below(plan_->program_size())); }
  proto::Actor& AnyActor() {
    program_ = &AnyProgram();
    return *program_->mutable_actor(Below(program_->actor_size()));
  }

  int registers() const { return plan_->persistent_size() + program_->register__size(); }
  bool Known(int id) const { return id >= 0 && id < registers(); }
  // Or none, one before the first or after the last.
  int AnyRegister() { return Below(registers() + 2) - 1; }
  proto::Register& Find(int id) {
    if (id < plan_->persistent_size()) return *plan_->mutable_persistent(id);
    return *program_->mutable_register_(id - plan_->persistent_size());
  }
  proto::Register& PickRegister(const proto::Actor& a) {
    std::vector<int> ids(a.output().begin(), a.output().end());
    for (const proto::Input& input : a.input()) ids.push_back(input.register_());
    if (a.has_workspace() && Known(a.workspace())) ids.push_back(a.workspace());
    return ids.empty() ? Find(0) : Find(ids[Below(ids.size())]);
  }

  std::string AnyKernel() {
    std::vector<std::string> kinds = OpKinds();
    for (const char* host : {"load_tokens", "feed", "fetch", "report", "init_variable",
                             "save_slice", "load_slice", "copy_slices", "", "nothing"}) {
      kinds.emplace_back(host);
    }
    return kinds[Below(kinds.size())];
  }

  template <typename Repeated>
  void Drop(Repeated* list) {
    if (!list->empty()) list->erase(list->begin() + Below(list->size()));
  }

  std::string AnyAttrName(const proto::Actor& a) {
    std::vector<std::string> names = {"contract", "lead",  "axis",
                                      "scale",    "apart", "replicated_axes"};
    for (const auto& [name, value] : a.attr()) names.push_back(name);
    std::sort(names.begin(), names.end());
    return names[Below(names.size())];
  }
  void DropAttr(proto::Actor& a) { a.mutable_attr()->erase(AnyAttrName(a)); }
  void SetAttr(proto::Actor& a, const std::string& name) {
    proto::AttrValue& value = (*a.mutable_attr())[name];
    switch (Below(6)) {
      case 0: return value.set_i(Below(7) - 2);
      case 1: return value.set_f(0.5);
      case 2: return value.set_b(Below(2) == 0);
      case 3: return value.set_s("data");
      case 4: return value.mutable_ints()->add_value(Below(9) - 4);
      default: return value.clear_value();
    }
  }

  void ChangeDim(proto::Register& r) {
    auto* dims = r.mutable_layout()->mutable_dim();
    if (dims->empty() || Below(4) == 0) return dims->Add(Below(4));
    if (Below(4) == 0) return dims->RemoveLast();
    int64_t& dim = (*dims)[Below(dims->size())];
    const int64_t sizes[] = {0, 1, dim - 1, dim + 1, dim * 2, dim / 2, int64_t{1} << 40};
    dim = sizes[Below(std::size(sizes))];
  }
  void ChangeSlot(proto::Register& r) {
    const int64_t bytes = r.slot_bytes();
    const int64_t sizes[] = {0, 64, bytes - 64, bytes + 64, bytes * 2, -64};
    r.set_slot_bytes(sizes[Below(std::size(sizes))]);
  }
  void ChangeSplit(proto::Register& r) {
    auto* splits = r.mutable_layout()->mutable_split();
    if (splits->empty() || Below(3) == 0) {
      proto::Layout::Split* split = splits->Add();
      split->set_dim(Below(4));
      split->set_axis(Below(3));
    } else if (Below(2) == 0) {
      splits->RemoveLast();
    } else {
      splits->at(0).set_dim(Below(4));
    }
  }

  void Redirect(proto::Actor& a) {
    if (a.input_size() == 0) return;
    proto::Input* input = a.mutable_input(Below(a.input_size()));
    input->set_register_(Below(plan_->persistent_size() + program_->register__size()));
  }
  void SwapInputs(proto::Actor& a) {
    if (a.input_size() > 1) a.mutable_input()->SwapElements(0, 1 + Below(a.input_size() - 1));
  }
  void ChangeBoxing(proto::Actor& a) {
    if (!a.has_boxing()) return;
    switch (Below(4)) {
      case 0: return a.mutable_boxing()->set_reduce(static_cast<proto::Boxing::Reduce>(Below(5)));
      case 1: return a.mutable_boxing()->add_zero_unless_first(Below(5) - 1);
      case 2: return a.mutable_boxing()->set_fill(static_cast<proto::Boxing::Fill>(Below(4)));
      default: return a.mutable_boxing()->add_reduce_axis(Below(5) - 1);
    }
  }

  proto::Plan* plan_;
  proto::Program* program_ = nullptr;  // of the last actor drawn
  std::mt19937_64 random_;
};

// A plan's text with edits of single fields, drawn from a seed; they need not make sense.
class TextMutator {
 public:
  explicit TextMutator(const proto::Plan& plan) {
    std::string text;
    google::protobuf::TextFormat::PrintToString(plan, &text);
    lines_ = absl::StrSplit(text, '\n', absl::SkipEmpty());
  }

  // Not a plan where the text is none any more.
  absl::StatusOr<proto::Plan> Edited(uint64_t seed) const {
    std::mt19937_64 random(seed);
    std::vector<std::string> lines = lines_;
    for (int edits = 1 + static_cast<int>(random() % 2); edits > 0; --edits) Edit(&lines, random);
    proto::Plan plan;
    RETURN_IF_ERROR(ParseText(absl::StrJoin(lines, "\n"), "edited", "plan", &plan));
    return plan;
  }

 private:
  static void Edit(std::vector<std::string>* lines, std::mt19937_64& random) {
    static constexpr const char* kValues[] = {"0",
                                              "1",
                                              "-1",
                                              "2",
                                              "3",
                                              "7",
                                              "64",
                                              "9999999",
                                              "2147483647",
                                              "-2147483648",
                                              "1099511627776",
                                              "9223372036854775807",
                                              "-9223372036854775808",
                                              "1e300",
                                              "nan",
                                              "true"};
    const size_t at = random() % lines->size();
    std::string& line = (*lines)[at];
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) {
      if (line.back() != '{') return;
      // A message, as far as the brace that closes it.
      const std::string end = line.substr(0, line.find_first_not_of(' ')) + "}";
      const auto last = std::find(lines->begin() + at, lines->end(), end);
      lines->erase(lines->begin() + at, last + 1);
    } else if (random() % 8 == 0) {
      lines->erase(lines->begin() + at);
    } else if (random() % 8 == 0) {
      lines->insert(lines->begin() + at, std::string(line));
    } else {
      const bool text = line.back() == '"';
      line.resize(colon + 2);
      line += text ? random() % 2 ? "\"\"" : "\"\\377\"" : kValues[random() % std::size(kValues)];
    }
  }

  std::vector<std::string> lines_;
};

// The bytes of all that verbs show of a plan that is not proved: of any, then of one that is
// well-formed, if it is.
size_t Shown(const proto::Plan& plan, const proto::Plan& other, bool well_formed) {
  std::string text = PlanSummary(plan) + PlanText(plan);
  for (const proto::Program& program : plan.program()) text += BoxingTable(plan, program);
  text += VerifyPlan(plan).ToString();
  if (!well_formed) return text.size();
  text += JsonText(PlanJson(plan, ""));
  text += ModelMemoryText(plan).value_or("");
  for (const PlanDiff& diff : {DiffPlans(plan, other, "train"), DiffPlans(other, plan, "train")}) {
    text += DiffText(diff) + JsonText(DiffJson(diff));
  }
  text += std::to_string(FactsOfModel(plan).value_or(ModelFacts()).vocab);
  for (const char* kernel : {"feed", "fetch"}) {
    for (const std::string& name : HostTensorNames(plan, "run", kernel)) text += name;
  }
  const auto run = SimulateOn(proto::Cluster(), plan, "train", /*steps=*/2);
  if (!run.ok()) return text.size();
  SimulationSummary summary = Summarize(plan, "", *run);
  summary.rates = FindModelRates(plan, "train", proto::Cluster(), run->StepSeconds()).value();
  return text.size() + SummaryText(summary).size() + ExplainPage(plan, "", summary).size();
}

SmallRun MakeRun(const Kind& kind) {
  SmallRun run;
  run.Set("mesh", kind.mesh);
  run.Set("offload", kind.offload);
  run.recipe.set_update_on(kind.update_on_host ? proto::UPDATE_ON_HOST : proto::UPDATE_ON_DEVICE);
  return run;
}

class Counting : public TokenSource {
 public:
  absl::Status Sample(int64_t step, int64_t sample, std::span<int32_t> tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<int32_t>((step + sample + static_cast<int64_t>(i)) % 21);
    }
    return absl::OkStatus();
  }
};

int64_t PieceBytes(const Piece& piece) {
  return piece.slice->elements() * static_cast<int64_t>(ElementBytes(piece.dtype));
}

// One step of every program: all of each piece is written, or read.
absl::Status RunAll(const proto::Plan& plan, Runtime* runtime) {
  const Counting tokens;
  unsigned sum = 0;
  for (const proto::Program& program : plan.program()) {
    RunContext context;
    context.micro_batches = program.micro_batches();
    context.micro_batch_size = program.micro_batch_size();
    context.tokens = &tokens;
    context.optimizer = [](int64_t step) {
      return StepNumbers{1e-2, 0.9, 0.95, 1e-8, 0.1, 1.0, step};
    };
    context.load = [](const Piece& piece) {
      std::memset(piece.data, 0, static_cast<size_t>(PieceBytes(piece)));
      return absl::OkStatus();
    };
    context.save = [&](const Piece& piece) {
      for (int64_t i = 0; i < PieceBytes(piece); ++i) sum += static_cast<unsigned>(piece.data[i]);
      return absl::OkStatus();
    };
    context.report = [&](int64_t, std::span<const double> values) {
      sum += static_cast<unsigned>(values.size());
    };
    RETURN_IF_ERROR(runtime->Run(program.name(), context, /*steps=*/1));
  }
  return absl::OkStatus();
}

}  // namespace

TEST_CASE("A plan edited by hand is refused, or it runs") {
  int refused = 0, ran = 0;
  for (const Kind& kind : kKinds) {
    SmallRun run = MakeRun(kind);
    run.model.set_layers(2);
    const proto::Plan good = CompileSmall(run);
    for (uint64_t seed = 0; seed < kMutantsOfEach; ++seed) {
      proto::Plan plan = good;
      Mutator(&plan, seed).Edit();
      INFO("mesh " << kind.mesh << ", offload " << kind.offload << ", seed " << seed);
      const auto runtime = Runtime::Create(plan, Interleaved(1));
      if (!runtime.ok()) {
        INFO(runtime.status().ToString());
        CHECK(runtime.status().code() != absl::StatusCode::kInternal);
        ++refused;
        continue;
      }
      const absl::Status status = RunAll(plan, runtime->get());
      INFO(status.ToString());
      CHECK(status.ok());
      ++ran;
    }
  }
  CHECK(refused > 150);
  CHECK(ran > 10);
}

// The kinds that may stand in the place of others although they must do the same work: by one actor
// of each kernel of the program that trains.
std::set<std::string> FindStandIns(proto::Plan plan) {
  std::set<std::string> kernels, found;
  proto::Program* train = nullptr;
  for (proto::Program& program : *plan.mutable_program()) {
    if (program.name() == "train") train = &program;
  }
  for (proto::Actor& actor : *train->mutable_actor()) {
    const std::string kernel = actor.kernel();
    if (!kernels.insert(kernel).second) continue;
    for (const std::string& kind : OpKinds()) {
      if (kind == kernel) continue;
      actor.set_kernel(kind);
      const absl::StatusOr<PlanNet> net = MakePlanNet(plan, *train);
      if (net.ok() && VerifyKernels(*net, /*work=*/true).ok() &&
          VerifyPlan(plan, {.work = true}).ok()) {
        found.insert(absl::StrCat(kind, " for ", kernel));
      }
    }
    actor.set_kernel(kernel);
  }
  CHECK(kernels.size() > 25);
  return found;
}

TEST_CASE("A kind in the place of another does not do its work, or computes the same") {
  // An exchange follows the layouts; the name of its primitive is for costs and people.
  const std::set<std::string> same = {"add for add_n",
                                      "add_n for add",
                                      "sum_uses for add",
                                      "add for sum_uses",
                                      "add_n for sum_uses",
                                      "sum_uses for add_n",
                                      "all_to_all for all_gather",
                                      "add_delta for add",
                                      "add_delta for add_n",
                                      "add_delta for sum_uses"};
  SmallRun run;
  run.model.set_layers(1);
  run.Set("--mesh=data=2 --shard=states --documents --micro_batches=2");
  for (const bool mixture : {false, true}) {
    if (mixture) {
      run.edit = [](proto::Graph* graph) {
        *graph = BuildModel(MakeModel(
            "family: 'llama' layers: 1 hidden: 16 inner: 12 heads: 2 groups: 2 head_dim: 8 "
            "sequence: 8 vocab: 21 qk_norm: true experts: 4 scores: 'sigmoid' bias_rate: 0.001"));
      };
    }
    std::set<std::string> others;
    std::ranges::set_difference(FindStandIns(CompileSmall(run)), same,
                                std::inserter(others, others.end()));
    CHECK(absl::StrJoin(others, ", ") == "");
  }
}

TEST_CASE("Whatever a plan's text says, it is shown or refused") {
  const bool full = std::getenv("ONEFLOW_TEST_FULL") != nullptr;
  const uint64_t mutants = full ? kTextMutantsOfEachInFull : kTextMutantsOfEach;
  int refused = 0, well_formed = 0;
  for (const Kind& kind : kKinds) {
    SmallRun run = MakeRun(kind);
    run.model.set_layers(kind.mesh[0] == 'p' ? 2 : 1);
    const proto::Plan good = CompileSmall(run);
    const TextMutator mutator(good);
    for (uint64_t seed = 0; seed < mutants; ++seed) {
      INFO("mesh " << kind.mesh << ", offload " << kind.offload << ", seed " << seed);
      const absl::StatusOr<proto::Plan> plan = mutator.Edited(seed);
      if (!plan.ok()) continue;
      const bool fits = VerifyTypes(*plan).ok();
      ++(fits ? well_formed : refused);
      CHECK(Shown(*plan, good, fits) > 0);
    }
  }
  const auto plans = static_cast<int>(std::size(kKinds) * mutants);
  CHECK(refused * 5 > plans);
  CHECK(well_formed * 5 > plans);
}

}  // namespace oneflow

#include "planning/recipe/changes_that_fit.h"

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/boxed_programs.h"
#include "oneflow_core/cost/device_memory.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/model/sharding.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/print/plan_text.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "planning/simulate/simulate_on.h"

namespace oneflow {
namespace {

constexpr std::string_view kSums = "sums in another order";
constexpr std::string_view kRounding = "updates rounded by the host";
constexpr std::string_view kFrozen = "frozen weights rounded";
constexpr std::string_view kStream = "sums of the residual stream rounded";

constexpr int kLeastTried = 2;  // changes whose drafts are made, whatever the time

// Choices that take the place of the recipe's.
struct Change {
  proto::Recipe recipe;   // these alone
  std::string_view bits;  // how they change, for people; empty: not at all
};

// Parts of the batch, or of all tokens.
struct TokenParts {
  int64_t batch = 1, all = 1;
};

TokenParts CountTokenParts(const proto::Mesh& mesh) {
  TokenParts parts;
  for (const proto::Mesh::Axis& axis : mesh.axis()) {
    if (!SplitsTokens(axis.name())) continue;
    parts.all *= axis.size();
    if (!axis.name().starts_with("context")) parts.batch *= axis.size();
  }
  return parts;
}

int CountLayouts(const proto::Shard& shard) {
  return shard.states_size() + shard.gradients_size() + shard.weights_size();
}

// True if a block gathers activations, which its backward may gather once more.
bool GathersActivations(const proto::Recipe& given) {
  const auto& axes = given.mesh().axis();
  return given.sequence_parallel() || std::any_of(axes.begin(), axes.end(), [](const auto& axis) {
           return axis.name().starts_with("context") && axis.size() > 1;
         });
}

// `recipe` with these choices in the place of its own.
proto::Recipe With(proto::Recipe recipe, const proto::Recipe& choices) {
  CopyFields(RecipeRows(), choices, &recipe);
  return recipe;
}

// In the order of what they usually cost. `given`: complete.
std::vector<Change> ListChanges(const proto::Graph& graph, const proto::Recipe& given) {
  std::vector<Change> changes;
  const bool trains = !graph.loss().empty();
  const bool moves_states = trains && given.steps_a_round() <= 1;  // each step updates
  const bool on_host = given.update_on() == proto::UPDATE_ON_HOST;
  // `more` beside what is offloaded.
  const auto offload = [&](const auto& more) {
    Change change;
    *change.recipe.mutable_offload() = given.offload();
    more(change.recipe.mutable_offload());
    changes.push_back(std::move(change));
  };
  const auto change = [&](const std::string& flags, std::string_view bits = "") {
    changes.push_back({MakeRecipe(flags), bits});
  };
  const bool activations = given.offload().has_activations();
  const auto& kept = given.offload().activations();
  if (given.host_memory() > 0 && activations && (!kept.has_share() || kept.share() > 0.5)) {
    offload([](proto::Offload* half) {
      half->mutable_activations()->set_share(0.5);
      half->mutable_activations()->set_all(false);
    });
  }
  const bool frozen = HasFrozen(graph);
  const bool narrow_products = given.precision() == proto::BF16;
  if (frozen && narrow_products && given.has_frozen_weights() &&
      given.frozen_weights() == proto::F32) {
    change("--frozen_weights=bf16", kFrozen);
  }
  const bool wide = narrow_products && given.residual() == proto::F32;
  if (wide) change("--residual=bf16", kStream);
  const bool gathers = given.recompute().gather() || (trains && GathersActivations(given));
  const auto recompute = [&](proto::Recompute policy, bool narrow) {
    policy.set_gather(gathers);
    if (policy.SerializeAsString() == given.recompute().SerializeAsString()) return;
    Change change{MakeRecipe(narrow ? "--residual=bf16" : ""), narrow ? kStream : ""};
    *change.recipe.mutable_recompute() = std::move(policy);
    changes.push_back(std::move(change));
  };
  for (const bool narrow : {false, true}) {
    if (narrow <= wide) recompute(given.recompute(), narrow);
  }
  if (trains && given.loss_pieces() == 0) change("--loss_pieces=auto", kSums);
  const TokenParts parts = CountTokenParts(given.mesh());
  const auto shard = [&](const std::string& layout) {
    const proto::Recipe split = MakeRecipe("--shard=" + layout);
    if (parts.all < 2 || CountLayouts(split.shard()) <= CountLayouts(given.shard())) return;
    const bool sums = given.micro_batches() > 1 && split.shard().gradients_size() > 0;
    changes.push_back({split, sums ? kSums : ""});
  };
  if (frozen) shard("weights:data");
  shard("states");
  shard("gradients");
  recompute(MakeRecipe("--recompute=full").recompute(), /*narrow=*/false);
  shard("weights");
  const int64_t m = 2 * given.micro_batches();
  if (given.batch() % m == 0 && given.batch() / m >= parts.batch) {
    change(absl::StrCat("--micro_batches=", m), kSums);
  }
  if (trains && !activations) offload([](proto::Offload* more) { more->mutable_activations(); });
  if (moves_states && !given.offload().states() && !on_host) {
    offload([](proto::Offload* more) { more->set_states(true); });
  }
  if (moves_states && !on_host) {
    change("--update_on=host", given.device() == proto::CUDA ? kRounding : "");
  }
  return changes;
}

// All of them; of a choice that several name the last, but what is offloaded adds up.
Change JoinChanges(std::span<const Change> changes) {
  Change all;
  proto::Offload offload;
  for (const Change& change : changes) {
    all.recipe = With(std::move(all.recipe), change.recipe);
    offload.MergeFrom(change.recipe.offload());
    if (all.bits.empty() || change.bits == kSums) all.bits = change.bits;
  }
  // Half of the activations is the first change: later ones have those that were given.
  const auto half = std::find_if(changes.begin(), changes.end(), [](const Change& change) {
    return change.recipe.offload().has_activations();
  });
  if (half != changes.end()) {
    *offload.mutable_activations() = half->recipe.offload().activations();
  }
  if (all.recipe.has_offload()) *all.recipe.mutable_offload() = offload;
  return all;
}

std::string GiBText(int64_t bytes) {
  return absl::StrFormat("%.2f GiB", static_cast<double>(bytes) / (1 << 30));
}

// Bytes that the arena of a device would save if sums of gradients over micro-batches were bf16:
// half of those in f32.
int64_t CountNarrowed(const proto::Plan& draft, const proto::StageMemory& memory) {
  int64_t bytes = 0;
  for (const proto::Register& r : FindProgram(draft, "train")->register_()) {
    const bool sums = r.fill_mode() == proto::Register::ACCUMULATE && r.fires_per_fill() > 1;
    if (!sums || r.dtype() != proto::F32 || r.stage() != memory.stage()) continue;
    if (r.memory_kind() == memory.kind()) bytes += r.slots() * r.slot_bytes() / 2;
  }
  return bytes;
}

// Tries changes while there is time. Invariant: lines_ names those that fit, untried_ those that
// there was no time for.
class Trial {
 public:
  Trial(const GraphSource& source, const PlanRequest& given, const LookingTime& time,
        const Reporter& report)
      : source_(source),
        given_(given),
        time_(time),
        report_(report),
        begin_(time.clock()),
        a_draft_(time.a_plan / 2),
        a_plan_(time.a_plan) {}

  bool found() const { return !lines_.empty(); }
  bool HasTime(double seconds) const { return Spent() + seconds <= time_.most; }

  // Tries the change; `share` of the time may be taken, but a few drafts are made in any case.
  void Try(const Change& change, double share) {
    const std::string flags = FlagsText(RecipeRows(), change.recipe);
    if (tried_ >= kLeastTried && !HasTime(a_draft_ + (1 - share) * time_.most)) {
      untried_.push_back(flags);
    } else if (const Drafted drafted = Draft(change); drafted.fits) {
      Compile(change, drafted.bytes);
    }
  }

  // Sums of gradients in bf16 are no choice here; other systems have them. Notes it if they alone
  // would make the plan fit.
  void NoteNarrowGradients() {
    if (given_.recipe.precision() != proto::BF16 || source_.graph.loss().empty()) return;
    const double begin = Spent();
    const absl::StatusOr<proto::Plan> draft = MakeLeastDraft(source_, given_);
    a_draft_ = Spent() - begin;
    if (!draft.ok()) return;
    const int64_t capacity = UsableBytes(given_.cluster.device());
    int64_t saved = 0, most = 0;
    for (int arena = 0; arena < draft->memory_size(); ++arena) {
      const proto::StageMemory& memory = draft->memory(arena);
      if (memory.kind() != proto::DEVICE) continue;
      const int64_t bytes = draft->facts().lower_bound_bytes(arena);
      const int64_t narrowed = CountNarrowed(*draft, memory);
      most = std::max(most, bytes - narrowed);
      if (bytes > capacity) saved = std::max(saved, narrowed);
    }
    if (saved == 0 || most > capacity) return;
    narrow_ = absl::StrCat("\ngradients in bf16, as NeMo keeps them, would save ",
                           SizeText(static_cast<double>(saved)), " and fit in ",
                           SizeText(static_cast<double>(most)), " by the draft; not built here");
  }

  // Tries the fewest of the first changes that fit together by their drafts.
  void TryTogether(const std::vector<Change>& changes) {
    const auto first = [&](size_t n) { return JoinChanges(std::span(changes).first(n)); };
    size_t too_few = 1, fit = changes.size() + 1;  // each alone was tried
    int64_t bytes = 0;
    const auto fits = [&](size_t n) {
      const Drafted drafted = Draft(first(n));
      if (drafted.fits) fit = n, bytes = drafted.bytes;
      return drafted.fits;
    };
    const auto is_found = [&] { return fit <= changes.size(); };
    while (fit - too_few > 1 && HasTime(a_draft_ + (is_found() ? a_plan_ : 0))) {
      const size_t n = (too_few + fit) / 2;
      if (!fits(n)) too_few = n;
    }
    if (!is_found()) {
      if (fit - too_few > 1) untried_.push_back(FlagsText(RecipeRows(), first(fit - 1).recipe));
      return;
    }
    // Gaps between registers, or other programs, may need more than the draft says.
    while (!Compile(first(fit), bytes) && fit < changes.size() && HasTime(a_draft_ + a_plan_)) {
      if (!fits(fit + 1)) break;
    }
  }

  // The layouts that the recipe gives without a cluster move bits, but may fit.
  void TryOtherLayouts() {
    if (given_.cluster.level_size() == 0 || source_.graph.layout_size() > 0) return;
    constexpr char kName[] = "the layouts for an unknown cluster";
    if (!HasTime(a_draft_ + a_plan_)) {
      untried_.push_back(kName);
      return;
    }
    PlanRequest alike = given_;
    alike.cluster.Clear();
    alike.recipe.set_state_layouts(true);
    const absl::StatusOr<FrontEnd> stated = RunFrontEnds(source_, alike, {}, nullptr);
    if (!stated.ok()) return;
    GraphSource source = source_;
    source.graph = stated->plan.graph();
    CompileCache cache;
    const absl::StatusOr<proto::Plan> draft = MakeLeastDraft(source, given_, &cache);
    if ((draft.ok() && NeedsTooMuch(*draft)) || !MakePlan(source, given_, &cache).ok()) return;
    absl::StrAppend(&lines_, "\n  ", kName,
                    ": compile without --cluster and with --layouts_out=FILE, then with --cluster "
                    "and --graph=FILE");
  }

  std::string Result() const {
    const std::string text =
        found() ? "\nit fits with" + lines_
                : "\nno flag that was tried makes it fit; use more devices, or a batch, a "
                  "sequence or layers that `oneflow search --largest` finds to fit";
    if (untried_.empty()) return text + narrow_;
    return absl::StrCat(text, narrow_, "\nnot tried within ", time_.most,
                        " s of CPU time: ", absl::StrJoin(untried_, "; "));
  }

 private:
  struct Drafted {
    bool fits = false;  // or there is no draft: the graph has no loss
    int64_t bytes = 0;  // at least
  };

  double Spent() const { return time_.clock() - begin_; }

  PlanRequest Changed(const Change& change) const {
    PlanRequest changed = given_;
    changed.recipe = With(given_.recipe, change.recipe);
    return changed;
  }

  Drafted Draft(const Change& change) {
    ++tried_;
    report_(absl::StrCat("it does not fit; trying ", FlagsText(RecipeRows(), change.recipe)));
    if (source_.graph.loss().empty()) return {.fits = true};
    const double begin = Spent();
    const absl::StatusOr<proto::Plan> draft = MakeLeastDraft(source_, Changed(change));
    a_draft_ = Spent() - begin;
    if (!draft.ok()) return {};
    return {!NeedsTooMuch(*draft), LeastDeviceBytes(*draft)};
  }

  // False if the plan is refused. `bytes`: by the draft.
  bool Compile(const Change& change, int64_t bytes) {
    const std::string flags = FlagsText(RecipeRows(), change.recipe);
    std::string line;
    if (HasTime(a_plan_)) {
      const double begin = Spent();
      const absl::StatusOr<Planned> planned = MakePlan(source_, Changed(change));
      a_plan_ = Spent() - begin;
      if (!planned.ok()) return false;
      line = GiBText(MostDeviceBytes(planned->plan));
      const absl::StatusOr<SimulatedRun> run =
          SimulateProved(given_.cluster, planned->plan, "train", 2);
      if (run.ok()) absl::StrAppendFormat(&line, ", a step of %.3g s", run->StepSeconds());
    } else if (bytes > 0) {
      line = absl::StrCat(GiBText(bytes), " or more by its draft, not compiled");
    } else {
      untried_.push_back(flags);
      return true;
    }
    absl::StrAppend(&lines_, "\n  ", flags, ": ", line);
    if (!change.bits.empty()) absl::StrAppend(&lines_, " (", std::string(change.bits), ")");
    return true;
  }

  const GraphSource& source_;
  const PlanRequest& given_;
  const LookingTime& time_;
  const Reporter& report_;
  const double begin_;
  double a_draft_, a_plan_;  // seconds that the last took
  int tried_ = 0;
  std::string lines_, narrow_;
  std::vector<std::string> untried_;
};

}  // namespace

double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

absl::Status WithChangesThatFit(const absl::Status& refused, const GraphSource& source,
                                const PlanRequest& request, const LookingTime& time,
                                const Reporter& report) {
  PlanRequest given = request;
  if (!given.known_layouts) given.known_layouts = std::make_shared<KnownLayouts>();
  const absl::StatusOr<PlanRequest> complete = Completed(given);
  if (!complete.ok()) return refused;
  Trial trial(source, given, time, report);
  const std::vector<Change> changes = ListChanges(source.graph, complete->recipe);
  trial.NoteNarrowGradients();
  // Together they fit more often than alone.
  for (const Change& change : changes) trial.Try(change, trial.found() ? 1 : 0.5);
  if (!trial.found()) trial.TryTogether(changes);
  trial.TryOtherLayouts();
  return absl::ResourceExhaustedError(absl::StrCat(refused.message(), trial.Result()));
}

}  // namespace oneflow

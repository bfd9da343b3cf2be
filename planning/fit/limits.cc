#include "planning/fit/limits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/device_memory.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/recipe/row.h"
#include "oneflow_core/tensor/mesh.h"
#include "planning/recipe/changes_that_fit.h"
#include "planning/recipe/make_plan.h"
#include "planning/recipe/price_queues.h"
#include "planning/search/model_shape.h"

namespace oneflow {
namespace {

// Packing leaves gaps: a short plan that fills more is not compiled.
constexpr double kFull = 0.985;
constexpr int64_t kParts = 16;               // of a size, to which it is told apart
constexpr int kMostProbes = 7;               // short plans of one size each
constexpr int kMostCompiled = 3;             // plans of one limit
constexpr int64_t kMostSequences = 1 << 16;  // of a device
constexpr int64_t kFewPositions = 1024;      // of a device, with which sequences begin
constexpr int64_t kShortest = 256;           // tokens of a sequence that is still called one
constexpr int kMostDoublings = 6;            // of devices
constexpr int64_t kMostTensor = 8;

using Choices = std::vector<std::string>;
using LeftSeconds = std::function<double()>;
using MakeLean = std::function<absl::StatusOr<LeanPlan>(int64_t size, const Choices& form)>;

double Capacity(const SearchSpec& spec) {
  return static_cast<double>(UsableBytes(spec.given.cluster.device()));
}

bool Fits(const LeanPlan& lean) { return lean.bytes <= kFull * Capacity(lean.spec); }

int64_t NodeDevices(const SearchSpec& spec) {
  const proto::Cluster& cluster = spec.given.cluster;
  return cluster.level().empty() ? kMostTensor : cluster.level(0).size();
}

// What devices share beside the batch or the sequence, the plans that are compiled soonest first:
// nothing, experts, heads.
struct Form {
  Choices choices;
  int64_t devices = 1;
};
std::vector<Form> ListForms(const SearchSpec& spec) {
  const ModelShape shape = FindModelShape(spec.source.graph);
  const int64_t node = std::max<int64_t>(1, NodeDevices(spec));
  std::vector<Form> forms = {{{"tensor=1", "expert=1"}, 1}};
  if (shape.experts > 0) {
    const int64_t groups = shape.slot_groups > 0 ? shape.slot_groups : shape.experts;
    const int64_t expert = std::gcd(std::gcd(groups, spec.devices), node);
    if (expert > 1) forms.push_back({{"tensor=1", absl::StrCat("expert=", expert)}, expert});
  }
  const int64_t tensor = std::gcd(std::gcd(kMostTensor, spec.devices), node);
  if (tensor > 1 && !FindTensorFactors(shape, static_cast<int>(tensor)).empty()) {
    forms.push_back({{absl::StrCat("tensor=", tensor), "expert=1"}, tensor});
  }
  return forms;
}

Choices Join(Choices choices, const Choices& more) {
  choices.insert(choices.end(), more.begin(), more.end());
  return choices;
}

FitChange None(std::string what, std::string why) {
  FitChange change{.what = std::move(what)};
  change.why = std::move(why);
  return change;
}

// A multiple of `unit`, at most n, that has few digits in binary.
int64_t RoundDown(int64_t n, int64_t unit) {
  int64_t step = unit;
  while (n / (2 * step) >= kParts) step *= 2;
  return n / step * step;
}

// The first size of which a lean plan fits by its short plan, and that plan's form.
struct Start {
  int64_t size = 0;
  Form form;
  LeanPlan lean;
};

// Grows from a size that fits, as far as short plans say that it does.
class Grower {
 public:
  Grower(int64_t unit, int64_t most, MakeLean make, LeftSeconds left)
      : unit_(unit), most_(most), make_(std::move(make)), left_(std::move(left)) {}

  // Fills `change`, whose `what` is said.
  void Grow(Start start, FitChange* change) {
    low_ = start.size, lean_ = std::move(start.lean);
    const Choices& form = start.form.choices;
    for (int64_t next = std::min(2 * low_, most_); next > low_ && probes_ < kMostProbes;) {
      if (left_() <= 0) {
        change->at_least = true;
        break;
      }
      next = Probe(next, form);
    }
    Compile(form, change);
  }

 private:
  // Makes the short plan of a size, and returns the next; one that is not above low_ ends it.
  int64_t Probe(int64_t size, const Choices& form) {
    ++probes_;
    absl::StatusOr<LeanPlan> lean = make_(size, form);
    if (!lean.ok()) {  // such a size is not compiled, whatever it needs
      high_ = size;
      return Between();
    }
    const double slope = (lean->bytes - lean_.bytes) / static_cast<double>(size - low_);
    slope_ = slope;
    if (Fits(*lean)) {
      low_ = size, lean_ = *std::move(lean);
    } else {
      high_ = size;
    }
    if (slope <= 0) return high_ > 0 ? Between() : std::min(2 * low_, most_);
    const double more = (kFull * Capacity(lean_.spec) - lean_.bytes) / slope;
    const double most = static_cast<double>(most_ - low_);
    const int64_t next = RoundDown(low_ + static_cast<int64_t>(std::min(more, most)), unit_);
    return high_ == 0 || next < high_ ? next : Between();
  }

  int64_t Between() const {
    const bool near = high_ - low_ <= std::max(unit_, low_ / kParts);
    return near ? low_ : RoundDown((low_ + high_) / 2, unit_);
  }

  // Where a plan needs more than its short plan says, so do those of other sizes.
  void Compile(const Choices& form, FitChange* change) {
    const double capacity = Capacity(lean_.spec);
    for (int tries = 0; tries < kMostCompiled; ++tries) {
      absl::StatusOr<CompiledPlan> compiled = CompileAnyway(lean_.spec, lean_.candidate);
      if (!compiled.ok()) {
        change->why = absl::IsCancelled(compiled.status())
                          ? "is not known: the time was over"
                          : std::string(ToStd(compiled.status().message()));
        return;
      }
      const auto bytes = static_cast<double>(compiled->found.bytes);
      if (bytes <= capacity) {
        change->plan = std::move(compiled->found);
        change->batch = lean_.spec.given.recipe.batch();
        change->sequence = FindModelShape(lean_.spec.source.graph).sequence;
        change->devices = lean_.spec.devices;
        return;
      }
      change->why = "is not known: short plans say too little of it";
      const double more = bytes - kFull * capacity, slope = slope_ * bytes / lean_.bytes;
      const auto less = static_cast<int64_t>(slope > 0 ? more / slope : 0);
      const int64_t next = RoundDown(low_ - std::max({less, unit_, low_ / kParts}), unit_);
      if (next < unit_ || left_() <= 0) return;
      absl::StatusOr<LeanPlan> lean = make_(next, form);
      if (!lean.ok()) return;
      low_ = next, lean_ = *std::move(lean);
    }
  }

  const int64_t unit_, most_;
  const MakeLean make_;
  const LeftSeconds left_;
  int64_t low_ = 0;   // the largest of which a short plan fits
  LeanPlan lean_;     // of it
  int64_t high_ = 0;  // the least of which none fits; 0: there is none
  double slope_ = 0;  // bytes a size, as the last two short plans have it
  int probes_ = 0;
};

// The first form of which the size fits.
std::optional<Start> FindStart(const SearchSpec& spec, int64_t size, const MakeLean& make,
                               const LeftSeconds& left) {
  for (const Form& form : ListForms(spec)) {
    if (left() <= 0) return std::nullopt;
    absl::StatusOr<LeanPlan> lean = make(size, form.choices);
    if (lean.ok() && Fits(*lean)) return Start{size, form, *std::move(lean)};
  }
  return std::nullopt;
}

std::string NotFound(const LeftSeconds& left, const std::string& what) {
  return left() <= 0 ? "is not known: the time was over" : what;
}

SearchSpec WithBatch(SearchSpec spec, int64_t batch) {
  spec.given.recipe.set_batch(batch);
  return spec;
}

// The devices that a form leaves to the batch or the sequence.
int64_t LeftDevices(const SearchSpec& spec, const Choices& form) {
  int64_t devices = spec.devices;
  for (const Form& known : ListForms(spec)) {
    if (known.choices == form) devices /= known.devices;
  }
  return devices;
}

// All of `size` sequences at once; devices that have none share those of the others.
MakeLean AtOnce(const SearchSpec& spec) {
  return [&spec](int64_t size, const Choices& form) {
    const int64_t devices = LeftDevices(spec, form);
    const bool few = size < spec.devices;
    const int64_t context = few ? spec.devices / size : 1;
    Choices choices = {"micro_batches=1"};
    if (!few || devices % context != 0) {
      choices.emplace_back("context=1");
    } else {
      choices.push_back(absl::StrCat("context=", context));
    }
    return FindLean(WithBatch(spec, size), Join(choices, form));
  };
}

// One sequence of `size` tokens at a time.
absl::StatusOr<LeanPlan> OneAtATime(const FitQuestion& question, int64_t size, const Choices& form,
                                    int64_t tokens) {
  SearchSpec spec = question.spec;
  ASSIGN_OR_RETURN(spec.source, question.with_sequence(size));
  FillBlocks(&spec.source.graph);
  const int64_t batch = std::max<int64_t>(1, tokens / size);
  const int64_t context = LeftDevices(question.spec, form);
  const bool expert = form.size() > 1 && form[1] != "expert=1";
  const int64_t at_once = expert ? question.spec.devices / context : 1;
  const int64_t micro_batches = std::max<int64_t>(1, batch / at_once);
  return FindLean(WithBatch(std::move(spec), micro_batches * at_once),
                  Join({absl::StrCat("micro_batches=", micro_batches), "data=1",
                        absl::StrCat("context=", context)},
                       form));
}

}  // namespace

FitChange FindLargestBatch(const FitQuestion& question, const LeftSeconds& left) {
  const SearchSpec& spec = question.spec;
  FitChange change{.what = "batch"};
  const MakeLean make = AtOnce(spec);
  std::optional<Start> start;
  for (int64_t size = spec.devices; size >= 1; size /= 2) {
    start = FindStart(spec, size, make, left);
    if (start || size % 2 != 0 || left() <= 0) break;
  }
  if (!start) {
    return None("batch", NotFound(left, "of one micro-batch does not fit without stages"));
  }
  // Of fewer sequences than devices twice as many did not fit.
  const int64_t most = start->size < spec.devices ? start->size : kMostSequences * spec.devices;
  Grower(spec.devices, most, make, left).Grow(*std::move(start), &change);
  return change;
}

FitChange FindLongestSequence(const FitQuestion& question, const LeftSeconds& left) {
  const SearchSpec& spec = question.spec;
  if (question.with_sequence == nullptr) {
    return None("sequence", "is not known: the model is a graph of one length");
  }
  const int64_t asked = FindModelShape(spec.source.graph).sequence;
  const int64_t tokens = asked * spec.given.recipe.batch();
  const int64_t unit = spec.devices * std::max<int64_t>(1, kFewPositions / spec.devices);
  const MakeLean make = [&question, tokens](int64_t size, const Choices& form) {
    return OneAtATime(question, size, form, tokens);
  };
  FitChange change{.what = "sequence"};
  const int64_t first = std::max((asked + unit - 1) / unit * unit, kFewPositions * spec.devices);
  std::optional<Start> start = FindStart(spec, first, make, left);
  if (!start && first > asked) {
    start = FindStart(spec, (asked + unit - 1) / unit * unit, make, left);
  }
  if (!start) return None("sequence", NotFound(left, "no longer one was found"));
  const auto most = static_cast<int64_t>(FindRow(ModelRows(), "sequence")->most);
  Grower(unit, most / unit * unit, make, left).Grow(*std::move(start), &change);
  return change;
}

FitChange FindMostUnequal(const FitQuestion& question, const FoundPlan& best,
                          const proto::Plan& plan, double seconds, const LeftSeconds& left) {
  const SearchSpec& spec = question.spec;
  FitChange change{.what = "imbalance",
                   .devices = spec.devices,
                   .batch = spec.given.recipe.batch(),
                   .sequence = FindModelShape(spec.source.graph).sequence};
  change.plan = best;
  if (FindImbalance(plan) == 0) return change;  // it has room for any routing
  PlanRequest request = CandidateRequest(spec.given, best.candidate);
  PlanRequest any = request;
  any.imbalance = 0;
  if (left() > seconds) {
    const absl::StatusOr<Planned> worst = MakePlan(spec.source, any);
    if (worst.ok()) return change;
  }
  const absl::StatusOr<MostImbalance> most = FindMostImbalance(
      spec.source, request, plan, {.most = std::max(0.0, left()), .a_plan = seconds});
  change.imbalance = most.ok() ? most->value : request.imbalance;
  change.at_least = !most.ok() || most->at_least;
  change.plan->imbalance = change.imbalance;
  return change;
}

std::vector<FitChange> FindChanges(const FitQuestion& question, const LeftSeconds& left) {
  std::vector<FitChange> changes;
  const auto add = [&](const char* what, Start start, const MakeLean& make) {
    FitChange change{.what = what};
    Grower(start.size, start.size, make, left).Grow(std::move(start), &change);
    if (!change.plan) return false;
    changes.push_back(std::move(change));
    return true;
  };
  FitQuestion more = question;
  for (int i = 0; i < kMostDoublings && 2 * more.spec.devices <= kMaxDevices; ++i) {
    more.spec.devices *= 2;
    const int64_t at_once = std::min(more.spec.devices, question.spec.given.recipe.batch());
    const MakeLean make = AtOnce(more.spec);
    std::optional<Start> start = FindStart(more.spec, at_once, make, left);
    if (!start) continue;
    if (add("devices", *std::move(start), make)) break;
  }
  if (question.with_sequence == nullptr) return changes;
  SearchSpec shorter = question.spec;
  const int64_t at_once = std::min(shorter.devices, shorter.given.recipe.batch());
  for (int64_t sequence = FindModelShape(shorter.source.graph).sequence / 2;
       sequence >= kShortest && left() > 0; sequence /= 2) {
    absl::StatusOr<GraphSource> source = question.with_sequence(sequence);
    if (!source.ok()) break;
    shorter.source = *std::move(source);
    FillBlocks(&shorter.source.graph);
    const MakeLean make = AtOnce(shorter);
    std::optional<Start> start = FindStart(shorter, at_once, make, left);
    if (!start) continue;
    if (add("sequence", *std::move(start), make)) break;
  }
  return changes;
}

}  // namespace oneflow

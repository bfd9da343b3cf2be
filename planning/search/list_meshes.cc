#include "planning/search/list_meshes.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// Another number of devices is looked for so far from the given one.
constexpr int64_t kFarthest = 4096;

std::vector<int64_t> ListDivisors(int64_t n) {
  std::vector<int64_t> low, high;
  for (int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    low.push_back(d);
    if (d * d != n) high.push_back(n / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

std::optional<int> FixedSize(const Fixes& fixed, const char* name) {
  const auto at = fixed.sizes.find(name);
  return at == fixed.sizes.end() ? std::nullopt : std::optional<int>(at->second);
}

// The degrees of an axis that divide n.
std::vector<int64_t> ListChoices(int64_t n, const Fixes& fixed, const char* axis) {
  const std::optional<int> degree = FixedSize(fixed, axis);
  if (!degree) return ListDivisors(n);
  return n % *degree == 0 ? std::vector<int64_t>{*degree} : std::vector<int64_t>();
}

bool MayHaveContext(const ModelShape& shape, int64_t degree) {
  return degree == 1 || degree <= shape.sequence;
}

// Unless it is fixed. Routers of a mixture queue tokens in runs that parts must not split.
bool IsUsualContext(const ModelShape& shape, int64_t degree) {
  const bool splits_runs = shape.experts > 0 && shape.sequence % degree != 0;
  return degree == 1 || (!splits_runs && shape.sequence / degree >= kLeastPositions);
}

// The number that the devices that split experts must divide.
int64_t ExpertGroups(const ModelShape& shape) {
  return shape.slot_groups > 0 ? shape.slot_groups : shape.experts;
}

bool MayHaveExpert(const ModelShape& shape, int64_t degree) {
  return degree == 1 || (shape.experts > 0 && ExpertGroups(shape) % degree == 0);
}

// Calls `take` with each factorisation until it returns true.
template <typename Take>
void VisitDegrees(const ModelShape& shape, const Fixes& fixed, int64_t devices, const Take& take) {
  const std::optional<int> data = FixedSize(fixed, "data");
  for (const int64_t pipe : ListChoices(devices, fixed, "pipe")) {
    if (pipe > std::max(1, shape.blocks)) continue;
    const int64_t stage = devices / pipe;
    for (const int64_t tensor : ListChoices(stage, fixed, "tensor")) {
      if (FindTensorFactors(shape, static_cast<int>(tensor)).empty()) continue;
      for (const int64_t context : ListChoices(stage / tensor, fixed, "context")) {
        if (!MayHaveContext(shape, context)) continue;
        if (!FixedSize(fixed, "context") && !IsUsualContext(shape, context)) continue;
        const int64_t parts = stage / tensor / context;
        for (const int64_t expert : ListChoices(parts, fixed, "expert")) {
          if (!MayHaveExpert(shape, expert)) continue;
          if (data && *data != parts / expert) continue;
          const auto as_int = [](int64_t n) { return static_cast<int>(n); };
          if (take(Degrees{as_int(pipe), as_int(parts / expert), as_int(expert), as_int(context),
                           as_int(tensor)})) {
            return;
          }
        }
      }
    }
  }
}

bool CanForm(const ModelShape& shape, const Fixes& fixed, int64_t devices, int64_t batch) {
  bool found = false;
  VisitDegrees(shape, fixed, devices, [&](const Degrees& degrees) {
    found = !ListMicroBatches(batch, degrees, fixed).empty();
    return found;
  });
  return found;
}

// The most parts that tensor axes can make of groups, heads and words; 0: not known.
int64_t MostTensor(const ModelShape& shape) {
  const int64_t grouped = shape.groups * shape.group_heads;
  if (shape.groups == 0 || shape.most_tensor == 0) return std::max(grouped, shape.most_tensor);
  return std::min(grouped, shape.most_tensor);
}

// A fixed degree that the model cannot have on any number of devices.
absl::Status CheckFixedDegrees(const ModelShape& shape, const Fixes& fixed) {
  const auto check = [&](const char* axis, const auto& may_have, const std::string& what,
                         const std::string& hint) {
    const std::optional<int> degree = FixedSize(fixed, axis);
    if (!degree || may_have(*degree)) return absl::OkStatus();
    return InputError(absl::StrCat("--fix=", axis, "=", *degree), what, hint);
  };
  RETURN_IF_ERROR(check(
      "pipe", [&](int degree) { return degree <= shape.blocks; },
      absl::StrCat("is more stages than the model's ", shape.blocks, " blocks"),
      absl::StrCat("use ", shape.blocks, " or less")));
  RETURN_IF_ERROR(check(
      "tensor", [&](int degree) { return !FindTensorFactors(shape, degree).empty(); },
      "cannot split the model's heads and words",
      absl::StrCat("use a smaller degree, at most ", MostTensor(shape))));
  RETURN_IF_ERROR(check(
      "context", [&](int degree) { return MayHaveContext(shape, degree); },
      absl::StrCat("is more parts than the ", shape.sequence, " tokens of a sequence"),
      absl::StrCat("use ", std::max<int64_t>(1, shape.sequence), " or less")));
  const bool mixture = shape.experts > 0;
  return check(
      "expert", [&](int degree) { return MayHaveExpert(shape, degree); },
      mixture ? absl::StrCat("does not divide ", ExpertGroups(shape),
                             shape.slot_groups > 0 ? " groups of experts" : " experts")
              : "the model is no mixture of experts",
      mixture ? "use a divisor of it" : "leave it out");
}

// The limits of degrees: "pipe at most 12 blocks, tensor at most 12 parts".
std::string LimitsText(const ModelShape& shape, const Fixes& fixed) {
  const std::string sizes = ToString({.sizes = fixed.sizes});
  std::string text = absl::StrCat("pipe is at most ", shape.blocks, " blocks");
  const int64_t tensor = MostTensor(shape);
  if (tensor > 0) absl::StrAppend(&text, ", tensor at most ", tensor);
  if (!sizes.empty()) absl::StrAppend(&text, ", and ", sizes, " is fixed");
  return text;
}

absl::Status NoMesh(const ModelShape& shape, const Fixes& fixed, int64_t devices, int64_t batch) {
  std::vector<int64_t> near;
  for (int64_t less = devices - 1; less > 0 && less > devices - kFarthest && near.empty(); --less) {
    if (CanForm(shape, fixed, less, batch)) near.push_back(less);
  }
  for (int64_t more = devices + 1; more < devices + kFarthest && more <= kMaxDevices; ++more) {
    if (!CanForm(shape, fixed, more, batch)) continue;
    near.push_back(more);
    break;
  }
  return InputError(absl::StrCat("--devices=", devices),
                    absl::StrCat("no mesh has so many devices: ", LimitsText(shape, fixed)),
                    near.empty() ? "fix less" : absl::StrCat("use ", absl::StrJoin(near, " or ")));
}

// No factorisation can split the batch.
absl::Status BatchError(const std::vector<Degrees>& all, const Fixes& fixed, int64_t batch) {
  int64_t parts = all[0].batch_parts();
  for (const Degrees& degrees : all) parts = std::min(parts, degrees.batch_parts());
  const std::optional<int> size = FixedSize(fixed, "micro_batch_size");
  const int64_t m = fixed.recipe.has_micro_batches() ? fixed.recipe.micro_batches() : 1;
  std::string hint = absl::StrCat("use ", parts, " or more");
  if (fixed.recipe.has_micro_batches()) {
    hint = absl::StrCat("use a multiple of ", m, ", ", parts * m, " or more");
  }
  if (size) {
    hint = absl::StrCat(fixed.recipe.has_micro_batches() ? "use " : "use a multiple of ",
                        parts * m * *size);
  }
  std::string given;
  for (const std::string& fix : ListFixes(fixed)) absl::StrAppend(&given, " ", fix);
  return InputError(
      absl::StrCat("--batch=", batch),
      absl::StrCat("has no number of micro-batches that divides it and leaves each data part a "
                   "sequence, in any mesh of these devices",
                   given.empty() ? "" : " with" + given),
      hint);
}

}  // namespace

std::vector<Degrees> ListDegrees(const ModelShape& shape, const Fixes& fixed, int64_t devices) {
  std::vector<Degrees> all;
  VisitDegrees(shape, fixed, devices, [&](const Degrees& degrees) {
    all.push_back(degrees);
    return false;
  });
  return all;
}

int64_t FindMostSequences(int64_t batch, int64_t micro_batches, int64_t batch_parts) {
  return (batch / micro_batches + batch_parts - 1) / batch_parts;
}

std::vector<int64_t> ListMicroBatches(int64_t batch, const Degrees& degrees, const Fixes& fixed,
                                      int64_t sequence) {
  const int64_t parts = degrees.batch_parts();
  const std::optional<int> fixed_size = FixedSize(fixed, "micro_batch_size");
  std::vector<int64_t> numbers;
  int64_t before = 0;  // sequences of the last micro-batch
  for (const int64_t m : ListDivisors(batch)) {
    if (batch / m < parts) break;
    const int64_t size = FindMostSequences(batch, m, parts);
    if (fixed_size && size != *fixed_size) continue;
    if (fixed.recipe.has_micro_batches()) {
      if (m == fixed.recipe.micro_batches()) numbers.push_back(m);
      continue;
    }
    if (size == before) continue;
    before = size;
    // Only the smallest of those that have enough.
    const bool many = size * sequence / degrees.context >= kManyTokens;
    if (many) numbers.clear();
    numbers.push_back(m);
  }
  return numbers;
}

Mesh MakeMesh(const ModelShape& shape, const Degrees& degrees, int inner) {
  Mesh mesh;
  const auto add = [&](const std::string& name, const std::vector<int>& factors) {
    for (size_t i = 0; i < factors.size(); ++i) {
      if (factors.size() == 1 && factors[i] == 1) continue;
      mesh.axes.push_back({factors.size() == 1 ? name : absl::StrCat(name, ".", i), factors[i]});
    }
  };
  add("pipe", {degrees.pipe});
  add("data",
      inner > 1 ? std::vector<int>{degrees.data / inner, inner} : std::vector<int>{degrees.data});
  add("expert", {degrees.expert});
  add("context", {degrees.context});
  add("tensor", FindTensorFactors(shape, degrees.tensor));
  return mesh;
}

absl::StatusOr<std::vector<Degrees>> FindDegrees(const ModelShape& shape, const Fixes& fixed,
                                                 int64_t devices, int64_t batch) {
  RETURN_IF_ERROR(CheckFixedDegrees(shape, fixed));
  std::vector<Degrees> all = ListDegrees(shape, fixed, devices);
  if (all.empty()) return NoMesh(shape, fixed, devices, batch);
  std::vector<Degrees> even = all;
  std::erase_if(even, [&](const Degrees& degrees) {
    return ListMicroBatches(batch, degrees, fixed).empty();
  });
  if (even.empty()) return BatchError(all, fixed, batch);
  return even;
}

}  // namespace oneflow

#include "oneflow_core/tensor/primitive.h"

#include <glog/logging.h>

#include <algorithm>

namespace oneflow {
namespace {

using enum Members;
using enum LinkRounds;

// Primitive::received.
double Nothing(double, double) { return 0; }
double All(double bytes, double) { return bytes; }
double Others(double bytes, double p) { return (p - 1) / p * bytes; }
double OthersTwice(double bytes, double p) { return 2 * (p - 1) / p * bytes; }
double PartOfOthers(double bytes, double p) { return (p - 1) / (p * p) * bytes; }

constexpr Primitive kRows[] = {
    {"slice", "x -> x (B -> S, local)", kAlone, kIsB, kIsS, kNone, Nothing},
    {"zero_fill", "x -> x (B or S -> P or Pmax)", kAlone, kIsB | kIsS, kIsP, kNone, Nothing},
    {"all_gather", "x -> x (S -> B)", kGroup, kIsS, kIsB, kOnce, Others},
    {"reduce_scatter", "x -> x (P -> S)", kGroup, kIsP, kIsS, kOnce, Others},
    {"all_reduce", "x -> x (P -> B)", kGroup, kIsP, kIsB, kTwice, OthersTwice},
    {"all_to_all", "x -> x (S(i) -> S(j))", kGroup, kIsS, kIsS, kPairwise, PartOfOthers,
     /*several=*/true},
    {"transfer", "x -> x (stage to stage)", kPair, 0, 0, kOnce, All},
};

bool Has(uint8_t layouts, Sbp sbp) {
  return (layouts & (sbp.split() ? kIsS : sbp.partial() ? kIsP : kIsB)) != 0;
}

bool HasMembers(std::string_view kind, Members members) {
  const Primitive* row = FindPrimitive(kind);
  return row != nullptr && row->members == members;
}

template <typename Is>
const Primitive* FindRow(Is is) {
  const Primitive* row = std::find_if(std::begin(kRows), std::end(kRows), is);
  return row == std::end(kRows) ? nullptr : row;
}

}  // namespace

bool Primitive::Changes(Sbp before, Sbp after, bool alone) const {
  if (several && !alone) return !before.partial() && !after.partial();
  return Has(from, before) && Has(to, after);
}

std::span<const Primitive> Primitives() { return kRows; }

const Primitive* FindPrimitive(std::string_view kind) {
  return FindRow([kind](const Primitive& row) { return row.kind == kind; });
}

const Primitive& GetPrimitive(std::string_view kind) {
  const Primitive* row = FindPrimitive(kind);
  CHECK(row != nullptr) << "no primitive of boxing: " << kind;
  return *row;
}

const Primitive* FindPrimitive(Sbp from, Sbp to) {
  return FindRow([&](const Primitive& row) { return row.Changes(from, to, /*alone=*/true); });
}

bool IsExchange(std::string_view kind) { return IsCollective(kind) || IsTransfer(kind); }
bool IsCollective(std::string_view kind) { return HasMembers(kind, Members::kGroup); }
bool IsTransfer(std::string_view kind) { return HasMembers(kind, Members::kPair); }
bool IsSend(std::string_view kernel) { return kernel == "send"; }
bool IsReceive(std::string_view kernel) { return kernel == "receive"; }

bool IsFill(std::string_view kind) {
  const Primitive* row = FindPrimitive(kind);
  return row != nullptr && row->fills();
}

}  // namespace oneflow

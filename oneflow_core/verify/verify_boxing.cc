#include "oneflow_core/verify/checks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/tensor/primitive.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

bool CutsBy(const Layout& layout, int axis) {
  return std::any_of(layout.splits.begin(), layout.splits.end(),
                     [axis](const Layout::Split& split) { return split.axis == axis; });
}

}  // namespace

absl::Status BoxingCheck::Check(const proto::Actor& actor, const proto::Register& from,
                                const proto::Register& to, const std::vector<int>& along,
                                const std::string& where) {
  if (from.dtype() != to.dtype()) return DamagedPlan(where, "changes the type of elements");
  ASSIGN_OR_RETURN(const Layout in, LayoutFromProto(from.layout(), mesh_, where));
  ASSIGN_OR_RETURN(const Layout out, LayoutFromProto(to.layout(), mesh_, where));
  if (in.dims != out.dims)
    return DamagedPlan(where,
                       absl::StrCat("reads ", ToString(in.dims), ", writes ", ToString(out.dims)));
  int64_t copies = 1;
  for (int axis : actor.boxing().reduce_axis()) {
    if (std::find(along.begin(), along.end(), axis) == along.end()) {
      return DamagedPlan(where,
                         absl::StrCat("reduces along axis ", axis, ", which is not its group's"));
    }
    copies *= mesh_.axes[axis].size;
  }
  RETURN_IF_ERROR(CheckZeroes(actor, in, out, where));
  if (actor.boxing().reduce() == proto::Boxing::NONE && copies > 1)
    return DamagedPlan(where, "sums without a reduction");
  if (actor.boxing().fill() != proto::Boxing::NOTHING) return CheckFill(actor, in, out, where);
  const Primitive* primitive = FindPrimitive(actor.kernel());
  if (primitive != nullptr && primitive->several) copies *= CountCopies(in, along);
  const Covering covering{in, out, along, copies};
  const auto [known, fresh] = coverings_.try_emplace(covering);
  if (fresh) known->second = Uncovered(covering);
  if (!known->second.empty()) return DamagedPlan(where, known->second);
  return along.empty() ? absl::OkStatus() : CheckForm(actor, covering, where);
}

// A covering proves that all elements are there. The form proves that the exchange is the
// collective of its name, because libraries (NCCL) are called by that name. An all_to_all is any
// exchange that does not reduce.
absl::Status BoxingCheck::CheckForm(const proto::Actor& actor, const Covering& covering,
                                    const std::string& where) const {
  const Primitive* primitive = FindPrimitive(actor.kernel());
  const bool named = primitive != nullptr && !primitive->several;
  const auto& reduced = actor.boxing().reduce_axis();
  bool good = (actor.boxing().reduce() != proto::Boxing::NONE) == (named && primitive->reduces());
  for (const int axis : covering.along) {
    if (!named || mesh_.axes[axis].size == 1) continue;
    good &=
        CutsBy(covering.in, axis) == (primitive->from == kIsS) &&
        CutsBy(covering.out, axis) == (primitive->to == kIsS) &&
        (std::find(reduced.begin(), reduced.end(), axis) != reduced.end()) == primitive->reduces();
  }
  return good ? absl::OkStatus()
              : DamagedPlan(where, absl::StrCat("does not go between its layouts as ",
                                                actor.kernel(), " does"));
}

// How many members of the group hold the same part: an all_to_all reads each of them, so the
// covering counts each part that often.
int64_t BoxingCheck::CountCopies(const Layout& in, const std::vector<int>& along) const {
  int64_t copies = 1;
  for (const int axis : along) {
    if (!CutsBy(in, axis)) copies *= mesh_.axes[axis].size;
  }
  return copies;
}

// One device along the axis keeps what all of them have; any other boxing would lose elements so.
absl::Status BoxingCheck::CheckZeroes(const proto::Actor& actor, const Layout& in,
                                      const Layout& out, const std::string& where) const {
  for (const int axis : actor.boxing().zero_unless_first()) {
    if (axis < 0 || axis >= static_cast<int>(mesh_.axes.size()))
      return DamagedPlan(where, "zeroes along no axis");
    if (!IsFill(actor.kernel())) {
      return DamagedPlan(where, absl::StrCat("zeroes along axis ", mesh_.axes[axis].name,
                                             ", but is no zero_fill"));
    }
    if (axis == mesh_.stage_axis() || CutsBy(in, axis) || CutsBy(out, axis)) {
      return DamagedPlan(where,
                         absl::StrCat("zeroes along axis ", mesh_.axes[axis].name,
                                      ", on which its devices do not have the same elements"));
    }
  }
  return absl::OkStatus();
}

// zero_fill reads the device's own part only. If the output lacked some of it, these elements would
// be lost, because no other device holds them.
absl::Status BoxingCheck::CheckFill(const proto::Actor& actor, const Layout& in, const Layout& out,
                                    const std::string& where) const {
  if (!IsFill(actor.kernel())) return DamagedPlan(where, "fills, but is no zero_fill");
  if (!proto::Boxing::Fill_IsValid(actor.boxing().fill()))
    return DamagedPlan(where, absl::StrCat("fills with ", actor.boxing().fill()));
  for (const Coordinate& c : CoordinatesThatDiffer(in, out)) {
    const Slice own = LocalSlice(in, mesh_, c);
    if (own.elements() == 0 || Intersect(own, LocalSlice(out, mesh_, c)) == own) continue;
    return DamagedPlan(where, absl::StrCat("loses elements of rank ", mesh_.CoordinateToRank(c)));
  }
  return absl::OkStatus();
}

// The fault of a covering; empty if there is none.
std::string BoxingCheck::Uncovered(const Covering& covering) const {
  for (const Coordinate& c : CoordinatesThatDiffer(covering.in, covering.out)) {
    const Slice mine = LocalSlice(covering.out, mesh_, c);
    int64_t covered = 0;
    std::map<Dims, int64_t> copies;  // of each part, by where it begins: equal or disjoint
    for (int member : mesh_.Peers(c, covering.along)) {
      const Slice part =
          Intersect(mine, LocalSlice(covering.in, mesh_, mesh_.RankToCoordinate(member)));
      if (part.elements() == 0) continue;
      covered += part.elements();
      ++copies[part.begin];
    }
    if (covered != mine.elements() * covering.copies) {
      return absl::StrCat("its sources hold ", covered, " of ", mine.elements() * covering.copies,
                          " elements it needs on rank ", mesh_.CoordinateToRank(c));
    }
    for (const auto& [begin, times] : copies) {
      if (times == covering.copies) continue;
      return absl::StrCat("its sources hold the part at ", ToString(begin), " ", times,
                          " times, not ", covering.copies, ", on rank ", mesh_.CoordinateToRank(c));
    }
  }
  return "";
}

// One coordinate of the first stage for each pair of slices. Coordinates along axes that split
// neither layout have equal slices, so checking one of them is enough, and the cost does not grow
// with them.
std::vector<Coordinate> BoxingCheck::CoordinatesThatDiffer(const Layout& a, const Layout& b) const {
  std::vector<Coordinate> found = {Coordinate(mesh_.axes.size(), 0)};
  for (int axis = 0; axis < static_cast<int>(mesh_.axes.size()); ++axis) {
    if (!CutsBy(a, axis) && !CutsBy(b, axis)) continue;
    const size_t before = found.size();
    for (int i = 1; i < mesh_.axes[axis].size; ++i) {
      for (size_t j = 0; j < before; ++j) {
        found.push_back(found[j]);
        found.back()[axis] = i;
      }
    }
  }
  return found;
}

}  // namespace oneflow

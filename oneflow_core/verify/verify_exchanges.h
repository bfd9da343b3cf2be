// Part of verify_types: checks the exchanges of a program. Groups are groups of the mesh. An
// exchange names a group of its stage; a send and its receive name each other. Exchanges are on
// streams of devices. The order of issue of each stage contains every exchange as often as it
// fires.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/tensor/layout.h"
#include "oneflow_core/tensor/mesh.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Checks that the sources of an actor that is boxing cover its output on every device. They cover
// it once, or once for each combination of members that are reduced or hold the same part. It also
// checks that an exchange performs the collective of its name. The layers of a model repeat the
// same few coverings, so the check caches them.
//
// Requires an actor whose registers and group exist, and nothing else.
class BoxingCheck {
 public:
  explicit BoxingCheck(const Mesh& mesh) : mesh_(mesh) {}  // must outlive this

  // `from`, `to`: one input and the output that it becomes. `along`: mesh axes of the group whose
  // members are read; none: the device itself, or the other one of a pair of stages. `where` begins
  // the error.
  absl::Status Check(const proto::Actor& actor, const proto::Register& from,
                     const proto::Register& to, const std::vector<int>& along,
                     const std::string& where);

 private:
  struct Covering {
    Layout in, out;
    std::vector<int> along;
    int64_t copies;
    auto operator<=>(const Covering&) const = default;
  };

  absl::Status CheckZeroes(const proto::Actor& actor, const Layout& in, const Layout& out,
                           const std::string& where) const;
  absl::Status CheckFill(const proto::Actor& actor, const Layout& in, const Layout& out,
                         const std::string& where) const;
  absl::Status CheckForm(const proto::Actor& actor, const Covering& covering,
                         const std::string& where) const;
  int64_t CountCopies(const Layout& in, const std::vector<int>& along) const;
  std::string Uncovered(const Covering& covering) const;
  std::vector<Coordinate> CoordinatesThatDiffer(const Layout& a, const Layout& b) const;

  const Mesh& mesh_;
  std::map<Covering, std::string> coverings_;  // what is wrong with each; empty: nothing
};

absl::Status VerifyGroups(const proto::Plan& plan, const Mesh& mesh);

// Checks one exchange. Requires that its registers and its group exist, and that their layouts are
// well formed.
absl::Status VerifyExchange(const PlanNet& net, const proto::Actor& actor, const std::string& where,
                            BoxingCheck* boxing);

// Checks all exchanges of a program. Requires that segments and streams are of one stage each.
absl::Status VerifyIssue(const PlanNet& net);

// Proves that an exchange has the window that it needs for members without common memory.
//
// Checks the windows of an actor: a member receives data in its outputs and in the window that the
// plan gives it. Requires an exchange that passed VerifyProgramTypes. Errors begin with `where`.
absl::Status VerifyWindow(const PlanNet& net, const Mesh& mesh, const proto::Actor& actor,
                          const std::string& where);

}  // namespace oneflow

// What the checks of a plan share, and their parts: those of exchanges are called by verify_types.
// Internal to verify/.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/tensor/layout.h"
#include "oneflow_core/tensor/mesh.h"
#include "proto/plan.pb.h"

namespace oneflow {

inline constexpr int64_t kAlign = 64;  // bytes, of arenas and slots

// The error of a plan that no compiler writes.
inline absl::Status DamagedPlan(std::string_view where, std::string_view what) {
  return InputError(where, what, "the plan was edited or damaged; compile it again");
}

// The kernels that the compiler adds and no graph has: those of the host worker, and copies between
// the memory of a device and the host's (docs/ops.md).
//
// Returns arity and attributes; nullptr if no kernel has this name.
const OpDef* FindHostKernel(std::string_view kind);

// The actor that computes the contents of a register, before any boxing moved them, and the
// register that it writes. -1: none, or not known.
struct Origin {
  int actor = -1, reg = -1;
};
Origin FindOrigin(const PlanNet& net, int reg);

// --- Exchanges ---

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

// Checks the groups of a plan, which are groups of the mesh.
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

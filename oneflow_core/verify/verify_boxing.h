// Part of verify_types: checks that the sources of an actor of the boxing family cover its output
// on every device. They cover it once, or once for each combination of members that are reduced or
// hold the same part. It also checks that an exchange performs the collective of its name.
//
// Requires an actor whose registers and group exist, and nothing else.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "oneflow_core/tensor/layout.h"
#include "oneflow_core/tensor/mesh.h"
#include "proto/plan.pb.h"

namespace oneflow {

// The layers of a model repeat the same few coverings, so the check caches them.
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

}  // namespace oneflow

// The one printer of plans. Deterministic: equal plans print equally.
#pragma once

#include <string>
#include <string_view>

#include "absl/strings/str_join.h"
#include "proto/plan.pb.h"

namespace oneflow {

// A page for people: programs, stages, actors, registers, bytes a device, communication, results of
// inference. The verbs print their headline before it (tools/oneflow/explain/headline.h).
std::string PlanSummary(const proto::Plan& plan);

// Elements of all variables, without the states of the optimizer. `trained`: without those that are
// frozen, too.
int64_t ParameterCount(const proto::Plan& plan, bool trained = false);

// Prints the entire plan, one line an actor and a register; if `program` is given, only that
// program. Lines of more than kTextColumns (oneflow_core/base/wrap.h) go on in lines that begin
// with six blanks.
std::string PlanText(const proto::Plan& plan, std::string_view program = "");

// "f32", "bf16", ...; "?" if the type is unknown.
std::string DataTypeText(proto::DataType type);
// "compute", "exchange" or "host".
std::string KindText(proto::Stream::Kind kind);
// The name of the group of an exchange; "" for any other actor.
std::string GroupText(const proto::Plan& plan, const proto::Actor& actor);
// "pipe=2,data=4"; "1" for one device.
std::string MeshText(const proto::Mesh& mesh);

// "data"; "?" where the mesh has no such axis.
std::string AxisText(const proto::Plan& plan, int axis);
// "data.0+tensor".
template <typename Axes>
std::string AxesText(const proto::Plan& plan, const Axes& axes, const char* between = "+") {
  return absl::StrJoin(axes, between,
                       [&](std::string* text, int axis) { *text += AxisText(plan, axis); });
}

// "F×2 (B F)×2 B×2 U", "F0×4 ((F0 B1)×2 (F1 B0)×2)×3 ...". Unknown segments are "?".
std::string OrderText(const proto::Program& program, const proto::Stream& stream);

// "1.2 MiB": how much, not which byte.
std::string SizeText(double bytes);
// "1,234,567 bytes (1.2 MiB)".
std::string BytesText(int64_t bytes);
// ", 3.0 GiB kept for libraries", behind the memory of a device; "" of none.
std::string KeptText(int64_t bytes);

}  // namespace oneflow

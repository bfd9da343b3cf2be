// The one printer of plans. Deterministic: equal plans print equally.
#pragma once

#include <string>
#include <string_view>

#include "proto/plan.pb.h"

namespace oneflow {

// A page for people: mesh, programs, stages, actors, registers, bytes a device, communication, what
// was inferred. `proof` is the line on the proof ("live, memory-safe, type-safe" or the refusal).
std::string PlanSummary(const proto::Plan& plan, const std::string& proof);

// All of it, one line an actor and a register; of programs only the one of this name, if given.
std::string PlanText(const proto::Plan& plan, std::string_view program = "");

// "compute", "exchange" or "host".
std::string KindText(proto::Stream::Kind kind);
// The name of the group of an exchange; "" for any other actor.
std::string GroupText(const proto::Plan& plan, const proto::Actor& actor);
// "pipe=2,data=4"; "1" for one device.
std::string MeshText(const proto::Mesh& mesh);

// "F×2 (B F)×2 B×2 U", "F0×4 ((F0 B1)×2 (F1 B0)×2)×3 ...". Unknown segments are "?".
std::string OrderText(const proto::Program& program, const proto::Stream& stream);

// The numbers of layers, replicas and stages as "*": those after '.', '@' and a blank. What is
// alike in all of them shares a line.
std::string WithoutNumbers(std::string_view text);

// "1,234,567 bytes (1.2 MiB)".
std::string BytesText(int64_t bytes);

}  // namespace oneflow

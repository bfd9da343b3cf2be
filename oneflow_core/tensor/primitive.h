// The primitives of boxing: the steps that change the layout of a tensor and not its value. One row
// a primitive. Every property is a field of it, so that the ops of boxing, paths over them, costs,
// lowering and the proof name no primitive.
//
//   double received = GetPrimitive("all_gather").received(/*bytes=*/1 << 20, /*devices=*/8);
//
// A row is not an algorithm: kernels and communicators move the data, by the layouts alone
// (actor_runtime/exchange, actor_runtime/kernel/copy_slices.h). They know a primitive as the name
// of an actor's kernel, and no parallelism.
//
// All primitives keep the type of the elements. The gradient of one has the logical tensor's own
// layout, which boxing then converts as it does any other tensor.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "oneflow_core/tensor/sbp.h"

namespace oneflow {

// The devices that a device meets.
enum class Members : uint8_t {
  kAlone,  // none: a kernel does it
  kGroup,  // those along mesh axes of its stage: a collective
  kPair,   // the device of the same coordinate on another stage
};

// How the data of an exchange goes over links (oneflow_core/cost/link_cost.h).
enum class LinkRounds : uint8_t {
  kNone,
  kOnce,      // once around a ring, or from one end of a pair to the other
  kTwice,     // twice around a ring, or up a tree and down again
  kPairwise,  // from each member to each other one
};

// Layouts on one mesh axis, as bits of a set.
inline constexpr uint8_t kIsB = 1, kIsS = 2, kIsP = 4;

struct Primitive {
  std::string_view kind;   // of the op, and of the kernel of the actor
  std::string_view usage;  // OpDef::usage
  Members members = Members::kAlone;
  // The layouts that it reads and writes on its axis, kIs...; none of a pair, which changes none.
  uint8_t from = 0, to = 0;
  LinkRounds rounds = LinkRounds::kNone;
  // Bytes that one of `devices` devices receives over links. `bytes` are those of the tensor that
  // the group holds together: of all its parts if it is split, of one copy if it is B or P.
  double (*received)(double bytes, double devices) = nullptr;
  // True if it also works on several axes at once, on each from B or S to B or S.
  bool several = false;

  // True if it sums, or takes the maximum of, what its members hold.
  bool reduces() const { return from == kIsP; }
  // True if it puts neutral elements (0, or the lowest number) beside what the device holds.
  bool fills() const { return to == kIsP; }
  // True if it turns one layout into the other on an axis. `alone`: the only axis that it changes.
  bool Changes(Sbp before, Sbp after, bool alone) const;
};

// All rows.
std::span<const Primitive> Primitives();
// The row of a kind; nullptr: it is no primitive. GetPrimitive CHECKs that it is one.
const Primitive* FindPrimitive(std::string_view kind);
const Primitive& GetPrimitive(std::string_view kind);
// The row that turns one layout into another on one axis alone; nullptr: there is none.
const Primitive* FindPrimitive(Sbp from, Sbp to);

// True if a kind only changes the layout of a tensor.
inline bool IsBoxing(std::string_view kind) { return FindPrimitive(kind) != nullptr; }
// True if devices meet for the op; all devices of a group; the two of a pair of stages.
bool IsExchange(std::string_view kind);
bool IsCollective(std::string_view kind);
bool IsTransfer(std::string_view kind);
// In a plan a transfer is two actors, one on each stage: the kernel of the one, and of the other.
bool IsSend(std::string_view kernel);
bool IsReceive(std::string_view kernel);
// True for a kernel that puts neutral elements beside what the device holds.
bool IsFill(std::string_view kind);

}  // namespace oneflow

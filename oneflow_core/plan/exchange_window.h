// The window of an exchange: the workspace in which a member lands what it receives of members in
// other processes, where it cannot land in the output itself, because it is summed there, or
// because its rows are short. The compiler plans it whether or not members turn out to be far; the
// runtime cuts tensors into the pieces that are said here, so both ends of a message agree on them.
//
// A function of layouts, boxing and type alone. On GPUs, whose exchanges NCCL carries, the
// workspace is another: nccl_window.h. WindowBytes says it for devices of either kind.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "oneflow_core/plan/nccl_window.h"
#include "oneflow_core/tensor/layout.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct ExchangeWindow {
  int64_t piece = 0;  // elements of one that travels, at most
  int64_t bytes = 0;  // of workspace; 0: all lands in the output
};

// Of a tensor that goes from one layout to another. `copies`: members whose parts are summed (or
// maximised), 1 for none; `accumulates`: the result is added to what the output holds.
ExchangeWindow WindowOf(const Layout& from, const Layout& to, const Mesh& mesh, int64_t copies,
                        int64_t element_bytes, bool accumulates);

// Where what a source sends of a piece begins in the window: each piece takes this much a source.
int64_t PacketBytes(int64_t elements, int64_t element_bytes);

// Of the tensor that an exchange makes of one register (of a receive, its send's) another.
absl::StatusOr<ExchangeWindow> WindowOf(const proto::Boxing& boxing, const proto::Register& from,
                                        const proto::Register& to, const Mesh& mesh);

// Bytes of workspace for one tensor of an exchange.
int64_t WindowBytes(proto::DeviceKind kind, const Layout& from, const Layout& to, const Mesh& mesh,
                    const ExchangedTensor& tensor);
absl::StatusOr<int64_t> WindowBytes(proto::DeviceKind kind, const proto::Group& group,
                                    const proto::Boxing& boxing, const proto::Register& from,
                                    const proto::Register& to, const Mesh& mesh);
// Of an exchange of several: members in other processes send one tensor after the other through
// the same window, NCCL all at once.
int64_t JoinWindows(proto::DeviceKind kind, int64_t bytes, int64_t more);

// Members of a group of the plan.
int64_t MembersOf(const proto::Group& group, const Mesh& mesh);

}  // namespace oneflow

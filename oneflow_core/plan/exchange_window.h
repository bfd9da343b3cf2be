// The window of an exchange: the workspace that receives data from members in other processes. It
// is needed if the data cannot go to the output directly, because it is summed there or because its
// rows are short. The compiler plans it for any placement of members on processes. The runtime
// splits tensors into the pieces that are defined here, so both ends of a message agree on them.
//
// A window is a function of layouts, boxing and type alone. On GPUs NCCL carries exchanges, and the
// workspace is another one (nccl_window.h). WindowBytes answers for devices of either kind.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "oneflow_core/plan/nccl_window.h"
#include "oneflow_core/tensor/layout.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct ExchangeWindow {
  int64_t piece = 0;  // elements of one that travels, at most
  int64_t bytes = 0;  // of workspace; 0: all arrives in the output
};

// Returns the window of a tensor that goes from one layout to another. `copies`: members whose
// parts are summed (or maximised), 1 for none. `accumulates`: the result is added to the content of
// the output.
ExchangeWindow MakeWindow(const Layout& from, const Layout& to, const Mesh& mesh, int64_t copies,
                          int64_t element_bytes, bool accumulates);

// The distance between the parts of a piece from two sources in the window.
int64_t PacketBytes(int64_t elements, int64_t element_bytes);

// Returns the window of the tensor that an exchange reads from one register (for a receive, that of
// its send) and writes to another.
absl::StatusOr<ExchangeWindow> MakeWindow(const proto::Boxing& boxing, const proto::Register& from,
                                          const proto::Register& to, const Mesh& mesh);

// Bytes of workspace for one tensor of an exchange.
int64_t WindowBytes(proto::DeviceKind kind, const Layout& from, const Layout& to, const Mesh& mesh,
                    const ExchangedTensor& tensor);
absl::StatusOr<int64_t> WindowBytes(proto::DeviceKind kind, const proto::Group& group,
                                    const proto::Boxing& boxing, const proto::Register& from,
                                    const proto::Register& to, const Mesh& mesh);
// The window of an exchange of several tensors. Members in other processes send one tensor after
// the other through the same window; NCCL sends all at once.
int64_t JoinWindows(proto::DeviceKind kind, int64_t bytes, int64_t more);

// Members of a group of the plan.
int64_t CountMembers(const proto::Group& group, const Mesh& mesh);

}  // namespace oneflow

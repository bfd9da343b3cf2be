// The workspace of an exchange between GPUs that NCCL carries, and the data that NCCL carries
// straight from register to register.
//
// NCCL moves runs: consecutive bytes. If the data that a member sends or receives is one run, or a
// few long ones (NcclLimits), it goes from register to register and takes no workspace. Otherwise a
// local kernel packs or unpacks it in the workspace. So a window is
//   0                          all-gathers, reduce-scatters and all-reduces of equal parts whose
//                              runs are few and long; sends; copies whose runs are few and long
//   + an output                where the result is added to what the output holds, or gathered in
//                              many short runs
//   + an input                 where many short runs are sent
//   + an output each summand   where sums fit no operation of NCCL: ragged parts, several axes at
//                              once
// and at most an input and `copies` outputs, each part rounded up to kWindowAlignment. It does not
// depend on micro-batches. Windows of the tensors of one exchange are consecutive.
//
// A function of layouts, boxing and type alone. The runtime's planner of NCCL's operations
// (actor_runtime/cuda/exchange/nccl_layout.h) obeys the same limits and needs no byte more;
// nccl_layout_test holds them against each other.
#pragma once

#include <cstdint>

#include "oneflow_core/tensor/layout.h"

namespace oneflow {

// The limits within which rows that are apart are moved one by one, straight from register to
// register.
struct NcclLimits {
  int64_t runs = 64;              // of one tensor between two members, at most
  int64_t run_bytes = 64 * 1024;  // of each of them, at least
  // True if rows go straight; a single run does at any length.
  bool Straight(int64_t rows, int64_t row_bytes) const {
    return rows <= 1 || (rows <= runs && row_bytes >= run_bytes);
  }
};

inline constexpr int64_t kWindowAlignment = 64;
// Parts that NCCL takes as one array of the workspace, without gaps, are multiples of this, so that
// the kernels that pack and unpack them work on whole words.
inline constexpr int64_t kPackedAlignment = 16;

// One tensor of an exchange.
struct ExchangedTensor {
  int64_t copies = 1;   // members whose parts are summed or maximised
  int64_t members = 1;  // of the group
  int64_t element_bytes = 4;
  bool accumulates = false;  // the result is added to what the output holds
};

// Bytes for one tensor, a multiple of kWindowAlignment, for any member.
int64_t NcclWindow(const Layout& from, const Layout& to, const Mesh& mesh,
                   const ExchangedTensor& tensor, const NcclLimits& limits = {});

}  // namespace oneflow

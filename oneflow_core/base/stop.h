// Ends work that takes long between two of its steps.
//
//   std::stop_source source;                 // source.request_stop() ends it, from any thread
//   RETURN_IF_ERROR(CheckStop(source.get_token()));
#pragma once

#include <stop_token>

#include "absl/status/status.h"

namespace oneflow {

// CANCELLED if a stop was requested.
inline absl::Status CheckStop(const std::stop_token& stop) {
  return stop.stop_requested() ? absl::CancelledError("it was stopped") : absl::OkStatus();
}

}  // namespace oneflow

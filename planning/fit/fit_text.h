// The answers of fit.h for people, a line each, and for programs.
//
//   FitsLine(frame, answer)    "fits: llama3.1-8b, 8.03 billion parameters, on 64 devices (8 x 8)
//   of
//                               H100-80G nodes of 8; batch 512 sequences of 8,192 tokens (default:
//                               about 4M tokens), bf16"
//   BestLine(frame, answer)    "best plan: step 6.909 s ± 13 % (...), 607,078 tokens/s (9,486 a
//                               device), MFU 55.5 %, 66.79 GiB of 76.11 GiB a device"
//   LimitsLine(frame, answer)  "largest that fits: batch of 1,216 sequences at once, 19 a device
//                               (more by accumulation); sequences of 3,670,016 tokens"
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "planning/fit/fit.h"

namespace oneflow {

// What is asked, and how plans of it are written down.
struct FitFrame {
  std::string model, cluster;  // names
  int64_t parameters = 0;
  int64_t devices = 0, nodes = 0;   // nodes 0: not said
  int64_t capacity = 0, kept = 0;   // bytes of a device for a plan, 0: no limit; and for others
  int64_t batch = 0, sequence = 0;  // sequence 0: the model reads no tokens
  std::string batch_note, sequence_note;  // "default: about 4M tokens"; "": as it was given
  std::string precision;                  // "bf16"
  // The flags of `oneflow compile` beside those of a candidate.
  std::function<std::string(int64_t batch, int64_t sequence)> given_flags;
};

// Bytes of a plan by class, the largest part of what binds first.
struct ClassBytes {
  std::string what;  // "weights and states of the optimizer"
  int64_t bytes = 0;
};

// Each is one line, with its end. Requires what they say to be known.
std::string FitsLine(const FitFrame& frame, const FitAnswer& answer);
std::string BestLine(const FitFrame& frame, const FitAnswer& answer);
std::string LimitsLine(const FitFrame& frame, const FitAnswer& answer);
// In the place of these three where nothing fits.
std::string MissLine(const FitFrame& frame, const FitMiss& miss);
std::string BindsLine(const FitFrame& frame, const FitMiss& miss,
                      const std::vector<ClassBytes>& classes);
std::string ChangesLine(const FitFrame& frame, const FitMiss& miss);
// Where the time ended before a plan was found.
std::string UnknownLine(const FitFrame& frame, const FitAnswer& answer);

// A plan of answer.plans, its flags under it, and how it differs from the first.
std::string PlanText(const FitFrame& frame, const FitAnswer& answer, size_t index);
// Plans of limits and changes, with their flags.
std::string ChangeText(const FitFrame& frame, const FitChange& change);
// What is known of the rest of the space.
std::string ExtentLine(const FitAnswer& answer);

nlohmann::ordered_json FitJson(const FitFrame& frame, const FitAnswer& answer,
                               const std::vector<ClassBytes>& classes);

}  // namespace oneflow

// EventFile: the file of a run that TensorBoard shows: scalars of each step, the recipe as text,
// and the run's choices as hyperparameters. A record is a message Event
// (proto/tensorboard_event.proto) between its length and checksums.
//
//   EventFile events(DescribeForEvents(plan, run, notice));
//   RETURN_IF_ERROR(events.Open(/*first_step=*/0));
//   events.Write(step);
//   events.End(/*succeeded=*/true);
//
// It reads no file: those of earlier runs stay, and TensorBoard shows the files of a folder as one
// run, in which the newest one replaces what others have of its first step and later ones.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"
#include "proto/tensorboard_event.pb.h"
#include "training/trainer/notice.h"

namespace oneflow {

struct TrainedStep;

struct EventFileOptions {
  std::string folder;  // empty: there is no file, and all functions do nothing
  std::string recipe;  // as text
  std::vector<std::pair<std::string, std::string>> choices;  // name and value
  int64_t device_bytes = 0;                                  // of the largest device, as planned
  Notice notice;
};

// `run`: complete. The choices are those that move bits or time.
EventFileOptions DescribeForEvents(const proto::Plan& plan, const proto::Run& run, Notice notice);

// Not for several threads at once.
class EventFile {
 public:
  explicit EventFile(EventFileOptions options) : options_(std::move(options)) {}
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  bool is_wanted() const { return !options_.folder.empty(); }
  // Makes the folder, and a new file that begins with what is known of the run. An input error
  // where the user may not write there.
  absl::Status Open(int64_t first_step);
  // The scalars of a step, in the file when it returns. A failure, as of a full disk, is said once:
  // steps are left out as long as it lasts.
  void Write(const TrainedStep& step);
  // The run is over.
  void End(bool succeeded);

 private:
  absl::Status Append(tensorboard::Event event);
  void AppendOrTell(tensorboard::Event event);

  const EventFileOptions options_;
  std::string path_;
  int file_ = -1;
  int64_t size_ = 0;  // bytes of all records that were written in full
  int64_t last_step_ = 0;
  bool failed_ = false;
};

// The bytes of a record of that message. For tests, too.
std::string EventRecord(const tensorboard::Event& event);

}  // namespace oneflow

#include "training/trainer/event_file.h"

#include <fcntl.h>
#include <google/protobuf/text_format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/print/plan_text.h"
#include "oneflow_core/recipe/field_text.h"
#include "training/job/job.h"
#include "training/trainer/expert_load.h"
#include "training/trainer/metrics_log.h"

namespace oneflow {
namespace {

using tensorboard::Event;
using tensorboard::HyperParameters;
using tensorboard::Summary;

// The remainders of CRC-32C (Castagnoli), a table of bytes.
constexpr std::array<uint32_t, 256> kCrcOfByte = [] {
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78U : 0);
    table[byte] = crc;
  }
  return table;
}();

// Masked, for a checksum of data that has checksums in it is a weak one.
uint32_t MaskedCrc(std::string_view bytes) {
  uint32_t crc = ~0U;
  for (const char byte : bytes) {
    crc = (crc >> 8) ^ kCrcOfByte[(crc ^ static_cast<uint8_t>(byte)) & 0xff];
  }
  return std::rotr(~crc, 15) + 0xa282ead8U;
}

template <typename Number>
void AppendNumber(Number number, std::string* bytes) {
  static_assert(std::endian::native == std::endian::little);
  bytes->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

double SecondsSince1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void AddScalar(std::string_view tag, double number, Summary* summary) {
  Summary::Value& value = *summary->add_value();
  value.set_tag(tag.data(), tag.size());
  value.set_simple_value(static_cast<float>(number));
}

void AddText(std::string_view tag, std::string text, Summary* summary) {
  Summary::Value& value = *summary->add_value();
  value.set_tag(tag.data(), tag.size());
  value.mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  value.mutable_tensor()->set_dtype(tensorboard::TensorValue::STRING);
  value.mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(1);
  value.mutable_tensor()->add_string_val(std::move(text));
}

void AddHyperParameters(std::string_view tag, const HyperParameters& content, Summary* summary) {
  Summary::Value& value = *summary->add_value();
  value.set_tag(absl::StrCat("_hparams_/", std::string(tag)));
  auto& plugin = *value.mutable_metadata()->mutable_plugin_data();
  plugin.set_plugin_name("hparams");
  content.SerializeToString(plugin.mutable_content());
  value.mutable_tensor()->set_dtype(tensorboard::TensorValue::FLOAT);  // of no elements
  value.mutable_tensor()->mutable_tensor_shape()->add_dim();
}

HyperParameters::Value HyperParameter(const std::string& text) {
  HyperParameters::Value value;
  double number = 0;
  if (text == "true" || text == "false") {
    value.set_bool_value(text == "true");
  } else if (absl::SimpleAtod(text, &number)) {
    value.set_number_value(number);
  } else {
    value.set_string_value(text);
  }
  return value;
}

Summary DescribeRun(const EventFileOptions& options) {
  Summary summary;
  AddText("recipe", absl::StrCat("```\n", options.recipe, "```\n"), &summary);
  HyperParameters content;
  auto& start = *content.mutable_session_start_info();
  start.set_start_time_secs(SecondsSince1970());
  for (const auto& [name, text] : options.choices) {
    (*start.mutable_hparams())[name] = HyperParameter(text);
  }
  AddHyperParameters("session_start_info", content, &summary);
  AddScalar("bytes/device", static_cast<double>(options.device_bytes), &summary);
  return summary;
}

Summary Scalars(const TrainedStep& step) {
  Summary summary;
  const auto add = [&](std::string_view tag, std::optional<double> number) {
    if (number) AddScalar(tag, *number, &summary);
  };
  add("loss", step.loss);
  if (step.evaluated) add("eval/loss", step.evaluated->value());
  add("lr", step.learning_rate);
  add("grad_norm", step.norm);
  add("tokens_per_second", step.tokens_per_second);
  add("mfu", step.mfu);
  add("step_seconds/took", step.seconds);
  if (step.promised_step_seconds > 0) add("step_seconds/promised", step.promised_step_seconds);
  add("step_seconds/host", step.host_seconds);
  add("labels", step.labels);
  if (!step.counts.empty()) {
    add("experts/hottest", HottestExpert(step.counts));
    add("experts/dropped", DroppedShare(step.counts));
  }
  return summary;
}

}  // namespace

EventFileOptions DescribeForEvents(const proto::Plan& plan, const proto::Run& run, Notice notice) {
  EventFileOptions options{.folder = run.tensorboard(), .notice = std::move(notice)};
  options.device_bytes = MostDeviceBytes(plan);
  proto::RecipeFile file;
  *file.mutable_recipe() = plan.recipe();
  *file.mutable_run() = run;
  google::protobuf::TextFormat::PrintToString(file, &options.recipe);
  options.choices = {{"model", plan.model()}, {"parameters", absl::StrCat(ParameterCount(plan))}};
  const auto add = [&](std::span<const Row> rows, const google::protobuf::Message& message,
                       bool values_alone) {
    for (const Row& row : rows) {
      if (values_alone && row.bits == Bits::kNone && row.name != "steps") continue;
      if (std::string text = FieldText(row, message); !text.empty()) {
        options.choices.emplace_back(row.name, std::move(text));
      }
    }
  };
  add(RecipeRows(), plan.recipe(), /*values_alone=*/false);
  add(OptimizerRows(), run.optimizer(), /*values_alone=*/false);
  add(RunRows(), run, /*values_alone=*/true);
  return options;
}

std::string EventRecord(const Event& event) {
  const std::string message = event.SerializeAsString();
  std::string bytes;
  AppendNumber<uint64_t>(message.size(), &bytes);
  AppendNumber<uint32_t>(MaskedCrc(bytes), &bytes);
  bytes += message;
  AppendNumber<uint32_t>(MaskedCrc(message), &bytes);
  return bytes;
}

EventFile::~EventFile() {
  if (file_ >= 0) close(file_);
}

absl::Status EventFile::Open(int64_t first_step) {
  if (!is_wanted()) return absl::OkStatus();
  const std::string where = "--tensorboard=" + options_.folder;
  std::error_code error;
  std::filesystem::create_directories(options_.folder, error);
  if (error) return WriteError(where, "cannot be made", error.value(), "give another folder");
  // Readers take the files of a folder in the order of their names; a run may go on within a
  // second.
  const std::string name = absl::StrCat(options_.folder, "/events.out.tfevents.",
                                        absl::StrFormat("%.6f", SecondsSince1970()), ".",
                                        HostName(), ".", getpid(), ".");
  for (int n = 0; file_ < 0 && (n == 0 || errno == EEXIST); ++n) {
    path_ = absl::StrCat(name, n);
    file_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  }
  if (file_ < 0) return WriteError(where, "cannot be written to", errno, "give another folder");
  last_step_ = first_step;
  Event version, session, description;
  version.set_file_version("brain.Event:2");
  session.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  *description.mutable_summary() = DescribeRun(options_);
  for (Event* event : {&version, &session, &description}) {
    event->set_step(first_step);
    RETURN_IF_ERROR(Append(std::move(*event)));
  }
  return absl::OkStatus();
}

void EventFile::Write(const TrainedStep& step) {
  if (file_ < 0) return;
  last_step_ = step.step;
  Event event;
  event.set_step(step.step);
  *event.mutable_summary() = Scalars(step);
  AppendOrTell(std::move(event));
}

void EventFile::End(bool succeeded) {
  if (file_ < 0) return;
  HyperParameters content;
  auto& end = *content.mutable_session_end_info();
  end.set_status(succeeded ? HyperParameters::SUCCESS : HyperParameters::FAILURE);
  end.set_end_time_secs(SecondsSince1970());
  Event event;
  event.set_step(last_step_);
  AddHyperParameters("session_end_info", content, event.mutable_summary());
  AppendOrTell(std::move(event));
}

absl::Status EventFile::Append(Event event) {
  event.set_wall_time(SecondsSince1970());
  const std::string bytes = EventRecord(event);
  errno = 0;
  const ssize_t n = write(file_, bytes.data(), bytes.size());
  if (n == std::ssize(bytes)) {
    size_ += n;
    return absl::OkStatus();
  }
  const int error = errno == 0 ? ENOSPC : errno;  // a part of it was written
  // Readers stop at a record that is not complete.
  if (ftruncate(file_, size_) != 0) close(std::exchange(file_, -1));
  return WriteError(path_, "cannot be written", error, "check the disk");
}

void EventFile::AppendOrTell(Event event) {
  const absl::Status written = Append(std::move(event));
  if (written.ok() || std::exchange(failed_, true)) return;
  Notify(options_.notice, absl::StrCat("warning: steps are missing in --tensorboard: ",
                                       std::string(written.message())));
}

}  // namespace oneflow

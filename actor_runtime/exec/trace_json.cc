#include "actor_runtime/exec/trace_json.h"

#include <cstdint>
#include <cstdio>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "actor_runtime/exec/trace_events.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/base/json_text.h"

namespace oneflow {
namespace {

std::string Quoted(std::string_view text) { return JsonText(nlohmann::json(text)); }

std::string Microseconds(int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", static_cast<double>(ns) / 1000);
  return text;
}

std::string ArgumentText(const TraceArgument& argument) {
  if (const auto* text = std::get_if<std::string_view>(&argument.value)) return Quoted(*text);
  if (const auto* number = std::get_if<int64_t>(&argument.value)) return absl::StrCat(*number);
  return Microseconds(std::get<TraceArgument::Duration>(argument.value).nanoseconds);
}

// Writes one event a line.
class JsonWriter {
 public:
  void operator()(const TraceHeader& header) {
    text_ = absl::StrCat("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"dropped_events\":\"",
                         header.dropped, "\"");
    for (const auto& [name, value] : header.facts) {
      absl::StrAppend(&text_, ",\"", name, "\":\"", value, "\"");
    }
    absl::StrAppend(&text_, "},\"traceEvents\":[");
    if (header.dropped == 0) return;
    Event(absl::StrCat("\"ph\":\"I\",\"s\":\"g\",\"pid\":0,\"tid\":0,\"ts\":0,\"name\":",
                       "\"truncated: ", header.dropped, " firings did not fit\""));
  }
  // Names of a process are events of its first thread.
  void operator()(const TraceDevice& device) { unnamed_.push_back(device); }
  void operator()(const TraceTrack& track) {
    ids_.push_back(absl::StrCat("\"pid\":", track.device, ",\"tid\":", track.id));
    for (const TraceDevice& device : unnamed_) {
      Name("process_name", absl::StrCat("\"name\":", Quoted(device.name)));
      Name("process_sort_index", absl::StrCat("\"sort_index\":", device.id));
    }
    unnamed_.clear();
    Name("thread_name", absl::StrCat("\"name\":", Quoted(track.name)));
    Name("thread_sort_index", absl::StrCat("\"sort_index\":", track.id));
  }
  void operator()(const TraceFlow& flow) {
    const std::string id = absl::StrCat("\"cat\":\"", flow.kind, "\",\"name\":\"", flow.kind,
                                        "\",\"id\":", flow.id, ",");
    Event(
        absl::StrCat("\"ph\":\"s\",", id, Id(flow.from), ",\"ts\":", Microseconds(flow.from_time)));
    Event(absl::StrCat("\"ph\":\"f\",\"bp\":\"e\",", id, Id(flow.to),
                       ",\"ts\":", Microseconds(flow.to_time)));
  }
  void operator()(const TraceSlice& slice) {
    std::string arguments;
    for (const TraceArgument& argument : slice.arguments) {
      absl::StrAppend(&arguments, arguments.empty() ? "\"" : ",\"", argument.name,
                      "\":", ArgumentText(argument));
    }
    Event(absl::StrCat(
        "\"ph\":\"X\",\"cat\":", Quoted(slice.category), ",\"name\":", Quoted(slice.name), ",",
        Id(slice.track), ",\"ts\":", Microseconds(slice.begin),
        ",\"dur\":", Microseconds(slice.end - slice.begin), ",\"args\":{", arguments, "}"));
  }
  void operator()(const TraceCounter& counter) {
    Event(absl::StrCat("\"ph\":\"C\",\"name\":\"", counter.name, "\",\"pid\":", counter.device,
                       ",\"ts\":", Microseconds(counter.time),
                       ",\"args\":{\"bytes\":", counter.bytes, "}"));
  }
  void operator()(const TraceMark& mark) {
    Event(absl::StrCat("\"ph\":\"i\",\"s\":\"p\",\"cat\":\"step\",\"name\":", Quoted(mark.name),
                       ",", Id(mark.track), ",\"ts\":", Microseconds(mark.time)));
  }

  std::string Finish() { return std::move(text_) + "\n]}\n"; }

 private:
  void Event(absl::string_view fields) {
    absl::StrAppend(&text_, first_ ? "\n{" : ",\n{", fields, "}");
    first_ = false;
  }
  void Name(absl::string_view kind, absl::string_view value) {
    Event(absl::StrCat("\"ph\":\"M\",\"name\":\"", kind, "\",", ids_.back(), ",\"args\":{", value,
                       "}"));
  }
  const std::string& Id(int track) const { return ids_[track - 1]; }

  std::string text_;
  bool first_ = true;
  std::vector<std::string> ids_;  // by track
  std::vector<TraceDevice> unnamed_;
};

}  // namespace

std::string TraceJson(std::span<const proto::ProcessTrace> parts, int processes,
                      const TraceFacts& facts) {
  JsonWriter writer;
  WalkTrace(parts, processes, facts, [&](const TraceItem& item) { std::visit(writer, item); });
  return writer.Finish();
}

}  // namespace oneflow

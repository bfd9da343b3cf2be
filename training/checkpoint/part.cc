#include "training/checkpoint/part.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/tensor/mesh.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "training/checkpoint/manifest_json.h"

namespace oneflow {
namespace {

using manifest_json::Fields;
using manifest_json::Json;

constexpr char kPartFormat[] = "oneflow checkpoint part";

// A bad part is not the user's mistake.
template <typename... How>
absl::Status Refused(std::string_view where, const How&... how) {
  return absl::InternalError(absl::StrCat(ToAbsl(where), ": ", how...));
}

bool IsChecksum(std::string_view text) {
  return text.size() == 16 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// Fails unless it is the file of a rank of the part.
absl::Status CheckFile(const CheckpointPart& part, const std::string& file,
                       std::string_view where) {
  int32_t rank = -1;
  const size_t dot = file.find('.');
  if (!file.starts_with("rank-") || dot == file.npos ||
      !absl::SimpleAtoi(file.substr(5, dot - 5), &rank) || file != RankFileName(rank)) {
    return Refused(where, "names file ", file, ", which is no rank's");
  }
  if (part.ranks.size() == 0 || part.ranks.Contains(rank)) return absl::OkStatus();
  return Refused(where, "names file ", file, ", and has ranks ", part.ranks.begin, " to ",
                 part.ranks.end - 1);
}

absl::Status CheckStored(const CheckpointPart& part, const StoredVariable& variable,
                         std::string_view where) {
  const std::string at = absl::StrCat(ToAbsl(where), ": variable ", variable.name);
  for (const StoredSlice& stored : variable.slices) {
    if (const absl::Status status = CheckSlice(variable, stored); !status.ok()) {
      return Refused(at, status.message());
    }
    if (stored.run.bytes == 0) return Refused(at, "has a slice without elements");
    RETURN_IF_ERROR(CheckFile(part, stored.run.file, at));
    for (const std::string& checksum : stored.run.checksums) {
      if (!IsChecksum(checksum)) return Refused(at, "has no checksum: ", checksum);
    }
  }
  return absl::OkStatus();
}

// `where` begins the error texts. The caller checks that the variables are those of the plan.
absl::StatusOr<CheckpointPart> ParsePart(std::string_view text, const std::string& where) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !manifest_json::IsIntact(text)) {
    return Refused(where, "does not match its own checksum");
  }
  Fields fields(json, where);
  if (fields.String("format") != kPartFormat || fields.Int("version") != kCheckpointVersion) {
    return Refused(where, "not a part of a checkpoint of version ", kCheckpointVersion);
  }
  CheckpointPart part;
  part.plan = fields.String("plan");
  part.step = fields.Int("step");
  part.attempt = fields.Int("attempt");
  part.process = fields.Int("process");
  const Dims ranks = fields.Sizes("ranks");
  const int64_t block = fields.Int("block");
  const Json& variables = fields.List("variables");
  if (!fields.status().ok()) return Refused(where, fields.status().message());
  if (block != kBlockBytes) return Refused(where, "has blocks of ", block, " bytes");
  if (!ranks.empty()) {
    if (ranks.size() != 2 || ranks[0] >= ranks[1] || ranks[1] > kMaxDevices) {
      return Refused(where, "has odd ranks: ", ToString(ranks));
    }
    part.ranks = {static_cast<int32_t>(ranks[0]), static_cast<int32_t>(ranks[1])};
  }
  const manifest_json::RunParser parser(block, where);
  for (const Json& variable : variables) {
    absl::StatusOr<StoredVariable> stored = parser.Variable(variable);
    if (!stored.ok()) return Refused(where, stored.status().message());
    part.variables.push_back(*std::move(stored));
  }
  return part;
}

// Collects the slices of parts.
class Merger {
 public:
  explicit Merger(std::vector<StoredVariable> variables) : variables_(std::move(variables)) {
    for (StoredVariable& variable : variables_) index_[variable.name] = &variable;
  }

  absl::Status Add(CheckpointPart part, const std::string& where) {
    if (!processes_.insert(part.process).second) {
      return Refused(where, "process ", part.process, " has another part");
    }
    std::set<std::string> files;
    for (StoredVariable& from : part.variables) {
      const auto it = index_.find(from.name);
      if (it == index_.end()) return Refused(where, "the plan has no variable ", from.name);
      StoredVariable& to = *it->second;
      if (to.dtype != from.dtype || to.dims != from.dims) {
        return Refused(where, "variable ", from.name, " is not as the plan has it");
      }
      RETURN_IF_ERROR(CheckStored(part, from, where));
      for (StoredSlice& slice : from.slices) {
        files.insert(slice.run.file);
        to.slices.push_back(std::move(slice));
      }
    }
    for (const std::string& file : files) {
      const auto [it, added] = files_.emplace(file, part.process);
      if (!added) return Refused(where, "file ", file, " is of process ", it->second, ", too");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<StoredVariable>> Take() {
    for (StoredVariable& variable : variables_) {
      // In the order of the tensor, not of threads and processes: the same plan writes the same
      // manifest.
      std::sort(
          variable.slices.begin(), variable.slices.end(),
          [](const StoredSlice& a, const StoredSlice& b) { return a.slice.begin < b.slice.begin; });
      const absl::Status cover = CheckCover(variable);
      if (!cover.ok()) return Refused(variable.name, cover.message());
    }
    const absl::Status files = manifest_json::CheckFiles(variables_);
    if (!files.ok()) return absl::InternalError(files.message());
    return std::move(variables_);
  }

 private:
  std::vector<StoredVariable> variables_;
  std::map<std::string, StoredVariable*> index_;
  std::set<int64_t> processes_;
  std::map<std::string, int64_t> files_;  // which process has written each
};

}  // namespace

absl::StatusOr<std::vector<StoredVariable>> FindVariables(const proto::Plan& plan) {
  std::vector<StoredVariable> variables;
  for (const proto::Variable& v : plan.variable()) {
    if (v.frozen()) continue;  // it is read from the graph's base
    ASSIGN_OR_RETURN(const DType dtype, DTypeFromProto(v.dtype(), v.name()));
    variables.push_back({v.name(), dtype, {v.layout().dim().begin(), v.layout().dim().end()}, {}});
  }
  return variables;
}

std::string RankFileName(int64_t rank) { return absl::StrFormat("rank-%05d.bin", rank); }

std::string ToText(const CheckpointPart& part) {
  Json ranks = Json::array();
  if (part.ranks.size() > 0) ranks = {part.ranks.begin, part.ranks.end};
  std::vector<StoredVariable> written = part.variables;
  std::erase_if(written, [](const StoredVariable& variable) { return variable.slices.empty(); });
  return manifest_json::ToText({{"format", kPartFormat},
                                {"version", kCheckpointVersion},
                                {"plan", part.plan},
                                {"step", part.step},
                                {"attempt", part.attempt},
                                {"process", part.process},
                                {"ranks", std::move(ranks)},
                                {"block", kBlockBytes}},
                               written);
}

absl::StatusOr<std::vector<StoredVariable>> MergeParts(const proto::Plan& plan, int64_t step,
                                                       int64_t attempt,
                                                       std::span<const std::string> parts) {
  ASSIGN_OR_RETURN(std::vector<StoredVariable> variables, FindVariables(plan));
  Merger merger(std::move(variables));
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string where =
        absl::StrCat("part ", i, " of ", parts.size(), " of the checkpoint of step ", step);
    ASSIGN_OR_RETURN(CheckpointPart part, ParsePart(parts[i], where));
    if (part.plan != plan.fingerprint()) {
      return Refused(where, "is of plan ", part.plan, ", not of ", plan.fingerprint());
    }
    if (part.step != step || part.attempt != attempt) {
      return Refused(where, "is of step ", part.step, " and attempt ", part.attempt,
                     ", not of attempt ", attempt);
    }
    RETURN_IF_ERROR(merger.Add(std::move(part), where));
  }
  return merger.Take();
}

}  // namespace oneflow

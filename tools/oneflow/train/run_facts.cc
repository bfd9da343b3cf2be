#include "tools/oneflow/train/run_facts.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <system_error>
#include <utility>

#include <xxhash.h>

#include "absl/strings/str_cat.h"
#include "actor_runtime/kernel/simd/isa.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/field_text.h"
#include "tools/oneflow/cli/data_list.h"
#include "training/data/data_file.h"
#include "training/trainer/runtime_options.h"

namespace oneflow {
namespace {

std::string Hex(uint64_t hash) { return absl::StrCat(absl::Hex(hash, absl::kZeroPad16)); }

// With the index, the facts and the chats of each .bin that has them beside it (docs/data.md): they
// are read, too.
std::vector<std::string> WithCompanions(const std::vector<std::string>& paths) {
  std::vector<std::string> all;
  for (const std::string& path : paths) {
    all.push_back(path);
    std::filesystem::path index(path);
    std::error_code error;
    if (index.extension() != ".bin") continue;
    for (const char* extension : {".idx", ".meta.json", ".chats"}) {
      if (std::filesystem::exists(index.replace_extension(extension), error)) all.push_back(index);
      index = path;
    }
  }
  return all;
}

// Name's end, head, tail and length of each file, in their order.
absl::StatusOr<std::string> ComputeDigest(const std::string& flag, const std::string& list) {
  constexpr int64_t kEnd = 1 << 16;
  ASSIGN_OR_RETURN(const FoundData data, ExpandDataList(flag, list));
  const std::vector<std::string> paths = data.paths();
  std::string all;
  for (const double weight : data.weights) absl::StrAppend(&all, "weight ", weight, "\n");
  int64_t total = 0;
  for (const std::string& path : WithCompanions(paths)) {
    RETURN_IF_ERROR(CheckRegularFile(path));  // opening a pipe would wait for its writer
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    const int64_t size = file ? static_cast<int64_t>(file.tellg()) : -1;
    const int64_t n = std::min(size, kEnd);
    std::string ends(static_cast<size_t>(std::max<int64_t>(0, 2 * n)), '\0');
    file.seekg(0);
    file.read(ends.data(), n);
    file.seekg(size - n);
    file.read(ends.data() + n, n);
    if (size < 0 || !file) {
      return InputError(path, "cannot be read", absl::StrCat("--", flag, " wants a file"));
    }
    total += size;
    absl::StrAppend(&all, std::filesystem::path(path).extension().string(), " ", size, " ",
                    Hex(XXH3_64bits(ends.data(), ends.size())), "\n");
  }
  return absl::StrCat(paths.size(), paths.size() == 1 ? " file, " : " files, ", total, " bytes, ",
                      Hex(XXH3_64bits(all.data(), all.size())));
}

// Adds what all processes must agree on of a message.
void AddChoices(std::span<const Row> rows, const google::protobuf::Message& message,
                std::vector<JoinFact>* facts) {
  for (const Row& row : rows) {
    if (row.differs) continue;
    // Never empty: an empty value would stand for any.
    const std::string text = FieldText(row, message);
    facts->push_back({absl::StrCat("--", ToAbsl(row.name)), text.empty() ? "none" : text});
  }
}

}  // namespace

absl::StatusOr<std::vector<JoinFact>> FactsOfRun(const proto::Run& run,
                                                 const std::string& fingerprint) {
  ASSIGN_OR_RETURN(const Isa isa, ParseIsa(run.instruction_set(), BestIsa()));
  ASSIGN_OR_RETURN(const std::string program, ReadFile("/proc/self/exe"));
  std::vector<JoinFact> facts = {
      {"build", Hex(XXH3_64bits(program.data(), program.size()))},
      {"instruction set (--instruction_set=NAME lowers it for all)", std::string(Name(isa))},
  };
  AddChoices(RunRows(), run, &facts);
  AddChoices(OptimizerRows(), run.optimizer(), &facts);
  facts.push_back({"--trace", run.has_trace() ? "given" : "none"});
  for (const auto& [flag, list] :
       {std::pair<std::string, std::string>{"data", run.data()}, {"eval_data", run.eval_data()}}) {
    std::string digest = "none";
    if (!list.empty()) {
      ASSIGN_OR_RETURN(digest, ComputeDigest(flag, list));
    }
    facts.push_back({"--" + flag, std::move(digest)});
  }
  facts.push_back({"plan", fingerprint});
  return facts;
}

}  // namespace oneflow

#include "tools/oneflow/cli/masked_data.h"

#include <filesystem>
#include <string>
#include <system_error>

#include "tools/oneflow/cli/data_list.h"
#include "training/data/chat_file.h"

namespace oneflow {
namespace {

bool HasChatsBeside(const std::string& path) {
  std::error_code ignored;
  return path.ends_with(".bin") && std::filesystem::exists(ChatsPath(path), ignored);
}

bool ListIsMasked(const std::string& flag, const std::string& list) {
  if (list.empty()) return false;
  const absl::StatusOr<FoundData> data = ExpandDataList(flag, list);
  if (!data.ok()) return false;  // whoever opens the data reports the error
  for (const std::string& path : data->paths()) {
    if (HasChatsBeside(path)) return true;
  }
  return false;
}

}  // namespace

bool HasMaskedData(const proto::Run& run) {
  return run.chat() || ListIsMasked("data", run.data()) ||
         ListIsMasked("eval_data", run.eval_data());
}

}  // namespace oneflow

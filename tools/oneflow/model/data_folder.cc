#include "tools/oneflow/model/data_folder.h"

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/cli/check_outputs.h"
#include "tools/oneflow/cli/flags.h"

namespace oneflow {
namespace {

// The files that are written, and those of an earlier text that are removed.
constexpr std::string_view kFiles[] = {kTrainFile,
                                       "train.idx",
                                       "train.meta.json",
                                       "train.chats",
                                       kValidationFile,
                                       "val.idx",
                                       "val.meta.json",
                                       "val.chats",
                                       "tokenizer/vocab.json",
                                       "tokenizer/merges.txt",
                                       "tokenizer/tokenizer.json",
                                       "tokenizer/tokenizer.model",
                                       "tokenizer/tokenizer_config.json",
                                       "tokenizer/chat_template.jinja"};

}  // namespace

std::string OutputPath(std::string_view name) { return FLAGS_out + "/" + std::string(name); }

absl::Status MakeDataFolder(const Arguments& args) {
  if (FLAGS_out.empty()) return InputError("--out", "is missing", "write --out=run/data");
  for (const std::string_view file : kFiles) {
    RETURN_IF_ERROR(CheckNotRead(args, "--out=" + FLAGS_out, OutputPath(file)));
  }
  std::error_code error;
  std::filesystem::create_directories(FLAGS_out, error);
  const int why = error ? error.value() : ENOTDIR;
  if (std::filesystem::is_directory(FLAGS_out, error)) return absl::OkStatus();
  return WriteError("--out=" + FLAGS_out, "is no folder and cannot be made one", why,
                    "name a folder that can be written to");
}

}  // namespace oneflow

// ModelFiles: the files that were beside the weights of an imported model, such as config.json and
// the template of its chats. A checkpoint keeps them from import to export, and a run hands them
// on.
#pragma once

#include <string>
#include <vector>

namespace oneflow {

struct ModelFile {
  std::string name;  // "config.json", or in a folder: "additional_chat_templates/tools.jinja"
  std::string bytes;
  bool operator==(const ModelFile&) const = default;
};
using ModelFiles = std::vector<ModelFile>;

// The folder of a checkpoint that holds them.
inline constexpr char kModelFolder[] = "model/";

}  // namespace oneflow

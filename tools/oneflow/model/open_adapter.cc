#include "tools/oneflow/model/open_adapter.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/model/add_adapters.h"
#include "training/hugging_face/find_model.h"
#include "training/hugging_face/model_graph.h"

namespace oneflow {
namespace {

absl::StatusOr<std::string> FindAdapterBase(const std::string& folder, const std::string& given,
                                            const AdapterConfig& config) {
  if (!given.empty()) return given;
  if (!config.base.empty() && PathExists(config.base)) return config.base;
  return InputError(folder,
                    config.base.empty() ? "does not say which model it adapts"
                                        : "adapts " + config.base + ", which is no folder here",
                    "name the folder of this model with --base=FOLDER");
}

}  // namespace

absl::StatusOr<AdapterModel> OpenAdapter(const std::string& folder, const std::string& given) {
  ASSIGN_OR_RETURN(AdapterConfig config, ReadAdapterConfig(folder));
  ASSIGN_OR_RETURN(const std::string path, FindAdapterBase(folder, given, config));
  AdapterModel model;
  ASSIGN_OR_RETURN(model.base, OpenWeights(path));
  model.graph = model.base->graph();
  ASSIGN_OR_RETURN(const HuggingFaceConfig described, DescribeModelGraph(model.graph));
  const std::string weights = folder + "/" + kAdapterModel;
  if (!PathExists(weights)) {
    return InputError(folder, absl::StrCat("has no ", kAdapterModel),
                      "save the adapter again with save_pretrained of peft");
  }
  ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(weights));
  model.file = std::make_unique<SafetensorsFile>(std::move(file));
  ASSIGN_OR_RETURN(const AdaptedModules modules, FindModules(*model.file, config.saved_modules));
  for (const std::string& target : modules.targets) config.lora.add_target(target);
  ASSIGN_OR_RETURN(model.graph, AddAdapters(std::move(model.graph), config.lora));
  if (!modules.saved.empty()) {
    ASSIGN_OR_RETURN(model.graph,
                     TrainOnly(std::move(model.graph), absl::StrJoin(modules.saved, ",")));
  }
  ASSIGN_OR_RETURN(const AdapterTensors tensors,
                   ListAdapterTensors(model.graph, FindFiles(described)));
  ASSIGN_OR_RETURN(model.variables, MapAdapter(*model.file, tensors, model.base->notes().vocab));
  ASSIGN_OR_RETURN(*model.graph.mutable_base(), DescribeBase(path));
  return model;
}

}  // namespace oneflow

#include "training/hugging_face/adapter_tensors.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/graph_proto.h"
#include "training/hugging_face/strict_json.h"

namespace oneflow {
namespace {

constexpr std::string_view kPrefix = "base_model.model.", kWeight = ".weight";
constexpr std::string_view kA = ".lora_A.weight", kB = ".lora_B.weight";

bool IsTrained(const proto::Op& op) { return op.kind() == "variable" && !IsFrozen(op); }

Dims FindSizes(const proto::Op& op) {
  Dims dims;
  for (const auto& dim : op.shape().dim()) dims.push_back(dim.size());
  return dims;
}

std::string_view WithoutEnd(std::string_view name, std::string_view end) {
  return name.ends_with(end) ? name.substr(0, name.size() - end.size()) : name;
}

// The module of a tensor: "lm_head" of "lm_head.weight".
std::string ModuleName(std::string_view tensor) {
  return std::string(tensor.substr(0, tensor.rfind('.')));
}

// The last `count` names of a module.
std::string_view LastNames(std::string_view module, int count) {
  size_t begin = module.size();
  for (; count > 0 && begin != std::string_view::npos; --count) {
    begin = begin == 0 ? std::string_view::npos : module.rfind('.', begin - 1);
  }
  return begin == std::string_view::npos ? module : module.substr(begin + 1);
}

// The shortest names that name all of `chosen`, and none of the other modules. PEFT takes a module
// of modules_to_save whose name ends so, even within a word: "1.norm" would be of layer 11, too.
std::vector<std::string> ShortNames(const std::set<std::string>& chosen,
                                    const std::set<std::string>& all) {
  std::set<std::string> names;
  for (const std::string& module : chosen) {
    for (int count = 1;; ++count) {
      const std::string_view name = LastNames(module, count);
      const bool names_others = std::ranges::any_of(all, [&](const std::string& other) {
        return other.ends_with(name) && !chosen.contains(other);
      });
      const bool is_number = std::isdigit(static_cast<unsigned char>(name[0])) != 0;
      if ((names_others || is_number) && name.size() < module.size()) continue;
      names.insert(std::string(name));
      break;
    }
  }
  return {names.begin(), names.end()};
}

FilePart TransposedPart(int rows) { return {.rows = rows, .transposed = true}; }

absl::Status CheckAdapterTensor(const SafetensorsFile& file, const FileTensor& tensor,
                                const Dims& dims) {
  const std::string where = file.path() + ": tensor " + Quoted(tensor.name);
  if (!tensor.type) {
    return InputError(where, "has elements of type " + tensor.type_name,
                      "save it as F32, BF16 or F16");
  }
  if (tensor.dims == dims) return absl::OkStatus();
  return InputError(where,
                    absl::StrCat("has the shape ", ToString(tensor.dims),
                                 ", and the adapter of the base ", ToString(dims)),
                    "use the base that it was trained with");
}

}  // namespace

absl::StatusOr<AdapterTensors> ListAdapterTensors(const proto::Graph& graph,
                                                  const FamilyFiles& files) {
  AdapterTensors result;
  std::map<std::string, const proto::Op*> variables;
  std::set<std::string> adapted, modules, saved;
  std::map<std::string, int> trained_tensors, all_tensors;  // of a module
  for (const proto::Op& op : graph.op()) {
    if (op.kind() != "variable") continue;
    variables[op.name()] = &op;
    int64_t block = -1;
    const VariableParts* const row = FindParts(files, op.name(), &block);
    // transformers, whose modules PEFT adapts, has no block that predicts next tokens.
    const bool known = !op.name().starts_with(kNextTokens);
    if (row == nullptr || (!known && !IsTrained(op))) continue;
    for (const FilePart& part : ListParts(*row, FindSizes(op))) {
      const std::string name = FileName(files, TensorName(part, block));
      const std::string module = ModuleName(name);
      modules.insert(module);
      ++all_tensors[module];
      if (!IsTrained(op)) continue;
      ++trained_tensors[module];
      saved.insert(module);
      if (part.step > 1 || !known) {
        return InputError("variable " + op.name(),
                          known ? "is trained, and its tensor has others as well, which "
                                  "modules_to_save of PEFT does not part"
                                : "is trained, and no module of transformers",
                          "write the model with --merge");
      }
      result.tensors.push_back(
          {std::string(kPrefix) + name, module, {op.name(), FindSizes(op)}, part});
      if (TensorName(part, block) == files.embedding && !variables.contains("head.weight") &&
          std::ranges::none_of(graph.op(),
                               [](const proto::Op& o) { return o.name() == "head.weight"; })) {
        return InputError("variable " + op.name(),
                          "is trained, and it is the head as well, which PEFT does not tie",
                          "write the model with --merge");
      }
    }
  }
  for (const Adapter& adapter : ListAdapters(graph)) {
    int64_t block = -1;
    const VariableParts* const row = FindParts(files, adapter.weight, &block);
    if (row == nullptr) {
      return InputError("variable " + adapter.weight, "has no tensors in files of this family", "");
    }
    const FilePart& part = row->parts[adapter.part < 0 ? 0 : adapter.part];
    const std::string module = ModuleName(FileName(files, TensorName(part, block)));
    adapted.insert(module);
    const Dims a = FindSizes(*variables.at(adapter.a)), b = FindSizes(*variables.at(adapter.b));
    result.tensors.push_back({absl::StrCat(ToAbsl(kPrefix), module, ToAbsl(kA)),
                              module,
                              {adapter.a, a},
                              TransposedPart(static_cast<int>(a.size()) - 1)});
    result.tensors.push_back({absl::StrCat(ToAbsl(kPrefix), module, ToAbsl(kB)),
                              module,
                              {adapter.b, b},
                              TransposedPart(1)});
  }
  for (const auto& [module, count] : trained_tensors) {
    if (count == all_tensors[module]) continue;
    return InputError("module " + module,
                      "has tensors that are trained and others that are not, and modules_to_save "
                      "of PEFT has all of a module",
                      "write the model with --merge");
  }
  result.targets = ShortNames(adapted, modules);
  result.saved = ShortNames(saved, modules);
  return result;
}

std::vector<std::string> FindExpertTargets(const FamilyFiles& files,
                                           std::span<const std::string> targets) {
  std::vector<std::string> found;
  for (const std::string& target : targets) {
    const std::string end = absl::StrCat(".#.", target.substr(target.rfind('.') + 1), ".weight");
    const bool named = std::ranges::any_of(files.variables, [&](const VariableParts& row) {
      return row.parts[0].tensor.ends_with(end);
    });
    if (named) found.push_back(target);
  }
  return found;
}

absl::StatusOr<AdaptedModules> FindModules(const SafetensorsFile& file,
                                           std::span<const std::string> saved) {
  std::set<std::string> targets, kept;
  for (const FileTensor& tensor : file.header().tensors) {
    std::string_view name = tensor.name;
    if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
    const bool is_adapter = name.ends_with(kA) || name.ends_with(kB);
    const std::string module =
        is_adapter ? std::string(WithoutEnd(WithoutEnd(name, kA), kB)) : ModuleName(name);
    if (!is_adapter) {
      if (std::ranges::any_of(saved,
                              [&](const std::string& end) { return module.ends_with(end); })) {
        kept.insert(module);
        continue;
      }
      return InputError(file.path() + ": tensor " + Quoted(tensor.name),
                        "is neither lora_A nor lora_B of a linear layer, nor of modules_to_save",
                        "merge it with merge_and_unload of peft, and import the model");
    }
    // Behind the number of the block.
    size_t begin = 0, number = std::string::npos;
    while (begin < module.size()) {
      const size_t end = std::min(module.find('.', begin), module.size());
      const bool digits = std::all_of(module.begin() + static_cast<int64_t>(begin),
                                      module.begin() + static_cast<int64_t>(end),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
      if (digits && end > begin) {
        number = end + 1;
        break;
      }
      begin = end + 1;
    }
    if (number >= module.size()) {
      return InputError(file.path() + ": tensor " + Quoted(tensor.name),
                        "adapts a layer outside the blocks",
                        "merge it with merge_and_unload of peft, and import the model");
    }
    targets.insert(module.substr(number));
  }
  return AdaptedModules{{targets.begin(), targets.end()}, {kept.begin(), kept.end()}};
}

absl::StatusOr<std::vector<MappedVariable>> MapAdapter(const SafetensorsFile& file,
                                                       const AdapterTensors& tensors,
                                                       int64_t vocab) {
  std::vector<MappedVariable> mapped;
  std::set<std::string> known;
  for (const AdapterTensor& wanted : tensors.tensors) {
    absl::StatusOr<const FileTensor*> tensor = file.Find(wanted.name);
    if (!tensor.ok()) {
      return InputError(file.path(),
                        absl::StrCat("has no tensor ", Quoted(wanted.name), ", for variable ",
                                     wanted.variable.name,
                                     ": it adapts other layers of some blocks than of others"),
                        "merge it with merge_and_unload of peft, and import the model");
    }
    const int64_t tokens = wanted.part.is_vocabulary ? vocab : 0;
    RETURN_IF_ERROR(
        CheckAdapterTensor(file, **tensor, TensorDims(wanted.part, wanted.variable.dims, tokens)));
    known.insert(wanted.name);
    MappedPart part = {.part = wanted.part, .file = &file, .tensor = *tensor};
    if (!mapped.empty() && mapped.back().name == wanted.variable.name) {
      mapped.back().parts.push_back(part);
      continue;
    }
    mapped.push_back({.name = wanted.variable.name,
                      .dims = wanted.variable.dims,
                      .vocab = tokens,
                      .parts = {part}});
  }
  for (const FileTensor& tensor : file.header().tensors) {
    if (known.contains(tensor.name)) continue;
    return InputError(file.path(),
                      "has tensor " + Quoted(tensor.name) + ", which no layer of the base has",
                      "use the base that it was trained with");
  }
  return mapped;
}

void AddProduct(const LoadedAdapter& adapter, const Slice& slice, std::span<float> values) {
  const Slice shared = Intersect(adapter.box, slice);
  if (shared.elements() == 0) return;
  const int axes = static_cast<int>(shared.size.size());
  const int64_t run = shared.size.back(), r = adapter.rank;
  int64_t out = 1;
  for (int d = adapter.in_axes; d < axes; ++d) out *= adapter.box.size[d];
  const auto factor = static_cast<float>(adapter.factor);
  std::vector<float> sum(run);
  Dims index(axes - 1, 0);
  while (true) {
    // Of the first element of the run: its row of A, its column of B, its index in the slice.
    int64_t row = 0, column = 0, at = 0;
    for (int d = 0; d < axes; ++d) {
      const int64_t global = shared.begin[d] + (d < axes - 1 ? index[d] : 0);
      if (d < adapter.in_axes) {
        row = row * adapter.box.size[d] + global - adapter.box.begin[d];
      } else {
        column = column * adapter.box.size[d] + global - adapter.box.begin[d];
      }
      at = at * slice.size[d] + global - slice.begin[d];
    }
    std::fill(sum.begin(), sum.end(), 0.0F);
    for (int64_t k = 0; k < r; ++k) {
      const float a = adapter.a[row * r + k];
      const float* const b = adapter.b.data() + k * out + column;
      for (int64_t i = 0; i < run; ++i) sum[i] += a * b[i];
    }
    for (int64_t i = 0; i < run; ++i) values[at + i] += factor * sum[i];
    int d = axes - 1;
    while (d > 0 && ++index[d - 1] == shared.size[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace oneflow

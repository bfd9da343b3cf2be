#include "oneflow_core/model/file_tensors.h"

#include <charconv>
#include <utility>

namespace oneflow {
namespace {

// A tensor of one dimension.
FilePart Flat(std::string_view tensor) { return {.tensor = tensor}; }

// The same layout as the variable's, whose first `rows` axes are the tensor's first dimension.
FilePart Direct(std::string_view tensor, int rows = 1) { return {.tensor = tensor, .rows = rows}; }

// A row for each token.
FilePart Tokens(std::string_view tensor) {
  return {.tensor = tensor, .rows = 1, .is_vocabulary = true};
}

// The weights of a linear layer of torch, [out, in]; `rows` axes of the variable are `in`.
FilePart Linear(std::string_view tensor, int rows = 1) {
  return {.tensor = tensor, .rows = rows, .transposed = true};
}

// The range of an axis along which a variable packs several tensors.
FilePart Packed(FilePart part, int axis, int64_t begin, int64_t end) {
  part.axis = axis, part.begin = begin, part.end = end;
  return part;
}

// The weights of a linear layer of each expert: axis 0 of the variable counts them.
FilePart ExpertLinear(std::string_view tensor) { return Linear(tensor, 2); }

// The weights of all experts in one tensor, [experts, in, out] like the variable's; `rows` 0: their
// biases, [experts, out].
FilePart AllExperts(std::string_view tensor, int rows = 1) {
  return {.tensor = tensor, .rows = rows, .kept = 1};
}

// One of two variables that alternate along the last axis.
FilePart Alternating(FilePart part, int64_t first) {
  part.step = 2, part.first = first;
  return part;
}

// One of `shares` variables whose inputs are columns of one linear layer, one behind the other.
FilePart Shared(FilePart part, int shares, int share) {
  part.shares = shares, part.share = share;
  return part;
}

// The files of Llama and its like; `own`: the rows of norms beside the stream and of the MLP.
FamilyFiles DecoderFiles(std::vector<std::vector<VariableParts>> own) {
  FamilyFiles files = {
      .prefix = "model.",
      .variables =
          {
              {"wte", {Tokens("embed_tokens.weight")}},
              {"head.weight", {Tokens("lm_head.weight")}},
              {"norm_f.weight", {Flat("norm.weight")}},
              {"h.*.attn.qkv.weight",
               {Packed(Linear("layers.*.self_attn.q_proj.weight"), 2, 0, -2),
                Packed(Linear("layers.*.self_attn.k_proj.weight"), 2, -2, -1),
                Packed(Linear("layers.*.self_attn.v_proj.weight"), 2, -1, 0)}},
              {"h.*.attn.qkv.bias",
               {Packed(Flat("layers.*.self_attn.q_proj.bias"), 1, 0, -2),
                Packed(Flat("layers.*.self_attn.k_proj.bias"), 1, -2, -1),
                Packed(Flat("layers.*.self_attn.v_proj.bias"), 1, -1, 0)}},
              {"h.*.attn.q_norm.weight", {Flat("layers.*.self_attn.q_norm.weight")}},
              {"h.*.attn.k_norm.weight", {Flat("layers.*.self_attn.k_norm.weight")}},
              {"h.*.attn.q_norm_all.weight", {Flat("layers.*.self_attn.q_norm.weight")}},
              {"h.*.attn.k_norm_all.weight", {Flat("layers.*.self_attn.k_norm.weight")}},
              {"h.*.attn.proj.weight", {Linear("layers.*.self_attn.o_proj.weight", 3)}},
              {"h.*.attn.proj.bias", {Flat("layers.*.self_attn.o_proj.bias")}},
          },
      .embedding = "embed_tokens.weight",
      .head = "lm_head.weight",
      .ignored = {"layers.*.self_attn.rotary_emb.inv_freq", "rotary_emb.inv_freq"},
  };
  for (const std::vector<VariableParts>& rows : own) {
    files.variables.insert(files.variables.end(), rows.begin(), rows.end());
  }
  return files;
}

// The norms before attention and MLP.
std::vector<VariableParts> NormsBefore() {
  return {{"h.*.norm_1.weight", {Flat("layers.*.input_layernorm.weight")}},
          {"h.*.norm_2.weight", {Flat("layers.*.post_attention_layernorm.weight")}}};
}

// The norms of what attention and MLP add.
std::vector<VariableParts> NormsAfter() {
  return {{"h.*.attn.norm.weight", {Flat("layers.*.post_attention_layernorm.weight")}},
          {"h.*.mlp.norm.weight", {Flat("layers.*.post_feedforward_layernorm.weight")}}};
}

std::vector<VariableParts> DenseMlp() {
  return {{"h.*.mlp.gate.weight", {Linear("layers.*.mlp.gate_proj.weight")}},
          {"h.*.mlp.up.weight", {Linear("layers.*.mlp.up_proj.weight")}},
          {"h.*.mlp.proj.weight", {Linear("layers.*.mlp.down_proj.weight")}}};
}

std::vector<VariableParts> QwenExperts() {
  return {
      {"h.*.mlp.router.weight", {Linear("layers.*.mlp.gate.weight")}},
      {"h.*.mlp.experts.gate.weight", {ExpertLinear("layers.*.mlp.experts.#.gate_proj.weight")}},
      {"h.*.mlp.experts.up.weight", {ExpertLinear("layers.*.mlp.experts.#.up_proj.weight")}},
      {"h.*.mlp.experts.proj.weight", {ExpertLinear("layers.*.mlp.experts.#.down_proj.weight")}}};
}

// `text` with the number in place of `letter`, if it has one.
std::string Numbered(std::string_view text, char letter, int64_t number) {
  const size_t at = text.find(letter);
  if (at == std::string_view::npos) return std::string(text);
  return std::string(text.substr(0, at)) + std::to_string(number) +
         std::string(text.substr(at + 1));
}

}  // namespace

// Conv1D of GPT-2 is stored [in, out], as variables are: nothing is transposed.
const FamilyFiles& GptFiles() {
  static const auto* const files = new FamilyFiles{
      .prefix = "transformer.",
      .variables =
          {
              {"wte", {Tokens("wte.weight")}},
              {"wpe", {Direct("wpe.weight")}},
              {"head.weight", {Tokens("lm_head.weight")}},
              {"h.*.ln_1.weight", {Flat("h.*.ln_1.weight")}},
              {"h.*.ln_1.bias", {Flat("h.*.ln_1.bias")}},
              {"h.*.attn.qkv.weight", {Direct("h.*.attn.c_attn.weight")}},
              {"h.*.attn.qkv.bias", {Flat("h.*.attn.c_attn.bias")}},
              {"h.*.attn.proj.weight", {Direct("h.*.attn.c_proj.weight", 2)}},
              {"h.*.attn.proj.bias", {Flat("h.*.attn.c_proj.bias")}},
              {"h.*.ln_2.weight", {Flat("h.*.ln_2.weight")}},
              {"h.*.ln_2.bias", {Flat("h.*.ln_2.bias")}},
              {"h.*.mlp.fc.weight", {Direct("h.*.mlp.c_fc.weight")}},
              {"h.*.mlp.fc.bias", {Flat("h.*.mlp.c_fc.bias")}},
              {"h.*.mlp.proj.weight", {Direct("h.*.mlp.c_proj.weight")}},
              {"h.*.mlp.proj.bias", {Flat("h.*.mlp.c_proj.bias")}},
              {"ln_f.weight", {Flat("ln_f.weight")}},
              {"ln_f.bias", {Flat("ln_f.bias")}},
          },
      .embedding = "wte.weight",
      .head = "lm_head.weight",
      .ignored = {"h.*.attn.bias", "h.*.attn.masked_bias"},
  };
  return *files;
}

const FamilyFiles& LlamaFiles() {
  static const auto* const files = new FamilyFiles(DecoderFiles({NormsBefore(), DenseMlp()}));
  return *files;
}

const FamilyFiles& MixtralFiles() {
  static const auto* const files = new FamilyFiles(
      DecoderFiles({NormsBefore(),
                    {{"h.*.mlp.router.weight", {Linear("layers.*.block_sparse_moe.gate.weight")}},
                     {"h.*.mlp.experts.gate.weight",
                      {ExpertLinear("layers.*.block_sparse_moe.experts.#.w1.weight")}},
                     {"h.*.mlp.experts.up.weight",
                      {ExpertLinear("layers.*.block_sparse_moe.experts.#.w3.weight")}},
                     {"h.*.mlp.experts.proj.weight",
                      {ExpertLinear("layers.*.block_sparse_moe.experts.#.w2.weight")}}}}));
  return *files;
}

const FamilyFiles& Qwen3MoeFiles() {
  static const auto* const files =
      new FamilyFiles(DecoderFiles({NormsBefore(), DenseMlp(), QwenExperts()}));
  return *files;
}

const FamilyFiles& GemmaFiles() {
  static const auto* const files = [] {
    auto* const made = new FamilyFiles(
        DecoderFiles({{{"h.*.norm_1.weight", {Flat("layers.*.input_layernorm.weight")}},
                       {"h.*.norm_2.weight", {Flat("layers.*.pre_feedforward_layernorm.weight")}}},
                      NormsAfter(),
                      DenseMlp()}));
    made->other_prefixes = {"language_model.model.", "language_model.", "model.language_model."};
    made->other_parts = {"vision_tower.", "multi_modal_projector."};
    return made;
  }();
  return *files;
}

const FamilyFiles& OlmoFiles() {
  static const auto* const files = new FamilyFiles(DecoderFiles({NormsAfter(), DenseMlp()}));
  return *files;
}

const FamilyFiles& GptOssFiles() {
  constexpr std::string_view kBoth = "layers.*.mlp.experts.gate_up_proj";
  constexpr std::string_view kBothBias = "layers.*.mlp.experts.gate_up_proj_bias";
  static const auto* const files = new FamilyFiles(DecoderFiles(
      {NormsBefore(),
       {{"h.*.attn.sinks", {Flat("layers.*.self_attn.sinks")}},
        {"h.*.mlp.router.weight", {Linear("layers.*.mlp.router.weight")}},
        {"h.*.mlp.router.offset", {Flat("layers.*.mlp.router.bias")}},
        {"h.*.mlp.experts.gate.weight", {Alternating(AllExperts(kBoth), 0)}},
        {"h.*.mlp.experts.gate.bias", {Alternating(AllExperts(kBothBias, 0), 0)}},
        {"h.*.mlp.experts.up.weight", {Alternating(AllExperts(kBoth), 1)}},
        {"h.*.mlp.experts.up.bias", {Alternating(AllExperts(kBothBias, 0), 1)}},
        {"h.*.mlp.experts.proj.weight", {AllExperts("layers.*.mlp.experts.down_proj")}},
        {"h.*.mlp.experts.proj.bias", {AllExperts("layers.*.mlp.experts.down_proj_bias", 0)}}}}));
  return *files;
}

const FamilyFiles& Glm4MoeFiles() {
  static const auto* const files = [] {
    auto* const made = new FamilyFiles(DecoderFiles(
        {NormsBefore(),
         DenseMlp(),
         QwenExperts(),
         {{"h.*.mlp.router.bias", {Flat("layers.*.mlp.gate.e_score_correction_bias")}},
          {"h.*.mlp.shared.gate.weight", {Linear("layers.*.mlp.shared_experts.gate_proj.weight")}},
          {"h.*.mlp.shared.up.weight", {Linear("layers.*.mlp.shared_experts.up_proj.weight")}},
          {"h.*.mlp.shared.proj.weight", {Linear("layers.*.mlp.shared_experts.down_proj.weight")}},
          {"h.*.norm_label.weight", {Flat("layers.*.enorm.weight")}},
          {"h.*.norm_stream.weight", {Flat("layers.*.hnorm.weight")}},
          {"h.*.of_label.weight", {Shared(Linear("layers.*.eh_proj.weight"), 2, 0)}},
          {"h.*.of_stream.weight", {Shared(Linear("layers.*.eh_proj.weight"), 2, 1)}},
          {"h.*.norm_f.weight", {Flat("layers.*.shared_head.norm.weight")}}}}));
    made->block = "layers.*.";
    made->copies = {{"layers.*.embed_tokens.weight", made->embedding},
                    {"layers.*.shared_head.head.weight", made->head}};
    return made;
  }();
  return *files;
}

std::string VariableName(std::string_view pattern, int64_t block) {
  return Numbered(pattern, '*', block);
}

bool MatchesPattern(std::string_view pattern, std::string_view name, int64_t* block) {
  *block = -1;
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return name == pattern;
  const std::string_view before = pattern.substr(0, star), behind = pattern.substr(star + 1);
  if (name.size() <= before.size() + behind.size() || !name.starts_with(before) ||
      !name.ends_with(behind)) {
    return false;
  }
  const char* const begin = name.data() + star;
  const char* const end = name.data() + name.size() - behind.size();
  const auto [stop, error] = std::from_chars(begin, end, *block);
  // One name for each block: neither 007 nor -0.
  return error == std::errc() && stop == end && VariableName(pattern, *block) == name &&
         *block >= 0;
}

std::string TensorName(const FilePart& part, int64_t block) {
  return Numbered(VariableName(part.tensor, block), '#', part.index);
}

std::string_view StripPrefix(const FamilyFiles& files, std::string_view name) {
  for (const std::string_view prefix : files.other_prefixes) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name.starts_with(files.prefix) ? name.substr(files.prefix.size()) : name;
}

std::string FileName(const FamilyFiles& files, std::string_view tensor) {
  return std::string(tensor == files.head ? "" : files.prefix) + std::string(tensor);
}

const VariableParts* FindParts(const FamilyFiles& files, std::string_view variable,
                               int64_t* block) {
  std::string name(variable);
  if (files.blocks >= 0 && variable.starts_with(kNextTokens)) {
    name = VariableName("h.*.", files.blocks) + name.substr(kNextTokens.size());
  }
  for (const VariableParts& row : files.variables) {
    if (MatchesPattern(row.variable, name, block)) return &row;
  }
  return nullptr;
}

std::vector<FilePart> ListParts(const VariableParts& row, const Dims& dims) {
  std::vector<FilePart> parts;
  for (const FilePart& part : row.parts) {
    const bool repeats = part.tensor.find('#') != std::string_view::npos;
    for (int64_t i = 0; i < (repeats ? dims[0] : 1); ++i) {
      parts.push_back(part);
      if (repeats) parts.back().index = i;
    }
  }
  return parts;
}

Slice PartBox(const FilePart& part, const Dims& dims, int64_t vocab) {
  Slice box = {Dims(dims.size(), 0), dims};
  if (part.axis >= 0) {
    const int64_t size = dims[part.axis];
    const int64_t begin = part.begin < 0 ? size + part.begin : part.begin;
    const int64_t end = part.end <= 0 ? size + part.end : part.end;
    box.begin[part.axis] = begin;
    box.size[part.axis] = end - begin;
  }
  if (part.is_vocabulary && vocab > 0) box.size[0] = vocab;
  if (part.index >= 0) box.begin[0] = part.index, box.size[0] = 1;
  return box;
}

Dims TensorDims(const FilePart& part, const Dims& dims, int64_t vocab) {
  Dims size = PartBox(part, dims, vocab).size;
  if (!size.empty()) size.back() *= part.step;
  const auto rows = size.begin() + part.kept, columns = rows + part.rows;
  Dims tensor(size.begin(), rows);
  if (part.rows > 0) tensor.push_back(Product(Dims(rows, columns)));
  tensor.push_back(Product(Dims(columns, size.end())));
  if (part.transposed) std::swap(tensor.back(), tensor[tensor.size() - 2]);
  tensor.back() *= part.shares;
  return tensor;
}

}  // namespace oneflow

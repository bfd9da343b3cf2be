// Maps the variables of a model to the tensors of a Hugging Face folder: a table for each family,
// whose rows give the parts of a variable and their tensors.
//
// A variable packs several tensors along one of its axes (queries, keys and values), and has more
// dimensions than a tensor of a file (heads, head_dim). It is stored [in, out], while a linear
// layer of torch is stored [out, in]. A row says so with numbers only; slices of variables are
// copied by them (training/hugging_face/copy_slice.h).
//
//   "h.*.attn.qkv.weight" [hidden, g, r+2, d] packs along axis 2
//     [0, r)       "layers.*.self_attn.q_proj.weight" [g*r*d, hidden], transposed
//     [r, r+1)     "layers.*.self_attn.k_proj.weight" [g*d, hidden], transposed
//     [r+1, r+2)   "layers.*.self_attn.v_proj.weight" [g*d, hidden], transposed
//
// A variable of all experts has one tensor for each of them: "#" in a name stands for the index on
// axis 0, and ListParts writes out a part for each.
//
//   "h.*.mlp.experts.proj.weight" [experts, inner, hidden]
//     e            "layers.*.mlp.experts.#.down_proj.weight" [hidden, inner], transposed
//
// Or one tensor has those of all experts, and two variables may share it element by element:
//
//   "h.*.mlp.experts.gate.weight" [experts, hidden, inner]
//     even columns of "layers.*.mlp.experts.gate_up_proj" [experts, hidden, 2 * inner]
//
// The block that predicts next tokens is the one behind the last: "mtp.X" is "h.N.X" of N blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oneflow_core/tensor/layout.h"
#include "oneflow_core/tensor/shape.h"

namespace oneflow {

// One tensor of a file, as a part of a variable.
struct FilePart {
  // Without the family's prefix; "*" stands for the block, "#" for `index`.
  std::string_view tensor;
  // The first `rows` axes of the part are the first dimension of the tensor, the others the second.
  // 0: the tensor has one dimension, of all axes.
  int rows = 0;
  bool transposed = false;  // the tensor has the second dimension first
  // Axes before these, which are the tensor's first dimensions as they are.
  int kept = 0;
  // Element i of the part's last axis is element first + step * i of the tensor there: other
  // variables have those between.
  int64_t step = 1, first = 0;
  // The tensor's last dimension is those of `shares` variables, one behind the other, of which this
  // one has number `share`.
  int shares = 1, share = 0;
  int axis = -1;  // along which the variable packs its parts; -1: the part is all of it
  int64_t begin = 0, end = 0;  // on that axis; negative, and an end of 0, count from its end
  bool is_vocabulary = false;  // axis 0 counts tokens: a variable may be padded there
  int64_t index = -1;          // on axis 0, of a part that ListParts wrote out; -1: all of the axis
};

struct VariableParts {
  std::string_view variable;  // "*" stands for the block
  std::vector<FilePart> parts;
};

struct FamilyFiles {
  std::string_view prefix;  // of most names: "transformer."; files may leave it out
  std::vector<VariableParts> variables;
  // The variable and the tensor of the head. A tied model has no such variable; its folder may
  // still have the tensor, a copy of the embedding's.
  std::string_view embedding, head;
  // Tensors that are no weights, without the prefix: masks, tables of frequencies.
  std::vector<std::string_view> ignored;
  // Other prefixes, of a model that is a part of one for images, too; and how the names of the
  // other parts' tensors begin, without the prefix.
  std::vector<std::string_view> other_prefixes = {}, other_parts = {};
  // How the names of a block's tensors begin, in a family whose files may have further blocks that
  // predict later tokens.
  std::string_view block = {};
  // Tensors of such a block that are those of the model again, as some files have them; both
  // without the prefix.
  std::vector<std::pair<std::string_view, std::string_view>> copies = {};
  int64_t blocks = -1;  // of the model; -1: not known, so that "mtp.X" has no tensors
};

// How the names of variables of the block that predicts next tokens begin.
inline constexpr std::string_view kNextTokens = "mtp.";

const FamilyFiles& GptFiles();
const FamilyFiles& LlamaFiles();
// Blocks with experts have tensors of other names in each family.
const FamilyFiles& MixtralFiles();
const FamilyFiles& Qwen3MoeFiles();
const FamilyFiles& GptOssFiles();
const FamilyFiles& Glm4MoeFiles();
const FamilyFiles& GemmaFiles();
const FamilyFiles& OlmoFiles();

// Returns "h.12.attn.qkv.weight" for the pattern "h.*.attn.qkv.weight" and block 12.
std::string VariableName(std::string_view pattern, int64_t block);
// True if `name` is the pattern for some block; sets it (-1: the pattern has none).
bool MatchesPattern(std::string_view pattern, std::string_view name, int64_t* block);

// The name of a part's tensor in a block, without the prefix.
std::string TensorName(const FilePart& part, int64_t block);
// The name without prefix.
std::string_view StripPrefix(const FamilyFiles& files, std::string_view name);
// The name of a tensor as transformers writes it: with the prefix, but for the head's.
std::string FileName(const FamilyFiles& files, std::string_view tensor);

// The row of a variable; null if the family has none.
const VariableParts* FindParts(const FamilyFiles& files, std::string_view variable, int64_t* block);
// The parts of a variable of these sizes, each with the name of one tensor.
std::vector<FilePart> ListParts(const VariableParts& row, const Dims& dims);

// The box of the part in a variable of these sizes. `vocab`: the tokens that files have, if the
// variable is padded to more; 0: as many as the variable. Requires axes that the variable has, and
// a part of ListParts.
Slice PartBox(const FilePart& part, const Dims& dims, int64_t vocab);
// The sizes of the part's tensor.
Dims TensorDims(const FilePart& part, const Dims& dims, int64_t vocab);

}  // namespace oneflow

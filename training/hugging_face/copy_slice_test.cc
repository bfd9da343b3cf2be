#include "training/hugging_face/copy_slice.h"

#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "oneflow_core/base/temporary_directory.h"

namespace oneflow {
namespace {

// The index in the file's tensor of each element of a variable by the definition of a row, one
// element at a time; -1 where the part has none.
std::vector<int64_t> TensorIndices(const FilePart& part, const Dims& dims, int64_t vocab) {
  const Slice box = PartBox(part, dims, vocab);
  std::vector<int64_t> indices(Product(dims), -1);
  Dims tensor = TensorDims(part, dims, vocab);
  if (part.rows == 0) tensor.insert(tensor.end() - 1, 1);
  const int64_t last = tensor.back(), before = tensor[tensor.size() - 2];
  for (int64_t e = 0; e < box.elements(); ++e) {
    Dims at(dims.size());
    int64_t rest = e, flat = 0, kept = 0, row = 0, column = 0;
    for (size_t a = dims.size(); a-- > 0; rest /= box.size[a]) at[a] = rest % box.size[a];
    for (size_t a = 0; a < dims.size(); ++a) {
      flat = flat * dims[a] + at[a] + box.begin[a];
      const int axis = static_cast<int>(a) - part.kept;
      int64_t& side = axis < 0 ? kept : axis < part.rows ? row : column;
      side = side * box.size[a] + at[a];
    }
    column = column * part.step + part.first;
    (part.transposed ? row : column) += part.share * last / part.shares;
    indices[flat] = part.transposed ? (kept * before + column) * last + row
                                    : (kept * before + row) * last + column;
  }
  return indices;
}

// Any slice of the variable, and the blocks of at most `most` elements that copy it.
void CheckSlice(const FilePart& part, const Dims& dims, int64_t vocab, const Slice& slice,
                int64_t most) {
  const std::vector<int64_t> indices = TensorIndices(part, dims, vocab);
  std::vector<int64_t> copied(slice.elements(), -1);
  const absl::Status status =
      ForBlocks(part, dims, vocab, slice, most, [&](const CopyBlock& block) {
        CHECK(block.rows * block.columns <= most);
        for (int64_t r = 0; r < block.rows; ++r) {
          for (int64_t c = 0; c < block.columns; ++c) {
            int64_t& to =
                copied.at(block.slice_begin + r * block.slice_row + c * block.slice_column);
            CHECK(to == -1);
            to = block.tensor_begin + r * block.tensor_row + c * block.tensor_column;
          }
        }
        return absl::OkStatus();
      });
  REQUIRE(status.ok());
  std::vector<int64_t> expected;
  for (int64_t e = 0; e < slice.elements(); ++e) {
    expected.push_back(indices[IndexInTensor(dims, slice, e)]);
  }
  CHECK(copied == expected);
}

// Sizes of the variables of a small model.
const std::map<std::string, Dims>& SizesOfGpt() {
  static const std::map<std::string, Dims> sizes = {{"wte", {10, 6}},
                                                    {"wpe", {5, 6}},
                                                    {"attn.qkv.weight", {6, 3, 2, 3}},
                                                    {"attn.qkv.bias", {3, 2, 3}},
                                                    {"attn.proj.weight", {2, 3, 6}},
                                                    {"mlp.fc.weight", {6, 24}},
                                                    {"ln_f.weight", {6}}};
  return sizes;
}
const std::map<std::string, Dims>& SizesOfLlama() {
  static const std::map<std::string, Dims> sizes = {{"wte", {10, 6}},
                                                    {"head.weight", {10, 6}},
                                                    {"attn.qkv.weight", {6, 2, 5, 4}},
                                                    {"attn.qkv.bias", {2, 5, 4}},
                                                    {"attn.q_norm.weight", {4}},
                                                    {"attn.sinks", {2, 3}},
                                                    {"attn.proj.bias", {6}},
                                                    {"attn.proj.weight", {2, 3, 4, 6}},
                                                    {"mlp.gate.weight", {6, 8}},
                                                    {"mlp.proj.weight", {8, 6}},
                                                    {"mlp.router.weight", {6, 3}},
                                                    {"mlp.router.bias", {3}},
                                                    {"mlp.shared.up.weight", {6, 7}},
                                                    {"of_label.weight", {6, 6}},
                                                    {"of_stream.weight", {6, 6}},
                                                    {"mlp.experts.gate.weight", {3, 6, 4}},
                                                    {"mlp.experts.gate.bias", {3, 4}},
                                                    {"mlp.experts.up.weight", {3, 6, 4}},
                                                    {"mlp.experts.up.bias", {3, 4}},
                                                    {"mlp.experts.proj.weight", {3, 4, 6}},
                                                    {"mlp.experts.proj.bias", {3, 6}}};
  return sizes;
}

std::vector<std::pair<const FamilyFiles*, const std::map<std::string, Dims>*>> Tables() {
  return {{&GptFiles(), &SizesOfGpt()},       {&LlamaFiles(), &SizesOfLlama()},
          {&MixtralFiles(), &SizesOfLlama()}, {&Qwen3MoeFiles(), &SizesOfLlama()},
          {&GptOssFiles(), &SizesOfLlama()},  {&Glm4MoeFiles(), &SizesOfLlama()}};
}

Dims FindSizes(const std::map<std::string, Dims>& sizes, std::string_view variable) {
  for (const auto& [name, dims] : sizes) {
    if (variable.ends_with(name)) return dims;
  }
  return {};
}

TEST_CASE("CopySlice: any slice of any variable, in blocks of any size") {
  std::mt19937 random(7);
  const auto below = [&](int64_t n) {
    return std::uniform_int_distribution<int64_t>(0, n - 1)(random);
  };
  int checked = 0;
  for (const auto& [files, sizes] : Tables()) {
    for (const VariableParts& row : files->variables) {
      const Dims dims = FindSizes(*sizes, row.variable);
      if (dims.empty()) continue;
      std::vector<FilePart> parts = ListParts(row, dims);
      // As the table of MXFP4 has it.
      if (parts[0].kept == 1 && parts[0].rows == 1) parts.push_back(parts[0]);
      if (parts.size() > row.parts.size()) parts.back().transposed = true;
      for (const FilePart& part : parts) {
        for (int i = 0; i < 20; ++i, ++checked) {
          Slice slice;
          for (const int64_t size : dims) {
            slice.begin.push_back(below(size));
            slice.size.push_back(1 + below(size - slice.begin.back()));
          }
          const int64_t vocab = part.is_vocabulary && below(2) == 0 ? 7 : 0;
          CheckSlice(part, dims, vocab, i == 0 ? Slice{Dims(dims.size(), 0), dims} : slice,
                     1 + below(30));
        }
      }
    }
  }
  CHECK(checked > 300);
}

TEST_CASE("CopySlice: the parts of a variable cover it once, but for padded tokens") {
  for (const auto& [files, sizes] : Tables()) {
    for (const VariableParts& row : files->variables) {
      const Dims dims = FindSizes(*sizes, row.variable);
      if (dims.empty()) continue;
      std::vector<int> covered(Product(dims), 0);
      for (const FilePart& part : ListParts(row, dims)) {
        const std::vector<int64_t> indices = TensorIndices(part, dims, 0);
        for (size_t e = 0; e < indices.size(); ++e) covered[e] += indices[e] >= 0 ? 1 : 0;
      }
      INFO(row.variable);
      CHECK(covered == std::vector<int>(covered.size(), 1));
    }
  }
}

// q_proj of torch multiplies [out, in]; head h of the model reads group h / r.
TEST_CASE("CopySlice: queries, keys and values of Llama by their definition") {
  const Dims dims = {6, 2, 5, 4};  // hidden, groups, 3 query heads and a key and a value, head_dim
  int64_t block = 0;
  const VariableParts& row = *FindParts(LlamaFiles(), "h.0.attn.qkv.weight", &block);
  const auto flat = [&](int64_t h, int64_t g, int64_t r, int64_t d) {
    return ((h * 2 + g) * 5 + r) * 4 + d;
  };
  const auto q = TensorIndices(row.parts[0], dims, 0), k = TensorIndices(row.parts[1], dims, 0),
             v = TensorIndices(row.parts[2], dims, 0);
  CHECK(TensorDims(row.parts[0], dims, 0) == Dims{24, 6});
  CHECK(TensorDims(row.parts[1], dims, 0) == Dims{8, 6});
  const int64_t h = 5, g = 1, d = 3;
  for (int64_t r = 0; r < 3; ++r) CHECK(q[flat(h, g, r, d)] == ((g * 3 + r) * 4 + d) * 6 + h);
  CHECK(k[flat(h, g, 3, d)] == (g * 4 + d) * 6 + h);
  CHECK(v[flat(h, g, 4, d)] == (g * 4 + d) * 6 + h);
  CHECK(q[flat(h, g, 3, d)] == -1);
}

TEST_CASE("CopySlice: a tensor is that of one expert, transposed") {
  const Dims dims = {3, 6, 4};  // experts, hidden, inner
  int64_t block = 0;
  const VariableParts& row = *FindParts(MixtralFiles(), "h.7.mlp.experts.up.weight", &block);
  const std::vector<FilePart> parts = ListParts(row, dims);
  REQUIRE(parts.size() == 3);
  CHECK(TensorName(parts[2], block) == "layers.7.block_sparse_moe.experts.2.w3.weight");
  CHECK(TensorDims(parts[2], dims, 0) == Dims{4, 6});
  const auto indices = TensorIndices(parts[2], dims, 0);
  for (int64_t h = 0; h < 6; ++h) {
    for (int64_t i = 0; i < 4; ++i) {
      CHECK(indices[(2 * 6 + h) * 4 + i] == i * 6 + h);
      CHECK(indices[(1 * 6 + h) * 4 + i] == -1);
    }
  }
}

// `gate_up[e, h, 2 * i]` is a gate, and the odd columns are their factors.
TEST_CASE("CopySlice: gpt-oss has gates and factors of all experts in one tensor") {
  const Dims dims = {3, 6, 4};  // experts, hidden, inner
  int64_t block = 0;
  const auto find = [&](const char* name) {
    const VariableParts& row = *FindParts(GptOssFiles(), name, &block);
    REQUIRE(row.parts.size() == 1);
    return row.parts[0];
  };
  const FilePart gate = find("h.7.mlp.experts.gate.weight");
  const FilePart up = find("h.7.mlp.experts.up.weight");
  CHECK(TensorName(gate, block) == "layers.7.mlp.experts.gate_up_proj");
  CHECK(TensorName(up, block) == TensorName(gate, block));
  CHECK(TensorDims(gate, dims, 0) == Dims{3, 6, 8});
  const auto gates = TensorIndices(gate, dims, 0), ups = TensorIndices(up, dims, 0);
  for (int64_t e = 0; e < 3; ++e) {
    for (int64_t h = 0; h < 6; ++h) {
      for (int64_t i = 0; i < 4; ++i) {
        CHECK(gates[(e * 6 + h) * 4 + i] == (e * 6 + h) * 8 + 2 * i);
        CHECK(ups[(e * 6 + h) * 4 + i] == (e * 6 + h) * 8 + 2 * i + 1);
      }
    }
  }
  CHECK(TensorDims(find("h.7.mlp.experts.up.bias"), {3, 4}, 0) == Dims{3, 8});
  CHECK(TensorDims(find("h.7.mlp.experts.proj.weight"), {3, 4, 6}, 0) == Dims{3, 4, 6});
  CHECK(TensorDims(find("h.7.mlp.experts.proj.bias"), {3, 6}, 0) == Dims{3, 6});
}

// `eh_proj[o, i]` multiplies element i of a position's label for i below hidden, then of the
// stream.
TEST_CASE("CopySlice: the block behind the last has its inputs in one tensor, labels first") {
  const Dims dims = {6, 6};  // in, out
  FamilyFiles files = Glm4MoeFiles();
  int64_t block = 0;
  CHECK(FindParts(files, "mtp.of_label.weight", &block) == nullptr);
  files.blocks = 7;
  const FilePart label = FindParts(files, "mtp.of_label.weight", &block)->parts[0];
  const FilePart stream = FindParts(files, "mtp.of_stream.weight", &block)->parts[0];
  CHECK(TensorName(label, block) == "layers.7.eh_proj.weight");
  CHECK(TensorName(stream, block) == TensorName(label, block));
  CHECK(TensorDims(label, dims, 0) == Dims{6, 12});
  const auto labels = TensorIndices(label, dims, 0), streams = TensorIndices(stream, dims, 0);
  for (int64_t i = 0; i < 6; ++i) {
    for (int64_t o = 0; o < 6; ++o) {
      CHECK(labels[i * 6 + o] == o * 12 + i);
      CHECK(streams[i * 6 + o] == o * 12 + 6 + i);
    }
  }
  const VariableParts* norm = FindParts(files, "mtp.norm_f.weight", &block);
  CHECK(TensorName(norm->parts[0], block) == "layers.7.shared_head.norm.weight");
}

TEST_CASE("CopySlice: two variables are written to one tensor and read from it, in any type") {
  const Dims dims = {3, 5, 4};
  for (const FileType type : {FileType::kF32, FileType::kBF16, FileType::kF16}) {
    const TemporaryDirectory folder;
    const std::string path = folder.path() + "/m.safetensors";
    auto writer =
        SafetensorsWriter::Create(path, {}, {{.name = "w", .type = type, .dims = {3, 5, 8}}})
            .value();
    MappedVariable variables[2];
    std::vector<float> values[2];
    for (int64_t v = 0; v < 2; ++v) {
      const FilePart part = {.tensor = "w", .rows = 1, .kept = 1, .step = 2, .first = v};
      variables[v] = {.name = "v", .dims = dims, .parts = {{.part = part, .writer = &writer}}};
      for (int64_t e = 0; e < Product(dims); ++e) {
        values[v].push_back(static_cast<float>(v == 0 ? e + 1 : -e));
      }
      for (const Slice& slice : SplitTensor(dims, 7)) {
        std::vector<float> part_values;
        for (int64_t e = 0; e < slice.elements(); ++e) {
          part_values.push_back(values[v][IndexInTensor(dims, slice, e)]);
        }
        REQUIRE(WriteSlice(variables[v], slice, part_values).ok());
      }
    }
    REQUIRE(writer.Finish().ok());
    const auto file = SafetensorsFile::Open(path).value();
    std::vector<float> tensor(120);
    REQUIRE(file.Read(file.header().tensors[0], 0, tensor).ok());
    for (int64_t v = 0; v < 2; ++v) {
      variables[v].parts[0].file = &file;
      variables[v].parts[0].tensor = &file.header().tensors[0];
      for (size_t e = 0; e < values[v].size(); ++e) REQUIRE(tensor[2 * e + v] == values[v][e]);
      for (const Slice& slice : SplitTensor(dims, 6)) {
        std::vector<float> read(slice.elements());
        REQUIRE(ReadSlice(variables[v], slice, read).ok());
        for (int64_t e = 0; e < slice.elements(); ++e) {
          REQUIRE(read[e] == values[v][IndexInTensor(dims, slice, e)]);
        }
      }
    }
  }
}

TEST_CASE("CopySlice: files to variables and back") {
  const TemporaryDirectory folder;
  const Dims dims = {6, 2, 5, 4};
  int64_t block = 0;
  const VariableParts& row = *FindParts(LlamaFiles(), "h.0.attn.qkv.weight", &block);
  std::vector<FileTensor> tensors;
  for (const FilePart& part : row.parts) {
    tensors.push_back({.name = std::string(part.tensor),
                       .type = FileType::kF32,
                       .dims = TensorDims(part, dims, 0)});
  }
  std::vector<float> values(Product(dims));
  std::iota(values.begin(), values.end(), 1.0F);
  const std::string path = folder.path() + "/m.safetensors";
  auto writer = SafetensorsWriter::Create(path, {}, tensors).value();
  MappedVariable variable = {.name = "h.0.attn.qkv.weight", .dims = dims};
  for (size_t i = 0; i < row.parts.size(); ++i) {
    variable.parts.push_back({.part = row.parts[i], .writer = &writer, .index = i});
  }
  for (const Slice& slice : SplitTensor(dims, 50)) {
    std::vector<float> part(slice.elements());
    for (int64_t e = 0; e < slice.elements(); ++e) part[e] = values[IndexInTensor(dims, slice, e)];
    REQUIRE(WriteSlice(variable, slice, part).ok());
  }
  REQUIRE(writer.Finish().ok());

  const auto file = SafetensorsFile::Open(path).value();
  for (MappedPart& part : variable.parts) {
    part.file = &file;
    part.tensor = file.Find(part.part.tensor).value();
    const std::vector<int64_t> indices = TensorIndices(part.part, dims, 0);
    std::vector<float> tensor(Product(part.tensor->dims));
    REQUIRE(file.Read(*part.tensor, 0, tensor).ok());
    for (size_t e = 0; e < indices.size(); ++e) {
      if (indices[e] >= 0) REQUIRE(tensor[indices[e]] == values[e]);
    }
  }
  for (const Slice& slice : SplitTensor(dims, 17)) {
    std::vector<float> part(slice.elements());
    REQUIRE(ReadSlice(variable, slice, part).ok());
    for (int64_t e = 0; e < slice.elements(); ++e) {
      REQUIRE(part[e] == values[IndexInTensor(dims, slice, e)]);
    }
  }
}

TEST_CASE("CopySlice: padded tokens are zero, and are not written") {
  const TemporaryDirectory folder;
  const FilePart part = GptFiles().variables[0].parts[0];
  const std::string path = folder.path() + "/m.safetensors";
  auto writer = SafetensorsWriter::Create(
                    path, {}, {{.name = "wte.weight", .type = FileType::kF32, .dims = {3, 2}}})
                    .value();
  MappedVariable wte = {
      .name = "wte", .dims = {5, 2}, .vocab = 3, .parts = {{.part = part, .writer = &writer}}};
  const Slice all = {{0, 0}, {5, 2}};
  std::vector<float> values(10);
  std::iota(values.begin(), values.end(), 1.0F);
  REQUIRE(WriteSlice(wte, all, values).ok());
  REQUIRE(writer.Finish().ok());
  const auto file = SafetensorsFile::Open(path).value();
  wte.parts[0].file = &file;
  wte.parts[0].tensor = &file.header().tensors[0];
  REQUIRE(ReadSlice(wte, all, values).ok());
  CHECK(values == std::vector<float>{1, 2, 3, 4, 5, 6, 0, 0, 0, 0});
}

TEST_CASE("SplitTensor: slices cover the tensor in its order") {
  for (const Dims& dims : {Dims{}, Dims{7}, Dims{5, 6}, Dims{2, 3, 4}, Dims{1, 9, 2}, Dims{0, 3}}) {
    for (const int64_t most : {1, 2, 5, 8, 100}) {
      std::set<int64_t> covered;
      int64_t elements = 0;
      for (const Slice& slice : SplitTensor(dims, most)) {
        CHECK(slice.elements() <= most);
        for (int64_t e = 0; e < slice.elements(); ++e, ++elements) {
          covered.insert(IndexInTensor(dims, slice, e));
        }
      }
      CHECK(elements == Product(dims));
      CHECK(static_cast<int64_t>(covered.size()) == Product(dims));
    }
  }
  CHECK(SplitTensor({4, 6}, 12).size() == 2);
}

TEST_CASE("FileTensors: patterns") {
  int64_t block = 0;
  CHECK(MatchesPattern("h.*.attn.bias", "h.12.attn.bias", &block));
  CHECK(block == 12);
  for (const char* name : {"h.attn.bias", "h..attn.bias", "h.x.attn.bias", "h.007.attn.bias",
                           "h.-1.attn.bias", "h.1.attn.bias2", "h.1.2.attn.bias"}) {
    INFO(name);
    CHECK_FALSE(MatchesPattern("h.*.attn.bias", name, &block));
  }
  CHECK(FindParts(GptFiles(), "h.3.mlp.fc.bias", &block)->parts[0].tensor == "h.*.mlp.c_fc.bias");
  CHECK(block == 3);
  CHECK(FindParts(GptFiles(), "h.3.mlp.gate.weight", &block) == nullptr);
  CHECK(VariableName("h.*.x", 4) == "h.4.x");
}

}  // namespace
}  // namespace oneflow

#include "training/hugging_face/copy_slice.h"

#include <glog/logging.h>

#include <algorithm>
#include <set>

#include "oneflow_core/base/status.h"
#include "training/hugging_face/mxfp4.h"

namespace oneflow {
namespace {

constexpr int64_t kBlockElements = int64_t{1} << 18;

// A loop over one axis, in the order of the tensor.
struct Loop {
  int64_t count, tensor_step, slice_step;
};

int64_t Steps(const Dims& size, size_t axis) {
  int64_t product = 1;
  for (size_t a = axis + 1; a < size.size(); ++a) product *= size[a];
  return product;
}

// Joins loops whose elements follow each other in both, and leaves out those of one element.
std::vector<Loop> Joined(const std::vector<Loop>& loops) {
  std::vector<Loop> joined;
  for (const Loop& loop : loops) {
    if (loop.count == 1) continue;
    if (!joined.empty() && joined.back().tensor_step == loop.count * loop.tensor_step &&
        joined.back().slice_step == loop.count * loop.slice_step) {
      joined.back() = {joined.back().count * loop.count, loop.tensor_step, loop.slice_step};
    } else {
      joined.push_back(loop);
    }
  }
  return joined;
}

// Splits a rectangle into those of at most `most` elements.
absl::Status ForParts(const CopyBlock& all, int64_t most,
                      absl::FunctionRef<absl::Status(const CopyBlock&)> fn) {
  const int64_t columns = std::min(all.columns, most);
  const int64_t rows = std::max<int64_t>(1, most / columns);
  for (int64_t r = 0; r < all.rows; r += rows) {
    for (int64_t c = 0; c < all.columns; c += columns) {
      CopyBlock block = all;
      block.rows = std::min(rows, all.rows - r);
      block.columns = std::min(columns, all.columns - c);
      block.tensor_begin += r * all.tensor_row + c * all.tensor_column;
      block.slice_begin += r * all.slice_row + c * all.slice_column;
      RETURN_IF_ERROR(fn(block));
    }
  }
  return absl::OkStatus();
}

// Calls fn(index in the block's rows and columns, index in the slice) for all elements, in the
// order in which the slice has them closer together.
template <typename Fn>
void ForElements(const CopyBlock& block, Fn fn) {
  if (block.slice_row < block.slice_column) {
    for (int64_t c = 0; c < block.columns; ++c) {
      const int64_t at = block.slice_begin + c * block.slice_column;
      for (int64_t r = 0; r < block.rows; ++r) fn(r * block.columns + c, at + r * block.slice_row);
    }
    return;
  }
  for (int64_t r = 0; r < block.rows; ++r) {
    const int64_t at = block.slice_begin + r * block.slice_row;
    for (int64_t c = 0; c < block.columns; ++c)
      fn(r * block.columns + c, at + c * block.slice_column);
  }
}

// Calls fn(first element in the tensor, elements of the buffer) for each row of a block, and once
// for rows that follow each other.
absl::Status ForTensorRuns(const CopyBlock& block, std::span<float> buffer,
                           absl::FunctionRef<absl::Status(int64_t, std::span<float>)> fn) {
  const bool dense = block.rows == 1 || block.tensor_row == block.columns * block.tensor_column;
  const int64_t runs = dense ? 1 : block.rows;
  const int64_t length = block.rows * block.columns / runs;
  for (int64_t r = 0; r < runs; ++r) {
    RETURN_IF_ERROR(
        fn(block.tensor_begin + r * block.tensor_row, buffer.subspan(r * length, length)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ForBlocks(const FilePart& part, const Dims& dims, int64_t vocab, const Slice& slice,
                       int64_t most, absl::FunctionRef<absl::Status(const CopyBlock&)> fn) {
  const Slice box = PartBox(part, dims, vocab), shared = Intersect(box, slice);
  if (shared.elements() == 0) return absl::OkStatus();
  std::vector<size_t> axes;  // in the order of the tensor
  CHECK_LE(part.kept + part.rows, static_cast<int>(dims.size()));
  for (size_t a = 0; a < dims.size(); ++a) axes.push_back(a);
  const auto rows = axes.begin() + part.kept;
  if (part.transposed) std::rotate(rows, rows + part.rows, axes.end());
  const auto step = [&](size_t axis) { return axis + 1 == dims.size() ? part.step : 1; };
  Dims tensor_size;
  for (const size_t axis : axes) tensor_size.push_back(box.size[axis] * step(axis));
  // The tensor's last dimension is that of the axes from here on.
  const size_t last = part.transposed ? axes.size() - part.rows : part.kept + part.rows;
  CopyBlock block;
  if (part.shares > 1) block.tensor_begin = part.share * Steps(tensor_size, last - 1);
  std::vector<Loop> loops;
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = axes[i];
    const Loop loop = {shared.size[axis],
                       Steps(tensor_size, i) * step(axis) * (i < last ? part.shares : 1),
                       Steps(slice.size, axis)};
    block.tensor_begin += (shared.begin[axis] - box.begin[axis]) * loop.tensor_step;
    if (axis + 1 == dims.size()) block.tensor_begin += part.first * Steps(tensor_size, i);
    block.slice_begin += (shared.begin[axis] - slice.begin[axis]) * loop.slice_step;
    loops.push_back(loop);
  }
  loops = Joined(loops);
  // The inner loop is over neighbours in the tensor, or what comes closest.
  block.tensor_column = step(axes.back());
  if (loops.empty() || loops.back().tensor_step != block.tensor_column) {
    loops.push_back({1, block.tensor_column, 1});
  }
  const Loop columns = loops.back();
  loops.pop_back();
  Loop row = {1, columns.count, 0};
  if (!loops.empty()) {
    row = loops.back();
    loops.pop_back();
  }
  block.columns = columns.count, block.slice_column = columns.slice_step;
  block.rows = row.count, block.tensor_row = row.tensor_step, block.slice_row = row.slice_step;
  Dims index(loops.size(), 0);
  while (true) {
    CopyBlock at = block;
    for (size_t i = 0; i < loops.size(); ++i) {
      at.tensor_begin += index[i] * loops[i].tensor_step;
      at.slice_begin += index[i] * loops[i].slice_step;
    }
    RETURN_IF_ERROR(ForParts(at, most, fn));
    size_t i = loops.size();
    while (i > 0 && ++index[i - 1] == loops[i - 1].count) index[--i] = 0;
    if (i == 0) return absl::OkStatus();
  }
}

FileType ReadType(const MappedPart& mapped) {
  return mapped.scales != nullptr ? FileType::kBF16 : *mapped.tensor->type;
}

int64_t CountElements(const MappedPart& mapped) {
  return Product(mapped.tensor->dims) * (mapped.scales != nullptr ? 2 : 1);
}

absl::Status ReadPart(const MappedPart& mapped, int64_t first, int64_t step,
                      std::span<float> values) {
  if (mapped.scales == nullptr) return mapped.file->Read(*mapped.tensor, first, values, step);
  CHECK_EQ(step, 1);  // rows of MXFP4 are those of the other axis
  return ReadMxfp4({.blocks_file = mapped.file,
                    .scales_file = mapped.scales_file,
                    .blocks = mapped.tensor,
                    .scales = mapped.scales},
                   first, values);
}

size_t CountMxfp4(std::span<const MappedVariable> variables) {
  std::set<const FileTensor*> scales;
  for (const MappedVariable& variable : variables) {
    for (const MappedPart& part : variable.parts) {
      if (part.scales != nullptr) scales.insert(part.scales);
    }
  }
  return scales.size();
}

absl::Status ReadSlice(const MappedVariable& variable, const Slice& slice,
                       std::span<float> values) {
  std::fill(values.begin(), values.end(), 0.0F);
  std::vector<float> buffer(std::min<int64_t>(kBlockElements, slice.elements()));
  for (const MappedPart& mapped : variable.parts) {
    RETURN_IF_ERROR(ForBlocks(
        mapped.part, variable.dims, variable.vocab, slice, kBlockElements,
        [&](const CopyBlock& block) {
          RETURN_IF_ERROR(ForTensorRuns(block, buffer, [&](int64_t first, std::span<float> run) {
            return ReadPart(mapped, first, block.tensor_column, run);
          }));
          ForElements(block, [&](int64_t from, int64_t to) { values[to] = buffer[from]; });
          return absl::OkStatus();
        }));
  }
  return absl::OkStatus();
}

absl::Status WriteSlice(const MappedVariable& variable, const Slice& slice,
                        std::span<const float> values) {
  std::vector<float> buffer(std::min<int64_t>(kBlockElements, slice.elements()));
  for (const MappedPart& mapped : variable.parts) {
    RETURN_IF_ERROR(ForBlocks(
        mapped.part, variable.dims, variable.vocab, slice, kBlockElements,
        [&](const CopyBlock& block) {
          ForElements(block, [&](int64_t to, int64_t from) { buffer[to] = values[from]; });
          return ForTensorRuns(block, buffer, [&](int64_t first, std::span<float> run) {
            return mapped.writer->Write(mapped.index, first, run, block.tensor_column);
          });
        }));
  }
  return absl::OkStatus();
}

std::vector<Slice> SplitTensor(const Dims& dims, int64_t most) {
  std::vector<Slice> done, open = {{Dims(dims.size(), 0), dims}};
  while (!open.empty()) {
    const Slice slice = open.back();
    open.pop_back();
    const int64_t elements = slice.elements();
    if (elements <= most) {
      done.push_back(slice);
      continue;
    }
    // The first axis that can be split, into as few slices as the others allow.
    size_t axis = 0;
    while (slice.size[axis] == 1) ++axis;
    const int64_t size = slice.size[axis];
    const int64_t each = std::max<int64_t>(1, most / (elements / size));
    for (int64_t begin = (size - 1) / each * each; begin >= 0; begin -= each) {
      Slice part = slice;
      part.begin[axis] += begin;
      part.size[axis] = std::min(each, size - begin);
      open.push_back(part);
    }
  }
  return done;
}

}  // namespace oneflow

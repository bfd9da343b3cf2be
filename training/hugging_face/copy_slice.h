// Copies slices of a variable from the tensors of files that are its parts, and back. The parts are
// those of the model's table (oneflow_core/model/file_tensors.h).
//
//   ASSIGN_OR_RETURN(const MappedVariable qkv, ...);        // its parts, found in files
//   std::vector<float> values(slice.elements());
//   RETURN_IF_ERROR(ReadSlice(qkv, slice, values));
//
// Memory is bounded, whatever the sizes of variable and slice: a few MiB besides `values`. Each
// element of a file is read or written once for all slices that cover the variable.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "oneflow_core/model/file_tensors.h"
#include "oneflow_core/tensor/layout.h"
#include "training/hugging_face/safetensors.h"

namespace oneflow {

// Weights are copied in slices of at most this many elements: 32 MiB.
inline constexpr int64_t kSliceElements = int64_t{1} << 23;

// A rectangle that a slice of a variable shares with a tensor of a file. Numbers count elements.
struct CopyBlock {
  int64_t rows = 1, columns = 1;
  // Row-major in the tensor: columns are neighbours there, or alternate with other variables'.
  int64_t tensor_begin = 0, tensor_row = 0, tensor_column = 1;
  int64_t slice_begin = 0, slice_row = 0, slice_column = 0;  // row-major in the slice
};

// Calls fn for blocks of at most `most` elements that cover what the slice shares with the part.
// Stops at the first error and returns it. Requires a slice within the variable.
absl::Status ForBlocks(const FilePart& part, const Dims& dims, int64_t vocab, const Slice& slice,
                       int64_t most, absl::FunctionRef<absl::Status(const CopyBlock&)> fn);

// A variable, and where its parts are.
struct MappedPart {
  FilePart part;
  const SafetensorsFile* file = nullptr;  // to read from
  const FileTensor* tensor = nullptr;
  // Of a tensor in MXFP4 (mxfp4.h), whose blocks `file` and `tensor` are.
  const SafetensorsFile* scales_file = nullptr;
  const FileTensor* scales = nullptr;
  SafetensorsWriter* writer = nullptr;  // to write to
  size_t index = 0;                     // the tensor's, in the writer
};
// What the part's tensor is read as: its type, and how many elements.
FileType ReadType(const MappedPart& mapped);
int64_t CountElements(const MappedPart& mapped);
// Elements first, first + step, ... of the part's tensor. Requires that it has them.
absl::Status ReadPart(const MappedPart& mapped, int64_t first, int64_t step,
                      std::span<float> values);

struct MappedVariable {
  std::string name;
  Dims dims;
  int64_t vocab = 0;  // tokens that files have; 0: as many as the variable
  std::vector<MappedPart> parts;
};

// Tensors in MXFP4.
size_t CountMxfp4(std::span<const MappedVariable> variables);

// Fills `values` with the slice, dense and row-major. Elements that no part has are zero: those of
// padded tokens.
absl::Status ReadSlice(const MappedVariable& variable, const Slice& slice, std::span<float> values);
// Writes the slice to the files; padded tokens are left out.
absl::Status WriteSlice(const MappedVariable& variable, const Slice& slice,
                        std::span<const float> values);

// Slices that cover a tensor of these sizes, in its order, each of at most `most` elements.
std::vector<Slice> SplitTensor(const Dims& dims, int64_t most);

}  // namespace oneflow

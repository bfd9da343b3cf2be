// NumPy's .npy files: one dense array each. Reads format 1.0 and 2.0, writes 1.0; little-endian
// f32, f64, i32 and u8, C order. Not .npz, not pickled objects.
//
//   ASSIGN_OR_RETURN(NpyArray logits, ReadNpy("logits.npy"));
//   RETURN_IF_ERROR(WriteNpy("copy.npy", logits));
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "oneflow_core/tensor/dtype.h"
#include "oneflow_core/tensor/shape.h"

namespace oneflow {

struct NpyArray {
  DType dtype = DType::kF32;
  Dims dims;                     // none: a scalar
  std::vector<std::byte> bytes;  // row-major, Product(dims) * ElementBytes(dtype)

  // The elements, as the type that dtype names.
  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

// The head of such a file: the type and the shape of the array that follows it.
struct NpyHeader {
  std::string descr;  // the type of the elements as it is written: "'<u2'"
  Dims dims;
  int64_t offset = 0;  // the first element's, in bytes
};

// With these the file begins, whatever its name.
inline constexpr std::string_view kNpyMagic("\x93NUMPY", 6);

// `head`: the first bytes of the file `path`, the header among them. Errors: not an .npy file, one
// in Fortran order.
absl::StatusOr<NpyHeader> ParseNpyHeader(std::string_view path, std::string_view head);

// Errors: no such file, not an .npy file, Fortran order, another element type, too few or too many
// bytes.
absl::StatusOr<NpyArray> ReadNpy(const std::string& path);

// Replaces the file. bf16 is refused: NumPy has no such type.
absl::Status WriteNpy(const std::string& path, const NpyArray& array);
absl::Status WriteNpy(const std::string& path, DType dtype, const Dims& dims,
                      std::span<const std::byte> bytes);

}  // namespace oneflow

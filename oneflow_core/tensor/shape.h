// Shape: the sizes of a tensor's dimensions, with optional names. A scalar has no dimension.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace oneflow {

using Dims = std::vector<int64_t>;

struct Shape {
  Dims dims;                       // A size of 0 is bound by its name at compile time ("batch").
  std::vector<std::string> names;  // Empty, or one a dimension ("" = no name).

  Shape() = default;
  Shape(std::initializer_list<int64_t> d) : dims(d) {}
  explicit Shape(Dims d) : dims(std::move(d)) {}
  int rank() const { return static_cast<int>(dims.size()); }
  int64_t elements() const;  // Product of the sizes; 1 for a scalar.
  bool operator==(const Shape& o) const { return dims == o.dims; }
};

int64_t Product(const Dims& dims);
// True if the sizes, those of 0 left out, have at most 2^48 elements in all. Counts of elements and
// bytes, of such a shape or of parts of it, are far from overflow.
bool Countable(const Dims& dims);
std::string ToString(const Dims& dims);  // "[4,256,768]"
// The same, but a dimension that is not bound yet is its name: "[batch,768]".
std::string ToString(const Shape& shape);

}  // namespace oneflow

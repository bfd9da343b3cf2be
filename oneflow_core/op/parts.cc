// take_part: x -> y, part `index` of `parts` along dimension `dim`; join_parts: the parts in order
// -> y. With `blocks` the dimension is so many blocks, of each of which a part is taken: a device
// that has entire blocks has its own part of each. Copies, of which one undoes the other.
#include "oneflow_core/op/op_tables.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

struct Parts {
  int64_t dim = 0, parts = 1, blocks = 1;
};

// Of `x`, the tensor that has all parts, or one of them.
absl::StatusOr<Parts> FindParts(const OpView& v, const Tensor& x, int64_t parts, int64_t divisor) {
  const Parts p{AttrInt(v.op, "dim"), parts, AttrInt(v.op, "blocks", 1)};
  if (p.dim < 0 || p.dim >= x.shape.rank()) {
    return Mismatch("attribute \"dim\" is " + std::to_string(p.dim) + ", of " + Describe("x", x),
                    "dims count from 0");
  }
  const int64_t size = x.shape.dims[p.dim];
  if (p.parts < 1 || p.blocks < 1 || size % divisor != 0 || size / divisor % p.blocks != 0) {
    return Mismatch(std::to_string(p.blocks) + " blocks of " + std::to_string(p.parts) +
                        " parts do not fit dimension " + std::to_string(p.dim) + " of " +
                        Describe("x", x),
                    "use divisors");
  }
  return p;
}

Specs InferTake(const OpView& v) {
  const Tensor& x = v.in(0);
  const int64_t parts = AttrInt(v.op, "parts"), index = AttrInt(v.op, "index");
  RETURN_IF_ERROR(ExpectFloat(v, {"x"}, {0}));
  if (parts < 1 || index < 0 || index >= parts) {
    return Mismatch("part " + std::to_string(index) + " of " + std::to_string(parts),
                    "parts count from 0");
  }
  ASSIGN_OR_RETURN(const Parts p, FindParts(v, x, parts, parts));
  Shape shape = x.shape;
  shape.dims[p.dim] /= parts;
  return std::vector<OutputSpec>{{std::move(shape), x.dtype}};
}

Specs InferJoin(const OpView& v) {
  const std::vector<std::string> roles(v.n_inputs(), "x");
  std::vector<int> narrow;
  for (int i = 0; i < v.n_inputs(); ++i) narrow.push_back(i);
  RETURN_IF_ERROR(ExpectFloat(v, roles, narrow));
  for (int i = 1; i < v.n_inputs(); ++i) {
    RETURN_IF_ERROR(ExpectSameType(v, roles, 0, i));
    RETURN_IF_ERROR(
        ExpectDims("part " + std::to_string(i), v.in(i), v.in_dims(0), "that of the first part"));
  }
  ASSIGN_OR_RETURN(const Parts p, FindParts(v, v.in(0), v.n_inputs(), 1));
  Shape shape = v.in(0).shape;
  shape.dims[p.dim] *= v.n_inputs();
  return std::vector<OutputSpec>{{std::move(shape), v.in(0).dtype}};
}

// As sums are split, but along `dim` by entire blocks alone.
Rows PartsRows(const OpView& v) {
  const auto dim = static_cast<int>(AttrInt(v.op, "dim"));
  const int64_t blocks = AttrInt(v.op, "blocks", 1);
  const auto row = [&v](Sbp sbp, int64_t divided = 0) {
    return Signature{std::vector<Sbp>(v.n_inputs(), sbp), {sbp}, divided};
  };
  Rows rows = {row(B())};
  for (int i = 0; i < v.in(0).shape.rank(); ++i) {
    if (i != dim) rows.push_back(row(S(i)));
  }
  if (blocks > 1) rows.push_back(row(S(dim), blocks));
  rows.push_back(row(P()));
  return rows;
}

constexpr char kPartsInstead[] = "the compiler adds it, to gather keys and values in pieces";

Samples TakeSamples(const SampleSizes& s) {
  const auto attrs = [](int64_t dim, int64_t parts, int64_t index, int64_t blocks) {
    return AttrMap{{"dim", dim}, {"parts", parts}, {"index", index}, {"blocks", blocks}};
  };
  return AlsoNarrow({{{{{s.b, s.t, 4, s.d}}}, attrs(2, 4, 3, 1)},
                     {{{{s.b, s.t, 24, 2, s.d}}}, attrs(2, 2, 1, 6)}});
}

Samples JoinSamples(const SampleSizes& s) {
  const auto attrs = [](int64_t dim, int64_t blocks) {
    return AttrMap{{"dim", dim}, {"blocks", blocks}};
  };
  const SampleTensor one{{s.b, s.t, 2, s.d}}, two{{s.b, s.t, 12, 2, s.d}};
  return AlsoNarrow({{{one, one, one}, attrs(2, 1)}, {{two, two}, attrs(2, 6)}});
}

}  // namespace

std::vector<OpDef> PartsOps() {
  return {{.kind = "take_part",
           .usage = "x -> y",
           .inputs = {1},
           .attrs = {{"dim", AttrType::kInt, true},
                     {"parts", AttrType::kInt, true},
                     {"index", AttrType::kInt, true},
                     {"blocks", AttrType::kInt}},
           .infer = InferTake,
           .signatures = PartsRows,
           .flops = NoFlops,
           .overwrites = true,
           .precision = {Precision::kEither},
           .instead = kPartsInstead,
           .exact = true,
           .samples = TakeSamples},
          {.kind = "join_parts",
           .usage = "x, ... -> y",
           .inputs = {1, kAnyNumber},
           .attrs = {{"dim", AttrType::kInt, true}, {"blocks", AttrType::kInt}},
           .infer = InferJoin,
           .signatures = PartsRows,
           .flops = NoFlops,
           .overwrites = true,
           .precision = {Precision::kEither},
           .instead = kPartsInstead,
           .exact = true,
           .samples = JoinSamples}};
}

}  // namespace oneflow

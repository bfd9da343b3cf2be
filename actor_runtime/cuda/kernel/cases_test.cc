// Cases beyond the samples of kernel_test.cc: pieces of tensors, masks, many inputs, NaN and
// infinity, ids that repeat, heads and rows of other widths.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/cuda/kernel/cuda_kernel_test_util.h"
#include "actor_runtime/cuda/kernel/twins_for_test.h"
#include "actor_runtime/kernel/kernel_samples.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/tensor/layout.h"

namespace oneflow::cuda {
namespace {

Port PiecePort(const Tensor& tensor, Sbp sbp, const Mesh& mesh, int device) {
  const Layout layout = MakeLayout(tensor.shape.dims, {sbp});
  return SlicePort(tensor.shape.dims, LocalSlice(layout, mesh, {device}), tensor.dtype);
}

void CheckPiece(const KernelSample& sample, const Graph& graph, const Signature& row,
                const Mesh& mesh, int device) {
  const Op& op = graph.ops.back();
  const int updates = UpdateInputs(sample.kind);
  const std::vector<Values> inputs = InputValues(sample);
  std::vector<std::vector<Port>> in;
  std::vector<Port> out;
  for (size_t i = updates; i < op.inputs.size(); ++i) {
    in.push_back({PiecePort(graph.tensors[op.inputs[i]], row.in[i], mesh, device)});
  }
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    out.push_back(PiecePort(graph.tensors[op.outputs[i]], row.out[i], mesh, device));
  }
  Twins twins(sample.kind, sample.attrs, in, out);
  for (int i = 0; i < static_cast<int>(inputs.size()); ++i) {
    const Port& port = i < updates ? out[i] : in[i - updates][0];
    const Values piece = ExtractSlice(inputs[i], port.dims, port.slice);
    i < updates ? twins.SetOutput(i, piece) : twins.SetInput(i - updates, piece);
  }
  twins.Call();
  FindDef(sample).exact ? twins.CheckSameBits() : twins.CheckNear();
}

TEST_CASE("pieces of every row of every SBP table, ragged and empty ones, are as on the CPU") {
  // Every second row, on a few devices, which over rows are all of them: whole tensors are those of
  // kernel_test.cc.
  const bool full = std::getenv("ONEFLOW_TEST_FULL") != nullptr;
  int pieces = 0, turn = 0, rows = 0;
  for (const KernelSample& sample : SmallSamples()) {
    if (!RunsOnCuda(sample)) continue;
    const Graph graph = MakeSampleGraph(sample, DType::kF32);
    for (const Signature& row : FindDef(sample).signatures({graph, graph.ops.back()})) {
      if (++rows % 2 != 0 && !full) continue;
      const int drawn = row.divided % 3 != 0 || ++turn % 3 == 0 ? 2 : 3;
      for (const int devices : {1, 2, 3}) {
        if (row.divided % devices != 0 || (!full && devices != drawn)) continue;
        for (int device = 0; device < devices; ++device) {
          INFO(ToString(sample) << ", device " << device << " of " << devices);
          CheckPiece(sample, graph, row, Mesh{{{"x", devices}}}, device);
          ++pieces;
        }
      }
    }
  }
  CHECK(pieces > 250);
}

TEST_CASE("adamw out of place has the bits of adamw in place, a skipped step the old ones") {
  const double inf = std::numeric_limits<double>::infinity();
  for (const int64_t n : {1, 37, 5000}) {
    const Port x = FullPort({n}, DType::kF32), scalar = FullPort({});
    const std::vector<Values> old = {RandomValues(n, 1), RandomValues(n, 2),
                                     RandomValues(n, 3, 0, 1)};
    for (const double norm : {4.0, inf, std::numeric_limits<double>::quiet_NaN()}) {
      const auto make = [&](const std::vector<int64_t>& apart) {
        AttrMap attrs = {{"decay", true}};
        if (!apart.empty()) attrs["apart"] = apart;
        std::vector<std::vector<Port>> in = {{x}, {scalar}};
        in.insert(in.end(), apart.size(), {x});
        CudaHarness h(KernelHarness("adamw", attrs, std::move(in), {x, x, x}).setup());
        h.run().optimizer = TestStepNumbers;
        h.SetInput(0, RandomValues(n, 4));
        h.SetInput(1, {norm});
        for (int i = 0; i < 3; ++i) {
          if (std::find(apart.begin(), apart.end(), i) == apart.end()) h.SetOutput(i, old[i]);
        }
        for (size_t i = 0; i < apart.size(); ++i) {
          h.SetInput(2 + static_cast<int>(i), old[apart[i]]);
        }
        REQUIRE(h.Make() == absl::OkStatus());
        REQUIRE(h.Call(false, 3) == absl::OkStatus());
        CHECK(h.IsTidy());
        return h;
      };
      const CudaHarness in_place = make({});
      for (const std::vector<int64_t>& apart :
           std::vector<std::vector<int64_t>>{{0}, {1}, {2}, {1, 2}, {2, 0}, {0, 1, 2}, {2, 1, 0}}) {
        const CudaHarness next = make(apart);
        for (int i = 0; i < 3; ++i) CHECK(next.OutputBytes(i) == in_place.OutputBytes(i));
      }
      // In f32, in which they were set.
      CudaHarness none(KernelHarness("adamw", {}, {{x}, {scalar}}, {x, x, x}).setup());
      none.SetOutput(0, old[0]);
      CHECK((in_place.OutputBytes(0) == none.OutputBytes(0)) == !std::isfinite(norm));
    }
  }
}

TEST_CASE("dropout's masks are the CPU's, of any slice, step and micro-batch") {
  const Dims dims{6, 5, 37};
  const Mesh mesh{{{"x", 3}}};
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (int dim = -1; dim < 3; ++dim) {
      for (int device = 0; device < 3; ++device) {
        const NdSbp sbp{dim < 0 ? B() : S(dim)};
        const Port port = SlicePort(dims, LocalSlice(MakeLayout(dims, sbp), mesh, {device}), dtype);
        const Port mask = SlicePort(dims, port.slice, DType::kU8);
        Twins plain("dropout", {{"rate", 0.3}, {"mask", std::string("m")}}, {{port}}, {port});
        Twins stored("stored_dropout", {{"rate", 0.3}}, {{port}}, {port, mask});
        for (Twins* twins : {&plain, &stored}) {
          for (RunContext* run : {&twins->cpu.run(), &twins->gpu.run()}) {
            run->seed = 77;
            run->first_step = 3;
            run->micro_batches = 4;
          }
          twins->SetInput(0, RandomValues(port.slice.elements(), 5));
          INFO("dim " << dim << ", device " << device);
          twins->Call(/*accumulate=*/false, /*firing=*/6);
          twins->CheckSameBits();
        }
      }
    }
  }
}

// A part of a tensor, of each dimension.
Slice PartOfEach(const Dims& dims, int64_t from) {
  Slice slice{Dims(dims.size(), from), dims};
  for (int64_t& size : slice.size) size -= from + 1;
  return slice;
}

TEST_CASE("slices of every type and position are copied") {
  const std::vector<Dims> all = {{7}, {4, 64}, {5, 6, 7}, {3, 4, 5, 8}, {2, 3, 2, 3, 2, 16}};
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kI32, DType::kBF16, DType::kU8}) {
    for (const Dims& dims : all) {
      const Slice full_slice{Dims(dims.size(), 0), dims};
      for (const bool to_part : {true, false}) {
        for (const int64_t from : {0, 1}) {
          const Port part = SlicePort(dims, PartOfEach(dims, from), dtype);
          const Port full = SlicePort(dims, full_slice, dtype);
          Twins twins(to_part ? "slice" : "zero_fill", {}, {{to_part ? full : part}},
                      {to_part ? part : full});
          for (const int fill : {1, 2}) {
            twins.Change([&](KernelSetup& s) { s.fill = to_part ? 0 : fill; });
            INFO(std::string(Name(dtype)) << " " << ToString(dims) << " from " << from);
            const int64_t n = (to_part ? full : part).slice.elements();
            twins.SetInput(0, RandomIds(n, 9, 100));
            twins.Call();
            twins.CheckSameBits();
            if (fill == 1) twins.Call(/*accumulate=*/true);
            if (fill == 1) twins.CheckSameBits();
          }
        }
      }
    }
  }
}

TEST_CASE("a partial tensor of others than the first device is zero") {
  const Port port = FullPort({5, 3}, DType::kBF16);
  Twins twins("zero_fill", {}, {{port}}, {port});
  twins.SetInput(0, Values(15, 1));
  for (const int at : {0, 1}) {
    twins.Change([&](KernelSetup& s) {
      s.zero_unless_first = {0};
      s.coordinate = {at};
    });
    twins.Call();
    twins.CheckSameBits();
    CHECK(twins.gpu.Output(0) == Values(15, at == 0 ? 1 : 0));
  }
}

TEST_CASE("sums and maxima of several sources are taken in their order") {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI32}) {
    for (const int reduce : {1, 2}) {
      const Dims dims{4, 33};
      std::vector<Port> sources(3, FullPort(dims, dtype));
      for (int j = 0; j < 3; ++j) sources[j].coordinate = {j};
      Twins twins("slice", {}, {sources}, {SlicePort(dims, PartOfEach(dims, 1), dtype)});
      twins.Change([&](KernelSetup& s) {
        s.mesh = Mesh{{{"x", 3}}};
        s.coordinate = {0};
        s.reduce = reduce;
        s.reduce_axes = {0};
      });
      for (int j = 0; j < 3; ++j) {
        const Values values = RandomValues(Product(dims), 11 + j, -100, 100);
        twins.SetInput(0, values, j);
      }
      for (const bool accumulate : {false, true}) {
        twins.Call(accumulate);
        twins.CheckSameBits();
      }
    }
  }
}

TEST_CASE("sums of more tensors than a launch takes are one sum") {
  for (const int inputs : {128, 129, 300}) {
    const Port x = FullPort({37}, DType::kF32);
    Twins twins("add_n", {}, std::vector<std::vector<Port>>(inputs, {x}), {x});
    for (int i = 0; i < inputs; ++i) twins.SetInput(i, RandomValues(37, i));
    for (const bool accumulate : {false, true}) {
      twins.Call(accumulate);
      twins.CheckSameBits();
    }
    const Port scalar = FullPort({}, DType::kF64);
    Twins norm("global_norm", {}, std::vector<std::vector<Port>>(inputs, {scalar}), {scalar});
    for (int i = 0; i < inputs; ++i) norm.SetInput(i, RandomValues(1, i, 0, 1));
    norm.Call();
    norm.CheckSameBits();
  }
  const Port x = FullPort({4}, DType::kBF16);
  CudaHarness many(Twins("add_n", {}, std::vector<std::vector<Port>>(129, {x}), {x}).cpu.setup());
  CHECK(many.Make().code() == absl::StatusCode::kUnimplemented);
}

TEST_CASE("rows of ids that repeat are added in the order of tokens") {
  constexpr int64_t kVocab = 40;
  // Many tokens for the scans of ids, a wide row for the blocks of columns.
  for (const auto& [width, tokens] :
       {std::pair<int64_t, int64_t>{3, 2503}, {8, 2503}, {1100, 300}}) {
    const Dims table{kVocab, 2 * width};
    // A piece: rows 10 .. 29, the second half of the columns.
    const Slice piece{{10, width}, {20, width}};
    const Slice of_dy{{0, width}, {tokens, width}};
    Twins twins(
        "embedding_grad", {{"vocab", kVocab}},
        {{FullPort({tokens}, DType::kI32)}, {SlicePort({tokens, 2 * width}, of_dy, DType::kF32)}},
        {SlicePort(table, piece, DType::kF32)});
    Values ids = RandomIds(tokens, 3, kVocab);
    for (int64_t i = 0; i < tokens; i += 3) ids[i] = 17;
    twins.SetInput(0, ids);
    twins.SetInput(1, RandomValues(tokens * width, 4));
    for (const bool accumulate : {false, true}) {
      twins.Call(accumulate);
      twins.CheckSameBits();
    }
  }
}

TEST_CASE("a position that is outside shows as numbers that are none") {
  for (const int position : {-1, 3, 4}) {
    CudaHarness h(KernelHarness("positional_embedding_at", {},
                                {{FullPort({1, 2, 1}, DType::kF32)},
                                 {FullPort({3, 1}, DType::kF32)},
                                 {FullPort({1}, DType::kI32)}},
                                {FullPort({1, 2, 1}, DType::kF32)})
                      .setup());
    h.SetInput(0, {0, 0});
    h.SetInput(1, {10, 20, 30});
    h.SetInput(2, {static_cast<double>(position)});
    REQUIRE(h.MakeAndCall() == absl::OkStatus());
    CHECK(std::isnan(h.Output(0)[0]));
    CHECK(std::isnan(h.Output(0)[1]));
    h.SetInput(2, {2});
    REQUIRE(h.Call() == absl::OkStatus());
    CHECK(h.Output(0) == Values{30, 30});
  }
}

// Ports of cached_attention, of two heads a group.
Twins CachedTwins(int64_t t, int64_t positions, int64_t d, int64_t window = 0) {
  const Port cache = FullPort({2, 2, 3, positions, d}, DType::kF32);
  const Port q = FullPort({2, t, 3, 2, d}, DType::kF32), k = FullPort({2, t, 3, d}, DType::kF32);
  return Twins("cached_attention", {{"window", window}},
               {{q}, {k}, {k}, {FullPort({1}, DType::kI32)}}, {cache, q});
}

TEST_CASE("attention to a cache: one position at a time has the bits of all at once") {
  constexpr int64_t kT = 150, kRows[] = {3 * 2 * 40, 3 * 40, 3 * 40};  // of q, k and v
  for (const int64_t window : {0, 30}) {
    Twins all = CachedTwins(kT, kT, 40, window), one = CachedTwins(1, kT, 40, window);
    const Values empty(2 * 2 * 3 * kT * 40, 0);
    Values parts[3];
    all.SetOutput(0, empty);
    one.SetOutput(0, empty);
    for (int part = 0; part < 3; ++part) {
      parts[part] = RandomValues(2 * kT * kRows[part], 5 + part);
      all.SetInput(part, parts[part]);
    }
    all.SetInput(3, {0});
    all.Call();
    all.CheckNear();
    const Values expected = all.gpu.Output(1);
    REQUIRE(one.gpu.Make() == absl::OkStatus());
    const auto rows_at = [](const Values& all, int64_t row, int64_t p) {
      Values rows;
      for (int64_t b = 0; b < 2; ++b) {
        const auto at = all.begin() + (b * kT + p) * row;
        rows.insert(rows.end(), at, at + row);
      }
      return rows;
    };
    for (int64_t p = 0; p < kT; ++p) {
      for (int part = 0; part < 3; ++part) {
        one.gpu.SetInput(part, rows_at(parts[part], kRows[part], p));
      }
      one.gpu.SetInput(3, {static_cast<double>(p)});
      REQUIRE(one.gpu.Call() == absl::OkStatus());
      REQUIRE(one.gpu.Output(1) == rows_at(expected, kRows[0], p));
    }
    CHECK(one.gpu.OutputBytes(0) == all.gpu.OutputBytes(0));
  }
}

TEST_CASE("attention to a cache: past its end, outside of it, and heads of any width") {
  for (const int64_t d : {1, 33, 64, 130, 300}) {
    Twins twins = CachedTwins(5, 7, d);
    twins.SetOutput(0, RandomValues(2 * 2 * 3 * 7 * d, 6));
    twins.SetInput(0, RandomValues(2 * 5 * 6 * d, 7));
    twins.SetInput(1, RandomValues(2 * 5 * 3 * d, 8));
    twins.SetInput(2, RandomValues(2 * 5 * 3 * d, 9));
    twins.SetInput(3, {4});
    INFO("d " << d);
    twins.Call();
    twins.CheckNear();
    const std::vector<std::byte> cache = twins.gpu.OutputBytes(0);
    twins.gpu.SetInput(3, {7});
    REQUIRE(twins.gpu.Call() == absl::OkStatus());
    CHECK(twins.gpu.OutputBytes(0) == cache);
    for (const double v : twins.gpu.Output(1)) REQUIRE(std::isnan(v));
  }
}

TEST_CASE("rows of any width") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t width : {1, 2, 31, 255, 260, 1025, 4096, 9001}) {
      INFO("width " << width << ", " << std::string(Name(dtype)));
      constexpr int64_t kRows = 3;
      const Port x = FullPort({kRows, width}, dtype), row = FullPort({width}, DType::kF32);
      const Port of_row = FullPort({kRows}, DType::kF32), ids = FullPort({kRows}, DType::kI32);
      const Values values = RandomValues(kRows * width, 1, -3, 3);
      const Values gamma = RandomValues(width, 2), labels = {0, static_cast<double>(width - 1), -5};
      Twins norm("layer_norm", {}, {{x}, {row}}, {x, of_row, of_row});
      norm.SetInput(0, values);
      norm.SetInput(1, gamma);
      norm.Call();
      norm.CheckNear();
      Twins rms("rms_norm", {}, {{x}, {row}}, {x, of_row});
      rms.SetInput(0, values);
      rms.SetInput(1, gamma);
      rms.Call();
      rms.CheckNear();
      Twins max("row_max", {}, {{x}}, {of_row});
      max.SetInput(0, values);
      max.Call();
      max.CheckSameBits();
      Twins sum("row_sum_exp", {}, {{x}, {of_row}}, {of_row});
      sum.SetInput(0, values);
      sum.SetInput(1, max.cpu.Output(0));
      sum.Call();
      sum.CheckNear();
      Twins grad("cross_entropy_grad", {{"scale", 0.5}},
                 {{x}, {ids}, {of_row}, {of_row}, {FullPort({}, DType::kF32)}}, {x});
      grad.SetInput(0, values);
      grad.SetInput(1, labels);
      grad.SetInput(2, max.cpu.Output(0));
      grad.SetInput(3, sum.cpu.Output(0));
      grad.SetInput(4, {2});
      grad.Call();
      grad.CheckNear();
    }
  }
}

TEST_CASE("adamw clips by the norm, skips a step whose norm is not finite, and follows the CPU's") {
  constexpr int64_t kN = 1030;
  const Port x = FullPort({kN}, DType::kF32), scalar = FullPort({}, DType::kF64);
  const double inf = std::numeric_limits<double>::infinity();
  for (const double norm : {0.5, 4.0, inf, std::nan("")}) {
    for (const bool decay : {false, true}) {
      Twins twins("adamw", {{"decay", decay}}, {{x}, {scalar}}, {x, x, x});
      for (RunContext* run : {&twins.cpu.run(), &twins.gpu.run()}) run->first_step = 10;
      const Values w = RandomValues(kN, 1), m = RandomValues(kN, 2), v = RandomValues(kN, 3, 0, 1);
      twins.SetOutput(0, w), twins.SetOutput(1, m), twins.SetOutput(2, v);
      twins.SetInput(0, RandomValues(kN, 4));
      twins.SetInput(1, {norm});
      twins.Call(/*accumulate=*/false, /*firing=*/2);
      std::isfinite(norm) ? twins.CheckNear() : twins.CheckSameBits();
      CHECK((twins.gpu.Output(0) == w) == !std::isfinite(norm));
    }
  }
  Twins without("adamw", {{"decay", true}}, {{x}}, {x, x, x});
  without.gpu.run().optimizer = nullptr;
  REQUIRE(without.gpu.Make() == absl::OkStatus());
  CHECK(without.gpu.Call().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("sum_squares adds up many blocks, and none") {
  for (const int64_t n : {int64_t{0}, int64_t{1}, int64_t{4096 * 300 + 123}}) {
    Twins twins("sum_squares", {}, {{FullPort({n}, DType::kF32)}}, {FullPort({}, DType::kF64)});
    twins.SetInput(0, RandomValues(n, 3));
    twins.Call();
    CHECK(twins.gpu.Output(0)[0] == Approx(twins.cpu.Output(0)[0]).epsilon(1e-13));
  }
}

TEST_CASE("in bf16 the gradient at a label is rounded after the subtraction") {
  const Port row = FullPort({1, 2}, DType::kBF16), scalar = FullPort({1}, DType::kF32);
  Twins twins(
      "cross_entropy_grad", {},
      {{row}, {FullPort({1}, DType::kI32)}, {scalar}, {scalar}, {FullPort({}, DType::kF32)}},
      {row});
  // The label's probability is 1 - 2^-12, which bf16 would round to 1.
  twins.SetInput(0, {8, 8 - 8.3125});
  twins.SetInput(1, {0});
  twins.SetInput(2, {8}), twins.SetInput(3, {1 + std::exp(-8.3125)}), twins.SetInput(4, {1});
  twins.Call();
  CHECK(twins.gpu.Output(0)[0] < -2e-4);
  CHECK(twins.gpu.Output(0)[0] == Approx(-twins.gpu.Output(0)[1]).epsilon(0.01));
}

TEST_CASE("a kind without a kernel for a type is refused") {
  const Port x = FullPort({4}, DType::kF64);
  CudaHarness h(KernelHarness("gelu", {}, {{x}}, {x}).setup());
  CHECK(h.Make().code() == absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace oneflow::cuda

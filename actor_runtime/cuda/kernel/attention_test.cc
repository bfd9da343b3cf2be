// Attention beyond the samples of kernel_test.cc: any length, heads of any width, windows,
// positions and documents in any order, and rows that see nothing.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/cuda/kernel/cuda_kernel_test_util.h"
#include "actor_runtime/cuda/kernel/twins_for_test.h"

namespace oneflow::cuda {
namespace {

// Two groups of `heads` heads; two samples if positions are given, and perhaps documents, else one,
// and s is t.
struct Attention {
  int64_t t, s, heads, d;
  DType dtype;
  int64_t window = 0;
  // Of one sample; the second has those of `shifted` rows further on, round about.
  Values q_positions, k_positions, q_documents, k_documents;
  int64_t shifted = 1;
  // Rows whose queries, keys, values and gradients are no numbers on the GPU.
  std::vector<int64_t> spoilt_queries = {}, spoilt_keys = {};
  double scale = 0, cap = 0;
  Values sinks = {};  // of the heads of both groups
};

Values BothSamples(const Values& one, int64_t shifted) {
  Values both = one;
  for (size_t i = 0; i < one.size(); ++i) both.push_back(one[(i + shifted) % one.size()]);
  return both;
}

// Sets an input of both, [samples, rows, ...], and makes no numbers of these rows on the GPU.
void SetSpoilt(Twins& twins, int input, Values values, int64_t samples, int64_t rows,
               const std::vector<int64_t>& spoilt) {
  twins.SetInput(input, values);
  const int64_t width = static_cast<int64_t>(values.size()) / samples / rows;
  for (int64_t sample = 0; sample < samples; ++sample) {
    for (const int64_t row : spoilt) {
      std::fill_n(values.begin() + (sample * rows + row) * width, width,
                  std::numeric_limits<double>::quiet_NaN());
    }
  }
  twins.gpu.SetInput(input, values);
}

// The kernel and its gradient against the CPU's. Returns the lse of the GPU.
Values CheckAttention(const Attention& a) {
  INFO("t " << a.t << ", s " << a.s << ", heads " << a.heads << ", d " << a.d << ", "
            << std::string(Name(a.dtype)) << ", window " << a.window << ", placed "
            << !a.q_positions.empty() << ", in documents " << !a.q_documents.empty());
  const int64_t b = a.q_positions.empty() ? 1 : 2;
  const Port q = FullPort({b, a.t, 2, a.heads, a.d}, a.dtype);
  const Port k = FullPort({b, a.s, 2, a.d}, a.dtype);
  const Port lse = FullPort({b, 2, a.heads, a.t}, DType::kF32);
  const Values queries = RandomValues(Product(q.dims), 1, -2, 2);
  const Values keys = RandomValues(Product(k.dims), 3, -2, 2);
  const Values values = RandomValues(Product(k.dims), 4, -2, 2);
  std::vector<std::vector<Port>> where;
  std::vector<const Values*> numbers;
  if (!a.q_positions.empty()) numbers = {&a.q_positions, &a.k_positions};
  if (!a.q_documents.empty()) numbers.insert(numbers.end(), {&a.q_documents, &a.k_documents});
  for (size_t i = 0; i < numbers.size(); ++i) {
    where.push_back({FullPort({2, i % 2 == 0 ? a.t : a.s}, DType::kI32)});
  }
  const auto set_where = [&](Twins& twins, int first) {
    for (const Values* v : numbers) twins.SetInput(first++, BothSamples(*v, a.shifted));
  };
  const auto set_queries = [&](Twins& twins, int input, const Values& v) {
    SetSpoilt(twins, input, v, b, a.t, a.spoilt_queries);
  };
  const auto set_keys = [&](Twins& twins, int input, const Values& v) {
    SetSpoilt(twins, input, v, b, a.s, a.spoilt_keys);
  };
  std::vector<std::vector<Port>> in = {{q}, {k}, {k}};
  const Port sinks = FullPort({2, a.heads}, DType::kF32);
  AttrMap attrs = {{"window", a.window}, {"scale", a.scale}, {"soft_cap", a.cap}};
  AttrMap of_forward = attrs;
  if (!a.sinks.empty()) in.push_back({sinks}), of_forward["sinks"] = true;
  in.insert(in.end(), where.begin(), where.end());
  Twins forward("attention", of_forward, in, {q, lse});
  set_queries(forward, 0, queries);
  set_keys(forward, 1, keys);
  set_keys(forward, 2, values);
  if (!a.sinks.empty()) forward.SetInput(3, a.sinks);
  set_where(forward, a.sinks.empty() ? 3 : 4);
  forward.Call();
  forward.CheckNear();
  in = {{q}, {q}, {k}, {k}, {q}, {lse}};
  in.insert(in.end(), where.begin(), where.end());
  Twins backward("attention_grad", attrs, in, {q, k, k});
  const Values dout = RandomValues(Product(q.dims), 2);
  set_queries(backward, 0, dout);
  set_queries(backward, 1, queries);
  set_keys(backward, 2, keys);
  set_keys(backward, 3, values);
  backward.SetInput(4, forward.cpu.Output(0));
  backward.SetInput(5, forward.cpu.Output(1));
  set_where(backward, 6);
  backward.Call();
  backward.CheckNear();
  if (!a.sinks.empty()) {
    Twins of_sinks("attention_sinks_grad", {}, {{q}, {q}, {lse}, {sinks}}, {sinks});
    const Values inputs[] = {dout, forward.cpu.Output(0), forward.cpu.Output(1), a.sinks};
    for (int i = 0; i < 4; ++i) of_sinks.SetInput(i, inputs[i]);
    of_sinks.Call();
    of_sinks.CheckNear();
  }
  if (a.t == 64) CHECK(!backward.gpu.Call(/*accumulate=*/true).ok());
  return forward.gpu.Output(1);
}

constexpr DType kTypes[] = {DType::kF32, DType::kBF16};

// True for one of so many cases, drawn but the same in each run, and in the full tier for all.
bool IsDrawn(uint64_t of) {
  static uint64_t turn = 0;
  const uint64_t drawn = (turn++ * 0x9E3779B97F4A7C15) >> 32;
  return std::getenv("ONEFLOW_TEST_FULL") != nullptr || drawn % of == 0;
}

// A type and a width of heads for each text of the kernels that knows places.
struct Placed {
  DType dtype;
  int64_t d;
};
constexpr Placed kPlaced[] = {{DType::kF32, 40}, {DType::kBF16, 64}, {DType::kBF16, 128}};

TEST_CASE("attention over any length, in heads of any width") {
  for (const DType dtype : kTypes) {
    for (const int64_t t : {1, 3, 63, 64, 65, 130}) CheckAttention({t, t, 1, 64, dtype});
    for (const int64_t t : {1, 64, 129, 200}) {
      if (IsDrawn(3)) CheckAttention({t, t, 1, 128, dtype});
    }
    for (const int64_t d : {1, 8, 31, 65, 96, 129, 200, 260}) {
      if (IsDrawn(3)) CheckAttention({70, 70, 1, d, dtype});
    }
  }
}

TEST_CASE("attention of several heads a group") {
  for (const DType dtype : kTypes) {
    for (const int64_t t : {1, 63, 64, 130}) {
      if (IsDrawn(2)) CheckAttention({t, t, 3, 64, dtype});
    }
    for (const int64_t d : {8, 128, 130}) {
      if (IsDrawn(2)) CheckAttention({70, 70, 2, d, dtype});
    }
  }
}

TEST_CASE("attention in windows of any width") {
  for (const auto& [dtype, d] : kPlaced) {
    for (const int64_t window : {1, 31, 64, 150, 200}) {
      if (IsDrawn(3)) CheckAttention({200, 200, 1, d, dtype, window});
    }
    for (const int64_t t : {1, 63, 65}) {
      if (IsDrawn(2)) CheckAttention({t, t, 2, d, dtype, 17});
    }
    CheckAttention({10, 10, 3, d, dtype, int64_t{1} << 62});
  }
}

TEST_CASE("attention with sinks, and of scores that are scaled and capped") {
  for (const auto& [dtype, d] : kPlaced) {
    for (const int64_t window : {0, 40}) {
      for (const double cap : {0.0, 1.5}) {
        if (!IsDrawn(2)) continue;
        Attention a{130, 130, 2, d, dtype, window};
        a.scale = 0.1, a.cap = cap, a.sinks = {-3, 0.5, 30, 2};
        CheckAttention(a);
      }
    }
  }
}

// Rows of consecutive documents of `length` rows; positions begin anew in each.
Attention InDocuments(int64_t t, int64_t length, int64_t d, DType dtype, int64_t window) {
  Attention a{t, t, 1, d, dtype, window};
  for (int64_t i = 0; i < t; ++i) {
    a.q_positions.push_back(static_cast<double>(i % length));
    a.q_documents.push_back(static_cast<double>(i / length));
  }
  a.k_positions = a.q_positions;
  a.k_documents = a.q_documents;
  return a;
}

TEST_CASE("attention in documents, one after the other") {
  for (const auto& [dtype, d] : kPlaced) {
    for (const int64_t length : {1, 64, 100}) {
      if (IsDrawn(3)) CheckAttention(InDocuments(200, length, d, dtype, 0));
    }
    CheckAttention(InDocuments(130, 100, d, dtype, 33));
  }
}

TEST_CASE("attention of queries and keys in any order, of other numbers, negative and extreme") {
  constexpr double kLeast = -2147483648.0, kMost = 2147483647.0;
  for (const auto& [dtype, d] : kPlaced) {
    for (const auto& [t, s] : {std::pair<int64_t, int64_t>{70, 150}, {140, 33}}) {
      for (const int64_t window : {int64_t{0}, int64_t{40}, int64_t{1} << 31, int64_t{1} << 40}) {
        if (!IsDrawn(4)) continue;
        Attention a{t, s, window == 0 ? 2 : 1, d, dtype, window};
        a.q_positions = RandomIds(t, 11, 120);
        a.k_positions = RandomIds(s, 12, 120);
        for (double& v : a.q_positions) v -= 60;
        for (double& v : a.k_positions) v -= 60;
        a.q_documents = RandomIds(t, 13, 3);
        a.k_documents = RandomIds(s, 14, 3);
        a.q_positions[0] = a.k_positions[s / 2] = kMost;
        a.q_positions[t / 2] = a.k_positions[0] = kLeast;
        a.q_documents[0] = a.k_documents[0] = kLeast;
        CheckAttention(a);
      }
    }
  }
}

// Device `device` of `p` that split s positions: its queries are at pieces `device` and 2 p - 1 -
// device of 2 p, and the keys of all devices lie one device after the other.
Attention Zigzag(int64_t s, int p, int device, int64_t d, DType dtype) {
  Attention a{0, s, 1, d, dtype};
  for (int i = 0; i < p; ++i) {
    for (const int piece : {i, 2 * p - 1 - i}) {
      for (int64_t x = s * piece / (2 * p); x < s * (piece + 1) / (2 * p); ++x) {
        a.k_positions.push_back(static_cast<double>(x));
        if (i == device) a.q_positions.push_back(static_cast<double>(x));
      }
    }
  }
  a.t = static_cast<int64_t>(a.q_positions.size());
  return a;
}

TEST_CASE("attention by positions without documents: devices with two pieces of a sequence") {
  for (const auto& [dtype, d] : kPlaced) {
    for (const int device : {0, 1}) {
      if (IsDrawn(2)) CheckAttention(Zigzag(150, 2, device, d, dtype));
    }
    if (IsDrawn(4)) CheckAttention(Zigzag(520, 4, 2, d, dtype));
    Attention a = Zigzag(300, 2, 1, d, dtype);
    a.window = 70;
    if (IsDrawn(3)) CheckAttention(a);
  }
}

// A masked pair would make the sums of its row no number. The last device sees neither piece 5, nor
// 6, nor 7, which lie between those that it sees; and 64 queries more, before all keys, see
// nothing.
TEST_CASE("attention reads no tile of which a block sees nothing") {
  for (const auto& [dtype, d] : kPlaced) {
    Attention a = Zigzag(512, 4, 3, d, dtype);
    a.q_positions.insert(a.q_positions.begin() + 64, 64, -1.0);
    a.t += 64;
    a.shifted = 0;
    for (int64_t i = 64; i < 128; ++i) a.spoilt_queries.push_back(i);
    for (int64_t i = 0; i < a.s; ++i) {
      if (a.k_positions[i] >= 5 * 64) a.spoilt_keys.push_back(i);
    }
    REQUIRE(a.spoilt_keys.size() == 3 * 64);
    for (const double v : CheckAttention(a)) REQUIRE(!std::isnan(v));
  }
}

TEST_CASE("a query that sees no key gives zeros, and changes no gradient") {
  for (const auto& [dtype, d] : kPlaced) {
    // The first document has no keys, the last no queries, and key 0 is after its query.
    Attention a = InDocuments(150, 50, d, dtype, 0);
    for (double& v : a.k_documents) v += 1;
    a.k_positions[0] = 1;
    a.shifted = 0;
    const Values lse = CheckAttention(a);
    for (int64_t i = 0; i < static_cast<int64_t>(lse.size()); ++i) {
      const bool sees_nothing = i % 150 <= 50;
      REQUIRE((lse[i] == -INFINITY) == sees_nothing);
    }
    for (double& v : a.k_documents) v += 10;  // nobody sees anything
    for (const double v : CheckAttention(a)) REQUIRE(v == -INFINITY);
    a.sinks = {0.5, 0.5}, a.cap = 2;
    for (const double v : CheckAttention(a)) REQUIRE(std::fabs(v - 0.5) < 1e-6);
  }
}

}  // namespace
}  // namespace oneflow::cuda

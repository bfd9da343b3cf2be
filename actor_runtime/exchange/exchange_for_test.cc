#include "actor_runtime/exchange/exchange_for_test.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>

#include "absl/strings/str_cat.h"
#include "oneflow_core/tensor/bf16.h"

namespace oneflow {
namespace {

using Floats = std::vector<float>;

std::vector<std::byte> Store(const Floats& values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * ElementBytes(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::kBF16) {
      const Bf16 narrow = ToBf16(values[i]);
      std::memcpy(&bytes[i * sizeof(narrow)], &narrow, sizeof(narrow));
    } else {
      std::memcpy(&bytes[i * sizeof(float)], &values[i], sizeof(float));
    }
  }
  return bytes;
}

// Values that a tensor of this type can hold, so that the test's own sums begin with the stored
// values.
Floats RandomFloats(int64_t n, DType dtype, std::mt19937_64* random) {
  std::normal_distribution<float> normal;
  Floats values(n);
  for (float& v : values) {
    v = normal(*random);
    if (dtype == DType::kBF16) v = ToFloat(ToBf16(v));
  }
  return values;
}

Floats ExtractSlice(const Floats& full, const Dims& dims, const Slice& slice) {
  Floats part(slice.elements());
  for (int64_t i = 0; i < std::ssize(part); ++i) part[i] = full[IndexInTensor(dims, slice, i)];
  return part;
}

Port MakePort(const TensorCase& t, const NdSbp& sbp, int member) {
  const Coordinate at = t.mesh.RankToCoordinate(member);
  return {t.dtype, t.dims, LocalSlice(MakeLayout(t.dims, sbp), t.mesh, at), at};
}

bool HasInput(const ExchangeCase& c, int member) { return !c.send || member == 0; }
bool HasOutput(const ExchangeCase& c, int member) { return !c.send || member == 1; }

void AddTensor(const ExchangeCase& c, const TensorCase& t, std::mt19937_64* random,
               CaseMemory* memory) {
  // One tensor for each coordinate on the partial axes, ascending: as ranks are.
  std::map<Coordinate, Floats> tensors;
  const auto key = [&](int member) {
    Coordinate at = t.mesh.RankToCoordinate(member);
    for (size_t a = 0; a < at.size(); ++a) at[a] = t.from[a].partial() ? at[a] : 0;
    return at;
  };
  for (int m = 0; m < c.members(); ++m) {
    Floats& tensor = tensors[key(m)];
    if (tensor.empty()) tensor = RandomFloats(Product(t.dims), t.dtype, random);
  }
  Floats full;
  for (const auto& [at, tensor] : tensors) {
    if (full.empty()) {
      full = tensor;
      continue;
    }
    for (size_t i = 0; i < full.size(); ++i) {
      full[i] = t.reduce == 2 ? std::max(full[i], tensor[i]) : full[i] + tensor[i];
    }
  }
  for (int m = 0; m < c.members(); ++m) {
    if (HasInput(c, m)) {
      const Floats part = ExtractSlice(tensors[key(m)], t.dims, MakePort(t, t.from, m).slice);
      memory->in[m].push_back(Store(part, t.dtype));
    }
    if (!HasOutput(c, m)) continue;
    Floats wanted = ExtractSlice(full, t.dims, MakePort(t, t.to, m).slice);
    const Floats before = RandomFloats(std::ssize(wanted), t.dtype, random);
    for (size_t i = 0; c.accumulate && i < wanted.size(); ++i) wanted[i] += before[i];
    memory->out[m].push_back(Store(before, t.dtype));
    memory->wanted[m].push_back(Store(wanted, t.dtype));
  }
}

}  // namespace

std::string Describe(const ExchangeCase& c) {
  std::string text = c.send ? "send" : "";
  for (const TensorCase& t : c.tensors) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", ToString(t.mesh), " ", ToString(t.dims), " ",
                    ToString(t.from), " -> ", ToString(t.to), " ", std::string(Name(t.dtype)));
  }
  return text + (c.accumulate ? ", accumulates" : "");
}

ExchangeCase RandomCase(const std::string& kind, int members, std::mt19937_64* random) {
  const auto below = [&](int n) { return static_cast<int>((*random)() % n); };
  Mesh mesh{{{"a", members}}};
  if (kind != "send" && members % 2 == 0 && members > 2 && below(2) == 0) {
    mesh = Mesh{{{"a", members / 2}, {"b", 2}}};
  }
  const std::vector<int64_t> sizes = {1, 2, 3, 5, 7, 11, 13, 64};
  ExchangeCase c;
  c.accumulate = below(3) == 0;
  c.send = kind == "send";
  for (int n = 1 + below(3); n > 0; --n) {
    TensorCase t{.mesh = mesh};
    const int rank = 1 + below(3);
    for (int d = 0; d < rank; ++d) t.dims.push_back(sizes[below(std::ssize(sizes))]);
    // Now and then a tensor of several pieces.
    if (below(5) == 0) t.dims[below(rank)] = 35'000 / Product(t.dims) + 1;
    t.dtype = below(2) == 0 ? DType::kF32 : DType::kBF16;
    t.reduce = below(2) + 1;
    const bool partial = kind == "all_reduce" || kind == "reduce_scatter";
    for (size_t a = 0; a < mesh.axes.size(); ++a) {
      const Sbp sum = t.reduce == 1 ? P() : PMax();
      const Sbp split = S(below(rank));
      const Sbp any[] = {sum, split, B()};
      const bool full = kind == "all_gather" || kind == "all_reduce" || kind == "send";
      t.from.push_back(kind == "mixed"  ? any[below(3)]
                       : kind == "send" ? B()
                                        : any[partial ? 0 : 1]);
      t.to.push_back(full || (kind == "mixed" && below(2) == 0) ? B() : S(below(rank)));
    }
    if (!partial && kind != "mixed") t.reduce = 0;
    c.tensors.push_back(std::move(t));
  }
  return c;
}

std::vector<std::vector<KernelSetup>> MakeSetups(const ExchangeCase& c) {
  std::vector<std::vector<KernelSetup>> setups;
  for (const TensorCase& t : c.tensors) {
    std::vector<Port> sources;
    for (int m = 0; m < c.members(); ++m) {
      if (HasInput(c, m)) sources.push_back(MakePort(t, t.from, m));
    }
    std::vector<KernelSetup>& members = setups.emplace_back();
    for (int m = 0; m < c.members(); ++m) {
      KernelSetup& setup = members.emplace_back();
      setup.mesh = t.mesh;
      setup.coordinate = t.mesh.RankToCoordinate(m);
      setup.in = {sources};
      if (HasOutput(c, m)) setup.out = {MakePort(t, t.to, m)};
      setup.reduce = t.reduce;
      for (size_t a = 0; a < t.from.size(); ++a) {
        if (t.from[a].partial()) setup.reduce_axes.push_back(static_cast<int>(a));
      }
    }
  }
  return setups;
}

CaseMemory RandomMemory(const ExchangeCase& c, std::mt19937_64* random) {
  CaseMemory memory;
  memory.in.resize(c.members());
  memory.out.resize(c.members());
  memory.wanted.resize(c.members());
  for (const TensorCase& t : c.tensors) AddTensor(c, t, random, &memory);
  return memory;
}

}  // namespace oneflow

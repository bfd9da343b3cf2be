// Invariants:
//   1. The split of a message depends on layouts, type and reduction alone, so both ends agree; its
//      destination depends on the reader, too.
//   2. Parts of one tensor that a member sends are equal or disjoint, as slices of a layout are, so
//      the packed data is at most as large as the input.
//   3. Parts in the workspace are aligned; those that are one array for NCCL have no gaps.
#include "actor_runtime/cuda/exchange/nccl_layout.h"

#include <algorithm>
#include <set>
#include <utility>

#include "oneflow_core/base/status.h"

namespace oneflow::cuda {
namespace {

constexpr int kMaximum = 2;   // of KernelSetup::reduce
constexpr int kKeepRest = 3;  // of KernelSetup::fill

int64_t CountBytes(DType dtype) { return static_cast<int64_t>(ElementBytes(dtype)); }

// True if the rows of a region are contiguous in a memory with these strides.
bool IsOneRun(const CopyRegion& r, const Dims& strides) {
  int64_t next = r.run;
  for (int i = static_cast<int>(r.count.size()) - 1; i >= 0; --i) {
    if (strides[i] != next) return false;
    next *= r.count[i];
  }
  return true;
}
bool IsOneRunInSource(const CopyRegion& r) { return IsOneRun(r, r.from_stride); }
bool IsOneRunInTarget(const CopyRegion& r) { return IsOneRun(r, r.to_stride); }

// True if a region is sent row by row, each from register to register; false if it is one message.
bool GoesByRows(const CopyRegion& r, int64_t element_bytes, const NcclLimits& limits) {
  if (r.sources.size() > 1 || (IsOneRunInSource(r) && IsOneRunInTarget(r))) return false;
  return limits.Straight(r.rows, r.run * element_bytes);
}

bool IsZero(const KernelSetup& s) {
  return std::any_of(s.zero_unless_first.begin(), s.zero_unless_first.end(),
                     [&](int axis) { return s.coordinate[axis] != 0; });
}

// True if each member is one summand.
bool SumsAllMembers(const KernelSetup& s) {
  if (s.reduce == 0) return false;
  std::set<Coordinate> keys;
  for (const Port& port : s.in[0]) {
    Coordinate key;
    for (const int axis : s.reduce_axes) key.push_back(port.coordinate[axis]);
    if (!keys.insert(key).second) return false;
  }
  return true;
}

// The dimension of `full` that the parts split, in their order and all equal; -1: there is none.
int DimSplitBy(const std::vector<const Slice*>& parts, const Slice& full) {
  int dim = -1;
  for (int d = 0; d < std::ssize(full.size) && dim < 0; ++d) {
    if (parts[0]->size[d] != full.size[d]) dim = d;
  }
  if (dim < 0) return -1;
  Slice expected = full;
  expected.size[dim] = parts[0]->size[dim];
  if (expected.size[dim] * std::ssize(parts) != full.size[dim]) return -1;
  for (const Slice* part : parts) {
    if (*part != expected) return -1;
    expected.begin[dim] += expected.size[dim];
  }
  return dim;
}

}  // namespace

NcclLayout::Tensor NcclLayout::MakeCollective(const std::vector<KernelSetup>& setups,
                                              const NcclLimits& limits) {
  Tensor tensor;
  const std::vector<Port>& in = setups[0].in[0];
  const bool all = in.size() == setups.size() && setups.size() > 1 &&
                   std::all_of(setups.begin(), setups.end(),
                               [](const KernelSetup& s) { return !s.out.empty() && !IsZero(s); });
  if (!all) return tensor;
  std::vector<const Slice*> ins, outs;
  for (const Port& port : in) ins.push_back(&port.slice);
  for (const KernelSetup& s : setups) outs.push_back(&s.out[0].slice);
  const auto equal = [](const std::vector<const Slice*>& slices) {
    return std::all_of(slices.begin(), slices.end(), [&](auto* s) { return *s == *slices[0]; });
  };
  const bool sums = SumsAllMembers(setups[0]);
  Tensor::Form form = Tensor::kMessages;
  int dim = -1;
  const Slice *full = nullptr, *part = nullptr;
  if (sums && equal(ins) && equal(outs) && *ins[0] == *outs[0]) {
    form = Tensor::kAllReduce;
    full = part = ins[0];
    dim = 0;
  } else if (equal(outs) && (dim = DimSplitBy(ins, *outs[0])) >= 0) {
    form = Tensor::kAllGather;
    full = outs[0], part = ins[0];
  } else if (sums && equal(ins) && (dim = DimSplitBy(outs, *ins[0])) >= 0) {
    form = Tensor::kReduceScatter;
    full = ins[0], part = outs[0];
  }
  if (form == Tensor::kMessages || part->elements() == 0) return tensor;
  for (int d = 0; d < dim; ++d) tensor.rows *= full->size[d];
  tensor.run = part->elements() / tensor.rows;
  const int64_t bytes = CountBytes(in[0].dtype);
  tensor.straight = limits.Straight(tensor.rows, tensor.run * bytes);
  const bool packs = !tensor.straight && part->elements() * bytes % kPackedAlignment != 0;
  tensor.form = packs ? Tensor::kMessages : form;
  return tensor;
}

absl::StatusOr<NcclLayout> NcclLayout::Make(std::vector<std::vector<KernelSetup>> setups,
                                            const NcclLimits& limits) {
  NcclLayout layout;
  layout.limits_ = limits;
  for (const std::vector<KernelSetup>& members : setups) {
    Tensor tensor = MakeCollective(members, limits);
    if (tensor.form == Tensor::kMessages) {
      for (const KernelSetup& s : members) {
        std::vector<CopyRegion>& regions = tensor.regions.emplace_back();
        if (s.out.empty() || IsZero(s)) continue;
        ASSIGN_OR_RETURN(const CopyPieces pieces, CopyPieces::Make(s));
        regions.assign(pieces.regions().begin(), pieces.regions().end());
      }
    }
    layout.tensors_.push_back(std::move(tensor));
  }
  layout.setups_ = std::move(setups);
  return layout;
}

// Writes the steps of one member down, tensor by tensor.
class NcclLayout::Steps {
 public:
  Steps(const NcclLayout& layout, int member, bool accumulate)
      : layout_(layout), member_(member), accumulate_(accumulate) {}

  void Add(int tensor) {
    tensor_ = tensor;
    shape_ = &layout_.tensors_[tensor];
    setup_ = &layout_.setups_[tensor][member_];
    const std::vector<Port>& in = setup_->in[0];
    input_ = member_ < std::ssize(in) ? &in[member_] : nullptr;
    element_bytes_ = CountBytes(input_ != nullptr ? input_->dtype : setup_->out[0].dtype);
    packed_.clear();
    switch (shape_->form) {
      case Tensor::kAllGather: return AddAllGather();
      case Tensor::kReduceScatter: return AddReduceScatter();
      case Tensor::kAllReduce: return AddAllReduce();
      case Tensor::kMessages: break;
    }
    AddSends();
    AddReceives();
  }
  NcclSteps Take() && { return std::move(steps_); }

 private:
  // The inputs of a kernel, and their locations.
  struct Sources {
    std::vector<Port> ports;
    std::vector<NcclLocation> locations;
    void Add(Port port, const Slice& slice, const NcclLocation& location) {
      port.slice = slice;
      ports.push_back(std::move(port));
      locations.push_back(location);
    }
  };

  int64_t members() const { return layout_.members(); }
  NcclLocation Input(int64_t elements = 0) const {
    return {NcclLocation::kInput, tensor_, elements * element_bytes_};
  }
  NcclLocation Output(int64_t elements = 0) const {
    return {NcclLocation::kOutput, tensor_, elements * element_bytes_};
  }
  // Fresh workspace.
  NcclLocation Workspace(int64_t elements) {
    const NcclLocation location{NcclLocation::kWorkspace, 0, steps_.workspace_bytes};
    const int64_t end = location.offset + elements * element_bytes_;
    steps_.workspace_bytes = (end + kWindowAlignment - 1) / kWindowAlignment * kWindowAlignment;
    return location;
  }
  NcclLocation Behind(NcclLocation location, int64_t elements) const {
    location.offset += elements * element_bytes_;
    return location;
  }

  void Finish(Sources sources, int fill) {
    NcclLocalStep& step = steps_.after.emplace_back();
    step.setup = *setup_;
    step.setup.kind = "slice";
    step.setup.in = {std::move(sources.ports)};
    step.setup.fill = fill;
    step.sources = std::move(sources.locations);
    step.target = Output();
    step.accumulate = accumulate_;
  }

  // The member's part of one slice, as one array.
  void Pack(const Slice& slice, const NcclLocation& target) {
    NcclLocalStep& step = steps_.before.emplace_back();
    step.setup.kind = "slice";
    step.setup.name = setup_->name;
    step.setup.threads = setup_->threads;
    step.setup.isa = setup_->isa;
    step.setup.mesh = setup_->mesh;
    step.setup.coordinate = setup_->coordinate;
    step.setup.in = {{*input_}};
    step.setup.out = {*input_};
    step.setup.out[0].slice = slice;
    step.sources = {Input()};
    step.target = target;
  }

  void AddCollective(NcclCollectiveStep::Kind kind, const NcclLocation& from,
                     const NcclLocation& to, int64_t count) {
    steps_.collectives.push_back(
        {kind, from, to, count, input_->dtype, setup_->reduce == kMaximum});
  }

  void AddAllReduce() {
    const int64_t elements = input_->slice.elements();
    const NcclLocation to = accumulate_ ? Workspace(elements) : Output();
    AddCollective(NcclCollectiveStep::kAllReduce, Input(), to, elements);
    AddTo(to);
  }

  void AddAllGather() {
    const int64_t part = shape_->rows * shape_->run;
    if (shape_->straight && !accumulate_) {
      for (int64_t row = 0; row < shape_->rows; ++row) {
        AddCollective(NcclCollectiveStep::kAllGather, Input(row * shape_->run),
                      Output(row * shape_->run * members()), shape_->run);
      }
      return;
    }
    const NcclLocation all = Workspace(part * members());
    AddCollective(NcclCollectiveStep::kAllGather, Input(), all, part);
    Sources sources;
    for (int m = 0; m < members(); ++m) {
      const Port& port = setup_->in[0][m];
      sources.Add(port, port.slice, Behind(all, m * part));
    }
    Finish(std::move(sources), setup_->fill);
  }

  void AddReduceScatter() {
    const int64_t part = shape_->rows * shape_->run;
    NcclLocation from = Input();
    if (!shape_->straight) {
      from = Workspace(part * members());
      for (int m = 0; m < members(); ++m) {
        Pack(layout_.setups_[tensor_][m].out[0].slice, Behind(from, m * part));
      }
    }
    const int64_t rows = shape_->straight ? shape_->rows : 1;
    const NcclLocation to = accumulate_ ? Workspace(part) : Output();
    for (int64_t row = 0, run = part / rows; row < rows; ++row) {
      AddCollective(NcclCollectiveStep::kReduceScatter, Behind(from, row * run * members()),
                    Behind(to, row * run), run);
    }
    AddTo(to);
  }

  // Adds the data in the workspace to all of the output.
  void AddTo(const NcclLocation& location) {
    if (!accumulate_) return;
    Sources sources;
    sources.Add(setup_->in[0][member_], setup_->out[0].slice, location);
    Finish(std::move(sources), setup_->fill);
  }

  // A part of the input as one array: in place, or packed, once for all members that want it.
  NcclLocation OneRun(const CopyRegion& region, const Slice& part) {
    if (IsOneRunInSource(region)) return Input(region.from);
    const auto known =
        std::find_if(packed_.begin(), packed_.end(), [&](auto& p) { return p.first == part; });
    if (known != packed_.end()) return known->second;
    const NcclLocation location = Workspace(part.elements());
    Pack(part, location);
    packed_.emplace_back(part, location);
    return location;
  }

  void AddSends() {
    if (input_ == nullptr) return;
    for (int reader = 0; reader < members(); ++reader) {
      if (reader == member_) continue;
      for (const CopyRegion& region : shape_->regions[reader]) {
        const std::vector<int>& from = region.sources;
        if (std::find(from.begin(), from.end(), member_) == from.end()) continue;
        const Slice part = Intersect(input_->slice, layout_.setups_[tensor_][reader].out[0].slice);
        if (GoesByRows(region, element_bytes_, layout_.limits_)) {
          ForRows(region, {0, region.rows, 0, region.run}, [&](int64_t at, int64_t) {
            steps_.messages.push_back({true, reader, Input(at), region.run * element_bytes_});
          });
        } else {
          steps_.messages.push_back(
              {true, reader, OneRun(region, part), part.elements() * element_bytes_});
        }
      }
    }
  }

  // Receives a source's part of a region at another location than the output.
  void Receive(const CopyRegion& region, int source, const NcclLocation& to) {
    if (!GoesByRows(region, element_bytes_, layout_.limits_)) {
      steps_.messages.push_back({false, source, to, region.rows * region.run * element_bytes_});
      return;
    }
    for (int64_t row = 0; row < region.rows; ++row) {
      steps_.messages.push_back(
          {false, source, Behind(to, row * region.run), region.run * element_bytes_});
    }
  }

  // Receives a region without workspace and kernel; returns false if it needs one.
  bool ReceiveInOutput(const CopyRegion& region) {
    const bool by_rows = GoesByRows(region, element_bytes_, layout_.limits_);
    if (accumulate_ || setup_->fill != 0 || region.sources.size() > 1 ||
        region.sources[0] == member_ || !(by_rows || IsOneRunInTarget(region))) {
      return false;
    }
    if (!by_rows) {
      Receive(region, region.sources[0], Output(region.to));
      return true;
    }
    ForRows(region, {0, region.rows, 0, region.run}, [&](int64_t, int64_t to) {
      steps_.messages.push_back(
          {false, region.sources[0], Output(to), region.run * element_bytes_});
    });
    return true;
  }

  void AddReceives() {
    if (setup_->out.empty()) return;
    const std::vector<Port>& in = setup_->in[0];
    Sources sources;
    bool in_output = false;
    for (const CopyRegion& region : shape_->regions[member_]) {
      if (ReceiveInOutput(region)) {
        in_output = true;
        continue;
      }
      for (const int source : region.sources) {
        const Slice part = Intersect(in[source].slice, setup_->out[0].slice);
        if (source == member_ && region.sources.size() == 1) {
          sources.Add(in[source], in[source].slice, Input());
        } else if (source == member_) {  // Summands have one shape.
          sources.Add(in[source], part, OneRun(region, part));
        } else {
          const NcclLocation location = Workspace(part.elements());
          Receive(region, source, location);
          sources.Add(in[source], part, location);
        }
      }
    }
    const bool zero = IsZero(*setup_);
    if (zero) sources.Add(in[0], in[0].slice, Input());
    if (!sources.ports.empty() || (setup_->fill != 0 && setup_->out[0].slice.elements() > 0)) {
      Finish(std::move(sources), in_output ? kKeepRest : setup_->fill);
    }
  }

  const NcclLayout& layout_;
  const int member_;
  const bool accumulate_;
  NcclSteps steps_;
  // The tensor that is being added.
  int tensor_ = 0;
  const Tensor* shape_ = nullptr;
  const KernelSetup* setup_ = nullptr;
  const Port* input_ = nullptr;  // null: it has none
  int64_t element_bytes_ = 1;
  std::vector<std::pair<Slice, NcclLocation>> packed_;
};

NcclSteps NcclLayout::MakeSteps(int member, bool accumulate) const {
  Steps steps(*this, member, accumulate);
  for (int tensor = 0; tensor < std::ssize(tensors_); ++tensor) steps.Add(tensor);
  return std::move(steps).Take();
}

}  // namespace oneflow::cuda

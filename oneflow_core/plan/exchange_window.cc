#include "oneflow_core/plan/exchange_window.h"

#include <algorithm>
#include <vector>

#include "oneflow_core/base/status.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

// Elements of a piece: a message of a quarter of a megabyte hides what a message costs.
constexpr int64_t kMostPiece = 65536;
// Bytes of a window. With more members to be summed, pieces are smaller.
constexpr int64_t kMostWindow = 4 << 20;
// Pieces that are on their way while one is summed.
constexpr int64_t kAhead = 1;

std::vector<int> SplitAxes(const Layout& layout, int dim) {
  std::vector<int> axes;
  for (const Layout::Split& split : layout.splits) {
    if (split.dim == dim) axes.push_back(split.axis);
  }
  return axes;
}

bool BeginsWith(const std::vector<int>& all, const std::vector<int>& first) {
  return first.size() <= all.size() && std::equal(first.begin(), first.end(), all.begin());
}

}  // namespace

int64_t PacketBytes(int64_t elements, int64_t element_bytes) {
  return (elements * element_bytes + 63) / 64 * 64;
}

ExchangeWindow MakeWindow(const Layout& from, const Layout& to, const Mesh& mesh, int64_t copies,
                          int64_t element_bytes, bool accumulates) {
  const Slice largest = LargestSlice(to, mesh);
  // True if each member holds all that it needs of its own partial tensor: one source less is far.
  bool own = true;
  // True if the data of one source may be separate rows of the output: it is only a
  // part of the output in a dimension that is not the outermost.
  bool strided = false;
  int64_t outer = 1;
  for (int dim = 0; dim < static_cast<int>(from.dims.size()); ++dim) {
    const bool covered = BeginsWith(SplitAxes(to, dim), SplitAxes(from, dim));
    own = own && covered;
    strided = strided || (!covered && outer > 1);
    outer *= largest.size[dim];
  }
  const int64_t elements = std::max<int64_t>(1, largest.elements());
  ExchangeWindow window{std::min(elements, kMostPiece)};
  const int64_t sources = std::max<int64_t>(1, copies - (own ? 1 : 0));
  if (copies == 1 && !accumulates && !strided) return window;
  window.piece = std::clamp<int64_t>(
      kMostWindow / (sources * (1 + kAhead)) / 64 * 64 / element_bytes, 1, window.piece);
  const int64_t pieces = window.piece < elements ? 1 + kAhead : 1;
  window.bytes = pieces * sources * PacketBytes(window.piece, element_bytes);
  return window;
}

namespace {

// The geometry of an exchange from one register to another.
struct Transition {
  Layout from, to;
  ExchangedTensor tensor;
};

absl::StatusOr<Transition> MakeTransition(const proto::Boxing& boxing, const proto::Register& from,
                                          const proto::Register& to, const Mesh& mesh) {
  Transition transition;
  ASSIGN_OR_RETURN(transition.from, LayoutFromProto(from.layout(), mesh, from.name()));
  ASSIGN_OR_RETURN(transition.to, LayoutFromProto(to.layout(), mesh, to.name()));
  ASSIGN_OR_RETURN(const DType dtype, DTypeFromProto(to.dtype(), to.name()));
  ExchangedTensor& tensor = transition.tensor;
  for (const int axis : boxing.reduce_axis()) tensor.copies *= mesh.axes[axis].size;
  tensor.element_bytes = static_cast<int64_t>(ElementBytes(dtype));
  tensor.accumulates = to.fill_mode() == proto::Register::ACCUMULATE;
  return transition;
}

}  // namespace

absl::StatusOr<ExchangeWindow> MakeWindow(const proto::Boxing& boxing, const proto::Register& from,
                                          const proto::Register& to, const Mesh& mesh) {
  ASSIGN_OR_RETURN(const Transition t, MakeTransition(boxing, from, to, mesh));
  return MakeWindow(t.from, t.to, mesh, t.tensor.copies, t.tensor.element_bytes,
                    t.tensor.accumulates);
}

int64_t WindowBytes(proto::DeviceKind kind, const Layout& from, const Layout& to, const Mesh& mesh,
                    const ExchangedTensor& tensor) {
  if (kind == proto::CUDA) return NcclWindow(from, to, mesh, tensor);
  return MakeWindow(from, to, mesh, tensor.copies, tensor.element_bytes, tensor.accumulates).bytes;
}

absl::StatusOr<int64_t> WindowBytes(proto::DeviceKind kind, const proto::Group& group,
                                    const proto::Boxing& boxing, const proto::Register& from,
                                    const proto::Register& to, const Mesh& mesh) {
  ASSIGN_OR_RETURN(Transition t, MakeTransition(boxing, from, to, mesh));
  t.tensor.members = CountMembers(group, mesh);
  return WindowBytes(kind, t.from, t.to, mesh, t.tensor);
}

int64_t JoinWindows(proto::DeviceKind kind, int64_t bytes, int64_t more) {
  return kind == proto::CUDA ? bytes + more : std::max(bytes, more);
}

int64_t CountMembers(const proto::Group& group, const Mesh& mesh) {
  if (group.has_stages()) return 2;
  int64_t members = 1;
  for (const int axis : group.axis()) members *= mesh.axes[axis].size;
  return members;
}

}  // namespace oneflow

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "oneflow_core/base/status.h"
#include "oneflow_core/tensor/layout.h"
#include "tools/python/bindings/arrays.h"
#include "tools/python/bindings/bind.h"
#include "tools/python/bindings/without_gil.h"
#include "training/checkpoint/base.h"
#include "training/checkpoint/checkpoint.h"

namespace oneflow {
namespace {

namespace py = pybind11;

class PyWeights {
 public:
  explicit PyWeights(std::unique_ptr<WeightSource> source) : source_(std::move(source)) {
    for (const proto::Op& op : source_->graph().op()) {
      if (op.kind() == "variable") variables_.push_back(&op);
    }
  }

  py::bytes folder() const { return source_->folder(); }

  // [(name, shape)], in the order of the graph.
  py::list Names() const {
    py::list names;
    for (const proto::Op* op : variables_) {
      names.append(py::make_tuple(op->name(), py::tuple(py::cast(OpDims(*op)))));
    }
    return names;
  }

  // (error, f32 array or None): verified as it is read.
  py::tuple Load(const std::string& name) const {
    for (const proto::Op* op : variables_) {
      if (op->name() != name) continue;
      NpyArray array{.dtype = DType::kF32, .dims = OpDims(*op)};
      array.bytes.resize(static_cast<size_t>(Product(array.dims)) * sizeof(float));
      const Slice all{Dims(array.dims.size(), 0), array.dims};
      absl::Status status;
      {
        const WithoutGil without;
        status = source_->Load({.name = &name,
                                .dtype = array.dtype,
                                .dims = &array.dims,
                                .slice = &all,
                                .data = array.bytes.data()});
      }
      return py::make_tuple(ErrorTuple(status),
                            status.ok() ? py::object(ToNumpy(array)) : py::none());
    }
    return py::make_tuple(ErrorTuple(InputError(name, "is no variable of " + source_->folder(),
                                                "names() lists them")),
                          py::none());
  }

 private:
  static Dims OpDims(const proto::Op& op) {
    Dims dims;
    for (const auto& dim : op.shape().dim()) dims.push_back(dim.size());
    return dims;
  }

  std::unique_ptr<WeightSource> source_;
  std::vector<const proto::Op*> variables_;  // of the source's graph
};

// (error, Weights or None).
py::tuple OpenWeightsForPython(const std::string& path, const std::string& base) {
  absl::StatusOr<std::unique_ptr<WeightSource>> source = absl::InternalError("not opened");
  {
    const WithoutGil without;
    source = OpenWeights(path, base);
  }
  if (!source.ok()) return py::make_tuple(ErrorTuple(source.status()), py::none());
  return py::make_tuple(ErrorTuple(absl::OkStatus()),
                        std::make_unique<PyWeights>(*std::move(source)));
}

// (error, step): of the folder of a step.
py::tuple ReadCheckpointStep(const std::string& folder) {
  const auto reader = CheckpointReader::Open(folder);
  return py::make_tuple(ErrorTuple(reader.status()), reader.ok() ? (*reader)->step() : 0);
}

}  // namespace

void BindWeights(py::module_& module) {
  py::class_<PyWeights>(module, "Weights")
      .def("folder", &PyWeights::folder)
      .def("names", &PyWeights::Names)
      .def("load", &PyWeights::Load);
  module.def("open_weights", &OpenWeightsForPython);
  module.def("checkpoint_step", &ReadCheckpointStep);
}

}  // namespace oneflow

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "oneflow_core/base/status.h"
#include "tools/oneflow/model/tensor_io.h"
#include "tools/python/bindings/arrays.h"
#include "tools/python/bindings/bind.h"
#include "tools/python/bindings/training_session.h"
#include "tools/python/bindings/wait.h"
#include "tools/python/bindings/without_gil.h"

namespace oneflow {
namespace {

namespace py = pybind11;

// As the line of the file of metrics has them.
py::dict StepDict(const TrainedStep& step) {
  py::dict values;
  values["step"] = step.step;
  values["loss"] = step.loss;
  values["eval_loss"] = step.evaluated ? step.evaluated->value() : std::nullopt;
  values["learning_rate"] = step.learning_rate;
  values["grad_norm"] = step.norm;
  values["labels"] = step.labels;
  values["tokens_per_second"] = step.tokens_per_second;
  values["seconds"] = step.seconds;
  values["mfu"] = step.mfu;
  values["left_seconds"] = step.left_seconds;
  values["experts"] = std::vector<double>(step.counts.begin(), step.counts.end());
  return values;
}

// Threads of Python may share one: their calls follow one another. A call waits for `calls_`
// without the GIL, which the owner of `calls_` may want.
class PyTrainer {
 public:
  explicit PyTrainer(std::unique_ptr<TrainingSession> session) : session_(std::move(session)) {}
  ~PyTrainer() {
    const WithoutGil without;
    session_ = nullptr;
  }

  py::tuple Begin() {
    return Waited([&] { return session_->Begin(); });
  }
  // (error, step or None): None at the end.
  py::tuple Advance() {
    TrainingSession::Outcome outcome = TrainingSession::kEnded;
    absl::Status status;
    std::unique_lock call(calls_, std::defer_lock);  // also while the step is read
    {
      const WithoutGil without;
      call.lock();
      outcome = session_->Advance();
      if (outcome == TrainingSession::kEnded) status = session_->End();
    }
    return py::make_tuple(ErrorTuple(status), outcome == TrainingSession::kStepped
                                                  ? py::object(StepDict(session_->step()))
                                                  : py::none());
  }
  py::tuple Close() {
    return Waited([&] { return session_->Close(); });
  }

  // (error, array or None).
  py::tuple Tensor(const std::string& name) {
    FetchedTensors fetched;
    absl::Status status;
    bool found = false;
    {
      const WithoutGil without;
      const std::lock_guard call(calls_);
      status = session_->VisitVariables([&](const Piece& piece) -> absl::Status {
        if (*piece.name != name) return absl::OkStatus();
        found = true;
        return fetched.Take(piece);
      });
    }
    if (status.ok() && !found) {
      status = InputError(name, "is no variable of this plan",
                          "Trainer.names() lists them, with the states of the optimizer");
    }
    if (!status.ok()) return py::make_tuple(ErrorTuple(status), py::none());
    return py::make_tuple(ErrorTuple(status), ToNumpy(fetched.full.at(name)));
  }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const proto::Variable& variable : session_->plan().variable()) {
      names.push_back(variable.name());
    }
    return names;
  }

  int64_t steps_done() const { return session_->steps_done(); }
  std::vector<std::string> TakeNotices() { return session_->TakeNotices(); }

 private:
  py::tuple Waited(const std::function<absl::Status()>& work) {
    absl::Status status;
    {
      const WithoutGil without;
      const std::lock_guard call(calls_);
      status = work();
    }
    return ErrorTuple(status);
  }

  std::unique_ptr<TrainingSession> session_;
  std::mutex calls_;
};

// (error, Trainer or None).
py::tuple OpenTrainer(const std::vector<std::string>& words, const py::object& notice,
                      const py::object& progress) {
  absl::StatusOr<std::unique_ptr<TrainingSession>> session = absl::InternalError("not opened");
  std::string printed;
  WaitFor([&](const Caller& caller) { session = TrainingSession::Open(words, caller); },
          {notice, progress}, &printed);
  if (!session.ok()) return py::make_tuple(ErrorTuple(session.status()), py::none());
  return py::make_tuple(ErrorTuple(absl::OkStatus()),
                        std::make_unique<PyTrainer>(*std::move(session)));
}

}  // namespace

void BindTrainer(py::module_& module) {
  py::class_<PyTrainer>(module, "Trainer")
      .def("begin", &PyTrainer::Begin)
      .def("advance", &PyTrainer::Advance)
      .def("close", &PyTrainer::Close)
      .def("tensor", &PyTrainer::Tensor)
      .def("names", &PyTrainer::Names)
      .def("steps_done", &PyTrainer::steps_done)
      .def("take_notices", &PyTrainer::TakeNotices);
  module.def("open_trainer", &OpenTrainer);
}

}  // namespace oneflow

// The module `_engine`: what the package oneflow_actors calls in C++. Its functions are of the
// package alone, which raises their errors: they return an exit code, a message and a hint, where
// code 0 is good. Protobufs cross as bytes, for a process can have but one C++ library of them.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "absl/strings/cord.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/cli/call_verb.h"
#include "tools/oneflow/cli/flag_table.h"
#include "tools/python/bindings/bind.h"
#include "tools/python/bindings/wait.h"
#include "tools/python/bindings/without_gil.h"

namespace oneflow {
namespace {

namespace py = pybind11;

// What InputError was given as `hint`, which the message ends with.
std::string FindHint(const absl::Status& status) {
  const absl::optional<absl::Cord> hint = status.GetPayload("oneflow/hint");
  return hint ? std::string(*hint) : "";
}

// The verbs that are functions: those that make or read a plan, data, a checkpoint or text. Others
// measure machines or start processes: they belong to the program.
std::vector<Verb> FunctionVerbs() {
  return {ModelVerb(),  CompileVerb(),  FitVerb(),     SearchVerb(),  ExplainVerb(), RecipeVerb(),
          VerifyVerb(), RunVerb(),      DataVerb(),    ImportVerb(),  ExportVerb(),  EvalVerb(),
          DiffVerb(),   SimulateVerb(), ClusterVerb(), GenerateVerb()};
}

Verb VerbByName(const std::string& name) {
  for (const Verb& verb : FunctionVerbs()) {
    if (verb.name() == name) return verb;
  }
  throw py::value_error("no such verb: " + name);
}

py::tuple Call(const std::string& name, const std::vector<std::string>& words,
               const py::object& notice, const py::object& progress) {
  const Verb verb = VerbByName(name);
  absl::Status status;
  std::string printed;
  WaitFor([&](const Caller& caller) { status = CallVerb(verb, words, caller); }, {notice, progress},
          &printed);
  return ErrorTuple(status) + py::make_tuple(py::bytes(printed));
}

// The flags of a verb: (name, value, sentence, default, rare), as `oneflow VERB --help` has them.
py::list Options(const std::string& name) {
  uint32_t verb = 1;
  while ((verb & verbs::kAll) != 0 && verbs::VerbName(verb) != name) verb <<= 1;
  if ((verb & verbs::kAll) == 0) throw py::value_error("no such verb: " + name);
  py::list options;
  for (const std::string_view flag : FlagsOfVerb(verb)) {
    const FlagRow& row = *FindFlag(verb, flag);
    options.append(py::make_tuple(row.name, row.value, row.sentence, row.default_text, row.rare));
  }
  return options;
}

}  // namespace

py::tuple ErrorTuple(const absl::Status& status) {
  return py::make_tuple(ExitCode(status), ToText(std::string(status.message())),
                        ToText(FindHint(status)));
}

PYBIND11_MODULE(_engine, module) {
  module.def("call", &Call);
  module.def("options", &Options);
  WaitAtExit();
  BindTrainer(module);
  BindWeights(module);
}

}  // namespace oneflow

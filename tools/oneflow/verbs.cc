#include "tools/oneflow/verbs.h"

namespace oneflow {

std::vector<Verb> Verbs() {
  return {ModelVerb(),  CompileVerb(),   FitVerb(),     SearchVerb(),    ExplainVerb(),
          RecipeVerb(), VerifyVerb(),    RunVerb(),     DataVerb(),      ImportVerb(),
          ExportVerb(), TrainVerb(),     EvalVerb(),    GenerateVerb(),  SimulateVerb(),
          DiffVerb(),   CalibrateVerb(), ClusterVerb(), DevicesVerb(),   SubmitVerb(),
          StatusVerb(), LogsVerb(),      CancelVerb(),  CompletionVerb()};
}

}  // namespace oneflow

#include "training/trainer/runtime_options.h"

#include <string>

#include "oneflow_core/base/status.h"

namespace oneflow {

absl::StatusOr<Isa> ParseIsa(const std::string& name, Isa best) {
  if (name.empty()) return best;
  std::string list;
  bool known = false;
  for (const Isa isa : kIsas) {
    known = known || Name(isa) == name;
    if (isa > best) continue;
    if (Name(isa) == name) return isa;
    list += (list.empty() ? "" : ", ") + std::string(Name(isa));
  }
  return InputError("--instruction_set=" + name,
                    known ? "this processor has not got it" : "no such instruction set",
                    "leave it out, or use one that this processor has: " + list);
}

absl::Status SetRuntimeOptions(const proto::Run& run, RuntimeOptions* options) {
  options->threads = run.threads();
  options->host_link.to_host = run.host_link().to_host();
  options->host_link.from_host = run.host_link().from_host();
  options->synchronous = run.synchronous();
  ASSIGN_OR_RETURN(options->isa, ParseIsa(run.instruction_set(), BestIsa()));
  return absl::OkStatus();
}

}  // namespace oneflow

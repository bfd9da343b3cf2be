#include "tools/oneflow/cli/call_verb.h"

#include <chrono>
#include <mutex>

#include "gflags/gflags.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/cli/check_outputs.h"
#include "tools/oneflow/cli/recipe_flags.h"

namespace oneflow {
namespace {

absl::StatusOr<Arguments> ReadArguments(const Verb& verb, const std::vector<std::string>& words) {
  ASSIGN_OR_RETURN(Arguments args, ParseArguments(verb, words));
  RETURN_IF_ERROR(TakeRecipe(verb, &args));
  RETURN_IF_ERROR(CheckOutputs(args));
  return args;
}

}  // namespace

absl::Status RunVerb(const Verb& verb, const std::vector<std::string>& words) {
  ASSIGN_OR_RETURN(const Arguments args, ReadArguments(verb, words));
  return verb.run(args);
}

absl::Status CallVerb(const Verb& verb, const std::vector<std::string>& words,
                      const Caller& caller) {
  return CallWithArguments(verb, words, caller, verb.run);
}

absl::Status CallWithArguments(const Verb& verb, const std::vector<std::string>& words,
                               const Caller& caller,
                               const std::function<absl::Status(const Arguments& args)>& body) {
  static std::timed_mutex one_at_a_time;  // flags are global
  std::unique_lock lock(one_at_a_time, std::defer_lock);
  while (!lock.try_lock_for(std::chrono::milliseconds(20))) {
    if (caller.stopped()) return absl::CancelledError("interrupted before it began");
  }
  const gflags::FlagSaver flags;  // puts back the values of now
  const CallerScope scope(caller);
  ASSIGN_OR_RETURN(const Arguments args, ReadArguments(verb, words));
  return body(args);
}

}  // namespace oneflow

// Calls a verb as a function.
//
//   absl::Status status = CallVerb(SearchVerb(), {"--graph=llama3.1-8b", "--format=json", ...},
//                                  caller);
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/oneflow/cli/caller.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {

// Parses the words behind the verb's name, takes --recipe and runs the verb.
absl::Status RunVerb(const Verb& verb, const std::vector<std::string>& words);

// The same as a function of a program: each call begins with the defaults of all flags, and leaves
// them. What it says goes to `caller`. Calls of several threads follow one another.
absl::Status CallVerb(const Verb& verb, const std::vector<std::string>& words,
                      const Caller& caller);

// `body` with the arguments that CallVerb would run the verb with, and under the same conditions.
absl::Status CallWithArguments(const Verb& verb, const std::vector<std::string>& words,
                               const Caller& caller,
                               const std::function<absl::Status(const Arguments& args)>& body);

}  // namespace oneflow

// What a recipe says for another value of a choice than the one that is given now.
#pragma once

#include <google/protobuf/message.h>

#include <span>
#include <string>
#include <vector>

#include "oneflow_core/recipe/row.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {

// Clears the fields of `message`, as a file or an earlier run says them, that depend on a field for
// which a flag says otherwise: warm_ups of its schedule, beside --schedule=1f1b. Returns their
// names. Flags that are given count in any case.
std::vector<std::string> DropDependents(std::span<const Row> rows, const Arguments& args,
                                        google::protobuf::Message* message);

}  // namespace oneflow

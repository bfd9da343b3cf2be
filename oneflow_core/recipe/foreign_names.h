// Names of choices in other programs: Megatron-LM, torchtitan, DeepSpeed, nanoGPT.
//
//   FlagMeantBy("lr")                          // "learning_rate": means the same, and is accepted
//   AdviceOn("tensor_model_parallel_size")     // "write --mesh=tensor=N, ...": maps to no one flag
//
// Names are written with underscores. A section before a dot, as in torchtitan's "optimizer.lr", is
// passed over.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace oneflow {

// The field that has the same meaning and takes the same values (Row::foreign); "" where there is
// none.
std::string_view FlagMeantBy(std::string_view name);

// Advice for a name that does not map one to one; "" if nothing is known about it.
std::string_view AdviceOn(std::string_view name);

// The names that FlagMeantBy knows.
std::vector<std::string> ForeignNames();

}  // namespace oneflow

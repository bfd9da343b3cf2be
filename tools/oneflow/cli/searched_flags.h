// Flags of compile that `oneflow search` does not take, because it chooses what they say.
#pragma once

#include <string>
#include <string_view>

namespace oneflow {

// What to write instead of a flag; "" for one that the search does not choose.
std::string AdviceOnSearched(std::string_view flag);

}  // namespace oneflow

// Finds the known name that is closest to a mistyped one: "Did you mean ...?".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace oneflow {

// Returns the element of `known` with the smallest edit distance to `name`, in upper or lower case
// alike; the first of equals. It is empty if none is close: if more than a third of the name's
// letters, and more than two, would have to change.
std::string Nearest(std::string_view name, const std::vector<std::string>& known);

}  // namespace oneflow

// "Did you mean ...?": the known name that is closest to a mistyped one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace oneflow {

// The element of `known` with the smallest edit distance to `name`, whatever the case of letters;
// the first of equals. Empty if none is close: more than a third of the name's letters (at least
// two) would have to change.
std::string Nearest(std::string_view name, const std::vector<std::string>& known);

}  // namespace oneflow

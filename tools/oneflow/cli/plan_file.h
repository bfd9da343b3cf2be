// A plan in the place of its graph or its cluster.
#pragma once

#include <string>

namespace oneflow {

// True of a file that begins as plans do.
bool IsPlanFile(const std::string& path);

}  // namespace oneflow

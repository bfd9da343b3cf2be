// Makes UTF-8 of any bytes, such as paths, for protos and JSON.
#pragma once

#include <string>
#include <string_view>

namespace oneflow {

// Returns `bytes` with U+FFFD in place of each byte that is part of no character; UTF-8 stays as it
// is.
std::string Utf8(std::string_view bytes);

}  // namespace oneflow

// Bytes of any kind, such as paths, where text must be UTF-8: in protos and JSON.
#pragma once

#include <string>
#include <string_view>

namespace oneflow {

// `bytes` with U+FFFD in place of each that is part of no character; the same where it is UTF-8.
std::string Utf8(std::string_view bytes);

}  // namespace oneflow

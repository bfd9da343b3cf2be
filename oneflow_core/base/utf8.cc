#include "oneflow_core/base/utf8.h"

#include <utf8proc.h>

namespace oneflow {

std::string Utf8(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    utf8proc_int32_t character;
    const utf8proc_ssize_t length =
        utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(bytes.data()),
                         static_cast<utf8proc_ssize_t>(bytes.size()), &character);
    text += length > 0 ? bytes.substr(0, length) : "\xEF\xBF\xBD";
    bytes.remove_prefix(length > 0 ? length : 1);
  }
  return text;
}

}  // namespace oneflow

// How ops of a GPT's blocks are named: "h.12.attn.qkv" is of block 12.
#pragma once

#include <charconv>
#include <string_view>
#include <system_error>

namespace oneflow {

// The block of "h.12.attn.qkv" is 12; -1 outside of blocks. `rest` gets what follows: "attn.qkv".
inline int ParseBlock(std::string_view name, std::string_view* rest) {
  if (!name.starts_with("h.")) return -1;
  int block = -1;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + 2, end, block);
  if (error != std::errc() || stop == end || *stop != '.' || block < 0) return -1;
  *rest = {stop + 1, static_cast<size_t>(end - stop - 1)};
  return block;
}

}  // namespace oneflow

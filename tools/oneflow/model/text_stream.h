// Converts the bytes of tokens to text that can be printed incrementally: complete characters only,
// and nothing that may be the beginning of a stop string.
//
//   TextStream stream({"\n\n"});
//   std::fputs(stream.Push(tokenizer.bytes(token)).c_str(), stdout);   // token by token
//   if (stream.stopped()) ...
//   std::fputs(stream.Finish().c_str(), stdout);
//
// The output is UTF-8: bytes that belong to no character become U+FFFD.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace oneflow {

class TextStream {
 public:
  // Empty strings do not stop anything.
  explicit TextStream(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // The text that `bytes` completes. Once a stop string is complete, the text ends before it.
  std::string Push(std::string_view bytes);
  // The remaining text, because the input ends here.
  std::string Finish();
  bool stopped() const { return stopped_; }

 private:
  const std::vector<std::string> stops_;
  std::string held_;  // not shown yet
  bool stopped_ = false;
};

}  // namespace oneflow

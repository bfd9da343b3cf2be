// TemporaryDirectory: a new directory for one test, removed at the end with all its content.
#pragma once

#include <string>
#include <string_view>

namespace oneflow {

class TemporaryDirectory {
 public:
  TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory();

  const std::string& path() const { return path_; }

  // Writes a file in the directory; returns its path.
  std::string Write(std::string_view name, std::string_view content) const;

 private:
  std::string path_;
};

}  // namespace oneflow

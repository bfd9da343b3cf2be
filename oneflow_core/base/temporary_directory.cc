#include "oneflow_core/base/temporary_directory.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "glog/logging.h"

namespace oneflow {

TemporaryDirectory::TemporaryDirectory() {
  const char* root = std::getenv("TEST_TMPDIR");
  path_ = std::string(root != nullptr ? root : "/tmp") + "/oneflow.XXXXXX";
  PCHECK(mkdtemp(path_.data()) != nullptr) << path_;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryDirectory::Write(std::string_view name, std::string_view content) const {
  const std::string file = path_ + "/" + std::string(name);
  std::ofstream(file, std::ios::binary) << content;
  return file;
}

}  // namespace oneflow

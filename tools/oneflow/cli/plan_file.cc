#include "tools/oneflow/cli/plan_file.h"

#include <fstream>

#include "oneflow_core/base/file_kind.h"

namespace oneflow {

bool IsPlanFile(const std::string& path) {
  std::string begin(kPlanMagic.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  return file.read(begin.data(), static_cast<std::streamsize>(begin.size())) && begin == kPlanMagic;
}

}  // namespace oneflow

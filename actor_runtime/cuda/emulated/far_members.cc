#include "actor_runtime/cuda/emulated/far_members.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "glog/logging.h"

namespace oneflow::emulated {

std::string FolderOfFarMembers() {
  const char* folder = std::getenv("ONEFLOW_EMULATED_NCCL");
  return folder == nullptr ? "" : folder;
}

FarMembers::FarMembers(const std::string& folder, const std::string& clique)
    : prefix_(folder + "/" + clique + " ") {}

std::string FarMembers::MakePath(const std::string& name) const { return prefix_ + name; }

void FarMembers::Leave(const std::string& name, const std::string& content) const {
  const std::string path = MakePath(name), fresh = path + ".new";
  std::ofstream file(fresh, std::ios::binary);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  CHECK(file && std::rename(fresh.c_str(), path.c_str()) == 0) << path;
}

bool FarMembers::Has(const std::string& name) const {
  std::error_code error;
  return std::filesystem::exists(MakePath(name), error);
}

std::string FarMembers::Read(const std::string& name) const {
  const std::ifstream file(MakePath(name), std::ios::binary);
  CHECK(file) << MakePath(name);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

}  // namespace oneflow::emulated

// Members of the twin of NCCL in other processes of this machine. They meet in a folder that the
// variable ONEFLOW_EMULATED_NCCL names: who takes part in an operation leaves its input there, as a
// file that appears whole, and reads those of the others. Files stay until somebody removes the
// folder.
//
//   FarMembers far(FolderOfFarMembers(), "emulated 12 1");
//   far.Leave("joined 0", "");                    process A
//   if (far.Has("joined 0")) ...                  process B
//
// It knows no CUDA. What another process has not left yet is asked for again and again: the machine
// polls once there are far members.
#pragma once

#include <string>
#include <utility>

namespace oneflow::emulated {

// Empty: there are no other processes.
std::string FolderOfFarMembers();

class FarMembers {
 public:
  // `clique`: names it among all processes.
  FarMembers(const std::string& folder, const std::string& clique);

  // Once a name.
  void Leave(const std::string& name, const std::string& content) const;
  bool Has(const std::string& name) const;
  // Requires that it is there.
  std::string Read(const std::string& name) const;

 private:
  std::string MakePath(const std::string& name) const;
  const std::string prefix_;
};

}  // namespace oneflow::emulated

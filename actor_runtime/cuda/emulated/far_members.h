// FarMembers: members of the emulated NCCL in other processes of this machine. They meet in a
// folder that the variable ONEFLOW_EMULATED_NCCL names: each member of an operation writes its
// input there, as a file that appears atomically, and reads those of the others. Files stay until
// somebody removes the folder.
//
//   FarMembers far(FolderOfFarMembers(), "emulated 12 1");
//   far.Leave("joined 0", "");                    process A
//   if (far.Has("joined 0")) ...                  process B
//
// It knows no CUDA. Files that another process has not written yet are polled: the machine polls
// once there are far members.
#pragma once

#include <string>

namespace oneflow::emulated {

// Empty: there are no other processes.
std::string FolderOfFarMembers();

class FarMembers {
 public:
  // `clique`: its name among all processes.
  FarMembers(const std::string& folder, const std::string& clique);

  // Writes a file; once a name.
  void Leave(const std::string& name, const std::string& content) const;
  bool Has(const std::string& name) const;
  // Requires that the file exists.
  std::string Read(const std::string& name) const;

 private:
  std::string MakePath(const std::string& name) const;
  const std::string prefix_;
};

}  // namespace oneflow::emulated

#include "tools/oneflow/cli/version.h"

#include <elf.h>
#include <google/protobuf/stubs/common.h>
#include <grpcpp/grpcpp.h>
#include <link.h>
#include <ucp/api/ucp.h>

#include <cstring>
#include <string_view>

#include "absl/base/config.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "actor_runtime/kernel/simd/isa.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/plan/plan_format.h"

namespace oneflow {
namespace {

constexpr std::string_view kVersion =
#include "tools/oneflow/cli/version.inc"
    ;

// The linker's identifier among the notes of a segment; "" where it is none of them.
std::string BuildIdIn(const char* notes, size_t bytes) {
  ElfW(Nhdr) note;
  for (size_t at = 0; at + sizeof(note) <= bytes;) {
    std::memcpy(&note, notes + at, sizeof(note));
    const size_t name = at + sizeof(note);
    const size_t content = name + (note.n_namesz + 3) / 4 * 4;
    const size_t end = content + (note.n_descsz + 3) / 4 * 4;
    if (end > bytes) break;
    if (note.n_type == NT_GNU_BUILD_ID && std::memcmp(notes + name, "GNU", 4) == 0) {
      return absl::BytesToHexString({notes + content, note.n_descsz});
    }
    at = end;
  }
  return "";
}

// Visits the first object, which is the program itself.
int OfProgram(dl_phdr_info* info, size_t /*size*/, void* id) {
  for (int h = 0; h < info->dlpi_phnum; ++h) {
    const ElfW(Phdr)& header = info->dlpi_phdr[h];
    if (header.p_type != PT_NOTE) continue;
    const auto* notes = reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr);
    const std::string found = BuildIdIn(notes, header.p_memsz);
    if (!found.empty()) *static_cast<std::string*>(id) = found;
  }
  return 1;
}

#ifdef __clang__
constexpr std::string_view kCompiler = "clang ";
#else
constexpr std::string_view kCompiler = "gcc ";
#endif

std::string BuildId() {
  std::string id;
  dl_iterate_phdr(OfProgram, &id);
  return id.empty() ? "without an identifier" : id;
}

// 3021012 -> "3.21.12".
std::string ProtobufVersion() {
  constexpr int kNumber = GOOGLE_PROTOBUF_VERSION;
  return absl::StrCat(kNumber / 1000000, ".", kNumber / 1000 % 1000, ".", kNumber % 1000);
}

std::string JsonVersion() {
  return absl::StrCat(NLOHMANN_JSON_VERSION_MAJOR, ".", NLOHMANN_JSON_VERSION_MINOR, ".",
                      NLOHMANN_JSON_VERSION_PATCH);
}

}  // namespace

std::string VersionText() {
  return absl::StrCat("oneflow ", std::string(kVersion), "\nbuild            ", BuildId(), ", by ",
                      std::string(kCompiler), __VERSION__, "\nplans            version ",
                      kPlanVersion, "\ninstruction set  ", std::string(Name(BestIsa())),
                      "\nlibraries        Protobuf ", ProtobufVersion(), ", gRPC ", grpc::Version(),
                      ", UCX ", ucp_get_version_string(), ", Abseil ", ABSL_LTS_RELEASE_VERSION,
                      ", JSON for Modern C++ ", JsonVersion(),
                      "\nGPU libraries    see `oneflow devices`\n");
}

}  // namespace oneflow

// The tables of functions on the emulated GPU are complete, and of the emulated libraries.
#include <catch2/catch.hpp>

#include "actor_runtime/cuda/library/libraries.h"
#include "actor_runtime/cuda/library/nccl.h"

namespace oneflow::cuda {
namespace {

TEST_CASE("cuBLASLt's table holds the twins, and a handle belongs to its owner") {
  const auto lt = OpenCublasLt({});
  REQUIRE(lt.status() == absl::OkStatus());
  CHECK(lt->path == "the twin of cuBLASLt");
  CHECK(lt->version.starts_with("13."));
  CHECK(lt->ToStatus(CUBLAS_STATUS_SUCCESS, "x") == absl::OkStatus());
  CHECK(lt->ToStatus(CUBLAS_STATUS_NOT_SUPPORTED, "x").code() == absl::StatusCode::kUnimplemented);
  CHECK(lt->ToStatus(CUBLAS_STATUS_INVALID_VALUE, "x").message() ==
        "cuBLASLt: x: an invalid value");
  const auto device = DeviceLibraries::Open({});
  REQUIRE(device.status() == absl::OkStatus());
  CHECK(device->libraries().handle != nullptr);
  CHECK(device->libraries().cublas_lt->Matmul == lt->Matmul);
}

TEST_CASE("NCCL's table holds the twins") {
  const auto nccl = OpenNccl({});
  REQUIRE(nccl.status() == absl::OkStatus());
  CHECK(nccl->path == "the twin of NCCL");
  ncclComm_t comm = nullptr;
  ncclUniqueId id;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  REQUIRE(nccl->ToStatus(nccl->GetUniqueId(&id), "id") == absl::OkStatus());
  REQUIRE(nccl->ToStatus(nccl->CommInitRankConfig(&comm, 1, id, 0, &config), "init") ==
          absl::OkStatus());
  CHECK(nccl->ToStatus(nccl->CommDestroy(comm), "destroy") == absl::OkStatus());
  const absl::Status status = nccl->ToStatus(ncclInvalidArgument, "ncclSend");
  CHECK(status.code() == absl::StatusCode::kInternal);
  CHECK(status.message().find("NCCL: ncclSend: ") == 0);
}

}  // namespace
}  // namespace oneflow::cuda

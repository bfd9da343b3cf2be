#include "training/data/npy.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <span>
#include <string>

#include "oneflow_core/base/temporary_directory.h"

namespace oneflow {
namespace {

template <typename T>
NpyArray Array(DType dtype, Dims dims, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {dtype, std::move(dims), {bytes.begin(), bytes.end()}};
}

std::string Npy(const std::string& header, const std::string& data, char major = 1) {
  std::string text = std::string("\x93NUMPY", 6) + major + '\0';
  text += static_cast<char>(header.size());
  text += static_cast<char>(header.size() >> 8);
  if (major == 2) text += {static_cast<char>(header.size() >> 16), '\0'};
  return text + header + data;
}

TEST_CASE("npy: what is written is read") {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/a.npy";
  const std::vector<NpyArray> arrays = {
      Array<float>(DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6}),
      Array<double>(DType::kF64, {}, {0.1}),
      Array<int32_t>(DType::kI32, {3}, {-1, 0, 7}),
      Array<float>(DType::kF32, {2, 0, 5}, {}),
  };
  for (const NpyArray& array : arrays) {
    REQUIRE(WriteNpy(path, array).ok());
    const NpyArray read = *ReadNpy(path);
    CHECK(read.dtype == array.dtype);
    CHECK(read.dims == array.dims);
    CHECK(read.bytes == array.bytes);
  }
  CHECK(ReadNpy(path)->as<float>().empty());
}

TEST_CASE("npy: the file is the one NumPy writes") {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/a.npy";
  REQUIRE(WriteNpy(path, Array<int32_t>(DType::kI32, {2}, {1, 2})).ok());
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  CHECK(text == std::string("\x93NUMPY\x01\x00\x76\x00", 10) +
                    "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }" +
                    std::string(60, ' ') + "\n" + std::string("\x01\0\0\0\x02\0\0\0", 8));
}

TEST_CASE("npy: format 2.0 and other spacing are read") {
  const TemporaryDirectory dir;
  const std::string header = "{'shape':(1,1),'fortran_order':False,'descr':'<i4'}\n";
  const std::string long_header = std::string(70000, ' ') + header;
  const std::string path = dir.Write("a.npy", Npy(long_header, std::string("\x05\0\0\0", 4), 2));
  const NpyArray array = *ReadNpy(path);
  CHECK(array.dims == Dims{1, 1});
  CHECK(array.as<int32_t>()[0] == 5);
}

TEST_CASE("npy: each mistake is named") {
  const TemporaryDirectory dir;
  auto error = [&](const std::string& content) {
    const absl::StatusOr<NpyArray> array = ReadNpy(dir.Write("a.npy", content));
    REQUIRE_FALSE(array.ok());
    CHECK(array.status().code() == absl::StatusCode::kInvalidArgument);
    return std::string(array.status().message());
  };
  const std::string four(4, '\0');
  CHECK(ReadNpy(dir.path() + "/no.npy").status().code() == absl::StatusCode::kNotFound);
  CHECK_THAT(error(""), Catch::Contains("does not start with NUMPY"));
  CHECK_THAT(error("PK zip"), Catch::Contains("does not start with NUMPY"));
  CHECK_THAT(error(std::string("\x93NUMPY\x01", 7)), Catch::Contains("truncated"));
  CHECK_THAT(error(Npy("{}", four, 3)), Catch::Contains("its version is 3"));
  CHECK_THAT(error(Npy("{'descr': '<f4'}  ", four)), Catch::Contains("lacks a key"));
  CHECK_THAT(error(Npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", four)),
             Catch::Contains("Fortran order"));
  CHECK_THAT(error(Npy("{'descr': '<i8', 'fortran_order': False, 'shape': (), }", four + four)),
             Catch::Contains("element type '<i8' is not supported"));
  CHECK_THAT(error(Npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", four)),
             Catch::Contains("element type '>f4'"));
  CHECK_THAT(error(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", four)),
             Catch::Contains("[2] needs 8 bytes, it has 4"));
  CHECK_THAT(error(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", four + four)),
             Catch::Contains("[] needs 4 bytes, it has 8"));
  CHECK_THAT(error(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", four)),
             Catch::Contains("its shape is (-2,)"));
  CHECK_THAT(error(Npy("{'descr': '<f4', 'fortran_order': False, "
                       "'shape': (4611686018427387904, 4), }",
                       four)),
             Catch::Contains("its shape is"));
}

TEST_CASE("npy: bf16 and bad paths are refused") {
  const TemporaryDirectory dir;
  CHECK_FALSE(WriteNpy(dir.path() + "/a.npy", {.dtype = DType::kBF16}).ok());
  CHECK_THAT(std::string(WriteNpy(dir.path() + "/no/a.npy", NpyArray()).message()),
             Catch::Contains("cannot be written: No such file"));
}

}  // namespace
}  // namespace oneflow

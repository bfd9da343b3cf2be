#include "training/hugging_face/safetensors.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "oneflow_core/base/temporary_directory.h"
#include "training/hugging_face/strict_json.h"

namespace oneflow {
namespace {

std::string LengthText(uint64_t bytes) {
  std::string text(8, '\0');
  std::memcpy(text.data(), &bytes, 8);
  return text;
}

std::string MakeFile(const std::string& header, size_t data_bytes) {
  std::string data(data_bytes, '\0');
  std::iota(data.begin(), data.end(), 1);
  return LengthText(header.size()) + header + data;
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string ErrorWithout(const std::string& message, const std::string& folder) {
  std::string text = message;
  if (text.starts_with(folder)) text = text.substr(folder.size() + 1);
  return text.substr(0, text.rfind("; "));
}

// The error of a file, without its folder and hint.
std::string Error(const std::string& content) {
  const TemporaryDirectory folder;
  const auto file = SafetensorsFile::Open(folder.Write("m.safetensors", content));
  REQUIRE_FALSE(file.ok());
  REQUIRE(absl::IsInvalidArgument(file.status()));
  return ErrorWithout(std::string(file.status().message()), folder.path());
}

std::string HeaderError(const std::string& header, size_t data_bytes = 8) {
  return Error(MakeFile(header, data_bytes));
}

TEST_CASE("Safetensors: what is written is read, in any type and in parts") {
  const TemporaryDirectory folder;
  const std::string path = folder.path() + "/m.safetensors";
  std::vector<FileTensor> tensors = {{.name = "a", .type = FileType::kF32, .dims = {3, 2}},
                                     {.name = "b \"quoted\"", .type = FileType::kBF16, .dims = {5}},
                                     {.name = "c", .type = FileType::kF16, .dims = {}},
                                     {.name = "empty", .type = FileType::kF16, .dims = {0, 4}}};
  const std::vector<float> values = {1, -2.5, 3, 0.25, 1e3, -7};
  auto writer = SafetensorsWriter::Create(path, {{"format", "pt"}}, tensors).value();
  CHECK(writer.Write(0, 4, std::span(values).subspan(4)).ok());
  CHECK(writer.Write(0, 0, std::span(values).first(4)).ok());
  CHECK(writer.Write(1, 0, std::span(values).first(5)).ok());
  CHECK(writer.Write(2, 0, std::span(values).first(1)).ok());
  CHECK(writer.Finish().ok());

  const std::string bytes = ReadText(path);
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  CHECK(header % 8 == 0);
  CHECK(bytes.size() == 8 + header + 24 + 10 + 2);
  const auto file = SafetensorsFile::Open(path).value();
  CHECK(file.header().metadata == std::map<std::string, std::string>{{"format", "pt"}});
  CHECK(file.header().tensors == writer.tensors());
  std::vector<float> read(3);
  CHECK(file.Read(**file.Find("a"), 2, read).ok());
  CHECK(read == std::vector<float>{3, 0.25, 1e3});
  CHECK(file.Read(**file.Find("b \"quoted\""), 2, read).ok());
  CHECK(read == std::vector<float>{3, 0.25, 1000});
  read.resize(1);
  CHECK(file.Read(**file.Find("c"), 0, read).ok());
  CHECK(read == std::vector<float>{1});
  CHECK(file.Find("d").status().message() == path + ": has no tensor \"d\"");
}

TEST_CASE("Safetensors: a value that the type cannot hold is refused by name") {
  const TemporaryDirectory folder;
  auto writer = SafetensorsWriter::Create(folder.path() + "/m.safetensors", {},
                                          {{.name = "h.0.w", .type = FileType::kF16, .dims = {4}}})
                    .value();
  const std::vector<float> values = {1, 70000};
  CHECK(writer.Write(0, 2, values).message() ==
        "tensor \"h.0.w\": element 3 is 70000, which f16 cannot hold; write another type, such as "
        "f32");
}

TEST_CASE("Safetensors: a type that cannot be read is known, and refused when it is read") {
  const TemporaryDirectory folder;
  const std::string path = folder.Write(
      "m.safetensors", MakeFile(R"({"i":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})", 8));
  const auto file = SafetensorsFile::Open(path).value();
  std::vector<float> value(1);
  CHECK(file.Read(**file.Find("i"), 0, value).message() ==
        path + ": tensor \"i\": has elements of type I64; save it as F32, BF16 or F16");
}

TEST_CASE("Safetensors: sizes are checked against the file") {
  const std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  CHECK(Error("abc") == "m.safetensors: has 3 bytes, and a header's length has 8");
  CHECK(Error(LengthText(uint64_t{1} << 33) + "{}") ==
        "m.safetensors: its header has 8589934592 bytes, and the file 10");
  CHECK(Error(LengthText(~uint64_t{0}) + "{}") ==
        "m.safetensors: its header has 18446744073709551615 bytes, and the file 10");
  CHECK(Error(LengthText(3) + "{}") == "m.safetensors: its header has 3 bytes, and the file 10");
  CHECK(HeaderError(header, 7) ==
        "m.safetensors: tensor \"a\": ends behind the file: it has 8 bytes from byte 0 of 7 of the "
        "data on");
  CHECK(HeaderError(header, 9) ==
        "m.safetensors: the file has 9 bytes of data, and its tensors have 8");
}

// A file that claims a header of gigabytes, and has them, takes no memory for it.
TEST_CASE("Safetensors: a header larger than the format allows is not read") {
  const TemporaryDirectory folder;
  const std::string path = folder.Write("m.safetensors", LengthText(uint64_t{3} << 30) + "{");
  REQUIRE(truncate(path.c_str(), off_t{4} << 30) == 0);
  const auto file = SafetensorsFile::Open(path);
  CHECK(file.status().message() ==
        path +
            ": its header has 3221225472 bytes, and the format allows 100000000; the file is "
            "damaged or of another format: get it again");
}

TEST_CASE("Safetensors: other than regular files") {
  const TemporaryDirectory folder;
  CHECK(SafetensorsFile::Open("/dev/null").status().message() ==
        "/dev/null: is no regular file; give a file");
  CHECK(absl::IsNotFound(SafetensorsFile::Open(folder.path() + "/none").status()));
  CHECK(SafetensorsFile::Open(folder.path()).status().message() ==
        folder.path() + ": cannot be read: Is a directory; give a file that this user may read");
}

TEST_CASE("Safetensors: mistakes in the JSON are named with their position") {
  CHECK(HeaderError("[]") == "m.safetensors: the header does not begin with {");
  CHECK_THAT(HeaderError(R"({"a":})"),
             Catch::StartsWith("m.safetensors: the header is no JSON at its byte 6: "));
  CHECK_THAT(HeaderError(R"({} x)"),
             Catch::StartsWith("m.safetensors: the header is no JSON at its byte 4: "));
  CHECK(HeaderError(R"({"a":1})") == "m.safetensors: tensor \"a\": it is a number");
  CHECK(HeaderError(R"({"a":[]})") == "m.safetensors: tensor \"a\": it is an array");
  CHECK(HeaderError(R"({"__metadata__":null})") == "m.safetensors: \"__metadata__\": it is null");
  CHECK(HeaderError(R"({"__metadata__":{"x":1}})") ==
        "m.safetensors: \"__metadata__\": \"x\" is a number");
  const std::string deep = R"({"a":{"shape":)" + std::string(1000000, '[');
  CHECK(HeaderError(deep) == "m.safetensors: tensor \"a\": an element of \"shape\" is an array");
}

TEST_CASE("Safetensors: names that occur twice are refused") {
  const std::string a = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  const std::string later = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]})";
  CHECK(HeaderError("{" + a + "," + later + "}") == "m.safetensors: tensor \"a\": occurs twice");
  CHECK(HeaderError(R"({"__metadata__":{},"__metadata__":{}})") ==
        "m.safetensors: \"__metadata__\": occurs twice");
  CHECK(HeaderError(R"({"a":{"dtype":"F32","dtype":"F32"}})") ==
        "m.safetensors: tensor \"a\": \"dtype\" occurs twice");
}

TEST_CASE("Safetensors: fields of a tensor are checked") {
  const auto with = [](const std::string& dtype, const std::string& shape,
                       const std::string& offsets) {
    return HeaderError(R"({"a":{"dtype":)" + dtype + R"(,"shape":)" + shape +
                       R"(,"data_offsets":)" + offsets + "}}");
  };
  const std::string at = "m.safetensors: tensor \"a\": ";
  CHECK(with(R"("F4")", "[2]", "[0,8]") == at + "dtype \"F4\" is not known");
  CHECK(with("5", "[2]", "[0,8]") == at + "\"dtype\" is a number");
  CHECK(with("[]", "[2]", "[0,8]") == at + "\"dtype\" is an array");
  CHECK(with(R"("F32")", "2", "[0,8]") == at + "\"shape\" is a number");
  CHECK(with(R"("F32")", "[-2]", "[0,8]") == at + "shape has the negative number -2");
  CHECK(with(R"("F32")", "[2.0]", "[0,8]") == at + "shape has 2.0, which is no integer");
  CHECK(with(R"("F32")", "[9223372036854775808]", "[0,8]") ==
        at + "shape has 9223372036854775808, more than 2^63 - 1");
  CHECK(with(R"("F32")", "[4294967296,4294967296]", "[0,8]") ==
        at + "shape [4294967296,4294967296] has more than 2^63 bytes");
  CHECK(with(R"("F32")", R"(["2"])", "[0,8]") == at + "an element of \"shape\" is a string");
  CHECK(with(R"("F32")", "[3]", "[0,8]") ==
        at + "shape [3] of F32 takes 12 bytes, and data_offsets have 8");
  CHECK(with(R"("F32")", "[2]", "[0,8,16]") == at + "data_offsets has 3 numbers, not 2");
  CHECK(with(R"("F32")", "[2]", "[8,0]") == at + "data_offsets [8,0] end before they begin");
  CHECK(with(R"("F32")", "[2]", R"([0,8],"x":1)") == at + "has the unknown field \"x\"");
  CHECK(HeaderError(R"({"a":{"dtype":"F32","shape":[2]}})") == at + "has no \"data_offsets\"");
  CHECK(HeaderError(R"({"a":{}})") == at + "has no \"dtype\"");
}

TEST_CASE("Safetensors: tensors neither overlap nor leave gaps") {
  const auto two = [](const std::string& a, const std::string& b, size_t data) {
    return HeaderError(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a +
                           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}",
                       data);
  };
  CHECK(two("[0,4]", "[3,7]", 7) ==
        "m.safetensors: tensor \"b\": overlaps \"a\": it begins at byte 3 of the data, which ends "
        "at 4");
  CHECK(two("[5,9]", "[0,4]", 9) ==
        "m.safetensors: tensor \"a\": leaves bytes 4 to 5 of the data to no tensor, behind \"b\"");
  CHECK(two("[1,5]", "[5,9]", 9) ==
        "m.safetensors: tensor \"a\": leaves bytes 0 to 1 of the data to no tensor");
}

constexpr size_t kDataBytes = 42;

// One or several random changes of a file: of bits, bytes, digits, or its length.
std::string Mutate(std::string bytes, std::mt19937& random) {
  const auto below = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  static constexpr std::string_view kBytes = "0123456789[]{}\",:-.eE\\ ntfFBIU\x00\xff";
  const bool of_data = below(4) == 0;  // in place, which leaves a good file
  for (size_t changes = 1 + below(3); changes > 0 && !bytes.empty(); --changes) {
    const size_t at = of_data ? bytes.size() - 1 - below(kDataBytes) : below(bytes.size());
    switch (below(of_data ? 2 : 6)) {
      case 0: bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(8)); break;
      case 1: bytes[at] = kBytes[below(kBytes.size())]; break;
      case 2: bytes.erase(at, 1 + below(20)); break;
      case 3: bytes.insert(at, bytes.substr(below(bytes.size()), 1 + below(60))); break;
      case 4: bytes.resize(at); break;
      default: bytes += std::string(1 + below(9), 'x');
    }
  }
  return bytes;
}

// Reads a file that opens by another parser: each element is where the header puts it.
void CheckReadsRight(const SafetensorsFile& file, const std::string& bytes) {
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  const auto json = nlohmann::json::parse(bytes.substr(8, header));
  const std::string data = bytes.substr(8 + header);
  int64_t covered = 0;
  for (const FileTensor& tensor : file.header().tensors) {
    const auto& object = json.at(tensor.name);
    REQUIRE(object.at("shape") == tensor.dims);
    REQUIRE(object.at("dtype") == tensor.type_name);
    REQUIRE(object.at("data_offsets") == std::vector{tensor.offset, tensor.offset + tensor.bytes});
    covered += tensor.bytes;
    if (!tensor.type) continue;
    std::vector<float> values(Product(tensor.dims)), expected(values.size());
    REQUIRE(file.Read(tensor, 0, values).ok());
    Widen(*tensor.type, std::as_bytes(std::span(data).subspan(tensor.offset, tensor.bytes)),
          expected);
    REQUIRE(std::memcmp(values.data(), expected.data(), values.size() * 4) == 0);
  }
  REQUIRE(covered == static_cast<int64_t>(data.size()));
}

TEST_CASE("Safetensors: of 1,000 mutated files each is refused by name or read right") {
  const TemporaryDirectory folder;
  const std::string good = MakeFile(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]},)"
      R"("c":{"dtype":"F16","shape":[],"data_offsets":[32,34]},)"
      R"("d":{"dtype":"I64","shape":[1],"data_offsets":[34,42]}} )",
      kDataBytes);
  std::mt19937 random(20251);
  int opened = 0, refused = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::string bytes = Mutate(good, random);
    const std::string path = folder.Write("m.safetensors", bytes);
    const auto file = SafetensorsFile::Open(path);
    if (file.ok()) {
      ++opened;
      CheckReadsRight(*file, bytes);
    } else {
      ++refused;
      CHECK(absl::IsInvalidArgument(file.status()));
      CHECK_THAT(std::string(file.status().message()), Catch::StartsWith(path + ": "));
    }
  }
  CHECK(opened > 200);
  CHECK(refused > 500);
}

TEST_CASE("Safetensors: a file that is truncated while it is read gives an error") {
  const TemporaryDirectory folder;
  const std::string path = folder.Write(
      "m.safetensors", MakeFile(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8));
  const auto file = SafetensorsFile::Open(path).value();
  REQUIRE(truncate(path.c_str(), 20) == 0);
  std::vector<float> values(2);
  CHECK_THAT(std::string(file.Read(**file.Find("a"), 0, values).message()),
             Catch::StartsWith(path + ": is truncated at byte "));
}

TEST_CASE("StrictJson: two values of one name and deep nesting are refused") {
  const auto error = [](const std::string& text) {
    return std::string(ParseStrictJson(text, "config.json").status().message());
  };
  CHECK((*ParseStrictJson(R"({"a":{"x":1},"b":{"x":2}})", "config.json"))["b"]["x"] == 2);
  CHECK(error(R"({"a":1,"b":2,"a":3})") ==
        "config.json: \"a\" has two values in one object; correct the file");
  CHECK(error(R"({"a":[{"x":1,"x":1}]})") ==
        "config.json: \"x\" has two values in one object; correct the file");
  CHECK(error("[1]") == "config.json: is no JSON object; get the file again");
  CHECK_THAT(error(R"({"a":)"),
             Catch::StartsWith("config.json: is no JSON: parse error at line 1, column 6"));
  const std::string deep = R"({"a":)" + std::string(1000000, '[') + std::string(1000000, ']') + "}";
  CHECK(error(deep) == "config.json: values are nested more than 32 levels deep; correct the file");
}

}  // namespace
}  // namespace oneflow

#include "training/data/npy.h"

#include <cerrno>
#include <fstream>
#include <limits>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "training/data/mapped_file.h"

namespace oneflow {
namespace {

constexpr size_t kAlignment = 64;  // of the data, as the format requires

absl::Status NotNpy(std::string_view path, std::string_view what) {
  return InputError(path, absl::StrCat("not a readable .npy file: ", ToAbsl(what)),
                    "write it with numpy.save");
}

// The value of a key in the header, a Python dictionary in one line: the text after "'key': ", up
// to the end of the value.
std::optional<std::string_view> HeaderValue(std::string_view header, std::string_view key) {
  const std::string quoted = "'" + std::string(key) + "'";
  size_t at = header.find(quoted);
  if (at == header.npos) return std::nullopt;
  at = header.find(':', at);
  if (at == header.npos) return std::nullopt;
  at = header.find_first_not_of(' ', at + 1);
  if (at == header.npos) return std::nullopt;
  const std::string_view rest = header.substr(at);
  const size_t end = rest[0] == '(' ? rest.find(')') : rest.find_first_of(",}");
  if (end == rest.npos) return std::nullopt;
  return rest.substr(0, rest[0] == '(' ? end + 1 : end);
}

absl::StatusOr<DType> ParseDescr(std::string_view path, std::string_view descr) {
  if (descr == "'<f4'") return DType::kF32;
  if (descr == "'<f8'") return DType::kF64;
  if (descr == "'<i4'") return DType::kI32;
  if (descr == "'|u1'") return DType::kU8;
  return InputError(path, absl::StrCat("element type ", ToAbsl(descr), " is not supported"),
                    "save it as float32, float64, int32 or uint8, little-endian");
}

const char* Descr(DType dtype) {
  switch (dtype) {
    case DType::kF64: return "<f8";
    case DType::kI32: return "<i4";
    case DType::kU8: return "|u1";
    default: return "<f4";
  }
}

// "(2, 3)", "(2,)" or "()".
std::optional<Dims> ParseShape(std::string_view text) {
  if (text.size() < 2 || text.front() != '(' || text.back() != ')') return std::nullopt;
  Dims dims;
  int64_t elements = 1;
  const absl::string_view list = ToAbsl(text.substr(1, text.size() - 2));
  for (absl::string_view part : absl::StrSplit(list, ',', absl::SkipWhitespace())) {
    int64_t size;
    if (!absl::SimpleAtoi(part, &size) || size < 0) return std::nullopt;
    if (size > 0 && elements > std::numeric_limits<int64_t>::max() / 8 / size) return std::nullopt;
    elements *= size;
    dims.push_back(size);
  }
  return dims;
}

struct FileParts {
  std::string_view header, data;
};

absl::StatusOr<FileParts> SplitFile(std::string_view path, std::string_view file) {
  if (file.substr(0, kNpyMagic.size()) != kNpyMagic)
    return NotNpy(path, "it does not start with NUMPY");
  if (file.size() < 12) return NotNpy(path, "it is truncated");
  auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(file[i])); };
  const size_t major = byte(6);
  if (major != 1 && major != 2) return NotNpy(path, absl::StrCat("its version is ", major));
  const size_t start = major == 1 ? 10 : 12;
  size_t length = byte(8) | byte(9) << 8;
  if (major == 2) length |= byte(10) << 16 | byte(11) << 24;
  if (file.size() < start + length) return NotNpy(path, "it is truncated");
  return FileParts{file.substr(start, length), file.substr(start + length)};
}

}  // namespace

absl::StatusOr<NpyHeader> ParseNpyHeader(std::string_view path, std::string_view head) {
  ASSIGN_OR_RETURN(const FileParts parts, SplitFile(path, head));
  const auto descr = HeaderValue(parts.header, "descr");
  const auto order = HeaderValue(parts.header, "fortran_order");
  const auto shape = HeaderValue(parts.header, "shape");
  if (!descr || !order || !shape) return NotNpy(path, "its header lacks a key");
  if (*order != "False") {
    return InputError(path, "the array is in Fortran order", "save numpy.ascontiguousarray(array)");
  }
  const std::optional<Dims> dims = ParseShape(*shape);
  if (!dims) return NotNpy(path, absl::StrCat("its shape is ", ToAbsl(*shape)));
  return NpyHeader{std::string(*descr), *dims, std::ssize(head) - std::ssize(parts.data)};
}

absl::StatusOr<NpyArray> ReadNpy(const std::string& path) {
  ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  ASSIGN_OR_RETURN(NpyHeader header, ParseNpyHeader(path, text));
  NpyArray array;
  array.dims = std::move(header.dims);
  ASSIGN_OR_RETURN(array.dtype, ParseDescr(path, header.descr));
  const size_t bytes = Product(array.dims) * ElementBytes(array.dtype);
  const std::string_view data = text.substr(header.offset);
  if (data.size() != bytes) {
    return NotNpy(path, absl::StrCat("its shape ", ToString(array.dims), " needs ", bytes,
                                     " bytes, it has ", data.size()));
  }
  const auto* begin = reinterpret_cast<const std::byte*>(data.data());
  array.bytes.assign(begin, begin + bytes);
  return array;
}

absl::Status WriteNpy(const std::string& path, const NpyArray& array) {
  return WriteNpy(path, array.dtype, array.dims, array.bytes);
}

absl::Status WriteNpy(const std::string& path, DType dtype, const Dims& dims,
                      std::span<const std::byte> bytes) {
  if (dtype == DType::kBF16) {
    return InputError(path, "cannot hold bf16: NumPy has no such type", "convert it to f32");
  }
  std::string header =
      absl::StrCat("{'descr': '", Descr(dtype), "', 'fortran_order': False, ", "'shape': (",
                   absl::StrJoin(dims, ", "), dims.size() == 1 ? "," : "", "), }");
  const size_t used = 10 + header.size() + 1;
  header.append((kAlignment - used % kAlignment) % kAlignment, ' ').push_back('\n');
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << kNpyMagic << '\x01' << '\0' << static_cast<char>(header.size() & 0xff)
       << static_cast<char>(header.size() >> 8) << header;
  file.write(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  file.close();
  if (!file) {
    return WriteError(path, "cannot be written", errno);
  }
  return absl::OkStatus();
}

}  // namespace oneflow

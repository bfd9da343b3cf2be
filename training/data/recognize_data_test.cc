// Files that are refused as data, and files that are not.
#include "training/data/recognize_data.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "oneflow_core/base/status.h"
#include "oneflow_core/base/temporary_directory.h"
#include "training/data/doubt_text.h"
#include "training/data/token_file.h"

namespace oneflow {
namespace {

using namespace std::string_literals;

struct Example {
  std::string name, bytes, words;
};

std::string Repeat(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// Each character of `text`, all of ASCII, in `size` bytes.
std::string Widen(const std::string& text, int size, bool big) {
  std::string wide;
  for (const char c : text) {
    const std::string zeros(size - 1, '\0');
    wide += big ? zeros + c : c + zeros;
  }
  return wide;
}

// Noise, as compressed bytes look: no text, and no characters of Latin script alone.
std::string Noise(size_t size) {
  std::string bytes;
  uint32_t state = 12345;
  for (size_t i = 0; i < size; ++i) {
    state = state * 1664525 + 1013904223;
    bytes.push_back(static_cast<char>(state >> 24));
  }
  return bytes;
}

const std::string kText = Repeat("The quick brown fox, and the lazy dog.\n", 20);
const std::string kLine = "{\"text\": \"Hello world.\", \"n\": 1}\n";
const std::string kPointer =
    "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, 'a') +
    "\nsize 12345\n";

std::vector<Example> Refused() {
  const std::string noise = Noise(4000);
  return {
      {"a.gz", "\x1f\x8b\x08\0\0\0\0\0\0\x03"s + noise,
       "is compressed with gzip; unpack it first: gzip -dk /"},
      {"no_name", "\x1f\x8b\x08\x08\x12\x34\x56\x78\x02\xff"s + noise, "gzip"},
      {"a.txt", "\x28\xb5\x2f\xfd"s + noise, "zstd"},
      {"a.xz", "\xfd\x37zXZ\0"s + noise, "xz"},
      {"a", "BZh91AY&SY" + noise, "bzip2"},
      {"a", "\x04\x22\x4d\x18" + noise, "lz4"},
      {"a", "\x50\x2a\x4d\x18\x04\0\0\0"s + noise, "zstd or lz4"},
      {"a.npz", "PK\x03\x04" + noise, "is a zip archive"},
      {"a", "PK\x05\x06"s + std::string(18, '\0'), "is an empty zip archive"},
      {"a", "7z\xbc\xaf\x27\x1c" + noise, "7-Zip"},
      {"a", std::string(257, '\0') + "ustar\x00" + noise, "is a tar archive"},
      {"a", "PAR1" + noise + "PAR1", "is a Parquet table"},
      {"a.txt", "ARROW1\0\0"s + noise, "is an Arrow or Feather table"},
      {"a", "\xff\xff\xff\xff\x90\x01\0\0\x10\0\0\0"s + noise, "is an Arrow stream"},
      {"a", "FEA1" + noise, "is a Feather table"},
      {"a", "Obj\x01" + noise, "Avro"},
      {"a", "\x89HDF\r\n\x1a\n" + noise, "HDF5"},
      {"a", "SQLite format 3\0"s + noise, "SQLite"},
      {"a", "\x80\x04\x95\x10\0\0\0\0\0\0\0"s + noise + ".", "holds pickled objects of Python"},
      {"a.pkl", "(lp0\nVHello\np1\na.", "holds pickled objects of Python"},
      {"a", "\x10\0\0\0\0\0\0\0{\"w\":{}}        "s + noise, "holds weights (safetensors)"},
      {"a", "GGUF\x03\0\0\0"s + noise, "GGUF"},
      {"a", "%PDF-1.7\n" + kText, "is a PDF document"},
      {"a", "{\\rtf1\\ansi " + kText + "}", "is an RTF document"},
      {"a", "\x89PNG\r\n\x1a\n" + noise, "PNG"},
      {"a", "\x7f" + "ELF"s + noise, "ELF"},
      {"a.br", noise, "is compressed with Brotli, by its name"},
      {"a.tfrecord", noise, "TFRecords, by its name"},
      {"a", "\xff\xfe" + Widen(kText, 2, false), "is text in UTF-16; convert it: iconv"},
      {"a", "\xfe\xff" + Widen(kText, 2, true), "UTF-16"},
      {"a", Widen(kText, 2, false), "UTF-16"},
      {"a", Widen(kText, 2, true), "UTF-16"},
      {"a", "\xff\xfe\0\0"s + Widen(kText, 4, false), "UTF-32"},
      {"a", "\0\0\xfe\xff"s + Widen(kText, 4, true), "UTF-32"},
      {"a", Widen(kText, 4, false), "UTF-32"},
      {"a", Widen(kText, 4, true), "UTF-32"},
      // Cyrillic and Chinese, with spaces and line feeds.
      {"a", Repeat("\x1f\x04\x40\x04\x38\x04\x32\x04\x20\0\x3c\x04\n\0"s, 40), "UTF-16"},
      {"a", Repeat("\x4f\x60\x59\x7d\x4e\x16\x75\x4c\0\n"s, 40), "UTF-16"},
      // Without them, and with U+4e00, whose lower byte is zero.
      {"a", Repeat("\x84\x76\xf4\x8b\x7d\x59\0\x4e\x16\x4e\x4c\x75\x02\x30"s, 40),
       "is text in UTF-16; convert it: iconv -f UTF-16LE -t"},
      {"a", Repeat("\x76\x84\x8b\xf4\x59\x7d\x4e\0\x4e\x16\x75\x4c\x30\x02"s, 40),
       "is text in UTF-16; convert it: iconv -f UTF-16BE -t"},
      {"a.txt", kPointer, "is a pointer of Git LFS, not the file itself"},
      {"a.jsonl", kLine, "holds JSON Lines"},
      {"a.jsonl", "{\"text\": \"cut off", "holds JSON Lines"},
      {"a.ndjson", "[1, 2]\n",
       "holds JSON Lines: each line is an array, and no object; write the text in it to a file: "
       "jq -r '.[]' /"},
      {"a.jsonl", "\"one\"\n\"two\"\n",
       "holds JSON Lines: each line is a string, and no object; write the text in it to "
       "a file: jq -r . /"},
      {"a.jsonl", "\"" + Repeat("long ", 5000) + "\"\n", "holds JSON Lines: each line is a string"},
      {"a.txt", kLine + kLine, "holds JSON Lines: each line is an object"},
      {"a", kLine + "{\"text\": \"trunc", "holds JSON Lines"},
      {"a", "{\"odd\": NaN}\n{\"o\\\"NaN\": [-Infinity]}\n" + kLine, "holds JSON Lines"},
      {"a", "{}\n" + kLine + "{}", "holds JSON Lines"},
      {"a", kLine + kLine + std::string((1 << 16) - 1 - 2 * kLine.size(), '\n') + kLine,
       "holds JSON Lines"},  // the block ends after the brace of a line
      {"a.json", "\xef\xbb\xbf\n" + kLine + "\r\n" + kLine, "holds JSON Lines"},
      {"a", "{\"text\": \"" + std::string(1 << 17, 'x') + "\"}\n" + kLine, "holds JSON Lines"},
      {"a", "\x93NUMPY\x01\0"s + noise, "not a readable .npy"},
  };
}

// Not refused, and without a doubt.
std::vector<Example> Texts() {
  return {
      {"empty", "", ""},
      {"a.txt", kText, ""},
      {"one", "a", ""},
      {"a.txt", "\xef\xbb\xbf" + kText, ""},
      {"a.txt",
       Repeat("Привет, мир! こんにちは世界。 مرحبا 🙂 नमस्ते\n",
              20),
       ""},
      {"a.txt",
       Repeat("Sch\xf6ne Gr\xfc\xdf"
              "e aus K\xf6ln\n",
              20),
       ""},                                                                     // Latin-1
      {"a.txt", Repeat("\xff\xf2\xee \xf2\xe5\xea\xf1\xf2\n", 20), ""},         // Windows-1251
      {"a.txt", Repeat("\xc4\xe3\xba\xc3\xa3\xac\xca\xc0\xbd\xe7\n", 20), ""},  // GBK
      {"a.txt", Repeat("\x82\xb1\x82\xf1\x82\xc9\x82\xbf\x90\xa2\x8a\x45", 40), ""},  // Shift-JIS
      {"a.txt", Repeat("\xb0\xa1\xc4\xe3\xba\xc3\xca\xc0\xbd\xe7", 40), ""},
      {"a.txt", Repeat("aGVsbG8gd29ybGQ", 40) + "\xe4", ""},
      {"a.json", kLine, ""},
      {"a.json", "{\n  \"text\": \"Hello\",\n  \"n\": [1, 2]\n}\n", ""},
      {"a.json", "[" + kLine + "," + kLine + "]", ""},
      {"a.tex", "{\\bf The} quick\n{\\it brown} fox\n", ""},
      {"a.py", "{'a': 1}\n{'b': 2}\n", ""},
      {"a.c", "{}\n{}\nint main() { return 0; }\n", ""},
      {"a.txt", kLine + "The line above is one of JSON.\n", ""},
      {"a.txt", kLine + kLine + "The lines above are JSON.\n", ""},
      {"a.txt", Repeat("{\"a\": 1}\n{\"b\": 2}\n{ this is C code }\n", 50), ""},
      {"a.txt", "{\"a\": 1}\n{\"b\": 2}\n{ this is C code }", ""},
      {"a.txt", Repeat(kLine, 40) + "{x}\n", ""},
      {"a.jsonl", "\"Well,\" said he.\n", ""},
      {"a.txt", "[1, 2]\n[3, 4]\n\"and\"\n", ""},
      {"a.csv", "name,count\nfox,1\ndog,2\n", ""},
      {"a.html", "<!DOCTYPE html>\n<html>\n", ""},
      {"a.log", Repeat("\x1b[32mok\x1b[0m\n", 50), ""},
      {"a.txt", "PAR1S and PAR1 are words\n" + kText, ""},
      {"a.txt", "ORCS, GIF89a, RIFF, ID3, GGUF\n" + kText, ""},
      {"ORC.txt", "ORC is a format\n" + kText, ""},
      {"a.txt", "BZh9 is how bzip2 begins\n", ""},
      {"a.txt", "version https://git-lfs.github.com/spec/v1 is how a pointer begins\n" + kText, ""},
      {"a.txt", "PK\n" + kText, ""},
      {"notes.db", kText, ""},
      {"a.pkl.txt", "It is.", ""},
      {"a.jsonl", "no JSON at all\n", ""},
      {"a.arrow", kText, ""},
  };
}

}  // namespace

TEST_CASE("what is no text is refused by name, with what to do") {
  for (const Example& example : Refused()) {
    const TemporaryDirectory dir;
    const std::string path = dir.Write(example.name, example.bytes);
    const auto file = OpenTokenFile(path);
    INFO(example.name << " " << example.words);
    REQUIRE_FALSE(file.ok());
    CHECK(ExitCode(file.status()) == 2);
    const std::string message(file.status().message());
    CHECK_THAT(message, Catch::StartsWith(path + ": ") && Catch::Contains(example.words) &&
                            Catch::Contains("; "));
    CHECK_THAT(message, !Catch::Contains("FILE"));  // commands name the file
    CHECK_FALSE(OpenTextFile(path).ok());
  }
}

TEST_CASE("what may be text is not refused, and is not doubted") {
  for (const Example& example : Texts()) {
    const TemporaryDirectory dir;
    const auto file = OpenTokenFile(dir.Write(example.name, example.bytes));
    INFO(example.name << " " << example.bytes << ": " << file.status().message());
    REQUIRE(file.ok());
    CHECK(file->tokens == std::ssize(example.bytes));
    CHECK(DoubtText(file->file)->empty());
  }
}

TEST_CASE("a text with zero bytes, or many control characters, is doubted") {
  const TemporaryDirectory dir;
  const auto doubt = [&](const std::string& bytes) {
    const auto file = OpenTokenFile(dir.Write("a", bytes)).value();
    return *DoubtText(file.file);
  };
  CHECK_THAT(doubt(kText + "\0one\0two\0three\0"s + kText),
             Catch::Contains("holds 4 zero bytes in its first "));
  CHECK_THAT(doubt(Repeat("Sch\xf6n\0und gut\0\0"s, 9)), Catch::Contains("zero bytes"));
  CHECK_THAT(doubt(Repeat("\x01\x02\x03 ab", 50)), Catch::Contains("holds 150 control characters"));
}

TEST_CASE("a text that is no UTF-8 is doubted where a tokenizer of UTF-8 reads it") {
  CHECK(DoubtUtf8("a.txt", kText + "\xc3\xa4").empty());
  CHECK(DoubtUtf8("a.txt", "\xef\xbb\xbf" + kText + "\0"s).empty());
  CHECK(DoubtUtf8("a.txt", "").empty());
  CHECK(DoubtUtf8("a.txt", "Sch\xf6n") ==
        "is no UTF-8 (byte 3), for which the tokenizer was made; if it has another encoding, "
        "convert it, e.g.: iconv -f LATIN1 -t UTF-8 a.txt > text.txt");
  CHECK_THAT(DoubtUtf8("a", kText + "\xc3"), Catch::Contains("(byte 780)"));  // cut off
}

TEST_CASE("ids without a header are not taken for what they are not, nor anything else for them") {
  const TemporaryDirectory dir;
  const auto refused = [&](const std::string& name, const std::string& bytes) {
    const auto file = OpenTokenFile(dir.Write(name, bytes));
    return file.ok() ? "" : std::string(file.status().message());
  };
  for (const Example& example : Refused()) {
    // Few bytes tell these: they may be ids.
    if (example.bytes.starts_with("\x80\x04") || example.words.starts_with("holds JSON")) continue;
    const bool weak = example.words.starts_with("UTF-") || example.words.starts_with("is text in");
    const bool by_name = example.words.ends_with("by its name");
    if (weak || by_name || example.name == "a.pkl") continue;
    INFO(example.words);
    CHECK_THAT(refused("a.bin", example.bytes), Catch::Contains(example.words.substr(0, 20)));
  }
  CHECK_THAT(refused("a.bin", kText), Catch::Contains("holds text, by its name it would hold"));
  CHECK_THAT(refused("a.npy", kPointer), Catch::Contains("git lfs pull"));
  CHECK_THAT(refused("a.bin", kPointer), Catch::Contains("git lfs pull"));
  const std::string ids = Noise(1200);
  CHECK(OpenTokenFile(dir.Write("dolma.npy", ids))->tokens == 600);
  CHECK(OpenTokenFile(dir.Write("a.bin", ids), 4)->tokens == 300);
  CHECK(OpenTokenFile(dir.Write("a.bin", kText), 2)->tokens == std::ssize(kText) / 2);
  CHECK_THAT(std::string(OpenTextFile(dir.Write("a.bin", ids)).status().message()),
             Catch::Contains("holds token ids, by its name, and holds "));
}

}  // namespace oneflow

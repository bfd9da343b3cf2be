#include "training/data/text_reader.h"

#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "oneflow_core/base/status.h"
#include "oneflow_core/base/temporary_directory.h"
#include "training/data/doubt_text.h"

namespace oneflow {
namespace {

using namespace std::string_literals;
using Documents = std::vector<std::string>;

std::string Gzip(const std::string& text) {
  z_stream stream = {};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, text.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = text.size();
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = packed.size();
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string Zstd(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

// Blocks are joined to documents.
absl::StatusOr<Documents> ReadDocuments(const std::string& path, const std::string& key = "text") {
  ASSIGN_OR_RETURN(const TextReader reader, OpenText(path, key));
  Documents documents;
  bool open = false;
  for (TextBlock block;;) {
    ASSIGN_OR_RETURN(const bool more, reader.next(&block));
    if (!more) break;
    CHECK(block.begins == !open);
    CHECK(!block.text.empty());
    if (block.begins) documents.emplace_back();
    documents.back() += block.text;
    open = !block.ends;
  }
  CHECK_FALSE(open);
  CHECK(reader.position() == reader.facts.file_bytes);
  return documents;
}

std::string ToMessage(const absl::Status& status) {
  CHECK(ExitCode(status) == 2);
  return std::string(status.message());
}

std::string LongText() {
  std::string text;
  uint32_t state = 1;
  while (text.size() < 3000000) {
    state = state * 1664525 + 1013904223;
    text += "größer " + std::to_string(state) + (state >> 30 == 0 ? "\n" : " ");
  }
  return text;
}

// Puts `script` as the python3 of PATH.
class OtherPython {
 public:
  OtherPython(const TemporaryDirectory& dir, const std::string& script) : saved_(getenv("PATH")) {
    namespace fs = std::filesystem;
    const std::string folder = dir.path() + "/bin";
    fs::create_directory(folder);
    const std::string python = dir.Write("bin/python3", "#!/bin/sh\n" + script);
    fs::permissions(python, fs::perms::owner_all);
    setenv("PATH", (folder + ":" + saved_).c_str(), 1);
  }
  ~OtherPython() { setenv("PATH", saved_.c_str(), 1); }

 private:
  const std::string saved_;
};

}  // namespace

TEST_CASE("a text, packed or not, is one document") {
  const TemporaryDirectory dir;
  for (const std::string& text : {"a"s, "two\nlines"s, LongText()}) {
    const Documents expected = {text};
    CHECK(ReadDocuments(dir.Write("a.txt", text)).value() == expected);
    CHECK(ReadDocuments(dir.Write("a.txt.gz", Gzip(text))).value() == expected);
    CHECK(ReadDocuments(dir.Write("a.zst", Zstd(text))).value() == expected);
    CHECK(ReadDocuments(dir.Write("no_name", Zstd(text))).value() == expected);
  }
  CHECK(ReadDocuments(dir.Write("empty.txt", "")).value().empty());
  CHECK(ReadDocuments(dir.Write("empty.gz", Gzip(""))).value().empty());
}

TEST_CASE("members of gzip and frames of zstd are one text") {
  const TemporaryDirectory dir;
  const std::string text = LongText(), half = text.substr(0, 1234567), rest = text.substr(1234567);
  const Documents expected = {text};
  CHECK(ReadDocuments(dir.Write("a.gz", Gzip(half) + Gzip("") + Gzip(rest))).value() == expected);
  CHECK(ReadDocuments(dir.Write("a.gz", Gzip(text) + std::string(5000, '\0'))).value() == expected);
  const std::string skipped = "\x50\x2a\x4d\x18\x04\0\0\0abcd"s;
  CHECK(ReadDocuments(dir.Write("a.zst", Zstd(half) + skipped + Zstd(rest))).value() == expected);
}

TEST_CASE("what is truncated, damaged or followed by something else is refused") {
  const TemporaryDirectory dir;
  const std::string text = LongText();
  for (const std::string& packed : {Gzip(text), Zstd(text), Gzip("short"), Zstd("short")}) {
    const std::string path = dir.Write("a", packed.substr(0, packed.size() - 1));
    CHECK_THAT(ToMessage(ReadDocuments(path).status()),
               Catch::StartsWith(path + ": cannot be unpacked near byte ") &&
                   Catch::Contains(": it ends too early, as one that is truncated; it is damaged"));
    std::string damaged = packed;
    damaged[packed.size() / 2] ^= 0x55;
    CHECK_THAT(ToMessage(ReadDocuments(dir.Write("b", damaged)).status()),
               Catch::Contains("cannot be unpacked near byte "));
  }
  CHECK_THAT(ToMessage(ReadDocuments(dir.Write("a.gz", Gzip("one") + "two")).status()),
             Catch::Contains("other bytes follow what is packed"));
  CHECK_THAT(ToMessage(ReadDocuments(dir.Write("a.zst", Zstd("one") + "two and more")).status()),
             Catch::Contains("cannot be unpacked near byte "));
}

TEST_CASE("what is packed is judged as if it were not") {
  const TemporaryDirectory dir;
  const auto refused = [&](const std::string& name, const std::string& bytes) {
    return ToMessage(LookAtText(dir.Write(name, Gzip(bytes))).status());
  };
  const std::string tar = std::string(257, '\0') + "ustar\x00"s + std::string(300, 'x');
  CHECK_THAT(refused("a.tgz", tar),
             Catch::Contains("a.tgz: unpacked, it is a tar archive; unpack"));
  CHECK_THAT(refused("a.bin.gz", "\1\0\2\x07\0\xff\0"s),
             Catch::Contains("unpacked, it holds token ids"));
  CHECK_THAT(refused("a.gz", "PAR1\0\0PAR1"s), Catch::Contains("unpacked, it is a Parquet table"));
  CHECK_THAT(refused("a.gz.gz", Gzip("x")),
             Catch::Contains("unpacked, it is compressed with gzip"));
  const auto facts = LookAtText(dir.Write("a.gz", Gzip("some\0zeros\0"s))).value();
  CHECK_THAT(facts.doubt, Catch::StartsWith("holds 2 zero bytes"));
  CHECK(facts.compression == Compression::kGzip);
  CHECK(HoldsPackedText(dir.path() + "/a.gz"));
  CHECK_FALSE(HoldsPackedText(dir.path() + "/absent.gz"));
  CHECK_FALSE(HoldsPackedText(dir.Write("a.txt", "plain")));
  CHECK(HoldsPackedText(dir.Write("a.txt", "{\"text\": 1}\n{\"text\": 2}\n")));
}

TEST_CASE("each line of JSON Lines is a document") {
  const TemporaryDirectory dir;
  const std::string lines =
      "\xef\xbb\xbf{\"text\": \"one\\ntwo\", \"n\": [{\"text\": 1}]}\r\n"
      "\n  \n"
      "{\"a\": {\"text\": \"no\"}, \"text\": \"gr\\u00f6\\u00dfer \\ud83d\\ude42\", \"x\": NaN}\n"
      "{\"text\": \"\"}\n"
      "{\"text\": \"old\", \"text\": \"new\"}\n"
      "{\"text\": \"-Infinity \\\" NaN\", \"x\": -Infinity}";
  const Documents expected = {"one\ntwo", "größer 🙂", "new", "-Infinity \" NaN"};
  CHECK(ReadDocuments(dir.Write("a.jsonl", lines)).value() == expected);
  CHECK(ReadDocuments(dir.Write("a.txt", lines + "\n")).value() == expected);
  CHECK(ReadDocuments(dir.Write("a.jsonl.gz", Gzip(lines))).value() == expected);
  CHECK(ReadDocuments(dir.Write("a.jsonl.zst", Zstd(lines))).value() == expected);
  CHECK(LookAtText(dir.path() + "/a.jsonl.zst")->records());

  std::string many;
  Documents texts;
  for (int i = 0; i < 20000; ++i) {
    texts.push_back(std::string(i % 300 + 1, 'a' + i % 26) + std::to_string(i));
    many += "{\"id\": " + std::to_string(i) + ", \"text\": \"" + texts.back() + "\"}\n";
  }
  texts.push_back(std::string(1000000, 'l'));
  many += "{\"text\": \"" + texts.back() + "\"}\n";
  CHECK(ReadDocuments(dir.Write("many.jsonl", many)).value() == texts);
  CHECK(ReadDocuments(dir.Write("many.jsonl.gz", Gzip(many))).value() == texts);
}

TEST_CASE("a key names the text, and that of an object within") {
  const TemporaryDirectory dir;
  const std::string path = dir.Write("a.jsonl",
                                     "{\"a\": {\"b\": \"deep\", \"c\": {\"b\": \"no\"}}, "
                                     "\"content\": \"flat\", \"x.y\": \"dot\"}\n");
  CHECK(ReadDocuments(path, "content").value() == Documents{"flat"});
  CHECK(ReadDocuments(path, "a.b").value() == Documents{"deep"});
  CHECK(ReadDocuments(path, "x.y").value() == Documents{"dot"});
  CHECK(ToMessage(ReadDocuments(path, "b").status()) ==
        path + ":1: has no key \"b\", but a, content, x.y; name the key of the text with --key");
  CHECK_THAT(ToMessage(ReadDocuments(path, "a").status()),
             Catch::Contains(":1: \"a\" is an object, and no string; name the key"));
}

TEST_CASE("a line without a text is refused, by its number") {
  const TemporaryDirectory dir;
  const auto refused = [&](const std::string& line) {
    const std::string path = dir.Write("a.jsonl", "{\"text\": \"good\"}\n\n" + line + "\n");
    const std::string message = ToMessage(ReadDocuments(path).status());
    CHECK_THAT(message, Catch::StartsWith(path + ":3: "));
    return message.substr(path.size() + 4);
  };
  CHECK(refused("{\"text\": \"broken}") ==
        "is no JSON (byte 18 of the line); correct the line, or leave it out");
  CHECK_THAT(refused("{\"text\": \"a\"} {}"), Catch::StartsWith("is no JSON (byte 15"));
  CHECK_THAT(refused("{\"text\": \"\xff\"}"), Catch::StartsWith("is no JSON (byte 11"));
  CHECK_THAT(refused("[\"text\"]"), Catch::StartsWith("is no object of JSON; correct"));
  CHECK_THAT(refused("[{\"text\": \"a\"}]"), Catch::StartsWith("is no object of JSON; correct"));
  CHECK_THAT(refused("{\"text\": null}"),
             Catch::StartsWith("\"text\" is null, and no string; name"));
  CHECK_THAT(refused("{\"text\": 1.5}"), Catch::StartsWith("\"text\" is a number, and no string"));
  CHECK_THAT(refused("{\"text\": true}"),
             Catch::StartsWith("\"text\" is a boolean, and no string"));
  CHECK_THAT(refused("{\"text\": [\"a\"]}"),
             Catch::StartsWith("\"text\" is an array, and no string"));
  CHECK_THAT(refused("{}"), Catch::StartsWith("has no key \"text\", but none at all; name"));
  const std::string path = dir.Write("a.jsonl", "[\"a\"]\n[\"b\"]\n");
  CHECK_THAT(
      ToMessage(LookAtText(path).status()),
      Catch::Contains("each line is an array, and no object; write the text in it to a file"));
}

TEST_CASE("a table needs pyarrow, and its absence is said with how to install it") {
  const TemporaryDirectory dir;
  const OtherPython without(dir, "exec /usr/bin/python3 -S \"$@\"\n");
  for (const std::string& bytes :
       {"PAR1\0\0PAR1"s, "ARROW1\0\0\0\0"s,
        "\xff\xff\xff\xff\x08\0\0\0\x10\0\0\0"s + std::string(99, '\0')}) {
    const std::string path = dir.Write("a", bytes);
    CHECK(LookAtText(path)->records());
    CHECK(
        ToMessage(ReadDocuments(path).status()) ==
        "reading " + path +
            ": needs the module pyarrow, which python3 does not have; install it: python3 -m venv "
            "~/pyarrow && ~/pyarrow/bin/pip install pyarrow && export PATH=~/pyarrow/bin:$PATH");
  }
}

TEST_CASE("rows of a table are read as the script writes them") {
  const TemporaryDirectory dir;
  const std::string path = dir.Write("a.parquet", "PAR1\0\0PAR1"s);
  const auto read = [&](const std::string& script) {
    const OtherPython other(
        dir, "exec /usr/bin/python3 -c \"import struct, sys\nput = sys.stdout.buffer.write\n" +
                 script + "\"\n");
    return ReadDocuments(path, "a b");
  };
  CHECK(read("put(struct.pack('<3q4q', 3, 3, 4, 7, 10, 10, 12) + b'onexy')\n"
             "put(struct.pack('<3q1q', 0, 3, 4, 0))\n"
             "put(struct.pack('<3q2q', 1, 4, 4, 0, 4) + b'last')")
            .value() == Documents{"one", "xy", "last"});
  CHECK(read("").value().empty());
  CHECK(ToMessage(read("sys.exit('a.parquet: no; hint') if 0 else sys.stderr.write('a: b; c')\n"
                       "sys.exit(2)")
                      .status()) == "a: b; c");
  for (const char* odd :
       {"put(b'1234')", "put(struct.pack('<3q2q', 1, 1, 1, 0, 9) + b'short')",
        "put(struct.pack('<3q2q', 1, 1, 1, 9, 0))", "put(struct.pack('<3q', -1, 1, 1))",
        "put(struct.pack('<3q', 3, 1, 1))"}) {
    CHECK(read(odd).status() ==
          absl::UnavailableError(path + ": python3 wrote what is no batch of rows"));
  }
}

TEST_CASE("text in blocks is UTF-8 or not, as in one") {
  const std::string text = "größer 🙂 é";
  for (const std::string& tried :
       {text, text + "\xff", text + "\xc3", "\x80" + text, "a\xe2\x82" + text}) {
    const std::string expected = DoubtUtf8("a", tried);
    for (size_t first = 0; first <= tried.size(); ++first) {
      for (size_t second = first; second <= tried.size(); ++second) {
        Utf8Check check;
        check.Add(tried.substr(0, first));
        check.Add(tried.substr(first, second - first));
        check.Add(tried.substr(second));
        CHECK(check.Doubt("a") == expected);
      }
    }
  }
}

}  // namespace oneflow

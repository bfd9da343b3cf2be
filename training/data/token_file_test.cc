#include "training/data/token_file.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "oneflow_core/base/file.h"
#include "oneflow_core/base/temporary_directory.h"
#include "training/data/token_file_writer.h"

namespace oneflow {
namespace {

using Ids = std::vector<int32_t>;

// Two documents.
std::string Write(const TemporaryDirectory& dir, TokenFormat format, int64_t vocab) {
  const std::string path = dir.path() + "/t.bin";
  auto out = TokenFileWriter::Create(path, format, vocab).value();
  REQUIRE(out.Append(Ids{1, 2, 513}).ok());
  out.EndDocument();
  REQUIRE(out.Append(Ids{4}).ok());
  REQUIRE(out.Append(Ids{5}).ok());
  REQUIRE(out.Finish().ok());
  CHECK(out.tokens() == 5);
  return path;
}

Ids ReadAll(const std::string& path, int token_bytes) {
  const auto file = OpenTokenFile(path).value();
  CHECK(file.token_bytes == token_bytes);
  Ids ids(file.tokens);
  CHECK(file.Read(0, ids).ok());
  return ids;
}

std::string Bytes(std::initializer_list<int> bytes) {
  return std::string(bytes.begin(), bytes.end());
}

std::string Refused(const std::string& path) {
  return std::string(OpenTokenFile(path).status().message());
}

}  // namespace

TEST_CASE("nanoGPT: uint16, nothing else") {
  const TemporaryDirectory dir;
  const std::string path = Write(dir, TokenFormat::kNanoGpt, 1000);
  CHECK(*ReadFile(path) == Bytes({1, 0, 2, 0, 1, 2, 4, 0, 5, 0}));
  CHECK(ReadAll(path, 2) == Ids{1, 2, 513, 4, 5});
}

TEST_CASE("llm.c: 1024 bytes of header, then uint16") {
  const TemporaryDirectory dir;
  const std::string path = Write(dir, TokenFormat::kLlmc, 1000), bytes = *ReadFile(path);
  REQUIRE(bytes.size() == 1024 + 10);
  CHECK(bytes.substr(0, 16) == Bytes({0x88, 0xd8, 0x34, 0x01, 1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0}));
  CHECK(bytes.substr(1024, 6) == Bytes({1, 0, 2, 0, 1, 2}));
  CHECK(ReadAll(path, 2) == Ids{1, 2, 513, 4, 5});
}

TEST_CASE("Megatron: an index with sizes, offsets and documents beside the ids") {
  const TemporaryDirectory dir;
  const std::string path = Write(dir, TokenFormat::kMegatron, 1000);
  const std::string magic = "MMIDIDX";
  CHECK(*ReadFile(dir.path() + "/t.idx") ==
        magic + Bytes({0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 8,                 // version, uint16
                       2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0,  // counts
                       3, 0, 0, 0, 2, 0, 0, 0,                          // sizes
                       0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0,  // offsets
                       0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,  // documents
                       2, 0, 0, 0, 0, 0, 0, 0}));
  CHECK(ReadAll(path, 2) == Ids{1, 2, 513, 4, 5});
  CHECK(ReadAll(Write(dir, TokenFormat::kMegatron, 65499), 2).size() == 5);
  CHECK(ReadAll(Write(dir, TokenFormat::kMegatron, 65500), 4) == Ids{1, 2, 513, 4, 5});
}

TEST_CASE("nothing stays of an earlier file of the name") {
  const TemporaryDirectory dir;
  const std::string path = Write(dir, TokenFormat::kMegatron, 256);
  REQUIRE(std::filesystem::exists(dir.path() + "/t.idx"));
  Write(dir, TokenFormat::kLlmc, 256);
  CHECK(ReadAll(path, 2) == Ids{1, 2, 513, 4, 5});
  CHECK_FALSE(std::filesystem::exists(dir.path() + "/t.idx"));

  Write(dir, TokenFormat::kMegatron, 256);
  CHECK(RemoveTokenFile(path).ok());
  CHECK(std::filesystem::is_empty(dir.path()));
  CHECK(RemoveTokenFile(path).ok());  // nothing there
  std::filesystem::create_directory(path);
  CHECK_THAT(std::string(RemoveTokenFile(path).message()), Catch::Contains("cannot be removed"));
}

TEST_CASE("a writer leaves nothing behind unless it finishes") {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/t.bin";
  {
    auto out = TokenFileWriter::Create(path, TokenFormat::kNanoGpt, 256).value();
    REQUIRE(out.Append(Ids{1}).ok());
  }
  CHECK(std::filesystem::is_empty(dir.path()));
}

TEST_CASE("ids that a format cannot hold are refused") {
  const TemporaryDirectory dir;
  const auto create = [&](const std::string& name, int64_t vocab) {
    const auto out = TokenFileWriter::Create(dir.path() + name, TokenFormat::kNanoGpt, vocab);
    return std::string(out.status().message());
  };
  CHECK_THAT(create("/t.bin", 65537), Catch::Contains("holds ids below 65536"));
  CHECK_THAT(create("/no/t.bin", 256), Catch::Contains("cannot be written: No such file"));
  CHECK(ParseTokenFormat("llmc").value() == TokenFormat::kLlmc);
  CHECK_THAT(std::string(ParseTokenFormat("gguf").status().message()),
             Catch::Contains("use nanogpt, llmc or megatron"));
}

TEST_CASE("damaged llm.c files are refused") {
  const TemporaryDirectory dir;
  const std::string path = Write(dir, TokenFormat::kLlmc, 1000);
  std::string bytes = *ReadFile(path);
  dir.Write("t.bin", bytes.substr(0, bytes.size() - 2));
  CHECK_THAT(Refused(path), Catch::Contains("its header says 5 tokens, the file holds 4"));
  bytes[4] = 7;
  dir.Write("t.bin", bytes);
  CHECK_THAT(Refused(path), Catch::Contains("llm.c tokens of GPT-2, version 7"));
}

// llm.c's header, then `rest`.
std::string Llmc(int32_t magic, int32_t version, int32_t count, const std::string& rest) {
  std::string bytes(1024, '\0');
  const int32_t head[] = {magic, version, count};
  std::memcpy(bytes.data(), head, sizeof head);
  return bytes + rest;
}

TEST_CASE("llm.c's uint32 files of Llama 3 are read and written") {
  const TemporaryDirectory dir;
  const std::string path =
      dir.Write("l.bin", Llmc(20240801, 7, 3, Bytes({1, 0, 0, 0, 0xff, 0xf4, 1, 0, 0, 0, 1, 0})));
  CHECK(ReadAll(path, 4) == Ids{1, 128255, 65536});
  dir.Write("l.bin", Llmc(20240801, 1, 1, Bytes({1, 0, 0, 0})));
  CHECK_THAT(Refused(path), Catch::Contains("llm.c tokens of Llama 3, version 1") &&
                                Catch::Contains("only version 7"));
  dir.Write("l.bin", Llmc(20240801, 7, 2, Bytes({1, 0, 0, 0})));
  CHECK_THAT(Refused(path), Catch::Contains("its header says 2 tokens, the file holds 1"));

  const std::string own = Write(dir, TokenFormat::kLlmc, 65537), bytes = *ReadFile(own);
  REQUIRE(bytes.size() == 1024 + 20);
  CHECK(bytes.substr(0, 12) == Bytes({0xa1, 0xd9, 0x34, 0x01, 7, 0, 0, 0, 5, 0, 0, 0}));
  CHECK(ReadAll(own, 4) == Ids{1, 2, 513, 4, 5});
  CHECK(ReadAll(Write(dir, TokenFormat::kLlmc, 65536), 2).size() == 5);
}

TEST_CASE("other files of llm.c are refused by what they hold") {
  const TemporaryDirectory dir;
  const auto refused = [&](int32_t magic) {
    return Refused(dir.Write("l.bin", Llmc(magic, 1, 1, Bytes({1, 0}))));
  };
  CHECK_THAT(refused(20240522), Catch::Contains("an evaluation"));
  CHECK_THAT(refused(20240326), Catch::Contains("a model of GPT-2"));
  CHECK_THAT(refused(20240803), Catch::Contains("a model of Llama 3"));
  CHECK_THAT(refused(20240527), Catch::Contains("an optimizer's state"));
  CHECK_THAT(refused(20240327), Catch::Contains("a model's state"));
  CHECK_THAT(refused(20240328), Catch::Contains("a tokenizer"));
}

TEST_CASE("truncated llm.c headers are no nanoGPT tokens") {
  const TemporaryDirectory dir;
  for (const int32_t magic : {20240520, 20240801}) {
    const std::string bytes = Llmc(magic, magic == 20240520 ? 1 : 7, 0, "");
    for (const size_t size : {4, 12, 1022}) {
      CHECK_THAT(Refused(dir.Write("l.bin", bytes.substr(0, size))),
                 Catch::Contains("has " + std::to_string(size) + " bytes of the 1024"));
    }
    CHECK(ReadAll(dir.Write("l.bin", bytes), magic == 20240520 ? 2 : 4).empty());
    CHECK_THAT(Refused(dir.Write("l", bytes)), Catch::Contains("a name that ends in .bin"));
  }
}

TEST_CASE("ids of four bytes without a header are no nanoGPT tokens") {
  const TemporaryDirectory dir;
  const auto wide = [](int count, int id, int high) {
    std::string bytes;
    for (int i = 0; i < count; ++i) {
      bytes += Bytes({id > 3 ? id + i % 16 : id, 0, i % 2 == 0 ? high : 0, 0});
    }
    return bytes;
  };
  CHECK_THAT(Refused(dir.Write("r.bin", wide(64, 40, 1))),
             Catch::Contains("looks like ids of four bytes"));
  CHECK(ReadAll(dir.Write("r.bin", wide(63, 40, 1)), 2).size() == 126);  // too few to tell
  CHECK(ReadAll(dir.Write("r.bin", wide(64, 40, 4)), 2).size() == 128);
  CHECK(ReadAll(dir.Write("r.bin", wide(64, 3, 0)), 2).size() == 128);  // all ids are small
}

TEST_CASE("ids of two bytes whose most frequent is 0 are no wider ones") {
  const TemporaryDirectory dir;
  // An id at each `step`-th place; there are `different` ones.
  const auto sparse = [&](int step, int different) {
    std::string bytes(16000, '\0');
    for (int at = 0, i = 0; at < 8000; at += step, ++i) {
      bytes[2 * at] = static_cast<char>(100 + i % different);
      bytes[2 * at + 1] = '\1';
    }
    return dir.Write("z.bin", bytes);
  };
  for (const int step : {2, 4, 20, 400}) {
    INFO(step);
    CHECK(ReadAll(sparse(step, 1), 2).size() == 8000);
    if (step > 4) CHECK(ReadAll(sparse(step, 100), 2).size() == 8000);
  }
  // No text has zeros at each other place between many ids.
  CHECK_THAT(Refused(sparse(2, 100)), Catch::Contains("looks like ids of four bytes"));
  CHECK_THAT(Refused(sparse(4, 100)), Catch::Contains("looks like ids of eight bytes"));
}

TEST_CASE("who says how many bytes an id has is believed") {
  const TemporaryDirectory dir;
  std::string four, eight;
  for (int i = 0; i < 64; ++i) {
    four += Bytes({i + 40, 1, i % 4, 0});
    eight += Bytes({i + 40, 1, 0, 0, 0, 0, 0, 0});
  }
  const std::string path = dir.Write("r.bin", four);
  CHECK_THAT(Refused(path), Catch::Contains("--token_bytes=4, or --token_bytes=2"));
  CHECK(OpenTokenFile(path, 2)->tokens == 128);
  CHECK(OpenTokenFile(path, 4)->tokens == 64);
  CHECK_THAT(Refused(dir.Write("e.bin", eight)),
             Catch::Contains("looks like ids of eight bytes") &&
                 Catch::Contains("; if an id has two bytes or four, say so with --token_bytes=2"));
  CHECK_THAT(std::string(OpenTokenFile(dir.Write("o.bin", "abcdef"), 4).status().message()),
             Catch::Contains("6 bytes are no whole number of ids of 4 bytes"));
}

TEST_CASE("arrays of NumPy hold ids, whatever their name") {
  const TemporaryDirectory dir;
  const auto npy = [](const std::string& type, const std::string& shape, const std::string& data) {
    std::string header =
        "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + "}";
    header.resize(117, ' ');
    return std::string("\x93NUMPY\x01\0\x76\0", 10) + header + "\n" + data;
  };
  const std::string two = Bytes({1, 0, 2, 0, 1, 2}), four = Bytes({1, 0, 0, 0, 0, 0, 1, 0});
  for (const char* name : {"a.npy", "a.bin", "a", "a.txt"}) {
    CHECK(ReadAll(dir.Write(name, npy("<u2", "(3,)", two)), 2) == Ids{1, 2, 513});
  }
  CHECK(ReadAll(dir.Write("a.npy", npy("<i4", "(1, 2)", four)), 4) == Ids{1, 65536});
  CHECK(ReadAll(dir.Write("a.npy", npy("<u4", "(2,)", four)), 4) == Ids{1, 65536});
  CHECK(ReadAll(dir.Write("a.npy", npy("|u1", "(3,)", "abc")), 1) == Ids{97, 98, 99});
  CHECK_FALSE(OpenTokenFile(dir.path() + "/a.npy")->tokenizer.known());  // they are no text
  CHECK_THAT(Refused(dir.Write("a.npy", npy("<i8", "(1,)", four))),
             Catch::Contains("is an array of '<i8', and token ids are uint16 or int32"));
  CHECK_THAT(Refused(dir.Write("a.npy", npy("<u2", "(4,)", two))),
             Catch::Contains("its header says 4 elements of 2 bytes, it holds 6 bytes"));
}

TEST_CASE("facts beside a token file name its tokenizer") {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/t.bin", facts = dir.path() + "/t.meta.json";
  const auto write = [&](const TokenizerId& tokenizer, const Ids& ids) {
    auto out = TokenFileWriter::Create(path, TokenFormat::kNanoGpt, 1000, tokenizer).value();
    REQUIRE(out.Append(ids).ok());
    REQUIRE(out.Finish().ok());
  };
  const TokenizerId small = {"gpt2:small", "0123456789abcdef"};
  write(small, {1, 2, 3});
  CHECK(*ReadFile(facts) ==
        "{\"format\":\"oneflow tokens\",\"version\":1,\"tokens\":3,"
        "\"tokenizer\":{\"name\":\"gpt2:small\",\"hash\":\"0123456789abcdef\"}}\n");
  CHECK(OpenTokenFile(path)->tokenizer == small);
  // Another program, or a disk that was full, left another .bin.
  dir.Write("t.bin", Bytes({1, 0, 2, 0}));
  CHECK_THAT(Refused(path), Catch::Contains("t.meta.json: says 3 tokens, the .bin holds 2"));
  for (const char* damaged : {"{", "[]", R"({"format":"oneflow tokens","version":2})",
                              R"({"format":"oneflow tokens","version":1,"tokens":2})"}) {
    dir.Write("t.meta.json", damaged);
    CHECK_THAT(Refused(path), Catch::Contains("does not say in version 1 what tokens"));
  }
  write({}, {1});  // without any facts
  CHECK_FALSE(std::filesystem::exists(facts));
  CHECK_FALSE(OpenTokenFile(path)->tokenizer.known());
  write(small, {1});
  REQUIRE(RemoveTokenFile(path).ok());
  CHECK_FALSE(std::filesystem::exists(facts));
  CHECK(OpenTokenFile(dir.Write("t.txt", "text"))->tokenizer == BytesTokenizerId());
}

TEST_CASE("damaged Megatron indices are refused") {
  const TemporaryDirectory dir;
  const std::string path = Write(dir, TokenFormat::kMegatron, 1000);
  const std::string good = *ReadFile(dir.path() + "/t.idx");
  const auto with = [&](size_t at, int value) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(value);
    dir.Write("t.idx", bytes);
    return Refused(path);
  };
  CHECK_THAT(with(0, 'X'), Catch::Contains("is no Megatron index"));
  CHECK_THAT(with(9, 2), Catch::Contains("has version 2"));
  CHECK_THAT(with(17, 5), Catch::Contains("its ids are int64 (5), not uint16 (8) or int32 (4)"));
  CHECK_THAT(with(18, 3), Catch::Contains("lists 3 sequences"));
  CHECK_THAT(with(17, 99), Catch::Contains("its ids are of type 99"));
  CHECK_THAT(with(25, 255), Catch::Contains("which its size does not fit"));
  CHECK_THAT(with(34, 2), Catch::Contains("sequence 1 does not follow"));
  CHECK_THAT(with(38, 3), Catch::Contains("describes 12 bytes, the .bin has 10"));
  CHECK_THAT(with(58, 1), Catch::Contains("document 0 begins at sequence 1 of 2"));
  CHECK_THAT(with(66, 3), Catch::Contains("document 1 begins at sequence 3 of 2"));
  CHECK_THAT(with(74, 0), Catch::Contains("document 2 begins at sequence 0 of 2"));
  CHECK_THAT(with(74, 1), Catch::Contains("its documents end at sequence 1 of 2"));
  CHECK_THAT(with(0, 'X'), !Catch::Contains("away"));  // without it the .bin would be misread
  dir.Write("t.idx", good + "\1\1");
  CHECK_THAT(Refused(path), Catch::Contains("has a mode for each sequence"));
  dir.Write("t.idx", "short");
  CHECK_THAT(Refused(path), Catch::Contains("is no Megatron index"));
}

}  // namespace oneflow

#include "training/checkpoint/manifest.h"

#include <catch2/catch.hpp>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace oneflow {
namespace {

const std::vector<std::string> kSum = {"0123456789abcdef"};

Manifest Example() {
  StoredVariable w = {.name = "w \"1\"", .dims = {4, 3}};
  w.slices = {{{{0, 0}, {2, 3}}, {"rank-00000.bin", 0, 24, kSum}},
              {{{2, 0}, {2, 3}}, {"rank-00001.bin", 0, 24, {"fedcba9876543210"}}}};
  StoredVariable s = {.name = "s", .dtype = DType::kF64};
  s.slices = {{{}, {"rank-00000.bin", 64, 8, {"0000000000000000"}}}};
  return {.model = "gpt",
          .plan = "f00d",
          .step = 20,
          .seed = 0xffffffffffffffff,
          .graph = {"graph.textproto", 0, 900, kSum},
          .train = {"train.textproto", 0, 90, kSum},
          .variables = {w, s}};
}

std::string Replace(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// With the checksum that belongs to the text.
std::string Signed(const std::string& json) {
  const std::string text = json.substr(0, json.rfind("\"xxh3\""));
  return text + "\"xxh3\": \"" + Checksum(std::as_bytes(std::span(text))) + "\"\n}\n";
}

std::string Error(const std::string& json) {
  const absl::StatusOr<Manifest> manifest = ParseManifest(json, "manifest.json");
  REQUIRE_FALSE(manifest.ok());
  return std::string(manifest.status().message());
}

TEST_CASE("Manifest: what is written is read") {
  const Manifest manifest = Example();
  CHECK(*ParseManifest(ToJson(manifest), "manifest.json") == manifest);
  CHECK(FileSizes(manifest) ==
        std::map<std::string, int64_t>{{"rank-00000.bin", 72}, {"rank-00001.bin", 24}});
}

TEST_CASE("Manifest: notes of an imported model") {
  Manifest manifest = Example();
  CHECK(ToJson(manifest).find("notes") == std::string::npos);
  manifest.notes = {.model_type = "gpt2", .dtype = "bf16", .vocab = 7, .end_ids = {5, 6}};
  const std::string text = ToJson(manifest);
  CHECK_THAT(text, Catch::Contains("\"notes\": {\"model_type\":\"gpt2\",\"dtype\":\"bf16\","
                                   "\"vocab\":7,\"positions\":0,\"end_ids\":[5,6]},\n"));
  CHECK(*ParseManifest(text, "manifest.json") == manifest);
  manifest.notes.begin_id = 0;
  CHECK(*ParseManifest(ToJson(manifest), "manifest.json") == manifest);
  CHECK_THAT(Error(Signed(Replace(text, "\"vocab\":7", "\"vocab\":-7"))),
             Catch::Contains("\"vocab\" is missing or odd"));
  CHECK_THAT(Error(Signed(Replace(text, "[5,6]", "5"))),
             Catch::Contains("\"end_ids\" is missing or odd"));
  manifest.notes.dtypes = {{"ln_f.weight", "f32"}};
  const std::string typed = ToJson(manifest);
  CHECK_THAT(typed, Catch::Contains("\"begin_id\":0,\"dtypes\":{\"ln_f.weight\":\"f32\"}},\n"));
  CHECK(*ParseManifest(typed, "manifest.json") == manifest);
  CHECK_THAT(Error(Signed(Replace(typed, ":\"f32\"}}", ":4}}"))),
             Catch::Contains("\"ln_f.weight\" is missing or odd"));
}

TEST_CASE("Manifest: files of an imported model, none outside of the checkpoint") {
  Manifest manifest = Example();
  manifest.model_files = {{"model/config.json", 0, 90, kSum},
                          {"model/additional_chat_templates/a.jinja", 0, 0, {}},
                          {"tokenizer.json", 0, 9, kSum}};
  const std::string text = ToJson(manifest);
  CHECK(*ParseManifest(text, "manifest.json") == manifest);
  for (const char* name : {"model/../../x", "model/..", "model/", "/x", "../x", "other/x",
                           "model/a/../x", "model/a/b/c", ".."}) {
    CHECK_THAT(Error(Signed(Replace(text, "model/config.json", name))),
               Catch::Contains(std::string("model_files: no file name: ") + name));
  }
}

TEST_CASE("Manifest: of mesh and data, where they are known") {
  Manifest manifest = Example();
  CHECK(ToJson(manifest).find("mesh") == std::string::npos);
  manifest.mesh = "data=2";
  manifest.tokens = 1000;
  const std::string text = ToJson(manifest);
  CHECK_THAT(text, Catch::Contains("\"mesh\": \"data=2\",\n\"tokens\": 1000,\n"));
  CHECK(*ParseManifest(text, "manifest.json") == manifest);
  manifest.tokenizer = {"gpt2:small", "0123456789abcdef"};
  const std::string named = ToJson(manifest);
  CHECK_THAT(named, Catch::Contains("\"tokens\": 1000,\n\"tokenizer\": {\"name\":\"gpt2:small\","
                                    "\"hash\":\"0123456789abcdef\"},\n"));
  CHECK(*ParseManifest(named, "manifest.json") == manifest);
  CHECK_THAT(Error(Signed(Replace(named, "\"hash\"", "\"has\""))),
             Catch::Contains("\"hash\" is missing or odd"));
  manifest.mixture = {{"a.bin", 600, 0.7}, {"b.bin", 400, 0.30000000000000004}};
  const std::string mixed = ToJson(manifest);
  CHECK_THAT(mixed, Catch::Contains("\n\"mixture\": [{\"file\":\"a.bin\",\"tokens\":600,"
                                    "\"weight\":0.7},"));
  CHECK(*ParseManifest(mixed, "manifest.json") == manifest);
  CHECK_THAT(Error(Signed(Replace(mixed, "\"weight\":0.7", "\"weight\":-1"))),
             Catch::Contains("\"weight\" is missing or odd"));
  manifest.records = {9, "0123456789abcdef", true};
  const std::string in_epochs = ToJson(manifest);
  CHECK_THAT(in_epochs, Catch::Contains("\n\"records\": {\"count\":9,\"hash\":"
                                        "\"0123456789abcdef\",\"order\":\"epochs\"},"));
  CHECK(*ParseManifest(in_epochs, "manifest.json") == manifest);
  CHECK_THAT(Error(Signed(Replace(in_epochs, "\"epochs\"", "\"other\""))),
             Catch::Contains("\"order\" is neither epochs nor draws"));
  CHECK_THAT(Error(Signed(Replace(in_epochs, "\"count\":9", "\"count\":-9"))),
             Catch::Contains("\"count\" is missing or odd"));
  manifest.records.epochs = false;
  CHECK(*ParseManifest(ToJson(manifest), "manifest.json") == manifest);
  manifest.tokenizer_stops = {0, 7};
  manifest.tokenizer_files = {{"vocab.json", 0, 90, kSum}, {"merges.txt", 0, 9, kSum}};
  const std::string carried = ToJson(manifest);
  CHECK_THAT(carried, Catch::Contains("\"stops\":[0,7],\"files\":[{\"file\":\"vocab.json\","
                                      "\"offset\":0,\"bytes\":90,\"xxh3\":"));
  CHECK(*ParseManifest(carried, "manifest.json") == manifest);
  CHECK_THAT(Error(Signed(Replace(carried, "[0,7]", "[0,-7]"))),
             Catch::Contains("\"stops\" is missing or odd"));
  CHECK_THAT(Error(Signed(Replace(carried, "vocab.json", "a/vocab.json"))),
             Catch::Contains("tokenizer: no file name: a/vocab.json"));
  CHECK_THAT(Error(Signed(Replace(carried, "\"bytes\":90,", "\"bytes\":0,"))),
             Catch::Contains("tokenizer: has 0 bytes at 0"));
  CHECK_THAT(Error(Replace(text, "\"tokens\": 1000", "\"tokens\": 1001")),
             Catch::Contains("does not match its own checksum"));
}

TEST_CASE("Manifest: a line a variable") {
  Manifest manifest = Example();
  manifest.variables.resize(1);
  manifest.variables[0].slices.resize(1);
  const std::string text = ToJson(manifest);
  CHECK(text.substr(0, text.find("\n],")) ==
        "{\n"
        "\"format\": \"oneflow checkpoint\",\n"
        "\"version\": 2,\n"
        "\"model\": \"gpt\",\n"
        "\"step\": 20,\n"
        "\"seed\": 18446744073709551615,\n"
        "\"plan\": \"f00d\",\n"
        "\"block\": 4194304,\n"
        "\"graph\": {\"file\":\"graph.textproto\",\"offset\":0,\"bytes\":900,"
        "\"xxh3\":[\"0123456789abcdef\"]},\n"
        "\"train\": {\"file\":\"train.textproto\",\"offset\":0,\"bytes\":90,"
        "\"xxh3\":[\"0123456789abcdef\"]},\n"
        "\"variables\": [\n"
        "{\"name\":\"w \\\"1\\\"\",\"dtype\":\"f32\",\"dims\":[4,3],\"slices\":[{\"begin\":[0,0],"
        "\"size\":[2,3],\"file\":\"rank-00000.bin\",\"offset\":0,\"bytes\":24,"
        "\"xxh3\":[\"0123456789abcdef\"]}]}");
}

TEST_CASE("Manifest: mistakes are named") {
  const std::string good = ToJson(Example());
  CHECK_THAT(Error(""), Catch::Contains("not valid JSON"));
  CHECK_THAT(Error(good.substr(0, good.size() / 2)), Catch::Contains("not valid JSON"));
  CHECK_THAT(Error("[]"), Catch::Contains("not the manifest of a oneflow checkpoint"));
  CHECK_THAT(Error("{\"format\": \"other\", \"version\": 1}"), Catch::Contains("not the manifest"));
  for (const std::string version : {"0", "1", "3", "-1"}) {
    const std::string other = Replace(good, "\"version\": 2", "\"version\": " + version);
    CHECK_THAT(Error(other), Catch::Contains("does not match its own checksum"));
    CHECK(Error(Signed(other)) ==
          "manifest.json: format version " + version +
              ", this program reads 2; use the release that wrote the checkpoint");
  }
  CHECK_THAT(Error(Replace(good, "\"version\": 2", "\"version\":  2")),
             Catch::Contains("does not match its own checksum"));
  CHECK(Error(Replace(good, "\"step\": 20", "\"step\": 21")) ==
        "manifest.json: does not match its own checksum; use another checkpoint");
}

TEST_CASE("Manifest: sizes that cannot be counted are refused") {
  constexpr int64_t k40 = int64_t{1} << 40;
  Manifest manifest = Example();
  manifest.variables[0].dims = {k40, k40};
  for (StoredSlice& s : manifest.variables[0].slices) {
    s.slice.size = {k40, k40};
    s.run.bytes = 0;  // the size of 2^80 elements without a check
  }
  CHECK_THAT(Error(ToJson(manifest)), Catch::Contains("has more than 2^48 elements"));
}

TEST_CASE("Manifest: slices must make up their variable") {
  const auto error = [](auto change) {
    Manifest manifest = Example();
    change(manifest.variables[0].slices);
    return Error(ToJson(manifest));
  };
  using Slices = std::vector<StoredSlice>&;
  CHECK_THAT(error([](Slices s) { s.pop_back(); }),
             Catch::Contains("variable w \"1\": has 6 of 12 elements of [4,3]"));
  CHECK_THAT(error([](Slices s) { s[1] = s[0]; }),
             Catch::Contains("variable w \"1\": element [0,0] is in 2 slices"));
  CHECK_THAT(error([](Slices s) { s[1].slice.begin[0] = 3; }), Catch::Contains("outside [4,3]"));
  CHECK_THAT(error([](Slices s) { s[1].slice.size.pop_back(); }), Catch::Contains("outside [4,3]"));
  CHECK_THAT(error([](Slices s) { s[1].run.bytes = 23; }), Catch::Contains("has 23 bytes"));
  CHECK_THAT(error([](Slices s) { s[1].slice.begin[0] = -1; }),
             Catch::Contains("\"begin\" is missing or odd"));
}

TEST_CASE("Manifest: runs must make up their files, and checksums their runs") {
  const auto error = [](auto change) {
    Manifest manifest = Example();
    change(manifest);
    return Error(ToJson(manifest));
  };
  const auto run = [](Manifest& m) -> StoredRun& { return m.variables[0].slices[1].run; };
  CHECK_THAT(error([&](Manifest& m) { run(m).offset = -64; }),
             Catch::Contains("\"offset\" is missing or odd"));
  CHECK_THAT(error([&](Manifest& m) { run(m).bytes = -24; }),
             Catch::Contains("\"bytes\" is missing or odd"));
  CHECK_THAT(error([&](Manifest& m) { run(m).file = "../x"; }),
             Catch::Contains("no file name: ../x"));
  CHECK(error([&](Manifest& m) { run(m).offset = 64; }) ==
        "manifest.json: rank-00001.bin: a slice is at byte 64, not 0");
  CHECK(error([&](Manifest& m) { run(m).file = "rank-00000.bin"; }) ==
        "manifest.json: rank-00000.bin: two slices are at byte 0");
  CHECK(error([&](Manifest& m) { m.variables[1].slices[0].run.offset = 32; }) ==
        "manifest.json: rank-00000.bin: a slice is at byte 32, not 64");
  CHECK_THAT(error([&](Manifest& m) { run(m).checksums.push_back("0"); }),
             Catch::Contains("2 checksums of 24 bytes"));
  CHECK_THAT(error([&](Manifest& m) { m.block = 23; }), Catch::Contains("1 checksums of 900"));
  CHECK_THAT(error([&](Manifest& m) { m.block = 0; }), Catch::Contains("blocks of 0 bytes"));
  CHECK_THAT(error([&](Manifest& m) { m.block = -1; }),
             Catch::Contains("\"block\" is missing or odd"));
  CHECK_THAT(error([&](Manifest& m) { m.graph.bytes = 0; }),
             Catch::Contains("graph: has 0 bytes at 0"));
  CHECK_THAT(error([&](Manifest& m) { m.train.offset = 64; }),
             Catch::Contains("train: has 90 bytes at 64"));
}

}  // namespace
}  // namespace oneflow

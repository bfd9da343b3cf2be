#include "planning/search/space.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "oneflow_core/base/status.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/recipe/forms.h"

namespace oneflow {
namespace {

using Catch::Contains;

GraphSource SmallGpt(int64_t sequence = 16) {
  proto::Model config = MakeModel("family: 'gpt'");
  config.set_layers(6), config.set_heads(4), config.set_hidden(32), config.set_vocab(64);
  config.set_sequence(sequence);
  return {BuildModel(config), "gpt.textproto", {}};
}

SearchSpec Small(int64_t devices, int64_t batch, const std::string& fixes = "",
                 GraphSource source = SmallGpt()) {
  SearchSpec spec{.source = std::move(source), .devices = devices};
  spec.given.recipe.set_batch(batch);
  if (!fixes.empty()) REQUIRE(AddFixes("--fix=", fixes, &spec.fixed).ok());
  return spec;
}

std::vector<proto::Recipe> Groups(const SearchSpec& spec) {
  const absl::StatusOr<std::vector<proto::Recipe>> groups = ListGroups(spec);
  INFO(groups.status().message());
  REQUIRE(groups.ok());
  return *groups;
}

std::string Error(const SearchSpec& spec) {
  const absl::Status status = ListGroups(spec).status();
  CHECK(ExitCode(status) == 2);
  return std::string(ToStd(status.message()));
}

std::string FixError(const std::string& text) {
  Fixes fixes;
  const absl::Status status = AddFixes("--fix=", text, &fixes);
  CHECK(ExitCode(status) == 2);
  return std::string(ToStd(status.message()));
}

std::set<std::string> Meshes(const std::vector<proto::Recipe>& groups) {
  std::set<std::string> meshes;
  for (const proto::Recipe& group : groups) meshes.insert(ToString(FindMesh(group)));
  return meshes;
}

// The same space by the sentences in space.h and list_meshes.h alone, for a GPT of 6 blocks and 4
// heads, where no data axis spans nodes.
int64_t CountByHand(int devices, int batch, int sequence) {
  int64_t count = 0;
  for (int pipe = 1; pipe <= std::min(devices, 6); ++pipe) {
    for (int data = 1; data <= devices; ++data) {
      for (int context = 1; context == 1 || sequence / context >= 4096; ++context) {
        for (int tensor = 1; tensor <= 4; ++tensor) {
          if (pipe * data * context * tensor != devices) continue;
          // Sequences of the largest data part, of some number of micro-batches each.
          int64_t micro_batches = 0;
          for (int sequences = 1; sequences <= batch; ++sequences) {
            bool any = false;
            for (int m = 1; m <= batch; ++m) {
              const int size = batch / m;
              any = any || (batch % m == 0 && size >= data && size > (sequences - 1) * data &&
                            size <= sequences * data);
            }
            if (!any) continue;
            ++micro_batches;
            if (sequences * sequence / context >= 32768) break;
          }
          // Of 6 blocks: 2 stages have 3 chunks (of 1), and not 2; 3 stages have 2; of 4 and more
          // no stage has two chunks.
          const int64_t schedules = pipe == 1 ? 1 : pipe <= 3 ? 3 : 2;
          count += micro_batches * schedules * (data * context > 1 ? 4 : 1);
        }
      }
    }
  }
  return count;
}

TEST_CASE("space: all plan groups, each once, as counted by hand") {
  for (const int sequence : {16, 12288, 32768}) {
    const GraphSource source = SmallGpt(sequence);
    for (const int devices : {1, 2, 3, 4, 5, 6, 8, 12, 13, 16, 24}) {
      for (const int batch : {1, 6, 8, 24, 25, 40}) {
        const int64_t count = CountByHand(devices, batch, sequence);
        if (count == 0) continue;
        INFO(devices << " devices, batch " << batch << ", sequences of " << sequence);
        const std::vector<proto::Recipe> groups = Groups(Small(devices, batch, "", source));
        CHECK(static_cast<int64_t>(groups.size()) == count);
        std::set<std::string> lines;
        for (const proto::Recipe& group : groups) {
          CHECK(FindMesh(group).devices() == devices);
          lines.insert(CandidateFlags(group));
        }
        CHECK(lines.size() == groups.size());
      }
    }
  }
}

TEST_CASE("space: a fixed context may have parts of any length, fixed micro-batches any tokens") {
  CHECK(Meshes(Groups(Small(8, 8))).contains("data=8"));
  CHECK_FALSE(Meshes(Groups(Small(8, 8))).contains("data=4,context=2"));
  CHECK(Meshes(Groups(Small(8, 8, "context=2"))).contains("data=4,context=2"));
  const auto micro_batches = [](const std::string& fixes) {
    std::set<int64_t> numbers;
    for (const proto::Recipe& group : Groups(Small(1, 8, fixes, SmallGpt(16384)))) {
      numbers.insert(group.micro_batches());
    }
    return numbers;
  };
  CHECK(micro_batches("") == std::set<int64_t>{4, 8});
  CHECK(micro_batches("micro_batches=2") == std::set<int64_t>{2});
  CHECK(micro_batches("micro_batch_size=8") == std::set<int64_t>{1});
}

std::set<int64_t> MicroBatches(const SearchSpec& spec) {
  std::set<int64_t> numbers;
  for (const proto::Recipe& group : Groups(spec)) numbers.insert(group.micro_batches());
  return numbers;
}

TEST_CASE("space: micro-batches have any number of sequences that divides those of a device") {
  using Numbers = std::set<int64_t>;
  Numbers sizes;
  for (const int64_t m : MicroBatches(Small(1, 9 * 8 * 7 * 5))) sizes.insert(9 * 8 * 7 * 5 / m);
  for (int64_t size = 1; size <= 10; ++size) CHECK(sizes.contains(size));
  CHECK(MicroBatches(Small(8, 72, "data=8")) == Numbers{1, 2, 3, 6, 9});
  CHECK(MicroBatches(Small(8, 24, "data=8")) == Numbers{1, 2, 3});
  // Up to the first with 32,768 tokens, and no more; there is always one.
  const auto of_batch = [](int64_t batch) {
    return MicroBatches(Small(1, batch, "", SmallGpt(12288)));
  };
  CHECK(of_batch(12) == Numbers{4, 6, 12});  // of 3, 2 and 1 sequences
  CHECK(of_batch(7) == Numbers{1, 7});
  CHECK(MicroBatches(Small(3, 97, "data=3", SmallGpt(12288))) == Numbers{1});
}

TEST_CASE("space: data parts may be unequal, and the largest counts") {
  using Numbers = std::set<int64_t>;
  for (const int devices : {11, 13, 23}) {
    const SearchSpec spec = Small(devices, 64);
    CHECK(Meshes(Groups(spec)) == std::set<std::string>{"data=" + std::to_string(devices)});
  }
  // 64 sequences are 4 or 5 a device, 32 2 or 3, 16 1 or 2.
  CHECK(MicroBatches(Small(13, 64)) == Numbers{1, 2, 4});
  // 72 / 4 = 18 has 2 on a device, as 72 / 3 = 24 has.
  CHECK(MicroBatches(Small(13, 72)) == Numbers{1, 2, 3});
  CHECK(MicroBatches(Small(13, 72, "micro_batches=4")) == Numbers{4});
  CHECK(MicroBatches(Small(13, 72, "micro_batch_size=2")) == Numbers{3});
  CHECK_THAT(Error(Small(13, 72, "micro_batch_size=5")), Contains("use a multiple of 65"));
  CHECK(Groups(Small(13, 65, "micro_batch_size=5")).size() == 4);
}

TEST_CASE("space: parts of sequences may be unequal, but those of a mixture") {
  const auto of_sequences = [](const std::string& fixes, int experts) {
    proto::Model config = MakeModel("family: 'llama' preset: 'llama-small'");
    config.set_layers(2), config.set_sequence(16384);
    if (experts > 0) config.set_experts(experts);
    return Meshes(Groups(Small(3, 3, fixes, {BuildModel(config), "", {}})));
  };
  CHECK(of_sequences("", 0).contains("context=3"));
  CHECK_FALSE(of_sequences("", 4).contains("context=3"));
  CHECK(of_sequences("context=3", 4).contains("context=3"));
}

TEST_CASE("space: chunks are enough when the pipe fills and drains in 1 % of a step") {
  const auto chunks = [](int batch, const std::string& fixes) {
    std::set<int> numbers;
    for (const proto::Recipe& group :
         Groups(Small(2, batch, "pipe=2,micro_batch_size=1" + fixes))) {
      numbers.insert(group.schedule() == "interleaved" ? group.chunks() : 1);
    }
    return numbers;
  };
  // Of 6 blocks, 2 stages may have 3 chunks of 1.
  CHECK(chunks(99, "") == std::set<int>{1, 3});
  CHECK(chunks(101, "") == std::set<int>{1});
  CHECK(chunks(101, ",schedule=interleaved") == std::set<int>{3});
}

TEST_CASE("space: tensor axes stay in a node, unless they are fixed or nothing else remains") {
  SearchSpec spec = Small(8, 8);
  spec.given.cluster.add_level()->set_size(2);
  spec.given.cluster.add_level();
  for (const proto::Recipe& group : Groups(spec)) CHECK(FindDegree(FindMesh(group), "tensor") <= 2);
  REQUIRE(AddFixes("", "tensor=4", &spec.fixed).ok());
  for (const proto::Recipe& group : Groups(spec)) CHECK(FindDegree(FindMesh(group), "tensor") == 4);
  spec.fixed = {};
  REQUIRE(AddFixes("", "pipe=2,data=1,context=1", &spec.fixed).ok());
  for (const proto::Recipe& group : Groups(spec)) CHECK(FindDegree(FindMesh(group), "tensor") == 4);
}

TEST_CASE("space: the order of the list is always the same") {
  CHECK(std::ranges::equal(Groups(Small(16, 24)), Groups(Small(16, 24)), &IsSame));
  CHECK(CandidateFlags(Groups(Small(8, 8)).front()) == "--mesh=data=8");
}

TEST_CASE("space: chunks divide the blocks, and are 2 where no number does") {
  const auto chunks = [](int pipe, int layers) {
    proto::Model config = MakeModel("family: 'gpt'");
    config.set_layers(layers), config.set_heads(2), config.set_hidden(16), config.set_sequence(8);
    config.set_vocab(64);
    std::set<int> found;
    for (const proto::Recipe& group :
         Groups(Small(pipe, 4, "schedule=interleaved", {BuildModel(config), "", {}}))) {
      if (FindMesh(group).stages() == pipe) found.insert(group.chunks());
    }
    return found;
  };
  CHECK(chunks(2, 8) == std::set<int>{2, 4});
  CHECK(chunks(2, 12) == std::set<int>{2, 3, 6});
  CHECK(chunks(2, 7) == std::set<int>{2});
}

TEST_CASE("space: experts have an axis of their own, which divides them and the batch") {
  proto::Model config = MakeModel("family: 'llama' preset: 'llama-small'");
  config.set_experts(6);
  config.set_layers(2);
  const GraphSource mixture = {BuildModel(config), "moe.textproto", {}};
  for (const proto::Recipe& group : Groups(Small(12, 12, "", mixture))) {
    const int expert = FindDegree(FindMesh(group), "expert"),
              data = FindDegree(FindMesh(group), "data");
    CHECK(6 % expert == 0);
    CHECK(12 / group.micro_batches() >= data * expert);
  }
  const std::set<std::string> meshes = Meshes(Groups(Small(12, 12, "", mixture)));
  CHECK(meshes.contains("data=2,expert=6"));
  CHECK(meshes.contains("pipe=2,expert=3,tensor=2"));
  CHECK_FALSE(Meshes(Groups(Small(12, 12, "pipe=1"))).contains("data=2,expert=6"));
  // Devices divide the groups of queues that the graph has.
  config.set_slots(1.25), config.set_slot_groups(3);
  const GraphSource queues = {BuildModel(config), "moe.textproto", {}};
  const std::set<std::string> three = Meshes(Groups(Small(12, 12, "", queues)));
  CHECK(three.contains("pipe=2,expert=3,tensor=2"));
  CHECK_FALSE(three.contains("data=2,expert=6"));
  CHECK_THAT(Error(Small(12, 12, "expert=6", queues)),
             Contains("--fix=expert=6: does not divide 3 groups of experts; use a divisor of it"));
}

TEST_CASE("space: tensor axes over more devices than groups have two factors") {
  proto::Model config = MakeModel("family: 'llama' preset: 'llama-small'");
  config.set_heads(8), config.set_groups(2);
  const GraphSource grouped = {BuildModel(config), "", {}};
  CHECK(Meshes(Groups(Small(2, 2, "tensor=2", grouped))) == std::set<std::string>{"tensor=2"});
  CHECK(Meshes(Groups(Small(8, 8, "tensor=8", grouped))) == std::set<std::string>{"tensor=2x4"});
  CHECK(Meshes(Groups(Small(4, 4, "tensor=4", grouped))) == std::set<std::string>{"tensor=2x2"});
  // Of the shape of the model:
  const ModelShape shape = FindModelShape(grouped.graph);
  CHECK(shape.groups == 2);
  CHECK(shape.group_heads == 4);
  CHECK(FindTensorFactors(shape, 16).empty());
}

TEST_CASE("space: data axes over nodes have two factors, and weights are split in a node") {
  SearchSpec spec = Small(32, 32, "pipe=1,context=1");
  spec.given.cluster.add_level()->set_size(8);
  spec.given.cluster.add_level();
  std::set<std::string> factored;
  for (const proto::Recipe& group : Groups(spec)) {
    if (FindMesh(group).FindAxis("data.1") < 0) continue;
    factored.insert(ToString(FindMesh(group)));
    CHECK(kShardForm.print(group.shard()) == "states:data,gradients:data,weights:data.1");
  }
  CHECK(factored == std::set<std::string>{"data=4x8", "data=4x4,tensor=2", "data=4x2,tensor=4"});
  // Not where all data axes are in a node.
  spec.devices = 8;
  for (const proto::Recipe& group : Groups(spec)) CHECK(FindMesh(group).FindAxis("data.1") < 0);
}

TEST_CASE("space: fixes are obeyed, and add what is searched for no one else") {
  const auto all = [](const std::string& fixes, const auto& holds) {
    const std::vector<proto::Recipe> groups = Groups(Small(8, 16, fixes));
    return std::all_of(groups.begin(), groups.end(), holds);
  };
  using F = proto::Recipe;
  CHECK(all("pipe=2", [](const F& f) { return FindMesh(f).stages() == 2; }));
  CHECK(all("data=2,tensor=1", [](const F& f) {
    return FindDegree(FindMesh(f), "data") == 2 && FindDegree(FindMesh(f), "tensor") == 1;
  }));
  CHECK(all("micro_batches=4", [](const F& f) { return f.micro_batches() == 4; }));
  CHECK(all("micro_batch_size=2", [](const F& f) {
    return 2 * f.micro_batches() * FindDegree(FindMesh(f), "data") == 16;
  }));
  CHECK(all("schedule=gpipe", [](const F& f) { return f.schedule() == "gpipe"; }));
  CHECK(all("schedule=interleaved", [](const F& f) { return f.chunks() > 1; }));
  CHECK(
      all("chunks=3", [](const F& f) { return f.chunks() == 3 && f.schedule() == "interleaved"; }));
  CHECK(all("sequence_parallel=true", [](const F& f) { return f.sequence_parallel(); }));
  CHECK(all("sequence_parallel=false", [](const F& f) { return !f.sequence_parallel(); }));
  CHECK(all("shard=weights", [](const F& f) { return kShardForm.print(f.shard()) == "weights"; }));
  CHECK(all("extra_in_flight=2", [](const F& f) { return f.extra_in_flight() == 2; }));
  CHECK(all("offload=weights", [](const F& f) { return f.offload().weights(); }));
  CHECK(all("shard=states:data.0", [](const F& f) {
    return FindMesh(f).FindAxis("data.0") >= 0 && kShardForm.print(f.shard()) == "states:data.0";
  }));
  CHECK(all("stage_layers=2,1,1,2",
            [](const F& f) { return FindMesh(f).stages() * f.chunks() == 4; }));
  CHECK(
      all("stage_layers=2,1,1,2,schedule=interleaved", [](const F& f) { return f.chunks() == 2; }));
}

TEST_CASE("space: offload is searched only where the host's memory is given") {
  SearchSpec spec = Small(1, 4);
  CHECK(Groups(spec).size() == 3);
  spec.given.recipe.set_host_memory(1 << 30);
  CHECK(Groups(spec).size() == 3 * 2);
  REQUIRE(AddFixes("", "offload=activations,states", &spec.fixed).ok());
  for (const proto::Recipe& group : Groups(spec)) CHECK(group.offload().has_activations());
}

TEST_CASE("space: what has no plan group says what is nearest") {
  CHECK_THAT(Error(Small(0, 8)), Contains("--devices=0: is no number of devices"));
  CHECK_THAT(Error(Small(7, 8, "tensor=2")), Contains("--devices=7: no mesh has so many devices") &&
                                                 Contains("tensor=2 is fixed") &&
                                                 Contains("use 6 or 8"));
  CHECK_THAT(Error(Small(8, 3, "data=4")),
             Contains("--batch=3: has no number of micro-batches that divides it and leaves each "
                      "data part a sequence, in any mesh of these devices with data=4; use 4 or "
                      "more"));
  CHECK_THAT(Error(Small(13, 12)), Contains("of these devices; use 13 or more"));
  CHECK_THAT(Error(Small(8, 9, "data=4,micro_batches=3")),
             Contains("use a multiple of 3, 12 or more"));
  CHECK_THAT(Error(Small(8, 8, "micro_batches=4,micro_batch_size=4,data=1")),
             Contains("--batch=8") && Contains("use 16"));
  CHECK_THAT(Error(Small(8, 0)), Contains("--batch=0: a step needs at least one sequence"));
  CHECK_THAT(Error(Small(8, 8, "pipe=8")), Contains("is more stages than the model's 6 blocks"));
  CHECK_THAT(Error(Small(8, 8, "tensor=8")), Contains("--fix=tensor=8") && Contains("at most 4"));
  CHECK_THAT(Error(Small(17, 8, "context=17")),
             Contains("--fix=context=17: is more parts than the 16 tokens of a sequence; use 16"));
  CHECK_THAT(Error(Small(8, 8, "expert=2")), Contains("no mixture of experts"));
  CHECK_THAT(Error(Small(8, 8, "stage_layers=2,2")), Contains("adds up to 4 layers"));
}

TEST_CASE("space: fixes that exclude each other say which of them is in the way") {
  CHECK_THAT(Error(Small(4, 8, "pipe=1,schedule=interleaved")),
             Contains("--fix=pipe=1,schedule=interleaved: no plan on 4 devices has all of it; "
                      "without pipe there are ") &&
                 Contains("without schedule there are "));
  CHECK_THAT(Error(Small(4, 8, "schedule=1f1b,chunks=2")), Contains("without chunks there are"));
  CHECK_THAT(Error(Small(4, 8, "tensor=1,sequence_parallel=true")),
             Contains("without sequence_parallel there are"));
  CHECK_THAT(Error(Small(4, 8, "data=1,context=1,shard=weights")), Contains("without shard"));
}

TEST_CASE("space: a graph without blocks has no stages") {
  GraphSource source = SmallGpt();
  for (proto::Op& op : *source.graph.mutable_op()) op.clear_block();
  CHECK_THAT(Error(Small(8, 8, "", source)),
             Contains("gpt.textproto: has no blocks") && Contains("`oneflow model`"));
}

TEST_CASE("space: more classes of blocks than a search measures are refused") {
  proto::Model config = MakeModel("family: 'llama' hidden: 64 heads: 4");
  config.set_layers(9);
  proto::BlockPattern& pattern = *config.mutable_blocks();
  for (int i = 0; i < 9; ++i) {
    pattern.add_classes()->mutable_numbers()->set_window(16 * (i + 1));
    proto::BlockPattern::Run& run = *pattern.add_run();
    run.set_count(1), run.set_index(i);
  }
  SearchSpec spec{.source = {BuildModel(config), "nine.textproto", {}}, .devices = 4};
  spec.given.recipe.set_batch(4);
  const absl::Status status = ListGroups(spec).status();
  CHECK(ExitCode(status) == 2);
  CHECK_THAT(std::string(status.message()), Contains("nine.textproto: has blocks of 9 classes"));
}

TEST_CASE("fixes: lists, values with commas, and back to text") {
  Fixes fixes;
  REQUIRE(AddFixes("--fix=", "tensor=8,pipe=4,shard=states:data,gradients:data", &fixes).ok());
  REQUIRE(AddFixes("--fix=", "stage_layers=2,1,3", &fixes).ok());
  REQUIRE(AddFixes("--fix=", "recompute=full,gather,sequence_parallel=true,chunks=2", &fixes).ok());
  // The same once more:
  REQUIRE(AddFixes("--fix=", "pipe=4,recompute=full,gather", &fixes).ok());
  CHECK(fixes.sizes == std::map<std::string, int>{{"pipe", 4}, {"tensor", 8}});
  CHECK(ToString(fixes) ==
        "pipe=4,tensor=8,sequence_parallel=true,shard=gradients,chunks=2,stage_layers=2,1,3,"
        "recompute=full,gather");
  Fixes read;
  REQUIRE(AddFixes("", ToString(fixes), &read).ok());
  CHECK(ToString(read) == ToString(fixes));
  for (const std::string& fix : ListFixes(fixes)) {
    fixes = WithoutFix(fixes, fix.substr(0, fix.find('=')));
  }
  CHECK(ListFixes(fixes).empty());
}

TEST_CASE("fixes: errors name the fix, and what it may be") {
  CHECK_THAT(FixError("tensr=8"), Contains("--fix=tensr=8: ") && Contains("did you mean tensor?"));
  CHECK_THAT(FixError("precision=bf16"), Contains("is nothing that the search chooses"));
  CHECK_THAT(FixError("mesh=pipe=2"), Contains("fixed axis by axis"));
  CHECK_THAT(FixError("tensor"), Contains("--fix=tensor: has no value"));
  CHECK_THAT(FixError("pipe=two"), Contains("--fix=pipe=two: is no whole number"));
  CHECK_THAT(FixError("pipe=0"), Contains("use 1 or more"));
  CHECK_THAT(FixError("micro_batches=0"),
             Contains("--fix=micro_batches=0: is out of range; use 1 to 65536"));
  CHECK_THAT(FixError("micro_batch_size=x"), Contains("is no whole number"));
  CHECK_THAT(FixError("extra_in_flight=-1"), Contains("use 0 to 65536"));
  CHECK_THAT(FixError("chunks=0"), Contains("use 1 to 1024"));
  CHECK_THAT(FixError("schedule=zb"), Contains("zero_bubble"));
  CHECK_THAT(FixError("sequence_parallel=maybe"), Contains("is neither true nor false"));
  CHECK_THAT(FixError("shard=wights"), Contains("weights"));
  CHECK_THAT(FixError("offload=state"), Contains("states"));
  CHECK_THAT(FixError("recompute=most"), Contains("selective"));
  CHECK_THAT(FixError("stage_layers=1,x"), Contains("\"x\" is no number of layers"));
  CHECK_THAT(FixError("stage_layers=4,-1"), Contains("\"-1\" is no number of layers"));
  CHECK_THAT(FixError("pipe=2,pipe=4"),
             Contains("--fix=pipe=4: contradicts an earlier --fix=pipe=2"));
  CHECK_THAT(FixError("chunks=2,chunks=3"), Contains("contradicts an earlier --fix=chunks=2"));
}

}  // namespace
}  // namespace oneflow

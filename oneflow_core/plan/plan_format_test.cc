#include "oneflow_core/plan/plan_format.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "google/protobuf/util/message_differencer.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/net/plan_for_test.h"
#include "oneflow_core/plan/fingerprint.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/print/plan_json.h"
#include "oneflow_core/print/plan_text.h"
#include "oneflow_core/verify/read_plan.h"

namespace oneflow {
namespace {

using google::protobuf::util::MessageDifferencer;

proto::Plan SomePlan() {
  PlanBuilder b({{"data", 2}});
  const int x = b.Register("x"), y = b.Register("y");
  const int a = b.Actor("a", 0, {}, {x});
  const int sum = b.AllReduce("sum", 0, {0}, {x}, y);
  b.Stream("compute", 0, {{{b.Segment("F", 0, {a, sum})}, 2}});
  (*b.program().mutable_actor(a)->mutable_attr())["value"].set_f(0.5);
  (*b.program().mutable_actor(a)->mutable_attr())["name"].set_s("a");
  return b.Finish();
}

std::string Refusal(const std::string& bytes) {
  return std::string(ToStd(ParsePlan(bytes, "gpt.plan").status().message()));
}

}  // namespace

TEST_CASE("a plan survives its file, in both forms") {
  const auto folder =
      std::filesystem::temp_directory_path() / ("plan_format_test." + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  for (const char* name : {"a.plan", "a.textproto"}) {
    const std::string path = folder / name;
    // A text is read with the fingerprint of what it says.
    const auto as_read = [&](proto::Plan plan) {
      if (path.ends_with(".textproto")) plan.set_fingerprint(Fingerprint(plan));
      return plan;
    };
    REQUIRE(WritePlan(SomePlan(), path).ok());
    const auto plan = ReadPlan(path).value();
    CHECK(MessageDifferencer::Equals(plan, as_read(SomePlan())));
    // What is not well-formed is read as it is by those only that ask for it.
    proto::Plan edited = SomePlan();
    edited.mutable_program(0)->mutable_stream(0)->mutable_order(0)->set_segment(0, 9999999);
    REQUIRE(WritePlan(edited, path).ok());
    CHECK(std::string(ToStd(ReadPlan(path).status().message())) ==
          path +
              ": plan, program train: stream compute orders segment 9999999, which does not "
              "exist; the file was edited or made by another version; compile it again");
    REQUIRE(ReadPlanUnchecked(path).ok());
    CHECK(MessageDifferencer::Equals(*ReadPlanUnchecked(path), as_read(edited)));
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) ==
        2);  // no temporary is left
  CHECK_FALSE(ReadPlan(folder / "none.plan").ok());
  CHECK_FALSE(WritePlan(SomePlan(), folder / "no" / "such" / "a.plan").ok());
  std::filesystem::remove_all(folder);
}

TEST_CASE("a text of another version is refused by its number, whatever fields it has") {
  const auto path = std::filesystem::temp_directory_path() /
                    ("versions." + std::to_string(getpid()) + ".textproto");
  const auto refusal = [&](const std::string& text) {
    std::ofstream(path) << text;
    const auto plan = ReadPlanUnchecked(path);
    std::filesystem::remove(path);
    REQUIRE_FALSE(plan.ok());
    return std::string(plan.status().message());
  };
  const std::string actor = "program { name: 'train' actor { name: 'a' workspace_bytes: 64 } }\n";
  CHECK(refusal("version: 1 memory { workspace_bytes: 64 }\n" + actor) ==
        path.string() +
            ": is a plan of version 1, this build reads 5; compile it again with this build");
  CHECK_THAT(refusal(actor + "version: 2"), Catch::Contains("is a plan of version 2"));
  CHECK_THAT(refusal(actor + "version: 5"),
             Catch::Contains(":1:58: ") && Catch::Contains("workspace_bytes"));
}

TEST_CASE("the same plan is the same bytes, in whatever order its attributes were set") {
  const auto plan_of = [](int first, int step) {
    proto::Plan plan = SomePlan();
    auto& attrs = *plan.mutable_program(0)->mutable_actor(0)->mutable_attr();
    for (int i = 0; i < 64; ++i) attrs["k" + std::to_string((first + i * step) % 64)].set_i(1);
    return plan;
  };
  const std::string bytes = SerializePlan(plan_of(0, 1));
  CHECK(SerializePlan(plan_of(7, 5)) == bytes);
  CHECK(SerializePlan(ParsePlan(bytes, "a.plan").value()) == bytes);
}

TEST_CASE("damaged files are refused with what is wrong") {
  const std::string good = SerializePlan(SomePlan());
  REQUIRE(ParsePlan(good, "gpt.plan").ok());
  CHECK(Refusal("").find("gpt.plan: is no plan") == 0);
  CHECK(Refusal("hello, this is a text file").find("gpt.plan: is no plan") == 0);
  CHECK(Refusal(good.substr(0, 20)).find("truncated in its header") != std::string::npos);
  CHECK(Refusal(good.substr(0, good.size() - 1)).find("is truncated") != std::string::npos);
  CHECK(Refusal(good + "x").find("1 bytes after its end") != std::string::npos);
  std::string other = good;
  other[8] = 77;
  CHECK(Refusal(other).find("plan of version 77") != std::string::npos);
  for (size_t at : {size_t{24}, size_t{45}, good.size() - 1}) {
    std::string corrupt = good;
    corrupt[at] ^= 1;
    CHECK(Refusal(corrupt).find("is corrupt") != std::string::npos);
  }
}

TEST_CASE("every bit of a plan's header counts") {
  const std::string good = SerializePlan(SomePlan());
  for (int bit = 0; bit < 8 * 40; ++bit) {
    std::string flipped = good;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    INFO("bit " << bit);
    CHECK_THAT(Refusal(flipped), Catch::StartsWith("gpt.plan: "));
  }
  std::string reserved = good;
  reserved[15] = 1;
  CHECK(Refusal(reserved) ==
        "gpt.plan: is corrupt: the reserved bytes of its header are not 0; copy or compile it "
        "again");
}

TEST_CASE("the fingerprint sees every value and no order of maps") {
  const std::string before = Fingerprint(SomePlan());
  CHECK(before.size() == 32);
  proto::Plan plan = SomePlan();
  plan.set_fingerprint("anything");
  CHECK(Fingerprint(plan) == before);
  plan.mutable_program(0)->mutable_register_(1)->set_offset(128);
  CHECK(Fingerprint(plan) != before);
  plan = SomePlan();
  auto& attr = *plan.mutable_program(0)->mutable_actor(0)->mutable_attr();
  const proto::AttrValue value = attr["value"];
  attr.erase("value");
  CHECK(Fingerprint(plan) != before);
  attr["value"] = value;
  CHECK(Fingerprint(plan) == before);
  attr["value"].set_f(-0.5);
  CHECK(Fingerprint(plan) != before);
  plan = SomePlan();
  plan.mutable_facts()->add_note("not of what runs");
  CHECK(Fingerprint(plan) == before);
}

TEST_CASE("the fingerprint passes over what the format does not have") {
  const std::string before = Fingerprint(SomePlan());
  proto::Plan plan = SomePlan();
  const auto unknown = [](google::protobuf::Message* message) {
    return message->GetReflection()->MutableUnknownFields(message);
  };
  proto::Register* r = plan.mutable_program(0)->mutable_register_(0);
  unknown(&plan)->AddLengthDelimited(1000, "of another version");
  unknown(r)->AddVarint(1001, 7);
  // A number that is taken, of another type: a parser keeps it as unknown.
  unknown(r)->AddVarint(proto::Register::kNameFieldNumber, 1 << 30);
  unknown(r)->AddLengthDelimited(proto::Register::kSlotsFieldNumber, "x");
  unknown(r)->AddGroup(1002)->AddFixed64(1, 2);
  CHECK(Fingerprint(plan) == before);
  proto::Plan reread;
  REQUIRE(reread.ParseFromString(plan.SerializeAsString()));
  CHECK(Fingerprint(reread) == before);
}

TEST_CASE("orders print what repeats once, inside of what repeats, too") {
  proto::Program program;
  for (const char* name : {"F0", "F1", "B0", "B1"}) program.add_segment()->set_name(name);
  proto::Stream stream;
  const auto add = [&](const std::vector<int>& segments, int repeat) {
    proto::OrderRun& run = *stream.add_order();
    for (int s : segments) run.add_segment(s);
    run.set_repeat(repeat);
  };
  add({0}, 1);
  add({1}, 3);
  add({0, 2}, 1);
  add({0, 2, 1}, 2);
  CHECK(OrderText(program, stream) == "F0 F1×3 F0 B0 (F0 B0 F1)×2");
  stream.clear_order();
  add({0, 3, 0, 3, 1, 3, 1, 2, 1, 2}, 6);
  add({2, 2}, 2);
  add({3, 7}, 1);
  CHECK(OrderText(program, stream) == "((F0 B1)×2 F1 B1 (F1 B0)×2)×6 (B0×2)×2 B1 ?");
}

TEST_CASE("JSON says what a step computes, however often its actors fire") {
  proto::Plan plan = SomePlan();
  proto::Program& train = *plan.mutable_program(0);
  proto::ProgramFacts& facts = *plan.mutable_facts()->add_program();
  MutableFacts(0, &facts)->set_flops(3), MutableFacts(1, &facts)->set_flops(5);
  // The segment fires twice.
  CHECK(PlanJson(plan, "").dump().find("\"flops_a_step\":16.0") != std::string::npos);
  train.set_steps_a_round(2);
  CHECK(PlanJson(plan, "").dump().find("\"flops_a_step\":8.0") != std::string::npos);
}

TEST_CASE("plans print one line an actor and a register") {
  CHECK(PlanText(SomePlan()) ==
        "plan of , version 5, fingerprint \n"
        "mesh data=2: 2 devices, 1 stage; batch 0 in 0 micro-batches, schedule \n"
        "memory of a device of stage 0: 128 bytes = weights and optimizer 0 bytes + registers and "
        "workspaces 128 bytes; lower\n"
        "      bound 0 bytes\n"
        "persistent:\n"
        "program train: micro_batches=1 of 1\n"
        "  r0 x stage=0 f32[16] slots=1 x 64 at 0\n"
        "  r1 y stage=0 f32[16] slots=1 x 64 at 64\n"
        "  a0 a  stage=0 -> r0 name=a value=0.5\n"
        "  a1 sum all_reduce stage=0 r0 -> r1 group=data reduce=sum\n"
        "  segment F stage=0: a0 a1\n"
        "  stream compute stage=0: F×2\n"
        "  issue stage=0: a1×2\n");
  CHECK_THAT(PlanText(SomePlan(), "eval"), !Catch::Contains("program train"));
  proto::Plan marked = SomePlan();
  proto::Register& x = *marked.mutable_program(0)->mutable_register_(0);
  x.set_slots(3), x.set_stride(128), x.set_first_buffer(2), x.set_fires_per_fill(4);
  x.set_fill_mode(proto::Register::ACCUMULATE);
  proto::Actor& sum = *marked.mutable_program(0)->mutable_actor(1);
  sum.mutable_input(0)->set_fires_per_read(2), sum.mutable_input(0)->set_initial_fills(1);
  sum.mutable_boxing()->set_reduce(proto::Boxing::MAX);
  MutableFacts(1, marked.mutable_facts()->add_program())->set_bytes_moved(100);
  CHECK_THAT(
      PlanText(marked),
      Catch::Contains("  r0 x stage=0 f32[16] slots=3 x 64 at 0 buffers=3 every 128 "
                      "first_buffer=2 accumulate fires_per_fill=4\n") &&
          Catch::Contains("  a1 sum all_reduce stage=0 r0/2+1 -> r1 group=data reduce=max\n"));
  CHECK_THAT(PlanSummary(marked), Catch::Contains(": 1 actor, 200 bytes a step to a device\n"));
  *marked.add_memory() = marked.memory(0);  // a second stage, which receives less
  *marked.mutable_program(0)->add_actor() = marked.program(0).actor(1);
  marked.mutable_program(0)->mutable_actor(2)->set_stage(1);
  marked.mutable_program(0)->mutable_segment(0)->add_actor(2);
  MutableFacts(2, marked.mutable_facts()->mutable_program(0))->set_bytes_moved(60);
  const auto received = [&] { return PlanSummary(marked); };
  CHECK_THAT(received(),
             Catch::Contains(": 2 actors, 200 bytes a step to a device of stage 0, the most\n"));
  MutableFacts(2, marked.mutable_facts()->mutable_program(0))->set_bytes_moved(100);
  CHECK_THAT(received(),
             Catch::Contains(": 2 actors, 200 bytes a step to a device of each stage\n"));
  proto::Plan trained = SomePlan();
  for (const auto& [name, size] : {std::pair{"w", 6}, {"w/m", 6}, {"w/v", 6}, {"bias", 2}}) {
    proto::Variable& variable = *trained.add_variable();
    variable.set_name(name);
    variable.mutable_layout()->add_dim(size);
    variable.mutable_layout()->add_dim(3);
  }
  CHECK(ParameterCount(trained) == 24);
  CHECK_THAT(PlanSummary(SomePlan()), Catch::Contains("\n    addresses repeat every step\n"));
  proto::Plan turns = SomePlan();  // 2 fills a step in 3 slots
  turns.mutable_program(0)->set_micro_batches(2);
  for (proto::Register& r : *turns.mutable_program(0)->mutable_register_()) {
    r.set_slots(3), r.set_fires_per_fill(1);
  }
  CHECK_THAT(PlanSummary(turns), Catch::Contains("\n    addresses repeat every 3 steps, those of "
                                                 "a micro-batch every 3 micro-batches\n"));
  turns.set_device_kind(proto::CUDA);
  *turns.add_memory() = turns.memory(0);
  turns.mutable_memory(1)->set_kind(proto::HOST);
  CHECK_THAT(PlanSummary(turns),
             Catch::Contains("2 GPUs, 1 stage") && Catch::Contains("memory of a GPU of stage 0") &&
                 Catch::Contains("pinned memory of the host for a GPU of stage 0") &&
                 Catch::Contains("a step to a GPU\n") && !Catch::Contains("device"));
  CHECK(BytesText(0) == "0 bytes");
  CHECK(BytesText(1023) == "1,023 bytes");
  CHECK(BytesText(-1023) == "-1,023 bytes");
  CHECK(BytesText(int64_t{1} << 30) == "1,073,741,824 bytes (1.0 GiB)");
  CHECK(BytesText(1234567) == "1,234,567 bytes (1.2 MiB)");
}

}  // namespace oneflow

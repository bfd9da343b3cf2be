#include "oneflow_core/verify/verify_plan.h"

#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "oneflow_core/base/strings.h"
#include "oneflow_core/net/plan_for_test.h"

namespace oneflow {
namespace {

// Four micro-batches of two sequences of eight tokens, and x, an input of its own [batch, 3].
proto::Plan Good() {
  PlanBuilder b;
  const int ids = b.Register("ids"), x = b.Register("x");
  b.At(ids).mutable_layout()->set_dim(0, 2), b.At(ids).mutable_layout()->add_dim(8);
  b.At(x).mutable_layout()->set_dim(0, 2), b.At(x).mutable_layout()->add_dim(3);
  const int tokens = b.Actor("tokens", 0, {}, {ids}), feed = b.Actor("x.1", 0, {}, {x});
  b.Stream("host.in", 0, {{{b.Segment("in", 0, {tokens, feed})}, 4}});
  b.program().mutable_actor(tokens)->set_kernel("load_tokens");
  b.program().mutable_actor(feed)->set_kernel("feed");
  (*b.program().mutable_actor(feed)->mutable_attr())["name"].set_s("x");
  b.program().set_micro_batches(4);
  b.program().set_micro_batch_size(2);
  proto::Plan plan = b.Finish();
  plan.mutable_recipe()->set_batch(8);
  plan.mutable_recipe()->set_micro_batches(4);
  proto::Op* op = plan.mutable_graph()->add_op();
  op->set_name("x"), op->set_kind("input");
  op->mutable_shape()->add_dim()->set_name("batch");
  op->mutable_shape()->add_dim()->set_size(3);
  return plan;
}

std::string Verdict(const std::function<void(proto::Plan&, proto::Program&)>& edit) {
  proto::Plan plan = Good();
  edit(plan, *plan.mutable_program(0));
  const auto net = MakePlanNet(plan, plan.program(0)).value();
  const absl::Status status = VerifyFeeds(net);
  return status.ok() ? "good" : std::string(ToStd(status.message()));
}

using Plan = proto::Plan;
using Program = proto::Program;
constexpr char kMend[] = "; the plan was edited or damaged; compile it again";

TEST_CASE("verify feeds: a program has the micro-batches of Plan.train") {
  CHECK(Verdict([](Plan&, Program&) {}) == "good");
  CHECK(Verdict([](Plan&, Program& p) { p.set_micro_batch_size(3); }) ==
        std::string("plan, program train: has 4 micro-batches of 3 sequences, but the plan is for "
                    "a batch of 8 in 4") +
            kMend);
  const auto refused = [](const auto& edit) {
    CHECK_THAT(Verdict(edit), Catch::Contains("but the plan is for a batch of"));
  };
  refused([](Plan&, Program& p) { p.set_micro_batches(2); });
  refused([](Plan&, Program& p) { p.set_micro_batch_size(0); });
  refused([](Plan&, Program& p) { p.set_micro_batch_size(int64_t{1} << 62); });
  refused([](Plan& p, Program&) { p.mutable_recipe()->set_batch(9); });
  refused([](Plan& p, Program&) { p.mutable_recipe()->set_micro_batches(2); });
  refused([](Plan& p, Program&) { p.mutable_recipe()->set_micro_batches(0); });
  // The others have one micro-batch, of the same size or of the whole batch.
  const auto one = [](const std::string& name, int64_t size) {
    return Verdict([&](Plan& plan, Program& p) {
      p.set_name(name);
      p.set_micro_batches(1);
      p.set_micro_batch_size(size);
      p.mutable_stream(0)->mutable_order(0)->set_repeat(1);
      for (proto::Register& r : *p.mutable_register_()) r.mutable_layout()->set_dim(0, size);
      if (name == "eval" && size == 5) plan.mutable_recipe()->set_batch(20);
    });
  };
  CHECK(one("eval", 2) == "good");
  CHECK(one("eval", 5) == "good");
  CHECK(one("run", 8) == "good");
  CHECK(one("generate", 7) == "good");
  CHECK_THAT(one("eval", 4), Catch::Contains("has 1 micro-batches of 4 sequences"));
  CHECK_THAT(one("run", 2), Catch::Contains("has 1 micro-batches of 2 sequences"));
  refused([](Plan&, Program& p) { p.set_name("generate"); });
}

TEST_CASE("verify feeds: what brings data in has a micro-batch's shape, and fires for each") {
  // A plan without Plan.train is held against its feeds alone.
  const auto alone = [](const auto& edit) {
    return Verdict([&](Plan& plan, Program& p) {
      plan.clear_recipe();
      edit(plan, p);
    });
  };
  CHECK(alone([](Plan&, Program&) {}) == "good");
  CHECK(alone([](Plan&, Program& p) { p.set_micro_batch_size(3); }) ==
        std::string("plan, program train, actor tokens: takes 2 sequences, a micro-batch has 3") +
            kMend);
  CHECK(alone([](Plan&, Program& p) { p.set_micro_batches(3); }) ==
        std::string("plan, program train, actor tokens: fires 4 times in 1 steps of 3 "
                    "micro-batches") +
            kMend);
  CHECK(alone([](Plan&, Program& p) { p.set_micro_batches(2), p.set_steps_a_round(2); }) == "good");
  CHECK_THAT(alone([](Plan&, Program& p) { p.set_steps_a_round(2); }),
             Catch::Contains("fires 4 times in 2 steps of 4 micro-batches"));
  const auto rows = [](int reg, int dim, int64_t size) {
    return
        [=](Plan&, Program& p) { p.mutable_register_(reg)->mutable_layout()->set_dim(dim, size); };
  };
  CHECK_THAT(alone(rows(0, 0, 1)), Catch::Contains("actor tokens: takes 1 sequences"));
  CHECK(alone(rows(0, 1, 16)) == "good");
  CHECK_THAT(alone(rows(1, 0, 4)), Catch::Contains("actor x.1: takes 4 sequences"));
  CHECK(alone(rows(1, 1, 4)) == "good");
  // Of a feed that the graph does not know nothing is said.
  CHECK(alone([&](Plan& plan, Program& p) {
          plan.clear_graph();
          rows(1, 0, 4)(plan, p);
        }) == "good");
}

TEST_CASE("verify feeds: labels are counted ahead once a step, in the sequences that are loaded") {
  const auto counts = [](int64_t sequence, int times, const char* kernel = "load_counts") {
    return Verdict([&](Plan&, Program& p) {
      proto::Actor& actor = *p.mutable_actor(1);
      actor.set_kernel(kernel);
      (*actor.mutable_attr())["sequence"].set_i(sequence);
      p.mutable_segment(0)->mutable_actor()->RemoveLast();
      proto::Segment& ahead = *p.add_segment();
      ahead.set_id(1), ahead.set_name("ahead"), ahead.add_actor(1);
      proto::OrderRun& run = *p.mutable_stream(0)->add_order();
      run.add_segment(1), run.set_repeat(times);
    });
  };
  CHECK(counts(8, 1) == "good");
  CHECK(counts(9, 1) == std::string("plan, program train, actor x.1: counts labels of 9 tokens, a "
                                    "sequence has 8") +
                            kMend);
  CHECK_THAT(counts(8, 4), Catch::Contains("actor x.1: fires 4 times in 1 steps"));
  CHECK(counts(8, 1, "report") == "good");
  CHECK_THAT(counts(8, 4, "report"), Catch::Contains("actor x.1: fires 4 times in 1 steps"));
}

TEST_CASE("verify feeds: labels come in the order of their tokens") {
  const auto both = [](int64_t tokens, int64_t labels) {
    return Verdict([&](Plan&, Program& p) {
      p.mutable_actor(1)->set_kernel("load_tokens");
      if (tokens > 0) (*p.mutable_actor(0)->mutable_attr())["mirrored"].set_i(tokens);
      if (labels > 0) (*p.mutable_actor(1)->mutable_attr())["mirrored"].set_i(labels);
    });
  };
  CHECK(both(2, 2) == "good");
  CHECK(both(0, 1) == "good");
  CHECK(both(2, 0) ==
        std::string("plan, program train, actor x.1: mirrors 1 slices of a sequence, and actor "
                    "tokens 2") +
            kMend);
}

}  // namespace
}  // namespace oneflow

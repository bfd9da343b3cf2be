#include "tools/oneflow/job/engine_syntax.h"

#include <catch2/catch.hpp>
#include <string>

#include "oneflow_core/base/strings.h"

namespace oneflow {
namespace {

std::string Message(const absl::Status& status) { return std::string(ToStd(status.message())); }

TEST_CASE("Times as Slurm reads them") {
  const auto seconds = [](const std::string& text) {
    return ParseSlurmTime("time", text).value().value_or(0);
  };
  CHECK(seconds("90") == 90 * 60);
  CHECK(seconds("90:30") == 90 * 60 + 30);
  CHECK(seconds("12:30:01") == 12 * 3600 + 30 * 60 + 1);
  CHECK(seconds("1-12") == 36 * 3600);
  CHECK(seconds("1-12:30") == 36 * 3600 + 30 * 60);
  CHECK(seconds("1-12:30:01") == 36 * 3600 + 30 * 60 + 1);
  for (const char* none : {"0", "UNLIMITED", "infinite"}) {
    CHECK(ParseSlurmTime("time", none).value() == std::nullopt);
  }
  for (const char* wrong : {"", "2h", "1:2:3:4", "1-", "-5", "1-2-3", "1.5", "12:", ":30", "1-2:x",
                            "9999999999", "1 2", "1\n#SBATCH"}) {
    INFO(wrong);
    CHECK_FALSE(ParseSlurmTime("time", wrong).ok());
  }
  CHECK(Message(ParseSlurmTime("time", "2h").status()) ==
        "--time=2h: is no time of Slurm's; write minutes (90), hours:minutes:seconds (12:00:00) or "
        "days-hours (1-12)");
}

TEST_CASE("Options of sbatch that the script of a job cannot live with") {
  for (const char* good : {"--account=mine",
                           "-A mine",
                           "--gres=gpu:8",
                           "--nodelist=n1,n2",
                           "-w n1",
                           "--exclude=n1",
                           "--mem=64G",
                           "--constraint=a100",
                           "-C a100",
                           "--qos=long",
                           "--wait-all-nodes=1",
                           "--hold",
                           "-H",
                           "--begin=now+1hour",
                           "--dependency=afterok:7",
                           "--nice=7",
                           "--exclusive",
                           "-xn[1-3]",
                           "--gpus-per-node=4",
                           "-G 4",
                           "-sA mine",
                           "--comment=a-b",
                           "--no-requeue"}) {
    INFO(good);
    CHECK(CheckSbatchOption(good).ok());
  }
  for (const char* bad : {"--array=0-3",
                          "--array 0-3",
                          "-a0-3",
                          "-a 0-3",
                          "-Ha0-3",
                          "--arr=0-3",
                          "--account=mine --array=0-3",
                          "-A mine -a 0-3",
                          "--wrap=true",
                          "--wait",
                          "-W",
                          "--test-only",
                          "--requeue",
                          "--no-kill=off",
                          "-k",
                          "--signal=USR1",
                          "--output=x",
                          "-o x",
                          "-ex",
                          "--export=NONE",
                          "--clusters=b",
                          "-M b",
                          "--nodes=4",
                          "-N4",
                          "--ntasks=8",
                          "-n 8",
                          "--ntasks-per-node=2",
                          "--cpus-per-task=4",
                          "-c4",
                          "--time=1",
                          "-t 1",
                          "--time-min=1",
                          "--partition=x",
                          "-p x",
                          "--kill-on-invalid-dep=no",
                          "--version",
                          "-V",
                          "mine",
                          "",
                          "a\nb",
                          "--account=a\n#SBATCH --array=1"}) {
    INFO(bad);
    CHECK_FALSE(CheckSbatchOption(bad).ok());
  }
  CHECK(Message(CheckSbatchOption("--array=0-3")) ==
        "--sbatch_option=--array=0-3: sbatch's --array makes several jobs of one; submit each with "
        "its own --job_dir");
  CHECK(Message(CheckSbatchOption("-N 4")) ==
        "--sbatch_option=-N 4: sbatch's --nodes has a flag of submit; use --nodes and "
        "--spare_nodes");
}

TEST_CASE("Options of sbatch that ask for GPUs") {
  for (const char* asks : {"--gres=gpu:8", "--gpus=8", "--gpus-per-task=1", "-G 8", "-G8",
                           "--tres-per-task=gres/gpu:1", "--account=a --gres=gpu:2"}) {
    INFO(asks);
    CHECK(AsksForGpus(asks));
  }
  for (const char* none : {"--account=gpus", "-A G", "--constraint=gres"})
    CHECK(!AsksForGpus(none));
}

TEST_CASE("Names of images") {
  const std::string digest(64, 'a');
  for (const std::string& good :
       {std::string("i"), std::string("oneflow:1"), std::string("team/oneflow"),
        std::string("registry.example.com/oneflow:1.2-rc_3"), std::string("localhost/a/b__c/d.e"),
        std::string("registry:5000/team/one--flow:LATEST"), std::string("10.0.0.1:5000/a"),
        std::string("Registry/a"), "a/b:1@sha256:" + digest, "a@sha256:" + digest}) {
    INFO(good);
    CHECK(CheckImage("image", good).ok());
  }
  for (const std::string& bad : {std::string(),
                                 std::string("OneFlow:1"),
                                 std::string("a b"),
                                 std::string("a:"),
                                 std::string(":1"),
                                 std::string("a:b:c"),
                                 std::string("a//b"),
                                 std::string("/a"),
                                 std::string("a/"),
                                 std::string("-a"),
                                 std::string("a-"),
                                 std::string("a..b"),
                                 std::string("a___b"),
                                 std::string("a:.1"),
                                 "a:" + std::string(129, 'x'),
                                 std::string("a@sha256:abc"),
                                 std::string("a@"),
                                 "a@sha256:" + std::string(64, 'g'),
                                 std::string("re_g.io:x/a"),
                                 std::string("docker://a"),
                                 std::string("https://r.io/a"),
                                 std::string("r.io:99999/a"),
                                 "a/" + std::string(300, 'a'),
                                 std::string("a\"b")}) {
    INFO(bad);
    CHECK_FALSE(CheckImage("image", bad).ok());
  }
}

TEST_CASE("Names of Kubernetes' objects") {
  const std::string label(63, 'a');
  for (const std::string& good : {std::string("scratch"), std::string("a-1.b"), std::string("0"),
                                  label, label + "." + label}) {
    INFO(good);
    CHECK(CheckDnsName("volume_claim", good).ok());
  }
  for (const std::string& bad :
       {std::string(), std::string("Scratch"), std::string("a_b"), std::string("-a"),
        std::string("a-"), std::string(".a"), std::string("a..b"), std::string("a/b"),
        std::string("a b"), label + "a", label + "." + label + "." + label + "." + label}) {
    INFO(bad);
    CHECK_FALSE(CheckDnsName("volume_claim", bad).ok());
  }
}

}  // namespace
}  // namespace oneflow

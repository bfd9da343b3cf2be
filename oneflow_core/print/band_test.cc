#include "oneflow_core/print/band.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace oneflow {
namespace {

void AddRegion(proto::System* system, double sequence, int runs, double sigma,
               bool experts = false) {
  proto::Region* region = system->add_region();
  region->set_experts(experts);
  const auto set = [](proto::Range* range, double least, double most) {
    range->set_least(least);
    range->set_most(most);
  };
  set(region->mutable_sequence(), 1024, sequence);
  set(region->mutable_parameters(), 1e9, 1e12);
  set(region->mutable_devices(), 8, 4096);
  set(region->mutable_device_tokens(), 1024, 65536);
  if (experts) set(region->mutable_slots(), 1, 1.5);
  region->set_runs(runs);
  region->set_models(runs - 1);
  region->set_sigma(sigma);
}

// Three systems; only the third has mixtures, and long sequences.
proto::Cluster ThreeSystems() {
  proto::Cluster cluster;
  for (const char* name : {"one", "two", "three"}) {
    proto::System* system = cluster.add_system();
    system->set_name(name);
    system->set_what(std::string("System ") + name);
    system->set_slowdown(1);
  }
  AddRegion(cluster.mutable_system(0), 8192, 9, 0.04);
  AddRegion(cluster.mutable_system(1), 8192, 5, 0.03);
  AddRegion(cluster.mutable_system(2), 4096, 4, 0.12);
  AddRegion(cluster.mutable_system(2), 16384, 12, 0.06);
  AddRegion(cluster.mutable_system(2), 8192, 3, 0.2, /*experts=*/true);
  cluster.mutable_between_systems()->set_sigma(0.1);
  cluster.mutable_between_systems()->set_freedom(2);
  cluster.mutable_between_systems()->set_what("H100s");
  return cluster;
}

constexpr RunFigures kRun{
    .sequence = 8192, .parameters = 7'000'000'000, .devices = 64, .device_tokens = 16384};

proto::Cluster As(const char* system) {
  proto::Cluster cluster = ThreeSystems();
  cluster.set_as_system(system);
  return cluster;
}

double Squared(double x) { return x * x; }

TEST_CASE("StudentSigma: known values, and the closed form of one degree of freedom") {
  for (const auto& [freedom, t] : {std::pair(1, 1.83734),
                                   {2, 1.32128},
                                   {3, 1.19688},
                                   {4, 1.14163},
                                   {10, 1.05256},
                                   {1000, 1.0005}}) {
    CHECK(StudentSigma(freedom) == Approx(t).epsilon(5e-6));
  }
  CHECK(StudentSigma(1) == Approx(std::tan(M_PI_2 * std::erf(std::sqrt(0.5)))).epsilon(1e-14));
  CHECK(StudentSigma(1'000'000) == Approx(1).epsilon(1e-6));
}

TEST_CASE("a cluster without systems has no band, and that is said") {
  const Band band = FindBand({}, kRun);
  CHECK(BandText(band) == " (no run of this kind was compared)");
  CHECK(BandJson(band, 1).is_null());
}

TEST_CASE("a cluster for a system has the band of its region") {
  const Band band = FindBand(As("one"), kRun);
  CHECK(BandText(band) == " ± 4 % (1 σ of 9 runs of 8 models by System one on H100s)");
  CHECK(band.sigma == 0.04);
  const nlohmann::ordered_json json = BandJson(band, 10);
  CHECK(json.dump().starts_with(R"({"system":"one","sigma":0.04,"low_seconds":9.6)"));
  CHECK(json.dump().ends_with(R"("runs":9,"models":8,"systems":1,"what":"System one on H100s"})"));
  CHECK(json["low_seconds"].get<double>() == Approx(10 * std::exp(-0.04)));
  CHECK(json["high_seconds"].get<double>() == Approx(10 * std::exp(0.04)));
  CHECK_FALSE(BandJson(band, 0).contains("low_seconds"));
}

TEST_CASE("of regions that contain the run the one with the fewest runs counts") {
  RunFigures run = kRun;
  CHECK(FindBand(As("three"), run).runs == 12);
  run.sequence = 4096;
  CHECK(FindBand(As("three"), run).runs == 4);
  run.sequence = 4097;
  CHECK(FindBand(As("three"), run).runs == 12);
}

TEST_CASE("without a system the band is of one that was not compared") {
  const Band band = FindBand(ThreeSystems(), kRun);
  const double within = (Squared(0.04) + Squared(0.03) + Squared(0.06)) / 3;
  const double between = Squared(1.32128 * 0.1);
  CHECK(band.sigma == Approx(std::sqrt(within + between)).epsilon(1e-5));
  CHECK(BandText(band) ==
        " ± 14 % (1 σ of a system that was not compared; 3 systems on H100s were; --system narrows "
        "it)");
  const nlohmann::ordered_json json = BandJson(band, 0);
  CHECK(json["system"].is_null());
  CHECK(json["runs"] == 26);
  CHECK(json["models"] == 23);
  CHECK(json["systems"] == 3);
  CHECK(json["what"] == "systems on H100s");
}

TEST_CASE("systems without a region that contains the run do not count") {
  RunFigures run = kRun;
  run.slots = 1.25;
  const Band band = FindBand(ThreeSystems(), run);
  CHECK(band.sigma == Approx(std::sqrt(Squared(0.2) + Squared(1.32128 * 0.1))).epsilon(1e-5));
  CHECK(BandText(band) ==
        " ± 24 % (1 σ of a system that was not compared; 1 system on H100s was; --system narrows "
        "it)");
}

TEST_CASE("both ends of a range are in it") {
  const auto outside = [](auto set) {
    RunFigures run = kRun;
    set(run);
    return FindBand(As("one"), run).outside;
  };
  for (const int64_t sequence : {1024, 8192}) {
    CHECK(outside([&](RunFigures& run) { run.sequence = sequence; }).empty());
  }
  CHECK(outside([](RunFigures& run) { run.sequence = 8193; }) == "8,193 tokens of a sequence");
  CHECK(outside([](RunFigures& run) { run.sequence = 1023; }) == "1,023 tokens of a sequence");
  CHECK(outside([](RunFigures& run) { run.sequence = 0; }) == "a model that reads no tokens");
  CHECK(outside([](RunFigures& run) { run.parameters = 834'000; }) == "834 thousand parameters");
  CHECK(outside([](RunFigures& run) { run.parameters = 999'000'000; }) == "999 million parameters");
  CHECK(outside([](RunFigures& run) { run.devices = 1; }) == "1 device");
  CHECK(outside([](RunFigures& run) { run.devices = 4097; }) == "4,097 devices");
  CHECK(outside([](RunFigures& run) { run.device_tokens = 1023.5; }) ==
        "1,024 tokens of a step a device");
  CHECK(outside([](RunFigures& run) { run.slots = 1; }) == "a mixture of experts");
  CHECK(outside([](RunFigures& run) { run.trains = false; }) == "no step of training");
}

TEST_CASE("the figures that are named are those that the nearest region does not contain") {
  RunFigures run = kRun;
  run.sequence = 131072;
  const Band band = FindBand(ThreeSystems(), run);
  CHECK(BandText(band) ==
        " (no run like this (131,072 tokens of a sequence on H100s) was compared)");
  CHECK(BandJson(band, 10).dump() == R"({"system":null,"outside":"131,072 tokens of a sequence"})");
  run.devices = 1;
  run.parameters = 834'000;
  CHECK(FindBand(ThreeSystems(), run).outside ==
        "131,072 tokens of a sequence, 834 thousand parameters");
  // Mixtures are compared, and sequences of 16,384 tokens, but not both.
  run = kRun;
  run.slots = 1.25;
  run.sequence = 16384;
  CHECK(FindBand(As("three"), run).outside == "16,384 tokens of a sequence");
  CHECK(BandText(FindBand(As("three"), run)) ==
        " (no run like this (16,384 tokens of a sequence on H100s) by System three was compared)");
  CHECK(BandJson(FindBand(As("three"), run), 1)["system"] == "three");
  run.sequence = 8192;
  run.slots = 8;
  CHECK(FindBand(ThreeSystems(), run).outside == "queues of experts of 8 times even routing");
  // Off by a factor of 1.01 from one region, and of 8 from the other.
  run = kRun;
  run.sequence = 16500;
  CHECK(FindBand(ThreeSystems(), run).outside == "16,500 tokens of a sequence");
}

TEST_CASE("CountText: three digits and a unit") {
  CHECK(CountText(30.53e9) == "30.5 billion");
  CHECK(CountText(999) == "999");
  CHECK(CountText(999.6) == "1 thousand");
  CHECK(CountText(999.4e6) == "999 million");
  CHECK(CountText(999.6e6) == "1 billion");
  CHECK(CountText(1234.5e12) == "1230 trillion");
  CHECK(CountText(1.026e12) == "1.03 trillion");
}

}  // namespace
}  // namespace oneflow

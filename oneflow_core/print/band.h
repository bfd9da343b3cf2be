// The band of a predicted time of a step: how predictions for runs like this one have held, by the
// systems of a cluster file (proto::System).
//
//   const Band band = FindBand(cluster, {.sequence = 4096, .parameters = 7e9, .devices = 64,
//                                        .device_tokens = 32768});
//   text = TimeText(seconds) + BandText(band);
//   // "12.970 s ± 4 % (1 σ of 9 runs of 5 models by Megatron-LM on H100s)"
//   // "12.970 s ± 13 % (1 σ of a system that was not compared; 3 systems on H100s were; --system
//   //  narrows it)"
//   // "12.970 s (no run like this (131,072 tokens of a sequence on H100s) was compared)"
//   // "12.970 s (no run like this (1 device on H100s) by MPT was compared)"
//   // "12.970 s (no run of this kind was compared)"
//
// The prediction is normal on a scale of logarithms: the time is within a factor e^σ of it for 68 %
// of runs.
#pragma once

#include <cstdint>
#include <string>

#include "nlohmann/json.hpp"
#include "proto/cluster.pb.h"

namespace oneflow {

// The figures of a run by which it is in a region or not.
struct RunFigures {
  bool trains = true;  // else its program computes no training step
  // Of a mixture of experts: slots of its queues over those of even routing; 0: no mixture.
  double slots = 0;
  int64_t sequence = 0;    // tokens of a sequence; 0: it reads none
  int64_t parameters = 0;  // of the model, with all experts
  int64_t devices = 0;
  double device_tokens = 0;  // tokens of a step, a device
};

struct Band {
  int systems = 0;      // whose runs the band is of; 0 with no figure outside: the file has none
  std::string outside;  // "131,072 tokens of a sequence": no compared run has this; then no sigma
  std::string by;       // where it is outside: the system that the cluster is for, in words
  double sigma = 0;     // of log(predicted / measured)
  std::string system;   // the one that the cluster is for; "" where it is for none
  int runs = 0, models = 0;
  std::string what;     // of runs: "Megatron-LM on H100s"; of systems: "systems on H100s"
  std::string devices;  // "H100s"
};

// If the cluster is for a system (as_system), sigma is that of its region that contains the run;
// of several regions the one with the fewest runs counts. Otherwise the run is that of a system
// that was not compared: sigma² is the mean square within the systems that have a region that
// contains the run, plus (t × sigma between systems)², with t = StudentSigma(freedom).
// If no region contains the run, `outside` names the figures, at most two, that the nearest region
// does not contain: the one from which they are off by the least factor together. Requires a
// cluster that passed CheckCluster.
Band FindBand(const proto::Cluster& cluster, const RunFigures& run);

// The t that bounds a value of Student's distribution, of either sign, with the probability with
// which one σ bounds a normal one (68.3 %): 1.8373 for 1 degree of freedom, 1 for infinitely many.
// Exact, by its finite series (Abramowitz and Stegun, 26.7.3 and 26.7.4). Requires freedom >= 1.
double StudentSigma(int freedom);

// The text after a predicted time, from the space on.
std::string BandText(const Band& band);

// {"system": null where there is none, "sigma", "low_seconds", "high_seconds", "runs", "models",
// "systems", "what"}, {"system", "outside": "131,072 tokens of a
// sequence"}, or null where the file has no
// systems. `seconds`: the predicted time; 0: none, then without low_seconds and high_seconds.
nlohmann::ordered_json BandJson(const Band& band, double seconds);

// "30.5 billion", "834 thousand": three digits of a count.
std::string CountText(double count);

}  // namespace oneflow

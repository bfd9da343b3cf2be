// Findings of some groups, applied to others that are alike.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "proto/recipe.pb.h"

namespace oneflow {

class Experience {
 public:
  // Groups are numbered in the order in which they come.
  void AddGroup(const proto::Recipe& group);

  // The times of a group's plan by formulas and by short plans; infinite: none fits.
  void AddEstimate(size_t group, double formula_seconds, double seconds);
  // Short plans over formulas, as a rule, of groups with the same mesh and schedule; until there is
  // one, of groups that split over the same axes; 1 where none is known.
  double Correction(size_t group) const;
  bool HaveSameAxes(size_t a, size_t b) const { return axes_of_[a] == axes_of_[b]; }

  // The bytes of a compiled plan over what short plans said.
  void AddPacking(const proto::Recipe& group, double packing);
  // The most of plans with the same schedule and sharding; until there is one, what is usual:
  // packing leaves gaps, larger ones where chunks and gathered weights come and go.
  double Packing(const proto::Recipe& group) const;

 private:
  struct Ratios {
    double sum = 0;
    int count = 0;
  };
  std::map<std::string, size_t> kinds_;    // by mesh and schedule, or by names of axes
  std::vector<size_t> kind_of_, axes_of_;  // by group: its kinds
  std::vector<Ratios> ratios_;             // by kind
  std::map<std::string, double> packing_;
};

}  // namespace oneflow

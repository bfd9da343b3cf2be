// Why a choice of Recipe acts on nothing in a plan: the functions of Row::idle.
#pragma once

#include <string_view>

#include "oneflow_core/recipe/row.h"

namespace oneflow {

std::string_view IdleShard(const PlanCase& plan);
std::string_view IdleGather(const PlanCase& plan);
std::string_view IdleReduce(const PlanCase& plan);
std::string_view IdleSequenceParallel(const PlanCase& plan);
std::string_view IdleSplitProducts(const PlanCase& plan);
std::string_view IdleAxisOrder(const PlanCase& plan);
std::string_view IdleOverlap(const PlanCase& plan);
std::string_view IdleBuckets(const PlanCase& plan);
std::string_view IdleContextPieces(const PlanCase& plan);
std::string_view IdlePrefetch(const PlanCase& plan);
std::string_view IdleRecompute(const PlanCase& plan);
std::string_view IdleSchedule(const PlanCase& plan);
std::string_view IdleExtraInFlight(const PlanCase& plan);
std::string_view IdleMaskedLabels(const PlanCase& plan);
std::string_view IdleLossPieces(const PlanCase& plan);
std::string_view IdleOffload(const PlanCase& plan);
std::string_view IdleUpdateOn(const PlanCase& plan);
std::string_view IdleHostMemory(const PlanCase& plan);
std::string_view IdleFrozenWeights(const PlanCase& plan);

}  // namespace oneflow

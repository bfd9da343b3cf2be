// The family of GLM 4.5: dense blocks, then mixtures with a shared expert and a choice by biased
// sigmoids; half of a head is rotated. Numbers: its config.json.
#pragma once

#include "oneflow_core/model/family.h"

namespace oneflow {

Family GlmFamily();

}  // namespace oneflow

// Flags of the verbs of jobs. Only these verbs read them.
#pragma once

#include "gflags/gflags.h"

DECLARE_string(engine);
DECLARE_int64(nodes);
DECLARE_int64(spare_nodes);
DECLARE_int64(processes_per_node);
DECLARE_bool(dry_run);
DECLARE_string(oneflow);
DECLARE_int64(max_restarts);
DECLARE_int64(max_jobs);
DECLARE_int64(signal_seconds);
DECLARE_string(partition);
DECLARE_string(time);
DECLARE_int64(cpus_per_process);
DECLARE_string(sbatch_option);
DECLARE_string(image);
DECLARE_string(volume_claim);
DECLARE_int64(attempt);
DECLARE_int64(process);
DECLARE_int64(lines);
DECLARE_bool(now);

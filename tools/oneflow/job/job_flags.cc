#include "tools/oneflow/job/job_flags.h"

DEFINE_string(engine, "", "slurm; local: processes of this host; or kubernetes: writes a manifest");
DEFINE_int64(nodes, 1, "nodes that the processes run on");
DEFINE_int64(spare_nodes, 0, "nodes beside them, that take the place of lost ones (slurm)");
DEFINE_int64(processes_per_node, 1, "processes on each node; they divide the plan's ranks evenly");
DEFINE_bool(dry_run, false, "print the script or the manifest; write and start nothing");
DEFINE_string(oneflow, "",
              "the program that processes run, by a path that nodes know; default: this one");
DEFINE_int64(max_restarts, 10, "attempts after the first, in each of the engine's jobs");
DEFINE_int64(max_jobs, 1,
             "jobs to queue, each the successor of the one before, which goes on where that one "
             "could not: its time was over, its first node was lost (slurm)");
DEFINE_int64(signal_seconds, 120,
             "time to write a checkpoint in before the engine ends a job: the signal comes so "
             "long before it");
DEFINE_string(partition, "", "partition of the nodes; default: Slurm's own (slurm)");
DEFINE_string(time, "", "limit of a job's time, as sbatch takes it, e.g. 1-12:00:00 (slurm)");
DEFINE_int64(cpus_per_process, 0,
             "cores of a process; 0: all of a node's, which is the job's alone");
DEFINE_string(sbatch_option, "",
              "an option of sbatch beside these, e.g. --account=mine; may be repeated (slurm)");
DEFINE_string(image, "", "container image that holds oneflow (kubernetes)");
DEFINE_string(volume_claim, "",
              "claim of the volume of --job_dir and --data, mounted at the first folder of "
              "--job_dir (kubernetes)");
DEFINE_int64(attempt, 0, "attempt to show; 0: the newest");
DEFINE_int64(process, -1, "process to show; -1: all");
DEFINE_int64(lines, 20, "last lines of each log; 0: all");
DEFINE_bool(now, false, "end the processes at once, without a checkpoint");

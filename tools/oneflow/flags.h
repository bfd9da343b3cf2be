// The flags of all verbs. A verb lists the ones it takes; no other code reads them.
#pragma once

#include "gflags/gflags.h"

// Files.
DECLARE_string(graph);
DECLARE_string(plan);
DECLARE_string(out);
DECLARE_string(cluster);
DECLARE_string(data);
DECLARE_string(eval_data);
DECLARE_string(metrics);
DECLARE_string(checkpoint_dir);
DECLARE_string(checkpoint);
DECLARE_string(trace);
DECLARE_bool(predict);
DECLARE_string(format);

// Model.
DECLARE_string(preset);
DECLARE_int64(layers);
DECLARE_int64(heads);
DECLARE_int64(hidden);
DECLARE_int64(sequence);
DECLARE_int64(vocab);
DECLARE_bool(bias);
DECLARE_bool(tied);
DECLARE_double(dropout);
DECLARE_string(attention);
DECLARE_string(masks);

// Placement and step.
DECLARE_string(mesh);
DECLARE_int64(batch);
DECLARE_int64(micro_batches);
DECLARE_string(schedule);
DECLARE_string(order);
DECLARE_string(recompute);
DECLARE_int32(chunks);
DECLARE_int64(extra_in_flight);
DECLARE_string(stage_layers);
DECLARE_string(precision);
DECLARE_string(residual);
DECLARE_bool(fuse);
DECLARE_bool(sequence_parallel);
DECLARE_string(device);
DECLARE_bool(keep_axis_order);
DECLARE_string(overlap);
DECLARE_string(bucket_bytes);
DECLARE_string(after);
DECLARE_string(shard);
DECLARE_string(memory);

// Training.
DECLARE_int64(steps);
DECLARE_uint64(seed);
DECLARE_int32(threads);
DECLARE_string(instruction_set);
DECLARE_string(layouts_out);
DECLARE_double(learning_rate);
DECLARE_double(min_learning_rate);
DECLARE_string(lr_schedule);
DECLARE_int64(warmup_steps);
DECLARE_int64(decay_steps);
DECLARE_double(beta1);
DECLARE_double(beta2);
DECLARE_double(epsilon);
DECLARE_double(weight_decay);
DECLARE_double(clip);
DECLARE_bool(global_norm);
DECLARE_bool(fill_memory);
DECLARE_int64(sync_every);
DECLARE_int32(staleness);
DECLARE_int64(steps_a_round);
DECLARE_double(eval_fraction);
DECLARE_int64(eval_every);
DECLARE_int64(eval_batches);
DECLARE_int64(checkpoint_every);
DECLARE_string(resume);
DECLARE_int64(keep);
DECLARE_double(stall_seconds);
DECLARE_bool(synchronous);

// Processes.
DECLARE_int32(processes);
DECLARE_int32(process_index);
DECLARE_string(coordinator);
DECLARE_string(interface);
DECLARE_string(trust_network);
DECLARE_string(make_job_keys);
DECLARE_string(job_dir);

// data and generate.
DECLARE_string(text);
DECLARE_string(tokenizer);
DECLARE_string(token_format);
DECLARE_double(val_fraction);
DECLARE_bool(end_of_text);

// run and generate.
DECLARE_string(feed);
DECLARE_string(fetch);
DECLARE_bool(shards);
DECLARE_string(prompt);
DECLARE_int64(tokens);
DECLARE_double(temperature);
DECLARE_int64(top_k);
DECLARE_double(top_p);
DECLARE_string(stop);

// explain.
DECLARE_string(program);
DECLARE_bool(full);

// devices.
DECLARE_bool(logical_devices);
DECLARE_string(cuda_libs);

// calibrate.
DECLARE_double(seconds);
DECLARE_int32(devices);

#include "tools/oneflow/flags.h"

DEFINE_string(graph, "", "graph file (textproto)");
DEFINE_string(plan, "", "plan file");
DEFINE_string(out, "", "file to write; data: folder");
DEFINE_string(cluster, "",
              "cluster file (textproto); default: this machine (simulate, diff: a made-up CPU)");
DEFINE_string(
    data, "",
    "training data, FILE[,FILE...]: text (bytes), or .bin tokens of nanoGPT, llm.c or Megatron");
DEFINE_string(eval_data, "", "validation data, as --data; default: none");
DEFINE_string(metrics, "", "file of one JSON line a step; written anew, but --resume appends");
DEFINE_string(checkpoint_dir, "", "folder to write checkpoints to");
DEFINE_string(checkpoint, "",
              "checkpoint to read: a step's folder, or a folder of them (the latest is taken)");
DEFINE_string(trace, "", "file to write a Chrome/Perfetto trace to");
DEFINE_bool(predict, false,
            "write the predicted steps into --trace, too, beside the measured ones; on --cluster, "
            "or by the times of the plan's kernels on this machine");
DEFINE_string(format, "text", "text or json; explain: dot, html and memory, too");

DEFINE_string(
    preset, "",
    "numbers to begin with: gpt2-124m (these are the default), gpt2-350m, gpt2-774m, gpt2-1.5b, "
    "gpt3-175b, tiny, small");
DEFINE_int64(layers, 0, "blocks; 0: the preset's");
DEFINE_int64(heads, 0, "attention heads; 0: the preset's");
DEFINE_int64(hidden, 0, "width; 0: the preset's");
DEFINE_int64(sequence, 0, "tokens of a sequence; 0: the preset's");
DEFINE_int64(vocab, 0, "tokens of the vocabulary; 0: the preset's");
DEFINE_bool(bias, true, "biases in linear layers and layer norms");
DEFINE_bool(tied, true, "the head shares the embedding's table");

DEFINE_double(dropout, 0,
              "rate after the embeddings, on both branches and, where attention is unfused, on its "
              "probabilities; in training only");
DEFINE_string(
    attention, "fused",
    "fused: one kernel that never stores the probabilities; unfused: products, softmax and "
    "dropout as ops of their own");
DEFINE_string(masks, "recomputed",
              "of dropout: recomputed in the backward, or stored, a byte an element");

DEFINE_string(mesh, "",
              "mesh axes, e.g. pipe=2,data=2,tensor=2; default: the graph's, else one device");
DEFINE_string(device, "cpu", "what the plan's devices are: cpu or cuda");
DEFINE_int64(batch, 8, "sequences a step, all devices and micro-batches together");
DEFINE_int64(micro_batches, 1, "micro-batches a step");
DEFINE_string(schedule, "1f1b", "1f1b, gpipe, interleaved, zero_bubble, pipedream or 2bw");
DEFINE_string(order, "", "file of your own pipeline order, in the place of --schedule");
DEFINE_string(recompute, "none",
              "of each block in the backward: none, attention, selective or full; and, after a "
              "comma, gather: "
              "what the forward gathers of activations");
DEFINE_int32(chunks, 0, "slices of the model a stage; 0: 2 where the schedule interleaves, else 1");
DEFINE_string(stage_layers, "",
              "layers of each place along the pipe (stages times chunks), e.g. 2,3,3,2; default: "
              "balanced");
DEFINE_int64(extra_in_flight, 0,
             "micro-batches whose bytes a stage may hold beyond what the schedule needs");
DEFINE_string(precision, "f32",
              "of matrix products: f32, or bf16 with f32 master weights and sums");
DEFINE_string(residual, "f32",
              "of the residual stream: f32, or bf16 with --precision=bf16: half the bytes kept and "
              "sent of it, and what is added to it is rounded");
DEFINE_bool(
    fuse, true,
    "make one kernel of a product and what is done to it element by element, in the same bits");
DEFINE_bool(sequence_parallel, false,
            "let activations between blocks be split by position over tensor axes where that is no "
            "dearer");
DEFINE_string(bucket_bytes, "25MB",
              "with overlap, small exchanges that can go together are one of at most so many bytes "
              "a device, e.g. 25MB; 1: each goes by itself");
DEFINE_string(
    after, "",
    "explain what this pass of compile makes of --program, of a --graph; the name of none "
    "lists all");
DEFINE_string(shard, "none",
              "what is split over data axes beside gradients: none, states (masters and states of "
              "the optimizer; weights are gathered once a step: ZeRO 1) or weights (gathered anew "
              "for each use: ZeRO 3)");
DEFINE_string(overlap, "auto",
              "exchanges of a stage go on while it computes: true, false, or auto: unless devices "
              "are CPUs, whose cores carry both");
DEFINE_bool(
    keep_axis_order, false,
    "leave the axes of --mesh in the order they are written in, whatever the cluster's levels");
DEFINE_string(memory, "", "capacity of a device, e.g. 80GiB: refuse a plan that needs more");

DEFINE_int64(steps, 100, "steps of the whole run; simulated: 2");
DEFINE_uint64(seed, 1, "seed of weights and data order (train), of sampling (generate)");
DEFINE_int32(threads, 0, "kernel threads over all devices; 0: the machine's cores");
DEFINE_string(layouts_out, "",
              "also write the graph to this file, with the layout of everything as it was chosen: "
              "compiled again with the same flags, it lies the same, whatever it is said to cost");
DEFINE_string(instruction_set, "",
              "what kernels compute with: baseline, avx2, avx512 or avx512_bf16; empty: the most "
              "that the processor has. Between these the last bits differ");
DEFINE_double(learning_rate, 3e-4, "peak learning rate");
DEFINE_double(min_learning_rate, 0, "learning rate at the end of the decay");
DEFINE_string(lr_schedule, "constant", "constant, linear or cosine");
DEFINE_int64(warmup_steps, 0, "steps of linear warm-up");
DEFINE_int64(decay_steps, 0, "step at which the decay ends; 0: --steps");
DEFINE_double(beta1, 0.9, "AdamW");
DEFINE_double(beta2, 0.95, "AdamW");
DEFINE_double(epsilon, 1e-8, "AdamW");
DEFINE_double(weight_decay, 0.1, "AdamW, decoupled, on matrices and embeddings");
DEFINE_bool(fill_memory, false,
            "hold as many micro-batches as fit, where that shortens the bubble");
DEFINE_bool(global_norm, true, "updates wait for the norm of all gradients, to clip by it");
DEFINE_int64(sync_every, 1, "steps whose gradients add up before they are exchanged and applied");
DEFINE_int32(staleness, 0, "updates by which the weights of a step may lag behind");
DEFINE_int64(steps_a_round, 0,
             "steps between two drains of the pipe, where weights lag; 0: 8 or more");
DEFINE_double(clip, 1.0, "global norm that gradients are clipped to; 0: none");
DEFINE_double(eval_fraction, 0, "validate on the last part of --data instead, e.g. 0.1");
DEFINE_int64(eval_every, 0, "steps between validations; 0: only at the end");
DEFINE_int64(eval_batches, 8, "micro-batches of one validation");
DEFINE_int64(checkpoint_every, 0,
             "steps between checkpoints; 0: only at the end (of a run that a signal ends, too)");
DEFINE_double(stall_seconds, 60,
              "print who waits for whom when nothing has fired for so long (SIGUSR1: at once); on "
              "GPUs the run "
              "ends then, with 1; 0: never");
DEFINE_int32(
    processes, 0,
    "processes that run the plan, each as many of its devices; without --process_index this "
    "one starts the others on this host; 0: as the launcher says (srun, torchrun, ...), else "
    "one");
DEFINE_int32(process_index, -1,
             "which of --processes this one is, from 0; -1: as the launcher says");
DEFINE_string(coordinator, "",
              "HOST:PORT of process 0, where all processes meet; empty: as the launcher says");
DEFINE_string(interface, "",
              "network device on which processes exchange tensors, as `ip link` names it; empty: "
              "that of --trust_network, else loopback");
DEFINE_string(
    trust_network, "",
    "network on which processes exchange tensors, e.g. 10.1.0.0/16, neither encrypted nor "
    "authenticated; empty: that of --interface, else loopback");
DEFINE_string(make_job_keys, "",
              "make a job's keys in this folder, and do nothing else; with --job_dir=DIR "
              "processes read those of DIR/keys");
DEFINE_string(job_dir, "",
              "directory of a job, which all of its processes see: keys, status.json and "
              "outcome.json are there; empty: none");
DEFINE_string(resume, "false",
              "go on from the newest checkpoint of --checkpoint_dir that is not damaged; auto: if "
              "there is one");
DEFINE_int64(
    keep, 0,
    "checkpoints to keep, the newest: older ones go when a newer one is on the disk; 0: all");

DEFINE_string(text, "", "text to tokenise, FILE[,FILE...]; each file is a document");
DEFINE_string(
    tokenizer, "bytes",
    "bytes, gpt2:FOLDER (vocab.json, merges.txt), FILE.json (tokenizer.json) or FILE.model "
    "(sentencepiece)");
DEFINE_string(token_format, "nanogpt", "nanogpt, llmc or megatron: docs/data.md");
DEFINE_double(val_fraction, 0, "last part of the text that goes to val.bin, e.g. 0.1");
DEFINE_bool(end_of_text, false, "put the tokenizer's end-of-text token after each document");

DEFINE_string(feed, "", "NAME=FILE.npy, an input of the graph; may be repeated");
DEFINE_string(fetch, "", "NAME=FILE.npy, an output of the graph to write; may be repeated");
DEFINE_bool(shards, false, "also write each rank's local piece, FILE.rankN.npy");
DEFINE_string(prompt, "", "text to continue");
DEFINE_int64(tokens, 100, "tokens to generate");
DEFINE_double(temperature, 1.0, "sampling temperature; 0: the most likely token");
DEFINE_int64(top_k, 0, "sample from the k most likely tokens; 0: from all");
DEFINE_double(top_p, 1.0, "sample from the fewest tokens whose probabilities add up to p");
DEFINE_string(stop, "", "end before this text; may be repeated");

DEFINE_string(program, "train", "the one to print with --full, to draw or to simulate");
DEFINE_bool(full, false, "print every actor and register");

DEFINE_bool(logical_devices, false,
            "on GPUs: ranks share the GPUs there are, in turn; else rank r has GPU r");
DEFINE_bool(synchronous, false,
            "on GPUs: one launch at a time on each, so that an error is told of the actor that "
            "made it; slow");
DEFINE_string(cuda_libs, "",
              "a folder with CUDA's libraries, to be looked for there first; then where the loader "
              "looks, in a toolkit, and among the packages of the python3 on PATH");

DEFINE_double(seconds, 20, "time to spend measuring, about");
DEFINE_int32(devices, 0,
             "devices of this machine that work at once; 0: as many as it has cores for");

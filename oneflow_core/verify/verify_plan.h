// Proves a plan. The compiler runs the proof on its result, and a worker again on the plan it
// loads. A plan that passes fits its types and kernels, cannot deadlock, and never uses a byte
// twice at once.
//
//   RETURN_IF_ERROR(VerifyPlan(plan));
//
// Below it are the parts of the proof, in their order. Each requires that those before it passed
// where it says so, and has a source of its name: VerifyRates is in verify_rates.cc.
#pragma once

#include "absl/status/status.h"
#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/net/steady_state.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct VerifyOptions {
  // True if the kernels are the library's own; those of a test cannot be proved.
  bool kernels = true;
  // True if kernels must also do the work that the plan's facts count (VerifyKernels).
  bool work = false;
};

// Runs VerifyTypes, then for each program VerifyKernels, VerifyFeeds, VerifyStates, VerifyLiveness
// and VerifyMemory. Accepts messages of any content: a refusal is a Status with the location, never
// a crash.
absl::Status VerifyPlan(const proto::Plan& plan, const VerifyOptions& options = {});

// The static part of the proof: ids, rates, layouts and bytes.

// The most threads that kernels of one device may be planned for.
inline constexpr int kMaxKernelThreads = 1024;

// Checks everything that does not depend on a program: version, mesh, variables, the arenas' sums,
// persistent registers.
absl::Status VerifyPlanTypes(const proto::Plan& plan);

// Checks one program, after VerifyPlanTypes:
//  1. every register has at least one slot, holds its largest part, and is inside its arena
//     region;
//  2. every register that is read is written or persistent; only a persistent one is updated in
//     place or read before its first fill;
//  3. an edge with data stays on its stage, except into a boxing actor without peers (a transfer);
//  4. data of peers is read only by boxing actors, whose sources cover exactly what they write;
//  5. rates are consistent (VerifyRates);
//  6. every actor stands in exactly one segment of its stage, every segment in one stream's order;
//     stages exist;
//  7. a workspace is a register of its actor's stage and program, with one buffer, that nobody
//     reads (that it exists and has one writer is MakePlanNet's to check).
absl::Status VerifyProgramTypes(const PlanNet& net);

// Runs both checks on all programs: a plan that passes is well-formed. Everything that its ids,
// axes and stages name exists, and its rates and sizes are those of something that can run.
absl::Status VerifyTypes(const proto::Plan& plan);

// Checks that the rates of a program balance: a step must bring every register back to its initial
// marking.
//
// 1. Slots, firings a fill and firings a read are at least 1; fills that wait at the start find
//    slots.
// 2. In one step the writer makes an integer number of fills, and every reader reads as many.
// A program that breaks one of them is inconsistent: it deadlocks sooner or later in any order, or
// never returns to its initial marking. Requires registers and actors whose ids fit (MakePlanNet).
absl::Status VerifyRates(const PlanNet& net);

// Proves that every actor suits its kernel. Kernels trust their arguments, so a plan that was
// edited by hand must be refused here.
//
// Checks one program, after VerifyProgramTypes. For each actor, against the definition of its kind
// (op registry; a separate table for the host's kernels):
//  1. the kind is known; the numbers of inputs and outputs and the attributes are its own;
//  2. shapes and types of the outputs follow from those of the inputs (`adamw` finds w, m and v in
//     its outputs, which are updated in place);
//  3. on each mesh axis a row of its table fits the layout: S if split, B or P if not;
//  4. it says `boxing` exactly if it is one, and names axes that exist;
//  5. a report fires once a step;
//  6. a sum over devices is of what its table lets be parts of a sum, a maximum likewise;
//  7. the slots it touches have the bytes of their largest part, rounded up to 64, and the
//     workspace is enough for plan.kernel_threads, on a HOST_COMPUTE stream of a CPU's kernel.
// An actor without a kernel touches control registers only.
//
// `work`: kernels also do the work that the facts of the plan count. This tells a kind that was
// written in the place of another of equal tensors (sum_squares for sum_in_order, which reads
// f64[n], too). It is no part of the proof, which does not read facts: kernels are safe to run
// whatever they compute.
absl::Status VerifyKernels(const PlanNet& net, bool work = false);

// Checks that a program reads as much data as it states. The number and the size of its
// micro-batches also follow from Plan.train, and from the shapes and firings of the actors that
// bring data in.
//
// 1. "train" has Plan.train's micro-batches, which make up its batch; "eval" one of that size, and
//    "run" the whole batch. All others have one micro-batch. (Without Plan.train this is not
//    checked.)
// 2. Actors that bring data in (`load_tokens`, `feed`) fire once a micro-batch; `report` once a
//    step, and so does `load_counts`, of sequences as long as those that are loaded.
// 3. Tokens have as many rows as a micro-batch has sequences, and so has each dimension of a feed
//    that the logical graph leaves to the batch.
// 4. All tokens of a program come in one order: labels beside their tokens, and positions
//    (attribute `mirrored`).
// Requires kernels that suit their actors (VerifyKernels).
absl::Status VerifyFeeds(const PlanNet& net);

// Checks that checkpoints hold what a plan trains: a plan that saves too little, or too much, would
// train until its first checkpoint, and lose the steps.

// Checks that a plan with a program "train" and one of "init", "save" and "load" has all of them;
// that a variable that is `frozen` is `read_only`, and that the graph has a base to read it from.
absl::Status VerifyStatePrograms(const proto::Plan& plan);

// 1. "save" saves each variable that is not `frozen` once, and no other, from one of its registers;
//    of replicas, the first alone along each axis that does not split it.
// 2. "init" and "load" fill every slot of every register of every variable.
// 3. No other program writes a variable that is `read_only`.
// Requires kernels that suit their actors (VerifyKernels).
absl::Status VerifyStates(const PlanNet& net);

// Proves that a program cannot deadlock: plays a token game over one step, in which one device
// stands for each stage. A plan is a synchronous dataflow net with fixed stream orders, so the
// order of firing changes neither values nor liveness. One step from the initial marking back to it
// proves all steps and all timings. This game shares no code with the runtime's actors: it is their
// check.
//
// FAILED_PRECONDITION if the program deadlocks; the message is the shortest cycle, as sentences: "F
// of stage 1 waits for a free slot of h, held by B of stage 1, which waits for ...". Requires
// VerifyProgramTypes: if rates balance, a step that ends has come back to its marking.
absl::Status VerifyLiveness(const PlanNet& net, Play play = Play::kSkipCycles);

// Proves that no byte has two owners at once: happens-before over the program's net unrolled over
// two steps, so that the wrap-around from one step to the next is covered.
//
// FAILED_PRECONDITION if a register is written while another that overlaps it in the arena may
// still be read, written or waited for; the message names the pair. Requires VerifyProgramTypes and
// VerifyLiveness.
absl::Status VerifyMemory(const PlanNet& net, Play play = Play::kSkipCycles);

}  // namespace oneflow

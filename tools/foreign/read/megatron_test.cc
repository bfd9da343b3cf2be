// Megatron-LM's scripts and words, in small: defaults, splits, recompute, sharding, and each rule
// that its own check has.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "catch2/catch.hpp"
#include "tools/foreign/read/read_for_test.h"

namespace oneflow::foreign {
namespace {

constexpr char kModel[] =
    "--num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 "
    "--max-position-embeddings 1024 --micro-batch-size 1 --global-batch-size 64 "
    "--tokenizer-type NullTokenizer --vocab-size 1000 --bf16 --lr 3e-4 --train-iters 100 ";

// Facts of 16 GPUs with the model's words and more.
absl::StatusOr<Facts> ReadWords(const std::string& more, const std::string& model = kModel) {
  ForeignInput input;
  input.words = absl::StrSplit(
      absl::StrCat("torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py ", model, more), ' ',
      absl::SkipEmpty());
  return ReadForeign(input);
}

Facts Well(const std::string& more, const std::string& model = kModel) {
  absl::StatusOr<Facts> facts = ReadWords(more, model);
  if (!facts.ok()) return {.system = std::string(facts.status().message())};
  return *std::move(facts);
}

std::string Stages(const Facts& facts) {
  return absl::StrCat(facts.schedule.name, " ", absl::StrJoin(facts.schedule.stage_layers, " "));
}

std::string Recompute(const std::string& more) {
  const Facts facts = Well(more);
  return absl::StrCat(facts.recompute.what, " | ", facts.recompute.blocks, " | ",
                      facts.recompute.here);
}

// Rules of a command that is broken, a line each; "" of one that is not.
std::string Rules(const std::string& more, const std::string& model = kModel) {
  std::vector<std::string> rules;
  for (const BrokenRule& rule : Well(more, model).broken) rules.push_back(rule.rule);
  return absl::StrJoin(rules, "\n");
}

TEST_CASE("a script of arrays and conditions") {
  const Facts facts =
      ReadWell({{"run.sh",
                 "#!/bin/bash\nset -e\nN=${N:-2}; G=8\nPRECISION=${PRECISION:-fp8}\n"
                 "GBS=$(( N * G * 4 ))\n"
                 "D=(--nnodes $N --nproc_per_node $G --node_rank ${RANK:-0})\n"
                 "M=(\n  --num-layers 8 # all\n  --hidden-size 512\n"
                 "  --num-attention-heads 8\n  --seq-length 1024\n"
                 "  --max-position-embeddings 1024\n"
                 "  # --context-parallel-size 2\n  \"--tensor-model-parallel-size 2\"\n)\n"
                 "O=(--micro-batch-size 2 --global-batch-size $GBS --bf16)\n"
                 "if [[ $PRECISION == fp8 ]]; then O+=(\"--fp8-format hybrid\"); fi\n"
                 "torchrun ${D[@]} pretrain_gpt.py ${M[@]} ${O[@]} \\\n"
                 "  --tokenizer-type GPT2BPETokenizer --save out --save-interval 5\n"}});
  CHECK(facts.system == "megatron-lm");
  CHECK(facts.devices == 16);
  CHECK(ShapeText(facts) == "2 x 1 x 1 x 8, 64 = 2 x 4");
  CHECK(facts.model.vocab_given == 50257);
  CHECK(facts.model.model->vocab() == 50432);  // a multiple of 128 x 2
  CHECK(FindList(facts, "--fp8-format") == "has no equivalent");
  CHECK(FindList(facts, "--save") == "has no effect on a plan");
  CHECK(FindList(facts, "--context-parallel-size") == "lost");
  CHECK(NamesIn(facts, List::kUnknown).empty());
  CHECK(BrokenText(facts).empty());
}

TEST_CASE("defaults of Megatron-LM") {
  const Facts facts = Well("");
  CHECK(ShapeText(facts) == "1 x 1 x 1 x 16, 64 = 1 x 4");
  CHECK(facts.dropout_hidden == 0.1);
  CHECK(facts.dropout_attention == 0.1);
  CHECK(facts.optimizer.beta2 == 0.999);
  CHECK(facts.optimizer.weight_decay == 0.01);
  CHECK(facts.optimizer.schedule == "linear");
  CHECK(facts.model.model->family() == "gpt");
  // An MLP of 4 x hidden, biases and tied tables: 8 blocks, 1024 rows and as many positions.
  CHECK(facts.model.parameters == 8 * (12 * 512 * 512 + 13 * 512) + 2 * 1024 * 512 + 2 * 512);
  CHECK(facts.model.model->tied());
  CHECK(facts.model.model->vocab() == 1024);
  CHECK(facts.sharding.what == "none");
  const Facts gated = Well(
      "--swiglu --position-embedding-type rope --normalization RMSNorm "
      "--disable-bias-linear --untie-embeddings-and-output-weights "
      "--group-query-attention --num-query-groups 2");
  CHECK(gated.model.model->inner() == 1344);  // 8/3 of 512, down to a multiple of 64
  CHECK(gated.model.model->groups() == 2);
  // Without the switch the number of groups does not count.
  const Facts without = Well(
      "--num-query-groups 2 --swiglu --position-embedding-type rope "
      "--normalization RMSNorm --disable-bias-linear");
  CHECK(without.model.model->groups() == 8);
}

TEST_CASE("samples and fractions become steps") {
  const std::string model =
      std::string(kModel).replace(std::string(kModel).find("--train-iters"), 17, "");
  const Facts samples = Well(
      "--train-samples 64000 --lr-decay-samples 32000 "
      "--lr-warmup-samples 640",
      model);
  CHECK(samples.optimizer.steps == 1000);
  CHECK(samples.optimizer.decay_steps == 500);
  CHECK(samples.optimizer.warmup_steps == 10);
  const Facts share = Well("--lr-decay-iters 50 --lr-warmup-fraction .1 --lr-decay-style cosine");
  CHECK(share.optimizer.warmup_steps == 5);
  CHECK(share.optimizer.decay_steps == 50);
}

TEST_CASE("stages: even, uneven in four ways, and virtual") {
  const std::string pipe = "--pipeline-model-parallel-size 4 ";
  CHECK(Stages(Well(pipe)) == "1f1b 2 2 2 2");
  CHECK(Stages(Well(pipe + "--decoder-first-pipeline-num-layers 1 "
                           "--decoder-last-pipeline-num-layers 3")) == "1f1b 1 2 2 3");
  const std::string ten = absl::StrCat(std::string(kModel), "--num-layers 6 ");
  CHECK(Stages(Well(pipe + "--account-for-embedding-in-pipeline-split "
                           "--account-for-loss-in-pipeline-split",
                    ten)) == "1f1b 1 2 2 1");
  CHECK(Stages(Well(pipe + "--pipeline-model-parallel-layout Ett|(tt|)*2ttL")) == "1f1b 2 2 2 2");
  CHECK(Stages(Well(pipe + "--pipeline-model-parallel-layout Et*3|t*2|t*2|tL")) == "1f1b 3 2 2 1");
  CHECK(Stages(Well(pipe + "--num-layers-per-virtual-pipeline-stage 1")) ==
        "interleaved 1 1 1 1 1 1 1 1");
  CHECK(Stages(Well(pipe + "--num-virtual-stages-per-pipeline-rank 2")) ==
        "interleaved 1 1 1 1 1 1 1 1");
  // Embedding and loss count where layers of a virtual stage are given, too.
  CHECK(Stages(Well(pipe + "--num-layers-per-virtual-pipeline-stage 1 "
                           "--account-for-embedding-in-pipeline-split "
                           "--account-for-loss-in-pipeline-split",
                    ten)) == "interleaved 0 1 1 1 1 1 1 0");
}

TEST_CASE("recompute") {
  CHECK(Recompute("") == "none |  | none");
  CHECK(Recompute("--recompute-activations") == "core of attention | all | attention");
  CHECK(Recompute("--recompute-granularity selective --recompute-modules mlp") ==
        "mlp | all | full");
  CHECK(Recompute("--recompute-granularity full --recompute-method uniform "
                  "--recompute-num-layers 1") == "block | all | full");
  CHECK(Recompute("--pipeline-model-parallel-size 2 --recompute-granularity full "
                  "--recompute-method block --recompute-num-layers 3") ==
        "block | the first 3 of each of 2 stages of 4 | full:3");
}

TEST_CASE("sharding") {
  CHECK(ShardText(Well("--use-distributed-optimizer --context-parallel-size 2")) ==
        "states in 16 x 1, once a step, once a step");
  CHECK(ShardText(Well("--use-distributed-optimizer --num-distributed-optimizer-instances 2")) ==
        "states in 8 x 2, once a step, once a step");
  CHECK(ShardText(Well("--use-megatron-fsdp --data-parallel-sharding-strategy "
                       "optim_grads_params")) == "weights in 16 x 1, each use, each micro-batch");
  CHECK(ShardText(Well("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads")) ==
        "gradients in 16 x 1, once a step, each micro-batch");
}

TEST_CASE("experts, dense layers and latent attention") {
  const std::string moe =
      "--num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 256 --swiglu "
      "--position-embedding-type rope --normalization RMSNorm --disable-bias-linear "
      "--untie-embeddings-and-output-weights --attention-dropout 0 --hidden-dropout 0 ";
  const Facts facts = Well(moe +
                           "--expert-model-parallel-size 4 --moe-layer-freq [0]*1+[1]*7 "
                           "--moe-shared-expert-intermediate-size 256 "
                           "--moe-router-load-balancing-type aux_loss seq_aux_loss "
                           "--moe-aux-loss-coeff 1e-3 2e-3");
  REQUIRE(facts.model.model);
  CHECK(facts.degrees.expert == 4);
  CHECK(facts.model.model->experts() == 8);
  CHECK(facts.model.differences.empty());
  CHECK(facts.model.model->blocks().run_size() == 2);  // a dense block, then mixtures
  CHECK(facts.model.model->aux_loss_coeff() == Approx(3e-3));
  const Facts latent = Well(moe +
                            "--multi-latent-attention --q-lora-rank 128 --kv-lora-rank 64 "
                            "--qk-head-dim 32 --qk-pos-emb-head-dim 16 --v-head-dim 32");
  REQUIRE(latent.model.parameters > 0);
  CHECK(FindList(latent, "--kv-lora-rank") == "taken");
}

TEST_CASE("rules of steps, positions and batches") {
  CHECK(Rules("").empty());
  CHECK(Rules("--train-samples 6400") == "--train-iters and --train-samples exclude each other");
  CHECK(Rules("--lr-warmup-fraction .1 --lr-warmup-iters 5") ==
        "--lr-warmup-fraction and --lr-warmup-iters exclude each other");
  CHECK(Rules("--min-lr 1") == "min-lr must not be above lr");
  CHECK(Rules("--max-position-embeddings 512") == "positions must be as many as the sequence has");
  CHECK(Rules("--save out") == "checkpoints need an interval");
  CHECK(Rules("--mock-data --data-path x") == "--mock-data and --data-path exclude each other");
  CHECK(Rules("--encoder-num-layers 8") ==
        "--num-layers and --encoder-num-layers exclude each other");
  CHECK(Rules("--encoder-seq-length 1024") ==
        "--seq-length and --encoder-seq-length exclude each other");
  CHECK(Rules("--weight-decay-incr-style linear") == "a weight decay that grows has two ends");
  CHECK(Rules("--fp16") == "--fp16 and --bf16 exclude each other");
  CHECK(Rules("--context-parallel-size 3 --global-batch-size 50") != "");
  const std::string model =
      "--num-layers 8 --hidden-size 512 --num-attention-heads 8 "
      "--seq-length 1024 --vocab-size 1000 ";
  CHECK(Rules("", model) ==
        "--max-position-embeddings must be given\n"
        "--micro-batch-size must be given");
}

TEST_CASE("rules of degrees and the pipeline") {
  CHECK(Rules("--tensor-model-parallel-size 16") == "heads must be a multiple of tensor");
  CHECK(Rules("--pipeline-model-parallel-size 3 --num-layers 9")
            .find("GPUs must be a multiple of tensor x pipe x context") != std::string::npos);
  CHECK(Rules("--pipeline-model-parallel-size 8 --num-layers 12") ==
        "layers must be a multiple of pipe x virtual stages");
  CHECK(Rules("--num-virtual-stages-per-pipeline-rank 2") ==
        "virtual stages need pipe of 2 or more");
  CHECK(Rules("--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 1 "
              "--num-virtual-stages-per-pipeline-rank 2") ==
        "--num-layers-per-virtual-pipeline-stage and --num-virtual-stages-per-pipeline-rank "
        "exclude each other");
  CHECK(Rules("--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 "
              "--global-batch-size 24") == "interleaving needs micro-batches in multiples of pipe");
  CHECK(Rules("--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout Ett|tt|tL")
            .find("the layout's stages must be a multiple of pipe") != std::string::npos);
  CHECK(Rules("--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout Ett|tt|tt|tL") ==
        "the layout must have all layers");
}

TEST_CASE("rules of experts") {
  const std::string moe = "--num-experts 8 ";
  CHECK(Rules("--expert-model-parallel-size 2") == "experts are split only where there are some");
  CHECK(Rules("--moe-ffn-hidden-size 64") == "a width of experts needs experts");
  CHECK(Rules(moe + "--expert-model-parallel-size 16") ==
        "experts must be a multiple of their degree");
  CHECK(Rules(moe + "--tensor-model-parallel-size 2") ==
        "a mixture with tensor parallelism needs sequence parallelism");
  CHECK(Rules(moe + "--moe-router-topk 1") ==
        "one expert a token needs its softmax before the choice");
  CHECK(Rules(moe + "--moe-router-enable-expert-bias") ==
        "biases of experts need scores of sigmoid");
  CHECK(Rules(moe + "--moe-pad-expert-input-to-capacity") == "there is a capacity to pad to");
}

TEST_CASE("rules of recompute, offload and sharding") {
  CHECK(Rules("--recompute-granularity selective --recompute-method uniform") ==
        "selective recompute has no method");
  CHECK(Rules("--recompute-granularity selective --recompute-num-layers 1") ==
        "selective recompute has no number of layers");
  CHECK(Rules("--recompute-granularity full --recompute-method uniform") ==
        "full recompute needs a number of layers");
  CHECK(Rules("--recompute-granularity full") == "recompute of granularity full needs a method");
  CHECK(Rules("--recompute-granularity selective --recompute-modules mla_up_proj") ==
        "mla_up_proj is a part of latent attention");
  CHECK(Rules("--optimizer-cpu-offload") == "an optimizer on the host must know its precision");
  CHECK(Rules("--use-precision-aware-optimizer") == "states of other precision must be split");
  CHECK(Rules("--cpu-offloading-num-layers 2 --pipeline-model-parallel-size 2") ==
        "activations go to the host without a pipeline");
  CHECK(Rules("--cpu-offloading-num-layers 2 --recompute-activations") ==
        "activations go to the host or are recomputed");
  CHECK(Rules("--distribute-saved-activations") == "what is kept is split over tensor");
  CHECK(Rules("--overlap-param-gather --overlap-grad-reduce") ==
        "gathers overlap only where states are split");
  CHECK(Rules("--overlap-param-gather --use-distributed-optimizer") ==
        "gathers overlap only beside reductions");
  CHECK(Rules("--tensor-model-parallel-size 2 --tp-comm-overlap") ==
        "tensor exchanges overlap only with sequence parallelism");
  CHECK(Rules("--use-megatron-fsdp --ckpt-format torch_dist") ==
        "Megatron-FSDP has a checkpoint format of its own");
  CHECK(Rules("--ckpt-format fsdp_dtensor") == "the checkpoint format is that of Megatron-FSDP");
  CHECK(Rules("--use-torch-fsdp2 --untie-embeddings-and-output-weights") ==
        "FSDP of PyTorch adds up gradients itself");
  CHECK(Rules("--fp8-param-gather --use-distributed-optimizer") ==
        "weights in FP8 need products in FP8");
}

TEST_CASE("words that argparse refuses") {
  CHECK(Rules("--sequence-parallel true") == "a switch takes no value");
  CHECK(Rules("--train-iters 1e3") == "a whole number has neither a point nor an exponent");
  const Facts choice = Well("--lr-decay-style cosin");
  CHECK(BrokenText(choice) == "a flag takes one of its choices: --lr-decay-style cosin\n");
  CHECK(choice.broken.front().hint == "--lr-decay-style cosine");
  const Facts typo = Well("--pipline-model-parallel-size 4");
  CHECK(BrokenText(typo) == "no unknown flag: --pipline-model-parallel-size\n");
  CHECK(typo.broken.front().hint == "--pipeline-model-parallel-size 4");
  CHECK(typo.undecided == std::vector<std::string>{"pipe"});
  CHECK(typo.degrees.data == std::nullopt);
  CHECK(typo.batch.micro_batches == std::nullopt);
  const Facts underscores = Well("--tensor_model_parallel_size 2");
  CHECK(BrokenText(underscores) == "no unknown flag: --tensor_model_parallel_size\n");
  CHECK(underscores.undecided == std::vector<std::string>{"tensor"});
  CHECK(Rules("--model-parallel-size 2") == "the flag is no longer valid");
  CHECK_FALSE(ReadWords("--num-layers eight").ok());
}

TEST_CASE("Megatron-DeepSpeed: its flags, and the JSON that the script writes") {
  const Facts facts = ReadWell(
      {{"run.sh",
        "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gres=gpu:8\n"
        "cat <<EOT > ds.$SLURM_JOBID.json\n{\"zero_optimization\": {\"stage\": 1},\n"
        " \"bf16\": {\"enabled\": true}, \"steps_per_print\": 2000}\nEOT\n"
        "HEAD=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)\n"
        "LAUNCHER=\"python -u -m torch.distributed.run --nproc_per_node 8 --nnodes $SLURM_NNODES "
        "--rdzv_endpoint $HEAD:6000 --rdzv_backend c10d --tee 3\"\n"
        "CMD=\"`pwd`/pretrain_gpt.py --pipeline-model-parallel-size 4 --num-layers 6 "
        "--pp-partition-method 'type:transformer|embedding' --hidden-size 512 "
        "--num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 "
        "--micro-batch-size 1 --global-batch-size 64 --train-samples 6_400 --bf16 "
        "--pad-vocab-size-to 1024 --checkpoint-activations --deepspeed "
        "--deepspeed_config ds.$SLURM_JOBID.json --zero-stage 0 "
        "--deepspeed-activation-checkpointing\"\n"
        "srun --jobid $SLURM_JOBID bash -c \"$LAUNCHER --node_rank \\$SLURM_PROCID $CMD\"\n"}});
  CHECK(facts.devices == 16);
  CHECK(ShapeText(facts) == "1 x 4 x 1 x 4, 64 = 1 x 16");
  CHECK(Stages(facts) == "1f1b 1 2 2 1");
  CHECK(facts.sharding.what == "states");
  CHECK(facts.recompute.what == "block");
  CHECK(facts.model.model->vocab() == 1024);
  CHECK(facts.optimizer.steps == 100);
  CHECK(facts.sharding.ways == 4);
  const std::string taken = NamesIn(facts, List::kTaken);
  for (const char* name : {"ds_config:zero_optimization.stage", "ds_config:bf16.enabled",
                           "--zero-stage", "--deepspeed", "--deepspeed_config"}) {
    INFO(name);
    CHECK(taken.find(name) != std::string::npos);
  }
  CHECK(NamesIn(facts, List::kUnknown).empty());
  CHECK(BrokenText(facts).empty());
}

TEST_CASE("a script that sources, calls and submits others") {
  const std::string model = absl::StrCat("MODEL=\"", kModel, "\"\n");
  const Facts facts = ReadWell(
      {{"submit.sh", "export TP=2\nUNSEEN=1\nsbatch --nodes=4 job.sbatch 4\n"},
       {"job.sbatch",
        "#SBATCH --gpus-per-node=8\nsource \"$(dirname \"$0\")/model.sh\"\n"
        "train() {\n  srun python pretrain_gpt.py $MODEL --tensor-model-parallel-size $TP "
        "\"$@\"\n}\n"
        "for F in --sequence-parallel --use-distributed-optimizer; do MORE=\"$MORE $F\"; done\n"
        "train --pipeline-model-parallel-size $1 $MORE\n"},
       {"model.sh", model}});
  CHECK(facts.devices == 32);
  CHECK(ShapeText(facts) == "2 x 4 x 1 x 4, 64 = 1 x 16");
  CHECK(facts.sequence_parallel);
  CHECK(facts.sharding.what == "states");
  CHECK(BrokenText(facts).empty());
  const Facts here = ReadWell(
      {{"run.sh", absl::StrCat("TP=2\nsbatch <<EOF\n#!/bin/bash\n#SBATCH -N 2\n"
                               "#SBATCH --ntasks-per-node=8\nsrun -l bash -x -c \"cd x; python "
                               "pretrain_gpt.py ",
                               kModel,
                               "--tensor-model-parallel-size $TP\" "
                               "2>&1 | tee \\${SLURM_JOB_ID}.log\nEOF\n")}});
  CHECK(here.devices == 16);
  CHECK(ShapeText(here) == "2 x 1 x 1 x 8, 64 = 1 x 8");
}

TEST_CASE("the YAML of Megatron-LM alone") {
  ForeignInput input;
  input.devices = 8;
  const Facts facts = ReadFirst({{"gpt.yaml",
                                  "language_model:\n  num_layers: 4\n  hidden_size: 256\n"
                                  "  num_attention_heads: 4\n  num_query_groups: null\n"
                                  "model_parallel:\n  tensor_model_parallel_size: 2\n  bf16: True\n"
                                  "micro_batch_size: 2\nglobal_batch_size: 16\nseq_length: 512\n"
                                  "max_position_embeddings: 512\nvocab_file: a\n"
                                  "tokenizer_type: GPT2BPETokenizer\nlr_decay_iters: 10\n"}},
                                input)
                          .value_or(Facts());
  CHECK(facts.system == "megatron-lm");
  CHECK(ShapeText(facts) == "2 x 1 x 1 x 4, 16 = 2 x 2");
}

TEST_CASE("texts that are none end with an error") {
  for (const std::string& text :
       {std::string(), std::string("\0\x01\xff\xfe", 4), std::string("\xef\xbb\xbf#!/bin/bash\r\n"),
        std::string("torchrun"), std::string("torchrun pretrain_gpt.py --num-layers\n"),
        std::string("f() { f; f; }\nf\n"), std::string("source run.sh\n")}) {
    const absl::StatusOr<Facts> facts = ReadFirst({{"run.sh", text}});
    CHECK_FALSE((facts.ok() && facts->questions.empty()));
  }
}

}  // namespace
}  // namespace oneflow::foreign

"""Trains a tiny model by the CSV of a pipeline order, with PyTorch's own _PipelineScheduleRuntime: a process a rank on gloo.

  python tools/emit_checks/train_by_csv.py order.csv

Prints the losses of three steps, which one process that knows no pipeline must give, too, and what PyTorch says of the order.
It runs in an environment that has torch (tools/check_emit makes one).
"""
import csv
import json
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime, _simulate_comms_compute

WIDTH, MICRO_BATCH, STEPS, RATE = 8, 2, 3, 0.5
# Gradients are summed in another order than in one process.
TOLERANCE = 1e-12


def read_shape(path):
    """(ranks, stages along the pipe, micro-batches), from the names of the actions alone."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = [[cell for cell in row if cell] for row in csv.reader(file)]
    cells = [cell for row in rows for cell in row]
    stages = 1 + max(int("".join(c for c in cell[:cell.find(next(filter(str.isalpha, cell)))])) for cell in cells)
    return len(rows), stages, sum("F" in cell for cell in cells) // stages


class Stage(PipelineStage):
    def _get_init_p2p_neighbors_ops(self):
        """None: they open NCCL's communicators, and gloo refuses that they send eight bytes where four are received."""
        return []


def make_slice(stage):
    """Every process draws the same weights: a slice is two products and a nonlinear function."""
    torch.manual_seed(stage)
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.Tanh(), torch.nn.Linear(2 * WIDTH, WIDTH)).double()


def make_batch(micro_batches):
    torch.manual_seed(1000)
    return [torch.randn(micro_batches * MICRO_BATCH, WIDTH, dtype=torch.float64) for _ in range(2)]


def mean_loss(output, target):
    return torch.nn.functional.mse_loss(output, target)


def train_alone(stages, micro_batches):
    model = torch.nn.Sequential(*map(make_slice, range(stages)))
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    losses = []
    for _ in range(STEPS):
        data, target = make_batch(micro_batches)
        loss = mean_loss(model(data), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def run_rank(rank, path, folder):
    """Trains the stages of a rank; the rank of the last stage writes the losses, rank 0 what PyTorch makes of the order."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    ranks, stages, micro_batches = read_shape(path)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    parts = {stage: make_slice(stage) for stage in range(rank, stages, ranks)}
    # A split backward does not scale gradients, so the loss is a micro-batch's share of the batch's.
    schedule = _PipelineScheduleRuntime([Stage(part, stage, stages, torch.device("cpu")) for stage, part in parts.items()],
                                        micro_batches, loss_fn=lambda output, target: mean_loss(output, target) / micro_batches,
                                        scale_grads=False)
    schedule._load_csv(path)  # pylint: disable=protected-access
    lowered = schedule.pipeline_order_with_comms
    optimizer = torch.optim.SGD([p for part in parts.values() for p in part.parameters()], lr=RATE)
    losses = []
    for _ in range(STEPS):
        data, target = make_batch(micro_batches)
        of_step = []
        optimizer.zero_grad()
        schedule.step(*([data] if rank == 0 else []), target=target if stages - 1 in parts else None, losses=of_step)
        optimizer.step()
        losses.append(sum(float(loss) for loss in of_step))
    if stages - 1 in parts:
        with open(f"{folder}/losses.json", "w", encoding="utf-8") as file:
            json.dump(losses, file)
    if rank == 0:
        # PyTorch's own game of sends and receives knows no exchange of weights and of their gradients.
        order = {r: [action for action in row if "SHARD" not in str(action) and "REDUCE" not in str(action)] for r, row in lowered.items()}
        _simulate_comms_compute(order, lambda stage: stage % ranks, stages)
        with open(f"{folder}/facts.json", "w", encoding="utf-8") as file:
            json.dump({"transfers": sum("SEND" in str(action) for row in lowered.values() for action in row)}, file)
    dist.barrier()
    dist.destroy_process_group()


def check(path):
    """One line of what happened; AssertionError if the losses differ."""
    ranks, stages, micro_batches = read_shape(path)
    with tempfile.TemporaryDirectory() as folder:
        # Nothing has been computed yet, so ranks may be forks: each import of torch takes seconds.
        multiprocessing.start_processes(run_rank, (path, folder), nprocs=ranks, start_method="fork")
        with open(f"{folder}/losses.json", encoding="utf-8") as file:
            losses = json.load(file)
        with open(f"{folder}/facts.json", encoding="utf-8") as file:
            facts = json.load(file)
    alone = train_alone(stages, micro_batches)
    assert len(losses) == STEPS and max(abs(a - b) for a, b in zip(losses, alone)) < TOLERANCE, (losses, alone)
    assert losses[0] > losses[1] > losses[2], losses
    return (f"{ranks} ranks, {stages} stages, {micro_batches} micro-batches: read and simulated ({facts['transfers']} transfers), {STEPS} steps "
            f"by gloo with the losses of one process: {', '.join(f'{loss:.9f}' for loss in losses)}")


def main():
    print(check(os.path.abspath(sys.argv[1])))


if __name__ == "__main__":
    main()

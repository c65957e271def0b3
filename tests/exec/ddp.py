# SPDX-License-Identifier: Apache-2.0
"""A torch DDP script as people write them: it knows nothing of muster. Fits y = 3x - 1 and prints what came out."""

import datetime
import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo", init_method="env://", timeout=datetime.timedelta(seconds=60))
rank, world = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(rank)  # DDP hands rank 0's weights to all
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
generator = torch.Generator().manual_seed(1000 + rank)
print(f"rank {rank} begins", flush=True)
for _ in range(int(os.environ.get("STEPS", "200"))):
    x = torch.rand(16, 1, generator=generator) * 2 - 1
    loss = torch.nn.functional.mse_loss(model(x), 3 * x - 1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
weights = torch.cat([p.detach().flatten() for p in model.parameters()])
gathered = [torch.empty_like(weights) for _ in range(world)]
dist.all_gather(gathered, weights)
assert all(torch.equal(one, weights) for one in gathered), "the replicas differ"
print(f"rank {rank} of {world}: y = {weights[0]:.2f} x + {weights[1]:.2f}", flush=True)
dist.destroy_process_group()

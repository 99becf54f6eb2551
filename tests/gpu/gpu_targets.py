"""What the GPU tests ask a worker to do."""

from pathlib import Path

from warplab.gpu import executor
from warplab.hardware.device import architecture_of, present
from warplab.plan.archive import load


def execute(plan, inputs, runs=1):
    execution = executor.execute(load(Path(plan)), inputs, architecture_of(present()), runs)[-1]
    return {"outputs": execution.outputs, "findings": [f.kind.value for f in execution.findings]}


def same_work_twice():
    from warplab.gpu import calibrate
    from warplab.gpu.stopwatch import time_in_turns

    with executor.on_stream() as stream:
        pair = {name: calibrate.Copy(stream) for name in ("first", "second")}
        result = time_in_turns(pair, stream, budget_seconds=2.0, precision=0.002)
        ratio = result.ratio("first", "second")
        return {"ratio": ratio.value, "copy": pair["first"].work / result.time("first").value * 1e3}


class Counted:
    """A candidate without work that counts its launches since the last check."""

    launches = 1

    def __init__(self):
        self.since, self.seen = 0, set()

    def prepare(self, turn):
        pass

    def launch(self):
        self.since += 1

    def check(self, turn):
        self.seen.add(self.since)
        self.since = 0


def launches_a_turn(warm):
    from warplab.gpu.stopwatch import time_in_turns

    with executor.on_stream() as stream:
        candidate = Counted()
        time_in_turns({"counted": candidate}, stream, budget_seconds=0.1, warm=warm)
        return sorted(candidate.seen)


def what_a_plan_leaves(plan, inputs):
    """How many bytes of a plan's buffers are not zero after a run, and after they were given back."""
    loaded_plan = load(Path(plan))
    with executor.on_stream() as stream:
        loaded = executor.LoadedPlan(loaded_plan, architecture_of(present()), stream)
        arenas = [buffer.arena for buffer in loaded.buffers.values()]  # keeps the memory from being given to others
        loaded.reset(inputs)
        loaded.launch()
        loaded.synchronize()
        before = sum(int((arena != 0).sum()) for arena in arenas)
        loaded.erase()
        return {"before": before, "after": sum(int((arena != 0).sum()) for arena in arenas)}

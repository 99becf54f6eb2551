"""The experts that tokens choose, and the rows in the order of their experts: lab 10's kernel."""

from __future__ import annotations

from typing import Any, NamedTuple

from systems.kernels.arrays import Described, library_of
from systems.kernels.calls import check, check_dimensions, queue
from systems.kernels.chips import chip_of
from systems.kernels.errors import KernelError
from systems.kernels.recipes import Code, Recipe
from warplab.plan.model import Argument, Launch, Pointer, Value

CHOICES = (1, 2, 4, 8)  # experts of a token
MOST_EXPERTS = 512
MOST_COUNTS = 40 * 256  # of a block's warps by expert, in static shared memory
CLUSTER = 8  # blocks that may wait for each other without a cooperative launch
ENOUGH = {1: 16, CLUSTER: 256, 32: 2304}  # by number of blocks: the most tokens for which it suffices
WORK = 23_000  # scores read per block, from which another block pays, however few the tokens are


class Shuffled(NamedTuple):
    """Arrays of int32. A row is one choice of one token: choice c of token t has the number t k + c.

    chosen: tokens x k, the experts of each token, the best first. count and first: of each expert, how many rows it has
    and where in `order` they begin. order: numbers of the rows, sorted by expert, those of one expert in their order.
    position: tokens x k, where in `order` each row stands.
    """

    chosen: Any
    count: Any
    first: Any
    order: Any
    position: Any


def shuffle(scores: Any, k: int) -> Shuffled:
    """The k best experts of every token, and the rows sorted by expert, in one launch: for mixtures of experts.

    scores is tokens x experts in float32, C order, an array of CuPy or PyTorch on a Hopper GPU; k is 1, 2, 4 or 8, and
    there are at most 512 experts. Among equal scores the lower expert comes first, and NaN counts as minus
    infinity. Results are new arrays, queued on the library's current stream; they are the same in every run.

    Raises KernelError for other shapes, dtypes and numbers, and for compute capabilities other than 9.0.
    """
    library = library_of("scores", scores)
    check_dimensions("shuffle", "scores", scores, 2)
    tokens, experts = map(int, scores.shape)
    shapes = ((tokens, k), (experts,), (experts,), (tokens * k,), (tokens, k))
    if k not in CHOICES:
        raise KernelError(f"shuffle: k is {k}: a token can choose 1, 2, 4 or 8 experts.")
    made = Shuffled(*(library.empty(scores, shape, "int32") for shape in shapes))
    queue("shuffle", library, {"scores": scores, **made._asdict()}, (k,), recipe)
    return made


def recipe(k: int, scores: Described, **made: Described) -> Recipe:
    """The launches of `shuffle`."""
    check_dimensions("shuffle", "scores", scores, 2)
    tokens, experts = scores.shape
    check("shuffle", "scores", scores, (tokens, experts), ("float32",))
    if not k <= experts <= MOST_EXPERTS:
        raise KernelError(f"shuffle: scores are of {experts} experts: give {k}, the number chosen, to {MOST_EXPERTS}.")
    if tokens * k >= 2**31:
        raise KernelError(f"shuffle: {tokens:,} tokens have too many rows: {2**31 // k - 1:,} are the most.")
    blocks, warps = blocks_and_warps(tokens, experts, k, chip_of(scores.device).sms)
    grid = blocks > CLUSTER
    vector = {128: 4, 320: 2}.get(experts, 1) if scores.aligned else 1
    defined = {"K": k, "EXPERTS": experts, "VECTOR": vector, "THREADS": 32 * warps}
    defined |= {"BLOCKS": 0 if grid else blocks, "SINGLE": int(tokens <= blocks * warps)}
    names = ("scores", "chosen", "count", "first", "order", "position", "others")
    arguments: tuple[Argument, ...] = (*map(Pointer, names), Value("int32", tokens))
    code = Code(("shuffle.cu",), "index_shuffle_kernel", tuple((name, str(value)) for name, value in defined.items()))
    cluster = (1 if grid else blocks, 1, 1)
    launch = Launch("shuffle", (blocks, 1, 1), (32 * warps, 1, 1), arguments, 0, cluster, cooperative=grid)
    return Recipe({"shuffle": code}, (launch,), {"others": 4 * blocks * experts}, f"{blocks}_blocks_of_{warps}_warps")


def blocks_and_warps(tokens: int, experts: int, k: int, sms: int) -> tuple[int, int]:
    """Blocks, and warps of each, on so many SMs, each with a place for one block.

    Only a few numbers of blocks occur, so few kernels are compiled.
    """
    # A token's scores are looked at when they come and for each choice; to a warp, 16 are as much work as 128.
    worth = min(tokens * max(experts, 128) * (k + 1) // WORK, sms)
    blocks = min(next((number for number in ENOUGH if tokens <= ENOUGH[number]), sms), sms)
    while 2 * blocks <= worth:
        blocks *= 2
    warps = 1
    most = min(32, MOST_COUNTS // experts)
    while warps < min(-(-tokens // blocks), most // 2 + 1):  # a token each while there is room
        warps *= 2
    return blocks, max(warps, -(-experts // 32))  # and a thread for each expert

"""`execute`: run a plan on the emulator."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod

import numpy as np

from warplab.emulator.core.state.layout import (
    F_KIND,
    F_PC,
    FAULT_OTHER_LANE,
    FAULT_SAME_VALUE,
    R_FIRST_STORE,
    SHARED_BASE,
)
from warplab.emulator.crew import Crew, Residence, cooperative_failure, residence
from warplab.emulator.lowering.decoder import decoded
from warplab.emulator.machine import MAX_RESIDENT, Machine, resident_bytes, resolve_constants
from warplab.emulator.memory import (
    AddressSpace,
    Region,
    RegionTable,
    aligned_bytes,
    buffer_view,
    place_variables,
    plan_regions,
)
from warplab.emulator.model.caches import CacheModel
from warplab.emulator.model.ranks import LinkOfRanks, Span
from warplab.emulator.model.reads import ReadsOfSms, Waves
from warplab.emulator.order import Order, downwards, drawn, upwards
from warplab.emulator.program import Program
from warplab.emulator.races import CELLS, CellMap, RaceSearch, Reach, races_between_blocks
from warplab.emulator.recorder import Recorder
from warplab.emulator.report.counters import CountedLaunch
from warplab.emulator.report.findings import Explainer, modified_input
from warplab.emulator.report.merging import merge, without_narrower
from warplab.emulator.report.printing import format_prints
from warplab.emulator.report.writer import writer
from warplab.emulator.tensor_map_bytes import encode
from warplab.emulator.undefined import Doubt, Fill, that_decide
from warplab.errors import PlanError
from warplab.hardware.processors import usable_processors
from warplab.hardware.records import Chip
from warplab.isa.syntax import Function, Module
from warplab.plan.disassembler import read_ahead
from warplab.plan.execution import COUNTERS_NOTE, CacheTraffic, Execution, Finding, FindingKind, LaunchProfile, Writer
from warplab.plan.limits import limits_of
from warplab.plan.model import Cubin, Dim3, Kernel, Language, Launch, Plan, Pointer, Role, TensorMap
from warplab.plan.ranking import ranked

MAX_THREADS = 1024
MAX_BLOCK = (1024, 1024, 64)
PORTABLE_CLUSTER, LARGEST_CLUSTER = 8, 16  # blocks; more than the former needs .maxclusterrank
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_PRINTED = 1 << 20  # characters that are kept of what an execution prints
MAX_FINDINGS = 1000  # of an execution
FURTHER = 1_000_000  # warp instructions that an execution with other undefined values may take beyond twice as many
PIECE = 1 << 20  # bytes compared at a time
LARGE = 1 << 14  # threads: a launch with fewer runs on one core while it is searched for races
WORKSPACE_BYTES = 64  # of the barrier of a cooperative grid
_NAMED = 4  # kernels that a note names
DEFAULT_SHARED = 48 * 1024  # more dynamic shared memory needs an opt-in in CUDA C++


@dataclass
class _Loaded:
    """A kernel's PTX, parsed and decoded, and where its module's variables are."""

    module: Module
    program: Program
    addresses: dict[str, int]


@dataclass
class Session:
    """One execution of one plan."""

    plan: Plan
    architecture: str
    instruction_budget: int
    sanitize: bool
    shared_limit: int
    workers: int
    seed: int | None = None
    recorder: Recorder | None = None
    caches: Chip | None = None
    reads_only: bool = False
    copied: frozenset[str] | None = None
    reverse: bool = False
    searched: int = CELLS
    space: AddressSpace = field(init=False)
    loaded: dict[str, _Loaded] = field(default_factory=dict)
    addresses: dict[str, dict[str, int]] = field(default_factory=dict)
    buffers: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    profiles: list[LaunchProfile] = field(default_factory=list)
    stores: dict[str, tuple[str, int]] = field(default_factory=dict)  # buffer -> first kernel and line that wrote it
    stdout: list[str] = field(default_factory=list)
    print_room: int = MAX_PRINTED
    notes: dict[str, str] = field(default_factory=dict)
    of_ptx: dict[str, None] = field(default_factory=dict)  # kernels whose counters do not follow machine code, in order
    writer: Writer | None = None
    cells: CellMap | None = None
    undefined: Fill | None = None
    doubts: list[Doubt] = field(default_factory=list)
    left: int = field(init=False)  # of the instruction budget

    def __post_init__(self) -> None:
        self.left = self.instruction_budget
        # Which set of a modelled cache an address falls into depends on the address.
        # Runs that are compared have to see the same addresses.
        self.space = AddressSpace(0 if self.seed is None and (self.caches or self.undefined) else self.seed)

    def execute(self, inputs: dict[str, np.ndarray], watch: tuple[str, int] | None = None) -> Execution:
        """Run the plan's launches in order on these inputs, once; `watch` as for the function `execute`."""
        self._disassemble()
        for region in plan_regions(self.plan, inputs, self.sanitize):
            if watch and watch[0] == region.name:
                region.watched = watch[1]
                if region.written is None:
                    region.written = np.ones(region.data.size, dtype=np.uint8)
            self.buffers[region.name] = self.space.add(region)
        if self.sanitize:
            self.cells = CellMap(self.searched)
        for launch in self.plan.launches:
            if not self.run(launch):
                break
        outputs: dict[str, np.ndarray] = {}
        for region in self.space.regions:
            buffer = region.buffer
            if buffer is None:
                continue
            if buffer.role in (Role.OUTPUT, Role.INOUT):
                # A view where it can be one: the region has no other use any more.
                outputs[buffer.name] = np.ascontiguousarray(buffer_view(buffer, region.data)).reshape(buffer.shape)
            elif buffer.role is Role.INPUT and _changed(buffer_view(buffer, region.data), inputs[buffer.name]):
                kernel, line = self.stores.get(buffer.name, ("", 0))
                self.findings.append(modified_input(buffer.name, kernel, line))
        if self.cells:
            self.cells.give_back()
        stdout, findings, profiles = "".join(self.stdout), tuple(ranked(self.findings)), tuple(self.profiles)
        return Execution(outputs, findings, profiles, stdout, notes=self.notes, writer=self.writer)

    def _disassemble(self) -> None:
        """Read the machine code of all kernels side by side: it takes a third of a second each, the first time."""
        if self.recorder is None:
            launched = [self.plan.kernels[x.kernel] for x in self.plan.launches if x.kernel in self.plan.kernels]
            cubins = [kernel.cubins.get(self.architecture) for kernel in launched]
            images = {cubin.image for cubin in cubins if cubin}
            if len(images) > 1:
                read_ahead(images)

    def load(self, name: str) -> _Loaded:
        """A kernel, ready to run. Kernels that share a PTX text share its variables."""
        if name not in self.loaded:
            kernel = self.plan.kernels.get(name)
            if kernel is None:
                raise PlanError(f"The plan launches {name}, which it does not contain; capture the submission again.")
            text = _ptx_for(kernel, self.architecture)
            try:
                # What is recorded is shown step by step: those of the PTX, and nothing that only counts.
                cubin = None if self.recorder else kernel.cubins.get(self.architecture)
                module, program = decoded(text, kernel.entry, self.plan.source_name, cubin.image if cubin else b"")
            except PlanError as error:
                line = f" (line {kernel.line})" if kernel.line else ""
                raise PlanError(f"Kernel {kernel.name}{line} cannot be run: {error}") from None
            addresses = self.addresses.setdefault(text, {})
            named = [c[1] for _, c in program.constants if isinstance(c, tuple) and c[0] == "symbol"]
            place_variables(self.space, module, named, addresses)
            self.loaded[name] = _Loaded(module, program, addresses)
        return self.loaded[name]

    def run(self, launch: Launch) -> bool:
        """Run one launch; False if what follows has no meaning after it."""
        loaded = self.load(launch.kernel)
        kernel = self.plan.kernels[launch.kernel]
        function = loaded.module.functions[loaded.program.entry]
        failure = self._launch_failure(launch, kernel, loaded.program) or self._cluster_failure(launch, function)
        if launch.cooperative and not failure:
            clustered = replace(launch, cluster=_cluster_of(launch, function))
            failure = cooperative_failure(self._residence(clustered), launch)
        if failure:
            message = f"The launch of {launch.kernel} fails: {failure}"
            self.findings.append(Finding(FindingKind.LAUNCH_FAILURE, message, launch.kernel, launch.line))
            return False
        launch = replace(launch, cluster=_cluster_of(launch, function))
        kept = len(self.space.regions)
        parameters = self._parameters(launch, loaded)
        bank = Region("the kernel's parameters", parameters, writable=False)
        bank_address = self.space.add(bank)
        workspace = self._workspace() if launch.cooperative else 0
        table = self.space.table()
        if self.cells:
            self.cells.fill(table, self.space, Reach.of(loaded.program, function, launch))
        constants = resolve_constants(
            loaded.program, loaded.module, launch, loaded.addresses, self.space, parameters, bank_address, workspace
        )
        machines, traffic = self._run_blocks(launch, loaded.program, constants, table)
        outcome = self._collect(launch, loaded, machines, table, traffic)
        self.space.keep(kept)
        return outcome

    def _recorder(self, launch: Launch) -> Recorder | None:
        """The recorder, ready, if it is the running launch that it records."""
        if self.recorder is None or self.recorder.launch != len(self.profiles):
            return None
        self.recorder.locate(launch)
        return self.recorder

    def _workspace(self) -> int:
        """Where the barrier of a cooperative grid is, in memory of the driver's."""
        data = aligned_bytes(WORKSPACE_BYTES)
        data.fill(0)
        return self.space.add(Region("the grid's barrier", data))

    def _residence(self, launch: Launch) -> Residence:
        """How many blocks of a launch, with the clusters that it runs in, are there at one time."""
        cubin = self._cubin(launch)
        registers = cubin.registers if cubin else 0
        return residence(self.architecture, registers, self.load(launch.kernel).program, launch)

    def _cubin(self, launch: Launch) -> Cubin | None:
        return self.plan.kernels[launch.kernel].cubins.get(self.architecture)

    def _order(self, window: int) -> Order:
        """The order of the running launch; `window` clusters may come in any."""
        if self.caches is not None:
            window = 1  # its model takes blocks to start in the order of their numbers
        if self.seed is not None:
            return drawn(self.seed, len(self.profiles), window)
        return downwards(window) if self.reverse else upwards()

    def _run_with_caches(self, chip: Chip, launch: Launch, crew: Crew, program: Program) -> CacheTraffic:
        """Run all clusters in waves and the model of the caches, of reads only or of two ranks, after each."""
        kernel = self.plan.kernels[launch.kernel]
        model: CacheModel | Waves
        if self.copied is not None:
            arrays = [
                Span(region.address, region.data.size, not region.writable or region.name in self.copied)
                for region in self.space.regions
                if region.buffer is not None or not region.writable
            ]
            model = LinkOfRanks(chip, launch, self._residence(launch).gpu, arrays)
        elif self.reads_only:
            model = ReadsOfSms(chip, launch, self._residence(launch).gpu)
        else:
            model = CacheModel(chip, self.architecture, launch, kernel, program.static_shared - SHARED_BASE)
        crew.first.keep_log(model.log)
        for first, last in model.slices():
            crew.run(first, last)
        return model.traffic()

    def _run_blocks(
        self, launch: Launch, program: Program, constants: np.ndarray, table: RegionTable
    ) -> tuple[list[Machine], CacheTraffic | None]:
        """All blocks, by one machine or several, and the caches' part if it is asked for."""
        clusters = prod(launch.grid) // prod(launch.cluster)
        # Side by side, blocks that race may each time read something else: small launches give the same each time.
        large = clusters * prod(launch.cluster) * prod(launch.block) >= LARGE
        parallel = program.parallel and not launch.cooperative and (large or not self.sanitize)
        workers = min(self.workers, clusters) if parallel else 1
        recorder = self._recorder(launch)
        independent = program.parallel and not launch.cooperative
        resident = 1 if independent else self._residence(launch).most
        order = self._order(clusters if independent else resident)

        # Memory is made here: what a worker makes for itself could be another's meanwhile.
        searches = [
            RaceSearch(program, launch, self.cells.worker(share), len(self.cells.regions)) if self.cells else None
            for share in range(workers)
        ]

        def new_crew(share: int) -> Crew:
            def fresh(beside: Machine | None) -> Machine:
                budget, sanitize, search = max(self.left, 1), self.sanitize, searches[share]
                undefined = self.undefined.of(launch.kernel) if self.undefined else None
                return Machine(
                    program, launch, constants, self.space, table, budget, sanitize, order, search, beside, undefined
                )

            drawn = self.seed is not None and self.caches is None and recorder is None and not independent
            crew = Crew(fresh, resident, launch.cooperative, 2 + order.seed % 3 if drawn else 0)
            if recorder is not None:
                crew.record(recorder)
            return crew

        def work(share: int) -> Machine:
            crew = new_crew(share)
            crew.run(clusters * share // workers, clusters * (share + 1) // workers)
            return crew.first

        if self.caches is not None:
            crew = new_crew(0)
            return [crew.first], self._run_with_caches(self.caches, launch, crew, program)
        if workers == 1:
            return [work(0)], None
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(work, range(workers))), None

    def _collect(
        self,
        launch: Launch,
        loaded: _Loaded,
        machines: list[Machine],
        table: RegionTable,
        traffic: CacheTraffic | None,
    ) -> bool:
        """Counters, findings and prints of a finished launch."""
        program = loaded.program
        self.notes |= program.notes
        if program.terms is None:
            self.of_ptx.setdefault(launch.kernel)
            self.notes[COUNTERS_NOTE] = _of_ptx(list(self.of_ptx))
        counts, cubin = np.sum([m.counts for m in machines], axis=0), self._cubin(launch)
        self.profiles.append(CountedLaunch(launch, program, counts, traffic, cubin))
        self.left -= self.profiles[-1].total.warp_instructions
        explainer = Explainer(program, self.space, launch, self.plan)
        records = merge([record for m in machines for record in m.finding_records()] + self._races(machines, launch))
        self.notes |= explainer.notes(records)
        records = [record for record in records if record[F_KIND] != FAULT_SAME_VALUE]
        records = without_narrower(records, program.lines)
        strayed = [record for record in records if record[F_KIND] == FAULT_OTHER_LANE]
        self.doubts += [Doubt(explainer.explain(record), int(record[F_PC])) for record in strayed]
        records = [record for record in records if record[F_KIND] != FAULT_OTHER_LANE]
        self.findings += [explainer.explain(record) for record in records[: MAX_FINDINGS - len(self.findings)]]
        for machine in machines:
            self._print(machine)
        for region, entry in zip(self.space.regions, table.entries, strict=False):
            pc = int(entry[R_FIRST_STORE])
            if region.buffer is not None and pc >= 0:
                self.stores.setdefault(region.name, (launch.kernel, int(program.lines[pc])))
            self.writer = writer(entry, program, launch) or self.writer
        return not any(m.stopped for m in machines)

    def _races(self, machines: list[Machine], launch: Launch) -> list[np.ndarray]:
        """What the search for races finds when all blocks have run."""
        searches = [m.races for m in machines if m.races is not None]
        if self.cells is None or not searches:
            return []
        for search in searches:
            search.finish()
            if search.ended_early:
                self.notes[f"races in {launch.kernel}"] = (
                    f"Kernel {launch.kernel} {search.ended_early}: the search for races in global memory ended early."
                )
        return races_between_blocks(self.cells, searches, launch)

    def _print(self, machine: Machine) -> None:
        """Keep what a machine's blocks have printed, as long as there is room for it."""
        if not self.print_room:
            return
        text, self.print_room = format_prints(self.space, machine.printed(), self.print_room)
        if machine.print_is_full:
            self.print_room = 0
        self.stdout.append(text if self.print_room else f"{text}\n(More was printed than is kept.)\n")

    def _launch_failure(self, launch: Launch, kernel: Kernel, program: Program) -> str:
        """Why the driver would refuse a launch; empty if it would not."""
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        if min(launch.block) < 1 or min(launch.grid) < 1:
            return f"grid {launch.grid} and block {launch.block} must be at least 1 in each dimension."
        if threads > MAX_THREADS:
            return f"block {launch.block} has {threads} threads, but a block can have {MAX_THREADS} at most."
        if any(n > limit for n, limit in zip(launch.block, MAX_BLOCK, strict=True)):
            return f"block {launch.block} exceeds the limit {MAX_BLOCK}."
        if any(n > limit for n, limit in zip(launch.grid, MAX_GRID, strict=True)):
            return f"grid {launch.grid} exceeds the limit {MAX_GRID}."
        static = program.static_shared - SHARED_BASE
        if static > DEFAULT_SHARED:
            return f"it declares {static} bytes of static shared memory, but {DEFAULT_SHARED} is the limit."
        used = static + launch.shared_bytes
        if used > self.shared_limit:
            return f"it uses {used} bytes of shared memory, but {self.architecture} has {self.shared_limit} a block."
        allowed = max(kernel.max_dynamic_shared or 0, DEFAULT_SHARED - static)
        resident = resident_bytes(program, launch)
        if resident > MAX_RESIDENT:
            return (
                f"the registers and the local memory of the threads that run at one time take {resident >> 20} MiB, "
                f"but the emulator has {MAX_RESIDENT >> 20} MiB for them."
            )
        if kernel.language is Language.CUDA_CPP and launch.shared_bytes > allowed:
            return (
                f"{launch.shared_bytes} bytes of dynamic shared memory need max_dynamic_shared_size_bytes to be set; "
                f"without it {allowed} are allowed."
            )
        return ""

    def _cluster_failure(self, launch: Launch, function: Function) -> str:
        """Why the driver would refuse the clusters of a launch; empty if it would not."""
        cluster = _cluster_of(launch, function)
        size = prod(cluster)
        if cluster == (1, 1, 1):
            return ""
        if int("".join(c for c in self.architecture if c.isdigit())) < 90:
            return f"it asks for clusters {cluster}, which {self.architecture} does not have; they need sm_90 or later."
        if function.cluster not in (None, cluster):
            return f"it asks for clusters {cluster}, but the kernel is compiled for clusters {function.cluster}."
        if min(cluster) < 1 or any(g % c for g, c in zip(launch.grid, cluster, strict=True)):
            return f"grid {launch.grid} is not a multiple of the cluster {cluster} in each dimension."
        limit = min(function.max_cluster or PORTABLE_CLUSTER, LARGEST_CLUSTER)
        if size > limit:
            return f"cluster {cluster} has {size} blocks, but {limit} are the limit for this kernel."
        return ""

    def _parameters(self, launch: Launch, loaded: _Loaded) -> np.ndarray:
        """The kernel's parameter bank."""
        formals = loaded.module.functions[loaded.program.entry].parameters
        if len(formals) != len(launch.arguments):
            raise PlanError(
                f"The launch of {launch.kernel} has {len(launch.arguments)} arguments, but its PTX takes "
                f"{len(formals)}; capture the submission again."
            )
        data = bytearray()
        for formal, argument in zip(formals, launch.arguments, strict=True):
            data += bytes(-len(data) % max(formal.align, 1))
            if isinstance(argument, Pointer | TensorMap):
                if argument.buffer not in self.buffers:
                    raise PlanError(f"The plan has no buffer {argument.buffer}; capture the submission again.")
                address = self.buffers[argument.buffer] + argument.offset
                if isinstance(argument, Pointer):
                    value = address.to_bytes(8, "little")
                else:
                    value = self._tensor_map(argument, address, formal.size)
            else:
                value = argument.to_bytes()
            if len(value) != formal.size:
                raise PlanError(
                    f"Argument {argument.parameter or formal.name} of {launch.kernel} has {len(value)} bytes, but "
                    f"the kernel takes {formal.size}; capture the submission again."
                )
            data += value
        bank = aligned_bytes(max(len(data), 1))
        bank[: len(data)] = np.frombuffer(bytes(data), dtype=np.uint8)
        return bank

    def _tensor_map(self, argument: TensorMap, address: int, size: int) -> bytes:
        """A tensor map for a parameter: itself, or where a copy of it is."""
        encoded = encode(argument, address)
        if size != 8:
            return encoded
        data = aligned_bytes(len(encoded))
        data[:] = np.frombuffer(encoded, dtype=np.uint8)
        name = argument.parameter or argument.buffer
        return self.space.add(Region(f"the tensor map {name}", data, writable=False)).to_bytes(8, "little")


def _of_ptx(kernels: Sequence[str]) -> str:
    """What is said of counters that do not follow the machine code."""
    some = kernels[:_NAMED] if len(kernels) <= _NAMED else [*kernels[: _NAMED - 1], f"{len(kernels) - _NAMED + 1} more"]
    names = some[0] if len(some) == 1 else f"{', '.join(some[:-1])} and {some[-1]}"
    its = "its" if len(kernels) == 1 else "their"
    return (
        f"The counters of {names} are those of {its} PTX, of which the assembler merges and drops some, for {its} "
        "machine code is not known here: that takes an assembled plan and the package nvidia-cuda-nvdisasm."
    )


def _cluster_of(launch: Launch, function: Function) -> Dim3:
    """The clusters of a launch: those that it asks for, else those that the kernel was compiled for."""
    return launch.cluster if launch.cluster != (1, 1, 1) else function.cluster or (1, 1, 1)


def _ptx_for(kernel: Kernel, architecture: str) -> str:
    """The PTX of a kernel for an architecture, else the one it has."""
    if architecture in kernel.ptx:
        return kernel.ptx[architecture]
    if not kernel.ptx:
        raise PlanError(f"The plan has no PTX for kernel {kernel.name}; capture the submission again.")
    return next(iter(kernel.ptx.values()))


def shared_limit_of(architecture: str) -> int:
    """The most shared memory that a block can ask for, in bytes. Raises PlanError for an unknown architecture."""
    return limits_of(architecture).block_shared


def execute(
    plan: Plan,
    inputs: dict[str, np.ndarray],
    *,
    architecture: str = "sm_90a",
    instruction_budget: int = 1_000_000_000,
    shared_limit: int | None = None,
    sanitize: bool = True,
    workers: int | None = None,
    seed: int | None = None,
    reverse: bool = False,
    caches: Chip | None = None,
    reads_only: bool = False,
    copied: frozenset[str] | None = None,
    watch: tuple[str, int] | None = None,
    searched_elements: int = CELLS,
) -> Execution:
    """Run a plan on the emulator.

    `inputs` holds an array for each INPUT and INOUT buffer, of the buffer's shape and dtype; they are not modified.
    OUTPUT buffers and scratch start as 0xFF bytes (NaN) unless `zeroed` or with content. A fault drops the access and
    the kernel goes on; a deadlock, a trap, an unknown instruction or launches that together used up
    `instruction_budget` warp instructions end the execution. `shared_limit` is the shared memory of a block in bytes
    (default: the architecture's). `sanitize` adds the search for races and for reads of what nothing wrote; that for
    races in global memory covers the first `searched_elements` that a launch may write, at 68 bytes each. Blocks of
    kernels without global atomics or fences run on `workers` threads (default: one a core), those of small launches on
    one while races are sought. Blocks start, and warps take turns, in a fixed, fair order, from the first to the last;
    `reverse` has the last come first, as far as blocks would be on the GPU together. A `seed` (any whole number) makes
    both orders, the length of turns and what asynchronous operations do meanwhile random: the same seed gives the same
    execution, whatever `workers` is. `watch` names a buffer and a byte in it: the result's `writer` is the thread whose
    store wrote that byte last. With `caches`, a chip, its L1 and L2 are modelled (`LaunchProfile.caches`), on one
    thread, and blocks start in the order of their numbers. With `reads_only` only the busiest SM's reads are modelled.
    With `copied` only the traffic between two ranks is (`model/ranks.py`), which both have a copy of the arrays named.

    Raises PlanError when the plan does not fit together or an input is missing, ValueError for `reverse` with a seed.
    """
    if reverse and seed is not None:
        raise ValueError("an order is either reversed or drawn from a seed: leave out one of the two")
    limit = shared_limit_of(architecture) if shared_limit is None else shared_limit
    threads = 1 if watch else workers or usable_processors()  # the last store is that of the last block
    session = partial(
        Session,
        plan,
        architecture,
        shared_limit=limit,
        seed=seed,
        caches=caches,
        reads_only=reads_only,
        copied=copied,
        reverse=reverse,
        searched=searched_elements,
    )
    first = session(sanitize=sanitize, workers=threads, instruction_budget=instruction_budget)
    execution = first.execute(inputs, watch)
    # Where a warp's lanes do not meet, that is the finding, and undefined values follow from it.
    apart = {finding.kernel for finding in execution.findings if finding.kind is FindingKind.DIVERGENT_BARRIER}
    doubts = [doubt for doubt in first.doubts if doubt.finding.kernel not in apart]
    if not doubts or not sanitize or watch or caches:
        return execution
    most = 2 * (instruction_budget - first.left) + FURTHER  # an undefined value may make a loop endless

    def filled(fill: Fill) -> Execution:
        return session(sanitize=False, workers=1, undefined=fill, instruction_budget=most).execute(inputs)

    found = that_decide(doubts, filled)
    return replace(execution, findings=tuple(ranked((*execution.findings, *found))))


def _changed(after: np.ndarray, before: np.ndarray) -> bool:
    """Do two arrays differ in any bit? Piece by piece, because they may fill half of the memory."""
    a, b = (np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (after, before))
    return any(not np.array_equal(a[i : i + PIECE], b[i : i + PIECE]) for i in range(0, a.size, PIECE))

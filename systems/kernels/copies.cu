// Copies of matrices of 16-bit elements whose strides the tensor memory accelerator does not take. It follows loose.cuh.

// Lines of `across` elements from any address into lines that begin at multiples of 16 bytes, of one matrix or, by the
// grid's y, of two: eight elements a thread at a time.
extern "C" __global__ void align_lines(const half16* from, u64 extent, u64 from_pitch, half16* to, u64 to_pitch, int lines,
                                       int across, const half16* other_from, u64 other_extent, u64 other_from_pitch,
                                       half16* other_to, u64 other_to_pitch, int other_lines, int other_across)
{
    if (blockIdx.y) {
        from = other_from, extent = other_extent, from_pitch = other_from_pitch;
        to = other_to, to_pitch = other_to_pitch, lines = other_lines, across = other_across;
    }
    const Lines of = {from, from + extent, from_pitch};
    const u32 chunks = (across + 7) / 8;
    const u64 all = (u64)lines * chunks;
    for (u64 i = blockIdx.x * blockDim.x + threadIdx.x; i < all; i += (u64)gridDim.x * blockDim.x) {
        const u64 y = all >> 32 ? i / chunks : (u32)i / chunks;  // a division of 64 bits takes long
        const int x = (i - y * chunks) * 8;
        *(uint4*)(to + y * to_pitch + x) = read_loose(from + y * from_pitch + x, of, min(8, across - x));
    }
}

// Any strides to any strides, in elements, by tiles of 32 x 32: whichever side has neighbours gets them side by side.
extern "C" __global__ void copy(const half16* from, long long from_down, long long from_across, half16* to,
                                long long to_down, long long to_across, int rows, int columns)
{
    __shared__ half16 tile[32][33];
    const int tiles = (columns + 31) / 32 * ((rows + 31) / 32), wide = (columns + 31) / 32;
    for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
        const int row = number / wide * 32, column = number % wide * 32;
        for (int i = threadIdx.x; i < 1024; i += blockDim.x) {
            const int y = from_down == 1 ? i % 32 : i / 32, x = from_down == 1 ? i / 32 : i % 32;
            if (row + y < rows && column + x < columns)
                tile[y][x] = from[(row + y) * from_down + (column + x) * from_across];
        }
        __syncthreads();
        for (int i = threadIdx.x; i < 1024; i += blockDim.x) {
            const int y = to_down == 1 ? i % 32 : i / 32, x = to_down == 1 ? i / 32 : i % 32;
            if (row + y < rows && column + x < columns)
                to[(row + y) * to_down + (column + x) * to_across] = tile[y][x];
        }
        __syncthreads();
    }
}

extern "C" __global__ void clear(half16* to, long long down, long long across, int rows, int columns)
{
    for (int y = blockIdx.x; y < rows; y += gridDim.x)
        for (int x = threadIdx.x; x < columns; x += blockDim.x) to[y * down + x * across] = 0;
}

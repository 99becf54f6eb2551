// One step of decoding in one launch: every block stays on its SM and works through a list of instructions.
//
// Sixteen warps compute. A seventeenth goes through the same list ahead of them and fills a ring of pages with weights,
// for weights depend on nothing: while the sixteen wait for what other SMs make, the pages of the next instructions
// come. What does depend on other SMs waits for a counter in global memory, and for flags that the data bring along.
//
// Given by who compiles this: LAYERS, WIDTH, HEADS, KV_HEADS, VOCABULARY; BLOCKS, pages of keys that a head has room
// for; SLOTS, pages of the ring; IN_FLIGHT, how many of them may be on their way at once; COUNTERS; AHEAD, whether
// weights are loaded before inputs are there; FLAGS, whether flags say that data are there. Then a counter is only a
// hint of when to look, so that SMs do not poll whole vectors. Without, counters are released and acquired.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define HEAD 64
#define GROUP (HEADS / KV_HEADS)         // heads that share keys and values
#define FFN (4 * WIDTH)
#define ROW (2 * WIDTH)                  // bytes of WIDTH weights
#define PAGE (4 * ROW)
#define POSITIONS (PAGE / (2 * HEAD))    // whose keys, or values, fill a page
#define WARPS 16                         // that compute
#define CONSUMERS (32 * WARPS)
#define MOST_PAGES 64                    // of one instruction
#define TIMES 5                          // of the clock, for each instruction
#define SLICES (WARPS / GROUP)           // into which warps divide the positions of a page of values
#define PAIRS ((WIDTH / 2 + CONSUMERS - 1) / CONSUMERS)  // of numbers as many as WIDTH, that a thread takes at most
#define EPSILON 1e-5f
#define LEAST __int_as_float(0xff800000)  // minus infinity
#define PATIENCE 2000000000u             // nanoseconds until a wait is a fault, where a whole step takes a million

// How SMs tell each other something: by words that are flagged, or by words behind counters that are released.
#if FLAGS
#define LOAD "ld.relaxed.gpu.global"
#define STORE "st.relaxed.gpu.global"
#define SEE "ld.relaxed.gpu.global"
#define TELL "red.relaxed.gpu.global"
#else
#define LOAD "ld.global.cg"
#define STORE "st.global"
#define SEE "ld.acquire.gpu.global"
#define TELL "red.release.gpu.global"
#endif

static_assert(HEADS * HEAD == WIDTH && WIDTH % 256 == 0 && WIDTH <= 4 * CONSUMERS, "a width of 256 to 2,048");
static_assert(WARPS % GROUP == 0 && VOCABULARY % 4 == 0, "four rows a page");
static_assert(SLOTS >= 2, "attention takes a page of keys and one of values at once");
static_assert(SLOTS <= WARPS, "a slot of the ring is a warp's");
static_assert(IN_FLIGHT >= 1 && IN_FLIGHT <= SLOTS, "a page that is on its way has a slot");

enum { STOP, EMBED, QKV, ATTEND, OUT, GATE_UP, DOWN, LOGITS };

struct alignas(16) Instruction {
    int op, layer;
    int page, pages;        // of the weights or, of ATTEND, of the cache
    int row;                // the first output, or the number of a page of keys among those of a layer
    int wait, target;       // which counter has to reach what; none below 0
    int bump;               // which counter says that this is done; none below 0
};

struct Attention {
    float q[GROUP * HEAD], scores[GROUP * POSITIONS], sums[WARPS * HEAD];
    uint4 fresh[2][HEAD / 8];  // key and value of this position
};

struct alignas(128) Shared {
    u8 pages[SLOTS][PAGE];
    union { u16 x[FFN]; Attention attention; };
    float results[4 * MOST_PAGES];
    float turns[HEAD];      // cosine and sine of each pair of a head, at this position
    float squares[WARPS];
    u64 full[SLOTS], empty[SLOTS];
    u32 loaded;             // when the first page of an instruction was there
};

// What SMs hand to each other, in words of 4 bytes of data and 4 of flag. A word is stored and loaded as one: who finds
// the flag has the data, and nobody has released anything. x is the residual stream; `fresh` are key and value of this
// position, pairs of bfloat16 as `hidden` is; `parts` and `peaks` are attention before it is put together.
//
// A flag is not 0, and each time that a step writes a word the flag is another: of x it is 1 by EMBED, 2 and 3 by OUT
// and DOWN of layer 0, and so on; of all else 1 + the layer. A step finds its set zero, and makes the other one zero.
//
// Nothing else has to say when a word may be overwritten, for a line writes when it has its inputs, and these were made
// of all that the line before had:
//   x by OUT      has all parts, of ATTENDs that together had all of q and fresh, of QKVs that each had all of x
//   x by DOWN     has all of hidden, of GATE_UPs that each had all of x
//   q, fresh      QKV has all of x by DOWN, so all of hidden, of x by OUT and of parts, of all ATTENDs
//   parts, peaks  ATTEND has some of q, each of a QKV that had all of x by DOWN, of hidden and of x by OUT, of all OUTs
//   hidden        GATE_UP has all of x by OUT, so all of parts, of q and of x by DOWN, of all DOWNs
// What OUT and DOWN add to, their own rows of x, the same thread reads first.
struct alignas(16) Vectors {
    u64 x[WIDTH], q[WIDTH];              // q: [HEADS][HEAD]
    u64 fresh[KV_HEADS * HEAD];          // [KV_HEADS][key, value][HEAD / 2]
    u64 parts[WIDTH * BLOCKS];           // [HEADS][BLOCKS][HEAD]
    u64 peaks[2 * HEADS * BLOCKS];       // [HEADS][BLOCKS][the greatest score, the sum]
    u64 hidden[FFN / 2];
};

// What a step works on.
struct Memory {
    const Instruction* list;
    int length;             // of each SM's list
    int position, set;      // which of two sets of counters and of vectors
    const u16 *weights, *gains;
    u16* cache;             // [layer][KV head][block][keys, values][POSITIONS][HEAD]
    const float* turns;     // [position][HEAD]
    const int* given;       // tokens that are not to be chosen, -1 elsewhere
    u64* chosen;            // [position], the best logit and its token
    Vectors* vectors;       // the set of this step
    float* logits;
    u32* counters;          // [2][COUNTERS], one for this step, one made zero for the next
    u32* records;           // [block][length][TIMES]: begun, inputs there, weights there, done, told
    bool recording;
};

__device__ u32 at(const void* shared) { return u32(__cvta_generic_to_shared(shared)); }
__device__ float low(u32 pair) { return __uint_as_float(pair << 16); }
__device__ float high(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }
__device__ u16 rounded(float value)  // to bfloat16, to the nearest even
{
    u32 bits = __float_as_uint(value);
    return u16((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
__device__ u32 pair(float a, float b) { return rounded(a) | u32(rounded(b)) << 16; }
__device__ u32 now()
{
    u32 time;
    asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(time) :: "memory");
    return time;
}
// Called after each try that failed: a fault becomes a trap, not a kernel that never ends.
__device__ void be_patient(u32& since, int tries)
{
    if (tries == 0) since = now();
    else if (now() - since > PATIENCE) __trap();
}
__device__ float warp_sum(float value)
{
    #pragma unroll
    for (int d = 16; d; d /= 2) value += __shfl_xor_sync(~0u, value, d);
    return value;
}
__device__ float warp_max(float value)
{
    #pragma unroll
    for (int d = 16; d; d /= 2) value = fmaxf(value, __shfl_xor_sync(~0u, value, d));
    return value;
}
__device__ void sync_consumers() { asm volatile("bar.sync 1, %0;" :: "n"(CONSUMERS) : "memory"); }

__device__ void init(u64& barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(at(&barrier)), "r"(count) : "memory");
}
__device__ void arrive(u64& barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at(&barrier)) : "memory");
}
__device__ void wait(u64& barrier, u32 parity)
{
    u32 since = 0;
    #pragma unroll 1
    for (int tries = 0;; ++tries) {
        u32 done;
        asm volatile("{ .reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(at(&barrier)), "r"(parity) : "memory");
        if (done) return;
        be_patient(since, tries);
    }
}
__device__ void fill(u8* page, const u8* from, u64& barrier)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at(&barrier)), "r"(PAGE) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(at(page)), "l"(from), "r"(PAGE), "r"(at(&barrier)) : "memory");
}
// One thread waits for a counter. Without flags, what was written before it got there is there for who comes to a
// barrier with it.
__device__ void wait_for(const u32* counter, u32 target)
{
    u32 since = 0;
    #pragma unroll 1
    for (int tries = 0;; ++tries) {
        u32 seen;
        asm volatile(SEE ".u32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
        if (seen >= target) return;
        be_patient(since, tries);
    }
}
__device__ void bump(u32* counter)
{
    asm volatile(TELL ".add.u32 [%0], 1;" :: "l"(counter) : "memory");
}

__device__ u64 word(u32 data, u32 flag) { return u64(flag) << 32 | data; }
__device__ u64 word(float data, u32 flag) { return word(__float_as_uint(data), flag); }
__device__ float number(u64 word) { return __uint_as_float(u32(word)); }
__device__ bool has(u64 word, u32 flag) { return word >> 32 == flag; }
__device__ bool has(ulonglong2 words, u32 flag) { return has(words.x, flag) && has(words.y, flag); }
__device__ void load(u64& word, const u64* from)
{
    asm volatile(LOAD ".u64 %0, [%1];" : "=l"(word) : "l"(from) : "memory");
}
__device__ void load(ulonglong2& words, const u64* from)
{
    asm volatile(LOAD ".v2.u64 {%0, %1}, [%2];" : "=l"(words.x), "=l"(words.y) : "l"(from) : "memory");
}
__device__ void give(u64* to, u64 word)
{
    asm volatile(STORE ".u64 [%0], %1;" :: "l"(to), "l"(word) : "memory");
}
__device__ void give(u64* to, u64 first, u64 second)
{
    asm volatile(STORE ".v2.u64 [%0], {%1, %2};" :: "l"(to), "l"(first), "l"(second) : "memory");
}
// N words, or pairs of words, from from(0), from(1) and so on, when all have the flag. They are on their way together.
template <int N, class Words, class From> __device__ void take(Words (&to)[N], u32 flag, From from)
{
    u32 since = 0;
    #pragma unroll 1
    for (int tries = 0;; ++tries) {
        #pragma unroll
        for (int i = 0; i < N; ++i) load(to[i], from(i));
        bool there = true;
        #pragma unroll
        for (int i = 0; i < N; ++i) there = there && has(to[i], flag);
        if (there || !FLAGS) return;
        be_patient(since, tries);
    }
}
// A page, when it has come.
__device__ const u8* page_of(Shared& s, u32 number)
{
    wait(s.full[number % SLOTS], number / SLOTS & 1);
    return s.pages[number % SLOTS];
}
__device__ Instruction read(const Memory& m, int n)
{
    const int4* words = (const int4*)(m.list + blockIdx.x * m.length + min(n, m.length - 1));
    int4 a = __ldg(words), b = __ldg(words + 1);
    return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
}

// The seventeenth warp: pages of every instruction, as soon as the ring has room and not too many are on their way. A
// release waits for all that its SM has asked memory for: whoever asks for much at once makes the others' news late.
// (With flags nothing is released, and two on their way are the best all the same. Likely because words of vectors are
// loads, too, and come behind the pages; that was not measured by itself.)
__device__ void load_pages(const Memory& m, Shared& s)
{
    Instruction next = read(m, 0);
    int slot = 0, parity = 1;  // the ring begins empty
    u32 asked = 0;
    for (int n = 1; next.op != STOP; ++n) {
        Instruction in = next;
        next = read(m, n);
        if (!AHEAD && in.wait >= 0) wait_for(m.counters + m.set * COUNTERS + in.wait, in.target);
        const u8* from = (const u8*)(in.op == ATTEND ? m.cache : m.weights) + u64(in.page) * PAGE;
        for (int p = 0; p < in.pages; ++p, from += PAGE) {
            wait(s.empty[slot], parity);
            if (asked >= IN_FLIGHT) page_of(s, asked - IN_FLIGHT);
            ++asked;
            fill(s.pages[slot], from, s.full[slot]);
            if (++slot == SLOTS) slot = 0, parity ^= 1;
        }
    }
}

// What a computing thread knows throughout.
struct Place {
    int thread, warp, lane;
    u32 taken;              // pages of the ring, by the instructions before
    u32 ready;              // when inputs were there
};

__device__ void inputs_ready(const Memory& m, const Instruction& in, Place& me)
{
    if (me.thread == 0) {
        if (in.wait >= 0) wait_for(m.counters + m.set * COUNTERS + in.wait, in.target);
        if (m.recording) me.ready = now();
    }
    sync_consumers();
}

__device__ void embed(const Memory& m, const Instruction& in, Place& me)
{
    int token = m.given[m.position];
    if (token < 0) token = int(~u32(m.chosen[m.position - 1]));
    const u32* row = (const u32*)(m.weights + (u64(in.row) + token) * WIDTH);
    for (int i = me.thread; i < WIDTH / 2; i += CONSUMERS) {
        u32 v = __ldg(row + i);
        give(m.vectors->x + 2 * i, word(low(v), 1), word(high(v), 1));
    }
}

// Of MANY that all threads take, the number of the i-th of this one. Behind the last a thread takes that one too, and
// keeps nothing of it.
template <int MANY> __device__ int nth(int i, const Place& me) { return min(i * CONSUMERS + me.thread, MANY - 1); }
template <int MANY> __device__ bool keeps(int i, const Place& me) { return i * CONSUMERS + me.thread < MANY; }
// What all rows of a product are multiplied with goes to shared memory, in bfloat16.
__device__ void take_normed(const Memory& m, Shared& s, const Instruction& in, Place& me)
{
    int norm = in.op == LOGITS ? 2 * LAYERS : 2 * in.layer + (in.op == GATE_UP);
    u32 gain[PAIRS];
    #pragma unroll
    for (int i = 0; i < PAIRS; ++i) gain[i] = __ldg((const u32*)(m.gains + norm * WIDTH) + nth<WIDTH / 2>(i, me));
    inputs_ready(m, in, me);
    ulonglong2 v[PAIRS];
    take(v, norm + 1, [&](int i) { return m.vectors->x + 2 * nth<WIDTH / 2>(i, me); });
    float squares = 0;
    #pragma unroll
    for (int i = 0; i < PAIRS; ++i)
        if (keeps<WIDTH / 2>(i, me))
            squares += number(v[i].x) * number(v[i].x) + number(v[i].y) * number(v[i].y);
    squares = warp_sum(squares);
    if (me.lane == 0) s.squares[me.warp] = squares;
    sync_consumers();
    float sum = 0;
    #pragma unroll
    for (int w = 0; w < WARPS; ++w) sum += s.squares[w];
    float scale = rsqrtf(sum / WIDTH + EPSILON);
    #pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
        u32 made = pair(number(v[i].x) * scale * low(gain[i]), number(v[i].y) * scale * high(gain[i]));
        if (keeps<WIDTH / 2>(i, me)) ((u32*)s.x)[nth<WIDTH / 2>(i, me)] = made;
    }
}
// At a time a warp takes one head's parts of some pages. All in all it needs so few peaks that each lane takes one.
__device__ void take_attention(const Memory& m, Shared& s, const Instruction& in, Place& me)
{
    constexpr int PAGES = 4, PARTS = PAIRS * PAGES;
    static_assert(PARTS <= 32, "a peak a lane");
    int parts = m.position / POSITIONS + 1;
    float most[PAIRS], sum[PAIRS], a[PAIRS], b[PAIRS];
    #pragma unroll
    for (int i = 0; i < PAIRS; ++i) most[i] = LEAST, sum[i] = a[i] = b[i] = 0;
    inputs_ready(m, in, me);
    #pragma unroll 1
    for (int first = 0; first < parts; first += PAGES) {
        ulonglong2 got[PARTS + 1];
        take(got, in.layer + 1, [&](int n) {
            int of = n < PARTS ? n : me.lane % PARTS, i = nth<WIDTH / 2>(of / PAGES, me);
            int page = 2 * i / HEAD * BLOCKS + min(first + of % PAGES, parts - 1);
            return n < PARTS ? m.vectors->parts + page * HEAD + 2 * i % HEAD : m.vectors->peaks + 2 * page;
        });
        #pragma unroll
        for (int n = 0; n < PARTS; ++n) {
            int i = n / PAGES;
            float peak = __shfl_sync(~0u, number(got[PARTS].x), n), its_sum = __shfl_sync(~0u, number(got[PARTS].y), n);
            if (first + n % PAGES >= parts) continue;
            float higher = fmaxf(most[i], peak), old = __expf(most[i] - higher), now = __expf(peak - higher);
            a[i] = a[i] * old + number(got[n].x) * now;
            b[i] = b[i] * old + number(got[n].y) * now;
            sum[i] = sum[i] * old + its_sum * now;
            most[i] = higher;
        }
    }
    #pragma unroll
    for (int i = 0; i < PAIRS; ++i)
        if (keeps<WIDTH / 2>(i, me)) ((u32*)s.x)[nth<WIDTH / 2>(i, me)] = pair(a[i] / sum[i], b[i] / sum[i]);
}
__device__ void take_hidden(const Memory& m, Shared& s, const Instruction& in, Place& me)
{
    constexpr int MANY = (FFN / 4 + CONSUMERS - 1) / CONSUMERS;  // pairs of words
    inputs_ready(m, in, me);
    ulonglong2 v[MANY];
    take(v, in.layer + 1, [&](int i) { return m.vectors->hidden + 2 * nth<FFN / 4>(i, me); });
    #pragma unroll
    for (int i = 0; i < MANY; ++i)
        if (keeps<FFN / 4>(i, me)) ((uint2*)s.x)[nth<FFN / 4>(i, me)] = make_uint2(u32(v[i].x), u32(v[i].y));
}

__device__ void spread(float (&to)[8], uint4 v)
{
    to[0] = low(v.x), to[1] = high(v.x), to[2] = low(v.y), to[3] = high(v.y);
    to[4] = low(v.z), to[5] = high(v.z), to[6] = low(v.w), to[7] = high(v.w);
}
// d (16 x 8) += a (16 x 16) b (16 x 8), bfloat16 with sums in float32.
__device__ void multiply_add(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// A warp's sums of a page: of its four rows times x or, with QUARTERS, of the quarters of one row times those of x.
//
// A tensor core takes 16 rows and 8 columns, and a page has four rows and x is one column. So each row is cut into four
// parts, 32 numbers in every 128: those are the 16 rows, and the same parts of x the columns. Of 16 x 8 products the
// diagonals count, part by part. Which number of a part comes first is the same in both, and so does not matter: a lane
// reads 16 bytes at once. The first sum is of row 0 in lanes 0 to 15 and of row 1 in the others, the second of 2 and 3.
template <bool QUARTERS> __device__ void sums_of(const u8* page, const u16* x, int lane, float (&sums)[2])
{
    int row = lane / 16, part = lane / 4 % 4, piece = 4 * part + lane % 4;
    const uint4 *upper = (const uint4*)(page + row * ROW) + piece, *lower = upper + 2 * ROW / 16;
    const uint4 *of_upper = (const uint4*)x + (QUARTERS ? row * (ROW / 16) : 0) + piece;
    float d[2][4] = {}, e[2][4] = {};
    #pragma unroll 4
    for (int j = 0; j < WIDTH / 8; j += 16) {
        uint4 a = upper[j], b = lower[j], u = of_upper[j];
        multiply_add(d[0], a.x, b.x, a.y, b.y, u.x, u.y);
        multiply_add(d[1], a.z, b.z, a.w, b.w, u.z, u.w);
        if (QUARTERS) {
            uint4 v = of_upper[j + 2 * ROW / 16];
            multiply_add(e[0], a.x, b.x, a.y, b.y, v.x, v.y);
            multiply_add(e[1], a.z, b.z, a.w, b.w, v.z, v.w);
        }
    }
    int column = lane / 4;  // of the diagonal: a lane has two columns of its row, and of the one eight below
    bool mine = lane % 4 == column / 2, odd = column % 2;
    float (&f)[2][4] = QUARTERS ? e : d;
    sums[0] = !mine ? 0 : odd ? d[0][1] + d[1][1] : d[0][0] + d[1][0];
    sums[1] = !mine ? 0 : odd ? f[0][3] + f[1][3] : f[0][2] + f[1][2];
    #pragma unroll
    for (int i = 8; i; i /= 2)
        for (int half = 0; half < 2; ++half) sums[half] += __shfl_xor_sync(~0u, sums[half], i);
}
// The four sums of each page: of a row each or, of DOWN, of a quarter of one row. A slot of the ring is the same warp's
// each time round: one that came to a slot for the first time could take the round before for its own.
__device__ void multiply(const Memory& m, Shared& s, const Instruction& in, Place& me)
{
    if (me.warp >= SLOTS) return;
    int i = (me.warp + SLOTS - me.taken % SLOTS) % SLOTS, parity = (me.taken + i) / SLOTS & 1;
    #pragma unroll 1
    for (; i < in.pages; i += SLOTS, parity ^= 1) {
        wait(s.full[me.warp], parity);
        if (m.recording && i == 0 && me.lane == 0) s.loaded = now();
        float sums[2];
        if (in.op == DOWN) sums_of<true>(s.pages[me.warp], s.x, me.lane, sums);
        else sums_of<false>(s.pages[me.warp], s.x, me.lane, sums);
        __syncwarp();  // all lanes have read the page
        if (me.lane == 0) arrive(s.empty[me.warp]);
        if (me.lane % 16 == 0) {
            s.results[4 * i + me.lane / 16] = sums[0];
            s.results[4 * i + 2 + me.lane / 16] = sums[1];
        }
    }
}

// Queries and keys are turned by their position, two outputs at a time. Later steps find keys and values in the cache.
__device__ void store_qkv(const Memory& m, Shared& s, const Instruction& in, Place& me)
{
    if (me.thread >= 2 * in.pages) return;
    int row = in.row + 2 * me.thread, of_head = (GROUP + 2) * HEAD;
    int head = row / of_head, part = row % of_head / HEAD, d = row % HEAD;
    float a = s.results[2 * me.thread], b = s.results[2 * me.thread + 1];
    if (part <= GROUP) {  // not values
        float c = s.turns[d], sine = s.turns[d + 1], turned = a * c - b * sine;
        b = a * sine + b * c;
        a = turned;
    }
    u32 flag = in.layer + 1;
    if (part < GROUP) {
        give(m.vectors->q + (head * GROUP + part) * HEAD + d, word(a, flag), word(b, flag));
    } else {
        give(m.vectors->fresh + (2 * head + part - GROUP) * (HEAD / 2) + d / 2, word(pair(a, b), flag));
        u64 page = ((u64(in.layer) * KV_HEADS + head) * BLOCKS + m.position / POSITIONS) * 2 + part - GROUP;
        *(u32*)(m.cache + (page * POSITIONS + m.position % POSITIONS) * HEAD + d) = pair(a, b);
    }
}
__device__ void store_hidden(const Memory& m, Shared& s, const Instruction& in, Place& me)
{
    if (me.thread >= in.pages) return;
    const float* sums = s.results + 4 * me.thread;  // gate and up, twice
    u32 made = pair(sums[0] / (1 + __expf(-sums[0])) * sums[1], sums[2] / (1 + __expf(-sums[2])) * sums[3]);
    give(m.vectors->hidden + in.row / 4 + me.thread, word(made, in.layer + 1));
}
__device__ void store_logits(const Memory& m, Shared& s, const Instruction& in, Place& me)
{
    if (me.warp > 0) return;
    u64 best = 0;
    for (int i = me.lane; i < 4 * in.pages; i += 32) {
        float logit = s.results[i];
        m.logits[in.row + i] = logit;
        u32 bits = __float_as_uint(logit);
        bits = bits >> 31 ? ~bits : bits | 1u << 31;  // in the order of the floats
        best = max(best, u64(bits) << 32 | u32(~(in.row + i)));  // of equals the first
    }
    #pragma unroll
    for (int d = 16; d; d /= 2) best = max(best, __shfl_xor_sync(~0u, best, d));
    if (me.lane == 0) atomicMax(m.chosen + m.position, best);
}

__device__ void product(const Memory& m, Shared& s, const Instruction& in, Place& me)
{
    bool adds = in.op == OUT || in.op == DOWN;
    int per_row = in.op == DOWN ? 4 : 1, rows = 4 * in.pages / per_row;
    u32 flag = 2 * in.layer + 1 + (in.op == DOWN);  // of the rows of x to add to
    u64 before[1] = {};
    auto take_before = [&] {
        if (adds && me.thread < rows) take(before, flag, [&](int) { return m.vectors->x + in.row + me.thread; });
    };
    if (FLAGS) take_before();  // they are there long before the inputs are, but only flags can say so
    if (in.op == OUT) take_attention(m, s, in, me);
    else if (in.op == DOWN) take_hidden(m, s, in, me);
    else take_normed(m, s, in, me);
    if (!FLAGS) take_before();
    sync_consumers();
    multiply(m, s, in, me);
    sync_consumers();
    if (in.op == QKV) store_qkv(m, s, in, me);
    if (in.op == GATE_UP) store_hidden(m, s, in, me);
    if (in.op == LOGITS) store_logits(m, s, in, me);
    if (adds && me.thread < rows) {
        float sum = number(before[0]);
        for (int i = 0; i < per_row; ++i) sum += s.results[per_row * me.thread + i];
        give(m.vectors->x + in.row + me.thread, word(sum, flag + 1));
    }
}

// The heads of one group over the positions of one page: keys and values come from the ring but for those of this
// position, which this step has made.
__device__ void attend(const Memory& m, Shared& s, const Instruction& in, Place& me)
{
    Attention& a = s.attention;
    int head = in.row / BLOCKS * GROUP, block = in.row % BLOCKS, first = block * POSITIONS;
    int fresh = m.position - first;  // the row of this position, if it is in this page
    const uint4* keys = (const uint4*)page_of(s, me.taken);
    const uint4* values = (const uint4*)page_of(s, me.taken + 1);
    if (m.recording && me.thread == 0) s.loaded = now();
    inputs_ready(m, in, me);
    u32 flag = in.layer + 1;
    ulonglong2 got[1];
    if (me.thread < GROUP * HEAD / 2) {
        take(got, flag, [&](int) { return m.vectors->q + head * HEAD + 2 * me.thread; });
        ((float2*)a.q)[me.thread] = make_float2(number(got[0].x) * 0.125f, number(got[0].y) * 0.125f);
    }
    if (me.warp == WARPS - 1 && fresh < POSITIONS) {
        take(got, flag, [&](int) { return m.vectors->fresh + in.row / BLOCKS * HEAD + 2 * me.lane; });
        ((uint2*)a.fresh)[me.lane] = make_uint2(u32(got[0].x), u32(got[0].y));
    }
    sync_consumers();
    for (int i = me.thread; i < GROUP * POSITIONS; i += CONSUMERS) {
        int p = i % POSITIONS;
        const float* q = a.q + i / POSITIONS * HEAD;
        const uint4* key = p == fresh ? a.fresh[0] : keys + p * (HEAD / 8);
        float score = 0;
        #pragma unroll
        for (int j = 0; j < HEAD / 8; ++j) {
            int other = (j + p) % (HEAD / 8);  // neighbours begin in other banks
            float k[8];
            spread(k, key[other]);
            #pragma unroll
            for (int e = 0; e < 8; ++e) score += k[e] * q[8 * other + e];
        }
        a.scores[i] = p <= fresh ? score : LEAST;
    }
    sync_consumers();
    if (me.warp < GROUP) {
        float* scores = a.scores + me.warp * POSITIONS;
        float most = LEAST, sum = 0;
        for (int p = me.lane; p < POSITIONS; p += 32) most = fmaxf(most, scores[p]);
        most = warp_max(most);
        for (int p = me.lane; p < POSITIONS; p += 32) sum += scores[p] = __expf(scores[p] - most);
        sum = warp_sum(sum);
        if (me.lane == 0)
            give(m.vectors->peaks + 2 * ((head + me.warp) * BLOCKS + block), word(most, flag), word(sum, flag));
    }
    sync_consumers();
    int of_group = me.warp % GROUP, piece = me.lane % 8;
    float sums[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    for (int p = me.warp / GROUP * 4 + me.lane / 8; p < POSITIONS; p += 4 * SLICES) {
        float weight = a.scores[of_group * POSITIONS + p], v[8];
        spread(v, p == fresh ? a.fresh[1][piece] : values[p * (HEAD / 8) + piece]);
        #pragma unroll
        for (int e = 0; e < 8; ++e) sums[e] += weight * v[e];
    }
    #pragma unroll
    for (int e = 0; e < 8; ++e) {
        sums[e] += __shfl_xor_sync(~0u, sums[e], 8);
        sums[e] += __shfl_xor_sync(~0u, sums[e], 16);
        if (me.lane < 8) a.sums[me.warp * HEAD + 8 * piece + e] = sums[e];
    }
    sync_consumers();
    if (me.thread == 0)
        for (u32 p = me.taken; p < me.taken + 2; ++p) arrive(s.empty[p % SLOTS]);
    for (int i = me.thread; i < GROUP * HEAD; i += CONSUMERS) {
        float sum = 0;
        for (int w = 0; w < SLICES; ++w) sum += a.sums[(w * GROUP + i / HEAD) * HEAD + i % HEAD];
        give(m.vectors->parts + ((head + i / HEAD) * BLOCKS + block) * HEAD + i % HEAD, word(sum, flag));
    }
}

extern "C" __global__ void __launch_bounds__(CONSUMERS + 32, 1) decode(
    const Instruction* list, int length, int position, int set, const u16* weights, const u16* gains, u16* cache,
    const float* turns, const int* given, u64* chosen, Vectors* vectors, float* logits, u32* counters, u32* records,
    int recording)
{
    extern __shared__ u8 memory[];
    Shared& s = *(Shared*)memory;
    Memory m = {list, length, position, set, weights, gains, cache, turns, given, chosen, vectors + set, logits,
                counters, records, recording != 0};
    Place me = {int(threadIdx.x), int(threadIdx.x / 32), int(threadIdx.x % 32), 0, 0};
    if (me.thread < SLOTS) {
        init(s.full[me.thread], 1);
        init(s.empty[me.thread], 1);
    }
    if (me.thread < HEAD) s.turns[me.thread] = turns[position * HEAD + me.thread];
    if (blockIdx.x == 0)  // the counters of the next step, and its vectors
        for (int i = me.thread; i < COUNTERS; i += blockDim.x) counters[(1 - set) * COUNTERS + i] = 0;
    for (u32 i = blockIdx.x * blockDim.x + me.thread; i < sizeof(Vectors) / sizeof(uint4); i += gridDim.x * blockDim.x)
        ((uint4*)(vectors + 1 - set))[i] = make_uint4(0, 0, 0, 0);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    __syncthreads();
    if (me.warp == WARPS) {
        if (me.lane == 0) load_pages(m, s);
        return;
    }
    Instruction next = read(m, 0);
    for (int n = 0; next.op != STOP; ++n) {
        Instruction in = next;
        u32 begun = me.ready = recording ? now() : 0;
        if (me.thread == 0) s.loaded = begun;
        next = read(m, n + 1);
        if (in.op == EMBED) embed(m, in, me);
        else if (in.op == ATTEND) attend(m, s, in, me);
        else product(m, s, in, me);
        sync_consumers();
        me.taken += in.pages;
        if (me.thread == 0) {
            u32 done = recording ? now() : 0;
            if (in.bump >= 0) bump(counters + set * COUNTERS + in.bump);
            if (recording) {
                u32 times[TIMES] = {begun, me.ready, s.loaded, done, now()};
                for (int i = 0; i < TIMES; ++i) records[(blockIdx.x * length + n) * TIMES + i] = times[i];
            }
        }
    }
}

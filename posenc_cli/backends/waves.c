/* Tables of scale * cos(n w) and scale * sin(n w), each cell rounded once or left to be settled.

   A position is split into digits. The lowest is a row of the low table, X and Y; the product of the
   others' rows and the scale, in double-double, gives U and V of ROWS positions at a time. A cell is
   X U + Y V; of a pair of columns that share a wave the other is Y U - X V. Where cell + margin and
   cell - margin round to the same number, that is the right one; the other cells are listed, and
   whoever calls settles them. So no byte depends on instructions, threads or order.

   The bounds are those of posenc_cli/numerics/waves.py and wide.py; backends/fast.py makes the
   tables. Compile with -ffp-contract=off: what is exact here is exact as it is written. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))
#define EXPORT __attribute__((visibility("default")))

enum { LOW_BITS = 6, ROWS = 1 << LOW_BITS }; /* of the lowest digit */
enum { DIGIT_BITS = 5, DIGITS = 10 };        /* of the others */
enum { BLOCK = 16 }; /* rows at a time: they and their low table stay in the first cache */
enum { WITH_WAITING = 2 }; /* a way to stream: with lines of another buffer in between */
enum { MOST_LANES = 8 };
enum { MOST_PARTS = 4 }; /* vectors of heads at a time, for lines that are written whole */
enum format { FLOAT64, FLOAT32, BFLOAT16, FLOAT16 };
enum layout { COLUMNS, HALVES, ALTERNATE };

struct table {
    int64_t heads;  /* columns, or pairs of them */
    int64_t padded; /* heads, up to a multiple of MOST_LANES: the length of every row below */
    int32_t format, layout, digits, instructions;
    double scale, scale_low; /* the scale in double-double */
    double factor;           /* of cells on their way to float16, a power of two; else 1 */
    double margin;           /* of a cell, times the bound of what is added up */
    double cancelled;        /* what cancellation adds to that bound */
    const double *low;           /* X, Y, and their low parts: 4 x ROWS rows */
    const double *high[DIGITS];  /* cos, its low part, sin, its low part: 4 x 2^DIGIT_BITS rows */
    const double *turn;          /* by head: 1 for a sine, -1 for a cosine */
    const double *rate;          /* by head: the size of its frequency */
    const double *reach_x, *reach_y; /* by head: the largest sizes of X and Y */
};

/* U and V of ROWS positions by head, their low parts, the margins of both cells and the grids of
   their sums; in a half precision the bits of the least float32 that is far enough from zero. */
struct factors {
    double *u, *v, *u_low, *v_low, *margin, *other_margin, *grid, *other_grid;
    uint32_t *floor, *other_floor;
};

/* Lines of 64 bytes that wait in a buffer to be written, `step` bytes apart. */
struct waiting {
    const char *from;
    char *to;
    int64_t step, lines;
};

/* Positions with the same factors: their rows of the low table, where their cells go, and their
   doubts, and lines that are written meanwhile. */
struct group {
    const struct table *table;
    const struct factors *by;
    int64_t count, offsets[BLOCK];
    char *out;
    int64_t stride;
    struct waiting waiting;
    uint32_t doubts[BLOCK][MOST_LANES]; /* of the heads that were filled last */
};

/* Rows without gaps that do not begin at a line of 64 bytes. A side is the cosines of a row, or its
   sines, or the whole row where they alternate. The line in which a side begins holds the last heads
   of the side before and the first of this one: the edge. So that the other heads fill whole lines,
   a copy of the low table has the edge last: its first heads, then the last ones. */
struct shifted {
    struct table inner, edge;
    struct factors inner_by, edge_by;
    struct group inner_group, edge_group;
    int64_t first, tail; /* first heads in the edge; bytes of the line before a side begins */
};

struct found {
    int64_t *places, capacity, count;
};

INLINE uint32_t bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

INLINE double size_of(double value) { return __builtin_fabs(value); }

/* A double rounded to a half precision. Cut off to a float32 it stays on its side of every tie; then
   the bits are the upper 16. */
INLINE uint16_t half_of(double value, int float16) {
    float single = (float)value;
    uint32_t word = bits_of_float(single) - (size_of((double)single) > size_of(value));
    uint32_t tie = float16 ? 1u << 12 : 1u << 15;
    return (uint16_t)((((word + tie) << (float16 ? 3 : 0)) | (word & 0x80000000u)) >> 16);
}

/* The bits of the least float32 that is far enough from zero: above 2^26 margins one lies on the
   exact value's side of every tie but its own. A margin below a quarter of the smallest float32
   leaves only what is rounded to zero in doubt. */
INLINE uint32_t least_apart(double margin) {
    return margin > 0x1p-151 ? bits_of_float((float)(margin * 0x1.00001p26)) : margin > 0;
}

/* List the cells of a head that are not proven. Those of half precisions are looked at again, with
   their margins, and written. */
static void list(const struct group *group, int64_t r, int64_t k, int64_t row, struct found *found) {
    const struct table *table = group->table;
    const struct factors *by = group->by;
    int cells = table->layout == COLUMNS ? 1 : 2;
    int64_t step = table->layout == ALTERNATE ? 2 : 1, apart = step == 2 ? 1 : table->heads;
    double x = table->low[group->offsets[r] + k];
    double y = table->low[group->offsets[r] + k + ROWS * table->padded];
    for (int second = 0; second < cells; second++) {
        int64_t column = k * step + second * apart;
        if (table->format == BFLOAT16 || table->format == FLOAT16) {
            double cell = second ? y * by->u[k] - x * by->v[k] : x * by->u[k] + y * by->v[k];
            double margin = second ? by->other_margin[k] : by->margin[k];
            uint16_t upper = half_of(cell + margin, table->format == FLOAT16);
            memcpy(group->out + r * group->stride + 2 * column, &upper, 2);
            if (upper == half_of(cell - margin, table->format == FLOAT16)) continue;
        }
        if (found->count < found->capacity)
            found->places[found->count] = row * cells * table->heads + column;
        found->count++;
    }
}

/* Copy those heads of a row that are in the edge. */
INLINE void copy_edge(const struct shifted *shifted, double *to, const double *row) {
    int64_t last = shifted->edge.heads - shifted->first;
    memcpy(to, row, 8 * shifted->first);
    memcpy(to + shifted->first, row + shifted->inner.heads - last, 8 * last);
}

/* The upper halves of words, one after the other in memory. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define PAIRED(first, second) ((first) >> 16 | ((second) & 0xffff0000u))
#else
#define PAIRED(first, second) (((first) & 0xffff0000u) | (second) >> 16)
#endif

/* Numbers of two vectors, by their places. */
#ifdef __clang__
#define SHUFFLED(type, first, second, ...) __builtin_shufflevector(first, second, __VA_ARGS__)
#else
#define SHUFFLED(type, first, second, ...) __builtin_shuffle(first, second, (type){__VA_ARGS__})
#endif

#define JOINED(name, suffix) name##_##suffix
#define NAMED(name, suffix) JOINED(name, suffix)
#define NAME(name) NAMED(name, SUFFIX)

#define SUFFIX plain
#define TARGET
#define LANES 4
#define STREAM_LINE(out, from)  \
    for (int i = 0; i < 4; i++) \
    _mm_stream_si128((__m128i *)(out) + i, _mm_loadu_si128((const __m128i *)(from) + i))
#include "waves_kernel.h"

#if defined(__x86_64__)
#define SUFFIX avx2
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 4
#define FUSED _mm256_fmadd_pd
#define LEAST(one, other) _mm_min_epu32((__m128i)(one), (__m128i)(other))
#define STREAM_LINE(out, from)  \
    for (int i = 0; i < 2; i++) \
    _mm256_stream_si256((__m256i *)(out) + i, _mm256_loadu_si256((const __m256i *)(from) + i))
#define STREAM(out, from, size)                                                                 \
    do {                                                                                        \
        if ((size) == 32)                                                                       \
            _mm256_stream_si256((__m256i *)(out), _mm256_loadu_si256((const __m256i *)(from))); \
        else                                                                                    \
            _mm_stream_si128((__m128i *)(out), _mm_loadu_si128((const __m128i *)(from)));       \
    } while (0)
#include "waves_kernel.h"

#define SUFFIX avx512
#define TARGET __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")))
#define LANES 8
#define FUSED _mm512_fmadd_pd
#define LEAST(one, other) _mm256_min_epu32((__m256i)(one), (__m256i)(other))
#define STREAM_LINE(out, from) _mm512_stream_si512((__m512i *)(out), _mm512_loadu_si512(from))
#define STREAM(out, from, size)                                                           \
    do {                                                                                  \
        if ((size) == 64) STREAM_LINE(out, from);                                         \
        if ((size) == 32)                                                                 \
            _mm256_stream_si256((__m256i *)(out), _mm256_loadu_si256((const __m256i *)(from))); \
        if ((size) == 16)                                                                 \
            _mm_stream_si128((__m128i *)(out), _mm_loadu_si128((const __m128i *)(from)));       \
    } while (0)
#include "waves_kernel.h"
#endif

/* The best instructions of this processor whose registers the system keeps: 0 plain, 1 AVX2,
   2 AVX-512. Asked of the processor itself: Zig's __builtin_cpu_supports always says no. */
EXPORT int32_t posenc_instructions(void) {
#if defined(__x86_64__)
    const unsigned avx512 = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
    unsigned eax, ebx, ecx, edx, kept, upper;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx)) return 0;
    if (!(ecx & bit_OSXSAVE) || !(ecx & bit_FMA)) return 0;
    __asm__("xgetbv" : "=a"(kept), "=d"(upper) : "c"(0));
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return 0;
    if (!(ebx & bit_AVX2) || (kept & 0x06) != 0x06) return 0;
    return (ebx & avx512) == avx512 && (kept & 0xe6) == 0xe6 ? 2 : 1;
#else
    return 0;
#endif
}

/* Write the cells of some positions, none negative, one row each; return how many are not proven,
   or -1 without memory. Of these the first are listed, as indices of the cells in row after row.
   streamed: out is large, and passes the caches by. */
EXPORT int64_t posenc_fill(const struct table *table, const int64_t *positions, int64_t rows,
                           char *out, int64_t stride, int32_t streamed, int64_t *places,
                           int64_t capacity) {
    struct found found = {places, capacity, 0};
    int done;
    switch (table->instructions) {
#if defined(__x86_64__)
    case 2:
        done = fill_avx512(table, positions, rows, out, stride, streamed, &found);
        break;
    case 1:
        done = fill_avx2(table, positions, rows, out, stride, streamed, &found);
        break;
#endif
    default:
        done = fill_plain(table, positions, rows, out, stride, streamed, &found);
    }
    return done ? found.count : -1;
}

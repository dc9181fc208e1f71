/* Tables of scale * cos(n w) and scale * sin(n w), each cell rounded once or left to be settled.

   A position is split into digits of five bits. The lowest is a row of the low table, X and Y; the
   product of the others' rows and the scale, in double-double, gives U and V of 32 positions at a
   time. A cell is X U + Y V; of a pair of columns that share a wave the other is Y U - X V. Where
   cell + margin and cell - margin round to the same number, that is the right one; the other cells
   are listed, and whoever calls settles them. So no byte depends on instructions, threads or order.

   The bounds are those of posenc_cli/numerics/waves.py and wide.py; backends/fast.py makes the
   tables. Compile with -ffp-contract=off: what is exact here is exact as it is written. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

/* Numbers of an array of the caller's, which may lie anywhere. */
typedef uint16_t any16 __attribute__((aligned(1), may_alias));
typedef uint32_t any32 __attribute__((aligned(1), may_alias));
typedef uint64_t any64 __attribute__((aligned(1), may_alias));
typedef double any_double __attribute__((aligned(1), may_alias));

#define INLINE static inline __attribute__((always_inline))
#define EXPORT __attribute__((visibility("default")))

enum { ROWS = 32, DIGIT_BITS = 5, DIGITS = 10, MOST_LANES = 16 };
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
    const double *high[DIGITS];  /* cos, its low part, sin, its low part: 4 x ROWS rows each */
    const double *turn;          /* by head: 1 for a sine, -1 for a cosine */
    const double *rate;          /* by head: the size of its frequency */
    const double *reach_x, *reach_y; /* by head: the largest sizes of X and Y */
};

/* U and V of one group of positions by head, their low parts, and the margins of both cells; in a
   half precision also the bits of the least float32 that is far enough from zero. */
struct factors {
    double *u, *v, *u_low, *v_low, *margin, *other_margin;
    int32_t *floor, *other_floor;
};

/* Positions of one group: their rows of the low table, where their cells go, and their doubts. */
struct group {
    const struct table *table;
    const struct factors *by;
    int64_t count, offsets[ROWS];
    char *out;
    int64_t stride;
    uint32_t doubts[ROWS][MOST_LANES];
    uint64_t wide_doubts[ROWS][MOST_LANES]; /* of float64 */
};

struct found {
    int64_t *places, capacity, count;
};

INLINE uint32_t bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

INLINE uint64_t bits_of_double(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

INLINE double size_of(double value) { return __builtin_fabs(value); }

INLINE double smaller(double left, double right) { return left < right ? left : right; }

/* What left + right leaves of its rounded sum: exact (Knuth). */
INLINE double sum_error(double left, double right, double sum) {
    double moved = sum - left;
    return (left - (sum - moved)) + (right - moved);
}

/* A float32 rounded to a half precision: its bits are the upper 16, and the lower 0 at a tie. */
INLINE uint32_t half_bits(uint32_t word, int float16) {
    uint32_t tie = float16 ? 1u << 12 : 1u << 15;
    return ((word + tie) << (float16 ? 3 : 0)) | (word & 0x80000000u);
}

/* The bits of a double cut off to a float32, which stays on its side of every tie. */
INLINE uint32_t cut_bits(double value) {
    float single = (float)value;
    return bits_of_float(single) - (size_of((double)single) > size_of(value) ? 1u : 0u);
}

/* Two neighbours in memory as one word. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define PAIRED(word, first, second) ((word)(first) | (word)(second) << (4 * sizeof(word)))
#else
#define PAIRED(word, first, second) ((word)(second) | (word)(first) << (4 * sizeof(word)))
#endif

#define JOINED(name, suffix) name##_##suffix
#define NAMED(name, suffix) JOINED(name, suffix)
#define NAME(name) NAMED(name, SUFFIX)

#define SUFFIX plain
#define TARGET
#define LANES 4
#if defined(__FP_FAST_FMA)
#define FUSED 1
#else
#define FUSED 0
#endif
#include "waves_kernel.h"

#if defined(__x86_64__)
#define SUFFIX avx2
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#define FUSED 1
#include "waves_kernel.h"

#define SUFFIX avx512
#define TARGET __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")))
#define LANES 16
#define FUSED 1
#include "waves_kernel.h"
#endif

/* The best instructions this machine has: 0 plain, 1 AVX2, 2 AVX-512. */
EXPORT int32_t posenc_instructions(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    int avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                 __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    return avx2 ? avx512 ? 2 : 1 : 0;
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

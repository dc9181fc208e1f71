/* The kernel for one set of instructions: SUFFIX, TARGET, LANES (heads computed at once), FUSED
   (left * right + addend of vectors, rounded once; not everywhere) and STREAM_LINE (64 bytes past
   the caches) are defined by whoever includes it. */

/* The bytes that LANES heads have side by side, and how many times as many heads fill a line of 64
   bytes; 0 where registers do not hold them. */
#define SPAN(size, layout) (LANES * (size) * ((layout) == ALTERNATE ? 2 : 1))
#define PARTS(size, layout)           \
    (SPAN(size, layout) >= 64 ? 1     \
     : 64 / SPAN(size, layout) > MOST_PARTS ? 0 : 64 / SPAN(size, layout))

#define DO TARGET INLINE
#define EACH_PART for (int i = 0; i < (parts ? parts : 1); i++)

/* A number of the one vector and of the other in turn: two vectors. UPPER: every second number of
   two vectors of twice as many. */
#if LANES == 8
#define UPPER 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define IN_TURN(type, one, other)                          \
    {SHUFFLED(type, one, other, 0, 8, 1, 9, 2, 10, 3, 11), \
     SHUFFLED(type, one, other, 4, 12, 5, 13, 6, 14, 7, 15)}
#else
#define UPPER 1, 3, 5, 7, 9, 11, 13, 15
#define IN_TURN(type, one, other) \
    {SHUFFLED(type, one, other, 0, 4, 1, 5), SHUFFLED(type, one, other, 2, 6, 3, 7)}
#endif

typedef double NAME(doubles) __attribute__((vector_size(8 * LANES)));
typedef uint64_t NAME(longs) __attribute__((vector_size(8 * LANES)));
typedef float NAME(floats) __attribute__((vector_size(4 * LANES)));
typedef uint32_t NAME(words) __attribute__((vector_size(4 * LANES)));
typedef uint16_t NAME(packed) __attribute__((vector_size(4 * LANES)));
typedef uint16_t NAME(shorts) __attribute__((vector_size(2 * LANES)));

DO NAME(doubles) NAME(read)(const double *from) {
    NAME(doubles) vector;
    memcpy(&vector, from, sizeof vector);
    return vector;
}

DO void NAME(write)(double *to, NAME(doubles) vector) { memcpy(to, &vector, sizeof vector); }

DO NAME(doubles) NAME(size)(NAME(doubles) vector) {
    return (NAME(doubles))((NAME(longs))vector & INT64_MAX);
}

DO NAME(doubles) NAME(chosen)(NAME(longs) yes, NAME(doubles) one, NAME(doubles) other) {
    return (NAME(doubles))((yes & (NAME(longs))one) | (~yes & (NAME(longs))other));
}

DO NAME(words) NAME(least)(NAME(words) one, NAME(words) other) {
#ifdef LEAST
    return (NAME(words))LEAST(one, other);
#else
    NAME(words) yes = (NAME(words))(one < other);
    return (yes & one) | (~yes & other);
#endif
}

#if defined(FUSED)
#define MULTIPLY_ADD FUSED
#elif defined(__FP_FAST_FMA)
#define MULTIPLY_ADD NAME(fused)
DO NAME(doubles) NAME(fused)(NAME(doubles) left, NAME(doubles) right, NAME(doubles) addend) {
    for (int i = 0; i < LANES; i++) addend[i] = __builtin_fma(left[i], right[i], addend[i]);
    return addend;
}
#endif

DO NAME(doubles) NAME(added)(NAME(doubles) left, NAME(doubles) right, NAME(doubles) addend) {
#ifdef MULTIPLY_ADD
    return MULTIPLY_ADD(left, right, addend);
#else
    return left * right + addend;
#endif
}

/* What left * right leaves of its rounded product: exact (Dekker where nothing is fused). */
DO NAME(doubles) NAME(product_error)(NAME(doubles) left, NAME(doubles) right,
                                     NAME(doubles) product) {
#ifdef MULTIPLY_ADD
    return MULTIPLY_ADD(left, right, -product);
#else
    NAME(doubles) scaled = left * 0x1.0000002p27, a = scaled - (scaled - left), b = left - a;
    scaled = right * 0x1.0000002p27;
    NAME(doubles) c = scaled - (scaled - right), d = right - c;
    return ((a * c - product) + a * d + b * c) + b * d;
#endif
}

/* left * right + addend, where the addend is the product, rounded and negated. */
DO NAME(doubles) NAME(remainder)(NAME(doubles) left, NAME(doubles) right, NAME(doubles) addend) {
#ifdef MULTIPLY_ADD
    return MULTIPLY_ADD(left, right, addend);
#else
    NAME(doubles) product = left * right;
    return (product + addend) + NAME(product_error)(left, right, product);
#endif
}

/* What left + right leaves of its rounded sum: exact (Knuth). */
DO NAME(doubles) NAME(sum_error)(NAME(doubles) left, NAME(doubles) right, NAME(doubles) sum) {
    NAME(doubles) moved = sum - left;
    return (left - (sum - moved)) + (right - moved);
}

/* result = left * right, complex numbers in double-double; parts of right are right_stride apart. */
DO void NAME(multiply)(int64_t count, double *restrict result, const double *restrict left,
                       const double *restrict right, int64_t right_stride) {
    for (int64_t k = 0; k < count; k += LANES) {
        NAME(doubles) a = NAME(read)(left + k), a_low = NAME(read)(left + count + k);
        NAME(doubles) b = NAME(read)(left + 2 * count + k);
        NAME(doubles) b_low = NAME(read)(left + 3 * count + k);
        NAME(doubles) c = NAME(read)(right + k), c_low = NAME(read)(right + right_stride + k);
        NAME(doubles) d = NAME(read)(right + 2 * right_stride + k);
        NAME(doubles) d_low = NAME(read)(right + 3 * right_stride + k);
        NAME(doubles) p = a * c, q = b * d, sum = p - q;
        NAME(doubles) low = NAME(sum_error)(p, -q, sum) +
                            ((NAME(product_error)(a, c, p) - NAME(product_error)(b, d, q)) +
                             ((a * c_low + a_low * c) - (b * d_low + b_low * d)));
        NAME(write)(result + k, sum + low);
        NAME(write)(result + count + k, NAME(sum_error)(sum, low, sum + low));
        p = a * d, q = b * c, sum = p + q;
        low = NAME(sum_error)(p, q, sum) +
              ((NAME(product_error)(a, d, p) + NAME(product_error)(b, c, q)) +
               ((a * d_low + a_low * d) + (b * c_low + b_low * c)));
        NAME(write)(result + 2 * count + k, sum + low);
        NAME(write)(result + 3 * count + k, NAME(sum_error)(sum, low, sum + low));
    }
}

/* 1.5 times the power of two that is 4 to 8 times the bound. */
DO NAME(doubles) NAME(grid)(NAME(doubles) bound) {
    NAME(longs) exponent = (NAME(longs))bound & 0x7ff0000000000000;
    return (NAME(doubles))(exponent + 0x0038000000000000);
}

/* The factors of the ROWS positions from `first` on, of which `phasor` is scale * exp(i first w). */
DO void NAME(prepare)(const struct table *table, const struct factors *by,
                      const double *restrict phasor, int64_t first) {
    int64_t count = table->padded;
    double end = (double)(first + ROWS);
    NAME(doubles) zero = {0}, most = zero + size_of(table->scale);
    int half = table->format == BFLOAT16 || table->format == FLOAT16;
    for (int64_t k = 0; k < count; k += LANES) {
        NAME(doubles) turn = NAME(read)(table->turn + k), u = NAME(read)(phasor + k);
        NAME(doubles) v = NAME(read)(phasor + 2 * count + k) * turn;
        NAME(doubles) x = NAME(read)(table->reach_x + k), y = NAME(read)(table->reach_y + k);
        NAME(longs) cancels = (NAME(longs))(end * NAME(read)(table->rate + k) > 0.5);
        NAME(doubles) more = NAME(chosen)(cancels, zero + table->cancelled, zero);
        NAME(doubles) bound = x * NAME(size)(u) + y * NAME(size)(v) + more;
        NAME(doubles) other = y * NAME(size)(u) + x * NAME(size)(v) + more;
        bound = NAME(chosen)((NAME(longs))(bound < most), bound, most);
        other = NAME(chosen)((NAME(longs))(other < most), other, most);
        NAME(write)(by->u + k, u * table->factor);
        NAME(write)(by->v + k, v * table->factor);
        NAME(write)(by->u_low + k, NAME(read)(phasor + count + k));
        NAME(write)(by->v_low + k, NAME(read)(phasor + 3 * count + k) * turn);
        NAME(write)(by->grid + k, NAME(grid)(bound));
        NAME(write)(by->other_grid + k, NAME(grid)(other));
        NAME(write)(by->margin + k, bound * table->margin);
        NAME(write)(by->other_margin + k, other * table->margin);
    }
    for (int64_t k = 0; half && k < count; k++) {
        by->floor[k] = least_apart(by->margin[k]);
        by->other_floor[k] = least_apart(by->other_margin[k]);
    }
}

/* Cells x u + y v in a format; bits of `doubt` are set unless that proves them. */

DO NAME(words) NAME(to_single)(NAME(doubles) x, NAME(doubles) u, NAME(doubles) y, NAME(doubles) v,
                               NAME(doubles) margin, NAME(words) *doubt) {
    NAME(doubles) upper = NAME(added)(x, u, NAME(added)(y, v, margin));
    NAME(doubles) two = (NAME(doubles)){0} + 2, lower = NAME(added)(two, -margin, upper);
    NAME(words) word = (NAME(words))__builtin_convertvector(upper, NAME(floats));
    *doubt |= word ^ (NAME(words))__builtin_convertvector(lower, NAME(floats));
    return word;
}

/* Cells as the upper halves of words. The least size is kept, and the least that lies behind a tie:
   cells that are large enough and on no tie are proven. */
DO NAME(words) NAME(to_half)(NAME(doubles) cell, int float16, NAME(words) *size,
                             NAME(words) *apart) {
    NAME(words) word = (NAME(words))__builtin_convertvector(cell, NAME(floats));
    NAME(words) tie = (NAME(words)){0} + (float16 ? 1u << 12 : 1u << 15);
    NAME(words) rounded = word + tie;
    if (float16) rounded = rounded << 3 | (word & 0x80000000u);
    *size = NAME(least)(*size, word & 0x7fffffffu);
    *apart = NAME(least)(*apart, rounded << 16);
    return rounded;
}

DO NAME(words) NAME(doubtful)(NAME(words) size, NAME(words) floor, NAME(words) other_size,
                              NAME(words) other_floor, NAME(words) apart) {
    return (NAME(words))(size < floor) | (NAME(words))(other_size < other_floor) |
           (NAME(words))(apart == 0);
}

/* With all low parts. Sums with `grid` stay between two powers of two: so they are multiples of one
   last place, their differences are exact, and so is what they leave of the products, but for 2^-102
   of the bound. */
DO NAME(doubles) NAME(to_double)(const NAME(doubles) x[4], const NAME(doubles) y[4],
                                 NAME(doubles) grid, NAME(doubles) margin, NAME(longs) *doubt) {
    NAME(doubles) first = NAME(added)(x[0], x[1], grid), both = NAME(added)(y[0], y[1], first);
    NAME(doubles) rest = NAME(added)(x[2], x[1], NAME(added)(x[0], x[3], margin));
    rest = NAME(added)(y[2], y[1], NAME(added)(y[0], y[3], rest));
    rest += NAME(remainder)(x[0], x[1], grid - first) + NAME(remainder)(y[0], y[1], first - both);
    NAME(doubles) upper = (both - grid) + rest, lower = (both - grid) + (rest - 2 * margin);
    *doubt |= (NAME(longs))upper ^ (NAME(longs))lower;
    return upper;
}

/* Words of which bits are set where any are of the longs. */
DO NAME(words) NAME(folded)(NAME(longs) doubt) {
    return __builtin_convertvector(doubt | doubt >> 32, NAME(words));
}

DO int NAME(any)(NAME(words) doubt, int lanes) {
    uint32_t some = 0;
    for (int i = 0; i < lanes; i++) some |= doubt[i];
    return some != 0;
}

/* Write a vector; streamed, past the caches: then lines must be written whole, one vector after the
   other. */
DO void NAME(put)(char *to, const void *from, int64_t size, int streamed) {
#ifdef STREAM
    if (streamed) {
        STREAM(to, from, size);
        return;
    }
#endif
    (void)streamed;
    memcpy(to, from, size);
}

#ifdef STREAM
/* The upper halves of the words of two vectors, in their order. */
DO NAME(words) NAME(upper_halves)(NAME(words) one, NAME(words) other) {
    return (NAME(words))SHUFFLED(NAME(packed), (NAME(packed))one, (NAME(packed))other, UPPER);
}

DO void NAME(write_line)(struct waiting *waiting) {
    STREAM_LINE(waiting->to, waiting->from);
    waiting->to += waiting->step, waiting->from += 64, waiting->lines--;
}
#endif

/* Store the cells of heads k, k + 1, ... at `at`: LANES of them, or `lanes`. */

#define STORE_APART(first, second, size)                                                       \
    do {                                                                                       \
        NAME(put)(at, &first, (whole ? LANES : lanes) * (size), streamed);                     \
        if (layout == HALVES)                                                                  \
            NAME(put)(at + heads * (size), &second, (whole ? LANES : lanes) * (size), streamed); \
    } while (0)

#define STORE(type, first, second)                                                             \
    do {                                                                                       \
        int64_t size = (int64_t)(sizeof(type) / LANES);                                        \
        if (layout == ALTERNATE) {                                                             \
            type pairs[2] = IN_TURN(type, (type)first, (type)second);                          \
            if (parts) {                                                                       \
                NAME(put)(at, pairs, sizeof(type), streamed);                                  \
                NAME(put)(at + sizeof(type), pairs + 1, sizeof(type), streamed);               \
            } else {                                                                           \
                memcpy(at, pairs, 2 * size * (whole ? LANES : lanes));                         \
            }                                                                                  \
        } else {                                                                               \
            STORE_APART(first, second, size);                                                  \
        }                                                                                      \
    } while (0)

/* The cells of heads k ... k + LANES - 1, of which `lanes` are stored, in all rows of a group;
   which parts have one in doubt, as bits. With `parts` those of so many vectors, perhaps streamed.
   Noting the doubts of rows, it does not store: after streaming, that would load lines again. */

DO int NAME(single_tile)(struct group *group, int64_t k, int lanes, int whole, int layout,
                         int noting, int parts, int streamed) {
    const struct factors *by = group->by;
    const double *table = group->table->low + k;
    int64_t heads = group->table->heads, part = ROWS * group->table->padded;
    int64_t count = group->count, stride = group->stride;
    char *row = group->out + 4 * k * (layout == ALTERNATE ? 2 : 1);
    NAME(doubles) u[MOST_PARTS], v[MOST_PARTS], margin[MOST_PARTS], other[MOST_PARTS];
    EACH_PART {
        u[i] = NAME(read)(by->u + k + i * LANES), v[i] = NAME(read)(by->v + k + i * LANES);
        margin[i] = NAME(read)(by->margin + k + i * LANES);
        other[i] = NAME(read)(by->other_margin + k + i * LANES);
    }
    NAME(words) seen = {0}, second = {0};
    struct waiting waiting = group->waiting;
    for (int64_t r = 0; r < count; r++, row += stride) {
        NAME(words) doubt = {0};
        EACH_PART {
            const double *low = table + group->offsets[r] + i * LANES;
            char *at = row + i * 4 * LANES * (layout == ALTERNATE ? 2 : 1);
            NAME(doubles) x = NAME(read)(low), y = NAME(read)(low + part);
            NAME(words) first = NAME(to_single)(x, u[i], y, v[i], margin[i], &doubt);
            if (layout != COLUMNS) second = NAME(to_single)(y, u[i], x, -v[i], other[i], &doubt);
            if (!noting) STORE(NAME(words), first, second);
        }
        if (noting) memcpy(group->doubts[r], &doubt, sizeof doubt);
#ifdef STREAM
        if (streamed == WITH_WAITING && waiting.lines) NAME(write_line)(&waiting);
#endif
        seen |= doubt;
    }
    if (streamed == WITH_WAITING) group->waiting = waiting;
    return NAME(any)(seen, lanes) ? -1 : 0;
}

DO int NAME(half_tile)(struct group *group, int64_t k, int lanes, int whole, int layout,
                       int noting, int parts, int streamed, int float16) {
    const struct factors *by = group->by;
    const double *table = group->table->low + k;
    int64_t heads = group->table->heads, part = ROWS * group->table->padded;
    int64_t count = group->count, stride = group->stride;
    char *row = group->out + 2 * k * (layout == ALTERNATE ? 2 : 1);
    NAME(doubles) u[MOST_PARTS], v[MOST_PARTS];
    NAME(words) most = ~(NAME(words)){0}, apart[MOST_PARTS];
    NAME(words) first[MOST_PARTS], second[MOST_PARTS] = {{0}};
    NAME(words) floor[MOST_PARTS], other[MOST_PARTS], size[MOST_PARTS], other_size[MOST_PARTS];
    EACH_PART {
        u[i] = NAME(read)(by->u + k + i * LANES), v[i] = NAME(read)(by->v + k + i * LANES);
        memcpy(floor + i, by->floor + k + i * LANES, sizeof *floor);
        memcpy(other + i, by->other_floor + k + i * LANES, sizeof *other);
        size[i] = other_size[i] = apart[i] = most;
    }
    for (int64_t r = 0; r < count; r++, row += stride) {
        if (noting) *size = *apart = *other_size = most;
        EACH_PART {
            const double *low = table + group->offsets[r] + i * LANES;
            char *at = row + i * 2 * LANES * (layout == ALTERNATE ? 2 : 1);
            NAME(doubles) x = NAME(read)(low), y = NAME(read)(low + part);
            first[i] = NAME(to_half)(NAME(added)(x, u[i], y * v[i]), float16, size + i, apart + i);
            if (layout != COLUMNS) {
                NAME(doubles) other_cell = NAME(added)(y, u[i], -(x * v[i]));
                second[i] = NAME(to_half)(other_cell, float16, other_size + i, apart + i);
            }
            if (noting) {
                continue;
            } else if (layout == ALTERNATE) {
                NAME(words) pairs = PAIRED(first[i], second[i]);
                NAME(put)(at, &pairs, 4 * (whole ? LANES : lanes), streamed);
            } else if (!parts) {
                NAME(shorts) upper = __builtin_convertvector(*first >> 16, NAME(shorts));
                NAME(shorts) lower = __builtin_convertvector(*second >> 16, NAME(shorts));
                STORE_APART(upper, lower, 2);
#ifdef STREAM
            } else if (i % 2) {
                at -= sizeof(NAME(shorts));
                NAME(words) upper = NAME(upper_halves)(first[i - 1], first[i]);
                NAME(words) lower = NAME(upper_halves)(second[i - 1], second[i]);
                NAME(put)(at, &upper, sizeof upper, streamed);
                if (layout == HALVES) NAME(put)(at + 2 * heads, &lower, sizeof lower, streamed);
#endif
            }
        }
        if (noting) {
            NAME(words) doubt = NAME(doubtful)(*size, *floor, *other_size, *other, *apart);
            memcpy(group->doubts[r], &doubt, sizeof doubt);
        }
    }
    int doubtful = 0;
    EACH_PART {
        NAME(words) seen = NAME(doubtful)(size[i], floor[i], other_size[i], other[i], apart[i]);
        doubtful |= NAME(any)(seen, lanes) << i;
    }
    return doubtful;
}

DO int NAME(double_tile)(struct group *group, int64_t k, int lanes, int whole, int layout,
                         int noting, int parts, int streamed) {
    const struct factors *by = group->by;
    const double *table = group->table->low + k;
    int64_t heads = group->table->heads, part = ROWS * group->table->padded;
    int64_t count = group->count, stride = group->stride;
    char *at = group->out + 8 * k * (layout == ALTERNATE ? 2 : 1);
    NAME(doubles) u = NAME(read)(by->u + k), u_low = NAME(read)(by->u_low + k);
    NAME(doubles) v = NAME(read)(by->v + k), v_low = NAME(read)(by->v_low + k);
    NAME(doubles) margin = NAME(read)(by->margin + k), other = NAME(read)(by->other_margin + k);
    NAME(doubles) grid = NAME(read)(by->grid + k), other_grid = NAME(read)(by->other_grid + k);
    NAME(longs) seen = {0};
    NAME(doubles) second = {0};
    for (int64_t r = 0; r < count; r++, at += stride) {
        const double *low = table + group->offsets[r];
        NAME(doubles) x = NAME(read)(low), y = NAME(read)(low + part);
        NAME(doubles) x_low = NAME(read)(low + 2 * part), y_low = NAME(read)(low + 3 * part);
        NAME(longs) doubt = {0};
        NAME(doubles) x_u[4] = {x, u, x_low, u_low}, y_v[4] = {y, v, y_low, v_low};
        NAME(doubles) first = NAME(to_double)(x_u, y_v, grid, margin, &doubt);
        if (layout != COLUMNS) {
            NAME(doubles) y_u[4] = {y, u, y_low, u_low}, x_v[4] = {x, -v, x_low, -v_low};
            second = NAME(to_double)(y_u, x_v, other_grid, other, &doubt);
        }
        if (!noting) STORE(NAME(longs), first, second);
        NAME(words) doubts = NAME(folded)(doubt);
        if (noting) memcpy(group->doubts[r], &doubts, sizeof doubts);
        seen |= doubt;
    }
    return NAME(any)(NAME(folded)(seen), lanes) ? -1 : 0;
}

DO int NAME(tile)(struct group *group, int64_t k, int lanes, int whole, int layout, int noting,
                  int lines, int streamed) {
    int single = lines * PARTS(4, layout), half = lines * PARTS(2, layout);
    int halves_streamed = half && streamed;
    switch (group->table->format) {
    case FLOAT64: return NAME(double_tile)(group, k, lanes, whole, layout, noting, lines, streamed);
    case FLOAT32:
        return NAME(single_tile)(group, k, lanes, whole, layout, noting, single, streamed);
    case BFLOAT16:
        return NAME(half_tile)(group, k, lanes, whole, layout, noting, half, halves_streamed, 0);
    default: return NAME(half_tile)(group, k, lanes, whole, layout, noting, half, halves_streamed, 1);
    }
}

/* Compute the cells of heads k ... k + lanes - 1 of a group, whose first row is `row`, again: note
   which are in doubt, and list those that are not proven. */
DO void NAME(note_tile)(struct group *group, int64_t k, int lanes, int whole, int layout,
                        int64_t row, struct found *found) {
    NAME(tile)(group, k, lanes, whole, layout, 1, 0, 0);
    for (int64_t r = 0; r < group->count; r++)
        for (int i = 0; i < lanes; i++)
            if (group->doubts[r][i]) list(group, r, k + i, row + r, found);
}

/* How many vectors of heads are filled at once, so that they fill lines; 0: one after the other. */
DO int NAME(parts)(const struct table *table) {
#ifndef STREAM
    return 0;
#endif
    int layout = table->layout;
    switch (table->format) {
    case FLOAT64: return PARTS(8, layout) == 1;
    case FLOAT32: return PARTS(4, layout);
    default: return PARTS(2, layout);
    }
}

/* Fill the rows of a group, the first of which is `row`; with `parts` so many vectors at a time,
   perhaps streamed. */
DO void NAME(fill_group)(struct group *group, int parts, int streamed, int64_t row,
                         struct found *found) {
    int64_t heads = group->table->heads, whole = heads / LANES * LANES;
    int rest = (int)(heads - whole);
#define FILL(layout)                                                                 \
    for (int64_t k = 0; parts && k < whole; k += parts * LANES) {                    \
        int doubtful = streamed ? NAME(tile)(group, k, LANES, 1, layout, 0, 1, 1)    \
                                : NAME(tile)(group, k, LANES, 1, layout, 0, 1, 0);   \
        for (int i = 0; doubtful && i < parts; i++)                                  \
            if (doubtful >> i & 1)                                                   \
                NAME(note_tile)(group, k + i * LANES, LANES, 1, layout, row, found); \
    }                                                                                \
    for (int64_t k = 0; !parts && k < whole; k += LANES)                             \
        if (NAME(tile)(group, k, LANES, 1, layout, 0, 0, 0))                         \
            NAME(note_tile)(group, k, LANES, 1, layout, row, found);                 \
    if (rest && NAME(tile)(group, whole, rest, 0, layout, 0, 0, 0))                  \
        NAME(note_tile)(group, whole, rest, 0, layout, row, found)
    switch (group->table->layout) {
    case COLUMNS: FILL(COLUMNS); break;
    case HALVES: FILL(HALVES); break;
    default: FILL(ALTERNATE);
    }
#undef FILL
}

#ifdef STREAM
/* Prepare for rows that begin at `out`, inside a line; return 0 without memory. */
DO int NAME(shift)(struct shifted *to, const struct table *table, const struct factors *by,
                   const char *out) {
    int64_t heads = table->heads, edge = NAME(parts)(table) * LANES, low = 2 * ROWS * heads;
    double *memory = aligned_alloc(64, (size_t)(8 * (low + 4 * edge) + 64 + 128 * BLOCK));
    if (!memory) return 0;
    to->inner = to->edge = *table;
    to->inner.padded = to->edge.padded = heads, to->edge.heads = edge;
    to->tail = (int64_t)((uintptr_t)out & 63), to->first = (64 - to->tail) * edge / 64;
    to->inner.low = memory, to->edge.low = memory + heads - edge;
    for (int64_t r = 0; r < 2 * ROWS; r++) {
        const double *row = table->low + r * heads;
        memcpy(memory + r * heads, row + to->first, 8 * (heads - edge));
        copy_edge(to, memory + (r + 1) * heads - edge, row);
    }
    double *more = memory + low;
    to->edge_by = (struct factors){.u = more, .v = more + edge, .margin = more + 2 * edge,
                                   .other_margin = more + 3 * edge};
    to->inner_by = (struct factors){.u = by->u + to->first, .v = by->v + to->first,
                                    .margin = by->margin + to->first,
                                    .other_margin = by->other_margin + to->first};
    to->inner_group = (struct group){.table = &to->inner, .by = &to->inner_by};
    to->edge_group = (struct group){.table = &to->edge, .by = &to->edge_by,
                                    .out = (char *)(more + 4 * edge) + 64,
                                    .stride = table->layout == HALVES ? 128 : 64};
    return 1;
}

/* Fill the rows of a group, the first of which is `row`. The edge is computed first, in a buffer; its
   lines are written between the others, so that no computation waits for memory. The part of a line
   that is left waits for the next rows, or is written if these are the last. */
DO void NAME(fill_shifted)(struct shifted *by, struct group *group, int64_t row, int last,
                           struct found *found) {
    struct group *inner = &by->inner_group, *edge = &by->edge_group;
    int64_t heads = by->inner.heads, width = by->edge.heads, at = 64 - by->tail;
    int64_t sides = edge->stride / 64, side = group->stride / sides;
    inner->count = edge->count = group->count, inner->stride = group->stride;
    inner->out = group->out + at;
    memcpy(inner->offsets, group->offsets, sizeof group->offsets);
    memcpy(edge->offsets, group->offsets, sizeof group->offsets);
    int64_t lines = group->count * sides;
    inner->waiting = (struct waiting){edge->out - by->tail, group->out - by->tail, side, lines};
    int doubtful = 0;
#define FILL(layout)                                                                      \
    doubtful |= NAME(tile)(edge, 0, LANES, 1, layout, 0, 1, 0);                           \
    if (!row) { /* of the first line, only this is ours */                                \
        memcpy(group->out, edge->out, at);                                                \
        inner->waiting.from += 64, inner->waiting.to += side, inner->waiting.lines--;      \
    }                                                                                     \
    for (int64_t k = 0; k < heads - width; k += width)                                    \
        doubtful |= NAME(tile)(inner, k, LANES, 1, layout, 0, 1, WITH_WAITING)
    switch (group->table->layout) {
    case COLUMNS: FILL(COLUMNS); break;
    case HALVES: FILL(HALVES); break;
    default: FILL(ALTERNATE);
    }
#undef FILL
    for (int64_t k = 0; doubtful && k < heads; k += LANES)
        NAME(note_tile)(group, k, LANES, 1, group->table->layout, row, found);
    while (inner->waiting.lines) NAME(write_line)(&inner->waiting);
    char *left = last ? inner->waiting.to : edge->out - by->tail;
    memcpy(left, inner->waiting.from, by->tail);
}
#endif

/* Copy to memory that nobody reads soon: it does not displace what the caches hold. Return how much
   is copied: all, or without `last` only whole lines. */
DO int64_t NAME(stream)(char *restrict out, const char *restrict from, int64_t size, int last) {
    int64_t left = size;
#if defined(__x86_64__)
    int64_t head = (int64_t)(-(uintptr_t)out & 63);
    head = head < left ? head : left;
    memcpy(out, from, head);
    for (out += head, from += head, left -= head; left >= 64; left -= 64, out += 64, from += 64)
        STREAM_LINE(out, from);
    if (!last) return size - left;
#else
    (void)last;
#endif
    memcpy(out, from, left);
    return size;
}

TARGET static int NAME(fill)(const struct table *table, const int64_t *positions, int64_t rows,
                             char *out, int64_t stride, int streamed, struct found *found) {
    int64_t count = table->padded, digits = table->digits, level_size = 4 * count;
    int64_t size = table->format == FLOAT64 ? 8 : table->format == FLOAT32 ? 4 : 2;
    int64_t row_size = table->heads * (table->layout == COLUMNS ? 1 : 2) * size;
    int64_t doubles = level_size * (digits + 1) + 10 * count;
    double *levels = aligned_alloc(64, (size_t)doubles * sizeof *levels);
    int64_t side = table->layout == HALVES ? row_size / 2 : row_size;
    int parts = side % 64 == 0 ? NAME(parts)(table) : 0;
    int direct = streamed && parts && ((int64_t)(uintptr_t)out | stride) % 64 == 0;
    struct shifted shifted = {.first = 0};
    int shifts = streamed && parts && !direct && rows && table->format == FLOAT32 &&
                 stride == row_size && (uintptr_t)out % 8 == 0;
    int buffered = streamed && !direct && !shifts;
    /* The part of a line that rows leave stays before the next rows. */
    int64_t buffer_size = 64 + (BLOCK * row_size + 63) / 64 * 64, kept = 0;
    char *buffer = buffered ? aligned_alloc(64, (size_t)buffer_size) : NULL;
    if (!levels || (buffered && !buffer)) {
        free(levels), free(buffer);
        return 0;
    }
    double *more = levels + level_size * (digits + 1);
    struct factors by = {more,             more + count,     more + 2 * count,
                         more + 3 * count, more + 4 * count, more + 5 * count,
                         more + 6 * count, more + 7 * count,
                         (uint32_t *)(more + 8 * count), (uint32_t *)(more + 9 * count)};
#ifdef STREAM
    if (shifts && !NAME(shift)(&shifted, table, &by, out)) {
        free(levels);
        return 0;
    }
#endif
    /* levels[j] is the product of the scale and the rows of the digits j, j + 1, ... */
    double *outermost = levels + level_size * digits;
    for (int64_t k = 0; k < count; k++) {
        outermost[k] = table->scale, outermost[count + k] = table->scale_low;
        outermost[2 * count + k] = outermost[3 * count + k] = 0;
    }
    struct group group = {.table = table, .by = &by};
    int64_t previous = -1;
    for (int64_t row = 0; row < rows; row += group.count) {
        int64_t multiple = positions[row] >> LOW_BITS, level = digits;
        if (previous >= 0)
            for (level = 0; multiple >> (DIGIT_BITS * level) != previous >> (DIGIT_BITS * level);)
                level++;
        for (int64_t j = level - 1; j >= 0; j--) {
            int64_t digit = (multiple >> (DIGIT_BITS * j)) & ((1 << DIGIT_BITS) - 1);
            NAME(multiply)(count, levels + level_size * j, levels + level_size * (j + 1),
                           table->high[j] + digit * count, count << DIGIT_BITS);
        }
        if (level || previous < 0) {
            NAME(prepare)(table, &by, levels, multiple << LOW_BITS);
            if (shifted.first) {
                copy_edge(&shifted, shifted.edge_by.u, by.u);
                copy_edge(&shifted, shifted.edge_by.v, by.v);
                copy_edge(&shifted, shifted.edge_by.margin, by.margin);
                copy_edge(&shifted, shifted.edge_by.other_margin, by.other_margin);
            }
        }
        previous = multiple;
        for (group.count = 0; group.count < BLOCK && row + group.count < rows; group.count++) {
            int64_t position = positions[row + group.count];
            if (position >> LOW_BITS != multiple) break;
            group.offsets[group.count] = (position & (ROWS - 1)) * count;
        }
        char *target = out + row * stride;
        char *begin = buffered ? buffer + 64 : NULL;
        group.out = buffered ? begin : target, group.stride = buffered ? row_size : stride;
#ifdef STREAM
        if (shifted.first) {
            NAME(fill_shifted)(&shifted, &group, row, row + group.count == rows, found);
            continue;
        }
#endif
        NAME(fill_group)(&group, parts, direct, row, found);
        if (buffered && stride == row_size) {
            int64_t left = kept + group.count * row_size;
            int last = row + group.count == rows;
            int64_t done = NAME(stream)(target - kept, begin - kept, left, last);
            const char *rest = begin - kept + done;
            kept = left - done;
            memmove(begin - kept, rest, kept);
        } else if (buffered) {
            for (int64_t r = 0; r < group.count; r++)
                NAME(stream)(target + r * stride, begin + r * row_size, row_size, 1);
        }
    }
#if defined(__x86_64__)
    _mm_sfence();
#endif
    free(levels), free(buffer);
    if (shifted.first) free((void *)shifted.inner.low);
    return 1;
}

#undef SUFFIX
#undef TARGET
#undef LANES
#undef FUSED
#undef MULTIPLY_ADD
#undef LEAST
#undef IN_TURN
#undef UPPER
#undef STREAM
#undef STREAM_LINE
#undef SPAN
#undef PARTS
#undef STORE
#undef STORE_APART
#undef DO
#undef EACH_PART

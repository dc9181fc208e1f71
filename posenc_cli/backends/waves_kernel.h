/* The kernel for one set of instructions: SUFFIX, TARGET, LANES (heads computed at once) and FUSED
   (whether multiplications are fused with additions) are defined by whoever includes it. */

INLINE double NAME(added)(double left, double right, double addend) {
    return FUSED ? __builtin_fma(left, right, addend) : left * right + addend;
}

/* What left * right leaves of its rounded product: exact (Dekker where nothing is fused). */
INLINE double NAME(product_error)(double left, double right, double product) {
    if (FUSED) return __builtin_fma(left, right, -product);
    double scaled = left * 0x1.000002p27, a = scaled - (scaled - left), b = left - a;
    scaled = right * 0x1.000002p27;
    double c = scaled - (scaled - right), d = right - c;
    return ((a * c - product) + a * d + b * c) + b * d;
}

/* result = left * right, complex numbers in double-double; parts of right are right_stride apart. */
INLINE void NAME(multiply)(int64_t count, double *restrict result, const double *restrict left,
                           const double *restrict right, int64_t right_stride) {
    for (int64_t k = 0; k < count; k++) {
        double a = left[k], a_low = left[count + k];
        double b = left[2 * count + k], b_low = left[3 * count + k];
        double c = right[k], c_low = right[right_stride + k];
        double d = right[2 * right_stride + k], d_low = right[3 * right_stride + k];
        double p = a * c, q = b * d, sum = p - q;
        double low = sum_error(p, -q, sum) +
                     ((NAME(product_error)(a, c, p) - NAME(product_error)(b, d, q)) +
                      ((a * c_low + a_low * c) - (b * d_low + b_low * d)));
        result[k] = sum + low;
        result[count + k] = sum_error(sum, low, sum + low);
        p = a * d, q = b * c, sum = p + q;
        low = sum_error(p, q, sum) +
              ((NAME(product_error)(a, d, p) + NAME(product_error)(b, c, q)) +
               ((a * d_low + a_low * d) + (b * c_low + b_low * c)));
        result[2 * count + k] = sum + low;
        result[3 * count + k] = sum_error(sum, low, sum + low);
    }
}

/* The factors of the ROWS positions from `first` on, of which `phasor` is scale * exp(i first w). */
INLINE void NAME(prepare)(const struct table *table, const struct factors *by,
                          const double *restrict phasor, int64_t first) {
    int64_t count = table->padded;
    double end = (double)(first + ROWS), most = size_of(table->scale);
    for (int64_t k = 0; k < count; k++) {
        double u = phasor[k], v = phasor[2 * count + k] * table->turn[k];
        double more = end * table->rate[k] > 0.5 ? table->cancelled : 0.0;
        double x = table->reach_x[k], y = table->reach_y[k];
        double bound = x * size_of(u) + y * size_of(v) + more;
        double other = y * size_of(u) + x * size_of(v) + more;
        by->u[k] = u * table->factor;
        by->v[k] = v * table->factor;
        by->u_low[k] = phasor[count + k];
        by->v_low[k] = phasor[3 * count + k] * table->turn[k];
        by->margin[k] = smaller(bound, most) * table->margin;
        by->other_margin[k] = smaller(other, most) * table->margin;
    }
    if (table->format != BFLOAT16 && table->format != FLOAT16) return;
    /* Above 2^26 margins a float32 lies on the exact value's side of every tie but its own. Margins
       below a quarter of the smallest float32 leave only what is rounded to zero in doubt. */
    for (int64_t k = 0; k < count; k++) {
        float floor = (float)(by->margin[k] * 0x1.00001p26);
        float other = (float)(by->other_margin[k] * 0x1.00001p26);
        int some = by->margin[k] > 0, others = by->other_margin[k] > 0;
        by->floor[k] = by->margin[k] > 0x1p-151 ? (int32_t)bits_of_float(floor) : some;
        by->other_floor[k] = by->other_margin[k] > 0x1p-151 ? (int32_t)bits_of_float(other) : others;
    }
}

/* A cell in a format; bits of `doubt` are set unless that proves it. */

INLINE uint32_t NAME(to_single)(double cell, double margin, uint32_t *doubt) {
    uint32_t upper = bits_of_float((float)(cell + margin));
    *doubt = upper ^ bits_of_float((float)(cell - margin));
    return upper;
}

INLINE uint16_t NAME(to_half)(double cell, int32_t floor, int float16, uint32_t *doubt) {
    uint32_t word = bits_of_float((float)cell), rounded = half_bits(word, float16);
    *doubt = ((int32_t)(word & 0x7fffffffu) < floor) | ((rounded << 16) == 0);
    return (uint16_t)(rounded >> 16);
}

/* x u + y v, with all low parts. The two products, their sum, and what these leave are exact. */
INLINE double NAME(to_double)(const double x[4], const double y[4], double margin, uint64_t *doubt) {
    double p = x[0] * x[1], q = y[0] * y[1], sum = p + q;
    double rest = NAME(added)(x[2], x[1], x[0] * x[3]) + NAME(added)(y[2], y[1], y[0] * y[3]);
    rest += NAME(product_error)(x[0], x[1], p) + NAME(product_error)(y[0], y[1], q);
    rest += sum_error(p, q, sum);
    double upper = sum + (rest + margin), lower = sum + (rest - margin);
    *doubt = bits_of_double(upper) ^ bits_of_double(lower);
    return upper;
}

/* Store the first and second cells of heads k, k + 1, ...: LANES of them, or `lanes`. Neighbours are
   one word of twice their size, which vectors make and interleaving stores do not. */
#define STORE(type, word, target, first, second)                                        \
    do {                                                                                \
        type *row = (type *)(target);                                                   \
        int stored = whole ? LANES : lanes;                                             \
        if (layout == ALTERNATE) {                                                      \
            word *pairs = (word *)(target);                                             \
            for (int i = 0; i < stored; i++) pairs[k + i] = PAIRED(word, first[i], second[i]); \
        } else {                                                                        \
            for (int i = 0; i < stored; i++) row[k + i] = first[i];                     \
            if (layout == HALVES)                                                       \
                for (int i = 0; i < stored; i++) row[heads + k + i] = second[i];        \
        }                                                                               \
    } while (0)

/* The cells of heads k ... k + LANES - 1, of which `lanes` are stored, in all rows of a group. */

INLINE void NAME(single_tile)(struct group *group, int64_t k, int lanes, int whole, int layout) {
    const struct table *table = group->table;
    const struct factors *by = group->by;
    int64_t heads = table->heads;
    double u[LANES], v[LANES], margin[LANES], other[LANES];
    memcpy(u, by->u + k, sizeof u), memcpy(v, by->v + k, sizeof v);
    memcpy(margin, by->margin + k, sizeof u), memcpy(other, by->other_margin + k, sizeof u);
    for (int64_t r = 0; r < group->count; r++) {
        const double *x = table->low + group->offsets[r] + k, *y = x + ROWS * table->padded;
        uint32_t doubts[LANES];
        uint32_t first[LANES], second[LANES];
        for (int i = 0; i < LANES; i++)
            first[i] = NAME(to_single)(NAME(added)(x[i], u[i], y[i] * v[i]), margin[i], doubts + i);
        if (layout != COLUMNS)
            for (int i = 0; i < LANES; i++) {
                uint32_t doubt;
                double cell = NAME(added)(y[i], u[i], -(x[i] * v[i]));
                second[i] = NAME(to_single)(cell, other[i], &doubt);
                doubts[i] |= doubt;
            }
        for (int i = 0; i < LANES; i++) group->doubts[r][i] |= doubts[i];
        STORE(any32, any64, group->out + r * group->stride, first, second);
    }
}

INLINE void NAME(half_tile)(struct group *group, int64_t k, int lanes, int whole, int layout,
                            int float16) {
    const struct table *table = group->table;
    const struct factors *by = group->by;
    int64_t heads = table->heads;
    double u[LANES], v[LANES];
    int32_t floor[LANES], other[LANES];
    memcpy(u, by->u + k, sizeof u), memcpy(v, by->v + k, sizeof v);
    memcpy(floor, by->floor + k, sizeof floor), memcpy(other, by->other_floor + k, sizeof other);
    for (int64_t r = 0; r < group->count; r++) {
        const double *x = table->low + group->offsets[r] + k, *y = x + ROWS * table->padded;
        uint32_t doubts[LANES];
        uint16_t first[LANES], second[LANES];
        for (int i = 0; i < LANES; i++) {
            double cell = NAME(added)(x[i], u[i], y[i] * v[i]);
            first[i] = NAME(to_half)(cell, floor[i], float16, doubts + i);
        }
        if (layout != COLUMNS)
            for (int i = 0; i < LANES; i++) {
                uint32_t doubt;
                double cell = NAME(added)(y[i], u[i], -(x[i] * v[i]));
                second[i] = NAME(to_half)(cell, other[i], float16, &doubt);
                doubts[i] |= doubt;
            }
        for (int i = 0; i < LANES; i++) group->doubts[r][i] |= doubts[i];
        STORE(any16, any32, group->out + r * group->stride, first, second);
    }
}

INLINE void NAME(double_tile)(struct group *group, int64_t k, int lanes, int whole, int layout) {
    const struct table *table = group->table;
    const struct factors *by = group->by;
    int64_t heads = table->heads, part = ROWS * table->padded;
    for (int64_t r = 0; r < group->count; r++) {
        const double *x = table->low + group->offsets[r] + k, *y = x + part;
        const double *x_low = y + part, *y_low = x_low + part;
        const double *u = by->u + k, *v = by->v + k, *u_low = by->u_low + k, *v_low = by->v_low + k;
        uint64_t doubts[LANES];
        double first[LANES], second[LANES];
        for (int i = 0; i < LANES; i++) {
            double left[4] = {x[i], u[i], x_low[i], u_low[i]};
            double right[4] = {y[i], v[i], y_low[i], v_low[i]};
            first[i] = NAME(to_double)(left, right, by->margin[k + i], doubts + i);
        }
        if (layout != COLUMNS)
            for (int i = 0; i < LANES; i++) {
                uint64_t doubt;
                double left[4] = {y[i], u[i], y_low[i], u_low[i]};
                double right[4] = {x[i], -v[i], x_low[i], -v_low[i]};
                second[i] = NAME(to_double)(left, right, by->other_margin[k + i], &doubt);
                doubts[i] |= doubt;
            }
        for (int i = 0; i < LANES; i++)
            group->wide_doubts[r][i] |= doubts[i];
        any_double *row = (any_double *)(group->out + r * group->stride);
        int step = layout == ALTERNATE ? 2 : 1, stored = whole ? LANES : lanes;
        int64_t apart = layout == ALTERNATE ? 1 : heads;
        for (int i = 0; i < stored; i++) row[step * (k + i)] = first[i];
        if (layout != COLUMNS)
            for (int i = 0; i < stored; i++) row[step * (k + i) + apart] = second[i];
    }
}

INLINE void NAME(tile)(struct group *group, int64_t k, int lanes, int whole, int layout) {
    switch (group->table->format) {
    case FLOAT64: NAME(double_tile)(group, k, lanes, whole, layout); break;
    case FLOAT32: NAME(single_tile)(group, k, lanes, whole, layout); break;
    case BFLOAT16: NAME(half_tile)(group, k, lanes, whole, layout, 0); break;
    default: NAME(half_tile)(group, k, lanes, whole, layout, 1);
    }
}

/* One cell of a row again, at leisure: written, and whether it is proven. */
INLINE int NAME(judged_again)(const struct group *group, int64_t r, int64_t k, int second,
                              char *target) {
    const struct table *table = group->table;
    const struct factors *by = group->by;
    const double *x = table->low + group->offsets[r] + k, *y = x + ROWS * table->padded;
    int64_t part = 2 * ROWS * table->padded;
    double margin = second ? by->other_margin[k] : by->margin[k];
    double v = second ? -by->v[k] : by->v[k], v_low = second ? -by->v_low[k] : by->v_low[k];
    if (second) {
        const double *first = x;
        x = y, y = first;
    }
    double cell = NAME(added)(x[0], by->u[k], y[0] * v);
    if (table->format == FLOAT64) {
        uint64_t doubt;
        double left[4] = {x[0], by->u[k], x[part], by->u_low[k]};
        double right[4] = {y[0], v, y[part], v_low};
        double value = NAME(to_double)(left, right, margin, &doubt);
        memcpy(target, &value, sizeof value);
        return doubt == 0;
    }
    uint32_t doubt;
    if (table->format == FLOAT32) {
        uint32_t value = NAME(to_single)(cell, margin, &doubt);
        memcpy(target, &value, sizeof value);
        return doubt == 0;
    }
    int float16 = table->format == FLOAT16;
    uint16_t value = NAME(to_half)(cell, second ? by->other_floor[k] : by->floor[k], float16, &doubt);
    uint16_t below = value;
    if (doubt) {
        value = (uint16_t)(half_bits(cut_bits(cell + margin), float16) >> 16);
        below = (uint16_t)(half_bits(cut_bits(cell - margin), float16) >> 16);
    }
    memcpy(target, &value, sizeof value);
    return value == below;
}

/* Look at each cell of a row again, and list those that are not proven. */
INLINE void NAME(judge_row)(const struct group *group, int64_t r, int64_t row, int64_t size,
                            struct found *found) {
    const struct table *table = group->table;
    int cells = table->layout == COLUMNS ? 1 : 2;
    int64_t step = table->layout == ALTERNATE ? 2 : 1, apart = step == 2 ? 1 : table->heads;
    for (int64_t k = 0; k < table->heads; k++)
        for (int second = 0; second < cells; second++) {
            int64_t column = k * step + second * apart;
            char *target = group->out + r * group->stride + column * size;
            if (NAME(judged_again)(group, r, k, second, target)) continue;
            if (found->count < found->capacity)
                found->places[found->count] = row * cells * table->heads + column;
            found->count++;
        }
}

INLINE void NAME(fill_group)(struct group *group, int64_t row, int64_t size, struct found *found) {
    const struct table *table = group->table;
    int64_t heads = table->heads, whole = heads / LANES * LANES;
    int rest = (int)(heads - whole);
    memset(group->doubts, 0, sizeof group->doubts[0] * group->count);
    memset(group->wide_doubts, 0, sizeof group->wide_doubts[0] * group->count);
    switch (table->layout) {
    case COLUMNS:
        for (int64_t k = 0; k < whole; k += LANES) NAME(tile)(group, k, LANES, 1, COLUMNS);
        if (rest) NAME(tile)(group, whole, rest, 0, COLUMNS);
        break;
    case HALVES:
        for (int64_t k = 0; k < whole; k += LANES) NAME(tile)(group, k, LANES, 1, HALVES);
        if (rest) NAME(tile)(group, whole, rest, 0, HALVES);
        break;
    default:
        for (int64_t k = 0; k < whole; k += LANES) NAME(tile)(group, k, LANES, 1, ALTERNATE);
        if (rest) NAME(tile)(group, whole, rest, 0, ALTERNATE);
    }
    for (int64_t r = 0; r < group->count; r++) {
        uint64_t doubt = 0;
        for (int i = 0; i < LANES; i++) doubt |= group->doubts[r][i] | group->wide_doubts[r][i];
        if (doubt) NAME(judge_row)(group, r, row + r, size, found);
    }
}

/* Copy to memory that nobody reads soon: it does not displace what the caches hold. */
INLINE void NAME(stream)(char *restrict out, const char *restrict from, int64_t size) {
#if defined(__x86_64__)
    int64_t head = (int64_t)(-(uintptr_t)out & 63);
    head = head < size ? head : size;
    memcpy(out, from, head);
    for (out += head, from += head, size -= head; size >= 64; size -= 64, out += 64, from += 64)
        for (int i = 0; i < 4; i++)
            _mm_stream_si128((__m128i *)out + i, _mm_loadu_si128((const __m128i *)from + i));
#endif
    memcpy(out, from, size);
}

TARGET static int NAME(fill)(const struct table *table, const int64_t *positions, int64_t rows,
                             char *out, int64_t stride, int streamed, struct found *found) {
    int64_t count = table->padded, digits = table->digits, level_size = 4 * count;
    int64_t size = table->format == FLOAT64 ? 8 : table->format == FLOAT32 ? 4 : 2;
    int64_t row_size = table->heads * (table->layout == COLUMNS ? 1 : 2) * size;
    int64_t doubles = level_size * (digits + 1) + 8 * count;
    double *levels = aligned_alloc(64, (size_t)doubles * sizeof *levels);
    char *buffer = streamed ? aligned_alloc(64, (size_t)((ROWS * row_size + 63) / 64 * 64)) : NULL;
    if (!levels || (streamed && !buffer)) {
        free(levels), free(buffer);
        return 0;
    }
    double *more = levels + level_size * (digits + 1);
    struct factors by = {more,             more + count,     more + 2 * count,
                         more + 3 * count, more + 4 * count, more + 5 * count,
                         (int32_t *)(more + 6 * count), (int32_t *)(more + 7 * count)};
    /* levels[j] is the product of the scale and the rows of the digits j, j + 1, ... */
    double *outermost = levels + level_size * digits;
    for (int64_t k = 0; k < count; k++) {
        outermost[k] = table->scale, outermost[count + k] = table->scale_low;
        outermost[2 * count + k] = outermost[3 * count + k] = 0;
    }
    struct group group = {.table = table, .by = &by};
    int64_t previous = -1;
    for (int64_t row = 0; row < rows; row += group.count) {
        int64_t multiple = positions[row] >> DIGIT_BITS, level = digits;
        if (previous >= 0)
            for (level = 0; multiple >> (DIGIT_BITS * level) != previous >> (DIGIT_BITS * level);)
                level++;
        for (int64_t j = level - 1; j >= 0; j--) {
            int64_t digit = (multiple >> (DIGIT_BITS * j)) & (ROWS - 1);
            NAME(multiply)(count, levels + level_size * j, levels + level_size * (j + 1),
                           table->high[j] + digit * count, ROWS * count);
        }
        if (level || previous < 0) NAME(prepare)(table, &by, levels, multiple << DIGIT_BITS);
        previous = multiple;
        for (group.count = 0; group.count < ROWS && row + group.count < rows; group.count++) {
            int64_t position = positions[row + group.count];
            if (position >> DIGIT_BITS != multiple) break;
            group.offsets[group.count] = (position & (ROWS - 1)) * count;
        }
        char *target = out + row * stride;
        group.out = streamed ? buffer : target, group.stride = streamed ? row_size : stride;
        NAME(fill_group)(&group, row, size, found);
        if (streamed && stride == row_size)
            NAME(stream)(target, buffer, group.count * row_size);
        else if (streamed)
            for (int64_t r = 0; r < group.count; r++)
                NAME(stream)(target + r * stride, buffer + r * row_size, row_size);
    }
#if defined(__x86_64__)
    _mm_sfence();
#endif
    free(levels), free(buffer);
    return 1;
}

#undef SUFFIX
#undef TARGET
#undef LANES
#undef FUSED

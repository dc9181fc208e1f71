/* Compare your rotate with test vectors: cc reader.c yours.c -lm && ./a.out pack */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

void rotate(float *x, long columns, int64_t position); /* yours: rotates one vector in place */

static void fail(const char *path) {
    fprintf(stderr, "%s: cannot be read as a test vector\n", path);
    exit(2);
}

static void *values(const char *pack, const char *name, long *bytes) {
    unsigned char head[10], *data;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.npy", pack, name);
    FILE *file = fopen(path, "rb");
    if (!file || fread(head, 1, 10, file) != 10 || fseek(file, 0, SEEK_END)) fail(path);
    long start = 10 + head[8] + 256L * head[9]; /* an .npy: 10 bytes, its header, the values */
    *bytes = ftell(file) - start;
    if (!(data = malloc(*bytes)) || fseek(file, start, SEEK_SET)) fail(path);
    if (fread(data, 1, *bytes, file) != (size_t)*bytes || fclose(file)) fail(path);
    return data;
}

int main(int count, char **words) {
    const char *pack = count > 1 ? words[1] : ".";
    long rows, size, wrong = 0;
    double error, worst = 0;
    int64_t *positions = values(pack, "positions", &rows);
    float *x = values(pack, "x", &size), *y = values(pack, "y", &size);
    float *tolerance = values(pack, "tolerance", &size);
    long columns = (size /= 4) / (rows /= 8);
    for (long row = 0; row < rows; row++) rotate(x + row * columns, columns, positions[row]);
    for (long i = 0; i < size; i++) {
        worst = fmax(worst, error = fabs((double)x[i] - y[i]) / tolerance[i]);
        if (!(error <= 1) && !wrong++) /* what is no number is wrong, too */
            printf("row %ld column %ld: %.9g, not %.9g\n", i / columns, i % columns, x[i], y[i]);
    }
    printf("largest error %.3g times the tolerance, %ld of %ld values wrong\n", worst, wrong, size);
    return wrong > 0;
}

// Kernels of the hand-built plans, in the form that the compiler emits.

#include <stdint.h>

// buffers: a, b, out; out = a - b
void difference(void *const *buffers, int64_t begin, int64_t end) {
  const float *a = buffers[0], *b = buffers[1];
  float *out = buffers[2];
  for (int64_t i = begin; i < end; ++i)
    out[i] = a[i] - b[i];
}

// buffers: d, loss; adds the sum of squares of all `count` rows' elements to
// one scalar per iteration: loss[i] += sum(d[i * width + j] ^ 2), width 4
void squares4(void *const *buffers, int64_t begin, int64_t end) {
  const float *d = buffers[0];
  float *loss = buffers[1];
  for (int64_t i = begin; i < end; ++i)
    for (int64_t j = 0; j < 4; ++j)
      loss[i] += d[4 * i + j] * d[4 * i + j];
}

void zero(void *const *buffers, int64_t begin, int64_t end) {
  float *out = buffers[0];
  for (int64_t i = begin; i < end; ++i)
    out[i] = 0;
}

// buffers: rows, count (i64), out; out[0] = sum(rows[0 .. count))
void total(void *const *buffers, int64_t begin, int64_t end) {
  const float *rows = buffers[0];
  const int64_t *count = buffers[1];
  float *out = buffers[2];
  for (int64_t i = begin; i < end; ++i) {
    out[i] = 0;
    for (int64_t j = 0; j < *count; ++j)
      out[i] += rows[j];
  }
}

// buffers: g, w; w -= 0.01 g
void descend(void *const *buffers, int64_t begin, int64_t end) {
  const float *g = buffers[0];
  float *w = buffers[1];
  for (int64_t i = begin; i < end; ++i)
    w[i] -= 0.01f * g[i];
}

// buffers: slot; ends this process as a crash would
void crash(void *const *buffers, int64_t begin, int64_t end) {
  *(volatile int *)(uintptr_t)8 = 1;
}

// buffers: slot; goes round in circles
void spin(void *const *buffers, int64_t begin, int64_t end) {
  volatile int turns = 0;
  for (;;)
    ++turns;
}

// Sums of rows, as accumulate.py defines them: elements are integers of at most 2^32 units of
// 2^(e-31), so that 2^20 of them add to at most 2^52. Longer sums go on in two words, see tile.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "dots.h"
#include "grid.h"
#include "tile.h"
#include "vectors.h"

namespace rlkjax {

constexpr int kSumBits = 31;
constexpr int64_t kSumBlock = 1 << 20;

// The terms [term, last) of row `row`, which lie side by side.
template <int W>
INLINE double sum_of_row(const Side& side, int64_t row, int64_t term, int64_t last, double per_unit,
                         bool tiny) {
  typedef typename Vectors<W>::Float Float;
  typedef typename Vectors<W>::Double Double;
  const float* x = side.at(row, 0);
  const Double scale = Double{} + per_unit;
  Double sum{}, other{};
  for (; term + 2 * W <= last; term += 2 * W) {
    sum += on_grid<W>(load<Float>(x + term), scale, tiny);
    other += on_grid<W>(load<Float>(x + term + W), scale, tiny);
  }
  for (; term < last; term += W) {
    const Float some = load_before<Float>(side.end(), x + term);
    sum += on_grid<W>(first_of<W>(some, last - term), scale, tiny);
  }
  return total<W>(sum + other);
}

// The same for V * W rows that lie side by side; only `count` of them are meant.
template <int W, int V>
INLINE void sums_across(const Side& side, int64_t row, int64_t count, int64_t term, int64_t last,
                        const double* per_unit, bool tiny, double* sums) {
  typedef typename Vectors<W>::Float Float;
  typedef typename Vectors<W>::Double Double;
  Double sum[V];
  for (int v = 0; v < V; v++) sum[v] = Double{};
  for (; term < last; term++) {
    const float* x = side.at(row, term);
    for (int v = 0; v < V; v++)
      sum[v] += on_grid<W>(load_before<Float>(side.end(), x + v * W),
                           load<Double>(per_unit + v * W), tiny);
  }
  for (int v = 0; v < V; v++) store_some(sums + v * W, sum[v], count - v * W);
}

constexpr int64_t kSumRows = 64;

// The sums of `count` rows, at most kSumRows.
template <int W>
INLINE void sum_rows(const Side& side, int64_t row, int64_t count, float* result) {
  typedef typename Vectors<W>::Double Double;
  constexpr int V = 4;
  int32_t peaks[kSumRows];
  double per_unit[kSumRows], unit[kSumRows], sums[kSumRows], high[kSumRows], low[kSumRows];
  peaks_of<W>(side, row, count, {0, side.terms}, peaks);
  const Exponents range = units_of(peaks, count, kSumBits, per_unit, unit);
  const bool small = tiny(range, kSumBits);
  const bool ordinary = range.least - kSumBits >= -126 && range.most < 128;
  std::fill_n(high, kSumRows, 0.0);
  std::fill_n(low, kSumRows, 0.0);
  for (int64_t term = 0; term < side.terms; term += kSumBlock) {
    const int64_t last = std::min(side.terms, term + kSumBlock);
    int64_t i = 0;
    if (side.terms_last)
      for (; i < count; i++)
        sums[i] = sum_of_row<W>(side, row + i, term, last, per_unit[i], small);
    for (; count - i >= V * W; i += V * W)
      sums_across<W, V>(side, row + i, V * W, term, last, per_unit + i, small, sums + i);
    for (; i < count; i += W)
      sums_across<W, 1>(side, row + i, count - i, term, last, per_unit + i, small, sums + i);
    for (int64_t j = 0; j < count; j++) {
      const double most = (sums[j] + kSplit) - kSplit;
      high[j] += most;
      low[j] += sums[j] - most;
    }
  }
  for (int64_t i = 0; i < count; i += W) {
    const Double whole = to_odd<W>(load<Double>(high + i), load<Double>(low + i));
    put<W>(whole * load<Double>(unit + i), ordinary, result + row + i, count - i);
  }
}

}  // namespace rlkjax

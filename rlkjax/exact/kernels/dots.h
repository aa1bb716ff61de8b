// One row times columns whose terms lie side by side, as they lie: a product of a matrix and a vector.
#pragma once

#include <algorithm>
#include <cstdint>

#include "folds.h"
#include "grid.h"
#include "pack.h"
#include "tile.h"
#include "vectors.h"

namespace rlkjax {

// The first `count` numbers of a vector, zeros after them.
template <int W>
INLINE typename Vectors<W>::Float first_of(typename Vectors<W>::Float numbers, int64_t count) {
  typedef typename Vectors<W>::Bits Bits;
  Bits lane;
  for (int i = 0; i < W; i++) lane[i] = i;
  const Bits kept = (Bits)(lane < static_cast<int32_t>(count));
  return (typename Vectors<W>::Float)((Bits)numbers & kept);
}

// Terms [from, to) of one row times one column: the sums of its even and of its odd terms.
template <int W, typename Tiny>
INLINE typename Vectors<2>::Double two_dots(const double* row, const Piece& columns, int64_t column,
                                            double per_unit, int64_t from, int64_t to, Tiny tiny) {
  typedef typename Vectors<W>::Float Float;
  typedef typename Vectors<W>::Double Double;
  const float* x = columns.side.at(columns.row + column, columns.term);
  const Double scale = Double{} + per_unit;
  Double sum{};
  int64_t k = from;
  for (; k + W <= to; k += W)
    sum += on_grid<W>(load<Float>(x + k), scale, tiny) * load<Double>(row + k);
  if (k < to) {
    const Float some = load_before<Float>(columns.side.end(), x + k);
    sum += on_grid<W>(first_of<W>(some, to - k), scale, tiny) * load<Double>(row + k);
  }
  return two_totals<W>(sum);
}

// even + odd, both exact, as one number whose rounding to float32 is that of the sum. Mostly the sum
// is exact itself.
template <int W>
INLINE typename Vectors<W>::Double together(typename Vectors<W>::Double even,
                                            typename Vectors<W>::Double odd) {
  typedef typename Vectors<W>::Double Double;
  const Double sum = even + odd;
  if (largest_size<W>(larger(sizes<W>(even), sizes<W>(odd))) < 0x1p52) return sum;
  return sum - sum == 0.0 ? to_odd<W>(even, odd) : sum;
}

// A block of W results. row: numbers on the grid, zeros after the last term. columns: W, or the last.
template <int W, typename Tiny>
INLINE void dots(const double* row, const Piece& columns, const double* per_unit,
                 const Block& block, const Words& words, const Part& part, Tiny tiny) {
  typedef typename Vectors<2>::Double Two;
  Tile<W, 1, 1> tile{};
  if (!block.first) tile.load_from(words);
  bool alone = block.first;
  const auto hand_over = [&]() INLINED {
    tile.hand_over(words, alone, block.finite);
    alone = false;
  };
  for (int64_t k = 0; k < block.terms; k += 2 * kExact) {
    typename Vectors<W>::Double even{}, odd{};
    const int64_t end = std::min(k + 2 * kExact, block.terms);
    for (int i = 0; i < W && i < columns.count; i++) {
      const Two totals = two_dots<W>(row, columns, i, per_unit[i], k, end, tiny);
      even[i] = totals[0], odd[i] = totals[1];
    }
    if (block.first && block.last && block.terms <= 2 * kExact) {
      tile.sum[0][0] = together<W>(even, odd);
      return tile.put_into(part);
    }
    if (k > 0) hand_over();
    tile.sum[0][0] += even;
    if (end - k > kExact) hand_over();
    tile.sum[0][0] += odd;
  }
  tile.settle(block, words, alone, part);
}

}  // namespace rlkjax

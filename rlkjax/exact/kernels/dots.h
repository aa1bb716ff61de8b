// One row times columns whose terms lie side by side, as they lie: a product of a matrix and a vector.
#pragma once

#include <cstdint>
#include <cstring>

#include "grid.h"
#include "pack.h"
#include "tile.h"
#include "vectors.h"

namespace rlkjax {

// The sum of all numbers of a vector, which is exact here in any order.
template <int W>
INLINE double total(typename Vectors<W>::Double numbers) {
  if constexpr (W > 2) {
    typename Vectors<W / 2>::Double halves[2];
    std::memcpy(halves, &numbers, sizeof numbers);
    return total<W / 2>(halves[0] + halves[1]);
  } else {
    return numbers[0] + numbers[1];
  }
}

// The first `count` numbers of a vector, zeros after them.
template <int W>
INLINE typename Vectors<W>::Float first_of(typename Vectors<W>::Float numbers, int64_t count) {
  typedef typename Vectors<W>::Bits Bits;
  Bits lane;
  for (int i = 0; i < W; i++) lane[i] = i;
  const Bits kept = (Bits)(lane < static_cast<int32_t>(count));
  return (typename Vectors<W>::Float)((Bits)numbers & kept);
}

// row: numbers on the grid, zeros after the last term. columns: W of them, or the last ones.
template <int W>
INLINE Tile<W, 1, 1> dots(const double* row, const Piece& columns, const double* per_unit) {
  typedef typename Vectors<W>::Float Float;
  typedef typename Vectors<W>::Double Double;
  Tile<W, 1, 1> tile{};
  for (int i = 0; i < W && i < columns.count; i++) {
    const float* x = columns.side.at(columns.row + i, columns.term);
    const Double scale = Double{} + per_unit[i];
    Double sum{};
    int64_t k = 0;
    for (; k + W <= columns.terms; k += W)
      sum += on_grid<W>(load<Float>(x + k), scale, columns.tiny) * load<Double>(row + k);
    if (k < columns.terms) {
      const Float some = load_before<Float>(columns.side.end(), x + k);
      sum += on_grid<W>(first_of<W>(some, columns.terms - k), scale, columns.tiny) *
             load<Double>(row + k);
    }
    tile.sum[0][0][i] = total<W>(sum);
  }
  return tile;
}

}  // namespace rlkjax

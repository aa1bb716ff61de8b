// The innermost loops: a tile of MR rows times NV vectors of columns, kept in registers.
//
// Whole numbers are less than 2^24, as the largest of a row are what they were: 32 products add to
// at most 32 (2^24 - 1)^2 = 2^53 - 2^30 + 32, exact in float64, in any order, with or without FMA.
// Before more follow, a sum hands over its multiples of 2^26 to a second word, `high`, and keeps the
// rest, of at most 2^25. `high` is 1.5 * 2^78 too large, so that adding to it rounds to 2^26, and
// exact for 2^29 terms. A block of 128 may add at once if its numbers are small enough: no sum of
// products exceeds the root of the product of both sums of squares (Cauchy and Schwarz), which are
// found while the numbers are put on the grid.
#pragma once

#include <algorithm>
#include <cstdint>

#include "grid.h"
#include "vectors.h"

namespace rlkjax {

constexpr int64_t kBlock = 128;  // terms of a row that are packed at once
constexpr int64_t kExact = 32;   // terms that add exactly, whatever they are
constexpr double kSmall = 0x1.ffp105;  // below 2^106: room for a rest, and for rounded squares
constexpr double kSplit = kMagic * 0x1p26;  // added, it leaves multiples of 2^26

// Numbers on a grid, of a block of terms: term k of row i is data[i * row + k * term].
struct Rows {
  const double* data;
  int64_t row, term;
};

// Sums that go on over blocks; both words lie alike, and every kStride numbers another row.
struct Words {
  static constexpr int64_t kStride = 256;
  double *high, *low;

  INLINE Words at(int64_t row, int64_t column) const {
    const int64_t offset = row * kStride + column;
    return {high + offset, low + offset};
  }
};

// A part of the result, and the units of its rows and columns.
struct Part {
  float* data;
  int64_t stride, rows, columns;
  const double *row_unit, *column_unit;
  bool ordinary;

  INLINE Part at(int64_t row, int64_t column, int64_t num_rows, int64_t num_columns) const {
    return {data + row * stride + column,
            stride,
            std::min(num_rows, rows - row),
            std::min(num_columns, columns - column),
            row_unit + row,
            column_unit + column,
            ordinary};
  }
};

// high + low as one number whose last bit is set if anything is below it, so that one rounding to
// float32 sees it. Source: Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums"
// (2008), section 2. Of an infinity or NaN, which only `high` follows, `high`.
template <int W>
INLINE typename Vectors<W>::Double to_odd(typename Vectors<W>::Double high,
                                          typename Vectors<W>::Double low) {
  typedef typename Vectors<W>::Double Double;
  typedef typename Vectors<W>::Integer Integer;
  const Double sum = high + low, part = sum - high;
  const Double lost = (high - (sum - part)) + (low - part);
  const Integer bits = (Integer)sum;
  const Integer inward = (Integer)(lost > 0.0) ^ (Integer)(sum > 0.0);  // all ones if true
  const Integer step = (inward & -2) + 1;                               // 1, or -1 if inward
  const Integer counts = (Integer)(lost != 0.0) & ((bits & 1) - 1);
  const Double odd = (Double)(bits + (step & counts));
  return high - high == 0.0 ? odd : high;
}

// A block of the terms of a product.
struct Block {
  int64_t term, terms;
  int64_t exact;  // terms that may be added before a sum hands over
  bool first, last, finite;
};

// The sums of a tile. They stay in registers only if every loop through them is unrolled; `put_into`
// has none, so that it is given a copy.
template <int W, int MR, int NV>
struct Tile {
  typedef typename Vectors<W>::Double Double;
  Double sum[MR][NV];

  // Calls fn(sum, words) for each vector.
  template <typename Fn>
  INLINE void each(const Words& words, const Fn& fn) {
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
      for (int j = 0; j < NV; j++) fn(sum[i][j], words.at(i, j * W));
  }

  INLINE void load_from(const Words& words) {
    each(words, [](Double& sum, const Words& here) INLINED { sum = load<Double>(here.low); });
  }

  // Multiples of 2^26 go over to `high`, which holds nothing if `first`. So does an infinity or NaN,
  // and leaves nothing; where there can be none, this need not be seen to.
  INLINE void hand_over(const Words& words, bool first, bool finite) {
    each(words, [=](Double& sum, const Words& here) INLINED {
      const Double before = first ? Double{} + kSplit : load<Double>(here.high);
      const Double after = before + sum;
      sum -= after - before;
      if (!finite) sum = sum == sum ? sum : Double{};
      store<Double>(here.high, after);
    });
  }

  // Ends a block, before which nothing was handed over if `alone`.
  INLINE void settle(const Block& block, const Words& words, bool alone, const Part& part) {
    if (!block.last || !(alone || block.finite)) hand_over(words, alone, block.finite);
    if (!block.last)
      return each(words, [](Double& sum, const Words& here) INLINED { store<Double>(here.low, sum); });
    if (!alone) take_back(words);
    Tile settled = *this;
    settled.put_into(part);
  }

  INLINE void put_into(const Part& part) const {
    Double unit[NV];
    for (int j = 0; j < NV; j++) unit[j] = load<Double>(part.column_unit + j * W);
    for (int i = 0; i < MR && i < part.rows; i++) {
      float* row = part.data + i * part.stride;
      for (int j = 0; j < NV && j * W < part.columns; j++)
        put<W>(sum[i][j] * (unit[j] * part.row_unit[i]), part.ordinary, row + j * W,
               part.columns - j * W);
    }
  }

 private:
  // What was handed over comes back: one number whose rounding to float32 is that of the sum.
  INLINE void take_back(const Words& words) {
    each(words, [](Double& sum, const Words& here) INLINED {
      sum = to_odd<W>(load<Double>(here.high) - kSplit, sum);
    });
  }
};

// Adds terms of a block to the sums of a tile. columns: term by term, NV * W numbers each.
template <int W, int MR, int NV>
INLINE void add_products(Tile<W, MR, NV>& tile, const Rows& rows, const double* columns,
                         int64_t from, int64_t to) {
  typedef typename Vectors<W>::Double Double;
  for (int64_t k = from; k < to; k++) {
    Double column[NV];
#pragma GCC unroll 4
    for (int j = 0; j < NV; j++) column[j] = load<Double>(columns + (k * NV + j) * W);
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++) {
      const double x = rows.data[i * rows.row + k * rows.term];
#pragma GCC unroll 4
      for (int j = 0; j < NV; j++) tile.sum[i][j] += column[j] * x;
    }
  }
}

// A block of a tile, from what `words` holds of those before it.
template <int W, int MR, int NV>
INLINE void tile_of(const Rows& rows, const double* columns, const Block& block,
                    const Words& words, const Part& part) {
  Tile<W, MR, NV> tile{};
  if (!block.first) tile.load_from(words);
  int64_t k = 0;
  for (; k + block.exact < block.terms; k += block.exact) {
    add_products(tile, rows, columns, k, k + block.exact);
    tile.hand_over(words, block.first && k == 0, block.finite);
  }
  add_products(tile, rows, columns, k, block.terms);
  tile.settle(block, words, block.first && k == 0, part);
}

}  // namespace rlkjax

// The innermost loops: a tile of MR rows times NV vectors of columns, kept in registers.
//
// Products of whole numbers are at most 2^46, and a block of 128 terms adds to at most 2^53: exact
// in float64, in any order, with or without FMA. Beyond one block a sum goes on in two words:
// `high` takes multiples of 2^26, `low` the rest, of at most 2^25. Both stay exact for 2^26 blocks.
#pragma once

#include <algorithm>
#include <cstdint>

#include "grid.h"
#include "vectors.h"

namespace rlkjax {

constexpr int64_t kBlock = 128;
constexpr double kSplit = kMagic * 0x1p26;  // added, it leaves multiples of 2^26

// Numbers on a grid, of a block of terms: term k of row i is data[i * row + k * term].
struct Rows {
  const double* data;
  int64_t row, term;
};

// Sums that go on over blocks; both words lie alike.
struct Words {
  double *high, *low;
  int64_t stride;

  INLINE Words at(int64_t row, int64_t column) const {
    const int64_t offset = row * stride + column;
    return {high + offset, low + offset, stride};
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

// The sums of a tile, in registers.
template <int W, int MR, int NV>
struct Tile {
  typedef typename Vectors<W>::Double Double;
  Double sum[MR][NV];

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

  // The sums of one more block, after those that `words` holds: none yet if it is the first one.
  INLINE void add_to(const Words& words, bool first) const {
    for (int i = 0; i < MR; i++) {
      for (int j = 0; j < NV; j++) {
        const Words here = words.at(i, j * W);
        const Double most = (sum[i][j] + kSplit) - kSplit, rest = sum[i][j] - most;
        store<Double>(here.high, first ? most : load<Double>(here.high) + most);
        store<Double>(here.low, first ? rest : load<Double>(here.low) + rest);
      }
    }
  }

  // These sums become those of all blocks, this one being the last.
  INLINE void finish(const Words& words) {
    for (int i = 0; i < MR; i++) {
      for (int j = 0; j < NV; j++) {
        const Words here = words.at(i, j * W);
        const Double most = (sum[i][j] + kSplit) - kSplit, rest = sum[i][j] - most;
        sum[i][j] = to_odd<W>(load<Double>(here.high) + most, load<Double>(here.low) + rest);
      }
    }
  }
};

// columns: term by term, NV * W numbers each.
template <int W, int MR, int NV>
INLINE Tile<W, MR, NV> products(const Rows& rows, const double* columns, int64_t terms) {
  typedef typename Vectors<W>::Double Double;
  Tile<W, MR, NV> tile{};
  for (int64_t k = 0; k < terms; k++) {
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
  return tile;
}

}  // namespace rlkjax

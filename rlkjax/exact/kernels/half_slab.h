// Slabs of a product by halves, see halves.h, where their numbers allow it.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "grid.h"
#include "half_tile.h"
#include "halves.h"
#include "processor.h"
#include "slab.h"
#include "tile.h"

namespace rlkjax {

constexpr int64_t kHalfTerms = (1 << 15) - 1;  // that two words surely hold, see add_row

// Whether sums of halves are those of the definition (finite numbers, no unit too small, not too
// many terms) and take less time: of few terms, their ends take longer than what is saved.
INLINE bool fits_halves(const Terms& terms, const Ranges& ranges) {
  const int64_t count = terms.end - terms.first;
  return count > kExact && count <= kHalfTerms &&
         std::max(ranges.rows.most, ranges.columns.most) < 128 &&
         std::min(ranges.rows.least, ranges.columns.least) >= kLeastExponent;
}

// 16 x 16 numbers, `rows` and `columns` of which are meant and the others zeros, turned.
TARGET_16 INLINE void turn(const float* from, int64_t stride, int64_t rows, int64_t columns,
                           float* to) {
  __m512 x[kLane], y[kLane];
#pragma GCC unroll 16
  for (int i = 0; i < kLane; i++)
    x[i] = _mm512_maskz_loadu_ps(i < rows ? first_lanes(columns) : 0, from + i * stride);
#pragma GCC unroll 8
  for (int i = 0; i < kLane; i += 2) {
    y[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
    y[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < kLane; i += 4)
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++) {
      const __m512d one = _mm512_castps_pd(y[i + j]), other = _mm512_castps_pd(y[i + j + 2]);
      x[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(one, other));
      x[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(one, other));
    }
  // now x[4 g + j] holds numbers j, j + 4, j + 8 and j + 12 of rows 4 g to 4 g + 3
#pragma GCC unroll 4
  for (int j = 0; j < 4; j++) {
    y[j] = _mm512_shuffle_f32x4(x[j], x[4 + j], 0x88);
    y[4 + j] = _mm512_shuffle_f32x4(x[j], x[4 + j], 0xdd);
    y[8 + j] = _mm512_shuffle_f32x4(x[8 + j], x[12 + j], 0x88);
    y[12 + j] = _mm512_shuffle_f32x4(x[8 + j], x[12 + j], 0xdd);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; j++) {
    _mm512_storeu_ps(to + j * kLane, _mm512_shuffle_f32x4(y[j], y[8 + j], 0x88));
    _mm512_storeu_ps(to + (8 + j) * kLane, _mm512_shuffle_f32x4(y[j], y[8 + j], 0xdd));
    _mm512_storeu_ps(to + (4 + j) * kLane, _mm512_shuffle_f32x4(y[4 + j], y[12 + j], 0x88));
    _mm512_storeu_ps(to + (12 + j) * kLane, _mm512_shuffle_f32x4(y[4 + j], y[12 + j], 0xdd));
  }
}

// Up to 16 columns; `scratch` is for those whose terms lie side by side.
TARGET_16 INLINE Norms pack_half_columns(const Side& side, int64_t column, int64_t columns,
                                         const Terms& part, const double* per_unit, float* scratch,
                                         __m512i* out) {
  const float* x = side.at(column, part.first);
  const int64_t terms = part.end - part.first;
  if (!side.terms_last) return pack_halves(x, side.rows, columns, terms, per_unit, out);
  for (int64_t k = 0; k < terms; k += kLane)
    turn(x + k, side.terms, columns, terms - k, scratch + k * kLane);
  return pack_halves(scratch, kLane, columns, terms, per_unit, out);
}

TARGET_16 INLINE void add_tiles(const HalfRows& rows, int64_t group, const __m512i* columns,
                                const Stretch& all, int64_t exact, const Words& words,
                                const Part& part) {
  typedef void (*Add)(const HalfRows&, const __m512i*, const Stretch&, int64_t, const Words&,
                      const Part&);
  constexpr Add kAdd[kGroup] = {add_tile<1>, add_tile<2>, add_tile<3>, add_tile<4>,
                                add_tile<5>, add_tile<6>, add_tile<7>, add_tile<8>};
  for (int64_t row = 0; row < part.rows; row += kGroup) {
    const int64_t count = std::min(kGroup, part.rows - row);
    const HalfRows here{rows.data + row / kGroup * group, rows.row, rows.pair, rows.kind};
    kAdd[count - 1](here, columns, all, exact, words.at(row, 0), part.at(row, 0, count, kLane));
  }
}

// What is not the end of a result goes on as tile.h has it: multiples of 2^26, and a rest.
TARGET_16 INLINE void hand_on(const Slab& slab, const Words& words) {
  for (int64_t i = 0; i < slab.rows; i++)
    for (int64_t j = 0; j < slab.columns; j += 8) {
      const Words here = words.at(i, j);
      const __m512d split = _mm512_set1_pd(kSplit), high = _mm512_loadu_pd(here.high);
      const __m512d first = split + high, low = _mm512_loadu_pd(here.low) + (high - (first - split));
      const __m512d both = first + low;
      _mm512_storeu_pd(here.high, both), _mm512_storeu_pd(here.low, low - (both - first));
    }
}

static_assert(kHalfRow * sizeof(int32_t) <= kLeftRow * sizeof(double));
static_assert(2 * kPairs * sizeof(__m512i) <= kPanel * kRowOfTerms * sizeof(double));
static_assert(kLongBlock * kLane * sizeof(float) <= kPanel * kRowOfTerms * sizeof(double));

// The same as add_terms, where `fits_halves`.
TARGET_16 inline void add_terms_by_halves(const Product& product, const Slab& slab,
                                          const Terms& terms, const Ranges& ranges,
                                          const Words& words, const Scratch& scratch) {
  const Side &left = product.left, &right = product.right;
  const Part part = part_of(product, slab, ranges, scratch);
  const bool all = terms.end - terms.first == left.terms;
  int32_t* const above = reinterpret_cast<int32_t*>(scratch.left);
  __m512i* const columns = reinterpret_cast<__m512i*>(scratch.panel);
  float* const turned = reinterpret_cast<float*>(scratch.panel_rows);
  const HalfRows rows = left.terms_last ? HalfRows{above, kHalfRow, 1, kPairs}
                                        : HalfRows{above, 1, 3 * kGroup, kGroup};
  const int64_t group = left.terms_last ? kGroup * kHalfRow : kGroupSize;
  for (int64_t term = terms.first; term < terms.end; term += kLongBlock) {
    const Terms some{term, std::min(terms.end, term + kLongBlock)};
    const int64_t pairs = (some.end - some.first + 1) / 2;
    const Stretch stretch{0, pairs, term == terms.first, all && some.end == terms.end};
    const Norms norms =
        left.terms_last
            ? pack_half_rows(left, slab.row, slab.rows, some, scratch.per_row_unit, above)
            : pack_half_groups(left, slab.row, slab.rows, some, scratch.per_row_unit, above);
    for (int64_t column = 0; column < slab.columns; column += kLane) {
      const int64_t count = std::min(kLane, slab.columns - column);
      const Norms other = pack_half_columns(right, slab.column + column, count, some,
                                            scratch.per_column_unit + column, turned, columns);
      const int64_t exact = norms.fits(other) ? kPairs : kAnyPairs;
      add_tiles(rows, group, columns, stretch, exact, words.at(0, column),
                part.at(0, column, slab.rows, count));
    }
  }
  if (!all) hand_on(slab, words);
}

}  // namespace rlkjax

#endif

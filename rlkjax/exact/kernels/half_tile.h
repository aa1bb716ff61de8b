// Tiles of sums of products of halves, see halves.h: up to 8 rows times 16 columns.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "grid.h"
#include "halves.h"
#include "lanes.h"
#include "processor.h"
#include "tile.h"
#include "vectors.h"

namespace rlkjax {

// Sums of a tile over some pairs of terms, of each of the three kinds.
struct HalfSums {
  alignas(64) int32_t high[kGroup][kLane], low[kGroup][kLane], both[kGroup][kLane];
};

// MR rows times 16 columns; columns: high and low halves, pair by pair.
template <int MR>
TARGET_16 void add_halves(const HalfRows& rows, const __m512i* columns, int64_t from, int64_t to,
                          HalfSums& sums) {
  __m512i high[MR], low[MR], both[MR];
#pragma GCC unroll 8
  for (int i = 0; i < MR; i++) high[i] = low[i] = both[i] = _mm512_setzero_si512();
  for (int64_t p = from; p < to; p++) {
    const int32_t* const at = rows.data + p * rows.pair;
    const __m512i high_column = columns[2 * p], low_column = columns[2 * p + 1];
    const __m512i both_column = _mm512_add_epi16(high_column, low_column);
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++) {
      const int32_t* const row = at + i * rows.row;
      high[i] = _mm512_dpwssd_epi32(high[i], high_column, _mm512_set1_epi32(row[0]));
      low[i] = _mm512_dpwssd_epi32(low[i], low_column, _mm512_set1_epi32(row[rows.kind]));
      both[i] = _mm512_dpwssd_epi32(both[i], both_column, _mm512_set1_epi32(row[2 * rows.kind]));
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < MR; i++) {
    _mm512_store_si512(sums.high[i], high[i]);
    _mm512_store_si512(sums.low[i], low[i]);
    _mm512_store_si512(sums.both[i], both[i]);
  }
}

// Some of the pairs of a tile. `first`: nothing lies in `words` yet; `last`: the result is written.
struct Stretch {
  int64_t from, to;
  bool first, last;
};

// Whether the sums of a row of a tile are less than 2^53, so that one float64 holds each.
TARGET_16 INLINE bool fits_one_word(const HalfSums& sums, int row) {
  const __m512i sizes = _mm512_abs_epi32(_mm512_load_si512(sums.high[row]));
  return _mm512_cmpge_epu32_mask(sizes, _mm512_set1_epi32(1 << 28)) == 0;
}

// 8 sums of one kind.
TARGET_16 INLINE __m512d eight(const int32_t* sums) {
  return _mm512_cvtepi32_pd(_mm256_load_si256(reinterpret_cast<const __m256i*>(sums)));
}

// A row of a tile that is added to what `words` holds of it, or into the result. Two words are
// exact: multiples of 2^12, and a rest that stays less than 2^53 for 2^15 terms.
TARGET_16 INLINE void add_row(const HalfSums& sums, int row, const Stretch& stretch,
                              const Words& words, const Part& part) {
  const bool one_word = stretch.first && stretch.last && fits_one_word(sums, row);
  for (int j = 0; j < kLane && j < part.columns; j += 8) {
    const __m512d most = eight(sums.high[row] + j), scale = _mm512_set1_pd(0xfffp12);
    __m512d high = most * scale;
    __m512d low = _mm512_fmadd_pd(eight(sums.both[row] + j), _mm512_set1_pd(0x1p12),
                                  eight(sums.low[row] + j) * -0xfffp0);
    const Words here = words.at(row, j);
    if (!stretch.first) high += _mm512_loadu_pd(here.high), low += _mm512_loadu_pd(here.low);
    if (!stretch.last) {
      _mm512_storeu_pd(here.high, high), _mm512_storeu_pd(here.low, low);
      continue;
    }
    const __m512d sum = one_word ? _mm512_fmadd_pd(most, scale, low) : to_odd<8>(high, low);
    const __m512d value = sum * (_mm512_load_pd(part.column_unit + j) * part.row_unit[row]);
    float* const out = part.data + row * part.stride + j;
    if (part.ordinary)  // and no sum is -0
      _mm256_mask_storeu_ps(out, first_lanes(part.columns - j), _mm512_cvtpd_ps(value));
    else
      put<8>(value, false, out, part.columns - j);
  }
}

template <int MR>
TARGET_16 void add_tile(const HalfRows& rows, const __m512i* columns, const Stretch& all,
                        int64_t exact, const Words& words, const Part& part) {
  HalfSums sums;
  for (int64_t from = all.from; from < all.to; from += exact) {
    const int64_t to = std::min(all.to, from + exact);
    add_halves<MR>(rows, columns, from, to, sums);
    const Stretch stretch{from, to, all.first && from == all.from, all.last && to == all.to};
    for (int i = 0; i < MR; i++) add_row(sums, i, stretch, words, part);
  }
}

}  // namespace rlkjax

#endif

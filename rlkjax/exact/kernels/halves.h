// Whole numbers as 16-bit halves, for processors that multiply and add pairs of such integers: 32
// products in one instruction, where float64 has 8.
//
// A whole number is q = 2^12 high + low, with low in [-2^11, 2^11) and high in [-2^12, 2^12]. With
// both = high + low, of two numbers q and q',
//
//   q q' = (2^24 - 2^12) high high' + 2^12 both both' + (1 - 2^12) low low',
//
// three products instead of four (Karatsuba and Ofman, 1962). Their sums are int32 without loss while
// they are less than 2^31: 56 terms in any case, since |both| <= 6143, and as many as Cauchy and
// Schwarz allow if the numbers are smaller. Those of low halves always are: 256 times 2^22 is 2^30.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "grid.h"
#include "lanes.h"
#include "processor.h"
#include "vectors.h"

namespace rlkjax {

constexpr int64_t kGroup = 8;               // rows of the largest tile
constexpr int64_t kLane = 16;               // int32 in a vector: columns of a tile
constexpr int64_t kLongBlock = 256;         // terms that are packed at once
constexpr int64_t kPairs = kLongBlock / 2;  // of terms
constexpr int64_t kAnyPairs = 28;           // that add without loss, whatever they are
constexpr double kRoom = 0x1.fffp61;        // below (2^31)^2: a product of sums of squares
constexpr int kLeastExponent = -102;  // half a unit is no less than 2^-126; 1 / unit is a float32

#define INLINED_16 INLINED TARGET_16

// High and low halves of 16 pairs of terms.
struct Halves {
  __m512i high, low;
};

// Rows in pairs of terms: pair p of row i, of high halves (kind 0), low ones (1) and their sums (2),
// is data[i * row + p * pair + t * kind].
struct HalfRows {
  const int32_t* data;
  int64_t row, pair, kind;
};

// A bound of the sums of squares of any row.
struct Norms {
  double high = 0, both = 0;

  INLINE bool fits(const Norms& other) const {
    return high * other.high <= kRoom && both * other.both <= kRoom;
  }

  INLINE void include(const Norms& other) {
    high = std::max(high, other.high), both = std::max(both, other.both);
  }
};

// Sums of squares, lane by lane, that stay at the largest int32 if they get there.
struct Squares {
  __m512i high, both;

  TARGET_16 INLINE void add(const Halves& halves, __m512i sums) {
    high = _mm512_dpwssds_epi32(high, halves.high, halves.high);
    both = _mm512_dpwssds_epi32(both, sums, sums);
  }

  TARGET_16 INLINE void include(const Squares& other) {
    high = _mm512_max_epi32(high, other.high), both = _mm512_max_epi32(both, other.both);
  }
};

TARGET_16 INLINE __m512i as_pairs(__m512i one, __m512i next) {
  return _mm512_mask_blend_epi16(0xaaaaaaaa, one, _mm512_slli_epi32(next, 16));
}

TARGET_16 INLINE __m512i high_half(__m512i whole) {
  return _mm512_srai_epi32(_mm512_add_epi32(whole, _mm512_set1_epi32(1 << 11)), 12);
}

// The last 12 bits of each int16, as signed numbers.
TARGET_16 INLINE __m512i low_halves(__m512i pairs) {
  return _mm512_srai_epi16(_mm512_slli_epi16(pairs, 4), 4);
}

TARGET_16 INLINE __m512i sums_of(const Halves& halves) {
  return _mm512_add_epi16(halves.high, halves.low);
}

// Float32 numbers in units, to nearest even.
TARGET_16 INLINE __m512i in_units(__m512 numbers, __m512 per_unit) {
  return _mm512_cvtps_epi32(_mm512_mul_ps(numbers, per_unit));
}

// Up to 16 numbers of 1 / unit, zeros after them.
TARGET_16 INLINE __m512 float_units(const double* per_unit, int64_t count) {
  const __m512d low = _mm512_maskz_loadu_pd(first_lanes(count), per_unit);
  const __m512d high = _mm512_maskz_loadu_pd(first_lanes(count - 8), per_unit + 8);
  return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high), 1);
}

// The largest sums of squares of any lane.
TARGET_16 INLINE Norms norms_of(const Squares& squares) {
  const int32_t high = _mm512_reduce_max_epi32(squares.high);
  const int32_t both = _mm512_reduce_max_epi32(squares.both);
  return {high == INT32_MAX ? 0x1p64 : high, both == INT32_MAX ? 0x1p64 : both};
}

TARGET_16 INLINE double total_of(__m512i sums) {
  return _mm512_reduce_add_pd(_mm512_cvtepi32_pd(_mm512_castsi512_si256(sums))) +
         _mm512_reduce_add_pd(_mm512_cvtepi32_pd(_mm512_extracti64x4_epi64(sums, 1)));
}

// Calls fn(p, halves of pair p) for up to 16 rows that lie side by side; returns their norms. Masked
// lanes may lie beyond the operand.
template <typename Fn>
TARGET_16 INLINE Norms each_pair(const float* x, int64_t stride, int64_t rows, int64_t terms,
                                 const double* per_unit, const Fn& fn) {
  const __mmask16 meant = first_lanes(rows);
  const __m512 scale = float_units(per_unit, rows);
  Squares squares{_mm512_setzero_si512(), _mm512_setzero_si512()};
  for (int64_t k = 0; k < terms; k += 2, x += 2 * stride) {
    const __mmask16 next = k + 1 < terms ? meant : 0;
    const __m512i one = in_units(_mm512_maskz_loadu_ps(meant, x), scale);
    const __m512i other = in_units(_mm512_maskz_loadu_ps(next, x + stride), scale);
    const Halves halves{as_pairs(high_half(one), high_half(other)),
                        low_halves(as_pairs(one, other))};
    squares.add(halves, sums_of(halves));
    fn(k / 2, halves);
  }
  return norms_of(squares);
}

// 16 columns that lie side by side: high and low halves of each pair of terms.
TARGET_16 INLINE Norms pack_halves(const float* x, int64_t stride, int64_t columns, int64_t terms,
                                   const double* per_unit, __m512i* out) {
  return each_pair(x, stride, columns, terms, per_unit,
                   [=](int64_t pair, const Halves& halves) INLINED_16 {
                     _mm512_store_si512(out + 2 * pair, halves.high);
                     _mm512_store_si512(out + 2 * pair + 1, halves.low);
                   });
}

constexpr int64_t kGroupSize = kGroup * 3 * kPairs;  // int32

// Rows that lie side by side, in groups of 8: pair by pair, the 8 numbers of each kind.
TARGET_16 INLINE Norms pack_half_groups(const Side& side, int64_t row, int64_t rows,
                                        const Terms& part, const double* per_unit, int32_t* out) {
  Norms norms;
  for (int64_t i = 0; i < rows; i += kLane, out += 2 * kGroupSize) {
    norms.include(each_pair(
        side.at(row + i, part.first), side.rows, rows - i, part.end - part.first, per_unit + i,
        [=](int64_t pair, const Halves& halves) INLINED_16 {
          const __m512i kinds[3] = {halves.high, halves.low, sums_of(halves)};
          for (int t = 0; t < 3; t++) {
            int32_t* const to = out + (3 * pair + t) * kGroup;
            _mm256_store_si256((__m256i*)to, _mm512_castsi512_si256(kinds[t]));
            _mm256_store_si256((__m256i*)(to + kGroupSize), _mm512_extracti64x4_epi64(kinds[t], 1));
          }
        }));
  }
  return norms;
}

constexpr int64_t kHalfRow = 3 * kPairs + kLane;  // int32; a power of two would share cache sets

// Rows whose terms lie side by side.
TARGET_16 INLINE Norms pack_half_rows(const Side& side, int64_t row, int64_t rows, const Terms& part,
                                      const double* per_unit, int32_t* out) {
  typedef int16_t Places __attribute__((vector_size(64)));
  const __m512i zero = _mm512_setzero_si512();
  Places places;  // of the last 16 bits of each int32
  for (int i = 0; i < 32; i++) places[i] = 2 * i;
  const __m512i even = (__m512i)places;
  const int64_t terms = part.end - part.first;
  Squares most{zero, zero};
  for (int64_t i = 0; i < rows; i++, out += kHalfRow) {
    const float* x = side.at(row + i, part.first);
    const __m512 scale = _mm512_set1_ps(per_unit[i]);
    Squares squares{zero, zero};
    for (int64_t k = 0; k < terms; k += 2 * kLane) {
      const __m512 numbers = _mm512_maskz_loadu_ps(first_lanes(terms - k), x + k);
      const __m512 after = _mm512_maskz_loadu_ps(first_lanes(terms - k - kLane), x + k + kLane);
      const __m512i one = in_units(numbers, scale), other = in_units(after, scale);
      const Halves halves{_mm512_permutex2var_epi16(high_half(one), even, high_half(other)),
                          low_halves(_mm512_permutex2var_epi16(one, even, other))};
      const __m512i sums = sums_of(halves);
      squares.add(halves, sums);
      int32_t* const to = out + k / 2;
      _mm512_storeu_si512(to, halves.high);
      _mm512_storeu_si512(to + kPairs, halves.low);
      _mm512_storeu_si512(to + 2 * kPairs, sums);
    }
    most.include(squares);
  }
  // no row has more than the most of each lane, which 16 squares do not fill
  return {total_of(most.high), total_of(most.both)};
}

}  // namespace rlkjax

#endif

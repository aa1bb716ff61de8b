// One row times columns of up to 64 terms that lie side by side: eight columns at a time, so that what
// joins the numbers of a vector is done for all of them at once. Physics multiplies thousands of small
// matrices by vectors.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "dots.h"
#include "grid.h"
#include "lanes.h"
#include "pack.h"
#include "processor.h"
#include "slab.h"

namespace rlkjax {

constexpr int64_t kShort = 2 * kExact;  // terms: the even ones and the odd ones add without loss
constexpr int kTogether = 8;            // columns

// Brings back into order what `joined` vectors have in the order 0 4 1 5 2 6 3 7.
TARGET_8 INLINE __m512i in_order() { return _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7); }

// The largest int32 of each of eight vectors, as int64, in that order.
TARGET_8 INLINE __m512i joined_peaks(const __m512i* x) {
  __m512i two[4], four[2];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++)
    two[i] = _mm512_max_epi32(_mm512_shuffle_i32x4(x[2 * i], x[2 * i + 1], 0x44),
                              _mm512_shuffle_i32x4(x[2 * i], x[2 * i + 1], 0xee));
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++)
    four[i] = _mm512_max_epi32(_mm512_shuffle_i32x4(two[2 * i], two[2 * i + 1], 0x88),
                               _mm512_shuffle_i32x4(two[2 * i], two[2 * i + 1], 0xdd));
  const __m512i all = _mm512_max_epi32(_mm512_unpacklo_epi64(four[0], four[1]),
                                       _mm512_unpackhi_epi64(four[0], four[1]));
  return _mm512_srli_epi64(_mm512_max_epi32(all, _mm512_shuffle_epi32(all, _MM_PERM_CDAB)), 32);
}

// The sums of the even and of the odd numbers of each of eight vectors, in that order.
TARGET_8 INLINE void joined_sums(const __m512d* x, __m512d& even, __m512d& odd) {
  __m512d two[4], four[2];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++)
    two[i] = _mm512_shuffle_f64x2(x[2 * i], x[2 * i + 1], 0x44) +
             _mm512_shuffle_f64x2(x[2 * i], x[2 * i + 1], 0xee);
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++)
    four[i] = _mm512_shuffle_f64x2(two[2 * i], two[2 * i + 1], 0x88) +
              _mm512_shuffle_f64x2(two[2 * i], two[2 * i + 1], 0xdd);
  even = _mm512_unpacklo_pd(four[0], four[1]);
  odd = _mm512_unpackhi_pd(four[0], four[1]);
}

// Column c of `count`; in the place of those that are missing, the last one again.
INLINE const float* column_of(const float* x, int64_t terms, int64_t count, int c) {
  return x + std::min<int64_t>(c, count - 1) * terms;
}

// Bits of the largest magnitudes of eight columns. V: vectors of float64 that hold a column.
template <int V>
TARGET_8 INLINE __m512i short_peaks(const float* x, int64_t terms, int64_t count) {
  constexpr int kLast = (V - 1) / 2;
  const __m512i magnitude = _mm512_set1_epi32(kMagnitude);
  const __mmask16 meant = first_lanes(terms - 16 * kLast);
  __m512i most[kTogether];
#pragma GCC unroll 8
  for (int c = 0; c < kTogether; c++) {
    const float* const at = column_of(x, terms, count, c);
    most[c] = _mm512_and_si512(_mm512_maskz_loadu_epi32(meant, at + 16 * kLast), magnitude);
#pragma GCC unroll 4
    for (int k = 0; k < kLast; k++)
      most[c] = _mm512_max_epi32(
          most[c], _mm512_and_si512(_mm512_loadu_si512(at + 16 * k), magnitude));
  }
  return joined_peaks(most);
}

// Eight columns times the row, whose numbers are on its grid: the sums of even and of odd terms.
// put_on_grid: of the numbers of a column, as float64, and the column.
template <int V, typename PutOnGrid>
TARGET_8 INLINE void short_sums(const double* row, const float* x, int64_t terms, int64_t count,
                                const PutOnGrid& put_on_grid, __m512d& even, __m512d& odd) {
  const __mmask8 meant = first_lanes(terms - 8 * (V - 1));
  __m512d numbers[V], sums[kTogether];
#pragma GCC unroll 8
  for (int k = 0; k < V; k++) numbers[k] = _mm512_loadu_pd(row + 8 * k);
#pragma GCC unroll 8
  for (int c = 0; c < kTogether; c++) {
    const float* const at = column_of(x, terms, count, c);
    sums[c] = _mm512_setzero_pd();
#pragma GCC unroll 8
    for (int k = 0; k < V; k++) {
      const __m256 some = k < V - 1 ? _mm256_loadu_ps(at + 8 * k)
                                    : _mm256_maskz_loadu_ps(meant, at + 8 * k);
      sums[c] = _mm512_fmadd_pd(put_on_grid(_mm512_cvtps_pd(some), c), numbers[k], sums[c]);
    }
  }
  joined_sums(sums, even, odd);
}

// Fetches the columns after the next eight.
TARGET_8 INLINE void fetch_later(const float* x, int64_t terms) {
  const float* const later = x + 2 * kTogether * terms;
  for (int64_t i = 0; i < kTogether * terms; i += 16) _mm_prefetch(later + i, _MM_HINT_T0);
}

// What is known of eight columns before their numbers are put on their grids.
struct Eight {
  alignas(64) double per_unit[kTogether];
  __m512d scale;  // units of the results, in the order of `joined` vectors
  bool tiny;      // whether subnormal numbers must be told from zeros
  bool ordinary;  // see grid.h
};

template <int V>
TARGET_8 INLINE Eight eight_of(const float* x, int64_t terms, int64_t count, double row_unit) {
  const __m512i peaks = short_peaks<V>(x, terms, count);
  const __mmask8 filled = _mm512_cmpge_epi64_mask(peaks, _mm512_set1_epi64(kLowest));
  const __m512i e = _mm512_sub_epi64(_mm512_srli_epi64(peaks, 23), _mm512_set1_epi64(127));
  const __m512i bias = _mm512_set1_epi64(1023), bits = _mm512_set1_epi64(kBits);
  const __m512i up = _mm512_slli_epi64(_mm512_add_epi64(bias, _mm512_sub_epi64(bits, e)), 52);
  const __m512i down = _mm512_slli_epi64(_mm512_add_epi64(bias, _mm512_sub_epi64(e, bits)), 52);
  const __m512d unit = _mm512_mask_mov_pd(_mm512_set1_pd(1.0), filled, _mm512_castsi512_pd(down));
  const __m512d scales = _mm512_maskz_mov_pd(filled, _mm512_castsi512_pd(up));
  Eight found;
  found.scale = unit * row_unit;
  found.tiny = _mm512_mask_cmplt_epi64_mask(filled, e, _mm512_set1_epi64(kBits - 125)) != 0;
  found.ordinary = !_mm512_cmpge_epi64_mask(e, _mm512_set1_epi64(128)) &&
                   !_mm512_cmp_pd_mask(found.scale, _mm512_set1_pd(0x1p-126), _CMP_LT_OQ);
  _mm512_store_pd(found.per_unit, _mm512_permutexvar_pd(in_order(), scales));
  return found;
}

// A row on its grid, zeros after it.
struct ShortRow {
  const double* numbers;
  double unit;
  bool finite;
};

// Eight results that one rounding to float32 is left of, in the order of `joined` vectors.
struct Results {
  __m512d value;
  bool ordinary;  // see grid.h
};

// False if they have to be found otherwise.
template <int V>
TARGET_8 INLINE bool results_of(const ShortRow& row, const float* x, int64_t terms, int64_t count,
                                Results& results) {
  const Eight eight = eight_of<V>(x, terms, count, row.unit);
  if (eight.tiny) return false;
  const __m512d magic = _mm512_set1_pd(kMagic);
  __m512d even, odd;
  short_sums<V>(row.numbers, x, terms, count, [&](__m512d numbers, int c) TARGET_8 INLINED {
    return _mm512_fmadd_pd(numbers, _mm512_set1_pd(eight.per_unit[c]), magic) - magic;
  }, even, odd);
  results = {together<8>(even, odd) * eight.scale, row.finite && eight.ordinary};
  return true;
}

// The same of columns that are on their grids. Their units are not known, nor needed: a float64
// holds each of the two sums as it is.
template <int V>
TARGET_8 INLINE Results results_on_grid(const ShortRow& row, const float* x, int64_t terms,
                                        int64_t count) {
  __m512d even, odd;
  short_sums<V>(row.numbers, x, terms, count,
                [](__m512d numbers, int) TARGET_8 INLINED { return numbers; }, even, odd);
  const __m512d sum = even + odd;
  const __m512d value = (sum - sum == 0.0 ? to_odd<8>(even, odd) : sum) * row.unit;
  const __m512d size = _mm512_abs_pd(value);
  const __mmask8 some = _mm512_cmp_pd_mask(size, _mm512_setzero_pd(), _CMP_NEQ_UQ);
  const __mmask8 small = _mm512_cmp_pd_mask(size, _mm512_set1_pd(0x1p-126), _CMP_LT_OQ);
  const __mmask8 beyond = _mm512_cmp_pd_mask(size, _mm512_set1_pd(INFINITY), _CMP_NLT_UQ);
  return {value, !(some & small) && !beyond};
}

// The columns of a slab. False if it has to be done otherwise.
template <int V, bool OnGrid>
TARGET_8 bool columns_of_dots(const ShortRow& row, const float* x, int64_t terms, int64_t columns,
                              float* result) {
  for (int64_t column = 0; column < columns; column += kTogether, x += kTogether * terms) {
    const int64_t count = std::min<int64_t>(kTogether, columns - column);
    fetch_later(x, terms);
    Results results;
    if constexpr (OnGrid)
      results = results_on_grid<V>(row, x, terms, count);
    else if (!results_of<V>(row, x, terms, count, results))
      return false;
    put<8>(_mm512_permutexvar_pd(in_order(), results.value), results.ordinary, result + column,
           count);
  }
  return true;
}

// The same, by the number of vectors that hold a column.
typedef bool (*Dots)(const ShortRow&, const float*, int64_t, int64_t, float*);
template <bool OnGrid>
constexpr Dots kDots[] = {columns_of_dots<1, OnGrid>, columns_of_dots<2, OnGrid>,
                          columns_of_dots<3, OnGrid>, columns_of_dots<4, OnGrid>,
                          columns_of_dots<5, OnGrid>, columns_of_dots<6, OnGrid>,
                          columns_of_dots<7, OnGrid>, columns_of_dots<8, OnGrid>};

// A slab of a product of one row and short columns. False if it has to be done otherwise.
TARGET_8 inline bool short_dots(const Product& product, const Slab& slab, const Scratch& scratch) {
  const int64_t terms = product.left.terms;
  if (!product.right.terms_last || terms > kShort) return false;
  peaks_of<8>(product.left, 0, 1, {0, terms}, scratch.row_peaks);
  const Exponents range =
      units_of(scratch.row_peaks, 1, kBits, scratch.per_row_unit, scratch.row_unit);
  const Piece piece{product.left, 0, 1, 0, terms, tiny(range), false};
  pack_rows<8>(piece, 1, scratch.per_row_unit, scratch.left);
  std::fill_n(scratch.left + terms, 8, 0.0);
  const ShortRow row{scratch.left, scratch.row_unit[0], range.most < 128};
  const int64_t last = (terms - 1) / 8;
  return (product.on_grid ? kDots<true> : kDots<false>)[last](
      row, product.right.at(slab.column, 0), terms, slab.columns, product.result + slab.column);
}

}  // namespace rlkjax

#endif

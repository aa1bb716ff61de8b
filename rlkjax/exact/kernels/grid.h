// From float32 to whole numbers of a grid's unit, and back with one rounding: grid.py,
// contraction.py and rounding.py, in the same terms.
//
// e of a row: 2^e <= M < 2^(e+1), M its largest magnitude; -126 for zeros, 128 beside an infinity
// or NaN. Its unit is 2^(e-22), so that it holds integers of at most 2^23.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "vectors.h"

namespace rlkjax {

constexpr int kBits = 22;
constexpr int32_t kMagnitude = 0x7fffffff, kLowest = 0x00800000;  // bits of a float32; 2^-126
constexpr double kMagic = 6755399441055744.0;  // 1.5 * 2^52: added, it leaves whole numbers

// One operand of a product: rows along the axis that stays, terms along the one that is summed.
struct Side {
  const float* data;
  int64_t rows, terms;
  bool terms_last;  // row by row in memory; otherwise term by term

  INLINE const float* at(int64_t row, int64_t term) const {
    return data + (terms_last ? row * terms + term : term * rows + row);
  }
};

INLINE double power_of_two(int exponent) {
  const uint64_t bits = static_cast<uint64_t>(exponent + 1023) << 52;
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <typename Bits>
INLINE Bits larger(Bits a, Bits b) {
  return a > b ? a : b;
}

// Bits of the largest magnitude in a row whose terms lie side by side. Integers order like
// magnitudes, NaN last.
template <int W>
INLINE int32_t peak(const float* x, int64_t terms) {
  typedef typename Vectors<W>::Bits Bits;
  Bits most = Bits{} + kLowest;
  for (int64_t k = 0; k < terms; k += W) {
    const int64_t at = start_of<W>(k, terms);
    most = larger<Bits>(most, load_some<Bits>(x + at, terms - at) & kMagnitude);
  }
  int32_t found = most[0];
  for (int i = 1; i < W; i++) found = found > most[i] ? found : most[i];
  return found;
}

// The same for W rows that lie side by side, term by term; for the first `count` of them.
template <int W>
INLINE void peaks_across(const Side& side, int64_t row, int64_t count, int32_t* found) {
  typedef typename Vectors<W>::Bits Bits;
  Bits most = Bits{} + kLowest;
  for (int64_t k = 0; k < side.terms; k++)
    most = larger<Bits>(most, load_some<Bits>(side.at(row, k), count) & kMagnitude);
  for (int i = 0; i < W && i < count; i++) found[i] = most[i];
}

// 1 / unit and unit of `count` rows; `peaks` is scratch.
template <int W>
INLINE void units(const Side& side, int64_t row, int64_t count, int32_t* peaks, double* per_unit,
                  double* unit) {
  if (side.terms_last)
    for (int64_t i = 0; i < count; i++) peaks[i] = peak<2 * W>(side.at(row + i, 0), side.terms);
  else
    for (int64_t i = 0; i < count; i += 2 * W)
      peaks_across<2 * W>(side, row + i, count - i, peaks + i);
  for (int64_t i = 0; i < count; i++) {
    const int e = (peaks[i] >> 23) - 127;
    per_unit[i] = power_of_two(kBits - e);
    unit[i] = power_of_two(e - kBits);
  }
}

// Numbers in units, to nearest even. Subnormal numbers are zeros. An infinity or NaN stays.
template <int W>
INLINE typename Vectors<W>::Double on_grid(typename Vectors<W>::Float x,
                                           typename Vectors<W>::Double per_unit) {
  typedef typename Vectors<W>::Double Double;
  typedef typename Vectors<W>::Float Float;
  typedef typename Vectors<W>::Bits Bits;
  const Bits normal = (Bits)(((Bits)x & kMagnitude) >= kLowest);
  const Double value = __builtin_convertvector((Float)((Bits)x & normal), Double);
  return (value * per_unit + kMagic) - kMagic;
}

// Whether whole numbers times the units of these rows and columns are finite and, if not zero, no
// less than 2^-126: then a conversion is all that is left to do.
INLINE bool ordinary(const double* row_unit, int64_t rows, const double* column_unit,
                     int64_t columns) {
  constexpr double kInfinite = 0x1p106;  // unit of a row that holds an infinity or NaN: 2^(128-22)
  const auto [row_least, row_most] = std::minmax_element(row_unit, row_unit + rows);
  const auto [least, most] = std::minmax_element(column_unit, column_unit + columns);
  return *row_least * *least >= 0x1p-126 && std::max(*row_most, *most) < kInfinite;
}

// W whole numbers times their unit as float32, nearest even as if exponents had no lower bound;
// subnormal results and zeros are +0, a NaN has one bit pattern. Writes the first `count`.
template <int W>
INLINE void put(typename Vectors<W>::Double value, bool ordinary, float* out, int64_t count) {
  typedef typename Vectors<W>::Double Double;
  typedef typename Vectors<W>::Integer Integer;
  typedef typename Vectors<W>::Float Float;
  typedef typename Vectors<W>::Bits Bits;
  constexpr double kSmallest = 0x1p-126, kKept = 0x1p-126 - 0x1p-151;
  if (!ordinary) {
    const Integer bits = (Integer)value;
    const Double size = (Double)(bits & INT64_MAX);
    const Integer smallest = (Integer)(Double{} + kSmallest) & (Integer)(size >= kKept);
    value = size < kSmallest ? (Double)(smallest | (bits & INT64_MIN)) : value;
  }
  Float result = __builtin_convertvector(value, Float) + 0.0f;
  if (!ordinary) result = result != result ? (Float)(Bits{} + 0x7fc00000) : result;
  store_some(out, result, count);
}

}  // namespace rlkjax

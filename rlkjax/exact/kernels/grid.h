// From float32 to whole numbers of a grid's unit, and back with one rounding: grid.py,
// contraction.py and rounding.py, in the same terms.
//
// e of a row: 2^e <= M < 2^(e+1), M its largest magnitude; 128 beside an infinity or NaN; a row of
// zeros has none. Its unit is 2^(e-23), so that it holds integers less than 2^24.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "folds.h"
#include "vectors.h"

namespace rlkjax {

constexpr int kBits = 23;
constexpr int64_t kFilled = 8;  // rows of whole vectors and tiles
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

  INLINE const float* end() const { return data + rows * terms; }
};

// The terms from `first` to before `end`.
struct Terms {
  int64_t first, end;
};

INLINE double power_of_two(int exponent) {
  const uint64_t bits = static_cast<uint64_t>(exponent + 1023) << 52;
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Bits of the largest magnitude in a row whose terms lie side by side. Integers order like
// magnitudes, NaN last. The last vector overlaps the one before it.
template <int W>
INLINE int32_t peak(const float* x, int64_t terms) {
  typedef typename Vectors<W>::Bits Bits;
  const auto sizes = [=](int64_t k) { return load_before<Bits>(x + terms, x + k) & kMagnitude; };
  Bits most = sizes(std::max<int64_t>(terms - W, 0));
  for (int64_t k = 0; k + W < terms; k += W) most = larger<Bits>(most, sizes(k));
  return largest<W, int32_t>(most);
}

// The same for V * W rows that lie side by side, term by term; only `count` of them are meant.
template <int W, int V>
INLINE void peaks_across(const Side& side, int64_t row, int64_t count, const Terms& part,
                         int32_t* peaks) {
  typedef typename Vectors<W>::Bits Bits;
  Bits most[V];
  for (int v = 0; v < V; v++) most[v] = Bits{};
  for (int64_t k = part.first; k < part.end; k++) {
    const float* x = side.at(row, k);
    for (int v = 0; v < V; v++)
      most[v] = larger<Bits>(most[v], load_before<Bits>(side.end(), x + v * W) & kMagnitude);
  }
  for (int v = 0; v < V; v++) store_some(peaks + v * W, most[v], count - v * W);
}

// Bits of the largest magnitudes in `count` rows, among some of their terms.
template <int W>
INLINE void peaks_of(const Side& side, int64_t row, int64_t count, const Terms& part,
                     int32_t* peaks) {
  constexpr int V = 4;
  const int64_t terms = part.end - part.first;
  int64_t i = 0;
  if (side.terms_last)
    for (; i < count; i++) {
      const float* x = side.at(row + i, part.first);
      peaks[i] = terms < 2 * W ? peak<W>(x, terms) : peak<2 * W>(x, terms);
    }
  for (; count - i >= V * W; i += V * W) peaks_across<W, V>(side, row + i, V * W, part, peaks + i);
  for (; i < count; i += W) peaks_across<W, 1>(side, row + i, count - i, part, peaks + i);
}

// Smallest and largest e of some rows.
struct Exponents {
  int least, most;
};

// 1 / unit and unit, 2^(e - bits), of `count` rows with these peaks; behind the former, zeros that
// fill up a vector. Of a row of zeros they are 0, which makes zeros of subnormal numbers, and 1.
INLINE Exponents units_of(const int32_t* peaks, int64_t count, int bits, double* per_unit,
                          double* unit) {
  Exponents found{128, -126};
  for (int64_t i = 0; i < count; i++) {
    per_unit[i] = 0.0, unit[i] = 1.0;
    if (peaks[i] < kLowest) continue;
    const int e = (peaks[i] >> 23) - 127;
    found = {std::min(found.least, e), std::max(found.most, e)};
    per_unit[i] = power_of_two(bits - e), unit[i] = power_of_two(e - bits);
  }
  std::fill_n(per_unit + count, -count & (kFilled - 1), 0.0);
  return found;
}

// Numbers in units, to nearest even. An infinity or NaN stays. Subnormal numbers are zeros, which
// has to be seen to where `tiny`: a unit may be small enough to tell them from zeros.
template <int W>
INLINE typename Vectors<W>::Double on_grid(typename Vectors<W>::Float x,
                                           typename Vectors<W>::Double per_unit, bool tiny) {
  typedef typename Vectors<W>::Double Double;
  typedef typename Vectors<W>::Float Float;
  typedef typename Vectors<W>::Bits Bits;
  if (tiny) x = (Float)((Bits)x & (Bits)(((Bits)x & kMagnitude) >= kLowest));
  return (__builtin_convertvector(x, Double) * per_unit + kMagic) - kMagic;
}

// Whether a half of a unit can be less than 2^-126.
INLINE bool tiny(const Exponents& rows, int bits = kBits) { return rows.least - bits - 1 < -126; }

// Whether whole numbers times the units of rows and columns are finite and, if not zero, no less
// than 2^-126: then a conversion is all that is left to do.
INLINE bool ordinary(const Exponents& rows, const Exponents& columns) {
  return rows.least + columns.least - 2 * kBits >= -126 && std::max(rows.most, columns.most) < 128;
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

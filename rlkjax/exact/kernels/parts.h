// A product whose terms are cut into parts: its peaks, its sums, and their end.
#pragma once

#include <algorithm>
#include <cstdint>

#include "grid.h"
#include "slab.h"
#include "tile.h"
#include "vectors.h"

namespace rlkjax {

// What the parts of a product leave for each other.
struct Parts {
  int64_t count, terms;  // how many, and terms of each but the last one
  int32_t* peaks;        // of each part: those of all rows, then those of all columns
  double* words;         // of each slab and part: two words of a slab of `rows`
  int64_t rows;

  INLINE Terms terms_of(int64_t part, int64_t all) const {
    return {part * terms, std::min(all, (part + 1) * terms)};
  }

  INLINE int32_t* peaks_at(int64_t part, const Product& product) const {
    return peaks + part * (product.left.rows + product.right.rows);
  }

  INLINE Words words_at(int64_t slab, int64_t part) const {
    const int64_t size = rows * Words::kStride;
    double* const high = words + (slab * count + part) * 2 * size;
    return {high, high + size};
  }
};

template <int W>
INLINE void peaks_of_part(const Product& product, const Parts& parts, int64_t part) {
  int32_t* const peaks = parts.peaks_at(part, product);
  const Terms terms = parts.terms_of(part, product.left.terms);
  peaks_of<W>(product.left, 0, product.left.rows, terms, peaks);
  peaks_of<W>(product.right, 0, product.right.rows, terms, peaks + product.left.rows);
}

// The ranges of a slab, from the peaks of all parts.
INLINE Ranges ranges_of_parts(const Product& product, const Slab& slab, const Parts& parts,
                              const Scratch& scratch) {
  std::fill_n(scratch.row_peaks, slab.rows, 0);
  std::fill_n(scratch.column_peaks, slab.columns, 0);
  for (int64_t part = 0; part < parts.count; part++) {
    const int32_t* const rows = parts.peaks_at(part, product) + slab.row;
    const int32_t* const columns = rows - slab.row + product.left.rows + slab.column;
    for (int64_t i = 0; i < slab.rows; i++)
      scratch.row_peaks[i] = std::max(scratch.row_peaks[i], rows[i]);
    for (int64_t i = 0; i < slab.columns; i++)
      scratch.column_peaks[i] = std::max(scratch.column_peaks[i], columns[i]);
  }
  return ranges_of(slab, scratch);
}

// The sums of all parts, rounded once.
template <int W>
INLINE void add_parts(const Product& product, const Slab& slab, const Parts& parts, int64_t place,
                      const Scratch& scratch) {
  typedef typename Vectors<W>::Double Double;
  const Ranges ranges = ranges_of_parts(product, slab, parts, scratch);
  const Part result = part_of(product, slab, ranges, scratch);
  for (int64_t row = 0; row < slab.rows; row++) {
    for (int64_t column = 0; column < slab.columns; column += W) {
      Double high{}, low{};
      for (int64_t part = 0; part < parts.count; part++) {
        const Words words = parts.words_at(place, part).at(row, column);
        high += load<Double>(words.high) - kSplit;
        low += load<Double>(words.low);
      }
      const Tile<W, 1, 1> tile{{{to_odd<W>(high, low)}}};
      tile.put_into(result.at(row, column, 1, W));
    }
  }
}

}  // namespace rlkjax

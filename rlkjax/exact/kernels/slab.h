// A slab of a product of matrices: so many rows and columns that what they need stays in the cache.
//
// Its terms may be cut into parts, which threads add side by side: sums are exact, so they can be cut
// anywhere. First the peaks of every part are found, then its sums, and then those are added.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "dots.h"
#include "grid.h"
#include "pack.h"
#include "tile.h"
#include "vectors.h"

namespace rlkjax {

constexpr int64_t kSlabRows = 128, kSlabColumns = Words::kStride;
constexpr int64_t kPanel = 24;  // columns of the widest tile
constexpr int64_t kAligned = 8;  // numbers in a cache line
constexpr int64_t kLeftRow = 200;  // room for a packed row: one of halves takes most, see halves.h

// left [rows, terms] times right [columns, terms], transposed: result [rows, columns].
struct Product {
  Side left, right;
  float* result;
  bool on_grid;  // whether columns beside one row are on their grids already
};

struct Slab {
  int64_t row, rows, column, columns;
};

// Smallest and largest exponents of the rows and columns of a slab.
struct Ranges {
  Exponents rows, columns;
};

// Product number `matrix` of those that lie one after the other.
INLINE Product product_at(Product first, int64_t matrix) {
  first.left.data += matrix * first.left.rows * first.left.terms;
  first.right.data += matrix * first.right.rows * first.right.terms;
  first.result += matrix * first.left.rows * first.right.rows;
  return first;
}

// What a thread needs for a slab, kept for its next one.
struct Scratch {
  double *left, *panel, *panel_rows;
  Words words;
  double *row_unit, *per_row_unit, *column_unit, *per_column_unit;
  int32_t *row_peaks, *column_peaks;

  Scratch() {
    constexpr int64_t kRows = kSlabRows, kColumns = kSlabColumns, kAll = kRows + kColumns;
    thread_local std::vector<double> memory(kRows * kLeftRow + 2 * kPanel * kRowOfTerms +
                                            2 * kRows * kColumns + 3 * kAll + kAligned);
    double* next = memory.data();
    while (reinterpret_cast<uintptr_t>(next) % (kAligned * sizeof(double)) != 0) next++;
    const auto take = [&next](int64_t size) { return (next += size) - size; };
    left = take(kRows * kLeftRow);
    panel = take(kPanel * kRowOfTerms), panel_rows = take(kPanel * kRowOfTerms);
    words = {take(kRows * kColumns), take(kRows * kColumns)};
    row_unit = take(kRows), per_row_unit = take(kRows);
    column_unit = take(kColumns), per_column_unit = take(kColumns);
    row_peaks = reinterpret_cast<int32_t*>(take(kRows));
    column_peaks = reinterpret_cast<int32_t*>(take(kColumns));
  }
};

// Rows of a slab times a panel of NV vectors of columns.
template <int W, int MR, int NV>
INLINE void panel(const PackedRows<W, MR>& rows, const Piece& columns, const double* per_unit,
                  Block block, const Scratch& scratch, const Words& words, const Part& part) {
  const double squares =
      pack_columns<W, NV>(columns, per_unit, scratch.panel_rows, scratch.panel);
  if (rows.squares * squares <= kSmall) block.exact = kBlock;
  for (int64_t row = 0; row < part.rows; row += MR)
    tile_of<W, MR, NV>(rows.at(row), scratch.panel, block, words.at(row, 0),
                       part.at(row, 0, MR, NV * W));
}

// The same for one row, whose packed numbers are `row`, and columns whose terms lie side by side.
template <int W>
INLINE void tiles_of_dots(double* row, const Piece& columns, const double* per_unit,
                          const Block& block, const Words& words, const Part& part) {
  std::fill_n(row + block.terms, W, 0.0);
  knowing(columns.tiny, [&](auto tiny) INLINED {
    for (int64_t first = 0; first < columns.count; first += W) {
      const Piece some{columns.side, columns.row + first, columns.count - first, block.term,
                       block.terms,  columns.tiny,        false};
      dots<W>(row, some, per_unit + first, block, words.at(0, first), part.at(0, first, 1, W), tiny);
    }
  });
}

// Finds the units of a slab, whose peaks are in `scratch`.
INLINE Ranges ranges_of(const Slab& slab, const Scratch& scratch) {
  return {units_of(scratch.row_peaks, slab.rows, kBits, scratch.per_row_unit, scratch.row_unit),
          units_of(scratch.column_peaks, slab.columns, kBits, scratch.per_column_unit,
                   scratch.column_unit)};
}

// The same, peaks included.
template <int W>
INLINE Ranges ranges_found(const Product& product, const Slab& slab, const Scratch& scratch) {
  const Terms all{0, product.left.terms};
  peaks_of<W>(product.left, slab.row, slab.rows, all, scratch.row_peaks);
  peaks_of<W>(product.right, slab.column, slab.columns, all, scratch.column_peaks);
  return ranges_of(slab, scratch);
}

// Where the result of a slab goes.
INLINE Part part_of(const Product& product, const Slab& slab, const Ranges& ranges,
                    const Scratch& scratch) {
  return {product.result + slab.row * product.right.rows + slab.column,
          product.right.rows,
          slab.rows,
          slab.columns,
          scratch.row_unit,
          scratch.column_unit,
          ordinary(ranges.rows, ranges.columns)};
}

// Adds some terms of a slab: into the result if these are all of them, otherwise into `words`.
// W: numbers in a vector; MR and 3 * W: rows and columns of the largest tile. MR is 1 for one row.
template <int W, int MR>
INLINE void add_terms(const Product& product, const Slab& slab, const Terms& terms,
                      const Ranges& ranges, const Words& words, const Scratch& scratch) {
  const Side &left = product.left, &right = product.right;
  const Part part = part_of(product, slab, ranges, scratch);
  const int64_t vectors = (slab.columns + W - 1) / W;
  const bool by_dots = MR == 1 && right.terms_last;
  const bool measured = left.terms > kExact && !by_dots, all = terms.end - terms.first == left.terms;
  for (int64_t term = terms.first; term < terms.end; term += kBlock) {
    const Block block{term,
                      std::min(kBlock, terms.end - term),
                      kExact,
                      term == terms.first,
                      all && term + kBlock >= terms.end,
                      std::max(ranges.rows.most, ranges.columns.most) < 128};
    const Piece above{left,        slab.row,         slab.rows, term,
                      block.terms, tiny(ranges.rows), measured};
    const PackedRows<W, MR> rows(above, scratch.per_row_unit, scratch.left);
    const auto columns = [&](int64_t first, int64_t count) INLINED {
      return Piece{right,       slab.column + first, count,   term,
                   block.terms, tiny(ranges.columns), measured};
    };
    if (by_dots) {
      tiles_of_dots<W>(scratch.left, columns(0, slab.columns), scratch.per_column_unit, block,
                       words, part);
      continue;
    }
    for (int64_t vector = 0, taken; vector < vectors; vector += taken) {
      taken = vectors - vector == 4 ? 2 : std::min<int64_t>(3, vectors - vector);
      const int64_t first = vector * W, count = std::min(taken * W, slab.columns - first);
      const double* const per_unit = scratch.per_column_unit + first;
      const Piece some = columns(first, count);
      const Words here = words.at(0, first);
      const Part there = part.at(0, first, slab.rows, count);
      if (taken == 3)
        panel<W, MR, 3>(rows, some, per_unit, block, scratch, here, there);
      else if (taken == 2)
        panel<W, MR, 2>(rows, some, per_unit, block, scratch, here, there);
      else
        panel<W, MR, 1>(rows, some, per_unit, block, scratch, here, there);
    }
  }
}

}  // namespace rlkjax

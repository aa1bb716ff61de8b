// A slab of a product of matrices: so many rows and columns that what they need stays in the cache.
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

constexpr int64_t kSlabRows = 128, kSlabColumns = 256;
constexpr int64_t kPanel = 24;  // columns of the widest tile
constexpr int64_t kAligned = 8;  // numbers in a cache line

// left [rows, terms] times right [columns, terms], transposed: result [rows, columns].
struct Product {
  Side left, right;
  float* result;
};

struct Slab {
  int64_t row, rows, column, columns;
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
  int32_t* peaks;

  Scratch() {
    constexpr int64_t kRows = kSlabRows, kColumns = kSlabColumns, kAll = kRows + kColumns;
    thread_local std::vector<double> memory(kRows * kRowOfTerms + 2 * kPanel * kRowOfTerms +
                                            2 * kRows * kColumns + 3 * kAll + kAligned);
    double* next = memory.data();
    while (reinterpret_cast<uintptr_t>(next) % (kAligned * sizeof(double)) != 0) next++;
    const auto take = [&next](int64_t size) { return (next += size) - size; };
    left = take(kRows * kRowOfTerms);
    panel = take(kPanel * kRowOfTerms), panel_rows = take(kPanel * kRowOfTerms);
    words = {take(kRows * kColumns), take(kRows * kColumns), kColumns};
    row_unit = take(kRows), per_row_unit = take(kRows);
    column_unit = take(kColumns), per_column_unit = take(kColumns);
    peaks = reinterpret_cast<int32_t*>(take(kAll));
  }
};

// A block of the terms of a product.
struct Block {
  int64_t term, terms;
  bool first, last;
};

template <typename Tile>
INLINE void settle(Tile tile, const Block& block, const Words& words, const Part& part) {
  if (!block.last) return tile.add_to(words, block.first);
  if (!block.first) tile.finish(words);
  tile.put_into(part);
}

template <int W, int MR, int NV>
INLINE void tiles(const PackedRows<W, MR>& rows, const double* panel, const Block& block,
                  const Words& words, const Part& part) {
  for (int64_t row = 0; row < part.rows; row += MR)
    settle(products<W, MR, NV>(rows.at(row), panel, block.terms), block, words.at(row, 0),
           part.at(row, 0, MR, NV * W));
}

// The same for one row, whose packed numbers are `row`, and columns whose terms lie side by side.
template <int W>
INLINE void tiles_of_dots(double* row, const Piece& columns, const double* per_unit,
                          const Block& block, const Words& words, const Part& part) {
  std::fill_n(row + block.terms, W, 0.0);
  for (int64_t first = 0; first < columns.count; first += W) {
    const Piece some{columns.side, columns.row + first, columns.count - first, block.term,
                     block.terms, columns.tiny};
    settle(dots<W>(row, some, per_unit + first), block, words.at(0, first),
           part.at(0, first, 1, W));
  }
}

// W: numbers in a vector; MR and 3 * W: rows and columns of the largest tile. MR is 1 for one row.
template <int W, int MR>
INLINE void multiply(const Product& product, const Slab& slab, const Scratch& scratch) {
  const Side &left = product.left, &right = product.right;
  const Exponents row_range = units<W>(left, slab.row, slab.rows, kBits, scratch.peaks,
                                       scratch.per_row_unit, scratch.row_unit);
  const Exponents column_range = units<W>(right, slab.column, slab.columns, kBits, scratch.peaks,
                                          scratch.per_column_unit, scratch.column_unit);
  const Part part{product.result + slab.row * right.rows + slab.column,
                  right.rows,
                  slab.rows,
                  slab.columns,
                  scratch.row_unit,
                  scratch.column_unit,
                  ordinary(row_range, column_range)};
  const int64_t vectors = (slab.columns + W - 1) / W;
  for (int64_t term = 0; term < left.terms; term += kBlock) {
    const Block block{term, std::min(kBlock, left.terms - term), term == 0,
                      term + kBlock >= left.terms};
    const PackedRows<W, MR> rows(
        {left, slab.row, slab.rows, term, block.terms, tiny(row_range)}, scratch.per_row_unit,
        scratch.left);
    if (MR == 1 && right.terms_last) {
      const Piece columns{right, slab.column, slab.columns, term, block.terms, tiny(column_range)};
      tiles_of_dots<W>(scratch.left, columns, scratch.per_column_unit, block, scratch.words, part);
      continue;
    }
    for (int64_t vector = 0, taken; vector < vectors; vector += taken) {
      taken = vectors - vector == 4 ? 2 : std::min<int64_t>(3, vectors - vector);
      const int64_t first = vector * W, count = std::min(taken * W, slab.columns - first);
      pack_columns<W>({right, slab.column + first, count, term, block.terms, tiny(column_range)},
                      taken * W, scratch.per_column_unit + first, scratch.panel_rows,
                      scratch.panel);
      const Words words = scratch.words.at(0, first);
      const Part panel = part.at(0, first, slab.rows, count);
      if (taken == 3)
        tiles<W, MR, 3>(rows, scratch.panel, block, words, panel);
      else if (taken == 2)
        tiles<W, MR, 2>(rows, scratch.panel, block, words, panel);
      else
        tiles<W, MR, 1>(rows, scratch.panel, block, words, panel);
    }
  }
}

}  // namespace rlkjax

// Puts a block of an operand on its grid, in the order in which the tiles read it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "grid.h"
#include "tile.h"

namespace rlkjax {

constexpr int64_t kGap = 8;  // numbers after a row: rows a power of two apart share cache sets
constexpr int64_t kRowOfTerms = kBlock + kGap;

// The rows [row, row + count) of an operand, and the terms [term, term + terms).
struct Piece {
  const Side& side;
  int64_t row, count, term, terms;
  bool tiny;
};

// Row by row, each kRowOfTerms long. Rows from `count` to `height` fill up tiles: what they hold
// gets into results that nobody keeps.
template <int W>
INLINE void pack_rows(const Piece& piece, int64_t height, const double* per_unit, double* out) {
  typedef typename Vectors<W>::Float Float;
  typedef typename Vectors<W>::Double Double;
  for (int64_t i = 0; i < piece.count; i++) {
    const float* x = piece.side.at(piece.row + i, piece.term);
    for (int64_t k = 0; k < piece.terms; k += W) {
      const int64_t at = start_of<W>(k, piece.terms);
      const Float some = load_before<Float>(x + piece.terms, x + at);
      store<Double>(out + i * kRowOfTerms + at, on_grid<W>(some, Double{} + per_unit[i], piece.tiny));
    }
  }
  for (int64_t i = piece.count; i < height; i++)
    std::fill_n(out + i * kRowOfTerms, piece.terms, 0.0);
}

// Term by term, each `height` numbers, whole vectors; those from `count` on fill up likewise.
template <int W>
INLINE void pack_terms(const Piece& piece, int64_t height, const double* per_unit, double* out) {
  typedef typename Vectors<W>::Float Float;
  typedef typename Vectors<W>::Double Double;
  for (int64_t k = 0; k < piece.terms; k++, out += height) {
    const float* x = piece.side.at(piece.row, piece.term + k);
    for (int64_t i = 0; i < height; i += W) {
      const Float some = load_before<Float>(piece.side.end(), x + i);
      store<Double>(out + i, on_grid<W>(some, load<Double>(per_unit + i), piece.tiny));
    }
  }
}

// From rows of terms to terms of rows, W rows at a time.
template <int W>
INLINE void transpose(const double* rows, int64_t height, int64_t terms, double* out) {
  for (int64_t i = 0; i < height; i += W)
    for (int64_t k = 0; k < terms; k++)
      for (int64_t j = 0; j < W; j++) out[k * height + i + j] = rows[(i + j) * kRowOfTerms + k];
}

// Rows for a tile, MR of them at a time, as they lie in memory: no order costs a transposition.
template <int W, int MR>
struct PackedRows {
  const double* data;
  int64_t row, term, step;

  INLINE PackedRows(const Piece& piece, const double* per_unit, double* out) : data(out) {
    if (piece.side.terms_last) {
      row = kRowOfTerms, term = 1, step = MR * kRowOfTerms;
      pack_rows<W>(piece, (piece.count + MR - 1) / MR * MR, per_unit, out);
      return;
    }
    row = 1, term = MR, step = MR * piece.terms;
    for (int64_t i = 0; i < piece.count; i += MR) {
      const int64_t count = std::min<int64_t>(MR, piece.count - i);
      const Piece part{piece.side, piece.row + i, count, piece.term, piece.terms, piece.tiny};
      pack_terms<W>(part, MR, per_unit + i, out + i / MR * step);
    }
  }

  INLINE Rows at(int64_t first) const { return {data + first / MR * step, row, term}; }
};

// Columns for a tile, `width` of them, term by term; `rows` is scratch.
template <int W>
INLINE void pack_columns(const Piece& piece, int64_t width, const double* per_unit, double* rows,
                         double* out) {
  if (!piece.side.terms_last) return pack_terms<W>(piece, width, per_unit, out);
  pack_rows<W>(piece, width, per_unit, rows);
  transpose<W>(rows, width, piece.terms, out);
}

}  // namespace rlkjax

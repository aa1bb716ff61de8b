// Puts a block of an operand on its grid, in the order in which the tiles read it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "folds.h"
#include "grid.h"
#include "tile.h"

namespace rlkjax {

// Numbers after a row: rows a power of two apart share cache sets, and a vector may end there.
constexpr int64_t kGap = 8;
constexpr int64_t kRowOfTerms = kBlock + kGap;

// The rows [row, row + count) of an operand, and the terms [term, term + terms).
struct Piece {
  const Side& side;
  int64_t row, count, term, terms;
  bool tiny;
  bool measured;  // whether sums of squares are asked for; otherwise they are 0
};

// Row by row, each kRowOfTerms long. Rows from `count` to `height` fill up tiles: what they hold
// gets into results that nobody keeps. Returns a bound of any row's sum of squares, but for
// rounding: over all rows, the largest sum of every W-th term from 0, from 1 and so on, added.
template <int W>
INLINE double pack_rows(const Piece& piece, int64_t height, const double* per_unit, double* out) {
  typedef typename Vectors<W>::Float Float;
  typedef typename Vectors<W>::Double Double;
  typename Vectors<W>::Integer most{};
  knowing(piece.tiny, piece.measured, [&](auto tiny, auto measured) INLINED {
    for (int64_t i = 0; i < piece.count; i++) {
      const float* x = piece.side.at(piece.row + i, piece.term);
      const Double scale = Double{} + per_unit[i];
      Double squares[2] = {};
      for (int64_t k = 0; k < piece.terms; k += W) {
        const int64_t at = start_of<W>(k, piece.terms);
        const Double numbers =
            on_grid<W>(load_before<Float>(x + piece.terms, x + at), scale, tiny);
        store<Double>(out + i * kRowOfTerms + at, numbers);
        if (!measured) continue;
        squares[0] += numbers * numbers;
        std::swap(squares[0], squares[1]);  // two chains of additions take half as long as one
      }
      if (measured) most = larger(sizes<W>(squares[0] + squares[1]), most);
    }
  });
  for (int64_t i = piece.count; i < height; i++)
    std::fill_n(out + i * kRowOfTerms, piece.terms, 0.0);
  return total<W>((Double)most);
}

// Term by term, each V vectors of rows; those from `count` on fill up likewise. Returns the largest
// sum of squares of a row, but for rounding.
template <int W, int V>
INLINE double pack_terms(const Piece& piece, const double* per_unit, double* out) {
  typedef typename Vectors<W>::Float Float;
  typedef typename Vectors<W>::Double Double;
  Double squares[V] = {};
  knowing(piece.tiny, piece.measured, [&](auto tiny, auto measured) INLINED {
    for (int64_t k = 0; k < piece.terms; k++, out += V * W) {
      const float* x = piece.side.at(piece.row, piece.term + k);
#pragma GCC unroll 4
      for (int v = 0; v < V; v++) {
        const Float some = load_before<Float>(piece.side.end(), x + v * W);
        const Double numbers = on_grid<W>(some, load<Double>(per_unit + v * W), tiny);
        store<Double>(out + v * W, numbers);
        if (measured) squares[v] += numbers * numbers;
      }
    }
  });
  typename Vectors<W>::Integer most{};
  for (int v = 0; v < V; v++) most = larger(sizes<W>(squares[v]), most);
  return largest_size<W>(most);
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
  double squares = 0;  // a bound of any row's sum of squares

  INLINE PackedRows(const Piece& piece, const double* per_unit, double* out) : data(out) {
    if (piece.side.terms_last) {
      row = kRowOfTerms, term = 1, step = MR * kRowOfTerms;
      squares = pack_rows<W>(piece, (piece.count + MR - 1) / MR * MR, per_unit, out);
      return;
    }
    constexpr int V = MR < W ? 1 : MR / W;
    row = 1, term = V * W, step = V * W * piece.terms;
    for (int64_t i = 0; i < piece.count; i += MR) {
      const int64_t count = std::min<int64_t>(MR, piece.count - i);
      const Piece part{piece.side, piece.row + i, count, piece.term,
                       piece.terms, piece.tiny,    piece.measured};
      const double some = pack_terms<W, V>(part, per_unit + i, out + i / MR * step);
      if (!(some <= squares)) squares = some == some ? some : INFINITY;
    }
  }

  INLINE Rows at(int64_t first) const { return {data + first / MR * step, row, term}; }
};

// Columns for a tile, NV vectors of them, term by term; `rows` is scratch. Returns a bound of any
// column's sum of squares.
template <int W, int NV>
INLINE double pack_columns(const Piece& piece, const double* per_unit, double* rows, double* out) {
  if (!piece.side.terms_last) return pack_terms<W, NV>(piece, per_unit, out);
  const double squares = pack_rows<W>(piece, NV * W, per_unit, rows);
  transpose<W>(rows, NV * W, piece.terms, out);
  return squares;
}

}  // namespace rlkjax

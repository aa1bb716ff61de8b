// How a product is shared out: slabs of so many rows and columns, and parts of its terms.
//
// Costs are counted in products of numbers in the innermost loop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "slab.h"

namespace rlkjax {

constexpr int64_t kPacking = 8;        // putting a number on its grid takes as long as 8 products
constexpr int64_t kAlone = 1 << 18;    // work that one thread does as fast as several
constexpr int64_t kPiece = 1 << 16;    // work beside which taking a piece costs nothing
constexpr int64_t kMeeting = 1 << 17;  // threads waiting for each other, twice
constexpr int64_t kAdding = 16;        // adding a sum of a part
constexpr int64_t kLeastTerms = 2 * kBlock;  // of a part
constexpr int64_t kSecondRead = 1 << 16;  // numbers that are in the cache when they are read again

struct Plan {
  int64_t rows, columns, parts;
};

inline int64_t pieces_of(int64_t size, int64_t piece) { return (size + piece - 1) / piece; }

inline int64_t work_of(const Product& product) {
  const int64_t rows = product.left.rows, columns = product.right.rows;
  return product.left.terms * (rows * columns + kPacking * (rows + columns));
}

// How long a plan takes: as long as the thread with most pieces.
inline double cost_of(const Plan& plan, const Product& product, int64_t batch, int64_t threads) {
  const int64_t rows = std::min(plan.rows, product.left.rows);
  const int64_t columns = std::min(plan.columns, product.right.rows);
  const int64_t slabs = pieces_of(product.left.rows, rows) * pieces_of(product.right.rows, columns);
  const int64_t turns = pieces_of(batch * slabs * plan.parts, threads);
  const int64_t terms = pieces_of(product.left.terms, plan.parts);
  const double piece = double(terms) * double(rows * columns + kPacking * (rows + columns));
  if (plan.parts == 1) return double(turns) * piece;
  return double(turns) * (piece + double(kAdding * rows * columns)) + kMeeting;
}

// Columns for one row are read twice, so that a slab of them must stay in the cache.
inline Plan best_plan(const Product& product, int64_t batch, int64_t threads) {
  const int64_t terms = product.left.terms;
  const int64_t widest = product.left.rows == 1
                             ? std::clamp<int64_t>(kSecondRead / terms, 32, kSlabColumns)
                             : kSlabColumns;
  Plan best{kSlabRows, widest, 1};
  double least = std::numeric_limits<double>::infinity();
  const int64_t most_parts = std::min(threads, terms / kLeastTerms);
  for (int64_t parts = 1; parts == 1 || parts <= most_parts; parts *= 2) {
    for (int64_t rows = kSlabRows; rows >= 32; rows /= 2) {
      for (int64_t columns = widest; columns >= 32; columns /= 2) {
        const Plan plan{rows, columns, parts};
        const double cost = cost_of(plan, product, batch, threads);
        if (cost < least) best = plan, least = cost;
      }
    }
  }
  return best;
}

}  // namespace rlkjax

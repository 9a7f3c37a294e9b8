#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>

namespace martlet {

// What steps cost here: measured seconds by the number of rows and the tokens that a row attends to on average, kept
// for each model on a backend, drafting ones too, and updated by every step. Rows are told apart up to 16 and by
// quarter octaves above; contexts by octaves.
//
// The first steps of a shape may be slow for reasons of their own, such as pages that come in, and whoever goes by
// these prices does not ask again for what seems dear. So the first one counts for no more than those of fewer and of
// more rows allow, only the least of the first four counts, and what was not seen for a while is doubted: the sooner,
// the fewer times it was seen before.
class CostTable {
  static constexpr size_t kExactRows = 16, kRowBuckets = kExactRows + 4 * 12, kContextBuckets = 14;
  static constexpr int32_t kReach = 4, kManyRows = 64;  // see knows()

 public:
  void observe(int32_t rows, int32_t context, double seconds);

  // What steps of one context are expected to cost: a copy, for who asks for many numbers of rows.
  class Line {
   public:
    // Between measured numbers of rows by a straight line, above the largest in proportion, below the smallest as much
    // as that. A doubted number of rows costs no more than if it had never been seen; the smallest, where it is dearer
    // than the next, what the straight line through the next two makes of it; the largest, for each row, no more than
    // the one before. Nothing before the first observation.
    std::optional<double> seconds(int32_t rows) const;

   private:
    friend class CostTable;
    struct Point {
      double rows, seconds;
      bool doubted;
    };
    static double between(const Point& below, const Point& above, double rows);
    void add(const Point& point);
    void end();

    std::array<Point, kRowBuckets> points_;  // by rows, `size_` of them
    size_t size_ = 0;
  };
  // Rows that were never seen at this context take the nearest context's time. All contexts of a bucket have one line.
  Line line(int32_t context) const;
  static size_t context_bucket(int32_t context);
  std::optional<double> seconds(int32_t rows, int32_t context) const;  // of line(context)

  // Whether seconds() can tell what so many rows cost. For fewer than were ever seen it can only guess high; and so it
  // does for many more, as long as none of the steps seen had enough rows to share its price.
  bool knows(int32_t rows) const { return rows >= fewest_ && (most_ >= kManyRows || rows <= kReach * most_); }

 private:
  struct Cell {
    double rows = 0, seconds = 0;  // smoothed
    int64_t count = 0;
    int64_t last = 0;  // observation of the table
  };

  static size_t row_bucket(int32_t rows);
  double most(int32_t rows, int32_t context) const;
  bool doubted(const Cell& cell) const;
  const Cell* nearest(size_t row_bucket, size_t context_bucket) const;

  std::array<std::array<Cell, kContextBuckets>, kRowBuckets> cells_{};
  int64_t observations_ = 0;
  int32_t fewest_ = std::numeric_limits<int32_t>::max(), most_ = 0;
};

}  // namespace martlet

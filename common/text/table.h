// Aligned tables and units for people.
//
// Values; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace phub {

// How a table becomes as narrow as a terminal.
struct Fit {
  std::size_t columns = 0;               // of the terminal; 0: any number
  std::size_t elastic = 0;               // the column whose cells may be cut, which "..." then says
  std::vector<std::size_t> least_first;  // columns that may go, the least important first
};

class Table {
 public:
  // ">ID|NAME|>SIZE": the titles; the cells below one that begins with '>' are aligned to the
  // right.
  explicit Table(std::string_view titles);
  // Titles as they are, of which the first `left` columns are aligned to the left, others to the
  // right.
  Table(std::vector<std::string> titles, std::size_t left);

  // Cells are made visible (common/base/visible.h). REQUIRES: as many cells as columns.
  void add(std::vector<std::string> cells);

  bool empty() const { return rows_.size() == 1; }

  // One line for the titles, if there are any, and one for each row; no blanks at their ends.
  std::string to_string() const;
  // The same within `fit.columns`. A last line names the columns that had to go.
  std::string to_string(const Fit& fit) const;

 private:
  std::vector<std::size_t> widths() const;
  std::vector<bool> to_the_right_;              // by column
  std::vector<std::vector<std::string>> rows_;  // the titles first
};

std::string human_bytes(std::uint64_t bytes);  // "512 B", "1.5 MiB"
std::string human_count(std::uint64_t count);  // "1,234,567"
std::string human_seconds(double seconds);     // "12.3 s", "5 min 03 s", "2 h 05 min"
std::string human_time(double seconds);        // of a round: "12 us", "3.4 ms", "1.2 s"
std::string human_share(double share);         // 0.125 -> "12.5 %"
std::string human_port(const std::string& device, std::uint32_t port);  // "mlx5_0/1"

}  // namespace phub

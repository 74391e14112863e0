// Aligned tables and units for people.
//
// Values; one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace phub {

enum class Align : std::uint8_t { kLeft, kRight };

struct Column {
  std::string title;
  Align align = Align::kLeft;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // REQUIRES: as many cells as columns.
  void add(std::vector<std::string> cells);

  // One line for the titles and one for each row; no blanks at the ends of lines.
  std::string to_string() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

std::string human_bytes(std::uint64_t bytes);  // "512 B", "1.5 MiB"
std::string human_count(std::uint64_t count);  // "1,234,567"
std::string human_seconds(double seconds);     // "12.3 s", "5 min 03 s", "2 h 05 min"
std::string human_time(double seconds);        // of a round: "12 us", "3.4 ms", "1.2 s"
std::string human_share(double share);         // 0.125 -> "12.5 %"
std::string human_port(const std::string& device, std::uint32_t port);  // "mlx5_0/1"

}  // namespace phub

#include "common/text/nearest.h"

#include <algorithm>
#include <numeric>

namespace phub {

std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, replaced});
    }
  }
  return row[to.size()];
}

std::optional<std::string> nearest_word(std::string_view word,
                                        const std::vector<std::string>& words, std::size_t most) {
  // A word that is longer by more than that is none of them, and would take long.
  const auto longest = std::max_element(
      words.begin(), words.end(),
      [](const auto& left, const auto& right) { return left.size() < right.size(); });
  if (longest == words.end() || word.size() > longest->size() + most) return {};
  const auto nearest =
      std::min_element(words.begin(), words.end(), [word](const auto& left, const auto& right) {
        return edit_distance(word, left) < edit_distance(word, right);
      });
  if (nearest == words.end() || edit_distance(word, *nearest) > most) return {};
  return *nearest;
}

}  // namespace phub

// The word that was probably meant.
//
// Pure functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace phub {

// How many single-character insertions, deletions and replacements make `from` into `to`.
std::size_t edit_distance(std::string_view from, std::string_view to);

// The nearest of `words`, the first of several; nothing if it is further than `most` edits away.
std::optional<std::string> nearest_word(std::string_view word,
                                        const std::vector<std::string>& words,
                                        std::size_t most = 2);

}  // namespace phub

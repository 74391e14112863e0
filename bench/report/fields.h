// Fields of JSON that somebody else wrote: what is missing or of another type is absent, and what
// is absent is shown as a dash.
//
// Pure functions; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace phub::bench::report {

using Record = nlohmann::json;
using Records = std::vector<Record>;

inline constexpr const char* kAbsent = "–";

// Numbers above this, either way, are no measurement: sums of some of them are still numbers.
inline constexpr double kMostNumber = 1e18;

// A number of at most that.
std::optional<double> number_in(const Record& record, const char* field);
std::vector<double> numbers_in(const Record& record, const char* field);
// A string; "" if there is none.
std::string word_in(const Record& record, const char* field);
bool is_true(const Record& record, const char* field);

// The number as it is shown.
std::string time_in(const Record& record, const char* field);   // "3.4 ms"
std::string count_in(const Record& record, const char* field);  // "1,234"
// "1 server", "4 servers"
std::string counted_in(const Record& record, const char* field, const char* noun);
std::string bytes_in(const Record& record, const char* field);   // "1.5 MiB"
std::string share_in(const Record& record, const char* field);   // 0.125 -> "12.5 %"
std::string figure_in(const Record& record, const char* field);  // four significant digits
std::string yes_in(const Record& record, const char* field);     // "yes", "NO"

std::string count_of(double value);
std::string figure_of(double value);
std::string time_of(double seconds);  // three digits, "12.3 ms"; below 0 is a dash

}  // namespace phub::bench::report

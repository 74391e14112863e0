// How the page looks: as the servers' page, in both colour schemes; a table's rows are cards where
// the screen is narrow.
//
// A constant; any thread.
#pragma once

#include <string_view>

namespace phub::bench::report {

std::string_view page_style();

}  // namespace phub::bench::report

// The files of server/http/page/, embedded into the binary by embed.cmake.
//
// Static storage; any thread.
#pragma once

#include <span>
#include <string_view>

namespace phub::server {

struct Asset {
  std::string_view path;  // "/page.css"; "/" for index.html
  std::string_view content_type;
  std::string_view content;
};

std::span<const Asset> page_assets();

}  // namespace phub::server

// Addresses on the web, where a path of a file may stand as well.
//
// Pure functions; any thread.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace phub {

// "https" of "HTTPS://host/x", and nothing of a path.
inline std::string url_scheme(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto is_part = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
  };
  std::string scheme(text.substr(0, text.find("://")));
  if (scheme.size() == text.size() || scheme.empty() || !is_letter(scheme[0]) ||
      !std::all_of(scheme.begin(), scheme.end(), is_part)) {
    return {};
  }
  for (char& c : scheme) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return scheme;
}

inline bool is_url(std::string_view text) { return !url_scheme(text).empty(); }

// Whether it is of a scheme that data sets are read by.
inline bool is_web_url(std::string_view text) {
  const std::string scheme = url_scheme(text);
  return scheme == "https" || scheme == "http";
}

// The URL without what may be secret: user, password, query and fragment. For messages. Behind a
// port that is no number nothing is shown: it may be a password with a '/', '?' or '#'. REQUIRES:
// is_url(url).
inline std::string url_without_secrets(std::string_view url) {
  const std::size_t begin = url.find("://") + 3;
  const std::string_view place = url.substr(begin, url.find_first_of("?#", begin) - begin);
  const std::size_t host = place.substr(0, place.find('/')).rfind('@') + 1;  // 0 without a '@'
  const std::string_view server = place.substr(host, place.find('/', host) - host);
  const std::size_t port = server.rfind(':') + 1;
  const bool has_port = port > 0 && server.find(']', port) == std::string_view::npos;
  const bool is_odd =
      has_port && server.find_first_not_of("0123456789", port) != std::string_view::npos;
  std::string shown(url.substr(0, begin));
  if (is_odd) return shown + "...";
  shown += place.substr(host);
  if (begin + place.size() < url.size()) shown += "?...";
  return shown;
}

}  // namespace phub

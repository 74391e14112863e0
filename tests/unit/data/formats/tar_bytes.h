// Tar archives byte by byte.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace phub::data {

// Enters the checksum of a header of 512 bytes.
inline std::string with_checksum(std::string header) {
  header.replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  char text[8];
  std::snprintf(text, sizeof(text), "%06o", sum & 0777777U);
  return header.replace(148, 7, text, 7);
}

// `size`: the field's 12 bytes.
inline std::string tar_header(const std::string& name, const std::string& size, char type = '0') {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(100, 8, std::string("0000644\0", 8));
  header.replace(124, size.size(), size);
  header[156] = type;
  header.replace(257, 8, std::string("ustar\00000", 8));
  return with_checksum(std::move(header));
}

inline std::string octal(std::uint64_t number) {
  char text[16];
  std::snprintf(text, sizeof(text), "%011llo", static_cast<unsigned long long>(number));
  return text;
}

inline std::string tar_member(const std::string& name, const std::string& content,
                              char type = '0') {
  const std::string zeros((512 - content.size() % 512) % 512, '\0');
  return tar_header(name, octal(content.size()), type) + content + zeros;
}

inline std::string tar_end() { return std::string(1024, '\0'); }

// Its length counts itself.
inline std::string pax_record(const std::string& key, const std::string& value) {
  const std::string rest = ' ' + key + '=' + value + '\n';
  std::size_t length = rest.size() + 1;
  while (std::to_string(length).size() + rest.size() != length) ++length;
  return std::to_string(length) + rest;
}

}  // namespace phub::data

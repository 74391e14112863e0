# cmake -DOUTPUT=FILE.cc -DFOLDER=DIR -DFILES=a;b -P embed.cmake: writes page_assets() of site.h.
set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_svg "image/svg+xml")
set(entries "")
foreach(name ${FILES})
  file(READ "${FOLDER}/${name}" content)
  string(REGEX REPLACE ".*[.]" "" extension "${name}")
  set(path "/${name}")
  if(name STREQUAL "index.html")
    set(path "/")
  endif()
  string(APPEND entries
    "    {\"${path}\", \"${type_${extension}}\", R\"phub_page(${content})phub_page\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "// Made by embed.cmake.
#include \"server/http/site.h\"

namespace phub::server {
namespace {

constexpr Asset kAssets[] = {
${entries}};

}  // namespace

std::span<const Asset> page_assets() { return kAssets; }

}  // namespace phub::server
")

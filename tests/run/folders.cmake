# One program for each folder of C++ tests, and one entry of ctest for each file with tests. An entry has the
# name of its file, so `ctest -R data_sets_test` runs tests/unit/data/data_sets_test.cc.

# What Debian's gRPC and OpenSSL do unseen by the sanitizers, as an environment.
set(phub_thread_suppressions "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/tsan_suppressions.txt")
set(phub_leak_suppressions "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/lsan_suppressions.txt")

# phub_test_folder(FOLDER LIBS libraries...)
#
# Makes the program of tests/FOLDER from all its *.cc files: a/b gives a_b_test. Each *_test.cc is an entry.
#   SOURCES files...      more files, by their paths from the root; SUFFIX word: of such a file NAME_test is NAME_word_test
#   EXCEPT files...       files of the folder that are no part of its program
#   LABELS labels...      of all entries; SANITIZED, LONG tests...: entries with these labels
#   TIMEOUT seconds, ENVIRONMENT variables...: of all entries
#   OPTIMISED tests...    files that compute much by themselves
#   UNSANITIZED tests...  files that sanitizers leave out: they ask the allocator
# The sanitizers' presets compile the files with the label `sanitized` as this program. They have the
# others as FOLDER_other_test, which phub_sanitized_tests does not build.
function(phub_test_folder folder)
  cmake_parse_arguments(ARG "" "SUFFIX;TIMEOUT"
    "LIBS;SOURCES;EXCEPT;LABELS;SANITIZED;LONG;OPTIMISED;UNSANITIZED;ENVIRONMENT" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "phub_test_folder(${folder}): what is ${ARG_UNPARSED_ARGUMENTS}?")
  endif()
  file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${folder}/*.cc)
  if(PHUB_SANITIZE)
    list(TRANSFORM ARG_UNSANITIZED APPEND .cc)
    list(APPEND ARG_EXCEPT ${ARG_UNSANITIZED})
  endif()
  list(TRANSFORM ARG_EXCEPT PREPEND ${PROJECT_SOURCE_DIR}/tests/${folder}/)
  list(REMOVE_ITEM files ${ARG_EXCEPT} "")
  list(TRANSFORM ARG_SOURCES PREPEND ${PROJECT_SOURCE_DIR}/)
  set(helpers)
  set(sanitized)
  set(others)
  foreach(file ${files} ${ARG_SOURCES})
    get_filename_component(test ${file} NAME_WE)
    if(NOT test MATCHES "_test$")
      list(APPEND helpers ${file})
    elseif(test IN_LIST ARG_SANITIZED OR "sanitized" IN_LIST ARG_LABELS)
      list(APPEND sanitized ${file})
    else()
      list(APPEND others ${file})
    endif()
    if(test IN_LIST ARG_OPTIMISED AND NOT PHUB_SANITIZE)
      set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS -O2 SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
  string(REPLACE "/" "_" name ${folder})
  if(PHUB_SANITIZE AND sanitized AND others)
    phub_folder_program(${name}_test ${folder} ${sanitized})
    phub_folder_program(${name}_other_test ${folder} ${others})
  else()
    phub_folder_program(${name}_test ${folder} ${sanitized} ${others})
  endif()
  if(sanitized)
    add_dependencies(phub_sanitized_tests ${name}_test)
  endif()
endfunction()

# phub_folder_program(PROGRAM FOLDER files...): a program of phub_test_folder, whose variables it reads.
macro(phub_folder_program program folder)
  add_executable(${program} ${ARGN} ${helpers})
  phub_test_program(${program})
  target_link_libraries(${program} PRIVATE phub_test_main ${ARG_LIBS})
  foreach(file ${ARGN})
    phub_folder_entry(${program} ${folder} ${file})
  endforeach()
endmacro()

# phub_folder_entry(PROGRAM FOLDER FILE): registers the tests of FILE; reads the variables of its callers.
function(phub_folder_entry program folder file)
  get_filename_component(test ${file} NAME_WE)
  set(entry ${test})
  if(ARG_SUFFIX AND file IN_LIST ARG_SOURCES)
    string(REGEX REPLACE "_test$" "_${ARG_SUFFIX}_test" entry ${test})
  endif()
  set(labels ${ARG_LABELS})
  if(test IN_LIST ARG_SANITIZED)
    list(APPEND labels sanitized)
  endif()
  set(timeout 300)
  if(ARG_TIMEOUT)
    set(timeout ${ARG_TIMEOUT})
  elseif(PHUB_SANITIZE)
    set(timeout 600)
  endif()
  # "-#": each test has its file's name as a tag. Without `-w NoTests` a file without tests would pass.
  phub_add_file_test(${entry} ${program} "tests/${folder}" "${file};${helpers}" "-#" -w NoTests "[#${test}]")
  if(test IN_LIST ARG_LONG)
    list(APPEND labels long)
    set_tests_properties(${entry} PROPERTIES COST 500)  # starts early
  endif()
  set_tests_properties(${entry} PROPERTIES TIMEOUT ${timeout} LABELS "${labels}")
  if(ARG_ENVIRONMENT)
    set_tests_properties(${entry} PROPERTIES ENVIRONMENT "${ARG_ENVIRONMENT}")
  endif()
  if("phub_skipping_main" IN_LIST ARG_LIBS)
    set_tests_properties(${entry} PROPERTIES SKIP_RETURN_CODE 77)
  endif()
endfunction()

# What `cmake --install BUILD --component NAME` installs: server, worker, tools, library, development.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
# The distribution's, where there is one: so it is also there where another user or machine installs what is built here.
find_program(PHUB_PYTHON3 python3 PATHS /usr/bin NO_DEFAULT_PATH)

install(TARGETS phub-server RUNTIME COMPONENT server)
install(TARGETS phub-worker RUNTIME COMPONENT worker)
if(TARGET phub_cuda)  # phub-worker looks for it beside itself; who has not built it goes without
  install(TARGETS phub_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT worker OPTIONAL)
endif()
install(TARGETS phubctl phub-bench RUNTIME COMPONENT tools)

install(TARGETS phub_shared EXPORT phubTargets
  LIBRARY COMPONENT library NAMELINK_COMPONENT development)
install(FILES ${PROJECT_SOURCE_DIR}/worker/client/phub_c.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/phub COMPONENT development)

# find_package(phub), phub::phub.
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/phub)
install(EXPORT phubTargets NAMESPACE phub:: DESTINATION ${package_folder} COMPONENT development)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/install/phubConfig.cmake.in
  ${PROJECT_BINARY_DIR}/install/phubConfig.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/install/phubConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/install/phubConfig.cmake
  ${PROJECT_BINARY_DIR}/install/phubConfigVersion.cmake
  DESTINATION ${package_folder} COMPONENT development)

# pkg-config. It finds its prefix from where it lies, which --prefix says when it is installed.
file(RELATIVE_PATH PHUB_PREFIX_FROM_PC
  ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(${CMAKE_CURRENT_LIST_DIR}/install/phub.pc.in ${PROJECT_BINARY_DIR}/install/phub.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/install/phub.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

# The manual and the completions of bash and zsh, from what the programs say at --help when they are installed.
find_program(PHUB_PYTHON3 python3 REQUIRED)
function(phub_install_manual name component)
  list(JOIN ARGN "\" \"" command)
  install(CODE "
    # Of its own: who installs may not write to the build folder, and leaves nothing there that its owner may not.
    execute_process(COMMAND mktemp -d OUTPUT_VARIABLE made OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    execute_process(COMMAND \"${PHUB_PYTHON3}\" -B \"${PROJECT_SOURCE_DIR}/deploy/manual/make.py\"
      \"${PROJECT_VERSION}\" \"\${made}\" ${name} \"${command}\" COMMAND_ERROR_IS_FATAL ANY)
    file(INSTALL DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_MANDIR}/man1\" TYPE FILE
      FILES \"\${made}/${name}.1\")
    file(INSTALL DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/bash-completion/completions\"
      TYPE FILE FILES \"\${made}/${name}\")
    file(INSTALL DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/zsh/site-functions\"
      TYPE FILE FILES \"\${made}/_${name}\")
    file(REMOVE_RECURSE \"\${made}\")" COMPONENT ${component})
endfunction()
phub_install_manual(phub-server server $<TARGET_FILE:phub-server>)
phub_install_manual(phub-worker worker $<TARGET_FILE:phub-worker>)
phub_install_manual(phubctl tools $<TARGET_FILE:phubctl>)
phub_install_manual(phub-bench tools $<TARGET_FILE:phub-bench>)
# phubrun itself comes with the Python package, by pip.
phub_install_manual(phubrun tools
  ${CMAKE_COMMAND} -E env PYTHONPATH=${PROJECT_SOURCE_DIR}/worker/torch ${PHUB_PYTHON3} -B -m phub.launch)

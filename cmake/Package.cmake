# What `cmake --install` and `cpack` put where: the tools that users call, their
# man pages and completions, and the pages of docs/.

include(GNUInstallDirs)
set(installed polyrank polyrank-compile polyrank-inspect polyrank-run)
# The wheel has these alone (tools/wheel.sh).
install(TARGETS ${installed} RUNTIME COMPONENT tools)

# Made of the command lines themselves, which have the words.
set(documents ${PROJECT_BINARY_DIR}/documents)
file(MAKE_DIRECTORY ${documents})
set(made)
# polyrank_document(FILE COMMAND): what the shell command prints.
function(polyrank_document file tool command)
  add_custom_command(OUTPUT ${documents}/${file}
    COMMAND sh -c "set -e; $<TARGET_FILE:${tool}> ${command}" sh ${documents}/${file}
    DEPENDS ${tool} VERBATIM)
  set(made ${made} ${documents}/${file} PARENT_SCOPE)
endfunction()
foreach(tool IN LISTS installed)
  polyrank_document(${tool}.1 ${tool} "--man > \"$1\"")
  polyrank_document(${tool}.bash ${tool} "--completions bash > \"$1\"")
  polyrank_document(_${tool} ${tool} "--completions zsh > \"$1\"")
  polyrank_document(${tool}.fish ${tool} "--completions fish > \"$1\"")
  install(FILES ${documents}/${tool}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${documents}/${tool}.bash RENAME ${tool}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${documents}/${tool}.fish
    DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
  # Debian's zsh looks at the first below /usr/local and at the second below /usr.
  foreach(folder IN ITEMS site-functions vendor-completions)
    install(FILES ${documents}/_${tool}
      DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/${folder})
  endforeach()
endforeach()
add_custom_target(documents ALL DEPENDS ${made})
# All that `cmake --install` needs: tools/quickstart.sh builds no more.
add_custom_target(installed DEPENDS ${installed} ${made})

install(PROGRAMS tools/bundle.sh
  DESTINATION ${CMAKE_INSTALL_DATADIR}/polyrank)
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR}
  FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.ipynb")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME polyrank)
set(CPACK_PACKAGE_CONTACT "The authors of Polyrank <polyrank@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY
  "compiles exported models for parallel training, and trains them")
set(CPACK_PACKAGE_DESCRIPTION
  "polyrank-compile makes a plan for the ranks of a mesh out of an ONNX, TorchScript or .pt2 file, polyrank-run trains it on the processes of one machine, and polyrank-inspect shows what a plan holds, moves and runs.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# What dpkg-shlibdeps cannot see: oneDNN, which the first product loads. The package
# is named after the major version, as the library is.
find_path(DNNL_INCLUDE oneapi/dnnl/dnnl_version.h REQUIRED)
file(STRINGS ${DNNL_INCLUDE}/oneapi/dnnl/dnnl_version.h dnnl_version
  REGEX "define DNNL_VERSION_MAJOR")
string(REGEX MATCH "[0-9]+" dnnl_version "${dnnl_version}")
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libdnnl${dnnl_version}")
include(CPack)

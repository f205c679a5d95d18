# LLVM, MLIR, LLD and fmt, linked as the build asks for.
#
# With POLYRANK_STATIC the programs need nothing of LLVM and only glibc, libgcc,
# OpenMP and oneDNN of all else, and begin quickly: what tools/wheel.sh packs.

# LLVM is compatible only within major.minor, so "22" alone is refused.
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
find_package(LLD 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/lld)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})

# What every library and tool on MLIR links, and the linker of kernels. The targets
# with the property POLYRANK_WITH_ARCHIVES have LLVM's archives in them.
define_property(TARGET PROPERTY POLYRANK_WITH_ARCHIVES
  BRIEF_DOCS "The program contains LLVM and MLIR, which are shared libraries to others")
add_library(polyrank-mlir INTERFACE)
add_library(polyrank-linker INTERFACE)
if(POLYRANK_STATIC OR POLYRANK_QUICK_TOOLS)
  # All archives as one: the linker takes the members that are needed. Their own
  # list of dependencies names the shared library.
  file(GLOB archives ${LLVM_LIBRARY_DIR}/libMLIR*.a ${LLVM_LIBRARY_DIR}/libLLVM*.a)
  list(LENGTH archives count)
  if(count EQUAL 0)
    message(FATAL_ERROR "POLYRANK_STATIC and POLYRANK_QUICK_TOOLS need LLVM's and MLIR's archives, and "
      "${LLVM_LIBRARY_DIR} has none; Debian's llvm-22-dev and libmlir-22-dev have them")
  endif()
  find_library(ZSTD_ARCHIVE libzstd.a REQUIRED)
  find_library(ZLIB_ARCHIVE libz.a REQUIRED)
  list(JOIN archives "\n" archives)
  set(script ${PROJECT_BINARY_DIR}/llvm-archives.ld)
  file(CONFIGURE OUTPUT ${script} CONTENT
    "GROUP(\n@archives@\n${ZSTD_ARCHIVE}\n${ZLIB_ARCHIVE}\n)\n" @ONLY)
  # The compiler's own back ends stay.
  set(targets ${LLVM_TARGETS_TO_BUILD})
  list(REMOVE_ITEM targets NVPTX X86)
  list(TRANSFORM targets REPLACE ".+" "POLYRANK_NO_TARGET(\\0)")
  list(JOIN targets "\n" noTargets)
  set(stubs ${PROJECT_BINARY_DIR}/LinkerStubs.cpp)
  configure_file(cmake/LinkerStubs.cpp.in ${stubs} @ONLY)
  add_library(polyrank-linker-stubs OBJECT ${stubs})
  target_include_directories(polyrank-linker-stubs SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS})
  target_compile_options(polyrank-linker-stubs PRIVATE -fno-exceptions)
  set(mlirArchives ${script} Threads::Threads ${CMAKE_DL_LIBS})
  set(linkerArchives $<TARGET_OBJECTS:polyrank-linker-stubs>
    $<TARGET_FILE:lldELF> $<TARGET_FILE:lldCommon> ${script})
endif()
set(hasArchives $<BOOL:$<TARGET_PROPERTY:POLYRANK_WITH_ARCHIVES>>)
if(POLYRANK_STATIC)
  set(hasArchives 1)
  # For programs that are linked statically on a newer glibc than they run on.
  add_library(polyrank-glibc STATIC cmake/Arc4Random.cpp)
  add_link_options(-static-libstdc++ LINKER:--gc-sections LINKER:--exclude-libs,ALL)
endif()
# The MLIR target does not carry LLVM along.
target_link_libraries(polyrank-mlir INTERFACE
  "$<IF:${hasArchives},${mlirArchives},MLIR;LLVM>")
target_link_libraries(polyrank-linker INTERFACE
  "$<IF:${hasArchives},${linkerArchives},lldELF>")

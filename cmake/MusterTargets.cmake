# SPDX-License-Identifier: Apache-2.0
# One way to declare a library, a program and a unit test, so that the folders' lists stay short.

# Warnings and hardening are an interface target: every target of ours links it, nobody else's code sees it.
add_library(muster_warnings INTERFACE)
target_compile_definitions(muster_warnings INTERFACE _GNU_SOURCE)
target_compile_options(muster_warnings INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes -Wmissing-prototypes
  -Wold-style-definition -Wformat=2 -Wundef -Wwrite-strings -Wcast-qual -Wpointer-arith -Wvla
  -Wimplicit-fallthrough -fno-common
  # gcc cannot see that an error code is never 0, and takes every output that is set on success only for unset;
  # texts that do not fit are cut on purpose.
  $<$<C_COMPILER_ID:GNU>:-Wno-maybe-uninitialized -Wno-format-truncation>
  $<$<BOOL:${MUSTER_WERROR}>:-Werror>
  # glibc's fortify needs the optimiser
  $<$<CONFIG:Release>:-D_FORTIFY_SOURCE=2 -fstack-protector-strong>)
target_link_options(muster_warnings INTERFACE -Wl,-z,relro,-z,now -Wl,--as-needed)

set(MUSTER_SANITIZE "" CACHE STRING "Sanitizers for all targets, as -fsanitize= takes them")
if(MUSTER_SANITIZE)
  target_compile_options(muster_warnings INTERFACE -fsanitize=${MUSTER_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(muster_warnings INTERFACE -fsanitize=${MUSTER_SANITIZE})
endif()

# muster_library(NAME SOURCES ... HEADERS include/muster/x.h ... [PUBLIC libs] [PRIVATE libs])
function(muster_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;HEADERS;PUBLIC;PRIVATE")
  add_library(${name} STATIC ${arg_SOURCES})
  target_sources(${name} PUBLIC FILE_SET HEADERS BASE_DIRS include FILES ${arg_HEADERS})
  # Tests may look at a module's private headers; other modules may not.
  target_include_directories(${name} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
  target_link_libraries(${name} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE} muster_warnings)
  set_target_properties(${name} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
endfunction()

# muster_program(NAME SOURCES ... [PRIVATE libs])
function(muster_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;PRIVATE")
  add_executable(${name} ${arg_SOURCES})
  target_compile_definitions(${name} PRIVATE MUSTER_VERSION="${PROJECT_VERSION}")
  target_link_libraries(${name} PRIVATE ${arg_PRIVATE} muster_warnings)
  install(TARGETS ${name} RUNTIME)
endfunction()

# muster_test(MODULE FILE [LIBS libs] [TIMEOUT s] [LABEL l]): tests/MODULE/test_FILE.c as test MODULE.FILE
function(muster_test module file)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "TIMEOUT;LABEL" "LIBS")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  if(NOT arg_LABEL)
    set(arg_LABEL unit)
  endif()
  set(target test_${module}_${file})
  add_executable(${target} test_${file}.c)
  target_link_libraries(${target} PRIVATE muster_${module} ${arg_LIBS} PkgConfig::CMOCKA muster_warnings)
  get_target_property(module_dir muster_${module} SOURCE_DIR)
  target_include_directories(${target} PRIVATE "${module_dir}")
  target_compile_definitions(${target} PRIVATE MUSTER_TEST_DATA="${CMAKE_CURRENT_SOURCE_DIR}/data"
    MUSTER_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_test(NAME ${module}.${file} COMMAND ${target})
  set_tests_properties(${module}.${file} PROPERTIES LABELS ${arg_LABEL} TIMEOUT ${arg_TIMEOUT})
endfunction()

# SPDX-License-Identifier: Apache-2.0
# What muster links, all of it from Debian 12 packages; docs/architecture.md says why each was chosen.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl>=7.74)
pkg_check_modules(CJSON REQUIRED IMPORTED_TARGET libcjson)
pkg_check_modules(XML2 REQUIRED IMPORTED_TARGET libxml-2.0)
pkg_check_modules(OPENBLAS REQUIRED IMPORTED_TARGET openblas)
pkg_check_modules(PCAP REQUIRED IMPORTED_TARGET libpcap)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(ARCHIVE REQUIRED IMPORTED_TARGET libarchive)
pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto)
pkg_check_modules(MICROHTTPD REQUIRED IMPORTED_TARGET libmicrohttpd>=0.9.72)
pkg_check_modules(GNUTLS REQUIRED IMPORTED_TARGET gnutls)
pkg_check_modules(XCRYPT REQUIRED IMPORTED_TARGET libxcrypt)

# Whoever only wants the programs needs no test library.
pkg_check_modules(CMOCKA IMPORTED_TARGET cmocka)
option(MUSTER_TESTS "Build the tests and benchmarks" ${CMOCKA_FOUND})
if(MUSTER_TESTS AND NOT CMOCKA_FOUND)
  message(FATAL_ERROR "the tests need cmocka (Debian: libcmocka-dev); -DMUSTER_TESTS=OFF builds the programs alone")
endif()

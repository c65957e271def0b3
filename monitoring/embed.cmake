# SPDX-License-Identifier: Apache-2.0
# cmake -DOUT=page_files.c -DFOLDER=page -P embed.cmake: the page's files as bytes in a C source.
set(text "/* Generated from monitoring/page. */\n#include \"page_files.h\"\n\n")
set(table "")
foreach(entry "index.html|/|text/html" "page.css|/page.css|text/css" "page.js|/page.js|text/javascript"
    "nodes.js|/nodes.js|text/javascript" "icon.svg|/icon.svg|image/svg+xml")
  string(REPLACE "|" ";" entry "${entry}")
  list(GET entry 0 name)
  list(GET entry 1 path)
  list(GET entry 2 type)
  file(READ "${FOLDER}/${name}" hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(MAKE_C_IDENTIFIER "${name}" symbol)
  string(APPEND text "static const unsigned char ${symbol}[] = {${bytes}};\n")
  string(APPEND table "    {\"${path}\", \"${type}; charset=utf-8\", ${symbol}, sizeof ${symbol}, false},\n")
endforeach()
string(APPEND text "\nconst struct http_page page_files[] = {\n${table}};\n"
  "const size_t page_file_count = sizeof page_files / sizeof *page_files;\n")
file(WRITE "${OUT}" "${text}")

# SPDX-License-Identifier: Apache-2.0
# cmake -DOUT=page_text.c -DFOLDER=page -P embed.cmake: the page's files as texts in a C source.
set(text "/* Generated from swarm/experiment/page. */\n#include \"page_text.h\"\n\n")
foreach(entry "head.html|page_head" "report.css|page_style" "use.html|page_use" "foot.html|page_foot"
    "report.js|page_script")
  string(REPLACE "|" ";" entry "${entry}")
  list(GET entry 0 name)
  list(GET entry 1 symbol)
  file(READ "${FOLDER}/${name}" hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
  string(APPEND text "const char ${symbol}[] = {${bytes}0};\n")
endforeach()
file(WRITE "${OUT}" "${text}")

# Turns a file into a C array:  cmake -DIN=descriptors.pb -DOUT=descriptors_bytes.c -P descriptors.cmake
file(READ ${IN} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
file(WRITE ${OUT} "#include \"proto/pb/descriptors.h\"\n\nconst unsigned char td_descriptors_bytes[] = {${bytes}};\n"
     "const size_t td_descriptors_size = sizeof td_descriptors_bytes;\n")

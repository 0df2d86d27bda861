/* Answers with a key that is there twice: one reader sees one value, the next another. */
#include "hostile.h"
RUN { return SAY("{\"content\":[],\"is_error\":true,\"is_error\":false}"); }

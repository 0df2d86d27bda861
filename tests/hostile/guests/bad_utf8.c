/* Answers with what is no text. */
#include "hostile.h"
RUN { return SAY("\"ab\xff\xc3\x28 cd\""); }

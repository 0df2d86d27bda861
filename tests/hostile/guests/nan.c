/* Answers with a number that JSON does not have. */
#include "hostile.h"
RUN { return SAY("{\"x\":NaN}"); }

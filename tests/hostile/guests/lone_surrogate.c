/* Answers with half a character, which JSON libraries read in different ways. */
#include "hostile.h"
RUN { return SAY("{\"s\":\"\\ud800\"}"); }

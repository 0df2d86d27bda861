/* Behaves. It runs after each attack, and must not notice. */
#include "hostile.h"
RUN { return SAY("\"unharmed\""); }

/* Asks for a file, as if it were on the network. */
#include "http.h"
RUN { return fetch("GET", AW_STR("file:///etc/passwd"), "{}"); }

/* Asks for whatever it is told to, with nothing unusual about it. */
#include "http.h"
RUN { return fetch("GET", argument("url"), "{}"); }

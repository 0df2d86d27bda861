/* Asks one host and names another in the Host header. */
#include "http.h"
RUN { return fetch("GET", argument("url"), "{\"Host\":\"internal.example\"}"); }

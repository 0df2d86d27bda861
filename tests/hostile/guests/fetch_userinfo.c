/* Hides another host behind the one that it may reach: http://granted@other/ */
#include "http.h"
RUN { return fetch("GET", argument("url"), "{}"); }

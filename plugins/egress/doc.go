// Package egress is the one guarded way out to the network, for guests and for
// sandboxes.
//
// A Guard holds what the operator decided for all of them: limits, a proxy, more
// roots of trust. A Session is one plugin's way through it, with connections of its
// own. Each request names the patterns that it may use (plugins.HostPattern):
//
//   - scheme, host and port of the first request and of every redirect are held
//     against the patterns;
//   - the address of every connection is checked when it is dialled, after the name
//     was resolved. A name leads to public addresses only; an address that is not
//     public is reached by a pattern that is this address, and this machine by one
//     that says localhost or the address;
//   - the environment is never read: a proxy is the operator's or none;
//   - there are no cookies, no stored credentials, and no unpacking. What belongs to
//     one origin is not sent to another.
//
// With a proxy, names are resolved by the proxy, and connections are made by it.
// Patterns are held all the same; addresses are the proxy's to refuse.
package egress

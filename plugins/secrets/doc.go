// Package secrets reads the values of secrets from where an operator keeps them: an
// environment variable of the host, a file, or what a command prints. Each source is
// a plugins.SecretSource and reads anew whenever it is asked, so that a value that was
// changed takes effect with the next call.
//
// Sources hold no values, and their errors show none: not what a file holds, nor what
// a command prints, nor the arguments of a command, in which people keep credentials.
package secrets

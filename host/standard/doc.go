// Package standard builds a host from a host.toml: the one place that names every
// implementation. Programs that embed a host use it as the command line does:
//
//	h, err := standard.Open(ctx, "host.toml", standard.Options{})
//	if err != nil { … }
//	defer h.Close()
//	if err := h.Start(ctx); err != nil { … }
//	msg, err := standard.ParseMessage(data)
//	res, err := h.Run(ctx, standard.Request{Message: msg})
package standard

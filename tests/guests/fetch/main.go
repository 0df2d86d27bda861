// Command fetch is a plugin that makes HTTP requests with the Go PDK as it is.
package main

import (
	"encoding/json"

	"github.com/extism/go-pdk"
)

// A reactor module needs a main function; it never runs.
func main() {}

type input struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

type output struct {
	Status  uint16            `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

var methods = map[string]pdk.HTTPMethod{
	"": pdk.MethodGet, "GET": pdk.MethodGet, "HEAD": pdk.MethodHead, "POST": pdk.MethodPost, "PUT": pdk.MethodPut, "PATCH": pdk.MethodPatch,
	"DELETE": pdk.MethodDelete, "CONNECT": pdk.MethodConnect, "OPTIONS": pdk.MethodOptions, "TRACE": pdk.MethodTrace,
}

func send() (pdk.HTTPResponse, error) {
	var in input
	if err := pdk.InputJSON(&in); err != nil {
		return pdk.HTTPResponse{}, err
	}
	req := pdk.NewHTTPRequest(methods[in.Method], in.URL)
	for name, value := range in.Headers {
		req.SetHeader(name, value)
	}
	return req.SetBody([]byte(in.Body)).Send(), nil
}

// fetch answers with all that the PDK tells of an answer.
//
//go:wasmexport fetch
func fetch() int32 {
	resp, err := send()
	if err != nil {
		pdk.SetError(err)
		return 1
	}
	out, err := json.Marshal(output{resp.Status(), resp.Headers(), string(resp.Body())})
	if err != nil {
		pdk.SetError(err)
		return 1
	}
	pdk.Output(out)
	return 0
}

// text answers with the body alone.
//
//go:wasmexport text
func text() int32 {
	resp, err := send()
	if err != nil {
		pdk.SetError(err)
		return 1
	}
	pdk.Output(resp.Body())
	return 0
}

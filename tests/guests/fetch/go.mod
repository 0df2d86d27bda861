module github.com/awaken-agents/awaken-host/tests/guests/fetch

go 1.26.0

require github.com/extism/go-pdk v1.1.3

package awaken.lib.rate_test

import data.awaken.lib.rate

past := {"history": {
	"run": {"mail__send": 3, "files__read": 2},
	"principal": {"1m": {}, "10m": {"mail__send": 4}, "1h": {"mail__send": 5, "files__read": 1}, "24h": {"mail__send": 9}},
}}

test_run if {
	rate.run("mail__send") == 3 with input as past
	rate.run("never") == 0 with input as past
	rate.run("never") == 0 with input as {}
	rate.run_total == 5 with input as past
	rate.run_total == 0 with input as {"history": {"run": {}}}
}

test_principal if {
	rate.principal("1m", "mail__send") == 0 with input as past
	rate.principal("10m", "mail__send") == 4 with input as past
	rate.principal("1h", "mail__send") == 5 with input as past
	rate.principal("24h", "mail__send") == 9 with input as past
	rate.principal("1h", "never") == 0 with input as past
	rate.principal_total("1h") == 6 with input as past
	rate.principal_total("1m") == 0 with input as past
}

package awaken.lib.hours_test

import data.awaken.lib.hours

at(t) := {"now_ns": time.parse_rfc3339_ns(t)}

office := {"days": hours.weekdays, "from": "09:00", "to": "17:30", "zone": "Europe/Berlin"}

# 2026-11-30 is a Monday.
test_open if {
	every t in ["2026-11-30T08:00:00Z", "2026-11-30T16:29:59Z", "2026-12-04T12:00:00Z", "2026-07-01T07:00:00Z"] {
		hours.open(office) == true with input as at(t)
	}
}

test_closed if {
	every t in ["2026-11-30T07:59:59Z", "2026-11-30T16:30:00Z", "2026-12-05T12:00:00Z", "2026-07-01T06:59:59Z", "2026-07-01T15:30:00Z"] {
		hours.open(office) == false with input as at(t)
	}
}

night := {"days": ["Friday"], "from": "22:00", "to": "06:00", "zone": "UTC"}

test_over_midnight if {
	every t in ["2026-12-04T22:00:00Z", "2026-12-04T23:59:59Z", "2026-12-05T00:00:00Z", "2026-12-05T05:59:59Z"] {
		hours.open(night) == true with input as at(t)
	}
	every t in ["2026-12-04T21:59:59Z", "2026-12-05T06:00:00Z", "2026-12-04T05:00:00Z", "2026-12-05T22:00:00Z", "2026-12-06T01:00:00Z"] {
		hours.open(night) == false with input as at(t)
	}
}

test_end_of_day if {
	evening := {"days": hours.everyday, "from": "18:00", "to": "24:00", "zone": "UTC"}
	hours.open(evening) == true with input as at("2026-12-06T23:59:59Z")
	hours.open(evening) == false with input as at("2026-12-06T00:00:00Z")
}

test_weekend_and_weekdays if {
	hours.open({"days": hours.weekend, "from": "00:00", "to": "24:00", "zone": "UTC"}) == true with input as at("2026-12-05T12:00:00Z")
	count(hours.everyday) == 7
}

test_during if {
	hours.during("2026-12-20T00:00:00Z", "2027-01-03T00:00:00+01:00") == true with input as at("2026-12-20T00:00:00Z")
	hours.during("2026-12-20T00:00:00Z", "2027-01-03T00:00:00+01:00") == false with input as at("2027-01-02T23:00:00Z")
	hours.during("2026-12-20T00:00:00Z", "2027-01-03T00:00:00+01:00") == false with input as at("2026-12-19T23:59:59Z")
}

# Times of day, and times that are given. Both go by input.now_ns.
package awaken.lib.hours

import data.awaken.lib

weekdays := ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]

weekend := ["Saturday", "Sunday"]

everyday := array.concat(weekdays, weekend)

# open(times): now is on one of the days, from (included) to (not included) a time of
# day in a zone:
#
#     {"days": hours.weekdays, "from": "09:00", "to": "17:30", "zone": "Europe/Berlin"}
#
# A time that ends before it starts goes on after midnight and belongs to the day
# on which it starts. "24:00" is the end of a day.
open(times) := answer if {
	from := minutes(times.from)
	to := minutes(times.to)
	from != to
	days(times.days)
	clock := time.clock([input.now_ns, times.zone])
	now := (clock[0] * 60) + clock[1]
	day := time.weekday([input.now_ns, times.zone])
	answer := inside(from, to, now, day, times.days)
} else := lib.fail(sprintf("hours.open: %v is not {\"days\", \"from\", \"to\", \"zone\"} with English names of days and times such as 09:00 that differ", [times]))

inside(from, to, now, day, days) if {
	from < to
	now >= from
	now < to
	day in days
} else if {
	from > to
	now >= from
	day in days
} else if {
	from > to
	now < to
	before(day) in days
} else := false

before(day) := everyday[(i + 6) % 7] if everyday[i] == day

days(list) if {
	count(list) > 0
	every d in list {
		d in everyday
	}
}

minutes(clock) := (to_number(m[0][1]) * 60) + to_number(m[0][2]) if {
	is_string(clock)
	m := regex.find_all_string_submatch_n(`^([01][0-9]|2[0-3]):([0-5][0-9])$`, clock, 1)
	count(m) == 1
}

minutes("24:00") := 1440

# during(from, to): now is from (included) to (not included) a time, as in RFC 3339.
during(from, to) := answer if {
	start := time.parse_rfc3339_ns(from)
	end := time.parse_rfc3339_ns(to)
	start < end
	answer := started(start, end)
} else := lib.fail(sprintf("hours.during: %v is not before %v", [from, to]))

started(start, end) if {
	input.now_ns >= start
	input.now_ns < end
} else := false
